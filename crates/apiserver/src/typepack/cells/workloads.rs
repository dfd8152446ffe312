//! Controllers of pods: how many are wanted and how many there are.

use deltaplane_api::time::human_duration;
use serde_json::Value;

use super::{NONE, Row, UNKNOWN, UNSET, field, joined, labels, or, printed, selector, shortened};

/// Names and images of containers, for wide output.
fn containers(row: Row<'_>, pointer: &str) -> [Value; 2] {
    let list = row.list(pointer);
    [joined(list, "name").into(), joined(list, "image").into()]
}

const TEMPLATE: &str = "/spec/template/spec/containers";

fn selected(row: Row<'_>, pointer: &str) -> Value {
    Value::String(or(selector(row.at(pointer)), NONE))
}

pub(super) fn replication_controller(row: Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, TEMPLATE);
    let selector = labels(row.map("/spec/selector")).into();
    let mut cells = replicas(row);
    cells.extend([names, images, selector]);
    cells
}

pub(super) fn replica_set(row: Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, TEMPLATE);
    let mut cells = replicas(row);
    cells.extend([names, images, selected(row, "/spec/selector")]);
    cells
}

fn replicas(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.number("/spec/replicas").into(),
        row.number("/status/replicas").into(),
        row.number("/status/readyReplicas").into(),
        row.age(),
    ]
}

fn ready(row: Row<'_>) -> Value {
    format!(
        "{}/{}",
        row.number("/status/readyReplicas"),
        row.number("/spec/replicas")
    )
    .into()
}

pub(super) fn deployment(row: Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, TEMPLATE);
    vec![
        row.name(),
        ready(row),
        row.number("/status/updatedReplicas").into(),
        row.number("/status/availableReplicas").into(),
        row.age(),
        names,
        images,
        selector(row.at("/spec/selector")).into(),
    ]
}

pub(super) fn stateful_set(row: Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, TEMPLATE);
    vec![row.name(), ready(row), row.age(), names, images]
}

pub(super) fn daemon_set(row: Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, TEMPLATE);
    vec![
        row.name(),
        row.number("/status/desiredNumberScheduled").into(),
        row.number("/status/currentNumberScheduled").into(),
        row.number("/status/numberReady").into(),
        row.number("/status/updatedNumberScheduled").into(),
        row.number("/status/numberAvailable").into(),
        labels(row.map("/spec/template/spec/nodeSelector")).into(),
        row.age(),
        names,
        images,
        selected(row, "/spec/selector"),
    ]
}

pub(super) fn revision(row: Row<'_>) -> Vec<Value> {
    let owner = row.list("/metadata/ownerReferences").iter();
    let owner = owner
        .into_iter()
        .find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    let controller = owner.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let group = field(owner, "apiVersion")
                .split_once('/')
                .map_or("", |(group, _)| group);
            let kind = field(owner, "kind").to_lowercase();
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", field(owner, "name"))
        },
    );
    vec![
        row.name(),
        controller.into(),
        row.number("/revision").into(),
        row.age(),
    ]
}

pub(super) fn job(row: Row<'_>) -> Vec<Value> {
    let succeeded = row.number("/status/succeeded");
    let completions = match (
        row.at("/spec/completions").and_then(Value::as_i64),
        row.number("/spec/parallelism"),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, 2..) => format!("{succeeded}/1 of {}", row.number("/spec/parallelism")),
        (None, _) => format!("{succeeded}/1"),
    };
    let status = ["Complete", "Failed"]
        .into_iter()
        .find(|kind| row.is_condition_true(kind));
    let later = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    let status = match (status, row.is_deleted()) {
        (Some(status), _) => status,
        (None, true) => "Terminating",
        (None, false) => later
            .into_iter()
            .find(|kind| row.is_condition_true(kind))
            .unwrap_or("Running"),
    };
    let [names, images] = containers(row, TEMPLATE);
    vec![
        row.name(),
        status.into(),
        completions.into(),
        duration(row).into(),
        row.age(),
        names,
        images,
        selected(row, "/spec/selector"),
    ]
}

/// How long a job ran, or has been running.
fn duration(row: Row<'_>) -> String {
    let time = |pointer: &str| row.text(pointer).parse().ok();
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), None) => human_duration(row.now.seconds_since(start)),
        (Some(start), Some(end)) => human_duration(end.seconds_since(start)),
    }
}

