//! `…/zones/<zone>/_sync`: how it stands with a zone.

use std::collections::BTreeSet;
use std::time::SystemTime;

use deltaplane_api::time::Time;
use deltaplane_apiserver::seams::{BoxFuture, SubresourceRequest, VirtualSubresource};
use deltaplane_apiserver::{Body, Error};
use deltaplane_border::{definitions, namespaces};
use deltaplane_store::Collection;
use deltaplane_sync::{Counts, Reasons, SyncKind, Uploaded, ZoneName};
use http::Response;
use serde_json::{Value, json};

use super::{json, only_get};
use crate::divergence::DivergenceState;
use crate::fleet::Fleet;
use crate::governing::disconnected_since;
use crate::kinds::{GROUP, SyncedKind, TENANT, synced_kinds};
use crate::session::Session;

/// Answers `_sync` of zones.
pub struct ZoneSync(pub Fleet);

/// The zone that a request is about, which only reads.
pub(super) fn zone_of(request: &SubresourceRequest<'_>) -> Result<ZoneName, Error> {
    only_get(request)?;
    named_zone(request)
}

/// The zone that a request is about.
pub(super) fn named_zone(request: &SubresourceRequest<'_>) -> Result<ZoneName, Error> {
    let resource = request.resource;
    if resource.group != GROUP || resource.plural != "zones" {
        return Err(Error::no_such_path());
    }
    resource.name.parse().map_err(|_| Error::no_such_path())
}

// === impl ZoneSync ===

impl VirtualSubresource for ZoneSync {
    fn name(&self) -> &str {
        "_sync"
    }

    fn handle<'a>(
        &'a self,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        Box::pin(async move {
            let zone = zone_of(&request)?;
            self.0.caught_up().await;
            json(&self.answer(&zone))
        })
    }
}

impl ZoneSync {
    fn answer(&self, zone: &ZoneName) -> Value {
        let at = self.0.catalog().read().at();
        let session = self.0.session_of(zone);
        let through = session
            .as_ref()
            .and_then(|session| session.sending.through());
        let session = session.as_deref();
        let down = self.down(session);
        let upward = self.upward();
        let mut up = session.and_then(|session| session.uploaded.lock().clone());
        if let Some((_, uploaded)) = &mut up {
            // What the zone said of a kind ends with its SyncedKind.
            uploaded.kinds.retain(|kind, _| upward.contains(kind));
        }
        let held = |counts: &Counts| counts.held.is_some();
        let held = down
            .iter()
            .filter_map(|(_, counts)| counts.as_ref())
            .any(held)
            || up.iter().any(|(_, up)| up.kinds.values().any(held));
        let divergence = self.0.divergence_state(zone);
        let approve = held.then(|| format!(
            "deletions are held back; let them go with: deltaplane zones approve-deletions {zone}"
        ));
        json!({
            "kind": "ZoneSync",
            "apiVersion": "fleet.deltaplane.io/v1alpha1",
            "zone": zone.as_str(),
            "connected": session.is_some_and(Session::is_open),
            "since": session.map(|session| Time::from_system(session.since).to_string()),
            "awaySince": self.away_since(zone, session),
            "heard": session.map(|session| Time::from_system(session.heard()).to_string()),
            "product": session.map(|session| session.peer.product.as_str()),
            "protocol": session.map(|session| session.peer.protocol),
            "features": session.map(|session| &session.peer.features),
            "revision": at,
            "through": through,
            "sent": session.map(|session| {
                let sent = session.sending.sent();
                json!({"responses": sent.responses, "objects": sent.objects, "bytes": sent.bytes})
            }),
            "kinds": down.iter().map(|(kind, counts)| {
                let mut counted = counted(kind, counts.as_ref());
                counted["atHub"] = self.at_hub(kind).into();
                counted
            }).collect::<Vec<_>>(),
            "fromZone": self.up(zone, &upward, up),
            "diverged": divergence.is_diverged() == Some(true),
            "message": match divergence {
                DivergenceState::Diverged { message, .. } => Some(message),
                DivergenceState::Follows | DivergenceState::Unknown => approve,
            },
        })
    }

