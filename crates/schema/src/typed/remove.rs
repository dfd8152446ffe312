//! What is left of a value when fields are taken away, and what those fields are.

use serde_json::{Map, Value};

use super::{Shape, Shapes, entry, is_atomic_list, is_atomic_map, item_element, items};
use crate::fieldset::{PathElement, Set};
use crate::node::Node;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Remove,
    Extract,
}

/// `value` without the fields of `set`. What is emptied that way becomes null.
pub fn remove_items(value: &Value, set: &Set, node: Node<'_>) -> Value {
    walk(value, set, node, Mode::Remove)
}

/// Only the fields of `set`.
pub fn extract_items(value: &Value, set: &Set, node: Node<'_>) -> Value {
    walk(value, set, node, Mode::Extract)
}

fn walk(value: &Value, set: &Set, node: Node<'_>, mode: Mode) -> Value {
    match (Shapes::of(node).deduced(Some(value)).first(), value) {
        (Shape::Scalar(_), value) => value.clone(),
        (Shape::List, Value::Array(list)) => match list.is_empty() || is_atomic_list(node) {
            true => whole(value, mode),
            false => walk_list(list, set, node, mode),
        },
        (Shape::Map, Value::Object(map)) => match map.is_empty() || is_atomic_map(node) {
            true => whole(value, mode),
            false => walk_map(map, set, node, mode),
        },
        (Shape::List | Shape::Map, _) => Value::Null,
    }
}

fn whole(value: &Value, mode: Mode) -> Value {
    match mode {
        Mode::Extract => value.clone(),
        Mode::Remove => Value::Null,
    }
}

fn walk_list(list: &[Value], set: &Set, node: Node<'_>, mode: Mode) -> Value {
    let mut out = Vec::new();
    for item in list {
        let found = item_element(node, item)
            .ok()
            .and_then(|element| set.get(&element));
        let (exact, below) =
            found.map_or((false, None), |found| (found.member, Some(&found.children)));
        let below = below.filter(|below| !below.is_empty());
        let keep = match mode {
            Mode::Extract => exact || below.is_some(),
            Mode::Remove => !exact,
        };
        if keep {
            out.push(below.map_or_else(
                || item.clone(),
                |below| walk(item, below, items(node), mode),
            ));
        }
    }
    if out.is_empty() {
        Value::Null
    } else {
        Value::Array(out)
    }
}

fn walk_map(map: &Map<String, Value>, set: &Set, node: Node<'_>, mode: Mode) -> Value {
    let mut out = Map::new();
    for (name, value) in map {
        let child = entry(node, name).0;
        let found = set.get(&PathElement::field(name));
        let below = found
            .map(|found| &found.children)
            .filter(|below| !below.is_empty());
        let kept = match (found, below, mode) {
            (Some(found), _, Mode::Remove) if found.member => continue,
            // A field that is taken as a whole takes along what the set says one level up.
            (Some(found), _, Mode::Extract) if found.member => walk(value, set, child, mode),
            (_, Some(below), _) => walk(value, below, child, mode),
            (_, None, Mode::Remove) => value.clone(),
            (_, None, Mode::Extract) => continue,
        };
        out.insert(name.clone(), kept);
    }
    if out.is_empty() {
        Value::Null
    } else {
        Value::Object(out)
    }
}
