//! Where we differ on purpose: `docs/kro-compatibility.md` says more of it.

/// Names of cases, and why they differ.
pub(super) const KNOWN: &[(&str, &str)] = &[];
