//! A number of zones, or a share of them: `3`, `5%`.

use std::fmt;

use serde_json::Value;

/// How many of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Count(u64),
    Percent(u8),
}

// === impl Share ===

impl Share {
    /// As users write it: a number, or a text with one, or with a percentage.
    pub fn read(value: &Value) -> Option<Self> {
        if let Some(count) = value.as_u64() {
            return Some(Self::Count(count));
        }
        let text = value.as_str()?.trim();
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent = percent.trim().parse().ok()?;
                (percent <= 100).then_some(Self::Percent(percent))
            }
            None => text.parse().ok().map(Self::Count),
        }
    }

    /// Rounded down: who allows a share of few allows none.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Self::Percent(percent) => total.saturating_mul(usize::from(percent)) / 100,
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_shares() {
        let check = |value: Value, total, expected: Option<usize>| {
            let read = Share::read(&value).map(|share| share.of(total));
            assert_eq!(read, expected, "{value} of {total}");
        };
        check(json!(3), 10, Some(3));
        check(json!("3"), 2, Some(3));
        check(json!("5%"), 100, Some(5));
        check(json!("5%"), 19, Some(0));
        check(json!("100%"), 7, Some(7));
        check(json!("101%"), 7, None);
        check(json!(-1), 7, None);
        check(json!("5 percent"), 7, None);
    }
}
