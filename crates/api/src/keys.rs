//! Annotations of ours that users write, and that cross with the objects they are on; and the label
//! that says where an object is from.

use serde_json::Value;

/// On an instance or a Zone: it stays as it is until this time, or, if it is none, until it is taken
/// away, unless it says `false`.
pub const HOLD: &str = "deltaplane.io/hold";
/// On a workload: what a zone that simulates workloads makes of it.
pub const SIMULATE: &str = "deltaplane.io/simulate";
/// On the definition of a graph: none of its instances may move for now, unless it says `false`.
pub const PAUSED: &str = "deltaplane.io/paused";

/// On the definition of a graph: the version of it, whole or its first ten digits, whose deletions
/// may exceed the deletion budget.
pub const APPROVED_DELETIONS: &str = "deltaplane.io/approved-deletions";

/// The label of every mirrored object, with its origin: `hub` or `zone`.
pub const ORIGIN: &str = "deltaplane.io/origin";

/// Returns the hold of an object with this metadata; none if nothing is held.
pub fn hold(metadata: &Value) -> Option<&str> {
    let said = metadata["annotations"][HOLD].as_str()?.trim();
    (!said.eq_ignore_ascii_case("false")).then_some(said)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hold_that_says_false_holds_nothing() {
        for (held, expected) in [
            (json!("true"), Some("true")),
            (
                json!(" 2026-12-01T08:00:00Z "),
                Some("2026-12-01T08:00:00Z"),
            ),
            (json!("until I say so"), Some("until I say so")),
            (json!("false"), None),
            (json!("False"), None),
            (Value::Null, None),
        ] {
            let metadata = json!({"annotations": {HOLD: held}});
            assert_eq!(hold(&metadata), expected, "{held}");
        }
    }
}
