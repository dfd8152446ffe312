//! What came of the passes over the instances of a kind, for the gate of its graph.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use deltaplane_runtime::Clock;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::admission::{Health, Passed};
use super::effort::Effort;

/// What came of the last pass over each instance, by uid. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Passes(Arc<Kept>);

#[derive(Default)]
struct Kept {
    passed: Mutex<BTreeMap<String, Passed>>,
    /// Those whose last pass could not tell how they stand, and of which generation they were.
    untold: Mutex<BTreeMap<String, i64>>,
    /// When time alone may open a gate of an instance.
    due: Mutex<BTreeMap<String, SystemTime>>,
    news: Notify,
    planning: Effort,
}

// === impl Passes ===

impl Passes {
    pub(super) fn set(&self, uid: &str, new: Passed) {
        self.0.untold.lock().remove(uid);
        let mut passed = self.0.passed.lock();
        let before = passed.get(uid);
        let new = match (before, new.health) {
            (Some(before), Health::Ready { .. })
                if before.at == new.at
                    && before.generation == new.generation
                    && matches!(before.health, Health::Ready { .. }) =>
            {
                // It has been for longer.
                return;
            }
            (Some(before), _) if *before == new => return,
            (Some(_) | None, _) => new,
        };
        passed.insert(uid.to_owned(), new);
        self.0.news.notify_one();
    }

    /// A pass failed, and nobody can tell how the instance stands. That it does so again is no news.
    pub(super) fn set_untold(&self, uid: &str, generation: i64) {
        let before = self.0.untold.lock().insert(uid.to_owned(), generation);
        if before != Some(generation) {
            self.0.news.notify_one();
        }
    }

    /// Plans take microseconds. Once one of a graph took long, others go on while the next is made.
    pub(super) fn plan<T>(&self, clock: &Clock, plan: impl FnOnce() -> T) -> T {
        let (planned, _) = self.0.planning.make(clock, plan);
        planned
    }

    /// Has an instance looked at again at a time, or sooner if somebody else asks for that.
    pub(super) fn look_again(&self, uid: &str, at: SystemTime) {
        let mut due = self.0.due.lock();
        let soonest = due.entry(uid.to_owned()).or_insert(at);
        *soonest = at.min(*soonest);
        drop(due);
        self.0.news.notify_one();
    }

    /// Instances to be looked at again, and when: those that were not asked for yet.
    pub(super) fn due(&self) -> BTreeMap<String, SystemTime> {
        std::mem::take(&mut *self.0.due.lock())
    }

    pub(super) fn all(&self) -> BTreeMap<String, Passed> {
        self.0.passed.lock().clone()
    }

    /// Those of which nobody can tell how they stand, and at which generation.
    pub(super) fn untold(&self) -> BTreeMap<String, i64> {
        self.0.untold.lock().clone()
    }

    pub(super) fn forget(&self, uid: &str) {
        self.0.untold.lock().remove(uid);
        self.0.passed.lock().remove(uid);
    }

    /// Returns when something else came of a pass than before.
    pub(super) async fn news(&self) {
        self.0.news.notified().await;
    }
}
