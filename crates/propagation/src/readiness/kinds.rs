//! The common rules: of Kubernetes' own kinds, each by what its controller writes, and of all
//! others by the conditions that most of them have.

use serde_json::Value;

use super::Judgement;
use super::conditions::{Conditions, Holds};

/// How an object fares that is not going, and whose status is not of an earlier generation.
pub(super) fn judge(object: &Value) -> Judgement {
    let own = match kind(object) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") => replica_set(object),
        ("batch", "Job") => job(object),
        ("", "Pod") => pod(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        _ => return by_conditions(object).unwrap_or_else(Judgement::ready),
    };
    own.unwrap_or_else(Judgement::ready)
}

/// Whether the controller of its kind writes a status that it waits for.
pub(super) fn has_status(object: &Value) -> bool {
    match kind(object) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("batch", "Job")
        | ("", "Pod" | "PersistentVolumeClaim")
        | ("apiextensions.k8s.io", "CustomResourceDefinition") => true,
        ("", "Service") => object["spec"]["type"] == "LoadBalancer",
        _ => false,
    }
}

/// Group and kind.
fn kind(object: &Value) -> (&str, &str) {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/');
    (group.map_or("", |(group, _)| group), text("kind"))
}

/// Why conditions keep an object from being ready, if they do.
fn by_conditions(object: &Value) -> Option<Judgement> {
    let conditions = Conditions::of(object);
    for r#type in ["Stalled", "Failed"] {
        let found = conditions.find(r#type);
        if let Some(one) = found.filter(|one| one.holds() == Holds::True) {
            return Some(Judgement::failed(one.said()));
        }
    }
    let progressing = conditions.find("Progressing");
    let exceeded = progressing
        .filter(|one| one.holds() == Holds::False && one.reason() == "ProgressDeadlineExceeded");
    if let Some(one) = exceeded {
        return Some(Judgement::failed(one.said()));
    }
    let reconciling = conditions.find("Reconciling");
    if let Some(one) = reconciling.filter(|one| one.holds() == Holds::True) {
        return Some(Judgement::waiting(one.said()));
    }
    for r#type in ["Ready", "Available"] {
        let Some(one) = conditions.find(r#type) else {
            continue;
        };
        match one.holds() {
            Holds::True => {}
            Holds::False | Holds::Unknown => return Some(Judgement::waiting(one.said())),
            Holds::Stale => return Some(Judgement::stale()),
        }
    }
    // An instance of a graph may be ready with what it had before, while a gate holds the rest.
    let propagated = conditions.find("ResourcesPropagated");
    let held = propagated.filter(|one| one.holds() == Holds::False);
    held.map(|one| Judgement::waiting(one.said()))
}

/// Nobody wrote a status for it yet.
fn unwritten(object: &Value) -> Option<Judgement> {
    let written = object["status"]["observedGeneration"].is_number();
    (!written).then(|| Judgement::waiting("nobody has written its status yet"))
}

/// A number of the status; the API leaves out what is 0.
fn count(object: &Value, field: &str) -> i64 {
    object["status"][field].as_i64().unwrap_or(0)
}

