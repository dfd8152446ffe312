//! `+ - * / %`, and the conditional, for every type that has them.

use std::sync::Arc;

use crate::cost::Cost;
use crate::decl::{ListKind, Shape};
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::{Fault, Reason};
use crate::meter::Meter;
use crate::value::{List, Value, equal, same_keys};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "_?_:_",
        "conditional",
        "(bool, A, A) -> A",
        Cost::Free,
        conditional,
    ),
    Row::new("!_", "logical_not", "(bool) -> bool", Cost::Unit, not),
    Row::new(
        "_+_",
        "add_bytes",
        "(bytes, bytes) -> bytes",
        Cost::Concatenate,
        add,
    ),
    Row::new(
        "_+_",
        "add_double",
        "(double, double) -> double",
        Cost::Unit,
        add,
    ),
    Row::new(
        "_+_",
        "add_duration_duration",
        "(duration, duration) -> duration",
        Cost::Unit,
        add,
    ),
    Row::new(
        "_+_",
        "add_duration_timestamp",
        "(duration, timestamp) -> timestamp",
        Cost::Unit,
        add,
    ),
    Row::new(
        "_+_",
        "add_timestamp_duration",
        "(timestamp, duration) -> timestamp",
        Cost::Unit,
        add,
    ),
    Row::new("_+_", "add_int64", "(int, int) -> int", Cost::Unit, add),
    Row::new(
        "_+_",
        "add_list",
        "(list(A), list(A)) -> list(A)",
        Cost::AddLists,
        add,
    ),
    Row::new(
        "_+_",
        "add_string",
        "(string, string) -> string",
        Cost::Concatenate,
        add,
    ),
    Row::new("_+_", "add_uint64", "(uint, uint) -> uint", Cost::Unit, add),
    Row::new(
        "_-_",
        "subtract_double",
        "(double, double) -> double",
        Cost::Unit,
        subtract,
    ),
    Row::new(
        "_-_",
        "subtract_duration_duration",
        "(duration, duration) -> duration",
        Cost::Unit,
        subtract,
    ),
    Row::new(
        "_-_",
        "subtract_int64",
        "(int, int) -> int",
        Cost::Unit,
        subtract,
    ),
    Row::new(
        "_-_",
        "subtract_timestamp_duration",
        "(timestamp, duration) -> timestamp",
        Cost::Unit,
        subtract,
    ),
    Row::new(
        "_-_",
        "subtract_timestamp_timestamp",
        "(timestamp, timestamp) -> duration",
        Cost::Unit,
        subtract,
    ),
    Row::new(
        "_-_",
        "subtract_uint64",
        "(uint, uint) -> uint",
        Cost::Unit,
        subtract,
    ),
    Row::new(
        "_*_",
        "multiply_double",
        "(double, double) -> double",
        Cost::Unit,
        multiply,
    ),
    Row::new(
        "_*_",
        "multiply_int64",
        "(int, int) -> int",
        Cost::Unit,
        multiply,
    ),
    Row::new(
        "_*_",
        "multiply_uint64",
        "(uint, uint) -> uint",
        Cost::Unit,
        multiply,
    ),
    Row::new(
        "_/_",
        "divide_double",
        "(double, double) -> double",
        Cost::Unit,
        divide,
    ),
    Row::new(
        "_/_",
        "divide_int64",
        "(int, int) -> int",
        Cost::Unit,
        divide,
    ),
    Row::new(
        "_/_",
        "divide_uint64",
        "(uint, uint) -> uint",
        Cost::Unit,
        divide,
    ),
    Row::new(
        "_%_",
        "modulo_int64",
        "(int, int) -> int",
        Cost::Unit,
        modulo,
    ),
    Row::new(
        "_%_",
        "modulo_uint64",
        "(uint, uint) -> uint",
        Cost::Unit,
        modulo,
    ),
    Row::new(
        "-_",
        "negate_double",
        "(double) -> double",
        Cost::Unit,
        negate,
    ),
    Row::new("-_", "negate_int64", "(int) -> int", Cost::Unit, negate),
];

fn conditional<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Bool(true), yes, _] => Ok(yes.clone()),
        [Value::Bool(false), _, no] => Ok(no.clone()),
        _ => Err(no_overload("_?_:_", args)),
    }
}

fn not<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(no_overload("!_", args)),
    }
}

