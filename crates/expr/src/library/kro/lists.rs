//! Lists with one item changed.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::meter::Meter;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "lists.setAtIndex",
        "lists.setAtIndex_list_int_dyn",
        "(list(A), int, A) -> list(A)",
        Cost::ListCopy,
        set,
    ),
    Row::new(
        "lists.insertAtIndex",
        "lists.insertAtIndex_list_int_dyn",
        "(list(A), int, A) -> list(A)",
        Cost::ListCopy,
        insert,
    ),
    Row::new(
        "lists.removeAtIndex",
        "lists.removeAtIndex_list_int",
        "(list(A), int) -> list(A)",
        Cost::ListCopy,
        remove,
    ),
];

/// The position, if it is below `end`.
fn position(name: &str, index: i64, end: usize) -> Result<usize, Box<Fault>> {
    match usize::try_from(index) {
        Ok(at) if at < end => Ok(at),
        Ok(_) | Err(_) => Err(Fault::invalid(format!(
            "{name}: index {index} out of bounds [0, {end})"
        ))),
    }
}

fn set<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), Value::Int(index), value] = args else {
        return Err(no_overload("lists.setAtIndex", args));
    };
    let at = position("lists.setAtIndex", *index, list.len())?;
    meter.step(list.len() as u64)?;
    let mut items = list.to_vec()?;
    items[at] = value.clone();
    Value::list(items)
}

fn insert<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), Value::Int(index), value] = args else {
        return Err(no_overload("lists.insertAtIndex", args));
    };
    // At the end is a place, too.
    let at = position("lists.insertAtIndex", *index, list.len() + 1)?;
    meter.step(list.len() as u64)?;
    let mut items = list.to_vec()?;
    items.insert(at, value.clone());
    Value::list(items)
}

fn remove<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), Value::Int(index)] = args else {
        return Err(no_overload("lists.removeAtIndex", args));
    };
    let at = position("lists.removeAtIndex", *index, list.len())?;
    meter.step(list.len() as u64)?;
    let mut items = list.to_vec()?;
    items.remove(at);
    Value::list(items)
}
