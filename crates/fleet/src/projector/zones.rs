//! Zones, as the projector knows them.

use std::time::Duration;

use deltaplane_store::Object;
use deltaplane_sync::{Epoch, ZoneName};
use serde_json::Value;

use super::Projector;
use crate::divergence::StoreFork;
use crate::kinds::{APPROVED, TOKEN, ZoneSpec};
use crate::known::ZoneEntry;

// === impl Projector ===

impl Projector {
    /// When an approval was seen first.
    fn approved_at(&mut self, zone: &ZoneName, approved: u64) -> Duration {
        let now = self.clock.elapsed();
        let seen = self
            .approvals
            .entry(zone.clone())
            .or_insert((approved, now));
        if seen.0 != approved {
            *seen = (approved, now);
        }
        seen.1
    }

    /// Takes in a zone that came, changed or went. Returns true if the zone's entry changed.
    pub(super) fn zone(&mut self, object: &Object, there: bool) -> bool {
        let Ok(name) = object.key().name().parse::<ZoneName>() else {
            return false;
        };
        let value: Value = serde_json::from_slice(object.bytes()).unwrap_or_default();
        let there_now = value.as_object().filter(|_| there);
        self.place_zone(&name, there_now, object.created());
        let spec = match value.get("spec") {
            Some(spec) => serde_json::from_value(spec.clone()),
            None => serde_json::from_value(Value::Object(serde_json::Map::new())),
        };
        let is_unreadable = spec.is_err();
        let spec = match spec {
            // One that cannot be read is as it was.
            Err(error) if there => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(zone = %name, error, "a zone cannot be read; it is left as it was");
                let published = self.published.borrow();
                if let Some(entry) = published.zones.get(&name) {
                    self.known.zones.entry(name).or_insert(entry.clone());
                    return false;
                }
                Ok(ZoneSpec::UNREADABLE)
            }
            spec => spec,
        };
        match spec {
            Ok(spec) if there => {
                let annotation = |key: &str| value["metadata"]["annotations"][key].as_str();
                let approved = annotation(APPROVED);
                let approved = approved.and_then(|text| text.parse().ok()).unwrap_or(0);
                let entry = ZoneEntry {
                    uid: value["metadata"]["uid"].as_str().unwrap_or_default().into(),
                    spec,
                    is_unreadable,
                    approved,
                    approved_at: self.approved_at(&name, approved),
                    token: annotation(TOKEN).map(str::to_owned),
                    reconciled: value["status"]["reconciled"]["revision"]
                        .as_u64()
                        .unwrap_or(0),
                    reconciled_record: value["status"]["reconciled"]["record"]
                        .as_str()
                        .map(|record| Epoch(record.into())),
                    fork: StoreFork::read(&value["status"]),
                };
                let before = self.known.zones.insert(name, entry.clone());
                before != Some(entry)
            }
            Ok(_) | Err(_) => {
                self.approvals.remove(&name);
                self.known.zones.remove(&name).is_some()
            }
        }
    }
}
