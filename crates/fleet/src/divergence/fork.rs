//! Up to where this store and a future of it that was lost are the same: whatever is newer here, no
//! zone that followed that future was ever sent, so that no zone can have deleted it.
//!
//! A hub that is started knows which of its openings is the present one, and not which of them came
//! after it was restored. So the first word about a lost future is kept in the status of the zone
//! that followed it.

use deltaplane_sync::{Epoch, Position, Revision};
use serde_json::{Value, json};

use crate::fleet::Fleet;

/// A lost future of this store, and the newest revision that both can have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreFork {
    /// The opening that was lost, as zones name it.
    pub(crate) opening: Epoch,
    pub(crate) revision: Revision,
}

/// Of the status of a zone.
pub(crate) const FORK: &str = "fork";

// === impl StoreFork ===

impl StoreFork {
    /// As the status of a zone says.
    pub(crate) fn read(status: &Value) -> Option<Self> {
        let fork = &status[FORK];
        Some(Self {
            opening: Epoch(fork["opening"].as_str()?.into()),
            revision: fork["revision"].as_u64()?,
        })
    }

    pub(crate) fn write(&self) -> Value {
        json!({"opening": &*self.opening.0, "revision": self.revision})
    }
}

// === impl Fleet ===

impl Fleet {
    /// Where the future was lost that a zone followed, as far as any zone told.
    pub(crate) fn fork(&self, lost: &Position) -> StoreFork {
        let revision = self.catalog().read().common_with(lost);
        let known = self.inner().known.borrow();
        let told = known.zones.values().filter_map(|zone| zone.fork.as_ref());
        let told = told.filter(|fork| fork.opening == lost.epoch);
        let told = told.map(|fork| fork.revision).min();
        StoreFork {
            opening: lost.epoch.clone(),
            revision: told.map_or(revision, |told| told.min(revision)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_round_trips_through_a_status() {
        let fork = StoreFork {
            opening: Epoch::opening("store", "lost"),
            revision: 68,
        };
        let status = json!({ FORK: fork.write() });
        assert_eq!(StoreFork::read(&status), Some(fork));
        assert_eq!(StoreFork::read(&json!({"connection": "Connected"})), None);
    }
}
