//! Who is owned by whom, and what is known of the owners. Pure.
//!
//! Invariants: an object is in the graph if it has owners or is in a deletion that concerns its
//! dependents; a reference is in the graph as long as an object has it; a reference is `Absent`
//! only by a [`Fact`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_api::finalizers::{FOREGROUND, ORPHAN};
use deltaplane_client::header::{Header, OwnerReference};
use deltaplane_client::{Event, ObjectKey, Resource};

use super::blockers::{Blockers, Look};

pub(super) type Uid = Arc<str>;

/// A kind that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KindId(usize);

/// Everything that is known.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Uid, Node>,
    owners: BTreeMap<Reference, Owner>,
    blockers: Blockers,
    kinds: BTreeMap<KindId, Kind>,
    next_kind: usize,
    doubts: Doubts,
}

/// One time at which nothing was known for sure of a reference. What the API said before it, or
/// what was asked of it before it, is not an answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Doubt(u64);

#[derive(Debug, Default)]
struct Doubts(u64);

/// An object with owners, or in a deletion that concerns its dependents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) kind: KindId,
    pub(super) key: ObjectKey,
    pub(super) revision: String,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) finalizers: Vec<String>,
    pub(super) deletion: Deletion,
}

/// What is asked of an object that is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    /// It is not to go.
    No,
    /// To go.
    Plain,
    /// To go after the dependents that block it.
    Foreground,
    /// To go without its dependents.
    Orphan,
}

/// An owner as a dependent names it. The namespace is the dependent's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference {
    pub(super) uid: Uid,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Debug)]
struct Owner {
    state: OwnerState,
    /// Whether a watch told that it is gone.
    told_gone: bool,
    dependents: BTreeSet<Uid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// Nothing is known for sure.
    Unknown(Doubt),
    /// It exists.
    Present,
    /// It exists, and waits for its dependents to go.
    Waiting,
    /// There is no such object.
    Absent,
    /// There can be no such object: the dependent lives in no namespace, its owner would have to.
    Misplaced,
}

/// What is asked of the API: the object, and when it was in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) reference: Reference,
    pub(super) doubt: Doubt,
}

/// What the API said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) question: Question,
    pub(super) finding: Finding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Found(Deletion),
    /// The kind is there, and has no such object.
    NotFound,
    /// The kind is not there.
    NoKind,
    Misplaced,
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Is there such an object?
    Look(Reference),
    /// Are its owners gone?
    Collect(Uid),
    /// Are the dependents gone that block it?
    Release(Uid),
    /// Can the dependents be left behind of those in this namespace, or in none, that are to go
    /// without them? One look at the namespace serves all of them.
    Leave(String),
}

#[derive(Debug)]
struct Kind {
    resource: Resource,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    /// Not all objects have been told; these have, as far as they matter.
    Telling(BTreeSet<Uid>),
    Synced,
}

// === impl Graph: what happens ===

impl Graph {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn add_kind(&mut self, resource: Resource) -> KindId {
        let id = KindId(self.next_kind);
        self.next_kind += 1;
        let progress = Progress::Telling(BTreeSet::new());
        self.kinds.insert(id, Kind { resource, progress });
        id
    }

    /// The kind is followed no more: nothing is known of its objects.
    pub(super) fn remove_kind(&mut self, id: KindId) {
        let Some(kind) = self.kinds.remove(&id) else {
            return;
        };
        for uid in self.nodes_of(id) {
            self.remove_node(&uid);
        }
        for (reference, owner) in &mut self.owners {
            if reference.is_of(&kind.resource) && owner.state != OwnerState::Absent {
                owner.state = OwnerState::Unknown(self.doubts.next());
            }
        }
    }

    /// Takes an event, and says what to look at because of it.
    pub(super) fn apply(&mut self, id: KindId, event: Event) -> Vec<Task> {
        // A feed that was ended may have had more to tell.
        let Some(kind) = self.kinds.get_mut(&id) else {
            return Vec::new();
        };
        match event {
            Event::Restarted => {
                kind.progress = Progress::Telling(BTreeSet::new());
                Vec::new()
            }
            Event::Applied(item) => self.exists(id, item.header),
            Event::Deleted(item) => self.gone(&Uid::from(item.header.uid)),
            Event::InSync => self.in_sync(id),
        }
    }

