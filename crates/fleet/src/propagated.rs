//! Decides whether a zone has what one revision of the hub's store wrote.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use deltaplane_border::{
    Audience, Catalog, Entry, ObjectState, Place, PolicyId, definitions, namespaces,
};
use deltaplane_store::{Event, Revision, Scope, WatchError};
use deltaplane_sync::{Crossing, ObjectName, SyncKind, Verdict, Version, ZoneName};
use serde_json::Value;

use crate::divergence::is_diverged;
use crate::fleet::Fleet;
use crate::governing::Id;
use crate::kinds::GROUP;
use crate::session::Session;

/// The state of an object in a zone that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PropagationGoal {
    /// The policy that governs the object has released the version to the zone.
    Released,
    /// The zone has acknowledged the version, or a newer one.
    Applied,
}

/// The synced objects that one revision wrote.
#[derive(Debug)]
pub(crate) struct WrittenObjects {
    revision: u64,
    /// The version of each object; none where the revision deleted it.
    objects: Vec<(Id, Option<Version>)>,
    /// The revision wrote of the fleet itself: a SyncedKind brings other objects with it.
    is_of_fleet: bool,
}

/// Recently requested revisions, so that clients may go on waiting for one after its history was
/// compacted.
#[derive(Default)]
pub(crate) struct WrittenCache(BTreeMap<u64, Arc<WrittenObjects>>);

/// Why the objects of a revision are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WrittenError {
    #[error("revision {revision} has been compacted; the oldest that is kept is {oldest}")]
    Compacted { revision: u64, oldest: u64 },
    #[error("revision {revision} does not exist yet; the newest is {newest}")]
    Future { revision: u64, newest: u64 },
    #[error("failed to read the log of the store")]
    Read(#[source] WatchError),
}

/// Why a zone does not have what a revision wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PropagationObstacle {
    /// The zone has not connected since the hub started.
    Unknown,
    /// The definition does not compile at the hub.
    NotAccepted,
    /// The policy has not released the version to the zone.
    NotReleased {
        policy: PolicyId,
        /// The release that the zone should have now.
        release: Option<u64>,
    },
    /// The policy rolled the version back, and releases it no more.
    RolledBack {
        policy: PolicyId,
        /// The release that had the version.
        failed: u64,
        /// The zone in which that failed; nothing where a person asked for the rollback.
        failed_in: Option<String>,
    },
    /// The zone followed more than this hub knows, and is sent nothing until that is settled.
    Diverged(ZoneName),
    Rejected(String),
    /// The deletion is more than the zone's budget allows.
    DeletionHeld,
    /// The zone is not connected.
    Away,
    /// The object is on its way.
    InFlight,
}

/// Revisions that are remembered.
const REMEMBERED: usize = 1000;

// === impl WrittenCache ===

impl WrittenCache {
    fn insert(&mut self, written: &Arc<WrittenObjects>) {
        self.0.insert(written.revision, written.clone());
        while self.0.len() > REMEMBERED {
            self.0.pop_first();
        }
    }
}

// === impl Fleet ===

impl Fleet {
    /// Returns the synced objects that a revision wrote.
    pub(crate) async fn written_by(
        &self,
        revision: u64,
    ) -> Result<Arc<WrittenObjects>, WrittenError> {
        let inner = self.inner();
        if let Some(known) = inner.written.lock().0.get(&revision) {
            return Ok(known.clone());
        }
        let written = match revision.checked_sub(1) {
            Some(before) => self.read_written(before, revision).await?,
            // Nothing was written at the beginning.
            None => WrittenObjects {
                revision,
                objects: Vec::new(),
                is_of_fleet: false,
            },
        };
        let written = Arc::new(written);
        // Objects of a kind that is synced later are found then.
        if !written.objects.is_empty() {
            inner.written.lock().insert(&written);
        }
        Ok(written)
    }

