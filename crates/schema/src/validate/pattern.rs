//! Patterns, in Go's regular expression syntax, matched in linear time.
//!
//! The syntax is close to that of the `regex` crate; what differs is translated: `\d`, `\w`, `\s`
//! and `\b` are ASCII, a class holds no nested classes and no set operations, a brace that begins
//! no repetition is a brace, and `\Q…\E` quotes.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// Compiled patterns may not be larger than this.
const SIZE_LIMIT: usize = 2 << 20;

/// A pattern, compiled when it is first used: most schemas are loaded long before that.
pub(crate) struct Pattern {
    source: Box<str>,
    regex: OnceLock<Option<Regex>>,
}

// === impl Pattern ===

impl Pattern {
    pub(crate) fn new(source: &str) -> Self {
        Self {
            source: source.into(),
            regex: OnceLock::new(),
        }
    }

    /// Why `source` is no pattern.
    pub(crate) fn check(source: &str) -> Result<(), String> {
        compile(source).map(drop)
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Whether `text` contains a match; never for a pattern that does not compile.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let regex = self.regex.get_or_init(|| compile(&self.source).ok());
        regex.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

/// Compiles a pattern in Go's syntax; an error says why it is none, or that it is too large.
pub fn compile(source: &str) -> Result<Regex, String> {
    compile_within(source, SIZE_LIMIT)
}

/// Like [`compile`], with a size of the caller's.
pub fn compile_within(source: &str, size: usize) -> Result<Regex, String> {
    let translated = translate(source);
    let regex = RegexBuilder::new(&translated).size_limit(size).build();
    regex.map_err(|error| {
        if matches!(error, regex::Error::CompiledTooBig(_)) {
            return "expression is too large".to_owned();
        }
        error
            .to_string()
            .lines()
            .last()
            .unwrap_or_default()
            .trim()
            .to_owned()
    })
}

fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 8);
    let mut rest = source.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, &mut out),
            '[' => class(&mut rest, &mut out),
            '{' => match repetition(rest.clone()) {
                Some(length) => {
                    out.push('{');
                    out.extend(rest.by_ref().take(length));
                }
                None => out.push_str("\\{"),
            },
            '}' => out.push_str("\\}"),
            other => out.push(other),
        }
    }
    out
}

/// The length of `n}`, `n,}` or `n,m}` at the start of `rest`.
fn repetition(rest: Peekable<Chars<'_>>) -> Option<usize> {
    let body: String = rest
        .take_while(|&c| c.is_ascii_digit() || matches!(c, ',' | '}'))
        .collect();
    let length = body.find('}')?;
    let body = &body[..length];
    let (low, high) = body.split_once(',').unwrap_or((body, ""));
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    (!low.is_empty() && digits(low) && digits(high)).then_some(length + 1)
}

fn escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    match rest.next() {
        None => out.push('\\'),
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('w') => out.push_str("[0-9A-Za-z_]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some('s') => out.push_str("[\\t\\n\\f\\r ]"),
        Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
        Some('b') => out.push_str("(?-u:\\b)"),
        Some('Q') => quoted(rest, out),
        Some(c) => escaped(c, out),
    }
}

fn quoted(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    let mut text = String::new();
    while let Some(c) = rest.next() {
        if c == '\\' && rest.peek() == Some(&'E') {
            rest.next();
            break;
        }
        text.push(c);
    }
    out.push_str(&regex::escape(&text));
}

fn escaped(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() || !c.is_ascii() {
        out.push('\\');
        out.push(c);
    } else {
        out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
    }
}

/// A class, after its opening bracket.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    if rest.peek() == Some(&'^') {
        rest.next();
        out.push('^');
    }
    let mut first = true;
    while let Some(c) = rest.next() {
        match c {
            ']' if !first => {
                out.push(']');
                return;
            }
            '[' if rest.peek() == Some(&':') => posix(rest, out),
            '\\' => class_escape(rest, out),
            // A dash between two members is a range, any other is a dash.
            '-' if !first && rest.peek().is_some_and(|&next| next != ']') => out.push('-'),
            c if c.is_ascii_alphanumeric() || !c.is_ascii() => out.push(c),
            c if c.is_ascii_punctuation() => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        first = false;
    }
}

fn class_escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    match rest.next() {
        None => out.push('\\'),
        Some('d') => out.push_str("0-9"),
        Some('D') => out.push_str("[^0-9]"),
        Some('w') => out.push_str("0-9A-Za-z_"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some('s') => out.push_str("\\t\\n\\f\\r "),
        Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
        Some(c) if c.is_ascii_punctuation() => {
            out.push('\\');
            out.push(c);
        }
        Some(c) => {
            out.push('\\');
            out.push(c);
        }
    }
}

/// `[:alpha:]`, after its opening bracket.
fn posix(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    let name: String = rest.clone().take_while(|&c| c != ']').collect();
    if name.len() > 2 && name.ends_with(':') {
        out.push('[');
        out.push_str(&name);
        out.push(']');
        for _ in 0..=name.chars().count() {
            rest.next();
        }
    } else {
        out.push_str("\\[");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "१२", false),
            (r"^[\w.-]+$", "a_b.c-d", true),
            (r"^[\w.-]+$", "é", false),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[^[]+$", "abc", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[+--]+$", "+,-", true),
            (r"^[]a]+$", "]a", true),
            (r"^{.*}$", "{x}", true),
            (r"^a{2,3}$", "aaa", true),
            (r"^a{,3}$", "a{,3}", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\/x\-y\_z$", "/x-y_z", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^$", "", true),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
            (r"^(/[^/~]*(~[01][^/~]*)*)*$", "/a/b", true),
            (r"^(?i)abc$", "ABC", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Pattern::check(pattern), Ok(()), "{pattern}");
            assert_eq!(
                Pattern::new(pattern).matches(text),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn bad_patterns_are_refused() {
        for pattern in ["(", "[a", "a{1000000}{1000000}", r"(?=a)", r"\1", "*"] {
            assert!(Pattern::check(pattern).is_err(), "{pattern}");
            assert!(!Pattern::new(pattern).matches("a"), "{pattern}");
        }
    }
}
