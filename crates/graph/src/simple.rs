//! Stands in for the SimpleSchema of `deltaplane-schema` until that is there.

use deltaplane_api::field::Path;
use serde_json::{Map, Value as Json, json};

/// The OpenAPI schema of an object that is described in SimpleSchema.
pub(crate) fn compile(
    spec: &Json,
    _types: &Json,
    path: &Path,
) -> Result<Json, Vec<(Path, String)>> {
    let mut problems = Vec::new();
    let schema = object(spec, path, &mut problems);
    match problems.is_empty() {
        true => Ok(schema),
        false => Err(problems),
    }
}

/// The plural of a kind's name in small letters.
pub(crate) fn pluralize(singular: &str) -> String {
    match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if singular.ends_with(['s', 'x']) => format!("{singular}es"),
        _ => format!("{singular}s"),
    }
}

fn object(spec: &Json, path: &Path, problems: &mut Vec<(Path, String)>) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut defaults = false;
    for (name, node) in spec.as_object().into_iter().flatten() {
        let (mut schema, markers) = match node {
            Json::Object(_) => (object(node, &path.child(name), problems), ""),
            Json::String(text) => {
                let (ty, markers) = text.split_once('|').unwrap_or((text, ""));
                (typed(ty.trim(), &path.child(name), problems), markers)
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => {
                problems.push((path.child(name), "unexpected type".to_owned()));
                continue;
            }
        };
        for (key, value) in markers
            .split_whitespace()
            .filter_map(|one| one.split_once('='))
        {
            match key {
                "required" if value == "true" => required.push(name.clone()),
                "default" => {
                    let text = || value.trim_matches('"').into();
                    schema["default"] = match schema["type"].as_str() {
                        Some("string") => text(),
                        _ => serde_json::from_str(value).unwrap_or_else(|_| text()),
                    };
                }
                _ => {}
            }
        }
        defaults |= schema.get("default").is_some();
        properties.insert(name.clone(), schema);
    }
    let mut schema = json!({"type": "object"});
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    match required.is_empty() {
        false => schema["required"] = required.into(),
        true if defaults => schema["default"] = json!({}),
        true => {}
    }
    schema
}

fn typed(ty: &str, path: &Path, problems: &mut Vec<(Path, String)>) -> Json {
    if let Some(item) = ty.strip_prefix("[]") {
        return json!({"type": "array", "items": typed(item, path, problems)});
    }
    if let Some(value) = ty.strip_prefix("map[string]") {
        return json!({"type": "object", "additionalProperties": typed(value, path, problems)});
    }
    match ty {
        "string" | "integer" | "boolean" => json!({"type": ty}),
        "float" => json!({"type": "number"}),
        "object" => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        other => {
            problems.push((path.clone(), format!("unknown type: {other}")));
            json!({})
        }
    }
}
