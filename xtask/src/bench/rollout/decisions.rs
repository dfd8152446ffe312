//! What needs no server: deciding about many zones in the middle of a rollout, and what is written
//! down of it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use deltaplane_propagation::stages::{
    Admitted, Class, ContentId, Link, Mark, Phase, Policy, PolicySpec, Progress, Record, Release,
    Removes, Situation, State, Target, Zone, ZoneReport, decide, simulate,
};
use deltaplane_propagation::{Hold, Timestamp};
use serde_json::{Map, Value, json};

use super::Line;
use crate::fleet::millis;

/// Others use this machine, too: the best of so many is what it takes.
const ROUNDS: usize = 40;
/// Among so many zones one is a canary.
const CANARIES: usize = 100;
/// So many zones are simulated, as of a change that is planned.
const PLANNED: usize = 1000;

/// Zones on their way from release 1 to release 2: canaries are there, and of the rest a half is;
/// a hundredth is on its way.
struct Fleet {
    zones: Vec<(String, Map<String, Value>)>,
    record: Record,
    releases: [Release; 2],
    now: Timestamp,
}

pub(super) fn run(zones: usize) -> Result<Vec<Line>> {
    let policy = policy()?;
    let fleet = Fleet::new(zones)?;
    let seen = fleet.seen();
    let situation = fleet.situation(&seen);
    let outcome = decide(&policy, situation);
    let admitted = outcome.record.zones.values();
    let on_their_way = admitted.filter(|one| one.phase == Phase::Admitted).count();
    ensure!(on_their_way > zones / 200, "nothing is under way");
    let decided = best(|| drop(black_box(decide(&policy, black_box(situation)))));
    let written = best(|| drop(black_box(outcome.record.write())));
    let json = outcome.record.write();
    let read = best(|| drop(black_box(Record::read(black_box(&json)))));
    ensure!(
        Record::read(&json).as_ref() == Some(&outcome.record),
        "what is written is something else"
    );
    let scattered = fleet.scattered().write().to_string().len();
    let few = Fleet::new(PLANNED)?;
    let planned = best(|| _ = black_box(few.simulated(&policy)));
    let of_zones = |what: &str| format!("{what}, {zones} zones");
    Ok(vec![
        Line::new(
            of_zones("a decision in the middle of a rollout"),
            millis(decided),
            "10 ms",
        ),
        Line::new(of_zones("writing it down"), millis(written), ""),
        Line::new(of_zones("reading it"), millis(read), ""),
        Line::new(
            of_zones("its size"),
            format!("{} B", json.to_string().len()),
            "100 KB",
        ),
        Line::new(
            of_zones("its size when every third zone lags behind"),
            format!("{scattered} B"),
            "100 KB",
        ),
        Line::new(
            format!("all waves of a release in advance, {PLANNED} zones"),
            millis(planned),
            "1 s",
        ),
    ])
}

fn policy() -> Result<Policy> {
    let spec: PolicySpec = serde_json::from_value(json!({
        "targets": [{"group": "", "kind": "ConfigMap", "names": ["web"]}],
        "stages": [
            {
                "name": "canary", "zones": {"matchLabels": {"tier": "canary"}},
                "propagateWhen": ["linearlyReady(zone, zones, 5)"],
            },
            {
                "name": "rest", "propagateWhen": ["exponentiallyReady(zone, zones)"],
                "orderBy": "zone.metadata.labels['wave'] + zone.metadata.name",
                "maxFailures": "5%",
            },
        ],
    }))?;
    Policy::compile(&spec).map_err(|problems| anyhow!("{problems:?}"))
}

fn best(act: impl Fn()) -> Duration {
    let rounds = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        act();
        began.elapsed()
    });
    rounds.min().unwrap_or_default()
}

fn target(release: u64) -> Target {
    Target {
        release,
        class: Class::default(),
    }
}

