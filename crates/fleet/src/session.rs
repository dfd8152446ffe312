//! The hub's end of a zone's connection.

mod streams;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use deltaplane_border::{Mirror, MirrorConfig, Receiving, Sending, Subscriptions, Target};
use deltaplane_client::Pace;
use deltaplane_runtime::{Stop, Trigger};
use deltaplane_sync::{
    DeletionBudget, Epoch, FEATURES, FollowedPosition, Hello, Item, ObjectName, Origin, Outcome,
    PROTOCOLS, Position, ProtocolError, Receiver, Refused, Request, Response, Revision, SenderRole,
    SessionId, SyncKind, Uploaded, Welcome, ZoneName, welcome,
};
use futures::future::{BoxFuture, ready};
use futures::{FutureExt, Stream, StreamExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::divergence::{ZoneSettlement, store_identity};
use crate::fleet::Fleet;
use crate::known::Known;
use crate::losses::Losses;
use crate::metering::Metered;
use crate::status::{DivergedUpdate, Transition};

pub use streams::{SessionStream, StreamPlace};

/// A zone's connection, or its last one.
pub struct Session {
    pub zone: ZoneName,
    /// Of the zone's object.
    pub(crate) uid: String,
    pub id: SessionId,
    pub peer: Peer,
    pub since: SystemTime,
    /// How much may be deleted in the zone.
    pub budget: DeletionBudget,
    pub(crate) sending: Sending,
    /// How far the zone followed a hub before, as it says.
    pub(crate) followed: Option<FollowedPosition>,
    /// The identity of the zone's store, as it says.
    pub(crate) store: Option<String>,
    /// The settlement of that store under an earlier Zone of the same name.
    pub(crate) earlier_settlement: Option<ZoneSettlement>,
    /// The kinds that the zone will say what it holds of, as it says.
    pub(crate) mirrored_kinds: BTreeSet<SyncKind>,
    open: AtomicBool,
    pub(crate) ended: Trigger,
    /// When the zone was last heard of.
    heard: Mutex<SystemTime>,
    /// When the connection was lost.
    lost: Mutex<Option<SystemTime>>,
    /// How it stands with what the zone sends, as it said when.
    pub(crate) uploaded: Mutex<Option<(SystemTime, Uploaded)>>,
    /// The streams that are open.
    streams: Mutex<BTreeSet<SessionStream>>,
}

/// What a zone said of itself.
#[derive(Clone, Debug)]
pub struct Peer {
    pub product: String,
    pub protocol: u32,
    pub features: BTreeSet<String>,
}

/// Why a zone is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    #[error("there is no zone {0}; make one with: deltaplane token create --zone {0}")]
    Unknown(ZoneName),
    #[error(
        "the spec of zone {0} cannot be read by this version of the hub; correct it with: kubectl edit zone {0}"
    )]
    Unreadable(ZoneName),
    #[error("zone {0} is not enabled; set spec.enabled of its object to true")]
    Disabled(ZoneName),
    #[error("the certificate is for an earlier zone {0}, which was deleted; join it again")]
    Earlier(ZoneName),
    #[error("the join token of zone {0} was replaced by a newer one, or revoked")]
    Revoked(ZoneName),
    #[error("the certificate is for zone {certificate}, and not for {claimed}")]
    OtherZone {
        certificate: ZoneName,
        claimed: ZoneName,
    },
    #[error(
        "the hub takes no writes, and zones cannot follow it until it does; free some room on its disk"
    )]
    Unrecorded,
    #[error(transparent)]
    Refused(Refused),
}

/// What comes from a zone, as far as its kind is taken from zones.
struct FromZone {
    mirror: Arc<Mirror>,
    known: watch::Receiver<Arc<Known>>,
    losses: Arc<Losses>,
}

/// A session that is replaced by another one so soon was hardly lost unnoticed.
const OUSTED: Duration = Duration::from_secs(10);
/// As large as the body of a request to the API may be: larger objects are not even decoded.
pub(crate) const MAX_OBJECT: usize = 3 << 20;
/// How long an approval counts for what a zone deletes.
const LETS_GO: Duration = Duration::from_secs(600);

// === impl FromZone ===

