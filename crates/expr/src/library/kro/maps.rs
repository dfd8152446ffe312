//! Maps put together.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::meter::Meter;
use crate::value::{Map, OwnedMap, Value};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "merge",
        "map_merge",
        "map(A, B).(map(A, B)) -> map(A, B)",
        Cost::Unit,
        merge,
    ),
    Row::new(
        "deepMerge",
        "dyn_deepMerge_dyn",
        "dyn.(dyn) -> dyn",
        Cost::Unit,
        deep_merge,
    ),
];

fn merge<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Map(a), Value::Map(b)] => Ok(Value::Map(merged(meter, a, b, false)?)),
        _ => Err(no_overload("merge", args)),
    }
}

fn deep_merge<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Map(a), Value::Map(b)] => Ok(Value::Map(merged(meter, a, b, true)?)),
        _ => Err(no_overload("deepMerge", args)),
    }
}

/// The entries of both; where both have one, the second's, or what both come to together when
/// both are maps and `deep` is asked for.
fn merged<'a>(
    meter: &mut Meter,
    a: &Map<'a>,
    b: &Map<'a>,
    deep: bool,
) -> Result<Map<'a>, Box<Fault>> {
    let mut out = OwnedMap::new();
    for key in a.keys() {
        meter.step(1)?;
        meter.read(&key)?;
        let value = a.get(&key)?.unwrap_or(Value::Null);
        out.set(key, value)?;
    }
    for key in b.keys() {
        meter.step(1)?;
        meter.read(&key)?;
        let value = b.get(&key)?.unwrap_or(Value::Null);
        let value = match (out.get(&key).cloned(), value) {
            (Some(Value::Map(old)), Value::Map(new)) if deep => {
                Value::Map(merged(meter, &old, &new, true)?)
            }
            (_, value) => value,
        };
        out.set(key, value)?;
    }
    Ok(Map::owned(out))
}
