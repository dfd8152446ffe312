//! Jobs: they run once, and what has finished stays finished.

use serde_json::{Value, json};

use deltaplane_api::time::Time;

use crate::condition::Wanted;

use super::super::object::Object;
use super::{Stage, conditions, conditions_of, counts, kept, message};

const BACKOFF_LIMIT: i64 = 6;
const SUSPENDED: &str = "Suspended";

pub(super) fn job(object: &Object, stage: Stage, now: Time) -> Value {
    if object.is_finished() {
        return object.status.clone();
    }
    let before = conditions_of(object);
    let suspended = object.spec["suspend"] == true;
    let was_suspended = before.iter().any(|one| one.r#type == SUSPENDED);
    let (mut wanted, numbers) = match suspended {
        true => (Vec::new(), Vec::new()),
        false => at(object, stage),
    };
    if suspended || was_suspended {
        wanted.insert(0, suspension(object, suspended));
    }
    let mut status = counts(&[], &numbers);
    if !wanted.is_empty() {
        let conditions = conditions(object, wanted, now);
        status.insert("conditions".to_owned(), json!(conditions));
    }
    if !suspended {
        let start = kept(&object.status["startTime"], now);
        status.insert("startTime".to_owned(), start);
    }
    if !suspended && stage == Stage::Healthy {
        status.insert("completionTime".to_owned(), now.to_value());
    }
    Value::Object(status)
}

/// Conditions and counts of a job that is not suspended.
fn at(object: &Object, stage: Stage) -> (Vec<Wanted>, Vec<(&'static str, i64)>) {
    let completions = object.completions();
    match stage {
        Stage::UnderWay => {
            let active = object.active_pods();
            (Vec::new(), vec![("active", active), ("ready", active)])
        }
        Stage::Healthy => {
            let ends = ["SuccessCriteriaMet", "Complete"];
            let text = "Reached expected number of succeeded pods";
            let ends = ends.map(|end| holding(object, end, "CompletionsReached", text));
            (ends.into(), vec![("succeeded", completions)])
        }
        Stage::Failed => {
            let ends = ["FailureTarget", "Failed"];
            let text = "Job has reached the specified backoff limit";
            let ends = ends.map(|end| holding(object, end, "BackoffLimitExceeded", text));
            let retries = object.number("backoffLimit").unwrap_or(BACKOFF_LIMIT);
            (ends.into(), vec![("failed", retries.saturating_add(1))])
        }
    }
}

fn holding(object: &Object, r#type: &'static str, reason: &'static str, text: &str) -> Wanted {
    Wanted {
        r#type,
        holds: true,
        reason,
        message: message(object, text),
    }
}

fn suspension(object: &Object, holds: bool) -> Wanted {
    let (reason, text) = match holds {
        true => ("JobSuspended", "Job suspended"),
        false => ("JobResumed", "Job resumed"),
    };
    Wanted {
        holds,
        ..holding(object, SUSPENDED, reason, text)
    }
}
