//! How far a policy is, as the API says it. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use deltaplane_propagation::stages::{
    Approval, Approved, Inputs, Link, Outcome, Past, Policy, PolicyFacts, Problem, Propagated,
    Release, RolledBack, Situation, StageTold, Standing, Waiting, ZoneFacts, ZoneTold,
    authors_for_stage, counts, problems, progress, sets, zones,
};
use deltaplane_propagation::{Hold, Timestamp};
use serde_json::{Value, json};

use crate::divergence::ReleaseFloor;

/// So much of a digest tells one from others.
const SHORT: usize = 12;

/// What is known beside what decisions are made of.
pub(super) struct Beside {
    /// What the policy cannot do where it is.
    pub(super) troubles: Vec<String>,
    /// Zones that were not heard of since they connected, and what is missing.
    pub(super) unheard: BTreeMap<String, String>,
}

/// All of it, or what concerns one zone.
pub(super) fn rollout(
    (inputs, outcome): (&Inputs, &Outcome),
    beside: &Beside,
    zone: Option<&str>,
) -> Value {
    let Inputs { facts, now } = inputs;
    let Ok(policy) = facts.policy() else {
        return Value::Null;
    };
    let seen = facts.zones();
    let situation = Situation {
        record: &outcome.record,
        ..facts.situation(&seen, *now)
    };
    let mut told = zones(&policy, situation);
    told.retain(|one| zone.is_none_or(|zone| zone == one.zone));
    let newest = facts.releases.last().map(|release| release.number);
    let known = Known::of(facts, beside);
    let stages = outcome.stages.iter().zip(&policy.stages);
    let stages = stages.map(|(stage, compiled)| {
        let mut written = stage.write();
        let of_stage = told.iter().filter(|one| one.stage == Some(&stage.name));
        let shown = of_stage.map(|one| known.zone(one, stage));
        written["members"] = shown.collect();
        written["approval"] = format!("{:?}", compiled.approval).into();
        written["soak"] = compiled.soak.to_string().into();
        written["maxFailures"] = compiled.max_failures.to_string().into();
        written["paused"] = (policy.paused || compiled.paused).into();
        let awaited = stage.waiting.iter().find_map(|one| {
            let Waiting::Approval { release, .. } = one else {
                return None;
            };
            Some(*release)
        });
        if let (Some(release), Approval::RequiredByOther) = (awaited, compiled.approval) {
            let authors = authors_for_stage(&policy, situation, (&stage.name, release));
            written["excludedApprovers"] = json!(authors);
        }
        written
    });
    let stages: Vec<Value> = stages.collect();
    let propagated = Propagated::of(facts, outcome);
    let mut said = problems(facts, &policy, outcome);
    said.extend_from_slice(&beside.troubles);
    let (current, total) = progress(&outcome.stages, newest);
    json!({
        "policy": name(facts),
        "asOf": now.to_string(),
        "release": newest,
        "paused": policy.paused,
        "propagated": propagated.holds,
        "reason": propagated.reason,
        "message": propagated.message,
        // What is decided now may not be written yet.
        "settled": outcome.record == facts.record,
        "current": current,
        "total": total,
        "objects": facts.head.objects,
        "rolledBack": facts.head.rolled_back.as_ref().map(RolledBack::write),
        "stages": stages,
        "leftOut": outcome.left_out,
        "releases": releases(facts, outcome),
        "evidence": outcome.record.write()["evidence"],
        "approvals": approvals((&policy, facts, outcome), *now),
        "problems": said,
        "next": outcome.next.map(|next| next.to_string()),
    })
}

/// Returns why the one zone of a rollout does not have the newest release: its own reason, or else
/// what its stage waits for, or else what is wrong with the policy.
pub(super) fn hold_reason(rollout: &Value) -> Option<String> {
    let texts = |list: &Value, field: &str| {
        let list = list.as_array().into_iter().flatten();
        let texts = list.filter_map(|one| one[field].as_str().filter(|text| !text.is_empty()));
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut stages = rollout["stages"].as_array().into_iter().flatten();
    let of_zone = stages.find(|stage| stage["members"][0].is_object());
    let own = of_zone.map(|stage| texts(&stage["members"], "reason"));
    let stage = of_zone.map(|stage| texts(&stage["waiting"], "message"));
    let problems = rollout["problems"].as_array().into_iter().flatten();
    let problems = problems.filter_map(|one| one.as_str().map(str::to_owned));
    let said = [stage.unwrap_or_default(), own.unwrap_or_default()];
    let said = said.into_iter().find(|said| !said.is_empty());
    let said = said.unwrap_or_else(|| problems.collect());
    (!said.is_empty()).then(|| said.join("; "))
}

/// Of a policy that cannot be decided by.
pub(super) fn invalid(inputs: &Inputs, found: &[Problem]) -> Value {
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    json!({
        "policy": name(&inputs.facts),
        "asOf": inputs.now.to_string(),
        "release": inputs.facts.releases.last().map(|release| release.number),
        "propagated": false,
        "reason": "Invalid",
        "message": "the policy is not valid; nothing moves",
        "settled": true,
        "stages": [],
        "releases": [],
        "problems": said,
    })
}

fn name(facts: &PolicyFacts) -> &Value {
    &facts.object["metadata"]["name"]
}

struct Known<'a> {
    /// By their names.
    zones: HashMap<&'a str, &'a ZoneFacts>,
    unheard: &'a BTreeMap<String, String>,
}

