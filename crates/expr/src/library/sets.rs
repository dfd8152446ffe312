//! Lists as sets.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::meter::Meter;
use crate::value::{List, Value, equal};

pub(super) const TABLES: &[&[Row]] = &[ROWS];

const ROWS: &[Row] = &[
    Row::new(
        "sets.contains",
        "list_sets_contains_list",
        "(list(A), list(A)) -> bool",
        Cost::Sets(1),
        contains,
    ),
    Row::new(
        "sets.equivalent",
        "list_sets_equivalent_list",
        "(list(A), list(A)) -> bool",
        Cost::Sets(2),
        equivalent,
    ),
    Row::new(
        "sets.intersects",
        "list_sets_intersects_list",
        "(list(A), list(A)) -> bool",
        Cost::Sets(1),
        intersects,
    ),
];

fn lists<'v, 'a>(
    name: &str,
    args: &'v [Value<'a>],
) -> Result<(&'v List<'a>, &'v List<'a>), Box<Fault>> {
    match args {
        [Value::List(a), Value::List(b)] => Ok((a, b)),
        _ => Err(no_overload(name, args)),
    }
}

fn has(meter: &mut Meter, list: &List<'_>, item: &Value<'_>) -> Result<bool, Box<Fault>> {
    for one in list.iter() {
        meter.step(1)?;
        if equal(meter, &one?, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_all(meter: &mut Meter, list: &List<'_>, items: &List<'_>) -> Result<bool, Box<Fault>> {
    for item in items.iter() {
        if !has(meter, list, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (a, b) = lists("sets.contains", args)?;
    Ok(Value::Bool(has_all(meter, a, b)?))
}

fn equivalent<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (a, b) = lists("sets.equivalent", args)?;
    Ok(Value::Bool(has_all(meter, a, b)? && has_all(meter, b, a)?))
}

fn intersects<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (a, b) = lists("sets.intersects", args)?;
    for item in a.iter() {
        if has(meter, b, &item?)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
