//! Addresses, names and references of the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address; leading zeros are allowed in the old form.
pub(super) fn ip(text: &str) -> Option<IpAddr> {
    match text.contains(':') {
        true => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        false => ipv4(text).map(IpAddr::V4),
    }
}

fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        *octet = part
            .trim_start_matches('0')
            .parse::<u8>()
            .or_else(|error| match part.bytes().all(|c| c == b'0') {
                true => Ok(0),
                false => Err(error),
            })
            .ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

pub(super) fn cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    if length.is_empty() || !length.bytes().all(|c| c.is_ascii_digit()) {
        return false;
    }
    match (ip(address), length.parse::<u8>()) {
        (Some(IpAddr::V4(_)), Ok(length)) => length <= 32,
        (Some(IpAddr::V6(_)), Ok(length)) => length <= 128,
        (None, _) | (_, Err(_)) => false,
    }
}

/// 6, 8 or 20 bytes, as `00:…`, `00-…` or `0000.…`.
pub(super) fn mac(text: &str) -> bool {
    let Some(separator) = text.chars().find(|c| matches!(c, ':' | '-' | '.')) else {
        return false;
    };
    let width = if separator == '.' { 4 } else { 2 };
    let groups: Vec<&str> = text.split(separator).collect();
    let hex = |group: &&str| group.len() == width && group.bytes().all(|c| c.is_ascii_hexdigit());
    groups.iter().all(hex) && matches!(groups.len() * width / 2, 6 | 8 | 20)
}

pub(super) fn hostname(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    if text.len() > 255 || parts.iter().any(|part| part.len() > 63) {
        return false;
    }
    match parts.as_slice() {
        [one] => single_label(one),
        [labels @ .., last] => {
            let letters = |c: char| c.is_ascii_alphabetic() || (!c.is_ascii() && c.is_alphabetic());
            labels.iter().all(|label| dotted_label(label))
                && last.chars().count() >= 2
                && last.chars().all(letters)
        }
        [] => false,
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphabetic()) || "$+<=>^`|~".contains(c)
}

/// A name without a domain may have one dash, after its first character.
fn single_label(label: &str) -> bool {
    let mut chars = label.chars();
    if !chars.next().is_some_and(is_word) {
        return false;
    }
    let rest = chars.as_str();
    rest.strip_prefix('-').unwrap_or(rest).chars().all(is_word)
}

fn dotted_label(label: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(is_word);
    edge(label.chars().next())
        && edge(label.chars().last())
        && label.chars().all(|c| is_word(c) || c == '-')
}

/// `a@b`, or `Name <a@b>`.
pub(super) fn email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(head) => match head.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let quoted = local.len() >= 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.len() > 2 && domain.starts_with('[') && domain.ends_with(']');
    (quoted || dot_atom(local)) && (literal || dot_atom(domain))
}

fn dot_atom(text: &str) -> bool {
    let legal =
        |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    text.split('.')
        .all(|part| !part.is_empty() && part.chars().all(legal))
}

/// What may stand in the first line of an HTTP request.
pub(super) fn request_uri(text: &str) -> bool {
    if text == "*" {
        return true;
    }
    if text.is_empty() || text.bytes().any(|c| c < b' ' || c == 0x7f) {
        return false;
    }
    let Some((scheme, rest)) = scheme(text) else {
        return false;
    };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let authority = rest
        .strip_prefix("//")
        .filter(|rest| !scheme.is_empty() || !rest.starts_with('/'));
    let (host, path) = match authority {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    valid_host(host) && valid_escapes(path)
}

/// Scheme (empty if there is none) and the rest; nothing when it begins with a colon.
fn scheme(text: &str) -> Option<(&str, &str)> {
    for (index, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if index > 0 => {}
            ':' => return (index > 0).then(|| (&text[..index], &text[index + 1..])),
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

fn valid_host(authority: &str) -> bool {
    let host = authority.rsplit('@').next().unwrap_or_default();
    let port = match host.rfind(']') {
        Some(end) => &host[end + 1..],
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    let port_ok = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|p| p.bytes().all(|c| c.is_ascii_digit()));
    port_ok
        && !host.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'])
        && valid_escapes(host)
}

fn valid_escapes(text: &str) -> bool {
    let escapes = text.split('%').skip(1);
    escapes
        .map(str::as_bytes)
        .all(|rest| rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit))
}
