//! How what zones hold fares there: what each zone is asked, and what it said.
//!
//! In memory only: a hub that starts knows nothing until its zones have said it. What a zone said
//! stays when it is lost, with the time when it was heard, and is replaced as a whole by the first
//! thing that its next connection says.
//!
//! Invariants: what is said counts for the version that it is said of, and for no other; what a
//! zone says is kept only as far as it was asked for it, and no more of a kind than there is of it
//! here; times are by the hub's clock, and never earlier than what they tell of.

mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use deltaplane_sync::{
    Asked, Fared, FaredPart, KindFared, READINESS, SessionId, SyncKind, ZoneName, redact_readiness,
};
use futures::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::fleet::Fleet;
use crate::session::Session;

pub use told::{KindReadiness, Standing, Verdict, Voice, ZoneReadiness};

/// What zones are asked, and what they said.
#[derive(Default)]
pub struct Readiness {
    zones: Mutex<Zones>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Zones {
    /// Whether it is known what to ask. Before, nobody is asked: a zone would forget what it knows.
    asking: bool,
    zones: BTreeMap<ZoneName, Zone>,
    /// Those of which something else is known than when somebody last looked.
    dirty: BTreeSet<ZoneName>,
}

#[derive(Default)]
struct Zone {
    /// What it is asked from now on; nothing before that is known.
    asked: watch::Sender<Option<Arc<Asked>>>,
    readiness: ZoneReadiness,
    /// The session that said all that there is to say, so that its changes make sense.
    session: Option<SessionId>,
    /// What a session said, until it has said all.
    begun: Option<(SessionId, BTreeMap<SyncKind, KindReadiness>)>,
}

/// Who says something, and when that is heard.
#[derive(Clone, Copy)]
struct Saying<'a> {
    zone: &'a ZoneName,
    session: SessionId,
    now: SystemTime,
}

/// So many more objects of a kind than there are here may be told of: some may be gone already.
const SLACK: usize = 1000;

// === impl Readiness ===

impl Readiness {
    /// Looks at what a zone said.
    pub fn with<T>(&self, zone: &ZoneName, look: impl FnOnce(&ZoneReadiness) -> T) -> T {
        let zones = self.zones.lock();
        match zones.zones.get(zone) {
            Some(zone) => look(&zone.readiness),
            None => look(&ZoneReadiness::default()),
        }
    }

    /// Whether what is known of a zone was said on this connection, or there is nobody who could
    /// say more.
    pub(crate) fn is_heard(&self, zone: &ZoneName, session: SessionId) -> bool {
        let zones = self.zones.lock();
        let known = zones.zones.get(zone);
        known.is_some_and(|known| match known.readiness.voice {
            Voice::Silent => false,
            Voice::Mute => true,
            Voice::Heard { .. } => known.session == Some(session),
        })
    }

    /// Woken when something else is known of some zone. See [`Self::take_dirty`].
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The zones of which something else is known than when this was last asked.
    pub fn take_dirty(&self) -> BTreeSet<ZoneName> {
        std::mem::take(&mut self.zones.lock().dirty)
    }

    /// What each zone is asked from now on; those that are not named are asked nothing.
    fn ask(&self, asked: &BTreeMap<ZoneName, Arc<Asked>>) {
        let nothing = Arc::new(Asked::default());
        let mut zones = self.zones.lock();
        zones.asking = true;
        for name in asked.keys() {
            zones.zones.entry(name.clone()).or_default();
        }
        let Zones { zones, dirty, .. } = &mut *zones;
        for (name, zone) in zones {
            let asked = asked.get(name).unwrap_or(&nothing);
            if zone.ask(asked) {
                dirty.insert(name.clone());
            }
        }
        let any = !dirty.is_empty();
        if any {
            self.changed();
        }
    }

    /// What a zone is asked, now and later.
    fn asked(&self, zone: &ZoneName) -> watch::Receiver<Option<Arc<Asked>>> {
        let mut zones = self.zones.lock();
        let asking = zones.asking;
        let zone = zones.zones.entry(zone.clone()).or_default();
        if asking && zone.asked.borrow().is_none() {
            zone.asked.send_replace(Some(Arc::default()));
        }
        zone.asked.subscribe()
    }

    /// A zone connected that can say how things fare, or cannot.
    fn connected(&self, zone: &ZoneName, speaks: bool) {
        let mut zones = self.zones.lock();
        let known = zones.zones.entry(zone.clone()).or_default();
        let changed = match (speaks, known.readiness.voice) {
            (true, Voice::Mute) => Some(Voice::Silent),
            (false, Voice::Silent | Voice::Heard { .. }) => Some(Voice::Mute),
            (true, Voice::Silent | Voice::Heard { .. }) | (false, Voice::Mute) => None,
        };
        if let Some(voice) = changed {
            known.readiness = ZoneReadiness::new(voice);
            zones.dirty.insert(zone.clone());
            self.changed();
        }
    }

    /// A zone said something. `most` says how many objects of a kind there may be.
    fn fared(&self, saying: Saying<'_>, fared: Fared, most: impl Fn(&SyncKind) -> usize) {
        let mut zones = self.zones.lock();
        let Some(zone) = zones.zones.get_mut(saying.zone) else {
            return;
        };
        if zone.fared(saying, fared, most) {
            zones.dirty.insert(saying.zone.clone());
            self.changed();
        }
    }

