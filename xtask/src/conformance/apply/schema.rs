//! structured-merge-diff's schemas as ours.
//!
//! Theirs is a list of named types; a type may be a scalar, a list and a map at once. They are
//! written as OpenAPI definitions, which our schemas are read from.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use deltaplane_schema::{Definitions, Schema};
use serde_json::{Map, Value, json};

use super::text;

/// All schemas of a recording, by the recording's names for schema and type.
pub(super) struct Schemas(BTreeMap<(String, String), Option<Schema>>);

// === impl Schemas ===

impl Schemas {
    /// Reads all schemas, with the types that are used in them.
    pub(super) fn collect(lines: &[Value]) -> Result<Self> {
        let mut types: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        lines.iter().for_each(|line| used_types(line, &mut types));
        let mut out = BTreeMap::new();
        for line in lines.iter().filter(|line| text(line, "op") == "schema") {
            let name = text(line, "name");
            let used = types.remove(name).unwrap_or_default();
            let definitions = define(&line["schema"], &used);
            let definitions = Definitions::from_openapi(
                definitions.iter().map(|(name, raw)| (name.as_str(), raw)),
            )
            .with_context(|| format!("reading schema {name}"))?;
            for type_ref in used {
                let schema = definitions.get(&root_name(&type_ref));
                out.insert((name.to_owned(), type_ref), schema);
            }
        }
        Ok(Self(out))
    }

    /// The schema of a recorded value; nothing for one whose type is broken.
    pub(super) fn of(&self, typed: &Value) -> Option<&Schema> {
        let key = (text(typed, "schema").to_owned(), typed["type"].to_string());
        self.0.get(&key)?.as_ref()
    }
}

