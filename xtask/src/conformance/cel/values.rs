//! Values and types of the conformance data, as ours.

use anyhow::{Context, Result, bail};
use deltaplane_expr::types::{OpaqueType, Primitive, Type};
use deltaplane_expr::value::{List, Map, OwnedMap};
use deltaplane_expr::{Duration, Timestamp, Value};

use super::textproto::{Field, Message};

/// A value of the data.
pub(super) fn value(message: &Message) -> Result<Value<'static>> {
    let (kind, field) = message.only().context("an empty value")?;
    Ok(match kind {
        "null_value" => Value::Null,
        "bool_value" => Value::Bool(field.text() == "true"),
        "int64_value" => Value::Int(integer(&field.text())?),
        "uint64_value" => Value::Uint(field.text().parse()?),
        "double_value" => Value::Double(double(&field.text())?),
        "string_value" => Value::string(field.text()),
        "bytes_value" => Value::bytes(field.bytes()),
        "type_value" => Value::of_type(named(&field.text())),
        "list_value" => {
            let items = inner(field)?.messages("values").map(value);
            Value::List(List::new(items.collect::<Result<_>>()?).map_err(|fault| *fault)?)
        }
        "map_value" => {
            let mut map = OwnedMap::new();
            for entry in inner(field)?.messages("entries") {
                let key = value(entry.message("key").context("an entry without a key")?)?;
                let value = value(entry.message("value").context("an entry without a value")?)?;
                map.insert(key, value).map_err(|fault| *fault)?;
            }
            Value::Map(Map::owned(map))
        }
        "object_value" => object(inner(field)?)?,
        other => bail!("a value of the kind {other}"),
    })
}

fn inner(field: &Field) -> Result<&Message> {
    field.as_message().context("not a message")
}

fn integer(text: &str) -> Result<i64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return Ok(i64::from_str_radix(hex, 16)?);
    }
    Ok(text.parse()?)
}

fn double(text: &str) -> Result<f64> {
    Ok(match text {
        "inf" | "infinity" => f64::INFINITY,
        "-inf" | "-infinity" => f64::NEG_INFINITY,
        "nan" => f64::NAN,
        text => text.trim_end_matches('f').parse()?,
    })
}

/// Times and durations, the only messages that are values of ours.
fn object(message: &Message) -> Result<Value<'static>> {
    let (kind, field) = message.only().context("an empty object")?;
    let parts = inner(field)?;
    let number = |name: &str| -> Result<i64> {
        match parts.get(name) {
            Some(field) => Ok(field.text().parse()?),
            None => Ok(0),
        }
    };
    let (seconds, nanos) = (number("seconds")?, number("nanos")?);
    match kind {
        "[type.googleapis.com/google.protobuf.Timestamp]" => {
            let time = Timestamp::new(seconds, u32::try_from(nanos)?).context("out of range")?;
            Ok(Value::Timestamp(time))
        }
        "[type.googleapis.com/google.protobuf.Duration]" => Ok(Value::Duration(
            Duration::from_nanos(seconds * 1_000_000_000 + nanos),
        )),
        other => bail!("an object of the kind {other}"),
    }
}

/// A type by its name.
fn named(name: &str) -> Type {
    match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::of_type(Type::Dyn),
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        other => Type::opaque(other),
    }
}

/// A type of the data.
pub(super) fn ty(message: &Message) -> Result<Type> {
    let (kind, field) = message.only().context("an empty type")?;
    let part = |name: &str| match inner(field)?.message(name) {
        Some(part) => ty(part),
        None => Ok(Type::Dyn),
    };
    Ok(match kind {
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "error" => Type::Error,
        "primitive" => primitive(&field.text())?.plain(),
        "wrapper" => Type::Wrapper(primitive(&field.text())?),
        "well_known" => match field.text().as_str() {
            "TIMESTAMP" => Type::Timestamp,
            "DURATION" => Type::Duration,
            _ => Type::Dyn,
        },
        "list_type" => Type::list(part("elem_type")?),
        "map_type" => Type::map(part("key_type")?, part("value_type")?),
        "type" => Type::of_type(ty(inner(field)?).unwrap_or(Type::Dyn)),
        "type_param" => Type::Param(u32::from(field.text().bytes().next().unwrap_or_default())),
        "abstract_type" => {
            let abstracted = inner(field)?;
            let params: Vec<Type> = abstracted
                .messages("parameter_types")
                .map(ty)
                .collect::<Result<_>>()?;
            match (abstracted.text("name").as_str(), params.as_slice()) {
                ("optional_type", [one]) => Type::optional(one.clone()),
                (name, _) => Type::Opaque(std::sync::Arc::new(OpaqueType {
                    name: name.into(),
                    params,
                })),
            }
        }
        other => bail!("a type of the kind {other}"),
    })
}

fn primitive(name: &str) -> Result<Primitive> {
    Ok(match name {
        "BOOL" => Primitive::Bool,
        "INT64" => Primitive::Int,
        "UINT64" => Primitive::Uint,
        "DOUBLE" => Primitive::Double,
        "STRING" => Primitive::String,
        "BYTES" => Primitive::Bytes,
        other => bail!("a primitive {other}"),
    })
}

/// Whether both are the same, kinds of numbers included; not a number is the same as itself.
pub(super) fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Uint(a), Value::Uint(b)) => a == b,
        (Value::Double(a), Value::Double(b)) => a == b || (a.is_nan() && b.is_nan()),
        (Value::String(a), Value::String(b)) => a.as_str() == b.as_str(),
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a.name() == b.name(),
        (Value::List(a), Value::List(b)) => {
            let pairs = || a.iter().zip(b.iter());
            a.len() == b.len()
                && pairs().all(|(a, b)| matches!((a, b), (Ok(a), Ok(b)) if same(&a, &b)))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.keys().iter().all(|key| match (a.get(key), b.get(key)) {
                    (Ok(Some(a)), Ok(Some(b))) => same(&a, &b),
                    _ => false,
                })
        }
        _ => false,
    }
}
