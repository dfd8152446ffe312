//! A kind with every sort of field, and objects of it.

use deltaplane_api::field::Path;
use deltaplane_schema::{Schema, crd};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Granular and atomic lists and maps, sets, defaults, nullable and untyped fields.
pub(crate) fn schema() -> Schema {
    let item = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "port": {"type": "integer", "default": 80},
            "more": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    });
    let raw = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "count": {"type": "integer", "default": 1},
        "nothing": {"type": "string", "nullable": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "integer"}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "port"],
            "items": item,
        },
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    crd::compile(&raw, &Path::root(), crd::Options::default()).expect("a structural schema")
}

fn word() -> impl Strategy<Value = String> {
    proptest::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned)
}

fn words() -> impl Strategy<Value = Value> {
    btree_map(word(), word(), 0..3).prop_map(|map| map.into_iter().collect::<Value>())
}

fn keyed() -> impl Strategy<Value = Value> {
    let item = (option::of(0..2_i64), option::of(words()));
    btree_map(word(), item, 0..4)
        .prop_shuffle_items()
        .prop_map(|items| {
            let item = |(name, (port, more)): (String, (Option<i64>, Option<Value>))| {
                let mut map = Map::new();
                map.insert("name".to_owned(), name.into());
                map.extend(port.map(|port| ("port".to_owned(), port.into())));
                map.extend(more.map(|more| ("more".to_owned(), more)));
                Value::Object(map)
            };
            items.into_iter().map(item).collect()
        })
}

/// The order of a list's items must vary too.
trait ShuffleItems: Strategy + Sized {
    fn prop_shuffle_items<K, V>(self) -> impl Strategy<Value = Vec<(K, V)>>
    where
        Self: Strategy<Value = std::collections::BTreeMap<K, V>>,
        K: Clone + std::fmt::Debug,
        V: Clone + std::fmt::Debug,
    {
        self.prop_map(|map| map.into_iter().collect::<Vec<_>>())
            .prop_shuffle()
    }
}

impl<S: Strategy> ShuffleItems for S {}

/// A value of any shape, with names that the schema knows and others.
pub(crate) fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        Just(json!(1.5)),
        word().prop_map(Value::from),
    ];
    let name = proptest::sample::select(vec![
        "spec",
        "metadata",
        "labels",
        "keyed",
        "set",
        "list",
        "name",
        "port",
        "more",
        "whole",
        "open",
        "count",
        "x",
        "apiVersion",
        "kind",
        "$patch",
        "$retainKeys",
        "$setElementOrder/keyed",
        "$deleteFromPrimitiveList/set",
        "f:spec",
        "k:{\"name\":\"a\"}",
        "v:1",
        "i:0",
        ".",
        "type",
        "properties",
        "items",
        "default",
        "anyOf",
        "not",
        "required",
        "pattern",
        "x-kubernetes-list-type",
        "additionalProperties",
        "managedFields",
        "operation",
    ]);
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(name.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

/// The `spec` of an object that fits the schema.
pub(crate) fn spec() -> impl Strategy<Value = Value> {
    let scalars = (
        option::of(0..3_i64),
        option::of(prop_oneof![Just(Value::Null), word().prop_map(Value::from)]),
    );
    let lists = (
        option::of(proptest::sample::subsequence(vec!["a", "b", "c"], 0..=3).prop_shuffle()),
        option::of(vec(0..3_i64, 0..3)),
        option::of(keyed()),
    );
    let maps = (option::of(words()), option::of(word()), option::of(words()));
    (scalars, lists, maps).prop_map(
        |((count, nothing), (set, list, keyed), (labels, whole, open))| {
            let mut map = Map::new();
            let mut put = |name: &str, value: Option<Value>| {
                map.extend(value.map(|value| (name.to_owned(), value)));
            };
            put("count", count.map(Value::from));
            put("nothing", nothing);
            put("set", set.map(Value::from));
            put("list", list.map(Value::from));
            put("keyed", keyed);
            put("labels", labels);
            put("whole", whole.map(|a| json!({"a": a})));
            put("open", open);
            Value::Object(map)
        },
    )
}

pub(crate) fn object(spec: &Value) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "n"}, "spec": spec})
}
