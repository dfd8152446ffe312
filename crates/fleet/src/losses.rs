//! Objects of a zone that the hub lost although the zone did not take them back: the namespace that
//! they were in was deleted here, say, or the definition of their kind.
//!
//! The projector tells which objects vanish, in the order of the log, and the zone's session asks
//! the zone for them again. Nothing is looked up. Nothing is remembered of a zone that is away or
//! that cannot be asked: when it connects it is told what is here, and sends the rest.
//!
//! Invariant: a session remembers [`MAX_VANISHED`] objects at most. A session that falls behind
//! ends, and the next one says what is here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};

use deltaplane_border::{Mirror, PendingWrites, RepairNames, Told};
use deltaplane_sync::{ObjectName, REPAIR, Revision, SyncKind, ZoneName};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::session::Peer;

/// The sessions that ask their zones again.
#[derive(Debug, Default)]
pub(crate) struct LossListeners(Mutex<BTreeMap<ZoneName, Weak<Losses>>>);

/// The objects that one session asks for again.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    state: Mutex<State>,
    /// Woken when something went, or a kind was subscribed to.
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The objects that vanished, and when. It is not known yet which of them were lost.
    vanished: VecDeque<(SyncKind, ObjectName, Revision)>,
    /// More vanished than is remembered.
    is_behind: bool,
    writes: PendingWrites,
    subscribed: BTreeSet<SyncKind>,
    /// The objects that the zone is to be asked for.
    unasked: RepairNames,
}

/// The session cannot say any more what was lost: more objects vanished than it remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LossesForgotten;

/// A zone that makes and deletes objects faster than its session judges them, or that reads no
/// requests, takes about 10 MB of memory.
const MAX_VANISHED: usize = 50_000;

/// Marks an object that is being written for its zone. If it vanishes meanwhile, that is judged when
/// this is dropped.
pub(crate) struct UploadWriteGuard<'a> {
    losses: &'a Losses,
    mirror: &'a Mirror,
    kind: &'a SyncKind,
    name: &'a ObjectName,
}

// === impl LossListeners ===

impl LossListeners {
    /// Hears which of a zone's objects vanish from now on, instead of the session before. Nothing
    /// is told to the session of a zone that cannot be asked again.
    pub(crate) fn listen(&self, zone: &ZoneName, peer: &Peer) -> Arc<Losses> {
        let losses = Arc::<Losses>::default();
        let mut listeners = self.0.lock();
        listeners.retain(|_, listener| listener.strong_count() > 0);
        listeners.remove(zone);
        if peer.features.contains(REPAIR) {
            listeners.insert(zone.clone(), Arc::downgrade(&losses));
        }
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
            losses.state.lock().remember(kind, name, since);
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
    ) -> UploadWriteGuard<'a> {
        self.state.lock().writes.begin(kind, name);
        UploadWriteGuard {
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
    ) -> Result<Vec<(SyncKind, BTreeSet<ObjectName>)>, LossesForgotten> {
        loop {
            let asked = self.state.lock().judge(mirror, &is_taken)?;
            if !asked.is_empty() {
                return Ok(asked);
            }
            self.wake.notified().await;
        }
    }
}

// === impl State ===

impl State {
    fn remember(&mut self, kind: SyncKind, name: ObjectName, since: Revision) {
        if self.vanished.len() >= MAX_VANISHED {
            self.is_behind = true;
            self.vanished = VecDeque::new();
        }
        if !self.is_behind {
            self.vanished.push_back((kind, name, since));
        }
    }

    fn judge(
        &mut self,
        mirror: &Mirror,
        is_taken: impl Fn(&SyncKind) -> bool,
    ) -> Result<Vec<(SyncKind, BTreeSet<ObjectName>)>, LossesForgotten> {
        if self.is_behind {
            return Err(LossesForgotten);
        }
        while let Some((kind, name, since)) = self.vanished.pop_front() {
            if is_taken(&kind) {
                self.told(mirror, (&kind, &name), Told::Gone(since));
            }
        }
        let mut asked = Vec::new();
        while let Some((kind, names)) = self.unasked.take(&self.subscribed) {
            let objects = names.len();
            tracing::info!(%kind, objects, "objects of a zone were deleted here; asking the zone for them");
            asked.push((kind, names));
        }
        Ok(asked)
    }

