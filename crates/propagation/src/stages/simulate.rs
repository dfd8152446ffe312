//! What a policy would do if all went well: to tell in advance in which order zones move, and
//! whether a gate can never open.

use std::collections::BTreeSet;

use deltaplane_expr::Timestamp;
use serde_json::{Map, Value as Json};

use super::compiled::{Approval, Policy};
use super::decide::decide;
use super::problem::Problem;
use super::record::Record;
use super::situation::{Approved, Link, Release, Situation, State, Zone, ZoneReport};
use super::told::Waiting;
use crate::subject::Hold;

/// Zones that are let in together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wave {
    pub at: Timestamp,
    pub stage: String,
    pub zones: Vec<String>,
    /// Whether somebody has to agree first.
    pub after_approval: bool,
}

/// How it would go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulation {
    pub waves: Vec<Wave>,
    /// When all of it would be done.
    pub done: Option<Timestamp>,
    /// What would stop it.
    pub stuck: Option<(String, String)>,
}

/// A simulation takes no more steps.
const STEPS: usize = 20_000;

/// Plays a release that all of these zones take well at once, beginning with this record.
pub fn simulate(
    policy: &Policy,
    zones: &[(&str, &Map<String, Json>)],
    release: &Release,
    now: Timestamp,
) -> Simulation {
    let mut record = Record::default();
    let mut simulation = Simulation {
        waves: Vec::new(),
        done: None,
        stuck: None,
    };
    let releases = [release.clone()];
    let approvals = approvals(policy, release.number);
    let mut now = now;
    for _ in 0..STEPS {
        let seen: Vec<Zone<'_>> = zones
            .iter()
            .map(|zone| ready(*zone, &record, now))
            .collect();
        let situation = Situation {
            releases: &releases,
            record: &record,
            zones: &seen,
            approvals: &approvals,
            resumed: None,
            now,
        };
        let outcome = decide(policy, situation);
        let moved = outcome.record != record;
        simulation.note(policy, &record, &outcome.record, now);
        record = outcome.record;
        let last = outcome.stages.last();
        if last.is_some_and(|stage| stage.completed == Some(release.number)) {
            simulation.done = Some(now);
            return simulation;
        }
        match (moved, outcome.next) {
            (true, _) => {}
            (false, Some(next)) if next > now => now = next,
            (false, _) => {
                let mut stages = outcome.stages.iter();
                let behind = stages.find(|stage| stage.completed != Some(release.number));
                simulation.stuck = behind.map(|stage| {
                    let why = stage.waiting.iter().find(|one| matters(one));
                    let why = why.map_or_else(|| stage.counts.to_string(), ToString::to_string);
                    (stage.name.clone(), why)
                });
                return simulation;
            }
        }
    }
    simulation
}

/// Why a policy can never be done with a release, though every zone takes it well.
pub fn stuck(policy: &Policy, zones: &[(&str, &Map<String, Json>)]) -> Option<Problem> {
    if zones.is_empty() || policy.paused {
        return None;
    }
    let now = Timestamp::parse("2026-01-05T00:00:00Z")?;
    let release = Release {
        number: 1,
        authors: vec![AUTHOR.to_owned()],
        restores: None,
        overrides: Vec::new(),
        removes: (0, 0),
        data: serde_json::json!({"number": 1, "authors": [AUTHOR], "changes": {}}),
    };
    let simulation = simulate(policy, zones, &release, now);
    let (stage, why) = simulation.stuck?;
    let index = policy.stages.iter().position(|one| one.name == stage)?;
    // A stage without zones, or that is paused, is no matter of expressions.
    let of_gate = why.contains("the gate is");
    of_gate.then(|| Problem {
        path: format!("spec.stages[{index}].propagateWhen"),
        message: format!("it can never open, though every zone is ready at once: {why}"),
        hint: Some("a zone must be able to be let in before others are".to_owned()),
    })
}

const AUTHOR: &str = "somebody";

fn matters(waiting: &Waiting) -> bool {
    matches!(
        waiting,
        Waiting::Gate { .. } | Waiting::NoEvidence { .. } | Waiting::Paused { .. }
    )
}

/// Everybody agrees.
fn approvals(policy: &Policy, release: u64) -> Vec<Approved> {
    let stages = policy
        .stages
        .iter()
        .filter(|stage| stage.approval != Approval::None);
    let stages = stages.map(|stage| Some(stage.name.clone()));
    let all = stages.chain([None]).map(|stage| Approved {
        stage,
        release,
        by: "somebody else".to_owned(),
    });
    all.collect()
}

/// A zone that is ready at whatever it was let in to.
fn ready<'a>(
    (name, object): (&'a str, &'a Map<String, Json>),
    record: &Record,
    now: Timestamp,
) -> Zone<'a> {
    let admitted = record.zones.get(name);
    Zone {
        name,
        object,
        link: Link::Connected { since: now },
        hold: Hold::Free,
        released_at: None,
        report: admitted.map(|one| ZoneReport {
            at: one.target,
            state: State::Ready { since: one.at },
        }),
    }
}

// === impl Simulation ===

impl Simulation {
    fn note(&mut self, policy: &Policy, before: &Record, after: &Record, now: Timestamp) {
        let is_new = |name: &&String| {
            let target = |record: &Record| record.zones.get(*name).map(|one| one.target);
            target(before) != target(after)
        };
        let moved: BTreeSet<&String> = after.zones.keys().filter(is_new).collect();
        for evidence in &after.evidence {
            let super::record::Advance::Admitted(zones) = &evidence.advance else {
                continue;
            };
            if evidence.at != now || !zones.iter().all(|zone| moved.contains(zone)) {
                continue;
            }
            let stage = policy
                .stages
                .iter()
                .find(|stage| stage.name == evidence.stage);
            let first = !self.waves.iter().any(|wave| wave.stage == evidence.stage);
            self.waves.push(Wave {
                at: now,
                stage: evidence.stage.clone(),
                zones: zones.clone(),
                after_approval: first && stage.is_some_and(|one| one.approval != Approval::None),
            });
        }
    }
}
