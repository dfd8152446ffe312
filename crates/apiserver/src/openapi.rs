//! OpenAPI v3: what `kubectl explain` shows and what clients check field validation by.
//!
//! One document per group and version, made when it is first asked for.

pub(crate) mod v2;

use std::collections::BTreeSet;

use bytes::Bytes;
use deltaplane_api::computed;
use serde_json::{Map, Value, json};

use crate::encode;
use crate::kinds::registry::{Document, Registry};
use crate::kinds::{Kind, Source};
use crate::typepack;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The index of all documents, each with a hash that changes when it does.
pub(crate) fn index(registry: &Registry) -> Document {
    let index = registry.documents.get("/openapi/v3", || {
        let mut paths = Map::new();
        for (group, versions) in registry.groups() {
            for version in versions {
                let document = document(registry, group, version).unwrap_or_default();
                let url = url(group, version, &document.hash);
                paths.insert(name(group, version), json!({ "serverRelativeURL": url }));
            }
        }
        Some(encode::bytes(&json!({ "paths": paths })))
    });
    index.unwrap_or_default()
}

/// Where the document of a group and version is, as long as it has this hash.
pub(crate) fn url(group: &str, version: &str, hash: &str) -> String {
    format!("/openapi/v3/{}?hash={hash}", name(group, version))
}

fn name(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

/// The document of one group and version.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Document> {
    let kinds = registry.version(group, version)?;
    let path = format!("/openapi/v3/{}", name(group, version));
    registry.documents.get(&path, || {
        let kinds: Vec<&Kind> = kinds.values().map(AsRef::as_ref).collect();
        Some(render(&kinds))
    })
}

fn render(kinds: &[&Kind]) -> Bytes {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut roots: BTreeSet<&str> = BTreeSet::from([OBJECT_META, LIST_META]);
    for kind in kinds {
        add_paths(kind, &mut paths);
        match &kind.source {
            Source::BuiltIn(row) => {
                roots.extend(
                    [row.definition, row.list_definition]
                        .iter()
                        .filter(|one| !one.is_empty()),
                );
            }
            Source::Custom(definition) => {
                let document = definition
                    .documents
                    .get(&kind.version)
                    .unwrap_or(&Value::Null);
                schemas.insert(schema_name(kind), custom_schema(kind, document));
                schemas.insert(format!("{}List", schema_name(kind)), list_schema(kind));
            }
        }
    }
    let roots: Vec<&str> = roots.into_iter().collect();
    let pack = typepack::load();
    for name in pack.reachable(&roots) {
        let text = pack.definition(name).unwrap_or("{}");
        schemas.insert(
            name.to_owned(),
            serde_json::from_str(text).unwrap_or(Value::Null),
        );
    }
    encode::bytes(&json!({
        "openapi": "3.0.0",
        "info": {"title": "Deltaplane", "version": format!("v{}", pack.release())},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// `com.example.v1.Widget`, or the definition's own name.
fn schema_name(kind: &Kind) -> String {
    match &kind.source {
        Source::BuiltIn(row) => row.definition.to_owned(),
        Source::Custom(_) => {
            let group: Vec<&str> = kind.group.split('.').rev().collect();
            format!("{}.{}.{}", group.join("."), kind.version, kind.kind)
        }
    }
}

fn gvk(kind: &Kind) -> Value {
    json!({"group": kind.group, "kind": kind.kind, "version": kind.version})
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A definition's schema with what every object has.
fn custom_schema(kind: &Kind, document: &Value) -> Value {
    let mut schema = match document.is_object() {
        true => document.clone(),
        false => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    let text = json!({"type": "string"});
    if let Some(properties) = crate::value::map_mut(&mut schema, "properties") {
        properties.insert("apiVersion".to_owned(), text.clone());
        properties.insert("kind".to_owned(), text);
        properties.insert(
            "metadata".to_owned(),
            json!({"allOf": [reference(OBJECT_META)]}),
        );
    }
    schema["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
    schema
}

fn list_schema(kind: &Kind) -> Value {
    let list = json!([{"group": kind.group, "kind": kind.list_kind, "version": kind.version}]);
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [reference(LIST_META)]},
            "items": {"type": "array", "items": {"allOf": [reference(&schema_name(kind))]}},
        },
        "x-kubernetes-group-version-kind": list,
    })
}

fn add_paths(kind: &Kind, paths: &mut Map<String, Value>) {
    let base = match kind.group.as_str() {
        "" => format!("/api/{}", kind.version),
        group => format!("/apis/{group}/{}", kind.version),
    };
    let collection = match kind.namespaced {
        true => format!("{base}/namespaces/{{namespace}}/{}", kind.plural),
        false => format!("{base}/{}", kind.plural),
    };
    let operations = |rows: &[(&str, &str)]| -> Value {
        let row = |(method, action): &(&str, &str)| ((*method).to_owned(), operation(kind, action));
        Value::Object(rows.iter().map(row).collect())
    };
    let item = [
        ("get", "get"),
        ("put", "put"),
        ("patch", "patch"),
        ("delete", "delete"),
    ];
    let all = [
        ("get", "list"),
        ("post", "post"),
        ("delete", "deletecollection"),
    ];
    paths.insert(format!("{collection}/{{name}}"), operations(&item));
    let subresources = [
        ("status", kind.status),
        (computed::SUBRESOURCE, !kind.computed.is_empty()),
    ];
    for (name, _) in subresources.iter().filter(|(_, is_there)| *is_there) {
        let path = format!("{collection}/{{name}}/{name}");
        paths.insert(path, operations(&item[..3]));
    }
    paths.insert(collection, operations(&all));
    if kind.namespaced {
        paths.insert(format!("{base}/{}", kind.plural), operations(&all[..1]));
    }
}

fn operation(kind: &Kind, action: &str) -> Value {
    let parameter =
        |name: &str, of: &str| json!({"name": name, "in": "query", "schema": {"type": of}});
    let mut parameters = vec![parameter("pretty", "string")];
    if matches!(action, "post" | "put" | "patch") {
        parameters.push(parameter("dryRun", "string"));
        parameters.push(parameter("fieldManager", "string"));
        parameters.push(parameter("fieldValidation", "string"));
    }
    if action == "patch" {
        parameters.push(parameter("force", "boolean"));
    }
    let body = match action {
        "list" => format!("{}List", schema_name(kind)),
        _ => schema_name(kind),
    };
    let content = json!({"application/json": {"schema": reference(&body)}});
    json!({
        "tags": [format!("{}_{}", kind.group, kind.version)],
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk(kind),
    })
}

/// The path below `/openapi/v3/`, as group and version.
pub(crate) fn parse(path: &str) -> Option<(&str, &str)> {
    let segments: Vec<&str> = path.split('/').collect();
    match segments.as_slice() {
        ["api", version] => Some(("", version)),
        ["apis", group, version] => Some((group, version)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_of_every_document_is_there() {
        let registry = Registry::built_in();
        for (group, versions) in registry.groups() {
            for version in versions {
                let document = document(&registry, group, version).unwrap();
                let text = std::str::from_utf8(&document.bytes).unwrap();
                let value: Value = serde_json::from_str(text).unwrap();
                let schemas = value["components"]["schemas"].as_object().unwrap();
                for part in text.split("#/components/schemas/").skip(1) {
                    let name = part.split('"').next().unwrap();
                    assert!(schemas.contains_key(name), "{group}/{version}: {name}");
                }
            }
        }
    }
}
