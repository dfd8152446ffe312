//! Numbers that look random and are the same for the same seed.
//!
//! SplitMix64: small, fast, and good enough to choose what a client does next.

use std::ops::Range;
use std::time::Duration;

/// A source of choices.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

// === impl Random ===

impl Random {
    /// One of many independent sources that belong to a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut whole = Self(seed);
        let salt = whole.next() ^ stream.wrapping_mul(STEP);
        Self(salt)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in the range, which is not empty.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start).max(1)
    }

    /// Whether something that happens so often in a hundred times happens now.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.within(0..100) < chance
    }

    /// A duration in the range.
    pub(crate) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.within(range.start * 1000..range.end * 1000))
    }

    /// One of several, each as often as its weight says.
    pub(crate) fn pick<T: Copy, const N: usize>(&mut self, weighted: [(u64, T); N]) -> T {
        let total = weighted.iter().map(|(weight, _)| weight).sum();
        let mut left = self.within(0..total);
        for (weight, value) in weighted {
            if left < weight {
                return value;
            }
            left -= weight;
        }
        weighted[N - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(seed: u64, stream: u64) -> Vec<u64> {
        let mut random = Random::new(seed, stream);
        (0..8).map(|_| random.within(0..1000)).collect()
    }

    #[test]
    fn a_seed_gives_the_same_choices_and_its_streams_differ() {
        assert_eq!(draws(7, 1), draws(7, 1));
        assert_ne!(draws(7, 1), draws(7, 2));
        assert_ne!(draws(7, 1), draws(8, 1));
    }

    #[test]
    fn weights_count() {
        let mut random = Random::new(1, 1);
        let mut counts = [0_u32; 3];
        for _ in 0..10_000 {
            counts[random.pick([(0, 0_usize), (1, 1), (3, 2)])] += 1;
        }
        assert_eq!(counts[0], 0);
        assert!((2_200..2_800).contains(&counts[1]), "{counts:?}");
    }
}
