//! Finds the header's fields in JSON text.
//!
//! A cursor walks the text once; values that do not matter are skipped without
//! recursion, so nesting depth costs nothing. On anything that is not JSON the
//! walk ends and what was found so far is kept.

use super::{Header, Labels, Uid};

/// Where the walk is. All methods return `None` at the end of usable text.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

/// The raw inside of a JSON string.
struct Raw<'a> {
    text: &'a [u8],
    escaped: bool,
}

pub(super) fn header(json: &[u8]) -> Header {
    let mut header = Header::default();
    let mut cursor = Cursor { text: json, at: 0 };
    // Whatever was found before the text became unusable stays.
    let _ = cursor.members(|cursor, name| match name.text {
        b"metadata" => cursor.metadata(&mut header),
        _ => cursor.skip(),
    });
    header
}

impl<'a> Cursor<'a> {
    /// Calls `visit` at the value of each member of an object. A value that is
    /// no object is skipped.
    fn members(&mut self, mut visit: impl FnMut(&mut Self, Raw<'a>) -> Option<()>) -> Option<()> {
        if self.peek()? != b'{' {
            return self.skip();
        }
        self.at += 1;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.peek()?;
            let name = self.string()?;
            self.expect(b':')?;
            self.peek()?;
            visit(self, name)?;
            if self.more(b'}')? {
                continue;
            }
            return Some(());
        }
    }

    fn metadata(&mut self, header: &mut Header) -> Option<()> {
        self.members(|cursor, name| match name.text {
            b"uid" => {
                let uid = cursor.text_value()?;
                header.uid = uid.filter(|uid| !uid.is_empty()).map(|uid| Uid::new(&uid));
                Some(())
            }
            b"labels" => cursor.labels(header),
            b"deletionTimestamp" => {
                header.deleting = cursor.peek()? != b'n';
                cursor.skip()
            }
            _ => cursor.skip(),
        })
    }

    fn labels(&mut self, header: &mut Header) -> Option<()> {
        let mut pairs = Vec::new();
        let end = self.members(|cursor, name| {
            let key = name.unescaped();
            if let (Some(key), Some(value)) = (key, cursor.text_value()?) {
                pairs.push((key, value));
            }
            Some(())
        });
        header.labels = Labels::from_pairs(pairs);
        end
    }

    /// A string value, or `None` inside for a value of another kind.
    fn text_value(&mut self) -> Option<Option<String>> {
        if self.peek()? == b'"' {
            return Some(self.string()?.unescaped());
        }
        self.skip()?;
        Some(None)
    }

    /// Moves past one value of any kind.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => self.scalar()?,
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Moves past a number, `true`, `false` or `null`.
    fn scalar(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':' | b'"') || space(*byte);
        let len = rest.iter().position(ends).unwrap_or(rest.len());
        self.at += len;
        (len > 0).then_some(())
    }

    /// The string that begins here.
    fn string(&mut self) -> Option<Raw<'a>> {
        if self.text.get(self.at) != Some(&b'"') {
            return None;
        }
        let start = self.at + 1;
        let mut end = start;
        let mut escaped = false;
        loop {
            let rest = self.text.get(end..)?;
            let found = memchr::memchr2(b'"', b'\\', rest)?;
            end += found;
            if self.text[end] == b'"' {
                break;
            }
            escaped = true;
            end += 2;
        }
        self.at = end + 1;
        Some(Raw {
            text: &self.text[start..end],
            escaped,
        })
    }

    /// Moves past a comma (true) or the closing bracket (false).
    fn more(&mut self, close: u8) -> Option<bool> {
        let found = self.peek()?;
        self.at += 1;
        match found {
            b',' => Some(true),
            _ if found == close => Some(false),
            _ => None,
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        if self.peek()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        while space(*self.text.get(self.at)?) {
            self.at += 1;
        }
        Some(self.text[self.at])
    }
}

fn space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

impl Raw<'_> {
    /// The string's value; `None` if it is not Unicode.
    fn unescaped(&self) -> Option<String> {
        let text = std::str::from_utf8(self.text).ok()?;
        if !self.escaped {
            return Some(text.to_owned());
        }
        let mut value = String::with_capacity(text.len());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            value.push(match c {
                '\\' => escape(&mut chars)?,
                c => c,
            });
        }
        Some(value)
    }
}

fn escape(chars: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match chars.next()? {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return unicode(chars),
        c @ ('"' | '\\' | '/') => c,
        _ => return None,
    })
}

fn unicode(chars: &mut std::str::Chars<'_>) -> Option<char> {
    let first = four_digits(chars)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first);
    }
    if chars.next()? != '\\' || chars.next()? != 'u' {
        return None;
    }
    let second = four_digits(chars)?.checked_sub(0xdc00)?;
    if second >= 0x400 {
        return None;
    }
    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + second)
}

fn four_digits(chars: &mut std::str::Chars<'_>) -> Option<u32> {
    (0..4).try_fold(0, |number, _| {
        Some((number << 4) | chars.next()?.to_digit(16)?)
    })
}
