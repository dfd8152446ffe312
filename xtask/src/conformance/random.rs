//! A small generator of random numbers, the same on every machine.

use serde_json::{Map, Value, json};

/// SplitMix64.
pub(super) struct Random(u64);

// === impl Random ===

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give overlapping sequences.
        Self(Self(seed).next() ^ seed.rotate_left(32))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or_default()
    }

    /// True in `percent` of all cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    pub(super) fn word(&mut self) -> &'static str {
        self.pick(&["a", "b", "c", "d"])
    }

    /// A few of the items, in any order.
    pub(super) fn some<T: Clone>(&mut self, items: &[T]) -> Vec<T> {
        let mut left = items.to_vec();
        let mut out = Vec::new();
        while !left.is_empty() && self.chance(65) {
            out.push(left.remove(self.below(left.len())));
        }
        out
    }

    /// A value of any shape.
    pub(super) fn anything(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.chance(50)),
            2 => json!(i64::try_from(self.below(5)).unwrap_or_default() - 2),
            3 => json!(1.5),
            4 | 5 => json!(self.word()),
            6 => (0..self.below(3))
                .map(|_| self.anything(depth - 1))
                .collect(),
            _ => {
                let count = self.below(3);
                let entries =
                    (0..count).map(|_| (self.word().to_owned(), self.anything(depth - 1)));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}