    fn told(&mut self, mirror: &Mirror, (kind, name): (&SyncKind, &ObjectName), told: Told) {
        if self.writes.defer(kind, name, told) {
            return;
        }
        if mirror.told(kind, name, told) {
            tracing::debug!(%kind, %name, "an object of a zone was deleted here");
            self.unasked.add(kind, name);
        }
    }
}

// === impl UploadWriteGuard ===

impl Drop for UploadWriteGuard<'_> {
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::{self, Write};

    use deltaplane_api::identity::Identity;
    use deltaplane_border::{Held, MirrorConfig};
    use deltaplane_client::{Pace, in_process};
    use deltaplane_sync::{Origin, Version};
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    fn zone() -> ZoneName {
        "eu-1".parse().expect("legal")
    }

    fn peer(features: &[&str]) -> Peer {
        Peer {
            product: "0".to_owned(),
            protocol: 1,
            features: features.iter().map(|one| (*one).to_owned()).collect(),
        }
    }

    fn maps() -> SyncKind {
        SyncKind::new("", "ConfigMap").expect("legal")
    }

    fn name(number: usize) -> ObjectName {
        format!("team/a-{number}").parse().expect("legal")
    }

    /// A mirror of the zone's objects at an API that has none.
    fn mirror() -> Mirror {
        let server = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(String::new()))
        });
        Mirror::new(MirrorConfig {
            client: in_process(server, Identity::authenticated("sync", &[])),
            pace: Pace::system(),
            place: Origin::Hub,
            sender: Origin::Zone(zone()),
            guarded: true,
        })
    }

    #[derive(Clone, Default)]
    struct CapturedLog(Arc<Mutex<Vec<u8>>>);

    impl Write for CapturedLog {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Tells that so many objects of the zone vanished.
    fn vanish(listeners: &LossListeners, count: usize) {
        for number in 0..count {
            listeners.tell(&zone(), (maps(), name(number)), 1);
        }
    }

    fn remembered(losses: &Losses) -> usize {
        losses.state.lock().vanished.len()
    }

    #[test]
    fn nothing_is_remembered_for_a_zone_that_cannot_be_asked_again() {
        let listeners = LossListeners::default();
        let earlier = listeners.listen(&zone(), &peer(&[REPAIR]));
        vanish(&listeners, 1);
        assert_eq!(remembered(&earlier), 1);
        let losses = listeners.listen(&zone(), &peer(&[]));
        vanish(&listeners, 1);
        assert_eq!((remembered(&losses), remembered(&earlier)), (0, 1));
    }

    #[tokio::test]
    async fn a_session_that_falls_behind_forgets_and_says_so() {
        let listeners = LossListeners::default();
        let losses = listeners.listen(&zone(), &peer(&[REPAIR]));
        vanish(&listeners, MAX_VANISHED);
        assert_eq!(remembered(&losses), MAX_VANISHED);
        vanish(&listeners, 2);
        assert_eq!(remembered(&losses), 0);
        let next = losses.next(&mirror(), |_| true).await;
        assert_eq!(next, Err(LossesForgotten));
    }

    #[tokio::test]
    async fn losses_are_logged_once_for_each_kind_and_request() {
        let listeners = LossListeners::default();
        let losses = listeners.listen(&zone(), &peer(&[REPAIR]));
        let mirror = mirror();
        let held = (0..3).map(|number| {
            let held = Held {
                version: Version::altered(),
                source: None,
                stamp: None,
            };
            (name(number), held)
        });
        mirror.holds(&maps(), held.collect());
        losses.subscribed(&maps());
        vanish(&listeners, 3);
        let log = CapturedLog::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .finish();
        let judged = tracing::subscriber::with_default(subscriber, || {
            losses.state.lock().judge(&mirror, |_| true)
        });
        assert_eq!(judged.map(|asked| asked.len()), Ok(1));
        let log = String::from_utf8(log.0.lock().clone()).expect("UTF-8");
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains("objects=3"), "{log}");
    }
}
