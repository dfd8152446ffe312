//! Embedded resources are whole objects: they have a kind and sound metadata.

use deltaplane_api::field::{Error, Path};
use deltaplane_api::names;
use serde_json::{Map, Value};

use crate::node::Node;

pub(crate) fn check(value: &Value, node: Node<'_>, path: &Path, errors: &mut Vec<Error>) {
    if node.is_untyped() || node.flags().decoded {
        return;
    }
    match value {
        Value::Object(map) => {
            if node.is_embedded_resource() {
                resource(map, path, errors);
            }
            for (name, value) in map
                .iter()
                .filter(|(_, value)| value.is_object() || value.is_array())
            {
                if let Some(child) = node.property(name) {
                    check(value, child, &path.child(name), errors);
                } else if let Some(child) = node.child(name) {
                    check(value, child, &path.key(name), errors);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = node.items() else { return };
            for (index, item) in list
                .iter()
                .enumerate()
                .filter(|(_, item)| item.is_object() || item.is_array())
            {
                check(item, items, &path.index(index), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(crate) fn resource(map: &Map<String, Value>, path: &Path, errors: &mut Vec<Error>) {
    for name in ["apiVersion", "kind"] {
        let path = path.child(name);
        match map.get(name) {
            None => errors.push(Error::required(path, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(Error::invalid(path, "", "must not be empty"));
            }
            Some(Value::String(text)) => errors.extend(type_meta(name, text, path)),
            Some(other) => errors.push(Error::invalid(path, other.clone(), "must be a string")),
        }
    }
    if let Some(metadata) = map.get("metadata").and_then(Value::as_object) {
        object_meta(metadata, &path.child("metadata"), errors);
    }
}

fn type_meta(name: &str, text: &str, path: Path) -> Option<Error> {
    if name == "apiVersion" {
        return (text.matches('/').count() > 1).then(|| {
            Error::invalid(
                path,
                text,
                format!("unexpected GroupVersion string: {text}"),
            )
        });
    }
    let faults = names::dns_1035(&text.to_lowercase());
    let words = || {
        format!(
            "may have mixed case, but should otherwise match: {}",
            faults.join(",")
        )
    };
    (!faults.is_empty()).then(|| Error::invalid(path, text, words()))
}

fn object_meta(metadata: &Map<String, Value>, path: &Path, errors: &mut Vec<Error>) {
    let mut report = |path: Path, value: &str, faults: Vec<String>| {
        errors.extend(
            faults
                .into_iter()
                .map(|fault| Error::invalid(path.clone(), value, fault)),
        );
    };
    let text = |name: &str| {
        metadata
            .get(name)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    if let Some(name) = text("name") {
        report(path.child("name"), name, names::path_segment(name));
    }
    if let Some(prefix) = text("generateName") {
        report(
            path.child("generateName"),
            prefix,
            names::NameRule::PathSegment.check_prefix(prefix),
        );
    }
    if let Some(namespace) = text("namespace") {
        report(
            path.child("namespace"),
            namespace,
            names::dns_label(namespace),
        );
    }
    let entries = |name: &str| {
        metadata
            .get(name)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
    };
    for (key, value) in entries("labels") {
        report(path.child("labels"), key, names::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        report(path.child("labels"), value, names::label_value(value));
    }
    for (key, _) in entries("annotations") {
        report(
            path.child("annotations"),
            key,
            names::qualified_name(&key.to_lowercase()),
        );
    }
}
