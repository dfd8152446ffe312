//! A catalog that one writes and many read.

use std::collections::BTreeMap;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::watch;

use crate::catalog::{Catalog, Concerned, Edit, LOG};
use deltaplane_sync::{Revision, SyncKind, ZoneName};

/// A catalog, its readers woken when something changed that concerns them.
#[derive(Debug)]
pub struct Shared {
    catalog: RwLock<Catalog>,
    readers: Mutex<Readers>,
    at: watch::Sender<Revision>,
}

/// Who is woken, by zone; without one, a hub.
#[derive(Debug, Default)]
struct Readers {
    channels: BTreeMap<Option<ZoneName>, watch::Sender<u64>>,
    /// How many changes there were when all were woken last.
    woken: u64,
}

/// A reader did not read for so long that the changes are not kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many changes were not read in time")]
pub struct Behind;

/// All readers are woken after so many changes, that they are not behind although nothing
/// concerned them.
const WAKE_ALL: u64 = LOG as u64 / 2;

// === impl Shared ===

impl Shared {
    pub fn new(catalog: Catalog) -> Self {
        Self {
            readers: Mutex::default(),
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
        let concerned = catalog.apply(edits, at);
        let (end, at) = (catalog.end(), catalog.at());
        drop(catalog);
        self.readers.lock().wake(concerned, end);
        self.at.send_if_modified(|now| {
            let later = at > *now;
            *now = at.max(*now);
            later
        });
    }

    /// Wakes a reader, although nothing changed.
    pub(crate) fn wake(&self, zone: Option<&ZoneName>) {
        let readers = self.readers.lock();
        if let Some(reader) = readers.channels.get(&zone.cloned()) {
            reader.send_modify(|_| {});
        }
    }

    /// Woken by what concerns a reader: a zone, or a hub.
    pub fn changes(&self, zone: Option<&ZoneName>) -> watch::Receiver<u64> {
        let mut readers = self.readers.lock();
        let reader = readers.channels.entry(zone.cloned());
        reader.or_insert_with(|| watch::Sender::new(0)).subscribe()
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

// === impl Readers ===

impl Readers {
    /// There are changes, `end` since the beginning.
    fn wake(&mut self, concerned: Concerned, end: u64) {
        match concerned {
            Concerned::Zones(zones) if end.saturating_sub(self.woken) < WAKE_ALL => {
                for zone in zones {
                    if let Some(reader) = self.channels.get(&Some(zone)) {
                        reader.send_replace(end);
                    }
                }
            }
            Concerned::Zones(_) | Concerned::Everyone => {
                self.woken = end;
                // Those that nobody listens to any more are made again when somebody does.
                self.channels
                    .retain(|_, reader| reader.receiver_count() > 0);
                for reader in self.channels.values() {
                    reader.send_replace(end);
                }
            }
        }
    }
}
