//! `…/zones/<zone>/_reconcile`: how a zone differs from this hub, which was restored to an earlier
//! state than the zone followed; posted, what a person settled.
//!
//! Reading needs the right to `get` `zones/_reconcile`, settling the right to `create` it.

use std::sync::Arc;

use deltaplane_apiserver::error::About;
use deltaplane_apiserver::seams::{BoxFuture, SubresourceRequest, VirtualSubresource};
use deltaplane_apiserver::{Body, Error};
use deltaplane_border::{Entry, Reader, definitions, namespaces};
use deltaplane_propagation::stages::RECONCILED;
use deltaplane_store::Object;
use deltaplane_sync::{Difference, Presence, SyncKind, View, Withdrawal, ZoneName};
use http::{Method, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::json;
use super::zone::named_zone;
use crate::divergence::{
    DifferenceCounts, Divergence, DivergenceState, ReconcileAttempt, ReconcileError, StoreFork,
};
use crate::fleet::Fleet;
use crate::governing::Id;

/// Answers `_reconcile` of zones.
pub struct ZoneReconcile(pub Fleet);

/// The body of a POST.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Posted {
    step: Step,
    /// Steps of the same attempt have the same; others are refused while it is under way.
    #[serde(default)]
    attempt: String,
    /// An earlier attempt of the same user has ended.
    #[serde(default)]
    take_over: bool,
}

/// The steps of settling a divergence, each of which may be repeated.
#[derive(Clone, Copy, Deserialize)]
enum Step {
    /// Raise revision and release numbers above what the zone followed, so that what is written
    /// next is newer.
    Raise,
    /// The zone follows this hub from now on.
    Settle,
    /// The zone is not settled by this attempt.
    End,
}

/// Ends an attempt when it is dropped, as it is when the client goes away in the midst of a step.
struct AttemptGuard<'a> {
    fleet: &'a Fleet,
    zone: &'a ZoneName,
    attempt: &'a str,
    /// The attempt has further steps.
    goes_on: bool,
}

/// What the objects of a zone that has diverged are listed by.
struct Listing<'a> {
    divergence: &'a Divergence,
    /// The zone was sent nothing that this store made later.
    fork: StoreFork,
}

/// So many objects are listed; the rest is counted.
const LISTED: usize = 5_000;

// === impl ZoneReconcile ===

impl VirtualSubresource for ZoneReconcile {
    fn name(&self) -> &str {
        "_reconcile"
    }

    fn handle<'a>(
        &'a self,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        Box::pin(async move {
            let zone = named_zone(&request)?;
            match *request.method {
                Method::GET => {
                    self.0.caught_up().await;
                    json(&self.shown(&zone))
                }
                Method::POST => {
                    let posted: Posted = serde_json::from_slice(request.body).map_err(|error| {
                        Error::bad_request(format!("the body cannot be read: {error}"))
                    })?;
                    self.step(&request, &zone, &posted).await
                }
                _ => Err(Error::bad_request("use GET to read and POST to settle")),
            }
        })
    }
}

impl ZoneReconcile {
    async fn step(
        &self,
        request: &SubresourceRequest<'_>,
        zone: &ZoneName,
        posted: &Posted,
    ) -> Result<Response<Body>, Error> {
        let about = About {
            group: request.resource.group,
            resource: request.resource.plural,
            name: zone.as_str(),
        };
        let by = &request.user.name;
        let attempt = ReconcileAttempt {
            id: &posted.attempt,
            by,
            takes_over: posted.take_over,
        };
        let claimed = self.0.claim_reconcile(zone, &attempt);
        claimed.map_err(|error| refused(about, &error))?;
        let mut guard = AttemptGuard {
            fleet: &self.0,
            zone,
            attempt: &posted.attempt,
            goes_on: false,
        };
        let done = match posted.step {
            Step::Raise => self.0.raise_above(zone).await,
            Step::Settle => self.0.settle(zone, by).await.map(drop),
            Step::End => Ok(()),
        };
        // A zone that was not raised holds up nobody, and one that was settled neither.
        guard.goes_on = done.is_ok() && matches!(posted.step, Step::Raise);
        drop(guard);
        done.map_err(|error| refused(about, &error))?;
        json(&json!({
            "kind": "ZoneReconciliation",
            "apiVersion": "fleet.deltaplane.io/v1alpha1",
            "zone": zone.as_str(),
            "revision": self.0.inner().store.revision().get(),
        }))
    }

