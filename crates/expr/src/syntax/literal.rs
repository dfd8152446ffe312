//! The bodies of string and bytes literals: reading escapes, and writing them.

/// What is wrong with a literal.
#[derive(Debug, PartialEq)]
pub(super) struct LiteralError(pub(super) &'static str);

/// One unescaped element: a character, or a single byte written as `\x` or in octal.
enum Unit {
    Char(char),
    Byte(u8),
}

/// Reads the body of a string.
pub(super) fn string(body: &str, raw: bool) -> Result<String, LiteralError> {
    let body = normalized(body);
    if raw || !body.contains('\\') {
        return Ok(body);
    }
    let mut out = String::with_capacity(body.len());
    let mut rest = body.as_str();
    while let Some((unit, after)) = unit(rest)? {
        match unit {
            Unit::Char(c) => out.push(c),
            Unit::Byte(byte) => out.push(char::from(byte)),
        }
        rest = after;
    }
    Ok(out)
}

/// Reads the body of a bytes literal.
pub(super) fn bytes(body: &str, raw: bool) -> Result<Vec<u8>, LiteralError> {
    let body = normalized(body);
    if raw {
        return Ok(body.into_bytes());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body.as_str();
    loop {
        if rest.starts_with("\\u") || rest.starts_with("\\U") {
            return Err(LiteralError(
                "Syntax error: unicode escapes are not allowed in bytes",
            ));
        }
        let Some((unit, after)) = unit(rest)? else {
            return Ok(out);
        };
        match unit {
            Unit::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Unit::Byte(byte) => out.push(byte),
        }
        rest = after;
    }
}

fn normalized(body: &str) -> String {
    if body.contains('\r') {
        return body.replace("\r\n", "\n").replace('\r', "\n");
    }
    body.to_owned()
}

fn unit(text: &str) -> Result<Option<(Unit, &str)>, LiteralError> {
    let mut chars = text.chars();
    let Some(first) = chars.next() else {
        return Ok(None);
    };
    if first != '\\' {
        return Ok(Some((Unit::Char(first), chars.as_str())));
    }
    let kind = chars
        .next()
        .ok_or(LiteralError("Syntax error: unfinished escape sequence"))?;
    let rest = chars.as_str();
    let simple = match kind {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '`' | '?' => kind,
        'x' | 'X' => {
            let (value, rest) = digits(rest, 2, 16)?;
            return Ok(Some((
                Unit::Byte(u8::try_from(value).unwrap_or(u8::MAX)),
                rest,
            )));
        }
        'u' | 'U' => {
            let (value, rest) = digits(rest, if kind == 'u' { 4 } else { 8 }, 16)?;
            let c = char::from_u32(value)
                .ok_or(LiteralError("Syntax error: invalid unicode code point"))?;
            return Ok(Some((Unit::Char(c), rest)));
        }
        '0'..='3' => {
            let (value, rest) = digits(&text[1..], 3, 8)?;
            return Ok(Some((
                Unit::Byte(u8::try_from(value).unwrap_or(u8::MAX)),
                rest,
            )));
        }
        _ => return Err(LiteralError("Syntax error: unknown escape sequence")),
    };
    Ok(Some((Unit::Char(simple), rest)))
}

fn digits(text: &str, count: usize, radix: u32) -> Result<(u32, &str), LiteralError> {
    const SHORT: LiteralError = LiteralError("Syntax error: too few digits in an escape sequence");
    let digits = text.get(..count).ok_or(SHORT)?;
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(SHORT);
    }
    let value = u32::from_str_radix(digits, radix).map_err(|_| SHORT)?;
    Ok((value, &text[count..]))
}

/// A string as a literal that reads back as it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 || c == '\u{7f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Bytes as a literal that reads back as them.
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::from("b\"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            0x20..0x7f => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}