    /// Returns true if a revision wrote something that zones are sent, or were.
    pub(crate) fn crosses(&self, written: &WrittenObjects) -> bool {
        let catalog = self.inner().catalog.read();
        let is_sent = |entry: &Entry| match entry {
            Entry::Governed(_) => true,
            Entry::Shared { .. } => entry.is_for_anybody(),
        };
        let crosses = |((kind, name), version): &(Id, Option<Version>)| {
            version.is_none() || catalog.entry(kind, name).is_some_and(is_sent)
        };
        written.is_of_fleet || written.objects.iter().any(crosses)
    }

    async fn read_written(
        &self,
        before: u64,
        revision: u64,
    ) -> Result<WrittenObjects, WrittenError> {
        let store = &self.inner().store;
        let newest = store.revision().get();
        if revision > newest {
            return Err(WrittenError::Future { revision, newest });
        }
        let failed = |error: WatchError| match error {
            WatchError::Resync { oldest, .. } => WrittenError::Compacted {
                revision,
                oldest: oldest.get(),
            },
            WatchError::Future { newest, .. } => WrittenError::Future {
                revision,
                newest: newest.get(),
            },
            WatchError::Storage { .. } | WatchError::Closed => WrittenError::Read(error),
        };
        let watch = store.watch(Scope::everything(), Revision::new(before));
        let mut watch = watch.map_err(failed)?;
        // All changes of a revision are in one batch.
        let batch = watch.next_batch(1).await.map_err(failed)?;
        // Which kinds cross is asked as of the revision or later.
        self.caught_up().await;
        let events = batch.events.iter();
        let events: Vec<&Arc<Event>> = events
            .filter(|event| event.revision().get() == revision)
            .collect();
        let objects = events.iter().filter_map(|event| self.written(event));
        Ok(WrittenObjects {
            revision,
            objects: objects.collect(),
            is_of_fleet: events.iter().any(|event| is_of_fleet(event)),
        })
    }

    /// Returns the object of an event, if objects of its kind cross.
    fn written(&self, event: &Event) -> Option<(Id, Option<Version>)> {
        let key = event.key();
        let (group, plural) = key
            .resource()
            .split_once('/')
            .unwrap_or(("", key.resource()));
        let kind = self.crossing_kind(group, plural)?;
        let name = ObjectName::new(key.namespace(), key.name()).ok()?;
        if event.is_delete() {
            return Some(((kind, name), None));
        }
        let object: Value = serde_json::from_slice(event.object().bytes()).ok()?;
        let version = Crossing::of(&object).ok()?.version();
        Some(((kind, name), Some(version)))
    }

    fn crossing_kind(&self, group: &str, plural: &str) -> Option<SyncKind> {
        let known = self.known();
        let known = known.borrow();
        match (known.synced(group, plural), group, plural) {
            (Some(synced), _, _) => Some(synced.kind.clone()),
            (None, "", "namespaces") => Some(namespaces()),
            (None, "apiextensions.k8s.io", "customresourcedefinitions") => Some(definitions()),
            (None, _, _) => None,
        }
    }

    /// Returns why a zone does not have what a revision wrote; none when it has it, or has
    /// something newer in its place, or is not to have it.
    pub(crate) fn propagation_obstacle(
        &self,
        zone: &ZoneName,
        written: &WrittenObjects,
        goal: PropagationGoal,
    ) -> Option<PropagationObstacle> {
        let session = self.session_of(zone);
        let session = session.as_deref();
        let counts_stream = written.objects.is_empty() && written.is_of_fleet;
        let obstacle = if counts_stream && goal == PropagationGoal::Applied {
            self.stream_obstacle(session, written.revision)
        } else {
            let mut objects = written.objects.iter();
            objects.find_map(|object| {
                self.release_obstacle(zone, object, written.revision)
                    .or_else(|| match goal {
                        PropagationGoal::Released => None,
                        PropagationGoal::Applied => {
                            self.delivery_obstacle(session, object, written.revision)
                        }
                    })
            })
        };
        obstacle.map(|obstacle| match obstacle.is_settled_by_reconciling() {
            true if self.is_zone_diverged(zone, session) => {
                PropagationObstacle::Diverged(zone.clone())
            }
            true | false => obstacle,
        })
    }

