//! JSON as text.

use serde_json::Value as Json;

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::meter::Meter;
use crate::value::{Map, OwnedMap, Value};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "json.unmarshal",
        "json.unmarshal_string",
        "(string) -> dyn",
        Cost::Scan,
        unmarshal,
    ),
    Row::new(
        "json.marshal",
        "json.marshal_dyn",
        "(dyn) -> string",
        Cost::Unit,
        marshal,
    ),
];

fn unmarshal<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else {
        return Err(no_overload("json.unmarshal", args));
    };
    meter.step(text.as_str().len() as u64)?;
    match serde_json::from_str(text.as_str()) {
        Ok(parsed) => owned(&parsed),
        Err(why) => Err(Fault::invalid(format!("failed to unmarshal JSON: {why}"))),
    }
}

/// As Go reads it without a type: every number is a double.
fn owned<'a>(json: &Json) -> Outcome<'a> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => Value::Double(number.as_f64().unwrap_or(0.0)),
        Json::String(text) => Value::string(text.as_str()),
        Json::Array(items) => {
            let items: Result<Vec<_>, _> = items.iter().map(owned).collect();
            Value::list(items?)?
        }
        Json::Object(map) => {
            let mut out = OwnedMap::new();
            for (key, value) in map {
                out.set(Value::string(key.as_str()), owned(value)?)?;
            }
            Value::Map(Map::owned(out))
        }
    })
}

/// As Go writes it: keys in order, whole doubles without a dot, and what HTML would read escaped.
fn marshal<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else {
        return Err(no_overload("json.marshal", args));
    };
    let mut out = String::new();
    write(&value.to_json(meter)?, &mut out);
    meter.step(out.len() as u64 / 16)?;
    Ok(Value::string(out))
}

fn write(json: &Json, out: &mut String) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(number) => out.push_str(&number_text(number)),
        Json::String(text) => string(text, out),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Json::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                string(key, out);
                out.push(':');
                write(&map[key.as_str()], out);
            }
            out.push('}');
        }
    }
}

/// Go writes doubles with an exponent below 1e-6 and from 1e21 on.
fn number_text(number: &serde_json::Number) -> String {
    let Some(value) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    if value != 0.0 && !(1e-6..1e21).contains(&value.abs()) {
        let text = format!("{value:e}");
        return match text.contains("e-") {
            true => text,
            false => text.replace('e', "e+"),
        };
    }
    value.to_string()
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)))
            }
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
