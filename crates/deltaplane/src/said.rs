//! What a command has to say, and whether it got what it wanted.

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Data.
    pub(crate) out: String,
    /// For people.
    pub(crate) err: String,
    pub(crate) good: bool,
}
