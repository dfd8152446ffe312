//! Decimal numbers of any size, as Kubernetes' quantities hold them: small ones as an integer and
//! a power of ten, others digit by digit. Only small ones can be integers.

use std::cmp::Ordering;

#[derive(Clone, Debug)]
pub(super) enum Amount {
    /// `value × 10^scale`.
    Small {
        value: i64,
        scale: i32,
    },
    Large(Decimal),
}

/// `±digits × 10^exponent`; no leading zeros, and zero has no digits.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

/// How a suffix scales.
#[derive(Clone, Copy)]
enum Suffix {
    Decimal(i32),
    Binary(u32),
}

/// Small numbers have at most this many digits.
const SMALL_DIGITS: usize = 18;
/// Nothing is finer than this.
const NANO: i64 = -9;
/// Numbers whose digits are further apart are not added.
const MAX_SPREAD: i64 = 10_000;

// === impl Amount ===

impl From<i64> for Amount {
    fn from(value: i64) -> Self {
        Self::Small { value, scale: 0 }
    }
}

impl Amount {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = |text: &str| {
            text.find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len())
        };
        let (whole, rest) = unsigned.split_at(end(unsigned));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(end(rest)),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() && (!suffix.is_empty() || rest == ".") {
            return None;
        }
        let suffix = Suffix::parse(suffix)?;
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        Self::small(negative, whole, fraction, suffix)
            .or_else(|| Some(Self::large(negative, whole, fraction, suffix)))
    }

    fn small(negative: bool, whole: &str, fraction: &str, suffix: Suffix) -> Option<Self> {
        let length = whole.len() + fraction.len();
        let (mantissa, scale) = match suffix {
            Suffix::Decimal(exponent) => {
                (length <= SMALL_DIGITS).then_some(())?;
                (
                    1,
                    exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?,
                )
            }
            Suffix::Binary(exponent) => {
                let room =
                    15_i64 - i64::try_from(whole.len()).ok()? - i64::from(exponent * 3 / 10) - 1;
                (fraction.is_empty() && room >= 0).then_some(())?;
                (1_i64 << exponent, 0)
            }
        };
        (i64::from(scale) >= NANO).then_some(())?;
        let value: i64 = format!("{whole}{fraction}").parse().ok()?;
        let value = value.checked_mul(mantissa)?;
        let value = if negative { -value } else { value };
        Some(Self::Small { value, scale })
    }

    fn large(negative: bool, whole: &str, fraction: &str, suffix: Suffix) -> Self {
        let mut digits: Vec<u8> = whole
            .bytes()
            .chain(fraction.bytes())
            .map(|byte| byte - b'0')
            .collect();
        let mut exponent = -(fraction.len() as i64);
        match suffix {
            Suffix::Decimal(scale) => exponent += i64::from(scale),
            Suffix::Binary(power) => (0..power).for_each(|_| double(&mut digits)),
        }
        let mut number = Decimal::new(false, digits, exponent);
        number.round_up(NANO);
        if let Suffix::Binary(_) = suffix {
            let most = Self::from(i64::MAX).to_decimal();
            if number.order(&most).is_gt() {
                number = most;
            }
        }
        number.negative = negative && !number.digits.is_empty();
        Self::Large(number)
    }

    fn to_decimal(&self) -> Decimal {
        match self {
            Self::Small { value, scale } => {
                let digits = value
                    .unsigned_abs()
                    .to_string()
                    .bytes()
                    .map(|byte| byte - b'0')
                    .collect();
                Decimal::new(*value < 0, digits, i64::from(*scale))
            }
            Self::Large(number) => number.clone(),
        }
    }

    pub(super) fn digits(&self) -> u64 {
        match self {
            Self::Small { .. } => 1,
            Self::Large(number) => number.digits.len() as u64,
        }
    }

    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.to_decimal().order(&other.to_decimal())
    }

    pub(super) fn negated(&self) -> Self {
        match self {
            Self::Small { value, scale } => match value.checked_neg() {
                Some(value) => Self::Small {
                    value,
                    scale: *scale,
                },
                None => Self::Large(self.to_decimal()).negated(),
            },
            Self::Large(number) => Self::Large(Decimal {
                negative: !number.negative && !number.digits.is_empty(),
                ..number.clone()
            }),
        }
    }

    /// The sum; nothing when it would have too many digits.
    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        if let (Self::Small { value: a, scale: x }, Self::Small { value: b, scale: y }) =
            (self, other)
        {
            if *b == 0 {
                return Some(self.clone());
            }
            if *a == 0 {
                return Some(other.clone());
            }
            let scale = (*x).min(*y);
            let sum = up(*a, x.saturating_sub(scale))
                .zip(up(*b, y.saturating_sub(scale)))
                .and_then(|(a, b)| a.checked_add(b));
            if let Some(value) = sum {
                return Some(Self::Small { value, scale });
            }
        }
        self.to_decimal().plus(&other.to_decimal()).map(Self::Large)
    }

    pub(super) fn to_integer(&self) -> Option<i64> {
        match self {
            Self::Small { value, scale } if *scale >= 0 => up(*value, *scale),
            Self::Small { .. } | Self::Large(_) => None,
        }
    }

    /// The exact number, `-15e-1`: digits without zeros at the end, and a power of ten.
    pub(super) fn text(&self) -> String {
        let number = self.to_decimal();
        let end = number.digits.iter().rposition(|digit| *digit > 0);
        let Some(last) = end else {
            return "0".to_owned();
        };
        let digits: String = number.digits[..=last]
            .iter()
            .map(|digit| char::from(digit + b'0'))
            .collect();
        let zeros = number.digits.len() - 1 - last;
        let exponent = number.exponent + zeros as i64;
        let sign = if number.negative { "-" } else { "" };
        format!("{sign}{digits}e{exponent}")
    }

    #[expect(clippy::cast_precision_loss, reason = "approximate by name")]
    pub(super) fn to_double(&self) -> f64 {
        let (base, exponent) = match self {
            Self::Small { value, scale } => (*value as f64, i64::from(*scale)),
            Self::Large(number) => {
                let text: String = number
                    .digits
                    .iter()
                    .map(|digit| char::from(digit + b'0'))
                    .collect();
                let base: f64 = text.parse().unwrap_or(0.0);
                (if number.negative { -base } else { base }, number.exponent)
            }
        };
        if exponent == 0 || base == 0.0 {
            return base;
        }
        let power: f64 = format!("1e{exponent}").parse().unwrap_or(0.0);
        base * power
    }
}

