//! Resource quantities: `500m`, `1Gi`, `1e3`.
//!
//! Kubernetes parses every quantity that it reads and prints it again, so `1000m` becomes `1` and
//! `1024Mi` becomes `1Gi`; whoever compares what they sent with what they get depends on that.
//! A number that was already in canonical form by Kubernetes' own quick test stays as it was
//! written, signs and leading zeros included.

use std::borrow::Cow;

/// An amount, exact to a billionth, and how it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// How a quantity is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `1Ki` is 1024.
    Binary,
    /// `1k` is 1000.
    Decimal,
    /// `1e3` is 1000.
    Exponent,
}

/// The text is not a quantity.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseQuantityError {
    /// It does not look like one.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// What follows the number is no unit.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Without leading zeros; `0` when nothing else is left.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

const NANO: i32 = -9;
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The quantity as Kubernetes prints it after reading it.
///
/// # Errors
///
/// When the text is not a quantity.
pub fn canonical(text: &str) -> Result<Cow<'_, str>, ParseQuantityError> {
    let parts = Parts::split(text)?;
    let (format, exponent) = parts.interpret()?;
    if parts.is_kept(format, exponent) {
        return Ok(Cow::Borrowed(text));
    }
    // What does not fit into 128 bits of nanos is not worth rounding as Kubernetes does.
    match parts.nanos(format, exponent) {
        Some(nanos) => Ok(Cow::Owned(Quantity::rounded(nanos, format).to_string())),
        None => Ok(Cow::Borrowed(text)),
    }
}

// === impl Quantity ===

impl std::str::FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = Parts::split(text)?;
        let (format, exponent) = parts.interpret()?;
        let nanos = parts
            .nanos(format, exponent)
            .ok_or(ParseQuantityError::Format)?;
        Ok(Self::rounded(nanos, format))
    }
}

impl Quantity {
    /// Binary quantities are capped at what 64 bits hold; small ones are printed as decimals.
    fn rounded(nanos: i128, format: Format) -> Self {
        let most = i128::from(i64::MAX) * 1_000_000_000;
        match format {
            Format::Binary if nanos.abs() > most => Self {
                nanos: most * nanos.signum(),
                format,
            },
            Format::Binary | Format::Decimal | Format::Exponent => Self { nanos, format },
        }
    }

    /// The amount in billionths, however it was written.
    #[must_use]
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Rounded away from zero to a thousandth, which is as fine as compute resources are kept.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        let milli = 1_000_000;
        let rest = self.nanos % milli;
        match rest {
            0 => self,
            rest => Self {
                nanos: self.nanos - rest + milli * rest.signum(),
                ..self
            },
        }
    }

    /// The sum; `None` when it does not fit.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let format = if self.nanos == 0 {
            other.format
        } else {
            self.format
        };
        Some(Self {
            nanos: self.nanos.checked_add(other.nanos)?,
            format,
        })
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.nanos.cmp(&other.nanos))
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let one = 1_000_000_000;
        let is_whole = self.nanos % one == 0;
        if self.format == Format::Binary && is_whole && (self.nanos / one).abs() >= 1024 {
            let (mut value, mut suffix) = (self.nanos / one, 0);
            while value % 1024 == 0 && suffix + 1 < BINARY.len() {
                value /= 1024;
                suffix += 1;
            }
            return write!(f, "{value}{}", BINARY[suffix]);
        }
        let (mut value, mut exponent) = (self.nanos, NANO);
        while value % 1_000 == 0 && (self.format == Format::Exponent || exponent < 18) {
            value /= 1_000;
            exponent += 3;
        }
        match (self.format, exponent) {
            (_, 0) => write!(f, "{value}"),
            (Format::Exponent, exponent) => write!(f, "{value}e{exponent}"),
            (Format::Binary | Format::Decimal, exponent) => {
                let suffix = DECIMAL
                    .iter()
                    .find(|(_, power)| *power == exponent)
                    .map_or("", |(name, _)| name);
                write!(f, "{value}{suffix}")
            }
        }
    }
}

