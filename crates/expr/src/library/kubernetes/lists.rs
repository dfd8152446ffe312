//! Sums, extremes and positions in lists.

use crate::cost::Cost;
use crate::env::{Fun, Row};
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::library::lists::order;
use crate::library::standard::arithmetic::add;
use crate::meter::Meter;
use crate::time::Duration;
use crate::value::{Value, equal};

pub(in crate::library) const TABLES: &[&[Row]] = &[ROWS];

const ROWS: &[Row] = &[
    Row::new(
        "isSorted",
        "list_int_is_sorted_bool",
        "list(int).() -> bool",
        Cost::Traverse,
        is_sorted,
    ),
    Row::new(
        "isSorted",
        "list_uint_is_sorted_bool",
        "list(uint).() -> bool",
        Cost::Traverse,
        is_sorted,
    ),
    Row::new(
        "isSorted",
        "list_double_is_sorted_bool",
        "list(double).() -> bool",
        Cost::Traverse,
        is_sorted,
    ),
    Row::new(
        "isSorted",
        "list_bool_is_sorted_bool",
        "list(bool).() -> bool",
        Cost::Traverse,
        is_sorted,
    ),
    Row::new(
        "isSorted",
        "list_duration_is_sorted_bool",
        "list(duration).() -> bool",
        Cost::Traverse,
        is_sorted,
    ),
    Row::new(
        "isSorted",
        "list_timestamp_is_sorted_bool",
        "list(timestamp).() -> bool",
        Cost::Traverse,
        is_sorted,
    ),
    Row::new(
        "isSorted",
        "list_string_is_sorted_bool",
        "list(string).() -> bool",
        Cost::Traverse,
        is_sorted,
    ),
    Row::new(
        "isSorted",
        "list_bytes_is_sorted_bool",
        "list(bytes).() -> bool",
        Cost::Traverse,
        is_sorted,
    ),
    Row::new(
        "sum",
        "list_int_sum_int",
        "list(int).() -> int",
        Cost::Traverse,
        sum_int,
    ),
    Row::new(
        "sum",
        "list_uint_sum_uint",
        "list(uint).() -> uint",
        Cost::Traverse,
        sum_uint,
    ),
    Row::new(
        "sum",
        "list_double_sum_double",
        "list(double).() -> double",
        Cost::Traverse,
        sum_double,
    ),
    Row::new(
        "sum",
        "list_duration_sum_duration",
        "list(duration).() -> duration",
        Cost::Traverse,
        sum_duration,
    ),
    Row::new(
        "max",
        "list_int_max_int",
        "list(int).() -> int",
        Cost::Traverse,
        max,
    ),
    Row::new(
        "max",
        "list_uint_max_uint",
        "list(uint).() -> uint",
        Cost::Traverse,
        max,
    ),
    Row::new(
        "max",
        "list_double_max_double",
        "list(double).() -> double",
        Cost::Traverse,
        max,
    ),
    Row::new(
        "max",
        "list_bool_max_bool",
        "list(bool).() -> bool",
        Cost::Traverse,
        max,
    ),
    Row::new(
        "max",
        "list_duration_max_duration",
        "list(duration).() -> duration",
        Cost::Traverse,
        max,
    ),
    Row::new(
        "max",
        "list_timestamp_max_timestamp",
        "list(timestamp).() -> timestamp",
        Cost::Traverse,
        max,
    ),
    Row::new(
        "max",
        "list_string_max_string",
        "list(string).() -> string",
        Cost::Traverse,
        max,
    ),
    Row::new(
        "max",
        "list_bytes_max_bytes",
        "list(bytes).() -> bytes",
        Cost::Traverse,
        max,
    ),
    Row::new(
        "min",
        "list_int_min_int",
        "list(int).() -> int",
        Cost::Traverse,
        min,
    ),
    Row::new(
        "min",
        "list_uint_min_uint",
        "list(uint).() -> uint",
        Cost::Traverse,
        min,
    ),
    Row::new(
        "min",
        "list_double_min_double",
        "list(double).() -> double",
        Cost::Traverse,
        min,
    ),
    Row::new(
        "min",
        "list_bool_min_bool",
        "list(bool).() -> bool",
        Cost::Traverse,
        min,
    ),
    Row::new(
        "min",
        "list_duration_min_duration",
        "list(duration).() -> duration",
        Cost::Traverse,
        min,
    ),
    Row::new(
        "min",
        "list_timestamp_min_timestamp",
        "list(timestamp).() -> timestamp",
        Cost::Traverse,
        min,
    ),
    Row::new(
        "min",
        "list_string_min_string",
        "list(string).() -> string",
        Cost::Traverse,
        min,
    ),
    Row::new(
        "min",
        "list_bytes_min_bytes",
        "list(bytes).() -> bytes",
        Cost::Traverse,
        min,
    ),
    Row::new(
        "indexOf",
        "list_a_index_of_int",
        "list(A).(A) -> int",
        Cost::Traverse,
        index_of,
    ),
    Row::new(
        "lastIndexOf",
        "list_a_last_index_of_int",
        "list(A).(A) -> int",
        Cost::Traverse,
        last_index_of,
    ),
];

