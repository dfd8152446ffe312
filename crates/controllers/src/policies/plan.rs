//! What is to be done about a policy, from what is known of it. Pure.

use std::collections::BTreeSet;

use deltaplane_propagation::Timestamp;
use deltaplane_propagation::stages::{
    Effect, Outcome, Policy, PolicyFacts, PolicySpec, Problem, Record, Situation, Zone, decide,
};
use serde_json::Value;

use super::status;

/// What is to be done, in this order.
pub(super) struct Plan {
    /// A release to be written. Then all is looked at anew.
    pub(super) wanted: Option<Wanted>,
    /// What is to be told, if it is news.
    pub(super) status: Option<Value>,
    /// Releases that are not kept any more.
    pub(super) surplus: Vec<u64>,
    pub(super) next: Option<Timestamp>,
}

/// A release to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) number: u64,
    pub(super) restores: Option<u64>,
}

/// By this annotation somebody asks for an older release: `3 instead of 7`.
pub(crate) const ROLLBACK: &str = "fleet.deltaplane.io/rollback";
/// By this annotation somebody says that the failures of a release, and of those before it, are
/// not to stop it.
pub(crate) const RESUME: &str = "fleet.deltaplane.io/resume";
/// So many releases are kept, beside those in use.
const KEPT: usize = 10;

pub(super) fn plan(facts: &PolicyFacts, now: Timestamp) -> Plan {
    let spec: Result<PolicySpec, _> = serde_json::from_value(facts.object["spec"].clone());
    let policy = match spec {
        Ok(spec) => Policy::compile(&spec),
        Err(error) => Err(vec![Problem {
            path: "spec".to_owned(),
            message: error.to_string(),
            hint: None,
        }]),
    };
    let policy = match policy {
        Ok(policy) => policy,
        Err(problems) => return invalid(facts, &problems, now),
    };
    let zones: Vec<Zone<'_>> = facts.zones.iter().map(|zone| zone.zone()).collect();
    let situation = Situation {
        releases: &facts.releases,
        record: &facts.record,
        zones: &zones,
        approvals: &facts.approvals,
        resumed: annotation(facts, RESUME).and_then(|text| text.trim().parse().ok()),
        now,
    };
    let outcome = decide(&policy, situation);
    let wanted = wanted(facts, &policy, &outcome);
    let told = status::told(facts, &policy, &outcome, now);
    Plan {
        wanted,
        status: (told != facts.object["status"]).then_some(told),
        surplus: surplus(facts, &outcome.record),
        next: outcome.next,
    }
}

/// Of a policy that cannot be decided by: nothing moves.
fn invalid(facts: &PolicyFacts, problems: &[Problem], now: Timestamp) -> Plan {
    let told = status::invalid(facts, problems, now);
    Plan {
        wanted: None,
        status: (told != facts.object["status"]).then_some(told),
        surplus: Vec::new(),
        next: None,
    }
}

fn annotation<'a>(facts: &'a PolicyFacts, key: &str) -> Option<&'a str> {
    facts.object["metadata"]["annotations"][key].as_str()
}

fn newest(facts: &PolicyFacts) -> u64 {
    let known = facts.releases.last().map_or(0, |release| release.number);
    // Numbers are never used twice.
    known.max(facts.object["status"]["release"].as_u64().unwrap_or(0))
}

/// The newest release of what was there, and not of what was brought back.
pub(super) fn newest_of_head(facts: &PolicyFacts) -> Option<u64> {
    let mut releases = facts.releases.iter().rev();
    let release = releases.find(|release| release.restores.is_none())?;
    Some(release.number)
}

/// Whether all that is there was released.
pub(super) fn is_released(facts: &PolicyFacts) -> bool {
    match newest_of_head(facts) {
        Some(number) => facts.contents[&number].digest == facts.head.digest,
        None => facts.head.objects == 0,
    }
}

fn wanted(facts: &PolicyFacts, policy: &Policy, outcome: &Outcome) -> Option<Wanted> {
    let number = newest(facts) + 1;
    if !is_released(facts) && facts.head.problems.is_empty() {
        let restores = None;
        return Some(Wanted { number, restores });
    }
    if policy.paused {
        return None;
    }
    let restores = asked_for(facts).or_else(|| {
        let Effect::Rollback { to, .. } = outcome.effect?;
        Some(to)
    });
    restores.map(|restores| Wanted {
        number,
        restores: Some(restores),
    })
}

/// An older release that somebody asked for, instead of the newest.
fn asked_for(facts: &PolicyFacts) -> Option<u64> {
    let (to, instead) = annotation(facts, ROLLBACK)?.split_once(" instead of ")?;
    let (to, instead): (u64, u64) = (to.trim().parse().ok()?, instead.trim().parse().ok()?);
    let kept = facts.contents.contains_key(&to);
    (kept && instead == newest(facts)).then_some(to)
}

/// Releases that zones do not hold, nor may be asked for.
fn surplus(facts: &PolicyFacts, record: &Record) -> Vec<u64> {
    let mut used: BTreeSet<u64> = BTreeSet::new();
    // What was decided before may still be in effect.
    for record in [record, &facts.record] {
        used.extend(record.zones.values().map(|one| one.target.release));
        for stage in record.stages.values() {
            let marks = [stage.taken, stage.completed, stage.failed];
            used.extend(marks.into_iter().flatten().map(|mark| mark.release));
        }
    }
    used.extend(newest_of_head(facts));
    let all = facts.releases.iter().map(|release| release.number);
    let older = all.rev().skip(KEPT);
    older.filter(|number| !used.contains(number)).collect()
}
