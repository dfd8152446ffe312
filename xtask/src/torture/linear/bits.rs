//! A set of small numbers.

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Bits(Box<[u64]>);

// === impl Bits ===

impl Bits {
    /// An empty set of numbers below `size`.
    pub(super) fn new(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)].into())
    }

    pub(super) fn set(&mut self, index: usize, on: bool) {
        let bit = 1 << (index % 64);
        match on {
            true => self.0[index / 64] |= bit,
            false => self.0[index / 64] &= !bit,
        }
    }

    /// Whether the other set holds all of this one.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let mut words = self.0.iter().zip(&other.0);
        words.all(|(own, other)| own & !other == 0)
    }
}
