//! Codes: identifiers, checksummed numbers, colours, base64.

/// Five groups of hex digits with optional dashes; version and variant where a version is asked.
pub(super) fn uuid(text: &str, version: Option<u8>) -> bool {
    let mut rest = text.as_bytes();
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 && rest.first() == Some(&b'-') {
            rest = &rest[1..];
        }
        let Some((group, tail)) = rest.split_at_checked(length) else {
            return false;
        };
        if !group.iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        let fits = match (index, version) {
            (2, Some(version)) => group[0] == version,
            // Version 3 says nothing about the variant here.
            (3, Some(b'4' | b'5')) => {
                matches!(group[0].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b')
            }
            (_, _) => true,
        };
        if !fits {
            return false;
        }
        rest = tail;
    }
    rest.is_empty()
}

fn without_separators(text: &str) -> Vec<u8> {
    text.bytes()
        .filter(|c| !c.is_ascii_whitespace() && *c != b'-')
        .collect()
}

pub(super) fn isbn10(text: &str) -> bool {
    let code = without_separators(text);
    let Some((&last, digits)) = code.split_last() else {
        return false;
    };
    if code.len() != 10
        || !digits.iter().all(u8::is_ascii_digit)
        || !(last.is_ascii_digit() || last == b'X')
    {
        return false;
    }
    let last = if last == b'X' {
        10
    } else {
        u32::from(last - b'0')
    };
    let sum: u32 = (1..)
        .zip(digits)
        .map(|(factor, &digit)| factor * u32::from(digit - b'0'))
        .sum();
    (sum + 10 * last).is_multiple_of(11)
}

pub(super) fn isbn13(text: &str) -> bool {
    let code = without_separators(text);
    if code.len() != 13 || !code.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let digits = code.iter().map(|&digit| u32::from(digit - b'0'));
    let sum: u32 = digits
        .zip([1, 3].into_iter().cycle())
        .map(|(digit, factor)| digit * factor)
        .sum();
    sum.is_multiple_of(10)
}

pub(super) fn credit_card(text: &str) -> bool {
    let code = without_separators(text);
    if !code.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let digits: Vec<u32> = code.iter().map(|&digit| u32::from(digit - b'0')).collect();
    let issued = match (digits.as_slice(), digits.len()) {
        ([4, ..], 13 | 16) | ([5, 1..=5, ..], 16) | ([6, 0, 1, 1, ..] | [6, 5, ..], 16) => true,
        ([3, 4 | 7, ..], 15) | ([3, 0, 0..=5, ..] | [3, 6 | 8, ..], 14) => true,
        ([2, 1, 3, 1, ..] | [1, 8, 0, 0, ..], 15) | ([3, 5, ..], 16) => true,
        (_, _) => false,
    };
    let doubled = |(index, digit): (usize, &u32)| match index % 2 {
        0 => *digit,
        _ => digit * 2 / 10 + digit * 2 % 10,
    };
    issued
        && digits
            .iter()
            .rev()
            .enumerate()
            .map(doubled)
            .sum::<u32>()
            .is_multiple_of(10)
}

/// Nine digits, with a dash or space after the third and the fifth, or not.
pub(super) fn ssn(text: &str) -> bool {
    let mut rest = text.as_bytes();
    for (index, length) in [3, 2, 4].into_iter().enumerate() {
        if index > 0 && matches!(rest.first(), Some(b'-' | b' ')) {
            rest = &rest[1..];
        }
        match rest.split_at_checked(length) {
            Some((group, tail)) if group.iter().all(u8::is_ascii_digit) => rest = tail,
            Some(_) | None => return false,
        }
    }
    rest.is_empty()
}

pub(super) fn hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|c| c.is_ascii_hexdigit())
}

pub(super) fn rgb_color(text: &str) -> bool {
    let Some(body) = text
        .strip_prefix("rgb(")
        .and_then(|rest| rest.strip_suffix(')'))
    else {
        return false;
    };
    let channel = |part: &str| {
        let part = part.trim();
        let plain = part == "0" || !part.starts_with('0');
        plain && part.bytes().all(|c| c.is_ascii_digit()) && part.parse::<u8>().is_ok()
    };
    let parts: Vec<&str> = body.split(',').collect();
    parts.len() == 3 && parts.into_iter().all(channel)
}

/// Standard alphabet, padded, not empty.
pub(super) fn base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/');
    !body.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(legal)
}
