//! What need not be done again: policies of which nothing is news, and policies that were compiled.
//! Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use deltaplane_propagation::stages::{Policy, PolicyFacts, Problem};

/// Policies about which all was said, by what was known then.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<String, Done>);

#[derive(Debug)]
struct Done {
    stamp: u64,
    /// When time alone may change something.
    next: Option<SystemTime>,
}

/// Policies as they are decided by, of the generation that was seen last.
#[derive(Default)]
pub(super) struct Compiled(BTreeMap<String, (Generation, Arc<Outcome>)>);

/// Of which object, and which of its specs.
type Generation = (String, u64);

/// A policy, or what is wrong with it.
type Outcome = Result<Policy, Vec<Problem>>;

// === impl Seen ===

impl Seen {
    /// Whether there is nothing to be done about a policy; and when there may be, if that is known.
    pub(super) fn unchanged(
        &self,
        policy: &str,
        stamp: Option<u64>,
        now: SystemTime,
    ) -> Option<Option<SystemTime>> {
        let done = self.0.get(policy)?;
        let is_early = done.next.is_none_or(|next| next > now);
        (Some(done.stamp) == stamp && is_early).then_some(done.next)
    }

    /// All was said about a policy, as it was at a stamp.
    pub(super) fn done(&mut self, policy: &str, stamp: Option<u64>, next: Option<SystemTime>) {
        match stamp {
            Some(stamp) => self.0.insert(policy.to_owned(), Done { stamp, next }),
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
            .filter(|_| !facts.unreadable);
        // Whether what was decided can be read says no generation.
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
