//! Conditions in statuses: what holds of an object, for programs.

/// The kind that a definition defines is served.
pub const ESTABLISHED: &str = "Established";

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
