//! Reads recurrence rules, and says everything that is wrong with them.

mod combine;
mod list;

use jiff::Timestamp as Instant;
use jiff::civil::{DateTime, Weekday};
use jiff::tz::{Offset, TimeZone};

use super::problem::{CalendarProblem, Found};
use super::rule::{Frequency, Rule, WeekDay};
use list::{Bounds, numbers, week_day, week_days};

/// A rule as it is written. What is not written is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    frequency: Option<Frequency>,
    interval: Option<i64>,
    pub(super) end: Option<End>,
    week_start: Option<Weekday>,
    months: Vec<i8>,
    month_days: Vec<i8>,
    week_days: Vec<WeekDay>,
    hours: Vec<i8>,
    minutes: Vec<i8>,
    positions: Vec<i16>,
}

/// Where a rule ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Count(usize),
    Until(Until),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    Local(DateTime),
    Instant(Instant),
}

/// The longest rule: twice what lists everything that can be listed but days of years.
const LONGEST: usize = 1_000;
/// The most periods from one to the next, and the most occurrences that are counted: both bound
/// what has to be gone through.
const MOST: i64 = 10_000;

const MONTHS: Bounds = Bounds::new("BYMONTH", 1, 12);
const MONTH_DAYS: Bounds = Bounds::new("BYMONTHDAY", 1, 31).signed();
const HOURS: Bounds = Bounds::new("BYHOUR", 0, 23);
const MINUTES: Bounds = Bounds::new("BYMINUTE", 0, 59);
const POSITIONS: Bounds = Bounds::new("BYSETPOS", 1, 366).signed();

/// What there is besides, and what to do instead.
const ABSENT: [(&str, &str); 6] = [
    ("BYSECOND", "leave it out: windows begin with a minute"),
    (
        "BYYEARDAY",
        "name the days by BYMONTH and BYMONTHDAY instead",
    ),
    (
        "BYWEEKNO",
        "name the weeks by BYMONTH and BYDAY, or count them by INTERVAL",
    ),
    ("DTSTART", "write it as `start`, beside `rrule`"),
    ("TZID", "write it as `timeZone`, beside `rrule`"),
    ("DURATION", "write it as `duration`, beside `rrule`"),
];

/// A local time in a shape such as `YYYY-MM-DDThh:mm:ss`: what has no letter there is 0.
pub(super) fn shaped(text: &str, shape: &str) -> Option<DateTime> {
    if text.len() != shape.len() {
        return None;
    }
    let mut numbers = [0_i16; 6];
    for (byte, place) in text.bytes().zip(shape.bytes()) {
        match b"YMDhms".iter().position(|letter| *letter == place) {
            Some(at) if byte.is_ascii_digit() => {
                numbers[at] = numbers[at] * 10 + i16::from(byte - b'0');
            }
            None if byte == place => {}
            Some(_) | None => return None,
        }
    }
    let [year, rest @ ..] = numbers;
    let [month, day, hour, minute, second] = rest.map(|number| i8::try_from(number).ok());
    DateTime::new(year, month?, day?, hour?, minute?, second?, 0).ok()
}

fn problem(message: impl Into<String>, hint: impl Into<String>) -> CalendarProblem {
    CalendarProblem::new("rrule", message, hint)
}

// === impl Parts ===

