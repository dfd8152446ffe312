//! A definition that was compiled: what `plan` reads, and never changes.
//!
//! Invariants: nodes are in topological order, a node's dependencies and what its gate reads before
//! it; the environment's slots are `schema`, the nodes in that order, and, in a node's own
//! environment, its iterators and `each`.

use std::fmt;
use std::sync::Arc;

use deltaplane_api::field;
use deltaplane_expr::{Bindings, Decl, Env, Program, Slot};
use deltaplane_propagation::stages::BudgetSpec;
use serde_json::Value as Json;

use crate::gates::{Gate, GateExpression};
use crate::kinds::{Gvk, Known};
use crate::stored::ObjectNeeds;
use crate::template::{Reads, Spot, Template};

/// A compiled definition. Shared as an `Arc<Graph>`.
#[derive(Debug)]
pub struct Graph {
    pub(crate) version: Version,
    pub(crate) content_version: Version,
    pub(crate) revision_hash: String,
    pub(crate) kind: GraphKind,
    pub(crate) crd: Json,
    pub(crate) nodes: Vec<Node>,
    pub(crate) status: Template,
    pub(crate) author_conditions: Vec<Condition>,
    /// Instances with their status, if the author has conditions that read it.
    pub(crate) whole_instance: Option<Decl>,
    pub(crate) gate: Gate,
    pub(crate) service_account: Option<String>,
    pub(crate) deletion_budget: BudgetSpec,
    pub(crate) env: Env,
    pub(crate) schema_slot: Slot,
    /// The environment with the most variables.
    pub(crate) widest: Env,
}

/// Which definition it was: a digest of its spec.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub(crate) String);

/// The kind that a graph defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphKind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub namespaced: bool,
}

/// Which node of a graph: its place in topological order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub(crate) u32);

/// A resource of a graph.
#[derive(Debug)]
pub struct Node {
    pub(crate) id: String,
    pub(crate) source: usize,
    pub(crate) known: Arc<Known>,
    pub(crate) role: Role,
    pub(crate) depends_on: Vec<NodeIndex>,
    pub(crate) include_when: Vec<Condition>,
    pub(crate) ready_when: Vec<Condition>,
    pub(crate) gate: Gate,
    pub(crate) watched: bool,
    pub(crate) needs: ObjectNeeds,
    pub(crate) apply_order: u32,
    pub(crate) env: Env,
    pub(crate) slot: Slot,
    pub(crate) each: Option<Slot>,
}

/// What a node is there for.
#[derive(Debug)]
pub enum Role {
    /// One object.
    One(Template),
    /// An object for every combination of items; the last dimension goes fastest.
    Each {
        dimensions: Vec<Dimension>,
        template: Template,
    },
    /// An object of others, by name: `{"name": …, "namespace": …}`, the latter only if it is given.
    External(Template),
    /// All objects of others with certain labels: `{"selector": …, "namespace": …}`. Without a
    /// namespace they are those of all namespaces.
    Selected(Template),
}

/// A list that a collection goes through.
#[derive(Debug)]
pub struct Dimension {
    pub(crate) name: String,
    pub(crate) slot: Slot,
    pub(crate) condition: Condition,
}

/// An expression that stands alone, a condition most of the time.
#[derive(Debug)]
pub struct Condition {
    pub(crate) program: Program,
    pub(crate) source: Arc<str>,
    pub(crate) spot: Spot,
    pub(crate) reads: Reads,
}

// === impl Graph ===

impl Graph {
    /// Of the whole spec.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Of the spec without any `propagateWhen`, `orderBy` and `deletionBudget`. What instances make follows from this
    /// alone: graphs with the same one have the same templates, the same waves, and the same
    /// content for every object. Where only [`Self::version`] differs no instance has to move, and
    /// the new gates take effect at once.
    pub fn content_version(&self) -> &Version {
        &self.content_version
    }

    /// kro's hash of the definition, by which it tells whether a new revision is due: the order of
    /// resources and of conditions does not count.
    pub fn revision_hash(&self) -> &str {
        &self.revision_hash
    }

    pub fn kind(&self) -> &GraphKind {
        &self.kind
    }

    /// The CustomResourceDefinition of [`Self::kind`], without the labels of an owner.
    pub fn crd(&self) -> &Json {
        &self.crd
    }

