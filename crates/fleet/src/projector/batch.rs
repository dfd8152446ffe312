//! What a few events change, before it is published as a whole.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use deltaplane_border::{
    Audience, Catalog, Edit, Entry, Governed, GraphClaim, Held, Placement, PolicyId, Shared,
};
use deltaplane_store::Revision;
use deltaplane_sync::{
    Crossing, Item, Mirrored, ObjectName, Origin, Relayed, SyncKind, Version, Withdrawal, ZoneName,
};
use serde_json::Value;

use crate::graphs::{instance_kind, not_accepted};

/// Changes, in their order.
pub(super) struct Batch {
    catalog: Arc<Shared>,
    pub(super) edits: Vec<Edit>,
    pub(super) kinds: Vec<KindChange>,
    /// What came from zones, or went.
    pub(super) from_zones: Vec<OriginChange>,
    /// Whether kinds or zones changed.
    pub(super) knows_more: bool,
    /// Whether something changed that policies are about.
    pub(super) stirs: bool,
    /// Whether there are synced kinds that cannot be read, if that is news.
    pub(super) undecided: Option<bool>,
    /// Kinds that have a SyncedKind which can be read, and had none.
    pub(super) crossing_again: BTreeSet<SyncKind>,
    /// What the catalog will have.
    latest: HashMap<(SyncKind, ObjectName), Option<Entry>>,
}

/// An object of a zone came, changed or went.
pub(super) struct OriginChange {
    pub(super) zone: ZoneName,
    pub(super) kind: SyncKind,
    /// As the zone calls it.
    pub(super) name: ObjectName,
    pub(super) at: Revision,
    pub(super) becomes: Option<Held>,
}

/// Which kinds cross.
pub(super) enum KindChange {
    Declared(SyncKind, Option<ObjectName>),
    Retired(SyncKind, Withdrawal),
    /// The graph has instances of this kind, or is gone.
    MadeBy(ObjectName, Option<(SyncKind, GraphClaim)>),
}

/// What there is of an object that is not there any more.
pub(super) enum Outlived {
    /// A policy decided about it, and does not any more.
    Governed(Arc<Governed>),
    /// Whoever has it was told what to do with it.
    Withdrawn,
    Other,
}

// === impl KindChange ===

impl KindChange {
    pub(super) fn apply(self, catalog: &mut Catalog) {
        match self {
            Self::Declared(kind, definition) => catalog.declare(kind, definition),
            Self::Retired(kind, withdrawal) => catalog.retire(&kind, withdrawal),
            Self::MadeBy(graph, instances) => catalog.set_graph(&graph, instances),
        }
    }
}

// === impl Batch ===

impl Batch {
    pub(super) fn new(catalog: &Arc<Shared>) -> Self {
        Self {
            catalog: catalog.clone(),
            edits: Vec::new(),
            kinds: Vec::new(),
            from_zones: Vec::new(),
            knows_more: false,
            stirs: false,
            undecided: None,
            crossing_again: BTreeSet::new(),
            latest: HashMap::new(),
        }
    }

    pub(super) fn declare(&mut self, kind: SyncKind, definition: Option<ObjectName>) {
        self.kinds.push(KindChange::Declared(kind, definition));
    }

    pub(super) fn retire(&mut self, kind: SyncKind, withdrawal: Withdrawal) {
        self.kinds.push(KindChange::Retired(kind, withdrawal));
    }

    /// Sets the kind of a graph's instances, as its stored definition has it.
    pub(super) fn set_graph(&mut self, graph: &ObjectName, definition: &Value) {
        let claim = match not_accepted(definition) {
            None => GraphClaim::Accepted,
            Some(_) => GraphClaim::Pending,
        };
        let instances = instance_kind(definition).map(|kind| (kind, claim));
        self.kinds
            .push(KindChange::MadeBy(graph.clone(), instances));
    }

    /// The graph is deleted, and no zone is kept on it.
    pub(super) fn forget_graph(&mut self, graph: &ObjectName) {
        self.kinds.push(KindChange::MadeBy(graph.clone(), None));
    }

    /// Whether any zone should have an object.
    pub(super) fn is_wanted(&self, kind: &SyncKind, name: &ObjectName) -> bool {
        let entry = self.entry(kind, name);
        entry.is_some_and(|entry| entry.is_for_anybody())
    }

    /// What a policy decided about an object, if it is still this one that does.
    pub(super) fn governed_by(
        &self,
        (kind, name): &(SyncKind, ObjectName),
        policy: &str,
    ) -> Option<Arc<Governed>> {
        match self.entry(kind, name)? {
            Entry::Governed(governed) => Some(governed).filter(|one| one.policy.as_str() == policy),
            Entry::Shared { .. } => None,
        }
    }

    /// Whether an object is there that a policy does not decide about.
    pub(super) fn is_of_others(&self, id: &(SyncKind, ObjectName), policy: &str) -> bool {
        self.entry(&id.0, &id.1).is_some() && self.governed_by(id, policy).is_none()
    }

    /// The objects of a kind that are not in the catalog yet, or about to go from it.
    pub(super) fn names(&self, of: &SyncKind) -> impl Iterator<Item = &ObjectName> {
        let of_kind = self.latest.keys().filter(move |(kind, _)| kind == of);
        of_kind.map(|(_, name)| name)
    }

    fn entry(&self, kind: &SyncKind, name: &ObjectName) -> Option<Entry> {
        let key = (kind.clone(), name.clone());
        match self.latest.get(&key) {
            Some(latest) => latest.clone(),
            None => self.catalog.read().entry(kind, name).cloned(),
        }
    }