    /// Takes what the API said, and says what to look at because of it.
    pub(super) fn learn(&mut self, fact: Fact) -> Vec<Task> {
        let Fact { question, finding } = fact;
        let Question { reference, doubt } = question;
        let Some(owner) = self.owners.get_mut(&reference) else {
            return Vec::new();
        };
        // Otherwise it was overtaken by what a watch told.
        if owner.state != OwnerState::Unknown(doubt) {
            return Vec::new();
        }
        let state = match finding {
            Finding::Found(deletion) => OwnerState::of(deletion),
            Finding::NotFound => OwnerState::Absent,
            Finding::NoKind if owner.told_gone => OwnerState::Absent,
            Finding::NoKind => OwnerState::Unknown(doubt),
            Finding::Misplaced => OwnerState::Misplaced,
        };
        owner.set(state)
    }

    /// What to look at because other kinds are served now.
    pub(super) fn unresolved(&self) -> Vec<Task> {
        let unknown = self
            .owners
            .iter()
            .filter(|(_, owner)| matches!(owner.state, OwnerState::Unknown(_)));
        let look = unknown.map(|(reference, _)| Task::Look(reference.clone()));
        look.chain(self.decidable()).collect()
    }

    fn exists(&mut self, id: KindId, header: Header) -> Vec<Task> {
        let uid = Uid::from(header.uid.as_str());
        let key = header.key();
        let deletion = Deletion::of(&header);
        let mut tasks = self.update_owner(id, &uid, &key, deletion);
        let relevant = !header.owner_references.is_empty() || deletion.concerns_dependents();
        if relevant {
            let node = Node {
                kind: id,
                key,
                revision: header.resource_version,
                owners: header.owner_references,
                finalizers: header.finalizers,
                deletion,
            };
            tasks.extend(self.set_node(&uid, node));
        } else {
            tasks.extend(self.remove_node(&uid));
        }
        let matters = relevant || self.references(&uid).next().is_some();
        if let Some(Kind {
            progress: Progress::Telling(told),
            ..
        }) = self.kinds.get_mut(&id)
            && matters
        {
            told.insert(uid);
        }
        tasks
    }

    fn gone(&mut self, uid: &Uid) -> Vec<Task> {
        let mut tasks = self.remove_node(uid);
        tasks.extend(self.doubt(uid, true));
        tasks
    }

    /// All objects of the kind have been told.
    fn in_sync(&mut self, id: KindId) -> Vec<Task> {
        let Some(kind) = self.kinds.get_mut(&id) else {
            return Vec::new();
        };
        let before = std::mem::replace(&mut kind.progress, Progress::Synced);
        let resource = kind.resource.clone();
        let Progress::Telling(told) = before else {
            return Vec::new();
        };
        let mut tasks = Vec::new();
        for uid in self.nodes_of(id).iter().filter(|uid| !told.contains(*uid)) {
            tasks.extend(self.remove_node(uid));
        }
        let of_kind = self.owners.iter().filter(|(one, _)| one.is_of(&resource));
        let mut unseen = BTreeSet::new();
        for (reference, owner) in of_kind {
            if !told.contains(&reference.uid) {
                unseen.insert(reference.uid.clone());
            } else if let OwnerState::Unknown(_) = owner.state {
                // An object of that uid was told, but not one that the reference names.
                tasks.push(Task::Look(reference.clone()));
            }
        }
        for uid in unseen {
            tasks.extend(self.doubt(&uid, false));
        }
        tasks.extend(self.decidable());
        tasks
    }

    /// What could not be decided before all dependents had been told.
    fn decidable(&self) -> Vec<Task> {
        if !self.is_complete() {
            return Vec::new();
        }
        let waiting = self
            .owners
            .values()
            .filter(|owner| owner.state == OwnerState::Waiting);
        let collect = waiting.flat_map(|owner| &owner.dependents);
        let collect = collect.map(|uid| Task::Collect(uid.clone()));
        let release = self.nodes.keys().filter_map(|uid| self.release(uid));
        collect.chain(release).collect()
    }

    /// Perhaps these owners are gone.
    fn doubt(&mut self, uid: &Uid, told_gone: bool) -> Vec<Task> {
        let mut tasks = Vec::new();
        for (reference, owner) in self.owners.range_mut(Reference::first(uid)..) {
            if reference.uid != *uid {
                break;
            }
            owner.told_gone |= told_gone;
            if owner.state != OwnerState::Absent {
                owner.state = OwnerState::Unknown(self.doubts.next());
                tasks.push(Task::Look(reference.clone()));
            }
        }
        tasks
    }

    /// The object exists: references to it are right, if they name it as it is.
    fn update_owner(
        &mut self,
        id: KindId,
        uid: &Uid,
        key: &ObjectKey,
        deletion: Deletion,
    ) -> Vec<Task> {
        let Some(Kind { resource, .. }) = self.kinds.get(&id) else {
            return Vec::new();
        };
        let mut tasks = Vec::new();
        for (reference, owner) in self.owners.range_mut(Reference::first(uid)..) {
            if reference.uid != *uid {
                break;
            }
            if reference.names(resource, key) {
                tasks.extend(owner.set(OwnerState::of(deletion)));
            }
        }
        tasks
    }

