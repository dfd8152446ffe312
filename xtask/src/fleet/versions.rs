//! What a simulated zone has: versions, and no objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use deltaplane_border::Target;
use deltaplane_fleet::kinds::SyncedKind;
use deltaplane_fleet::synced_kinds;
use deltaplane_sync::{Item, Known, ObjectName, Outcome, Position, SyncKind, Version};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use tokio::sync::{mpsc, watch};

/// What came to all zones together.
#[derive(Default)]
pub(crate) struct Arrivals {
    objects: AtomicU64,
    bytes: AtomicU64,
    expected: Mutex<Option<(ObjectName, mpsc::UnboundedSender<Instant>)>>,
}

/// What a zone has when it is not connected. Cheap to clone: what was there at first is shared.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    first: BTreeMap<SyncKind, Arc<BTreeMap<ObjectName, Version>>>,
    /// Nothing where an object was taken away.
    since: BTreeMap<(SyncKind, ObjectName), Option<Version>>,
    kinds: BTreeMap<ObjectName, SyncKind>,
    sources: BTreeMap<SyncKind, BTreeMap<Arc<str>, Position>>,
    /// From where each kind can be resumed.
    pub(super) resume: BTreeMap<SyncKind, (Position, BTreeSet<ObjectName>)>,
}

/// Takes what comes to a zone.
pub(super) struct Versions {
    memory: Mutex<Memory>,
    /// The kinds that come, as the hub says.
    kinds: watch::Sender<BTreeSet<SyncKind>>,
    arrivals: Arc<Arrivals>,
}

// === impl Arrivals ===

impl Arrivals {
    /// How many objects came so far.
    pub(crate) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// How many bytes they had.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// When an object arrives, zone by zone, from now on.
    pub(crate) fn expect(&self, name: ObjectName) -> mpsc::UnboundedReceiver<Instant> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *lock(&self.expected) = Some((name, sender));
        receiver
    }

    fn note(&self, name: &ObjectName, item: &Item) {
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.bytes
            .fetch_add(item.body.len() as u64, Ordering::Relaxed);
        if let Some((expected, sender)) = &*lock(&self.expected)
            && expected == name
        {
            // Whoever does not listen any more has heard enough.
            let _ = sender.send(Instant::now());
        }
    }
}

// === impl Memory ===

impl Memory {
    fn version(&self, kind: &SyncKind, name: &ObjectName) -> Option<Version> {
        match self.since.get(&(kind.clone(), name.clone())) {
            Some(version) => *version,
            None => self.first.get(kind)?.get(name).copied(),
        }
    }

    fn versions(&self, kind: &SyncKind) -> BTreeMap<ObjectName, Version> {
        let first = self.first.get(kind);
        let mut held: BTreeMap<ObjectName, Version> =
            first.map_or_else(BTreeMap::new, |first| BTreeMap::clone(first));
        for ((of, name), version) in &self.since {
            match version {
                _ if of != kind => {}
                Some(version) => drop(held.insert(name.clone(), *version)),
                None => drop(held.remove(name)),
            }
        }
        held
    }

    fn known(&self, kind: &SyncKind) -> Known {
        if let Some((position, beyond)) = self.resume.get(kind) {
            let beyond = beyond.iter();
            return Known::Position {
                position: position.clone(),
                beyond: beyond
                    .map(|name| (name.clone(), self.version(kind, name)))
                    .collect(),
            };
        }
        let sources = self.sources.get(kind).into_iter().flatten();
        Known::Versions {
            held: self.versions(kind),
            sources: sources.map(|(_, source)| source.clone()).collect(),
        }
    }

    /// Resumes as zones do: from positions of a hub that was not opened anew since, and otherwise
    /// by versions.
    pub(super) fn follow(&mut self, epoch: &str) {
        let resume = &mut self.resume;
        resume.retain(|_, (position, _)| *position.epoch.0 == *epoch);
    }

    /// The same, with all of it shared by its clones.
    pub(crate) fn shared(mut self) -> Self {
        let kinds: BTreeSet<SyncKind> = self.since.keys().map(|(kind, _)| kind.clone()).collect();
        for kind in kinds {
            let held = self.versions(&kind);
            self.first.insert(kind, Arc::new(held));
        }
        self.since.clear();
        self
    }
}

// === impl Versions ===

impl Versions {
    pub(super) fn new(memory: Memory, arrivals: Arc<Arrivals>) -> Self {
        let kinds = memory.kinds.values().cloned().collect();
        Self {
            memory: Mutex::new(memory),
            kinds: watch::Sender::new(kinds),
            arrivals,
        }
    }

    pub(super) fn kinds(&self) -> watch::Receiver<BTreeSet<SyncKind>> {
        self.kinds.subscribe()
    }

    pub(super) fn known(&self, kind: &SyncKind) -> Known {
        self.memory().known(kind)
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    fn put(&self, kind: &SyncKind, name: &ObjectName, item: &Item, at: &Position) -> Outcome {
        let mut memory = self.memory();
        let sources = memory.sources.entry(kind.clone()).or_default();
        sources.insert(at.epoch.0.clone(), at.clone());
        let key = (kind.clone(), name.clone());
        memory.since.insert(key, Some(item.version));
        if *kind == synced_kinds() {
            let object = serde_json::from_slice(&item.body).map_err(|error| error.to_string())?;
            let synced = SyncedKind::of(&object).map_err(|error| error.to_string())?;
            memory.kinds.insert(name.clone(), synced.kind);
            let kinds = memory.kinds.values().cloned().collect();
            self.kinds.send_replace(kinds);
        }
        drop(memory);
        self.arrivals.note(name, item);
        Ok(())
    }

    fn remove(&self, kind: &SyncKind, name: &ObjectName) -> Outcome {
        let key = (kind.clone(), name.clone());
        self.memory().since.insert(key, None);
        Ok(())
    }
}

impl Target for Versions {
    fn apply<'a>(
        &'a self,
        kind: &'a SyncKind,
        name: &'a ObjectName,
        item: &'a Item,
        at: &'a Position,
    ) -> BoxFuture<'a, Outcome> {
        ready(self.put(kind, name, item, at)).boxed()
    }

    fn orphan<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome> {
        ready(self.remove(kind, name)).boxed()
    }

    fn delete<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome> {
        ready(self.remove(kind, name)).boxed()
    }

    /// Budgets are not what is measured: as many as there ever were.
    fn count(&self, kind: &SyncKind) -> u64 {
        let memory = self.memory();
        let first = memory.first.get(kind).map_or(0, |first| first.len());
        (first + memory.since.len()) as u64
    }

    fn parallel(&self) -> usize {
        128
    }

    fn along<'a>(
        &'a self,
        _: &'a SyncKind,
        _: &'a [ObjectName],
    ) -> BoxFuture<'a, Result<u64, String>> {
        ready(Ok(0)).boxed()
    }
}

/// What a thread that panicked left is still whole: every change here is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
