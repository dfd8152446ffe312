//! What the last decisions were made of, so that they can be made again.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_propagation::stages::Inputs;

use crate::fleet::Fleet;

/// The last inputs of each policy, the newest at the end.
#[derive(Default)]
pub(crate) struct Decided(BTreeMap<String, Vec<Arc<Inputs>>>);

/// What was decided last may not be written yet, and what was before it is then in force.
const KEPT: usize = 2;

// === impl Fleet ===

impl Fleet {
    /// What is about to be written down of a policy was decided by this.
    pub fn decided(&self, policy: &str, inputs: Inputs) {
        let mut decided = self.inner().decided.lock();
        let known = self.inner().governing.lock();
        decided
            .0
            .retain(|name, _| known.policies.contains_key(name));
        let kept = decided.0.entry(policy.to_owned()).or_default();
        kept.push(Arc::new(inputs));
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    }

    /// What the decisions of a policy were made of that were written last, the newest first. None
    /// since the process began if nothing was decided.
    pub(crate) fn decided_by(&self, policy: &str) -> Vec<Arc<Inputs>> {
        let decided = self.inner().decided.lock();
        let kept = decided.0.get(policy).into_iter().flatten();
        kept.rev().cloned().collect()
    }
}
