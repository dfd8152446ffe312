//! Equality and order. Numbers compare by value whatever their kind; values of different types
//! are not equal, and have no order.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::Value as Json;

use super::json::view;
use super::map::Key;
use super::{List, Map, Value};
use crate::decl::{ListKind, ObjectType, Shape};
use crate::fault::{Fault, Reason};
use crate::meter::{BYTES_READ_PER_STEP, Meter};

/// Whether two values are equal.
pub(crate) fn equal(meter: &mut Meter, a: &Value<'_>, b: &Value<'_>) -> Result<bool, Box<Fault>> {
    Ok(match (a, b) {
        (Value::String(a), Value::String(b)) => {
            let (a, b) = (a.as_str(), b.as_str());
            if a.len() != b.len() {
                return Ok(false);
            }
            meter.step(a.len() as u64 / BYTES_READ_PER_STEP)?;
            a == b
        }
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Null, Value::Null) => true,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Bytes(one), Value::Bytes(other)) => {
            meter.read(a)?;
            one == other
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a.name() == b.name(),
        (Value::List(a), Value::List(b)) => return lists(meter, a, b),
        (Value::Map(a), Value::Map(b)) => return maps(meter, a, b),
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => {
                meter.step(1)?;
                return equal(meter, &a.value, &b.value);
            }
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        },
        (Value::Opaque(one), Value::Opaque(other)) => {
            meter.read(a)?;
            meter.read(b)?;
            return one.equals(&**other);
        }
        (Value::Opaque(one), _) | (_, Value::Opaque(one)) => return one.equals_other(),
        (Value::Host(a), Value::Host(b)) => a.equals(*b),
        _ => numbers(a, b) == Some(Ordering::Equal),
    })
}

fn lists(meter: &mut Meter, a: &List<'_>, b: &List<'_>) -> Result<bool, Box<Fault>> {
    if a.len() != b.len() {
        return Ok(false);
    }
    if let List::Json(_, decl) = a {
        match decl.shape() {
            Shape::List {
                kind: ListKind::Set,
                ..
            } => return sets(meter, a, b),
            Shape::List {
                kind: ListKind::Map(keys),
                ..
            } => return keyed(meter, keys, a, b),
            Shape::Dyn
            | Shape::IntOrString
            | Shape::Bool
            | Shape::Int
            | Shape::Double
            | Shape::String
            | Shape::Bytes
            | Shape::Duration
            | Shape::Date
            | Shape::DateTime
            | Shape::List { .. }
            | Shape::Map { .. }
            | Shape::Object(_) => {}
        }
    }
    ordered(meter, a, b)
}

