//! Numbers as Go writes them.

use std::sync::Arc;

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
        for value in [0, 7, -7, 1234567890, i64::MAX, i64::MIN] {
            assert_eq!(&*int_text(value), value.to_string());
        }
    }
}
