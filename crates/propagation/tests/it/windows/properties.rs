//! What holds for every window, and what is found is what one finds by looking at every hour.

use deltaplane_expr::Timestamp;
use deltaplane_propagation::{Calendar, CalendarProblems, CalendarSpec};
use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Weekday};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::naive::{Declared, End, nanos, timestamp};
use crate::fleet::cases;

/// Through how many occurrences a window is followed to its edge.
const JOINED: usize = 10_000;
const HOUR: i64 = 3_600_000_000_000;
const DAY: i64 = 24 * HOUR;

/// Among them clocks that change by half an hour, at midnight, twice around Ramadan, and by a day.
const ZONES: [&str; 10] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Asia/Kolkata",
    "Europe/Moscow",
];

const WEEK: [Weekday; 7] = [
    Weekday::Monday,
    Weekday::Tuesday,
    Weekday::Wednesday,
    Weekday::Thursday,
    Weekday::Friday,
    Weekday::Saturday,
    Weekday::Sunday,
];

fn few<T: Clone + std::fmt::Debug + 'static>(
    values: Vec<T>,
    most: usize,
) -> impl Strategy<Value = Vec<T>> {
    prop_oneof![
        2 => Just(Vec::new()),
        1 => subsequence(values, 1..=most),
    ]
}

fn start() -> impl Strategy<Value = DateTime> {
    let year = prop_oneof![3 => 2009..=2030_i16, 1 => Just(2011_i16)];
    (year, 1..=365_i64, 0..24_i8, select(vec![0, 0, 30, 45_i8])).prop_map(
        |(year, day, hour, minute)| {
            let date = Date::constant(year, 1, 1) + SignedDuration::from_hours(day * 24 - 24);
            date.at(hour, minute, 0, 0)
        },
    )
}

fn length() -> impl Strategy<Value = i64> {
    let usual = vec![1, HOUR / 2, HOUR, 2 * HOUR, 12 * HOUR, 30 * DAY];
    prop_oneof![
        2 => select(usual),
        2 => (1..9_i64).prop_map(|days| days * DAY),
        1 => (1..9_i64).prop_map(|days| days * DAY + HOUR),
        1 => (1..9_i64).prop_map(|days| days * DAY - HOUR),
        1 => 1..=40 * DAY,
    ]
}

/// Days of the week, with numbers where they can have some.
fn week_days(frequency: &'static str, by_month: bool) -> BoxedStrategy<Vec<(i8, Weekday)>> {
    let plain = WEEK.map(|day| (0, day)).to_vec();
    let numbers = match frequency {
        "MONTHLY" => vec![0, 1, 2, 5, -1, -5],
        "YEARLY" if by_month => vec![0, 1, 2, 5, -1, -5],
        "YEARLY" => vec![0, 1, 20, 53, -1, -20, -53],
        _ => return few(plain, 7).boxed(),
    };
    let numbered = numbers
        .into_iter()
        .flat_map(|number| WEEK.map(|day| (number, day)));
    few(numbered.collect(), 5).boxed()
}

fn end(start: DateTime) -> impl Strategy<Value = End> {
    prop_oneof![
        2 => Just(End::Never),
        1 => (1..60_usize).prop_map(End::Count),
        1 => (0..900 * 24 * 60_i64).prop_map(move |minutes| {
            End::Until(start + SignedDuration::from_mins(minutes))
        }),
    ]
}

fn declared() -> impl Strategy<Value = Declared> {
    let frequency = select(vec!["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY"]);
    let interval = prop_oneof![2 => Just(1), 1 => 1..30_i32];
    let months = few((1..=12_i8).collect(), 12);
    (frequency, interval, months, start()).prop_flat_map(|(frequency, interval, months, start)| {
        let month_days = match frequency {
            "WEEKLY" => Just(Vec::new()).boxed(),
            _ => few((-31..=31_i8).filter(|day| *day != 0).collect(), 31).boxed(),
        };
        let times = (
            few((0..24_i8).collect(), 24),
            few(vec![0, 1, 15, 30, 59_i8], 5),
            few((-9..=9_i16).filter(|place| *place != 0).collect(), 3),
        );
        let days = (month_days, week_days(frequency, !months.is_empty()));
        let rest = (
            end(start),
            select(WEEK.to_vec()),
            select(ZONES.to_vec()),
            length(),
        );
        (days, times, rest).prop_map(move |(days, times, rest)| {
            let (month_days, week_days) = days;
            let (hours, minutes, mut positions) = times;
            let lists = [&months, &month_days, &hours, &minutes];
            if lists.iter().all(|list| list.is_empty()) && week_days.is_empty() {
                positions.clear();
            }
            let (end, week_start, zone, nanos) = rest;
            Declared {
                frequency,
                interval,
                end,
                week_start,
                months: months.clone(),
                month_days,
                week_days,
                hours,
                minutes,
                positions,
                start,
                zone,
                nanos,
            }
        })
    })
}

fn compile(declared: &Declared) -> Result<Calendar, CalendarProblems> {
    Calendar::compile(&CalendarSpec {
        rrule: &declared.rrule(),
        duration: &format!("{}ns", declared.nanos),
        time_zone: Some(declared.zone),
        start: Some(&declared.start.to_string()),
    })
}