fn is_sorted<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else {
        return Err(no_overload("isSorted", args));
    };
    let mut before: Option<Value<'a>> = None;
    for item in list.iter() {
        meter.step(1)?;
        let item = item?;
        meter.read(&item)?;
        if let Some(before) = &before {
            match order(before, &item) {
                Some(order) if order.is_gt() => return Ok(Value::Bool(false)),
                Some(_) => {}
                None => return Err(no_overload("isSorted", &[item])),
            }
        }
        before = Some(item);
    }
    Ok(Value::Bool(true))
}

/// The sum of nothing is the zero of the list's type; where the type is not known, an empty list
/// fits the first overload, and its sum is an integer.
fn sum<'a>(meter: &mut Meter, args: &[Value<'a>], zero: Value<'a>) -> Outcome<'a> {
    let [Value::List(list)] = args else {
        return Err(no_overload("sum", args));
    };
    let run: Fun = add;
    let mut total = zero;
    for item in list.iter() {
        meter.step(1)?;
        total = run(meter, &[total, item?])?;
    }
    Ok(total)
}

fn sum_int<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    sum(meter, args, Value::Int(0))
}

fn sum_uint<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    sum(meter, args, Value::Uint(0))
}

fn sum_double<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    sum(meter, args, Value::Double(0.0))
}

fn sum_duration<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    sum(meter, args, Value::Duration(Duration::from_nanos(0)))
}

fn extreme<'a>(meter: &mut Meter, args: &[Value<'a>], name: &str, greatest: bool) -> Outcome<'a> {
    let [Value::List(list)] = args else {
        return Err(no_overload(name, args));
    };
    let mut best: Option<Value<'a>> = None;
    for item in list.iter() {
        meter.step(1)?;
        let item = item?;
        meter.read(&item)?;
        let better = match &best {
            None => true,
            Some(best) => match order(&item, best) {
                Some(order) if greatest => order.is_gt(),
                Some(order) => order.is_lt(),
                None => return Err(no_overload(name, &[item])),
            },
        };
        if better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| Fault::invalid(format!("{name} called on empty list")))
}

fn max<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    extreme(meter, args, "max", true)
}

fn min<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    extreme(meter, args, "min", false)
}

fn position<'a>(meter: &mut Meter, args: &[Value<'a>], name: &str, last: bool) -> Outcome<'a> {
    let [Value::List(list), wanted] = args else {
        return Err(no_overload(name, args));
    };
    let mut found = -1;
    for (index, item) in list.iter().enumerate() {
        meter.step(1)?;
        if equal(meter, &item?, wanted)? {
            found = i64::try_from(index).unwrap_or(i64::MAX);
            if !last {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

fn index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    position(meter, args, "indexOf", false)
}

fn last_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    position(meter, args, "lastIndexOf", true)
}
