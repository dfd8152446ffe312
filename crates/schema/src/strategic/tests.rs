use serde_json::{Value, json};

use super::*;
use crate::Definitions;

fn schema() -> Schema {
    let container = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "image": {"type": "string"},
        "args": {"type": "array", "items": {"type": "string"}},
        "env": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}},
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge",
        },
    }});
    let root = json!({"type": "object", "properties": {
        "containers": {
            "type": "array",
            "items": {"$ref": "#/components/schemas/Container"},
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge",
        },
        "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        "strategy": {
            "type": "object",
            "properties": {"type": {"type": "string"}, "rolling": {"type": "object"}},
            "x-kubernetes-patch-strategy": "retainKeys",
        },
        "selector": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    }});
    let definitions = [("Root", &root), ("Container", &container)];
    Definitions::from_openapi(definitions)
        .unwrap()
        .get("Root")
        .unwrap()
}

fn check(object: Value, patch: Value, expected: Value) {
    assert_eq!(apply(&schema(), &object, &patch), Ok(expected), "{patch}");
}

fn refuse(object: Value, patch: Value, expected: &str) {
    assert_eq!(
        apply(&schema(), &object, &patch).unwrap_err().to_string(),
        expected
    );
}

#[test]
fn objects_merge_and_nulls_delete() {
    check(
        json!({"labels": {"a": "1", "b": "2"}, "other": {"x": [1]}}),
        json!({"labels": {"a": null, "c": "3"}, "other": {"x": [2], "y": {"z": null}}}),
        json!({"labels": {"b": "2", "c": "3"}, "other": {"x": [2], "y": {}}}),
    );
    check(
        json!({"labels": {"a": "1"}}),
        json!({"labels": {"$patch": "replace", "b": "2"}}),
        json!({"labels": {"b": "2"}}),
    );
    check(
        json!({"labels": {"a": "1"}}),
        json!({"labels": {"$patch": "delete"}}),
        json!({"labels": {}}),
    );
    check(
        json!({"selector": {"a": "1"}}),
        json!({"selector": {"b": "2"}}),
        json!({"selector": {"b": "2"}}),
    );
    refuse(
        json!({}),
        json!({"$patch": "what"}),
        "unknown patch type: \"what\" in map",
    );
    refuse(json!({}), json!([]), "the patch must be an object");
}

#[test]
fn keyed_lists_merge_by_key() {
    let object = json!({"containers": [
        {"name": "a", "image": "a:1", "args": ["x"], "env": [{"name": "E", "value": "1"}]},
        {"name": "b", "image": "b:1"},
    ]});
    check(
        object.clone(),
        json!({"containers": [{"name": "a", "image": "a:2", "args": ["y"], "env": [{"name": "F", "value": "2"}]}, {"name": "c"}]}),
        json!({"containers": [
            {"name": "a", "image": "a:2", "args": ["y"], "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]},
            {"name": "c"},
            {"name": "b", "image": "b:1"},
        ]}),
    );
    check(
        object.clone(),
        json!({"containers": [{"$patch": "delete", "name": "a"}]}),
        json!({"containers": [{"name": "b", "image": "b:1"}]}),
    );
    check(
        object.clone(),
        json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}),
        json!({"containers": [{"name": "z"}]}),
    );
    refuse(
        object.clone(),
        json!({"containers": [{"image": "x"}]}),
        r#"map: {"image":"x"} does not contain declared merge key: name"#,
    );
    refuse(
        object,
        json!({"containers": ["x"]}),
        "list element types are not identical",
    );
}

#[test]
fn order_is_set_by_parallel_lists() {
    let object = json!({"containers": [{"name": "a"}, {"name": "s"}, {"name": "b"}]});
    check(
        object.clone(),
        json!({
            "$setElementOrder/containers": [{"name": "b"}, {"name": "n"}, {"name": "a"}],
            "containers": [{"name": "n", "image": "n:1"}],
        }),
        json!({"containers": [{"name": "s"}, {"name": "b"}, {"name": "n", "image": "n:1"}, {"name": "a"}]}),
    );
    refuse(
        object,
        json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "n"}]}),
        r#"the order in the patch list [{"name":"n"}] does not match its $setElementOrder list"#,
    );
}

#[test]
fn lists_of_scalars_merge_by_value() {
    let object = json!({"finalizers": ["a", "b"]});
    check(
        object.clone(),
        json!({"finalizers": ["c", "a"]}),
        json!({"finalizers": ["c", "a", "b"]}),
    );
    check(
        object.clone(),
        json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]}),
        json!({"finalizers": ["b"]}),
    );
    check(
        object.clone(),
        json!({"$setElementOrder/finalizers": ["b", "c"], "finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}),
        json!({"finalizers": ["b", "c"]}),
    );
    refuse(
        object,
        json!({"$deleteFromPrimitiveList": ["a"]}),
        "invalid patch format of primitive list",
    );
}

#[test]
fn retain_keys_drops_the_rest() {
    let object = json!({"strategy": {"type": "Rolling", "rolling": {"max": 1}}});
    check(
        object.clone(),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        json!({"strategy": {"type": "Recreate"}}),
    );
    refuse(
        object,
        json!({"strategy": {"$retainKeys": ["rolling"], "type": "Recreate"}}),
        "invalid patch format of retainKeys",
    );
}