/// Times to ask at: anywhere in the years that are looked at, and at edges and right beside them.
fn times(declared: &Declared, edges: &[i128], places: &[Index]) -> Vec<i128> {
    let zone = declared.zone();
    let start = declared.start.to_zoned(zone).expect("a time").timestamp();
    let start = start.as_nanosecond() - i128::from(30 * DAY);
    let anywhere = places.iter().map(|place| {
        let minute = place.index(3 * 366 * 24 * 60);
        start + minute as i128 * 60_000_000_000
    });
    let near = places.iter().filter(|_| !edges.is_empty());
    let near = near.flat_map(|place| {
        let edge = *place.get(edges);
        [edge - 1, edge, edge + 1]
    });
    anywhere.chain(near).collect()
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn windows_are_where_one_finds_them(
        declared in declared(),
        places in vec(any::<Index>(), 8),
    ) {
        let found = declared.found();
        let calendar = match compile(&declared) {
            Ok(calendar) => calendar,
            Err(problems) => {
                let text = problems.to_string();
                let never = text.contains("never comes") || text.contains("too rarely");
                prop_assert!(never && found.is_empty(), "{text}");
                return Ok(());
            }
        };
        for now in times(&declared, &found.edges(), &places) {
            let Some((expected, is_exact)) = found.at(now) else {
                continue;
            };
            let window = calendar.at(timestamp(now));
            prop_assert_eq!(window.open, expected.open, "{} {}", declared.rrule(), timestamp(now));
            if window.open && found.may_be_early(now, window.edge, JOINED) {
                continue;
            }
            match is_exact {
                true => prop_assert_eq!(window.edge, expected.edge, "{}", declared.rrule()),
                false => prop_assert!(found.may_be_unknown(window.edge), "{}", declared.rrule()),
            }
        }
    }

    #[test]
    fn edges_are_where_it_changes(declared in declared(), hours in 0..200_000_i64) {
        let Ok(calendar) = compile(&declared) else {
            return Ok(());
        };
        let start = declared.start.to_zoned(declared.zone()).expect("a time").timestamp();
        let mut now = Timestamp::new(start.as_second() + hours * 3_600, 0).expect("a time");
        for _ in 0..8 {
            let window = calendar.at(now);
            let Some(edge) = window.edge else {
                break;
            };
            prop_assert!(edge > now);
            let before = calendar.at(timestamp(nanos(edge) - 1));
            let turned = calendar.at(edge);
            let is_exact = before == window && turned.open != window.open;
            // Through very many occurrences it is looked at again.
            let stays_open = before.open && turned.open && before.edge > window.edge;
            prop_assert!(is_exact || stays_open, "{} {now}", declared.rrule());
            now = edge;
        }
    }

    /// Numbers as large as they may be, and windows that are hard to find or never close.
    #[test]
    fn every_rule_is_answered(
        frequency in select(vec!["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY"]),
        interval in select(vec![1, 2, 7, 24, 25, 100, 9_999, 10_000]),
        parts in vec(select(vec![
            "BYMONTH=2",
            "BYMONTHDAY=29",
            "BYMONTHDAY=31,-31",
            "BYDAY=MO",
            "BYDAY=MO,TU,WE,TH,FR,SA,SU",
            "BYHOUR=5",
            "BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23",
            "BYMINUTE=0,10,20,30,40,50",
            "BYSETPOS=-1",
            "COUNT=10000",
            "UNTIL=99991231",
        ]), 0..5),
        duration in select(vec!["1ns", "10m", "24h", "8760h", "2562047h"]),
        time_zone in select(ZONES.to_vec()),
        start in select(vec!["1900-01-01", "2024-02-29", "9999-01-01"]),
        seconds in -62_135_596_800..=253_402_300_799_i64,
    ) {
        let spec = CalendarSpec {
            rrule: &format!("FREQ={frequency};INTERVAL={interval};{}", parts.join(";")),
            duration,
            time_zone: Some(time_zone),
            start: Some(start),
        };
        if let Ok(calendar) = Calendar::compile(&spec) {
            let now = Timestamp::new(seconds, 0).expect("a time");
            prop_assert!(calendar.at(now).edge.is_none_or(|edge| edge > now));
        }
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn any_text_is_read_or_refused(
        rrule in "(FREQ=(YEARLY|MONTHLY|WEEKLY|DAILY|HOURLY|MINUTELY|[A-Z]{3});?)?(;?(INTERVAL|COUNT|UNTIL|WKST|BYMONTH|BYMONTHDAY|BYDAY|BYHOUR|BYMINUTE|BYSETPOS|[A-Z]{2})=[-+0-9A-Z,]{0,9}){0,6}|\\PC{0,60}",
        duration in "([0-9]{0,20}(\\.[0-9]{0,12})?(ns|us|ms|s|m|h|d)?){0,3}|\\PC{0,9}",
        time_zone in proptest::option::of("Europe/Berlin|[A-Za-z/+:0-9]{0,12}|\\PC{0,9}"),
        start in proptest::option::of("[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:00)?)?|\\PC{0,20}"),
        seconds in -62_135_596_800..=253_402_300_799_i64,
    ) {
        let spec = CalendarSpec {
            rrule: &rrule,
            duration: &duration,
            time_zone: time_zone.as_deref(),
            start: start.as_deref(),
        };
        match Calendar::compile(&spec) {
            Ok(calendar) => {
                let now = Timestamp::new(seconds, 999_999_999).expect("a time");
                prop_assert!(calendar.at(now).edge.is_none_or(|edge| edge > now));
            }
            Err(problems) => {
                prop_assert!(!problems.0.is_empty());
                prop_assert!(problems.0.iter().all(|one| !one.hint.is_empty()));
            }
        }
    }
}
