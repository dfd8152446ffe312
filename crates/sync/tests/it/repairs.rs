//! What a receiver does not have any more as it said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deltaplane_sync::{
    DeletionBudget, Ledger, MAX_REPAIRS, Receiver, Request, Response, Sender, SenderRole, Version,
    Withdrawal,
};

use crate::streams::{SECOND, ack, all, hub, subscribe, write};
use crate::world::{Entry, Hub, item, kind, name};

fn repair(names: &[&str]) -> Request {
    Request::Repair {
        kind: kind("Widget"),
        names: names.iter().copied().map(name).collect(),
    }
}

fn lose(sender: &mut Sender, hub: &Hub, names: &[&str], now: Duration) {
    sender
        .request(repair(names), hub, now)
        .expect("of a kind that is followed");
}

fn held(sender: &Sender, hub: &Hub, text: &str) -> Option<Version> {
    sender.acknowledged(&kind("Widget"), &name(text), hub)
}

/// The one response that is to be sent.
fn sent(sender: &mut Sender, hub: &Hub, now: Duration) -> Response {
    let mut responses = sender.poll(hub, now);
    assert_eq!(responses.len(), 1, "{responses:?}");
    responses.remove(0)
}

fn names(response: &Response) -> Vec<String> {
    response.names().map(ToString::to_string).collect()
}

/// Sends what there is, and acknowledges it. What it was about.
fn deliver(sender: &mut Sender, hub: &Hub, now: Duration) -> Vec<String> {
    let response = sent(sender, hub, now);
    sender
        .request(ack(&response, &[]), hub, now)
        .expect("asked");
    names(&response)
}

#[test]
fn what_is_lost_is_sent_again_and_not_said_to_be_there() {
    let hub = hub(3);
    let mut sender = subscribe(&hub, all(&hub));
    assert!(sender.poll(&hub, SECOND).is_empty());
    assert_eq!(sender.through(&hub), hub.revision);
    lose(&mut sender, &hub, &["1", "unknown"], SECOND);
    assert_eq!(held(&sender, &hub, "1"), None);
    assert_eq!(sender.counts(&kind("Widget"), &hub).open, 1);
    assert_eq!(sender.through(&hub), 0);
    assert_eq!(deliver(&mut sender, &hub, SECOND), ["1"]);
    assert_eq!(held(&sender, &hub, "1"), Some(item(&name("1"), 1).version));
    assert_eq!(sender.through(&hub), hub.revision);
    assert!(sender.poll(&hub, SECOND).is_empty());
}

#[test]
fn what_is_lost_while_it_is_under_way_is_sent_once_more() {
    let mut hub = hub(2);
    let mut sender = subscribe(&hub, all(&hub));
    write(&mut hub, &mut sender, "0", Some(Entry::Wanted(7)));
    write(&mut hub, &mut sender, "1", Some(Entry::Wanted(7)));
    let response = sent(&mut sender, &hub, SECOND);
    // It was taken, and lost before all of the response was done; or lost before.
    lose(&mut sender, &hub, &["0"], SECOND);
    assert_eq!(held(&sender, &hub, "0"), None);
    assert!(sender.poll(&hub, SECOND).is_empty(), "one at a time");
    sender
        .request(ack(&response, &[]), &hub, SECOND)
        .expect("asked");
    assert_eq!(held(&sender, &hub, "0"), None);
    assert_eq!(deliver(&mut sender, &hub, SECOND), ["0"]);
    assert_eq!(held(&sender, &hub, "0"), Some(item(&name("0"), 7).version));
}

#[test]
fn what_is_rejected_waits_for_its_time_although_it_is_lost() {
    let mut hub = hub(2);
    let mut sender = subscribe(&hub, all(&hub));
    write(&mut hub, &mut sender, "0", Some(Entry::Wanted(7)));
    let response = sent(&mut sender, &hub, SECOND);
    let rejects = ack(&response, &["0"]);
    sender.request(rejects, &hub, SECOND).expect("asked");
    assert_eq!(held(&sender, &hub, "0"), Some(item(&name("0"), 0).version));
    lose(&mut sender, &hub, &["0"], SECOND);
    assert_eq!(held(&sender, &hub, "0"), None);
    assert!(sender.poll(&hub, SECOND).is_empty(), "it waits");
    assert_eq!(deliver(&mut sender, &hub, 2 * SECOND), ["0"]);
}

