//! `FieldsV1`: a set as a tree of JSON objects.
//!
//! The keys are `f:name`, `k:{"name":"a"}`, `v:"x"` and `i:0`; `.` in an object says that what it
//! stands for is itself a member, and so does an empty object.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::element::{Key, PathElement};
use super::{Entry, Set};
use crate::depth::MAX_SET_DEPTH;

/// The text is no set of fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("expected an object, found {0}")]
    NotAnObject(&'static str),
    #[error("key {0:?} is no path element")]
    BadElement(String),
    #[error("the set is nested deeper than {MAX_SET_DEPTH} levels")]
    TooDeep,
}

// === impl Set ===

impl Set {
    /// Reads the wire form. Kinds of path elements that are not known are skipped, as a later
    /// version may have introduced them.
    pub fn from_fields_v1(value: &Value) -> Result<Self, ParseError> {
        match value.is_null() {
            true => Ok(Self::new()),
            false => Ok(read(value, MAX_SET_DEPTH)?.1),
        }
    }

    /// The wire form.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(
            self.entries()
                .iter()
                .map(|entry| (entry.element.to_key(), write(entry)))
                .collect(),
        )
    }
}

/// Whether the object's own element is a member, and what is below it.
fn read(value: &Value, depth: usize) -> Result<(bool, Set), ParseError> {
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Ok((true, Set::new())),
        Value::Bool(_) => return Err(ParseError::NotAnObject("a boolean")),
        Value::Number(_) => return Err(ParseError::NotAnObject("a number")),
        Value::String(_) => return Err(ParseError::NotAnObject("a string")),
        Value::Array(_) => return Err(ParseError::NotAnObject("a list")),
    };
    if depth == 0 {
        return Err(ParseError::TooDeep);
    }
    let mut entries = Vec::with_capacity(map.len());
    let mut member = false;
    for (key, value) in map {
        if key == "." {
            member = true;
        } else if let Some(element) = PathElement::from_key(key)? {
            let (child, children) = read(value, depth - 1)?;
            entries.push(Entry {
                element,
                member: child,
                children,
            });
        }
    }
    // The order of the texts is not that of the elements; putting each where it belongs would move
    // the others again and again.
    entries.sort_by(|a, b| a.element.cmp(&b.element));
    let mut set = Set {
        entries: Vec::with_capacity(entries.len()),
    };
    for entry in entries {
        set.put(entry.element, entry.member, entry.children);
    }
    Ok((member || set.is_empty(), set))
}

fn write(entry: &Entry) -> Value {
    let mut map = Map::new();
    if entry.member && !entry.children.is_empty() {
        map.insert(".".to_owned(), Value::Object(Map::new()));
    }
    map.extend(
        entry
            .children
            .entries()
            .iter()
            .map(|child| (child.element.to_key(), write(child))),
    );
    Value::Object(map)
}

// === impl PathElement ===

impl PathElement {
    /// The form in which `FieldsV1` has the element.
    pub fn to_key(&self) -> String {
        let mut out = String::new();
        match self {
            Self::Field(name) => {
                out.reserve_exact(name.len() + 2);
                out.push_str("f:");
                out.push_str(name);
            }
            Self::Key(key) => {
                out.push_str("k:{");
                for (index, (name, value)) in key.fields().iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    text(name, &mut out);
                    out.push(':');
                    json(value, &mut out);
                }
                out.push('}');
            }
            Self::Value(value) => {
                out.push_str("v:");
                json(value, &mut out);
            }
            Self::Index(index) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "i:{index}");
            }
        }
        out
    }

    /// Reads the form in which `FieldsV1` has the element; nothing if it is of an unknown kind.
    pub fn from_key(key: &str) -> Result<Option<Self>, ParseError> {
        let bad = || ParseError::BadElement(key.to_owned());
        let (kind, body) = key.split_at_checked(2).ok_or_else(bad)?;
        Ok(Some(match kind {
            "f:" => Self::field(body),
            "v:" => Self::Value(Box::new(serde_json::from_str(body).map_err(|_| bad())?)),
            "k:" => {
                let fields: Map<String, Value> = serde_json::from_str(body).map_err(|_| bad())?;
                let fields = fields
                    .into_iter()
                    .map(|(name, value)| (name.into_boxed_str(), value));
                Self::Key(Key::new(fields).ok_or_else(bad)?)
            }
            "i:" => Self::Index(body.parse().map_err(|_| bad())?),
            kind if kind.ends_with(':') => return Ok(None),
            _ => return Err(bad()),
        }))
    }
}

/// JSON as Go writes it: `<`, `>` and `&` escaped, floats without a needless fraction.
fn json(value: &Value, out: &mut String) {
    match value {
        Value::String(value) => text(value, out),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => out.push_str(&go_float(float)),
            None => {
                let _ = write!(out, "{number}");
            }
        },
        Value::Array(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (name, value)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                text(name, out);
                out.push(':');
                json(value, out);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

fn text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn go_float(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !exponent.starts_with('-') => {
            format!("{mantissa}e+{exponent}")
        }
        Some(_) | None => text,
    }
}
