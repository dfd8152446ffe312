//! Graphs that cannot run, because something may not be followed, and why: their definitions say
//! so.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_client::Resource;
use tokio::sync::watch;

/// By the definition, and by the kind that it makes: of one that was made again for another kind,
/// instances of both run. Cheap to clone.
#[derive(Clone)]
pub(super) struct Troubles(Arc<watch::Sender<All>>);

type All = BTreeMap<(String, String), String>;

/// What keeps the instances of one kind from running.
pub(super) struct OfKind {
    all: Troubles,
    key: (String, String),
}

// === impl Troubles ===

impl Troubles {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(BTreeMap::new())))
    }

    pub(super) fn of_kind(&self, definition: &str, kind: &Resource) -> OfKind {
        OfKind {
            all: self.clone(),
            key: (definition.to_owned(), kind.to_string()),
        }
    }

    /// What keeps the graph of a definition from running.
    pub(super) fn of(&self, definition: &str) -> Option<String> {
        let all = self.0.borrow();
        let ours = all.iter().filter(|((name, _), _)| name == definition);
        let ours: Vec<&str> = ours.map(|(_, why)| why.as_str()).collect();
        (!ours.is_empty()).then(|| ours.join("; "))
    }

    /// Tells when there are others.
    pub(super) fn changes(&self) -> watch::Receiver<All> {
        self.0.subscribe()
    }
}

// === impl OfKind ===

impl OfKind {
    /// This keeps it from running, or nothing does.
    pub(super) fn set(&self, why: Option<String>) {
        let Self { all, key } = self;
        all.0.send_if_modified(|all| match why {
            Some(why) => all.insert(key.clone(), why.clone()) != Some(why),
            None => all.remove(key).is_some(),
        });
    }
}
