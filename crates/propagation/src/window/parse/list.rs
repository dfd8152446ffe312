//! Lists of numbers and of days of the week.

use jiff::civil::Weekday;

use super::super::problem::{CalendarProblem, Found};
use super::super::rule::WeekDay;
use super::problem;

/// What the numbers of a part may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    name: &'static str,
    least: i16,
    most: i16,
    /// Whether negative ones count from the end.
    from_end: bool,
}

// === impl Bounds ===

impl Bounds {
    pub(super) const fn new(name: &'static str, least: i16, most: i16) -> Self {
        Self {
            name,
            least,
            most,
            from_end: false,
        }
    }

    pub(super) const fn signed(self) -> Self {
        Self {
            from_end: true,
            ..self
        }
    }

    fn problem(self, texts: &[&str]) -> CalendarProblem {
        let Self {
            name, least, most, ..
        } = self;
        let from_end = match self.from_end {
            true => format!(" and from -{most} to -{least}"),
            false => String::new(),
        };
        problem(
            format!("{name} has no `{}`", texts.join(",")),
            format!("write numbers from {least} to {most}{from_end}, separated by commas"),
        )
    }
}

/// Numbers in order, each once.
pub(super) fn numbers<T>(value: &str, bounds: Bounds) -> Found<Vec<T>>
where
    T: TryFrom<i16> + Ord,
{
    let mut numbers = Vec::new();
    let mut wrong = Vec::new();
    for text in value.split(',') {
        match number(text, bounds).and_then(|number| T::try_from(number).ok()) {
            Some(number) => numbers.push(number),
            None => wrong.push(text),
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    match wrong.is_empty() {
        true => Ok(numbers),
        false => Err(bounds.problem(&wrong)),
    }
}

fn number(text: &str, bounds: Bounds) -> Option<i16> {
    let (negative, digits) = match (bounds.from_end, text.split_at_checked(1)) {
        (true, Some(("-", digits))) => (true, digits),
        (true, Some(("+", digits))) => (false, digits),
        _ => (false, text),
    };
    // One sign is enough.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: i16 = digits.parse().ok().filter(|_| is_number)?;
    let fits = (bounds.least..=bounds.most).contains(&number);
    fits.then_some(if negative { -number } else { number })
}

/// Days of the week, perhaps numbered: `MO`, `1MO`, `-1FR`.
pub(super) fn week_days(value: &str) -> Found<Vec<WeekDay>> {
    let mut days = Vec::new();
    let mut wrong = Vec::new();
    for text in value.split(',') {
        match numbered(text) {
            Some(day) if days.contains(&day) => {}
            Some(day) => days.push(day),
            None => wrong.push(text),
        }
    }
    if wrong.is_empty() {
        return Ok(days);
    }
    Err(problem(
        format!("BYDAY has no `{}`", wrong.join(",")),
        "write MO, TU, WE, TH, FR, SA or SU, separated by commas; `1MO` is the first Monday of a \
         month or year, `-1MO` the last",
    ))
}

fn numbered(text: &str) -> Option<WeekDay> {
    let (ordinal, name) = text.split_at_checked(text.len().checked_sub(2)?)?;
    let bounds = Bounds::new("BYDAY", 1, 53).signed();
    let ordinal = match ordinal {
        "" => None,
        ordinal => Some(i8::try_from(number(ordinal, bounds)?).ok()?),
    };
    let day = week_day(name)?;
    Some(WeekDay { ordinal, day })
}

pub(super) fn week_day(name: &str) -> Option<Weekday> {
    Some(match name {
        "MO" => Weekday::Monday,
        "TU" => Weekday::Tuesday,
        "WE" => Weekday::Wednesday,
        "TH" => Weekday::Thursday,
        "FR" => Weekday::Friday,
        "SA" => Weekday::Saturday,
        "SU" => Weekday::Sunday,
        _ => return None,
    })
}
