//! Sizes, membership, indexing.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::meter::Meter;
use crate::value::{Value, equal};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "_[_]",
        "index_list",
        "(list(A), int) -> A",
        Cost::Unit,
        index,
    ),
    Row::new(
        "_[_]",
        "index_map",
        "(map(A, B), A) -> B",
        Cost::Unit,
        index,
    ),
    Row::new(
        "@in",
        "in_list",
        "(A, list(A)) -> bool",
        Cost::InList,
        contains,
    ),
    Row::new(
        "@in",
        "in_map",
        "(A, map(A, B)) -> bool",
        Cost::Unit,
        contains,
    ),
    Row::new("size", "size_bytes", "(bytes) -> int", Cost::Unit, size),
    Row::new("size", "bytes_size", "bytes.() -> int", Cost::Unit, size),
    Row::new("size", "size_list", "(list(A)) -> int", Cost::Unit, size),
    Row::new("size", "list_size", "list(A).() -> int", Cost::Unit, size),
    Row::new("size", "size_map", "(map(A, B)) -> int", Cost::Unit, size),
    Row::new("size", "map_size", "map(A, B).() -> int", Cost::Unit, size),
    Row::new("size", "size_string", "(string) -> int", Cost::Unit, size),
    Row::new("size", "string_size", "string.() -> int", Cost::Unit, size),
    Row::new("type", "type", "(A) -> type(A)", Cost::Unit, type_of),
    Row::new("dyn", "to_dyn", "(A) -> dyn", Cost::Unit, dynamic),
];

/// Indexing is an operation of its own; the rows above are for the checker.
fn index<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Err(no_overload("_[_]", args))
}

pub(crate) fn contains<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [item, Value::List(list)] => {
            for one in list.iter() {
                meter.step(1)?;
                if equal(meter, &one?, item)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        [key, Value::Map(map)] => Ok(Value::Bool(map.get(key)?.is_some())),
        _ => Err(no_overload("@in", args)),
    }
}

fn size<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let length = match args {
        [Value::String(text)] => text.as_str().chars().count(),
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return Err(no_overload("size", args)),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn type_of<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value] => Ok(Value::of_type(value.type_of())),
        _ => Err(no_overload("type", args)),
    }
}

fn dynamic<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value] => Ok(value.clone()),
        _ => Err(no_overload("dyn", args)),
    }
}
