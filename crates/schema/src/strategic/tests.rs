use proptest::prelude::{ProptestConfig, any, prop, prop_assert_eq, proptest};
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

/// Names of so many items that work for each pair of them does not end.
fn many_names() -> impl Iterator<Item = String> {
    (0..60_000).map(|number| format!("n{number}"))
}

#[test]
fn long_lists_merge_without_comparing_all_pairs() {
    let named: Vec<Value> = many_names().map(|name| json!({ "name": name })).collect();
    let deletes = many_names().map(|name| json!({"name": name, "$patch": "delete"}));
    let deletes: Vec<Value> = deletes.collect();
    let object = json!({ "containers": named });
    check(
        object.clone(),
        json!({ "containers": deletes }),
        json!({"containers": []}),
    );
    check(
        object.clone(),
        json!({"containers": deletes, "$setElementOrder/containers": []}),
        json!({"containers": []}),
    );
    let reversed: Vec<Value> = named.iter().rev().cloned().collect();
    check(
        object,
        json!({"$setElementOrder/containers": reversed, "containers": reversed}),
        json!({ "containers": reversed }),
    );
}

#[test]
fn many_retained_keys_are_not_compared_in_pairs() {
    let fields: Map<String, Value> = many_names().map(|name| (name, json!(1))).collect();
    let mut patch = fields.clone();
    patch.insert(RETAIN_KEYS.to_owned(), many_names().collect());
    let expected = json!({ "labels": fields });
    check(expected.clone(), json!({ "labels": patch }), expected);
}

/// Each of these items merges the long list of the one container again.
#[test]
fn a_list_is_not_merged_again_and_again() {
    let env: Vec<Value> = (0..1_000)
        .map(|number| json!({"name": format!("E{number}")}))
        .collect();
    let object = json!({"containers": [{"name": "a", "env": env}]});
    let merge = |count: usize| {
        let one = json!({"name": "a", "env": [{"name": "X"}]});
        let patch = json!({"containers": vec![one; count]});
        let (object, schema) = (object.as_object().cloned().unwrap(), schema());
        let patch = patch.as_object().cloned().unwrap();
        merge_map(object, patch, Some(schema.root()), &mut MergeBudget(10_000))
    };
    let merged = merge(9).unwrap();
    let env = merged["containers"][0]["env"].as_array();
    assert_eq!(env.map(Vec::len), Some(1_001));
    assert_eq!(merge(10), Err(StrategicError::TooManyItems));
}

/// What Kubernetes does to the old list, one item after the other, in the same memory.
fn places_in_place(old: &[Value], new: &[Value]) -> Vec<Value> {
    let mut places = old.to_vec();
    let mut used = places.len();
    for gone in new.iter().filter(|item| item.get(PATCH).is_some()) {
        let is_gone = |item: &Value| item["name"] == gone["name"];
        while let Some(index) = places[..used].iter().position(is_gone) {
            let last = places[used - 1].clone();
            places[index..used].rotate_left(1);
            used -= 1;
            places[used] = last;
        }
    }
    for added in new.iter().filter(|item| item.get(PATCH).is_none()) {
        let is_known = |item: &Value| item["name"] == added["name"];
        if !places[..used].iter().any(is_known) && used < places.len() {
            places[used] = added.clone();
            used += 1;
        }
    }
    places
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn places_are_those_of_merging_in_place(
        old in prop::collection::vec(0_u8..8, 0..12),
        new in prop::collection::vec((0_u8..10, any::<bool>()), 0..12),
    ) {
        let number = |(at, name): (usize, u8)| json!({"name": name.to_string(), "at": at});
        let old: Vec<Value> = old.into_iter().enumerate().map(number).collect();
        let new = new.into_iter().map(|(name, is_gone)| match is_gone {
            true => json!({"name": name.to_string(), "$patch": "delete"}),
            false => json!({"name": name.to_string()}),
        });
        let new: Vec<Value> = new.collect();
        let strategy = Strategy { merge: true, replace: false, merge_key: Some("name") };
        prop_assert_eq!(
            lists::places(Some(&old), Some(&new), strategy),
            places_in_place(&old, &new)
        );
    }
}