    fn shown(&self, zone: &ZoneName) -> Value {
        let session = self.0.session_of(zone).filter(|session| session.is_open());
        let divergence = session
            .as_ref()
            .and_then(|session| self.0.divergence(session));
        let followed = session
            .as_ref()
            .and_then(|session| session.followed.as_ref());
        let untold = session.as_ref().map(|session| self.0.untold_kinds(session));
        let counts = divergence.as_ref().map(Divergence::counts);
        let counts = counts.map(|counts| {
            let DifferenceCounts {
                changed,
                only_at_hub,
                only_in_zone,
            } = counts;
            json!({"changed": changed, "onlyAtHub": only_at_hub, "onlyInZone": only_in_zone})
        });
        let state = divergence.as_ref().map(DivergenceState::from);
        let state = state.unwrap_or_else(|| self.0.divergence_state(zone));
        let reason = match &state {
            DivergenceState::Diverged { reason, .. } => Some(reason),
            DivergenceState::Follows | DivergenceState::Unknown => None,
        };
        let budget = self.0.budget(zone);
        let refusal = session.as_ref().zip(divergence.as_ref());
        let refusal = refusal.and_then(|(session, divergence)| {
            let claims = self.0.refuse_far_claims(session, &divergence.lost);
            claims.err().map(|refusal| refusal.to_string())
        });
        json!({
            "kind": "ZoneReconciliation",
            "apiVersion": "fleet.deltaplane.io/v1alpha1",
            "zone": zone.as_str(),
            "connected": session.is_some(),
            // Also of a zone that is away; null if that is not known.
            "diverged": state.is_diverged(),
            "reason": reason,
            // Why the zone is not settled whatever a person says.
            "refused": refusal,
            // The kinds of which the zone has not said yet what it has: more may differ.
            "untold": untold.map(|kinds| kinds.iter().map(ToString::to_string).collect::<Vec<_>>()),
            "revision": self.0.inner().store.revision().get(),
            "followed": divergence.as_ref().map(|one| one.lost.revision),
            "releases": followed.map(|followed| &followed.releases),
            "counts": counts,
            // Who settled the zone last, and when.
            "reconciled": self.reconciled(zone),
            "deletionBudget": {"max": budget.max, "percent": budget.percent},
            "kinds": divergence.map(|one| self.kinds(zone, &one)),
        })
    }

    fn reconciled(&self, zone: &ZoneName) -> Option<Value> {
        let governing = self.0.inner().governing.lock();
        let reconciled = &governing.zones.get(zone)?.get("status")?[RECONCILED];
        let by = reconciled["by"].as_str()?;
        Some(json!({"by": by, "at": reconciled["at"]}))
    }

    fn kinds(&self, zone: &ZoneName, divergence: &Divergence) -> Vec<Value> {
        let known = self.0.known().borrow().clone();
        let listing = Listing {
            divergence,
            fork: self.0.fork(&divergence.lost),
        };
        let mut left = LISTED;
        let mut kinds = Vec::new();
        for (kind, objects) in &divergence.differences.objects {
            let synced = known.synced.values().find(|one| one.kind == *kind);
            let plural = match synced {
                Some(synced) => Some(synced.plural.as_str()),
                None if *kind == namespaces() => Some("namespaces"),
                None if *kind == definitions() => Some("customresourcedefinitions"),
                None => None,
            };
            let listed = objects.iter().take(left);
            let listed: Vec<Value> = listed
                .map(|(name, difference)| {
                    let id = (kind.clone(), name.clone());
                    self.object(&listing, &id, *difference)
                })
                .collect();
            left -= listed.len();
            kinds.push(json!({
                "group": kind.group(),
                "kind": kind.kind(),
                "plural": plural,
                "more": objects.len() - listed.len(),
                "wanted": self.wanted(zone, kind).map(|wanted| {
                    wanted.saturating_add(divergence.differences.undecided(kind))
                }),
                "objects": listed,
            }));
        }
        kinds
    }

