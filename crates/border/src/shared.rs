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
        let absence = catalog.absence_changes();
        kinds(&mut catalog);
        let mut concerned = catalog.apply(edits, at);
        if catalog.absence_changes() != absence {
            concerned = Concerned::Everyone;
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use deltaplane_sync::{Epoch, Item, ObjectName, Version, Withdrawal};

    use super::*;
    use crate::catalog::{Audience, Entry, Governed, Place, Placement, PolicyId, Slot};
    use crate::openings::Openings;

    fn zone(text: &str) -> ZoneName {
        text.parse().expect("legal")
    }

    fn kind() -> SyncKind {
        SyncKind::new("", "ConfigMap").expect("legal")
    }

    fn slot(release: u64) -> Slot {
        Slot { release, class: 0 }
    }

    fn object(text: &str, becomes: Entry) -> Edit {
        Edit::Object {
            kind: kind(),
            name: ObjectName::new("", text).expect("legal"),
            revision: 1,
            becomes: Some(becomes),
        }
    }

    /// One that is there in the first slot only.
    fn governed() -> Entry {
        Entry::Governed(Arc::new(Governed {
            policy: PolicyId::new("p"),
            slots: BTreeMap::from([(slot(1), Some(item())), (slot(2), None), (slot(3), None)]),
            agreed: BTreeSet::new(),
            withdrawal: Withdrawal::Orphan,
        }))
    }

    fn item() -> Item {
        Item {
            version: Version::altered(),
            body: Vec::new().into(),
            relayed: None,
        }
    }

    fn placed(places: &[(&str, u64)]) -> Edit {
        let places = places.iter();
        let places = places.map(|(text, at)| (zone(text), Place::At(slot(*at))));
        Edit::Placed {
            policy: PolicyId::new("p"),
            revision: 1,
            placement: Some(places.collect::<Placement>()),
        }
    }

    fn shared(edits: Vec<Edit>) -> Shared {
        let openings = Openings::only(Epoch("e".into()));
        let shared = Shared::new(Catalog::new(openings, 1));
        shared.apply(edits, 1);
        shared
    }

    /// Whether each was woken.
    fn woken(readers: &mut [watch::Receiver<u64>]) -> Vec<bool> {
        let woken = readers.iter_mut().map(|reader| {
            let woken = reader.has_changed().expect("somebody may wake it");
            reader.borrow_and_update();
            woken
        });
        woken.collect()
    }

    #[test]
    fn only_those_are_woken_whom_it_concerns() {
        let shared = shared(vec![object("a", governed()), placed(&[("x", 2), ("y", 2)])]);
        let (x, y) = (zone("x"), zone("y"));
        let mut readers = [Some(&x), Some(&x), Some(&y), None].map(|zone| shared.changes(zone));
        shared.apply(vec![placed(&[("x", 1), ("y", 2)])], 2);
        assert_eq!(woken(&mut readers), [true, true, false, false]);
        shared.apply(vec![placed(&[("x", 1), ("y", 3)])], 3);
        assert_eq!(woken(&mut readers), [false; 4], "it is not there either");
        let everyone = Entry::Shared {
            item: item(),
            audience: Audience::Everyone,
        };
        shared.apply(vec![object("b", everyone)], 4);
        assert_eq!(woken(&mut readers), [true; 4]);
        shared.wake(Some(&y));
        assert_eq!(woken(&mut readers), [false, false, true, false]);
    }

    #[test]
    fn whoever_is_not_concerned_is_woken_before_it_is_behind() {
        let objects = (0..LOG / 4).map(|number| object(&number.to_string(), governed()));
        let shared = shared(objects.collect());
        shared.apply(vec![placed(&[("x", 1), ("y", 1)])], 2);
        let (x, y) = (zone("x"), zone("y"));
        let mut readers = [&x, &y].map(|zone| shared.changes(Some(zone)));
        let cursor = shared.read().end();
        for (moved, release) in [(1, 2), (2, 1), (3, 2), (4, 1)] {
            shared.apply(vec![placed(&[("x", release), ("y", 1)])], 2 + moved);
            let all = moved % 2 == 0;
            assert_eq!(woken(&mut readers), [true, all], "after {moved}");
        }
        let catalog = shared.read();
        assert_eq!(catalog.end() - cursor, LOG as u64);
        assert!(catalog.reaches(cursor));
        assert!(catalog.after(cursor, Some(&y)).is_empty());
    }

    #[test]
    fn nobody_is_kept_who_is_gone() {
        let shared = shared(vec![object("a", governed())]);
        drop(shared.changes(Some(&zone("x"))));
        let _stays = shared.changes(Some(&zone("y")));
        shared.apply(vec![placed(&[])], 2);
        let readers = shared.readers.lock();
        let kept: Vec<_> = readers.channels.keys().cloned().collect();
        assert_eq!(kept, [Some(zone("y"))]);
    }
}
