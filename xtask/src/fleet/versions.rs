//! What a simulated zone has: versions, and no objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use deltaplane_border::Target;
use deltaplane_fleet::kinds::SyncedKind;
use deltaplane_fleet::synced_kinds;
use deltaplane_runtime::Clock;
use deltaplane_sync::{
    FareState, Item, KindFared, Known, ObjectName, Outcome, Position, SyncKind, Version,
};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use tokio::sync::{mpsc, watch};

use super::faring::{Manner, milliseconds};
use super::witness::Witness;

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
    since: BTreeMap<(SyncKind, ObjectName), Option<Held>>,
    kinds: BTreeMap<ObjectName, SyncKind>,
    sources: BTreeMap<SyncKind, BTreeMap<Arc<str>, Position>>,
    /// From where each kind can be resumed.
    pub(super) resume: BTreeMap<SyncKind, (Position, BTreeSet<ObjectName>)>,
}

/// An object that a zone has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) version: Version,
    /// In milliseconds since 1970; long ago if that was before the zone was there.
    pub(super) came: u64,
}

/// What a zone is like, and who looks at it.
#[derive(Clone, Default)]
pub(super) struct Character {
    pub(super) name: String,
    pub(super) manner: Manner,
    pub(super) witness: Option<Arc<Witness>>,
}

/// Takes what comes to a zone.
pub(super) struct Versions {
    memory: Mutex<Memory>,
    character: Character,
    clock: Clock,
    /// Counts what came and went.
    news: watch::Sender<u64>,
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
            Some(held) => held.map(|held| held.version),
            None => self.first.get(kind)?.get(name).copied(),
        }
    }

    fn versions(&self, kind: &SyncKind) -> BTreeMap<ObjectName, Version> {
        let held = self.held(kind).into_iter();
        held.map(|(name, held)| (name, held.version)).collect()
    }

    fn held(&self, kind: &SyncKind) -> BTreeMap<ObjectName, Held> {
        let first = self.first.get(kind).into_iter().flat_map(|all| all.iter());
        let long_ago = |version: Version| Held { version, came: 0 };
        let first = first.map(|(name, version)| (name.clone(), long_ago(*version)));
        let mut held: BTreeMap<ObjectName, Held> = first.collect();
        for ((of, name), since) in &self.since {
            match since {
                _ if of != kind => {}
                Some(since) => drop(held.insert(name.clone(), *since)),
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
    pub(super) fn new(memory: Memory, arrivals: Arc<Arrivals>, character: Character) -> Self {
        let kinds = memory.kinds.values().cloned().collect();
        Self {
            memory: Mutex::new(memory),
            character,
            clock: Clock::system(),
            news: watch::Sender::default(),
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

    /// Counts what came and went.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    pub(super) fn manner(&self) -> Manner {
        self.character.manner
    }

    pub(super) fn held(&self, kind: &SyncKind) -> BTreeMap<ObjectName, Held> {
        self.memory().held(kind)
    }

    /// The zone is about to say this.
    pub(super) fn witness(&self, said: &BTreeMap<SyncKind, KindFared>) {
        let Some(witness) = &self.character.witness else {
            return;
        };
        for (name, fares) in said.values().flat_map(|kind| &kind.objects) {
            if let Some(fares) = fares
                && fares.state == FareState::Ready
                && let Some(version) = fares.version
            {
                witness.ready(&self.character.name, name, version);
            }
        }
    }

    fn put(&self, kind: &SyncKind, name: &ObjectName, item: &Item, at: &Position) -> Outcome {
        let mut memory = self.memory();
        let sources = memory.sources.entry(kind.clone()).or_default();
        sources.insert(at.epoch.0.clone(), at.clone());
        let held = Held {
            version: item.version,
            came: milliseconds(self.clock.now()),
        };
        let key = (kind.clone(), name.clone());
        memory.since.insert(key, Some(held));
        if *kind == synced_kinds() {
            let object = serde_json::from_slice(&item.body).map_err(|error| error.to_string())?;
            let synced = SyncedKind::of(&object).map_err(|error| error.to_string())?;
            memory.kinds.insert(name.clone(), synced.kind);
            let kinds = memory.kinds.values().cloned().collect();
            self.kinds.send_replace(kinds);
        }
        drop(memory);
        // Before anybody is told.
        if let Some(witness) = &self.character.witness {
            witness.came(&self.character.name, name, item);
        }
        self.news.send_modify(|news| *news += 1);
        self.arrivals.note(name, item);
        Ok(())
    }

    fn remove(&self, kind: &SyncKind, name: &ObjectName) -> Outcome {
        let key = (kind.clone(), name.clone());
        self.memory().since.insert(key, None);
        self.news.send_modify(|news| *news += 1);
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
