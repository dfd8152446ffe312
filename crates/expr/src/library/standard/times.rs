//! Parts of times and durations.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::meter::Meter;
use crate::time::Civil;
use crate::value::Value;

macro_rules! part {
    ($function:literal, $id:literal, $run:ident) => {
        [
            Row::new(
                $function,
                concat!("timestamp_to_", $id),
                "timestamp.() -> int",
                Cost::Unit,
                $run,
            ),
            Row::new(
                $function,
                concat!("timestamp_to_", $id, "_with_tz"),
                "timestamp.(string) -> int",
                Cost::Unit,
                $run,
            ),
        ]
    };
}

const YEAR: [Row; 2] = part!("getFullYear", "year", year);
const MONTH: [Row; 2] = part!("getMonth", "month", month);
const DAY_OF_YEAR: [Row; 2] = part!("getDayOfYear", "day_of_year", day_of_year);
const DAY_OF_MONTH: [Row; 2] = part!("getDayOfMonth", "day_of_month", day_of_month);
const DATE: [Row; 2] = part!("getDate", "day_of_month_1_based", date);
const WEEKDAY: [Row; 2] = part!("getDayOfWeek", "day_of_week", weekday);
const HOURS: [Row; 2] = part!("getHours", "hours", hours);
const MINUTES: [Row; 2] = part!("getMinutes", "minutes", minutes);
const SECONDS: [Row; 2] = part!("getSeconds", "seconds", seconds);
const MILLIS: [Row; 2] = part!("getMilliseconds", "milliseconds", millis);

pub(super) const ROWS: &[Row] = &{
    let [a, b] = YEAR;
    let [c, d] = MONTH;
    let [e, f] = DAY_OF_YEAR;
    let [g, h] = DAY_OF_MONTH;
    let [i, j] = DATE;
    let [k, l] = WEEKDAY;
    let [m, n] = HOURS;
    let [o, p] = MINUTES;
    let [q, r] = SECONDS;
    let [s, t] = MILLIS;
    [
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        i,
        j,
        k,
        l,
        m,
        n,
        o,
        p,
        q,
        r,
        s,
        t,
        Row::new(
            "getHours",
            "duration_to_hours",
            "duration.() -> int",
            Cost::Unit,
            hours,
        ),
        Row::new(
            "getMinutes",
            "duration_to_minutes",
            "duration.() -> int",
            Cost::Unit,
            minutes,
        ),
        Row::new(
            "getSeconds",
            "duration_to_seconds",
            "duration.() -> int",
            Cost::Unit,
            seconds,
        ),
        Row::new(
            "getMilliseconds",
            "duration_to_milliseconds",
            "duration.() -> int",
            Cost::Unit,
            millis,
        ),
    ]
};

/// A part of a time as calendar and clock show it, or a whole duration in units.
fn of<'a>(
    name: &str,
    args: &[Value<'a>],
    part: fn(Civil) -> i64,
    unit: Option<i64>,
) -> Outcome<'a> {
    let (time, zone) = match (args, unit) {
        ([Value::Timestamp(time)], _) => (time, None),
        ([Value::Timestamp(time), Value::String(zone)], _) => (time, Some(zone.as_str())),
        ([Value::Duration(duration)], Some(unit)) => {
            return Ok(Value::Int(duration.nanos() / unit));
        }
        _ => return Err(no_overload(name, args)),
    };
    match time.civil(zone) {
        Some(civil) => Ok(Value::Int(part(civil))),
        None => Err(Fault::invalid(format!(
            "unknown time zone {}",
            zone.unwrap_or_default()
        ))),
    }
}

fn year<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    of("getFullYear", args, |at| at.year, None)
}

fn month<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    of("getMonth", args, |at| at.month - 1, None)
}

fn day_of_year<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    of("getDayOfYear", args, |at| at.day_of_year, None)
}

fn day_of_month<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    of("getDayOfMonth", args, |at| at.day - 1, None)
}

fn date<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    of("getDate", args, |at| at.day, None)
}

fn weekday<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    of("getDayOfWeek", args, |at| at.weekday, None)
}

fn hours<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    of("getHours", args, |at| at.hours, Some(3_600_000_000_000))
}

fn minutes<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    of("getMinutes", args, |at| at.minutes, Some(60_000_000_000))
}

fn seconds<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    of("getSeconds", args, |at| at.seconds, Some(1_000_000_000))
}

fn millis<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    of("getMilliseconds", args, |at| at.millis, Some(1_000_000))
}