    fn set_node(&mut self, uid: &Uid, node: Node) -> Vec<Task> {
        let before = self
            .nodes
            .get(uid)
            .map(Node::references)
            .unwrap_or_default();
        let after = node.references();
        let mut tasks = Vec::new();
        for reference in before.difference(&after) {
            tasks.extend(self.unlink(reference, uid));
        }
        for reference in &after {
            tasks.extend(self.link(reference, uid));
        }
        tasks.extend(node.task(uid));
        if let Some(before) = self.nodes.get(uid) {
            self.blockers.remove(uid, before);
        }
        self.blockers.add(uid, &node);
        self.nodes.insert(uid.clone(), node);
        tasks
    }

    fn remove_node(&mut self, uid: &Uid) -> Vec<Task> {
        let Some(node) = self.nodes.remove(uid) else {
            return Vec::new();
        };
        self.blockers.remove(uid, &node);
        let references = node.references();
        references
            .iter()
            .flat_map(|reference| self.unlink(reference, uid))
            .collect()
    }

    fn link(&mut self, reference: &Reference, dependent: &Uid) -> Vec<Task> {
        let known = self.known(reference);
        let owner = self
            .owners
            .entry(reference.clone())
            .or_insert_with(|| Owner {
                state: known.unwrap_or_else(|| OwnerState::Unknown(self.doubts.next())),
                told_gone: false,
                dependents: BTreeSet::new(),
            });
        owner.dependents.insert(dependent.clone());
        let task = match owner.state {
            OwnerState::Unknown(_) => Some(Task::Look(reference.clone())),
            OwnerState::Absent | OwnerState::Waiting => Some(Task::Collect(dependent.clone())),
            OwnerState::Present | OwnerState::Misplaced => None,
        };
        task.into_iter()
            .chain(self.release(&reference.uid))
            .collect()
    }

    /// What is known of an owner that is itself remembered.
    fn known(&self, reference: &Reference) -> Option<OwnerState> {
        let node = self.nodes.get(&reference.uid)?;
        let named = reference.names(self.resource(node)?, &node.key);
        named.then(|| OwnerState::of(node.deletion))
    }

    fn unlink(&mut self, reference: &Reference, dependent: &Uid) -> Vec<Task> {
        if let Some(owner) = self.owners.get_mut(reference) {
            owner.dependents.remove(dependent);
            if owner.dependents.is_empty() {
                self.owners.remove(reference);
            }
        }
        self.release(&reference.uid).into_iter().collect()
    }

    /// An owner that waits for its dependents is looked at when one of them changes.
    fn release(&self, owner: &Uid) -> Option<Task> {
        match self.nodes.get(owner)?.deletion {
            // An owner that leaves them behind is looked at with all that name it.
            Deletion::No | Deletion::Plain | Deletion::Orphan => None,
            Deletion::Foreground => Some(Task::Release(owner.clone())),
        }
    }
}

// === impl Graph: what is known ===

impl Graph {
    /// Whether all objects of all kinds have been told.
    pub(super) fn is_complete(&self) -> bool {
        let synced = |kind: &Kind| matches!(kind.progress, Progress::Synced);
        self.kinds.values().all(synced)
    }

    /// Whether all objects of this kind will be told, but have not been yet.
    pub(super) fn is_telling(&self, resource: &Resource) -> bool {
        let of = |kind: &&Kind| kind.resource == *resource;
        let kind = self.kinds.values().find(of);
        kind.is_some_and(|kind| matches!(kind.progress, Progress::Telling(_)))
    }

    pub(super) fn node(&self, uid: &Uid) -> Option<&Node> {
        self.nodes.get(uid)
    }

    pub(super) fn resource(&self, node: &Node) -> Option<&Resource> {
        self.kinds.get(&node.kind).map(|kind| &kind.resource)
    }

    pub(super) fn state(&self, reference: &Reference) -> Option<OwnerState> {
        self.owners.get(reference).map(|owner| owner.state)
    }

    /// The objects that name this one as an owner; some of them perhaps twice.
    pub(super) fn dependents(&self, uid: &Uid) -> impl Iterator<Item = (&Uid, &Node)> {
        self.references(uid)
            .flat_map(|(_, owner)| &owner.dependents)
            .filter_map(|dependent| self.nodes.get_key_value(dependent))
    }

    /// Whether this one, if it goes in the foreground, has something to wait for.
    pub(super) fn look(&self, uid: &Uid, node: &Node) -> Look {
        self.blockers.look(uid, node)
    }

