//! What there is to send, and what changed of it: pure.
//!
//! One catalog serves all who read it. What a reader should have is a function of the object and
//! the reader, so that a hub keeps each object once, and of a zone next to nothing: where it stands
//! with each policy. A policy that moves some zones costs what differs for these.

mod governed;
mod log;
mod reader;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use deltaplane_sync::{
    Change, Epoch, Item, ObjectName, Position, Relayed, Revision, SyncKind, Version, Withdrawal,
    ZoneName,
};

use crate::openings::Openings;

use governed::{Move, Moves, Outline, Policy, Tally};
use log::{Logged, Was, What};

pub use governed::{Governed, Place, Placement, PolicyId, Slot};
pub use log::Concerned;
pub use reader::Reader;

/// All objects that may be sent, and the last changes.
#[derive(Debug)]
pub struct Catalog {
    openings: Openings,
    at: Revision,
    kinds: BTreeMap<SyncKind, Kept>,
    policies: BTreeMap<PolicyId, Policy>,
    log: VecDeque<Logged>,
    /// How many entries the log has lost at its beginning.
    dropped: u64,
    /// Changes up to here are not known, or not all of them.
    forgotten: Option<Revision>,
    /// Nothing is known of before.
    began: Revision,
    /// Kinds that are not declared may cross nevertheless: who says so cannot be read.
    undecided: bool,
    /// Counts changes of what it means that objects are not in the catalog.
    absence_changes: u64,
}

/// An object that is there, and what decides who should have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It is the same for all who should have it.
    Shared { item: Item, audience: Audience },
    /// A policy decides. Only for what goes from a hub to zones, and is the hub's own.
    Governed(Arc<Governed>),
}

/// Who should have an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    Everyone,
    /// It came from there.
    EveryoneBut(ZoneName),
    /// Whoever had it should do this with it.
    Nobody(Withdrawal),
    /// It must not be sent as it is: whoever has it keeps what it has.
    Undecided,
}

/// A change of a catalog.
#[derive(Clone, Debug)]
pub enum Edit {
    Object {
        kind: SyncKind,
        name: ObjectName,
        revision: Revision,
        /// Nothing when it was deleted.
        becomes: Option<Entry>,
    },
    /// A policy decided. What it does not move stays.
    Placed {
        policy: PolicyId,
        revision: Revision,
        /// Nothing when it is gone: what it still governs is frozen.
        placement: Option<Placement>,
    },
}

#[derive(Debug, Default)]
struct Kept {
    entries: BTreeMap<ObjectName, Entry>,
    /// How many are for everyone, and how many for everyone but one.
    everyone: u64,
    but: BTreeMap<ZoneName, u64>,
    /// How many policies decide about.
    governed: BTreeMap<PolicyId, Tally>,
    /// The definition that must be there first.
    definition: Option<ObjectName>,
    /// The graphs that say that these are their instances.
    graphs: BTreeMap<ObjectName, GraphClaim>,
    state: KindState,
}

/// Decides what it means that an object of a kind is not in the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KindState {
    /// Only policies or graphs named the kind: whether its other objects cross is not known.
    #[default]
    Undeclared,
    /// The object was deleted.
    Declared,
    /// The object was withdrawn, and not deleted.
    Retired(Withdrawal),
}

/// What a graph says of the kind of its instances. Of several graphs the hub accepts one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GraphClaim {
    Accepted,
    Pending,
}

/// Readers that are further behind begin anew, by versions.
pub(crate) const LOG: usize = 100_000;

/// What namespaces are called on the wire.
pub fn namespaces() -> SyncKind {
    SyncKind::new("", "Namespace").expect("a legal name")
}

/// What graphs are called on the wire.
pub fn graphs() -> SyncKind {
    SyncKind::new("kro.run", "ResourceGraphDefinition").expect("a legal name")
}

/// What definitions are called on the wire.
pub fn definitions() -> SyncKind {
    SyncKind::new("apiextensions.k8s.io", "CustomResourceDefinition").expect("a legal name")
}

// === impl Catalog ===

impl Catalog {
    /// Whether nothing is decided about kinds that are not declared.
    pub fn leave_undecided(&mut self, undecided: bool) {
        self.absence_changes += u64::from(self.undecided != undecided);
        self.undecided = undecided;
    }

    /// How often it changed what it means that objects are not in the catalog. No change of the log
    /// names those objects.
    pub(crate) fn absence_changes(&self) -> u64 {
        self.absence_changes
    }

