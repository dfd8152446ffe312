//! Windows of a calendar: from when to when something may happen, again and again.
//!
//! A [`Calendar`] is made once from a [`CalendarSpec`], where all that is wrong is found at once.
//! It then says of any time how the window is: [`Calendar::at`].
//!
//! - An occurrence begins when the clocks of its zone show what the rule says. What they skip comes
//!   later by as much as they skip; what they show twice is meant the first time.
//! - It lasts exactly as long as it says: `24h` are 24 hours, also on a day that has 23 or 25.
//! - Occurrences that overlap or touch are one window, which closes when the last of them is over.
//! - Without a start, rules are counted from Monday, the 1st of January 2001, at midnight: what is
//!   left open is midnight, Monday, the first of the month, January.
//!
//! Not here: `BYSECOND`, `BYYEARDAY`, `BYWEEKNO`, and what comes more often than by the hour.
//!
//! ```
//! use deltaplane_expr::Timestamp;
//! use deltaplane_propagation::{Calendar, CalendarSpec, Window};
//!
//! let weekend = Calendar::compile(&CalendarSpec {
//!     rrule: "FREQ=WEEKLY;BYDAY=SA,SU",
//!     duration: "24h",
//!     time_zone: Some("Europe/Berlin"),
//!     start: None,
//! })?;
//! let friday = Timestamp::parse("2026-03-06T12:00:00Z").expect("a time");
//! let midnight = Timestamp::parse("2026-03-06T23:00:00Z");
//! assert_eq!(weekend.at(friday), Window { open: false, edge: midnight });
//! # Ok::<(), deltaplane_propagation::CalendarProblems>(())
//! ```

mod occurrences;
mod parse;
mod problem;
mod rhythm;
mod rule;
mod starts;

use deltaplane_expr::{Duration, Timestamp};
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::world::Window;
use occurrences::Occurrences;
use parse::{End, Parts, shaped};
use problem::Found;
use rhythm::Rhythm;
use rule::Rule;
use starts::Starts;

pub use problem::{CalendarProblem, CalendarProblems};

/// A window as it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarSpec<'a> {
    /// A recurrence rule of RFC 5545.
    pub rrule: &'a str,
    /// How long each occurrence lasts: `24h`, `90m`, `1h30m`.
    pub duration: &'a str,
    /// Whose clocks the rule is about, by its name in the time zone database. UTC without it.
    pub time_zone: Option<&'a str>,
    /// Nothing comes before, and what the rule leaves open is as here: `2026-03-01`, or
    /// `2026-03-01T22:00`, as the clocks of the zone show it.
    pub start: Option<&'a str>,
}

/// A window that comes at least once.
#[derive(Clone, Debug)]
pub struct Calendar {
    rule: Rule,
    zone: TimeZone,
    /// More than none.
    duration: Duration,
    rhythm: Rhythm,
}

/// A Monday that begins a month and a year: what a rule leaves open is what people expect.
const ANCHOR: DateTime = DateTime::constant(2001, 1, 1, 0, 0, 0, 0);
/// The earliest year to start in, so that every beginning is a timestamp.
const EARLIEST: i16 = 1900;
/// How many occurrences are joined to say when a window closes: a year of hours.
const JOINED: usize = 10_000;
/// How many changes of clocks are looked at for the same: a century of two a year.
const CHANGES: usize = 200;

// === impl Calendar ===

impl Calendar {
    /// Makes a window of its declaration, or says everything that is wrong with it.
    pub fn compile(spec: &CalendarSpec<'_>) -> Result<Self, CalendarProblems> {
        let mut problems = Vec::new();
        let parts = Parts::read(spec.rrule, spec.start.is_some(), &mut problems);
        let duration = keep(duration(spec.duration), &mut problems);
        let zone = keep(zone(spec.time_zone), &mut problems);
        let start = keep(start(spec.start), &mut problems);
        if let (Some(parts), Some(duration), Some(zone), Some(start)) =
            (parts, duration, zone, start)
            && problems.is_empty()
        {
            return Self::new(parts, duration, zone, start)
                .map_err(|problem| CalendarProblems(vec![problem]));
        }
        Err(CalendarProblems(problems))
    }

