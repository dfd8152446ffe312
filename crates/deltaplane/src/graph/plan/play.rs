//! Planning for an instance, once or until nothing is left to do.
//!
//! Objects that were given are the instance's if their labels say so. Others are used when a
//! resource asks for one of their name, and left alone otherwise: nothing of others is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use deltaplane_api::selector::LabelSelector;
use deltaplane_expr::{Budget, Meter, Timestamp};
use deltaplane_graph::observed::{Applied, Content, Live, ObjectId, Observed, Owner};
use deltaplane_graph::plan::{Apply, Cause, Inputs, Instance, Plan, Rendering, Standing, plan};
use deltaplane_graph::{Graph, Node, Role, Template, labels};
use serde_json::{Value, json};

use super::change::Change;
use crate::graph::GraphError;
use crate::graph::documents::Document;
use crate::graph::kinds::Kinds;

/// A plan, and how it came to it.
pub(in crate::graph) struct Played {
    pub(in crate::graph) instance: Value,
    pub(in crate::graph) plan: Plan,
    /// What was taken to be applied before.
    pub(super) passes: Vec<Pass>,
    /// Whether everything that would be applied was taken to be.
    pub(super) assumed: bool,
    /// Changes that changed nothing, and the resources that they are for.
    pub(super) unused: Vec<(String, String)>,
}

/// What was taken to be done at once.
pub(super) struct Pass {
    pub(super) applied: Vec<Apply>,
    /// With the id of the node.
    pub(super) deleted: Vec<(String, ObjectId)>,
}

/// An instance, and what there is.
pub(super) struct Play<'a> {
    kinds: &'a Kinds,
    graph: &'a Graph,
    instance: Value,
    changes: Vec<&'a Change>,
    used: BTreeSet<usize>,
    observed: Observed,
    /// Objects that nobody asked for yet.
    pool: BTreeMap<ObjectId, Value>,
    /// Objects of other instances.
    foreign: BTreeMap<ObjectId, Owner>,
}

// === impl Played ===

impl Played {
    /// Whether nothing is wrong. Waiting is not.
    pub(super) fn good(&self) -> bool {
        let wrong = |node: &Standing| matches!(node, Standing::Failed(_) | Standing::Taken { .. });
        !self.plan.nodes.iter().any(wrong)
    }

    /// All objects that would be applied, those that were taken to be first.
    pub(super) fn rendered(&self) -> impl Iterator<Item = &Value> {
        let passes = self.passes.iter().flat_map(|pass| &pass.applied);
        passes.chain(&self.plan.apply).map(|apply| &apply.object)
    }
}

// === impl Play ===

impl<'a> Play<'a> {
    pub(super) fn new(
        kinds: &'a Kinds,
        graph: &'a Graph,
        instance: Value,
        changes: &'a [Change],
    ) -> Self {
        let ours = |one: &&Change| graph.find(&one.node).is_some();
        Self {
            kinds,
            graph,
            instance,
            changes: changes.iter().filter(ours).collect(),
            used: BTreeSet::new(),
            observed: Observed::default(),
            pool: BTreeMap::new(),
            foreign: BTreeMap::new(),
        }
    }

    /// These objects are there.
    pub(super) fn observe(&mut self, there: &[Document]) -> Result<(), GraphError> {
        for document in there {
            let Some(id) = self.id(document) else {
                continue;
            };
            let label = |name: &str| document.json["metadata"]["labels"][name].as_str();
            match (label(labels::NODE), self.is_ours(&document.json)) {
                (Some(node), true) => {
                    let ids = self.graph.order();
                    let id_of = ids.map(str::to_owned).find(|id| labels::value(id) == node);
                    let node = id_of.unwrap_or_else(|| node.to_owned());
                    self.insert(&node, id, document.json.clone(), None)?;
                }
                (Some(node), false) => {
                    let name = label(labels::INSTANCE_NAME).unwrap_or_default();
                    let owner = Owner(format!("{node} of the instance {name}"));
                    self.foreign.insert(id.clone(), owner);
                    self.pool.insert(id, document.json.clone());
                }
                (None, _) => {
                    self.pool.insert(id, document.json.clone());
                }
            }
        }
        Ok(())
    }

    fn id(&self, document: &Document) -> Option<ObjectId> {
        let gvk = document.gvk()?;
        let node = self.graph.nodes().iter().find(|node| *node.gvk() == gvk);
        let given = document.json["metadata"]["namespace"].as_str();
        let namespace = match node.is_none_or(Node::namespaced) {
            true => given.unwrap_or(Instance::new(&self.instance).namespace()),
            false => "",
        };
        Some(ObjectId {
            gvk,
            namespace: namespace.to_owned(),
            name: document.name().to_owned(),
        })
    }