    /// A catalog of a store that is at `at`, with nothing in it yet.
    pub fn new(openings: Openings, at: Revision) -> Self {
        Self {
            openings,
            at,
            kinds: BTreeMap::new(),
            policies: BTreeMap::new(),
            log: VecDeque::new(),
            dropped: 0,
            undecided: false,
            absence_changes: 0,
            forgotten: None,
            began: at,
        }
    }

    pub fn at(&self) -> Revision {
        self.at
    }

    /// Nothing is known of before.
    pub fn began(&self) -> Revision {
        self.began
    }

    /// Where the zones stand that a policy is for; nothing if it has not decided yet.
    pub fn placement(&self, policy: &PolicyId) -> Option<Arc<Placement>> {
        self.policies.get(policy)?.placement.clone()
    }

    /// What is there now was there from the beginning: nobody has read yet.
    pub fn settle(&mut self) {
        self.dropped = self.end();
        self.log.clear();
        self.began = self.at;
    }

    pub fn epoch(&self) -> &Epoch {
        self.openings.current()
    }

    /// The newest revision that this store can have in common with a future of it that was lost.
    pub fn common_with(&self, lost: &Position) -> Revision {
        self.openings.common_with(lost, self.at)
    }

    /// A kind is sent from now on, and needs this definition.
    pub fn declare(&mut self, kind: SyncKind, definition: Option<ObjectName>) {
        let kept = self.kinds.entry(kind).or_default();
        kept.definition = definition;
        let before = std::mem::replace(&mut kept.state, KindState::Declared);
        self.absence_changes += u64::from(before != KindState::Declared);
    }

    /// Sets the kind of a graph's instances; none if the graph is gone.
    pub fn set_graph(&mut self, graph: &ObjectName, instances: Option<(SyncKind, GraphClaim)>) {
        for kept in self.kinds.values_mut() {
            kept.graphs.remove(graph);
        }
        if let Some((kind, claim)) = instances {
            let kept = self.kinds.entry(kind).or_default();
            kept.graphs.insert(graph.clone(), claim);
        }
    }

    /// The graph that a kind's objects are instances of. Only zones that have it get them. A graph
    /// that is gone is nobody's: its kind may be served by a definition of its own.
    pub fn graph(&self, kind: &SyncKind) -> Option<&ObjectName> {
        let claims = self.kinds.get(kind)?.graphs.iter();
        let there = claims.filter(|(graph, _)| self.entry(&graphs(), graph).is_some());
        let best = there.min_by_key(|(_, claim)| **claim);
        best.map(|(graph, _)| graph)
    }

    /// What is not there of a kind was withdrawn, and not deleted: the kind is not sent any more,
    /// or only where something needs it. Its entries are to be taken away with edits, after this.
    pub fn retire(&mut self, kind: &SyncKind, withdrawal: Withdrawal) {
        let kept = self.kinds.entry(kind.clone()).or_default();
        let state = KindState::Retired(withdrawal);
        let before = std::mem::replace(&mut kept.state, state);
        self.absence_changes += u64::from(before != state);
    }

    /// Brings it to `at`. Whom that concerns.
    pub fn apply(&mut self, edits: Vec<Edit>, at: Revision) -> Concerned {
        let mut concerned = Concerned::nobody();
        for edit in edits {
            concerned = concerned.and(self.edit(edit));
        }
        self.at = self.at.max(at);
        while self.log.len() > LOG {
            let first = self.log.pop_front();
            self.forgotten = first.map(|first| first.stamp).or(self.forgotten);
            self.dropped += 1;
        }
        concerned
    }

    fn edit(&mut self, edit: Edit) -> Concerned {
        match edit {
            Edit::Object {
                kind,
                name,
                revision,
                becomes,
            } => self.set((kind, name), revision, becomes),
            Edit::Placed {
                policy,
                revision,
                placement,
            } => self.place(policy, revision, placement),
        }
    }

    fn set(
        &mut self,
        (kind, name): (SyncKind, ObjectName),
        revision: Revision,
        becomes: Option<Entry>,
    ) -> Concerned {
        if self.entry(&kind, &name) == becomes.as_ref() {
            return Concerned::nobody();
        }
        let before = self.was(&kind, &name);
        self.put(&kind, &name, becomes);
        let after = self.was(&kind, &name);
        let Some(concerned) = before.concerns(&after) else {
            return Concerned::nobody();
        };
        self.log(revision, (kind, name), What::Edited { before, after });
        concerned
    }

    fn log(&mut self, revision: Revision, (kind, name): (SyncKind, ObjectName), what: What) {
        self.log.push_back(Logged {
            stamp: revision.max(self.at),
            late: revision <= self.at,
            kind,
            name,
            what,
        });
    }

