//! Fills in default values, and removes nulls where null is not a value.

use serde_json::Value;

use crate::node::{Node, Schema};

impl Schema {
    /// Sets what is missing and has a default. Nulls that are not allowed are replaced by the
    /// default or, without one, dropped.
    pub fn default(&self, object: &mut Value) {
        fill(object, self.root());
    }
}

fn fill(value: &mut Value, node: Node<'_>) {
    if node.is_untyped() {
        return;
    }
    match value {
        Value::Object(map) => {
            let forbidden = |name: &str, value: &Value| {
                value.is_null()
                    && node
                        .child(name)
                        .is_some_and(|child| !child.nullable() && written(child).is_none())
            };
            if map.iter().any(|(name, value)| forbidden(name, value)) {
                map.retain(|name, value| !forbidden(name, value));
            }
            for (name, property) in node.properties() {
                let Some(default) = written(property) else {
                    continue;
                };
                match map.get_mut(name) {
                    None => drop(map.insert(name.to_owned(), default.clone())),
                    Some(value) if value.is_null() && !property.nullable() => {
                        *value = default.clone()
                    }
                    Some(_) => {}
                }
            }
            for (name, value) in map.iter_mut() {
                let Some(child) = node.child(name) else {
                    continue;
                };
                replace_null(value, child);
                fill(value, child);
            }
        }
        Value::Array(list) => {
            let Some(items) = node.items() else { return };
            for item in list {
                replace_null(item, items);
                fill(item, items);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replace_null(value: &mut Value, node: Node<'_>) {
    if value.is_null()
        && !node.nullable()
        && let Some(default) = written(node)
    {
        *value = default.clone();
    }
}

/// The default that is written into objects.
fn written(node: Node<'_>) -> Option<&Value> {
    node.default().filter(|_| !node.flags().zero_default)
}
