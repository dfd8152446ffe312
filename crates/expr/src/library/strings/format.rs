//! `"…".format([…])`.

mod first;

use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::gotext::format_exponential;
use crate::meter::Meter;
use crate::value::Value;

/// Digits after the dot when none are asked for.
const PRECISION: usize = 6;
/// The whole part of a number has no more digits.
const MAX_WHOLE: usize = 310;
/// More digits than any number has.
const MAX_PRECISION: usize = 1_000;

/// Writes a value for a verb, with a precision.
type Write = fn(&mut Meter, &mut String, char, Option<usize>, &Value<'_>) -> Result<(), Box<Fault>>;

pub(super) fn format<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    formatted(meter, args, write)
}

/// The same as Kubernetes has it.
pub(super) fn first_format<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    formatted(meter, args, first::write)
}

fn formatted<'a>(meter: &mut Meter, args: &[Value<'a>], write: Write) -> Outcome<'a> {
    let [Value::String(template), Value::List(list)] = args else {
        return Err(no_overload("format", args));
    };
    let mut items = list.iter();
    let mut out = String::new();
    let mut used = 0_usize;
    let mut rest = template.as_str();
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (precision, verb, after) = clause(rest)?;
        rest = after;
        let Some(item) = items.next() else {
            return Err(Fault::invalid(format!("index {used} out of range")));
        };
        used += 1;
        meter.step(1)?;
        write(meter, &mut out, verb, precision, &item?)?;
    }
    out.push_str(rest);
    Ok(Value::string(out))
}

/// The verbs of a template, up to the first that is none.
pub(crate) fn clauses(template: &str) -> impl Iterator<Item = Result<char, Box<Fault>>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        loop {
            rest = &rest[rest.find('%')? + 1..];
            let Some(after) = rest.strip_prefix('%') else {
                break;
            };
            rest = after;
        }
        Some(clause(rest).map(|(_, verb, after)| {
            rest = after;
            verb
        }))
    })
}

/// Precision and verb after a `%`, and the rest.
fn clause(text: &str) -> Result<(Option<usize>, char, &str), Box<Fault>> {
    let (precision, after) = precision(text)?;
    let Some(verb) = after.chars().next() else {
        return Err(Fault::invalid("unexpected end of string"));
    };
    Ok((precision, verb, &after[verb.len_utf8()..]))
}

/// `.3`, before a verb.
fn precision(text: &str) -> Result<(Option<usize>, &str), Box<Fault>> {
    let Some(digits) = text.strip_prefix('.') else {
        return Ok((None, text));
    };
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    match digits[..end].parse() {
        Ok(value) if value <= MAX_PRECISION => Ok((Some(value), &digits[end..])),
        Ok(_) | Err(_) => Err(Fault::invalid(
            "error while converting precision to integer",
        )),
    }
}

fn write(
    meter: &mut Meter,
    out: &mut String,
    verb: char,
    precision: Option<usize>,
    value: &Value<'_>,
) -> Result<(), Box<Fault>> {
    let precision = precision.unwrap_or(PRECISION);
    if matches!(verb, 'f' | 'e') {
        meter.write(MAX_WHOLE + precision)?;
    }
    match verb {
        's' => string(meter, out, value),
        'd' => decimal(out, value),
        'f' => float(out, value, &|number| format!("{number:.precision$}")),
        'e' => float(out, value, &|number| format_exponential(number, precision)),
        'b' => radix(meter, out, value, 'b'),
        'o' => radix(meter, out, value, 'o'),
        'x' => radix(meter, out, value, 'x'),
        'X' => {
            let start = out.len();
            radix(meter, out, value, 'x')?;
            out[start..].make_ascii_uppercase();
            Ok(())
        }
        other => Err(Fault::invalid(format!(
            "unrecognized formatting clause \"{other}\""
        ))),
    }
}

fn not_finite(number: f64) -> Option<&'static str> {
    if number.is_nan() {
        return Some("NaN");
    }
    number.is_infinite().then_some(if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    })
}

