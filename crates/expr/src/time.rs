//! Points in time and spans of time, with the ranges and texts of the language.

mod turn;

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::tz::{TimeZone, TimeZoneDatabase};

pub use turn::CalendarUnit;

/// A point in time between the years 1 and 9999, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
}

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

/// A point in time as a calendar and a clock show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    /// From 1.
    pub(crate) day: i64,
    /// From 0.
    pub(crate) day_of_year: i64,
    /// From 0, Sunday.
    pub(crate) weekday: i64,
    pub(crate) hours: i64,
    pub(crate) minutes: i64,
    pub(crate) seconds: i64,
    pub(crate) millis: i64,
}

const DAY: i64 = 86_400;
const SECOND: i64 = 1_000_000_000;
/// 0001-01-01T00:00:00Z.
const MIN: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z.
const MAX: i64 = 253_402_300_799;

// === impl Timestamp ===

impl Timestamp {
    /// Nothing when it is out of range.
    pub fn new(seconds: i64, nanos: u32) -> Option<Self> {
        let fits = (MIN..=MAX).contains(&seconds) && i64::from(nanos) < SECOND;
        fits.then_some(Self { seconds, nanos })
    }

    /// Of the system's time; what was before 1970 is taken for its beginning.
    pub fn from_system(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(MAX).min(MAX);
        Self {
            seconds,
            nanos: since.subsec_nanos(),
        }
    }

    /// As the system has it; nothing before 1970.
    pub fn to_system(self) -> SystemTime {
        let seconds = u64::try_from(self.seconds).unwrap_or(0);
        UNIX_EPOCH + std::time::Duration::new(seconds, self.nanos)
    }

    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Without what is less than a second.
    pub(crate) fn in_seconds(self) -> Self {
        Self { nanos: 0, ..self }
    }

    pub fn nanos(self) -> u32 {
        self.nanos
    }

