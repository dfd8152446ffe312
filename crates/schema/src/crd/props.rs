//! A raw `JSONSchemaProps`, read by keyword.

use deltaplane_api::field::{Error, Path};
use serde_json::{Map, Value};

use crate::parse::{is_true, text};

/// One schema, of which [`typed`] has made sure that every keyword has its type.
#[derive(Clone, Copy)]
pub(super) struct Props<'v>(&'v Map<String, Value>);

/// `additionalProperties`.
#[derive(Clone, Copy)]
pub(super) enum Extra<'v> {
    None,
    Bool(bool),
    Schema(Props<'v>),
}

/// What a keyword holds.
enum Holds {
    Text,
    Flag,
    Number,
    Count,
    Texts,
    Values,
    Anything,
    Schema,
    Schemas,
    NamedSchemas,
    SchemaOrFlag,
    SchemaOrSchemas,
    Rules,
}

/// What Kubernetes refuses, whatever its value.
const UNSUPPORTED: [&str; 7] = [
    "id",
    "$schema",
    "$ref",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
];

// === impl Props ===

impl<'v> Props<'v> {
    pub(super) fn of(raw: &'v Value) -> Option<Self> {
        raw.as_object().map(Self)
    }

    pub(super) fn get(self, key: &str) -> Option<&'v Value> {
        self.0.get(key)
    }

    pub(super) fn raw(self) -> &'v Map<String, Value> {
        self.0
    }

    pub(super) fn has(self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn flag(self, key: &str) -> bool {
        is_true(self.0, key)
    }

    pub(super) fn text(self, key: &str) -> &'v str {
        text(self.0, key).unwrap_or_default()
    }

    pub(super) fn kind(self) -> &'v str {
        self.text("type")
    }

    pub(super) fn properties(self) -> impl ExactSizeIterator<Item = (&'v str, Self)> {
        // The keyword holds schemas only, see `typed`.
        let raw: Vec<_> = match self.get("properties").and_then(Value::as_object) {
            Some(map) => map
                .iter()
                .filter_map(|(name, raw)| Some((name.as_str(), Self::of(raw)?)))
                .collect(),
            None => Vec::new(),
        };
        raw.into_iter()
    }

    pub(super) fn property(self, name: &str) -> Option<Self> {
        Self::of(self.get("properties")?.get(name)?)
    }

    pub(super) fn items(self) -> Option<Self> {
        self.schema("items")
    }

    pub(super) fn schema(self, key: &str) -> Option<Self> {
        Self::of(self.get(key)?)
    }

    pub(super) fn schemas(self, key: &str) -> Vec<Self> {
        self.get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Self::of)
            .collect()
    }

    pub(super) fn additional(self) -> Extra<'v> {
        match self.get("additionalProperties") {
            None => Extra::None,
            Some(Value::Bool(flag)) => Extra::Bool(*flag),
            Some(other) => Self::of(other).map_or(Extra::None, Extra::Schema),
        }
    }

    pub(super) fn texts(self, key: &str) -> Vec<&'v str> {
        self.get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// Whether it, or any schema in it, uses what is not supported at all. That is reported by
    /// the keyword check alone; the rules of structure say nothing about it.
    pub(super) fn has_unsupported(self) -> bool {
        let own = UNSUPPORTED.iter().any(|key| match self.get(key) {
            None => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Object(map)) => !map.is_empty(),
            Some(_) => true,
        });
        let array_items = self.get("items").is_some_and(Value::is_array);
        let kept = self.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false));
        own || array_items || kept || self.children().into_iter().any(Self::has_unsupported)
    }

    /// All schemas directly in this one.
    fn children(self) -> Vec<Self> {
        let mut children: Vec<Self> = self.properties().map(|(_, child)| child).collect();
        children.extend(
            ["items", "not"]
                .into_iter()
                .filter_map(|key| self.schema(key)),
        );
        children.extend(
            ["allOf", "anyOf", "oneOf"]
                .into_iter()
                .flat_map(|key| self.schemas(key)),
        );
        if let Extra::Schema(child) = self.additional() {
            children.push(child);
        }
        children
    }
}

