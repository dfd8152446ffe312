//! Numbers and texts as Go reads and writes them.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// `strconv.FormatFloat(value, 'g', -1, 64)`: the shortest digits that read back, with an
/// exponent below 1e-4 and from 1e6 on.
pub(crate) fn format_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let (digits, exponent) = shortest(value);
    if value != 0.0 && !(-4..6).contains(&exponent) {
        return exponential(value, &digits, exponent);
    }
    format!("{value}")
}

/// `strconv.Quote`.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if is_printable(c) => out.push(c),
            c if u32::from(c) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// What Rust does not escape within a text is what Go does not.
fn is_printable(c: char) -> bool {
    c.is_ascii()
        || c == '\''
        || ["a", c.encode_utf8(&mut [0; 4])]
            .concat()
            .escape_debug()
            .count()
            == 2
}

/// `base64.StdEncoding` and `base64.RawStdEncoding`, of which neither minds bits that are left
/// over.
const PADDED: GeneralPurpose = base64(DecodePaddingMode::RequireCanonical);
const RAW: GeneralPurpose = base64(DecodePaddingMode::RequireNone);

const fn base64(padding: DecodePaddingMode) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(padding);
    GeneralPurpose::new(&alphabet::STANDARD, config)
}

/// Reads base64, with line breaks in it or without.
pub(crate) fn decode_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    PADDED.decode(unbroken(text).as_ref())
}

/// The same for a text without padding.
pub(crate) fn decode_raw_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    RAW.decode(unbroken(text).as_ref())
}

fn unbroken(text: &str) -> Cow<'_, str> {
    match text.contains(['\r', '\n']) {
        true => text.replace(['\r', '\n'], "").into(),
        false => text.into(),
    }
}

/// An integer in digits, with one allocation.
pub(crate) fn int_text(value: i64) -> Arc<str> {
    let mut buffer = [0_u8; 20];
    let mut at = buffer.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        buffer[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    std::str::from_utf8(&buffer[at..])
        .unwrap_or_default()
        .into()
}

/// The shortest digits of a finite double, without the dot, and the exponent of the first one.
fn shortest(value: f64) -> (String, i32) {
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

fn exponential(value: f64, digits: &str, exponent: i32) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (first, rest) = digits.split_at(1);
    let dot = if rest.is_empty() { "" } else { "." };
    let mark = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{first}{dot}{rest}e{mark}{:02}", exponent.abs())
}

/// `%.{precision}e` as Go writes it.
pub(crate) fn format_exponential(value: f64, precision: usize) -> String {
    let text = format!("{:.precision$e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let mark = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{mantissa}e{mark}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_go_writes_them() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-0.5, "-0.5"),
            (123.456, "123.456"),
            (1e6, "1e+06"),
            (1.5e-7, "1.5e-07"),
            (f64::INFINITY, "+Inf"),
        ];
        for (value, text) in cases {
            assert_eq!(format_double(value), text);
        }
        assert_eq!(format_exponential(1234.5678, 3), "1.235e+03");
        assert_eq!(
            quoted("é'\"\n\u{1}\u{2028}\u{ad}e\u{301}"),
            "\"é'\\\"\\n\\x01\\u2028\\u00ade\u{301}\""
        );
        for value in [0, 7, -7, 1234567890, i64::MAX, i64::MIN] {
            assert_eq!(&*int_text(value), value.to_string());
        }
    }
}
