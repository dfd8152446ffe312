//! Looking into and changing JSON values by path.

use serde_json::{Map, Value};

/// The JSON type, as Go names it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The value at `path` (`metadata.name`), or null.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, field| {
        value.get(field).unwrap_or(&Value::Null)
    })
}

/// The text at `path`, or empty.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// The list at `path`, or empty.
pub(crate) fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path)
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The texts of the list at `path`.
pub(crate) fn texts<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a str> {
    list(value, path).iter().filter_map(Value::as_str)
}

/// The entries of the map at `path`.
pub(crate) fn entries<'a>(
    value: &'a Value,
    path: &str,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let map = at(value, path).as_object();
    map.into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
}

/// The map under `field`, made if it is not there. None if `value` is no object.
pub(crate) fn map_mut<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let slot = value
        .as_object_mut()?
        .entry(field)
        .or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
}

/// Takes the field out; null if it is not there.
pub(crate) fn take(value: &mut Value, field: &str) -> Value {
    value
        .as_object_mut()
        .and_then(|map| map.remove(field))
        .unwrap_or(Value::Null)
}

/// Sets the field, or removes it when `new` is null.
pub(crate) fn set(value: &mut Value, field: &str, new: Value) {
    let Some(map) = value.as_object_mut() else {
        return;
    };
    if new.is_null() {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), new);
    }
}

/// Sets what is at `path`, making the objects on the way. False if something on the way is no
/// object.
pub(crate) fn set_at(value: &mut Value, path: &str, new: Value) -> bool {
    let mut slot = value;
    let mut fields = path.split('.').peekable();
    while let Some(field) = fields.next() {
        if slot.is_null() {
            *slot = Value::Object(Map::new());
        }
        let Some(map) = slot.as_object_mut() else {
            return false;
        };
        if fields.peek().is_none() {
            map.insert(field.to_owned(), new);
            return true;
        }
        slot = map.entry(field).or_insert(Value::Null);
    }
    false
}

/// Makes what is at `path` what it is in `from`: absent, if it is absent there.
pub(crate) fn copy_at(value: &mut Value, from: &Value, path: &str) {
    if let Some(found) = path
        .split('.')
        .try_fold(from, |from, field| from.get(field))
    {
        set_at(value, path, found.clone());
        return;
    }
    if let Some((parent, field)) = parent_mut(value, path) {
        take(parent, field);
    }
}

/// Takes away what is at `path` if it is null.
pub(crate) fn take_null_at(value: &mut Value, path: &str) {
    if let Some((parent, field)) = parent_mut(value, path)
        && parent.get(field).is_some_and(Value::is_null)
    {
        take(parent, field);
    }
}

/// The value that holds what is at `path`, and the field in it.
fn parent_mut<'v, 'p>(value: &'v mut Value, path: &'p str) -> Option<(&'v mut Value, &'p str)> {
    let Some((parents, field)) = path.rsplit_once('.') else {
        return Some((value, path));
    };
    let mut parents = parents.split('.');
    let parent = parents.try_fold(value, |value, field| value.get_mut(field))?;
    Some((parent, field))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_made_on_the_way() {
        let mut value = json!({"a": {"b": 1}, "s": "text"});
        assert!(set_at(&mut value, "a.c.d", json!(2)));
        assert!(!set_at(&mut value, "s.x", json!(2)));
        assert_eq!(value, json!({"a": {"b": 1, "c": {"d": 2}}, "s": "text"}));
        assert_eq!(at(&value, "a.c.d"), &json!(2));
        assert_eq!(at(&value, "a.x.d"), &Value::Null);
    }

    #[test]
    fn what_is_copied_is_there_or_not() {
        let check = |path: &str, expected: Value| {
            let mut value = json!({"a": {"b": 1, "c": 2}});
            copy_at(&mut value, &json!({"a": {"b": 7, "n": null}}), path);
            assert_eq!(value, expected, "{path}");
        };
        check("a.b", json!({"a": {"b": 7, "c": 2}}));
        check("a.c", json!({"a": {"b": 1}}));
        check("a.n", json!({"a": {"b": 1, "c": 2, "n": null}}));
        check("a.x.y", json!({"a": {"b": 1, "c": 2}}));
        check("x", json!({"a": {"b": 1, "c": 2}}));
    }
}
