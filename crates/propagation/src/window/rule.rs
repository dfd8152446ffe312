//! Which local times a recurrence rule means, period by period.
//!
//! A period is a year, month, week, day or hour, as the frequency says; it has a number, and a rule
//! has every `interval`-th one from that of its start. Time here is what clocks show: zones and
//! changes of clocks are not known (`starts`).

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Weekday};

/// A recurrence rule in which nothing is left open. An empty list asks for nothing.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) frequency: Frequency,
    /// At least 1.
    pub(super) interval: i64,
    pub(super) week_start: Weekday,
    pub(super) months: Vec<i8>,
    /// Negative ones from the end of the month.
    pub(super) month_days: Vec<i8>,
    pub(super) week_days: Vec<WeekDay>,
    /// In order, each once. Empty only in a rule by the hour.
    pub(super) hours: Vec<i8>,
    /// In order, each once, never empty.
    pub(super) minutes: Vec<i8>,
    /// Which ones of a period, from 1, negative ones from its end.
    pub(super) positions: Vec<i16>,
    /// With whole minutes.
    pub(super) start: DateTime,
    /// Nothing begins after.
    pub(super) last: Option<DateTime>,
}

/// How long a period is, the longest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Frequency {
    Yearly,
    Monthly,
    Weekly,
    Daily,
    Hourly,
}

/// A day of the week, or the n-th one of a month or year, negative ones from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeekDay {
    pub(super) ordinal: Option<i8>,
    pub(super) day: Weekday,
}

/// The local times of one period, in order. They are not written out: there may be half a million.
#[derive(Clone, Debug)]
pub(super) struct Set<'r> {
    dates: Vec<Date>,
    hours: Hours<'r>,
    minutes: &'r [i8],
    /// Those that are at the positions asked for.
    picked: Option<Vec<usize>>,
}

#[derive(Clone, Copy, Debug)]
enum Hours<'r> {
    One(i8),
    All(&'r [i8]),
}

/// The calendar repeats after so many years, which are so many days and whole weeks.
const YEARS: i64 = 400;
const DAYS: i64 = 146_097;
/// A Monday, from which days and weeks are counted.
const MONDAY: Date = Date::constant(2001, 1, 1);

// === impl Rule ===

impl Rule {
    /// The last period of the rule up to the one that a time is in.
    pub(super) fn period_until(&self, local: DateTime) -> Option<i64> {
        let first = self.number(self.start);
        let since = self.number(local) - first;
        (since >= 0).then(|| first + since / self.interval * self.interval)
    }

    /// The first period of the rule from the one that a time is in.
    pub(super) fn period_from(&self, local: DateTime) -> i64 {
        let first = self.number(self.start);
        let since = (self.number(local) - first).max(0);
        first + (since + self.interval - 1) / self.interval * self.interval
    }

    /// The next period that may have something. Days that are not asked for are passed over, by
    /// months where they can be, so that nothing is far away.
    pub(super) fn period_after(&self, period: i64) -> Option<i64> {
        let Some(skipped) = self.skipped(period) else {
            return Some(period + self.interval);
        };
        let end = match self.has_month(skipped) {
            true => skipped,
            false => skipped.last_of_month(),
        };
        let day = end.tomorrow().ok()?;
        Some(self.period_from(day.at(0, 0, 0, 0)))
    }

    /// The one before, likewise.
    pub(super) fn period_before(&self, period: i64) -> Option<i64> {
        let Some(skipped) = self.skipped(period) else {
            let before = period - self.interval;
            return Some(before).filter(|before| *before >= self.number(self.start));
        };
        let begin = match self.has_month(skipped) {
            true => skipped,
            false => skipped.first_of_month(),
        };
        let day = begin.yesterday().ok()?;
        self.period_until(day.at(23, 59, 0, 0))
    }

    /// The day of a period, when it is within one that is not asked for.
    fn skipped(&self, period: i64) -> Option<Date> {
        match self.frequency {
            Frequency::Yearly | Frequency::Monthly | Frequency::Weekly => None,
            Frequency::Daily | Frequency::Hourly => {
                self.first_day(period).filter(|date| !self.has(*date))
            }
        }
    }

    /// By how much the numbers of two periods differ between which everything repeats: what does
    /// not come in as many does not come.
    pub(super) fn cycle(&self) -> i64 {
        let by_month = self.frequency <= Frequency::Monthly
            || !self.months.is_empty()
            || !self.month_days.is_empty();
        let periods = match self.frequency {
            Frequency::Yearly => YEARS,
            Frequency::Monthly => YEARS * 12,
            Frequency::Weekly if by_month => DAYS / 7,
            Frequency::Daily if by_month => DAYS,
            Frequency::Hourly if by_month => DAYS * 24,
            Frequency::Weekly => 1,
            Frequency::Daily => 7,
            Frequency::Hourly => 7 * 24,
        };
        periods * self.interval
    }

