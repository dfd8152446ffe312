//! Pods: how many containers are ready, what the pod is doing, how often it was restarted.

use serde_json::Value;

use super::{NONE, Row, age, field, joined, labels};

/// What a pod's containers add up to.
struct Summary {
    ready: i64,
    total: i64,
    reason: String,
    restarts: i64,
    /// When a container last ended before it was started again.
    restarted: String,
}

pub(super) fn pod(row: Row<'_>) -> Vec<Value> {
    let mut summary = Summary::new(row);
    let initializing = summary.init_containers(row);
    if !initializing || row.is_condition_true("Initialized") {
        summary.containers(row);
    }
    summary.deletion(row);
    let mut restarts = summary.restarts.to_string();
    if summary.restarts != 0 && !summary.restarted.is_empty() {
        restarts = format!("{restarts} ({} ago)", age(&summary.restarted, row.now));
    }
    vec![
        row.name(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        row.age(),
        row.text_or("/status/podIPs/0/ip", NONE),
        row.text_or("/spec/nodeName", NONE),
        row.text_or("/status/nominatedNodeName", NONE),
        readiness_gates(row).into(),
    ]
}

pub(super) fn template(row: Row<'_>) -> Vec<Value> {
    let containers = row.list("/template/spec/containers");
    vec![
        row.name(),
        joined(containers, "name").into(),
        joined(containers, "image").into(),
        labels(row.map("/template/metadata/labels")).into(),
    ]
}

fn readiness_gates(row: Row<'_>) -> String {
    let gates = row.list("/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| row.is_condition_true(field(gate, "conditionType")))
        .count();
    format!("{open}/{}", gates.len())
}

// === impl Summary ===

impl Summary {
    fn new(row: Row<'_>) -> Self {
        let mut reason = match row.text("/status/reason") {
            "" => row.text("/status/phase"),
            reason => reason,
        };
        let gated = "SchedulingGated";
        if row
            .condition("PodScheduled")
            .is_some_and(|condition| field(condition, "reason") == gated)
        {
            reason = gated;
        }
        let sidecars = row
            .list("/spec/initContainers")
            .iter()
            .filter(|container| is_sidecar(container))
            .count();
        let total = row.count("/spec/containers") + i64::try_from(sidecars).unwrap_or_default();
        Self {
            ready: 0,
            total,
            reason: reason.to_owned(),
            restarts: 0,
            restarted: String::new(),
        }
    }

    /// Looks at init containers in their order up to the first that is not done, and says whether
    /// there is one. Restarts of sidecars are what remains of them when the pod runs.
    fn init_containers(&mut self, row: Row<'_>) -> bool {
        let specs = row.list("/spec/initContainers");
        let (mut sidecar_restarts, mut sidecar_restarted) = (0, String::new());
        let mut initializing = false;
        for (index, status) in row.list("/status/initContainerStatuses").iter().enumerate() {
            let status = Row {
                object: status,
                now: row.now,
            };
            let sidecar = specs
                .iter()
                .any(|spec| is_sidecar(spec) && field(spec, "name") == status.text("/name"));
            add_restarts(status, &mut self.restarts, &mut self.restarted);
            if sidecar {
                add_restarts(status, &mut sidecar_restarts, &mut sidecar_restarted);
            }
            let ended = status.at("/state/terminated").is_some();
            if ended && status.number("/state/terminated/exitCode") == 0 {
                continue;
            }
            if sidecar && status.flag("/started") == Some(true) {
                self.ready += i64::from(status.flag("/ready") == Some(true));
                continue;
            }
            let waiting = status.text("/state/waiting/reason");
            self.reason = match (ended, waiting) {
                (true, _) => format!("Init:{}", exit_reason(status)),
                (false, "" | "PodInitializing") => format!("Init:{index}/{}", specs.len()),
                (false, waiting) => format!("Init:{waiting}"),
            };
            initializing = true;
            break;
        }
        if !initializing || row.is_condition_true("Initialized") {
            (self.restarts, self.restarted) = (sidecar_restarts, sidecar_restarted);
        }
        initializing
    }

    /// The last container that is not plainly running gives the reason.
    fn containers(&mut self, row: Row<'_>) {
        let (mut running, mut error) = (false, String::new());
        for status in row.list("/status/containerStatuses").iter().rev() {
            let status = Row {
                object: status,
                now: row.now,
            };
            add_restarts(status, &mut self.restarts, &mut self.restarted);
            let waiting = status.text("/state/waiting/reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if status.at("/state/terminated").is_some() {
                self.reason = exit_reason(status);
                if status.number("/state/terminated/exitCode") != 0 {
                    error = self.reason.clone();
                }
            } else if status.flag("/ready") == Some(true) && status.at("/state/running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        // A pod with a container that still runs is not completed.
        if self.reason == "Completed" {
            if running && row.is_condition_true("Ready") {
                self.reason = "Running".to_owned();
            } else if !error.is_empty() {
                self.reason = error;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }

    fn deletion(&mut self, row: Row<'_>) {
        if !row.is_deleted() {
            return;
        }
        if row.text("/status/reason") == "NodeLost" {
            self.reason = "Unknown".to_owned();
        } else if !matches!(row.text("/status/phase"), "Succeeded" | "Failed") {
            self.reason = "Terminating".to_owned();
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    field(container, "restartPolicy") == "Always"
}

fn add_restarts(status: Row<'_>, restarts: &mut i64, restarted: &mut String) {
    *restarts += status.number("/restartCount");
    let finished = status.text("/lastState/terminated/finishedAt");
    // Times of one form compare as text.
    if finished > restarted.as_str() {
        finished.clone_into(restarted);
    }
}

fn exit_reason(status: Row<'_>) -> String {
    match (
        status.text("/state/terminated/reason"),
        status.number("/state/terminated/signal"),
    ) {
        ("", 0) => format!("ExitCode:{}", status.number("/state/terminated/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
