//! Equality and order.

use std::cmp::Ordering;

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::meter::Meter;
use crate::value::{Value, compare, equal};

pub(super) const ROWS: &[Row] = &[
    Row::new("_==_", "equals", "(A, A) -> bool", Cost::Compare, equals),
    Row::new(
        "_!=_",
        "not_equals",
        "(A, A) -> bool",
        Cost::Compare,
        not_equals,
    ),
    Row::new("_<_", "less_bool", "(bool, bool) -> bool", Cost::Unit, less),
    Row::new("_<_", "less_int64", "(int, int) -> bool", Cost::Unit, less),
    Row::new(
        "_<_",
        "less_int64_double",
        "(int, double) -> bool",
        Cost::Unit,
        less,
    ),
    Row::new(
        "_<_",
        "less_int64_uint64",
        "(int, uint) -> bool",
        Cost::Unit,
        less,
    ),
    Row::new(
        "_<_",
        "less_uint64",
        "(uint, uint) -> bool",
        Cost::Unit,
        less,
    ),
    Row::new(
        "_<_",
        "less_uint64_double",
        "(uint, double) -> bool",
        Cost::Unit,
        less,
    ),
    Row::new(
        "_<_",
        "less_uint64_int64",
        "(uint, int) -> bool",
        Cost::Unit,
        less,
    ),
    Row::new(
        "_<_",
        "less_double",
        "(double, double) -> bool",
        Cost::Unit,
        less,
    ),
    Row::new(
        "_<_",
        "less_double_int64",
        "(double, int) -> bool",
        Cost::Unit,
        less,
    ),
    Row::new(
        "_<_",
        "less_double_uint64",
        "(double, uint) -> bool",
        Cost::Unit,
        less,
    ),
    Row::new(
        "_<_",
        "less_string",
        "(string, string) -> bool",
        Cost::Compare,
        less,
    ),
    Row::new(
        "_<_",
        "less_bytes",
        "(bytes, bytes) -> bool",
        Cost::Compare,
        less,
    ),
    Row::new(
        "_<_",
        "less_timestamp",
        "(timestamp, timestamp) -> bool",
        Cost::Unit,
        less,
    ),
    Row::new(
        "_<_",
        "less_duration",
        "(duration, duration) -> bool",
        Cost::Unit,
        less,
    ),
    Row::new(
        "_<=_",
        "less_equals_bool",
        "(bool, bool) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_int64",
        "(int, int) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_int64_double",
        "(int, double) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_int64_uint64",
        "(int, uint) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_uint64",
        "(uint, uint) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_uint64_double",
        "(uint, double) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_uint64_int64",
        "(uint, int) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_double",
        "(double, double) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_double_int64",
        "(double, int) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_double_uint64",
        "(double, uint) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_string",
        "(string, string) -> bool",
        Cost::Compare,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_bytes",
        "(bytes, bytes) -> bool",
        Cost::Compare,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_timestamp",
        "(timestamp, timestamp) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_<=_",
        "less_equals_duration",
        "(duration, duration) -> bool",
        Cost::Unit,
        less_equals,
    ),
    Row::new(
        "_>_",
        "greater_bool",
        "(bool, bool) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_int64",
        "(int, int) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_int64_double",
        "(int, double) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_int64_uint64",
        "(int, uint) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_uint64",
        "(uint, uint) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_uint64_double",
        "(uint, double) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_uint64_int64",
        "(uint, int) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_double",
        "(double, double) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_double_int64",
        "(double, int) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_double_uint64",
        "(double, uint) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_string",
        "(string, string) -> bool",
        Cost::Compare,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_bytes",
        "(bytes, bytes) -> bool",
        Cost::Compare,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_timestamp",
        "(timestamp, timestamp) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>_",
        "greater_duration",
        "(duration, duration) -> bool",
        Cost::Unit,
        greater,
    ),
    Row::new(
        "_>=_",
        "greater_equals_bool",
        "(bool, bool) -> bool",
        Cost::Unit,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_int64",
        "(int, int) -> bool",
        Cost::Unit,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_int64_double",
        "(int, double) -> bool",
        Cost::Unit,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_int64_uint64",
        "(int, uint) -> bool",
        Cost::Unit,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_uint64",
        "(uint, uint) -> bool",
        Cost::Unit,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_uint64_double",
        "(uint, double) -> bool",
        Cost::Unit,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_uint64_int64",
        "(uint, int) -> bool",
        Cost::Unit,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_double",
        "(double, double) -> bool",
        Cost::Unit,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_double_int64",
        "(double, int) -> bool",
        Cost::Unit,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_double_uint64",
        "(double, uint) -> bool",
        Cost::Unit,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_string",
        "(string, string) -> bool",
        Cost::Compare,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_bytes",
        "(bytes, bytes) -> bool",
        Cost::Compare,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_timestamp",
        "(timestamp, timestamp) -> bool",
        Cost::Unit,
        greater_equals,
    ),
    Row::new(
        "_>=_",
        "greater_equals_duration",
        "(duration, duration) -> bool",
        Cost::Unit,
        greater_equals,
    ),
];

fn equals<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [a, b] => Ok(Value::Bool(equal(meter, a, b)?)),
        _ => Err(no_overload("_==_", args)),
    }
}

fn not_equals<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [a, b] => Ok(Value::Bool(!equal(meter, a, b)?)),
        _ => Err(no_overload("_!=_", args)),
    }
}

fn ordered<'a>(name: &str, args: &[Value<'a>], holds: fn(Ordering) -> bool) -> Outcome<'a> {
    if let [a, b] = args
        && let Some(order) = compare(a, b)?
    {
        return Ok(Value::Bool(holds(order)));
    }
    Err(no_overload(name, args))
}

fn less<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    ordered("_<_", args, Ordering::is_lt)
}

fn less_equals<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    ordered("_<=_", args, Ordering::is_le)
}

fn greater<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    ordered("_>_", args, Ordering::is_gt)
}

fn greater_equals<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    ordered("_>=_", args, Ordering::is_ge)
}
