//! What is kept of an object that is simulated. Pure.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use deltaplane_client::Item;
use deltaplane_client::header::null_as_default;

use super::kind::Kind;
use super::order::{self, Order};
use super::{MANAGER, digest};

/// An object that is simulated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) generation: i64,
    pub(super) spec: Value,
    pub(super) status: Value,
    pub(super) order: Order,
    /// Changes with whatever begins a rollout.
    pub(super) asked: u64,
    /// A Pod of a Job, which ends when its work is done.
    pub(super) completes: bool,
    annotations: Value,
    revision: String,
}

/// Who finishes Jobs that do not name another.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

#[derive(Deserialize)]
struct Body {
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    annotations: Value,
    #[serde(default, deserialize_with = "null_as_default")]
    managed_fields: Vec<Managed>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Managed {
    manager: String,
    fields_v1: Value,
}

// === impl Object ===

impl Object {
    /// None if its status is not to be simulated: somebody else writes it, or it is going.
    pub(super) fn of(kind: Kind, item: &Item) -> Option<Self> {
        let header = &item.header;
        let Body {
            metadata,
            spec,
            status,
        } = item.parse().ok()?;
        let is_foreign = is_managed_elsewhere(kind, &spec);
        if header.is_deleting() || is_foreign || !is_free(&metadata.managed_fields, &status) {
            return None;
        }
        let template = &spec["template"];
        let pod = match kind {
            Kind::Pod => &spec,
            Kind::DaemonSet
            | Kind::Deployment
            | Kind::Job
            | Kind::ReplicaSet
            | Kind::StatefulSet => &template["spec"],
            Kind::Ingress | Kind::PersistentVolumeClaim | Kind::Service => &Value::Null,
            Kind::ControllerRevision => return None,
        };
        let controller = header
            .owner_references
            .iter()
            .find(|one| one.controller == Some(true));
        let order = Order::of(&metadata.annotations, template, pod);
        let asked = format!("{} {order:?} {spec}", header.uid);
        Some(Self {
            name: header.name.clone(),
            namespace: header.namespace.clone(),
            uid: header.uid.clone(),
            generation: header.generation,
            status,
            order,
            asked: digest::of(&asked),
            completes: kind == Kind::Pod && controller.is_some_and(|one| one.kind == "Job"),
            annotations: metadata.annotations,
            revision: header.resource_version.clone(),
            spec,
        })
    }

    /// An annotation; empty if there is none.
    pub(super) fn annotation(&self, key: &str) -> &str {
        self.annotations[key].as_str().unwrap_or_default()
    }

    /// How its author wants it to be simulated.
    pub(super) fn simulate(&self) -> &str {
        self.annotation(order::ANNOTATION)
    }

    /// The Pods of a Job that run at one time.
    pub(super) fn active_pods(&self) -> i64 {
        let parallelism = self.number("parallelism").unwrap_or(1);
        parallelism.min(self.completions())
    }

    /// The Pods of a Job that have to succeed.
    pub(super) fn completions(&self) -> i64 {
        let parallelism = self.number("parallelism").unwrap_or(1);
        self.number("completions").unwrap_or(parallelism)
    }

    /// Returns true if a Job has ended, whichever way.
    pub(super) fn is_finished(&self) -> bool {
        let conditions = self.status["conditions"].as_array().into_iter().flatten();
        let is_end = |one: &Value| {
            (one["type"] == "Complete" || one["type"] == "Failed") && one["status"] == "True"
        };
        conditions.into_iter().any(is_end)
    }

    /// What tells its templates apart.
    pub(super) fn template_hash(&self) -> String {
        digest::of_template(&self.spec["template"])
    }

    /// A number in `spec`.
    pub(super) fn number(&self, field: &str) -> Option<i64> {
        self.spec[field].as_i64()
    }

    /// The name of what is made of the present template.
    pub(super) fn revision_name(&self) -> String {
        format!("{}-{}", self.name, self.template_hash())
    }

    /// That it is this object, as it was seen.
    pub(super) fn precondition(&self) -> Value {
        json!({"name": self.name, "namespace": self.namespace, "uid": self.uid,
            "resourceVersion": self.revision})
    }
}

/// Returns true for a Job that names another controller than Kubernetes' own.
fn is_managed_elsewhere(kind: Kind, spec: &Value) -> bool {
    let manager = spec["managedBy"].as_str().unwrap_or(JOB_CONTROLLER);
    kind == Kind::Job && manager != JOB_CONTROLLER
}

/// Whether nobody but the simulator has written a status.
fn is_free(managed: &[Managed], status: &Value) -> bool {
    let mut writers = managed
        .iter()
        .filter(|one| !one.fields_v1["f:status"].is_null())
        .map(|one| one.manager.as_str())
        .peekable();
    match writers.peek() {
        Some(_) => writers.all(|writer| writer == MANAGER),
        None => is_blank(status),
    }
}

/// Whether a status says no more than what API servers put into new objects.
fn is_blank(status: &Value) -> bool {
    let mut fields = status.as_object().into_iter().flatten();
    fields.all(|(field, value)| match value.as_str() {
        Some(text) => field == "qosClass" || (field == "phase" && text == "Pending"),
        None => is_empty(value),
    })
}

/// Whether two statuses mean the same: whether what is empty or zero is there or not depends on
/// the field, and is the API server's business.
pub(super) fn is_same<'a>(one: &'a Value, other: &'a Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut fields = one.keys().chain(other.keys());
            fields.all(|field| {
                let of = |map: &'a Map<String, Value>| map.get(field).unwrap_or(&Value::Null);
                is_same(of(one), of(other))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => one
            .iter()
            .zip(other)
            .all(|(one, other)| is_same(one, other)),
        (one, other) => one == other || (is_empty(one) && is_empty(other)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(holds) => !holds,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_mean_nothing() {
        let check = |one: Value, other: Value, expected: bool| {
            assert_eq!(is_same(&one, &other), expected, "{one} {other}");
            assert_eq!(is_same(&other, &one), expected, "{other} {one}");
        };
        check(json!(null), json!({"a": 0, "b": {"c": [], "d": ""}}), true);
        check(json!({"a": 1}), json!({"a": 1, "b": false}), true);
        check(json!({"a": 1}), json!({"a": 0}), false);
        check(json!({"a": 1}), json!({}), false);
        check(json!([{"a": 1, "b": 0}]), json!([{"a": 1}]), true);
        check(json!([{"a": 1}]), json!([{"a": 1}, {}]), false);
        check(json!({"a": {}}), json!({"a": {"b": "x"}}), false);
    }
}