    fn is_zone_diverged(&self, zone: &ZoneName, session: Option<&Session>) -> bool {
        let governing = self.inner().governing.lock();
        let object = governing.zones.get(zone);
        object.is_some_and(|object| is_diverged(session, object))
    }

    /// Returns the policy that has not released to a zone what a revision wrote of an object.
    fn release_obstacle(
        &self,
        zone: &ZoneName,
        (id, version): &(Id, Option<Version>),
        revision: u64,
    ) -> Option<PropagationObstacle> {
        let (policy, place) = {
            let catalog = self.catalog().read();
            if is_undecided(&catalog, id) {
                return Some(PropagationObstacle::NotAccepted);
            }
            governing_place(&catalog, id, zone)?
        };
        let release = match place {
            Place::At(slot) => Some(slot.release),
            Place::Frozen => None,
        };
        let governing = self.inner().governing.lock();
        let governor = governing.policies.get(policy.as_str())?;
        let is_released = release.is_some_and(|release| {
            governor.releases.get(&release).is_some_and(|release| {
                let released = release.manifest.get(id).copied();
                let head = governor.head.get(id).map(|head| head.version);
                released == *version
                    || released == head
                    || governor.shows_as_of(id, release) >= revision
            })
        });
        if is_released {
            return None;
        }
        let head = governor.head.get(id).map(|head| head.version);
        let rolled_back = governor.rolled_back_by(id).filter(|_| head == *version);
        Some(match rolled_back {
            Some(rolled_back) => PropagationObstacle::RolledBack {
                policy,
                failed: rolled_back.release,
                failed_in: rolled_back.cause.zone,
            },
            None => PropagationObstacle::NotReleased { policy, release },
        })
    }

    /// Returns why a zone has not acknowledged what a revision wrote of an object.
    fn delivery_obstacle(
        &self,
        session: Option<&Session>,
        ((kind, name), version): &(Id, Option<Version>),
        revision: u64,
    ) -> Option<PropagationObstacle> {
        let state = session.and_then(|session| session.sending.object(kind, name));
        let (Some(session), Some(state)) = (session, state) else {
            return Some(PropagationObstacle::Unknown);
        };
        let ObjectState {
            wanted,
            acknowledged,
            rejected,
            ..
        } = &state;
        let holds_it = acknowledged.is_some() && acknowledged == version;
        let is_absent = wanted.is_none() && acknowledged.is_none();
        // A namespace or definition of the zone's own is as good.
        let is_own = matches!(rejected, Some((Verdict::Own, _)));
        if holds_it || is_absent || is_own || state.is_current() {
            return None;
        }
        if let Some((Verdict::Failed | Verdict::Foreign, reason)) = rejected {
            return Some(PropagationObstacle::Rejected(reason.clone()));
        }
        let counts = session.sending.counts(kind);
        if wanted.is_none() && counts.is_some_and(|counts| counts.held.is_some()) {
            return Some(PropagationObstacle::DeletionHeld);
        }
        // An object that changes again and again is never current; what was sent after the revision
        // is newer than what it wrote.
        self.stream_obstacle(Some(session), revision)
    }

    fn stream_obstacle(
        &self,
        session: Option<&Session>,
        revision: u64,
    ) -> Option<PropagationObstacle> {
        let Some(session) = session else {
            return Some(PropagationObstacle::Unknown);
        };
        match session.sending.through() {
            Some(through) if through >= revision => None,
            _ if session.is_open() => Some(PropagationObstacle::InFlight),
            _ => Some(PropagationObstacle::Away),
        }
    }

