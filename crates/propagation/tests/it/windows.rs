//! Windows of a calendar: when they open and close, and what is wrong with them.

mod naive;
mod problems;
mod properties;
mod rules;

use deltaplane_expr::Timestamp;
use deltaplane_propagation::{Calendar, CalendarProblems, CalendarSpec};
use expect_test::{Expect, expect};
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// A window from `rrule duration`, then perhaps `in ZONE` and `from START`.
fn compile(text: &str) -> Result<(Calendar, TimeZone), CalendarProblems> {
    let words: Vec<&str> = text.split(' ').collect();
    let after = |word: &str| {
        let mut pairs = words.windows(2);
        pairs.find(|pair| pair[0] == word).map(|pair| pair[1])
    };
    let time_zone = after("in");
    let calendar = Calendar::compile(&CalendarSpec {
        rrule: words[0],
        duration: words.get(1).copied().unwrap_or_default(),
        time_zone,
        start: after("from"),
    })?;
    let zone = TimeZoneDatabase::bundled().get(time_zone.unwrap_or("UTC"));
    Ok((calendar, zone.expect("a zone")))
}

/// How windows are at a time, and what follows: so many edges, as clocks of their zones show them.
fn check(now: &str, edges: usize, windows: &[&str], expected: &Expect) {
    let now = Timestamp::parse(now).expect("a time");
    let mut told = String::new();
    for text in windows {
        let (calendar, zone) = compile(text).expect("a window");
        told.push_str(&format!(
            "{text}\n{}",
            followed(&calendar, &zone, now, edges)
        ));
    }
    expected.assert_eq(&told);
}

fn followed(calendar: &Calendar, zone: &TimeZone, mut now: Timestamp, edges: usize) -> String {
    let mut told = String::new();
    for _ in 0..edges {
        let window = calendar.at(now);
        told.push_str(if window.open { "  open" } else { "  closed" });
        let Some(edge) = window.edge else {
            told.push_str(" for ever\n");
            break;
        };
        let instant = jiff::Timestamp::new(edge.seconds(), 0).expect("a time");
        let shown = instant.to_zoned(zone.clone());
        told.push_str(&format!(" until {}\n", shown.strftime("%a %F %H:%M %Z")));
        now = edge;
    }
    told
}

