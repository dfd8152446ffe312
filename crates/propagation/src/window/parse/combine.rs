//! What parts of a rule do not go together.

use super::super::problem::CalendarProblem;
use super::super::rule::Frequency;
use super::{End, Parts, problem};

/// The most weeks that begin in a month, as far as days of the week are counted.
const WEEKS_OF_MONTH: u8 = 5;

impl Parts {
    pub(super) fn missing_frequency(&self, names: &[&str]) -> Option<CalendarProblem> {
        (!names.contains(&"FREQ")).then(|| {
            problem(
                "there is no FREQ",
                "begin with FREQ=YEARLY, MONTHLY, WEEKLY, DAILY or HOURLY",
            )
        })
    }

    /// All of them. What could not be read is not among the parts, but among their names.
    pub(super) fn conflicts(&self, names: &[&str], has_start: bool) -> Vec<CalendarProblem> {
        let mut found = Vec::new();
        found.extend(two_ends(names));
        found.extend(self.uncounted(has_start));
        found.extend(self.days_of_weeks());
        found.extend(self.ordinals());
        found.extend(positions_of_nothing(names));
        found
    }

    fn uncounted(&self, has_start: bool) -> Option<CalendarProblem> {
        let counts = matches!(self.end, Some(End::Count(_)));
        (counts && !has_start).then(|| {
            problem(
                "COUNT counts from the start, and there is none",
                "add `start`, such as `start: 2026-03-01`, or end it with UNTIL",
            )
        })
    }

    fn days_of_weeks(&self) -> Option<CalendarProblem> {
        let weekly = self.frequency == Some(Frequency::Weekly);
        (weekly && !self.month_days.is_empty()).then(|| {
            problem(
                "weeks have no BYMONTHDAY",
                "use FREQ=MONTHLY, or BYDAY to name days of the week",
            )
        })
    }

    fn ordinals(&self) -> Option<CalendarProblem> {
        let most = self.week_days.iter().filter_map(|day| day.ordinal);
        let most = most.map(i8::unsigned_abs).max()?;
        match self.frequency? {
            Frequency::Weekly | Frequency::Daily | Frequency::Hourly => Some(problem(
                "days of BYDAY are numbered, but not within a month or year",
                "leave the numbers out, or use FREQ=MONTHLY",
            )),
            Frequency::Yearly if self.months.is_empty() => None,
            Frequency::Yearly | Frequency::Monthly => (most > WEEKS_OF_MONTH).then(|| {
                problem(
                    format!("no month has a day of the week {most} times"),
                    "number the days of BYDAY from 1 to 5, or from -1 to -5",
                )
            }),
        }
    }
}

fn two_ends(names: &[&str]) -> Option<CalendarProblem> {
    let both = names.contains(&"COUNT") && names.contains(&"UNTIL");
    both.then(|| problem("COUNT and UNTIL both end the rule", "keep one of them"))
}

fn positions_of_nothing(names: &[&str]) -> Option<CalendarProblem> {
    let is_list = |name: &&str| name.starts_with("BY") && *name != "BYSETPOS";
    let alone = names.contains(&"BYSETPOS") && !names.iter().any(is_list);
    alone.then(|| {
        problem(
            "BYSETPOS has nothing to choose from",
            "add what it chooses among, such as BYDAY=MO,TU,WE,TH,FR",
        )
    })
}
