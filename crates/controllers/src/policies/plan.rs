//! What is to be done about a policy, from what is known of it. Pure.

use std::collections::BTreeSet;

use deltaplane_propagation::Timestamp;
use deltaplane_propagation::stages::{
    Effect, Outcome, Policy, PolicyFacts, Problem, RELEASE_FLOOR, Record, RollbackCause, Waiting,
    ZoneFacts, cut, decide, problems,
};
use serde_json::Value;

use super::status;

/// What is to be done, in this order.
pub(super) struct Plan {
    /// A release to be written. Then all is looked at anew.
    pub(super) wanted: Option<Wanted>,
    /// Whether something was decided that is not recorded.
    pub(super) decided: bool,
    /// What is to be told, if it is news.
    pub(super) status: Option<Value>,
    /// Releases that are not kept any more.
    pub(super) surplus: Vec<u64>,
    pub(super) next: Option<Timestamp>,
}

/// A release to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) number: u64,
    pub(super) restores: Option<u64>,
    /// The release that it takes back, and why.
    pub(super) rolled_back: Option<(u64, RollbackCause)>,
}

/// The annotation of a policy with who wrote it last.
const AUTHOR: &str = "deltaplane.io/author";
/// So many bytes of why a release failed are kept.
const CAUSE: usize = 500;
/// So many releases are kept, beside those in use.
const KEPT: usize = 10;

/// `policy` is that of the facts, or what is wrong with it; `troubles` is what it cannot do where it
/// is.
pub(super) fn plan(
    facts: &PolicyFacts,
    policy: &Result<Policy, Vec<Problem>>,
    troubles: &[String],
    now: Timestamp,
) -> Plan {
    let policy = match policy {
        Ok(policy) => policy,
        Err(problems) => return invalid(facts, problems, now),
    };
    let zones = facts.zones();
    let outcome = decide(policy, facts.situation(&zones, now));
    let wanted = wanted(facts, policy, &outcome);
    let mut problems = problems(facts, policy, &outcome);
    problems.extend_from_slice(troubles);
    let told = status::told(facts, &outcome, &problems, now);
    let told = keep_floor(facts, told);
    Plan {
        wanted,
        decided: outcome.record != facts.record,
        status: (told != facts.object["status"]).then_some(told),
        surplus: surplus(facts, &outcome.record),
        next: outcome.next.into_iter().chain(facts.again).min(),
    }
}

/// Of a policy that cannot be decided by: nothing moves.
fn invalid(facts: &PolicyFacts, problems: &[Problem], now: Timestamp) -> Plan {
    let told = status::invalid(facts, problems, now);
    let told = keep_floor(facts, told);
    Plan {
        wanted: None,
        decided: false,
        status: (told != facts.object["status"]).then_some(told),
        surplus: Vec::new(),
        next: None,
    }
}

/// Keeps the lowest number of the next release, which the hub wrote when a zone was reconciled.
fn keep_floor(facts: &PolicyFacts, mut status: Value) -> Value {
    if let Some(floor) = facts.object["status"].get(RELEASE_FLOOR) {
        status[RELEASE_FLOOR] = floor.clone();
    }
    status
}

fn wanted(facts: &PolicyFacts, policy: &Policy, outcome: &Outcome) -> Option<Wanted> {
    let number = facts.next_number();
    if !facts.is_released() && facts.head.problems.is_empty() {
        return Some(Wanted {
            number,
            restores: None,
            rolled_back: None,
        });
    }
    if policy.paused {
        return None;
    }
    let asked = facts.asked_for();
    let asked = asked.filter(|to| facts.contents.contains_key(to));
    let asked = asked.map(|to| (to, facts.newest(), asked_by(facts, to)));
    let (to, instead, cause) = asked.or_else(|| {
        let Effect::Rollback { to, failed } = outcome.effect?;
        Some((to, failed, failure(outcome, failed)))
    })?;
    Some(Wanted {
        number,
        restores: Some(to),
        rolled_back: Some((instead, cause)),
    })
}

/// Who asked to go back, as far as is known.
fn asked_by(facts: &PolicyFacts, to: u64) -> RollbackCause {
    let by = facts.annotation(AUTHOR).unwrap_or("an unknown user");
    RollbackCause {
        zone: None,
        reason: format!("{by} asked for release {to}"),
    }
}

/// The first zone in which a release failed, and what it said.
fn failure(outcome: &Outcome, release: u64) -> RollbackCause {
    let mut stages = outcome.stages.iter();
    let stage = stages.find(|stage| stage.release == Some(release));
    let waiting = stage.into_iter().flat_map(|stage| &stage.waiting);
    let mut failed = waiting.filter_map(|one| {
        let Waiting::Zone {
            zone,
            reason,
            failed: true,
        } = one
        else {
            return None;
        };
        Some(RollbackCause {
            zone: Some(zone.clone()),
            reason: cut(reason, CAUSE),
        })
    });
    failed.next().unwrap_or_else(|| RollbackCause {
        zone: None,
        reason: "too many zones failed".to_owned(),
    })
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
    used.extend(facts.newest_of_head());
    // Zones that were never let in may have what was there at first, and must not lose it unasked.
    let placed = |zone: &ZoneFacts| record.zones.contains_key(&zone.name);
    if !facts.zones.iter().all(placed) {
        used.extend(facts.releases.first().map(|first| first.number));
    }
    let all = facts.releases.iter().map(|release| release.number);
    let older = all.rev().skip(KEPT);
    older.filter(|number| !used.contains(number)).collect()
}

#[cfg(test)]
pub(in crate::policies) mod tests;