fn used_types<'v>(value: &'v Value, out: &mut BTreeMap<&'v str, BTreeSet<String>>) {
    match value {
        Value::Object(map) => {
            if let (Some(Value::String(schema)), Some(type_ref), Some(_)) =
                (map.get("schema"), map.get("type"), map.get("value"))
            {
                out.entry(schema).or_default().insert(type_ref.to_string());
                return;
            }
            map.values().for_each(|value| used_types(value, out));
        }
        Value::Array(list) => list.iter().for_each(|value| used_types(value, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn root_name(type_ref: &str) -> String {
    format!("root:{}", type_ref.replace('/', "|"))
}

/// Definitions being made from one schema.
struct Writer<'v> {
    atoms: BTreeMap<&'v str, &'v Value>,
    out: BTreeMap<String, Value>,
    /// Types that are used with another relationship between their elements than their own.
    overridden: Vec<(String, String)>,
}

fn define(schema: &Value, used: &BTreeSet<String>) -> BTreeMap<String, Value> {
    let types = schema["types"].as_array().into_iter().flatten();
    let atoms = types.map(|one| (text(one, "name"), one)).collect();
    let mut writer = Writer {
        atoms,
        out: BTreeMap::new(),
        overridden: Vec::new(),
    };
    writer.out.insert("RawExtension".to_owned(), json!({}));
    for (name, atom) in writer.atoms.clone() {
        let raw = writer.atom(atom);
        writer.out.insert(name.to_owned(), raw);
    }
    for type_ref in used {
        let parsed: Value = serde_json::from_str(type_ref).unwrap_or_default();
        if let Some(raw) = writer.reference(&parsed) {
            // A definition cannot be `true`.
            let raw = if raw == json!(true) {
                json!({"additionalProperties": true})
            } else {
                raw
            };
            writer.out.insert(root_name(type_ref), raw);
        }
    }
    while let Some((name, relationship)) = writer.overridden.pop() {
        let key = overridden_name(&name, &relationship);
        if let Some(&atom) = writer
            .atoms
            .get(name.as_str())
            .filter(|_| !writer.out.contains_key(&key))
        {
            let raw = writer.atom(&with_relationship(atom, &relationship));
            writer.out.insert(key, raw);
        }
    }
    writer.out
}

/// The type with another relationship between its elements.
fn with_relationship(atom: &Value, relationship: &str) -> Value {
    let mut atom = atom.clone();
    for part in ["map", "list"] {
        if let Some(part) = atom
            .get_mut(part)
            .and_then(Value::as_object_mut)
            .filter(|_| !relationship.is_empty())
        {
            part.insert("elementRelationship".to_owned(), relationship.into());
        }
    }
    atom
}

fn overridden_name(name: &str, relationship: &str) -> String {
    format!("{name}:{relationship}")
}

// === impl Writer ===

impl Writer<'_> {
    /// A reference to a type; nothing for the empty one, which stands for "no type".
    fn reference(&mut self, type_ref: &Value) -> Option<Value> {
        let relationship = text(type_ref, "elementRelationship");
        let to = |name: &str| Some(json!({"$ref": format!("#/components/schemas/{name}")}));
        match text(type_ref, "namedType") {
            "" => {
                let given = ["scalar", "list", "map"]
                    .iter()
                    .any(|key| type_ref.get(*key).is_some());
                given.then(|| self.atom(&with_relationship(type_ref, relationship)))
            }
            "__untyped_deduced_" => Some(json!(true)),
            "__untyped_atomic_" => to("RawExtension"),
            name if !self.atoms.contains_key(name) => None,
            name if relationship.is_empty() => to(name),
            name => {
                self.overridden
                    .push((name.to_owned(), relationship.to_owned()));
                to(&overridden_name(name, relationship))
            }
        }
    }

    fn atom(&mut self, atom: &Value) -> Value {
        let mut out = Map::new();
        let (scalar, list, map) = (text(atom, "scalar"), atom.get("list"), atom.get("map"));
        match (scalar, list, map) {
            ("", None, _) => drop(out.insert("type".to_owned(), "object".into())),
            ("", Some(_), None) => drop(out.insert("type".to_owned(), "array".into())),
            (scalar, None, None) => out.extend(scalar_type(scalar)),
            // More than one shape: anything, with what is said about lists and maps.
            (_, _, _) => {}
        }
        if let Some(list) = list {
            self.list(list, &mut out);
        }
        if let Some(map) = map {
            self.map(map, &mut out);
        }
        Value::Object(out)
    }

    fn list(&mut self, list: &Value, out: &mut Map<String, Value>) {
        if let Some(items) = list
            .get("elementType")
            .and_then(|items| self.reference(items))
        {
            out.insert("items".to_owned(), items);
        }
        let keys = list
            .get("keys")
            .and_then(Value::as_array)
            .filter(|keys| !keys.is_empty());
        let list_type = match (text(list, "elementRelationship"), keys) {
            ("associative", Some(keys)) => {
                out.insert("x-kubernetes-list-map-keys".to_owned(), keys.clone().into());
                "map"
            }
            ("associative", None) => "set",
            (_, _) => "atomic",
        };
        out.insert("x-kubernetes-list-type".to_owned(), list_type.into());
    }

    fn map(&mut self, map: &Value, out: &mut Map<String, Value>) {
        let mut properties = Map::new();
        for field in map
            .get("fields")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let Some(mut raw) = self.reference(&field["type"]) else {
                continue;
            };
            if let (Some(default), Some(raw)) = (field.get("default"), raw.as_object_mut()) {
                raw.insert("default".to_owned(), default.clone());
            }
            properties.insert(text(field, "name").to_owned(), raw);
        }
        out.insert("properties".to_owned(), properties.into());
        let entries = map
            .get("elementType")
            .and_then(|entries| self.reference(entries));
        out.insert(
            "additionalProperties".to_owned(),
            entries.unwrap_or(json!(false)),
        );
        if text(map, "elementRelationship") == "atomic" {
            out.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
    }
}

fn scalar_type(scalar: &str) -> Map<String, Value> {
    let raw = match scalar {
        "numeric" => json!({"type": "number"}),
        "boolean" => json!({"type": "boolean"}),
        "string" => json!({"type": "string"}),
        // A format makes text any scalar.
        _ => json!({"type": "string", "format": "untyped"}),
    };
    raw.as_object().cloned().unwrap_or_default()
}
