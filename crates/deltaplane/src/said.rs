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
}