fn checked<'a, T>(result: Option<T>, what: &'static str, wrap: fn(T) -> Value<'a>) -> Outcome<'a> {
    match result {
        Some(value) => Ok(wrap(value)),
        None => Err(Fault::failed(Reason::Overflow(what))),
    }
}

const INT: &str = "integer";
const UINT: &str = "unsigned integer";
const TIME: &str = "timestamp";
const SPAN: &str = "duration";

pub(crate) fn add<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => checked(a.checked_add(*b), INT, Value::Int),
        [Value::String(a), Value::String(b)] => {
            let (a, b) = (a.as_str(), b.as_str());
            meter.step((a.len() + b.len()) as u64 / 64)?;
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Ok(Value::string(text))
        }
        [Value::Uint(a), Value::Uint(b)] => checked(a.checked_add(*b), UINT, Value::Uint),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::Bytes(a), Value::Bytes(b)] => {
            meter.step((a.len() + b.len()) as u64 / 64)?;
            Ok(Value::Bytes(Arc::from([&**a, &**b].concat())))
        }
        [Value::List(a), Value::List(b)] => add_lists(meter, a, b),
        [Value::Duration(a), Value::Duration(b)] => checked(a.plus(*b), SPAN, Value::Duration),
        [Value::Timestamp(a), Value::Duration(b)] | [Value::Duration(b), Value::Timestamp(a)] => {
            checked(a.plus(*b), TIME, Value::Timestamp)
        }
        _ => Err(no_overload("_+_", args)),
    }
}

/// Lists one after the other; sets and keyed lists of a schema are merged.
fn add_lists<'a>(meter: &mut Meter, a: &List<'a>, b: &List<'a>) -> Outcome<'a> {
    meter.step((a.len() + b.len()) as u64)?;
    let kind = match a {
        List::Json(_, decl) => {
            if let Shape::List { kind, .. } = decl.shape() {
                kind
            } else {
                &ListKind::Atomic
            }
        }
        List::Owned(_) | List::Host(_) => &ListKind::Atomic,
    };
    let mut items = a.to_vec()?;
    for item in b.iter() {
        let item = item?;
        let mut known = None;
        for (index, one) in items.iter().enumerate() {
            let same = match kind {
                ListKind::Atomic => break,
                ListKind::Set => equal(meter, one, &item)?,
                ListKind::Map(keys) => same_keys(meter, keys, one, &item)?,
            };
            meter.step(1)?;
            if same {
                known = Some(index);
            }
        }
        match known {
            Some(index) => items[index] = item,
            None => items.push(item),
        }
    }
    Value::list(items)
}

fn subtract<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => checked(a.checked_sub(*b), INT, Value::Int),
        [Value::Uint(a), Value::Uint(b)] => checked(a.checked_sub(*b), UINT, Value::Uint),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => checked(a.minus(*b), SPAN, Value::Duration),
        [Value::Timestamp(a), Value::Duration(b)] => {
            let back = b
                .nanos()
                .checked_neg()
                .map(crate::time::Duration::from_nanos);
            checked(back.and_then(|back| a.plus(back)), TIME, Value::Timestamp)
        }
        [Value::Timestamp(a), Value::Timestamp(b)] => checked(a.since(*b), SPAN, Value::Duration),
        _ => Err(no_overload("_-_", args)),
    }
}

fn multiply<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => checked(a.checked_mul(*b), INT, Value::Int),
        [Value::Uint(a), Value::Uint(b)] => checked(a.checked_mul(*b), UINT, Value::Uint),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => Err(no_overload("_*_", args)),
    }
}

fn divide<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(Fault::failed(Reason::DivisionByZero))
        }
        [Value::Int(a), Value::Int(b)] => checked(a.checked_div(*b), INT, Value::Int),
        [Value::Uint(a), Value::Uint(b)] => checked(a.checked_div(*b), UINT, Value::Uint),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => Err(no_overload("_/_", args)),
    }
}

fn modulo<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(Fault::failed(Reason::ModulusByZero))
        }
        [Value::Int(a), Value::Int(b)] => checked(a.checked_rem(*b), INT, Value::Int),
        [Value::Uint(a), Value::Uint(b)] => checked(a.checked_rem(*b), UINT, Value::Uint),
        _ => Err(no_overload("_%_", args)),
    }
}

fn negate<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(a)] => checked(a.checked_neg(), INT, Value::Int),
        [Value::Double(a)] => Ok(Value::Double(-a)),
        _ => Err(no_overload("-_", args)),
    }
}
