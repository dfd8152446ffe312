//! Whether a window closes at all between its first occurrence and its last.
//!
//! It is found out once, so that a window that stays open is not followed through all its
//! occurrences whenever it is asked for.

use deltaplane_expr::Duration;
use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::occurrences::Occurrences;
use super::rule::Rule;

/// How occurrences follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rhythm {
    /// Some begin only after the one before is over, or there are too many to tell.
    Pauses,
    /// As clocks show it, each begins before the one before is over: it closes only where they
    /// are put back.
    Seamless,
    /// So it is in time too.
    Unbroken,
}

/// How many occurrences are looked at: 400 years of days.
const LOOKED_AT: usize = 150_000;
/// Changes of clocks that are looked at: two in a year, and what comes then is as before.
const CHANGES: usize = 400;

// === impl Rhythm ===

impl Rhythm {
    pub(super) fn of(rule: &Rule, duration: Duration, zone: &TimeZone, first: DateTime) -> Self {
        let duration = SignedDuration::from_nanos(duration.nanos());
        match longest(rule, duration, first) {
            None => Self::Pauses,
            Some(longest) if longest + spread(zone, first) <= duration => Self::Unbroken,
            Some(_) => Self::Seamless,
        }
    }
}

/// The longest time between one occurrence and the next as clocks show it, when it is never longer
/// than the duration.
fn longest(rule: &Rule, duration: SignedDuration, first: DateTime) -> Option<SignedDuration> {
    let repeats = rule.number(first) + rule.cycle();
    let mut occurrences = Occurrences::from(rule, first);
    let mut before = first;
    let mut longest = SignedDuration::ZERO;
    for local in occurrences.by_ref().take(LOOKED_AT) {
        longest = longest.max(local.duration_since(before));
        if longest > duration {
            return None;
        }
        if rule.number(local) > repeats {
            return Some(longest);
        }
        before = local;
    }
    let is_over = !occurrences.is_given_up() && occurrences.next().is_none();
    is_over.then_some(longest)
}

/// By how much clocks are further ahead at one time than at another.
fn spread(zone: &TimeZone, from: DateTime) -> SignedDuration {
    let Ok(from) = zone.to_timestamp(from) else {
        return SignedDuration::ZERO;
    };
    let changes = zone.following(from).take(CHANGES);
    let offsets = changes.map(|change| change.offset().seconds());
    let first = zone.to_offset(from).seconds();
    let (least, most) = offsets.fold((first, first), |(least, most), offset| {
        (least.min(offset), most.max(offset))
    });
    SignedDuration::from_secs(i64::from(most) - i64::from(least))
}
