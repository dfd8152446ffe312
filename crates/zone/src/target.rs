//! What comes from the hub: synced kinds are kept here and in a file, all else goes to the zone's
//! API.

use std::sync::Arc;

use deltaplane_border::{Mirror, Target};
use deltaplane_fleet::synced_kinds;
use deltaplane_runtime::files::FileError;
use deltaplane_sync::{Item, Known, ObjectName, Outcome, Position, SyncKind, Version};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use tokio::sync::watch;

use crate::drift::Drift;
use crate::kinds_file::{Kind, Kinds, KindsFile};

/// Where what comes from the hub goes.
pub(crate) struct ZoneTarget {
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) drift: Arc<Drift>,
    kinds: watch::Sender<Arc<Kinds>>,
    kinds_file: KindsFile,
}

// === impl ZoneTarget ===

impl ZoneTarget {
    /// The zone knows the kinds that the file holds before the hub says anything.
    pub(crate) fn open(
        mirror: Arc<Mirror>,
        drift: Arc<Drift>,
        kinds_file: KindsFile,
    ) -> Result<Self, FileError> {
        let kinds = kinds_file.load()?;
        for Kind { synced, .. } in kinds.values() {
            mirror.learn(&synced.kind, &synced.plural);
        }
        Ok(Self {
            mirror,
            drift,
            kinds: watch::Sender::new(Arc::new(kinds)),
            kinds_file,
        })
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
        let object = serde_json::from_slice(&item.body).map_err(|error| error.to_string())?;
        let kind = Kind::received(name, object, item.version, at.clone())?;
        self.mirror.learn(&kind.synced.kind, &kind.synced.plural);
        self.change_kinds(|kinds| {
            kinds.insert(name.clone(), kind);
        });
        Ok(())
    }

    /// Changes the synced kinds, and their file with them. A file that cannot be written is behind:
    /// then a process that starts is sent what it lacks, once the hub sends anything.
    fn change_kinds(&self, change: impl FnOnce(&mut Kinds)) {
        self.kinds.send_modify(|kinds| change(Arc::make_mut(kinds)));
        let saved = self.kinds_file.save(&self.kinds.borrow());
        if let Err(error) = saved {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "failed to write the synced kinds");
        }
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
        self.change_kinds(|kinds| {
            kinds.remove(name);
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
