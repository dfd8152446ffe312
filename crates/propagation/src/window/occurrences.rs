//! The local times of a rule one after the other, from anywhere: those before are not gone through.

use jiff::civil::DateTime;

use super::rule::{Rule, Set};

/// How many periods are looked at, in all, before it is given up: more than the days after which
/// the calendar repeats. (Its hours are more, but days that are not asked for are passed over.)
const SEARCHED: u32 = 200_000;

/// The occurrences of a rule, in the order in which clocks would show them.
#[derive(Clone, Debug)]
pub(super) struct Occurrences<'r> {
    rule: &'r Rule,
    at: Option<Place<'r>>,
    /// The period to find something up to.
    up_to: i64,
    left: u32,
}

#[derive(Clone, Debug)]
struct Place<'r> {
    period: i64,
    set: Set<'r>,
    /// Of the next one.
    index: usize,
}

/// The last occurrence up to a time.
pub(super) fn latest(rule: &Rule, until: DateTime) -> Option<DateTime> {
    let until = rule.last.map_or(until, |last| last.min(until));
    let mut period = rule.period_until(until)?;
    let down_to = period - rule.cycle();
    for _ in 0..SEARCHED {
        let set = rule.set(period)?;
        let count = set.count_while(|local| local <= until);
        if let Some(last) = count.checked_sub(1) {
            return set.get(last).filter(|local| *local >= rule.start);
        }
        period = rule
            .period_before(period)
            .filter(|period| *period >= down_to)?;
    }
    None
}

// === impl Occurrences ===

impl<'r> Occurrences<'r> {
    /// From the first one that is not before a time.
    pub(super) fn from(rule: &'r Rule, from: DateTime) -> Self {
        let from = from.max(rule.start);
        let period = rule.period_from(from);
        let at = rule.set(period).map(|set| Place {
            period,
            index: set.count_while(|local| local < from),
            set,
        });
        Self {
            rule,
            at,
            up_to: period + rule.cycle(),
            left: SEARCHED,
        }
    }

    /// Whether it was given up to look for more.
    pub(super) fn is_given_up(&self) -> bool {
        self.left == 0
    }
}

impl Iterator for Occurrences<'_> {
    type Item = DateTime;

    fn next(&mut self) -> Option<DateTime> {
        loop {
            let place = self.at.as_mut()?;
            if let Some(local) = place.set.get(place.index) {
                place.index += 1;
                self.up_to = place.period + self.rule.cycle();
                return Some(local)
                    .filter(|local| self.rule.last.is_none_or(|last| *local <= last));
            }
            self.left = self.left.checked_sub(1)?;
            let next = self.rule.period_after(place.period);
            let next = next.filter(|period| *period <= self.up_to);
            self.at = next.and_then(|period| {
                Some(Place {
                    period,
                    set: self.rule.set(period)?,
                    index: 0,
                })
            });
        }
    }
}
