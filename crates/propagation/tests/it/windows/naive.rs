//! Windows as one would find them with a calendar in hand: every hour of some years is looked at.

use std::collections::BTreeMap;

use deltaplane_expr::Timestamp;
use deltaplane_propagation::Window;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, ToSpan, Unit};

/// A window as it is declared.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) frequency: &'static str,
    pub(crate) interval: i32,
    pub(crate) end: End,
    pub(crate) week_start: Weekday,
    pub(crate) months: Vec<i8>,
    pub(crate) month_days: Vec<i8>,
    /// 0 is every one.
    pub(crate) week_days: Vec<(i8, Weekday)>,
    pub(crate) hours: Vec<i8>,
    pub(crate) minutes: Vec<i8>,
    pub(crate) positions: Vec<i16>,
    pub(crate) start: DateTime,
    pub(crate) zone: &'static str,
    pub(crate) nanos: i64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Never,
    Count(usize),
    Until(DateTime),
}

/// What was found in some years.
pub(crate) struct Found {
    /// When it begins, in order.
    starts: Vec<i128>,
    /// From when to when, apart from each other and in order.
    open: Vec<(i128, i128)>,
    /// From here on nothing is known, unless the window is over.
    known: Option<i128>,
}

/// For how many years it is looked, that of the start among them.
const YEARS: i16 = 3;

// === impl Declared ===

impl Declared {
    pub(crate) fn rrule(&self) -> String {
        let mut text = format!("FREQ={};INTERVAL={}", self.frequency, self.interval);
        text.push_str(&format!(";WKST={}", name(self.week_start)));
        let mut list = |name: &str, values: Vec<String>| {
            if !values.is_empty() {
                text.push_str(&format!(";{name}={}", values.join(",")));
            }
        };
        let written = |values: &[i8]| values.iter().map(i8::to_string).collect();
        list("BYMONTH", written(&self.months));
        list("BYMONTHDAY", written(&self.month_days));
        list("BYHOUR", written(&self.hours));
        list("BYMINUTE", written(&self.minutes));
        let positions = self.positions.iter().map(i16::to_string);
        list("BYSETPOS", positions.collect());
        let days = self.week_days.iter().map(|(ordinal, day)| match ordinal {
            0 => name(*day),
            ordinal => format!("{ordinal}{}", name(*day)),
        });
        list("BYDAY", days.collect());
        match self.end {
            End::Never => {}
            End::Count(count) => text.push_str(&format!(";COUNT={count}")),
            End::Until(until) => text.push_str(&until.strftime(";UNTIL=%Y%m%dT%H%M%S").to_string()),
        }
        text
    }

    pub(crate) fn zone(&self) -> TimeZone {
        TimeZoneDatabase::bundled().get(self.zone).expect("a zone")
    }

    /// Looks at some years.
    pub(crate) fn found(&self) -> Found {
        let last = Date::constant(self.start.year() + YEARS - 1, 12, 31).at(23, 59, 0, 0);
        let mut locals = self.locals(last);
        let is_over = match self.end {
            End::Never => false,
            End::Count(count) => {
                let is_over = locals.len() >= count;
                locals.truncate(count);
                is_over
            }
            End::Until(until) => {
                locals.retain(|local| *local <= until);
                until < last
            }
        };
        let zone = self.zone();
        let instant = |local: DateTime| local.to_zoned(zone.clone()).expect("a time").timestamp();
        let starts = locals.into_iter().map(instant);
        let mut starts: Vec<i128> = starts.map(|start| start.as_nanosecond()).collect();
        starts.sort_unstable();
        let ends = starts.iter().map(|start| start + i128::from(self.nanos));
        let mut open: Vec<(i128, i128)> = starts.iter().copied().zip(ends).collect();
        open.dedup_by(|later, earlier| {
            let touches = later.0 <= earlier.1;
            if touches {
                earlier.1 = later.1.max(earlier.1);
            }
            touches
        });
        let known = last - SignedDuration::from_hours(8 * 24);
        Found {
            starts,
            open,
            known: (!is_over).then(|| instant(known).as_nanosecond()),
        }
    }

    /// The occurrences from the start on. A week more is looked at, so that the last is whole.
    fn locals(&self, last: DateTime) -> Vec<DateTime> {
        let mut periods: BTreeMap<i64, Vec<DateTime>> = BTreeMap::new();
        let first = self.start.date().first_of_year() - 7.days();
        let end = last.date() + 7.days();
        for date in first.series(1.day()).take_while(|date| *date <= end) {
            if !self.has_date(date) {
                continue;
            }
            let of_day = self.periods_since_start(date);
            for hour in (0..24).filter(|hour| self.has_hour(*hour)) {
                let period = match self.frequency {
                    "HOURLY" => of_day * 24 + i64::from(hour - self.start.hour()),
                    _ => of_day,
                };
                if period % i64::from(self.interval) == 0 {
                    let minutes = self.minutes_or_start().into_iter();
                    let times = minutes.map(|minute| date.at(hour, minute, 0, 0));
                    periods.entry(period).or_default().extend(times);
                }
            }
        }
        let all = periods.into_values().flat_map(|times| self.chosen(times));
        all.filter(|local| (self.start..=last).contains(local))
            .collect()
    }

    fn chosen(&self, times: Vec<DateTime>) -> Vec<DateTime> {
        if self.positions.is_empty() {
            return times;
        }
        let number = times.len() as i16;
        let is_chosen = |index: i16| {
            let mut positions = self.positions.iter();
            positions.any(|position| *position == index + 1 || *position == index - number)
        };
        let numbered = (0..).zip(times);
        let chosen = numbered.filter(|(index, _)| is_chosen(*index));
        chosen.map(|(_, time)| time).collect()
    }

