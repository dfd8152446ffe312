//! Conditions in status: what holds, since when, and why. Pure.

use serde::{Deserialize, Serialize};

use deltaplane_api::conditions;
use deltaplane_api::time::Time;

/// One condition, as Kubernetes writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    pub(crate) r#type: String,
    pub(crate) status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_transition_time: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// What other versions of us, or of Kubernetes, may have written.
    #[serde(flatten)]
    pub(crate) rest: serde_json::Map<String, serde_json::Value>,
}

/// What a condition should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) r#type: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Sets a condition, leaving the others and their order. The time is that of the last change of
/// status.
pub(crate) fn set(conditions: &mut Vec<Condition>, wanted: Wanted, now: Time) {
    let Wanted {
        r#type,
        holds,
        reason,
        message,
    } = wanted;
    let status = if holds { "True" } else { "False" };
    let existing = conditions
        .iter_mut()
        .find(|condition| condition.r#type == r#type);
    match existing {
        Some(condition) => {
            if condition.status != status {
                status.clone_into(&mut condition.status);
                condition.last_transition_time = Some(now.to_string());
            }
            reason.clone_into(&mut condition.reason);
            condition.message = message;
        }
        None => conditions.push(Condition {
            r#type: r#type.to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(now.to_string()),
            reason: reason.to_owned(),
            message,
            rest: serde_json::Map::new(),
        }),
    }
}

/// Whether the condition is there and holds.
pub(crate) fn holds(conditions: &[Condition], r#type: &str) -> bool {
    conditions::hold(pairs(conditions), r#type)
}

/// Types and statuses.
pub(crate) fn pairs(conditions: &[Condition]) -> impl Iterator<Item = (&str, &str)> + Clone {
    let conditions = conditions.iter();
    conditions.map(|one| (one.r#type.as_str(), one.status.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(before: Value, holds: bool, expected: Value) {
        let mut conditions: Vec<Condition> = serde_json::from_value(before).expect("conditions");
        let wanted = Wanted {
            r#type: "Ready",
            holds,
            reason: "Now",
            message: "it is".to_owned(),
        };
        set(&mut conditions, wanted, Time::from_unix(0));
        assert_eq!(serde_json::to_value(&conditions).expect("JSON"), expected);
        assert_eq!(super::holds(&conditions, "Ready"), holds);
        assert!(!super::holds(&conditions, "Other"));
    }

    #[test]
    fn the_time_is_that_of_the_last_change_of_status() {
        let ready = |status: &str, time: &str| {
            json!({"type": "Ready", "status": status, "lastTransitionTime": time,
                "reason": "Now", "message": "it is"})
        };
        let other = json!({"type": "Other", "status": "Unknown", "observedGeneration": 3});
        let (then, now) = ("1969-01-01T00:00:00Z", "1970-01-01T00:00:00Z");
        check(json!([]), true, json!([ready("True", now)]));
        check(
            json!([ready("True", then)]),
            true,
            json!([ready("True", then)]),
        );
        check(
            json!([ready("True", then), other]),
            false,
            json!([ready("False", now), other]),
        );
    }
}
