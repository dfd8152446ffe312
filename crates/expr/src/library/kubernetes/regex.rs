//! Parts of strings that match.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::meter::{Matcher, Meter};
use crate::value::Value;

pub(in crate::library) const TABLES: &[&[Row]] = &[ROWS];

const ROWS: &[Row] = &[
    Row::new(
        "find",
        "string_find_string",
        "string.(string) -> string",
        Cost::Find,
        find,
    ),
    Row::new(
        "findAll",
        "string_find_all_string",
        "string.(string) -> list(string)",
        Cost::Find,
        find_all,
    ),
    Row::new(
        "findAll",
        "string_find_all_string_int",
        "string.(string, int) -> list(string)",
        Cost::Find,
        find_all,
    ),
];

/// Of what is left behind a match, this part is taken to be looked at for the next.
const REST: usize = 8;

fn find<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::String(pattern)] = args else {
        return Err(no_overload("find", args));
    };
    let Matcher { regex, places } = meter.pattern(pattern.as_str())?;
    meter.scan(text.as_str().len(), places)?;
    let found = regex.find(text.as_str());
    Ok(Value::string(found.map_or("", |found| found.as_str())))
}

fn find_all<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, pattern, limit) = match args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [
            Value::String(text),
            Value::String(pattern),
            Value::Int(limit),
        ] => (text, pattern, *limit),
        _ => return Err(no_overload("findAll", args)),
    };
    let Matcher { regex, places } = meter.pattern(pattern.as_str())?;
    meter.scan(text.as_str().len(), places)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    for found in regex.find_iter(text.as_str()).take(limit) {
        // Each match may have looked at all of the rest; hardly any looks at all of it in vain.
        let rest = text.as_str().len() - found.start();
        meter.step(1)?;
        meter.scan(rest / REST, places)?;
        all.push(Value::string(found.as_str()));
    }
    Ok(Value::flat_list(all))
}
