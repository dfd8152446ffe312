//! What the status of an instance says: its state, its conditions, and the author's fields. Pure.

use std::collections::BTreeMap;

use deltaplane_api::admission::{DELETIONS_HELD, Point, RESOURCE_FAILED};
use deltaplane_api::conditions::are_authored;
use deltaplane_api::time::Time;
use deltaplane_graph::observed::{Content, ObjectId};
use deltaplane_graph::plan::{
    Exclusion, Gated, Instance, NotReady, Plan, Standing, Unready, author_conditions,
};
use deltaplane_graph::{Graph, Node, NodeIndex, labels};
use serde_json::{Map, Value};

use super::conditions::{Condition, beside_authored, with_authored, written};
use super::deletions::cause::{PRUNED, RecordedPass};
use super::kept::Behind;

/// How a pass over an instance ended.
pub(super) enum Ended<'a> {
    /// It was planned, and what could be done was.
    Planned {
        graph: &'a Graph,
        plan: &'a Plan,
        hindered: &'a Hindrances,
        /// The revision that this is what came of.
        runs: Point,
        /// What keeps it from the newest revision, if it is not there.
        behind: Option<&'a Behind>,
    },
    /// There is nothing to plan with.
    Unresolved { why: &'a str },
    /// It cannot be seen what there is.
    Unseen { why: &'a str },
    /// The finalizer and labels cannot be put on it.
    Unmanaged { why: &'a str },
    /// What its gates decided cannot be kept, and so nothing is made of it.
    Unkept { why: &'a str },
    /// All that it made is gone, and it cannot be let go.
    Unreleased { why: &'a str },
    /// The owner said so.
    Suspended,
    /// It is being deleted.
    Deleting {
        waits_for: &'a [ObjectId],
        /// What may not be deleted, and why.
        undeleted: &'a BTreeMap<ObjectId, String>,
    },
}

/// What kept a pass from doing more.
#[derive(Debug, Default)]
pub(super) struct Hindrances {
    /// What the API refused, and why.
    pub(super) refused: BTreeMap<ObjectId, String>,
    /// What was sent, and whether it was applied is not known.
    pub(super) unsure: BTreeMap<ObjectId, Content>,
    /// What is not wanted any more and may not be deleted, and why.
    pub(super) undeleted: BTreeMap<ObjectId, String>,
    /// Nodes whose objects cannot be seen, and why.
    pub(super) unseen: BTreeMap<NodeIndex, String>,
    /// Whether the account of the instance lacks a right, which is said where it is missed.
    pub(super) lacks_rights: bool,
    /// What exceeds the deletion budget.
    pub(super) held: Option<String>,
    /// Which objects may have to be deleted yet, and who causes that.
    pub(super) pending: Option<String>,
}

const MANAGED: &str = "InstanceManaged";
const RESOLVED: &str = "GraphResolved";
const RESOURCES: &str = "ResourcesReady";
const PROPAGATED: &str = "ResourcesPropagated";
/// Whether the conditions of the graph's author can be evaluated.
const EVALUATED: &str = "ConditionsEvaluated";
/// The reason when the account of the instance lacks a right.
const MISSING_RIGHTS: &str = "MissingRights";
/// The reason of a gate that could not be asked.
const GATE_ERROR: &str = "GateError";

/// The new status of an instance.
pub(super) fn status(instance: &Value, ended: &Ended<'_>, now: Time) -> Value {
    let before = &instance["status"];
    let mut status: Map<String, Value> = match ended {
        Ended::Planned { plan, .. } => plan.status.value.as_object().cloned().unwrap_or_default(),
        Ended::Unresolved { .. }
        | Ended::Unseen { .. }
        | Ended::Unmanaged { .. }
        | Ended::Unkept { .. }
        | Ended::Unreleased { .. }
        | Ended::Suspended
        | Ended::Deleting { .. } => before.as_object().cloned().unwrap_or_default(),
    };
    let generation = instance["metadata"]["generation"].as_i64().unwrap_or(0);
    let own = conditions(instance, ended);
    let aside = || aside(instance, ended);
    let own = |aside: &[Condition]| {
        let before = &before["conditions"];
        written(&own, aside, before, generation, now)
    };
    let mut state = state(ended);
    let before = &before["conditions"];
    let conditions = match ended {
        Ended::Planned { graph, plan, .. } if graph.has_author_conditions() => {
            let instance = Instance::new(instance);
            let mut aside = aside();
            let authored = author_conditions(graph, instance, plan, &own(&aside));
            if !authored.wrong.is_empty() {
                let message = authored.wrong.join("; ");
                aside.push(Condition::fails(EVALUATED, "EvaluationFailed", &message));
                state = "ERROR";
            }
            with_authored(&authored, own(&aside), before, generation, now)
        }
        Ended::Planned { .. } => own(&aside()),
        Ended::Unresolved { .. }
        | Ended::Unseen { .. }
        | Ended::Unmanaged { .. }
        | Ended::Unkept { .. }
        | Ended::Unreleased { .. }
        | Ended::Suspended
        | Ended::Deleting { .. } => match are_authored(&instance["status"]) {
            true => beside_authored(own(&aside()), before),
            false => own(&aside()),
        },
    };
    status.insert("conditions".to_owned(), conditions);
    status.insert("state".to_owned(), state.into());
    let mut status = Value::Object(status);
    remove_nulls(&mut status);
    status
}

/// Removes fields without a value: an API server does not store them, so that a status with such
/// fields would never be the stored one.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn state(ended: &Ended<'_>) -> &'static str {
    match ended {
        Ended::Deleting { .. } | Ended::Unreleased { .. } => "DELETING",
        Ended::Unresolved { .. }
        | Ended::Unseen { .. }
        | Ended::Unmanaged { .. }
        | Ended::Unkept { .. } => "ERROR",
        // What is there stays as it is, and nothing is under way.
        Ended::Suspended => "ACTIVE",
        Ended::Planned { plan, hindered, .. } => {
            match (
                is_wrong(plan, hindered),
                plan.are_resources_ready() && plan.prune.is_empty(),
            ) {
                (true, _) => "ERROR",
                (false, true) => "ACTIVE",
                (false, false) => "IN_PROGRESS",
            }
        }
    }
}

/// Whether something will not come right by waiting, of what is to be done or of what was made.
pub(super) fn has_failed(plan: &Plan, hindered: &Hindrances) -> bool {
    is_wrong(plan, hindered) || plan.nodes.iter().any(is_broken)
}

/// Whether something of what is to be done will not come right by waiting.
fn is_wrong(plan: &Plan, hindered: &Hindrances) -> bool {
    let Hindrances {
        refused,
        undeleted,
        unseen,
        unsure: _,
        lacks_rights: _,
        held: _,
        pending: _,
    } = hindered;
    let hindered = !refused.is_empty() || !undeleted.is_empty() || !unseen.is_empty();
    hindered || plan.nodes.iter().any(failed)
}

fn failed(standing: &Standing) -> bool {
    match standing {
        Standing::Failed(_) | Standing::Taken { .. } => true,
        Standing::NotReady(not) => matches!(not.why, Unready::Failed(_)),
        Standing::Excluded(_)
        | Standing::Blocked { .. }
        | Standing::Waiting(_)
        | Standing::Ending { .. }
        | Standing::Applying { .. }
        | Standing::Gated { .. }
        | Standing::Missing { .. }
        | Standing::Unseen
        | Standing::Ready => false,
    }
}

fn conditions(instance: &Value, ended: &Ended<'_>) -> Vec<Condition> {
    let passed_over = matches!(ended, Ended::Unresolved { .. } | Ended::Unseen { .. });
    let managed = match passed_over && !is_managed(instance) {
        true => Condition::unknown(MANAGED, "AwaitingReconciliation", ""),
        false => Condition::holds(MANAGED, "Managed", "the finalizer and labels are there"),
    };
    let resolved = Condition::holds(RESOLVED, "Resolved", "the graph is known");
    match ended {
        Ended::Planned {
            graph,
            plan,
            hindered,
            runs,
            behind: _,
        } => {
            // Written with what it is about: whoever reads that the instance is ready knows with
            // which revision.
            let resolved = Condition::holds(RESOLVED, "Resolved", &runs.told());
            vec![managed, resolved, resources(graph, plan, hindered)]
        }
        Ended::Unresolved { why } => vec![
            managed,
            Condition::fails(RESOLVED, "ResolutionFailed", why),
            Condition::unknown(RESOURCES, "AwaitingReconciliation", ""),
        ],
        Ended::Unmanaged { why } => vec![
            Condition::fails(MANAGED, "ManagementFailed", why),
            resolved,
            Condition::unknown(RESOURCES, "AwaitingReconciliation", ""),
        ],
        Ended::Unkept { why } => {
            let message = format!("what gates decided cannot be kept: {why}");
            let unknown = Condition::unknown(RESOURCES, "AwaitingReconciliation", "");
            let unkept = Condition::fails(PROPAGATED, GATE_ERROR, &message);
            vec![managed, resolved, unknown, unkept]
        }
        Ended::Unseen { why } => {
            let unseen = Condition::unknown(RESOURCES, "CannotObserve", why);
            vec![managed, resolved, unseen]
        }
        Ended::Unreleased { why } => {
            let message = format!("all that it made is gone, and it cannot be let go: {why}");
            let under = Condition::unknown(RESOURCES, "UnderDeletion", &message);
            vec![managed, resolved, under]
        }
        Ended::Suspended => {
            let message = "the annotation kro.run/reconcile suspends it";
            let suspended = Condition::fails(RESOURCES, "ReconciliationSuspended", message);
            vec![managed, resolved, suspended]
        }
        Ended::Deleting {
            waits_for,
            undeleted,
        } => {
            let names: Vec<String> = waits_for.iter().map(ToString::to_string).collect();
            let waits = (!names.is_empty())
                .then(|| format!("waits until these are gone: {}", names.join(", ")));
            let said: Vec<String> = waits.into_iter().chain(refusals(undeleted)).collect();
            let message = said.join("; ");
            let under = Condition::unknown(RESOURCES, "UnderDeletion", &message);
            vec![managed, resolved, under]
        }
    }
}

/// Whether it cannot go before its objects are gone.
pub(super) fn is_managed(instance: &Value) -> bool {
    let finalizers = instance["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|one| one == labels::FINALIZER))
}

/// What is told beside the conditions that it takes to be ready: an instance that its graph's gate
/// keeps at an earlier revision may be ready there, and so may one whose resources are kept at an
/// earlier content by gates of their own.
fn aside(instance: &Value, ended: &Ended<'_>) -> Vec<Condition> {
    match ended {
        Ended::Planned { hindered, .. } => {
            let pending = hindered.pending.iter();
            let pending = pending.map(|message| Condition::fails(PRUNED, "PrunePending", message));
            propagated(ended).into_iter().chain(pending).collect()
        }
        Ended::Deleting { .. } | Ended::Unreleased { .. } => Vec::new(),
        Ended::Unresolved { .. }
        | Ended::Unseen { .. }
        | Ended::Unmanaged { .. }
        | Ended::Unkept { .. }
        | Ended::Suspended => {
            // It is told later what was pending, and of which generation that was.
            let record = RecordedPass::read(instance).map(|record| record.message());
            let unknown =
                |message: String| Condition::unknown(PRUNED, "AwaitingReconciliation", &message);
            record.map(unknown).into_iter().collect()
        }
    }
}

/// Whether the instance is all that the newest revision makes of it, as far as gates and budgets go.
fn propagated(ended: &Ended<'_>) -> Option<Condition> {
    let Ended::Planned {
        graph,
        plan,
        hindered,
        behind,
        ..
    } = ended
    else {
        return None;
    };
    let behind = behind.map(|behind| (behind.kept.reason(), behind.message()));
    match (&hindered.held, behind) {
        (Some(held), None) => Some(Condition::fails(PROPAGATED, DELETIONS_HELD, held)),
        (Some(held), Some((_, behind))) => {
            let message = format!("{held}; {behind}");
            Some(Condition::fails(PROPAGATED, DELETIONS_HELD, &message))
        }
        (None, Some((reason, behind))) => Some(Condition::fails(PROPAGATED, reason, &behind)),
        (None, None) => gates_passed(graph, plan),
    }
}

fn resources(graph: &Graph, plan: &Plan, hindered: &Hindrances) -> Condition {
    let mut said: Vec<String> = Vec::new();
    let refused = hindered.refused.iter();
    said.extend(refused.map(|(id, why)| format!("{id} was refused: {why}")));
    said.extend(refusals(&hindered.undeleted));
    let unsure = hindered.unsure.keys();
    said.extend(unsure.map(|id| format!("whether {id} was applied is not known")));
    for (index, node) in graph.indexed() {
        let standing = &plan.nodes[index.get()];
        let why = match hindered.unseen.get(&index) {
            Some(why) => Some(format!("it cannot be seen: {why}")),
            // That was said.
            None if is_refused(plan, index, hindered) => None,
            None => why(graph, plan, index, standing),
        };
        said.extend(why.map(|why| format!("{}: {why}", node.id())));
        // What is not there is not ready; why it is not there is worth knowing.
        let absent = matches!(standing, Standing::Gated { .. });
        let gate = gated(plan, index).filter(|_| absent);
        said.extend(gate.map(|why| format!("{}: {why}", node.id())));
    }
    if !plan.prune.is_empty() {
        let ids: Vec<String> = plan
            .prune
            .iter()
            .map(|prune| prune.id.to_string())
            .collect();
        said.push(format!("being deleted: {}", ids.join(", ")));
    }
    if said.is_empty() {
        return Condition::holds(RESOURCES, "AllResourcesReady", "all resources are ready");
    }
    let ending = plan
        .nodes
        .iter()
        .any(|node| matches!(node, Standing::Ending { .. }));
    let broken = plan.nodes.iter().any(is_broken);
    let reason = match (broken, ending) {
        _ if hindered.lacks_rights => MISSING_RIGHTS,
        (true, _) => RESOURCE_FAILED,
        (false, true) => "ResourceDeleting",
        (false, false) => "NotReady",
    };
    Condition::fails(RESOURCES, reason, &said.join("; "))
}

/// Whether something of a node says of itself that it will not come right by waiting.
fn is_broken(standing: &Standing) -> bool {
    match standing {
        Standing::NotReady(not) => not.is_broken(),
        Standing::Gated { broken, .. } | Standing::Ending { broken, .. } => broken.is_some(),
        Standing::Excluded(_)
        | Standing::Blocked { .. }
        | Standing::Waiting(_)
        | Standing::Failed(_)
        | Standing::Taken { .. }
        | Standing::Applying { .. }
        | Standing::Missing { .. }
        | Standing::Unseen
        | Standing::Ready => false,
    }
}

/// Whether what is to be applied of a node is what the API refused.
fn is_refused(plan: &Plan, index: NodeIndex, hindered: &Hindrances) -> bool {
    let applying = matches!(plan.nodes[index.get()], Standing::Applying { .. });
    let mut applies = plan.apply.iter().filter(|one| one.node == index);
    applying && applies.all(|one| hindered.refused.contains_key(&one.id))
}

/// What may not be deleted, and why.
fn refusals(undeleted: &BTreeMap<ObjectId, String>) -> impl Iterator<Item = String> {
    let all = undeleted.iter();
    all.map(|(id, why)| format!("{id} may not be deleted: {why}"))
}

/// What gates keep back of a node.
fn gated(plan: &Plan, index: NodeIndex) -> Option<String> {
    let mut all = plan.gated(index);
    let Gated { id, verdict, .. } = all.next()?;
    let verdict = verdict.predicate();
    Some(match all.count() {
        0 => format!("the gate of {id} {verdict}"),
        more => format!("the gate of {id}, and of {more} more, {verdict}"),
    })
}

/// Whether all nodes are what they should be, ready or not, if the graph has gates.
fn gates_passed(graph: &Graph, plan: &Plan) -> Option<Condition> {
    if !graph.nodes().iter().any(Node::is_gated) {
        return None;
    }
    if plan.is_propagated() {
        let message = "all resources are what they should be";
        let holds = Condition::holds(PROPAGATED, "AllResourcesPropagated", message);
        return Some(holds);
    }
    let mut said = Vec::new();
    let mut failed = false;
    for (index, node) in graph.indexed() {
        let mut verdicts = plan.gated(index).map(|gated| &gated.verdict);
        failed |= verdicts.any(|verdict| verdict.reason() == GATE_ERROR);
        said.extend(gated(plan, index).map(|why| format!("{}: {why}", node.id())));
    }
    Some(match (said.is_empty(), failed) {
        // What it waits for is said elsewhere.
        (true, _) => Condition::fails(PROPAGATED, "Propagating", "not all resources are there"),
        (false, true) => Condition::fails(PROPAGATED, GATE_ERROR, &said.join("; ")),
        (false, false) => Condition::fails(PROPAGATED, "GateClosed", &said.join("; ")),
    })
}

/// Why a node is not ready, if it is not.
pub(super) fn why(
    graph: &Graph,
    plan: &Plan,
    index: NodeIndex,
    standing: &Standing,
) -> Option<String> {
    let id = |index: &NodeIndex| graph.node(*index).id().to_owned();
    Some(match standing {
        Standing::Ready | Standing::Excluded(Exclusion::Condition { .. } | Exclusion::With(_)) => {
            return None;
        }
        Standing::Blocked { on } => {
            let chain = plan.chain(index);
            let on: Vec<String> = on.iter().map(id).collect();
            match chain.last().filter(|_| chain.len() > 2) {
                Some(root) => format!("waits for {}, in the end for {}", on.join(", "), id(root)),
                None => format!("waits for {}", on.join(", ")),
            }
        }
        Standing::Waiting(wait) => {
            format!(
                "waits for unresolved {}, which {} reads",
                wait.path, wait.place
            )
        }
        Standing::Failed(wrong) => match &wrong.source {
            Some(source) => format!("{}: {} in {source}", wrong.place, wrong.message),
            None => format!("{}: {}", wrong.place, wrong.message),
        },
        Standing::Taken { id, owner } => format!("{id} belongs to {}", owner.0),
        Standing::Ending { id, broken } => {
            format!("{}{} is being deleted", first(broken), quoted(id))
        }
        Standing::Applying { objects } => format!("{objects} to be applied"),
        Standing::Gated { objects, broken } => {
            format!("{}{} may not be made yet", first(broken), objects.len())
        }
        Standing::Missing { id } => format!("{id} is not there"),
        Standing::Unseen => "it cannot be seen".to_owned(),
        Standing::NotReady(not) => not_ready(not),
    })
}

/// An object as kro writes it: people search for `resource "team/a"`.
fn quoted(id: &ObjectId) -> String {
    let kind = &id.gvk.kind;
    match id.namespace.as_str() {
        "" => format!("{kind} resource {:?}", id.name),
        namespace => format!("{kind} resource \"{namespace}/{}\"", id.name),
    }
}

/// What is broken, before something else is said.
fn first(broken: &Option<NotReady>) -> String {
    let broken = broken.iter().map(|one| format!("{}; ", not_ready(one)));
    broken.collect()
}

fn not_ready(not: &NotReady) -> String {
    match &not.broken {
        Some(broken) => format!("{} failed: {broken}; {}", not.id, unready(&not.why)),
        None => format!("{} is not ready: {}", not.id, unready(&not.why)),
    }
}

fn unready(why: &Unready) -> String {
    match why {
        Unready::Condition { source } => format!("{source} is false"),
        Unready::Waiting(wait) => format!("waits for {}", wait.path),
        Unready::Failed(wrong) => wrong.message.clone(),
        Unready::Stale {
            observed,
            generation,
        } => format!("its status is of generation {observed}, and it is at {generation}"),
    }
}

// === impl Hindrances ===

impl Hindrances {
    /// Whether the API said no to something.
    pub(super) fn is_refused(&self) -> bool {
        !self.refused.is_empty() || !self.undeleted.is_empty()
    }
}

#[cfg(test)]
mod tests;