/// The value times a power of ten that is not negative.
fn up(value: i64, scale: i32) -> Option<i64> {
    let factor = 10_i64.checked_pow(u32::try_from(scale).ok()?);
    match (value, factor) {
        (0, _) => Some(0),
        (value, Some(factor)) => value.checked_mul(factor),
        (_, None) => None,
    }
}

/// Twice the number, digit by digit.
fn double(digits: &mut Vec<u8>) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let twice = *digit * 2 + carry;
        *digit = twice % 10;
        carry = twice / 10;
    }
    if carry > 0 {
        digits.insert(0, carry);
    }
}

// === impl Decimal ===

impl Decimal {
    fn new(negative: bool, digits: Vec<u8>, exponent: i64) -> Self {
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        let digits: Vec<u8> = digits[zeros..].to_vec();
        Self {
            negative: negative && !digits.is_empty(),
            digits,
            exponent,
        }
    }

    /// Drops what is finer than `10^exponent`, away from zero.
    fn round_up(&mut self, exponent: i64) {
        if self.exponent >= exponent || self.digits.is_empty() {
            return;
        }
        let cut = usize::try_from(exponent - self.exponent).unwrap_or(usize::MAX);
        let keep = self.digits.len().saturating_sub(cut);
        let lost = self.digits[keep..].iter().any(|digit| *digit > 0);
        self.digits.truncate(keep);
        self.exponent = exponent;
        if !lost {
            return;
        }
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    fn order(&self, other: &Self) -> Ordering {
        match (self.sign(), other.sign()) {
            (a, b) if a != b => a.cmp(&b),
            (0, _) => Ordering::Equal,
            (1, _) => self.magnitude(other),
            _ => other.magnitude(self),
        }
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => -1,
        }
    }

