//! Moments and spans of time.

use deltaplane_expr::{Duration, Timestamp};

/// When everything begins: a Sunday, at noon.
const START: &str = "2026-03-01T12:00:00Z";

/// So long after everything began.
pub fn moment(after: Duration) -> Timestamp {
    let start = Timestamp::parse(START).expect("this is a time");
    start.plus(after).expect("nobody waits for so long")
}

/// How long after everything began: `1h2m3s`.
pub fn elapsed(at: Timestamp) -> String {
    let since = at.since(moment(Duration::from_nanos(0)));
    let nanos = since.map_or(0, Duration::nanos);
    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (nanos / 1_000_000, "ms"),
    ];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    let text: String = parts
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    match text.is_empty() {
        true => "0s".to_owned(),
        false => text,
    }
}

pub(crate) fn seconds(number: i64) -> Duration {
    Duration::from_nanos(number * 1_000_000_000)
}
