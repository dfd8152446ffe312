//! What can be seen of a rollout from the side of zones: who has which change of an object, and
//! who says that it is ready there.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deltaplane_sync::{Item, ObjectName, Version};

use super::authored;

/// Watches what becomes of one object in all zones.
pub(crate) struct Witness {
    object: ObjectName,
    began: Instant,
    seen: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    seen: Vec<Seen>,
    turns: BTreeMap<Version, usize>,
}

/// Something that happened. What one zone causes in another comes after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) at: Duration,
    pub(crate) zone: String,
    pub(crate) what: Happened,
}

/// With a turn of the object, see [`authored::change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// It came from the hub.
    Came(usize),
    /// The zone is about to say that it is ready there.
    Ready(usize),
}

// === impl Witness ===

impl Witness {
    pub(crate) fn new(object: ObjectName) -> Self {
        Self {
            object,
            began: Instant::now(),
            seen: Mutex::default(),
        }
    }

    /// All that happened so far, in this order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.with(|record| record.seen.clone())
    }

    pub(super) fn came(&self, zone: &str, name: &ObjectName, item: &Item) {
        if *name != self.object {
            return;
        }
        let Some(turn) = authored::turn(&item.body) else {
            return;
        };
        self.with(|record| {
            record.turns.insert(item.version, turn);
            self.note(record, zone, Happened::Came(turn));
        });
    }

    pub(super) fn ready(&self, zone: &str, name: &ObjectName, version: Version) {
        if *name != self.object {
            return;
        }
        self.with(|record| {
            if let Some(turn) = record.turns.get(&version).copied() {
                self.note(record, zone, Happened::Ready(turn));
            }
        });
    }

    fn note(&self, record: &mut Record, zone: &str, what: Happened) {
        record.seen.push(Seen {
            at: self.began.elapsed(),
            zone: zone.to_owned(),
            what,
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Record) -> T) -> T {
        act(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
