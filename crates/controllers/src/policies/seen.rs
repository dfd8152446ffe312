//! What need not be done again: policies of which nothing is news, and policies that were compiled.
//! Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use deltaplane_propagation::stages::{Policy, PolicyFacts, Problem};

/// When time alone may change something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wake {
    /// By the time of day.
    pub(super) at: Option<SystemTime>,
    /// By the time that has elapsed, which does not go back.
    pub(super) after: Option<Duration>,
}

/// Policies about which all was said, by what was known then.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<String, Done>);

#[derive(Debug)]
struct Done {
    stamp: u64,
    wake: Wake,
}

/// Policies as they are decided by, of the generation that was seen last.
#[derive(Default)]
pub(super) struct Compiled(BTreeMap<String, (Generation, Arc<Outcome>)>);

/// Of which object, and which of its specs.
type Generation = (String, u64);

/// A policy, or what is wrong with it.
type Outcome = Result<Policy, Vec<Problem>>;

// === impl Wake ===

impl Wake {
    /// Whichever comes first.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            at: self.at.into_iter().chain(other.at).min(),
            after: self.after.into_iter().chain(other.after).min(),
        }
    }

    fn is_later(self, now: SystemTime, elapsed: Duration) -> bool {
        self.at.is_none_or(|at| at > now) && self.after.is_none_or(|after| after > elapsed)
    }
}

// === impl Seen ===

impl Seen {
    /// Whether there is nothing to be done about a policy; and when there may be.
    pub(super) fn unchanged(
        &self,
        policy: &str,
        stamp: Option<u64>,
        (now, elapsed): (SystemTime, Duration),
    ) -> Option<Wake> {
        let done = self.0.get(policy)?;
        let is_early = done.wake.is_later(now, elapsed);
        (Some(done.stamp) == stamp && is_early).then_some(done.wake)
    }

    /// All was said about a policy, as it was at a stamp.
    pub(super) fn done(&mut self, policy: &str, stamp: Option<u64>, wake: Wake) {
        match stamp {
            Some(stamp) => self.0.insert(policy.to_owned(), Done { stamp, wake }),
            None => self.0.remove(policy),
        };
    }

    pub(super) fn keep(&mut self, policies: &[String]) {
        self.0.retain(|name, _| policies.contains(name));
    }
}

// === impl Compiled ===

impl Compiled {
    pub(super) fn of(&mut self, name: &str, facts: &PolicyFacts) -> Arc<Outcome> {
        let metadata = &facts.object["metadata"];
        let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
        let generation = metadata["generation"]
            .as_u64()
            .filter(|_| facts.unreadable.is_none());
        // No generation says whether the inputs of decisions can be read.
        let Some(generation) = generation.map(|generation| (uid, generation)) else {
            return Arc::new(facts.policy());
        };
        match self.0.get(name) {
            Some((known, policy)) if *known == generation => policy.clone(),
            Some(_) | None => {
                let policy = Arc::new(facts.policy());
                let kept = (generation, policy.clone());
                self.0.insert(name.to_owned(), kept);
                policy
            }
        }
    }

    pub(super) fn keep(&mut self, policies: &[String]) {
        self.0.retain(|name, _| policies.contains(name));
    }
}