    fn put(&mut self, kind: &SyncKind, name: &ObjectName, becomes: Option<Entry>) {
        let kept = self.kinds.entry(kind.clone()).or_default();
        let key = (kind.clone(), name.clone());
        if let Some(Entry::Governed(governed)) = kept.remove(name) {
            self.ungovern(&governed.policy, &key);
        }
        let Some(entry) = becomes else {
            return;
        };
        if let Entry::Governed(governed) = &entry {
            let policy = self.policies.entry(governed.policy.clone()).or_default();
            policy.objects.insert(key, Arc::new(Outline::of(governed)));
        }
        let kept = self.kinds.entry(kind.clone()).or_default();
        kept.insert(name.clone(), entry);
    }

    fn ungovern(&mut self, id: &PolicyId, key: &(SyncKind, ObjectName)) {
        if let Some(policy) = self.policies.get_mut(id) {
            policy.objects.remove(key);
            if policy.objects.is_empty() && policy.placement.is_none() {
                self.policies.remove(id);
            }
        }
    }

    /// What there is to know of an object later.
    fn was(&self, kind: &SyncKind, name: &ObjectName) -> Was {
        let kept = self.kinds.get(kind);
        match kept.and_then(|kept| kept.entries.get(name)) {
            None => Was::Absent(kept.and_then(Kept::withdrawal)),
            Some(Entry::Shared { item, audience }) => Was::Shared(item.version, audience.clone()),
            Some(Entry::Governed(governed)) => {
                let policy = self.policies.get(&governed.policy);
                let key = (kind.clone(), name.clone());
                let object = policy.and_then(|policy| policy.objects.get(&key)).cloned();
                Was::Governed {
                    object: object.unwrap_or_else(|| Arc::new(Outline::of(governed))),
                    placement: policy.and_then(|policy| policy.placement.clone()),
                }
            }
        }
    }

    /// A policy moves zones: what differs for any of these is logged.
    fn place(
        &mut self,
        id: PolicyId,
        revision: Revision,
        placement: Option<Placement>,
    ) -> Concerned {
        let policy = self.policies.entry(id.clone()).or_default();
        let moves = Moves::between(policy.placement.as_deref(), placement.as_ref());
        let mut ways: BTreeSet<Move> = moves.ways();
        // What the log remembers is shared as long as nobody is moved.
        if !ways.is_empty() {
            policy.placement = placement.map(Arc::new);
        }
        let changed = policy.objects.iter();
        let changed = changed.filter(|(_, object)| ways.iter().any(|way| way.changes(object)));
        let changed: Vec<_> = changed
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        let matters = |way: &Move| changed.iter().any(|(_, object)| way.changes(object));
        ways.retain(matters);
        let concerned = moves.zones(&ways);
        if policy.objects.is_empty() && policy.placement.is_none() {
            self.policies.remove(&id);
        }
        let moves = Arc::new(moves);
        for (key, object) in changed {
            let moves = moves.clone();
            self.log(revision, key, What::Moved { object, moves });
        }
        concerned.map_or(Concerned::Everyone, Concerned::Zones)
    }

    /// Returns the policies that decide about objects or zones, with the objects.
    pub fn governed_objects(
        &self,
    ) -> impl Iterator<Item = (&PolicyId, impl Iterator<Item = &(SyncKind, ObjectName)>)> {
        let policies = self.policies.iter();
        policies.map(|(id, policy)| (id, policy.objects.keys()))
    }

    /// Returns all objects, whoever should have them.
    pub fn all_entries(&self) -> impl Iterator<Item = (&ObjectName, &Entry)> {
        self.kinds.values().flat_map(|kept| &kept.entries)
    }

    /// An object, whoever should have it.
    pub fn entry(&self, kind: &SyncKind, name: &ObjectName) -> Option<&Entry> {
        self.kinds.get(kind)?.entries.get(name)
    }

