//! Strings: parts and patterns.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::meter::{Matcher, Meter};
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "contains",
        "contains_string",
        "string.(string) -> bool",
        Cost::Contains,
        contains,
    ),
    Row::new(
        "endsWith",
        "ends_with_string",
        "string.(string) -> bool",
        Cost::Prefix,
        ends_with,
    ),
    Row::new(
        "startsWith",
        "starts_with_string",
        "string.(string) -> bool",
        Cost::Prefix,
        starts_with,
    ),
    Row::new(
        "matches",
        "matches",
        "(string, string) -> bool",
        Cost::Unit,
        matches,
    ),
    Row::new(
        "matches",
        "matches_string",
        "string.(string) -> bool",
        Cost::Matches,
        matches,
    ),
];

fn with<'a>(name: &str, args: &[Value<'a>], test: fn(&str, &str) -> bool) -> Outcome<'a> {
    match args {
        [Value::String(a), Value::String(b)] => Ok(Value::Bool(test(a.as_str(), b.as_str()))),
        _ => Err(no_overload(name, args)),
    }
}

fn contains<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    meter.step(args.first().and_then(Value::as_str).map_or(0, str::len) as u64 / 64)?;
    with("contains", args, |a, b| a.contains(b))
}

fn ends_with<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    with("endsWith", args, |a, b| a.ends_with(b))
}

fn starts_with<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    with("startsWith", args, |a, b| a.starts_with(b))
}

/// With a pattern that is computed.
fn matches<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text), Value::String(pattern)] => {
            let Matcher { regex, places } = meter.pattern(pattern.as_str())?;
            meter.scan(text.as_str().len(), places)?;
            Ok(Value::Bool(regex.is_match(text.as_str())))
        }
        _ => Err(no_overload("matches", args)),
    }
}
