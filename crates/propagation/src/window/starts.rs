//! When occurrences begin: the instants at which clocks show their local times, in order.

use std::collections::BTreeSet;

use deltaplane_expr::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp as Instant};

use super::occurrences::Occurrences;
use super::rule::Rule;

/// The beginnings of occurrences, each once.
#[derive(Clone, Debug)]
pub(super) struct Starts<'r> {
    occurrences: Occurrences<'r>,
    zone: &'r TimeZone,
    coming: Option<Start>,
    /// Those that something that comes later may begin before: what clocks skip moves past what
    /// they show right after.
    held: BTreeSet<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    at: Timestamp,
    /// Neither it nor anything that comes later begins before.
    floor: Timestamp,
}

/// No zone has ever changed its clocks by more than a day at once, or was further ahead of itself.
/// One more, and what was earlier on the clocks was so in time.
const SETTLED: SignedDuration = SignedDuration::from_hours(48);

/// What clocks showed long enough ago that it was before `now`, whatever was done to them since.
pub(super) fn settled_before(zone: &TimeZone, now: Timestamp) -> DateTime {
    // Instants end a day earlier than timestamps do.
    let now = Instant::new(now.seconds(), 0).unwrap_or(Instant::MAX);
    settled_until(zone.to_datetime(now))
}

/// Something that clocks show long enough before that it is earlier, whatever is done to them.
pub(super) fn settled_until(local: DateTime) -> DateTime {
    local.saturating_sub(SETTLED)
}

// === impl Starts ===

impl<'r> Starts<'r> {
    /// Of the occurrences from a local time on.
    pub(super) fn from(rule: &'r Rule, zone: &'r TimeZone, from: DateTime) -> Self {
        let mut starts = Self {
            occurrences: Occurrences::from(rule, from),
            zone,
            coming: None,
            held: BTreeSet::new(),
        };
        starts.advance();
        starts
    }

    fn advance(&mut self) {
        let local = self.occurrences.next();
        self.coming = local.and_then(|local| Start::of(local, self.zone));
    }
}

impl Iterator for Starts<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        while let Some(coming) = self.coming {
            if self.held.first().is_some_and(|first| *first < coming.floor) {
                break;
            }
            self.held.insert(coming.at);
            self.advance();
        }
        self.held.pop_first()
    }
}

// === impl Start ===

impl Start {
    /// Nothing after the end of time.
    fn of(local: DateTime, zone: &TimeZone) -> Option<Self> {
        let ambiguous = zone.to_ambiguous_timestamp(local);
        let floor = match ambiguous.offset() {
            AmbiguousOffset::Gap { after, .. } => after.to_timestamp(local).ok()?,
            AmbiguousOffset::Unambiguous { offset: before }
            | AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok()?,
        };
        let timestamp = |instant: Instant| Timestamp::new(instant.as_second(), 0);
        Some(Self {
            at: timestamp(ambiguous.compatible().ok()?)?,
            floor: timestamp(floor)?,
        })
    }
}
