//! Graphs that cannot run, because something may not be followed, and why: their definitions say
//! so.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// By the name of the definition. Cheap to clone.
#[derive(Clone)]
pub(super) struct Troubles(Arc<watch::Sender<BTreeMap<String, String>>>);

// === impl Troubles ===

impl Troubles {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(BTreeMap::new())))
    }

    /// This keeps the graph from running, or nothing does.
    pub(super) fn set(&self, definition: &str, why: Option<String>) {
        self.0.send_if_modified(|all| match why {
            Some(why) => all.insert(definition.to_owned(), why.clone()) != Some(why),
            None => all.remove(definition).is_some(),
        });
    }

    pub(super) fn of(&self, definition: &str) -> Option<String> {
        self.0.borrow().get(definition).cloned()
    }

    /// Tells when there are others.
    pub(super) fn changes(&self) -> watch::Receiver<BTreeMap<String, String>> {
        self.0.subscribe()
    }
}
