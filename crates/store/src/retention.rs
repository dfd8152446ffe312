//! When to drop history. Pure: it is told the time and decides.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::revision::Revision;

/// How much history to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// History younger than this is kept, as far as `max_revisions` allows: how
    /// long a watcher or a paginated list may take a break.
    pub min_age: Duration,
    /// More revisions than this are not kept, however young: the bound on what
    /// history costs in memory and on disk.
    pub max_revisions: u64,
}

/// The memory of a retention: which revision was the newest when.
#[derive(Clone, Debug)]
pub struct Retention {
    policy: RetentionPolicy,
    seen: VecDeque<(Instant, Revision)>,
}

impl RetentionPolicy {
    /// How finely ages are told apart: in this many parts of `min_age`.
    const STEPS: u32 = 32;
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self {
            min_age: Duration::from_secs(5 * 60),
            max_revisions: 250_000,
        }
    }
}

impl Retention {
    /// Starts without knowing how old anything is; what is there counts from
    /// the first tick.
    #[must_use]
    pub fn new(policy: RetentionPolicy) -> Self {
        Self {
            policy,
            seen: VecDeque::new(),
        }
    }

    /// To be called from time to time with the store's newest and oldest
    /// revisions; answers to which revision to compact, if to any.
    pub fn tick(&mut self, now: Instant, newest: Revision, oldest: Revision) -> Option<Revision> {
        self.note(now, newest);
        let age = |at: Instant| now.saturating_duration_since(at);
        let mut target = newest
            .get()
            .checked_sub(self.policy.max_revisions)
            .map(Revision::new);
        while let Some(&(at, revision)) = self.seen.front() {
            if age(at) < self.policy.min_age {
                break;
            }
            target = target.max(Some(revision));
            self.seen.pop_front();
        }
        target.filter(|target| *target > oldest)
    }

    fn note(&mut self, now: Instant, newest: Revision) {
        let step = self.policy.min_age / RetentionPolicy::STEPS;
        let due = self.seen.back().is_none_or(|(at, revision)| {
            *revision < newest && now.saturating_duration_since(*at) >= step
        });
        if due {
            self.seen.push_back((now, newest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each tick: the second, the newest revision, and what is to be the
    /// oldest one after it.
    fn check(policy: RetentionPolicy, ticks: &[(u64, u64, u64)]) {
        let start = Instant::now();
        let mut retention = Retention::new(policy);
        let mut oldest = Revision::ZERO;
        for &(second, newest, expected) in ticks {
            let now = start + Duration::from_secs(second);
            if let Some(to) = retention.tick(now, Revision::new(newest), oldest) {
                assert!(to > oldest, "second {second}: {to} is not after {oldest}");
                oldest = to;
            }
            assert_eq!(oldest, Revision::new(expected), "second {second}");
            assert!(retention.seen.len() <= 2 + RetentionPolicy::STEPS as usize);
        }
    }

    #[test]
    fn history_is_dropped_when_it_is_old_enough() {
        let policy = RetentionPolicy {
            min_age: Duration::from_secs(100),
            max_revisions: 1000,
        };
        check(
            policy,
            &[
                (0, 10, 0),
                (50, 20, 0),
                (99, 25, 0),
                (100, 30, 10),
                (150, 30, 20),
                (400, 30, 30),
            ],
        );
    }

    #[test]
    fn an_idle_store_is_compacted_once() {
        let policy = RetentionPolicy {
            min_age: Duration::from_secs(10),
            max_revisions: 1000,
        };
        check(policy, &[(0, 5, 0), (10, 5, 5), (20, 5, 5), (30, 5, 5)]);
        let mut retention = Retention::new(policy);
        let now = Instant::now();
        assert_eq!(retention.tick(now, Revision::ZERO, Revision::ZERO), None);
    }

    #[test]
    fn too_much_history_is_dropped_however_young() {
        let policy = RetentionPolicy {
            min_age: Duration::from_secs(1000),
            max_revisions: 100,
        };
        check(
            policy,
            &[(0, 50, 0), (1, 150, 50), (2, 151, 51), (3, 1000, 900)],
        );
    }

    #[test]
    fn frequent_ticks_do_not_fill_memory() {
        let policy = RetentionPolicy {
            min_age: Duration::from_secs(100),
            max_revisions: u64::MAX,
        };
        let ticks: Vec<_> = (0..100).map(|second| (second, second, 0)).collect();
        check(policy, &ticks);
    }
}
