//! Conversions between types.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::{Fault, Reason};
use crate::gotext::{format_double, int_text};
use crate::meter::Meter;
use crate::time::{Duration, Timestamp};
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "bool",
        "bool_to_bool",
        "(bool) -> bool",
        Cost::Unit,
        to_bool,
    ),
    Row::new(
        "bool",
        "string_to_bool",
        "(string) -> bool",
        Cost::Unit,
        to_bool,
    ),
    Row::new(
        "bytes",
        "bytes_to_bytes",
        "(bytes) -> bytes",
        Cost::Unit,
        to_bytes,
    ),
    Row::new(
        "bytes",
        "string_to_bytes",
        "(string) -> bytes",
        Cost::ToBytes,
        to_bytes,
    ),
    Row::new(
        "double",
        "double_to_double",
        "(double) -> double",
        Cost::Unit,
        to_double,
    ),
    Row::new(
        "double",
        "int64_to_double",
        "(int) -> double",
        Cost::Unit,
        to_double,
    ),
    Row::new(
        "double",
        "string_to_double",
        "(string) -> double",
        Cost::Unit,
        to_double,
    ),
    Row::new(
        "double",
        "uint64_to_double",
        "(uint) -> double",
        Cost::Unit,
        to_double,
    ),
    Row::new(
        "duration",
        "duration_to_duration",
        "(duration) -> duration",
        Cost::Unit,
        to_duration,
    ),
    Row::new(
        "duration",
        "int64_to_duration",
        "(int) -> duration",
        Cost::Unit,
        to_duration,
    ),
    Row::new(
        "duration",
        "string_to_duration",
        "(string) -> duration",
        Cost::Unit,
        to_duration,
    ),
    Row::new("int", "int64_to_int64", "(int) -> int", Cost::Unit, to_int),
    Row::new(
        "int",
        "double_to_int64",
        "(double) -> int",
        Cost::Unit,
        to_int,
    ),
    Row::new(
        "int",
        "duration_to_int64",
        "(duration) -> int",
        Cost::Unit,
        to_int,
    ),
    Row::new(
        "int",
        "string_to_int64",
        "(string) -> int",
        Cost::Unit,
        to_int,
    ),
    Row::new(
        "int",
        "timestamp_to_int64",
        "(timestamp) -> int",
        Cost::Unit,
        to_int,
    ),
    Row::new(
        "int",
        "uint64_to_int64",
        "(uint) -> int",
        Cost::Unit,
        to_int,
    ),
    Row::new(
        "string",
        "string_to_string",
        "(string) -> string",
        Cost::Unit,
        to_string,
    ),
    Row::new(
        "string",
        "bool_to_string",
        "(bool) -> string",
        Cost::Unit,
        to_string,
    ),
    Row::new(
        "string",
        "bytes_to_string",
        "(bytes) -> string",
        Cost::FromBytes,
        to_string,
    ),
    Row::new(
        "string",
        "double_to_string",
        "(double) -> string",
        Cost::Unit,
        to_string,
    ),
    Row::new(
        "string",
        "duration_to_string",
        "(duration) -> string",
        Cost::Unit,
        to_string,
    ),
    Row::new(
        "string",
        "int64_to_string",
        "(int) -> string",
        Cost::Unit,
        to_string,
    ),
    Row::new(
        "string",
        "timestamp_to_string",
        "(timestamp) -> string",
        Cost::Unit,
        to_string,
    ),
    Row::new(
        "string",
        "uint64_to_string",
        "(uint) -> string",
        Cost::Unit,
        to_string,
    ),
    Row::new(
        "timestamp",
        "timestamp_to_timestamp",
        "(timestamp) -> timestamp",
        Cost::Unit,
        to_timestamp,
    ),
    Row::new(
        "timestamp",
        "int64_to_timestamp",
        "(int) -> timestamp",
        Cost::Unit,
        to_timestamp,
    ),
    Row::new(
        "timestamp",
        "string_to_timestamp",
        "(string) -> timestamp",
        Cost::Unit,
        to_timestamp,
    ),
    Row::new(
        "uint",
        "uint64_to_uint64",
        "(uint) -> uint",
        Cost::Unit,
        to_uint,
    ),
    Row::new(
        "uint",
        "double_to_uint64",
        "(double) -> uint",
        Cost::Unit,
        to_uint,
    ),
    Row::new(
        "uint",
        "int64_to_uint64",
        "(int) -> uint",
        Cost::Unit,
        to_uint,
    ),
    Row::new(
        "uint",
        "string_to_uint64",
        "(string) -> uint",
        Cost::Unit,
        to_uint,
    ),
];

