//! From what is wanted and what there is to what is to be done now: `plan`, a pure function.
//!
//! Nodes are looked at in topological order. One is excluded, or blocked by another that is not
//! ready, or waits for data, or is rendered and compared with what there is. If that is to change,
//! the node's gate is asked. Everything that can be applied now is in one plan; whoever applied it
//! plans again with what the API answered, until nothing is to be done.
//!
//! What a gate keeps back and is there is frozen: its readiness counts, others see it as it is, and
//! what somebody changes of it is put right. What a gate keeps back and is not there is not ready.
//!
//! Not here: seeing objects, applying and deleting them (`controllers`).
//!
//! Invariants: the same inputs give the same plan; an object that has the content that is wanted,
//! unchanged, is not applied again; nothing is pruned while it is not known what is wanted; the
//! content of an object becomes another only if its gate is open for that.

mod authored;
mod content;
mod gates;
mod items;
mod prune;
mod ready;
mod reference;
mod secrets;
mod status;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_expr::{Failure, Stopped, Timestamp};
use deltaplane_propagation::Verdict;
use serde_json::Value as Json;

use crate::graph::{Graph, NodeIndex};
use crate::observed::{Content, Live, ObjectId, Observed, Owner};
use crate::template::Unfilled;

pub use authored::{Authored, AuthoredCondition, author_conditions};
pub use prune::{Prune, highest_wave};
pub use reference::{Reference, Which};
pub use status::{Missing, Projected};

/// An object of the graph's kind.
#[derive(Clone, Copy, Debug)]
pub struct Instance<'a> {
    json: &'a Json,
}

/// What a plan is made of.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub graph: &'a Graph,
    pub instance: Instance<'a>,
    pub observed: &'a Observed,
    /// Whose an object is, if it is somebody else's.
    pub taken: &'a dyn Fn(&ObjectId) -> Option<Owner>,
    /// Which program applies it, for a label.
    pub product: &'a str,
    /// The time, for gates.
    pub now: Timestamp,
    /// What was last applied to an object, as it was applied, if the caller has kept it as
    /// [`Plan::keep`] told it to.
    pub frozen: &'a dyn Fn(&ObjectId) -> Option<Json>,
    /// Objects that were sent to be applied, with what content, and whether they were is not known.
    /// They are in flight until they are seen to have it, or the caller, having looked, takes them
    /// out.
    pub unsure: &'a BTreeMap<ObjectId, Content>,
    /// What [`Plan::in_flight`] was last. With nothing here, an object that is not ready and is to
    /// become something else counts as broken before, and not as in flight.
    pub in_flight: &'a BTreeMap<ObjectId, Content>,
    /// Nodes of others' objects of which it is not known now what there is: that nothing of them is
    /// observed does not mean that nothing is there.
    pub unseen: &'a dyn Fn(NodeIndex) -> bool,
    /// What of it is rendered.
    pub rendering: Rendering<'a>,
}

/// How much of what is to be applied is rendered at once: a collection may come to a thousand times
/// its template.
#[derive(Clone, Copy)]
pub struct Rendering<'a> {
    /// About how many bytes; the first object is rendered whatever it takes.
    pub most: usize,
    /// Objects that the caller would not apply now.
    pub without: &'a dyn Fn(&ObjectId) -> bool,
}

/// What is to be done now, and how everything stands.
#[derive(Debug)]
pub struct Plan {
    /// As the graph has its nodes.
    pub nodes: Vec<Standing>,
    /// All of it at once, in any order.
    pub apply: Vec<Apply>,
    /// How many more objects are to be applied, for which there was no room. They are in a plan that
    /// is made when these are there.
    pub more: usize,
    /// The objects of the highest wave of those that are unwanted.
    pub prune: Vec<Prune>,
    /// All objects that are not wanted any more, if that is known of every node; nothing otherwise.
    pub unwanted: Vec<Prune>,
    /// Objects that are there and may become unwanted as soon as more is known of nodes, or as gates
    /// let others come in their place.
    pub undecided: BTreeSet<ObjectId>,
    /// Objects that their nodes do not want, and that stay until it is known of every node what it
    /// wants.
    pub dropped: BTreeSet<ObjectId>,
    /// What the instance's status says of its resources.
    pub status: Projected,
    /// Objects that are there and should be something else, which their gates do not allow now. In
    /// the order of the nodes.
    pub frozen: Vec<Gated>,
    /// Objects that are frozen, or may be as soon as more is known. Whoever keeps what was last
    /// applied to them, for [`Inputs::frozen`], keeps them as they are whatever others do.
    pub keep: Vec<ObjectId>,
    /// Objects that are in flight once this is carried out, and the content that gates admitted them
    /// to. It is kept before anything is applied, for [`Inputs::in_flight`]: so the bound of a gate
    /// holds even when what is wanted changes on the way.
    pub in_flight: BTreeMap<ObjectId, Content>,
    /// When time alone may open a gate.
    pub next: Option<Timestamp>,
    /// Objects of others that nodes refer to, as far as is known now.
    pub references: Vec<(NodeIndex, Reference)>,
    /// What expressions see of the nodes, if [`author_conditions`] are to be evaluated.
    shown: Shown,
}

