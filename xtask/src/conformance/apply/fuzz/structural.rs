//! Schemas of CRDs, and objects that nearly fit them.

use anyhow::Result;
use deltaplane_api::field::Path;
use deltaplane_schema::crd;
use serde_json::{Map, Value, json};

use super::{Oracle, same_texts, same_value};
use crate::conformance::apply::text;
use crate::conformance::random::Random;

const PATH: &str = "spec.validation.openAPIV3Schema";

pub(super) fn case(oracle: &mut Oracle, random: &mut Random) -> Result<Result<(), String>> {
    let wild = random.chance(40);
    let raw = root(random, wild);
    let object = object(random, &raw);
    let old = random.chance(50).then(|| self::object(random, &raw));
    let question = json!({"kind": "structural", "schema": raw, "object": object, "old": old});
    let answer = oracle.ask(&question)?;
    let outcome = compare(&raw, &object, old.as_ref(), &answer);
    Ok(outcome.map_err(|why| format!("{why}\n  schema {raw}\n  object {object}\n  old {old:?}")))
}

fn compare(raw: &Value, object: &Value, old: Option<&Value>, answer: &Value) -> Result<(), String> {
    if let Some(failure) = answer.get("failure").and_then(Value::as_str) {
        // What cannot be decoded never reaches the rules.
        return match failure.starts_with("json:") {
            true => Ok(()),
            false => Err(format!("the oracle failed: {failure}")),
        };
    }
    // How Go words a failed decoding is not copied.
    if answer["refused"].to_string().contains("cannot unmarshal") {
        return Ok(());
    }
    let compiled = crd::compile(raw, &Path::new(PATH), crd::Options::default());
    let schema = match compiled {
        Ok(schema) => schema,
        Err(errors) => {
            return same_texts(
                "refused",
                errors.iter().map(ToString::to_string).collect(),
                &answer["refused"],
            );
        }
    };
    same_texts("refused", Vec::new(), &answer["refused"])?;
    let mut object = object.clone();
    let decoded = schema.decode(&mut object);
    match (decoded, answer.get("coercion")) {
        (Ok(()), None) => {}
        (Err(_), Some(_)) => return Ok(()),
        (ours, theirs) => return Err(format!("decoding: {ours:?}, expected {theirs:?}")),
    }
    // Metadata that is embedded in a map has brackets in its path, other fields have none.
    let unbracketed = ["a", "b", "c", "d"]
        .iter()
        .fold(answer["unknown"].to_string(), |text, name| {
            text.replace(&format!("[{name}]"), &format!(".{name}"))
        });
    let unknown = serde_json::from_str(&unbracketed).unwrap_or_default();
    same_texts("unknown", schema.prune_reporting(&mut object), &unknown)?;
    same_value("pruned", &object, &answer["pruned"])?;
    schema.default(&mut object);
    same_value("defaulted", &object, &answer["defaulted"])?;
    let texts = |errors: Vec<deltaplane_api::field::Error>| {
        errors.iter().map(ToString::to_string).collect()
    };
    same_texts(
        "invalid",
        texts(schema.validate(&object, None)),
        &answer["invalid"],
    )?;
    match old {
        Some(old) => same_texts(
            "invalid update",
            texts(schema.validate(&object, Some(old))),
            &answer["invalidUpdate"],
        ),
        None => Ok(()),
    }
}

fn root(random: &mut Random, wild: bool) -> Value {
    let mut properties = Map::new();
    properties.insert("spec".to_owned(), schema(random, 3, wild));
    if random.chance(20) {
        properties.insert("status".to_owned(), schema(random, 1, wild));
    }
    if random.chance(10) {
        properties.insert(
            "metadata".to_owned(),
            json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}),
        );
    }
    let mut root = json!({"type": "object", "properties": properties});
    if wild && random.chance(20) {
        spoil(random, &mut root, 2);
        if let Some(root) = root.as_object_mut() {
            // An object that must be no object is beyond comparing.
            root.remove("x-kubernetes-int-or-string");
        }
    }
    root
}

/// A schema; `wild` ones may break the rules.
fn schema(random: &mut Random, depth: usize, wild: bool) -> Value {
    let mut out = match random.below(if depth == 0 { 7 } else { 13 }) {
        0 | 1 => json!({"type": "string"}),
        2 => json!({"type": "integer"}),
        3 => json!({"type": "number"}),
        4 => json!({"type": "boolean"}),
        5 => json!({"x-kubernetes-int-or-string": true}),
        6 => json!({"x-kubernetes-preserve-unknown-fields": true}),
        7..=9 => object_schema(random, depth, wild),
        10 => json!({"type": "object", "additionalProperties": schema(random, depth - 1, wild)}),
        _ => array_schema(random, depth, wild),
    };
    checks(random, &mut out);
    if random.chance(15) {
        logic(random, &mut out, wild);
    }
    if random.chance(15) {
        put(&mut out, "nullable", json!(true));
    }
    if random.chance(20) {
        let default = value(random, &out.clone(), if wild { 60 } else { 100 });
        put(&mut out, "default", without_nulls(default));
    }
    if wild && random.chance(15) {
        spoil(random, &mut out, depth);
    }
    out
}

