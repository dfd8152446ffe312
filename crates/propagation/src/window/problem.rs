//! What is wrong with a window, and what to change.

use std::fmt;

/// Something that is wrong with a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarProblem {
    /// The field of the declaration, as it is written there.
    pub field: &'static str,
    pub message: String,
    /// What to change.
    pub hint: String,
}

/// Everything that is wrong with a window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CalendarProblems(pub Vec<CalendarProblem>);

/// Something, or what is wrong with it.
pub(super) type Found<T> = Result<T, CalendarProblem>;

// === impl CalendarProblem ===

impl CalendarProblem {
    pub(super) fn new(
        field: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            field,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for CalendarProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.field, self.message, self.hint)
    }
}

// === impl CalendarProblems ===

impl fmt::Display for CalendarProblems {
    /// One problem to a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, problem) in self.0.iter().enumerate() {
            if line > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}
