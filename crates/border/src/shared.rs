//! A catalog that one writes and many read.

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::watch;

use crate::catalog::{Catalog, Edit};
use deltaplane_sync::{Revision, SyncKind};

/// A catalog, its readers woken when something changed that concerns them.
#[derive(Debug)]
pub struct Shared {
    catalog: RwLock<Catalog>,
    changes: watch::Sender<u64>,
    at: watch::Sender<Revision>,
}

/// A reader did not read for so long that the changes are not kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many changes were not read in time")]
pub struct Behind;

// === impl Shared ===

impl Shared {
    pub fn new(catalog: Catalog) -> Self {
        Self {
            changes: watch::Sender::new(catalog.end()),
            at: watch::Sender::new(catalog.at()),
            catalog: RwLock::new(catalog),
        }
    }

    pub fn read(&self) -> RwLockReadGuard<'_, Catalog> {
        self.catalog.read()
    }

    /// Brings the catalog to `at`, in one step for all readers.
    pub fn apply(&self, edits: Vec<Edit>, at: Revision) {
        self.change(edits, at, |_| {});
    }

    /// Like [`Shared::apply`], after a change of which kinds are sent.
    pub fn change(&self, edits: Vec<Edit>, at: Revision, kinds: impl FnOnce(&mut Catalog)) {
        let mut catalog = self.catalog.write();
        kinds(&mut catalog);
        let changed = catalog.apply(edits, at);
        let (end, at) = (catalog.end(), catalog.at());
        drop(catalog);
        if changed {
            self.changes.send_replace(end);
        }
        self.at.send_if_modified(|now| {
            let later = at > *now;
            *now = at.max(*now);
            later
        });
    }

    /// Wakes all readers, although nothing changed.
    pub(crate) fn wake(&self) {
        self.changes.send_modify(|_| {});
    }

    /// Woken by what concerns readers.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Woken by every revision.
    pub fn positions(&self) -> watch::Receiver<Revision> {
        self.at.subscribe()
    }

    /// How many objects of a kind there are.
    pub fn len(&self, kind: &SyncKind) -> usize {
        self.read().entries(kind).count()
    }
}
