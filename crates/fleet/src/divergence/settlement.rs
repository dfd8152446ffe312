//! Keeps zones settled when their Zones are deleted and made again.
//!
//! The status of a Zone that is made again is empty, and the process that joins as it may be the one
//! of before, whose objects and record still say that they are of a lost future. So what was settled
//! is kept beside the Zone as well, by its name and by the identity of the zone's store: data that
//! comes from elsewhere under the same name was never settled. Only settling writes it, so that no
//! zone settles itself; a zone that lies about its store is sent what the hub has, and harms nobody
//! else.

use std::collections::BTreeMap;

use deltaplane_propagation::stages::RECONCILED;
use deltaplane_store::{Collection, Draft, Key, KeyError, Txn};
use deltaplane_sync::{Epoch, Revision, ZoneName};
use serde_json::{Map, Value, json};

use super::ReconcileError;
use crate::fleet::Fleet;
use crate::kinds::TENANT;
use crate::session::Session;

/// A settlement of a zone by a person, kept beside its Zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneSettlement {
    /// Of the Zone whose status says the same.
    uid: String,
    /// The identity of the zone's store.
    store: String,
    /// As the status says it.
    pub(crate) reconciled: Value,
}

/// The highest release of each policy that zones had followed when a person settled them.
pub(crate) type SettledReleases = BTreeMap<String, u64>;

/// Not served: no kind has this collection.
const SETTLEMENTS: &str = "deltaplane.io/settlements";
/// Identities of stores are shorter; what a zone says of itself is not kept at any length.
const MAX_IDENTITY: usize = 256;

// === impl ZoneSettlement ===

impl ZoneSettlement {
    fn read(bytes: &[u8]) -> Option<Self> {
        let written: Value = serde_json::from_slice(bytes).ok()?;
        Some(Self {
            uid: written["uid"].as_str()?.to_owned(),
            store: written["store"].as_str()?.to_owned(),
            reconciled: written[RECONCILED].clone(),
        })
    }

    /// Of a Zone and a store that do not matter.
    #[cfg(test)]
    pub(crate) fn of(reconciled: Value) -> Self {
        Self {
            uid: "earlier".to_owned(),
            store: "s".to_owned(),
            reconciled,
        }
    }

    fn write(&self, zone: &ZoneName) -> Value {
        json!({
            "metadata": {"name": zone.as_str()},
            "uid": self.uid, "store": self.store, RECONCILED: self.reconciled,
        })
    }

    /// Positions of lost futures up to here are settled.
    pub(crate) fn revision(&self) -> Revision {
        self.reconciled["revision"].as_u64().unwrap_or(0)
    }

    /// Counts the releases that the zone had followed.
    fn raise(&self, settled: &mut SettledReleases) {
        let releases = self.reconciled["releases"].as_object();
        for (policy, release) in releases.into_iter().flatten() {
            let highest = settled.entry(policy.clone()).or_default();
            *highest = (*highest).max(release.as_u64().unwrap_or(0));
        }
    }

    /// Returns true if a person settled that the zone lost this record.
    pub(crate) fn has_record(&self, record: &Epoch) -> bool {
        self.reconciled["record"].as_str() == Some(&record.0)
    }
}

/// The identity of a zone's store, as the zone says.
pub(crate) fn store_identity(epoch: &Epoch) -> Option<String> {
    let store = epoch.store();
    (!store.is_empty() && store.len() <= MAX_IDENTITY).then(|| store.to_owned())
}

fn settlement_key(zone: &ZoneName) -> Result<Key, KeyError> {
    Collection::new(TENANT, SETTLEMENTS)?.key("", zone.as_str())
}

// === impl Fleet ===

impl Fleet {
    /// Returns what a person settled of this store of a zone under an earlier Zone of the same name.
    pub(crate) fn earlier_settlement(
        &self,
        (zone, uid): (&ZoneName, &str),
        store: Option<&str>,
    ) -> Option<ZoneSettlement> {
        let kept = self.inner().store.get(&settlement_key(zone).ok()?)?;
        let kept = ZoneSettlement::read(kept.bytes())?;
        (kept.uid != uid && Some(kept.store.as_str()) == store).then_some(kept)
    }

    /// The highest release of a policy of this name that zones had followed when a person settled
    /// them; 0 if none.
    pub(crate) fn settled_release(&self, policy: &str) -> u64 {
        let mut settled = self.inner().settled_releases.lock();
        let settled = settled.get_or_insert_with(|| self.read_settled_releases());
        settled.get(policy).copied().unwrap_or(0)
    }

    fn read_settled_releases(&self) -> SettledReleases {
        let mut settled = SettledReleases::new();
        let Ok(collection) = Collection::new(TENANT, SETTLEMENTS) else {
            return settled;
        };
        let kept = self.inner().store.snapshot(&collection);
        let kept = kept.range(None, None).into_iter().flatten();
        for settlement in kept.filter_map(|one| ZoneSettlement::read(one.bytes())) {
            settlement.raise(&mut settled);
        }
        settled
    }

    /// Keeps what was settled, once the status says so: it counts when the Zone is another one.
    /// Without it a person is asked again then.
    pub(super) async fn keep_settlement(
        &self,
        session: &Session,
        reconciled: &Value,
    ) -> Result<(), ReconcileError> {
        let Some(store) = session.store.clone() else {
            return Ok(());
        };
        let mut reconciled = reconciled.clone();
        reconciled["releases"] = self.settled_releases(session, &reconciled).into();
        let settlement = ZoneSettlement {
            uid: session.uid.clone(),
            store,
            reconciled,
        };
        let draft = Draft::opaque(settlement.write(&session.zone).to_string());
        let key = settlement_key(&session.zone)?;
        self.inner().store.commit(Txn::put(key, draft)).await?;
        if let Some(settled) = self.inner().settled_releases.lock().as_mut() {
            settlement.raise(settled);
        }
        Ok(())
    }

    /// The releases of a divergence before stay if they are not named.
    fn settled_releases(&self, session: &Session, reconciled: &Value) -> Map<String, Value> {
        let governing = self.inner().governing.lock();
        let status = governing.zones.get(&session.zone);
        let status = status.and_then(|zone| zone.get("status")?.get(RECONCILED));
        let earlier = session.earlier_settlement.as_ref();
        let earlier = earlier.map(|earlier| &earlier.reconciled);
        let all = earlier.into_iter().chain(status).chain([reconciled]);
        let releases = all.filter_map(|one| one["releases"].as_object().cloned());
        releases.flatten().collect()
    }
}
