//! A catalog as one reader sees it.

use std::collections::BTreeSet;

use deltaplane_sync::{
    Before, Change, Item, Lineage, Need, ObjectName, Position, Presence, Revision, SyncKind,
    Version, View, Withdrawal, ZoneName,
};

use super::governed::{Governed, PolicyId, Spot};
use super::{Catalog, Entry, KindState, definitions, graphs, namespaces};

/// A catalog as one reader sees it: a zone, or the hub.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub catalog: &'a Catalog,
    /// None for the hub.
    pub zone: Option<&'a ZoneName>,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Where the reader stands with a policy.
    fn spot(&self, policy: &PolicyId) -> Spot {
        let policy = self.catalog.policies.get(policy);
        policy.map_or(Spot::Frozen, |policy| policy.spot(self.zone))
    }

    fn item(&self, entry: &'a Entry) -> Option<&'a Item> {
        match entry {
            Entry::Shared { item, audience } => audience.includes(self.zone).then_some(item),
            Entry::Governed(governed) => match self.spot(&governed.policy) {
                Spot::At(slot) => governed.slots.get(&slot)?.as_ref(),
                Spot::Frozen | Spot::Out => None,
            },
        }
    }

    /// What the catalog says of an object.
    fn decided(&self, kind: &SyncKind, name: &ObjectName) -> Presence {
        let kept = self.catalog.kinds.get(kind);
        match kept.and_then(|kept| kept.entries.get(name)) {
            Some(Entry::Governed(governed)) => self.governed(governed),
            Some(Entry::Shared { item, audience }) if audience.includes(self.zone) => {
                Presence::Wanted(item.clone())
            }
            Some(Entry::Shared { audience, .. }) => {
                let withdrawal = audience.withdrawal();
                withdrawal.map_or(Presence::Frozen, Presence::Withdrawn)
            }
            None => self.absent(kept.map_or(KindState::Undeclared, |kept| kept.state)),
        }
    }

    /// Returns what it means that the catalog has no entry for an object.
    fn absent(&self, state: KindState) -> Presence {
        match (state, self.zone) {
            (KindState::Declared, _) => Presence::Gone,
            (KindState::Retired(withdrawal), _) => Presence::Withdrawn(withdrawal),
            (KindState::Undeclared, Some(_)) if self.catalog.undecided => Presence::Frozen,
            // The hub stopped syncing the kind: the zone keeps its objects as its own.
            (KindState::Undeclared, Some(_)) => Presence::Withdrawn(Withdrawal::Orphan),
            // A zone's catalog does not know the kind yet. A zone never withdraws.
            (KindState::Undeclared, None) => Presence::Frozen,
        }
    }

    fn governed(&self, governed: &Governed) -> Presence {
        match self.spot(&governed.policy) {
            Spot::At(slot) => match governed.slots.get(&slot) {
                Some(Some(item)) => Presence::Wanted(item.clone()),
                Some(None) => Presence::Gone,
                None => Presence::Frozen,
            },
            Spot::Frozen => Presence::Frozen,
            Spot::Out => Presence::Withdrawn(governed.withdrawal),
        }
    }
}