/// The objects of nodes that expressions see, by the ids of the nodes.
type Shown = BTreeMap<String, Vec<Arc<Live>>>;

/// An object that a gate does not let become what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gated {
    pub node: NodeIndex,
    pub id: ObjectId,
    pub verdict: Verdict,
}

/// An object to be applied.
#[derive(Debug, PartialEq)]
pub struct Apply {
    pub node: NodeIndex,
    pub id: ObjectId,
    pub object: Json,
    pub content: Content,
    pub why: Cause,
}

/// Why an object is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It is not there.
    Absent,
    /// Something else is wanted than before.
    Changed,
    /// Somebody changed it, or deleted it while a gate keeps it as it was.
    Drifted,
}

/// How a node stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    Excluded(Exclusion),
    /// Nodes that it reads are not ready.
    Blocked {
        on: Vec<NodeIndex>,
    },
    /// Data that it reads is not there.
    Waiting(Wait),
    /// It cannot be rendered, or not like this.
    Failed(Wrong),
    /// An object is somebody else's.
    Taken {
        id: ObjectId,
        owner: Owner,
    },
    /// An object is being deleted; when it is gone it is made anew.
    Ending {
        id: ObjectId,
        /// One of the others that will not come right by waiting.
        broken: Option<NotReady>,
    },
    /// Objects are to be applied.
    Applying {
        objects: usize,
    },
    /// Objects are not there, and may not be made yet.
    Gated {
        objects: Vec<Gated>,
        /// One of the others that will not come right by waiting.
        broken: Option<NotReady>,
    },
    /// An object of others is not there.
    Missing {
        id: ObjectId,
    },
    /// Which objects of others are there is not known.
    Unseen,
    NotReady(NotReady),
    Ready,
}

/// Why a node is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// A condition does not hold.
    Condition { source: String },
    /// A node that it reads is excluded.
    With(NodeIndex),
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// Such as `db.status.endpoint`.
    pub path: deltaplane_expr::Path,
    /// The expression that reads it.
    pub source: String,
    /// Where it is in the definition.
    pub place: String,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Wrong {
    pub message: String,
    /// The expression, if it is one that is.
    pub source: Option<String>,
    /// Where it is in the definition.
    pub place: String,
}

/// Why a node is not ready.
#[derive(Clone, Debug, PartialEq)]
pub struct NotReady {
    pub id: ObjectId,
    pub why: Unready,
    /// What its status says, if that is that it will not come right by waiting.
    pub broken: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Unready {
    /// A condition does not hold.
    Condition {
        source: String,
    },
    Waiting(Wait),
    Failed(Wrong),
    /// Its status is that of an earlier generation.
    Stale {
        observed: i64,
        generation: i64,
    },
}

/// What should be done for an instance.
pub fn plan(inputs: Inputs<'_>) -> Plan {
    walk::walk(inputs)
}

// === impl Rendering ===

impl Rendering<'static> {
    /// All of it.
    pub fn whole() -> Self {
        Self {
            most: usize::MAX,
            without: &|_| false,
        }
    }
}

// === impl Instance ===

impl<'a> Instance<'a> {
    pub fn new(json: &'a Json) -> Self {
        Self { json }
    }

    pub fn json(&self) -> &'a Json {
        self.json
    }

    pub fn name(&self) -> &'a str {
        self.metadata("name")
    }

    /// Empty if it is in none.
    pub fn namespace(&self) -> &'a str {
        self.metadata("namespace")
    }

    pub fn uid(&self) -> &'a str {
        self.metadata("uid")
    }

    fn metadata(&self, field: &str) -> &'a str {
        self.json["metadata"][field].as_str().unwrap_or_default()
    }
}