    /// An object is there like this.
    pub(super) fn put(
        &mut self,
        kind: &SyncKind,
        object: &Value,
        at: Revision,
        audience: impl FnOnce(&Value) -> Audience,
    ) {
        let crossing = match Crossing::of(object) {
            Ok(crossing) => crossing,
            Err(reason) => {
                tracing::warn!(%kind, %reason, "an object cannot cross");
                return;
            }
        };
        let name = crossing.name().clone();
        let mirrored = Mirrored::of(object);
        let relayed = mirrored
            .as_ref()
            .and_then(|mirrored| match &mirrored.origin {
                Origin::Zone(zone) => Some(Relayed {
                    zone: zone.clone(),
                    name: Mirrored::authored_as(object).into(),
                }),
                Origin::Hub => None,
            });
        let held = mirrored.map(
            |Mirrored {
                 version, source, ..
             }| Held {
                version,
                source,
                stamp: None,
            },
        );
        self.note_origin((kind, &name), at, relayed.as_ref().zip(held));
        let body = serde_json::to_vec(crossing.object()).unwrap_or_default();
        let entry = Entry::Shared {
            item: Item {
                version: crossing.version(),
                body: body.into(),
                relayed,
            },
            audience: audience(object),
        };
        self.set(kind, name, at, Some(entry));
    }

    /// A policy decides about an object, or has no business with it any more.
    pub(super) fn govern(
        &mut self,
        (kind, name): &(SyncKind, ObjectName),
        at: Revision,
        governed: Option<Governed>,
    ) {
        self.note_origin((kind, name), at, None);
        let becomes = governed.map(|governed| Entry::Governed(Arc::new(governed)));
        self.set(kind, name.clone(), at, becomes);
    }

    pub(super) fn outlived(&self, kind: &SyncKind, name: &ObjectName) -> Outlived {
        match self.entry(kind, name) {
            Some(Entry::Governed(governed)) => Outlived::Governed(governed),
            Some(Entry::Shared { item, audience }) => match audience {
                Audience::Nobody(_) if item.relayed.is_none() => Outlived::Withdrawn,
                Audience::Nobody(_)
                | Audience::Everyone
                | Audience::EveryoneBut(_)
                | Audience::Undecided => Outlived::Other,
            },
            None => Outlived::Other,
        }
    }

    /// Returns true if there is an object, or something that zones are told of one.
    pub(super) fn has(&self, (kind, name): &(SyncKind, ObjectName)) -> bool {
        match self.entry(kind, name) {
            Some(Entry::Shared { item, .. }) => !item.body.is_empty(),
            Some(Entry::Governed(_)) => true,
            None => false,
        }
    }

    /// Zones that have an object, which is not there, do what is done with what is withdrawn.
    pub(super) fn withdraw_as(
        &mut self,
        (kind, name): (&SyncKind, &ObjectName),
        at: Revision,
        withdrawal: Withdrawal,
    ) {
        let entry = Entry::Shared {
            item: Item {
                version: Version::altered(),
                body: Vec::new().into(),
                relayed: None,
            },
            audience: Audience::Nobody(withdrawal),
        };
        self.set(kind, name.clone(), at, Some(entry));
    }

    /// No policy decides about an object any more, which is not there, and nobody agreed that zones
    /// lose it: those that have it do what is done with what is withdrawn.
    pub(super) fn withdraw(
        &mut self,
        (kind, name): (&SyncKind, &ObjectName),
        at: Revision,
        governed: &Governed,
    ) {
        let items = governed.slots.values().flatten();
        // Nobody is sent it.
        let version = items.last().map_or(Version::altered(), |item| item.version);
        let entry = Entry::Shared {
            item: Item {
                version,
                body: Vec::new().into(),
                relayed: None,
            },
            audience: Audience::Nobody(governed.withdrawal),
        };
        self.set(kind, name.clone(), at, Some(entry));
    }

    /// A policy placed zones.
    pub(super) fn place(&mut self, policy: PolicyId, at: Revision, placement: Option<Placement>) {
        self.edits.push(Edit::Placed {
            policy,
            revision: at.get(),
            placement,
        });
    }

    /// An object is not there any more.
    pub(super) fn remove(&mut self, kind: &SyncKind, name: &ObjectName, at: Revision) {
        self.note_origin((kind, name), at, None);
        self.set(kind, name.clone(), at, None);
    }

    /// Keeps what is known of zones' objects true.
    fn note_origin(
        &mut self,
        (kind, name): (&SyncKind, &ObjectName),
        at: Revision,
        is: Option<(&Relayed, Held)>,
    ) {
        let change = |zone: &ZoneName, name, becomes| OriginChange {
            zone: zone.clone(),
            kind: kind.clone(),
            name,
            at,
            becomes,
        };
        let before = self.entry(kind, name);
        let before = before.and_then(|entry| entry.relayed().cloned());
        let there = |relayed: &Relayed| ObjectName::new(name.namespace(), &relayed.name).ok();
        if let Some(before) = before
            && is.as_ref().is_none_or(|(relayed, _)| **relayed != before)
            && let Some(name) = there(&before)
        {
            self.from_zones.push(change(&before.zone, name, None));
        }
        if let Some((relayed, held)) = is
            && let Some(name) = there(relayed)
        {
            self.from_zones
                .push(change(&relayed.zone, name, Some(held)));
        }
    }

    fn set(&mut self, kind: &SyncKind, name: ObjectName, at: Revision, becomes: Option<Entry>) {
        let key = (kind.clone(), name.clone());
        self.latest.insert(key, becomes.clone());
        self.edits.push(Edit::Object {
            kind: kind.clone(),
            name,
            revision: at.get(),
            becomes,
        });
    }
}
