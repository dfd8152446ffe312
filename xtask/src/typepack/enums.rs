//! The values that fields may have, as a kube-apiserver of the release gives them: the published
//! documents leave them out.

use anyhow::{Context, Result};
use serde_json::Value;

use super::SERVED;
use super::openapi::Definitions;
use crate::cluster::Cluster;
use crate::proxy::JSON;

/// Adds them to the definitions that both know.
pub(super) fn add(definitions: &mut Definitions, cluster: &Cluster) -> Result<()> {
    for (group, versions) in SERVED {
        for version in versions {
            let path = match group {
                "" => format!("/openapi/v3/api/{version}"),
                group => format!("/openapi/v3/apis/{group}/{version}"),
            };
            let document = cluster.get(&path, JSON)?.ok();
            let document = document.with_context(|| format!("reading {path}"))?;
            let schemas = document
                .pointer("/components/schemas")
                .and_then(Value::as_object)
                .with_context(|| format!("{path} has no schemas"))?;
            for (name, schema) in schemas {
                if let Some(definition) = definitions.get_mut(name) {
                    copy(schema, definition);
                }
            }
        }
    }
    Ok(())
}

/// Copies `enum` from one schema to another of the same shape.
fn copy(from: &Value, to: &mut Value) {
    if let (Some(values), Some(to)) = (from.get("enum"), to.as_object_mut()) {
        to.insert("enum".to_owned(), values.clone());
    }
    for key in ["items", "additionalProperties"] {
        if let (Some(from), Some(to)) = (from.get(key), to.get_mut(key)) {
            copy(from, to);
        }
    }
    let properties = from.get("properties").and_then(Value::as_object);
    for (name, from) in properties.into_iter().flatten() {
        if let Some(to) = to.get_mut("properties").and_then(|all| all.get_mut(name)) {
            copy(from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_copied_to_where_they_belong() {
        let from = json!({"description": "x", "properties": {
            "a": {"type": "string", "enum": ["x"]},
            "b": {"items": {"enum": ["y"]}},
            "c": {"additionalProperties": {"enum": ["z"]}},
            "new": {"enum": ["n"]}}});
        let mut to = json!({"properties": {
            "a": {"type": "string"}, "b": {"items": {}}, "c": {"additionalProperties": {}}}});
        copy(&from, &mut to);
        let expected = json!({"properties": {
            "a": {"type": "string", "enum": ["x"]},
            "b": {"items": {"enum": ["y"]}},
            "c": {"additionalProperties": {"enum": ["z"]}}}});
        assert_eq!(to, expected);
    }
}