    fn new(parts: Parts, duration: Duration, zone: TimeZone, start: DateTime) -> Found<Self> {
        let end = parts.end;
        let mut rule = parts.rule(start);
        let Some(first) = Occurrences::from(&rule, start).next() else {
            return Err(never_comes(
                "no time is all that the rule asks for",
                "look at what INTERVAL, BYMONTH, BYMONTHDAY, BYDAY, BYHOUR and BYSETPOS leave \
                 together",
            ));
        };
        rule.last = match end {
            None => None,
            Some(End::Count(count)) => Some(counted(&rule, count)?),
            Some(End::Until(until)) => Some(until.local(&zone)),
        };
        if rule.last.is_some_and(|last| last < first) {
            let hint = format!("the first one would be at {first}: set UNTIL to that or later");
            return Err(never_comes("the rule ends before", hint));
        }
        if Starts::from(&rule, &zone, first).next().is_none() {
            return Err(never_comes(
                "time ends before",
                "set `start` to an earlier year",
            ));
        }
        Ok(Self {
            rhythm: Rhythm::of(&rule, duration, &zone, first),
            rule,
            zone,
            duration,
        })
    }

    /// Whether the window is open, and when that changes.
    ///
    /// The edge of a window that stays open through more than 10,000 occurrences (a year of one
    /// every hour), or a century of summer times, may be told too early: it is open then, and has
    /// a later edge.
    pub fn at(&self, now: Timestamp) -> Window {
        let mut starts = self.starts_near(now);
        let mut latest = None;
        let mut next = None;
        for start in &mut starts {
            if start > now {
                next = Some(start);
                break;
            }
            latest = Some(start);
        }
        let over = |start: &Timestamp| start.plus(self.duration).is_some_and(|end| end <= now);
        match latest.filter(|start| !over(start)) {
            Some(latest) => Window {
                open: true,
                edge: self.closing(latest, next.into_iter().chain(starts)),
            },
            None => Window {
                open: false,
                edge: next,
            },
        }
    }

    /// The beginnings from some before `now` on. Only a few are at `now` or earlier.
    fn starts_near(&self, now: Timestamp) -> Starts<'_> {
        self.starts_before(starts::shown(&self.zone, now))
    }

    /// Those from some before what clocks show on: the latest that begins earlier is among them.
    fn starts_before(&self, local: DateTime) -> Starts<'_> {
        let settled = starts::settled(local);
        let latest = occurrences::latest(&self.rule, settled);
        let from = latest.map_or(settled, starts::settled);
        Starts::from(&self.rule, &self.zone, from)
    }

    /// When the window closes that is open since `latest`, if ever: all that follow are given.
    fn closing(
        &self,
        latest: Timestamp,
        following: impl Iterator<Item = Timestamp>,
    ) -> Option<Timestamp> {
        match self.rhythm {
            Rhythm::Pauses => self.closing_before(latest, following),
            Rhythm::Seamless => self.closing_at_change(latest),
            Rhythm::Unbroken => self.last_end(),
        }
    }

    /// The same where there are pauses: it is over before the first that does not follow at once.
    fn closing_before(
        &self,
        latest: Timestamp,
        following: impl Iterator<Item = Timestamp>,
    ) -> Option<Timestamp> {
        let mut end = latest.plus(self.duration)?;
        for start in following.take(JOINED) {
            if start > end {
                break;
            }
            end = start.plus(self.duration)?;
        }
        Some(end)
    }

    /// The same where nothing is between occurrences but what is added when clocks are put back.
    fn closing_at_change(&self, latest: Timestamp) -> Option<Timestamp> {
        let mut changes = starts::changes(&self.zone, latest);
        let mut looked_at = changes.by_ref().take(CHANGES);
        let closing = looked_at.find_map(|change| self.closing_around(change, latest));
        // After so many it is looked at again.
        closing
            .or_else(|| changes.next())
            .or_else(|| self.last_end())
    }

    /// When what is open since `latest` is over, if it is before it goes on as if clocks had not
    /// been changed.
    fn closing_around(&self, change: Timestamp, latest: Timestamp) -> Option<Timestamp> {
        let starts = self.starts_near(change);
        let mut starts = starts.skip_while(|start| *start < latest);
        let mut end = starts.next()?.plus(self.duration)?;
        for start in starts {
            if start > end {
                return Some(end);
            }
            if starts::is_settled(change, start) {
                return None;
            }
            end = start.plus(self.duration)?;
        }
        Some(end)
    }

    /// When the last occurrence is over.
    fn last_end(&self) -> Option<Timestamp> {
        let last = self.starts_before(self.rule.last?).last()?;
        last.plus(self.duration)
    }
}

