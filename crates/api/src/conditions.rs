//! Conditions in statuses: what holds of an object, for programs.

use serde_json::Value;

/// The kind that a definition defines is served, and everyone may know.
pub const ESTABLISHED: &str = "Established";

/// The names that a definition wants are its own.
pub const NAMES_ACCEPTED: &str = "NamesAccepted";

/// The prefix of our own condition types on instances of a graph whose author defines conditions.
pub const OWN: &str = "deltaplane.io/";

/// Finds a condition that every instance of a graph has, whatever its author says of conditions.
///
/// ```
/// use deltaplane_api::conditions::of_instance;
/// use serde_json::json;
///
/// let status = |conditions| json!({"status": {"conditions": conditions}});
/// let usual = status(json!([{"type": "Ready", "status": "True"}]));
/// assert_eq!(of_instance(&usual, "Ready").unwrap()["status"], "True");
/// let authored = status(json!([
///     {"type": "Ready", "status": "True"}, {"type": "deltaplane.io/Ready", "status": "False"},
/// ]));
/// assert_eq!(of_instance(&authored, "Ready").unwrap()["status"], "False");
/// assert!(of_instance(&authored, "GraphResolved").is_none());
/// ```
pub fn of_instance<'a>(instance: &'a Value, r#type: &str) -> Option<&'a Value> {
    find_own(&instance["status"], r#type)
}

/// The same, given the status alone.
pub fn find_own<'a>(status: &'a Value, r#type: &str) -> Option<&'a Value> {
    let all = status["conditions"].as_array();
    let authored = are_authored(status);
    all?.iter().find(|one| {
        let name = one["type"].as_str().unwrap_or_default();
        match authored {
            true => name.strip_prefix(OWN) == Some(r#type),
            false => name == r#type,
        }
    })
}

/// Returns true if a status has conditions that the author of a graph wrote, beside those that every
/// instance has.
pub fn are_authored(status: &Value) -> bool {
    let all = status["conditions"].as_array().into_iter().flatten();
    let mut names = all.filter_map(|one| one["type"].as_str());
    names.any(|name| name.starts_with(OWN))
}

/// Whether the condition of this type is there and true. Each condition is a type and a status.
///
/// ```
/// use deltaplane_api::conditions::{ESTABLISHED, hold};
///
/// assert!(hold([("NamesAccepted", "True"), ("Established", "True")], ESTABLISHED));
/// assert!(!hold([("Established", "False")], ESTABLISHED));
/// ```
pub fn hold<'a>(conditions: impl IntoIterator<Item = (&'a str, &'a str)>, r#type: &str) -> bool {
    let mut conditions = conditions.into_iter();
    let found = conditions.find(|(one, _)| *one == r#type);
    found.is_some_and(|(_, status)| status == "True")
}

/// Whether a definition with these conditions is served. It is once it has its names; that it is
/// established is said afterwards, so that whoever reads it finds it served.
pub fn are_of_a_served_definition<'a, I>(conditions: I) -> bool
where
    I: IntoIterator<Item = (&'a str, &'a str), IntoIter: Clone>,
{
    let conditions = conditions.into_iter();
    hold(conditions.clone(), NAMES_ACCEPTED) || hold(conditions, ESTABLISHED)
}