impl FromZone {
    /// Whether an object may come like this.
    fn takes(&self, kind: &SyncKind, item: Option<&Item>) -> Outcome {
        let known = self.known.borrow();
        let Some(synced) = known.synced.values().find(|one| one.kind == *kind) else {
            return Err("objects of this kind do not cross any more"
                .to_owned()
                .into());
        };
        if !synced.goes_up() {
            return Err("objects of this kind are not taken from zones any more"
                .to_owned()
                .into());
        }
        let Some(item) = item else {
            return Ok(());
        };
        if item.body.len() > MAX_OBJECT {
            let size = item.body.len();
            let reason = format!("the object has {size} bytes, and {MAX_OBJECT} are possible");
            return Err(reason.into());
        }
        let object: Value = serde_json::from_slice(&item.body).unwrap_or_default();
        match synced.takes(&object) {
            true => Ok(()),
            false => Err("objects like this do not cross".to_owned().into()),
        }
    }

    /// Takes nothing for lost that is being written.
    fn written<'a>(
        &'a self,
        (kind, name): (&'a SyncKind, &'a ObjectName),
        write: BoxFuture<'a, Outcome>,
    ) -> BoxFuture<'a, Outcome> {
        let written = async move {
            let _writing = self.losses.writing(&self.mirror, kind, name);
            write.await
        };
        written.boxed()
    }
}

