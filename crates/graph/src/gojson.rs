//! JSON as Go's `encoding/json` writes it, with sorted keys: what kro hashes.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Number, Value as Json};

/// Appends a value that Go has read into `any`: all its numbers are doubles.
pub(crate) fn write(out: &mut String, value: &Json) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(number) => write_number(out, number),
        Json::String(text) => write_text(out, text),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, item);
            }
            out.push(']');
        }
        Json::Object(map) => {
            // They are, unless someone has them keep the order in which they were written.
            match map.keys().is_sorted() {
                true => write_entries(out, map.iter()),
                false => write_entries(out, map.iter().collect::<BTreeMap<_, _>>().into_iter()),
            }
        }
    }
}

fn write_entries<'v>(out: &mut String, entries: impl Iterator<Item = (&'v String, &'v Json)>) {
    out.push('{');
    for (index, (key, value)) in entries.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(out, key);
        out.push(':');
        write(out, value);
    }
    out.push('}');
}

/// Appends a text.
pub(crate) fn write_text(out: &mut String, text: &str) {
    out.push('"');
    let plain = |byte: u8| byte >= b' ' && byte.is_ascii() && !b"\"\\<>&".contains(&byte);
    if text.bytes().all(plain) {
        out.push_str(text);
        out.push('"');
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // What HTML and JavaScript would take for something else.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escaped(out, c),
            c if c < ' ' => escaped(out, c),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn escaped(out: &mut String, c: char) {
    let _ = write!(out, "\\u{:04x}", u32::from(c));
}

fn write_number(out: &mut String, number: &Number) {
    let value = number.as_f64().unwrap_or_default();
    let size = value.abs();
    if value == 0.0 || (1e-6..1e21).contains(&size) {
        let _ = write!(out, "{value}");
        return;
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => {
            let _ = write!(out, "{digits}e+{exponent}");
        }
        Some(_) | None => out.push_str(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_as_go_writes_them() {
        for (value, text) in [
            (
                json!({"b": 1, "a": [true, null]}),
                r#"{"a":[true,null],"b":1}"#,
            ),
            (
                json!([1.0, 1.5, -0.000_001, 1e-7, 1e21, 1e20]),
                "[1,1.5,-0.000001,1e-7,1e+21,100000000000000000000]",
            ),
            (
                json!("<a & \"b\">\u{2028}\n\u{1}\u{7f}é"),
                "\"\\u003ca \\u0026 \\\"b\\\"\\u003e\\u2028\\n\\u0001\u{7f}é\"",
            ),
        ] {
            let mut out = String::new();
            write(&mut out, &value);
            assert_eq!(out, text);
        }
    }
}
