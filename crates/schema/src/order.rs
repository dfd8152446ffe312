//! Equality and order of JSON values, as server-side apply sees them.
//!
//! Whole numbers and floats compare by their numeric value; values of different types have a fixed
//! order: numbers, strings, booleans, lists, objects, null.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Whether both are the same value; `1` and `1.0` are.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Ordering::Equal,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            _,
        ) => false,
    }
}

/// A total order.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let first = a
                .iter()
                .zip(b)
                .map(|(a, b)| compare(a, b))
                .find(|one| one.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => compare_objects(a, b),
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            _,
        ) => rank(a).cmp(&rank(b)),
    }
}

/// Whether no item occurs twice.
pub(crate) fn all_different(list: &[Value]) -> bool {
    let mut sorted: Vec<&Value> = list.iter().collect();
    sorted.sort_by(|a, b| compare(a, b));
    sorted
        .windows(2)
        .all(|pair| compare(pair[0], pair[1]).is_ne())
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// By numeric value. Where a whole number has no exact float, what is left over decides, so that
/// the order is total.
fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return a.cmp(&b);
    }
    let float = |number: &Number| number.as_f64().unwrap_or(f64::INFINITY);
    let whole = |number: &Number| match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => i128::from(whole),
        (None, Some(whole)) => i128::from(whole),
        (None, None) => float(number) as i128,
    };
    let order = float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal);
    order.then_with(|| whole(a).cmp(&whole(b)))
}

/// By the sorted keys; where one has a key that the other lacks, the one that has it is less.
fn compare_objects(a: &Map<String, Value>, b: &Map<String, Value>) -> Ordering {
    let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
    keys.sort();
    keys.dedup();
    for (index, key) in keys.into_iter().enumerate() {
        let order = match (a.get(key), b.get(key)) {
            _ if index == a.len() => Ordering::Less,
            _ if index == b.len() => Ordering::Greater,
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
            (Some(a), Some(b)) => compare(a, b),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
