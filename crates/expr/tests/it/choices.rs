//! Choices that generators make, out of bytes: proptest makes the bytes shorter and smaller, and
//! with them what is generated.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

/// Bytes that decide. Once they are used up, every choice is the first.
#[derive(Clone)]
pub(crate) struct Choices {
    bytes: Vec<u8>,
    at: usize,
}

/// The bytes, so that a failing case can be written down.
impl std::fmt::Debug for Choices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.bytes)
    }
}

impl Choices {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }

    /// A number below `count`, which is above zero.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let mut number = self.byte();
        if count > 256 {
            number = number * 256 + self.byte();
        }
        number % count
    }

    fn byte(&mut self) -> usize {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(byte)
    }

    pub(crate) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }

    /// True once in so many times; never when nothing is left to choose by.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) + 1 == times
    }
}

pub(crate) fn choices() -> impl Strategy<Value = Choices> {
    prop::collection::vec(any::<u8>(), 1..240).prop_map(Choices::new)
}

/// The same cases in every run, unless `PROPTEST_RNG_SEED` asks for others.
pub(crate) fn config(cases: u32) -> Config {
    let config = Config::with_cases(cases);
    let rng_seed = match config.rng_seed {
        RngSeed::Random => RngSeed::Fixed(20_260),
        given @ RngSeed::Fixed(_) => given,
    };
    // A failure comes again by itself: nothing needs to remember it.
    Config {
        rng_seed,
        failure_persistence: None,
        ..config
    }
}
