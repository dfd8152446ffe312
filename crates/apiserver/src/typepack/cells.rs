//! The cells of a Table's row, as the real server computes them for its own kinds.
//!
//! Columns are data (in the pack); what goes into them is code here, one function per kind, on
//! JSON. Every row is complete: the wide columns too, which clients hide by priority.
//!
//! Not here: rows of custom resources, whose columns are paths.
//!
//! Invariant: a row has as many cells as its kind has columns, whatever the object looks like.

mod access;
mod config;
mod networks;
mod nodes;
mod pods;
mod storage;
mod workloads;

use deltaplane_api::time::{Time, human_duration};
use serde_json::{Map, Value};

use super::Kind;

/// What is printed where there is nothing.
const NONE: &str = "<none>";
const UNSET: &str = "<unset>";
const UNKNOWN: &str = "<unknown>";

/// An object and the time at which it is looked at.
#[derive(Clone, Copy)]
struct Row<'a> {
    object: &'a Value,
    now: Time,
}

type Cells = fn(Row<'_>) -> Vec<Value>;

/// By group and kind; kinds that are not here have a name and an age.
const PRINTERS: &[(&str, &str, Cells)] = &[
    ("", "ConfigMap", config::config_map),
    ("", "Endpoints", networks::endpoints),
    ("", "Event", config::core_event),
    ("", "Namespace", config::namespace),
    ("", "Node", nodes::node),
    ("", "PersistentVolume", storage::volume),
    ("", "PersistentVolumeClaim", storage::claim),
    ("", "Pod", pods::pod),
    ("", "PodTemplate", pods::template),
    (
        "",
        "ReplicationController",
        workloads::replication_controller,
    ),
    ("", "ResourceQuota", config::quota),
    ("", "Secret", config::secret),
    ("", "Service", networks::service),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy",
        access::mutating_policy,
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        access::policy_binding,
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        access::webhooks,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        access::validating_policy,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        access::policy_binding,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        access::webhooks,
    ),
    ("apps", "ControllerRevision", workloads::revision),
    ("apps", "DaemonSet", workloads::daemon_set),
    ("apps", "Deployment", workloads::deployment),
    ("apps", "ReplicaSet", workloads::replica_set),
    ("apps", "StatefulSet", workloads::stateful_set),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        workloads::autoscaler,
    ),
    ("batch", "CronJob", workloads::cron_job),
    ("batch", "Job", workloads::job),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        access::signing_request,
    ),
    ("coordination.k8s.io", "Lease", config::lease),
    (
        "discovery.k8s.io",
        "EndpointSlice",
        networks::endpoint_slice,
    ),
    ("events.k8s.io", "Event", config::event),
    (
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        access::flow_schema,
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        access::priority_level,
    ),
    ("networking.k8s.io", "IPAddress", networks::ip_address),
    ("networking.k8s.io", "Ingress", networks::ingress),
    ("networking.k8s.io", "IngressClass", networks::ingress_class),
    (
        "networking.k8s.io",
        "NetworkPolicy",
        networks::network_policy,
    ),
    ("networking.k8s.io", "ServiceCIDR", networks::service_cidr),
    ("node.k8s.io", "RuntimeClass", nodes::runtime_class),
    (
        "policy",
        "PodDisruptionBudget",
        workloads::disruption_budget,
    ),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        access::role_binding,
    ),
    (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        access::role_binding,
    ),
    ("resource.k8s.io", "ResourceClaim", nodes::resource_claim),
    ("resource.k8s.io", "ResourceSlice", nodes::resource_slice),
    ("scheduling.k8s.io", "PriorityClass", nodes::priority_class),
    ("storage.k8s.io", "CSIDriver", storage::csi_driver),
    ("storage.k8s.io", "CSINode", storage::csi_node),
    ("storage.k8s.io", "StorageClass", storage::storage_class),
    ("storage.k8s.io", "VolumeAttachment", storage::attachment),
    (
        "storage.k8s.io",
        "VolumeAttributesClass",
        storage::attributes_class,
    ),
];

/// One row, with as many cells as the kind has columns.
pub fn cells(kind: &Kind, object: &Value, now: Time) -> Vec<Value> {
    let row = Row { object, now };
    let printer = PRINTERS
        .iter()
        .find(|(group, name, _)| (*group, *name) == (kind.group, kind.kind));
    match printer {
        Some((_, _, cells)) => cells(row),
        None => plain(kind, row),
    }
}