fn keep<T>(found: Found<T>, problems: &mut Vec<CalendarProblem>) -> Option<T> {
    found.map_err(|problem| problems.push(problem)).ok()
}

fn duration(text: &str) -> Found<Duration> {
    let problem = |message: String, hint| Err(CalendarProblem::new("duration", message, hint));
    match Duration::parse(text) {
        Some(duration) if duration.nanos() > 0 => Ok(duration),
        Some(_) => problem(
            format!("the window never comes: it lasts `{text}`"),
            "let it last longer than nothing, such as `1h`",
        ),
        None => problem(
            format!("`{text}` is not a length of time"),
            "write hours and minutes, such as `24h`, `90m` or `1h30m`; a day is `24h`",
        ),
    }
}

fn zone(name: Option<&str>) -> Found<TimeZone> {
    let Some(name) = name else {
        return Ok(TimeZone::UTC);
    };
    let found = TimeZoneDatabase::bundled().get(name).ok();
    let found = found.filter(|zone| !zone.is_unknown());
    let hint = match found {
        // As in expressions, `europe/berlin` is none.
        Some(zone) if zone.iana_name() == Some(name) => return Ok(zone),
        Some(zone) => format!("did you mean `{}`?", zone.iana_name().unwrap_or("UTC")),
        None => "write a name such as `Europe/Berlin`, or leave it out for UTC".to_owned(),
    };
    let message = format!("there is no time zone `{name}`");
    Err(CalendarProblem::new("timeZone", message, hint))
}

fn start(text: Option<&str>) -> Found<DateTime> {
    let Some(text) = text else {
        return Ok(ANCHOR);
    };
    let shapes = ["YYYY-MM-DD", "YYYY-MM-DDThh:mm", "YYYY-MM-DDThh:mm:ss"];
    let read = shapes.iter().find_map(|shape| shaped(text, shape));
    let (message, hint) = match read {
        None => (
            format!("`{text}` is not a local time"),
            "write it as `2026-03-01` or `2026-03-01T22:00`, without `Z` or an offset: \
             it is in `timeZone`",
        ),
        Some(read) if read.year() < EARLIEST => (
            format!("`{text}` is too long ago"),
            "start in 1900 or later",
        ),
        Some(read) if read.second() != 0 => (
            format!("`{text}` is within a minute"),
            "windows begin with a minute: end it with `:00`",
        ),
        Some(read) => return Ok(read),
    };
    Err(CalendarProblem::new("start", message, hint))
}

/// The last of so many occurrences.
fn counted(rule: &Rule, count: usize) -> Found<DateTime> {
    let last = Occurrences::from(rule, rule.start).nth(count - 1);
    last.ok_or_else(|| {
        CalendarProblem::new(
            "rrule",
            format!("COUNT={count} is too far ahead: the window comes too rarely"),
            "end it with UNTIL instead",
        )
    })
}

fn never_comes(why: &str, hint: impl Into<String>) -> CalendarProblem {
    CalendarProblem::new("rrule", format!("the window never comes: {why}"), hint)
}
