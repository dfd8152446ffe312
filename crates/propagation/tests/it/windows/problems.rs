//! What is wrong with windows is said at once, with what to change.

use expect_test::{Expect, expect};

use super::compile;

/// What is wrong with each of these.
fn check(windows: &[&str], expected: &Expect) {
    let mut told = String::new();
    for text in windows {
        told.push_str(&format!("{text:.70}\n"));
        match compile(text) {
            Ok(_) => told.push_str("  fine\n"),
            Err(problems) => {
                let lines = problems.to_string();
                let lines = lines.lines().map(|line| format!("  {line}\n"));
                told.extend(lines);
            }
        }
    }
    expected.assert_eq(&told);
}

#[test]
fn everything_is_told_at_once() {
    check(
        &[
            "FREQ=WEEKLY;BYDAY=SAT,MO,XX;BYHOUR=24,2,99;BYMONTHDAY=3;COUNT=0;UNTIL=soon 1d in europe/berlin from 2026-03-01T10:00:00Z",
        ],
        &expect![[r#"
            FREQ=WEEKLY;BYDAY=SAT,MO,XX;BYHOUR=24,2,99;BYMONTHDAY=3;COUNT=0;UNTIL=
              rrule: BYDAY has no `SAT,XX` (write MO, TU, WE, TH, FR, SA or SU, separated by commas; `1MO` is the first Monday of a month or year, `-1MO` the last)
              rrule: BYHOUR has no `24,99` (write numbers from 0 to 23, separated by commas)
              rrule: `0` of COUNT is not a number from 1 to 10000 (write how often the window comes, or end it with UNTIL)
              rrule: `SOON` of UNTIL is not a time (write `20261231` for all of that day, `20261231T180000` for a time in `timeZone`, or `20261231T170000Z` for one in UTC)
              rrule: COUNT and UNTIL both end the rule (keep one of them)
              rrule: weeks have no BYMONTHDAY (use FREQ=MONTHLY, or BYDAY to name days of the week)
              duration: `1d` is not a length of time (write hours and minutes, such as `24h`, `90m` or `1h30m`; a day is `24h`)
              timeZone: there is no time zone `europe/berlin` (did you mean `Europe/Berlin`?)
              start: `2026-03-01T10:00:00Z` is not a local time (write it as `2026-03-01` or `2026-03-01T22:00`, without `Z` or an offset: it is in `timeZone`)
        "#]],
    );
}

#[test]
fn rules_are_read() {
    check(
        &[
            " 1h",
            "BYDAY=MO 1h",
            "RRULE:FREQ=DAILY 1h",
            "FREQ=DAILY;\tBYHOUR=2 1h",
            "FREQ=DAILY; 1h",
            "FREQ=DAILY;FREQ=WEEKLY 1h",
            "FREQ=FORTNIGHTLY 1h",
            "FREQ=MINUTELY 1h",
            "FREQ=DAILY;BYYEARDAY=1 1h",
            "FREQ=DAILY;BYWEEKNO=1 1h",
            "FREQ=DAILY;BYSECOND=30 1h",
            "FREQ=DAILY;DTSTART=20260301 1h",
            "FREQ=DAILY;BYWEEKDAY=MO 1h",
            "freq=daily;byhour=2;bysecond=0 1h",
            &format!("FREQ=DAILY;BYHOUR={} 1h", "1,".repeat(500)),
        ],
        &expect![[r#"
             1h
              rrule: there is no rule (write one such as `FREQ=WEEKLY;BYDAY=SA,SU`)
            BYDAY=MO 1h
              rrule: there is no FREQ (begin with FREQ=YEARLY, MONTHLY, WEEKLY, DAILY or HOURLY)
            RRULE:FREQ=DAILY 1h
              rrule: the rule has a `:` (write what is after `RRULE:`, alone)
            FREQ=DAILY;	BYHOUR=2 1h
              rrule: the rule has blanks or line ends (write it without, as in `FREQ=WEEKLY;BYDAY=SA,SU`)
            FREQ=DAILY; 1h
              rrule: a part is empty (take out a `;` or `=`)
            FREQ=DAILY;FREQ=WEEKLY 1h
              rrule: FREQ is there twice (keep one of them; several values are separated by commas)
            FREQ=FORTNIGHTLY 1h
              rrule: `FORTNIGHTLY` of FREQ is no frequency (write YEARLY, MONTHLY, WEEKLY, DAILY or HOURLY)
            FREQ=MINUTELY 1h
              rrule: FREQ=MINUTELY is too often for a window (use FREQ=HOURLY with BYMINUTE, and a longer duration)
            FREQ=DAILY;BYYEARDAY=1 1h
              rrule: BYYEARDAY cannot be used here (name the days by BYMONTH and BYMONTHDAY instead)
            FREQ=DAILY;BYWEEKNO=1 1h
              rrule: BYWEEKNO cannot be used here (name the weeks by BYMONTH and BYDAY, or count them by INTERVAL)
            FREQ=DAILY;BYSECOND=30 1h
              rrule: BYSECOND cannot be used here (leave it out: windows begin with a minute)
            FREQ=DAILY;DTSTART=20260301 1h
              rrule: DTSTART cannot be used here (write it as `start`, beside `rrule`)
            FREQ=DAILY;BYWEEKDAY=MO 1h
              rrule: there is no `BYWEEKDAY` in rules (there are FREQ, INTERVAL, COUNT, UNTIL, WKST, BYMONTH, BYMONTHDAY, BYDAY, BYHOUR, BYMINUTE and BYSETPOS)
            freq=daily;byhour=2;bysecond=0 1h
              fine
            FREQ=DAILY;BYHOUR=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,
              rrule: the rule has 1018 bytes, of 1000 at most (declare several windows)
        "#]],
    );
}

#[test]
fn values_are_read() {
    check(
        &[
            "FREQ=DAILY;INTERVAL=0 1h",
            "FREQ=DAILY;INTERVAL=10001 1h",
            "FREQ=DAILY;COUNT=-1 1h from 2026-03-01",
            "FREQ=DAILY;COUNT=99999999999999999999 1h from 2026-03-01",
            "FREQ=DAILY;UNTIL=2026-03-01 1h",
            "FREQ=DAILY;UNTIL=20260230 1h",
            "FREQ=DAILY;WKST=1MO 1h",
            "FREQ=MONTHLY;BYMONTHDAY=0,32,-32,--1,+5 1h",
            "FREQ=DAILY;BYMONTH=13;BYMINUTE=-1;BYSETPOS=0 1h",
            "FREQ=MONTHLY;BYDAY=0MO,1,MONDAY,54FR 1h",
        ],
        &expect![[r#"
            FREQ=DAILY;INTERVAL=0 1h
              rrule: `0` of INTERVAL is not a number from 1 to 10000 (write how many periods of FREQ it is from one to the next, or leave it out)
            FREQ=DAILY;INTERVAL=10001 1h
              rrule: `10001` of INTERVAL is not a number from 1 to 10000 (write how many periods of FREQ it is from one to the next, or leave it out)
            FREQ=DAILY;COUNT=-1 1h from 2026-03-01
              rrule: `-1` of COUNT is not a number from 1 to 10000 (write how often the window comes, or end it with UNTIL)
            FREQ=DAILY;COUNT=99999999999999999999 1h from 2026-03-01
              rrule: `99999999999999999999` of COUNT is not a number from 1 to 10000 (write how often the window comes, or end it with UNTIL)
            FREQ=DAILY;UNTIL=2026-03-01 1h
              rrule: `2026-03-01` of UNTIL is not a time (write `20261231` for all of that day, `20261231T180000` for a time in `timeZone`, or `20261231T170000Z` for one in UTC)
            FREQ=DAILY;UNTIL=20260230 1h
              rrule: `20260230` of UNTIL is not a time (write `20261231` for all of that day, `20261231T180000` for a time in `timeZone`, or `20261231T170000Z` for one in UTC)
            FREQ=DAILY;WKST=1MO 1h
              rrule: `1MO` of WKST is no day of the week (write MO, TU, WE, TH, FR, SA or SU)
            FREQ=MONTHLY;BYMONTHDAY=0,32,-32,--1,+5 1h
              rrule: BYMONTHDAY has no `0,32,-32,--1` (write numbers from 1 to 31 and from -31 to -1, separated by commas)
            FREQ=DAILY;BYMONTH=13;BYMINUTE=-1;BYSETPOS=0 1h
              rrule: BYMONTH has no `13` (write numbers from 1 to 12, separated by commas)
              rrule: BYMINUTE has no `-1` (write numbers from 0 to 59, separated by commas)
              rrule: BYSETPOS has no `0` (write numbers from 1 to 366 and from -366 to -1, separated by commas)
            FREQ=MONTHLY;BYDAY=0MO,1,MONDAY,54FR 1h
              rrule: BYDAY has no `0MO,1,MONDAY,54FR` (write MO, TU, WE, TH, FR, SA or SU, separated by commas; `1MO` is the first Monday of a month or year, `-1MO` the last)
        "#]],
    );
}

#[test]
fn parts_go_together() {
    check(
        &[
            "FREQ=DAILY;COUNT=3;UNTIL=20260301 1h from 2026-01-01",
            "FREQ=DAILY;COUNT=3 1h",
            "FREQ=WEEKLY;BYMONTHDAY=3 1h",
            "FREQ=WEEKLY;BYDAY=1MO 1h",
            "FREQ=MONTHLY;BYDAY=6MO 1h",
            "FREQ=YEARLY;BYMONTH=2;BYDAY=-20MO 1h",
            "FREQ=YEARLY;BYDAY=-20MO 1h",
            "FREQ=MONTHLY;BYSETPOS=1 1h",
        ],
        &expect![[r#"
            FREQ=DAILY;COUNT=3;UNTIL=20260301 1h from 2026-01-01
              rrule: COUNT and UNTIL both end the rule (keep one of them)
            FREQ=DAILY;COUNT=3 1h
              rrule: COUNT counts from the start, and there is none (add `start`, such as `start: 2026-03-01`, or end it with UNTIL)
            FREQ=WEEKLY;BYMONTHDAY=3 1h
              rrule: weeks have no BYMONTHDAY (use FREQ=MONTHLY, or BYDAY to name days of the week)
            FREQ=WEEKLY;BYDAY=1MO 1h
              rrule: days of BYDAY are numbered, but not within a month or year (leave the numbers out, or use FREQ=MONTHLY)
            FREQ=MONTHLY;BYDAY=6MO 1h
              rrule: no month has a day of the week 6 times (number the days of BYDAY from 1 to 5, or from -1 to -5)
            FREQ=YEARLY;BYMONTH=2;BYDAY=-20MO 1h
              rrule: no month has a day of the week 20 times (number the days of BYDAY from 1 to 5, or from -1 to -5)
            FREQ=YEARLY;BYDAY=-20MO 1h
              fine
            FREQ=MONTHLY;BYSETPOS=1 1h
              rrule: BYSETPOS has nothing to choose from (add what it chooses among, such as BYDAY=MO,TU,WE,TH,FR)
        "#]],
    );
}

#[test]
fn the_rest_is_read() {
    check(
        &[
            "FREQ=DAILY ",
            "FREQ=DAILY 1d",
            "FREQ=DAILY 1h in Europe/Atlantis",
            "FREQ=DAILY 1h in europe/berlin",
            "FREQ=DAILY 1h in +01:00",
            "FREQ=DAILY 1h in Etc/Unknown",
            "FREQ=DAILY 1h from 1.3.2026",
            "FREQ=DAILY 1h from 2026-03-01T10:00:00+01:00",
            "FREQ=DAILY 1h from 2026-03-01T10:00:30",
            "FREQ=DAILY 1h from 0026-03-01",
            "FREQ=DAILY 1h from 2026-02-29",
        ],
        &expect![[r#"
            FREQ=DAILY 
              duration: `` is not a length of time (write hours and minutes, such as `24h`, `90m` or `1h30m`; a day is `24h`)
            FREQ=DAILY 1d
              duration: `1d` is not a length of time (write hours and minutes, such as `24h`, `90m` or `1h30m`; a day is `24h`)
            FREQ=DAILY 1h in Europe/Atlantis
              timeZone: there is no time zone `Europe/Atlantis` (write a name such as `Europe/Berlin`, or leave it out for UTC)
            FREQ=DAILY 1h in europe/berlin
              timeZone: there is no time zone `europe/berlin` (did you mean `Europe/Berlin`?)
            FREQ=DAILY 1h in +01:00
              timeZone: there is no time zone `+01:00` (write a name such as `Europe/Berlin`, or leave it out for UTC)
            FREQ=DAILY 1h in Etc/Unknown
              timeZone: there is no time zone `Etc/Unknown` (write a name such as `Europe/Berlin`, or leave it out for UTC)
            FREQ=DAILY 1h from 1.3.2026
              start: `1.3.2026` is not a local time (write it as `2026-03-01` or `2026-03-01T22:00`, without `Z` or an offset: it is in `timeZone`)
            FREQ=DAILY 1h from 2026-03-01T10:00:00+01:00
              start: `2026-03-01T10:00:00+01:00` is not a local time (write it as `2026-03-01` or `2026-03-01T22:00`, without `Z` or an offset: it is in `timeZone`)
            FREQ=DAILY 1h from 2026-03-01T10:00:30
              start: `2026-03-01T10:00:30` is within a minute (windows begin with a minute: end it with `:00`)
            FREQ=DAILY 1h from 0026-03-01
              start: `0026-03-01` is too long ago (start in 1900 or later)
            FREQ=DAILY 1h from 2026-02-29
              start: `2026-02-29` is not a local time (write it as `2026-03-01` or `2026-03-01T22:00`, without `Z` or an offset: it is in `timeZone`)
        "#]],
    );
}

#[test]
fn a_window_comes() {
    check(
        &[
            "FREQ=DAILY 0s",
            "FREQ=DAILY -1h",
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30 1h",
            "FREQ=DAILY;INTERVAL=7;BYDAY=TU 1h",
            "FREQ=HOURLY;INTERVAL=2;BYHOUR=3 1h",
            "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6 1h",
            // Only years that 400 does not divide.
            "FREQ=YEARLY;INTERVAL=100;BYMONTH=2;BYMONTHDAY=29 1h from 2100-01-01",
            "FREQ=YEARLY;INTERVAL=100;BYMONTH=2;BYMONTHDAY=29 1h from 2101-01-01",
            "FREQ=DAILY;UNTIL=20260301 1h from 2026-03-02",
            "FREQ=WEEKLY;BYDAY=SU;UNTIL=20260304 1h from 2026-03-02",
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;COUNT=10000 1h from 2026-03-02",
            "FREQ=DAILY;BYHOUR=23 1h from 9999-12-31",
        ],
        &expect![[r#"
            FREQ=DAILY 0s
              duration: the window never comes: it lasts `0s` (let it last longer than nothing, such as `1h`)
            FREQ=DAILY -1h
              duration: the window never comes: it lasts `-1h` (let it last longer than nothing, such as `1h`)
            FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30 1h
              rrule: the window never comes: no time is all that the rule asks for (look at what INTERVAL, BYMONTH, BYMONTHDAY, BYDAY, BYHOUR and BYSETPOS leave together)
            FREQ=DAILY;INTERVAL=7;BYDAY=TU 1h
              rrule: the window never comes: no time is all that the rule asks for (look at what INTERVAL, BYMONTH, BYMONTHDAY, BYDAY, BYHOUR and BYSETPOS leave together)
            FREQ=HOURLY;INTERVAL=2;BYHOUR=3 1h
              rrule: the window never comes: no time is all that the rule asks for (look at what INTERVAL, BYMONTH, BYMONTHDAY, BYDAY, BYHOUR and BYSETPOS leave together)
            FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6 1h
              rrule: the window never comes: no time is all that the rule asks for (look at what INTERVAL, BYMONTH, BYMONTHDAY, BYDAY, BYHOUR and BYSETPOS leave together)
            FREQ=YEARLY;INTERVAL=100;BYMONTH=2;BYMONTHDAY=29 1h from 2100-01-01
              fine
            FREQ=YEARLY;INTERVAL=100;BYMONTH=2;BYMONTHDAY=29 1h from 2101-01-01
              rrule: the window never comes: no time is all that the rule asks for (look at what INTERVAL, BYMONTH, BYMONTHDAY, BYDAY, BYHOUR and BYSETPOS leave together)
            FREQ=DAILY;UNTIL=20260301 1h from 2026-03-02
              rrule: the window never comes: the rule ends before (the first one would be at 2026-03-02T00:00:00: set UNTIL to that or later)
            FREQ=WEEKLY;BYDAY=SU;UNTIL=20260304 1h from 2026-03-02
              rrule: the window never comes: the rule ends before (the first one would be at 2026-03-08T00:00:00: set UNTIL to that or later)
            FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;COUNT=10000 1h from 2026-03-02
              rrule: COUNT=10000 is too far ahead: the window comes too rarely (end it with UNTIL instead)
            FREQ=DAILY;BYHOUR=23 1h from 9999-12-31
              rrule: the window never comes: time ends before (set `start` to an earlier year)
        "#]],
    );
}
