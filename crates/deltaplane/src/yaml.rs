//! YAML as kubectl reads it: an unquoted `y`, `No` or `on` is a boolean, as a key as well, and of a
//! key that is set twice the last value counts.

use std::cell::RefCell;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// A document, and the keys that are set twice in it.
#[derive(Debug)]
pub(crate) struct YamlDocument {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<DuplicateKey>,
}

/// A key that was set before, in the same map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DuplicateKey {
    /// From 1, in the document.
    pub(crate) line: u64,
    pub(crate) key: String,
}

/// YAML is nested no deeper, as at the API.
pub(crate) const MAX_DEPTH: usize = 64;
/// Longer lists of duplicates help nobody.
const MAX_DUPLICATES: usize = 100;

/// Reads one document.
pub(crate) fn read(text: &str) -> Result<YamlDocument, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// Builds a value, and notes the keys that are set twice.
#[derive(Clone, Copy)]
struct Tree<'a>(&'a RefCell<Vec<DuplicateKey>>);

/// A key as JSON has it.
struct Key(String);

struct KeyVisitor;

// === impl YamlDocument ===

impl<'de> Deserialize<'de> for YamlDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let duplicates = RefCell::default();
        let value = Tree(&duplicates).deserialize(deserializer)?;
        Ok(Self {
            value,
            duplicates: duplicates.into_inner(),
        })
    }
}

// === impl DuplicateKey ===

impl fmt::Display for DuplicateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, key } = self;
        write!(f, "line {line}: key {key:?} already set in map")
    }
}

// === impl Tree ===

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<Spanned<Key>>()? {
            let line = key.referenced.line();
            let Key(key) = key.value;
            let value = entries.next_value_seed(self)?;
            let mut duplicates = self.0.borrow_mut();
            if map.insert(key.clone(), value).is_some() && duplicates.len() < MAX_DUPLICATES {
                duplicates.push(DuplicateKey { line, key });
            }
        }
        Ok(Value::Object(map))
    }
}

// === impl Key ===

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Key, E> {
        Ok(Key(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Key, E> {
        Ok(Key(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Key, E> {
        Ok(Key(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Key, E> {
        Ok(Key(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Key, E> {
        Ok(Key(value.to_owned()))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Key, E> {
        Err(E::custom("a key is null"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As kubectl 1.30 prints it with `kubectl label --local -o json`.
    #[test]
    fn keys_and_values_are_those_of_kubectl() {
        let check = |text: &str, expected: Value| {
            let read = read(text).expect("YAML");
            assert_eq!(read.value, expected, "{text}");
            assert_eq!(read.duplicates, []);
        };
        check("n: x", json!({"false": "x"}));
        check("y: x\nOff: x", json!({"true": "x", "false": "x"}));
        check("\"n\": x", json!({"n": "x"}));
        check(
            "1: x\n1.5: x\n0x10: x\n010: x",
            json!({"1": "x", "1.5": "x", "16": "x", "8": "x"}),
        );
        check(
            "v: y\nw: No\nx: [on, \"on\"]",
            json!({"v": true, "w": false, "x": [true, "on"]}),
        );
        check("a: ~\nb:\nc: 0644", json!({"a": null, "b": null, "c": 420}));
        assert!(read("~: x").is_err());
    }

    #[test]
    fn of_a_key_that_is_set_twice_the_last_counts() {
        let read = read("a: 1\nspec:\n  foo: {x: 1}\n  foo: 2\na: 3\n").expect("YAML");
        assert_eq!(read.value, json!({"a": 3, "spec": {"foo": 2}}));
        let said: Vec<String> = read.duplicates.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "line 4: key \"foo\" already set in map",
                "line 5: key \"a\" already set in map"
            ]
        );
    }
}
