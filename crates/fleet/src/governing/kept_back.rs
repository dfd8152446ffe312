//! Which zones a policy does not let have an object as it is now.

use std::collections::BTreeMap;
use std::fmt;

use deltaplane_border::{Place, Placement, PolicyId};
use deltaplane_sync::{Version, ZoneName};

use super::Governing;
use super::governor::Governor;
use super::release::Id;

/// Zones that should have an object as it is, and are not to have it yet.
#[derive(Debug, Default)]
pub(crate) struct KeptBack {
    /// As it is at the hub; nothing if no policy governs it.
    pub(crate) version: Option<Version>,
    policy: Option<PolicyId>,
    /// Why the version at the hub is in no release that comes, if it was rolled back.
    rolled_back: Option<String>,
    /// And the releases that they are to have; nothing where that is not decided.
    zones: BTreeMap<ZoneName, Option<u64>>,
}

/// Why a zone is not to have it yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Back<'a> {
    policy: &'a PolicyId,
    release: Option<u64>,
    rolled_back: Option<&'a str>,
}

// === impl Governing ===

impl Governing {
    /// The zones that a policy does not let have an object as it is, by where they were placed.
    pub(crate) fn kept_back(&self, policy: &PolicyId, id: &Id, places: &Placement) -> KeptBack {
        let governor = self.policies.get(policy.as_str());
        let kept = governor.and_then(|governor| governor.kept_back(id, places));
        kept.unwrap_or_default()
    }
}

// === impl Governor ===

impl Governor {
    fn kept_back(&self, id: &Id, places: &Placement) -> Option<KeptBack> {
        let version = self.head.get(id)?.version;
        let releases = self.releases.iter();
        let having: Vec<u64> = releases
            .filter(|(_, release)| release.manifest.get(id) == Some(&version))
            .map(|(number, _)| *number)
            .collect();
        let zones = places.iter().filter_map(|(zone, place)| {
            let release = match place {
                Place::At(slot) => Some(slot.release),
                Place::Frozen => None,
            };
            let has = release.is_some_and(|release| having.binary_search(&release).is_ok());
            (!has).then(|| (zone.clone(), release))
        });
        Some(KeptBack {
            version: Some(version),
            policy: Some(self.id.clone()),
            rolled_back: self.rolled_back_by(id).map(|why| why.to_string()),
            zones: zones.collect(),
        })
    }
}

// === impl KeptBack ===

impl KeptBack {
    /// Why a zone is not to have it yet, if it is not.
    pub(crate) fn zone(&self, zone: &ZoneName) -> Option<Back<'_>> {
        let release = *self.zones.get(zone)?;
        let policy = self.policy.as_ref()?;
        let rolled_back = self.rolled_back.as_deref();
        Some(Back {
            policy,
            release,
            rolled_back,
        })
    }
}

// === impl Back ===

impl Back<'_> {
    /// Returns true if the version at the hub is in no release that comes.
    pub(crate) fn is_rolled_back(self) -> bool {
        self.rolled_back.is_some()
    }
}

impl fmt::Display for Back<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            policy, release, ..
        } = self;
        match release {
            Some(release) if self.is_rolled_back() => write!(
                f,
                "the hub's current version was rolled back by policy {policy}, and the zone is at release {release}: {}",
                self.rolled_back.unwrap_or_default()
            )?,
            Some(release) => write!(
                f,
                "policy {policy} lets the zone have release {release}, and not yet what is at the hub"
            )?,
            None => write!(
                f,
                "policy {policy} has not decided what the zone is to have: what it has stays"
            )?,
        }
        write!(f, "; deltaplane rollout why policy/{policy} says more")
    }
}
