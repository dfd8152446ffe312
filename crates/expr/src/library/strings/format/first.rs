//! The first release of `format`, which Kubernetes has: numbers as in American English, and what is
//! in lists and maps as literals.

use super::{PRECISION, string, unfit};
use crate::fault::Fault;
use crate::gotext::{format_double, quoted};
use crate::meter::Meter;
use crate::value::{List, Map, Value};

pub(super) fn write(
    meter: &mut Meter,
    out: &mut String,
    verb: char,
    precision: Option<usize>,
    value: &Value<'_>,
) -> Result<(), Box<Fault>> {
    let wanted = precision.unwrap_or(PRECISION);
    match (verb, value) {
        ('s', value) => text(meter, out, value),
        ('d', Value::Double(_)) => Err(unfit("decimal", value)),
        ('f', value) => {
            let text = fixed(number(value, "fixed-point")?, wanted);
            meter.write(text.len())?;
            out.push_str(&text);
            Ok(())
        }
        ('e', value) => {
            let text = scientific(number(value, "scientific")?);
            // What should be the precision is taken for the width.
            let padding = wanted.saturating_sub(text.chars().count());
            meter.write(padding + text.len())?;
            out.push_str(&" ".repeat(padding));
            out.push_str(&text);
            Ok(())
        }
        _ => super::write(meter, out, verb, precision, value),
    }
}

/// A double, or the name of one.
fn number(value: &Value<'_>, verb: &str) -> Result<f64, Box<Fault>> {
    if let Value::Double(number) = value {
        return Ok(*number);
    }
    match value.as_str() {
        Some("NaN") => Ok(f64::NAN),
        Some("Infinity") => Ok(f64::INFINITY),
        Some("-Infinity") => Ok(f64::NEG_INFINITY),
        Some(_) | None => Err(unfit(verb, value)),
    }
}

fn not_finite(number: f64) -> Option<String> {
    match number {
        number if number.is_nan() => Some("NaN".to_owned()),
        f64::INFINITY => Some("∞".to_owned()),
        f64::NEG_INFINITY => Some("-∞".to_owned()),
        _ => None,
    }
}

/// With commas between thousands; zero has no sign.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(text) = not_finite(number) {
        return text;
    }
    let digits = format!("{:.precision$}", number.abs());
    let whole = digits.find('.').unwrap_or(digits.len());
    let mut out = String::from(if number < 0.0 { "-" } else { "" });
    for (at, digit) in digits.char_indices() {
        if at > 0 && at < whole && (whole - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `-1.500000×10⁻⁰⁵`.
fn scientific(number: f64) -> String {
    if let Some(text) = not_finite(number) {
        return text;
    }
    let number = if number == 0.0 { 0.0 } else { number };
    let text = crate::gotext::format_exponential(number, PRECISION);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, ""));
    let raised = exponent.chars().filter_map(|c| match c {
        '-' => Some('⁻'),
        c => c
            .to_digit(10)
            .and_then(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize)),
    });
    format!("{mantissa}×10{}", raised.collect::<String>())
}

/// `%s`.
fn text(meter: &mut Meter, out: &mut String, value: &Value<'_>) -> Result<(), Box<Fault>> {
    match value {
        Value::Double(value) => out.push_str(&format_double(*value)),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => {
                meter.write(text.len())?;
                out.push_str(text);
            }
            Err(_) => return Err(Fault::invalid("invalid UTF-8 in bytes")),
        },
        Value::List(items) => return list(meter, out, items),
        Value::Map(entries) => return map(meter, out, entries),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::String(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)
        | Value::Optional(_)
        | Value::Opaque(_)
        | Value::Host(_)) => return string(meter, out, other),
    }
    Ok(())
}

/// What is in a list or a map, as a literal.
fn literal(meter: &mut Meter, out: &mut String, value: &Value<'_>) -> Result<(), Box<Fault>> {
    let before = out.len();
    match value {
        Value::Double(value) if value.is_finite() => out.push_str(&format!("{value:.PRECISION$}")),
        Value::Double(value) => out.push_str(&quoted(&format_double(*value))),
        Value::String(text) => out.push_str(&quoted(text.as_str())),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => out.push_str(&format!("b{}", quoted(text))),
            Err(_) => return Err(Fault::invalid("invalid UTF-8 in bytes")),
        },
        Value::Timestamp(time) => out.push_str(&format!("timestamp(\"{time}\")")),
        Value::Duration(duration) => out.push_str(&format!("duration(\"{duration}\")")),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Type(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Optional(_)
        | Value::Opaque(_)
        | Value::Host(_)) => return text(meter, out, other),
    }
    meter.step(1)?;
    meter.write(out.len() - before)
}

fn list(meter: &mut Meter, out: &mut String, items: &List<'_>) -> Result<(), Box<Fault>> {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        literal(meter, out, &item?)?;
    }
    out.push(']');
    Ok(())
}

/// In the order of the keys as they are written.
fn map(meter: &mut Meter, out: &mut String, map: &Map<'_>) -> Result<(), Box<Fault>> {
    let mut entries = Vec::new();
    for key in map.keys() {
        let (mut name, mut text) = (String::new(), String::new());
        literal(meter, &mut name, &key)?;
        literal(meter, &mut text, &map.get(&key)?.unwrap_or(Value::Null))?;
        meter.write(name.len() + text.len())?;
        entries.push((name, text));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let entries: Vec<String> = entries
        .into_iter()
        .map(|(name, text)| format!("{name}:{text}"))
        .collect();
    out.push_str(&format!("{{{}}}", entries.join(", ")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_american_english() {
        let cases = [
            (0.0, "0.000000", "0.000000×10⁰⁰"),
            (-0.0, "0.000000", "0.000000×10⁰⁰"),
            (-1234.5, "-1,234.500000", "-1.234500×10⁰³"),
            (999999.9999999, "1,000,000.000000", "1.000000×10⁰⁶"),
            (1e-100, "0.000000", "1.000000×10⁻¹⁰⁰"),
            (f64::NEG_INFINITY, "-∞", "-∞"),
        ];
        for (number, plain, exponential) in cases {
            assert_eq!(fixed(number, PRECISION), plain);
            assert_eq!(scientific(number), exponential);
        }
        assert_eq!(fixed(2.5, 0), "2");
    }
}
