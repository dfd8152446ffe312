//! Zones that followed more of this hub's store than the store knows: it was restored to an earlier
//! state. A zone that lost its record of how far it followed may have: it counts as one of them.
//!
//! Such a zone is sent nothing and keeps what it has, until a person settles which side is right.
//! Before that the store's revision and the release numbers of policies are raised above all that
//! the zone followed, so that neither is ever given out twice; what policies govern then goes to
//! the zone as a new release, through its gates.

mod differences;
mod fork;
mod settlement;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_border::{Entry, definitions, namespaces};
use deltaplane_client::request::{self, Patch, RequestError};
use deltaplane_client::{ObjectKey, Resource};
use deltaplane_propagation::stages::{RECONCILED, RELEASE_FLOOR};
use deltaplane_store::{Collection, CommitError, Draft, KeyError, Revision, Txn};
use deltaplane_sync::{Difference, ObjectName, Position, SyncKind, ZoneName};
use serde_json::{Map, Value, json};

pub(crate) use differences::ZoneDifferences;
pub(crate) use fork::{FORK, StoreFork};
pub(crate) use settlement::{SettledReleases, ZoneSettlement, store_identity};

use crate::fleet::Fleet;
use crate::kinds::{GROUP, SyncedKind, TENANT, VERSION, synced_kinds};
use crate::session::Session;
use crate::status::zones;

/// How a zone differs from this hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Divergence {
    pub(crate) zone: ZoneName,
    pub(crate) lost: Position,
    pub(crate) cause: DivergenceCause,
    /// The revision of this hub.
    pub(crate) at: u64,
    pub(crate) differences: ZoneDifferences,
}

/// Why a zone cannot follow this hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DivergenceCause {
    /// The zone followed a position that this hub does not know.
    HubRestored,
    /// The zone does not know how far it followed.
    RecordLost,
}

/// The condition `Diverged` of a zone, while it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DivergedCondition {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Whether a zone has diverged: as it said on its last connection to this process, or else as its
/// status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DivergenceState {
    Diverged {
        reason: String,
        message: String,
    },
    Follows,
    /// The zone has not connected since the process began: the hub may have been restored meanwhile.
    Unknown,
}

/// How many objects differ, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DifferenceCounts {
    pub(crate) changed: usize,
    pub(crate) only_at_hub: usize,
    pub(crate) only_in_zone: usize,
}

/// The lowest number that the next release of a policy may have, because zones followed lower ones
/// in a lost future of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleaseFloor {
    pub(crate) number: u64,
    /// How far that future went, as far as it was settled.
    pub(crate) lost: u64,
}

/// A person's attempt to settle the divergence of a zone, which takes several steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReconcileAttempt<'a> {
    /// Drawn by whoever makes the attempt.
    pub(crate) id: &'a str,
    pub(crate) by: &'a str,
    /// The person says that an earlier attempt of theirs has ended.
    pub(crate) takes_over: bool,
}

/// The attempt that keeps others from settling a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReconcileClaim {
    attempt: String,
    by: String,
    /// By the clock of this process.
    until: Duration,
}

/// The floor that a policy is to have.
struct PolicyFloor {
    policy: String,
    floor: ReleaseFloor,
    zones: SettledZones,
    /// The zones that it has now.
    before: SettledZones,
}

/// What a release settles: by zone, how many objects of the policy differed there.
pub(crate) type SettledZones = BTreeMap<String, u64>;

