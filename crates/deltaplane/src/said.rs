//! What a command has to say, and whether it got what it wanted.

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Data.
    pub(crate) out: String,
    /// For people.
    pub(crate) err: String,
    pub(crate) good: bool,
}

// === impl Said ===

impl Said {
    /// Data, and nothing else.
    pub(crate) fn of_data(out: String) -> Self {
        Self {
            out,
            err: String::new(),
            good: true,
        }
    }

    /// The same, for terminals.
    pub(crate) fn printable(self) -> Self {
        Self {
            out: printable(self.out),
            err: printable(self.err),
            good: self.good,
        }
    }
}

/// Without what would move the cursor of a terminal, show text in another order, or do worse; lines
/// stay.
pub(crate) fn printable(text: String) -> String {
    let reorders = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || reorders(c);
    match text.contains(bad) {
        true => text.replace(bad, "\u{fffd}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_how_a_terminal_shows_text_is_replaced() {
        let check = |text: &str, expected: &str| {
            assert_eq!(printable(text.to_owned()), expected, "{text:?}");
        };
        check("a line\n\tand é, ✓, שלום\n", "a line\n\tand é, ✓, שלום\n");
        check("\u{1b}[2J\r\u{9b}", "\u{fffd}[2J\u{fffd}\u{fffd}");
        check(
            "\u{202a}\u{202e}a\u{2066}\u{2069}",
            "\u{fffd}\u{fffd}a\u{fffd}\u{fffd}",
        );
    }
}
