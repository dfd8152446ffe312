//! Ranges of sizes and costs.

use std::ops::Add;

/// At least, and at most. Arithmetic saturates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub min: u64,
    pub max: u64,
}

impl Interval {
    pub const UNKNOWN: Self = Self {
        min: 0,
        max: u64::MAX,
    };
    /// What a union starts from.
    pub const NOTHING: Self = Self {
        min: u64::MAX,
        max: 0,
    };

    pub const fn fixed(value: u64) -> Self {
        Self {
            min: value,
            max: value,
        }
    }

    pub const fn new(min: u64, max: u64) -> Self {
        Self { min, max }
    }

    #[must_use]
    pub fn multiply(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Multiplied, and rounded up.
    #[must_use]
    pub fn scale(self, factor: f64) -> Self {
        Self {
            min: scale(self.min, factor),
            max: scale(self.max, factor),
        }
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

impl Add for Interval {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "doubles as in cel-go; what is too large saturates"
)]
fn scale(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).ceil() as u64
}