    /// In topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All nodes with their indices, in topological order.
    pub fn indexed(&self) -> impl Iterator<Item = (NodeIndex, &Node)> {
        self.nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (NodeIndex::of(at), node))
    }

    pub fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index.get()]
    }

    /// The node with this id.
    pub fn find(&self, id: &str) -> Option<NodeIndex> {
        let at = self.nodes.iter().position(|node| node.id == id)?;
        Some(NodeIndex::of(at))
    }

    /// The ids in topological order.
    pub fn order(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.id.as_str())
    }

    /// What an instance's status says of its resources. `state` and `conditions` are not in it.
    pub fn status(&self) -> &Template {
        &self.status
    }

    /// Returns true if the author says which conditions instances have.
    pub fn has_author_conditions(&self) -> bool {
        !self.author_conditions.is_empty()
    }

    /// The service account that instances act as, if the definition names one.
    pub fn service_account(&self) -> Option<&str> {
        self.service_account.as_deref()
    }

    /// What holds instances back.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// How many objects of instances a version may delete without approval.
    pub fn deletion_budget(&self) -> BudgetSpec {
        self.deletion_budget
    }

    /// Returns what is most likely not meant, a sentence each: gates that never open.
    pub fn warnings(&self) -> Vec<String> {
        let instances = self.gate.never_true().map(|closed| (closed, "no instance"));
        let nodes = self.nodes.iter();
        let resources = nodes.flat_map(|node| node.gate().never_true());
        let resources = resources.map(|closed| (closed, "no change of the resource"));
        let all = instances.chain(resources);
        all.map(|(closed, what)| {
            let GateExpression { source, path, .. } = closed;
            format!("{path}: {source} is never true: {what} is let through")
        })
        .collect()
    }

    /// `schema` and the nodes.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The slot of `schema`: the instance without its status.
    pub fn schema_slot(&self) -> Slot {
        self.schema_slot
    }

    /// The slot of a node's object, or of its list of objects.
    pub fn slot(&self, index: NodeIndex) -> Slot {
        self.node(index).slot
    }

    /// Room for the variables of every expression of the graph.
    pub fn bindings<'a>(&self) -> Bindings<'a> {
        Bindings::new(&self.widest)
    }
}

// === impl Node ===

impl Node {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its place in the definition's resources.
    pub fn source(&self) -> usize {
        self.source
    }

    pub fn gvk(&self) -> &Gvk {
        self.known.gvk()
    }

    pub fn known(&self) -> &Arc<Known> {
        &self.known
    }

    pub fn plural(&self) -> &str {
        self.known.plural()
    }

    /// Whether its objects are in namespaces.
    pub fn namespaced(&self) -> bool {
        self.known.namespaced()
    }

    pub fn role(&self) -> &Role {
        &self.role
    }

    /// Whether it stands for a list of objects.
    pub fn is_collection(&self) -> bool {
        match self.role {
            Role::Each { .. } | Role::Selected(_) => true,
            Role::One(_) | Role::External(_) => false,
        }
    }

    /// Whether its objects are those of others.
    pub fn is_external(&self) -> bool {
        match self.role {
            Role::External(_) | Role::Selected(_) => true,
            Role::One(_) | Role::Each { .. } => false,
        }
    }

    /// The template of its objects, or of the reference to those of others.
    pub fn template(&self) -> &Template {
        match &self.role {
            Role::One(template)
            | Role::Each { template, .. }
            | Role::External(template)
            | Role::Selected(template) => template,
        }
    }

    /// The nodes that it reads, in topological order.
    pub fn depends_on(&self) -> &[NodeIndex] {
        &self.depends_on
    }

    /// It is there when all of them hold.
    pub fn include_when(&self) -> &[Condition] {
        &self.include_when
    }

    /// It is ready when all of them hold: for a collection, for `each` of its objects.
    pub fn ready_when(&self) -> &[Condition] {
        &self.ready_when
    }

    /// What holds it, or the items of a collection, back.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Whether anything holds it back.
    pub fn is_gated(&self) -> bool {
        self.gate.compiled().is_some()
    }

    /// Whether the gate of another reads it.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// What planning reads of its objects.
    pub fn needs(&self) -> &ObjectNeeds {
        &self.needs
    }

    /// The wave that it is applied in, from 1; deletion goes from the last to the first.
    pub fn apply_order(&self) -> u32 {
        self.apply_order
    }

    /// The graph's environment, with the node's iterators and `each` behind.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The slot of its object, or of its list of objects.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The slot of `each`, if it is a collection.
    pub fn each(&self) -> Option<Slot> {
        self.each
    }
}

// === impl Dimension ===

impl Dimension {
    /// What the iterator is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The slot of the iterator.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// What the list comes from.
    pub fn list(&self) -> &Condition {
        &self.condition
    }
}

// === impl Condition ===

impl Condition {
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The text that it was written as; spans of failures are in it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Where it is in the definition.
    pub fn path(&self) -> field::Path {
        self.spot.path()
    }

    pub fn reads(&self) -> &Reads {
        &self.reads
    }
}

// === impl NodeIndex ===

impl NodeIndex {
    pub(crate) fn of(index: usize) -> Self {
        Self(u32::try_from(index).expect("a definition has a thousand resources at most"))
    }

    /// As an index into [`Graph::nodes`].
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

// === impl Version ===

/// How many characters of a version people are shown.
const SHORT: usize = 10;

impl Version {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The beginning of it, for people.
    pub fn short(&self) -> &str {
        &self.0[..SHORT]
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
