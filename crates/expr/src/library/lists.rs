//! Lists beyond the standard library.

use std::cmp::Ordering;

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::meter::{BYTES_READ_PER_STEP, Meter};
use crate::value::{List, Value, compare, equal};

pub(super) const TABLES: &[&[Row]] = &[ROWS, RANGE];
pub(super) const KUBERNETES: &[&[Row]] = &[ROWS, FIRST_RANGE];

const RANGE: &[Row] = &[Row::new(
    "lists.range",
    "lists_range",
    "(int) -> list(int)",
    Cost::ListCopy,
    range,
)];
const FIRST_RANGE: &[Row] = &[Row::new(
    "lists.range",
    "lists_range",
    "(int) -> list(int)",
    Cost::ListCopy,
    first_range,
)];

const ROWS: &[Row] = &[
    Row::new(
        "slice",
        "list_slice",
        "list(A).(int, int) -> list(A)",
        Cost::ListCopy,
        slice,
    ),
    Row::new(
        "flatten",
        "list_flatten",
        "list(list(A)).() -> list(A)",
        Cost::Flatten,
        flatten,
    ),
    Row::new(
        "flatten",
        "list_flatten_int",
        "list(dyn).(int) -> list(dyn)",
        Cost::Flatten,
        flatten,
    ),
    Row::new(
        "sort",
        "list_int_sort",
        "list(int).() -> list(int)",
        Cost::SelfCompare,
        sort,
    ),
    Row::new(
        "sort",
        "list_uint_sort",
        "list(uint).() -> list(uint)",
        Cost::SelfCompare,
        sort,
    ),
    Row::new(
        "sort",
        "list_double_sort",
        "list(double).() -> list(double)",
        Cost::SelfCompare,
        sort,
    ),
    Row::new(
        "sort",
        "list_bool_sort",
        "list(bool).() -> list(bool)",
        Cost::SelfCompare,
        sort,
    ),
    Row::new(
        "sort",
        "list_google.protobuf.Duration_sort",
        "list(duration).() -> list(duration)",
        Cost::SelfCompare,
        sort,
    ),
    Row::new(
        "sort",
        "list_google.protobuf.Timestamp_sort",
        "list(timestamp).() -> list(timestamp)",
        Cost::SelfCompare,
        sort,
    ),
    Row::new(
        "sort",
        "list_string_sort",
        "list(string).() -> list(string)",
        Cost::SelfCompare,
        sort,
    ),
    Row::new(
        "sort",
        "list_bytes_sort",
        "list(bytes).() -> list(bytes)",
        Cost::SelfCompare,
        sort,
    ),
    Row::new(
        "reverse",
        "list_reverse",
        "list(A).() -> list(A)",
        Cost::ListCopy,
        reverse,
    ),
    Row::new(
        "distinct",
        "list_distinct",
        "list(A).() -> list(A)",
        Cost::SelfCompare,
        distinct,
    ),
];

/// The longest list that `lists.range` makes.
const MAX_RANGE: i64 = 1_000_000;

fn slice<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(no_overload("slice", args));
    };
    let bad = |why: &str| {
        Err(Fault::invalid(format!(
            "cannot slice({start}, {end}), {why}"
        )))
    };
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return bad("negative indexes not supported");
    };
    if from > to {
        return bad("start index must be less than or equal to end index");
    }
    if to > list.len() {
        return bad(&format!("list is length {}", list.len()));
    }
    meter.step((to - from) as u64)?;
    let items: Result<Vec<_>, _> = (from..to)
        .filter_map(|at| list.get(at).transpose())
        .collect();
    Value::list(items?)
}

fn flatten<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return Err(no_overload("flatten", args)),
    };
    if depth < 0 {
        return Err(Fault::invalid("level must be non-negative"));
    }
    let mut out = Vec::new();
    flatten_into(meter, list, depth, &mut out)?;
    Value::list(out)
}