impl Target for FromZone {
    fn apply<'a>(
        &'a self,
        kind: &'a SyncKind,
        name: &'a ObjectName,
        item: &'a Item,
        at: &'a Position,
    ) -> BoxFuture<'a, Outcome> {
        match self.takes(kind, Some(item)) {
            Ok(()) => self.written((kind, name), self.mirror.apply(kind, name, item, at)),
            Err(reason) => ready(Err(reason)).boxed(),
        }
    }

    fn orphan<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome> {
        // `SenderRole::Zone` refuses the message before it comes to this.
        let reason = format!("{kind} {name} stays the zone's: only the hub orphans objects");
        ready(Err(reason.into())).boxed()
    }

    fn delete<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome> {
        match self.takes(kind, None) {
            Ok(()) => self.written((kind, name), self.mirror.delete(kind, name)),
            Err(reason) => ready(Err(reason)).boxed(),
        }
    }

    fn count(&self, kind: &SyncKind) -> u64 {
        self.mirror.count(kind)
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

// === impl Session ===

impl Session {
    /// Whether the zone is connected.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// When the zone was last heard of.
    pub fn heard(&self) -> SystemTime {
        *self.heard.lock()
    }

    /// Since when the zone is not connected, if it is not.
    pub fn lost(&self) -> Option<SystemTime> {
        (*self.lost.lock()).filter(|_| !self.is_open())
    }

    /// The record of how far the zone followed, if the zone lost it.
    pub(crate) fn lost_record(&self) -> Option<&Epoch> {
        let epoch = &self.followed.as_ref()?.position.epoch;
        epoch.is_unproven().then_some(epoch)
    }

    /// The newest release of a policy that the zone followed, as it says; 0 if none.
    pub(crate) fn claimed_release(&self, policy: &str) -> u64 {
        let followed = self.followed.as_ref();
        let claimed = followed.and_then(|followed| followed.releases.get(policy));
        claimed.copied().unwrap_or(0)
    }

    /// Returns true if the zone followed a state that the hub lost: nothing is sent to it.
    pub fn is_diverged(&self) -> bool {
        self.sending.diverged().is_some()
    }

    /// Ended by a newer session, or by whoever disables the zone.
    pub fn ended(&self) -> Stop {
        self.ended.subscribe()
    }
}

// === impl Fleet ===

impl Fleet {
    /// Whether a zone may connect that has a certificate for this zone and object.
    pub fn admit(&self, zone: &ZoneName, uid: &str) -> Result<(), HandshakeError> {
        let known = self.inner().known.borrow();
        let entry = known.zones.get(zone);
        let entry = entry.ok_or_else(|| HandshakeError::Unknown(zone.clone()))?;
        if entry.uid != uid {
            return Err(HandshakeError::Earlier(zone.clone()));
        }
        if entry.is_unreadable {
            return Err(HandshakeError::Unreadable(zone.clone()));
        }
        match entry.spec.enabled {
            true => Ok(()),
            false => Err(HandshakeError::Disabled(zone.clone())),
        }
    }

    /// Whether a join token counts that is for this zone and object.
    pub fn admit_token(&self, zone: &ZoneName, uid: &str, id: &str) -> Result<(), HandshakeError> {
        self.admit(zone, uid)?;
        let known = self.inner().known.borrow();
        let newest = known.zones.get(zone).and_then(|zone| zone.token.as_deref());
        match newest == Some(id) {
            true => Ok(()),
            false => Err(HandshakeError::Revoked(zone.clone())),
        }
    }

    /// Opens a session of the zone that a certificate is for. An older one ends.
    pub fn handshake(
        &self,
        (zone, uid): (&ZoneName, &str),
        hello: &Hello,
    ) -> Result<(Arc<Session>, Welcome), HandshakeError> {
        if hello.zone != *zone {
            return Err(HandshakeError::OtherZone {
                certificate: zone.clone(),
                claimed: hello.zone.clone(),
            });
        }
        self.admit(zone, uid)?;
        let inner = self.inner();
        if !*inner.recorded.borrow() {
            return Err(HandshakeError::Unrecorded);
        }
        let ours = Welcome {
            product: inner.product.clone(),
            protocol: *PROTOCOLS.end(),
            features: FEATURES.map(str::to_owned).into(),
            epoch: inner.catalog.read().epoch().clone(),
        };
        let welcome = welcome(hello, &ours, &PROTOCOLS).map_err(HandshakeError::Refused)?;
        let peer = Peer {
            product: hello.product.clone(),
            protocol: welcome.protocol,
            features: welcome.features.clone(),
        };
        Ok((self.open_session((zone, uid), peer, hello), welcome))
    }

    fn open_session(
        &self,
        (zone, uid): (&ZoneName, &str),
        peer: Peer,
        hello: &Hello,
    ) -> Arc<Session> {
        let inner = self.inner();
        let mut followed = hello.followed.clone();
        // Releases of another hub say nothing of this one's, though policies are called the same.
        let ours = inner.catalog.read().epoch().store().to_owned();
        if let Some(other) = followed
            .as_mut()
            .filter(|one| one.position.epoch.store() != ours)
        {
            other.releases.clear();
        }
        let store = store_identity(&hello.epoch);
        let earlier_settlement = self.earlier_settlement((zone, uid), store.as_deref());
        let earlier = earlier_settlement.as_ref();
        let claimed = followed
            .as_ref()
            .and_then(|followed| self.claimed_position(zone, &followed.position, earlier));
        let budget = self.budget(zone);
        let settled = self.settled_through(zone, earlier);
        let now = inner.clock.now();
        let mut zones = inner.zones.lock();
        let (id, _) = zones.numbers.open(zone);
        let before = zones.sessions.get(zone);
        let ledger = before.map(|before| before.sending.ledger());
        let sending = Sending::new(
            inner.catalog.clone(),
            Some(zone.clone()),
            (budget, ledger.unwrap_or_default()),
            inner.clock.clone(),
        );
        let sending = sending.following(claimed.as_ref(), settled);
        let session = Arc::new(Session {
            zone: zone.clone(),
            uid: uid.to_owned(),
            id,
            peer,
            since: now,
            budget,
            sending,
            followed,
            store,
            earlier_settlement,
            mirrored_kinds: hello.mirrored_kinds.clone(),
            open: AtomicBool::new(false),
            ended: Trigger::new().0,
            heard: Mutex::new(now),
            lost: Mutex::new(None),
            uploaded: Mutex::new(None),
            streams: Mutex::default(),
        });
        if let Some(before) = zones.sessions.insert(zone.clone(), session.clone()) {
            let lasted = now.duration_since(before.since).unwrap_or_default();
            if before.is_open() && lasted < OUSTED {
                tracing::warn!(%zone, "the zone connected again soon after it had; if this goes on, two processes run as this zone");
            }
            before.ended.stop();
        }
        drop(zones);
        self.begin_readiness(&session);
        inner.opened.send_modify(|opened| *opened += 1);
        session
    }

    /// The session with this number, if it is the zone's newest.
    pub fn session(&self, zone: &ZoneName, id: SessionId) -> Option<Arc<Session>> {
        let session = self.session_of(zone)?;
        (session.id == id).then_some(session)
    }

    /// Sends a zone what it should have, until its requests end.
    pub async fn hub_to_zone<S>(
        &self,
        session: &Session,
        requests: S,
        out: mpsc::Sender<Response>,
    ) -> Result<(), ProtocolError>
    where
        S: Stream<Item = Result<Request, ProtocolError>>,
    {
        session.open.store(true, Ordering::Release);
        self.stir();
        self.inner().opened.send_modify(|opened| *opened += 1);
        self.note(session, None);
        let ended = session.ended();
        // Before the first request: it may be about what was approved.
        session.sending.approve(self.approved(&session.zone));
        let requests = requests.inspect(|_| self.heard(session));
        // The projector publishes that a zone is gone before the catalog withdraws anything.
        let is_admitted = || self.admit(&session.zone, &session.uid).is_ok();
        let sent = tokio::select! {
            sent = session.sending.run(requests, out, &ended, is_admitted) => sent,
            () = self.approve(session) => Ok(()),
            () = self.listen(session) => Ok(()),
            () = self.tell_divergence(session) => Ok(()),
        };
        *session.lost.lock() = Some(self.inner().clock.now());
        session.open.store(false, Ordering::Release);
        self.stir();
        let is_last = self
            .inner()
            .zones
            .lock()
            .numbers
            .close(&session.zone, session.id);
        if is_last {
            self.note(session, sent.as_ref().err().map(ToString::to_string));
        }
        sent
    }

    /// How much may be deleted in a zone, or because of it.
    pub(crate) fn budget(&self, zone: &ZoneName) -> DeletionBudget {
        let known = self.inner().known.borrow();
        let zone = known.zones.get(zone);
        zone.map(|zone| zone.budget()).unwrap_or_default()
    }

    /// Up to which revision people approved that more is deleted in a zone, or because of it, than
    /// its budget allows. What was approved before this process began may be about anything by
    /// now, and nobody can approve the future.
    pub(crate) fn approved(&self, zone: &ZoneName) -> Revision {
        let inner = self.inner();
        let approved = inner
            .known
            .borrow()
            .zones
            .get(zone)
            .map(|zone| zone.approved);
        let approved = approved.unwrap_or(0).min(inner.store.revision().get());
        match approved >= inner.catalog.read().began() {
            true => approved,
            false => 0,
        }
    }

    /// Passes on what people approve.
    async fn approve(&self, session: &Session) {
        let mut known = self.inner().known.clone();
        let mut before = 0;
        loop {
            known.borrow_and_update();
            let approved = self.approved(&session.zone);
            if approved > before {
                before = approved;
                session.sending.approve(approved);
            }
            if known.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Whether a zone's deletions may be more than its budget allows: for a while after somebody
    /// said so, since it tries again only now and then.
    pub(crate) fn approves_deletions(&self, zone: &ZoneName) -> bool {
        let inner = self.inner();
        let said = |known: &Known| Some(known.zones.get(zone)?.approved_at);
        let said = said(&inner.known.borrow());
        let ago = said.map(|said| inner.clock.elapsed().saturating_sub(said));
        ago.is_some_and(|ago| ago < LETS_GO) && self.approved(zone) > 0
    }

    pub(crate) fn note(&self, session: &Session, message: Option<String>) {
        let inner = self.inner();
        inner.transitions.note(
            &session.zone,
            Transition {
                uid: session.uid.clone(),
                connected: session.is_open(),
                at: inner.clock.now(),
                product: session.peer.product.clone(),
                features: session.peer.features.clone(),
                message,
                earlier_settlement: session.earlier_settlement.clone(),
                diverged: match self.divergence(session) {
                    Some(divergence) => {
                        let fork = self.fork(&divergence.lost);
                        DivergedUpdate::Set(divergence.condition(), fork)
                    }
                    None => DivergedUpdate::Remove,
                },
            },
        );
    }

    /// Takes what a zone has authored, until its responses end.
    pub async fn zone_to_hub<S>(
        &self,
        session: &Session,
        responses: S,
        out: mpsc::Sender<Request>,
    ) -> Result<(), ProtocolError>
    where
        S: Stream<Item = Result<Response, ProtocolError>>,
    {
        let Some(client) = self.client() else {
            return Err(ProtocolError::Malformed("the hub is not ready".to_owned()));
        };
        let inner = self.inner();
        // One after the other: what the session before still writes must not meet what comes now,
        // and all that it has written must be known.
        let ended = session.ended();
        let taking = {
            let mut zones = inner.zones.lock();
            zones
                .taking
                .entry(session.zone.clone())
                .or_default()
                .clone()
        };
        let Some(_taking) = ended.unless(taking.lock()).await else {
            return Ok(());
        };
        // Before anything is read: what is lost from then on is told.
        let losses = inner.losses.listen(&session.zone, &session.peer);
        self.caught_up().await;
        let mirror = Arc::new(Mirror::new(MirrorConfig {
            client,
            pace: Pace::system(),
            place: Origin::Hub,
            sender: Origin::Zone(session.zone.clone()),
            guarded: true,
        }));
        let ledger = inner.zones.lock().ledgers.get(&session.zone).cloned();
        let mut receiver =
            Receiver::new(SenderRole::Zone, session.budget, ledger.unwrap_or_default());
        let target = Arc::new(Metered {
            target: FromZone {
                mirror: mirror.clone(),
                known: inner.known.clone(),
                losses: losses.clone(),
            },
            zone: session.zone.clone(),
            usage: self.usage_of(&session.zone),
            fleet: self.clone(),
        });
        let (receiving, subscriptions) =
            Receiving::new(target, inner.group.clone(), inner.clock.clone());
        let received = tokio::select! {
            received = receiving.run(&mut receiver, responses, out, &ended) => received,
            () = self.subscribe(session, (&mirror, &losses), &subscriptions) => Ok(()),
            () = self.ask_again(session, (&mirror, &losses), &subscriptions) => Ok(()),
        };
        // Of a zone that is gone meanwhile nothing is kept.
        if self.is_zone(&session.zone) {
            let ledger = receiver.ledger().clone();
            let mut zones = inner.zones.lock();
            zones.ledgers.insert(session.zone.clone(), ledger);
        }
        received
    }

    /// Subscribes to the kinds that zones author, those to come included.
    async fn subscribe(
        &self,
        session: &Session,
        (mirror, losses): (&Mirror, &Losses),
        to: &Subscriptions,
    ) {
        let mut known = self.inner().known.clone();
        let mut subscribed: BTreeSet<SyncKind> = BTreeSet::new();
        // Not taken from zones any more.
        let mut left: BTreeSet<SyncKind> = BTreeSet::new();
        loop {
            let now = known.borrow_and_update().clone();
            let upward: BTreeSet<&SyncKind> = now.upward().map(|(kind, _)| kind).collect();
            left.extend(
                subscribed
                    .iter()
                    .filter(|kind| !upward.contains(kind))
                    .cloned(),
            );
            // Meanwhile anybody could change what is here: the next session says what that is.
            if upward.iter().any(|kind| left.contains(*kind)) {
                session.ended.stop();
            }
            for (kind, plural) in now.upward() {
                if !subscribed.insert(kind.clone()) {
                    continue;
                }
                let key = (session.zone.clone(), kind.clone());
                let held = self.inner().from_zones.read().get(&key).cloned();
                mirror.learn(kind, plural);
                self.measure(&session.zone, kind, plural);
                mirror.holds(kind, held.unwrap_or_default());
                to.add(kind.clone(), mirror.versions(kind)).await;
                losses.subscribed(kind);
            }
            if known.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Asks the zone again for what it did not take back and the hub lost: the namespace that it
    /// was in was deleted, say, or the definition of its kind. Zones that cannot be asked send all
    /// that is wanted when they connect again.
    async fn ask_again(
        &self,
        session: &Session,
        (mirror, losses): (&Mirror, &Losses),
        to: &Subscriptions,
    ) {
        let known = &self.inner().known;
        let is_taken = |kind: &SyncKind| known.borrow().upward().any(|(upward, _)| upward == kind);
        while let Ok(lost) = losses.next(mirror, is_taken).await {
            for (kind, names) in lost {
                to.repair(kind, names).await;
            }
        }
        tracing::warn!(
            zone = %session.zone,
            "more objects of the zone were deleted here than are remembered; the zone is to connect again"
        );
        session.ended.stop();
        std::future::pending().await
    }

    /// A zone said that it is there.
    pub fn heard(&self, session: &Session) {
        *session.heard.lock() = self.inner().clock.now();
    }
}