/// Nulls in a default are dropped by us at once, by Kubernetes when the object is next read.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                entries
                    .map(|(key, value)| (key, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
    }
}

fn put(schema: &mut Value, key: &str, value: Value) {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert(key.to_owned(), value);
    }
}

fn object_schema(random: &mut Random, depth: usize, wild: bool) -> Value {
    let names = random.some(&["a", "b", "c"]);
    let properties: Map<String, Value> = names
        .iter()
        .map(|name| ((*name).to_owned(), schema(random, depth - 1, wild)))
        .collect();
    let mut out = json!({"type": "object", "properties": properties});
    if random.chance(30) {
        put(&mut out, "required", json!(random.some(&names)));
    }
    if random.chance(10) {
        put(
            &mut out,
            "x-kubernetes-preserve-unknown-fields",
            json!(true),
        );
    }
    if random.chance(10) {
        put(&mut out, "x-kubernetes-embedded-resource", json!(true));
        put(
            &mut out,
            "x-kubernetes-preserve-unknown-fields",
            json!(true),
        );
    }
    if random.chance(10) {
        put(
            &mut out,
            "x-kubernetes-map-type",
            json!(random.pick(&["atomic", "granular"])),
        );
    }
    out
}

fn array_schema(random: &mut Random, depth: usize, wild: bool) -> Value {
    match random.below(4) {
        0 => json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        1 => {
            let mut items = object_schema(random, depth, wild);
            if let Some(properties) = items.get_mut("properties").and_then(Value::as_object_mut) {
                properties.insert("a".to_owned(), json!({"type": "string"}));
                if random.chance(50) {
                    properties.insert("b".to_owned(), json!({"type": "integer", "default": 1}));
                }
            }
            put(&mut items, "required", json!(["a"]));
            let two = items["properties"]
                .get("b")
                .is_some_and(|b| b.get("default").is_some())
                && random.chance(50);
            let keys = if two { json!(["a", "b"]) } else { json!(["a"]) };
            json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
        }
        _ => json!({"type": "array", "items": schema(random, depth - 1, wild)}),
    }
}

/// Restricts values.
fn checks(random: &mut Random, schema: &mut Value) {
    let kind = text(schema, "type").to_owned();
    let choices: &[(&str, Value)] = match kind.as_str() {
        "string" => &[
            ("minLength", json!(1)),
            ("maxLength", json!(1)),
            ("pattern", json!("^[a-c]$")),
            ("enum", json!(["b", "a"])),
            ("format", json!("ipv4")),
            ("format", json!("date")),
            ("format", json!("unheard-of")),
        ],
        "integer" => &[
            ("minimum", json!(0)),
            ("maximum", json!(1)),
            ("multipleOf", json!(2)),
            ("enum", json!([0, 1])),
            ("format", json!("int32")),
        ],
        "number" => &[
            ("minimum", json!(0.5)),
            ("maximum", json!(1.25)),
            ("multipleOf", json!(0.5)),
        ],
        "array" => &[("minItems", json!(1)), ("maxItems", json!(1))],
        "object" => &[("minProperties", json!(1)), ("maxProperties", json!(1))],
        _ => &[("enum", json!(["a", 1]))],
    };
    if random.chance(30) {
        let (key, value) = &choices[random.below(choices.len())];
        put(schema, key, value.clone());
        if matches!(*key, "minimum" | "maximum") && random.chance(30) {
            let exclusive = if *key == "minimum" {
                "exclusiveMinimum"
            } else {
                "exclusiveMaximum"
            };
            put(schema, exclusive, json!(true));
        }
    }
}

fn logic(random: &mut Random, schema: &mut Value, wild: bool) {
    let names: Vec<String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .map(|map| map.keys().cloned().collect())
        .unwrap_or_default();
    let branch = |random: &mut Random| {
        let mut branch = json!({});
        match random.below(4) {
            0 => put(&mut branch, "enum", json!(["a", 1, true])),
            1 => put(&mut branch, "maxLength", json!(1)),
            2 => put(&mut branch, "minimum", json!(1)),
            _ if !names.is_empty() => put(
                &mut branch,
                "required",
                json!([names[random.below(names.len())]]),
            ),
            _ => put(&mut branch, "minItems", json!(1)),
        }
        if wild && random.chance(20) {
            spoil(random, &mut branch, 0);
            if let Some(branch) = branch
                .as_object_mut()
                .filter(|one| one.get("additionalProperties") == Some(&json!(false)))
            {
                // Kept for objects, forgotten for defaults.
                branch.remove("additionalProperties");
            }
        }
        branch
    };
    match random.below(4) {
        0 => {
            let not = branch(random);
            put(schema, "not", not);
        }
        which => {
            let branches: Vec<Value> = (0..=random.below(3)).map(|_| branch(random)).collect();
            put(
                schema,
                ["allOf", "anyOf", "oneOf"][which - 1],
                json!(branches),
            );
        }
    }
}

