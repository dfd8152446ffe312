//! What a command has to say, and whether it got what it wanted.

use std::io::Write;

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

    /// Writes the data, and then hints and warnings: people look first at what comes last. Returns
    /// false if the data could not be written.
    pub(crate) fn write(&self, out: &mut impl Write, err: &mut impl Write) -> bool {
        let written = out.write_all(self.out.as_bytes());
        let written = written.and_then(|()| out.flush());
        // Whoever closed it does not want to read it.
        let _ = err.write_all(self.err.as_bytes());
        written.is_ok()
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
    use std::cell::RefCell;
    use std::io::{self, BufWriter};

    use super::*;

    /// Where both streams end up: the terminal.
    struct Terminal<'t>(&'t RefCell<Vec<u8>>);

    impl Write for Terminal<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn hints_come_after_the_data() {
        let shown = RefCell::new(Vec::new());
        let said = Said {
            out: "ZONE\na\n".to_owned(),
            err: "hint: look\n".to_owned(),
            good: true,
        };
        let mut out = BufWriter::new(Terminal(&shown));
        assert!(said.write(&mut out, &mut Terminal(&shown)));
        assert_eq!(*shown.borrow(), b"ZONE\na\nhint: look\n");
    }

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
