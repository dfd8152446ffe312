//! Go's regular expressions, written for the `regex` crate.
//!
//! What differs is translated: `\d`, `\w`, `\s` and `\b` are ASCII, a class holds no set
//! operations, a brace that begins no repetition is a brace, numbers may be octal, `\Q…\E` quotes.
//! What Go refuses is refused: repeating more than a thousand times, in one go or nested, repeating
//! a repetition, and syntax that it does not know.

use std::iter::Peekable;
use std::str::Chars;

/// The most that anything may be repeated, repetitions within repetitions multiplied.
const MAX_REPEAT: u64 = 1_000;

pub(super) fn translate(source: &str) -> Result<String, String> {
    let mut translator = Translator {
        rest: source.chars().peekable(),
        out: String::with_capacity(source.len() + 8),
        groups: Vec::new(),
        group: Group::default(),
        last: None,
    };
    while let Some(c) = translator.rest.next() {
        translator.token(c)?;
    }
    Ok(translator.out)
}

struct Translator<'s> {
    rest: Peekable<Chars<'s>>,
    out: String,
    /// Those around the innermost one.
    groups: Vec<Group>,
    group: Group,
    last: Option<Last>,
}

/// An open group.
#[derive(Default)]
struct Group {
    /// How often its most repeated part is repeated.
    repeats: u64,
}

/// What stands before the next token.
#[derive(Clone, Copy)]
enum Last {
    /// Something that can be repeated, and how often its parts are already.
    Atom(u64),
    /// A repetition.
    Repeated,
}

// === impl Translator ===