fn release(number: u64) -> Release {
    Release {
        number,
        authors: vec!["ada".to_owned()],
        restores: None,
        overrides: Vec::new(),
        removes: (1..number)
            .map(|since| (since, Removes { objects: 0, of: 1 }))
            .collect(),
        data: json!({"number": number, "authors": ["ada"], "changes": {"changed": 1}}),
        content: ContentId::default(),
    }
}

// === impl Fleet ===

impl Fleet {
    fn new(count: usize) -> Result<Self> {
        let zones: Vec<(String, Map<String, Value>)> = (0..count).map(zone).collect();
        let began = Timestamp::parse("2026-03-02T09:00:00Z").context("a time")?;
        let now = Timestamp::parse("2026-03-02T09:30:00Z").context("a time")?;
        let half = count / 2;
        let admitted = zones.iter().enumerate().map(|(number, (name, _))| {
            let (release, phase) = match number {
                _ if number % CANARIES == 0 || number < half => (2, Phase::Arrived),
                _ if number < half + count / 100 => (2, Phase::Admitted),
                _ => (1, Phase::Arrived),
            };
            let admitted = Admitted {
                target: target(release),
                at: began,
                phase,
            };
            (name.clone(), admitted)
        });
        let mark = |release| Some(Mark { release, at: began });
        let stage = |completed| Progress {
            taken: mark(2),
            completed: mark(completed),
            failed: None,
        };
        let record = Record {
            zones: admitted.collect(),
            stages: [
                ("canary".to_owned(), stage(2)),
                ("rest".to_owned(), stage(1)),
            ]
            .into(),
            ..Record::default()
        };
        Ok(Self {
            zones,
            record,
            releases: [release(1), release(2)],
            now,
        })
    }

    /// The zones, each ready at what it was let in to unless it is on its way.
    fn seen(&self) -> Vec<Zone<'_>> {
        let zones = self.zones.iter().map(|(name, object)| {
            let Admitted { target, at, phase } = self.record.zones[name];
            let state = match phase {
                Phase::Admitted => State::Waiting {
                    reason: "ConfigMap web: it came a moment ago",
                },
                Phase::Started | Phase::Arrived | Phase::Deferred | Phase::Failed => {
                    State::Ready { since: at }
                }
            };
            Zone {
                name,
                object,
                diverged: false,
                holds: None,
                link: Link::Connected { since: at },
                hold: Hold::Free,
                released_at: None,
                report: Some(ZoneReport { at: target, state }),
            }
        });
        zones.collect()
    }

    fn situation<'a>(&'a self, zones: &'a [Zone<'a>]) -> Situation<'a> {
        Situation {
            releases: &self.releases,
            record: &self.record,
            zones,
            approvals: &[],
            resumed: None,
            left: &[],
            now: self.now,
            zones_as_of: None,
        }
    }

    /// As ranges cannot say it in few words.
    fn scattered(&self) -> Record {
        let mut record = self.record.clone();
        for (number, one) in record.zones.values_mut().enumerate() {
            one.target = target(if number % 3 == 0 { 1 } else { 2 });
        }
        record
    }

    fn simulated(&self, policy: &Policy) -> usize {
        let zones = self.zones.iter();
        let zones: Vec<(&str, &Map<String, Value>)> = zones
            .map(|(name, object)| (name.as_str(), object))
            .collect();
        simulate(policy, &zones, &self.releases[1], self.now)
            .waves
            .len()
    }
}

fn zone(number: usize) -> (String, Map<String, Value>) {
    let name = format!("zone-{number:05}");
    let tier = if number.is_multiple_of(CANARIES) {
        "canary"
    } else {
        "prod"
    };
    let object = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "Zone",
        "metadata": {
            "name": name,
            "labels": {"tier": tier, "env": "prod", "wave": (number % 7).to_string()},
        },
        "spec": {},
    });
    let object = object.as_object().cloned().unwrap_or_default();
    (name, object)
}
