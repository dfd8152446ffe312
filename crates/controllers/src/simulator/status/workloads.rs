//! Kinds that keep Pods running.

use serde_json::{Value, json};

use deltaplane_api::time::Time;

use crate::condition::{Condition, Wanted};

use super::super::object::Object;
use super::{Stage, conditions, conditions_of, counts, message};

/// How many Pods there are, of a kind that wants so many.
struct Pods {
    wanted: i64,
    /// Made of the present template.
    updated: i64,
    /// Ready and available, which is the same here.
    available: i64,
}

pub(super) fn deployment(object: &Object, stage: Stage, now: Time) -> Value {
    let pods = Pods::replicas(object, stage);
    let mut status = counts(
        &[],
        &[
            ("observedGeneration", object.generation),
            ("replicas", pods.wanted),
            ("updatedReplicas", pods.updated),
            ("readyReplicas", pods.available),
            ("availableReplicas", pods.available),
            ("unavailableReplicas", pods.wanted - pods.available),
        ],
    );
    let wanted = vec![available(object, stage), progressing(object, stage)];
    let conditions = with_update_times(object, conditions(object, wanted, now), now);
    status.insert("conditions".to_owned(), json!(conditions));
    Value::Object(status)
}

pub(super) fn replica_set(object: &Object, stage: Stage) -> Value {
    let pods = Pods::replicas(object, stage);
    let status = counts(
        &[("replicas", pods.wanted)],
        &[
            ("observedGeneration", object.generation),
            ("fullyLabeledReplicas", pods.wanted),
            ("readyReplicas", pods.available),
            ("availableReplicas", pods.available),
        ],
    );
    Value::Object(status)
}

pub(super) fn stateful_set(object: &Object, stage: Stage) -> Value {
    let pods = Pods::replicas(object, stage);
    let update = object.revision_name();
    let before = object.status["currentRevision"].as_str();
    let (revision, current) = match stage {
        Stage::Healthy => (update.as_str(), pods.wanted),
        Stage::UnderWay | Stage::Failed => (before.unwrap_or(&update), 0),
    };
    let mut status = counts(
        &[
            ("replicas", pods.wanted),
            ("availableReplicas", pods.available),
            ("collisionCount", 0),
        ],
        &[
            ("observedGeneration", object.generation),
            ("currentReplicas", current),
            ("updatedReplicas", pods.updated),
            ("readyReplicas", pods.available),
        ],
    );
    status.insert("currentRevision".to_owned(), json!(revision));
    status.insert("updateRevision".to_owned(), json!(update));
    Value::Object(status)
}

pub(super) fn daemon_set(object: &Object, stage: Stage) -> Value {
    // One node.
    let pods = Pods::of(1, stage);
    let status = counts(
        &[
            ("currentNumberScheduled", pods.wanted),
            ("desiredNumberScheduled", pods.wanted),
            ("numberMisscheduled", 0),
            ("numberReady", pods.available),
        ],
        &[
            ("observedGeneration", object.generation),
            ("updatedNumberScheduled", pods.updated),
            ("numberAvailable", pods.available),
            ("numberUnavailable", pods.wanted - pods.available),
        ],
    );
    Value::Object(status)
}

fn available(object: &Object, stage: Stage) -> Wanted {
    let (holds, reason, text) = match stage {
        Stage::Healthy => (
            true,
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        ),
        Stage::UnderWay | Stage::Failed => (
            false,
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        ),
    };
    Wanted {
        r#type: "Available",
        holds,
        reason,
        message: message(object, text),
    }
}

fn progressing(object: &Object, stage: Stage) -> Wanted {
    let (holds, reason, what) = match stage {
        Stage::UnderWay => (true, "ReplicaSetUpdated", "is progressing."),
        Stage::Healthy => (
            true,
            "NewReplicaSetAvailable",
            "has successfully progressed.",
        ),
        Stage::Failed => (
            false,
            "ProgressDeadlineExceeded",
            "has timed out progressing.",
        ),
    };
    let text = format!("ReplicaSet \"{}\" {what}", object.revision_name());
    Wanted {
        r#type: "Progressing",
        holds,
        reason,
        message: message(object, &text),
    }
}

/// A Deployment's conditions also say when anything about them last changed.
fn with_update_times(object: &Object, conditions: Vec<Condition>, now: Time) -> Vec<Condition> {
    let before = conditions_of(object);
    let update = |mut condition: Condition| {
        let updated = condition.rest.contains_key("lastUpdateTime");
        if !updated || !before.contains(&condition) {
            let now = now.to_value();
            condition.rest.insert("lastUpdateTime".to_owned(), now);
        }
        condition
    };
    conditions.into_iter().map(update).collect()
}

// === impl Pods ===

impl Pods {
    fn replicas(object: &Object, stage: Stage) -> Self {
        Self::of(object.number("replicas").unwrap_or(1), stage)
    }

    fn of(wanted: i64, stage: Stage) -> Self {
        let (updated, available) = match stage {
            Stage::UnderWay => (0, 0),
            Stage::Healthy => (wanted, wanted),
            Stage::Failed => (wanted, 0),
        };
        Self {
            wanted,
            updated,
            available,
        }
    }
}