impl View for Reader<'_> {
    fn at(&self) -> Position {
        Position {
            epoch: self.catalog.openings.current().clone(),
            revision: self.catalog.at,
        }
    }

    fn lineage(&self, followed: &Position) -> Lineage {
        self.catalog.openings.lineage(followed, self.catalog.at)
    }

    fn presence(&self, kind: &SyncKind, name: &ObjectName) -> Presence {
        let presence = self.decided(kind, name);
        // What others may need stays while it is not known what crosses.
        let leaves = matches!(presence, Presence::Withdrawn(_) | Presence::Gone);
        match leaves && self.catalog.undecided && self.zone.is_some() && is_needed_by_others(kind) {
            true => Presence::Frozen,
            false => presence,
        }
    }

    fn wanted(&self, kind: &SyncKind) -> Box<dyn Iterator<Item = (ObjectName, Version)> + '_> {
        let entries = self.catalog.entries(kind);
        let reader = *self;
        Box::new(entries.filter_map(move |(name, entry)| {
            let item = reader.item(entry)?;
            Some((name.clone(), item.version))
        }))
    }

    fn kinds(&self) -> Vec<SyncKind> {
        let kinds = self.catalog.kinds.keys();
        kinds.filter(|kind| self.count(kind) > 0).cloned().collect()
    }

    fn count(&self, kind: &SyncKind) -> u64 {
        self.catalog.kinds.get(kind).map_or(0, |kept| {
            let but: u64 = kept.but.values().sum();
            let own = self.zone.and_then(|zone| kept.but.get(zone));
            let governed = kept.governed.iter();
            let governed = governed.map(|(policy, tally)| tally.wanted(self.spot(policy)));
            kept.everyone + but - own.copied().unwrap_or_default() + governed.sum::<u64>()
        })
    }

    fn since(&self, kind: &SyncKind, revision: Revision) -> Option<Vec<Change>> {
        let Catalog {
            log,
            forgotten,
            began,
            ..
        } = self.catalog;
        if revision < *began || forgotten.is_some_and(|forgotten| revision <= forgotten) {
            return None;
        }
        let from = log.partition_point(|logged| logged.stamp < revision);
        let of_kind = log.range(from..).filter(|logged| logged.kind == *kind);
        let changes = of_kind.filter_map(|logged| logged.change_since(revision, self.zone));
        Some(changes.collect())
    }

    fn remembers(&self, kind: &SyncKind) -> BTreeSet<ObjectName> {
        let of_kind = self
            .catalog
            .log
            .iter()
            .filter(|logged| logged.kind == *kind);
        let changes = of_kind.filter_map(|logged| logged.change(self.zone));
        let had = changes.filter(|change| change.before != Before::Nothing);
        had.map(|change| change.name).collect()
    }

    fn needs(&self, kind: &SyncKind, name: &ObjectName) -> Vec<Need> {
        let kept = self.catalog.kinds.get(kind);
        let ordered = |kind: SyncKind, name: ObjectName| Need {
            kind,
            name,
            required: false,
        };
        let definition = kept.and_then(|kept| kept.definition.clone());
        let definition = definition.map(|name| ordered(definitions(), name));
        let graph = self.catalog.graph(kind).cloned();
        let graph = graph.map(|name| Need {
            kind: graphs(),
            name,
            required: true,
        });
        let namespace = match name.namespace() {
            "" => None,
            namespace => ObjectName::new("", namespace).ok(),
        };
        let namespace = namespace.map(|name| ordered(namespaces(), name));
        let needs = definition.into_iter().chain(graph).chain(namespace);
        needs.collect()
    }

    fn cascade(&self, kind: &SyncKind, name: &ObjectName) -> u64 {
        // What is there for others only may have been left to the reader.
        if *kind == namespaces() {
            let inside = self.catalog.inside(name.name());
            let there = inside.filter(|(kind, name)| self.presence(kind, name) != Presence::Gone);
            return there.count() as u64;
        }
        if *kind != definitions() {
            return 0;
        }
        let defined = self.catalog.kinds.values();
        let defined = defined.filter(|kept| kept.definition.as_ref() == Some(name));
        let there = defined.map(|kept| {
            let governed = kept.governed.iter();
            let gone = governed.map(|(policy, tally)| tally.gone(self.spot(policy)));
            kept.entries.len() as u64 - gone.sum::<u64>()
        });
        there.sum()
    }

    fn release(&self, kind: &SyncKind, name: &ObjectName) -> Option<(String, u64)> {
        let Some(Entry::Governed(governed)) = self.catalog.entry(kind, name) else {
            return None;
        };
        match self.spot(&governed.policy) {
            Spot::At(slot) => Some((governed.policy.as_str().to_owned(), slot.release)),
            Spot::Frozen | Spot::Out => None,
        }
    }

    fn is_agreed(&self, kind: &SyncKind, name: &ObjectName) -> bool {
        let Some(Entry::Governed(governed)) = self.catalog.entry(kind, name) else {
            return false;
        };
        match self.spot(&governed.policy) {
            Spot::At(slot) => governed.agreed.contains(&slot),
            Spot::Frozen | Spot::Out => false,
        }
    }
}

/// Kinds that objects of other kinds cannot be without, and what says which kinds cross.
fn is_needed_by_others(kind: &SyncKind) -> bool {
    *kind == namespaces() || *kind == definitions() || kind.kind() == "SyncedKind"
}
