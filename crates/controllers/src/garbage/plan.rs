//! What a task leads to, from what is known. Pure.

use std::collections::BTreeMap;

use deltaplane_api::finalizers::{FOREGROUND, ORPHAN};
use deltaplane_client::discovery::Catalog;
use deltaplane_client::header::{Header, OwnerReference};
use deltaplane_client::{ObjectKey, Resource};

use super::graph::{Deletion, Graph, Node, OwnerState, Question, Reference, Task, Uid};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Ask the API whether there is such an object.
    Look {
        question: Question,
        resource: Resource,
        key: ObjectKey,
    },
    /// There can be no such object: tell whoever made the dependent.
    Misplaced {
        question: Question,
        dependent: Target,
    },
    /// Delete it.
    Delete { target: Target, policy: Policy },
    /// Give each of these other owners than it has.
    Disown(Vec<(Target, Vec<OwnerReference>)>),
    /// Leave it with these finalizers.
    Release {
        target: Target,
        finalizers: Vec<String>,
    },
    /// Take these owners from all objects that name them, then release them.
    Leave(Leave),
}

/// Owners that go without their dependents.
///
/// Feeds of different kinds have no common order: the end of an owner may be told before the birth
/// of its youngest dependent. So dependents are not taken from what was told; the API is asked for
/// all objects that may be some, when the owners' end is known. What it says is not older than
/// that end, so it knows every dependent that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leave {
    /// By uid: the object, and the finalizers that stay.
    pub(super) owners: BTreeMap<Uid, (Target, Vec<String>)>,
    /// The kinds whose objects may be dependents.
    pub(super) kinds: Vec<Resource>,
    /// Where dependents may be, or everywhere.
    pub(super) namespace: Option<String>,
}

/// An object in the state that was planned for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: Resource,
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
    pub(super) revision: String,
}

/// What a deletion does with dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

pub(super) fn plan(graph: &Graph, catalog: &Catalog, task: &Task) -> Option<Plan> {
    match task {
        Task::Look(reference) => look(graph, catalog, reference),
        Task::Collect(uid) => collect(graph, uid),
        Task::Release(uid) => release(graph, uid),
        Task::Leave(namespace) => leave(graph, namespace),
    }
}

fn look(graph: &Graph, catalog: &Catalog, reference: &Reference) -> Option<Plan> {
    let Some(OwnerState::Unknown(doubt)) = graph.state(reference) else {
        return None;
    };
    let (uid, dependent) = graph.example(reference)?;
    // A kind that is not served may be soon; the catalog's next change leads here again.
    let served = catalog.kind(&reference.api_version, &reference.kind)?;
    let resource = served.resource.clone();
    let reference = reference.clone();
    if graph.is_telling(&resource) {
        return None;
    }
    if resource.namespaced && reference.namespace.is_empty() {
        let dependent = target(graph, uid, dependent)?;
        let question = Question { reference, doubt };
        return Some(Plan::Misplaced {
            question,
            dependent,
        });
    }
    let namespace = match resource.namespaced {
        true => reference.namespace.as_str(),
        false => "",
    };
    let key = ObjectKey::new(namespace, &reference.name);
    Some(Plan::Look {
        question: Question { reference, doubt },
        resource,
        key,
    })
}

