//! Times decisions about ten thousand zones: `cargo run --release --example stages`.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it is timed"
)]

use std::time::{Duration, Instant};

use deltaplane_expr::Timestamp;
use deltaplane_propagation::Hold;
use deltaplane_propagation::stages::{
    Admitted, Class, ContentId, Link, Mark, Phase, Policy, PolicySpec, Progress, Record, Release,
    Removes, Situation, State, Target, Zone, ZoneReport, decide,
};
use serde_json::{Map, Value, json};

const ZONES: usize = 10_000;
const ROUNDS: usize = 20;

/// How far the zones are: the first so many of ten thousand are ready at 2, then so many on their
/// way, and so many failed; the others are at 1.
const FLEETS: [(&str, usize, usize, usize); 5] = [
    ("all at 1, the gate opens", 0, 0, 0),
    ("half is there, as many more go", 5_000, 0, 0),
    ("half is there, nobody may go", 4_000, 4_000, 0),
    ("some failed", 4_000, 1_000, 400),
    ("all are there", 10_000, 0, 0),
];

fn main() {
    let now = Timestamp::parse("2026-03-01T12:00:00Z").expect("a time");
    let policy = policy();
    let objects: Vec<(String, Map<String, Value>)> = (0..ZONES).map(object).collect();
    let releases = [1, 2].map(|number| release(number, &policy));
    for (name, ready, moving, failed) in FLEETS {
        let parts = (ready, ready + moving, ready + moving + failed);
        let record = record(&objects, &releases, parts, now);
        let zones: Vec<Zone<'_>> = objects
            .iter()
            .enumerate()
            .map(|(index, (name, object))| Zone {
                name,
                object,
                diverged: false,
                holds: None,
                link: Link::Connected { since: now },
                hold: Hold::Free,
                released_at: None,
                report: Some(ZoneReport {
                    at: record.zones[name].target,
                    state: match index {
                        index if index < parts.0 || index >= parts.2 => State::Ready { since: now },
                        index if index < parts.1 => State::Waiting { reason: "not yet" },
                        _ => State::Failed { reason: "broken" },
                    },
                }),
            })
            .collect();
        let situation = Situation {
            releases: &releases,
            record: &record,
            zones: &zones,
            approvals: &[],
            resumed: None,
            left: &[],
            zones_as_of: None,
            now,
        };
        let rounds = (0..ROUNDS).map(|_| timed(&policy, situation));
        let took = rounds.min().expect("some rounds");
        let outcome = decide(&policy, situation);
        let size = outcome.record.write().to_string().len();
        println!("{took:>10.1?}  {size:>6} bytes  {name}");
        for stage in &outcome.stages {
            let told = stage.to_string();
            println!("{:>12}{}", "", told.lines().next().unwrap_or_default());
        }
    }
}

fn timed(policy: &Policy, situation: Situation<'_>) -> Duration {
    let start = Instant::now();
    let outcome = decide(policy, situation);
    let took = start.elapsed();
    drop(outcome);
    took
}

fn policy() -> Policy {
    let spec: PolicySpec = serde_json::from_value(json!({
        "targets": [{"kind": "ConfigMap"}],
        "overrides": [{
            "zones": {"matchLabels": {"region": "r3"}},
            "patch": [{"op": "replace", "path": "/data/a", "value": "b"}],
        }],
        "stages": [
            {"name": "canary", "zones": {"matchLabels": {"tier": "canary"}},
             "propagateWhen": ["linearlyReady(zone, zones, 100)"], "soak": "10m"},
            {"name": "rest", "propagateWhen": ["exponentiallyReady(zone, zones)"],
             "orderBy": "zone.metadata.labels['region'] + zone.metadata.name",
             "maxFailures": "10%"},
        ],
    }))
    .expect("a policy");
    Policy::compile(&spec).expect("a policy")
}

fn release(number: u64, policy: &Policy) -> Release {
    let overrides = policy.overrides.iter();
    Release {
        number,
        authors: Vec::new(),
        restores: None,
        overrides: overrides.map(|one| one.zones.clone()).collect(),
        removes: (1..number)
            .map(|since| {
                (
                    since,
                    Removes {
                        objects: 0,
                        of: 100,
                    },
                )
            })
            .collect(),
        data: json!({"number": number}),
        content: ContentId::default(),
    }
}

fn record(
    objects: &[(String, Map<String, Value>)],
    releases: &[Release],
    (ready, moving, failed): (usize, usize, usize),
    at: Timestamp,
) -> Record {
    let mut record = Record::default();
    for (index, (name, object)) in objects.iter().enumerate() {
        let (release, phase) = match index {
            index if index < ready => (&releases[1], Phase::Arrived),
            index if index < moving || index < failed => (&releases[1], Phase::Admitted),
            _ => (&releases[0], Phase::Arrived),
        };
        let class: Class = release.class(object);
        let target = Target {
            release: release.number,
            class,
        };
        record
            .zones
            .insert(name.clone(), Admitted { target, at, phase });
    }
    for name in ["canary", "rest"] {
        let mark = |release| Some(Mark { release, at });
        let progress = Progress {
            taken: mark(if name == "canary" { 2 } else { 1 }),
            completed: mark(if name == "canary" { 2 } else { 1 }),
            failed: None,
        };
        record.stages.insert(name.to_owned(), progress);
    }
    record
}

fn object(index: usize) -> (String, Map<String, Value>) {
    let name = format!("zone-{index:05}");
    let tier = if index.is_multiple_of(100) {
        "canary"
    } else {
        "rest"
    };
    let object = json!({
        "metadata": {
            "name": name,
            "creationTimestamp": format!("2026-02-{:02}T10:00:00Z", index % 28 + 1),
            "labels": {"region": format!("r{}", index % 20), "tier": tier, "env": "prod"},
        },
    });
    (name, object.as_object().cloned().unwrap_or_default())
}
