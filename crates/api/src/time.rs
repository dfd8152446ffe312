//! Points in time as objects carry them.

use std::fmt;

use serde_json::Value;

/// A point in time. Kubernetes writes whole seconds (`metav1.Time`) nearly everywhere, and
/// microseconds (`metav1.MicroTime`) in leases and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(jiff::Timestamp);

/// The text is not an RFC 3339 time.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not an RFC 3339 time")]
pub struct ParseTimeError(String);

// === impl Time ===

impl Time {
    /// From a system time; what is out of range becomes the epoch.
    pub fn from_system(time: std::time::SystemTime) -> Self {
        Self(jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    /// From seconds since the epoch; what is out of range becomes the epoch.
    pub fn from_unix(seconds: i64) -> Self {
        Self(jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    /// Seconds since the epoch.
    pub fn unix(self) -> i64 {
        self.0.as_second()
    }

    /// With microseconds, as `metav1.MicroTime` is written.
    pub fn micro(self) -> String {
        self.0.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    }

    /// This time as a JSON value, in whole seconds.
    pub fn to_value(self) -> Value {
        Value::String(self.to_string())
    }

    /// Whole seconds from `earlier` to this; negative if `earlier` is later.
    pub fn seconds_since(self, earlier: Self) -> i64 {
        self.unix() - earlier.unix()
    }

    /// This time and `seconds` more.
    #[must_use]
    pub fn plus(self, seconds: i64) -> Self {
        Self::from_unix(self.unix().saturating_add(seconds))
    }
}

impl std::str::FromStr for Time {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse()
            .map(Self)
            .map_err(|_| ParseTimeError(text.to_owned()))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.strftime("%Y-%m-%dT%H:%M:%SZ"))
    }
}

/// A span of seconds as kubectl prints ages: `45s`, `3m20s`, `5h`, `2d3h`, `4y`.
pub fn human_duration(seconds: i64) -> String {
    let (minute, hour, day, year) = (60, 3_600, 86_400, 31_536_000);
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(seconds / minute, 'm', seconds % minute, 's'),
        600..10_800 => format!("{}m", seconds / minute),
        10_800..28_800 => pair(seconds / hour, 'h', seconds % hour / minute, 'm'),
        28_800..172_800 => format!("{}h", seconds / hour),
        172_800..691_200 => pair(seconds / day, 'd', seconds % day / hour, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / day),
        63_072_000..252_288_000 => pair(seconds / year, 'y', seconds % year / day, 'd'),
        252_288_000.. => format!("{}y", seconds / year),
    }
}

fn pair(large: i64, large_unit: char, small: i64, small_unit: char) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        small => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_prints_them() {
        let cases = [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (3_599, "59m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (183_600, "2d3h"),
            (864_000, "10d"),
            (63_072_000, "2y"),
            (315_360_000, "10y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn times_are_written_in_whole_seconds() {
        let time: Time = "2026-11-15T21:51:29.123456Z".parse().unwrap();
        assert_eq!(time.to_string(), "2026-11-15T21:51:29Z");
        assert_eq!(time.micro(), "2026-11-15T21:51:29.123456Z");
        assert_eq!(
            "2026-11-15T22:51:29+01:00".parse::<Time>().unwrap().unix(),
            time.unix()
        );
        assert!("yesterday".parse::<Time>().is_err());
    }
}
