//! Events: what changed about an instance that its owner may want to know of. What goes as it should
//! is in its conditions alone. Pure.

use deltaplane_api::admission::RESOURCE_FAILED;
use deltaplane_api::conditions;
use deltaplane_api::time::Time;
use serde_json::{Value, json};

/// What became of a condition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Note {
    r#type: &'static str,
    reason: String,
    message: String,
}

/// Messages of events are no longer.
const LONGEST: usize = 1024;
/// Conditions that say what is wrong with the objects, and what a gate keeps back.
const WRONG: &str = "ResourcesReady";
const KEPT: &str = "ResourcesPropagated";

/// What is to be noted when the one status follows the other.
pub(super) fn notes(before: &Value, after: &Value) -> Vec<Note> {
    let mut notes = Vec::new();
    for name in [WRONG, KEPT] {
        let Some(one) = find(after, name) else {
            continue;
        };
        let was = find(before, name);
        let same = |key: &str| was.is_some_and(|was| was[key] == one[key]);
        if same("status") && same("reason") && before["state"] == after["state"] {
            continue;
        }
        let fails = one["status"] == "False";
        let kept_before = was.is_some_and(|was| was["status"] == "False");
        let r#type = match (name, fails) {
            (WRONG, true) if after["state"] == "ERROR" => "Warning",
            (WRONG, true) if one["reason"] == RESOURCE_FAILED => "Warning",
            (KEPT, true) if one["reason"] == "GateError" => "Warning",
            (KEPT, true) => "Normal",
            (KEPT, false) if kept_before => "Normal",
            _ => continue,
        };
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        notes.push(Note {
            r#type,
            reason: text("reason"),
            message: shortened(text("message")),
        });
    }
    notes.extend(let_through(before, after));
    notes
}

/// A gate that kept an instance back and does not any more is not spoken of.
fn let_through(before: &Value, after: &Value) -> Option<Note> {
    let kept = find(before, KEPT).filter(|was| was["status"] == "False")?;
    let gone = find(after, KEPT).is_none() && after["state"] != "DELETING";
    let message = match kept["reason"].as_str() {
        Some("GateClosed" | "GateError") => "the gate let it move",
        Some("Held" | "Paused") => "it moves again",
        Some(_) | None => return None,
    };
    gone.then(|| Note {
        r#type: "Normal",
        reason: "Propagated".to_owned(),
        message: message.to_owned(),
    })
}

/// A condition that every instance has, of a status.
fn find<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    conditions::find_own(status, name)
}

fn shortened(mut message: String) -> String {
    if message.len() > LONGEST {
        let end = (0..=LONGEST - '…'.len_utf8()).rev();
        let end = end.into_iter().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or(0));
        message.push('…');
    }
    message
}

// === impl Note ===

impl Note {
    /// As an object about another one.
    pub(super) fn object(&self, about: &Value, now: Time) -> Value {
        let metadata = &about["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let namespace = metadata["namespace"].as_str().unwrap_or("default");
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"generateName": format!("{name}-"), "namespace": namespace},
            "involvedObject": {
                "apiVersion": about["apiVersion"], "kind": about["kind"],
                "name": name, "namespace": metadata["namespace"], "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "type": self.r#type, "reason": self.reason, "message": self.message,
            "source": {"component": "deltaplane-graphs"},
            "firstTimestamp": now.to_string(), "lastTimestamp": now.to_string(), "count": 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str, conditions: &[(&str, &str, &str)]) -> Value {
        let conditions = conditions.iter().map(|(name, status, reason)| {
            json!({"type": name, "status": status, "reason": reason, "message": format!("{name}!")})
        });
        json!({"state": state, "conditions": conditions.collect::<Vec<_>>()})
    }

    fn shown(before: &Value, after: &Value) -> Vec<String> {
        let notes = notes(before, after);
        let show = |note: &Note| format!("{} {} {}", note.r#type, note.reason, note.message);
        notes.iter().map(show).collect()
    }

    #[test]
    fn what_is_wrong_or_kept_back_is_noted_once() {
        let new = Value::Null;
        let going = status("IN_PROGRESS", &[("ResourcesReady", "False", "NotReady")]);
        assert_eq!(shown(&new, &going), [""; 0]);
        let wrong = status("ERROR", &[("ResourcesReady", "False", "NotReady")]);
        assert_eq!(shown(&going, &wrong), ["Warning NotReady ResourcesReady!"]);
        assert_eq!(shown(&wrong, &wrong), [""; 0]);
        let kept = status("ACTIVE", &[("ResourcesPropagated", "False", "GateClosed")]);
        assert_eq!(
            shown(&new, &kept),
            ["Normal GateClosed ResourcesPropagated!"]
        );
        let open = status("ACTIVE", &[("ResourcesPropagated", "True", "Propagated")]);
        assert_eq!(
            shown(&kept, &open),
            ["Normal Propagated ResourcesPropagated!"]
        );
        assert_eq!(shown(&new, &open), [""; 0]);
        let silent = status("ACTIVE", &[("ResourcesReady", "True", "AllResourcesReady")]);
        let moved = ["Normal Propagated the gate let it move"];
        assert_eq!(shown(&kept, &silent), moved);
        assert_eq!(shown(&open, &silent), [""; 0]);
        let going = status("DELETING", &[]);
        assert_eq!(shown(&kept, &going), [""; 0]);
    }

    #[test]
    fn messages_are_shortened_where_a_character_ends() {
        let long = shortened("ä".repeat(LONGEST));
        assert!(
            long.len() <= LONGEST && long.ends_with("ä…"),
            "{}",
            long.len()
        );
    }
}
