//! Which zones a policy does not let have an object as it is now.

use std::collections::BTreeMap;
use std::fmt;

use deltaplane_border::PolicyId;
use deltaplane_sync::{Version, ZoneName};

use super::governor::Governor;
use super::release::Id;
use super::{Governing, Zones};

/// What a policy lets zones have of an object.
#[derive(Debug, Default)]
pub(crate) struct KeptBack {
    /// As it is at the hub; nothing if no policy governs it.
    pub(crate) version: Option<Version>,
    /// Zones that should have it as it is, and are not to have it yet.
    pub(crate) zones: BTreeMap<ZoneName, Back>,
}

/// Why a zone is not to have it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Back {
    policy: PolicyId,
    /// Where the zone is; nothing if the policy has not let it have anything.
    release: Option<u64>,
}

// === impl Governing ===

impl Governing {
    /// What a policy lets zones have of an object.
    pub(crate) fn kept_back(&self, policy: &PolicyId, id: &Id) -> KeptBack {
        let governor = self.policies.get(policy.as_str());
        let kept = governor.and_then(|governor| governor.kept_back(id, &self.zones));
        kept.unwrap_or_default()
    }
}

// === impl Governor ===

impl Governor {
    fn kept_back(&self, id: &Id, zones: &Zones) -> Option<KeptBack> {
        let version = self.head.get(id)?.version;
        let selected = zones.iter().filter(|(_, object)| self.selects(object));
        let back = selected.filter_map(|(zone, _)| {
            let release = self.let_have(zone);
            let has = release.and_then(|release| release.manifest.get(id));
            let back = Back {
                policy: self.id.clone(),
                release: release.map(|release| release.number),
            };
            (has != Some(&version)).then(|| (zone.clone(), back))
        });
        Some(KeptBack {
            version: Some(version),
            zones: back.collect(),
        })
    }
}

// === impl Back ===

impl fmt::Display for Back {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, release } = self;
        match release {
            Some(release) => write!(
                f,
                "policy {policy} lets the zone have release {release}, and not yet what is at the hub"
            )?,
            None => write!(f, "policy {policy} has let the zone have nothing yet")?,
        }
        write!(f, "; deltaplane rollout why policy/{policy} says more")
    }
}
