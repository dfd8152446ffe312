//! Who runs the instances of which kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deltaplane_client::Resource;
use deltaplane_graph::labels;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::runner::Serving;

/// All runners, by the names of the definitions of their kinds. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Runners(Arc<Mutex<BTreeMap<String, Runner>>>);

struct Runner {
    resource: Resource,
    /// It ends when nobody has this any more.
    serving: watch::Sender<Serving>,
    /// Whether it says how it stands with instances.
    tells: Arc<AtomicBool>,
}

// === impl Runners ===

impl Runners {
    /// Has instances of this kind run by that. What a new runner is to be given, if it takes one.
    pub(super) fn publish(
        &self,
        resource: Resource,
        serving: Serving,
    ) -> Option<(watch::Receiver<Serving>, Arc<AtomicBool>)> {
        let mut all = self.0.lock();
        let name = name(&resource);
        // One that looks elsewhere for instances is of no use.
        let running = all.get(&name).filter(|one| one.resource == resource);
        if let Some(runner) = running {
            runner.serving.send_if_modified(|now| {
                let other = *now != serving;
                if other {
                    *now = serving;
                }
                other
            });
            return None;
        }
        let (serving, receiver) = watch::channel(serving);
        let tells = Arc::new(AtomicBool::new(false));
        let runner = Runner {
            resource,
            serving,
            tells: tells.clone(),
        };
        all.insert(name, runner);
        Some((receiver, tells))
    }

    /// Ends those for a definition that are not wanted any more.
    pub(super) fn retain(&self, definition: &str, wanted: impl Fn(&Resource) -> bool) {
        let mut all = self.0.lock();
        all.retain(|_, one| !one.is_for(definition) || wanted(&one.resource));
    }

    /// Has instances of a definition move, or not, by what runs already, and delete what somebody
    /// approved of.
    pub(super) fn steer(&self, definition: &str, paused: bool, approved: Option<String>) {
        let all = self.0.lock();
        for one in all.values().filter(|one| one.is_for(definition)) {
            one.serving.send_if_modified(|now| {
                let same = now.paused == paused && now.approved == approved;
                let other = now.target.is_ok() && !same;
                if other {
                    now.paused = paused;
                    now.approved.clone_from(&approved);
                }
                other
            });
        }
    }

    /// Whether there is a graph that runs for a definition.
    pub(super) fn has_graph(&self, definition: &str) -> bool {
        let all = self.0.lock();
        let mut ours = all.values().filter(|one| one.is_for(definition));
        ours.any(|one| one.serving.borrow().target.is_ok())
    }

    /// Whether somebody says how it stands with the instances of a definition.
    pub(super) fn tell(&self, definition: &str) -> bool {
        let all = self.0.lock();
        let mut ours = all.values().filter(|one| one.is_for(definition));
        ours.any(|one| one.tells.load(Ordering::Acquire))
    }

    /// The label of the definition whose kind had this name.
    pub(super) fn owner(&self, kind: &str) -> Option<String> {
        let all = self.0.lock();
        let runner = all.get(kind)?;
        let serving = runner.serving.borrow();
        Some(labels::value(&serving.definition.name))
    }
}

// === impl Runner ===

impl Runner {
    fn is_for(&self, definition: &str) -> bool {
        self.serving.borrow().definition.name == definition
    }
}

/// The name of the definition of a kind.
fn name(resource: &Resource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}
