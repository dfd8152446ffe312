//! `…/syncedkinds/<kind>/_origins`: how many objects of a kind came from which zone, and whether
//! anybody there will ever take them away.

use std::collections::BTreeMap;

use deltaplane_apiserver::seams::{BoxFuture, SubresourceRequest, VirtualSubresource};
use deltaplane_apiserver::{Body, Error};
use deltaplane_sync::{SyncKind, ZONE, ZoneName};
use http::Response;
use serde_json::{Value, json};

use super::{json, only_get};
use crate::fleet::Fleet;
use crate::kinds::{GROUP, SyncedKind};

/// Answers `_origins` of synced kinds.
pub struct KindOrigins(pub Fleet);

// === impl KindOrigins ===

impl VirtualSubresource for KindOrigins {
    fn name(&self) -> &str {
        "_origins"
    }

    fn handle<'a>(
        &'a self,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        Box::pin(async move {
            only_get(&request)?;
            let resource = request.resource;
            if resource.group != GROUP || resource.plural != "syncedkinds" {
                return Err(Error::no_such_path());
            }
            let synced = SyncedKind::of(request.object);
            let synced = synced.map_err(|error| Error::bad_request(error.to_string()))?;
            self.0.caught_up().await;
            json(&self.answer(&synced))
        })
    }
}

impl KindOrigins {
    fn answer(&self, synced: &SyncedKind) -> Value {
        let zones = self.zones(&synced.kind).into_iter().map(|(zone, objects)| {
            let left = !(self.0.is_zone(&zone) && synced.goes_up());
            let delete = format!("kubectl delete {} -A -l {ZONE}={zone}", synced.name());
            json!({
                "zone": zone.as_str(),
                "objects": objects,
                // Nobody but a person takes them away.
                "left": left,
                "deleteWith": left.then_some(delete),
            })
        });
        json!({
            "kind": "KindOrigins",
            "apiVersion": "fleet.deltaplane.io/v1alpha1",
            "zones": zones.collect::<Vec<_>>(),
        })
    }

    fn zones(&self, kind: &SyncKind) -> BTreeMap<ZoneName, usize> {
        let all = self.0.inner().from_zones.read();
        let of_kind = all.iter().filter(|((_, of), _)| of == kind);
        of_kind
            .map(|((zone, _), objects)| (zone.clone(), objects.len()))
            .collect()
    }
}