    /// The objects in this namespace, or in none, that are to go without their dependents.
    pub(super) fn leaving(&self, namespace: &str) -> impl Iterator<Item = (&Uid, &Node)> {
        self.nodes.iter().filter(move |(_, node)| {
            node.deletion == Deletion::Orphan && node.key.namespace == namespace
        })
    }

    /// The kinds whose objects may name one in this namespace, or in none, as an owner.
    pub(super) fn kinds_below(&self, namespace: &str) -> impl Iterator<Item = &Resource> {
        let kinds = self.kinds.values().map(|kind| &kind.resource);
        kinds.filter(move |kind| kind.namespaced || namespace.is_empty())
    }

    /// An object that has this reference.
    pub(super) fn example(&self, reference: &Reference) -> Option<(&Uid, &Node)> {
        let uid = self.owners.get(reference)?.dependents.first()?;
        self.nodes.get_key_value(uid)
    }

    fn references(&self, uid: &Uid) -> impl Iterator<Item = (&Reference, &Owner)> {
        let uid = uid.clone();
        let from = self.owners.range(Reference::first(&uid)..);
        from.take_while(move |(reference, _)| reference.uid == uid)
    }

    fn nodes_of(&self, id: KindId) -> Vec<Uid> {
        let of = self.nodes.iter().filter(|(_, node)| node.kind == id);
        of.map(|(uid, _)| uid.clone()).collect()
    }

    #[cfg(test)]
    pub(super) fn all_references(&self) -> Vec<Reference> {
        self.owners.keys().cloned().collect()
    }

    /// How much is remembered: objects, references, owners that are blocked.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize, usize) {
        (self.nodes.len(), self.owners.len(), self.blockers.len())
    }
}

// === impl Doubts ===

impl Doubts {
    fn next(&mut self) -> Doubt {
        self.0 += 1;
        Doubt(self.0)
    }
}

// === impl Owner ===

impl Owner {
    /// Sets the state; if it is another, its dependents are to be looked at.
    fn set(&mut self, state: OwnerState) -> Vec<Task> {
        if std::mem::replace(&mut self.state, state) == state {
            return Vec::new();
        }
        let collect = |dependent: &Uid| Task::Collect(dependent.clone());
        self.dependents.iter().map(collect).collect()
    }
}

impl OwnerState {
    fn of(deletion: Deletion) -> Self {
        match deletion {
            Deletion::Foreground => Self::Waiting,
            Deletion::No | Deletion::Plain | Deletion::Orphan => Self::Present,
        }
    }
}

// === impl Node ===

impl Node {
    pub(super) fn reference(&self, owner: &OwnerReference) -> Reference {
        Reference {
            uid: Uid::from(owner.uid.as_str()),
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: self.key.namespace.clone(),
            name: owner.name.clone(),
        }
    }

    /// What to look at because it is to go, if that concerns its dependents.
    fn task(&self, uid: &Uid) -> Option<Task> {
        match self.deletion {
            Deletion::No | Deletion::Plain => None,
            Deletion::Foreground => Some(Task::Release(uid.clone())),
            Deletion::Orphan => Some(Task::Leave(self.key.namespace.clone())),
        }
    }

    fn references(&self) -> BTreeSet<Reference> {
        self.owners
            .iter()
            .map(|owner| self.reference(owner))
            .collect()
    }
}

// === impl Deletion ===

impl Deletion {
    pub(super) fn of(header: &Header) -> Self {
        match (
            header.is_deleting(),
            header.has_finalizer(ORPHAN),
            header.has_finalizer(FOREGROUND),
        ) {
            (false, ..) => Self::No,
            (true, true, _) => Self::Orphan,
            (true, false, true) => Self::Foreground,
            (true, false, false) => Self::Plain,
        }
    }

    /// Whether it goes no sooner than something happened to its dependents.
    fn concerns_dependents(self) -> bool {
        match self {
            Self::No | Self::Plain => false,
            Self::Foreground | Self::Orphan => true,
        }
    }
}

// === impl Reference ===

impl Reference {
    /// Before all references to this uid, and after all to those before it.
    fn first(uid: &Uid) -> Self {
        Self {
            uid: uid.clone(),
            api_version: String::new(),
            kind: String::new(),
            namespace: String::new(),
            name: String::new(),
        }
    }

    /// Whether it is to an object of this kind, of whatever version.
    fn is_of(&self, resource: &Resource) -> bool {
        let (group, _) = self.api_version.split_once('/').unwrap_or_default();
        self.kind == resource.kind && group == resource.group
    }

    /// Whether it is to this very object, as far as names go.
    fn names(&self, resource: &Resource, key: &ObjectKey) -> bool {
        let placed = !resource.namespaced || self.namespace == key.namespace;
        self.is_of(resource) && self.name == key.name && placed
    }
}
