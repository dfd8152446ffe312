//! What the status of an instance says: its state, its conditions, and the author's fields. Pure.

use std::collections::BTreeMap;

use deltaplane_api::time::Time;
use deltaplane_graph::observed::ObjectId;
use deltaplane_graph::plan::{Exclusion, Plan, Standing, Unready};
use deltaplane_graph::{Graph, NodeIndex};
use serde_json::{Map, Value};

use super::conditions::{Condition, written};

/// How a pass over an instance ended.
pub(super) enum Ended<'a> {
    /// It was planned, and what could be done was; what the API refused, and why.
    Planned {
        graph: &'a Graph,
        plan: &'a Plan,
        refused: &'a BTreeMap<ObjectId, String>,
    },
    /// There is nothing to plan with.
    Unresolved { why: &'a str },
    /// The owner said so.
    Suspended,
    /// It is being deleted.
    Deleting { waits_for: &'a [ObjectId] },
}

const MANAGED: &str = "InstanceManaged";
const RESOLVED: &str = "GraphResolved";
const RESOURCES: &str = "ResourcesReady";

/// The new status of an instance.
pub(super) fn status(instance: &Value, ended: &Ended<'_>, now: Time) -> Value {
    let before = &instance["status"];
    let mut status: Map<String, Value> = match ended {
        Ended::Planned { plan, .. } => plan.status.value.as_object().cloned().unwrap_or_default(),
        Ended::Unresolved { .. } | Ended::Suspended | Ended::Deleting { .. } => {
            before.as_object().cloned().unwrap_or_default()
        }
    };
    let generation = instance["metadata"]["generation"].as_i64().unwrap_or(0);
    let conditions = written(&conditions(ended), &before["conditions"], generation, now);
    status.insert("conditions".to_owned(), conditions);
    status.insert("state".to_owned(), state(ended).into());
    Value::Object(status)
}

fn state(ended: &Ended<'_>) -> &'static str {
    match ended {
        Ended::Deleting { .. } => "DELETING",
        Ended::Unresolved { .. } => "ERROR",
        Ended::Suspended => "IN_PROGRESS",
        Ended::Planned { plan, refused, .. } => {
            match (
                is_wrong(plan, refused),
                plan.is_ready() && plan.prune.is_empty(),
            ) {
                (true, _) => "ERROR",
                (false, true) => "ACTIVE",
                (false, false) => "IN_PROGRESS",
            }
        }
    }
}

/// Whether something will not come right by waiting.
pub(super) fn is_wrong(plan: &Plan, refused: &BTreeMap<ObjectId, String>) -> bool {
    plan.nodes.iter().any(failed) || !refused.is_empty()
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
        | Standing::Ready => false,
    }
}

fn conditions(ended: &Ended<'_>) -> Vec<Condition> {
    let managed = Condition::holds(MANAGED, "Managed", "the finalizer and labels are there");
    let resolved = Condition::holds(RESOLVED, "Resolved", "the graph is known");
    match ended {
        Ended::Planned {
            graph,
            plan,
            refused,
        } => vec![managed, resolved, resources(graph, plan, refused)],
        Ended::Unresolved { why } => vec![
            managed,
            Condition::fails(RESOLVED, "ResolutionFailed", why),
            Condition::unknown(RESOURCES, "AwaitingReconciliation", ""),
        ],
        Ended::Suspended => {
            let message = "the annotation kro.run/reconcile suspends it";
            let suspended = Condition::fails(RESOURCES, "ReconciliationSuspended", message);
            vec![managed, resolved, suspended]
        }
        Ended::Deleting { waits_for } => {
            let names: Vec<String> = waits_for.iter().map(ToString::to_string).collect();
            let message = match names.as_slice() {
                [] => String::new(),
                names => format!("waits until these are gone: {}", names.join(", ")),
            };
            let under = Condition::unknown(RESOURCES, "UnderDeletion", &message);
            vec![managed, resolved, under]
        }
    }
}

fn resources(graph: &Graph, plan: &Plan, refused: &BTreeMap<ObjectId, String>) -> Condition {
    let mut said: Vec<String> = Vec::new();
    let refusals = refused.iter();
    said.extend(refusals.map(|(id, why)| format!("{id} was refused: {why}")));
    for (index, node) in graph.indexed() {
        let standing = &plan.nodes[index.get()];
        if let Some(why) = why(graph, plan, index, standing) {
            said.push(format!("{}: {why}", node.id()));
        }
        if let Some(gated) = plan.gated(index).next() {
            let (id, verdict) = (&gated.id, &gated.verdict);
            let more = plan.gated(index).count() - 1;
            let more = if more > 0 {
                format!(", and {more} more")
            } else {
                String::new()
            };
            said.push(format!(
                "{}: the gate of {id}{more} is {verdict}",
                node.id()
            ));
        }
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
    let reason = match ending {
        true => "ResourceDeleting",
        false => "NotReady",
    };
    Condition::fails(RESOURCES, reason, &said.join("; "))
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
        Standing::Waiting(wait) => format!("waits for {}, which {} reads", wait.path, wait.place),
        Standing::Failed(wrong) => match &wrong.source {
            Some(source) => format!("{}: {} in {source}", wrong.place, wrong.message),
            None => format!("{}: {}", wrong.place, wrong.message),
        },
        Standing::Taken { id, owner } => format!("{id} belongs to {}", owner.0),
        Standing::Ending { id } => format!("{id} is being deleted"),
        Standing::Applying { objects } => format!("{objects} to be applied"),
        Standing::Gated { objects } => format!("{} may not be made yet", objects.len()),
        Standing::Missing { id } => format!("{id} is not there"),
        Standing::NotReady(not) => format!("{} is not ready: {}", not.id, unready(&not.why)),
    })
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