#[test]
fn what_is_to_go_is_not_brought_back_and_goes_all_the_same() {
    let mut hub = hub(30);
    let mut sender = subscribe(&hub, all(&hub));
    // More than the budget allows: they wait.
    for number in 0..11 {
        write(&mut hub, &mut sender, &number.to_string(), None);
    }
    let left = Some(Entry::Withdrawn(0, Withdrawal::Orphan));
    write(&mut hub, &mut sender, "20", left);
    assert_eq!(deliver(&mut sender, &hub, SECOND), ["20"]);
    lose(&mut sender, &hub, &["0", "20"], SECOND);
    assert!(sender.poll(&hub, SECOND).is_empty());
    sender.approve(hub.revision);
    let response = sent(&mut sender, &hub, SECOND);
    assert_eq!((response.items.len(), response.removed.len()), (0, 11));
    // Something may be left of what is lost: it goes when the object does.
    lose(&mut sender, &hub, &["21", "3"], SECOND);
    write(&mut hub, &mut sender, "21", None);
    sender
        .request(ack(&response, &[]), &hub, SECOND)
        .expect("asked");
    sender.approve(hub.revision);
    assert_eq!(deliver(&mut sender, &hub, SECOND), ["21"]);
    assert!(sender.poll(&hub, SECOND).is_empty());
}

#[test]
fn who_fights_waits_longer_and_longer() {
    let mut hub = hub(2);
    let mut sender = subscribe(&hub, all(&hub));
    let mut now = Duration::ZERO;
    let mut times = Vec::new();
    for _ in 0..11 {
        lose(&mut sender, &hub, &["0"], now);
        now = sender.wake_at(now).unwrap_or(now);
        times.push(now.as_secs());
        assert_eq!(deliver(&mut sender, &hub, now), ["0"]);
    }
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811]);
    lose(&mut sender, &hub, &["0"], now);
    let rejected = sender.rejected(&kind("Widget")).collect::<Vec<_>>();
    let why = "something there changes or deletes it again and again, behind sync; it is sent again later";
    assert_eq!(rejected, [(&name("0"), why)]);
    // Others do not wait, nor does what its author changes.
    lose(&mut sender, &hub, &["1"], now);
    assert_eq!(deliver(&mut sender, &hub, now), ["1"]);
    write(&mut hub, &mut sender, "0", Some(Entry::Wanted(9)));
    assert_eq!(deliver(&mut sender, &hub, now), ["0"]);
    // Who leaves it alone for a while may begin anew.
    now += 601 * SECOND;
    lose(&mut sender, &hub, &["0"], now);
    assert_eq!(deliver(&mut sender, &hub, now), ["0"]);
}

#[test]
fn no_more_are_repaired_than_were_asked_for() {
    let hub = hub(1);
    let mut sender = subscribe(&hub, all(&hub));
    let many = (0..=MAX_REPAIRS).map(|number| name(&number.to_string()));
    let many = Request::Repair {
        kind: kind("Widget"),
        names: many.collect(),
    };
    let said = sender.request(many, &hub, SECOND);
    let expected = "more than 1000 objects to repair at once";
    assert_eq!(said.map_err(|why| why.to_string()), Err(expected.into()));
    let other = Request::Repair {
        kind: kind("Gadget"),
        names: BTreeSet::new(),
    };
    let said = sender.request(other, &hub, SECOND);
    let expected = "deltaplane.io/example.com/Gadget was not subscribed to";
    assert_eq!(said.map_err(|why| why.to_string()), Err(expected.into()));
}

#[test]
fn a_receiver_says_what_it_lost_of_what_it_follows() {
    let mut receiver = Receiver::new(
        SenderRole::Hub,
        DeletionBudget::default(),
        Ledger::default(),
    );
    let lost = BTreeSet::from([name("a")]);
    assert_eq!(receiver.repair(kind("Widget"), lost.clone()), None);
    let known = deltaplane_sync::Known::Versions {
        held: BTreeMap::new(),
        sources: Vec::new(),
    };
    receiver.subscribe(kind("Widget"), known);
    let said = receiver.repair(kind("Widget"), lost);
    assert_eq!(said, Some(repair(&["a"])));
}
