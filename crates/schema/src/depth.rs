//! How deeply values may be nested.
//!
//! The walks of this crate, and those of `serde_json` itself (drop, clone, compare), recurse. The
//! JSON parser stops at the same depth, but patches can build deeper values out of shallow ones.

use serde_json::Value;

/// No accepted value is nested deeper; the JSON parser's own limit.
pub const MAX_DEPTH: usize = 128;

/// The value is nested too deeply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object is nested deeper than {MAX_DEPTH} levels")]
pub struct TooDeep;

/// Whether `value` is nested deeper than [`MAX_DEPTH`].
pub fn too_deep(value: &Value) -> bool {
    exceeds(value, MAX_DEPTH)
}

/// Whether `value`, put this many levels deep into another, nests deeper than [`MAX_DEPTH`].
pub fn too_deep_at(level: usize, value: &Value) -> bool {
    MAX_DEPTH
        .checked_sub(level)
        .is_none_or(|left| exceeds(value, left))
}

pub(crate) fn check(value: &Value) -> Result<(), TooDeep> {
    match too_deep(value) {
        true => Err(TooDeep),
        false => Ok(()),
    }
}

fn exceeds(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(list) => left == 0 || list.iter().any(|item| exceeds(item, left - 1)),
        Value::Object(map) => left == 0 || map.values().any(|item| exceeds(item, left - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
    }

    #[test]
    fn the_limit_is_exact() {
        assert!(!too_deep(&nested(MAX_DEPTH)));
        assert!(too_deep(&nested(MAX_DEPTH + 1)));
        assert!(!too_deep_at(28, &nested(100)));
        assert!(too_deep_at(29, &nested(100)));
        assert!(too_deep_at(MAX_DEPTH + 1, &Value::Null));
    }
}
