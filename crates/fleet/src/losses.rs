//! What the hub had of a zone and lost, although the zone did not take it back: the namespace that
//! it was in was deleted here, say, or the definition of its kind.
//!
//! The projector tells what goes, in the order of the log, and the zone's session asks the zone for
//! it again. Nothing is looked up. Of a zone that is away nothing is remembered: when it connects
//! it is told what is here, and sends the rest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};

use deltaplane_border::{Mirror, Names, Told, Writes};
use deltaplane_sync::{ObjectName, Revision, SyncKind, ZoneName};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The sessions that ask their zones again.
#[derive(Debug, Default)]
pub(crate) struct LossListeners(Mutex<BTreeMap<ZoneName, Weak<Losses>>>);

/// What one session asks for again.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    state: Mutex<State>,
    /// Woken when something went, or a kind was subscribed to.
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// What went, and when. Whether it was lost is not known yet.
    gone: VecDeque<(SyncKind, ObjectName, Revision)>,
    writes: Writes,
    subscribed: BTreeSet<SyncKind>,
    /// What the zone is to be asked for.
    unasked: Names,
}

/// An object is being written for its zone. What went meanwhile is judged when this is dropped.
pub(crate) struct Writing<'a> {
    losses: &'a Losses,
    mirror: &'a Mirror,
    kind: &'a SyncKind,
    name: &'a ObjectName,
}

// === impl LossListeners ===

impl LossListeners {
    /// Hears what goes of a zone's objects from now on, instead of the session before.
    pub(crate) fn listen(&self, zone: &ZoneName) -> Arc<Losses> {
        let losses = Arc::<Losses>::default();
        let mut listeners = self.0.lock();
        listeners.retain(|_, listener| listener.strong_count() > 0);
        listeners.insert(zone.clone(), Arc::downgrade(&losses));
        losses
    }

    /// An object of a zone is not here any more, since this revision.
    pub(crate) fn tell(
        &self,
        zone: &ZoneName,
        (kind, name): (SyncKind, ObjectName),
        since: Revision,
    ) {
        let listener = self.0.lock().get(zone).and_then(Weak::upgrade);
        if let Some(losses) = listener {
            losses.state.lock().gone.push_back((kind, name, since));
            losses.wake.notify_one();
        }
    }
}

// === impl Losses ===

impl Losses {
    pub(crate) fn writing<'a>(
        &'a self,
        mirror: &'a Mirror,
        kind: &'a SyncKind,
        name: &'a ObjectName,
    ) -> Writing<'a> {
        self.state.lock().writes.begin(kind, name);
        Writing {
            losses: self,
            mirror,
            kind,
            name,
        }
    }

    /// The zone may be asked for objects of this kind.
    pub(crate) fn subscribed(&self, kind: &SyncKind) {
        self.state.lock().subscribed.insert(kind.clone());
        self.wake.notify_one();
    }

    /// Waits until something was lost; returns it in parts of one request. `is_taken` says whether
    /// a kind is still taken from zones: when it is not, its objects are left or deleted on purpose.
    pub(crate) async fn next(
        &self,
        mirror: &Mirror,
        is_taken: impl Fn(&SyncKind) -> bool,
    ) -> Vec<(SyncKind, BTreeSet<ObjectName>)> {
        loop {
            let asked = self.state.lock().judge(mirror, &is_taken);
            if !asked.is_empty() {
                return asked;
            }
            self.wake.notified().await;
        }
    }
}

// === impl State ===

impl State {
    fn judge(
        &mut self,
        mirror: &Mirror,
        is_taken: impl Fn(&SyncKind) -> bool,
    ) -> Vec<(SyncKind, BTreeSet<ObjectName>)> {
        while let Some((kind, name, since)) = self.gone.pop_front() {
            if is_taken(&kind) {
                self.told(mirror, (&kind, &name), Told::Gone(since));
            }
        }
        std::iter::from_fn(|| self.unasked.take(&self.subscribed)).collect()
    }

    fn told(&mut self, mirror: &Mirror, (kind, name): (&SyncKind, &ObjectName), told: Told) {
        if self.writes.defer(kind, name, told) {
            return;
        }
        if mirror.told(kind, name, told) {
            tracing::info!(%kind, %name, "an object of a zone was deleted here; asking the zone for it");
            self.unasked.add(kind, name);
        }
    }
}

// === impl Writing ===

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let Self {
            losses,
            mirror,
            kind,
            name,
        } = *self;
        let mut state = losses.state.lock();
        if let Some(told) = state.writes.end(kind, name) {
            state.told(mirror, (kind, name), told);
            losses.wake.notify_one();
        }
    }
}
