//! Many durations, told by a few.

use std::time::Duration;

/// Durations, the shortest first.
pub(crate) struct Spread(Vec<Duration>);

// === impl Spread ===

impl Spread {
    pub(crate) fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }

    /// So many of a hundred are not longer.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100);
        let last = self.0.len().saturating_sub(1);
        let found = self.0.get(rank.saturating_sub(1).min(last));
        found.copied().unwrap_or_default()
    }

    pub(crate) fn all(self) -> Vec<Duration> {
        self.0
    }

    pub(crate) fn longest(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }
}

/// As the tables have it.
pub(crate) fn millis(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    match millis {
        ..10.0 => format!("{millis:.2} ms"),
        10.0..100.0 => format!("{millis:.1} ms"),
        _ => format!("{millis:.0} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let check = |count: u64, percent, expected| {
            let all = (1..=count).rev().map(Duration::from_millis).collect();
            let found = Spread::new(all).percentile(percent);
            assert_eq!(found, Duration::from_millis(expected));
        };
        check(100, 50, 50);
        check(100, 99, 99);
        check(3, 50, 2);
        check(3, 99, 3);
        check(1, 1, 1);
        check(0, 50, 0);
        assert_eq!(millis(Duration::from_micros(1234)), "1.23 ms");
    }
}
