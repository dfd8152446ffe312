//! What a policy says of itself. Pure.

use deltaplane_api::time::Time;
use deltaplane_propagation::Timestamp;
use deltaplane_propagation::stages::{
    Counted, Outcome, Policy, PolicyFacts, Problem, StageTold, Waiting,
};
use serde_json::{Map, Value, json};

use super::plan::{is_released, newest_of_head};
use crate::condition::{self, Condition};

const PROPAGATED: &str = "Propagated";
const VALID: &str = "Valid";
/// So many problems are said.
const SAID: usize = 10;

/// How all of a policy stands once what was decided took effect.
pub(super) fn told(
    facts: &PolicyFacts,
    policy: &Policy,
    outcome: &Outcome,
    now: Timestamp,
) -> Value {
    let newest = facts.releases.last().map(|release| release.number);
    let mut conditions = conditions(facts);
    let problems = problems(facts, policy, outcome);
    set(&mut conditions, valid(&problems), now);
    set(&mut conditions, propagated(facts, outcome, newest), now);
    let stages = outcome.stages.iter().map(stage);
    let mut status = Map::new();
    let mut put = |field: &str, value: Value| drop(status.insert(field.to_owned(), value));
    put(
        "observedGeneration",
        facts.object["metadata"]["generation"].clone(),
    );
    put("release", newest.into());
    put("objects", facts.head.objects.into());
    put("progress", progress(outcome, newest).into());
    put("stages", stages.collect());
    put("decisions", outcome.record.write());
    put("conditions", generations(conditions, &facts.object));
    if !problems.is_empty() {
        put("problems", problems.into_iter().take(SAID).collect());
    }
    Value::Object(status)
}

/// Of a policy that cannot be decided by.
pub(super) fn invalid(facts: &PolicyFacts, problems: &[Problem], now: Timestamp) -> Value {
    let mut status = facts.object["status"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let mut conditions = conditions(facts);
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    set(&mut conditions, valid(&said), now);
    let message = "the policy is not valid; nothing moves".to_owned();
    let propagated = condition::Wanted {
        r#type: PROPAGATED,
        holds: false,
        reason: "Invalid",
        message,
    };
    set(&mut conditions, propagated, now);
    let conditions = generations(conditions, &facts.object);
    status.insert("conditions".to_owned(), conditions);
    let generation = facts.object["metadata"]["generation"].clone();
    status.insert("observedGeneration".to_owned(), generation);
    Value::Object(status)
}

fn conditions(facts: &PolicyFacts) -> Vec<Condition> {
    let known = facts.object["status"]["conditions"].clone();
    serde_json::from_value(known).unwrap_or_default()
}

fn set(conditions: &mut Vec<Condition>, wanted: condition::Wanted, now: Timestamp) {
    condition::set(conditions, wanted, Time::from_unix(now.seconds()));
}

/// Conditions that say which generation they are about.
fn generations(mut conditions: Vec<Condition>, object: &Value) -> Value {
    for one in &mut conditions {
        let generation = object["metadata"]["generation"].clone();
        one.rest.insert("observedGeneration".to_owned(), generation);
    }
    serde_json::to_value(conditions).unwrap_or_default()
}

/// What is wrong with a policy where it is, though it can be decided by.
fn problems(facts: &PolicyFacts, policy: &Policy, outcome: &Outcome) -> Vec<String> {
    let mut problems = facts.head.problems.clone();
    if facts.head.objects == 0 && facts.releases.is_empty() {
        problems.push("spec.targets: no object is among them".to_owned());
    }
    if facts.zones.is_empty() {
        problems.push("spec.zones: no zone is selected".to_owned());
    }
    if !outcome.left_out.is_empty() {
        problems.push(format!(
            "spec.stages: no stage is for {}; a last stage without a selector takes what is left",
            outcome.left_out.join(", ")
        ));
    }
    for (stage, told) in policy.stages.iter().zip(&outcome.stages) {
        let total = told.counts.moving.total + told.counts.ahead;
        if total == 0 && !facts.zones.is_empty() {
            problems.push(format!("spec.stages: no zone is in stage {}", stage.name));
        }
    }
    problems
}

fn valid(problems: &[String]) -> condition::Wanted {
    let said = problems.iter().take(SAID).cloned().collect::<Vec<_>>();
    condition::Wanted {
        r#type: VALID,
        holds: problems.is_empty(),
        reason: if problems.is_empty() {
            "Valid"
        } else {
            "Problems"
        },
        message: said.join("; "),
    }
}

fn propagated(facts: &PolicyFacts, outcome: &Outcome, newest: Option<u64>) -> condition::Wanted {
    let done = |stage: &StageTold| newest.is_some() && stage.completed == newest;
    let behind = outcome.stages.iter().find(|stage| !done(stage));
    let (holds, reason, message) = match (newest, behind) {
        (None, _) => (
            false,
            "NothingReleased",
            "nothing was released yet".to_owned(),
        ),
        (Some(_), _) if !is_released(facts) => {
            let message = match facts.head.problems.first() {
                Some(problem) => format!("what is there cannot be released: {problem}"),
                None => "what is there is about to be released".to_owned(),
            };
            (false, "NotReleased", message)
        }
        (Some(newest), None) => {
            let restored = newest_of_head(facts) != Some(newest);
            let note = if restored {
                ", which brings back an older one"
            } else {
                ""
            };
            (
                true,
                "Propagated",
                format!("all stages completed release {newest}{note}"),
            )
        }
        (Some(_), Some(stage)) => match stage.waiting.first() {
            Some(waiting) => (
                false,
                waiting.reason(),
                format!("stage {}: {waiting}", stage.name),
            ),
            None => (
                false,
                "Progressing",
                format!("stage {}: {}", stage.name, stage.counts),
            ),
        },
    };
    condition::Wanted {
        r#type: PROPAGATED,
        holds,
        reason,
        message,
    }
}

fn stage(told: &StageTold) -> Value {
    let waiting = told.waiting.iter().map(waiting);
    json!({
        "name": told.name,
        "release": told.release,
        "completed": told.completed,
        "zones": counts(&told.counts),
        "waiting": waiting.collect::<Vec<_>>(),
    })
}

fn waiting(one: &Waiting) -> Value {
    json!({"reason": one.reason(), "message": one.to_string()})
}

fn counts(counted: &Counted) -> Value {
    let moving = &counted.moving;
    let all = [
        ("total", moving.total),
        ("current", moving.current),
        ("updating", moving.updating),
        ("failed", moving.failed),
        ("pending", moving.pending),
        ("held", moving.held),
        ("starting", moving.starting),
        ("deferred", counted.deferred),
        ("offline", counted.offline),
        ("ahead", counted.ahead),
    ];
    let shown = all
        .into_iter()
        .filter(|(name, count)| *count > 0 || *name == "total");
    let shown = shown.map(|(name, count)| (name.to_owned(), count.into()));
    Value::Object(shown.collect())
}

/// How many zones are ready at the newest release.
fn progress(outcome: &Outcome, newest: Option<u64>) -> String {
    let at_newest = outcome
        .stages
        .iter()
        .filter(|stage| stage.release == newest);
    let current: usize = at_newest.map(|stage| stage.counts.moving.current).sum();
    let total: usize = outcome
        .stages
        .iter()
        .map(|stage| stage.counts.moving.total)
        .sum();
    format!("{current}/{total}")
}
