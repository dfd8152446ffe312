//! Whether a value fits its schema well enough to be merged.

use serde_json::Value;

use super::{Shape, Shapes, TypeErrors, check_scalar, element, item_element, items, kind_name};
use crate::fieldset::PathElement;
use crate::node::{ListType, Node};

/// Whether granular lists may hold an item twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    Allowed,
    Refused,
}

/// Whether `value` can be merged under `node`.
pub fn check(value: &Value, node: Node<'_>, duplicates: Duplicates) -> Result<(), TypeErrors> {
    match Shapes::of(node).deduced(Some(value)).first() {
        Shape::Map => check_map(value, node, duplicates),
        Shape::List => check_list(value, node, duplicates),
        Shape::Scalar(scalar) => check_scalar(scalar, Some(value)).map_err(TypeErrors::one),
    }
}

fn check_map(value: &Value, node: Node<'_>, duplicates: Duplicates) -> Result<(), TypeErrors> {
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Ok(()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(TypeErrors::one(format!(
                "expected map, got {}",
                kind_name(value)
            )));
        }
    };
    let mut errors = TypeErrors::none();
    for (name, value) in map {
        let below = match node.property(name).or_else(|| element(node)) {
            Some(child) => check(value, child, duplicates),
            None => Err(TypeErrors::one("field not declared in schema")),
        };
        if below.is_err() {
            errors.adopt(&PathElement::field(name), below);
        }
    }
    errors.into_result()
}

fn check_list(value: &Value, node: Node<'_>, duplicates: Duplicates) -> Result<(), TypeErrors> {
    let list = match value {
        Value::Array(list) => list,
        Value::Null => return Ok(()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            return Err(TypeErrors::one(format!(
                "expected list, got {}",
                kind_name(value)
            )));
        }
    };
    let granular = node.list_type() != ListType::Atomic;
    let mut errors = TypeErrors::none();
    let mut seen = Vec::with_capacity(if granular { list.len() } else { 0 });
    for (index, item) in list.iter().enumerate() {
        let below = check(item, items(node), duplicates);
        if !granular {
            if below.is_err() {
                errors.adopt(
                    &PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX)),
                    below,
                );
            }
            continue;
        }
        match item_element(node, item) {
            // Without a name for the item there is no telling where its errors are.
            Err(error) => {
                errors.push(format!("element {index}: {error}"));
                return errors.into_result();
            }
            Ok(element) => {
                errors.adopt(&element, below);
                seen.push(element);
            }
        }
    }
    if duplicates == Duplicates::Refused {
        seen.sort();
        let mut repeated: Vec<_> = seen
            .windows(2)
            .filter(|pair| pair[0] == pair[1])
            .map(|pair| &pair[0])
            .collect();
        repeated.dedup();
        repeated
            .into_iter()
            .for_each(|element| errors.push(format!("duplicate entries for key {element}")));
    }
    errors.into_result()
}
