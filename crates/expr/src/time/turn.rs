//! When the calendar or the clock of a zone shows something else.

use super::{DAY, Timestamp, civil, days_from_civil, named};

/// A part of what calendars and clocks show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalendarUnit {
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Year,
}

const MILLISECOND: u32 = 1_000_000;

impl Timestamp {
    /// The first instant after this one at which the unit turns in a zone, or at which the zone's
    /// clocks are changed. Nothing when there is no such zone, or no such time.
    pub fn next_turn(self, unit: CalendarUnit, zone: Option<&str>) -> Option<Self> {
        let offset = self.offset(zone)?;
        let local = self.seconds.checked_add(offset)?;
        let turn = match unit {
            CalendarUnit::Millisecond => return self.next_millisecond(),
            CalendarUnit::Second => local + 1,
            CalendarUnit::Minute => after(local, 60),
            CalendarUnit::Hour => after(local, 3_600),
            CalendarUnit::Day => after(local, DAY),
            CalendarUnit::Month => {
                let at = civil(local, 0);
                let (year, month) = match at.month {
                    12 => (at.year + 1, 1),
                    month => (at.year, month + 1),
                };
                days_from_civil(year, month, 1) * DAY
            }
            CalendarUnit::Year => days_from_civil(civil(local, 0).year + 1, 1, 1) * DAY,
        };
        let turn = Self::new(turn - offset, 0);
        match (turn, self.next_change(zone)) {
            (Some(turn), Some(change)) => Some(turn.min(change)),
            (turn, change) => turn.or(change),
        }
    }

    fn next_millisecond(self) -> Option<Self> {
        match (self.nanos / MILLISECOND + 1) * MILLISECOND {
            1_000_000_000 => Self::new(self.seconds + 1, 0),
            nanos => Self::new(self.seconds, nanos),
        }
    }

    /// When the clocks of a zone are changed next.
    fn next_change(self, zone: Option<&str>) -> Option<Self> {
        let zone = named(zone.filter(|zone| !zone.contains(':'))?)?;
        let at = jiff::Timestamp::new(self.seconds, 0).ok()?;
        let change = zone.following(at).next()?.timestamp();
        Self::new(change.as_second(), 0)
    }
}

/// The next multiple of `unit`.
fn after(seconds: i64, unit: i64) -> i64 {
    (seconds.div_euclid(unit) + 1) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_turn_where_clocks_and_calendars_say() {
        use CalendarUnit::{Day, Hour, Millisecond, Minute, Month, Second, Year};
        let berlin = Some("Europe/Berlin");
        for (at, unit, zone, next) in [
            (
                "2026-03-04T21:30:15.25Z",
                Hour,
                None,
                "2026-03-04T22:00:00Z",
            ),
            ("2026-03-04T22:00:00Z", Hour, None, "2026-03-04T23:00:00Z"),
            (
                "2026-03-04T21:30:15Z",
                Hour,
                Some("+05:30"),
                "2026-03-04T22:30:00Z",
            ),
            ("2026-03-04T21:30:15Z", Minute, None, "2026-03-04T21:31:00Z"),
            (
                "2026-03-04T21:30:15.5Z",
                Second,
                None,
                "2026-03-04T21:30:16Z",
            ),
            (
                "2026-03-04T21:30:15.9995Z",
                Millisecond,
                None,
                "2026-03-04T21:30:16Z",
            ),
            (
                "2026-03-04T21:30:15.2Z",
                Millisecond,
                None,
                "2026-03-04T21:30:15.201Z",
            ),
            ("2026-03-04T21:30:15Z", Day, berlin, "2026-03-04T23:00:00Z"),
            ("2026-12-04T21:30:15Z", Month, None, "2027-01-01T00:00:00Z"),
            ("2026-02-04T21:30:15Z", Month, None, "2026-03-01T00:00:00Z"),
            // Summer time begins within the year.
            ("2026-02-04T21:30:15Z", Year, berlin, "2026-03-29T01:00:00Z"),
            ("2026-11-04T21:30:15Z", Year, berlin, "2026-12-31T23:00:00Z"),
            // The day on which it ends has an hour more.
            ("2026-10-24T23:30:00Z", Day, berlin, "2026-10-25T01:00:00Z"),
            ("2026-10-25T01:00:00Z", Day, berlin, "2026-10-25T23:00:00Z"),
        ] {
            let turn = Timestamp::parse(at).unwrap().next_turn(unit, zone);
            assert_eq!(turn, Timestamp::parse(next), "{at} {unit:?} {zone:?}");
        }
        let at = Timestamp::parse("2026-10-24T23:30:00Z").unwrap();
        assert_eq!(at.next_turn(Day, Some("Middle/Earth")), None);
    }
}
