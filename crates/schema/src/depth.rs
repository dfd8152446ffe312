//! How deeply values may be nested.
//!
//! The walks of this crate, and those of `serde_json` itself (drop, clone, compare), recurse. The
//! JSON parser stops at 127 levels, but patches can build deeper values out of shallow ones.

use serde_json::Value;

/// No accepted object is nested deeper, its managed fields apart: they repeat its nesting five
/// levels further in, and what is stored must be within the parser's limit to be read again.
pub const MAX_DEPTH: usize = 120;
/// No set of fields is nested deeper: its leaves are objects, where an object's may be texts.
pub(crate) const MAX_SET_DEPTH: usize = MAX_DEPTH + 1;

/// The value is nested too deeply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object is nested deeper than {MAX_DEPTH} levels")]
pub struct TooDeep;

/// Whether an object is nested deeper than [`MAX_DEPTH`], its managed fields apart.
pub fn too_deep(object: &Value) -> bool {
    let Value::Object(fields) = object else {
        return exceeds(object, MAX_DEPTH);
    };
    fields.iter().any(|(name, field)| match field.as_object() {
        Some(metadata) if name == "metadata" => {
            let own = metadata.iter().filter(|(name, _)| *name != "managedFields");
            own.map(|(_, field)| field)
                .any(|field| exceeds(field, MAX_DEPTH - 2))
        }
        Some(_) | None => exceeds(field, MAX_DEPTH - 1),
    })
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
        assert!(!too_deep_at(20, &nested(100)));
        assert!(too_deep_at(21, &nested(100)));
        assert!(too_deep_at(MAX_DEPTH + 1, &Value::Null));
        let object = |name: &str, depth| serde_json::json!({"metadata": {name: nested(depth)}});
        assert!(!too_deep(&object("annotations", MAX_DEPTH - 2)));
        assert!(too_deep(&object("annotations", MAX_DEPTH - 1)));
        assert!(!too_deep(&object("managedFields", MAX_DEPTH)));
    }
}