// === impl Parts ===

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, ParseQuantityError> {
        if text.is_empty() {
            return Err(ParseQuantityError::Format);
        }
        let negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        let rest = rest.trim_start_matches('0');
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let after_letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = after_letters
            .strip_prefix(['-', '+'])
            .unwrap_or(after_letters);
        if digits(exponent) < exponent.len() {
            return Err(ParseQuantityError::Format);
        }
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Self {
            negative,
            whole,
            fraction,
            suffix,
        })
    }

    /// The format and the power, of ten or (for binary ones) of two.
    fn interpret(&self) -> Result<(Format, i32), ParseQuantityError> {
        if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == self.suffix) {
            return Ok((Format::Decimal, *exponent));
        }
        if let Some(index) = BINARY.iter().position(|name| *name == self.suffix) {
            let power = i32::try_from(index).map_err(|_| ParseQuantityError::Suffix)?;
            return Ok((Format::Binary, power * 10));
        }
        let digits = self.suffix.strip_prefix(['e', 'E']);
        let exponent = digits.and_then(|digits| digits.parse().ok());
        let exponent = exponent.ok_or(ParseQuantityError::Suffix)?;
        Ok((Format::Exponent, exponent))
    }

    /// Kubernetes' quick test for text that it keeps as it is.
    fn is_kept(&self, format: Format, exponent: i32) -> bool {
        let digits = self.whole.len() + self.fraction.len();
        if self.whole == "0" && self.fraction.is_empty() {
            return false;
        }
        let shifted = format!("{}{}", self.whole, self.fraction);
        match format {
            Format::Binary => {
                let precision = 14_i32.saturating_sub(len(self.whole)) - exponent * 3 / 10;
                let low_bits = shifted.parse::<i64>().map_or(0, |value| value & 7);
                self.fraction.is_empty() && precision >= 0 && low_bits != 0
            }
            Format::Decimal | Format::Exponent => {
                let scale = exponent - len(self.fraction);
                digits <= 18
                    && scale >= NANO
                    && scale % 3 == 0
                    && !shifted.ends_with("000")
                    && !shifted.starts_with('0')
            }
        }
    }

    /// The value in nanos, rounded away from zero; `None` when it is out of range.
    fn nanos(&self, format: Format, exponent: i32) -> Option<i128> {
        let digits: i128 = format!("{}{}", self.whole, self.fraction).parse().ok()?;
        let mut scale = 9 - len(self.fraction);
        let mut value = digits;
        match format {
            Format::Binary => {
                value = value.checked_mul(1_i128.checked_shl(u32::try_from(exponent).ok()?)?)?
            }
            Format::Decimal | Format::Exponent => scale = scale.checked_add(exponent)?,
        }
        let power = 10_i128.checked_pow(scale.unsigned_abs());
        let value = match (scale >= 0, power) {
            (_, _) if value == 0 => 0,
            (true, Some(power)) => value.checked_mul(power)?,
            (true, None) => return None,
            (false, Some(power)) => (value / power) + i128::from(value % power != 0),
            (false, None) => 1,
        };
        Some(if self.negative { -value } else { value })
    }
}

fn len(text: &str) -> i32 {
    i32::try_from(text.len()).unwrap_or(i32::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_printed_as_kubernetes_prints_them() {
        let cases = [
            ("0", "0"),
            ("0m", "0"),
            ("-0", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1."),
            ("100m", "100m"),
            ("1024Mi", "1Gi"),
            ("1500Mi", "1500Mi"),
            ("0.5Gi", "512Mi"),
            ("1.5Gi", "1536Mi"),
            ("1023", "1023"),
            ("1000", "1k"),
            ("1000k", "1M"),
            ("1e3", "1e3"),
            ("1000e0", "1e3"),
            ("1E", "1E"),
            ("12E3", "12E3"),
            ("0.1Ki", "102400m"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("1.0000000001", "1000000001n"),
            ("-1.5", "-1500m"),
            ("+5", "+5"),
            ("0005", "0005"),
            ("100Ei", "9223372036854775807"),
            (
                "123456789012345678901234567890123456789012",
                "123456789012345678901234567890123456789012",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_quantity_is_refused() {
        let format = ["", "a", "1x", "1e3k", "1 Gi", "1.2.3", "100MB", "é"];
        for text in format {
            assert_eq!(canonical(text), Err(ParseQuantityError::Format), "{text}");
        }
        for text in ["--1", "1kk", "1e", "1ee3", "1i", "1e99999999999"] {
            assert_eq!(canonical(text), Err(ParseQuantityError::Suffix), "{text}");
        }
    }

    #[test]
    fn sums_and_rounding() {
        let quantity = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(
            quantity("1500m")
                .checked_add(quantity("1"))
                .unwrap()
                .to_string(),
            "2500m"
        );
        assert_eq!(quantity("1n").round_up_to_milli().to_string(), "1m");
        assert_eq!(quantity("-1n").round_up_to_milli().to_string(), "-1m");
        assert!(quantity("1Gi") > quantity("1G"));
    }
}
