//! Updates and applies by several managers, one after the other.

use anyhow::Result;
use deltaplane_api::time::Time;
use deltaplane_schema::fieldset::{Filter, Set};
use deltaplane_schema::managed::{self, Context, SingleVersion};
use deltaplane_schema::{Definitions, Schema};
use serde_json::{Map, Value, json};

use super::{Oracle, same_value};
use crate::conformance::apply::text;
use crate::conformance::random::Random;

pub(super) fn case(oracle: &mut Oracle, random: &mut Random) -> Result<Result<(), String>> {
    let definitions = definitions(random);
    let count = 2 + random.below(5);
    let ops: Vec<Value> = (0..count).map(|_| operation(random)).collect();
    let answer = oracle.ask(&json!({"kind": "managed", "schema": definitions, "ops": ops}))?;
    if let Some(failure) = answer.get("failure") {
        return Ok(Err(format!(
            "the oracle failed: {failure}\n  definitions {definitions}"
        )));
    }
    let schemas = definitions.as_object().into_iter().flatten();
    let schema =
        Definitions::from_openapi(schemas.map(|(name, schema)| (name.as_str(), schema)))?.get("X");
    let Some(schema) = schema else {
        return Ok(Err("the definitions have no X".to_owned()));
    };
    let mut live: Option<Value> = None;
    for (index, op) in ops.iter().enumerate() {
        let theirs = &answer["steps"][index];
        let outcome = match (request(&schema, live.as_ref(), op), theirs.get("object")) {
            (Ok(ours), Some(object)) => {
                let same = same_value("stored", &without_times(&ours), &without_times(object));
                live = Some(ours);
                same
            }
            (Err(ours), None) => same_conflicts(&ours, text(theirs, "error")),
            (ours, _) => Err(format!("got {ours:?}, expected {theirs}")),
        };
        if let Err(why) = outcome {
            let so_far = Value::from(ops[..=index].to_vec());
            return Ok(Err(format!(
                "operation {index}: {why}\n  operations {so_far}\n  definitions {definitions}"
            )));
        }
    }
    Ok(Ok(()))
}

/// Conflicts are told in the same words; lines stand in no order.
fn same_conflicts(ours: &str, theirs: &str) -> Result<(), String> {
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    match !theirs.contains("onflict") || lines(ours) == lines(theirs) {
        true => Ok(()),
        false => Err(format!("got {ours:?}, expected {theirs:?}")),
    }
}

/// The object with its managed fields sorted by name and without times, which are those of another
/// clock.
fn without_times(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(entries) = object
        .pointer_mut("/metadata/managedFields")
        .and_then(Value::as_array_mut)
    {
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        entries.sort_by_key(|entry| {
            (
                text(entry, "manager").to_owned(),
                text(entry, "operation").to_owned(),
                text(entry, "subresource").to_owned(),
            )
        });
    }
    object
}

fn request(schema: &Schema, live: Option<&Value>, op: &Value) -> Result<Value, String> {
    let excluded: Vec<Vec<&str>> = op["exclude"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|path| {
            path.as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect()
        })
        .collect();
    let excluded: Vec<&[&str]> = excluded.iter().map(Vec::as_slice).collect();
    let fields = Filter::Exclude(Set::of_fields(&excluded));
    let versions = SingleVersion {
        api_version: "x.io/v1",
        schema,
    };
    let cx = Context {
        versions: &versions,
        api_version: "x.io/v1",
        kind: "X",
        subresource: text(op, "subresource"),
        manager: text(op, "manager"),
        fields: &fields,
        now: Time::from_unix(1),
    };
    if op["apply"] == true {
        let applied = managed::apply(&cx, live, &op["object"], op["force"] == true);
        return applied.map_err(|error| error.to_string());
    }
    let mut new = op["object"].clone();
    if let Some(fields) = live
        .and_then(|live| live.pointer("/metadata/managedFields"))
        .filter(|_| op["keepsFields"] == true)
    {
        new["metadata"]["managedFields"] = fields.clone();
    }
    managed::track_update(&cx, live, &mut new);
    Ok(new)
}