    /// Reads RFC 3339.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i64> {
            let part = bytes.get(from..to)?;
            part.iter().all(u8::is_ascii_digit).then_some(())?;
            text.get(from..to)?.parse().ok()
        };
        let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
        let separated = is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':');
        if !separated {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hours, minutes, seconds) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let valid = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
        if !valid || hours > 23 || minutes > 59 || seconds > 59 {
            return None;
        }
        let mut rest = text.get(19..)?;
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix('.') {
            let digits = fraction
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(fraction.len());
            if digits == 0 {
                return None;
            }
            let kept = &fraction[..digits.min(9)];
            nanos = format!("{kept:0<9}").parse().ok()?;
            rest = &fraction[digits..];
        }
        let offset = if rest == "Z" { 0 } else { offset(rest)? };
        let days = days_from_civil(year, month, day);
        Self::new(
            days * DAY + hours * 3_600 + minutes * 60 + seconds - offset,
            nanos,
        )
    }

    pub fn plus(self, duration: Duration) -> Option<Self> {
        let total = i64::from(self.nanos) + duration.0.rem_euclid(SECOND);
        let seconds = self.seconds.checked_add(duration.0.div_euclid(SECOND))?;
        Self::new(
            seconds + total / SECOND,
            u32::try_from(total % SECOND).ok()?,
        )
    }

    pub fn since(self, earlier: Self) -> Option<Duration> {
        let seconds = self.seconds - earlier.seconds;
        let nanos = i64::from(self.nanos) - i64::from(earlier.nanos);
        seconds
            .checked_mul(SECOND)?
            .checked_add(nanos)
            .map(Duration)
    }

    /// As calendar and clock show it in a zone: a name of the database, or an offset such as
    /// `-08:00`. Nothing when there is no such zone.
    pub(crate) fn civil(self, zone: Option<&str>) -> Option<Civil> {
        let seconds = self.seconds.checked_add(self.offset(zone)?)?;
        Self::new(seconds, self.nanos)?;
        Some(civil(seconds, self.nanos))
    }

    /// How many seconds clocks in a zone are ahead.
    fn offset(self, zone: Option<&str>) -> Option<i64> {
        match zone {
            None | Some("") => Some(0),
            Some(zone) => match zone.split_once(':') {
                Some((hours, minutes)) => {
                    let negative = hours.starts_with('-');
                    let hours: i64 = hours.parse().ok()?;
                    let minutes: i64 = minutes.parse().ok()?;
                    let sign = if negative { -1 } else { 1 };
                    let minutes = hours
                        .checked_mul(60)?
                        .checked_add(minutes.checked_mul(sign)?)?;
                    minutes.checked_mul(60)
                }
                None => self.offset_in(zone),
            },
        }
    }

    fn offset_in(self, zone: &str) -> Option<i64> {
        let zone = named(zone)?;
        let at = jiff::Timestamp::new(self.seconds, 0).ok()?;
        Some(i64::from(zone.to_offset(at).seconds()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = civil(self.seconds, self.nanos);
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            at.year, at.month, at.day, at.hours, at.minutes, at.seconds
        )?;
        if self.nanos > 0 {
            let fraction = format!("{:09}", self.nanos);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// A zone of the database.
fn named(zone: &str) -> Option<TimeZone> {
    let found: TimeZone = TimeZoneDatabase::bundled().get(zone).ok()?;
    // As in Go, `europe/berlin` is none.
    Some(found).filter(|found| found.iana_name() == Some(zone))
}

/// `+01:00` and the like, in seconds.
fn offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hours) || !digits(minutes) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the epoch, in the proleptic Gregorian calendar whose year begins in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil(total: i64, nanos: u32) -> Civil {
    let days = total.div_euclid(DAY);
    let clock = total.rem_euclid(DAY);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Civil {
        year,
        month,
        day,
        day_of_year: days - days_from_civil(year, 1, 1),
        weekday: (days + 4).rem_euclid(7),
        hours: clock / 3_600,
        minutes: clock / 60 % 60,
        seconds: clock % 60,
        millis: i64::from(nanos) / 1_000_000,
    }
}

// === impl Duration ===

impl Duration {
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    pub fn nanos(self) -> i64 {
        self.0
    }

    pub fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// As Go writes it: `1h30m0s`, `1.5s`, `20ms`.
    pub(crate) fn in_units(self) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        let total = self.0.unsigned_abs();
        let decimal = |unit: u64, name: &str| {
            let text = format!(
                "{}.{:09}",
                total / unit,
                total % unit * (1_000_000_000 / unit)
            );
            let text = text.trim_end_matches('0').trim_end_matches('.');
            format!("{sign}{text}{name}")
        };
        match total {
            0 => "0s".to_owned(),
            1..1_000 => decimal(1, "ns"),
            1_000..1_000_000 => decimal(1_000, "µs"),
            1_000_000..1_000_000_000 => decimal(1_000_000, "ms"),
            1_000_000_000.. => {
                let (minutes, rest) = (total / 60_000_000_000, total % 60_000_000_000);
                let (hours, minutes) = (minutes / 60, minutes % 60);
                let seconds = Self(i64::try_from(rest).unwrap_or(0)).to_string();
                match (hours, minutes) {
                    (0, 0) => format!("{sign}{seconds}"),
                    (0, minutes) => format!("{sign}{minutes}m{seconds}"),
                    (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}"),
                }
            }
        }
    }

    pub fn minus(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// Reads `1h30m`, `-1.5s`, `0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, mut rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Some(Self(0));
        }
        let mut total: i128 = 0;
        if rest.is_empty() {
            return None;
        }
        while !rest.is_empty() {
            let number = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            let (digits, after) = rest.split_at(number);
            let unit = after
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(after.len());
            let (name, after) = after.split_at(unit);
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
            if (whole.is_empty() && fraction.is_empty())
                || fraction.contains('.')
                || whole.len() > 20
            {
                return None;
            }
            let scale = unit_nanos(name)?;
            let whole: i128 = if whole.is_empty() {
                0
            } else {
                whole.parse().ok()?
            };
            total = total.checked_add(whole.checked_mul(scale)?)?;
            let mut place = scale;
            for digit in fraction.bytes().take(12) {
                // Go keeps the fraction as a float; what is below a nanosecond is cut.
                total += i128::from(digit - b'0') * place / 10;
                place /= 10;
            }
            rest = after;
        }
        let total = if negative { -total } else { total };
        i64::try_from(total).ok().map(Self)
    }

    /// Reads what schemas accept as a duration: also days, weeks and spelled-out units.
    pub(crate) fn parse_lenient(text: &str) -> Option<Self> {
        if let Some(duration) = Self::parse(text) {
            return Some(duration);
        }
        let text = text.trim();
        let mut total: i64 = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let number = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            let value: i64 = rest[..number].parse().ok()?;
            rest = rest[number..].trim_start();
            let unit = rest
                .find(|c: char| !c.is_alphabetic())
                .unwrap_or(rest.len());
            let scale: i64 = match rest[..unit].trim_end_matches('s') {
                "n" | "ns" | "nano" | "nanosecond" => 1,
                "u" | "us" | "µ" | "µs" | "micro" | "microsecond" => 1_000,
                "m" if rest[..unit].ends_with('s') => 1_000_000,
                "milli" | "millisecond" => 1_000_000,
                "" | "sec" | "second" => SECOND,
                "m" | "min" | "minute" => 60 * SECOND,
                "h" | "hr" | "hour" => 3_600 * SECOND,
                "d" | "day" => DAY * SECOND,
                "w" | "wk" | "week" => 7 * DAY * SECOND,
                _ => return None,
            };
            total = total.checked_add(value.checked_mul(scale)?)?;
            rest = rest[unit..].trim_start();
        }
        (!text.is_empty()).then_some(Self(total))
    }
}