/// The time since a timestamp as kubectl prints ages; `<unknown>` when there is none,
/// `<invalid>` when it is not one.
pub fn age(timestamp: &str, now: Time) -> String {
    match timestamp.parse::<Time>() {
        Ok(time) => human_duration(now.seconds_since(time)),
        Err(_) if timestamp.is_empty() => UNKNOWN.to_owned(),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// A name, and an age or the moment of creation.
fn plain(kind: &Kind, row: Row<'_>) -> Vec<Value> {
    let created = row.text("/metadata/creationTimestamp");
    let cell = |column: &super::Column| match (column.name, column.r#type) {
        ("Name", _) => row.name(),
        (_, "date") => Value::from(created),
        ("Age", _) => row.age(),
        _ => Value::from(""),
    };
    kind.columns.iter().map(cell).collect()
}

// === impl Row ===

impl<'a> Row<'a> {
    fn at(self, pointer: &str) -> Option<&'a Value> {
        self.object
            .pointer(pointer)
            .filter(|value| !value.is_null())
    }

    /// The text there, or nothing.
    fn text(self, pointer: &str) -> &'a str {
        self.at(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The text there, or what stands for nothing.
    fn text_or(self, pointer: &str, nothing: &'a str) -> Value {
        match self.text(pointer) {
            "" => Value::from(nothing),
            text => Value::from(text),
        }
    }

    fn number(self, pointer: &str) -> i64 {
        self.at(pointer).and_then(Value::as_i64).unwrap_or_default()
    }

    fn flag(self, pointer: &str) -> Option<bool> {
        self.at(pointer).and_then(Value::as_bool)
    }

    fn list(self, pointer: &str) -> &'a [Value] {
        self.at(pointer)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    fn map(self, pointer: &str) -> Option<&'a Map<String, Value>> {
        self.at(pointer).and_then(Value::as_object)
    }

    /// How many entries a list or map has.
    fn count(self, pointer: &str) -> i64 {
        let count = match self.at(pointer) {
            Some(Value::Array(list)) => list.len(),
            Some(Value::Object(map)) => map.len(),
            Some(_) | None => 0,
        };
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    fn name(self) -> Value {
        Value::from(self.text("/metadata/name"))
    }

    fn age(self) -> Value {
        self.since("/metadata/creationTimestamp")
    }

    fn since(self, pointer: &str) -> Value {
        Value::String(age(self.text(pointer), self.now))
    }

    fn is_deleted(self) -> bool {
        self.at("/metadata/deletionTimestamp").is_some()
    }

    /// The condition of a type, if the object has it.
    fn condition(self, kind: &str) -> Option<&'a Value> {
        self.list("/status/conditions")
            .iter()
            .find(|condition| field(condition, "type") == kind)
    }

    fn is_condition_true(self, kind: &str) -> bool {
        self.condition(kind)
            .is_some_and(|condition| field(condition, "status") == "True")
    }
}

/// A text field of an item.
fn field<'a>(item: &'a Value, name: &str) -> &'a str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Texts of a field of every item, joined by commas.
fn joined(items: &[Value], name: &str) -> String {
    items
        .iter()
        .map(|item| field(item, name))
        .collect::<Vec<_>>()
        .join(",")
}

/// A list of texts, joined.
fn texts(items: &[Value], separator: &str) -> String {
    items
        .iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(separator)
}

fn or(text: String, nothing: &str) -> String {
    if text.is_empty() {
        nothing.to_owned()
    } else {
        text
    }
}

/// The first few, and how many more.
fn shortened(mut list: Vec<String>, most: usize, separator: &str) -> String {
    let count = list.len();
    list.truncate(most);
    let shown = list.join(separator);
    match count > most {
        true => format!("{shown} + {} more...", count - most),
        false => shown,
    }
}

/// Labels as `a=b,c=d`, or `<none>`.
fn labels(map: Option<&Map<String, Value>>) -> String {
    let mut pairs: Vec<String> = map
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort();
    or(pairs.join(","), NONE)
}

/// A label selector in the form that clients type; empty when it selects everything or nothing.
fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else {
        return String::new();
    };
    let row = Row {
        object: selector,
        now: Time::from_unix(0),
    };
    let mut terms: Vec<(String, String)> = Vec::new();
    for (key, value) in row.map("/matchLabels").into_iter().flatten() {
        terms.push((
            key.clone(),
            format!("{key}={}", value.as_str().unwrap_or_default()),
        ));
    }
    for expression in row.list("/matchExpressions") {
        let key = field(expression, "key");
        let mut values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match field(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<invalid>".to_owned(),
        };
        terms.push((key.to_owned(), term));
    }
    // By key only and stable, which is how the real one keeps its requirements.
    terms.sort_by(|left, right| left.0.cmp(&right.0));
    terms
        .into_iter()
        .map(|(_, term)| term)
        .collect::<Vec<_>>()
        .join(",")
}

/// The name, marked when an annotation makes it the default.
fn marked(row: Row<'_>, annotations: &[&str]) -> Value {
    let set = row.map("/metadata/annotations");
    let is_default = annotations
        .iter()
        .any(|name| set.and_then(|set| set.get(*name)).and_then(Value::as_str) == Some("true"));
    let name = row.text("/metadata/name");
    if is_default {
        format!("{name} (default)").into()
    } else {
        name.into()
    }
}

/// A number or a string, printed.
fn printed(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests;
