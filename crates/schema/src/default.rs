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

#[cfg(test)]
mod tests {
    use deltaplane_api::field::Path;
    use serde_json::json;

    use super::*;
    use crate::{Definitions, crd};

    #[test]
    fn defaults_are_nested_and_replace_nulls() {
        let spec = json!({"type": "object", "default": {}, "properties": {
            "count": {"type": "integer", "default": 1},
            "name": {"type": "string"},
            "maybe": {"type": "string", "nullable": true, "default": "x"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"port": {"type": "integer", "default": 80}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let schema = crd::compile(&schema, &Path::root(), crd::Options::default()).unwrap();
        let check = |mut object: Value, expected: Value| {
            schema.default(&mut object);
            assert_eq!(object, expected);
        };
        check(json!({}), json!({"spec": {"count": 1, "maybe": "x"}}));
        check(
            json!({"spec": {"count": null, "name": null, "maybe": null, "list": [{}, null], "map": {"a": null, "b": "c"}}}),
            json!({"spec": {"count": 1, "maybe": null, "list": [{"port": 80}, null], "map": {"b": "c"}}}),
        );
    }

    #[test]
    fn zero_values_of_built_in_types_are_not_written() {
        let thing = json!({"type": "object", "properties": {
            "protocol": {"type": "string", "default": "TCP"},
            "name": {"type": "string", "default": ""},
            "status": {"type": "object", "default": {}, "properties": {"x": {"type": "string", "default": "y"}}},
        }});
        let schema = Definitions::from_openapi([("Thing", &thing)])
            .unwrap()
            .get("Thing")
            .unwrap();
        let mut object = json!({});
        schema.default(&mut object);
        assert_eq!(object, json!({"protocol": "TCP"}));
    }
}
