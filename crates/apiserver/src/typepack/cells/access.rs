//! Who may do what: bindings, certificates, admission, flow control.

use deltaplane_api::time::human_duration;
use serde_json::Value;

use super::{NONE, Row, UNSET, field, or, selector};

pub(super) fn role_binding(row: Row<'_>) -> Vec<Value> {
    let role = format!(
        "{}/{}",
        row.text("/roleRef/kind"),
        row.text("/roleRef/name")
    );
    let of_kind = |kind: &str| {
        let subjects = row
            .list("/subjects")
            .iter()
            .filter(|subject| field(subject, "kind") == kind);
        let names = subjects.map(|subject| match field(subject, "namespace") {
            namespace if kind == "ServiceAccount" => {
                format!("{namespace}/{}", field(subject, "name"))
            }
            _ => field(subject, "name").to_owned(),
        });
        Value::String(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        row.name(),
        role.into(),
        row.age(),
        of_kind("User"),
        of_kind("Group"),
        of_kind("ServiceAccount"),
    ]
}

pub(super) fn signing_request(row: Row<'_>) -> Vec<Value> {
    let has = |kind: &str| row.condition(kind).is_some();
    let mut status = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !row.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let duration = row
        .at("/spec/expirationSeconds")
        .and_then(Value::as_i64)
        .map(human_duration);
    vec![
        row.name(),
        row.age(),
        row.text_or("/spec/signerName", NONE),
        row.text("/spec/username").into(),
        duration.unwrap_or_else(|| NONE.to_owned()).into(),
        status.into(),
    ]
}

pub(super) fn webhooks(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.count("/webhooks").into(), row.age()]
}

pub(super) fn validating_policy(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.count("/spec/validations").into(),
        param_kind(row).into(),
        row.age(),
    ]
}

pub(super) fn mutating_policy(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.count("/spec/mutations").into(),
        param_kind(row).into(),
        row.age(),
    ]
}

fn param_kind(row: Row<'_>) -> String {
    let kind = row.at("/spec/paramKind");
    kind.map_or_else(
        || UNSET.to_owned(),
        |kind| format!("{}/{}", field(kind, "apiVersion"), field(kind, "kind")),
    )
}

pub(super) fn policy_binding(row: Row<'_>) -> Vec<Value> {
    let param = match (
        row.text("/spec/paramRef/name"),
        row.text("/spec/paramRef/namespace"),
    ) {
        ("", _) => or(selector(row.at("/spec/paramRef/selector")), UNSET),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    };
    vec![
        row.name(),
        row.text("/spec/policyName").into(),
        param.into(),
        row.age(),
    ]
}

pub(super) fn flow_schema(row: Row<'_>) -> Vec<Value> {
    let dangling = row
        .condition("Dangling")
        .map_or("?", |condition| field(condition, "status"));
    vec![
        row.name(),
        row.text("/spec/priorityLevelConfiguration/name").into(),
        row.number("/spec/matchingPrecedence").into(),
        row.text_or("/spec/distinguisherMethod/type", NONE),
        row.age(),
        dangling.into(),
    ]
}

pub(super) fn priority_level(row: Row<'_>) -> Vec<Value> {
    let number = |pointer: &str| row.at(pointer).cloned().unwrap_or_else(|| NONE.into());
    vec![
        row.name(),
        row.text("/spec/type").into(),
        number("/spec/limited/nominalConcurrencyShares"),
        number("/spec/limited/limitResponse/queuing/queues"),
        number("/spec/limited/limitResponse/queuing/handSize"),
        number("/spec/limited/limitResponse/queuing/queueLengthLimit"),
        row.age(),
    ]
}
