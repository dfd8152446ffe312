//! Pods: all their containers start, run and fail together.

use serde_json::{Value, json};

use deltaplane_api::time::Time;

use crate::condition::Wanted;

use super::super::digest;
use super::super::object::Object;
use super::{Stage, conditions, counts, kept, message};

/// How often a container was started again that keeps failing.
const RESTARTS: i64 = 5;

/// A stage, with the difference that matters once it failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Creating,
    Running,
    /// Failed, and is started again and again.
    Crashing,
    /// Failed for good.
    Ended,
    /// Succeeded, as Pods of Jobs do.
    Succeeded,
}

pub(super) fn pod(object: &Object, stage: Stage, now: Time) -> Value {
    let phase = object.status["phase"].as_str();
    if matches!(phase, Some("Failed" | "Succeeded")) {
        return object.status.clone();
    }
    let state = match (stage, object.spec["restartPolicy"].as_str()) {
        // While a Job is under way it counts its Pods as ready.
        (Stage::UnderWay, _) if object.completes => State::Running,
        (Stage::Healthy, _) if object.completes => State::Succeeded,
        (Stage::Failed, _) if object.completes => State::Ended,
        (Stage::UnderWay, _) => State::Creating,
        (Stage::Healthy, _) => State::Running,
        (Stage::Failed, Some("Never")) => State::Ended,
        (Stage::Failed, _) => State::Crashing,
    };
    let phase = match state {
        // A Pod that ran never waits for its first start again.
        State::Creating => phase
            .filter(|phase| *phase == "Running")
            .unwrap_or("Pending"),
        State::Running | State::Crashing => "Running",
        State::Ended => "Failed",
        State::Succeeded => "Succeeded",
    };
    let containers = object.spec["containers"].as_array().into_iter().flatten();
    let containers: Vec<Value> = containers
        .map(|container| container_status(object, container, state, now))
        .collect();
    let address = match phase {
        "Pending" => None,
        _ => Some(digest::pod_address(&object.uid).to_string()),
    };
    let mut status = counts(&[], &[("observedGeneration", object.generation)]);
    let conditions = conditions(object, wanted(object, state), now);
    let fields = [
        ("phase", json!(phase)),
        ("conditions", json!(conditions)),
        ("containerStatuses", json!(containers)),
        ("podIP", json!(address)),
        (
            "podIPs",
            address.map_or(Value::Null, |ip| json!([{"ip": ip}])),
        ),
        ("startTime", kept(&object.status["startTime"], now)),
        // API servers put it into new Pods.
        ("qosClass", object.status["qosClass"].clone()),
    ];
    let there = fields.into_iter().filter(|(_, value)| !value.is_null());
    status.extend(there.map(|(field, value)| (field.to_owned(), value)));
    Value::Object(status)
}

fn wanted(object: &Object, state: State) -> Vec<Wanted> {
    let runs = state == State::Running;
    let unready = format!("containers with unready status: [{}]", names(object));
    let (reason, text) = match state {
        State::Running => ("", "nothing runs"),
        State::Creating | State::Crashing => ("ContainersNotReady", unready.as_str()),
        State::Ended => ("PodFailed", "the containers have failed"),
        State::Succeeded => ("PodCompleted", "the containers have completed"),
    };
    let condition = |r#type, holds, reason, text: &str| Wanted {
        r#type,
        holds,
        reason,
        message: message(object, text),
    };
    vec![
        condition("PodScheduled", true, "", "nothing runs"),
        condition("Initialized", true, "", "nothing runs"),
        condition("ContainersReady", runs, reason, text),
        condition("Ready", runs, reason, text),
    ]
}

fn names(object: &Object) -> String {
    let containers = object.spec["containers"].as_array().into_iter().flatten();
    let names: Vec<&str> = containers.filter_map(|one| one["name"].as_str()).collect();
    names.join(" ")
}

fn container_status(object: &Object, container: &Value, state: State, now: Time) -> Value {
    let name = container["name"].as_str().unwrap_or_default();
    let before = object.status["containerStatuses"].as_array();
    let mut before = before.into_iter().flatten();
    let before = before
        .find(|one| one["name"] == name)
        .unwrap_or(&Value::Null);
    // Since when it runs, or ran: the one or the other is there.
    let states = [
        &before["state"]["running"]["startedAt"],
        &before["state"]["terminated"]["startedAt"],
        &before["lastState"]["terminated"]["startedAt"],
    ];
    let started = states.into_iter().find(|time| time.is_string());
    let started = kept(started.unwrap_or(&Value::Null), now);
    let ended = kept(&before["lastState"]["terminated"]["finishedAt"], now);
    let ended =
        json!({"exitCode": 1, "reason": "Error", "startedAt": started, "finishedAt": ended});
    let back_off = format!(
        "simulated: back-off 5m0s restarting failed container={name} pod={}_{}({})",
        object.name, object.namespace, object.uid
    );
    let (state, last, restarts) = match state {
        State::Creating => (json!({"waiting": {"reason": "ContainerCreating"}}), None, 0),
        State::Running => (json!({"running": {"startedAt": started}}), None, 0),
        State::Crashing => (
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": back_off}}),
            Some(ended),
            RESTARTS,
        ),
        State::Ended => (json!({"terminated": ended}), None, 0),
        State::Succeeded => {
            let done = json!({"exitCode": 0, "reason": "Completed", "startedAt": ended["startedAt"],
                "finishedAt": ended["finishedAt"]});
            (json!({"terminated": done}), None, 0)
        }
    };
    let runs = state["running"].is_object();
    let mut status = json!({
        "name": name,
        "image": container["image"],
        "imageID": "",
        "ready": runs,
        "started": runs,
        "restartCount": restarts,
        "state": state,
    });
    if let Some(last) = last {
        status["lastState"] = json!({"terminated": last});
    }
    status
}
