//! Patterns, in Go's regular expression syntax, matched in linear time.
//!
//! The syntax is close to that of the `regex` crate; what differs is translated (`go`).

mod go;

use std::collections::HashSet;
use std::fmt;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// Compiled patterns may not be larger than this.
const SIZE_LIMIT: usize = 2 << 20;

/// How large compiled patterns are found to be, one after the other.
const SIZES: [usize; 4] = [8 << 10, 64 << 10, 512 << 10, SIZE_LIMIT];

/// What all patterns of one author may take when they are compiled, which is as much as to say how
/// long that may take.
const TOTAL: usize = 64 << 20;

/// A pattern, compiled when it is first used: most schemas are loaded long before that.
pub struct Pattern {
    source: Box<str>,
    places: u64,
    regex: OnceLock<Option<Regex>>,
}

// === impl Pattern ===

impl Pattern {
    pub fn new(source: &str) -> Self {
        Self {
            source: source.into(),
            places: places(source),
            regex: OnceLock::new(),
        }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// See [`places`].
    pub fn places(&self) -> u64 {
        self.places
    }

    /// Nothing for a pattern that does not compile.
    pub fn regex(&self) -> Option<&Regex> {
        let compile = || compile_pattern(&self.source, SIZE_LIMIT).ok();
        self.regex.get_or_init(compile).as_ref()
    }

    /// Whether `text` contains a match; never for a pattern that does not compile.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex().is_some_and(|regex| regex.is_match(text))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

/// The patterns that one author may have checked: those of a definition, or of an expression.
#[derive(Debug)]
pub struct PatternBudget {
    /// Nothing when they were checked before, and are trusted.
    left: Option<usize>,
    /// The same ones come again and again.
    checked: HashSet<Box<str>>,
}

// === impl PatternBudget ===

impl Default for PatternBudget {
    fn default() -> Self {
        Self {
            left: Some(TOTAL),
            checked: HashSet::new(),
        }
    }
}

impl PatternBudget {
    /// For patterns that were checked when they were written: they are compiled when they are used.
    pub fn trusting() -> Self {
        Self {
            left: None,
            ..Self::default()
        }
    }

    /// Why `source` is no pattern, or one too many.
    pub fn check(&mut self, source: &str) -> Result<(), String> {
        let Some(left) = &mut self.left else {
            return Ok(());
        };
        if self.checked.contains(source) {
            return Ok(());
        }
        let translated = go::translate(source)?;
        for size in SIZES {
            if size > *left {
                return Err("all expressions together are too large".to_owned());
            }
            match build(&translated, size) {
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(said(&error)),
                Ok(_) => {
                    *left -= size;
                    self.checked.insert(source.into());
                    return Ok(());
                }
            }
        }
        *left -= SIZE_LIMIT;
        Err(TOO_LARGE.to_owned())
    }
}

const TOO_LARGE: &str = "expression is too large";

/// Compiles a pattern in Go's syntax; an error says why it is none, or that it is larger than
/// `size`.
pub fn compile_pattern(source: &str, size: usize) -> Result<Regex, String> {
    let translated = go::translate(source)?;
    build(&translated, size).map_err(|error| said(&error))
}

fn build(translated: &str, size: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(translated).size_limit(size).build()
}

fn said(error: &regex::Error) -> String {
    if matches!(error, regex::Error::CompiledTooBig(_)) {
        return TOO_LARGE.to_owned();
    }
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim().to_owned()
}

/// How many places a pattern has at which it can be at once, about: its characters and classes,
/// what is repeated by number as often as it is. Matching takes as many times as long, at worst.
pub fn places(pattern: &str) -> u64 {
    /// Larger ones are not compiled.
    const MOST: u64 = 1 << 20;
    // The places of the groups that are open, and of what stands last.
    let mut groups = vec![0_u64];
    let mut last = 0_u64;
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let (length, size) = match c {
            '\\' => (escape_length(rest), 1),
            '[' => (class_length(rest), 1),
            '(' => {
                groups.push(0);
                (1, 0)
            }
            ')' if groups.len() > 1 => (1, groups.pop().unwrap_or(0).max(1)),
            '{' => match counts(rest) {
                Some((length, most)) => {
                    // It was counted once already.
                    (length, last.saturating_mul(most.max(1) - 1))
                }
                None => (1, 1),
            },
            '*' | '+' | '?' | '|' | '^' | '$' => (1, 0),
            c => (c.len_utf8(), 1),
        };
        if let Some(group) = groups.last_mut() {
            *group = group.saturating_add(size).min(MOST);
        }
        last = size;
        rest = rest.get(length..).unwrap_or_default();
    }
    groups.iter().sum::<u64>().clamp(1, MOST)
}

fn escape_length(rest: &str) -> usize {
    let mut chars = rest.chars();
    let (slash, escaped) = (chars.next(), chars.next());
    let named = rest.get(2..).is_some_and(|rest| rest.starts_with('{'));
    match (escaped, named.then(|| rest.find('}')).flatten()) {
        (Some('p' | 'P' | 'x'), Some(end)) => end + 1,
        _ => slash.map_or(0, char::len_utf8) + escaped.map_or(0, char::len_utf8),
    }
}

/// `[…]`: a bracket that stands first is one of its characters.
fn class_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1).peekable();
    chars.next_if(|(_, c)| *c == '^');
    chars.next_if(|(_, c)| *c == ']');
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            ']' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `{3}`, `{3,}`, `{3,5}`: how long it is, and how often at most.
fn counts(rest: &str) -> Option<(usize, u64)> {
    let end = rest.find('}')?;
    let (least, most) = match rest[1..end].split_once(',') {
        Some((least, most)) => (least.parse().ok()?, most.parse().ok()),
        None => (rest[1..end].parse().ok()?, None),
    };
    Some((end + 1, most.unwrap_or(least)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str) -> Result<(), String> {
        PatternBudget::default().check(pattern)
    }

    fn megabytes(count: usize) -> PatternBudget {
        PatternBudget {
            left: Some(count << 20),
            ..PatternBudget::default()
        }
    }

    #[test]
    fn all_patterns_together_are_bounded() {
        let refused = |budget: &mut PatternBudget, pattern: &str| {
            let mut each = (0..20).map(|n| budget.check(&format!("{pattern}{n}")));
            each.position(|found| found == Err("all expressions together are too large".to_owned()))
        };
        let mut budget = megabytes(5);
        assert_eq!(refused(&mut budget, r"\pL{20}"), Some(2));
        assert_eq!(
            budget.check(r"\pL{20}0"),
            Ok(()),
            "a known one costs nothing"
        );
        // Those that are too large took as long.
        assert_eq!(refused(&mut megabytes(5), r"\pL{999}"), Some(2));
        assert_eq!(refused(&mut megabytes(5), "^[a-z]"), None);
    }

    #[test]
    fn places_are_counted() {
        for (pattern, count) in [
            ("", 1),
            ("^[a-z]+$", 1),
            ("abc", 3),
            ("a{3}", 3),
            ("(a{2,3}){5,}", 15),
            ("a{900}b{900}", 1800),
            ("(ab|c)*d", 4),
            ("a{,3}", 5),
            ("{{}", 3),
            (r"\p{L}{20}", 20),
            (r"[]a]{4}[^]b]\]", 6),
            (r"\x{41}\d", 2),
            ("((x{10}){10}){10}", 1000),
            ("(", 1),
            ("[", 1),
            ("\\", 1),
        ] {
            assert_eq!(places(pattern), count, "{pattern}");
        }
    }

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
            (r"^[^<>]+$", "a<b", false),
            (r"^[<>=~!^]+$", "<=~!^>", true),
            (r"^[\<\-\]]+$", "<-]", true),
            (r"^\p{L}+$", "é", true),
            (r"^[\p{Greek}\d]+$", "α1", true),
            (r"^\pL\PL$", "a1", true),
            (r"^\x{41}\x42\07\101$", "AB\u{7}A", true),
            (r"^[\x{41}-C]+$", "ABC", true),
            (r"^[a-c-e]+$", "b-e", true),
            (r"^(?P<year>\d{4})(?s:.)(?:x|y)*?$", "2024\nxy", true),
            (r"^[a-z]{1,1000}$", "abc", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
            assert_eq!(
                Pattern::new(pattern).matches(text),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn bad_patterns_are_refused() {
        for pattern in [
            "(",
            "[a",
            "a{1000000}{1000000}",
            r"(?=a)",
            r"\1",
            "*",
            "a**",
            "x*+",
            "a*?*",
            "a{2}{3}",
            "a{1001}",
            "(a{100}){11}",
            "((a{1,30}){1,30}){1,10}",
            "((a{30}|b){2}|c{30}){20}",
            "[a--b]",
            r"[a-\d]",
            r"\u0041",
            r"\",
            "(?x)a",
            "(?u)a",
            "(?-u)a",
            "(?R)",
        ] {
            assert!(check(pattern).is_err(), "{pattern}");
            assert!(!Pattern::new(pattern).matches("a"), "{pattern}");
        }
    }
}
