//! JSON as clients send it: parsed once, with the duplicate fields that strict validation reports.

mod fault;
mod levels;

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

pub use fault::fault;
pub use levels::levels;

/// A document and what was odd about it.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    /// The value; of duplicate fields the last one.
    pub value: Value,
    /// The paths of fields that occur twice, in document order, such as `spec.ports[0].name`.
    pub duplicates: Vec<String>,
}

/// More than this many duplicates are not worth listing.
const MAX_DUPLICATES: usize = 100;

/// Parses a document. Depth is bounded (128 levels), as is the list of duplicates.
pub fn parse(text: &[u8]) -> Result<Parsed, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let parsed = parse_from(&mut deserializer)?;
    deserializer.end()?;
    Ok(parsed)
}

/// Like [`parse`] from any self-describing format; this is how YAML comes in.
pub fn parse_from<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Parsed, D::Error> {
    let duplicates = RefCell::new(Vec::new());
    let value = Seed {
        at: None,
        duplicates: &duplicates,
    }
    .deserialize(deserializer)?;
    Ok(Parsed {
        value,
        duplicates: duplicates.into_inner(),
    })
}

/// Where in the document we are: a list on the stack, turned into text only for a duplicate.
#[derive(Clone, Copy)]
struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    at: Option<&'a At<'a>>,
    duplicates: &'a RefCell<Vec<String>>,
}

// === impl At ===

impl At<'_> {
    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.step {
            Step::Field(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Index(index) => out.push_str(&format!("[{index}]")),
        }
    }
}

// === impl Seed ===

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        number(value).ok_or_else(|| E::custom("a number that JSON cannot hold"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
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
        loop {
            let at = At {
                parent: self.at,
                step: Step::Index(list.len()),
            };
            match items.next_element_seed(Seed {
                at: Some(&at),
                duplicates: self.duplicates,
            })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let at = At {
                parent: self.at,
                step: Step::Field(&key),
            };
            let seed = Seed {
                at: Some(&at),
                duplicates: self.duplicates,
            };
            let value = entries.next_value_seed(seed)?;
            if map.contains_key(&key) {
                self.report(&at).map_err(A::Error::custom)?;
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

impl Seed<'_> {
    fn report(&self, at: &At<'_>) -> Result<(), &'static str> {
        let mut duplicates = self.duplicates.borrow_mut();
        if duplicates.len() >= MAX_DUPLICATES {
            return Err("too many duplicate fields");
        }
        let mut path = String::new();
        at.write(&mut path);
        duplicates.push(path);
        Ok(())
    }
}

/// A number as Go's JSON would keep it: what is integral and fits is an integer, so that `1.0`
/// and `1` are the same value to everyone who reads it.
fn number(value: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "integral and below 2^53")]
        return Some(Value::Number((value as i64).into()));
    }
    Number::from_f64(value).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicates_are_reported_by_path_and_the_last_wins() {
        let parsed = parse(br#"{"a":1,"b":[{"c":1,"c":2}],"a":3}"#).unwrap();
        assert_eq!(parsed.value, json!({"a": 3, "b": [{"c": 2}]}));
        assert_eq!(parsed.duplicates, ["b[0].c", "a"]);
    }

    #[test]
    fn integral_floats_are_integers() {
        assert_eq!(
            parse(b"[1.0,1e3,1.5]").unwrap().value,
            json!([1, 1000, 1.5])
        );
    }

    #[test]
    fn what_is_not_one_document_is_refused() {
        let deep = "[".repeat(100_000);
        let many = format!("{{{}\"a\":1}}", "\"a\":1,".repeat(200));
        for text in ["", "{", "{} {}", "nope", &deep, &many] {
            assert!(
                parse(text.as_bytes()).is_err(),
                "{}",
                &text[..text.len().min(20)]
            );
        }
    }
}
