//! The store's clock: one number per transaction, totally ordered, never reused.

use std::fmt;

/// The position of a transaction in the store's total order.
///
/// The first transaction of a store gets revision 1; [`Revision::ZERO`] is the
/// state before it. Revisions grow and may leave gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

/// Where one operation is in the log: its transaction's revision and its
/// position in the transaction, packed so that rows sort in log order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(u64);

// === impl Revision ===

impl Revision {
    /// The empty store, before its first write.
    pub const ZERO: Self = Self(0);
    /// The highest revision that a [`Row`] can hold; at a million writes per
    /// second it lasts for two thousand years.
    pub const MAX: Self = Self(u64::MAX >> Row::INDEX_BITS);

    /// Builds a revision from a number, capped at [`Revision::MAX`].
    #[must_use]
    pub const fn new(number: u64) -> Self {
        if number > Self::MAX.0 {
            Self::MAX
        } else {
            Self(number)
        }
    }

    /// The number, as it appears in `metadata.resourceVersion`.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next revision in order.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Row ===

impl Row {
    const INDEX_BITS: u32 = 8;
    /// How many operations one transaction may hold.
    pub const OPS: usize = 1 << Self::INDEX_BITS;

    /// The row of operation `index` of the transaction at `revision`.
    #[must_use]
    pub const fn new(revision: Revision, index: u8) -> Self {
        Self((revision.0 << Self::INDEX_BITS) | index as u64)
    }

    /// Reads back what [`Row::to_bits`] wrote.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The packed form, which sorts in log order.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The transaction's revision.
    #[must_use]
    pub const fn revision(self) -> Revision {
        Revision(self.0 >> Self::INDEX_BITS)
    }

    /// The operation's position in its transaction.
    #[must_use]
    pub const fn index(self) -> u8 {
        (self.0 & (Self::OPS as u64 - 1)) as u8
    }

    /// The first row after every row of `revision`, packed.
    #[must_use]
    pub(crate) const fn after(revision: Revision) -> u64 {
        if revision.0 == Revision::MAX.0 {
            return u64::MAX;
        }
        (revision.0 + 1) << Self::INDEX_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_sort_as_revision_then_index() {
        let row = Row::new(Revision::new(7), 255);
        assert_eq!((row.revision(), row.index()), (Revision::new(7), 255));
        assert!(row < Row::new(Revision::new(8), 0));
        assert_eq!(
            Row::after(Revision::new(7)),
            Row::new(Revision::new(8), 0).to_bits()
        );
        assert_eq!(Row::new(Revision::MAX, 255).revision(), Revision::MAX);
        assert_eq!(Revision::new(u64::MAX), Revision::MAX);
    }
}
