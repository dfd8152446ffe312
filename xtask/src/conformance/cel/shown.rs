//! Values as the Go oracle writes them.

use deltaplane_expr::host::Opaque;
use deltaplane_expr::{Value, is_omitted};

pub(super) fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => format!("{value}u"),
        Value::Double(value) => format!("double {}", double(*value)),
        Value::String(text) => quote(text.as_str()),
        Value::Bytes(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("bytes {hex}")
        }
        Value::Timestamp(time) => format!("time {time}"),
        Value::Duration(duration) => format!("duration {duration}"),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(inner)) => format!("some {}", show(&inner.value)),
        Value::List(list) => {
            let items: Vec<String> = list
                .iter()
                .map(|item| item.map_or_else(|fault| fault.to_string(), |item| show(&item)))
                .collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entry = |key: &Value<'_>| match map.get(key) {
                Ok(Some(value)) => format!("{}: {}", show(key), show(&value)),
                other => format!("{}: {other:?}", show(key)),
            };
            let mut entries: Vec<String> = map.keys().iter().map(entry).collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Type(ty) => format!("type {}", ty.name()),
        Value::Opaque(_) if is_omitted(value) => format!("{} omitted", value.type_of().name()),
        Value::Opaque(opaque) => format!("{} {}", opaque.ty().name(), content(&**opaque)),
        Value::Host(host) => host.ty().name().to_owned(),
    }
}

/// What a value of a library's type holds. The oracle has no words for those without content, so
/// that they cannot pass for compared.
fn content(opaque: &dyn Opaque) -> String {
    let json = || opaque.to_json().map(|json| json.to_string());
    let text = opaque.text().or_else(json);
    text.unwrap_or_else(|| "of unknown content".to_owned())
}

/// `strconv.FormatFloat(value, 'e', -1, 64)`.
fn double(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value.is_nan() {
        return "NaN".to_owned();
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// `strconv.Quote` for what the tests contain.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