impl Translator<'_> {
    fn token(&mut self, c: char) -> Result<(), String> {
        match c {
            '\\' => self.escape()?,
            '[' => {
                self.class()?;
                self.atom(1);
            }
            '(' => self.open()?,
            ')' => self.close(),
            '|' => {
                self.last = None;
                self.out.push('|');
            }
            '*' | '+' | '?' => self.repeat(&c.to_string(), 1)?,
            '{' => match repetition(self.rest.clone()) {
                Some((length, low, high)) => {
                    let text: String = self.rest.by_ref().take(length).collect();
                    let high = high.unwrap_or(low);
                    if low > MAX_REPEAT || high > MAX_REPEAT || high < low {
                        return Err(format!("invalid repeat count: `{{{text}`"));
                    }
                    self.repeat(&format!("{{{text}"), high.max(1))?;
                }
                None => self.literal('{'),
            },
            c => self.literal_or_anchor(c),
        }
        Ok(())
    }

    fn atom(&mut self, repeats: u64) {
        self.group.repeats = self.group.repeats.max(repeats);
        self.last = Some(Last::Atom(repeats));
    }

    fn literal(&mut self, c: char) {
        self.out
            .push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        self.atom(1);
    }

    fn literal_or_anchor(&mut self, c: char) {
        match c {
            '^' | '$' | '.' => self.out.push(c),
            c => return self.literal(c),
        }
        self.atom(1);
    }

    fn repeat(&mut self, operator: &str, times: u64) -> Result<(), String> {
        match self.last {
            None => {
                return Err(format!(
                    "missing argument to repetition operator: `{operator}`"
                ));
            }
            Some(Last::Repeated) => {
                return Err(format!("invalid nested repetition operator: `{operator}`"));
            }
            Some(Last::Atom(repeats)) => {
                let repeats = repeats.saturating_mul(times);
                if repeats > MAX_REPEAT {
                    return Err(format!("invalid repeat count: `{operator}`"));
                }
                self.group.repeats = self.group.repeats.max(repeats);
            }
        }
        self.out.push_str(operator);
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        self.last = Some(Last::Repeated);
        Ok(())
    }

    fn open(&mut self) -> Result<(), String> {
        self.out.push('(');
        self.last = None;
        if self.rest.next_if_eq(&'?').is_some() && !self.special()? {
            // Flags for the rest of the group that is open already.
            return Ok(());
        }
        self.groups.push(std::mem::take(&mut self.group));
        Ok(())
    }

    /// What follows `(?`; whether it opens a group.
    fn special(&mut self) -> Result<bool, String> {
        let mut text = String::new();
        let opens = loop {
            match self.rest.next() {
                Some(c @ (':' | '>')) => {
                    text.push(c);
                    break true;
                }
                Some(')') => break false,
                Some(c) => text.push(c),
                None => return Err("missing closing ): `(?`".to_owned()),
            }
        };
        let name = text.strip_prefix("P<").or_else(|| text.strip_prefix('<'));
        let named = name.and_then(|name| name.strip_suffix('>'));
        let known = match named {
            Some(name) => {
                opens && !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
            }
            None => {
                let flags = text.strip_suffix(':').unwrap_or(&text);
                let (on, off) = flags.split_once('-').unwrap_or((flags, "i"));
                let all = |flags: &str| flags.chars().all(|c| matches!(c, 'i' | 'm' | 's' | 'U'));
                let said = opens || !flags.is_empty();
                said && all(on) && !off.is_empty() && all(off) && !text.ends_with('>')
            }
        };
        if !known {
            return Err(format!("invalid or unsupported Perl syntax: `(?{text}`"));
        }
        self.out.push('?');
        self.out.push_str(&text);
        if !opens {
            self.out.push(')');
        }
        Ok(opens)
    }

    fn close(&mut self) {
        self.out.push(')');
        let inner = self.group.repeats.max(1);
        // One too many is for the other parser to find.
        self.group = self.groups.pop().unwrap_or_default();
        self.atom(inner);
    }

    fn escape(&mut self) -> Result<(), String> {
        let Some(c) = self.rest.next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        match c {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str("[\\t\\n\\f\\r ]"),
            'S' => self.out.push_str("[^\\t\\n\\f\\r ]"),
            'b' => self.out.push_str("(?-u:\\b)"),
            'A' | 'B' | 'z' => self.out.extend(['\\', c]),
            'p' | 'P' => self.property(c),
            'Q' => {
                self.quoted();
                return Ok(());
            }
            c => {
                let single = self.single(c)?;
                self.literal(single);
                return Ok(());
            }
        }
        self.atom(1);
        Ok(())
    }

    /// `\pL`, `\p{Greek}`: the same in both.
    fn property(&mut self, c: char) {
        self.out.extend(['\\', c]);
        if self.rest.next_if_eq(&'{').is_some() {
            self.out.push('{');
            for c in self.rest.by_ref() {
                self.out.push(c);
                if c == '}' {
                    break;
                }
            }
        } else if let Some(name) = self.rest.next() {
            self.out.push(name);
        }
    }

    fn quoted(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                break;
            }
            self.literal(c);
        }
    }

    /// The character that an escape stands for, after its backslash and first character.
    fn single(&mut self, c: char) -> Result<char, String> {
        let unknown = || format!("invalid escape sequence: `\\{c}`");
        Ok(match c {
            'a' => '\u{7}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.hexadecimal().ok_or_else(unknown)?,
            '0' => self.octal(c).ok_or_else(unknown)?,
            // A single digit would refer back to a group.
            '1'..='7' if self.rest.peek().is_some_and(|next| next.is_digit(8)) => {
                self.octal(c).ok_or_else(unknown)?
            }
            c if c.is_ascii_punctuation() || !c.is_ascii() => c,
            _ => return Err(unknown()),
        })
    }

    fn hexadecimal(&mut self) -> Option<char> {
        let braced = self.rest.next_if_eq(&'{').is_some();
        let mut digits = String::new();
        while digits.len() < if braced { 8 } else { 2 } {
            match self.rest.next_if(char::is_ascii_hexdigit) {
                Some(digit) => digits.push(digit),
                None => break,
            }
        }
        let closed = match braced {
            true => self.rest.next_if_eq(&'}').is_some(),
            false => digits.len() == 2,
        };
        let number = u32::from_str_radix(&digits, 16).ok()?;
        closed.then(|| char::from_u32(number))?
    }

    /// Up to three digits.
    fn octal(&mut self, first: char) -> Option<char> {
        let mut number = first.to_digit(8)?;
        for _ in 0..2 {
            match self.rest.next_if(|next| next.is_digit(8)) {
                Some(digit) => number = number * 8 + digit.to_digit(8)?,
                None => break,
            }
        }
        char::from_u32(number)
    }

    /// A class, after its opening bracket.
    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        while let Some(c) = self.rest.next() {
            if c == ']' && !first {
                self.out.push(']');
                return Ok(());
            }
            first = false;
            match c {
                '[' if self.rest.peek() == Some(&':') => self.posix(),
                '\\' if self.rest.next_if_eq(&'p').is_some() => self.property('p'),
                '\\' if self.rest.next_if_eq(&'P').is_some() => self.property('P'),
                '\\' if self.rest.peek().is_some_and(|&next| perl(next).is_some()) => {
                    let members = self.rest.next().and_then(perl).unwrap_or_default();
                    self.out.push_str(members);
                }
                c => self.range(c)?,
            }
        }
        Err("missing closing ]".to_owned())
    }

    /// A character of a class, or a range that begins with it.
    fn range(&mut self, c: char) -> Result<(), String> {
        let low = self.member(c)?;
        push_member(&mut self.out, low);
        let mut ahead = self.rest.clone();
        // `[a-]` is a letter and a dash.
        if ahead.next() == Some('-') && ahead.peek().is_some_and(|&next| next != ']') {
            self.rest.next();
            let Some(c) = self.rest.next() else {
                return Ok(());
            };
            let high = self.member(c)?;
            if high < low {
                return Err(format!("invalid character class range: `{low}-{high}`"));
            }
            self.out.push('-');
            push_member(&mut self.out, high);
        }
        Ok(())
    }

    fn member(&mut self, c: char) -> Result<char, String> {
        match (c, self.rest.peek()) {
            ('\\', Some(_)) => {
                let c = self.rest.next().unwrap_or_default();
                self.single(c)
            }
            (c, _) => Ok(c),
        }
    }

    /// `[:alpha:]`, after its opening bracket.
    fn posix(&mut self) {
        let name: String = self.rest.clone().take_while(|&c| c != ']').collect();
        if name.len() > 2 && name.ends_with(':') {
            self.out.push('[');
            self.out.push_str(&name);
            self.out.push(']');
            for _ in 0..=name.chars().count() {
                self.rest.next();
            }
        } else {
            self.out.push_str("\\[");
        }
    }
}

