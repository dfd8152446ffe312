//! The kinds that graphs are written in: kro's, and what we add to them.

use deltaplane_client::Resource;
use serde_json::{Value, json};

/// The version of both kinds.
const VERSION: &str = "v1alpha1";
/// Graphs are of this group, and their kinds, unless they say otherwise.
pub const GROUP: &str = "kro.run";
const INTERNAL: &str = "internal.kro.run";

/// Definitions of graphs.
pub fn definitions() -> Resource {
    let (plural, kind) = ("resourcegraphdefinitions", "ResourceGraphDefinition");
    Resource::cluster(GROUP, VERSION, plural, kind)
}

/// What definitions were.
pub fn revisions() -> Resource {
    Resource::cluster(INTERNAL, VERSION, "graphrevisions", "GraphRevision")
}

pub(super) fn custom_kinds() -> Resource {
    let (plural, kind) = ("customresourcedefinitions", "CustomResourceDefinition");
    Resource::cluster("apiextensions.k8s.io", "v1", plural, kind)
}

/// The CustomResourceDefinitions of both kinds.
pub fn kinds() -> [Value; 2] {
    let definition = kind(
        &definitions(),
        "rgd",
        json!({
            "spec": spec(),
            "status": {"type": "object", "properties": {
                "state": {"type": "string"},
                "topologicalOrder": texts(),
                "conditions": conditions(),
                "resources": dependencies(),
                "lastIssuedRevision": {"type": "integer", "format": "int64"},
                "propagation": open(),
                "deletions": deletions(),
            }},
        }),
        json!([
            column("APIVERSION", ".spec.schema.apiVersion"),
            column("KIND", ".spec.schema.kind"),
            column("STATE", ".status.state"),
            column("READY", READY),
            {"name": "TOPOLOGICALORDER", "type": "string", "jsonPath": ".status.topologicalOrder", "priority": 1},
            {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
    );
    [definition, revision_kind()]
}

fn revision_kind() -> Value {
    let mut revision = kind(
        &revisions(),
        "gr",
        json!({
            "spec": {
                "type": "object",
                "required": ["revision", "snapshot"],
                "properties": {
                    "revision": {
                        "type": "integer", "format": "int64", "minimum": 1,
                        "maximum": super::revision::HIGHEST,
                    },
                    "snapshot": {
                        "type": "object",
                        "required": ["generation", "name", "spec"],
                        "properties": {
                            "name": {"type": "string"},
                            "generation": {"type": "integer", "format": "int64"},
                            "spec": spec(),
                        },
                    },
                },
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec is immutable"}],
            },
            "status": {"type": "object", "properties": {
                "topologicalOrder": texts(),
                "conditions": conditions(),
                "resources": dependencies(),
            }},
        }),
        json!([
            {"name": "RGD", "type": "string", "jsonPath": ".spec.snapshot.name", "priority": 1},
            {"name": "REVISION", "type": "integer", "jsonPath": ".spec.revision"},
            {"name": "HASH", "type": "string", "priority": 1,
             "jsonPath": r".metadata.labels.kro\.run/graph-revision-hash"},
            column("READY", READY),
            {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
    );
    revision["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.snapshot.name"}]);
    revision
}

const READY: &str = r#".status.conditions[?(@.type=="Ready")].status"#;

fn kind(resource: &Resource, short: &str, fields: Value, columns: Value) -> Value {
    let Resource {
        group,
        plural,
        kind,
        ..
    } = resource;
    let mut properties = fields;
    for name in ["apiVersion", "kind"] {
        properties[name] = json!({"type": "string"});
    }
    properties["metadata"] = json!({"type": "object"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": kind.to_lowercase(), "shortNames": [short],
            },
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            }],
        },
    })
}

fn column(name: &str, path: &str) -> Value {
    json!({"name": name, "type": "string", "jsonPath": path})
}

fn texts() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

