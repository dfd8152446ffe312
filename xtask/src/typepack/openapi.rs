//! OpenAPI v3 definitions, without the words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::{SERVED, served};

/// Definitions by name, such as `io.k8s.api.core.v1.Pod`.
pub(super) type Definitions = BTreeMap<String, Value>;

const REFERENCE: &str = "#/components/schemas/";
const GVK: &str = "x-kubernetes-group-version-kind";

/// All definitions of the served group versions. What two documents say about one must agree.
pub(super) fn definitions(dir: &Path) -> Result<Definitions> {
    let mut all = Definitions::new();
    for (group, versions) in SERVED {
        for version in versions {
            let name = match group {
                "" => format!("api__{version}_openapi.json"),
                group => format!("apis__{group}__{version}_openapi.json"),
            };
            let text = fs::read(dir.join(&name)).with_context(|| format!("reading {name}"))?;
            let mut document: Value =
                serde_json::from_slice(&text).with_context(|| format!("parsing {name}"))?;
            let Some(Value::Object(schemas)) =
                document.pointer_mut("/components/schemas").map(Value::take)
            else {
                bail!("{name} has no schemas");
            };
            for (name, schema) in schemas {
                add(&mut all, name, strip(schema))?;
            }
        }
    }
    Ok(all)
}

/// The name of the definition for a kind.
pub(super) fn find<'a>(
    definitions: &'a Definitions,
    group: &str,
    version: &str,
    kind: &str,
) -> Option<&'a str> {
    let matches = |schema: &Value| gvks(schema).any(|gvk| gvk == (group, version, kind));
    definitions
        .iter()
        .find(|(_, schema)| matches(schema))
        .map(|(name, _)| name.as_str())
}

/// Drops what cannot be reached from the roots.
pub(super) fn keep_reachable(definitions: &mut Definitions, roots: &[String]) {
    let mut reached = BTreeSet::new();
    let mut queue: Vec<String> = roots.to_vec();
    while let Some(name) = queue.pop() {
        if let Some(schema) = definitions.get(&name)
            && reached.insert(name)
        {
            references(schema, &mut queue);
        }
    }
    definitions.retain(|name, _| reached.contains(name));
}

/// Adds one, or checks that it is the same as before but for the kinds that it is listed for:
/// metav1's options are listed for another set of groups in every document.
fn add(all: &mut Definitions, name: String, schema: Value) -> Result<()> {
    let Some(known) = all.get_mut(&name) else {
        all.insert(name, only_served(schema));
        return Ok(());
    };
    let (mut left, mut right) = (known.clone(), only_served(schema));
    let both: Vec<Value> = [take(&mut left), take(&mut right)].concat();
    if left != right {
        bail!("two documents define {name} differently");
    }
    if !both.is_empty() {
        let mut merged = both;
        merged.sort_by_key(Value::to_string);
        merged.dedup();
        known[GVK] = Value::Array(merged);
    }
    Ok(())
}

fn take(schema: &mut Value) -> Vec<Value> {
    match schema.as_object_mut().and_then(|object| object.remove(GVK)) {
        Some(Value::Array(list)) => list,
        Some(_) | None => Vec::new(),
    }
}

fn only_served(mut schema: Value) -> Value {
    if let Some(Value::Array(list)) = schema.get_mut(GVK) {
        list.retain(|gvk| {
            let part = |name: &str| gvk.get(name).and_then(Value::as_str).unwrap_or_default();
            served(part("group"), part("version"))
        });
    }
    schema
}

fn gvks(schema: &Value) -> impl Iterator<Item = (&str, &str, &str)> {
    let list = schema.get(GVK).and_then(Value::as_array);
    list.into_iter().flatten().map(|gvk| {
        let part = |name: &str| gvk.get(name).and_then(Value::as_str).unwrap_or_default();
        (part("group"), part("version"), part("kind"))
    })
}

/// The schema without descriptions. A property may be named `description`, so the walk knows
/// which objects are schemas and which are maps of schemas.
fn strip(schema: Value) -> Value {
    let Value::Object(object) = schema else {
        return schema;
    };
    let kept = object
        .into_iter()
        .filter(|(key, _)| key != "description")
        .map(|(key, value)| {
            let value = match (key.as_str(), value) {
                ("properties", Value::Object(properties)) => Value::Object(strip_all(properties)),
                ("items" | "additionalProperties" | "not", schema) => strip(schema),
                ("allOf" | "oneOf" | "anyOf", Value::Array(list)) => {
                    list.into_iter().map(strip).collect()
                }
                (_, value) => value,
            };
            (key, value)
        });
    Value::Object(kept.collect())
}

fn strip_all(properties: Map<String, Value>) -> Map<String, Value> {
    properties
        .into_iter()
        .map(|(name, schema)| (name, strip(schema)))
        .collect()
}

fn references(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                match (key.as_str(), value) {
                    ("$ref", Value::String(target)) => {
                        into.extend(target.strip_prefix(REFERENCE).map(str::to_owned));
                    }
                    (_, value) => references(value, into),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|item| references(item, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn descriptions_go_but_a_property_of_that_name_stays() {
        let schema = json!({"description": "x", "properties": {
            "description": {"description": "y", "type": "string"},
            "list": {"items": {"allOf": [{"$ref": "#/a"}], "description": "z"}, "type": "array"}}});
        let expected = json!({"properties": {
            "description": {"type": "string"},
            "list": {"items": {"allOf": [{"$ref": "#/a"}]}, "type": "array"}}});
        assert_eq!(strip(schema), expected);
    }
}
