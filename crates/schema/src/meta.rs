//! The schema of `ObjectMeta`, which every object has, whatever its kind.

use std::sync::OnceLock;

use serde_json::{Value, json};

/// `metav1.ObjectMeta` as its OpenAPI definition gives it, without descriptions.
pub(crate) fn object_meta() -> &'static Value {
    static META: OnceLock<Value> = OnceLock::new();
    META.get_or_init(|| {
        let text = json!({"type": "string"});
        let number = json!({"type": "integer", "format": "int64"});
        let time = json!({"type": "string", "format": "date-time"});
        let texts =
            json!({"type": "object", "additionalProperties": {"type": "string", "default": ""}});
        json!({
            "title": "v1.ObjectMeta",
            "type": "object",
            "properties": {
                "annotations": texts,
                "creationTimestamp": time,
                "deletionGracePeriodSeconds": number,
                "deletionTimestamp": time,
                "finalizers": {
                    "type": "array",
                    "items": {"type": "string", "default": ""},
                    "x-kubernetes-list-type": "set",
                    "x-kubernetes-patch-strategy": "merge",
                },
                "generateName": text,
                "generation": number,
                "labels": texts,
                "managedFields": {
                    "type": "array",
                    "items": managed_fields_entry(),
                    "x-kubernetes-list-type": "atomic",
                },
                "name": text,
                "namespace": text,
                "ownerReferences": {
                    "type": "array",
                    "items": owner_reference(),
                    "x-kubernetes-list-map-keys": ["uid"],
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-patch-merge-key": "uid",
                    "x-kubernetes-patch-strategy": "merge",
                },
                "resourceVersion": text,
                "selfLink": text,
                "uid": text,
            },
        })
    })
}

fn managed_fields_entry() -> Value {
    let text = json!({"type": "string"});
    json!({
        "title": "v1.ManagedFieldsEntry",
        "type": "object",
        "properties": {
            "apiVersion": text,
            "fieldsType": text,
            "fieldsV1": {"type": "object"},
            "manager": text,
            "operation": text,
            "subresource": text,
            "time": {"type": "string", "format": "date-time"},
        },
    })
}

fn owner_reference() -> Value {
    let text = json!({"type": "string", "default": ""});
    json!({
        "title": "v1.OwnerReference",
        "type": "object",
        "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": text,
            "blockOwnerDeletion": {"type": "boolean"},
            "controller": {"type": "boolean"},
            "kind": text,
            "name": text,
            "uid": text,
        },
        "x-kubernetes-map-type": "atomic",
    })
}
