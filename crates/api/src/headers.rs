//! Headers of our own.

/// The revision from which on a write is visible. On the answer to every write that was carried out.
pub const REVISION: &str = "deltaplane-revision";
