//! What a policy would do if all went well: to tell in advance in which order zones move.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_expr::Timestamp;
use serde_json::{Map, Value as Json};

use super::compiled::{Approval, Policy};
use super::decide::{Outcome, decide};
use super::record::{Phase, Record};
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simulation {
    pub waves: Vec<Wave>,
    /// When each stage would complete it.
    pub completed: BTreeMap<String, Timestamp>,
    /// When all of it would be done.
    pub done: Option<Timestamp>,
    /// What would stop it: the stage, and why.
    pub stuck: Option<(String, String)>,
}

/// How things stand when something begins.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    pub record: &'a Record,
    /// The last of them is what is played.
    pub releases: &'a [Release],
    pub zones: &'a [Zone<'a>],
    /// Zones in which nothing can show whether the release works.
    pub unproven: &'a BTreeSet<&'a str>,
    pub resumed: Option<&'a str>,
    pub now: Timestamp,
}

/// A simulation takes no more steps.
const STEPS: usize = 20_000;
/// Nor does it look at zones more often. What is left is not foreseen: neither done nor stuck.
const LOOKS: usize = 4_000_000;

/// Plays a release that all of these zones take well at once, where there was nothing before.
pub fn simulate(
    policy: &Policy,
    zones: &[(&str, &Map<String, Json>)],
    release: &Release,
    now: Timestamp,
) -> Simulation {
    let zones = zones.iter().map(|(name, object)| Zone {
        name,
        object,
        diverged: false,
        holds: None,
        link: Link::Connected { since: now },
        hold: Hold::Free,
        released_at: None,
        report: None,
    });
    let zones: Vec<Zone<'_>> = zones.collect();
    let beginning = Beginning {
        record: &Record::default(),
        releases: std::slice::from_ref(release),
        zones: &zones,
        unproven: &BTreeSet::new(),
        resumed: None,
        now,
    };
    foresee(policy, beginning)
}

/// Plays the newest release from where things stand: those who are connected take it well at once,
/// those who are away or held stay so as long as is known.
pub fn foresee(policy: &Policy, beginning: Beginning<'_>) -> Simulation {
    let Some(number) = beginning.releases.last().map(|release| release.number) else {
        return Simulation::default();
    };
    let approvals = approvals(policy, number);
    let stages = Stages::of(policy, beginning.zones);
    let mut simulation = Simulation::default();
    let mut record = beginning.record.clone();
    let mut now = beginning.now;
    let steps = STEPS.min(LOOKS / beginning.zones.len().max(1));
    for _ in 0..steps {
        let zones = beginning.zones.iter();
        let zones: Vec<Zone<'_>> = zones
            .map(|zone| beginning.see(*zone, &record, now))
            .collect();
        let situation = Situation {
            releases: beginning.releases,
            record: &record,
            zones: &zones,
            approvals: &approvals,
            resumed: beginning.resumed,
            left: &[],
            zones_as_of: None,
            now,
        };
        let outcome = decide(policy, situation);
        let moved = outcome.record != record;
        simulation.note(&stages, (&record, &outcome), number, now);
        record = outcome.record;
        let last = outcome.stages.last();
        if last.is_some_and(|stage| stage.completed == Some(number)) {
            simulation.done = Some(now);
            return simulation;
        }
        match (moved, outcome.next) {
            (true, _) => {}
            (false, Some(next)) if next > now => now = next,
            (false, _) => {
                let mut stages = outcome.stages.iter();
                let behind = stages.find(|stage| stage.completed != Some(number));
                simulation.stuck = behind.map(|stage| {
                    let why = stage.waiting.iter().find(|one| matters(one));
                    let why = why.or_else(|| stage.waiting.first());
                    let why = why.map_or_else(|| stage.counts.to_string(), ToString::to_string);
                    (stage.name.clone(), why)
                });
                return simulation;
            }
        }
    }
    simulation
}

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

// === impl Beginning ===

impl<'a> Beginning<'a> {
    /// A zone as it would be.
    fn see(&self, zone: Zone<'a>, record: &Record, now: Timestamp) -> Zone<'a> {
        let over = zone.released_at.is_some_and(|at| at <= now);
        let hold = if over { Hold::Free } else { zone.hold };
        let admitted = record.zones.get(zone.name);
        let report = admitted.map(|one| {
            let told = zone.report.filter(|report| report.at == one.target);
            let ready = State::Ready { since: one.at };
            let state = match told.map(|report| report.state) {
                // What is on its way arrives.
                Some(State::Delivering { .. } | State::Waiting { .. }) => ready,
                Some(told) => told,
                None if self.unproven.contains(zone.name) => State::NoEvidence {
                    reason: "nothing there shows whether it works",
                },
                None => ready,
            };
            ZoneReport {
                at: one.target,
                state,
            }
        });
        Zone {
            hold,
            report,
            ..zone
        }
    }
}

/// The stages of zones, by their names.
struct Stages<'a> {
    policy: &'a Policy,
    of: BTreeMap<&'a str, usize>,
}

// === impl Stages ===

impl<'a> Stages<'a> {
    fn of(policy: &'a Policy, zones: &[Zone<'a>]) -> Self {
        let of = zones
            .iter()
            .filter_map(|zone| Some((zone.name, policy.stage_of(zone.object)?)));
        Self {
            policy,
            of: of.collect(),
        }
    }
}

// === impl Simulation ===

impl Simulation {
    /// Writes down who was let in, and which stages are done.
    fn note(
        &mut self,
        stages: &Stages<'_>,
        (before, outcome): (&Record, &Outcome),
        release: u64,
        now: Timestamp,
    ) {
        let mut waves: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (name, one) in &outcome.record.zones {
            let was = before.zones.get(name).map(|one| (one.target, one.phase));
            let is_let_in = matches!(one.phase, Phase::Admitted | Phase::Started)
                && one.target.release == release
                && was != Some((one.target, one.phase));
            if let (true, Some(stage)) = (is_let_in, stages.of.get(name.as_str())) {
                waves.entry(*stage).or_default().push(name.clone());
            }
        }
        for (stage, zones) in waves {
            let stage = &stages.policy.stages[stage];
            let first = !self.waves.iter().any(|wave| wave.stage == stage.name);
            self.waves.push(Wave {
                at: now,
                stage: stage.name.clone(),
                zones,
                after_approval: first && stage.approval != Approval::None,
            });
        }
        for stage in &outcome.stages {
            if stage.completed == Some(release) {
                self.completed.entry(stage.name.clone()).or_insert(now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
