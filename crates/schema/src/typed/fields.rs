//! Which fields a value has.

use serde_json::Value;

use super::{
    Shape, Shapes, as_list, as_map, entry, is_atomic_list, is_atomic_map, item_element, items,
};
use crate::fieldset::{PathElement, Set};
use crate::node::Node;

/// All leaves and items of `value`.
pub fn fields(value: &Value, node: Node<'_>) -> Set {
    walk(value, node).1
}

/// Whether the value is itself a field, and the fields in it.
fn walk(value: &Value, node: Node<'_>) -> (bool, Set) {
    match Shapes::of(node).deduced(Some(value)).first() {
        Shape::Scalar(_) => (true, Set::new()),
        Shape::List if is_atomic_list(node) => (true, Set::new()),
        Shape::Map if is_atomic_map(node) => (true, Set::new()),
        Shape::List => (false, list_fields(as_list(Some(value)), node)),
        Shape::Map => (false, map_fields(value, node)),
    }
}

fn map_fields(value: &Value, node: Node<'_>) -> Set {
    let mut set = Set::new();
    for (name, value) in as_map(Some(value)).into_iter().flatten() {
        let (child, declared) = entry(node, name);
        let (own, below) = walk(value, child);
        let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        set.put(PathElement::field(name), own || empty || !declared, below);
    }
    set
}

fn list_fields(list: &[Value], node: Node<'_>) -> Set {
    let mut items_by_element: Vec<(PathElement, &Value)> = list
        .iter()
        .filter_map(|item| Some((item_element(node, item).ok()?, item)))
        .collect();
    items_by_element.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut set = Set::new();
    for group in items_by_element.chunk_by(|(a, _), (b, _)| a == b) {
        let below = match group {
            [(_, item)] => walk(item, items(node)).1,
            // Of items that occur twice, nobody can own a part.
            _ => Set::new(),
        };
        set.put(group[0].0.clone(), true, below);
    }
    set
}
