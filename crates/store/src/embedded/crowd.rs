//! How long a batch waits for those who are about to write, too.
//!
//! A sync costs as much as tens of transactions, and who was answered together soon writes again:
//! a batch that follows a large one waits until as many have come, but never longer than the last
//! append took, so that waiting at most doubles the time of a write. Few writers never wait.

use std::time::Duration;

/// Fewer are no crowd.
const CROWD: usize = 8;
const LONGEST: Duration = Duration::from_millis(2);

/// The last batch: how many transactions it had, and how long it took to make them durable.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crowd {
    pub(super) size: usize,
    pub(super) took: Duration,
}

impl Crowd {
    /// How many the next batch waits for, and how long at most.
    pub(super) fn patience(self) -> Option<(usize, Duration)> {
        (self.size >= CROWD).then(|| (self.size, self.took.min(LONGEST)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crowds_are_waited_for_and_not_for_long() {
        let check = |size: usize, micros: u64, expected: Option<(usize, u64)>| {
            let took = Duration::from_micros(micros);
            let patience = Crowd { size, took }.patience();
            let expected = expected.map(|(size, time)| (size, Duration::from_micros(time)));
            assert_eq!(patience, expected, "{size} {micros}");
        };
        check(0, 0, None);
        check(7, 5_000, None);
        check(8, 300, Some((8, 300)));
        check(64, 1_500, Some((64, 1_500)));
        check(64, 50_000, Some((64, 2_000)));
    }
}
