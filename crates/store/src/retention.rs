//! When to drop history. Pure: it is told the time and decides.

use std::{collections::VecDeque, time::Duration};

use crate::revision::Revision;

/// How much history to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// History younger than this is kept, as far as the bounds below allow: how
    /// long a watcher or a paginated list may take a break.
    pub min_age: Duration,
    /// More revisions than this are not kept, however young: the bound on what
    /// history costs in memory.
    pub max_revisions: u64,
    /// More bytes of superseded content than this are not kept, however young:
    /// the bound on what history costs on disk.
    pub max_bytes: u64,
}

/// The memory of a retention: which revision was the newest when.
#[derive(Clone, Debug)]
pub struct Retention {
    policy: RetentionPolicy,
    seen: VecDeque<(Duration, Revision)>,
}

/// What history a store has. See [`Store::history`](crate::Store::history).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The newest revision.
    pub newest: Revision,
    /// The oldest readable revision.
    pub oldest: Revision,
    /// Where to cut because of bytes: the oldest readable revision if no more
    /// follow it than the policy allows, else the oldest one with some less
    /// than that after it, so that not every further write cuts again.
    pub fitting: Revision,
}

impl RetentionPolicy {
    /// How finely ages are told apart: in this many parts of `min_age`.
    const STEPS: u32 = 32;

    /// What is left when there was too much: a little less than the most, so
    /// that not every further write drops something.
    pub(crate) fn bytes_after_cut(&self) -> u64 {
        self.max_bytes - self.max_bytes / 8
    }
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self {
            min_age: Duration::from_secs(5 * 60),
            max_revisions: 250_000,
            max_bytes: 1 << 30,
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

    /// To be called from time to time, and when the store has outgrown the policy; answers to
    /// which revision to compact, if to any. `now` is a time that never goes back.
    pub fn tick(&mut self, now: Duration, history: History) -> Option<Revision> {
        let History {
            newest,
            oldest,
            fitting,
        } = history;
        self.note(now, newest);
        let mut target = newest
            .get()
            .checked_sub(self.policy.max_revisions)
            .map(Revision::new)
            .max(Some(fitting));
        while let Some(&(at, revision)) = self.seen.front() {
            if now.saturating_sub(at) < self.policy.min_age {
                break;
            }
            target = target.max(Some(revision));
            self.seen.pop_front();
        }
        target.filter(|target| *target > oldest)
    }

    fn note(&mut self, now: Duration, newest: Revision) {
        let step = self.policy.min_age / RetentionPolicy::STEPS;
        let due = self
            .seen
            .back()
            .is_none_or(|(at, revision)| *revision < newest && now.saturating_sub(*at) >= step);
        if due {
            self.seen.push_back((now, newest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetentionPolicy = RetentionPolicy {
        min_age: Duration::from_secs(100),
        max_revisions: 1000,
        max_bytes: u64::MAX,
    };

    /// Each tick: the second, the newest revision, the one that fits, and what is to be the
    /// oldest one after it.
    fn check(policy: RetentionPolicy, ticks: &[(u64, u64, u64, u64)]) {
        let mut retention = Retention::new(policy);
        let mut oldest = Revision::ZERO;
        for &(second, newest, fitting, expected) in ticks {
            let history = History {
                newest: Revision::new(newest),
                oldest,
                fitting: Revision::new(fitting).max(oldest),
            };
            if let Some(to) = retention.tick(Duration::from_secs(second), history) {
                assert!(to > oldest, "second {second}: {to} is not after {oldest}");
                oldest = to;
            }
            assert_eq!(oldest, Revision::new(expected), "second {second}");
            assert!(retention.seen.len() <= 2 + RetentionPolicy::STEPS as usize);
        }
    }

    #[test]
    fn history_is_dropped_when_it_is_old_enough() {
        check(
            POLICY,
            &[
                (0, 10, 0, 0),
                (50, 20, 0, 0),
                (99, 25, 0, 0),
                (100, 30, 0, 10),
                (150, 30, 0, 20),
                (400, 30, 0, 30),
            ],
        );
    }

    #[test]
    fn an_idle_store_is_compacted_once() {
        check(POLICY, &[(0, 0, 0, 0), (200, 0, 0, 0)]);
        check(POLICY, &[(0, 5, 0, 0), (100, 5, 0, 5), (200, 5, 0, 5)]);
    }

    #[test]
    fn too_much_history_is_dropped_however_young() {
        let policy = RetentionPolicy {
            max_revisions: 100,
            ..POLICY
        };
        check(
            policy,
            &[
                (0, 50, 0, 0),
                (1, 150, 0, 50),
                (2, 151, 0, 51),
                (3, 1000, 0, 900),
                (4, 1000, 950, 950),
                (5, 1001, 0, 950),
            ],
        );
    }

    #[test]
    fn frequent_ticks_do_not_fill_memory() {
        let policy = RetentionPolicy {
            max_revisions: u64::MAX,
            ..POLICY
        };
        let ticks: Vec<_> = (0..100).map(|second| (second, second, 0, 0)).collect();
        check(policy, &ticks);
    }
}
