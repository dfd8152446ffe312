//! What is not wanted any more.

use std::collections::BTreeSet;

use super::walk::{Walk, is_known};
use super::{Inputs, Standing};
use crate::graph::{Node, NodeIndex};
use crate::labels;
use crate::observed::{Live, ObjectId};

/// An object to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    pub id: ObjectId,
    pub uid: String,
    /// The id of the node that it was for.
    pub node: String,
    /// Those of the highest wave go first.
    pub wave: u32,
    /// Whether it is going already.
    pub deleting: bool,
    /// Whether a graph created it.
    pub created: bool,
}

/// What is not wanted any more: nothing while it is not known of every node what it wants.
pub(super) fn unwanted(walk: &Walk<'_>) -> Vec<Prune> {
    if !are_known(walk) {
        return Vec::new();
    }
    let all = walk.inputs.observed.iter();
    let (wanted, unwanted): (Vec<_>, Vec<_>) =
        all.partition(|(_, live)| walk.wanted.contains_key(&live.id));
    if unwanted.is_empty() {
        return Vec::new();
    }
    let set = labels::set_of(walk.inputs.graph.kind(), &walk.inputs.instance);
    let external: BTreeSet<&str> = {
        let nodes = walk.inputs.graph.nodes().iter();
        nodes
            .filter(|node| node.is_external())
            .map(Node::id)
            .collect()
    };
    // Others' objects are not ours to delete, whether the node refers to them still or not.
    let is_others = |node: &str, live: &Live| {
        let left = is_made_for(node, live, &set) && !is_referred_to(walk, node, live);
        external.contains(node) && !left
    };
    // An object may be seen in several versions of its kind.
    let wanted: BTreeSet<&str> = {
        let uids = wanted.iter().map(|(_, live)| live.uid.as_str());
        uids.filter(|uid| !uid.is_empty()).collect()
    };
    let unwanted = unwanted.into_iter().filter(|(node, live)| {
        let there = is_others(node, live) || wanted.contains(live.uid.as_str());
        !there && !walk.kept.contains(&live.id)
    });
    unwanted.map(|(node, live)| Prune::of(node, live)).collect()
}

/// Whether it is known of every node what it wants.
fn are_known(walk: &Walk<'_>) -> bool {
    let mut nodes = walk.inputs.graph.indexed().zip(&walk.standings);
    nodes.all(|(node, standing)| is_settled(standing) || lacks_updates(walk, node, standing))
}

/// What is there and may become unwanted without a change of anything but what is under way: objects
/// of nodes of which it is not known what they want, and those that stand in for others.
pub(super) fn undecided(walk: &Walk<'_>) -> BTreeSet<ObjectId> {
    let stands_in = |id: &ObjectId| walk.kept.contains(id) || walk.renamed.contains(id);
    let unknown = unknown_nodes(walk);
    let all = walk.inputs.observed.iter();
    let undecided = all.filter(|(node, live)| {
        stands_in(&live.id) || unknown.contains(node) && !walk.wanted.contains_key(&live.id)
    });
    undecided.map(|(_, live)| live.id.clone()).collect()
}

/// What is there and not wanted by its node, while it is not known of every node what it wants.
pub(super) fn dropped(walk: &Walk<'_>) -> BTreeSet<ObjectId> {
    if are_known(walk) {
        return BTreeSet::new();
    }
    let unknown = unknown_nodes(walk);
    let all = walk.inputs.observed.iter();
    let dropped = all.filter(|(node, live)| {
        let there = walk.wanted.contains_key(&live.id) || walk.kept.contains(&live.id);
        !there && !unknown.contains(node)
    });
    dropped.map(|(_, live)| live.id.clone()).collect()
}

/// The ids of nodes of which it is not known what they want.
fn unknown_nodes<'w>(walk: &'w Walk<'_>) -> BTreeSet<&'w str> {
    let nodes = walk.inputs.graph.nodes().iter().zip(&walk.standings);
    let unknown = nodes.filter(|(_, standing)| !is_known(standing));
    unknown.map(|(node, _)| node.id()).collect()
}

/// Those that are deleted now: the highest wave, until it is gone.
pub fn highest_wave(mut unwanted: Vec<Prune>) -> Vec<Prune> {
    let highest = unwanted.iter().map(|prune| prune.wave).max();
    unwanted.retain(|prune| Some(prune.wave) == highest);
    unwanted
}

/// Whether the object was made for the node, which may be one that refers to others' by now.
fn is_made_for(node: &str, live: &Live, set: &str) -> bool {
    let written = &live.json()["metadata"]["labels"];
    let ours = written[labels::OWNED] == "true" && written[labels::PART_OF] == set;
    ours && written[labels::NODE] == labels::value(node)
}

/// Whether the node refers to the object, be it in another version of its kind.
fn is_referred_to(walk: &Walk<'_>, node: &str, live: &Live) -> bool {
    let Inputs {
        graph, observed, ..
    } = walk.inputs;
    let references = walk.references.iter();
    let mut references = references.filter(|(index, _)| graph.node(*index).id() == node);
    let is_same = |one: &Live| one.id == live.id || (!one.uid.is_empty() && one.uid == live.uid);
    references.any(|(_, reference)| {
        let mut meant = observed.of(node).filter(|one| reference.means(one));
        meant.any(|one| is_same(one))
    })
}

/// Whether it is known what the node wants, and it is there or may not be made yet: deletion waits
/// for no gate, but that of what comes in its place.
fn is_settled(standing: &Standing) -> bool {
    match standing {
        Standing::Excluded(_)
        | Standing::Gated { .. }
        | Standing::Ready
        | Standing::NotReady(_) => true,
        Standing::Blocked { .. }
        | Standing::Waiting(_)
        | Standing::Failed(_)
        | Standing::Taken { .. }
        | Standing::Ending { .. }
        | Standing::Applying { .. }
        | Standing::Missing { .. }
        | Standing::Unseen => false,
    }
}

/// Whether all objects of a node are there, and updates of some are refused. Nothing is to come in the
/// place of what is not wanted any more, then, and whether it goes is no matter of those updates.
fn lacks_updates(walk: &Walk<'_>, (index, node): (NodeIndex, &Node), standing: &Standing) -> bool {
    let Inputs {
        observed,
        unsure,
        rendering,
        ..
    } = walk.inputs;
    if !matches!(standing, Standing::Applying { .. }) || walk.more > 0 {
        return false;
    }
    let mut applied = walk.apply.iter().map(|one| one.node);
    let wanted = walk.wanted.iter().filter(|(_, of)| **of == index);
    let wanted: Vec<&ObjectId> = wanted.map(|(id, _)| id).collect();
    let is_there = |id: &ObjectId| {
        observed
            .get(node.id(), id)
            .is_some_and(|live| !live.deleting)
    };
    !applied.any(|of| of == index)
        && wanted.iter().any(|id| (rendering.without)(id))
        && wanted
            .iter()
            .all(|id| is_there(id) && !unsure.contains_key(*id))
}

// === impl Prune ===

impl Prune {
    /// The object of a node. Without a wave written on it, it is among the last to go.
    pub fn of(node: &str, live: &Live) -> Self {
        let written = &live.json()["metadata"]["annotations"][labels::APPLY_ORDER];
        let written = written.as_str().and_then(|text| text.parse().ok());
        Self {
            id: live.id.clone(),
            uid: live.uid.clone(),
            node: node.to_owned(),
            wave: written.unwrap_or(0),
            deleting: live.deleting,
            created: live.is_created(),
        }
    }
}