/// A copy of `raw` without null keywords, which count as absent. Keywords of the wrong type are
/// errors; those that are unknown are not looked at.
pub(super) fn typed(raw: &Value, path: &Path, errors: &mut Vec<Error>) -> Value {
    let Some(raw) = raw.as_object() else {
        errors.push(Error::type_invalid(
            path.clone(),
            raw.clone(),
            "must be an object",
        ));
        return Value::Null;
    };
    let mut out = Map::new();
    for (key, value) in raw.iter().filter(|(_, value)| !value.is_null()) {
        let path = path.child(key);
        let Some(holds) = holds(key) else { continue };
        if let Some(value) = keyword(&holds, value, &path, errors) {
            out.insert(key.clone(), value);
        }
    }
    Value::Object(out)
}

fn holds(key: &str) -> Option<Holds> {
    Some(match key {
        "$schema" | "$ref" | "id" | "type" | "format" | "title" | "description" | "pattern" => {
            Holds::Text
        }
        "x-kubernetes-list-type" | "x-kubernetes-map-type" => Holds::Text,
        "nullable" | "exclusiveMaximum" | "exclusiveMinimum" | "uniqueItems" => Holds::Flag,
        "x-kubernetes-preserve-unknown-fields" | "x-kubernetes-embedded-resource" => Holds::Flag,
        "x-kubernetes-int-or-string" => Holds::Flag,
        "maximum" | "minimum" | "multipleOf" => Holds::Number,
        "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties" | "minProperties" => {
            Holds::Count
        }
        "required" | "x-kubernetes-list-map-keys" => Holds::Texts,
        "enum" => Holds::Values,
        "default" | "example" | "externalDocs" => Holds::Anything,
        "not" => Holds::Schema,
        "allOf" | "anyOf" | "oneOf" => Holds::Schemas,
        "properties" | "patternProperties" | "definitions" => Holds::NamedSchemas,
        "dependencies" => Holds::Anything,
        "additionalProperties" | "additionalItems" => Holds::SchemaOrFlag,
        "items" => Holds::SchemaOrSchemas,
        "x-kubernetes-validations" => Holds::Rules,
        _ => return None,
    })
}

fn keyword(holds: &Holds, value: &Value, path: &Path, errors: &mut Vec<Error>) -> Option<Value> {
    let all = |list: &Value, fits: fn(&Value) -> bool| {
        list.as_array().is_some_and(|list| list.iter().all(fits))
    };
    let (fits, words) = match holds {
        Holds::Text => (value.is_string(), "must be a string"),
        Holds::Flag => (value.is_boolean(), "must be a boolean"),
        Holds::Number => (value.is_number(), "must be a number"),
        Holds::Count => (value.is_i64(), "must be an integer"),
        Holds::Texts => (all(value, Value::is_string), "must be a list of strings"),
        Holds::Values => (value.is_array(), "must be a list"),
        Holds::Rules => (all(value, Value::is_object), "must be a list of objects"),
        Holds::Anything => (true, ""),
        Holds::Schema => return Some(typed(value, path, errors)),
        Holds::SchemaOrFlag => match value.is_boolean() {
            true => (true, ""),
            false => return Some(typed(value, path, errors)),
        },
        Holds::SchemaOrSchemas if value.is_object() => return Some(typed(value, path, errors)),
        Holds::Schemas | Holds::SchemaOrSchemas => match value.as_array() {
            Some(list) => {
                let list = list
                    .iter()
                    .enumerate()
                    .map(|(index, one)| typed(one, &path.index(index), errors));
                return Some(list.collect());
            }
            None => (false, "must be a list of schemas"),
        },
        Holds::NamedSchemas => match value.as_object() {
            Some(map) => {
                let named = map
                    .iter()
                    .map(|(name, one)| (name.clone(), typed(one, &path.key(name), errors)));
                return Some(Value::Object(named.collect()));
            }
            None => (false, "must be an object of schemas"),
        },
    };
    if !fits {
        errors.push(Error::type_invalid(path.clone(), value.clone(), words));
        return None;
    }
    Some(value.clone())
}