fn flatten_into<'a>(
    meter: &mut Meter,
    list: &List<'a>,
    depth: i64,
    out: &mut Vec<Value<'a>>,
) -> Result<(), Box<Fault>> {
    for item in list.iter() {
        meter.step(1)?;
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(meter, &inner, depth - 1, out)?,
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
            | Value::Optional(_)
            | Value::Opaque(_)
            | Value::Host(_)) => out.push(other),
        }
    }
    Ok(())
}

fn sort<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else {
        return Err(no_overload("sort", args));
    };
    meter.step(list.len() as u64)?;
    let items = list.to_vec()?;
    let items: Vec<_> = items.into_iter().map(|item| (item.clone(), item)).collect();
    sorting(meter, &items)?;
    sorted(items)
}

/// Counts the work of sorting: every key is compared with some others.
pub(crate) fn sorting(
    meter: &mut Meter,
    items: &[(Value<'_>, Value<'_>)],
) -> Result<(), Box<Fault>> {
    let times = u64::from(items.len().checked_ilog2().unwrap_or(0)) + 1;
    for (key, _) in items {
        meter.step(times * (1 + key.weight() / BYTES_READ_PER_STEP))?;
    }
    Ok(())
}

/// The items in the order of their keys, which must be of one type that has an order.
pub(crate) fn sorted<'a>(mut items: Vec<(Value<'a>, Value<'a>)>) -> Outcome<'a> {
    if let Some((first, _)) = items.first() {
        for (key, _) in &items {
            if order(first, key).is_none() || first.type_of() != key.type_of() {
                return Err(Fault::invalid(
                    "list elements must have the same type, which has an order",
                ));
            }
        }
    }
    if items.iter().any(|(key, _)| is_nan(key)) {
        sort_with_nan(&mut items);
    } else {
        items.sort_by(|(a, _), (b, _)| order(a, b).unwrap_or(Ordering::Equal));
    }
    Value::list(items.into_iter().map(|(_, item)| item).collect())
}

/// The order of two values. NaN is not before anything, nor behind.
pub(super) fn order(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    compare(a, b).unwrap_or(Some(Ordering::Equal))
}

fn is_nan(value: &Value<'_>) -> bool {
    matches!(value, Value::Double(value) if value.is_nan())
}

/// As Go sorts a short list. In a long one, which it leaves in whatever order, NaN comes first.
fn sort_with_nan<'a>(items: &mut [(Value<'a>, Value<'a>)]) {
    const SHORT: usize = 12;
    if items.len() > SHORT {
        items.sort_by(|(a, _), (b, _)| match (is_nan(a), is_nan(b)) {
            (false, false) => order(a, b).unwrap_or(Ordering::Equal),
            (a, b) => b.cmp(&a),
        });
        return;
    }
    for end in 1..items.len() {
        for at in (1..=end).rev() {
            if order(&items[at].0, &items[at - 1].0) != Some(Ordering::Less) {
                break;
            }
            items.swap(at, at - 1);
        }
    }
}

fn range<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Int(end)] = args else {
        return Err(no_overload("lists.range", args));
    };
    if !(0..=MAX_RANGE).contains(end) {
        return Err(Fault::invalid(format!(
            "lists.range({end}) is not between 0 and {MAX_RANGE}"
        )));
    }
    meter.step(end.unsigned_abs())?;
    Ok(Value::flat_list((0..*end).map(Value::Int)))
}

/// In the first release there is nothing up to a negative number.
fn first_range<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(..0)] => Ok(Value::flat_list([])),
        _ => range(meter, args),
    }
}

fn reverse<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else {
        return Err(no_overload("reverse", args));
    };
    meter.step(list.len() as u64)?;
    let mut items = list.to_vec()?;
    items.reverse();
    Value::list(items)
}

fn distinct<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else {
        return Err(no_overload("distinct", args));
    };
    let mut items: Vec<Value<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        let mut seen = false;
        for one in &items {
            meter.step(1)?;
            if equal(meter, one, &item)? {
                seen = true;
                break;
            }
        }
        if !seen {
            items.push(item);
        }
    }
    Value::list(items)
}
