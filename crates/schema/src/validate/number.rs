//! Bounds of numbers. Whole numbers are compared as whole numbers, against bounds cut to whole
//! numbers; the words are those of Kubernetes.

use serde_json::Value;

use super::format::Format;
use crate::node::{Bound, Kind};

/// A number without a fraction, however it is written.
pub(super) fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(float_is_whole)
}

fn float_is_whole(float: f64) -> bool {
    let off = (float - float.round()).abs();
    float.is_finite() && float.abs() <= 9_007_199_254_740_991.0 && off <= float.abs() * 1e-9
}

/// The type that `value` does not fit, in words.
pub(super) fn out_of_range(
    value: &Value,
    kind: Kind,
    format: Option<Format>,
) -> Option<&'static str> {
    let whole = || {
        value.as_i64().or_else(|| {
            value
                .as_f64()
                .filter(|float| float.abs() < 9.2e18 && float.fract() == 0.0)
                .map(|f| f as i64)
        })
    };
    match (kind, format) {
        (Kind::Integer, Some(Format::Int32)) => match whole().map(i32::try_from) {
            Some(Ok(_)) => None,
            Some(Err(_)) | None => Some("integer with format int32"),
        },
        (Kind::Integer, Some(Format::Int64)) if whole().is_none() => {
            Some("integer with format int64")
        }
        (Kind::Integer, None) if whole().is_none() => Some("integer (default format)"),
        (Kind::Number, Some(Format::Float))
            if value
                .as_f64()
                .is_some_and(|f| f.abs() > f64::from(f32::MAX)) =>
        {
            Some("number with format float")
        }
        (_, _) => None,
    }
}

pub(super) fn below(value: &Value, bound: Bound) -> Option<String> {
    let words = if bound.exclusive {
        "should be greater than"
    } else {
        "should be greater than or equal to"
    };
    let broken = |value: f64, limit: f64| value < limit || (bound.exclusive && value <= limit);
    outside(value, bound, words, broken, |value, limit| {
        value < limit || (bound.exclusive && value <= limit)
    })
}

pub(super) fn above(value: &Value, bound: Bound) -> Option<String> {
    let words = if bound.exclusive {
        "should be less than"
    } else {
        "should be less than or equal to"
    };
    let broken = |value: f64, limit: f64| value > limit || (bound.exclusive && value >= limit);
    outside(value, bound, words, broken, |value, limit| {
        value > limit || (bound.exclusive && value >= limit)
    })
}

fn outside(
    value: &Value,
    bound: Bound,
    words: &str,
    floats: impl Fn(f64, f64) -> bool,
    integers: impl Fn(i64, i64) -> bool,
) -> Option<String> {
    match value.as_i64() {
        // The cast saturates, which keeps the comparison right.
        Some(value) => {
            integers(value, bound.value as i64).then(|| format!("{words} {}", bound.value as i64))
        }
        None => {
            floats(value.as_f64()?, bound.value).then(|| format!("{words} {}", shown(bound.value)))
        }
    }
}

/// Whether the factor, cut to a whole number for a whole number, is none.
pub(super) fn is_senseless(value: &Value, factor: f64) -> bool {
    value.as_i64().is_some() && factor < 1.0
}

pub(super) fn not_multiple(value: &Value, factor: f64) -> Option<String> {
    let multiple = match value.as_i64() {
        Some(_) if is_senseless(value, factor) => true,
        Some(value) => value % (factor as i64) == 0,
        None => float_is_whole(value.as_f64()? / factor),
    };
    let shown = if value.is_f64() {
        shown(factor)
    } else {
        (factor as i64).to_string()
    };
    (!multiple).then(|| format!("should be a multiple of {shown}"))
}

/// A float as Go's `%v` prints it.
fn shown(float: f64) -> String {
    let exponent = if float == 0.0 {
        0
    } else {
        float.abs().log10().floor() as i32
    };
    if (-4..6).contains(&exponent) {
        return float.to_string();
    }
    let text = format!("{float:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent
        .strip_prefix('-')
        .map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bounds() {
        let at = |value, exclusive| Bound { value, exclusive };
        assert_eq!(below(&json!(1), at(1.0, false)), None);
        assert_eq!(
            below(&json!(1), at(1.0, true)),
            Some("should be greater than 1".to_owned())
        );
        assert_eq!(
            above(&json!(2), at(1.5, false)),
            Some("should be less than or equal to 1".to_owned())
        );
        assert_eq!(
            above(&json!(1.6), at(1.5, false)),
            Some("should be less than or equal to 1.5".to_owned())
        );
        assert_eq!(not_multiple(&json!(9), 3.0), None);
        assert_eq!(not_multiple(&json!(0.3), 0.1), None);
        assert_eq!(
            not_multiple(&json!(10), 3.0),
            Some("should be a multiple of 3".to_owned())
        );
        assert!(not_multiple(&json!(i64::MIN), 1e300).is_some());
        assert_eq!(shown(1_234_567.5), "1.2345675e+06");
        assert_eq!(shown(0.000_01), "1e-05");
        assert_eq!(shown(123.25), "123.25");
    }

    #[test]
    fn ranges() {
        assert_eq!(
            out_of_range(
                &json!(2_147_483_648_i64),
                Kind::Integer,
                Some(Format::Int32)
            ),
            Some("integer with format int32")
        );
        assert_eq!(
            out_of_range(&json!(7), Kind::Integer, Some(Format::Int32)),
            None
        );
        assert_eq!(
            out_of_range(&json!(u64::MAX), Kind::Integer, None),
            Some("integer (default format)")
        );
        assert_eq!(
            out_of_range(&json!(1e39), Kind::Number, Some(Format::Float)),
            Some("number with format float")
        );
    }
}
