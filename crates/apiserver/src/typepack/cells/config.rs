//! Configuration, quotas, leases and events.

use serde_json::Value;

use super::{Row, age, or, printed};

pub(super) fn config_map(row: Row<'_>) -> Vec<Value> {
    let count = row.count("/data") + row.count("/binaryData");
    vec![row.name(), count.into(), row.age()]
}

pub(super) fn secret(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("/type").into(),
        row.count("/data").into(),
        row.age(),
    ]
}

pub(super) fn namespace(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text("/status/phase").into(), row.age()]
}

pub(super) fn quota(row: Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let used = row.map("/status/used");
    for (name, hard) in row.map("/status/hard").into_iter().flatten() {
        let zero = || "0".to_owned();
        let used = printed(used.and_then(|used| used.get(name))).unwrap_or_else(zero);
        let text = format!(
            "{name}: {used}/{}",
            printed(Some(hard)).unwrap_or_else(zero)
        );
        match name.starts_with("limits.") {
            true => limits.push(text),
            false => requests.push(text),
        }
    }
    requests.sort();
    limits.sort();
    vec![
        row.name(),
        requests.join(", ").into(),
        limits.join(", ").into(),
        row.age(),
    ]
}

pub(super) fn lease(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("/spec/holderIdentity").into(),
        row.age(),
    ]
}

/// Where the two versions of events keep the same things.
struct EventFields {
    first: &'static str,
    last: &'static str,
    count: &'static str,
    object: &'static str,
    message: &'static str,
    component: &'static str,
    host: &'static str,
    controller: &'static str,
}

const CORE_EVENT: EventFields = EventFields {
    first: "/firstTimestamp",
    last: "/lastTimestamp",
    count: "/count",
    object: "/involvedObject",
    message: "/message",
    component: "/source/component",
    host: "/source/host",
    controller: "/reportingComponent",
};

const EVENT: EventFields = EventFields {
    first: "/deprecatedFirstTimestamp",
    last: "/deprecatedLastTimestamp",
    count: "/deprecatedCount",
    object: "/regarding",
    message: "/note",
    component: "/deprecatedSource/component",
    host: "/deprecatedSource/host",
    controller: "/reportingController",
};

pub(super) fn core_event(row: Row<'_>) -> Vec<Value> {
    event_cells(row, &CORE_EVENT)
}

pub(super) fn event(row: Row<'_>) -> Vec<Value> {
    event_cells(row, &EVENT)
}

fn event_cells(row: Row<'_>, at: &EventFields) -> Vec<Value> {
    let either = |first: &str, second: &str| match row.text(first) {
        "" => row.text(second).to_owned(),
        text => text.to_owned(),
    };
    let first = either(at.first, "/eventTime");
    let (last, count) = match row.at("/series") {
        Some(_) => (
            row.text("/series/lastObservedTime").to_owned(),
            row.number("/series/count"),
        ),
        None => (
            or(row.text(at.last).to_owned(), &first),
            row.number(at.count).max(1),
        ),
    };
    let (kind, name) = (
        row.text(&format!("{}/kind", at.object)),
        row.text(&format!("{}/name", at.object)),
    );
    let object = match (kind.to_lowercase(), name) {
        (kind, "") => kind,
        (kind, name) => format!("{kind}/{name}"),
    };
    let component = either(at.component, at.controller);
    let source = match either(at.host, "/reportingInstance").as_str() {
        "" => component,
        instance => format!("{component}, {instance}"),
    };
    vec![
        age(&last, row.now).into(),
        row.text("/type").into(),
        row.text("/reason").into(),
        object.into(),
        row.text(&format!("{}/fieldPath", at.object)).into(),
        source.into(),
        row.text(at.message).trim().into(),
        age(&first, row.now).into(),
        count.into(),
        row.name(),
    ]
}
