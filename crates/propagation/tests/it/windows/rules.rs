//! What rules mean. The times were found by python-dateutil, another implementation, save where it
//! says otherwise.

use deltaplane_expr::Timestamp;
use deltaplane_propagation::{Calendar, CalendarSpec};

/// The times at which a window opens after noon of the 4th of March 2026, in UTC.
fn openings(rrule: &str, start: Option<&str>, number: usize) -> String {
    let calendar = Calendar::compile(&CalendarSpec {
        rrule,
        duration: "1s",
        time_zone: None,
        start,
    });
    let calendar = calendar.unwrap_or_else(|problems| panic!("{rrule}: {problems}"));
    let mut now = Timestamp::parse("2026-03-04T12:00:00Z").expect("a time");
    let mut found = Vec::new();
    while found.len() < number {
        let window = calendar.at(now);
        now = window.edge.expect("another one");
        if !window.open {
            let at = jiff::Timestamp::new(now.seconds(), 0).expect("a time");
            found.push(at.strftime("%a %F %H:%M").to_string());
        }
    }
    found.join(", ")
}

fn check(rules: &[(&str, Option<&str>, &str)]) {
    for (rrule, start, expected) in rules {
        assert_eq!(openings(rrule, *start, 4), *expected, "{rrule}");
    }
}

#[test]
fn rules_by_the_year() {
    check(&[
        (
            "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU",
            None,
            "Sun 2026-03-29 00:00, Sun 2027-03-28 00:00, Sun 2028-03-26 00:00, Sun 2029-03-25 00:00",
        ),
        (
            "FREQ=YEARLY;BYDAY=20MO",
            None,
            "Mon 2026-05-18 00:00, Mon 2027-05-17 00:00, Mon 2028-05-15 00:00, Mon 2029-05-14 00:00",
        ),
        (
            "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
            Some("1996-11-05T09:00"),
            "Tue 2028-11-07 09:00, Tue 2032-11-02 09:00, Tue 2036-11-04 09:00, Tue 2040-11-06 09:00",
        ),
        (
            "FREQ=YEARLY;BYMONTHDAY=-1;BYHOUR=6,18",
            None,
            "Tue 2026-03-31 06:00, Tue 2026-03-31 18:00, Thu 2026-04-30 06:00, Thu 2026-04-30 18:00",
        ),
        (
            "FREQ=YEARLY;BYDAY=53MO,-53SU",
            None,
            "Sun 2028-01-02 00:00, Mon 2029-12-31 00:00, Sun 2034-01-01 00:00, Mon 2035-12-31 00:00",
        ),
        (
            "FREQ=YEARLY;BYMONTH=1,7;BYDAY=MO,TU;BYSETPOS=1,-1",
            None,
            "Tue 2026-07-28 00:00, Mon 2027-01-04 00:00, Tue 2027-07-27 00:00, Mon 2028-01-03 00:00",
        ),
    ]);
}

#[test]
fn rules_by_the_month() {
    check(&[
        (
            "FREQ=MONTHLY;BYDAY=1FR",
            None,
            "Fri 2026-03-06 00:00, Fri 2026-04-03 00:00, Fri 2026-05-01 00:00, Fri 2026-06-05 00:00",
        ),
        (
            "FREQ=MONTHLY;INTERVAL=2;BYDAY=1SU,-1SU",
            Some("1997-09-07T09:00"),
            "Sun 2026-03-29 09:00, Sun 2026-05-03 09:00, Sun 2026-05-31 09:00, Sun 2026-07-05 09:00",
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=-3",
            None,
            "Sun 2026-03-29 00:00, Tue 2026-04-28 00:00, Fri 2026-05-29 00:00, Sun 2026-06-28 00:00",
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=31",
            None,
            "Tue 2026-03-31 00:00, Sun 2026-05-31 00:00, Fri 2026-07-31 00:00, Mon 2026-08-31 00:00",
        ),
        (
            "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
            None,
            "Fri 2026-03-13 00:00, Fri 2026-11-13 00:00, Fri 2027-08-13 00:00, Fri 2028-10-13 00:00",
        ),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            None,
            "Tue 2026-03-31 00:00, Thu 2026-04-30 00:00, Fri 2026-05-29 00:00, Tue 2026-06-30 00:00",
        ),
        (
            "FREQ=MONTHLY;BYDAY=TU,WE,TH;BYSETPOS=3;BYMINUTE=30",
            None,
            "Thu 2026-03-05 00:30, Tue 2026-04-07 00:30, Thu 2026-05-07 00:30, Thu 2026-06-04 00:30",
        ),
        (
            "FREQ=MONTHLY;INTERVAL=18;BYMONTHDAY=10,11,12",
            Some("1997-09-10T09:00"),
            "Tue 2026-03-10 09:00, Wed 2026-03-11 09:00, Thu 2026-03-12 09:00, Fri 2027-09-10 09:00",
        ),
        (
            "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
            None,
            "Sat 2026-03-07 00:00, Sat 2026-04-11 00:00, Sat 2026-05-09 00:00, Sat 2026-06-13 00:00",
        ),
    ]);
}

