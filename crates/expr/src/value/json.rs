//! JSON as values, without converting more than is looked at, and values as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::{List, Map, Value};
use crate::decl::{Decl, Shape};
use crate::fault::{Fault, Reason};
use crate::gotext::decode_base64;
use crate::library::is_omitted;
use crate::meter::Meter;
use crate::time::{Duration, Timestamp};

/// A JSON value as its declaration reads it.
pub(crate) fn view<'a>(json: &'a Json, decl: &'a Decl) -> Result<Value<'a>, Box<Fault>> {
    let bad = |expected: &str| {
        Err(Fault::failed(Reason::BadData(format!(
            "invalid data, expected {expected}, got {}",
            kind(json)
        ))))
    };
    match (decl.shape(), json) {
        (Shape::Dyn, _) => Ok(plain(json, decl)),
        (_, Json::Null) if decl.nullable() => Ok(Value::Null),
        (_, Json::Null) => Err(Fault::failed(Reason::BadData(
            "invalid data, got null for schema with nullable=false".to_owned(),
        ))),
        (Shape::String, Json::String(text)) => Ok(Value::borrowed(text)),
        (Shape::List { .. }, Json::Array(items)) => Ok(Value::List(List::Json(items, decl))),
        (Shape::Map { .. } | Shape::Object(_), Json::Object(map)) => {
            Ok(Value::Map(Map::Json(map, decl)))
        }
        (Shape::Bool, Json::Bool(value)) => Ok(Value::Bool(*value)),
        (Shape::Int, Json::Number(number)) => match number.as_i64() {
            Some(value) => Ok(Value::Int(value)),
            None => bad("int"),
        },
        (Shape::Double, Json::Number(number)) => Ok(Value::Double(number.as_f64().unwrap_or(0.0))),
        (Shape::IntOrString, Json::String(_) | Json::Number(_)) => Ok(plain(json, decl)),
        (Shape::Bytes, Json::String(text)) => match decode_base64(text) {
            Ok(bytes) => Ok(Value::bytes(bytes)),
            Err(_) => bad("base64"),
        },
        (Shape::Duration, Json::String(text)) => match Duration::parse_lenient(text) {
            Some(duration) => Ok(Value::Duration(duration)),
            None => bad("duration"),
        },
        (Shape::Date, Json::String(text)) => match Timestamp::parse(&format!("{text}T00:00:00Z")) {
            Some(time) => Ok(Value::Timestamp(time)),
            None => bad("date"),
        },
        (Shape::DateTime, Json::String(text)) => match Timestamp::parse(text) {
            Some(time) => Ok(Value::Timestamp(time)),
            None => bad("date-time"),
        },
        (Shape::String | Shape::Bytes | Shape::Duration | Shape::Date | Shape::DateTime, _) => {
            bad("string")
        }
        (Shape::List { .. }, _) => bad("an array"),
        (Shape::Map { .. } | Shape::Object(_), _) => bad("an object"),
        (Shape::Bool, _) => bad("bool"),
        (Shape::Int, _) => bad("int"),
        (Shape::Double, _) => bad("float"),
        (Shape::IntOrString, _) => bad("a string or an integer"),
    }
}

/// A JSON value of which nothing is known.
fn plain<'a>(json: &'a Json, decl: &'a Decl) -> Value<'a> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Value::Int(value),
            None => Value::Double(number.as_f64().unwrap_or(0.0)),
        },
        Json::String(text) => Value::borrowed(text),
        Json::Array(items) => Value::List(List::Json(items, decl)),
        Json::Object(map) => Value::Map(Map::Json(map, decl)),
    }
}

/// The memory that an entry of an object takes, about.
const ENTRY: usize = 160;

/// Counts the work of copying.
fn copying(meter: &mut Meter, json: &Json) -> Result<(), Box<Fault>> {
    meter.step(1)?;
    match json {
        Json::String(text) => meter.write(text.len()),
        Json::Array(items) => items.iter().try_for_each(|item| copying(meter, item)),
        Json::Object(map) => map.iter().try_for_each(|(key, value)| {
            meter.write(ENTRY + key.len())?;
            copying(meter, value)
        }),
        Json::Null | Json::Bool(_) | Json::Number(_) => Ok(()),
    }
}

fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "a number",
        Json::String(_) => "string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

impl<'a> Value<'a> {
    /// A view of JSON of which nothing is known; its absent fields are errors.
    pub fn json(json: &'a Json) -> Self {
        plain(json, Decl::dynamic(crate::decl::Absent::Fails))
    }

    /// A view of JSON as its declaration reads it.
    pub fn declared(json: &'a Json, decl: &'a Decl) -> Result<Self, Box<Fault>> {
        view(json, decl)
    }

    /// The value as JSON, as Kubernetes and kro write it: times in whole seconds, durations in
    /// Go's units, bytes as base64, an empty optional as null; what is omitted is left out.
    pub fn to_json(&self, meter: &mut Meter) -> Result<Json, Box<Fault>> {
        meter.step(1)?;
        let unfit = |what: &str| {
            Err(Fault::failed(Reason::Invalid(format!(
                "{what} has no JSON form"
            ))))
        };
        Ok(match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::Uint(value) => Json::from(*value),
            Self::Double(value) => match serde_json::Number::from_f64(*value) {
                Some(number) => Json::Number(number),
                None => return unfit("a number that is not finite"),
            },
            Self::String(text) => {
                meter.write(text.as_str().len())?;
                Json::String(text.as_str().to_owned())
            }
            Self::Bytes(bytes) => {
                meter.write(bytes.len())?;
                Json::String(STANDARD.encode(bytes))
            }
            Self::Timestamp(time) => Json::String(time.in_seconds().to_string()),
            Self::Duration(duration) => Json::String(duration.in_units()),
            Self::Optional(Option::Some(inner)) => inner.value.to_json(meter)?,
            Self::List(list) => {
                let mut items = Vec::with_capacity(list.len().min(1024));
                for item in list.iter() {
                    meter.write(size_of::<Json>())?;
                    let item = item?;
                    if !is_omitted(&item) {
                        items.push(item.to_json(meter)?);
                    }
                }
                Json::Array(items)
            }
            Self::Map(Map::Json(map, decl)) if decl.object().is_some() => {
                // An object keeps the names of its data, and what is not declared.
                for (key, value) in *map {
                    meter.write(ENTRY + key.len())?;
                    copying(meter, value)?;
                }
                Json::Object((*map).clone())
            }
            Self::Map(map) => {
                let mut object = serde_json::Map::new();
                for key in map.keys() {
                    let value = map.get(&key)?.unwrap_or(Self::Null);
                    let Self::String(name) = &key else {
                        return unfit(&format!("a map with a key of type {}", key.type_of()));
                    };
                    meter.write(ENTRY + name.as_str().len())?;
                    if !is_omitted(&value) {
                        object.insert(name.as_str().to_owned(), value.to_json(meter)?);
                    }
                }
                Json::Object(object)
            }
            Self::Opaque(opaque) => match opaque.to_json() {
                Some(json) => json,
                None => return unfit(opaque.ty().name()),
            },
            Self::Type(ty) => return unfit(&format!("type {ty}")),
            Self::Host(_) => return unfit("a value of the host"),
        })
    }
}
