//! Conditions in statuses: what holds of an object, for programs.

/// The kind that a definition defines is served, and everyone may know.
pub const ESTABLISHED: &str = "Established";

/// The names that a definition wants are its own.
pub const NAMES_ACCEPTED: &str = "NamesAccepted";

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
