//! `…/_zones` on any object: which version each zone has of it.

use std::time::SystemTime;

use deltaplane_api::time::Time;
use deltaplane_apiserver::seams::{BoxFuture, SubresourceRequest, VirtualSubresource};
use deltaplane_apiserver::{Body, Error};
use deltaplane_border::{Audience, Entry, ObjectState, definitions, graphs, namespaces};
use deltaplane_sync::{ObjectName, SyncKind, Verdict, Version, ZoneName};
use http::Response;
use serde_json::{Value, json};

use super::{json, only_get};
use crate::fleet::Fleet;
use crate::governing::Back;
use crate::propagated::PropagationObstacle;

/// Answers `_zones`.
pub struct ObjectZones(pub Fleet);

/// How it stands with an object in a zone.
struct InZone {
    zone: ZoneName,
    phase: &'static str,
    version: Option<Version>,
    reason: Option<String>,
    as_of: Option<SystemTime>,
}

// === impl ObjectZones ===

impl VirtualSubresource for ObjectZones {
    fn name(&self) -> &str {
        "_zones"
    }

    fn handle<'a>(
        &'a self,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        Box::pin(async move {
            only_get(&request)?;
            self.0.caught_up().await;
            json(&self.answer(&request)?)
        })
    }
}

impl ObjectZones {
    fn answer(&self, request: &SubresourceRequest<'_>) -> Result<Value, Error> {
        let resource = request.resource;
        let kind = SyncKind::new(resource.group, resource.kind);
        let namespace = match (resource.group, resource.plural) {
            // To rights a namespace is in itself, to zones it is in none.
            ("", "namespaces") => "",
            (_, _) => resource.namespace,
        };
        let name = ObjectName::new(namespace, resource.name);
        let (Ok(kind), Ok(name)) = (kind, name) else {
            return Err(Error::bad_request("objects of this kind do not cross"));
        };
        let catalog = self.0.catalog().read();
        let entry = catalog.entry(&kind, &name).cloned();
        drop(catalog);
        let synced = self
            .0
            .known()
            .borrow()
            .synced(resource.group, resource.plural)
            .is_some();
        let zones: Vec<ZoneName> = self.0.known().borrow().zones.keys().cloned().collect();
        let kept_back = self.0.kept_back(&kind, &name);
        let zones = zones.into_iter().map(|zone| {
            let back = kept_back.zone(&zone);
            self.in_zone((&kind, &name), zone, back)
        });
        let implied = kind == namespaces() || kind == definitions();
        let message = match (synced, implied) {
            (true, _) | (false, true) => None,
            (false, false) => Some(format!(
                "objects of this kind do not cross; make a SyncedKind {}",
                plural_name(resource.group, resource.plural)
            )),
        };
        let version = entry.and_then(|entry| entry.version());
        let version = kept_back.version.or(version);
        Ok(json!({
            "kind": "ObjectZones",
            "apiVersion": "fleet.deltaplane.io/v1alpha1",
            "version": version.map(|version| version.to_string()),
            "message": message,
            "zones": zones.map(InZone::json).collect::<Vec<_>>(),
        }))
    }

    fn in_zone(
        &self,
        (kind, name): (&SyncKind, &ObjectName),
        zone: ZoneName,
        back: Option<Back<'_>>,
    ) -> InZone {
        let session = self.0.session_of(&zone);
        let state = session
            .as_ref()
            .and_then(|session| session.sending.object(kind, name));
        let diverged = session.as_ref();
        let diverged = diverged.is_some_and(|session| session.sending.diverged().is_some());
        let as_of = session.map(|session| session.heard());
        let Some(ObjectState {
            wanted,
            acknowledged,
            rejected,
            frozen,
        }) = state
        else {
            return InZone {
                zone,
                phase: "Unknown",
                version: None,
                reason: Some("the zone was not connected since the hub started".to_owned()),
                as_of,
            };
        };
        let verdict = rejected.as_ref().map(|(verdict, _)| *verdict);
        let phase = match (wanted, acknowledged, verdict) {
            (_, _, Some(Verdict::Failed | Verdict::Foreign)) => "Rejected",
            (Some(_), _, Some(Verdict::Own)) => "Own",
            (Some(wanted), Some(held), _) if wanted == held && back.is_none() => "Current",
            (wanted, held, _) if wanted == held && back.is_some_and(Back::is_rolled_back) => {
                "RolledBack"
            }
            (wanted, held, _) if diverged && wanted != held => "Diverged",
            (Some(_), _, _) => "Pending",
            (None, _, _) if frozen => "Frozen",
            // It does not have it, and is to have it later.
            (None, None, _) if back.is_some() => "Pending",
            (None, Some(_), _) => "Removing",
            (None, None, _) => "None",
        };
        let waits = || match phase {
            "Diverged" => Some(format!(
                "the zone followed a state that the hub lost, and is sent nothing; settle it with: deltaplane zones reconcile {zone} --keep hub|zone"
            )),
            "Frozen" if back.is_none() => self.frozen_reason(kind, name),
            "Pending" => self.missing_graph(kind, &zone),
            _ => None,
        };
        let reason = rejected
            .map(|(_, reason)| reason)
            .or_else(|| back.map(|back| back.to_string()))
            .or_else(waits);
        InZone {
            zone,
            phase,
            version: acknowledged,
            reason,
            as_of,
        }
    }
}

impl ObjectZones {
    /// Returns why an object that no policy governs stays in zones as it is there.
    fn frozen_reason(&self, kind: &SyncKind, name: &ObjectName) -> Option<String> {
        let catalog = self.0.catalog().read();
        match catalog.entry(kind, name)? {
            Entry::Shared {
                audience: Audience::Undecided,
                ..
            } => Some(PropagationObstacle::NotAccepted.to_string()),
            Entry::Governed(_) | Entry::Shared { .. } => None,
        }
    }

    /// Returns what an instance waits for in a zone that does not have its graph.
    fn missing_graph(&self, kind: &SyncKind, zone: &ZoneName) -> Option<String> {
        let graph = self.0.catalog().read().graph(kind).cloned()?;
        let session = self.0.session_of(zone)?;
        let state = session.sending.object(&graphs(), &graph)?;
        state.acknowledged.is_none().then(|| {
            format!("the zone does not have the ResourceGraphDefinition {graph}; instances go to zones that have it")
        })
    }
}

// === impl InZone ===

impl InZone {
    fn json(self) -> Value {
        json!({
            "zone": self.zone.as_str(),
            "phase": self.phase,
            "version": self.version.map(|version| version.to_string()),
            "reason": self.reason,
            "asOf": self.as_of.map(|at| Time::from_system(at).to_string()),
        })
    }
}

fn plural_name(group: &str, plural: &str) -> String {
    match group {
        "" => plural.to_owned(),
        group => format!("{plural}.{group}"),
    }
}