    fn magnitude(&self, other: &Self) -> Ordering {
        let top = |number: &Self| number.digits.len() as i64 + number.exponent;
        top(self).cmp(&top(other)).then_with(|| {
            let length = self.digits.len().max(other.digits.len());
            let padded = |number: &Self, at: usize| number.digits.get(at).copied().unwrap_or(0);
            (0..length)
                .map(|at| padded(self, at).cmp(&padded(other, at)))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        })
    }

    fn plus(&self, other: &Self) -> Option<Self> {
        let exponent = self.exponent.min(other.exponent);
        let (a, b) = (self.shifted(exponent)?, other.shifted(exponent)?);
        if self.negative == other.negative {
            return Some(Self::new(self.negative, add(&a, &b), exponent));
        }
        Some(match self.magnitude(other) {
            Ordering::Less => Self::new(other.negative, subtract(&b, &a), exponent),
            Ordering::Equal | Ordering::Greater => {
                Self::new(self.negative, subtract(&a, &b), exponent)
            }
        })
    }

    /// The digits when the last one stands for `10^exponent`.
    fn shifted(&self, exponent: i64) -> Option<Vec<u8>> {
        let zeros = self.exponent - exponent;
        (zeros <= MAX_SPREAD).then_some(())?;
        let mut digits = self.digits.clone();
        digits.resize(digits.len() + usize::try_from(zeros).ok()?, 0);
        Some(digits)
    }
}

fn add(a: &[u8], b: &[u8]) -> Vec<u8> {
    let length = a.len().max(b.len());
    let digit =
        |number: &[u8], at: usize| number.len().checked_sub(at + 1).map_or(0, |at| number[at]);
    let mut out = Vec::with_capacity(length + 1);
    let mut carry = 0;
    for at in 0..length {
        let sum = digit(a, at) + digit(b, at) + carry;
        out.push(sum % 10);
        carry = sum / 10;
    }
    out.push(carry);
    out.reverse();
    out
}

/// `a - b`, where `a` is not smaller.
fn subtract(a: &[u8], b: &[u8]) -> Vec<u8> {
    let digit =
        |number: &[u8], at: usize| number.len().checked_sub(at + 1).map_or(0, |at| number[at]);
    let mut out = Vec::with_capacity(a.len());
    let mut borrow = 0;
    for at in 0..a.len() {
        let (x, y) = (digit(a, at), digit(b, at) + borrow);
        borrow = u8::from(x < y);
        out.push(x + 10 * borrow - y);
    }
    out.reverse();
    out
}

// === impl Suffix ===

impl Suffix {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" => Self::Decimal(0),
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            text => {
                let digits = text.strip_prefix(['e', 'E'])?;
                let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
                (!unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()))
                    .then_some(())?;
                Self::Decimal(digits.trim_start_matches('+').parse().ok()?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_exactly() {
        let cases = [
            ("0", "0"),
            ("-0.0", "0"),
            ("1.5Gi", "1610612736e0"),
            ("100m", "1e-1"),
            ("-1.50", "-15e-1"),
            ("1000k", "1e6"),
            ("1.0000000001n", "2e-9"),
            ("12345678901234567890", "1234567890123456789e1"),
        ];
        for (text, expected) in cases {
            assert_eq!(Amount::parse(text).unwrap().text(), expected, "{text}");
        }
    }
}