/// Adds something that does not belong there.
fn spoil(random: &mut Random, schema: &mut Value, depth: usize) {
    let choices = [
        ("type", json!("object")),
        ("type", json!("")),
        ("$ref", json!("#/x")),
        ("id", json!("x")),
        ("uniqueItems", json!(true)),
        ("additionalProperties", json!(true)),
        ("additionalProperties", json!(false)),
        ("additionalProperties", json!({"type": "string"})),
        ("x-kubernetes-preserve-unknown-fields", json!(false)),
        ("x-kubernetes-preserve-unknown-fields", json!(true)),
        ("x-kubernetes-embedded-resource", json!(true)),
        ("x-kubernetes-list-type", json!("set")),
        ("x-kubernetes-list-type", json!("map")),
        ("x-kubernetes-list-type", json!("bag")),
        ("x-kubernetes-list-map-keys", json!(["a", "z"])),
        ("x-kubernetes-map-type", json!("atomic")),
        ("x-kubernetes-map-type", json!("granite")),
        ("nullable", json!(true)),
        ("description", json!("words")),
        ("title", json!("words")),
        ("items", json!({"type": "string"})),
        ("items", json!({})),
        ("properties", json!({"a": {}})),
        (
            "properties",
            json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}),
        ),
        ("properties", json!({"kind": {"type": "integer"}})),
        ("not", json!({"properties": {"q": {"minimum": 1}}})),
        ("anyOf", json!([{"items": {"minimum": 1}}])),
    ];
    if depth > 0 && random.chance(30) {
        let default = without_nulls(random.anything(depth));
        put(schema, "default", default);
        return;
    }
    let (key, value) = &choices[random.below(choices.len())];
    put(schema, key, value.clone());
}

fn object(random: &mut Random, raw: &Value) -> Value {
    let mut out = json!({"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": random.pick(&["n", "long"])}});
    for name in ["spec", "status", "more"] {
        if let Some(schema) = raw["properties"].get(name) {
            let value = value(random, schema, 85);
            put(&mut out, name, value);
        } else if random.chance(5) {
            let value = random.anything(2);
            put(&mut out, name, value);
        }
    }
    out
}

/// A value that fits in `percent` of all places.
fn value(random: &mut Random, schema: &Value, percent: usize) -> Value {
    if !random.chance(percent) {
        return random.anything(2);
    }
    if let Some(choices) = schema
        .get("enum")
        .and_then(Value::as_array)
        .filter(|choices| !choices.is_empty())
    {
        return choices[random.below(choices.len())].clone();
    }
    match text(schema, "type") {
        "string" => {
            json!(random.pick(&["a", "b", "ab", "", "1.2.3.4", "2024-02-30", "2024-02-29"]))
        }
        "integer" => [
            json!(0),
            json!(1),
            json!(2),
            json!(-1),
            json!(3_000_000_000_i64),
            json!(1.0),
        ][random.below(6)]
        .clone(),
        "number" => [json!(0), json!(1.25), json!(0.5), json!(-1.5)][random.below(4)].clone(),
        "boolean" => json!(random.chance(50)),
        "array" => {
            let count = random.below(4);
            (0..count)
                .map(|_| value(random, schema.get("items").unwrap_or(&Value::Null), percent))
                .collect()
        }
        "object" => fields(random, schema, percent),
        _ if schema.get("x-kubernetes-int-or-string").is_some() => {
            [json!("a"), json!(1)][random.below(2)].clone()
        }
        _ => random.anything(2),
    }
}

fn fields(random: &mut Random, schema: &Value, percent: usize) -> Value {
    let mut out = Map::new();
    if schema.get("x-kubernetes-embedded-resource").is_some() {
        out.insert(
            "apiVersion".to_owned(),
            json!(random.pick(&["v1", "x/v1", "a/b/c"])),
        );
        out.insert("kind".to_owned(), json!(random.pick(&["Pod", "P d"])));
        if random.chance(50) {
            let metadata = [
                json!({"name": "x"}),
                json!({"name": "x", "foo": 1}),
                json!({"labels": {"a b": "c"}}),
                json!({"name": 1}),
            ];
            out.insert(
                "metadata".to_owned(),
                metadata[random.below(metadata.len())].clone(),
            );
        }
    }
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if random.chance(70) && !matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            out.insert(name.clone(), value(random, property, percent));
        }
    }
    if let Some(extra) = schema
        .get("additionalProperties")
        .filter(|extra| extra.is_object())
    {
        for _ in 0..random.below(3) {
            out.insert(random.word().to_owned(), value(random, extra, percent));
        }
    } else if random.chance(10) {
        out.insert("unknown".to_owned(), random.anything(1));
    }
    Value::Object(out)
}