// === impl NotReady ===

impl NotReady {
    /// Whether it will not come right by waiting.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }
}

// === impl Plan ===

impl Plan {
    /// Whether all that is wanted is there and ready. What is frozen is not what is wanted.
    pub fn is_ready(&self) -> bool {
        let done = |node: &Standing| matches!(node, Standing::Ready | Standing::Excluded(_));
        self.frozen.is_empty() && self.nodes.iter().all(done)
    }

    /// Returns true if all resources are there and ready, be it with the content that a gate keeps
    /// them at.
    pub fn are_resources_ready(&self) -> bool {
        let done = |node: &Standing| matches!(node, Standing::Ready | Standing::Excluded(_));
        self.nodes.iter().all(done)
    }

    /// Whether all that is wanted is there, ready or not.
    pub fn is_propagated(&self) -> bool {
        let done = |node: &Standing| match node {
            Standing::Excluded(_)
            | Standing::Missing { .. }
            | Standing::Unseen
            | Standing::NotReady(_)
            | Standing::Ready => true,
            Standing::Blocked { .. }
            | Standing::Waiting(_)
            | Standing::Failed(_)
            | Standing::Taken { .. }
            | Standing::Ending { .. }
            | Standing::Applying { .. }
            | Standing::Gated { .. } => false,
        };
        self.frozen.is_empty() && self.nodes.iter().all(done)
    }

    /// What gates keep back of a node: what is frozen, or what is not there.
    pub fn gated(&self, node: NodeIndex) -> impl Iterator<Item = &Gated> {
        let absent = match &self.nodes[node.get()] {
            Standing::Gated { objects, .. } => objects.as_slice(),
            Standing::Excluded(_)
            | Standing::Blocked { .. }
            | Standing::Waiting(_)
            | Standing::Failed(_)
            | Standing::Taken { .. }
            | Standing::Ending { .. }
            | Standing::Applying { .. }
            | Standing::Missing { .. }
            | Standing::Unseen
            | Standing::NotReady(_)
            | Standing::Ready => &[],
        };
        let frozen = self.frozen.iter().filter(move |one| one.node == node);
        frozen.chain(absent)
    }

    /// What holds a node up, from the node to the root of it.
    pub fn chain(&self, from: NodeIndex) -> Vec<NodeIndex> {
        let mut chain = vec![from];
        let mut at = from;
        // Dependencies come before their dependents, so that this ends.
        while let Standing::Blocked { on } = &self.nodes[at.get()]
            && let Some(&next) = on.first()
        {
            chain.push(next);
            at = next;
        }
        chain
    }
}

// === impl Wrong ===

impl Wrong {
    fn at(place: impl ToString, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
            place: place.to_string(),
        }
    }
}

/// Why an expression gave no value: it waits, or something is wrong.
enum Unknown {
    Waits(Wait),
    Wrong(Wrong),
}

impl Unknown {
    fn of(unfilled: Unfilled, source: &str, place: &str) -> Self {
        let wrong = |message: String| {
            Self::Wrong(Wrong {
                message,
                source: Some(source.to_owned()),
                place: place.to_owned(),
            })
        };
        match unfilled {
            Unfilled::Waiting(path) => Self::Waits(Wait {
                path: *path,
                source: source.to_owned(),
                place: place.to_owned(),
            }),
            Unfilled::Failed(failure) => wrong(failed(&failure)),
            Unfilled::Stopped(stopped) => wrong(limited(stopped)),
        }
    }
}

fn failed(failure: &Failure) -> String {
    failure.reason.to_string()
}

fn limited(stopped: Stopped) -> String {
    stopped.to_string()
}

impl From<Unknown> for Standing {
    fn from(unknown: Unknown) -> Self {
        match unknown {
            Unknown::Waits(wait) => Self::Waiting(wait),
            Unknown::Wrong(wrong) => Self::Failed(wrong),
        }
    }
}

/// The text at a path of an object.
fn text<'j>(json: &'j Json, path: &[&str]) -> Option<&'j str> {
    let found = path.iter().try_fold(json, |json, key| json.get(key))?;
    found.as_str()
}

#[cfg(test)]
mod tests;