    /// Returns since when a zone is not connected: as this process saw it go, or else as the status
    /// of its object says.
    fn away_since(&self, zone: &ZoneName, session: Option<&Session>) -> Option<String> {
        if session.is_some_and(Session::is_open) {
            return None;
        }
        let lost = session.and_then(Session::lost);
        let lost = lost.map(|at| Time::from_system(at).to_string());
        lost.or_else(|| {
            let governing = self.0.inner().governing.lock();
            disconnected_since(governing.zones.get(zone)?).map(str::to_owned)
        })
    }

    /// Returns how many objects of a kind the hub's API lists, whether they cross or not.
    fn at_hub(&self, kind: &SyncKind) -> Option<usize> {
        let collection = {
            let known = self.0.known();
            let known = known.borrow();
            let mut synced = known.synced.values();
            let synced = synced.find(|one| one.kind == *kind);
            synced.map(SyncedKind::collection)
        };
        let implied = || match () {
            () if *kind == namespaces() => Some("namespaces"),
            () if *kind == definitions() => Some("apiextensions.k8s.io/customresourcedefinitions"),
            () if *kind == synced_kinds() => Some("fleet.deltaplane.io/syncedkinds"),
            () => None,
        };
        let collection = collection.or_else(|| implied().map(str::to_owned))?;
        let collection = Collection::new(TENANT, &collection).ok()?;
        Some(self.0.inner().store.snapshot(&collection).len())
    }

    /// How it stands with what the hub sends.
    fn down(&self, session: Option<&Session>) -> Vec<(SyncKind, Option<Counts>)> {
        let kinds = self.kinds().into_iter();
        let counts = |kind: &SyncKind| session.and_then(|session| session.sending.counts(kind));
        kinds.map(|kind| (kind.clone(), counts(&kind))).collect()
    }

    /// The kinds that are taken from zones.
    fn upward(&self) -> BTreeSet<SyncKind> {
        let known = self.0.known();
        let known = known.borrow();
        known.upward().map(|(kind, _)| kind.clone()).collect()
    }

    /// How it stands with what the zone sends: how much of it is here, and what the zone said.
    fn up(
        &self,
        zone: &ZoneName,
        upward: &BTreeSet<SyncKind>,
        said: Option<(SystemTime, Uploaded)>,
    ) -> Value {
        let here = self.0.here(zone);
        let (as_of, said) = said.unzip();
        let said = said.unwrap_or_default().kinds;
        let kinds: BTreeSet<&SyncKind> = upward.iter().chain(here.keys()).collect();
        let kinds = kinds.into_iter().map(|kind| {
            let mut counted = counted(kind, said.get(kind));
            counted["here"] = here.get(kind).copied().unwrap_or(0).into();
            counted
        });
        json!({
            "asOf": as_of.map(|at| Time::from_system(at).to_string()),
            "kinds": kinds.collect::<Vec<_>>(),
        })
    }

    fn kinds(&self) -> Vec<SyncKind> {
        let known = self.0.known();
        let known = known.borrow();
        let synced = known.synced.values().map(|kind| kind.kind.clone());
        let implied = [synced_kinds(), definitions(), namespaces()];
        let mut kinds: Vec<SyncKind> = implied.into_iter().chain(synced).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }
}

/// How it stands with a kind, as far as that is known.
fn counted(kind: &SyncKind, counts: Option<&Counts>) -> Value {
    let Some(counts) = counts else {
        return json!({"group": kind.group(), "kind": kind.kind()});
    };
    let listed = |reasons: &Reasons| {
        let listed = reasons.listed.iter();
        let listed =
            listed.map(|(name, reason)| json!({"name": name.to_string(), "reason": reason}));
        listed.collect::<Vec<_>>()
    };
    json!({
        "group": kind.group(),
        "kind": kind.kind(),
        "wanted": counts.wanted,
        "sent": counts.sent,
        "acknowledged": counts.acknowledged,
        "open": counts.open,
        "rejected": listed(&counts.rejected),
        "moreRejected": counts.rejected.more,
        "own": listed(&counts.own),
        "moreOwn": counts.own.more,
        "surplus": counts.surplus,
        "held": counts.held,
        "unread": counts.unread,
    })
}