/// 2^63 and 2^64: the first doubles that are out of range.
const INT_END: f64 = 9_223_372_036_854_775_808.0;
const UINT_END: f64 = 18_446_744_073_709_551_616.0;

fn converted<'a>(value: Option<Value<'a>>, from: &Value<'a>, to: &'static str) -> Outcome<'a> {
    value.ok_or_else(|| {
        Fault::failed(Reason::Conversion {
            from: from.type_of().name().to_owned(),
            to,
        })
    })
}

fn overflow<'a>(what: &'static str) -> Outcome<'a> {
    Err(Fault::failed(Reason::Overflow(what)))
}

fn to_bool<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Bool(_)] => Ok(value.clone()),
        [from @ Value::String(text)] => {
            let parsed = match text.as_str() {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
                _ => None,
            };
            converted(parsed.map(Value::Bool), from, "bool")
        }
        _ => Err(no_overload("bool", args)),
    }
}

fn to_bytes<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Bytes(_)] => Ok(value.clone()),
        [Value::String(text)] => Ok(Value::bytes(text.as_str().as_bytes())),
        _ => Err(no_overload("bytes", args)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "conversion to double rounds")]
fn to_double<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Double(_)] => Ok(value.clone()),
        [Value::Int(value)] => Ok(Value::Double(*value as f64)),
        [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
        [from @ Value::String(text)] => converted(
            parse_double(text.as_str()).map(Value::Double),
            from,
            "double",
        ),
        _ => Err(no_overload("double", args)),
    }
}

/// Reads what Go's `ParseFloat` reads.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    if text.contains('_') {
        return parse_double(&without_underscores(text)?);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0x") {
        let value = parse_hexadecimal(digits)?;
        return Some(if text.starts_with('-') { -value } else { value });
    }
    let named = matches!(lower.as_str(), "inf" | "infinity") || text.eq_ignore_ascii_case("nan");
    let plain = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    if !named && !plain {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    (named || value.is_finite()).then_some(value)
}

/// A number without its underscores, which stand between digits, or behind `0x`.
fn without_underscores(text: &str) -> Option<String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_hexadecimal = unsigned.starts_with("0x") || unsigned.starts_with("0X");
    let mut before = if is_hexadecimal { '0' } else { '.' };
    for c in unsigned.chars().skip(if is_hexadecimal { 2 } else { 0 }) {
        let is_digit = c.is_ascii_digit() || is_hexadecimal && c.is_ascii_hexdigit();
        let fits = match before {
            '_' => is_digit,
            '0' => true,
            _ => c != '_',
        };
        if !fits {
            return None;
        }
        before = if is_digit { '0' } else { c };
    }
    (before != '_').then(|| text.replace('_', ""))
}

/// A number like `1.8p3`, rounded to the nearest double, or if there are two to the even one.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once('p')?;
    let plain = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if plain.is_empty() || !plain.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    // Exponents beyond these come to the same, unless the digits are as many.
    let bound = i64::from(i32::MAX);
    let mut exponent = match exponent.parse::<i64>() {
        Ok(exponent) => exponent.clamp(-bound, bound),
        Err(_) if exponent.starts_with('-') => -bound,
        Err(_) => bound,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut mantissa = 0_u64;
    for (index, c) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = u64::from(c.to_digit(16)?);
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | digit;
            exponent -= if index < whole.len() { 0 } else { 4 };
        } else {
            // What does not fit only says on which side of the middle the number is.
            mantissa |= u64::from(digit != 0);
            exponent += if index < whole.len() { 4 } else { 0 };
        }
    }
    Some(scaled(mantissa, exponent)).filter(|value| value.is_finite())
}

