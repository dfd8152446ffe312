//! Patterns, in Go's regular expression syntax, matched in linear time.
//!
//! The syntax is close to that of the `regex` crate; what differs is translated (`go`).

mod go;

use std::fmt;
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
    let translated = go::translate(source)?;
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

/// How many times a pattern repeats parts of itself by number, at most: `a{3}` three times,
/// `(a{3}){5}` fifteen. Matching takes as many times as long, at worst.
pub fn repetitions(pattern: &str) -> u64 {
    /// Go takes no pattern that repeats more.
    const MOST: u64 = 1000;
    let counts = pattern.split('{').skip(1).filter_map(|rest| {
        let (counts, _) = rest.split_once('}')?;
        let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
        most.parse().or_else(|_| least.parse::<u64>()).ok()
    });
    counts.fold(1, |product: u64, count| {
        product.saturating_mul(count.max(1)).min(MOST)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_counted() {
        for (pattern, count) in [
            ("", 1),
            ("^[a-z]+$", 1),
            ("a{3}", 3),
            ("(a{2,3}){5,}", 15),
            ("a{900}b{900}", 1000),
            ("a{,3}", 3),
            ("{{}", 1),
            (r"\p{L}{0}", 1),
        ] {
            assert_eq!(repetitions(pattern), count, "{pattern}");
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
            assert!(Pattern::check(pattern).is_err(), "{pattern}");
            assert!(!Pattern::new(pattern).matches("a"), "{pattern}");
        }
    }
}
