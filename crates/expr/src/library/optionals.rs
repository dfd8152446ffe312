//! Optional values.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::{Fault, Reason};
use crate::meter::Meter;
use crate::value::Value;

pub(super) const TABLES: &[&[Row]] = &[ROWS];

const ROWS: &[Row] = &[
    Row::new(
        "optional.of",
        "optional_of",
        "(A) -> optional(A)",
        Cost::Unit,
        of,
    ),
    Row::new(
        "optional.ofNonZeroValue",
        "optional_ofNonZeroValue",
        "(A) -> optional(A)",
        Cost::Unit,
        of_non_zero,
    ),
    Row::new(
        "optional.none",
        "optional_none",
        "() -> optional(A)",
        Cost::Unit,
        none,
    ),
    Row::new(
        "optional.unwrap",
        "optional_unwrap",
        "(list(optional(A))) -> list(A)",
        Cost::Unit,
        unwrap,
    ),
    Row::new(
        "unwrapOpt",
        "optional_unwrapOpt",
        "list(optional(A)).() -> list(A)",
        Cost::Unit,
        unwrap,
    ),
    Row::new(
        "hasValue",
        "optional_hasValue",
        "optional(A).() -> bool",
        Cost::Unit,
        has_value,
    ),
    Row::new(
        "value",
        "optional_value",
        "optional(A).() -> A",
        Cost::Unit,
        value,
    ),
    Row::new(
        "or",
        "optional_or_optional",
        "optional(A).(optional(A)) -> optional(A)",
        Cost::Unit,
        or,
    ),
    Row::new(
        "orValue",
        "optional_orValue_value",
        "optional(A).(A) -> A",
        Cost::Unit,
        or_value,
    ),
    Row::new(
        "first",
        "list_first",
        "list(A).() -> optional(A)",
        Cost::Unit,
        first,
    ),
    Row::new(
        "last",
        "list_last",
        "list(A).() -> optional(A)",
        Cost::Unit,
        last,
    ),
    // These are for the checker: indexing is an operation of its own.
    Row::new(
        "_[?_]",
        "list_optindex_optional_int",
        "(list(A), int) -> optional(A)",
        Cost::Unit,
        value,
    ),
    Row::new(
        "_[?_]",
        "optional_list_optindex_optional_int",
        "(optional(list(A)), int) -> optional(A)",
        Cost::Unit,
        value,
    ),
    Row::new(
        "_[?_]",
        "map_optindex_optional_value",
        "(map(A, B), A) -> optional(B)",
        Cost::Unit,
        value,
    ),
    Row::new(
        "_[?_]",
        "optional_map_optindex_optional_value",
        "(optional(map(A, B)), A) -> optional(B)",
        Cost::Unit,
        value,
    ),
    Row::new(
        "_[_]",
        "optional_list_index_int",
        "(optional(list(A)), int) -> optional(A)",
        Cost::Unit,
        value,
    ),
    Row::new(
        "_[_]",
        "optional_map_index_value",
        "(optional(map(A, B)), A) -> optional(B)",
        Cost::Unit,
        value,
    ),
];

fn of<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value] => Value::some(value.clone()),
        _ => Err(no_overload("optional.of", args)),
    }
}

fn of_non_zero<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value] if is_zero(value) => Ok(Value::NONE),
        [value] => Value::some(value.clone()),
        _ => Err(no_overload("optional.ofNonZeroValue", args)),
    }
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Optional(None) => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.as_str().is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Timestamp(time) => time.seconds() == 0 && time.nanos() == 0,
        Value::Duration(duration) => duration.nanos() == 0,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Type(_) | Value::Optional(Some(_)) | Value::Opaque(_) | Value::Host(_) => false,
    }
}

fn none<'a>(_: &mut Meter, _: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::NONE)
}

fn unwrap<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else {
        return Err(no_overload("optional.unwrap", args));
    };
    let mut items = Vec::new();
    for item in list.iter() {
        meter.step(1)?;
        match item? {
            Value::Optional(inner) => items.extend(inner.map(|inner| inner.value.clone())),
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Timestamp(_)
            | Value::Duration(_)
            | Value::Type(_)
            | Value::List(_)
            | Value::Map(_)
            | Value::Opaque(_)
            | Value::Host(_)) => return Err(no_overload("optional.unwrap", &[other])),
        }
    }
    Value::list(items)
}

fn has_value<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => Err(no_overload("hasValue", args)),
    }
}

fn value<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Optional(Some(inner))] => Ok(inner.value.clone()),
        [Value::Optional(None)] => Err(Fault::failed(Reason::EmptyOptional)),
        _ => Err(no_overload("value", args)),
    }
}

fn or<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [this @ Value::Optional(Some(_)), _] => Ok(this.clone()),
        [Value::Optional(None), other @ Value::Optional(_)] => Ok(other.clone()),
        _ => Err(no_overload("or", args)),
    }
}

fn or_value<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Optional(Some(inner)), _] => Ok(inner.value.clone()),
        [Value::Optional(None), other] => Ok(other.clone()),
        _ => Err(no_overload("orValue", args)),
    }
}

fn edge<'a>(name: &str, args: &[Value<'a>], last: bool) -> Outcome<'a> {
    let [Value::List(list)] = args else {
        return Err(no_overload(name, args));
    };
    let at = if last {
        list.len().checked_sub(1)
    } else {
        Some(0)
    };
    match at.map(|at| list.get(at)).transpose()?.flatten() {
        Some(item) => Value::some(item),
        None => Ok(Value::NONE),
    }
}

fn first<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    edge("first", args, false)
}

fn last<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    edge("last", args, true)
}
