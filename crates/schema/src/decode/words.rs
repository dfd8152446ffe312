//! What Go says about values that do not fit their fields.

use serde_json::Value;

use super::{At, DecodeError};
use crate::node::{Additional, Kind, Node};

/// The error about a value of the wrong type, or about a number that does not fit.
pub(super) fn wrong_type(value: &Value, node: Node<'_>, at: Option<&At<'_>>) -> DecodeError {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) => match node.kind() {
            Kind::Integer | Kind::IntOrString => format!("number {number}"),
            Kind::Any
            | Kind::Object
            | Kind::Array
            | Kind::String
            | Kind::Number
            | Kind::Boolean
            | Kind::Quantity => "number".to_owned(),
        },
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    let place = match at {
        Some(at) => {
            let owner = at.owner.unwrap_or_default();
            let name = owner.rsplit('.').next().unwrap_or_default();
            format!("struct field {name}.{}", path(at))
        }
        None => "value".to_owned(),
    };
    DecodeError::WrongType {
        found,
        place,
        expected: go_type(node),
    }
}

fn path(at: &At<'_>) -> String {
    match at.parent {
        Some(parent) => format!("{}.{}", path(parent), at.field),
        None => at.field.to_owned(),
    }
}

/// The Go type of a field. Named types of texts and numbers are not in the schema; they appear
/// as what they are made of.
fn go_type(node: Node<'_>) -> String {
    match node.kind() {
        Kind::Any => "interface {}".to_owned(),
        Kind::Object => match (&node.data().title, node.additional()) {
            (Some(title), _) => title.to_string(),
            (None, Additional::Schema(entry)) => format!("map[string]{}", go_type(entry)),
            (None, Additional::Unspecified | Additional::Denied | Additional::Any) => {
                "map[string]interface {}".to_owned()
            }
        },
        Kind::Array => match node.items() {
            Some(items) => format!("[]{}", go_type(items)),
            None => "[]interface {}".to_owned(),
        },
        Kind::String if node.format() == Some("byte") => "[]uint8".to_owned(),
        Kind::String => "string".to_owned(),
        Kind::Integer => integer_type(node).to_owned(),
        Kind::Number => "float64".to_owned(),
        Kind::Boolean => "bool".to_owned(),
        Kind::IntOrString => "int32".to_owned(),
        Kind::Quantity => "resource.Quantity".to_owned(),
    }
}

fn integer_type(node: Node<'_>) -> &'static str {
    match node.format() {
        Some("int32") => "int32",
        Some(_) | None => "int64",
    }
}

pub(super) fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

/// Whether this is a whole number that the field's type can hold.
pub(super) fn integer_fits(value: &Value, node: Node<'_>) -> bool {
    match (value.as_i64(), integer_type(node)) {
        (Some(number), "int32") => i32::try_from(number).is_ok(),
        (number, _) => number.is_some(),
    }
}

/// The first byte that cannot be there in standard base64, in lines or not.
pub(super) fn illegal_base64(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let breaks = |c: u8| matches!(c, b'\r' | b'\n');
    let mut group = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let padding = match byte {
            c if c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/') => {
                group = (group + 1) % 4;
                false
            }
            c if breaks(c) => false,
            b'=' if group >= 2 => true,
            _ => return Some(at),
        };
        at += 1;
        if padding {
            return illegal_padding(bytes, at, group);
        }
    }
    (group != 0).then(|| bytes.len() - group)
}

/// The same for what follows the first `=`, which stands behind `group` characters.
fn illegal_padding(bytes: &[u8], mut at: usize, group: usize) -> Option<usize> {
    let skip = |mut at: usize| {
        while bytes.get(at).is_some_and(|c| matches!(c, b'\r' | b'\n')) {
            at += 1;
        }
        at
    };
    at = skip(at);
    if group == 2 {
        match bytes.get(at) {
            Some(b'=') => at = skip(at + 1),
            Some(_) => return Some(at - 1),
            None => return Some(bytes.len()),
        }
    }
    (at < bytes.len()).then_some(at)
}

/// What is wrong with a text that is not an RFC 3339 time.
pub(super) fn time(text: &str) -> String {
    const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
    const PARTS: [&str; 11] = [
        "2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05",
    ];
    const RANGES: [(usize, u8, u8, &str); 4] = [
        (5, 1, 12, "month"),
        (11, 0, 23, "hour"),
        (14, 0, 59, "minute"),
        (17, 0, 59, "second"),
    ];
    let mut rest = text;
    for part in PARTS {
        let digits = |c: char| c.is_ascii_digit();
        let fits = rest
            .get(..part.len())
            .is_some_and(|found| match part.starts_with(digits) {
                true => found.chars().all(digits),
                false => found == part,
            });
        if !fits {
            return format!("{text:?} as {LAYOUT:?}: cannot parse {rest:?} as {part:?}");
        }
        rest = &rest[part.len()..];
    }
    for (at, min, max, name) in RANGES {
        let number: u8 = text[at..at + 2].parse().unwrap_or_default();
        if !(min..=max).contains(&number) {
            return format!("{text:?}: {name} out of range");
        }
    }
    let fraction = rest
        .strip_prefix('.')
        .map(|tail| tail.trim_start_matches(|c: char| c.is_ascii_digit()));
    match fraction.unwrap_or(rest) {
        "Z" => format!("{text:?}: day out of range"),
        zone => format!("{text:?} as {LAYOUT:?}: cannot parse {zone:?} as \"Z07:00\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_illegal_where_go_finds_it() {
        // As Go's `base64.StdEncoding` answers them.
        let cases = [
            ("", None),
            ("aGk=", None),
            ("aG\nk=\n", None),
            ("YQ==", None),
            ("YQ=\n=", None),
            ("***", Some(0)),
            ("YWJj*", Some(4)),
            ("a", Some(0)),
            ("ab", Some(0)),
            ("abcde", Some(4)),
            ("=", Some(0)),
            ("a===", Some(1)),
            ("YQ=", Some(3)),
            ("YQ=x", Some(2)),
            ("YQ==x", Some(4)),
            ("aGk==", Some(4)),
            ("not base64", Some(3)),
        ];
        for (text, expected) in cases {
            assert_eq!(illegal_base64(text), expected, "{text:?}");
        }
    }

    #[test]
    fn times_are_faulty_where_go_finds_it() {
        let layout = "as \"2006-01-02T15:04:05Z07:00\": cannot parse";
        let cases = [
            ("2024", format!("\"2024\" {layout} \"\" as \"-\"")),
            (
                "2024-1-2",
                format!("\"2024-1-2\" {layout} \"1-2\" as \"01\""),
            ),
            (
                "2024-01-02 03:04:05Z",
                format!("\"2024-01-02 03:04:05Z\" {layout} \" 03:04:05Z\" as \"T\""),
            ),
            (
                "2024-01-02T03:04:05",
                format!("\"2024-01-02T03:04:05\" {layout} \"\" as \"Z07:00\""),
            ),
            (
                "2024-13-02T03:04:05Z",
                "\"2024-13-02T03:04:05Z\": month out of range".to_owned(),
            ),
            (
                "2024-02-31T03:04:05Z",
                "\"2024-02-31T03:04:05Z\": day out of range".to_owned(),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(time(text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_words(text in "[0-9TZ:.é-]{0,30}|.{0,30}") {
            let _ = time(&text);
            let _ = illegal_base64(&text);
        }
    }
}
