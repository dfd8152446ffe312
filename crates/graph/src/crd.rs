//! The CustomResourceDefinition of the kind that a graph defines, as kro makes it.

use serde_json::{Map, Value as Json, json};

use crate::definition::Instance;
use crate::graph::{Graph, GraphKind};
use crate::labels;

/// Whose definition it is, for the labels that kro's definitions carry.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The name of the ResourceGraphDefinition.
    pub name: &'a str,
    /// Its UID.
    pub id: &'a str,
    /// The version of the program that writes it.
    pub version: &'a str,
}

// === impl Graph ===

impl Graph {
    /// The CustomResourceDefinition with the labels that say who it belongs to.
    pub fn owned_crd(&self, owner: Owner<'_>) -> Json {
        let mut crd = self.crd.clone();
        let marks = crd["metadata"]
            .as_object_mut()
            .map(|metadata| metadata.entry("labels").or_insert_with(|| json!({})));
        if let Some(Json::Object(marks)) = marks {
            for (key, value) in [
                (labels::OWNED, "true"),
                (labels::VERSION, owner.version),
                (labels::DEFINITION, owner.id),
                (labels::DEFINITION_NAME, owner.name),
            ] {
                marks.insert(key.to_owned(), labels::value(value).into());
            }
        }
        crd
    }
}

/// The definition for schemas of the spec and the status.
pub(crate) fn generate(instance: &Instance, kind: &GraphKind, spec: Json, status: Json) -> Json {
    let mut names = json!({
        "kind": kind.kind,
        "listKind": format!("{}List", kind.kind),
        "plural": kind.plural,
        "singular": kind.singular,
    });
    for (key, list) in [
        ("shortNames", &instance.short_names),
        ("categories", &instance.categories),
    ] {
        if !list.is_empty() {
            names[key] = list.clone().into();
        }
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata(instance, kind),
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": kind.version,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": spec,
                        "status": with_defaults(status),
                    },
                }},
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns(instance),
            }],
        },
    })
}

fn metadata(instance: &Instance, kind: &GraphKind) -> Json {
    let mut metadata = Map::new();
    metadata.insert(
        "name".to_owned(),
        format!("{}.{}", kind.plural, kind.group).into(),
    );
    if let Some(given) = &instance.metadata {
        for (key, map) in [
            ("labels", &given.labels),
            ("annotations", &given.annotations),
        ] {
            if !map.is_empty() {
                metadata.insert(key.to_owned(), json!(map));
            }
        }
    }
    Json::Object(metadata)
}

/// `state` and `conditions`, unless the author has fields of these names.
fn with_defaults(mut status: Json) -> Json {
    if status.get("properties").is_none() {
        status["properties"] = json!({});
    }
    if let Some(Json::Object(properties)) = status.get_mut("properties") {
        properties
            .entry("state")
            .or_insert_with(|| json!({"type": "string"}));
        properties.entry("conditions").or_insert_with(conditions);
    }
    status
}

fn conditions() -> Json {
    json!({"type": "array", "items": {"type": "object", "properties": {
        "type": {"type": "string"},
        "status": {"type": "string"},
        "reason": {"type": "string"},
        "message": {"type": "string"},
        "lastTransitionTime": {"type": "string"},
        "observedGeneration": {"type": "integer"},
    }}})
}

/// The columns given, or `State`, `Ready` and `Age`.
fn columns(instance: &Instance) -> Json {
    if !instance.columns.is_empty() {
        return instance.columns.clone().into();
    }
    json!([
        {
            "name": "State",
            "description": "The state of a ResourceGraphDefinition instance",
            "type": "string",
            "jsonPath": ".status.state",
        },
        {
            "name": "Ready",
            "description": "Whether a ResourceGraphDefinition instance is ready",
            "type": "string",
            "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        },
        {
            "name": "Age",
            "description": "Age of the resource",
            "type": "date",
            "jsonPath": ".metadata.creationTimestamp",
        },
    ])
}
