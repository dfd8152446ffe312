//! What a policy says of itself. Pure.

use deltaplane_api::time::Time;
use deltaplane_propagation::Timestamp;
use deltaplane_propagation::stages::{
    Outcome, PolicyFacts, Problem, Propagated, cut, progress, rolled_back,
};
use serde_json::{Map, Value};

use crate::condition::{self, Condition};

const PROPAGATED: &str = "Propagated";
const VALID: &str = "Valid";
/// So many problems are said, each in so many bytes.
const SAID: usize = 10;
const PROBLEM: usize = 500;
/// A condition says no more.
const MESSAGE: usize = 1000;
/// So much of what stages wait for is stored, of all stages together, and one of each in any case.
const WAITING: usize = 48;

/// How all of a policy stands once what was decided took effect.
pub(super) fn told(
    facts: &PolicyFacts,
    outcome: &Outcome,
    problems: &[String],
    now: Timestamp,
) -> Value {
    let newest = facts.releases.last().map(|release| release.number);
    let mut conditions = conditions(facts);
    let problems: Vec<String> = problems.iter().map(|one| cut(one, PROBLEM)).collect();
    set(&mut conditions, valid(&problems), now);
    set(&mut conditions, propagated(facts, outcome), now);
    let rolled_back = rolled_back(facts);
    let rolled_back = wanted("RolledBack", rolled_back);
    set(&mut conditions, rolled_back, now);
    let each = (WAITING / outcome.stages.len().max(1)).max(1);
    let stages = outcome.stages.iter().map(|one| one.write_brief(each));
    let (current, total) = progress(&outcome.stages, newest);
    let mut status = Map::new();
    let mut put = |field: &str, value: Value| drop(status.insert(field.to_owned(), value));
    put(
        "observedGeneration",
        facts.object["metadata"]["generation"].clone(),
    );
    put("release", newest.into());
    put("objects", facts.head.objects.into());
    put("progress", format!("{current}/{total}").into());
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
    let said = problems.iter().map(|one| cut(&one.to_string(), PROBLEM));
    let said: Vec<String> = said.collect();
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
    let said = said.into_iter().take(SAID).collect();
    status.insert("problems".to_owned(), said);
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

/// All of them are said beside it.
fn valid(problems: &[String]) -> condition::Wanted {
    let first = problems.first().map(|first| cut(first, MESSAGE));
    let message = match (first, problems.len()) {
        (None, _) => String::new(),
        (Some(first), 1) => first,
        (Some(first), all) => format!("{first}; and {} more", all - 1),
    };
    condition::Wanted {
        r#type: VALID,
        holds: problems.is_empty(),
        reason: if problems.is_empty() {
            "Valid"
        } else {
            "Problems"
        },
        message,
    }
}

fn propagated(facts: &PolicyFacts, outcome: &Outcome) -> condition::Wanted {
    wanted(PROPAGATED, Propagated::of(facts, outcome))
}

fn wanted(r#type: &'static str, said: Propagated) -> condition::Wanted {
    let Propagated {
        holds,
        reason,
        message,
    } = said;
    condition::Wanted {
        r#type,
        holds,
        reason,
        message: cut(&message, MESSAGE),
    }
}
