//! What comes from the hub: the kinds that cross are kept here, all else goes to the zone's API.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_border::{Mirror, Target};
use deltaplane_fleet::kinds::SyncedKind;
use deltaplane_fleet::synced_kinds;
use deltaplane_sync::{Crossing, Item, Known, ObjectName, Outcome, Position, SyncKind, Version};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use serde_json::Value;
use tokio::sync::watch;

use crate::drift::Drift;

/// Where what comes from the hub goes.
pub(crate) struct ZoneTarget {
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) drift: Arc<Drift>,
    kinds: watch::Sender<Arc<Kinds>>,
}

/// The kinds that cross, as the hub says.
pub(crate) type Kinds = BTreeMap<ObjectName, Kind>;

#[derive(Clone, Debug)]
pub(crate) struct Kind {
    version: Version,
    at: Position,
    pub(crate) synced: SyncedKind,
}

// === impl Kind ===

impl Kind {
    /// Whether it says the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

// === impl ZoneTarget ===

impl ZoneTarget {
    pub(crate) fn new(mirror: Arc<Mirror>, drift: Arc<Drift>) -> Self {
        Self {
            mirror,
            drift,
            kinds: watch::Sender::new(Arc::default()),
        }
    }

    pub(crate) fn kinds(&self) -> watch::Receiver<Arc<Kinds>> {
        self.kinds.subscribe()
    }

    /// What is here of a kind, with the stores that it is from.
    pub(crate) fn versions(&self, kind: &SyncKind) -> Known {
        if *kind != synced_kinds() {
            return self.mirror.versions(kind);
        }
        let kinds = self.kinds.borrow();
        let held = kinds.iter();
        Known::Versions {
            held: held
                .map(|(name, kind)| (name.clone(), kind.version))
                .collect(),
            sources: kinds.values().map(|kind| kind.at.clone()).collect(),
        }
    }

    pub(crate) fn version(&self, kind: &SyncKind, name: &ObjectName) -> Option<Version> {
        match *kind == synced_kinds() {
            true => self.kinds.borrow().get(name).map(|kind| kind.version),
            false => self.mirror.version(kind, name),
        }
    }

    fn learn(&self, name: &ObjectName, item: &Item, at: &Position) -> Outcome {
        let object: Value =
            serde_json::from_slice(&item.body).map_err(|error| error.to_string())?;
        let crossing = Crossing::received(object, name, item.version);
        let crossing = crossing.map_err(|smuggled| smuggled.to_string())?;
        let synced = SyncedKind::of(&Value::Object(crossing.object().clone()));
        let synced = synced.map_err(|error| error.to_string())?;
        self.mirror.learn(&synced.kind, &synced.plural);
        let kind = Kind {
            version: item.version,
            at: at.clone(),
            synced,
        };
        self.kinds.send_modify(|kinds| {
            Arc::make_mut(kinds).insert(name.clone(), kind);
        });
        Ok(())
    }

    /// Lets nobody take what sync does for what others do.
    fn written<'a>(
        &'a self,
        kind: &'a SyncKind,
        name: &'a ObjectName,
        write: BoxFuture<'a, Outcome>,
    ) -> BoxFuture<'a, Outcome> {
        let written = async move {
            let writing = self.drift.writing(kind, name);
            let outcome = write.await;
            writing.end(&outcome);
            outcome
        };
        written.boxed()
    }

    fn forget(&self, name: &ObjectName) -> Outcome {
        self.kinds.send_modify(|kinds| {
            Arc::make_mut(kinds).remove(name);
        });
        Ok(())
    }
}

impl Target for ZoneTarget {
    fn apply<'a>(
        &'a self,
        kind: &'a SyncKind,
        name: &'a ObjectName,
        item: &'a Item,
        at: &'a Position,
    ) -> BoxFuture<'a, Outcome> {
        match *kind == synced_kinds() {
            true => ready(self.learn(name, item, at)).boxed(),
            false => self.written(kind, name, self.mirror.apply(kind, name, item, at)),
        }
    }

    fn orphan<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome> {
        match *kind == synced_kinds() {
            true => ready(self.forget(name)).boxed(),
            false => self.written(kind, name, self.mirror.orphan(kind, name)),
        }
    }

    fn delete<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome> {
        match *kind == synced_kinds() {
            true => ready(self.forget(name)).boxed(),
            false => self.written(kind, name, self.mirror.delete(kind, name)),
        }
    }

    fn count(&self, kind: &SyncKind) -> u64 {
        match *kind == synced_kinds() {
            true => self.kinds.borrow().len() as u64,
            false => self.mirror.count(kind),
        }
    }

    fn parallel(&self) -> usize {
        self.mirror.parallel()
    }

    fn along<'a>(
        &'a self,
        kind: &'a SyncKind,
        names: &'a [ObjectName],
    ) -> BoxFuture<'a, Result<u64, String>> {
        self.mirror.along(kind, names)
    }
}
