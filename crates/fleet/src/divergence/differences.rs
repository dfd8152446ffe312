//! How a zone that has diverged differs from this hub.
//!
//! What is decided is compared with what the zone should have. What is not decided (because release
//! numbers were raised, the zone lost its place, or a definition is not accepted) is compared with
//! what the zone was admitted to and with what is at the hub: otherwise it would vanish from sight
//! before anybody settled it, and the hub's would be released over it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_border::{Entry, UndecidedObjects, definitions, namespaces};
use deltaplane_store::{Collection, Object};
use deltaplane_sync::{Crossing, Difference, ObjectName, SyncKind, Version};
use serde_json::{Map, Value};

use crate::fleet::Fleet;
use crate::governing::{AssignedVersion, FrozenVersions, Governing, Id};
use crate::kinds::TENANT;
use crate::session::Session;

/// The objects that are not the same in a zone and at this hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZoneDifferences {
    pub(crate) objects: BTreeMap<SyncKind, BTreeMap<ObjectName, Difference>>,
    /// Those that the zone lacks, and may never have had: that it lacks them does not mean that
    /// they were deleted.
    pub(crate) doubtful_absences: BTreeSet<Id>,
    /// The number of objects that the zone holds, or was admitted to, while it is not decided any more
    /// what it should have of them: nobody counts them as wanted, and the deletion budget is a share
    /// of them too.
    pub(super) undecided: BTreeMap<SyncKind, u64>,
}

// === impl Fleet ===

impl Fleet {
    /// How a zone differs from this hub, as far as the zone has said what it holds.
    pub(crate) fn differences(&self, session: &Session) -> ZoneDifferences {
        let mut differences = ZoneDifferences {
            objects: session.sending.differences().unwrap_or_default(),
            ..ZoneDifferences::default()
        };
        let (governed, others) = self.undecided(session);
        for (id, held) in others {
            let versions = FrozenVersions {
                held,
                assigned: AssignedVersion::Unknown,
                next: self.stored_version(&id),
            };
            differences.add(id, versions, false);
        }
        let governing = self.inner().governing.lock();
        for (policy, objects) in governed {
            differences.compare_policy((&governing, session), &policy, objects);
        }
        differences
    }

    /// The objects of which it is not decided what a zone should have, and what it holds of them: by
    /// the policy that decides, and the others.
    fn undecided(
        &self,
        session: &Session,
    ) -> (BTreeMap<String, UndecidedObjects>, UndecidedObjects) {
        let undecided = session.sending.undecided().unwrap_or_default();
        let mut governed: BTreeMap<String, UndecidedObjects> = BTreeMap::new();
        let mut others = UndecidedObjects::new();
        let catalog = self.catalog().read();
        for (id, held) in undecided {
            match catalog.entry(&id.0, &id.1) {
                Some(Entry::Governed(entry)) => {
                    let policy = entry.policy.as_str().to_owned();
                    governed.entry(policy).or_default().insert(id, held);
                }
                Some(Entry::Shared { .. }) | None => {
                    others.insert(id, held);
                }
            }
        }
        (governed, others)
    }

    /// An object as it is stored here, whether it crosses or not.
    pub(crate) fn stored_object(&self, (kind, name): &Id) -> Option<Arc<Object>> {
        let known = self.inner().known.borrow().clone();
        let synced = known.synced.values().filter(|one| one.kind == *kind);
        let mut stored = synced.filter_map(|synced| {
            let stored = self.stored_in(&synced.collection(), name)?;
            // A SyncedKind with a wrong name has the plural of another kind.
            let object = serde_json::from_slice(stored.bytes()).ok()?;
            synced.is_kind_of(&object).then_some(stored)
        });
        let implied = || match () {
            () if *kind == namespaces() => Some("namespaces"),
            () if *kind == definitions() => Some("apiextensions.k8s.io/customresourcedefinitions"),
            () => None,
        };
        let stored = stored.next();
        stored.or_else(|| self.stored_in(implied()?, name))
    }

    fn stored_in(&self, collection: &str, name: &ObjectName) -> Option<Arc<Object>> {
        let collection = Collection::new(TENANT, collection).ok()?;
        let key = collection.key(name.namespace(), name.name()).ok()?;
        self.inner().store.get(&key)
    }

    /// The version of an object as it is stored here.
    fn stored_version(&self, id: &Id) -> Option<Version> {
        let stored = self.stored_object(id)?;
        let object: Value = serde_json::from_slice(stored.bytes()).ok()?;
        Crossing::of(&object)
            .ok()
            .map(|crossing| crossing.version())
    }
}

// === impl ZoneDifferences ===

impl ZoneDifferences {
    fn compare_policy(
        &mut self,
        (governing, session): (&Governing, &Session),
        policy: &str,
        objects: UndecidedObjects,
    ) {
        let Some(governor) = governing.policies.get(policy) else {
            return;
        };
        let nothing = Map::new();
        let zone = governing.zones.get(&session.zone);
        let zone = (&session.zone, zone.map_or(&nothing, |zone| zone.as_ref()));
        let contents = governor.contents_for(&governing.contents, zone);
        let claimed = session.claimed_release(policy);
        for (id, held) in objects {
            let versions = contents.versions(&id, held);
            self.add(id, versions, claimed > 0);
        }
    }

    /// Returns the number of objects of a kind that the zone should have had before release numbers
    /// were raised, and that are not decided now.
    pub(crate) fn undecided(&self, kind: &SyncKind) -> u64 {
        self.undecided.get(kind).copied().unwrap_or(0)
    }

    fn add(&mut self, id: Id, versions: FrozenVersions, followed: bool) {
        if versions.is_of_zone() {
            *self.undecided.entry(id.0.clone()).or_default() += 1;
        }
        let Some(difference) = versions.difference(followed) else {
            return;
        };
        if difference.doubtful_absence {
            self.doubtful_absences.insert(id.clone());
        }
        let names = self.objects.entry(id.0).or_default();
        names.insert(id.1, difference.how);
    }
}