    /// How many periods it is from that of the start to that of a day; days where they are hours.
    fn periods_since_start(&self, to: Date) -> i64 {
        let between = |from: Date, to: Date, unit: Unit| {
            let span = from.until((unit, to)).expect("dates");
            i64::from(span.get_years()) + i64::from(span.get_months()) + i64::from(span.get_days())
        };
        let from = self.start.date();
        match self.frequency {
            "YEARLY" => between(from.first_of_year(), to.first_of_year(), Unit::Year),
            "MONTHLY" => between(from.first_of_month(), to.first_of_month(), Unit::Month),
            "WEEKLY" => between(self.week(from), self.week(to), Unit::Day) / 7,
            _ => between(from, to, Unit::Day),
        }
    }

    fn week(&self, date: Date) -> Date {
        let days = date.series((-1).day());
        let mut begins = days.filter(|date| date.weekday() == self.week_start);
        begins.next().expect("every seventh")
    }

    fn has_date(&self, date: Date) -> bool {
        let named = !self.month_days.is_empty() || !self.week_days.is_empty();
        let start = self.start.date();
        let left_open = match self.frequency {
            _ if named => true,
            "YEARLY" if self.months.is_empty() => {
                (date.month(), date.day()) == (start.month(), start.day())
            }
            "YEARLY" | "MONTHLY" => date.day() == start.day(),
            "WEEKLY" => date.weekday() == start.weekday(),
            _ => true,
        };
        let month = self.months.is_empty() || self.months.contains(&date.month());
        let mut days = self.month_days.iter().map(|day| match *day {
            day @ 1.. => date.with().day(day).build().ok(),
            day => Some(date.last_of_month() + (day + 1).days()),
        });
        let month_day = self.month_days.is_empty() || days.any(|day| day == Some(date));
        let mut days = self.week_days.iter();
        let week_day = days.len() == 0 || days.any(|(n, day)| self.has_week_day(*n, *day, date));
        left_open && month && month_day && week_day
    }

    fn has_week_day(&self, ordinal: i8, day: Weekday, date: Date) -> bool {
        if ordinal == 0 {
            return date.weekday() == day;
        }
        if self.frequency == "MONTHLY" || !self.months.is_empty() {
            return date.nth_weekday_of_month(ordinal, day).ok() == Some(date);
        }
        let days = date.first_of_year().series(1.day());
        let days = days.take_while(|one| one.year() == date.year());
        let mut days: Vec<Date> = days.filter(|one| one.weekday() == day).collect();
        if ordinal < 0 {
            days.reverse();
        }
        days.get(usize::from(ordinal.unsigned_abs()) - 1) == Some(&date)
    }

    fn has_hour(&self, hour: i8) -> bool {
        match self.hours.is_empty() {
            true => self.frequency == "HOURLY" || hour == self.start.hour(),
            false => self.hours.contains(&hour),
        }
    }

    fn minutes_or_start(&self) -> Vec<i8> {
        match self.minutes.is_empty() {
            true => vec![self.start.minute()],
            false => self.minutes.clone(),
        }
    }
}

/// As rules name it.
fn name(day: Weekday) -> String {
    let name = format!("{day:?}");
    name[..2].to_uppercase()
}

// === impl Found ===

impl Found {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// When it opens and closes.
    pub(crate) fn edges(&self) -> Vec<i128> {
        let edges = self.open.iter().flat_map(|(from, to)| [*from, *to]);
        edges.filter(|edge| self.is_known(*edge)).collect()
    }

    fn is_known(&self, at: i128) -> bool {
        self.known.is_none_or(|known| at < known)
    }

    /// How the window is, and whether more is known of its edge than that it is not near.
    pub(crate) fn at(&self, now: i128) -> Option<(Window, bool)> {
        if !self.is_known(now) {
            return None;
        }
        let next = self.open.iter().find(|(_, to)| *to > now);
        let open = next.is_some_and(|(from, _)| *from <= now);
        let edge = next.map(|(from, to)| if open { *to } else { *from });
        let is_exact = match edge {
            Some(edge) => self.is_known(edge),
            None => self.known.is_none(),
        };
        let edge = edge.filter(|_| is_exact).map(timestamp);
        Some((Window { open, edge }, is_exact))
    }

    /// Whether an edge may be told too early because more than so many keep the window open until
    /// then.
    pub(crate) fn may_be_early(&self, now: i128, edge: Option<Timestamp>, most: usize) -> bool {
        let until = edge.map_or(i128::MAX, nanos);
        let within = self.starts.iter();
        let within = within.filter(|start| (now..until).contains(start));
        within.count() >= most
    }

    /// Whether an edge may be where nothing is known.
    pub(crate) fn may_be_unknown(&self, edge: Option<Timestamp>) -> bool {
        edge.is_none_or(|edge| !self.is_known(nanos(edge)))
    }
}

pub(crate) fn nanos(time: Timestamp) -> i128 {
    i128::from(time.seconds()) * 1_000_000_000 + i128::from(time.nanos())
}

pub(crate) fn timestamp(nanos: i128) -> Timestamp {
    let seconds = nanos.div_euclid(1_000_000_000) as i64;
    let rest = nanos.rem_euclid(1_000_000_000) as u32;
    Timestamp::new(seconds, rest).expect("a time")
}
