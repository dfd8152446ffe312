//! What is wrong with a policy, and what to change.

use std::fmt;

/// Something that is wrong, with its place in the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Such as `spec.stages[1].soak`.
    pub path: String,
    pub message: String,
    /// What would do.
    pub hint: Option<String>,
}

// === impl Problem ===

impl Problem {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
            hint: None,
        }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}
