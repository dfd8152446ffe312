//! Nodes, and what is scheduled onto them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{NONE, Row, UNKNOWN, field, or};

pub(super) fn node(row: Row<'_>) -> Vec<Value> {
    let mut status = match row.condition("Ready") {
        Some(condition) if field(condition, "status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if row.flag("/spec/unschedulable") == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let addresses = row.list("/status/addresses").iter();
        let found = addresses
            .into_iter()
            .find(|address| field(address, "type") == kind);
        found
            .map_or(NONE, |address| field(address, "address"))
            .to_owned()
    };
    let kernel = or(
        row.text("/status/nodeInfo/kernelVersion").to_owned(),
        UNKNOWN,
    );
    let kernel = match row.text("/status/nodeInfo/architecture") {
        "" => kernel,
        architecture => format!("{kernel} ({architecture})"),
    };
    vec![
        row.name(),
        status.into(),
        or(roles(row), NONE).into(),
        row.age(),
        row.text("/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        row.text_or("/status/nodeInfo/osImage", UNKNOWN),
        kernel.into(),
        row.text_or("/status/nodeInfo/containerRuntimeVersion", UNKNOWN),
    ]
}

fn roles(row: Row<'_>) -> String {
    let labels = row.map("/metadata/labels").into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role),
                None if key == "kubernetes.io/role" => value.as_str(),
                None => None,
            },
        )
        .filter(|role| !role.is_empty())
        .collect();
    roles.into_iter().collect::<Vec<_>>().join(",")
}

pub(super) fn runtime_class(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text("/handler").into(), row.age()]
}

pub(super) fn priority_class(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.number("/value").into(),
        row.flag("/globalDefault").unwrap_or(false).into(),
        row.age(),
        row.text("/preemptionPolicy").into(),
    ]
}

pub(super) fn resource_claim(row: Row<'_>) -> Vec<Value> {
    let mut states = Vec::new();
    if row.is_deleted() {
        states.push("deleted");
    }
    match row.at("/status/allocation") {
        None if row.is_deleted() => {}
        None => states.push("pending"),
        Some(_) => {
            states.push("allocated");
            if row.count("/status/reservedFor") > 0 {
                states.push("reserved");
            }
        }
    }
    vec![row.name(), states.join(",").into(), row.age()]
}

pub(super) fn resource_slice(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("/spec/nodeName").into(),
        row.text("/spec/driver").into(),
        row.text("/spec/pool/name").into(),
        row.age(),
    ]
}