fn collect(graph: &Graph, uid: &Uid) -> Option<Plan> {
    let node = graph.node(uid)?;
    let target = target(graph, uid, node)?;
    if node.deletion != Deletion::No {
        return None;
    }
    let states: Vec<(&OwnerReference, OwnerState)> = node
        .owners
        .iter()
        .map(|owner| Some((owner, graph.state(&node.reference(owner))?)))
        .collect::<Option<_>>()?;
    let known = |state: &OwnerState| match state {
        OwnerState::Present | OwnerState::Waiting | OwnerState::Absent => true,
        OwnerState::Unknown(_) | OwnerState::Misplaced => false,
    };
    if states.is_empty() || !states.iter().all(|(_, state)| known(state)) {
        return None;
    }
    let any = |wanted: OwnerState| states.iter().any(|(_, state)| *state == wanted);
    if any(OwnerState::Present) {
        let kept = states
            .iter()
            .filter(|(_, state)| *state == OwnerState::Present);
        let kept: Vec<OwnerReference> = kept.map(|(owner, _)| (*owner).clone()).collect();
        // Those that wait for it must not wait for ever, since it stays.
        let all_kept = kept.len() == node.owners.len();
        return (!all_kept).then(|| Plan::Disown(vec![(target, kept)]));
    }
    // Whether it has dependents of its own is not known before all have been told.
    if any(OwnerState::Waiting) && !graph.is_complete() {
        return None;
    }
    if any(OwnerState::Waiting) && graph.dependents(uid).next().is_some() {
        let circular = graph
            .dependents(uid)
            .any(|(_, node)| node.deletion == Deletion::Foreground);
        let unblocked = unblocked(&node.owners);
        return Some(match circular && unblocked != node.owners {
            // Its owner waits for it, and its dependent perhaps for its owner.
            true => Plan::Disown(vec![(target, unblocked)]),
            false => Plan::Delete {
                target,
                policy: Policy::Foreground,
            },
        });
    }
    Some(Plan::Delete {
        target,
        policy: Policy::of(node),
    })
}

fn release(graph: &Graph, uid: &Uid) -> Option<Plan> {
    let node = graph.node(uid)?;
    // There may be dependents that nobody has told of yet.
    if node.deletion != Deletion::Foreground || !graph.is_complete() {
        return None;
    }
    if graph.look(uid, node).waits {
        return None;
    }
    Some(Plan::Release {
        target: target(graph, uid, node)?,
        finalizers: without(node, FOREGROUND),
    })
}

fn leave(graph: &Graph, namespace: &str) -> Option<Plan> {
    let owner = |(uid, node): (&Uid, &Node)| {
        let target = target(graph, uid, node)?;
        Some((uid.clone(), (target, without(node, ORPHAN))))
    };
    let owners: BTreeMap<_, _> = graph.leaving(namespace).filter_map(owner).collect();
    (!owners.is_empty()).then(|| {
        Plan::Leave(Leave {
            owners,
            kinds: graph.kinds_below(namespace).cloned().collect(),
            namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
        })
    })
}

fn without(node: &Node, finalizer: &str) -> Vec<String> {
    let others = node.finalizers.iter().filter(|one| *one != finalizer);
    others.cloned().collect()
}

fn target(graph: &Graph, uid: &Uid, node: &Node) -> Option<Target> {
    Some(Target {
        resource: graph.resource(node)?.clone(),
        key: node.key.clone(),
        uid: uid.clone(),
        revision: node.revision.clone(),
    })
}

fn unblocked(owners: &[OwnerReference]) -> Vec<OwnerReference> {
    let unblocked = |owner: &OwnerReference| OwnerReference {
        block_owner_deletion: owner.block_owner_deletion.map(|_| false),
        ..owner.clone()
    };
    owners.iter().map(unblocked).collect()
}

// === impl Leave ===

impl Leave {
    /// If the object is a dependent: which of the owners it names, and the others.
    pub(super) fn split(&self, header: &Header) -> Option<(Vec<Uid>, Vec<OwnerReference>)> {
        let is_left = |owner: &&OwnerReference| {
            // What owns itself goes, and has nothing to be left by.
            owner.uid != header.uid && self.owners.contains_key(owner.uid.as_str())
        };
        let (left, others): (Vec<_>, Vec<_>) = header.owner_references.iter().partition(is_left);
        let left = left.iter().map(|owner| Uid::from(owner.uid.as_str()));
        let left: Vec<Uid> = left.collect();
        (!left.is_empty()).then(|| (left, others.into_iter().cloned().collect()))
    }
}

// === impl Policy ===

impl Policy {
    /// What the object itself asks for.
    fn of(node: &Node) -> Self {
        let has = |name: &str| node.finalizers.iter().any(|finalizer| finalizer == name);
        match (has(ORPHAN), has(FOREGROUND)) {
            (true, _) => Self::Orphan,
            (false, true) => Self::Foreground,
            (false, false) => Self::Background,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}