impl Parts {
    /// Reads a rule. What is wrong is added to the problems; there is nothing when there is no
    /// telling what the rule is.
    pub(super) fn read(
        text: &str,
        has_start: bool,
        problems: &mut Vec<CalendarProblem>,
    ) -> Option<Self> {
        if let Some(problem) = unreadable(text) {
            problems.push(problem);
            return None;
        }
        let upper = text.to_ascii_uppercase();
        let mut parts = Self::default();
        let mut names = Vec::new();
        for part in upper.split(';') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let read = match names.contains(&name) {
                true => Err(problem(
                    format!("{name} is there twice"),
                    "keep one of them; several values are separated by commas",
                )),
                false => parts.take(name, value),
            };
            names.push(name);
            problems.extend(read.err());
        }
        // What is wrong by itself is not held against the rest.
        problems.extend(parts.missing_frequency(&names));
        problems.extend(parts.conflicts(&names, has_start));
        Some(parts).filter(|parts| parts.frequency.is_some())
    }

    fn take(&mut self, name: &str, value: &str) -> Found<()> {
        match name {
            "FREQ" => self.frequency = Some(frequency(value)?),
            "INTERVAL" => self.interval = Some(interval(value)?),
            "COUNT" => self.end = Some(End::Count(count(value)?)),
            "UNTIL" => self.end = Some(End::Until(until(value)?)),
            "WKST" => self.week_start = Some(week_start(value)?),
            "BYDAY" => self.week_days = week_days(value)?,
            "BYMONTH" => self.months = numbers(value, MONTHS)?,
            "BYMONTHDAY" => self.month_days = numbers(value, MONTH_DAYS)?,
            "BYHOUR" => self.hours = numbers(value, HOURS)?,
            "BYMINUTE" => self.minutes = numbers(value, MINUTES)?,
            "BYSETPOS" => self.positions = numbers(value, POSITIONS)?,
            // What some tools write of themselves says nothing.
            "BYSECOND" if value == "0" => {}
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// The rule from a start, which says what is left open, without its end.
    pub(super) fn rule(self, start: DateTime) -> Rule {
        let frequency = self.frequency.expect("without one it is not read");
        let no_days = self.month_days.is_empty() && self.week_days.is_empty();
        let mut rule = Rule {
            frequency,
            interval: self.interval.unwrap_or(1),
            week_start: self.week_start.unwrap_or(Weekday::Monday),
            months: self.months,
            month_days: self.month_days,
            week_days: self.week_days,
            hours: self.hours,
            minutes: self.minutes,
            positions: self.positions,
            start,
            last: None,
        };
        if no_days {
            rule.fill_days();
        }
        if rule.hours.is_empty() && frequency < Frequency::Hourly {
            rule.hours.push(start.hour());
        }
        if rule.minutes.is_empty() {
            rule.minutes.push(start.minute());
        }
        rule
    }
}

impl Rule {
    /// The days of a rule that names none are that of its start.
    fn fill_days(&mut self) {
        let start = self.start;
        match self.frequency {
            Frequency::Yearly | Frequency::Monthly => {
                if self.frequency == Frequency::Yearly && self.months.is_empty() {
                    self.months.push(start.month());
                }
                self.month_days.push(start.day());
            }
            Frequency::Weekly => self.week_days.push(WeekDay {
                ordinal: None,
                day: start.weekday(),
            }),
            Frequency::Daily | Frequency::Hourly => {}
        }
    }
}

// === impl Until ===

impl Until {
    /// What clocks show then. Within the hour in which they are changed it may be another
    /// occurrence that is the last.
    pub(super) fn local(self, zone: &TimeZone) -> DateTime {
        match self {
            Self::Local(local) => local,
            Self::Instant(instant) => zone.to_datetime(instant),
        }
    }
}

/// Why a text is not read at all.
fn unreadable(text: &str) -> Option<CalendarProblem> {
    if text.len() > LONGEST {
        return Some(problem(
            format!("the rule has {} bytes, of {LONGEST} at most", text.len()),
            "declare several windows",
        ));
    }
    if text.is_empty() {
        return Some(problem(
            "there is no rule",
            "write one such as `FREQ=WEEKLY;BYDAY=SA,SU`",
        ));
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Some(problem(
            "the rule has blanks or line ends",
            "write it without, as in `FREQ=WEEKLY;BYDAY=SA,SU`",
        ));
    }
    if text.contains(':') {
        return Some(problem(
            "the rule has a `:`",
            "write what is after `RRULE:`, alone",
        ));
    }
    None
}

fn unknown(name: &str) -> CalendarProblem {
    if name.is_empty() {
        return problem("a part is empty", "take out a `;` or `=`");
    }
    match ABSENT.iter().find(|(absent, _)| *absent == name) {
        Some((_, hint)) => problem(format!("{name} cannot be used here"), *hint),
        None => problem(
            format!("there is no `{name}` in rules"),
            "there are FREQ, INTERVAL, COUNT, UNTIL, WKST, BYMONTH, BYMONTHDAY, BYDAY, BYHOUR, \
             BYMINUTE and BYSETPOS",
        ),
    }
}

fn frequency(value: &str) -> Found<Frequency> {
    Ok(match value {
        "YEARLY" => Frequency::Yearly,
        "MONTHLY" => Frequency::Monthly,
        "WEEKLY" => Frequency::Weekly,
        "DAILY" => Frequency::Daily,
        "HOURLY" => Frequency::Hourly,
        "MINUTELY" | "SECONDLY" => {
            return Err(problem(
                format!("FREQ={value} is too often for a window"),
                "use FREQ=HOURLY with BYMINUTE, and a longer duration",
            ));
        }
        _ => {
            return Err(problem(
                format!("`{value}` of FREQ is no frequency"),
                "write YEARLY, MONTHLY, WEEKLY, DAILY or HOURLY",
            ));
        }
    })
}

/// A number from 1 to what is bearable.
fn bounded(name: &str, value: &str, hint: &str) -> Found<i64> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|_| digits);
    number
        .filter(|number| (1..=MOST).contains(number))
        .ok_or_else(|| {
            let message = format!("`{value}` of {name} is not a number from 1 to {MOST}");
            problem(message, hint)
        })
}

fn interval(value: &str) -> Found<i64> {
    let hint = "write how many periods of FREQ it is from one to the next, or leave it out";
    bounded("INTERVAL", value, hint)
}

fn count(value: &str) -> Found<usize> {
    let hint = "write how often the window comes, or end it with UNTIL";
    let count = bounded("COUNT", value, hint)?;
    usize::try_from(count).map_err(|_| problem("COUNT is too large", hint))
}

fn until(value: &str) -> Found<Until> {
    let whole_day = shaped(value, "YYYYMMDD").map(|day| day.end_of_day());
    let local = whole_day.or_else(|| shaped(value, "YYYYMMDDThhmmss"));
    let instant = || {
        let utc = shaped(value, "YYYYMMDDThhmmssZ")?;
        Offset::UTC.to_timestamp(utc).ok()
    };
    let read = local
        .map(Until::Local)
        .or_else(|| instant().map(Until::Instant));
    read.ok_or_else(|| {
        problem(
            format!("`{value}` of UNTIL is not a time"),
            "write `20261231` for all of that day, `20261231T180000` for a time in `timeZone`, or \
             `20261231T170000Z` for one in UTC",
        )
    })
}

fn week_start(value: &str) -> Found<Weekday> {
    week_day(value).ok_or_else(|| {
        problem(
            format!("`{value}` of WKST is no day of the week"),
            "write MO, TU, WE, TH, FR, SA or SU",
        )
    })
}