    /// The objects of a kind.
    pub fn entries(
        &self,
        kind: &SyncKind,
    ) -> impl Iterator<Item = (&ObjectName, &Entry)> + use<'_> {
        self.kinds
            .get(kind)
            .into_iter()
            .flat_map(|kept| &kept.entries)
    }

    /// How many changes there were.
    pub(crate) fn end(&self) -> u64 {
        self.dropped + self.log.len() as u64
    }

    /// Whether the changes after `cursor` are all there.
    pub(crate) fn reaches(&self, cursor: u64) -> bool {
        cursor >= self.dropped
    }

    /// The changes after `cursor` that concern a reader, of each kind in their order.
    pub(crate) fn after(
        &self,
        cursor: u64,
        zone: Option<&ZoneName>,
    ) -> BTreeMap<SyncKind, Vec<Change>> {
        let skip = usize::try_from(cursor.saturating_sub(self.dropped)).unwrap_or(usize::MAX);
        let mut changes: BTreeMap<SyncKind, Vec<Change>> = BTreeMap::new();
        for logged in self.log.range(skip.min(self.log.len())..) {
            let Some(one) = logged.change(zone) else {
                continue;
            };
            match changes.get_mut(&logged.kind) {
                Some(changes) => changes.push(one),
                None => {
                    changes.insert(logged.kind.clone(), vec![one]);
                }
            }
        }
        changes
    }

    /// The objects in a namespace.
    fn inside<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a SyncKind, &'a ObjectName)> {
        let first = ObjectName::new(namespace, "!").ok();
        let kinds = first.into_iter().flat_map(|first| {
            let from = (Bound::Excluded(first), Bound::Unbounded);
            let kinds = self.kinds.iter();
            kinds.map(move |(kind, kept)| (kind, kept.entries.range(from.clone())))
        });
        kinds.flat_map(move |(kind, range)| {
            let range = range.take_while(move |(name, _)| name.namespace() == namespace);
            range.map(move |(name, _)| (kind, name))
        })
    }
}

// === impl Kept ===

impl Kept {
    fn withdrawal(&self) -> Option<Withdrawal> {
        match self.state {
            KindState::Retired(withdrawal) => Some(withdrawal),
            KindState::Undeclared | KindState::Declared => None,
        }
    }

    fn insert(&mut self, name: ObjectName, entry: Entry) {
        match &entry {
            Entry::Shared { audience, .. } => self.count(audience, true),
            Entry::Governed(governed) => {
                let tally = self.governed.entry(governed.policy.clone()).or_default();
                tally.add(governed);
            }
        }
        self.entries.insert(name, entry);
    }

    fn remove(&mut self, name: &ObjectName) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        match &entry {
            Entry::Shared { audience, .. } => self.count(audience, false),
            Entry::Governed(governed) => {
                let tally = self.governed.entry(governed.policy.clone()).or_default();
                tally.remove(governed);
                self.governed.retain(|_, tally| !tally.is_empty());
            }
        }
        Some(entry)
    }

    fn count(&mut self, audience: &Audience, comes: bool) {
        let count = match audience {
            Audience::Everyone => &mut self.everyone,
            Audience::EveryoneBut(zone) => self.but.entry(zone.clone()).or_default(),
            Audience::Nobody(_) | Audience::Undecided => return,
        };
        *count = match comes {
            true => *count + 1,
            false => count.saturating_sub(1),
        };
        self.but.retain(|_, count| *count > 0);
    }
}

// === impl Entry ===

impl Entry {
    /// Its version, or that of its newest content.
    pub fn version(&self) -> Option<Version> {
        match self {
            Self::Shared { item, .. } => Some(item.version),
            Self::Governed(governed) => {
                let newest = governed.slots.values().next_back();
                newest?.as_ref().map(|item| item.version)
            }
        }
    }

    /// Whose it is, if it is passed on.
    pub fn relayed(&self) -> Option<&Relayed> {
        match self {
            Self::Shared { item, .. } => item.relayed.as_ref(),
            Self::Governed(_) => None,
        }
    }

    /// Whether it may be that somebody should have it.
    pub fn is_for_anybody(&self) -> bool {
        match self {
            Self::Shared { audience, .. } => !matches!(audience, Audience::Nobody(_)),
            Self::Governed(governed) => {
                governed.slots.is_empty() || governed.slots.values().any(Option::is_some)
            }
        }
    }
}

// === impl Edit ===

impl Edit {
    pub fn revision(&self) -> Revision {
        match self {
            Self::Object { revision, .. } | Self::Placed { revision, .. } => *revision,
        }
    }
}

// === impl Audience ===

impl Audience {
    pub fn includes(&self, zone: Option<&ZoneName>) -> bool {
        match self {
            Self::Everyone => true,
            Self::EveryoneBut(other) => zone != Some(other),
            Self::Nobody(_) | Self::Undecided => false,
        }
    }

    /// Returns what those should do with an object who should not have it; none if that is not
    /// decided.
    fn withdrawal(&self) -> Option<Withdrawal> {
        match self {
            Self::Nobody(withdrawal) => Some(*withdrawal),
            Self::Everyone | Self::EveryoneBut(_) => Some(Withdrawal::Orphan),
            Self::Undecided => None,
        }
    }
}

#[cfg(test)]
mod tests;
