//! Places in a definition, by JSON pointers.

use serde_json::{Map, Value};

/// What is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Texts with expressions in them.
    Expression,
    /// Everything else in templates that has nothing below it.
    Literal,
}

pub(super) struct Place {
    pub(super) pointer: String,
    pub(super) value: String,
}

pub(super) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// All places of a shape.
pub(super) fn all(object: &Value, shape: Shape) -> Vec<Place> {
    let mut found = Vec::new();
    let resources = object["spec"]["resources"].as_array().into_iter().flatten();
    for (at, resource) in resources.enumerate() {
        match shape {
            Shape::Expression => walk(
                resource,
                &format!("/spec/resources/{at}"),
                shape,
                &mut found,
            ),
            Shape::Literal => {
                let template = resource.get("template").unwrap_or(&Value::Null);
                let pointer = format!("/spec/resources/{at}/template");
                walk(template, &pointer, shape, &mut found);
            }
        }
    }
    if shape == Shape::Expression {
        let status = &object["spec"]["schema"]["status"];
        let mut fields = Vec::new();
        walk(status, "/spec/schema/status", shape, &mut fields);
        // Of a list whose items differ kro takes any.
        let listed = |place: &Place| {
            place
                .pointer
                .split('/')
                .any(|key| key.parse::<usize>().is_ok())
        };
        found.extend(fields.into_iter().filter(|place| !listed(place)));
    }
    found
}

fn walk(value: &Value, pointer: &str, shape: Shape, found: &mut Vec<Place>) {
    let place = |value: String| Place {
        pointer: pointer.to_owned(),
        value,
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                walk(value, &format!("{pointer}/{}", escaped(key)), shape, found);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                walk(value, &format!("{pointer}/{at}"), shape, found);
            }
        }
        Value::String(text) if text.contains("${") => {
            if shape == Shape::Expression {
                found.push(place(text.clone()));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            if shape == Shape::Literal {
                found.push(place(value.to_string()));
            }
        }
    }
}

/// Puts a value at a place, making objects on the way; `-` is the end of a list. False when it
/// cannot be there.
pub(in super::super) fn set(object: &mut Value, pointer: &str, value: Value) -> bool {
    let Some((parent, key)) = pointer.rsplit_once('/') else {
        return false;
    };
    let missing = object.pointer(parent).is_none_or(Value::is_null);
    if missing && !set(object, parent, Value::Object(Map::new())) {
        return false;
    }
    let key = key.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.insert(key, value);
            true
        }
        Some(Value::Array(items)) if key == "-" => {
            items.push(value);
            true
        }
        Some(Value::Array(items)) => match key.parse::<usize>() {
            Ok(at) if at < items.len() => {
                items[at] = value;
                true
            }
            Ok(_) | Err(_) => false,
        },
        _ => false,
    }
}

/// Takes away what is at a place. False when there is nothing.
pub(in super::super) fn remove(object: &mut Value, pointer: &str) -> bool {
    let Some((parent, key)) = pointer.rsplit_once('/') else {
        return false;
    };
    let key = key.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) => map.remove(&key).is_some(),
        Some(Value::Array(items)) => match key.parse::<usize>() {
            Ok(at) if at < items.len() => {
                items.remove(at);
                true
            }
            Ok(_) | Err(_) => false,
        },
        _ => false,
    }
}
