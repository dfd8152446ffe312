//! PriorityClasses.

use deltaplane_api::field::{Error, Path};
use serde_json::Value;

use super::{GENERIC, Strategy, immutable};
use crate::value;

pub(crate) static PRIORITY_CLASS: Strategy = Strategy {
    generation: true,
    validate: Some(validate_priority_class),
    ..GENERIC
};

/// The names of Kubernetes' own classes begin with this.
const SYSTEM_PREFIX: &str = "system-";
/// Kubernetes' own classes, and their values.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];
const HIGHEST_USER_VALUE: i64 = 1_000_000_000;

/// The range of a class, and what Pods were admitted by: neither value nor preemption may change.
fn validate_priority_class(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    let Some(old) = old else {
        errors.extend(range_fault(new));
        return errors;
    };
    if new["value"] != old["value"] {
        let detail = "may not be changed in an update.";
        errors.push(Error::forbidden(Path::new("value"), detail));
    }
    immutable("preemptionPolicy", new, old, &mut errors);
    errors
}

fn range_fault(class: &Value) -> Option<Error> {
    let name = value::text(class, "metadata.name");
    let priority = class["value"].as_i64().unwrap_or(0);
    if !name.starts_with(SYSTEM_PREFIX) {
        let detail =
            format!("maximum allowed value of a user defined priority is {HIGHEST_USER_VALUE}");
        return (priority > HIGHEST_USER_VALUE)
            .then(|| Error::forbidden(Path::new("value"), detail));
    }
    let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name);
    let why = match known {
        None => format!("{name} is not a known system priority class"),
        Some((_, expected)) if *expected != priority => {
            format!("value of {name} PriorityClass must be {expected}")
        }
        Some(_) if class["globalDefault"] == true => {
            format!("globalDefault of {name} PriorityClass must be false")
        }
        Some(_) => return None,
    };
    let detail = format!(
        "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
    );
    Some(Error::forbidden(
        Path::new("metadata").child("name"),
        detail,
    ))
}
