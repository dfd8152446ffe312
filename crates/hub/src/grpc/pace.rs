//! Bounds how fast a zone reports: a burst at once, and then a steady rate. Reports above it stay
//! at the zone, since they are not read. Pure.
//!
//! The pace belongs to the zone, and outlives its streams and sessions: opening them again gives no
//! new burst.

use std::collections::BTreeMap;
use std::time::Duration;

use deltaplane_sync::ZoneName;

/// This many reports are read as they come.
const BURST: u32 = 1_000;
/// After a burst, one report is read in each interval. A zone gathers what it reports for as long,
/// so that no zone that keeps to the protocol ever waits.
const INTERVAL: Duration = Duration::from_millis(20);

/// Silent zones are not looked for among fewer.
const FEW: usize = 16;

/// The report paces of all zones that reported lately.
#[derive(Debug, Default)]
pub(super) struct ReportPaces {
    zones: BTreeMap<ZoneName, ReportPace>,
    /// With this many zones, those that were silent for long are forgotten.
    sweep_at: usize,
}

/// The pace of one zone's reports.
#[derive(Debug)]
struct ReportPace {
    /// How many more may come at once.
    left: u32,
    /// When that was counted.
    counted: Duration,
}

// === impl ReportPaces ===

impl ReportPaces {
    /// Counts a report of a zone. Returns how long it waits until it is read.
    pub(super) fn take(&mut self, zone: &ZoneName, now: Duration) -> Duration {
        if let Some(pace) = self.zones.get_mut(zone) {
            return pace.take(now);
        }
        if self.zones.len() >= self.sweep_at {
            // A zone that was silent for long has its whole burst, as one that never reported.
            self.zones.retain(|_, pace| !pace.is_rested(now));
            self.sweep_at = 2 * self.zones.len() + FEW;
        }
        let pace = self.zones.entry(zone.clone());
        pace.or_insert_with(|| ReportPace::new(now)).take(now)
    }
}

// === impl ReportPace ===

impl ReportPace {
    fn new(now: Duration) -> Self {
        Self {
            left: BURST,
            counted: now,
        }
    }

    /// Counts a report. Returns how long it waits until it is read.
    fn take(&mut self, now: Duration) -> Duration {
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
                // It takes the next interval.
                let due = self.counted + INTERVAL;
                self.counted = due;
                due.saturating_sub(now)
            }
        }
    }

    /// Returns true if the whole burst is there again.
    fn is_rested(&self, now: Duration) -> bool {
        now.saturating_sub(self.counted) >= INTERVAL * BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_reports_a_burst_at_once_and_then_at_a_steady_rate() {
        let mut now = Duration::from_secs(5);
        let zone = "eu-1".parse::<ZoneName>().expect("a name");
        let mut paces = ReportPaces::default();
        for _ in 0..BURST {
            assert_eq!(paces.take(&zone, now), Duration::ZERO);
        }
        let began = now;
        for _ in 0..100 {
            now += paces.take(&zone, now);
        }
        assert_eq!(now - began, INTERVAL * 100);
        // Another zone has a pace of its own.
        let other = "eu-2".parse::<ZoneName>().expect("a name");
        assert_eq!(paces.take(&other, now), Duration::ZERO);
        assert!(paces.take(&zone, now) > Duration::ZERO);
        // Silence is saved up, and no further than a burst.
        now += Duration::from_secs(3600);
        let mut free = 0;
        while paces.take(&zone, now) == Duration::ZERO {
            free += 1;
        }
        assert_eq!(free, BURST);
    }

    #[test]
    fn paces_of_silent_zones_are_forgotten() {
        let zone = |number: u32| format!("eu-{number}").parse::<ZoneName>().expect("a name");
        let mut paces = ReportPaces::default();
        let mut now = Duration::from_secs(5);
        for number in 0..50 {
            paces.take(&zone(number), now);
        }
        now += INTERVAL * (BURST + 1);
        for number in 50..200 {
            paces.take(&zone(number), now);
        }
        assert_eq!(paces.zones.len(), 150);
    }
}