/// `mantissa * 2^exponent`.
fn scaled(mantissa: u64, exponent: i64) -> f64 {
    /// The exponent of the smallest double.
    const SMALLEST: i64 = -1074;
    let bits = i64::from(u64::BITS - mantissa.leading_zeros());
    if mantissa == 0 || exponent + bits < SMALLEST {
        return 0.0;
    }
    if exponent + bits > 1024 {
        return f64::INFINITY;
    }
    // Rounded here: the last bit that stays is of this weight.
    let weight = (exponent + bits - 53).max(SMALLEST);
    let mut kept = mantissa;
    if weight > exponent {
        let dropped = weight - exponent;
        let half = 1_u128 << (dropped - 1);
        let rest = u128::from(mantissa) & ((half << 1) - 1);
        kept = u64::try_from(u128::from(mantissa) >> dropped).unwrap_or(0);
        kept += u64::from(rest > half || rest == half && kept & 1 == 1);
    }
    let exponent = i32::try_from(weight.max(exponent)).unwrap_or(i32::MAX);
    // Both halves of the power are doubles, and no step rounds.
    #[expect(
        clippy::cast_precision_loss,
        reason = "at most 54 bits, the last of them zero"
    )]
    let value = kept as f64;
    value * 2_f64.powi(exponent / 2) * 2_f64.powi(exponent - exponent / 2)
}

fn to_duration<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Duration(_)] => Ok(value.clone()),
        [Value::Int(nanos)] => Ok(Value::Duration(Duration::from_nanos(*nanos))),
        [from @ Value::String(text)] => converted(
            Duration::parse(text.as_str()).map(Value::Duration),
            from,
            "google.protobuf.Duration",
        ),
        _ => Err(no_overload("duration", args)),
    }
}

fn to_int<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Int(_)] => Ok(value.clone()),
        [Value::Uint(value)] => match i64::try_from(*value) {
            Ok(value) => Ok(Value::Int(value)),
            Err(_) => overflow("integer"),
        },
        #[expect(
            clippy::cast_possible_truncation,
            reason = "in range, cut towards zero"
        )]
        [Value::Double(value)] if *value > -INT_END && *value < INT_END => {
            Ok(Value::Int(*value as i64))
        }
        [Value::Double(_)] => overflow("integer"),
        [Value::Duration(duration)] => Ok(Value::Int(duration.nanos())),
        [Value::Timestamp(time)] => Ok(Value::Int(time.seconds())),
        [from @ Value::String(text)] => {
            converted(text.as_str().parse().ok().map(Value::Int), from, "int")
        }
        _ => Err(no_overload("int", args)),
    }
}

fn to_uint<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Uint(_)] => Ok(value.clone()),
        [Value::Int(value)] => match u64::try_from(*value) {
            Ok(value) => Ok(Value::Uint(value)),
            Err(_) => overflow("unsigned integer"),
        },
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "in range, cut towards zero"
        )]
        [Value::Double(value)] if *value >= 0.0 && *value < UINT_END => {
            Ok(Value::Uint(*value as u64))
        }
        [Value::Double(_)] => overflow("unsigned integer"),
        [from @ Value::String(text)] => {
            let text = text.as_str();
            let parsed = if text.starts_with('+') {
                None
            } else {
                text.parse().ok()
            };
            converted(parsed.map(Value::Uint), from, "uint")
        }
        _ => Err(no_overload("uint", args)),
    }
}

pub(crate) fn to_string<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [value @ Value::String(_)] => value.clone(),
        [Value::Bool(value)] => Value::borrowed(if *value { "true" } else { "false" }),
        [Value::Int(value)] => Value::string(int_text(*value)),
        [Value::Uint(value)] => Value::string(value.to_string()),
        [Value::Double(value)] => Value::string(format_double(*value)),
        [Value::Duration(value)] => Value::string(value.to_string()),
        [Value::Timestamp(value)] => Value::string(value.to_string()),
        [Value::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => Value::string(text),
            Err(_) => {
                return Err(Fault::invalid(
                    "invalid UTF-8 in bytes, cannot convert to string",
                ));
            }
        },
        _ => return Err(no_overload("string", args)),
    })
}

fn to_timestamp<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Timestamp(_)] => Ok(value.clone()),
        [Value::Int(seconds)] => match Timestamp::new(*seconds, 0) {
            Some(time) => Ok(Value::Timestamp(time)),
            None => overflow("timestamp"),
        },
        [from @ Value::String(text)] => converted(
            Timestamp::parse(text.as_str()).map(Value::Timestamp),
            from,
            "google.protobuf.Timestamp",
        ),
        _ => Err(no_overload("timestamp", args)),
    }
}
