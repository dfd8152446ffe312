//! How fast a zone may report: so many reports at once, and then so many in a second. More wait at
//! the zone, since they are not read. Pure.

use std::time::Duration;

/// So many reports are read as they come.
const BURST: u32 = 1_000;
/// One more may come after this.
const INTERVAL: Duration = Duration::from_millis(50);

/// The reports of one connection.
#[derive(Debug)]
pub(super) struct ReportPace {
    /// So many more may come at once.
    left: u32,
    /// When that was counted.
    counted: Duration,
}

// === impl ReportPace ===

impl ReportPace {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            left: BURST,
            counted: now,
        }
    }

    /// A report came. Returns how long it waits before the next one is read.
    pub(super) fn take(&mut self, now: Duration) -> Duration {
        let since = now.saturating_sub(self.counted);
        let more = u32::try_from(since.as_nanos() / INTERVAL.as_nanos()).unwrap_or(u32::MAX);
        self.counted += INTERVAL * more.min(BURST);
        if more >= BURST {
            self.counted = now;
        }
        self.left = self.left.saturating_add(more).min(BURST);
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Duration::ZERO
            }
            None => {
                // It is the next one that is due.
                let due = self.counted + INTERVAL;
                self.counted = due;
                due.saturating_sub(now)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_reports_so_many_at_once_and_then_so_many_in_a_second() {
        let mut now = Duration::from_secs(5);
        let mut pace = ReportPace::new(now);
        for _ in 0..BURST {
            assert_eq!(pace.take(now), Duration::ZERO);
        }
        let began = now;
        for _ in 0..100 {
            now += pace.take(now);
        }
        assert_eq!(now - began, INTERVAL * 100);
        // Silence is saved up, and no further than a burst.
        now += Duration::from_secs(3600);
        let mut free = 0;
        while pace.take(now) == Duration::ZERO {
            free += 1;
        }
        assert_eq!(free, BURST);
    }
}