    /// What is in a period, before and after start and end too. Nothing when the calendar has no
    /// such period, or the rule ends before it.
    pub(super) fn set(&self, period: i64) -> Option<Set<'_>> {
        let first = self.first_day(period)?;
        if self.last.is_some_and(|last| last.date() < first) {
            return None;
        }
        let mut dates = self.dates(first);
        let hours = match self.frequency {
            Frequency::Hourly => Hours::One(i8::try_from(period.rem_euclid(24)).ok()?),
            Frequency::Yearly | Frequency::Monthly | Frequency::Weekly | Frequency::Daily => {
                Hours::All(&self.hours)
            }
        };
        if let Hours::One(hour) = hours
            && !is_asked(&self.hours, hour)
        {
            dates.clear();
        }
        let mut set = Set {
            dates,
            hours,
            minutes: &self.minutes,
            picked: None,
        };
        if !self.positions.is_empty() {
            set.picked = Some(set.at_positions(&self.positions));
        }
        Some(set)
    }

    /// The number of the period that a time is in.
    pub(super) fn number(&self, local: DateTime) -> i64 {
        let day = local.date().duration_since(MONDAY).as_hours() / 24;
        match self.frequency {
            Frequency::Yearly => i64::from(local.year()),
            Frequency::Monthly => i64::from(local.year()) * 12 + i64::from(local.month()) - 1,
            Frequency::Weekly => (day - self.week_offset()).div_euclid(7),
            Frequency::Daily => day,
            Frequency::Hourly => day * 24 + i64::from(local.hour()),
        }
    }

    /// The day that a period begins with.
    fn first_day(&self, period: i64) -> Option<Date> {
        let day = match self.frequency {
            Frequency::Yearly => return Date::new(i16::try_from(period).ok()?, 1, 1).ok(),
            Frequency::Monthly => {
                let year = i16::try_from(period.div_euclid(12)).ok()?;
                let month = i8::try_from(period.rem_euclid(12) + 1).ok()?;
                return Date::new(year, month, 1).ok();
            }
            Frequency::Weekly => period * 7 + self.week_offset(),
            Frequency::Daily => period,
            Frequency::Hourly => period.div_euclid(24),
        };
        MONDAY
            .checked_add(SignedDuration::from_hours(day * 24))
            .ok()
    }

    fn week_offset(&self) -> i64 {
        i64::from(self.week_start.to_monday_zero_offset())
    }

    /// The dates of the period that begins with this one.
    fn dates(&self, first: Date) -> Vec<Date> {
        let months = match self.frequency {
            Frequency::Yearly => 12,
            Frequency::Monthly => 1,
            Frequency::Weekly => return self.days(first, 7).collect(),
            Frequency::Daily | Frequency::Hourly => return self.days(first, 1).collect(),
        };
        let months = (first.month()..).take(months);
        let months = months.filter_map(|month| Date::new(first.year(), month, 1).ok());
        months
            .filter(|month| self.has_month(*month))
            .flat_map(|month| self.days(month, month.days_in_month()))
            .collect()
    }

    /// Those that are asked for among so many days.
    fn days(&self, first: Date, number: i8) -> impl Iterator<Item = Date> {
        let days = std::iter::successors(Some(first), |day| day.tomorrow().ok());
        let number = usize::try_from(number).unwrap_or_default();
        days.take(number).filter(|day| self.has(*day))
    }

    fn has(&self, date: Date) -> bool {
        self.has_month(date) && self.has_month_day(date) && self.has_week_day(date)
    }

    fn has_month(&self, date: Date) -> bool {
        is_asked(&self.months, date.month())
    }

    fn has_month_day(&self, date: Date) -> bool {
        let from_end = date.day() - date.days_in_month() - 1;
        is_asked(&self.month_days, date.day()) || self.month_days.contains(&from_end)
    }

    fn has_week_day(&self, date: Date) -> bool {
        let day = date.weekday();
        let mut asked = self.week_days.iter();
        self.week_days.is_empty()
            || asked.any(|asked| asked.day == day && self.has_ordinal(*asked, date))
    }

    fn has_ordinal(&self, asked: WeekDay, date: Date) -> bool {
        let Some(ordinal) = asked.ordinal else {
            return true;
        };
        let within_year = self.frequency == Frequency::Yearly && self.months.is_empty();
        let (day, days) = match within_year {
            true => (date.day_of_year(), date.days_in_year()),
            false => (i16::from(date.day()), i16::from(date.days_in_month())),
        };
        let ordinal = i16::from(ordinal);
        ordinal == (day - 1) / 7 + 1 || -ordinal == (days - day) / 7 + 1
    }
}

fn is_asked(asked: &[i8], number: i8) -> bool {
    asked.is_empty() || asked.contains(&number)
}

// === impl Set ===

impl Set<'_> {
    pub(super) fn get(&self, index: usize) -> Option<DateTime> {
        let index = match &self.picked {
            Some(picked) => *picked.get(index)?,
            None => index,
        };
        let (index, minute) = (index / self.minutes.len(), index % self.minutes.len());
        let (index, hour) = match self.hours {
            Hours::One(hour) => (index, hour),
            Hours::All(hours) => (index / hours.len(), hours[index % hours.len()]),
        };
        let date = self.dates.get(index)?;
        Some(date.at(hour, self.minutes[minute], 0, 0))
    }

    /// How many come before the first that is not so, where none is after that.
    pub(super) fn count_while(&self, is_so: impl Fn(DateTime) -> bool) -> usize {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from + (to - from) / 2;
            match self.get(middle) {
                Some(local) if is_so(local) => from = middle + 1,
                Some(_) | None => to = middle,
            }
        }
        from
    }

    fn len(&self) -> usize {
        let hours = match self.hours {
            Hours::One(_) => 1,
            Hours::All(hours) => hours.len(),
        };
        let all = self.dates.len() * hours * self.minutes.len();
        self.picked.as_ref().map_or(all, Vec::len)
    }

    fn at_positions(&self, positions: &[i16]) -> Vec<usize> {
        let len = self.len();
        let index = |position: &i16| {
            let distance = usize::from(position.unsigned_abs());
            match *position > 0 {
                true => Some(distance - 1).filter(|index| *index < len),
                false => len.checked_sub(distance),
            }
        };
        let mut picked: Vec<usize> = positions.iter().filter_map(index).collect();
        picked.sort_unstable();
        picked.dedup();
        picked
    }
}