/// Lists item by item.
fn ordered(meter: &mut Meter, a: &List<'_>, b: &List<'_>) -> Result<bool, Box<Fault>> {
    for (a, b) in a.iter().zip(b.iter()) {
        meter.step(1)?;
        if !equal(meter, &a?, &b?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lists in which order does not matter.
fn sets(meter: &mut Meter, a: &List<'_>, b: &List<'_>) -> Result<bool, Box<Fault>> {
    unordered(meter, a, b, &|item| Ok(Some(vec![Some(item.clone())])))
}

/// Lists whose items are told apart by the fields `keys`.
fn keyed(
    meter: &mut Meter,
    keys: &[Box<str>],
    a: &List<'_>,
    b: &List<'_>,
) -> Result<bool, Box<Fault>> {
    unordered(meter, a, b, &|item| {
        let Some(map) = item.as_map() else {
            return Ok(None);
        };
        keys.iter()
            .map(|key| map.field(key))
            .collect::<Result<_, _>>()
            .map(Some)
    })
}

/// What an item is told apart by: nothing when it cannot be; a part that is not there is one, too.
type Identity<'f, 'v> =
    &'f dyn Fn(&Value<'v>) -> Result<Option<Vec<Option<Value<'v>>>>, Box<Fault>>;

/// Lists whose items are found by what they are told apart by, wherever they stand.
fn unordered<'v>(
    meter: &mut Meter,
    a: &List<'v>,
    b: &List<'v>,
    identity: Identity<'_, 'v>,
) -> Result<bool, Box<Fault>> {
    // Long lists that did not change are compared for as long as they are, and no longer.
    if ordered(meter, a, b)? {
        return Ok(true);
    }
    let mut places: HashMap<Vec<Option<Key<'v>>>, Value<'v>> = HashMap::new();
    let mut rest = Vec::new();
    for item in a.iter() {
        let item = item?;
        match hashed(meter, identity(&item)?)? {
            Some(keys) => drop(places.insert(keys, item)),
            None => rest.push(item),
        }
    }
    for item in b.iter() {
        let item = item?;
        let same = match hashed(meter, identity(&item)?)? {
            Some(keys) => match places.get(&keys) {
                Some(counterpart) => equal(meter, counterpart, &item)?,
                None => false,
            },
            None => among(meter, &rest, &item)?,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether an item is among those that have to be looked at one by one.
fn among(meter: &mut Meter, items: &[Value<'_>], item: &Value<'_>) -> Result<bool, Box<Fault>> {
    for one in items {
        meter.step(1)?;
        if equal(meter, one, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What items are told apart by, if it can be hashed.
fn hashed<'v>(
    meter: &mut Meter,
    parts: Option<Vec<Option<Value<'v>>>>,
) -> Result<Option<Vec<Option<Key<'v>>>>, Box<Fault>> {
    let Some(parts) = parts else {
        return Ok(None);
    };
    meter.step(1 + parts.len() as u64)?;
    let mut keys = Vec::with_capacity(parts.len());
    for part in parts {
        let key = match &part {
            Some(value) => {
                meter.read(value)?;
                match Key::of(value) {
                    Some(key) => Some(key),
                    None => return Ok(None),
                }
            }
            None => None,
        };
        keys.push(key);
    }
    Ok(Some(keys))
}

/// Whether two items of a keyed list have the same key.
pub(crate) fn same_keys(
    meter: &mut Meter,
    keys: &[Box<str>],
    a: &Value<'_>,
    b: &Value<'_>,
) -> Result<bool, Box<Fault>> {
    let (Some(a), Some(b)) = (a.as_map(), b.as_map()) else {
        return Ok(false);
    };
    for key in keys {
        let same = match (a.field(key)?, b.field(key)?) {
            (Some(a), Some(b)) => equal(meter, &a, &b)?,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps(meter: &mut Meter, a: &Map<'_>, b: &Map<'_>) -> Result<bool, Box<Fault>> {
    if a.len() != b.len() {
        return Ok(false);
    }
    if let (Map::Json(a, decl), Map::Json(b, _)) = (a, b)
        && let Some(object) = decl.object()
    {
        return objects(meter, object, a, b);
    }
    for key in a.keys() {
        meter.step(1)?;
        let same = match (a.get(&key)?, b.get(&key)?) {
            (Some(a), Some(b)) => equal(meter, &a, &b)?,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Objects: declared fields as their declarations read them, and all else as it is.
fn objects(
    meter: &mut Meter,
    object: &ObjectType,
    a: &serde_json::Map<String, Json>,
    b: &serde_json::Map<String, Json>,
) -> Result<bool, Box<Fault>> {
    for (key, a) in a {
        meter.step(1 + object.fields().len() as u64 / 16)?;
        let Some(b) = b.get(key) else {
            return Ok(false);
        };
        let field = object.fields().iter().find(|field| field.key() == key);
        let same = match field {
            Some(field) if !a.is_null() && !b.is_null() => {
                let (a, b) = (view(a, field.decl())?, view(b, field.decl())?);
                equal(meter, &a, &b)?
            }
            Some(_) | None => same_json(meter, a, b)?,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether JSON of which nothing is known is the same.
fn same_json(meter: &mut Meter, a: &Json, b: &Json) -> Result<bool, Box<Fault>> {
    meter.step(1)?;
    match (a, b) {
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            for (a, b) in a.iter().zip(b) {
                if !same_json(meter, a, b)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Json::Object(a), Json::Object(b)) if a.len() == b.len() => {
            for ((one, a), (other, b)) in a.iter().zip(b) {
                if one != other || !same_json(meter, a, b)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Json::String(text), _) => {
            meter.step(text.len() as u64 / BYTES_READ_PER_STEP)?;
            Ok(a == b)
        }
        (Json::Array(_) | Json::Object(_), _) => Ok(false),
        (Json::Null | Json::Bool(_) | Json::Number(_), _) => Ok(a == b),
    }
}

/// The order of two numbers of any kind; nothing when one is no number or not a number.
fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Double(a), Value::Int(b)) => double(*a, i128::from(*b), INT),
        (Value::Double(a), Value::Uint(b)) => double(*a, i128::from(*b), UINT),
        (Value::Int(a), Value::Double(b)) => double(*b, i128::from(*a), INT).map(Ordering::reverse),
        (Value::Uint(a), Value::Double(b)) => {
            double(*b, i128::from(*a), UINT).map(Ordering::reverse)
        }
        _ => None,
    }
}

/// A double beside an integer: what is out of the integer's range is beyond it, all else is
/// compared as doubles. That is how the language defines it, rounding included.
#[expect(
    clippy::cast_precision_loss,
    reason = "the language compares what was rounded"
)]
fn double(a: f64, b: i128, range: (f64, f64)) -> Option<Ordering> {
    if a < range.0 {
        return Some(Ordering::Less);
    }
    if a > range.1 {
        return Some(Ordering::Greater);
    }
    a.partial_cmp(&(b as f64))
}

/// The ranges of int and uint, as doubles.
const INT: (f64, f64) = (-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0);
const UINT: (f64, f64) = (0.0, 18_446_744_073_709_551_616.0);

/// The order of two values; `None` when their types have no common order.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> Result<Option<Ordering>, Box<Fault>> {
    Ok(match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.as_str().cmp(b.as_str())),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        (Value::Double(x), _) | (_, Value::Double(x))
            if x.is_nan() && is_number(a) && is_number(b) =>
        {
            return Err(Fault::failed(Reason::Invalid(
                "NaN values cannot be ordered".to_owned(),
            )));
        }
        _ => numbers(a, b),
    })
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}