fn operation(random: &mut Random) -> Value {
    let status = random.chance(15);
    json!({
        "apply": random.chance(60),
        "force": random.chance(50),
        "manager": random.pick(&["one", "two", "kubectl"]),
        "subresource": if status { "status" } else { "" },
        "exclude": if status { json!([["spec"]]) } else { json!([["status"]]) },
        "keepsFields": random.chance(80),
        "object": object(random),
    })
}

fn object(random: &mut Random) -> Value {
    let mut metadata = json!({"name": "n", "uid": "u"});
    if random.chance(40) {
        metadata["labels"] = words(random);
    }
    if random.chance(30) {
        metadata["finalizers"] = json!(random.some(&["a", "b", "c"]));
    }
    let mut out = json!({"apiVersion": "x.io/v1", "kind": "X", "metadata": metadata});
    if random.chance(85) {
        out["spec"] = spec(random);
    }
    if random.chance(25) {
        out["status"] = json!({"ready": random.below(2)});
    }
    out
}

fn words(random: &mut Random) -> Value {
    let names = random.some(&["a", "b", "c"]);
    Value::Object(
        names
            .into_iter()
            .map(|name| (name.to_owned(), json!(random.word())))
            .collect(),
    )
}

fn spec(random: &mut Random) -> Value {
    // Never empty: Kubernetes loses what is in an object field that somebody applies empty twice,
    // once there is an empty keyed list in it.
    let mut out = Map::from_iter([("list".to_owned(), json!([random.below(3)]))]);
    for field in random.some(&[
        "count", "labels", "set", "list", "keyed", "nested", "open", "whole",
    ]) {
        let value = match field {
            "count" => json!(random.below(3)),
            "labels" | "whole" => words(random),
            "set" => json!(random.some(&["a", "b", "c"])),
            "list" => json!(random.some(&[1, 2, 3])),
            "keyed" => {
                let names = random.some(&["a", "b", "c"]);
                names.into_iter().map(|name| item(random, name)).collect()
            }
            "nested" => json!({"deep": words(random)}),
            _ => random.anything(2),
        };
        let null = random.chance(4);
        out.insert(field.to_owned(), if null { Value::Null } else { value });
    }
    Value::Object(out)
}

fn item(random: &mut Random, name: &str) -> Value {
    let mut out = json!({"name": name});
    if random.chance(50) {
        out["port"] = json!(random.below(2));
    }
    if random.chance(50) {
        out["more"] = words(random);
    }
    out
}

/// A kind whose lists and maps are granular or atomic by chance.
fn definitions(random: &mut Random) -> Value {
    let words = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let mut port = json!({"type": "integer"});
    let mut keys = vec!["name"];
    if random.chance(40) {
        port["default"] = json!(1);
        keys.push("port");
    }
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "port": port, "more": words}});
    let mut keyed = json!({"type": "array", "items": {"$ref": "#/definitions/Item"}});
    if random.chance(80) {
        keyed["x-kubernetes-list-type"] = json!("map");
        keyed["x-kubernetes-list-map-keys"] = json!(keys);
    }
    let mut set = json!({"type": "array", "items": {"type": "string"}});
    if random.chance(80) {
        set["x-kubernetes-list-type"] = json!("set");
    }
    let mut whole = words.clone();
    whole["x-kubernetes-map-type"] = json!("atomic");
    let spec = json!({"type": "object", "properties": {
        "count": {"type": "integer"},
        "labels": words,
        "set": set,
        "list": {"type": "array", "items": {"type": "integer"}},
        "keyed": keyed,
        "nested": {"type": "object", "properties": {"deep": words}},
        "open": {"x-kubernetes-preserve-unknown-fields": true},
        "whole": whole,
    }});
    let metadata = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "uid": {"type": "string"},
        "labels": words,
        "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "managedFields": {"type": "array", "items": {"type": "object"}},
    }});
    let root = json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": "#/definitions/Meta"},
            "spec": {"$ref": "#/definitions/Spec"},
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
        },
        "x-kubernetes-group-version-kind": [{"group": "x.io", "version": "v1", "kind": "X"}],
    });
    json!({"X": root, "Meta": metadata, "Spec": spec, "Item": item})
}
