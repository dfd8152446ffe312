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
    /// Nothing that comes begins before.
    floor: Option<Timestamp>,
    is_over: bool,
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

/// No zone has changed its clocks by more than a day: what they show so much earlier is earlier.
const SETTLED: SignedDuration = SignedDuration::from_hours(25);

/// What clocks show at a time.
pub(super) fn shown(zone: &TimeZone, now: Timestamp) -> DateTime {
    // Instants end a day before timestamps do.
    let now = Instant::new(now.seconds(), 0).unwrap_or(Instant::MAX);
    zone.to_datetime(now)
}

/// Something that is earlier than what clocks show, whatever is done to them.
pub(super) fn settled(local: DateTime) -> DateTime {
    local.saturating_sub(SETTLED)
}

/// Whether a beginning is so long after a change of clocks that nothing is out of order any more.
pub(super) fn is_settled(change: Timestamp, start: Timestamp) -> bool {
    start.seconds() - change.seconds() > SETTLED.as_secs()
}

/// When clocks are changed after a time.
pub(super) fn changes(zone: &TimeZone, after: Timestamp) -> impl Iterator<Item = Timestamp> {
    let after = Instant::new(after.seconds(), 0).unwrap_or(Instant::MAX);
    let changes = zone.following(after);
    changes.filter_map(|change| Timestamp::new(change.timestamp().as_second(), 0))
}

// === impl Starts ===

impl<'r> Starts<'r> {
    /// Of the occurrences from a local time on.
    pub(super) fn from(rule: &'r Rule, zone: &'r TimeZone, from: DateTime) -> Self {
        Self {
            occurrences: Occurrences::from(rule, from),
            zone,
            floor: None,
            is_over: false,
            held: BTreeSet::new(),
        }
    }
}

impl Iterator for Starts<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        while !self.is_over {
            let first = self.held.first();
            if first.is_some_and(|first| Some(*first) <= self.floor) {
                break;
            }
            let local = self.occurrences.next();
            match local.and_then(|local| Start::of(local, self.zone)) {
                Some(start) => {
                    self.held.insert(start.at);
                    self.floor = Some(start.floor);
                }
                None => self.is_over = true,
            }
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
