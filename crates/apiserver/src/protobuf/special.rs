//! Types with encodings of their own, one way and the other. Errors say what is wrong.

use deltaplane_api::quantity;
use deltaplane_api::time::Time;
use serde_json::Value;

use super::decode::int32;
use super::tables::Special;
use super::wire::{Field, Reader, Writer};

type Result<T> = std::result::Result<T, &'static str>;

const WRONG: &str = "wrong wire type";

/// The years 0 to 9999, which is what RFC 3339 can say.
const TIMES: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// What Go prints for a value that was not sent; only for types whose zero is not null.
pub(super) fn zero(kind: Special) -> Value {
    match kind {
        Special::Quantity => Value::from("0"),
        Special::IntOrString => Value::from(0),
        Special::SchemaOrBool => Value::Bool(false),
        Special::Time
        | Special::MicroTime
        | Special::Raw
        | Special::Json
        | Special::Strings
        | Special::SchemaOrArray
        | Special::SchemaOrStrings => Value::Null,
    }
}

/// Whole seconds; fractions are dropped, as Kubernetes does.
pub(super) fn time(bytes: &[u8]) -> Result<Value> {
    Ok(timestamp(bytes)?.map_or(Value::Null, |(seconds, _)| {
        Time::from_unix(seconds).to_value()
    }))
}

/// Microseconds; what is finer is dropped.
pub(super) fn micro_time(bytes: &[u8]) -> Result<Value> {
    let Some((seconds, nanos)) = timestamp(bytes)? else {
        return Ok(Value::Null);
    };
    let whole = Time::from_unix(seconds).to_string();
    Ok(Value::String(format!(
        "{}.{:06}Z",
        whole.trim_end_matches('Z'),
        nanos / 1_000
    )))
}

/// `None` for the zero time, which is sent as nothing at all.
fn timestamp(bytes: &[u8]) -> Result<Option<(i64, i32)>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field()? {
        match field {
            (1, Field::Varint(value)) => seconds = value.cast_signed(),
            (2, Field::Varint(value)) => nanos = int32(value),
            (1 | 2, _) => return Err(WRONG),
            _ => {}
        }
    }
    match TIMES.contains(&seconds) && (0..1_000_000_000).contains(&nanos) {
        true => Ok(Some((seconds, nanos))),
        false => Err("a time out of range"),
    }
}

/// In canonical form, since Go parses what it reads and prints it again.
pub(super) fn quantity(bytes: &[u8]) -> Result<Value> {
    let text = single(bytes)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(zero(Special::Quantity));
    }
    let text = std::str::from_utf8(text).map_err(|_| "text that is not UTF-8")?;
    let canonical = quantity::canonical(text).map_err(|_| "something that is not a quantity")?;
    Ok(Value::String(canonical.into_owned()))
}

pub(super) fn int_or_string(bytes: &[u8]) -> Result<Value> {
    let (mut is_string, mut number, mut text) = (false, 0, &b""[..]);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field()? {
        match field {
            (1, Field::Varint(0)) => is_string = false,
            (1, Field::Varint(1)) => is_string = true,
            (1, Field::Varint(_)) => return Err("something that is neither a number nor a string"),
            (2, Field::Varint(value)) => number = int32(value),
            (3, Field::Bytes(value)) => text = value,
            (1..=3, _) => return Err(WRONG),
            _ => {}
        }
    }
    if !is_string {
        return Ok(Value::from(number));
    }
    let text = std::str::from_utf8(text).map_err(|_| "text that is not UTF-8")?;
    Ok(Value::from(text))
}

/// A message with JSON text in its first field. The JSON parser bounds the depth.
pub(super) fn raw(bytes: &[u8]) -> Result<Value> {
    match single(bytes)? {
        None | Some([]) => Ok(Value::Null),
        Some(json) => serde_json::from_slice(json).map_err(|_| "something that is not JSON"),
    }
}

/// A message that wraps a list of strings.
pub(super) fn strings(bytes: &[u8]) -> Result<Vec<Value>> {
    let mut list = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field()? {
        match field {
            (1, Field::Bytes(value)) => {
                let text = std::str::from_utf8(value).map_err(|_| "text that is not UTF-8")?;
                list.push(Value::from(text));
            }
            (1, _) => return Err(WRONG),
            _ => {}
        }
    }
    Ok(list)
}

/// The last occurrence of field 1.
fn single(bytes: &[u8]) -> Result<Option<&[u8]>> {
    let mut found = None;
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field()? {
        match field {
            (1, Field::Bytes(value)) => found = Some(value),
            (1, _) => return Err(WRONG),
            _ => {}
        }
    }
    Ok(found)
}

/// Writes a special value's message; `false` when the value does not have the type.
/// Schemas are not here: they need the tables.
pub(super) fn write(kind: Special, value: &Value, out: &mut Writer) -> bool {
    match (kind, value) {
        (_, Value::Null) => true,
        (Special::Time, Value::String(text)) => text
            .parse::<Time>()
            .map(|time| write_time(time, false, out))
            .is_ok(),
        (Special::MicroTime, Value::String(text)) => text
            .parse::<Time>()
            .map(|time| write_time(time, true, out))
            .is_ok(),
        (Special::Quantity, Value::String(text)) => {
            out.bytes(1, text.as_bytes());
            true
        }
        (Special::Quantity, Value::Number(number)) => {
            out.bytes(1, number.to_string().as_bytes());
            true
        }
        (Special::IntOrString, Value::String(text)) => {
            out.bytes(3, text.as_bytes());
            out.number(2, 0);
            out.number(1, 1);
            true
        }
        (Special::IntOrString, Value::Number(number)) => {
            let Some(number) = number.as_i64() else {
                return false;
            };
            out.bytes(3, b"");
            out.number(2, number.cast_unsigned());
            out.number(1, 0);
            true
        }
        (Special::Raw | Special::Json, value) => {
            out.bytes(1, value.to_string().as_bytes());
            true
        }
        (Special::Strings, Value::Array(list)) => {
            for item in list.iter().rev() {
                let Some(text) = item.as_str() else {
                    return false;
                };
                out.bytes(1, text.as_bytes());
            }
            true
        }
        (
            Special::Time
            | Special::MicroTime
            | Special::Quantity
            | Special::IntOrString
            | Special::Strings
            | Special::SchemaOrArray
            | Special::SchemaOrBool
            | Special::SchemaOrStrings,
            _,
        ) => false,
    }
}

fn write_time(time: Time, micros: bool, out: &mut Writer) {
    let text = time.micro();
    let fraction = text
        .rsplit_once('.')
        .map_or("0", |(_, fraction)| fraction.trim_end_matches('Z'));
    let nanos = fraction.parse::<u64>().unwrap_or_default() * 1_000;
    out.number(2, if micros { nanos } else { 0 });
    out.number(1, time.unix().cast_unsigned());
}