#[test]
fn rules_by_the_week_day_and_hour() {
    check(&[
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=MO",
            Some("1997-08-05T09:00"),
            "Tue 2026-03-10 09:00, Sun 2026-03-15 09:00, Tue 2026-03-24 09:00, Sun 2026-03-29 09:00",
        ),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
            Some("1997-08-05T09:00"),
            "Sun 2026-03-08 09:00, Tue 2026-03-10 09:00, Sun 2026-03-22 09:00, Tue 2026-03-24 09:00",
        ),
        (
            "FREQ=WEEKLY;BYMONTH=6;BYDAY=MO;BYHOUR=9,17",
            None,
            "Mon 2026-06-01 09:00, Mon 2026-06-01 17:00, Mon 2026-06-08 09:00, Mon 2026-06-08 17:00",
        ),
        (
            "FREQ=DAILY;INTERVAL=10",
            Some("1997-09-02T09:00"),
            "Sat 2026-03-14 09:00, Tue 2026-03-24 09:00, Fri 2026-04-03 09:00, Mon 2026-04-13 09:00",
        ),
        (
            "FREQ=DAILY;BYMONTH=4;BYMONTHDAY=-2,-1",
            None,
            "Wed 2026-04-29 00:00, Thu 2026-04-30 00:00, Thu 2027-04-29 00:00, Fri 2027-04-30 00:00",
        ),
        (
            "FREQ=DAILY;BYHOUR=9,13,17;BYSETPOS=2,-1",
            None,
            "Wed 2026-03-04 13:00, Wed 2026-03-04 17:00, Thu 2026-03-05 13:00, Thu 2026-03-05 17:00",
        ),
        (
            "FREQ=DAILY;INTERVAL=3;BYDAY=SA,SU",
            None,
            "Sun 2026-03-15 00:00, Sat 2026-03-21 00:00, Sun 2026-04-05 00:00, Sat 2026-04-11 00:00",
        ),
        (
            "FREQ=HOURLY;INTERVAL=5",
            None,
            "Wed 2026-03-04 13:00, Wed 2026-03-04 18:00, Wed 2026-03-04 23:00, Thu 2026-03-05 04:00",
        ),
        (
            "FREQ=HOURLY;BYHOUR=9,10;BYMINUTE=0,20,40;BYSETPOS=-1",
            None,
            "Thu 2026-03-05 09:40, Thu 2026-03-05 10:40, Fri 2026-03-06 09:40, Fri 2026-03-06 10:40",
        ),
        (
            "FREQ=HOURLY;INTERVAL=36;BYDAY=MO,FR",
            None,
            "Fri 2026-03-06 00:00, Mon 2026-03-09 00:00, Fri 2026-03-13 12:00, Mon 2026-03-16 12:00",
        ),
    ]);
}

/// Days that are numbered and days that are not are all meant; dateutil finds those that are both.
#[test]
fn numbered_days_and_others_add_up() {
    check(&[
        (
            "FREQ=MONTHLY;BYDAY=SU,1MO",
            None,
            "Sun 2026-03-08 00:00, Sun 2026-03-15 00:00, Sun 2026-03-22 00:00, Sun 2026-03-29 00:00",
        ),
        (
            "FREQ=MONTHLY;BYDAY=-1SU,1WE,TH;BYMONTHDAY=1,2,29,30",
            None,
            "Sun 2026-03-29 00:00, Wed 2026-04-01 00:00, Thu 2026-04-02 00:00, Thu 2026-04-30 00:00",
        ),
    ]);
}

/// A period is counted whole, also the one that the start is in.
#[test]
fn positions_are_those_of_whole_periods() {
    check(&[(
        "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=2",
        Some("2026-03-05"),
        "Wed 2026-03-11 00:00, Wed 2026-03-18 00:00, Wed 2026-03-25 00:00, Wed 2026-04-01 00:00",
    )]);
}