/// Why a zone was not reconciled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    #[error("zone {0} is not connected; start it, and reconcile it then")]
    NotConnected(ZoneName),
    #[error("zone {0} has not diverged: it follows this hub")]
    NotDiverged(ZoneName),
    #[error("zone {zone} was settled by {by} at {at}: it follows this hub")]
    Settled {
        zone: ZoneName,
        by: String,
        at: String,
    },
    #[error(
        "zone {zone} is being reconciled by {by}; wait until that is done, or for {minutes} minutes if it was given up"
    )]
    UnderWay {
        zone: ZoneName,
        by: String,
        minutes: u64,
    },
    #[error(
        "zone {zone} is being reconciled by {by}, which is you; wait until that is done, or if that command has ended, repeat this one with --take-over"
    )]
    UnderWayByCaller { zone: ZoneName, by: String },
    #[error(
        "zone {zone} has not reported its objects of {kind} yet; try again soon, or run `deltaplane zones show {zone}`"
    )]
    Incomplete { zone: ZoneName, kind: SyncKind },
    #[error(
        "zone {zone} says that it followed revision {claimed}, and this hub is at {ours}: that is further ahead than a lost future can be; check the zone, and if it is right let it forget that: stop it, run deltaplane zone leave there, and let it join again"
    )]
    RevisionTooFar {
        zone: ZoneName,
        claimed: u64,
        ours: u64,
    },
    #[error(
        "zone {zone} says that it followed release {claimed} of policy {policy}, whose newest is {newest}: that is further ahead than a lost future can be; check the zone, and if it is right let it forget that: stop it, run deltaplane zone leave there, and let it join again"
    )]
    ReleaseTooFar {
        zone: ZoneName,
        policy: String,
        claimed: u64,
        newest: u64,
    },
    #[error("failed to raise the revision of the store")]
    Commit(#[source] Box<CommitError>),
    #[error("a name of the store is not legal")]
    Name(#[from] KeyError),
    #[error("failed to write what was settled")]
    Request(#[source] Box<RequestError>),
    #[error("the hub is not ready yet; try again")]
    NotReady,
}

/// A claim that is further ahead is not believed.
const MAX_REVISIONS_AHEAD: u64 = 1_000_000_000;
const MAX_RELEASES_AHEAD: u64 = 10_000;
/// Names of policies that the hub does not have are kept up to this number for each zone: the size
/// of its Zone object is bounded.
const MAX_UNKNOWN_POLICIES: usize = 1_000;
/// Whoever settles a zone and makes no step for so long has given up.
const CLAIM: Duration = Duration::from_secs(300);
/// Kinds are subscribed to one after the other: counts are written when they have settled.
const COUNTING: Duration = Duration::from_secs(1);
/// The type of the condition.
pub(crate) const DIVERGED: &str = "Diverged";
/// Not served: no kind has this collection.
const RAISED: &str = "deltaplane.io/raised";

// === impl Divergence ===

impl Divergence {
    pub(crate) fn counts(&self) -> DifferenceCounts {
        let mut counts = DifferenceCounts::default();
        for difference in self.differences.objects.values().flat_map(BTreeMap::values) {
            match difference {
                Difference::Changed => counts.changed += 1,
                Difference::OnlySender => counts.only_at_hub += 1,
                Difference::OnlyReceiver => counts.only_in_zone += 1,
            }
        }
        counts
    }

    /// As the condition of the zone says it.
    pub(crate) fn reason(&self) -> &'static str {
        match self.cause {
            DivergenceCause::HubRestored => "HubRestored",
            DivergenceCause::RecordLost => "RecordLost",
        }
    }

    pub(crate) fn condition(&self) -> DivergedCondition {
        DivergedCondition {
            reason: self.reason(),
            message: self.to_string(),
        }
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { zone, lost, at, .. } = self;
        match self.cause {
            DivergenceCause::HubRestored => write!(
                f,
                "the zone followed revision {}, which this hub (at {at}) does not know: it was restored to an earlier state.",
                lost.revision
            )?,
            DivergenceCause::RecordLost => write!(
                f,
                "the zone lost its record of how far it followed (followed.json in its data directory was damaged or missing), and may be ahead of this hub (at {at})."
            )?,
        }
        let DifferenceCounts {
            changed,
            only_at_hub,
            only_in_zone,
        } = self.counts();
        write!(
            f,
            " Objects that differ: {changed}, only at the hub: {only_at_hub}, only in the zone: {only_in_zone}. Nothing is sent until it is settled: deltaplane zones reconcile {zone} --keep hub|zone"
        )
    }
}

/// Returns true if the status of a zone says that a person settled a position that the zone followed
/// and this hub does not know.
fn settled_in_status(zone: &Map<String, Value>, lost: &Position) -> bool {
    let Some(settled) = zone.get("status").map(|status| &status["reconciled"]) else {
        return false;
    };
    if lost.epoch.is_unproven() {
        return settled["record"].as_str() == Some(&lost.epoch.0);
    }
    settled["revision"].as_u64() >= Some(lost.revision)
}

/// Returns true if a zone followed more than this hub knows, and nobody settled it: as the zone said
/// on its last connection, or as its status says if it has not connected to this process.
pub(crate) fn is_diverged(session: Option<&Session>, zone: &Map<String, Value>) -> bool {
    match session {
        Some(session) => {
            let lost = session.sending.diverged();
            lost.is_some_and(|lost| !settled_in_status(zone, &lost))
        }
        None => condition_in_status(zone).is_some(),
    }
}

/// The condition of a zone that has diverged, as its status says.
fn condition_in_status(zone: &Map<String, Value>) -> Option<&Value> {
    let conditions = zone.get("status").map(|status| &status["conditions"]);
    let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let mut conditions = conditions.filter(|one| one["type"] == DIVERGED);
    conditions.find(|one| one["status"] == "True")
}

// === impl DivergenceState ===

impl From<&Divergence> for DivergenceState {
    fn from(divergence: &Divergence) -> Self {
        Self::Diverged {
            reason: divergence.reason().to_owned(),
            message: divergence.to_string(),
        }
    }
}

impl DivergenceState {
    /// Nothing if that is not known.
    pub(crate) fn is_diverged(&self) -> Option<bool> {
        match self {
            Self::Diverged { .. } => Some(true),
            Self::Follows => Some(false),
            Self::Unknown => None,
        }
    }
}

// === impl ReconcileError ===

impl From<CommitError> for ReconcileError {
    fn from(error: CommitError) -> Self {
        Self::Commit(Box::new(error))
    }
}

impl From<RequestError> for ReconcileError {
    fn from(error: RequestError) -> Self {
        Self::Request(Box::new(error))
    }
}

// === impl ReconcileClaim ===

impl ReconcileClaim {
    /// Returns true if an attempt has to wait for this one. Nobody takes over from somebody else.
    fn excludes(&self, attempt: &ReconcileAttempt<'_>, now: Duration) -> bool {
        let is_taken_over = attempt.takes_over && attempt.by == self.by;
        self.until > now && attempt.id != self.attempt && !is_taken_over
    }
}

// === impl ReleaseFloor ===

impl ReleaseFloor {
    /// As the status of a policy says.
    pub(crate) fn of(policy: &Value) -> Self {
        let floor = &policy["status"][RELEASE_FLOOR];
        let number = |key: &str| floor[key].as_u64().unwrap_or(0);
        Self {
            number: number("number"),
            lost: number("lost"),
        }
    }

    /// The zones for which it was raised.
    pub(crate) fn zones(policy: &Value) -> SettledZones {
        let zones = policy["status"][RELEASE_FLOOR]["zones"].as_object();
        let zones = zones.into_iter().flatten();
        zones
            .map(|(zone, objects)| (zone.clone(), objects.as_u64().unwrap_or(0)))
            .collect()
    }

    /// The floor of a policy whose newest release is `newest`, once a zone is reconciled that
    /// followed `claimed` of it in a future that went to `lost`. Nothing if it is there already.
    fn raised(self, newest: u64, claimed: u64, lost: u64) -> Option<Self> {
        let covers = self.lost >= lost && self.number > claimed;
        let number = newest.max(claimed) + 1;
        (!covers).then_some(Self { number, lost })
    }
}

/// Refuses a claim that would use up the revisions of the store.
fn refuse_far_revision(zone: &ZoneName, claimed: u64, ours: u64) -> Result<(), ReconcileError> {
    if claimed.saturating_sub(ours) <= MAX_REVISIONS_AHEAD {
        return Ok(());
    }
    Err(ReconcileError::RevisionTooFar {
        zone: zone.clone(),
        claimed,
        ours,
    })
}

/// Refuses a claim that would use up the numbers of releases.
fn refuse_far_release(
    (zone, policy): (&ZoneName, &str),
    claimed: u64,
    newest: u64,
) -> Result<(), ReconcileError> {
    if claimed.saturating_sub(newest) <= MAX_RELEASES_AHEAD {
        return Ok(());
    }
    Err(ReconcileError::ReleaseTooFar {
        zone: zone.clone(),
        policy: policy.to_owned(),
        claimed,
        newest,
    })
}

// === impl Fleet ===

impl Fleet {
    /// A person settled what a zone followed of a lost future, up to here.
    pub(crate) fn reconciled(&self, zone: &ZoneName) -> u64 {
        let known = self.inner().known.borrow();
        known.zones.get(zone).map_or(0, |zone| zone.reconciled)
    }

    /// The same, under this Zone or an earlier one.
    pub(crate) fn settled_through(&self, zone: &ZoneName, earlier: Option<&ZoneSettlement>) -> u64 {
        let earlier = earlier.map_or(0, ZoneSettlement::revision);
        self.reconciled(zone).max(earlier)
    }

    /// The position that a zone is judged by when it connects, if it is to be. A zone that lost its
    /// record counts as ahead of everything here, until a person settles that very record.
    pub(crate) fn claimed_position(
        &self,
        zone: &ZoneName,
        followed: &Position,
        earlier: Option<&ZoneSettlement>,
    ) -> Option<Position> {
        if !followed.epoch.is_unproven() {
            return Some(followed.clone());
        }
        let is_settled = |earlier: &ZoneSettlement| earlier.has_record(&followed.epoch);
        if self.is_settled(zone, followed) || earlier.is_some_and(is_settled) {
            return None;
        }
        // What was settled before is settled up to a revision, and this is not.
        let unsettled = self.settled_through(zone, earlier).saturating_add(1);
        Some(Position {
            epoch: followed.epoch.clone(),
            revision: self.inner().store.revision().get().max(unsettled),
        })
    }

    /// Returns true if a person settled a position that this hub does not know.
    pub(crate) fn is_settled(&self, zone: &ZoneName, lost: &Position) -> bool {
        if !lost.epoch.is_unproven() {
            return lost.revision <= self.reconciled(zone);
        }
        let known = self.inner().known.borrow();
        let zone = known.zones.get(zone);
        zone.is_some_and(|zone| zone.reconciled_record.as_ref() == Some(&lost.epoch))
    }

    /// Whether a zone has diverged, connected or not.
    pub(crate) fn divergence_state(&self, zone: &ZoneName) -> DivergenceState {
        let session = self.session_of(zone);
        let live = session
            .as_ref()
            .and_then(|session| self.divergence(session));
        if let Some(divergence) = live {
            return DivergenceState::from(&divergence);
        }
        let governing = self.inner().governing.lock();
        let object = governing.zones.get(zone);
        let condition = object.and_then(|object| condition_in_status(object));
        match (session, condition) {
            (Some(_), _) => DivergenceState::Follows,
            (None, None) => DivergenceState::Unknown,
            (None, Some(condition)) => {
                let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
                DivergenceState::Diverged {
                    reason: text("reason"),
                    message: text("message"),
                }
            }
        }
    }

    /// How a zone differs from this hub, if it followed more than the hub knows and nobody settled
    /// it yet.
    pub(crate) fn divergence(&self, session: &Session) -> Option<Divergence> {
        let lost = session.sending.diverged()?;
        if self.is_settled(&session.zone, &lost) {
            return None;
        }
        let mut differences = self.differences(session);
        // Which kinds are synced is no object of the zone.
        differences.objects.remove(&synced_kinds());
        let cause = match session.lost_record() {
            Some(_) => DivergenceCause::RecordLost,
            None => DivergenceCause::HubRestored,
        };
        Some(Divergence {
            zone: session.zone.clone(),
            lost,
            cause,
            at: self.inner().store.revision().get(),
            differences,
        })
    }

    /// Writes how a zone differs whenever that changes, as long as it is connected.
    pub(crate) async fn tell_divergence(&self, session: &Session) {
        let mut said = session.sending.said();
        let mut told = None;
        loop {
            said.borrow_and_update();
            let counts = self.divergence(session).map(|one| one.counts());
            if counts.is_some() && counts != told {
                if told.is_none() {
                    tracing::warn!(
                        zone = %session.zone,
                        hint = format!("deltaplane zones reconcile {} --keep hub --dry-run", session.zone),
                        "the zone has diverged: it followed a state that the hub lost, and is sent nothing"
                    );
                }
                self.note(session, None);
                told = counts;
            }
            if said.changed().await.is_err() {
                return std::future::pending().await;
            }
            self.inner().clock.sleep(COUNTING).await;
        }
    }

    /// Begins or goes on with an attempt to settle a zone, unless another one is under way: that may
    /// be about to write at the hub what this one means to drop.
    pub(crate) fn claim_reconcile(
        &self,
        zone: &ZoneName,
        attempt: &ReconcileAttempt<'_>,
    ) -> Result<(), ReconcileError> {
        let inner = self.inner();
        let now = inner.clock.elapsed();
        let mut zones = inner.zones.lock();
        let claim = zones.reconciling.get(zone);
        if let Some(other) = claim.filter(|claim| claim.excludes(attempt, now)) {
            let (zone, by) = (zone.clone(), other.by.clone());
            if by == attempt.by {
                return Err(ReconcileError::UnderWayByCaller { zone, by });
            }
            let left = other.until.saturating_sub(now).as_secs();
            let minutes = left.div_ceil(60).max(1);
            return Err(ReconcileError::UnderWay { zone, by, minutes });
        }
        let claim = ReconcileClaim {
            attempt: attempt.id.to_owned(),
            by: attempt.by.to_owned(),
            until: now + CLAIM,
        };
        zones.reconciling.insert(zone.clone(), claim);
        Ok(())
    }

    /// An attempt to settle a zone has ended. Another one is not touched.
    pub(crate) fn end_reconcile(&self, zone: &ZoneName, attempt: &str) {
        let mut zones = self.inner().zones.lock();
        let claim = zones.reconciling.get(zone);
        if claim.is_some_and(|claim| claim.attempt == attempt) {
            zones.reconciling.remove(zone);
        }
    }

    /// Returns who settled a zone last, if the zone has nothing to be settled on its last connection.
    fn settled_meanwhile(&self, zone: &ZoneName) -> Option<ReconcileError> {
        let lost = self.session_of(zone)?.sending.diverged();
        if lost.is_some_and(|lost| !self.is_settled(zone, &lost)) {
            return None;
        }
        let governing = self.inner().governing.lock();
        let reconciled = &governing.zones.get(zone)?.get("status")?[RECONCILED];
        Some(ReconcileError::Settled {
            zone: zone.clone(),
            by: reconciled["by"].as_str()?.to_owned(),
            at: reconciled["at"].as_str()?.to_owned(),
        })
    }

    /// The session of a zone that followed more than this hub knows.
    fn diverged_session(
        &self,
        zone: &ZoneName,
    ) -> Result<(Arc<Session>, Position), ReconcileError> {
        if let Some(settled) = self.settled_meanwhile(zone) {
            return Err(settled);
        }
        let session = self.session_of(zone).filter(|session| session.is_open());
        let session = session.ok_or_else(|| ReconcileError::NotConnected(zone.clone()))?;
        let lost = session.sending.diverged();
        let lost = lost.ok_or_else(|| ReconcileError::NotDiverged(zone.clone()))?;
        match self.untold_kinds(&session).into_iter().next() {
            Some(kind) => Err(ReconcileError::Incomplete {
                zone: zone.clone(),
                kind,
            }),
            None => Ok((session, lost)),
        }
    }

    /// The kinds that a zone mirrors or knows, and has not said what it has of: what differs of
    /// these is not known yet.
    pub(crate) fn untold_kinds(&self, session: &Session) -> Vec<SyncKind> {
        let sending = &session.sending;
        let implied = [synced_kinds(), definitions(), namespaces()].into_iter();
        let untold = sending.unsubscribed(implied.chain(session.mirrored_kinds.clone()));
        if !untold.is_empty() {
            return untold;
        }
        let differences = sending.differences().unwrap_or_default();
        let unknown = differences.get(&synced_kinds());
        let is_unknown = |name: &str| {
            let name = ObjectName::new("", name).ok();
            let difference = name.and_then(|name| unknown?.get(&name));
            difference == Some(&Difference::OnlySender)
        };
        let known = self.inner().known.borrow();
        let comes = |synced: &&SyncedKind| synced.goes_down() || synced.spec.across_zones;
        let down = known.synced.values().filter(comes);
        let down = down.filter(|synced| !is_unknown(&synced.name()));
        let down: Vec<SyncKind> = down.map(|synced| synced.kind.clone()).collect();
        sending.unsubscribed(down)
    }

    /// Raises the store's revision and the release numbers of policies above all that a zone
    /// followed. May be repeated.
    pub(crate) async fn raise_above(&self, zone: &ZoneName) -> Result<(), ReconcileError> {
        let (session, lost) = self.diverged_session(zone)?;
        self.refuse_far_claims(&session, &lost)?;
        let inner = self.inner();
        let ours = inner.store.revision().get();
        let floors = self.release_floors(&session, &lost);
        if ours <= lost.revision {
            let key = Collection::new(TENANT, RAISED)?.key("", "revision")?;
            let draft = Draft::opaque(r#"{"metadata":{"name":"revision"}}"#);
            let floor = Revision::new(lost.revision + 1);
            inner
                .store
                .commit(Txn::put(key, draft).not_below(floor))
                .await?;
        }
        let client = self.controllers().ok_or(ReconcileError::NotReady)?;
        for PolicyFloor {
            policy,
            floor,
            zones,
            before,
        } in floors
        {
            let resource =
                Resource::cluster(GROUP, VERSION, "propagationpolicies", "PropagationPolicy");
            let path = resource.object_path(&ObjectKey::cluster(&policy));
            let path = format!("{path}/status");
            // Zones of before that are settled are removed.
            let mut told: Map<String, Value> = zones
                .into_iter()
                .map(|(zone, objects)| (zone, objects.into()))
                .collect();
            for zone in before.into_keys() {
                told.entry(zone).or_insert(Value::Null);
            }
            let floor = json!({"number": floor.number, "lost": floor.lost, "zones": told});
            let status = json!({"status": {RELEASE_FLOOR: floor}});
            request::patch::<Value>(&client, &path, Patch::Merge, &status).await?;
        }
        Ok(())
    }

    /// Refuses what a zone says that it followed if that is further ahead than a lost future can be.
    pub(crate) fn refuse_far_claims(
        &self,
        session: &Session,
        lost: &Position,
    ) -> Result<(), ReconcileError> {
        let ours = self.inner().store.revision().get();
        refuse_far_revision(&session.zone, lost.revision, ours)?;
        let governing = self.inner().governing.lock();
        // Policies that are not here any more may be made again, and then count on from the claim.
        let mut claims = session.followed.iter().flat_map(|one| &one.releases);
        claims.try_for_each(|(policy, claimed)| {
            let governor = governing.policies.get(policy);
            let newest = governor.and_then(|governor| Some(governor.newest()?.number));
            refuse_far_release((&session.zone, policy), *claimed, newest.unwrap_or(0))
        })
    }

    /// The policies whose next release must have another number, and which; and those whose next
    /// release settles what differs in this zone as well.
    fn release_floors(&self, session: &Session, lost: &Position) -> Vec<PolicyFloor> {
        let differing = self.differing_policies(session);
        let governing = self.inner().governing.lock();
        let zone = governing.zones.get(&session.zone);
        let mut floors = Vec::new();
        for (policy, governor) in &governing.policies {
            let newest = governor.newest().map_or(0, |newest| newest.number);
            let claimed = session.claimed_release(policy);
            let selected = zone.is_some_and(|zone| governor.selects(zone));
            // Where nothing was ever released there is nothing to be raised.
            let concerned = claimed > 0 || (selected && newest > 0);
            // A zone that only lost its record, and has what its policies released, needs no other
            // release.
            let objects = differing.get(policy).copied().unwrap_or(0);
            let is_current = lost.epoch.is_unproven() && objects == 0;
            if !concerned || is_current {
                continue;
            }
            let before = ReleaseFloor::of(&governor.object);
            let floor = before
                .raised(newest, claimed, lost.revision)
                .unwrap_or(before);
            // What is not released yet settles the zones before as well.
            let mut zones = ReleaseFloor::zones(&governor.object);
            zones.retain(|_, _| newest < before.number);
            let is_told = zones.insert(session.zone.to_string(), objects) == Some(objects);
            if floor != before || (newest < floor.number && !is_told) {
                floors.push(PolicyFloor {
                    policy: policy.clone(),
                    floor,
                    zones,
                    before: ReleaseFloor::zones(&governor.object),
                });
            }
        }
        floors
    }

    /// The policies that govern objects which differ between a zone and this hub, and how many.
    fn differing_policies(&self, session: &Session) -> BTreeMap<String, u64> {
        let differences = self.differences(session);
        let catalog = self.catalog().read();
        let names = differences.objects.iter();
        let names = names.flat_map(|(kind, names)| names.keys().map(move |name| (kind, name)));
        let entries = names.filter_map(|(kind, name)| catalog.entry(kind, name));
        let mut policies: BTreeMap<String, u64> = BTreeMap::new();
        for entry in entries {
            if let Entry::Governed(governed) = entry {
                *policies
                    .entry(governed.policy.as_str().to_owned())
                    .or_default() += 1;
            }
        }
        policies
    }

    /// The releases that a zone followed, by policy, as they are kept: of policies that are not here,
    /// no more than a zone can have followed in earnest.
    fn kept_releases(&self, session: &Session) -> BTreeMap<String, u64> {
        let governing = self.inner().governing.lock();
        let claims = session.followed.iter().flat_map(|one| &one.releases);
        let claims = claims.map(|(policy, release)| (policy.clone(), *release));
        let (mut kept, unknown): (BTreeMap<_, _>, BTreeMap<_, _>) =
            claims.partition(|(policy, _)| governing.policies.contains_key(policy));
        kept.extend(unknown.into_iter().take(MAX_UNKNOWN_POLICIES));
        kept
    }

    /// Lets a zone follow this hub again. What was raised before is in the store.
    pub(crate) async fn settle(
        &self,
        zone: &ZoneName,
        by: &str,
    ) -> Result<Position, ReconcileError> {
        let (session, lost) = self.diverged_session(zone)?;
        self.raise_above(zone).await?;
        self.caught_up().await;
        let client = self.controllers().ok_or(ReconcileError::NotReady)?;
        let path = zones().object_path(&ObjectKey::cluster(zone.as_str()));
        let now = deltaplane_api::time::Time::from_system(self.inner().clock.now());
        // Those of a divergence before stay if they are not named.
        let releases = self.kept_releases(&session);
        let reconciled = json!({
            "position": lost.to_string(), "revision": lost.revision,
            "record": session.lost_record().map(|record| record.0.to_string()),
            "releases": releases,
            "at": now.to_string(), "by": by,
        });
        let status = json!({"status": {RECONCILED: reconciled.clone()}});
        let path = format!("{path}/status");
        request::patch::<Value>(&client, &path, Patch::Merge, &status).await?;
        // Not before: a person who is told that the zone is not settled must not find it settled
        // when its Zone is made again.
        if let Err(error) = self.keep_settlement(&session, &reconciled).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                %zone, error,
                "the zone is settled; if its Zone is made again, it is to be settled again"
            );
        }
        Ok(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_numbers_rise_above_what_was_followed_once() {
        let floor = |number, lost| ReleaseFloor { number, lost };
        let none = floor(0, 0);
        assert_eq!(none.raised(1, 2, 60), Some(floor(3, 60)));
        // The hub made other releases before it was settled.
        assert_eq!(none.raised(5, 2, 60), Some(floor(6, 60)));
        // Another zone that followed the same future, and not further.
        assert_eq!(floor(3, 60).raised(1, 2, 58), None);
        assert_eq!(floor(3, 60).raised(3, 1, 60), None);
        assert_eq!(floor(3, 60).raised(3, 4, 60), Some(floor(5, 60)));
        assert_eq!(floor(3, 60).raised(3, 2, 61), Some(floor(4, 61)));
    }

    #[test]
    fn a_divergence_says_what_differs_and_what_to_do() {
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        let names = [
            ("ns/a", Difference::Changed),
            ("ns/b", Difference::OnlySender),
            ("ns/c", Difference::OnlyReceiver),
            ("ns/d", Difference::OnlyReceiver),
        ];
        let names = names.map(|(name, how)| (name.parse().expect("legal"), how));
        let mut divergence = Divergence {
            zone: "eu-1".parse().expect("legal"),
            lost: "s.o@60".parse().expect("legal"),
            cause: DivergenceCause::HubRestored,
            at: 43,
            differences: ZoneDifferences {
                objects: BTreeMap::from([(kind, BTreeMap::from(names))]),
                ..ZoneDifferences::default()
            },
        };
        let advice = "Objects that differ: 1, only at the hub: 1, only in the zone: 2. Nothing is sent until it is settled: deltaplane zones reconcile eu-1 --keep hub|zone";
        assert_eq!(
            divergence.to_string(),
            format!(
                "the zone followed revision 60, which this hub (at 43) does not know: it was restored to an earlier state. {advice}"
            )
        );
        divergence.cause = DivergenceCause::RecordLost;
        assert_eq!(
            divergence.to_string(),
            format!(
                "the zone lost its record of how far it followed (followed.json in its data directory was damaged or missing), and may be ahead of this hub (at 43). {advice}"
            )
        );
    }

    #[test]
    fn only_whoever_made_an_attempt_takes_it_over() {
        let claim = ReconcileClaim {
            attempt: "first".to_owned(),
            by: "ann".to_owned(),
            until: CLAIM,
        };
        let excludes = |id, by, takes_over, now| {
            let attempt = ReconcileAttempt { id, by, takes_over };
            claim.excludes(&attempt, now)
        };
        let now = Duration::ZERO;
        assert!(!excludes("first", "ann", false, now));
        assert!(excludes("second", "ann", false, now));
        assert!(!excludes("second", "ann", true, now));
        assert!(excludes("second", "bob", true, now));
        assert!(!excludes("second", "bob", false, CLAIM));
    }

    /// A zone that is taken over must not use up numbers.
    #[test]
    fn claims_that_are_too_far_ahead_are_refused() {
        let zone: ZoneName = "eu-1".parse().expect("legal");
        for (claimed, taken) in [(0, true), (1_000_000_007, true), (1_000_000_008, false)] {
            assert_eq!(refuse_far_revision(&zone, claimed, 7).is_ok(), taken);
        }
        for (claimed, taken) in [(0, true), (10_003, true), (10_004, false)] {
            let refused = refuse_far_release((&zone, "web"), claimed, 3);
            assert_eq!(refused.is_ok(), taken);
        }
        let far = refuse_far_revision(&zone, u64::MAX, 7).expect_err("refused");
        assert!(far.to_string().contains(&u64::MAX.to_string()), "{far}");
    }
}