    /// Whether an object's labels name this instance: by its uid, or by its name if it has none.
    fn is_ours(&self, object: &Value) -> bool {
        let instance = Instance::new(&self.instance);
        let is = |name: &str, text: &str| {
            let label = &object["metadata"]["labels"][name];
            label.as_str().unwrap_or_default() == labels::value(text)
        };
        let kind = self.graph.kind();
        match instance.uid() {
            "" => {
                is(labels::INSTANCE_NAME, instance.name())
                    && is(labels::INSTANCE_KIND, &kind.kind)
                    && is(labels::INSTANCE_GROUP, &kind.group)
                    && (!kind.namespaced || is(labels::INSTANCE_NAMESPACE, instance.namespace()))
            }
            uid => is(labels::INSTANCE, uid),
        }
    }

    /// Plans, and with `assume` goes on as if that was applied.
    pub(super) fn run(mut self, assume: bool) -> Result<Played, GraphError> {
        let mut passes = Vec::new();
        // Each pass applies a wave of the graph or deletes one.
        let most = 2 * self.graph.nodes().len() + 2;
        let mut plan = self.settle()?;
        while assume && passes.len() < most && !(plan.apply.is_empty() && plan.prune.is_empty()) {
            passes.push(self.act(plan)?);
            plan = self.settle()?;
        }
        let changes = self.changes.iter().enumerate();
        let unused = changes.filter(|(index, _)| !self.used.contains(index));
        let unused = unused.map(|(_, one)| (one.text().to_owned(), one.node.clone()));
        Ok(Played {
            unused: unused.collect(),
            instance: self.instance,
            plan,
            passes,
            assumed: assume,
        })
    }

    /// Plans with the objects that are asked for.
    fn settle(&mut self) -> Result<Plan, GraphError> {
        loop {
            let plan = plan(Inputs {
                graph: self.graph,
                instance: Instance::new(&self.instance),
                observed: &self.observed,
                taken: &|id| self.foreign.get(id).cloned(),
                product: env!("CARGO_PKG_VERSION"),
                now: now(),
                frozen: &|_| None,
                unsure: &BTreeMap::new(),
                in_flight: &BTreeMap::new(),
                unseen: &|_| false,
                rendering: Rendering::whole(),
            });
            // Every time at least one more is used, or it ends.
            if !self.adopt(&plan)? {
                return Ok(plan);
            }
        }
    }

    /// Takes the objects that a plan asks for; whether there were any.
    fn adopt(&mut self, plan: &Plan) -> Result<bool, GraphError> {
        let graph = self.graph;
        let mut wanted: Vec<(&Node, ObjectId)> = Vec::new();
        for apply in plan.apply.iter().filter(|one| one.why == Cause::Absent) {
            wanted.push((graph.node(apply.node), apply.id.clone()));
        }
        for (index, node) in graph.indexed() {
            let gated = plan.gated(index).map(|gated| (node, gated.id.clone()));
            wanted.extend(gated);
        }
        let mut adopted = false;
        for (node, standing) in graph.nodes().iter().zip(&plan.nodes) {
            match (node.role(), standing) {
                (_, Standing::Missing { id }) => {
                    adopted |= self.make_up(node, id)?;
                    wanted.push((node, id.clone()));
                }
                (Role::Selected(template), standing) if !is_held(standing) => {
                    wanted.extend(
                        self.selected(node, template)
                            .into_iter()
                            .map(|id| (node, id)),
                    );
                }
                _ => {}
            }
        }
        for (node, id) in wanted {
            if self.observed.get(node.id(), &id).is_none()
                && let Some(json) = self.pool.get(&id).cloned()
            {
                self.insert(node.id(), id, json, None)?;
                adopted = true;
            }
        }
        Ok(adopted)
    }

    /// An object of others that only changes say something of.
    fn make_up(&mut self, node: &Node, id: &ObjectId) -> Result<bool, GraphError> {
        let changed = self.changes.iter().any(|change| change.node == node.id());
        if !changed || self.pool.contains_key(id) {
            return Ok(false);
        }
        let mut json = json!({
            "apiVersion": id.gvk.api_version(), "kind": id.gvk.kind, "metadata": {"name": id.name},
        });
        if node.namespaced() {
            json["metadata"]["namespace"] = id.namespace.as_str().into();
        }
        self.insert(node.id(), id.clone(), json, None)?;
        Ok(true)
    }

