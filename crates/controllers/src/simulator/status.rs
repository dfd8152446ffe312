//! The statuses of simulated objects, in Kubernetes' words. Pure.
//!
//! Invariants: what is made for a stage that the status shows already is that status, times
//! included; counts that are zero are left out where Kubernetes leaves them out.

mod claims;
mod jobs;
mod pods;
mod workloads;

use serde_json::{Map, Value, json};

use deltaplane_api::time::Time;

use crate::condition::{self, Condition, Wanted};

use super::kind::Kind;
use super::object::Object;

/// How far it is with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    UnderWay,
    Healthy,
    Failed,
}

/// The status of the object at a stage, which begins now if the status does not show it yet.
pub(super) fn status(kind: Kind, object: &Object, stage: Stage, now: Time) -> Value {
    match kind {
        // Nothing is ever made of them.
        Kind::ControllerRevision => Value::Null,
        Kind::DaemonSet => workloads::daemon_set(object, stage),
        Kind::Deployment => workloads::deployment(object, stage, now),
        Kind::Ingress => claims::ingress(object, stage),
        Kind::Job => jobs::job(object, stage, now),
        Kind::PersistentVolumeClaim => claims::volume(object, stage),
        Kind::Pod => pods::pod(object, stage, now),
        Kind::ReplicaSet => workloads::replica_set(object, stage),
        Kind::Service => claims::service(object, stage),
        Kind::StatefulSet => workloads::stateful_set(object, stage),
    }
}

/// Conditions as wanted, each with the time since when it is so.
fn conditions(object: &Object, wanted: Vec<Wanted>, now: Time) -> Vec<Condition> {
    let before = conditions_of(object);
    let since = |wanted: Wanted| {
        let same = before.iter().filter(|one| one.r#type == wanted.r#type);
        let mut conditions: Vec<Condition> = same.take(1).cloned().collect();
        condition::set(&mut conditions, wanted, now);
        conditions
    };
    wanted.into_iter().flat_map(since).collect()
}

fn conditions_of(object: &Object) -> Vec<Condition> {
    let conditions = object.status["conditions"].clone();
    serde_json::from_value(conditions).unwrap_or_default()
}

/// A message that says that it is simulated, and why it does not go as usual.
fn message(object: &Object, text: &str) -> String {
    match object.order.why.as_str() {
        "" => format!("simulated: {text}"),
        why => format!("simulated: {text} ({why})"),
    }
}

/// Counts that are always there, and counts that are there unless they are zero.
fn counts(always: &[(&str, i64)], nonzero: &[(&str, i64)]) -> Map<String, Value> {
    let some = nonzero.iter().filter(|(_, count)| *count != 0);
    let all = always.iter().chain(some);
    all.map(|(name, count)| ((*name).to_owned(), json!(count)))
        .collect()
}

/// The time that is there already, or now.
fn kept(time: &Value, now: Time) -> Value {
    match time {
        Value::String(_) => time.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            now.to_value()
        }
    }
}
