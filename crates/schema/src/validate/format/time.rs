//! Dates, times and durations.

/// Units of durations in words: exact names, and the beginning that the last one stands for.
const UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

/// `2006-01-02`.
pub(super) fn date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = |(index, c): (usize, &u8)| match index {
        4 | 7 => *c == b'-',
        _ => c.is_ascii_digit(),
    };
    if bytes.len() != 10 || !bytes.iter().enumerate().all(shape) {
        return false;
    }
    let number = |range: std::ops::Range<usize>| text[range].parse::<u32>().unwrap_or(0);
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// RFC 3339, in either case.
pub(super) fn date_time(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut halves = text.split('t');
    let (Some(day), Some(time)) = (halves.next(), halves.next()) else {
        return false;
    };
    let Some((clock, rest)) = time.split_at_checked(8) else {
        return false;
    };
    let two = |range: std::ops::Range<usize>, max: u32| {
        let part = clock
            .get(range)
            .filter(|part| part.bytes().all(|c| c.is_ascii_digit()));
        part.and_then(|part| part.parse::<u32>().ok())
            .is_some_and(|number| number <= max)
    };
    let colons = clock.as_bytes()[2] == b':' && clock.as_bytes()[5] == b':';
    date(day) && colons && two(0..2, 23) && two(3..5, 59) && two(6..8, 59) && zone(fraction(rest))
}

/// What follows the fraction of a second.
fn fraction(rest: &str) -> &str {
    let mut chars = rest.chars();
    chars.next();
    let digits = chars.as_str();
    let tail = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    match tail.len() < digits.len() && !matches!(rest.as_bytes().first(), Some(b'+' | b'-')) {
        true => tail,
        false => rest,
    }
}

fn zone(text: &str) -> bool {
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    match text.as_bytes() {
        b"z" => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => digits(&[*h1, *h2, *m1, *m2]),
        _ => false,
    }
}

/// `1h30m`, or `2 days`.
pub(super) fn duration(text: &str) -> bool {
    go_duration(text) || duration_in_words(text)
}

fn go_duration(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    if text == "0" {
        return true;
    }
    let mut rest = text;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - after.len()];
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let legal = number.bytes().any(|c| c.is_ascii_digit()) && number.matches('.').count() <= 1;
        if !legal || !["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&&after[..end]) {
            return false;
        }
        rest = &after[end..];
    }
    !text.is_empty()
}

/// Whether there is one number with a known unit; the rest is not looked at.
fn duration_in_words(text: &str) -> bool {
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let after = rest[start..]
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .trim_start();
        let end = after
            .find(|c: char| !(c.is_ascii_alphabetic() || c == 'µ'))
            .unwrap_or(after.len());
        if is_unit(&after[..end].to_lowercase()) {
            return true;
        }
        rest = &after[end..];
    }
    false
}

fn is_unit(unit: &str) -> bool {
    !unit.is_empty()
        && UNITS.iter().any(|names| {
            names.contains(&unit) || names.last().is_some_and(|last| unit.starts_with(last))
        })
}