    /// Waits until a zone has what a revision wrote.
    pub(crate) async fn propagated(
        &self,
        zone: &ZoneName,
        written: &WrittenObjects,
        goal: PropagationGoal,
    ) {
        let (mut stirred, mut sessions) = (self.stirred(), self.sessions_changed());
        self.caught_up().await;
        loop {
            stirred.borrow_and_update();
            sessions.borrow_and_update();
            if self.propagation_obstacle(zone, written, goal).is_none() {
                return;
            }
            let changed = tokio::select! {
                changed = stirred.changed() => changed,
                changed = sessions.changed() => changed,
            };
            if changed.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// Returns true if an event is of a kind that decides about other objects.
fn is_of_fleet(event: &Event) -> bool {
    let group = event.key().resource().split_once('/');
    group.is_some_and(|(group, _)| group == GROUP)
}

/// Returns true if an object must not leave the hub as it is.
fn is_undecided(catalog: &Catalog, (kind, name): &Id) -> bool {
    matches!(
        catalog.entry(kind, name),
        Some(Entry::Shared {
            audience: Audience::Undecided,
            ..
        })
    )
}

/// Returns the policy that governs an object, and where it placed a zone; none if no policy that is
/// for the zone governs it.
fn governing_place(
    catalog: &Catalog,
    (kind, name): &Id,
    zone: &ZoneName,
) -> Option<(PolicyId, Place)> {
    let Some(Entry::Governed(governed)) = catalog.entry(kind, name) else {
        return None;
    };
    let place = match catalog.placement(&governed.policy) {
        Some(placement) => placement.get(zone)?,
        None => Place::Frozen,
    };
    Some((governed.policy.clone(), place))
}

// === impl PropagationGoal ===

impl std::str::FromStr for PropagationGoal {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "released" => Ok(Self::Released),
            "applied" => Ok(Self::Applied),
            _ => Err(()),
        }
    }
}

// === impl PropagationObstacle ===

impl PropagationObstacle {
    /// Returns true if a zone that has diverged is held by that, whatever else it waits for.
    fn is_settled_by_reconciling(&self) -> bool {
        match self {
            Self::Unknown
            | Self::NotReleased { .. }
            | Self::Diverged(_)
            | Self::DeletionHeld
            | Self::Away
            | Self::InFlight => true,
            Self::NotAccepted | Self::RolledBack { .. } | Self::Rejected(_) => false,
        }
    }
}

impl fmt::Display for PropagationObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the zone has not connected since the hub started"),
            Self::NotAccepted => f.write_str(
                "the hub has not accepted the definition; its condition GraphAccepted says why",
            ),
            Self::NotReleased {
                policy,
                release: Some(release),
            } => write!(
                f,
                "policy {policy} has not released it to the zone, which is at release {release}"
            ),
            Self::NotReleased {
                policy,
                release: None,
            } => write!(f, "policy {policy} has not released it to the zone"),
            Self::RolledBack {
                policy,
                failed,
                failed_in,
            } => {
                write!(f, "policy {policy} rolled back release {failed}, which had it")?;
                match failed_in {
                    Some(zone) => write!(f, " and failed in zone {zone}")?,
                    None => f.write_str(", as a person asked")?,
                }
                write!(
                    f,
                    "; change the object, or see: deltaplane rollout why policy/{policy}"
                )
            }
            Self::Diverged(zone) => write!(
                f,
                "the zone followed a later state than the hub has, and is sent nothing until somebody settles it: deltaplane zones reconcile {zone} --keep hub|zone"
            ),
            Self::Rejected(reason) => write!(f, "the zone rejected it: {reason}"),
            Self::DeletionHeld => f.write_str(
                "the deletion is held by the zone's deletion budget; deltaplane zones approve-deletions lets it go",
            ),
            Self::Away => f.write_str("the zone is not connected"),
            Self::InFlight => f.write_str("the zone has not acknowledged it yet"),
        }
    }
}