pub(super) fn cron_job(row: Row<'_>) -> Vec<Value> {
    let suspend = match row.flag("/spec/suspend") {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let last = match row.at("/status/lastScheduleTime") {
        Some(_) => row.since("/status/lastScheduleTime"),
        None => NONE.into(),
    };
    let [names, images] = containers(row, "/spec/jobTemplate/spec/template/spec/containers");
    vec![
        row.name(),
        row.text("/spec/schedule").into(),
        row.text_or("/spec/timeZone", NONE),
        suspend.into(),
        row.count("/status/active").into(),
        last,
        row.age(),
        names,
        images,
        selected(row, "/spec/jobTemplate/spec/selector"),
    ]
}

pub(super) fn disruption_budget(row: Row<'_>) -> Vec<Value> {
    let bound = |pointer: &str| printed(row.at(pointer)).unwrap_or_else(|| "N/A".to_owned());
    vec![
        row.name(),
        bound("/spec/minAvailable").into(),
        bound("/spec/maxUnavailable").into(),
        row.number("/status/disruptionsAllowed").into(),
        row.age(),
    ]
}

pub(super) fn autoscaler(row: Row<'_>) -> Vec<Value> {
    let reference = format!(
        "{}/{}",
        row.text("/spec/scaleTargetRef/kind"),
        row.text("/spec/scaleTargetRef/name")
    );
    vec![
        row.name(),
        reference.into(),
        targets(row).into(),
        printed(row.at("/spec/minReplicas"))
            .unwrap_or_else(|| UNSET.to_owned())
            .into(),
        row.number("/spec/maxReplicas").into(),
        row.number("/status/currentReplicas").into(),
        row.age(),
    ]
}

/// Current and wanted values of each metric; the older version knows only the processor.
fn targets(row: Row<'_>) -> String {
    let percent = |pointer: &str| {
        row.at(pointer)
            .and_then(Value::as_i64)
            .map(|number| format!("{number}%"))
    };
    if let Some(target) = percent("/spec/targetCPUUtilizationPercentage") {
        let current = percent("/status/currentCPUUtilizationPercentage")
            .unwrap_or_else(|| UNKNOWN.to_owned());
        return format!("cpu: {current}/{target}");
    }
    let statuses = row.list("/status/currentMetrics");
    let metrics = row.list("/spec/metrics").iter().enumerate();
    let shown = metrics.map(|(index, spec)| {
        metric(
            Row {
                object: spec,
                now: row.now,
            },
            statuses.get(index),
        )
    });
    or(shortened(shown.collect(), 2, ", "), NONE)
}

fn metric(spec: Row<'_>, status: Option<&Value>) -> String {
    let source = match spec.text("/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = |name: &str| printed(spec.at(&format!("/{source}/target/{name}")));
    let current = status.and_then(|status| status.pointer(&format!("/{source}/current")));
    let now = |name: &str| printed(current.and_then(|current| current.get(name)));
    let unknown = || UNKNOWN.to_owned();
    // Where there is a status, a quantity that it leaves out is zero.
    let zero = || current.map_or_else(unknown, |_| "0".to_owned());
    let percent = |number: Option<String>| number.map(|number| format!("{number}%"));
    match (source, target("averageValue")) {
        ("external" | "object", Some(average)) => {
            format!(
                "{}/{average} (avg)",
                now("averageValue").unwrap_or_else(unknown)
            )
        }
        ("external" | "object", None) => {
            format!(
                "{}/{}",
                now("value").unwrap_or_else(zero),
                target("value").unwrap_or_else(zero)
            )
        }
        ("pods", average) => {
            format!(
                "{}/{}",
                now("averageValue").unwrap_or_else(zero),
                average.unwrap_or_else(zero)
            )
        }
        (_, Some(average)) => {
            let name = spec.text(&format!("/{source}/name"));
            format!(
                "{name}: {}/{average}",
                now("averageValue").unwrap_or_else(zero)
            )
        }
        (_, None) => {
            let name = spec.text(&format!("/{source}/name"));
            let current = percent(now("averageUtilization")).unwrap_or_else(unknown);
            let target =
                percent(target("averageUtilization")).unwrap_or_else(|| "<auto>".to_owned());
            format!("{name}: {current}/{target}")
        }
    }
}