    fn wanted(&self, zone: &ZoneName, kind: &SyncKind) -> Option<u64> {
        let session = self.0.session_of(zone)?;
        session.sending.counts(kind).map(|counts| counts.wanted)
    }

    /// An object that differs, the policy that governs it, and whether the zone may have it with
    /// overrides, which cannot be taken out of it.
    fn object(&self, listing: &Listing<'_>, id: &Id, difference: Difference) -> Value {
        let Listing { divergence, fork } = listing;
        let zone = &divergence.zone;
        let (kind, name) = id;
        let governed = match self.0.catalog().read().entry(kind, name) {
            Some(Entry::Governed(governed)) => Some(governed.policy.clone()),
            Some(Entry::Shared { .. }) | None => None,
        };
        let stored = self.0.stored_object(id);
        let governing = self.0.inner().governing.lock();
        let policy = governed.as_ref().map(|policy| policy.as_str());
        let governor = policy.and_then(|policy| governing.policies.get(policy));
        let object = governing.zones.get(zone);
        let overridden = governor
            .zip(object)
            .is_some_and(|(governor, object)| governor.may_override(id, (zone, object)));
        let is_since = |stored: &Arc<Object>| stored.created().get() > fork.revision;
        let is_only_here = difference == Difference::OnlySender;
        json!({
            "namespace": name.namespace(),
            "name": name.name(),
            "difference": match difference {
                Difference::Changed => "Changed",
                Difference::OnlySender => "OnlyAtHub",
                Difference::OnlyReceiver => "OnlyInZone",
            },
            "policy": governor.map(|governor| governor.id.as_str()),
            "overridden": overridden,
            // What a zone that follows this hub does with an object that it alone has.
            "leaves": (difference == Difference::OnlyReceiver).then(|| self.leaves(zone, id)),
            // The zone lacks the object, and may never have had it.
            "doubtfulAbsence": divergence.differences.doubtful_absences.contains(id),
            // The zone lacks the object because it was never sent it, and cannot have deleted it.
            "createdSince": is_only_here && stored.as_ref().is_some_and(is_since),
            // What is written because of this answer must not meet another one.
            "atHub": stored.as_ref().map(|stored| json!({
                "uid": stored.header().uid().map(|uid| uid.to_string()),
                "resourceVersion": stored.revision().get().to_string(),
            })),
        })
    }

    /// Namespaces and definitions that go to zones because of other objects are left to them.
    fn leaves(&self, zone: &ZoneName, (kind, name): &Id) -> &'static str {
        let catalog = self.0.catalog().read();
        let reader = Reader {
            catalog: &catalog,
            zone: Some(zone),
        };
        match reader.presence(kind, name) {
            Presence::Withdrawn(Withdrawal::Orphan) => "Orphan",
            Presence::Withdrawn(Withdrawal::Delete) | Presence::Gone => "Delete",
            Presence::Wanted(_) | Presence::Frozen => "Undecided",
        }
    }
}

// === impl AttemptGuard ===

impl Drop for AttemptGuard<'_> {
    fn drop(&mut self) {
        if !self.goes_on {
            self.fleet.end_reconcile(self.zone, self.attempt);
        }
    }
}

fn refused(about: About<'_>, error: &ReconcileError) -> Error {
    match error {
        ReconcileError::NotConnected(_)
        | ReconcileError::NotDiverged(_)
        | ReconcileError::Settled { .. }
        | ReconcileError::UnderWay { .. }
        | ReconcileError::UnderWayByCaller { .. }
        | ReconcileError::Incomplete { .. }
        | ReconcileError::RevisionTooFar { .. }
        | ReconcileError::ReleaseTooFar { .. } => Error::conflict(about, &error.to_string()),
        ReconcileError::NotReady
        | ReconcileError::Commit(_)
        | ReconcileError::Name(_)
        | ReconcileError::Request(_) => Error::internal(error.to_string()),
    }
}