// === impl Known ===

impl<'a> Known<'a> {
    fn of(facts: &'a PolicyFacts, beside: &'a Beside) -> Self {
        let zones = facts.zones.iter();
        Self {
            zones: zones.map(|zone| (zone.name.as_str(), zone)).collect(),
            unheard: &beside.unheard,
        }
    }

    /// What there is to say instead of a report, of a zone that is connected.
    fn unheard(&self, zone: &ZoneFacts) -> Option<&'a str> {
        let connected = matches!(zone.link, Link::Connected { .. });
        let is_unheard = connected && zone.report.is_none();
        let why = self.unheard.get(&zone.name);
        why.filter(|_| is_unheard).map(String::as_str)
    }

    fn zone(&self, told: &ZoneTold<'_>, stage: &StageTold) -> Value {
        let known = self.zones.get(told.zone).copied();
        let unheard = known.and_then(|zone| self.unheard(zone));
        // Why it failed is said by whoever decided that.
        let waits = told.standing != Standing::Failed;
        let gate = stage.waiting.iter().find_map(|one| {
            let Waiting::Gate { zone, verdict } = one else {
                return None;
            };
            (zone == told.zone).then(|| verdict.sentence())
        });
        let reason = gate.unwrap_or_else(|| {
            let unheard = unheard.filter(|_| waits);
            unheard.unwrap_or(told.reason).to_owned()
        });
        let report = known.and_then(|zone| Some(zone.report.as_ref()?.write()));
        let unheard = || Some(json!({"state": "Unheard", "reason": unheard?}));
        json!({
            "zone": told.zone,
            "state": told.standing.word(),
            "release": told.admitted.map(|one| one.target.release),
            "overrides": told.admitted.map(|one| one.target.class.places().collect::<Vec<_>>()),
            "phase": told.admitted.map(|one| one.phase.to_string()),
            "admittedAt": told.admitted.map(|one| one.at.to_string()),
            "reason": reason,
            "since": told.since.map(|since| since.to_string()),
            "link": known.map(|zone| zone.link.write()),
            "held": known.is_some_and(|zone| zone.hold == Hold::Held),
            "heldUntil": known.and_then(|zone| Some(zone.released_at?.to_string())),
            "report": report.or_else(unheard),
        })
    }
}

/// What was released, the oldest first.
fn releases(facts: &PolicyFacts, outcome: &Outcome) -> Vec<Value> {
    let mut holding: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let selected: BTreeSet<&str> = facts.zones.iter().map(|zone| zone.name.as_str()).collect();
    // Nobody knows what zones have that followed a state of the hub which was lost.
    let floor = ReleaseFloor::of(&facts.object).number;
    let held = outcome.record.zones.iter();
    let held = held.filter(|(_, one)| one.target.release >= floor);
    for (zone, one) in held.filter(|(zone, _)| selected.contains(zone.as_str())) {
        let holders = holding.entry(one.target.release).or_default();
        holders.push(zone);
    }
    let one = |release: &Release| {
        let content = facts.contents.get(&release.number);
        let digest = content.map(|content| content.digest.as_str());
        let zones = holding.get(&release.number).map_or(&[][..], Vec::as_slice);
        json!({
            "release": release.number,
            "digest": digest.map(|digest| &digest[..digest.len().min(SHORT)]),
            "restores": release.restores,
            "rolledBackBy": rolled_back_by(facts, release.number),
            "authors": release.authors,
            "writers": writers(release),
            "createdAt": release.data["createdAt"],
            "changes": release.data["changes"],
            "settles": release.data["settles"],
            "objects": content.map(|content| content.objects),
            "removes": content.map_or(0, |content| content.removes),
            "passed": stages(outcome, release.number, |past| &past.completed),
            "failed": stages(outcome, release.number, |past| &past.failed),
            "zones": {"count": zones.len(), "names": sets::write(zones.iter().copied())},
        })
    };
    facts.releases.iter().map(one).collect()
}

/// Those who wrote what is new in a release; of one that does not say so, its authors.
fn writers(release: &Release) -> Value {
    let writers = &release.data["writers"];
    match writers.is_array() {
        true => writers.clone(),
        false => release.data["authors"].clone(),
    }
}

/// What people agreed to, and whether that counted.
fn approvals((policy, facts, outcome): (&Policy, &PolicyFacts, &Outcome), now: Timestamp) -> Value {
    let zones = facts.zones();
    let situation = Situation {
        record: &outcome.record,
        ..facts.situation(&zones, now)
    };
    let one = |one: &Approved| {
        let mut written = one.write();
        written["counts"] = counts(policy, situation, one).into();
        written
    };
    facts.approvals.iter().map(one).collect()
}

/// The first release that brought back something older in place of a release.
fn rolled_back_by(facts: &PolicyFacts, release: u64) -> Option<u64> {
    let mut later = facts.releases.iter().filter(|one| one.number > release);
    let later = later.find(|one| one.restores.is_some_and(|to| to < release));
    later.map(|one| one.number)
}

/// The stages of which something is recorded of a release.
fn stages(outcome: &Outcome, release: u64, of: impl Fn(&Past) -> &BTreeSet<u64>) -> Vec<&str> {
    let past = &outcome.record.past;
    let is_so = |stage: &&str| {
        past.get(*stage)
            .is_some_and(|past| of(past).contains(&release))
    };
    let stages = outcome.stages.iter().map(|stage| stage.name.as_str());
    stages.filter(is_so).collect()
}