/// What `\d` and its like stand for in a class.
fn perl(c: char) -> Option<&'static str> {
    Some(match c {
        'd' => "0-9",
        'D' => "[^0-9]",
        'w' => "0-9A-Za-z_",
        'W' => "[^0-9A-Za-z_]",
        's' => "\\t\\n\\f\\r ",
        'S' => "[^\\t\\n\\f\\r ]",
        _ => return None,
    })
}

/// Writes a character of a class: those that mean something there are escaped.
fn push_member(out: &mut String, c: char) {
    if matches!(c, '[' | ']' | '\\' | '^' | '-' | '&' | '~') {
        out.push('\\');
    }
    out.push(c);
}

/// The length of `n}`, `n,}` or `n,m}` at the start of `rest`, and the numbers.
fn repetition(rest: Peekable<Chars<'_>>) -> Option<(usize, u64, Option<u64>)> {
    let body: String = rest
        .take_while(|&c| c.is_ascii_digit() || matches!(c, ',' | '}'))
        .collect();
    let length = body.find('}')?;
    let body = &body[..length];
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (low, high) = match body.split_once(',') {
        None => (number(body)?, Some(number(body)?)),
        Some((low, "")) => (number(low)?, None),
        Some((low, high)) => (number(low)?, Some(number(high)?)),
    };
    Some((length + 1, low, high))
}