#[test]
fn weekends_are_open() {
    let weekend = ["FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin"];
    check(
        "2026-03-04T12:00:00Z",
        3,
        &weekend,
        &expect![[r#"
        FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin
          closed until Sat 2026-03-07 00:00 CET
          open until Mon 2026-03-09 00:00 CET
          closed until Sat 2026-03-14 00:00 CET
    "#]],
    );
    // The first instant is in, the last is not.
    check(
        "2026-03-06T23:00:00Z",
        1,
        &weekend,
        &expect![[r#"
        FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin
          open until Mon 2026-03-09 00:00 CET
    "#]],
    );
    check(
        "2026-03-08T22:59:59.999999999Z",
        1,
        &weekend,
        &expect![[r#"
            FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin
              open until Mon 2026-03-09 00:00 CET
        "#]],
    );
    check(
        "2026-03-08T23:00:00Z",
        1,
        &weekend,
        &expect![[r#"
        FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin
          closed until Sat 2026-03-14 00:00 CET
    "#]],
    );
}

#[test]
fn what_is_left_open_is_what_people_expect() {
    check(
        "2026-03-04T12:00:00Z",
        2,
        &[
            "FREQ=DAILY;BYHOUR=2 90m",
            "FREQ=DAILY;BYHOUR=22;BYMINUTE=30 1h30m",
            "FREQ=WEEKLY;BYDAY=SA 24h",
            "FREQ=WEEKLY 1h",
            "FREQ=MONTHLY 1h",
            "FREQ=YEARLY 1h",
            "FREQ=YEARLY;BYMONTH=7 1h",
            "FREQ=HOURLY 10m",
        ],
        &expect![[r#"
            FREQ=DAILY;BYHOUR=2 90m
              closed until Thu 2026-03-05 02:00 UTC
              open until Thu 2026-03-05 03:30 UTC
            FREQ=DAILY;BYHOUR=22;BYMINUTE=30 1h30m
              closed until Wed 2026-03-04 22:30 UTC
              open until Thu 2026-03-05 00:00 UTC
            FREQ=WEEKLY;BYDAY=SA 24h
              closed until Sat 2026-03-07 00:00 UTC
              open until Sun 2026-03-08 00:00 UTC
            FREQ=WEEKLY 1h
              closed until Mon 2026-03-09 00:00 UTC
              open until Mon 2026-03-09 01:00 UTC
            FREQ=MONTHLY 1h
              closed until Wed 2026-04-01 00:00 UTC
              open until Wed 2026-04-01 01:00 UTC
            FREQ=YEARLY 1h
              closed until Fri 2027-01-01 00:00 UTC
              open until Fri 2027-01-01 01:00 UTC
            FREQ=YEARLY;BYMONTH=7 1h
              closed until Wed 2026-07-01 00:00 UTC
              open until Wed 2026-07-01 01:00 UTC
            FREQ=HOURLY 10m
              open until Wed 2026-03-04 12:10 UTC
              closed until Wed 2026-03-04 13:00 UTC
        "#]],
    );
}

#[test]
fn a_start_says_what_is_left_open_and_nothing_comes_before() {
    check(
        "2026-02-04T12:00:00Z",
        3,
        &[
            "FREQ=MONTHLY 2h from 2026-03-18T22:30",
            "FREQ=WEEKLY 2h in America/New_York from 2026-03-18T22:30:00",
            "FREQ=HOURLY;INTERVAL=9 1h from 2026-03-18T05:30",
            // The start itself is none unless the rule says so.
            "FREQ=WEEKLY;BYDAY=MO 2h from 2026-03-18",
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE 2h from 2026-03-18",
        ],
        &expect![[r#"
            FREQ=MONTHLY 2h from 2026-03-18T22:30
              closed until Wed 2026-03-18 22:30 UTC
              open until Thu 2026-03-19 00:30 UTC
              closed until Sat 2026-04-18 22:30 UTC
            FREQ=WEEKLY 2h in America/New_York from 2026-03-18T22:30:00
              closed until Wed 2026-03-18 22:30 EDT
              open until Thu 2026-03-19 00:30 EDT
              closed until Wed 2026-03-25 22:30 EDT
            FREQ=HOURLY;INTERVAL=9 1h from 2026-03-18T05:30
              closed until Wed 2026-03-18 05:30 UTC
              open until Wed 2026-03-18 06:30 UTC
              closed until Wed 2026-03-18 14:30 UTC
            FREQ=WEEKLY;BYDAY=MO 2h from 2026-03-18
              closed until Mon 2026-03-23 00:00 UTC
              open until Mon 2026-03-23 02:00 UTC
              closed until Mon 2026-03-30 00:00 UTC
            FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE 2h from 2026-03-18
              closed until Wed 2026-03-18 00:00 UTC
              open until Wed 2026-03-18 02:00 UTC
              closed until Mon 2026-03-30 00:00 UTC
        "#]],
    );
}

#[test]
fn summer_time_begins() {
    // Clocks show no time between 2 and 3: what would begin then begins an hour later.
    check(
        "2026-03-28T12:00:00Z",
        4,
        &[
            "FREQ=DAILY;BYHOUR=2;BYMINUTE=30 1h in Europe/Berlin",
            "FREQ=DAILY;BYHOUR=22 8h in Europe/Berlin",
            "FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin",
        ],
        &expect![[r#"
            FREQ=DAILY;BYHOUR=2;BYMINUTE=30 1h in Europe/Berlin
              closed until Sun 2026-03-29 03:30 CEST
              open until Sun 2026-03-29 04:30 CEST
              closed until Mon 2026-03-30 02:30 CEST
              open until Mon 2026-03-30 03:30 CEST
            FREQ=DAILY;BYHOUR=22 8h in Europe/Berlin
              closed until Sat 2026-03-28 22:00 CET
              open until Sun 2026-03-29 07:00 CEST
              closed until Sun 2026-03-29 22:00 CEST
              open until Mon 2026-03-30 06:00 CEST
            FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin
              open until Mon 2026-03-30 01:00 CEST
              closed until Sat 2026-04-04 00:00 CEST
              open until Mon 2026-04-06 00:00 CEST
              closed until Sat 2026-04-11 00:00 CEST
        "#]],
    );
    check(
        "2026-03-07T12:00:00Z",
        4,
        &[
            "FREQ=DAILY;BYHOUR=2;BYMINUTE=30 1h in America/New_York",
            "FREQ=WEEKLY;BYDAY=SU 24h in America/New_York",
        ],
        &expect![[r#"
            FREQ=DAILY;BYHOUR=2;BYMINUTE=30 1h in America/New_York
              closed until Sun 2026-03-08 03:30 EDT
              open until Sun 2026-03-08 04:30 EDT
              closed until Mon 2026-03-09 02:30 EDT
              open until Mon 2026-03-09 03:30 EDT
            FREQ=WEEKLY;BYDAY=SU 24h in America/New_York
              closed until Sun 2026-03-08 00:00 EST
              open until Mon 2026-03-09 01:00 EDT
              closed until Sun 2026-03-15 00:00 EDT
              open until Mon 2026-03-16 00:00 EDT
        "#]],
    );
}

#[test]
fn summer_time_ends() {
    // Clocks show times between 2 and 3 twice: the first is meant.
    check(
        "2026-10-24T12:00:00Z",
        4,
        &[
            "FREQ=DAILY;BYHOUR=2;BYMINUTE=30 1h in Europe/Berlin",
            "FREQ=DAILY;BYHOUR=22 8h in Europe/Berlin",
            "FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin",
        ],
        &expect![[r#"
            FREQ=DAILY;BYHOUR=2;BYMINUTE=30 1h in Europe/Berlin
              closed until Sun 2026-10-25 02:30 CEST
              open until Sun 2026-10-25 02:30 CET
              closed until Mon 2026-10-26 02:30 CET
              open until Mon 2026-10-26 03:30 CET
            FREQ=DAILY;BYHOUR=22 8h in Europe/Berlin
              closed until Sat 2026-10-24 22:00 CEST
              open until Sun 2026-10-25 05:00 CET
              closed until Sun 2026-10-25 22:00 CET
              open until Mon 2026-10-26 06:00 CET
            FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin
              open until Sun 2026-10-25 23:00 CET
              closed until Sat 2026-10-31 00:00 CET
              open until Mon 2026-11-02 00:00 CET
              closed until Sat 2026-11-07 00:00 CET
        "#]],
    );
    check(
        "2026-10-24T23:45:00Z",
        5,
        &["FREQ=HOURLY 30m in Europe/Berlin"],
        &expect![[r#"
            FREQ=HOURLY 30m in Europe/Berlin
              closed until Sun 2026-10-25 02:00 CEST
              open until Sun 2026-10-25 02:30 CEST
              closed until Sun 2026-10-25 03:00 CET
              open until Sun 2026-10-25 03:30 CET
              closed until Sun 2026-10-25 04:00 CET
        "#]],
    );
    check(
        "2026-10-31T12:00:00Z",
        4,
        &[
            "FREQ=DAILY;BYHOUR=1;BYMINUTE=30 1h in America/New_York",
            "FREQ=WEEKLY;BYDAY=SU 24h in America/New_York",
        ],
        &expect![[r#"
            FREQ=DAILY;BYHOUR=1;BYMINUTE=30 1h in America/New_York
              closed until Sun 2026-11-01 01:30 EDT
              open until Sun 2026-11-01 01:30 EST
              closed until Mon 2026-11-02 01:30 EST
              open until Mon 2026-11-02 02:30 EST
            FREQ=WEEKLY;BYDAY=SU 24h in America/New_York
              closed until Sun 2026-11-01 00:00 EDT
              open until Sun 2026-11-01 23:00 EST
              closed until Sun 2026-11-08 00:00 EST
              open until Mon 2026-11-09 00:00 EST
        "#]],
    );
}

#[test]
fn what_overlaps_or_touches_is_one_window() {
    check(
        "2026-03-04T12:30:00Z",
        4,
        &[
            "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR 24h",
            "FREQ=DAILY;BYHOUR=8,9,10,14 2h",
            "FREQ=DAILY;BYHOUR=8,10 1h59m",
            "FREQ=MONTHLY 720h",
        ],
        &expect![[r#"
            FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR 24h
              open until Sat 2026-03-07 00:00 UTC
              closed until Mon 2026-03-09 00:00 UTC
              open until Sat 2026-03-14 00:00 UTC
              closed until Mon 2026-03-16 00:00 UTC
            FREQ=DAILY;BYHOUR=8,9,10,14 2h
              closed until Wed 2026-03-04 14:00 UTC
              open until Wed 2026-03-04 16:00 UTC
              closed until Thu 2026-03-05 08:00 UTC
              open until Thu 2026-03-05 12:00 UTC
            FREQ=DAILY;BYHOUR=8,10 1h59m
              closed until Thu 2026-03-05 08:00 UTC
              open until Thu 2026-03-05 09:59 UTC
              closed until Thu 2026-03-05 10:00 UTC
              open until Thu 2026-03-05 11:59 UTC
            FREQ=MONTHLY 720h
              open until Tue 2026-03-31 00:00 UTC
              closed until Wed 2026-04-01 00:00 UTC
              open until Sun 2026-05-31 00:00 UTC
              closed until Mon 2026-06-01 00:00 UTC
        "#]],
    );
}

#[test]
fn a_window_without_pauses_closes_only_where_clocks_are_put_back() {
    check(
        "2026-03-04T12:00:00Z",
        3,
        &[
            "FREQ=DAILY 24h",
            "FREQ=DAILY 24h in Asia/Tokyo",
            "FREQ=DAILY 24h in Europe/Moscow",
            "FREQ=DAILY 24h in Europe/Berlin",
            "FREQ=DAILY 25h in Europe/Berlin",
            "FREQ=HOURLY 1h in America/New_York",
            "FREQ=WEEKLY 168h in Europe/Berlin",
            "FREQ=MONTHLY 744h in Europe/Berlin",
            "FREQ=DAILY;UNTIL=20261231 24h in Asia/Tokyo",
            "FREQ=DAILY;UNTIL=20260831 24h in Europe/Berlin",
        ],
        &expect![[r#"
            FREQ=DAILY 24h
              open for ever
            FREQ=DAILY 24h in Asia/Tokyo
              open for ever
            FREQ=DAILY 24h in Europe/Moscow
              open for ever
            FREQ=DAILY 24h in Europe/Berlin
              open until Sun 2026-10-25 23:00 CET
              closed until Mon 2026-10-26 00:00 CET
              open until Sun 2027-10-31 23:00 CET
            FREQ=DAILY 25h in Europe/Berlin
              open for ever
            FREQ=HOURLY 1h in America/New_York
              open until Sun 2026-11-01 01:00 EST
              closed until Sun 2026-11-01 02:00 EST
              open until Sun 2027-11-07 01:00 EST
            FREQ=WEEKLY 168h in Europe/Berlin
              open until Sun 2026-10-25 23:00 CET
              closed until Mon 2026-10-26 00:00 CET
              open until Sun 2027-10-31 23:00 CET
            FREQ=MONTHLY 744h in Europe/Berlin
              open until Sat 2026-10-31 23:00 CET
              closed until Sun 2026-11-01 00:00 CET
              open until Sun 2027-10-31 23:00 CET
            FREQ=DAILY;UNTIL=20261231 24h in Asia/Tokyo
              open until Fri 2027-01-01 00:00 JST
              closed for ever
            FREQ=DAILY;UNTIL=20260831 24h in Europe/Berlin
              open until Tue 2026-09-01 00:00 CEST
              closed for ever
        "#]],
    );
}

#[test]
fn windows_end() {
    check(
        "2026-03-04T12:00:00Z",
        9,
        &[
            "FREQ=DAILY;BYHOUR=2;COUNT=2 1h from 2026-03-04T12:00",
            "FREQ=DAILY;BYHOUR=2;COUNT=2 1h from 2026-03-01",
            // All of a day, a time in the zone, a time in UTC: each is in.
            "FREQ=DAILY;BYHOUR=2;UNTIL=20260305 1h",
            "FREQ=DAILY;BYHOUR=2;UNTIL=20260306T020000 1h in Europe/Berlin",
            "FREQ=DAILY;BYHOUR=2;UNTIL=20260306T010000Z 1h in Europe/Berlin",
            "FREQ=DAILY;BYHOUR=2;UNTIL=20260306T005959Z 1h in Europe/Berlin",
            // What has begun is not cut off.
            "FREQ=DAILY;UNTIL=20260304 36h",
        ],
        &expect![[r#"
            FREQ=DAILY;BYHOUR=2;COUNT=2 1h from 2026-03-04T12:00
              closed until Thu 2026-03-05 02:00 UTC
              open until Thu 2026-03-05 03:00 UTC
              closed until Fri 2026-03-06 02:00 UTC
              open until Fri 2026-03-06 03:00 UTC
              closed for ever
            FREQ=DAILY;BYHOUR=2;COUNT=2 1h from 2026-03-01
              closed for ever
            FREQ=DAILY;BYHOUR=2;UNTIL=20260305 1h
              closed until Thu 2026-03-05 02:00 UTC
              open until Thu 2026-03-05 03:00 UTC
              closed for ever
            FREQ=DAILY;BYHOUR=2;UNTIL=20260306T020000 1h in Europe/Berlin
              closed until Thu 2026-03-05 02:00 CET
              open until Thu 2026-03-05 03:00 CET
              closed until Fri 2026-03-06 02:00 CET
              open until Fri 2026-03-06 03:00 CET
              closed for ever
            FREQ=DAILY;BYHOUR=2;UNTIL=20260306T010000Z 1h in Europe/Berlin
              closed until Thu 2026-03-05 02:00 CET
              open until Thu 2026-03-05 03:00 CET
              closed until Fri 2026-03-06 02:00 CET
              open until Fri 2026-03-06 03:00 CET
              closed for ever
            FREQ=DAILY;BYHOUR=2;UNTIL=20260306T005959Z 1h in Europe/Berlin
              closed until Thu 2026-03-05 02:00 CET
              open until Thu 2026-03-05 03:00 CET
              closed for ever
            FREQ=DAILY;UNTIL=20260304 36h
              open until Thu 2026-03-05 12:00 UTC
              closed for ever
        "#]],
    );
}

#[test]
fn what_clocks_skip_may_come_after_what_they_show() {
    // Half past two is half past three then, which is later than three.
    let skipped = [
        "FREQ=MONTHLY;BYMONTHDAY=29;BYHOUR=2,3;BYMINUTE=0,30;BYSETPOS=2,3 72h \
                    in Europe/Berlin from 2026-03-29",
    ];
    check(
        "2026-03-20T12:00:00Z",
        2,
        &skipped,
        &expect![[r#"
        FREQ=MONTHLY;BYMONTHDAY=29;BYHOUR=2,3;BYMINUTE=0,30;BYSETPOS=2,3 72h in Europe/Berlin from 2026-03-29
          closed until Sun 2026-03-29 03:00 CEST
          open until Wed 2026-04-01 03:30 CEST
    "#]],
    );
    check(
        "2026-04-01T01:15:00Z",
        1,
        &skipped,
        &expect![[r#"
        FREQ=MONTHLY;BYMONTHDAY=29;BYHOUR=2,3;BYMINUTE=0,30;BYSETPOS=2,3 72h in Europe/Berlin from 2026-03-29
          open until Wed 2026-04-01 03:30 CEST
    "#]],
    );
    // What is next on the clocks is yet to come, and the one before is a week ago.
    check(
        "2026-03-29T01:10:00Z",
        2,
        &["FREQ=WEEKLY;BYDAY=SU;BYHOUR=2;BYMINUTE=30 167h50m in Europe/Berlin"],
        &expect![[r#"
            FREQ=WEEKLY;BYDAY=SU;BYHOUR=2;BYMINUTE=30 167h50m in Europe/Berlin
              open until Sun 2026-03-29 03:20 CEST
              closed until Sun 2026-03-29 03:30 CEST
        "#]],
    );
    // There was no 30th of December 2011 on Samoa.
    check(
        "2011-12-29T12:00:00Z",
        6,
        &["FREQ=DAILY;BYHOUR=8 1h in Pacific/Apia"],
        &expect![[r#"
            FREQ=DAILY;BYHOUR=8 1h in Pacific/Apia
              closed until Thu 2011-12-29 08:00 -10
              open until Thu 2011-12-29 09:00 -10
              closed until Sat 2011-12-31 08:00 +14
              open until Sat 2011-12-31 09:00 +14
              closed until Sun 2012-01-01 08:00 +14
              open until Sun 2012-01-01 09:00 +14
        "#]],
    );
}

#[test]
fn far_times_are_asked_for_too() {
    let weekend = ["FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin"];
    check(
        "0001-01-01T00:00:00Z",
        1,
        &weekend,
        &expect![[r#"
        FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin
          closed until Sat 2001-01-06 00:00 CET
    "#]],
    );
    check(
        "7026-03-04T12:00:00Z",
        2,
        &weekend,
        &expect![[r#"
        FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin
          open until Mon 7026-03-06 00:00 CET
          closed until Sat 7026-03-11 00:00 CET
    "#]],
    );
    check(
        "9999-12-31T23:59:59Z",
        2,
        &weekend,
        &expect![[r#"
        FREQ=WEEKLY;BYDAY=SA,SU 24h in Europe/Berlin
          closed for ever
    "#]],
    );
    check(
        "2026-03-04T12:00:00Z",
        3,
        &[
            "FREQ=DAILY;COUNT=2 2562047h from 2026-01-01",
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO 24h",
            "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO 24h",
            "FREQ=HOURLY;INTERVAL=12;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO 24h",
            "FREQ=WEEKLY;INTERVAL=52;BYMONTH=7 24h",
        ],
        &expect![[r#"
            FREQ=DAILY;COUNT=2 2562047h from 2026-01-01
              open until Sat 2318-04-13 23:00 UTC
              closed for ever
            FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO 24h
              closed until Mon 2044-02-29 00:00 UTC
              open until Tue 2044-03-01 00:00 UTC
              closed until Mon 2072-02-29 00:00 UTC
            FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO 24h
              closed until Mon 2044-02-29 00:00 UTC
              open until Tue 2044-03-01 00:00 UTC
              closed until Mon 2072-02-29 00:00 UTC
            FREQ=HOURLY;INTERVAL=12;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO 24h
              closed until Mon 2044-02-29 00:00 UTC
              open until Tue 2044-03-01 12:00 UTC
              closed until Mon 2072-02-29 00:00 UTC
            FREQ=WEEKLY;INTERVAL=52;BYMONTH=7 24h
              closed until Mon 2124-07-31 00:00 UTC
              open until Tue 2124-08-01 00:00 UTC
              closed until Mon 2125-07-30 00:00 UTC
        "#]],
    );
}

#[test]
fn no_zone_changes_its_clocks_by_more_than_a_day() {
    let from = jiff::Timestamp::constant(-2_208_988_800, 0);
    for name in TimeZoneDatabase::bundled().available() {
        let zone = TimeZoneDatabase::bundled()
            .get(name.as_str())
            .expect("a zone");
        let mut before = zone.to_offset(from).seconds();
        for change in zone.following(from).take(500) {
            let after = change.offset().seconds();
            assert!((after - before).abs() <= 24 * 3_600, "{name}");
            before = after;
        }
    }
}
