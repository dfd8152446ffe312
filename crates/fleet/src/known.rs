//! What the hub knows of kinds and zones, as of one revision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deltaplane_sync::{Computed, DeletionBudget, Epoch, Revision, SyncKind, ZoneName};

use crate::divergence::StoreFork;
use crate::kinds::{SyncedKind, ZoneSpec};

/// Everything that decisions about single requests need. Replaced as a whole.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub(crate) at: Revision,
    /// The revision of the last change of a SyncedKind.
    pub(crate) synced_at: Revision,
    /// By group and plural.
    pub(crate) synced: BTreeMap<(String, String), SyncedKind>,
    /// Fields that controllers write, by group and plural.
    pub(crate) computed: BTreeMap<(String, String), Vec<Computed>>,
    pub(crate) zones: BTreeMap<ZoneName, ZoneEntry>,
    /// Synced kinds that cannot be read.
    pub(crate) unreadable: BTreeSet<String>,
}

/// A zone, as its object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneEntry {
    pub(crate) uid: String,
    pub(crate) spec: ZoneSpec,
    /// The spec was written by another version and could never be read; `spec` disables the zone.
    pub(crate) is_unreadable: bool,
    /// Removals up to here were approved.
    pub(crate) approved: Revision,
    /// When somebody said so, by the clock of this process.
    pub(crate) approved_at: Duration,
    /// The id of the join token that counts.
    pub(crate) token: Option<String>,
    /// A person settled what the zone followed of a lost future of this store, up to here.
    pub(crate) reconciled: Revision,
    /// The zone lost its record of how far it followed, and a person settled that.
    pub(crate) reconciled_record: Option<Epoch>,
    /// Where the future of this store was lost that the zone followed last of those that were.
    pub(crate) fork: Option<StoreFork>,
}

// === impl Known ===

impl Known {
    /// The revision of the last change of a SyncedKind.
    pub fn synced_at(&self) -> Revision {
        self.synced_at
    }

    pub(crate) fn synced(&self, group: &str, plural: &str) -> Option<&SyncedKind> {
        self.synced.get(&(group.to_owned(), plural.to_owned()))
    }

    /// The fields that controllers write, by group and plural.
    pub fn computed_fields(&self) -> &BTreeMap<(String, String), Vec<Computed>> {
        &self.computed
    }

    pub(crate) fn computed(&self, group: &str, plural: &str) -> &[Computed] {
        let key = (group.to_owned(), plural.to_owned());
        self.computed.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The kinds that zones send.
    pub(crate) fn upward(&self) -> impl Iterator<Item = (&SyncKind, &str)> {
        let upward = self.synced.iter().filter(|(_, kind)| kind.goes_up());
        upward.map(|((_, plural), kind)| (&kind.kind, plural.as_str()))
    }
}

// === impl ZoneEntry ===

impl ZoneEntry {
    pub(crate) fn budget(&self) -> DeletionBudget {
        let usual = DeletionBudget::default();
        let given = self.spec.deletion_budget.unwrap_or_default();
        DeletionBudget {
            max: given.max.unwrap_or(usual.max),
            percent: given.percent.unwrap_or(usual.percent),
        }
    }
}