fn unfit(verb: &str, value: &Value<'_>) -> Box<Fault> {
    Fault::invalid(format!(
        "error during formatting: {verb} clause cannot format a value of type '{}'",
        value.type_of().name()
    ))
}

/// `%s`: anything that has a text.
fn string(meter: &mut Meter, out: &mut String, value: &Value<'_>) -> Result<(), Box<Fault>> {
    meter.step(1)?;
    let before = out.len();
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(&value.to_string()),
        Value::Int(_) | Value::Uint(_) | Value::Double(_) => decimal(out, value)?,
        Value::String(text) => out.push_str(text.as_str()),
        Value::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Value::Timestamp(time) => out.push_str(&time.to_string()),
        Value::Duration(duration) => out.push_str(&duration.to_string()),
        Value::Type(ty) => out.push_str(ty.name()),
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                string(meter, out, &item?)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for key in map.keys() {
                let (mut name, mut text) = (String::new(), String::new());
                string(meter, &mut name, &key)?;
                string(meter, &mut text, &map.get(&key)?.unwrap_or(Value::Null))?;
                entries.push((name, text));
            }
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(name, text)| format!("{name}: {text}"))
                .collect();
            out.push_str(&format!("{{{}}}", entries.join(", ")));
        }
        Value::Optional(_) | Value::Opaque(_) | Value::Host(_) => {
            return Err(unfit("string", value));
        }
    }
    // What is in a list or a map was counted before, and once more: it is copied.
    meter.write(out.len() - before)
}

fn decimal(out: &mut String, value: &Value<'_>) -> Result<(), Box<Fault>> {
    match value {
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Uint(value) => out.push_str(&value.to_string()),
        Value::Double(value) => match not_finite(*value) {
            Some(text) => out.push_str(text),
            None => out.push_str(&value.to_string()),
        },
        other @ (Value::Null
        | Value::Bool(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Optional(_)
        | Value::Opaque(_)
        | Value::Host(_)) => return Err(unfit("decimal", other)),
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "formatting as a double rounds")]
fn float(
    out: &mut String,
    value: &Value<'_>,
    write: &dyn Fn(f64) -> String,
) -> Result<(), Box<Fault>> {
    let number = match value {
        Value::Int(value) => *value as f64,
        Value::Uint(value) => *value as f64,
        Value::Double(value) => *value,
        other @ (Value::Null
        | Value::Bool(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Optional(_)
        | Value::Opaque(_)
        | Value::Host(_)) => return Err(unfit("fixed-point", other)),
    };
    match not_finite(number) {
        Some(text) => out.push_str(text),
        None => out.push_str(&write(number)),
    }
    Ok(())
}

/// `%b`, `%o` and `%x`; a negative number has a sign.
fn radix(
    meter: &mut Meter,
    out: &mut String,
    value: &Value<'_>,
    verb: char,
) -> Result<(), Box<Fault>> {
    let (negative, magnitude) = match (value, verb) {
        (Value::Int(value), _) => (*value < 0, value.unsigned_abs()),
        (Value::Uint(value), _) => (false, *value),
        (Value::Bool(value), 'b') => (false, u64::from(*value)),
        (Value::String(text), 'x') => {
            return hex(meter, out, text.as_str().as_bytes());
        }
        (Value::Bytes(bytes), 'x') => {
            return hex(meter, out, bytes);
        }
        (other, _) => return Err(unfit("integer", other)),
    };
    if negative {
        out.push('-');
    }
    out.push_str(&match verb {
        'b' => format!("{magnitude:b}"),
        'o' => format!("{magnitude:o}"),
        _ => format!("{magnitude:x}"),
    });
    Ok(())
}

fn hex(meter: &mut Meter, out: &mut String, bytes: &[u8]) -> Result<(), Box<Fault>> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    meter.write(2 * bytes.len())?;
    out.reserve(2 * bytes.len());
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            out.push(char::from(DIGITS[usize::from(half)]));
        }
    }
    Ok(())
}
