//! What is written down of many zones stays small.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_expr::Duration;
use deltaplane_testkit::{Delays, Fleet, Made, Nature};
use serde_json::json;

const ZONES: i64 = 5_000;
/// A status is no larger than this.
const MOST: usize = 100_000;

fn seconds(number: i64) -> Duration {
    Duration::from_nanos(number * 1_000_000_000)
}

/// Zones that take different times, some of which fail, refuse or go away, while a second release
/// overtakes the first: the largest that the record ever was.
fn largest(gate: &str) -> usize {
    let spec = json!({
        "stages": [{"name": "all", "propagateWhen": [gate], "maxFailures": "20%",
                     "progressDeadline": "2m"}],
        "overrides": [{"zones": {"matchLabels": {"region": "ap"}}, "patch": []}],
    });
    let mut fleet = Fleet::new(spec).expect("a policy");
    let regions = ["ap", "eu-central", "eu-west", "us"];
    let mut bad = BTreeSet::new();
    for index in 0..ZONES {
        let region = regions[usize::try_from(index % 4).expect("a place")];
        let name = format!("{region}-{index:04}");
        let labels = BTreeMap::from([("region".to_owned(), region.to_owned())]);
        let (ack, ready) = (seconds(index % 7), seconds(index * 7919 % 50));
        fleet.join(&name, &labels, Delays { ack, ready });
        match index % 40 {
            0 => drop(bad.insert(name)),
            1 => fleet.turn(&name, Nature::Refusing),
            _ => {}
        }
    }
    let mut largest = 0;
    for step in 0..100 {
        if step == 0 || step == 60 {
            let bad = bad.clone();
            fleet.release(Made {
                bad,
                ..Made::default()
            });
        }
        if step > 40 {
            let names = fleet.names();
            let some = names.iter().skip(step).step_by(60).take(5);
            some.for_each(|name| fleet.disconnect(name));
        }
        let outcome = fleet.decide().expect("a decision");
        fleet.write(&outcome).expect("no rule is broken");
        fleet.deliver();
        largest = largest.max(fleet.size());
        let next = fleet.now().plus(seconds(7)).expect("a time");
        fleet.pass_to(next);
    }
    largest
}

#[test]
fn five_thousand_zones_one_by_one() {
    let largest = largest("linearlyReady(zone, zones, 1500)");
    assert!(largest < MOST, "{largest}");
}

#[test]
fn five_thousand_zones_in_waves() {
    let largest = largest("exponentiallyReady(zone, zones, 3)");
    assert!(largest < MOST, "{largest}");
}