/// Maps from names to texts.
fn named_texts() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn conditions() -> Value {
    json!({"type": "array", "items": {
        "type": "object",
        "required": ["status", "type"],
        "properties": {
            "type": {"type": "string"},
            "status": {"type": "string"},
            "reason": {"type": "string"},
            "message": {"type": "string"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        },
    }})
}

/// The schema of the deletions that versions made and hold.
fn deletions() -> Value {
    let count = || json!({"type": "integer", "format": "int64", "minimum": 0});
    json!({"type": "array", "items": {
        "type": "object",
        "required": ["version"],
        "properties": {
            "version": {"type": "string"},
            "baseline": count(),
            "deleted": count(),
            "held": count(),
        },
    }})
}

fn dependencies() -> Value {
    let id = json!({"type": "string"});
    json!({"type": "array", "items": {"type": "object", "properties": {
        "id": id,
        "dependencies": {"type": "array", "items": {"type": "object", "properties": {"id": id}}},
    }}})
}

/// The schema of a definition. Beyond kro's: `serviceAccountName`, `propagateWhen`, `orderBy` and
/// `deletionBudget`.
fn spec() -> Value {
    json!({
        "type": "object",
        "required": ["schema"],
        "properties": {
            "schema": schema(),
            "resources": {"type": "array", "items": resource()},
            "serviceAccountName": {
                "type": "string", "maxLength": 253,
                "description": "The service account that instances act as, in the namespace of the instance (deltaplane-system for instances in none); deltaplane-graphs if it is not given.",
            },
            "propagateWhen": texts(),
            "orderBy": {"type": "string"},
            "deletionBudget": {
                "type": "object",
                "description": "How many objects of instances a version of the graph may delete without approval: max, or percent of what there was when the version came, whichever is more.",
                "properties": {
                    "max": {"type": "integer", "format": "int64", "minimum": 0},
                    "percent": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100},
                },
            },
        },
    })
}

fn schema() -> Value {
    let name =
        json!({"type": "string", "maxLength": 63, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"});
    let names = json!({
        "type": "array", "items": name, "maxItems": 32, "x-kubernetes-list-type": "set",
    });
    json!({
        "type": "object",
        "required": ["apiVersion", "kind", "scope"],
        "properties": {
            "kind": fixed("kind", json!({"pattern": "^[A-Z][a-zA-Z0-9]{0,62}$"})),
            "apiVersion": fixed("apiVersion", json!({"pattern": "^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$"})),
            "group": fixed("group", json!({"default": GROUP})),
            "scope": fixed("scope", json!({"default": "Namespaced", "enum": ["Namespaced", "Cluster"]})),
            "spec": open(),
            "types": open(),
            "status": open(),
            "additionalPrinterColumns": {"type": "array", "items": {
                "type": "object",
                "required": ["jsonPath", "name", "type"],
                "properties": {
                    "name": {"type": "string"},
                    "type": {"type": "string"},
                    "jsonPath": {"type": "string"},
                    "description": {"type": "string"},
                    "format": {"type": "string"},
                    "priority": {"type": "integer", "format": "int32"},
                },
            }},
            "shortNames": names,
            "categories": names,
            "metadata": {"type": "object", "properties": {
                "labels": named_texts(),
                "annotations": named_texts(),
            }},
        },
    })
}

/// A text that stays as it was first written.
fn fixed(name: &str, further: Value) -> Value {
    let message = format!("{name} is immutable");
    let mut field = json!({
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": message}],
    });
    for (key, value) in further.as_object().into_iter().flatten() {
        field[key] = value.clone();
    }
    field
}

fn resource() -> Value {
    json!({
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "string"},
            "template": open(),
            "externalRef": {
                "type": "object",
                "required": ["apiVersion", "kind", "metadata"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object", "properties": {
                        "name": {"type": "string", "minLength": 1},
                        "namespace": {"type": "string"},
                        "selector": {"x-kubernetes-preserve-unknown-fields": true},
                    }},
                },
            },
            "readyWhen": texts(),
            "includeWhen": texts(),
            "propagateWhen": texts(),
            "orderBy": {"type": "string"},
            "forEach": {"type": "array", "items": {
                "type": "object", "minProperties": 1, "maxProperties": 1,
                "additionalProperties": {"type": "string"},
            }},
        },
        "x-kubernetes-validations": [{
            "rule": "has(self.template) != has(self.externalRef)",
            "message": "exactly one of template or externalRef must be provided",
        }],
    })
}