    /// Keeps nothing of zones that are gone.
    pub(crate) fn retain(&self, stays: impl Fn(&ZoneName) -> bool) {
        let mut zones = self.zones.lock();
        let gone = zones.zones.extract_if(.., |zone, _| !stays(zone));
        let gone: Vec<ZoneName> = gone.map(|(zone, _)| zone).collect();
        if !gone.is_empty() {
            zones.dirty.extend(gone);
            self.changed();
        }
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

// === impl Zone ===

impl Zone {
    /// Whether something that was known is not asked for any more.
    fn ask(&mut self, asked: &Arc<Asked>) -> bool {
        self.asked.send_if_modified(|before| {
            let other = before.as_ref() != Some(asked);
            if other {
                *before = Some(asked.clone());
            }
            other
        });
        let kinds = asked.kinds();
        let mut gone = self
            .readiness
            .kinds
            .extract_if(.., |kind, _| !kinds.contains(kind));
        gone.next().is_some()
    }

    /// Whether something else is known.
    fn fared(
        &mut self,
        saying: Saying<'_>,
        fared: Fared,
        most: impl Fn(&SyncKind) -> usize,
    ) -> bool {
        let Saying { session, now, .. } = saying;
        let asked = self.asked.borrow().clone().unwrap_or_default();
        let asked = asked.kinds();
        let Fared { at, part, kinds } = fared;
        let kinds = kinds.into_iter().filter(|(kind, _)| asked.contains(kind));
        let kinds = kinds.map(|(kind, said)| {
            let said = redacted(&kind, said);
            (kind, said)
        });
        let heard = Voice::Heard { at: now };
        if part == FaredPart::Changes {
            if self.session != Some(session) {
                return false;
            }
            self.readiness.voice = heard;
            let mut changed = false;
            for (kind, said) in kinds {
                let most = most(&kind);
                let known = self.readiness.kinds.entry(kind).or_default();
                changed |= known.take(said, (at, now), most);
            }
            return changed;
        }
        let (by, mut begun) = self.begun.take().unwrap_or((session, BTreeMap::new()));
        if by != session {
            begun.clear();
        }
        for (kind, said) in kinds {
            let most = most(&kind);
            let before = self.readiness.kinds.get(&kind);
            let known = begun.entry(kind).or_default();
            known.take(said, (at, now), most);
            known.keep_times(before);
        }
        if part == FaredPart::More {
            self.begun = Some((session, begun));
            return false;
        }
        let again = self.session.replace(session) == Some(session);
        let same = self.readiness.is_heard() && self.readiness.kinds == begun;
        // The same from another connection is news: what was said before did not count on it.
        let other = !(again && same);
        self.readiness = ZoneReadiness {
            voice: heard,
            kinds: begun,
        };
        other
    }
}

/// What a zone said of a kind, without what Secrets hold: the zone may be of an older version.
fn redacted(kind: &SyncKind, mut said: KindFared) -> KindFared {
    for fares in said.objects.values_mut().flatten() {
        let reason = std::mem::take(&mut fares.reason);
        fares.reason = redact_readiness(kind, fares.state, reason);
    }
    said
}

// === impl Fleet ===

impl Fleet {
    /// How what zones hold fares there, as they say.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.inner().readiness
    }

    /// What each zone is asked from now on; those that are not named are asked nothing. Zones hear
    /// of it if it is something else than before.
    pub fn ask(&self, asked: &BTreeMap<ZoneName, Arc<Asked>>) {
        self.inner().readiness.ask(asked);
    }

    /// What the zone of a session is asked, as it changes.
    pub fn asked(&self, session: &Session) -> impl Stream<Item = Arc<Asked>> + Send + use<> {
        let speaks = session.peer.features.contains(READINESS);
        let asked = speaks.then(|| self.inner().readiness.asked(&session.zone));
        let asked = stream::iter(asked).map(|mut asked| {
            asked.mark_changed();
            stream::unfold(asked, |mut asked| async move {
                loop {
                    asked.changed().await.ok()?;
                    let now = asked.borrow_and_update().clone();
                    if let Some(now) = now {
                        return Some((now, asked));
                    }
                }
            })
        });
        asked.flatten()
    }

    /// A zone said how something fares.
    pub fn fared(&self, session: &Session, fared: Fared) {
        let inner = self.inner();
        // What an older connection says is not heard.
        if self.session(&session.zone, session.id).is_none() {
            return;
        }
        let saying = Saying {
            zone: &session.zone,
            session: session.id,
            now: inner.clock.now(),
        };
        let there = |kind: &SyncKind| inner.catalog.len(kind).saturating_add(SLACK);
        inner.readiness.fared(saying, fared, there);
    }

    /// A zone connected.
    pub(crate) fn begin_readiness(&self, session: &Session) {
        let speaks = session.peer.features.contains(READINESS);
        self.inner().readiness.connected(&session.zone, speaks);
    }
}

#[cfg(test)]
mod tests;