fn replicas(object: &Value) -> i64 {
    object["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// Fewer than there should be.
fn fewer(there: i64, wanted: i64, what: &str) -> Option<Judgement> {
    (there < wanted).then(|| Judgement::waiting(format!("{there} of {wanted} {what}")))
}

/// Some that should not be there any more.
fn left(there: i64, wanted: i64) -> Option<Judgement> {
    let surplus = there.saturating_sub(wanted);
    (surplus > 0).then(|| Judgement::waiting(format!("{surplus} old replicas are still there")))
}

fn deployment(object: &Value) -> Option<Judgement> {
    let wanted = replicas(object);
    let updated = count(object, "updatedReplicas");
    unwritten(object)
        .or_else(|| by_conditions(object).filter(|one| one.state == super::State::Failed))
        .or_else(|| fewer(updated, wanted, "replicas are updated"))
        .or_else(|| left(count(object, "replicas"), updated))
        .or_else(|| {
            fewer(
                count(object, "availableReplicas"),
                wanted,
                "replicas are available",
            )
        })
        .or_else(|| fewer(count(object, "readyReplicas"), wanted, "replicas are ready"))
        .or_else(|| by_conditions(object))
}

fn replica_set(object: &Value) -> Option<Judgement> {
    let wanted = replicas(object);
    let conditions = Conditions::of(object);
    let failure = conditions.find("ReplicaFailure");
    let failure = failure.filter(|one| one.holds() == Holds::True);
    unwritten(object)
        .or_else(|| failure.map(|one| Judgement::waiting(one.said())))
        .or_else(|| fewer(count(object, "replicas"), wanted, "replicas are there"))
        .or_else(|| {
            fewer(
                count(object, "availableReplicas"),
                wanted,
                "replicas are available",
            )
        })
        .or_else(|| fewer(count(object, "readyReplicas"), wanted, "replicas are ready"))
        .or_else(|| left(count(object, "replicas"), wanted))
        .or_else(|| by_conditions(object))
}

fn stateful_set(object: &Value) -> Option<Judgement> {
    let wanted = replicas(object);
    let strategy = &object["spec"]["updateStrategy"];
    let partition = strategy["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
    let status = &object["status"];
    // Those below the partition, and those that wait until somebody deletes them, stay old.
    let updated = match strategy["type"] == "OnDelete" {
        true => 0,
        false => wanted.saturating_sub(partition.max(0)),
    };
    let moves = strategy["type"] != "OnDelete" && partition <= 0;
    let between = moves && status["currentRevision"] != status["updateRevision"];
    let under_way = || between.then(|| Judgement::waiting("its replicas are being replaced"));
    unwritten(object)
        .or_else(|| fewer(count(object, "replicas"), wanted, "replicas are there"))
        .or_else(|| {
            fewer(
                count(object, "updatedReplicas"),
                updated,
                "replicas are updated",
            )
        })
        .or_else(|| fewer(count(object, "readyReplicas"), wanted, "replicas are ready"))
        .or_else(|| left(count(object, "replicas"), wanted))
        .or_else(under_way)
        .or_else(|| by_conditions(object))
}

fn daemon_set(object: &Value) -> Option<Judgement> {
    let wanted = count(object, "desiredNumberScheduled");
    let updated = match object["spec"]["updateStrategy"]["type"] == "OnDelete" {
        true => 0,
        false => wanted,
    };
    let of = |field: &str, wanted: i64, what: &str| fewer(count(object, field), wanted, what);
    unwritten(object)
        .or_else(|| of("currentNumberScheduled", wanted, "nodes have a Pod"))
        .or_else(|| of("updatedNumberScheduled", updated, "Pods are updated"))
        .or_else(|| of("numberAvailable", wanted, "Pods are available"))
        .or_else(|| of("numberReady", wanted, "Pods are ready"))
        .or_else(|| by_conditions(object))
}

fn job(object: &Value) -> Option<Judgement> {
    let conditions = Conditions::of(object);
    if let Some(found) = by_conditions(object) {
        return Some(found);
    }
    if conditions.holds("Complete") {
        return None;
    }
    let suspended = conditions.holds("Suspended");
    Some(Judgement::waiting(match suspended {
        true => "it is suspended".to_owned(),
        false => {
            let (active, succeeded) = (count(object, "active"), count(object, "succeeded"));
            format!("it is not complete: {active} active, {succeeded} succeeded")
        }
    }))
}

fn pod(object: &Value) -> Option<Judgement> {
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    let message = object["status"]["message"].as_str();
    match phase {
        "Succeeded" => None,
        "Failed" => Some(Judgement::failed(
            message.unwrap_or("its containers failed"),
        )),
        "Running" => {
            let crashing = crashing(object).map(Judgement::failed);
            let ready = Conditions::of(object).find("Ready");
            let unready = match ready {
                Some(_) => by_conditions(object),
                None => Some(Judgement::waiting("it does not say whether it is ready")),
            };
            crashing.or(unready)
        }
        "" => Some(Judgement::waiting("nobody has written its status yet")),
        other => Some(Judgement::waiting(match message {
            Some(message) => format!("it is {other}: {message}"),
            None => format!("it is {other}"),
        })),
    }
}

/// A container that is started again and again.
fn crashing(object: &Value) -> Option<String> {
    let containers = object["status"]["containerStatuses"].as_array();
    let mut containers = containers.into_iter().flatten();
    let one = containers.find(|one| one["state"]["waiting"]["reason"] == "CrashLoopBackOff")?;
    let name = one["name"].as_str().unwrap_or_default();
    Some(format!("CrashLoopBackOff: container {name}"))
}

fn claim(object: &Value) -> Option<Judgement> {
    match object["status"]["phase"].as_str() {
        Some("Bound") => None,
        Some("Lost") => Some(Judgement::failed("its volume is lost")),
        Some(phase) => Some(Judgement::waiting(format!("it is {phase}"))),
        None => Some(Judgement::waiting("nobody has written its status yet")),
    }
}

fn service(object: &Value) -> Option<Judgement> {
    let ingress = object["status"]["loadBalancer"]["ingress"].as_array();
    let reached = ingress.is_some_and(|all| !all.is_empty());
    let waits = object["spec"]["type"] == "LoadBalancer" && !reached;
    let waits = waits.then(|| Judgement::waiting("its load balancer has no address yet"));
    waits.or_else(|| by_conditions(object))
}

fn definition(object: &Value) -> Option<Judgement> {
    let conditions = Conditions::of(object);
    let names = conditions.find("NamesAccepted");
    if let Some(one) = names.filter(|one| one.holds() == Holds::False) {
        return Some(Judgement::failed(one.said()));
    }
    match conditions.find("Established") {
        Some(one) => match one.holds() {
            Holds::True => None,
            Holds::False | Holds::Unknown => Some(Judgement::waiting(one.said())),
            Holds::Stale => Some(Judgement::stale()),
        },
        None => Some(Judgement::waiting("nobody has written its status yet")),
    }
}