    /// The objects that a node selects by their labels.
    fn selected(&self, node: &Node, template: &Template) -> Vec<ObjectId> {
        let Some(reference) = self.rendered(template) else {
            return Vec::new();
        };
        let Some(selector) = LabelSelector::from_object(&reference["selector"]) else {
            return Vec::new();
        };
        let namespace = reference["namespace"].as_str();
        let matches = |(id, json): &(&ObjectId, &Value)| {
            let labels = &json["metadata"]["labels"];
            id.gvk == *node.gvk()
                && namespace.is_none_or(|namespace| id.namespace == namespace)
                && selector.matches(|key| labels[key].as_str())
        };
        let found = self.pool.iter().filter(matches);
        found.map(|(id, _)| id.clone()).collect()
    }

    /// A template whose values are known, with what there is.
    fn rendered(&self, template: &Template) -> Option<Value> {
        let mut bindings = self.graph.bindings();
        let env = self.graph.env();
        let _ = bindings.set_json(env, self.graph.schema_slot(), &self.instance);
        for node in self
            .graph
            .nodes()
            .iter()
            .filter(|node| !node.is_collection())
        {
            if let Some(live) = self.observed.of(node.id()).next() {
                let _ = bindings.set_json(node.env(), node.slot(), live.json());
            }
        }
        let mut meter = Meter::new(Budget::default());
        let holes = template.holes().iter();
        let filled = holes.map(|hole| hole.fill(&bindings, &mut meter).ok());
        let filled: Vec<_> = filled.collect::<Option<_>>()?;
        Some(template.render(filled))
    }

    /// Takes what is to be done to be done.
    fn act(&mut self, plan: Plan) -> Result<Pass, GraphError> {
        for apply in &plan.apply {
            let node = self.graph.node(apply.node);
            let mut json = match self.observed.get(node.id(), &apply.id) {
                Some(live) => live.json().clone(),
                None => Value::Null,
            };
            merge(&mut json, &apply.object);
            self.kinds.fill_in(node.known(), &mut json);
            let content = Some(apply.content.clone());
            self.insert(node.id(), apply.id.clone(), json, content)?;
        }
        let mut deleted = Vec::new();
        for prune in plan.prune {
            self.observed.remove(&prune.node, &prune.id);
            deleted.push((prune.node, prune.id));
        }
        Ok(Pass {
            applied: plan.apply,
            deleted,
        })
    }

    /// The object is there, with what it is changed by.
    fn insert(
        &mut self,
        node: &str,
        id: ObjectId,
        mut json: Value,
        content: Option<Content>,
    ) -> Result<(), GraphError> {
        let item = json["metadata"]["labels"][labels::ITEM].as_str();
        let item: Option<usize> = item.and_then(|text| text.parse().ok());
        for (index, change) in self.changes.iter().enumerate() {
            if change.node == node && (change.item.is_none() || change.item == item) {
                change.apply(&mut json)?;
                self.used.insert(index);
            }
        }
        let metadata = &json["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        let written = metadata["annotations"][labels::CONTENT].as_str();
        let applied = content.is_some();
        let content = content.or_else(|| written.map(Content::read));
        let (uid, version) = (text("uid"), text("resourceVersion"));
        let deleting = metadata["deletionTimestamp"].is_string();
        // Who owns its fields is asked if it says that, and was not made up.
        let sure = applied || metadata["managedFields"].is_null();
        let mut live = Live::parsed(id, json);
        live.uid = uid;
        live.resource_version = version;
        live.deleting = deleting;
        live.sure = sure;
        live.applied = content.map(|content| Applied {
            content,
            intact: true,
        });
        self.observed.insert(node, Arc::new(live));
        Ok(())
    }
}

/// Whether it is not known yet what a node selects.
fn is_held(standing: &Standing) -> bool {
    match standing {
        Standing::Excluded(_)
        | Standing::Blocked { .. }
        | Standing::Waiting(_)
        | Standing::Failed(_)
        | Standing::Unseen => true,
        Standing::Taken { .. }
        | Standing::Ending { .. }
        | Standing::Applying { .. }
        | Standing::Gated { .. }
        | Standing::Missing { .. }
        | Standing::NotReady(_)
        | Standing::Ready => false,
    }
}

/// The time, as gates know it.
fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    Timestamp::new(seconds, now.subsec_nanos()).expect("no clock shows a year past 9999")
}

/// Puts what is applied over what there is: maps field by field, everything else as a whole.
fn merge(there: &mut Value, applied: &Value) {
    match (there, applied) {
        (Value::Object(there), Value::Object(applied)) => {
            for (key, value) in applied {
                merge(there.entry(key).or_insert(Value::Null), value);
            }
        }
        (there, applied) => there.clone_from(applied),
    }
}