fn unit_nanos(name: &str) -> Option<i128> {
    Some(match name {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

impl fmt::Display for Duration {
    /// Seconds, as many digits as needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let total = self.0.unsigned_abs();
        let (seconds, nanos) = (total / 1_000_000_000, total % 1_000_000_000);
        if nanos == 0 {
            return write!(f, "{sign}{seconds}s");
        }
        let fraction = format!("{nanos:09}");
        write!(f, "{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_in_units() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (-20_000_000, "-20ms"),
            (1_500_000_000, "1.5s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
            (-93_784_000_000_005, "-26h3m4.000000005s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(Duration::from_nanos(nanos).in_units(), text);
        }
    }

    #[test]
    fn times_read_and_write() {
        for text in [
            "2009-02-13T23:31:30Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999999999Z",
            "2024-02-29T12:00:00.5Z",
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        }
        for bad in [
            "",
            "2023-02-29T12:00:00Z",
            "2023-02-28 12:00:00Z",
            "2023-02-28T12:00:00",
            "0000-01-01T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(bad), None, "{bad}");
        }
        let time = Timestamp::parse("2009-02-13T23:31:30Z").unwrap();
        assert_eq!(time.seconds(), 1_234_567_890);
        assert_eq!(time.civil(Some("America/Phoenix")).unwrap().hours, 16);
        assert_eq!(time.civil(Some("-02:30")).unwrap().minutes, 1);
        assert_eq!(time.civil(Some("Nowhere/Else")), None);
    }

    #[test]
    fn durations_read_and_write() {
        for (text, printed) in [
            ("1h30m", "5400s"),
            ("-1.5s", "-1.5s"),
            ("0", "0s"),
            ("1us", "0.000001s"),
            (".5m", "30s"),
        ] {
            assert_eq!(
                Duration::parse(text).unwrap().to_string(),
                printed,
                "{text}"
            );
        }
        for bad in ["", "1", "s", "1.2.3s", "10000000000h", "--1s"] {
            assert_eq!(Duration::parse(bad), None, "{bad}");
        }
        assert_eq!(
            Duration::parse_lenient("2 days"),
            Some(Duration(2 * DAY * SECOND))
        );
    }
}
