//! Scenarios: an object, what happens to it, and every status that it gets.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use expect_test::{Expect, expect};

use deltaplane_client::Item;

use super::*;

/// What happens to the object.
enum Step {
    /// So many milliseconds pass.
    Pass(u64),
    /// Somebody changes these fields; null removes one.
    Change(Value),
}

use Step::{Change as Edit, Pass};

/// An API server with one object, and what the simulator knows of it.
struct Scenario {
    kind: Kind,
    object: Value,
    picture: Picture,
    now: SystemTime,
    log: String,
}

/// Shown are the statuses that are written, by milliseconds, and what is waited for after each
/// step. The delay is half a second.
fn check(kind: Kind, object: Value, steps: Vec<Step>, expected: &Expect) {
    let mut scenario = Scenario::new(kind, object);
    scenario.settle();
    for step in steps {
        match step {
            Pass(millis) => scenario.now += Duration::from_millis(millis),
            Edit(change) => scenario.edit(&change),
        }
        scenario.settle();
    }
    expected.assert_eq(&scenario.log);
}

// === impl Scenario ===

impl Scenario {
    fn new(kind: Kind, object: Value) -> Self {
        let metadata = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1",
            "resourceVersion": "1", "generation": 1}});
        let mut whole = metadata;
        merge(&mut whole, &object);
        let mut picture = Picture::default();
        picture.apply(kind, Event::Restarted);
        picture.apply(kind, Event::InSync);
        Self {
            kind,
            object: whole,
            picture,
            now: UNIX_EPOCH,
            log: String::new(),
        }
    }

    fn edit(&mut self, change: &Value) {
        merge(&mut self.object, change);
        if !change["spec"].is_null() {
            let generation = self.object["metadata"]["generation"].as_i64().unwrap_or(0);
            self.object["metadata"]["generation"] = json!(generation + 1);
        }
    }

    /// Tells the simulator what the object is, and does what it wants, until that is nothing.
    fn settle(&mut self) {
        for _ in 0..10 {
            let body = Bytes::from(self.object.to_string());
            let item = Item::new(body).expect("an object");
            self.picture.apply(self.kind, Event::Applied(item));
            let key = (self.kind, ObjectKey::new("shop", "web"));
            let planned = self
                .picture
                .plan_status(&key, SimulatorConfig::default(), self.now);
            let at = self.millis(self.now);
            match planned {
                Plan::Nothing => return self.note(&format!("{at} rest")),
                Plan::Later(due) => {
                    let due = self.millis(due);
                    return self.note(&format!("{at} wait until {due}"));
                }
                Plan::Write(Change {
                    metadata: _,
                    status,
                }) => {
                    self.note(&format!("{at} {}", shown(&status)));
                    self.object["status"] = status;
                    self.object["metadata"]["managedFields"] =
                        json!([{"manager": MANAGER, "fieldsV1": {"f:status": {}}}]);
                }
            }
        }
        panic!("never settles:\n{}", self.log);
    }

    fn millis(&self, time: SystemTime) -> u128 {
        let since = time.duration_since(UNIX_EPOCH);
        since.expect("after the epoch").as_millis()
    }

    fn note(&mut self, line: &str) {
        writeln!(self.log, "{line}").expect("a string takes everything");
    }
}

/// Conditions and containers one to a line, times without their date.
fn shown(status: &Value) -> String {
    let mut rest = status.clone();
    let lists = ["conditions", "containerStatuses"].map(|list| rest[list].take());
    let left = rest.as_object_mut().expect("a status");
    left.retain(|_, value| !value.is_null());
    let mut text = rest.to_string();
    for one in lists.iter().filter_map(Value::as_array).flatten() {
        write!(text, "\n  {one}").expect("a string takes everything");
    }
    text.replace("1970-01-01T", "")
}

/// RFC 7386.
pub(super) fn merge(object: &mut Value, change: &Value) {
    let Value::Object(fields) = change else {
        *object = change.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (field, value) in fields {
        match (value.is_null(), object.as_object_mut()) {
            (true, Some(object)) => drop(object.remove(field)),
            (true, None) => {}
            (false, _) => merge(&mut object[field], value),
        }
    }
}

fn workload(replicas: u32, image: &str) -> Value {
    let containers = json!([{"name": "app", "image": image}]);
    json!({"spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}}})
}

fn annotated(mut object: Value, order: &str) -> Value {
    merge(
        &mut object,
        &json!({"metadata": {"annotations": {"deltaplane.io/simulate": order}}}),
    );
    object
}

#[test]
fn a_deployment_rolls_out_and_follows_its_spec() {
    check(
        Kind::Deployment,
        workload(3, "nginx:1"),
        vec![
            Pass(499),
            Pass(1),
            Edit(json!({"metadata": {"labels": {"a": "b"}}})),
            Pass(9500),
            Edit(json!({"spec": {"replicas": 0}})),
            Pass(200),
            // Starts anew, and the delay too.
            Edit(json!({"spec": {"replicas": 1}})),
            Pass(400),
            Pass(100),
        ],
        &expect![[r#"
            0 {"observedGeneration":1,"replicas":3,"unavailableReplicas":3}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:00Z","message":"simulated: Deployment does not have minimum availability.","reason":"MinimumReplicasUnavailable","status":"False","type":"Available"}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:00Z","message":"simulated: ReplicaSet \"web-pn2v8rwsnm\" is progressing.","reason":"ReplicaSetUpdated","status":"True","type":"Progressing"}
            0 wait until 500
            499 wait until 500
            500 {"availableReplicas":3,"observedGeneration":1,"readyReplicas":3,"replicas":3,"updatedReplicas":3}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:00Z","message":"simulated: Deployment has minimum availability.","reason":"MinimumReplicasAvailable","status":"True","type":"Available"}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:00Z","message":"simulated: ReplicaSet \"web-pn2v8rwsnm\" has successfully progressed.","reason":"NewReplicaSetAvailable","status":"True","type":"Progressing"}
            500 rest
            500 rest
            10000 rest
            10000 {"observedGeneration":2}
              {"lastTransitionTime":"00:00:10Z","lastUpdateTime":"00:00:10Z","message":"simulated: Deployment does not have minimum availability.","reason":"MinimumReplicasUnavailable","status":"False","type":"Available"}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:10Z","message":"simulated: ReplicaSet \"web-pn2v8rwsnm\" is progressing.","reason":"ReplicaSetUpdated","status":"True","type":"Progressing"}
            10000 wait until 10500
            10200 wait until 10500
            10200 {"observedGeneration":3,"replicas":1,"unavailableReplicas":1}
              {"lastTransitionTime":"00:00:10Z","lastUpdateTime":"00:00:10Z","message":"simulated: Deployment does not have minimum availability.","reason":"MinimumReplicasUnavailable","status":"False","type":"Available"}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:10Z","message":"simulated: ReplicaSet \"web-pn2v8rwsnm\" is progressing.","reason":"ReplicaSetUpdated","status":"True","type":"Progressing"}
            10200 wait until 10700
            10600 wait until 10700
            10700 {"availableReplicas":1,"observedGeneration":3,"readyReplicas":1,"replicas":1,"updatedReplicas":1}
              {"lastTransitionTime":"00:00:10Z","lastUpdateTime":"00:00:10Z","message":"simulated: Deployment has minimum availability.","reason":"MinimumReplicasAvailable","status":"True","type":"Available"}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:10Z","message":"simulated: ReplicaSet \"web-pn2v8rwsnm\" has successfully progressed.","reason":"NewReplicaSetAvailable","status":"True","type":"Progressing"}
            10700 rest
        "#]],
    );
}

#[test]
fn a_bad_change_fails_and_is_mended() {
    check(
        Kind::Deployment,
        workload(2, "nginx:broken"),
        vec![
            Pass(500),
            Pass(3_600_000),
            Edit(workload(2, "nginx:1")),
            Pass(500),
        ],
        &expect![[r#"
            0 {"observedGeneration":1,"replicas":2,"unavailableReplicas":2}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:00Z","message":"simulated: Deployment does not have minimum availability. (image nginx:broken)","reason":"MinimumReplicasUnavailable","status":"False","type":"Available"}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:00Z","message":"simulated: ReplicaSet \"web-8j8p7hbms2\" is progressing. (image nginx:broken)","reason":"ReplicaSetUpdated","status":"True","type":"Progressing"}
            0 wait until 500
            500 {"observedGeneration":1,"replicas":2,"unavailableReplicas":2,"updatedReplicas":2}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:00Z","message":"simulated: Deployment does not have minimum availability. (image nginx:broken)","reason":"MinimumReplicasUnavailable","status":"False","type":"Available"}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:00Z","message":"simulated: ReplicaSet \"web-8j8p7hbms2\" has timed out progressing. (image nginx:broken)","reason":"ProgressDeadlineExceeded","status":"False","type":"Progressing"}
            500 rest
            3600500 rest
            3600500 {"observedGeneration":2,"replicas":2,"unavailableReplicas":2}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"01:00:00Z","message":"simulated: Deployment does not have minimum availability.","reason":"MinimumReplicasUnavailable","status":"False","type":"Available"}
              {"lastTransitionTime":"01:00:00Z","lastUpdateTime":"01:00:00Z","message":"simulated: ReplicaSet \"web-pn2v8rwsnm\" is progressing.","reason":"ReplicaSetUpdated","status":"True","type":"Progressing"}
            3600500 wait until 3601000
            3601000 {"availableReplicas":2,"observedGeneration":2,"readyReplicas":2,"replicas":2,"updatedReplicas":2}
              {"lastTransitionTime":"01:00:01Z","lastUpdateTime":"01:00:01Z","message":"simulated: Deployment has minimum availability.","reason":"MinimumReplicasAvailable","status":"True","type":"Available"}
              {"lastTransitionTime":"01:00:00Z","lastUpdateTime":"01:00:01Z","message":"simulated: ReplicaSet \"web-pn2v8rwsnm\" has successfully progressed.","reason":"NewReplicaSetAvailable","status":"True","type":"Progressing"}
            3601000 rest
        "#]],
    );
}

#[test]
fn annotations_begin_a_rollout_of_their_own() {
    check(
        Kind::ReplicaSet,
        workload(2, "nginx:1"),
        vec![
            Pass(500),
            Edit(annotated(json!({}), "fail")),
            Pass(500),
            Edit(annotated(json!({}), "hang")),
            Pass(3_600_000),
            Edit(annotated(json!({}), "delay=5s")),
            Pass(4999),
            Pass(1),
        ],
        &expect![[r#"
            0 {"fullyLabeledReplicas":2,"observedGeneration":1,"replicas":2}
            0 wait until 500
            500 {"availableReplicas":2,"fullyLabeledReplicas":2,"observedGeneration":1,"readyReplicas":2,"replicas":2}
            500 rest
            500 {"fullyLabeledReplicas":2,"observedGeneration":1,"replicas":2}
            500 rest
            1000 rest
            1000 rest
            3601000 rest
            3601000 wait until 3606000
            3605999 wait until 3606000
            3606000 {"availableReplicas":2,"fullyLabeledReplicas":2,"observedGeneration":1,"readyReplicas":2,"replicas":2}
            3606000 rest
        "#]],
    );
    let mut inner = workload(1, "nginx:1");
    merge(
        &mut inner["spec"]["template"],
        &annotated(json!({}), "hang"),
    );
    check(
        Kind::Deployment,
        inner,
        vec![Pass(1000)],
        &expect![[r#"
            0 {"observedGeneration":1,"replicas":1,"unavailableReplicas":1}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:00Z","message":"simulated: Deployment does not have minimum availability. (deltaplane.io/simulate: hang)","reason":"MinimumReplicasUnavailable","status":"False","type":"Available"}
              {"lastTransitionTime":"00:00:00Z","lastUpdateTime":"00:00:00Z","message":"simulated: ReplicaSet \"web-5pnlxndjb4\" is progressing. (deltaplane.io/simulate: hang)","reason":"ReplicaSetUpdated","status":"True","type":"Progressing"}
            0 rest
            1000 rest
        "#]],
    );
}

#[test]
fn stateful_sets_have_revisions() {
    check(
        Kind::StatefulSet,
        workload(2, "nginx:1"),
        vec![
            Pass(500),
            Edit(workload(2, "nginx:2")),
            Pass(500),
            Edit(workload(2, "nginx:broken")),
            Pass(500),
        ],
        &expect![[r#"
            0 {"availableReplicas":0,"collisionCount":0,"currentRevision":"web-pn2v8rwsnm","observedGeneration":1,"replicas":2,"updateRevision":"web-pn2v8rwsnm"}
            0 wait until 500
            500 {"availableReplicas":2,"collisionCount":0,"currentReplicas":2,"currentRevision":"web-pn2v8rwsnm","observedGeneration":1,"readyReplicas":2,"replicas":2,"updateRevision":"web-pn2v8rwsnm","updatedReplicas":2}
            500 rest
            500 {"availableReplicas":0,"collisionCount":0,"currentRevision":"web-pn2v8rwsnm","observedGeneration":2,"replicas":2,"updateRevision":"web-z6jbcpfffc"}
            500 wait until 1000
            1000 {"availableReplicas":2,"collisionCount":0,"currentReplicas":2,"currentRevision":"web-z6jbcpfffc","observedGeneration":2,"readyReplicas":2,"replicas":2,"updateRevision":"web-z6jbcpfffc","updatedReplicas":2}
            1000 rest
            1000 {"availableReplicas":0,"collisionCount":0,"currentRevision":"web-z6jbcpfffc","observedGeneration":3,"replicas":2,"updateRevision":"web-8j8p7hbms2"}
            1000 wait until 1500
            1500 {"availableReplicas":0,"collisionCount":0,"currentRevision":"web-z6jbcpfffc","observedGeneration":3,"replicas":2,"updateRevision":"web-8j8p7hbms2","updatedReplicas":2}
            1500 rest
        "#]],
    );
}

#[test]
fn daemon_sets_have_one_node() {
    check(
        Kind::DaemonSet,
        workload(1, "nginx:1"),
        vec![Pass(500)],
        &expect![[r#"
            0 {"currentNumberScheduled":1,"desiredNumberScheduled":1,"numberMisscheduled":0,"numberReady":0,"numberUnavailable":1,"observedGeneration":1}
            0 wait until 500
            500 {"currentNumberScheduled":1,"desiredNumberScheduled":1,"numberAvailable":1,"numberMisscheduled":0,"numberReady":1,"observedGeneration":1,"updatedNumberScheduled":1}
            500 rest
        "#]],
    );
}

#[test]
fn jobs_end_once() {
    let job = |fields: Value| {
        let mut job = json!({"spec": {"template": {"spec": {"containers": []}}}});
        merge(&mut job["spec"], &fields);
        job
    };
    check(
        Kind::Job,
        job(json!({"parallelism": 2, "completions": 5})),
        vec![
            Pass(1500),
            Edit(annotated(json!({}), "fail")),
            Edit(json!({"spec": {"suspend": true}})),
        ],
        &expect![[r#"
            0 {"active":2,"ready":2,"startTime":"00:00:00Z"}
            0 wait until 500
            1500 {"completionTime":"00:00:01Z","startTime":"00:00:00Z","succeeded":5}
              {"lastTransitionTime":"00:00:01Z","message":"simulated: Reached expected number of succeeded pods","reason":"CompletionsReached","status":"True","type":"SuccessCriteriaMet"}
              {"lastTransitionTime":"00:00:01Z","message":"simulated: Reached expected number of succeeded pods","reason":"CompletionsReached","status":"True","type":"Complete"}
            1500 rest
            1500 rest
            1500 rest
        "#]],
    );
    check(
        Kind::Job,
        annotated(job(json!({"backoffLimit": 1})), "fail"),
        vec![
            Pass(500),
            Edit(json!({"metadata": {"annotations": null}})),
            Pass(500),
        ],
        &expect![[r#"
            0 {"active":1,"ready":1,"startTime":"00:00:00Z"}
            0 wait until 500
            500 {"failed":2,"startTime":"00:00:00Z"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: Job has reached the specified backoff limit (deltaplane.io/simulate: fail)","reason":"BackoffLimitExceeded","status":"True","type":"FailureTarget"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: Job has reached the specified backoff limit (deltaplane.io/simulate: fail)","reason":"BackoffLimitExceeded","status":"True","type":"Failed"}
            500 rest
            500 rest
            1000 rest
        "#]],
    );
}

#[test]
fn suspended_jobs_stay() {
    check(
        Kind::Job,
        json!({"spec": {"suspend": true}}),
        vec![
            Pass(3_600_000),
            Edit(json!({"spec": {"suspend": false}})),
            Pass(500),
        ],
        &expect![[r#"
            0 {}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: Job suspended","reason":"JobSuspended","status":"True","type":"Suspended"}
            0 rest
            3600000 rest
            3600000 {"active":1,"ready":1,"startTime":"01:00:00Z"}
              {"lastTransitionTime":"01:00:00Z","message":"simulated: Job resumed","reason":"JobResumed","status":"False","type":"Suspended"}
            3600000 wait until 3600500
            3600500 {"completionTime":"01:00:00Z","startTime":"01:00:00Z","succeeded":1}
              {"lastTransitionTime":"01:00:00Z","message":"simulated: Job resumed","reason":"JobResumed","status":"False","type":"Suspended"}
              {"lastTransitionTime":"01:00:00Z","message":"simulated: Reached expected number of succeeded pods","reason":"CompletionsReached","status":"True","type":"SuccessCriteriaMet"}
              {"lastTransitionTime":"01:00:00Z","message":"simulated: Reached expected number of succeeded pods","reason":"CompletionsReached","status":"True","type":"Complete"}
            3600500 rest
        "#]],
    );
}

#[test]
fn pods_run_or_crash() {
    let pod = |policy: &str, image: &str| {
        let containers = json!([{"name": "app", "image": image}]);
        json!({"spec": {"restartPolicy": policy, "containers": containers},
            "status": {"phase": "Pending", "qosClass": "BestEffort"}})
    };
    check(
        Kind::Pod,
        pod("Always", "nginx:1"),
        vec![
            Pass(1000),
            Edit(annotated(json!({}), "fail")),
            Pass(1000),
            Pass(1000),
        ],
        &expect![[r#"
            0 {"observedGeneration":1,"phase":"Pending","qosClass":"BestEffort","startTime":"00:00:00Z"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs","status":"True","type":"PodScheduled"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs","status":"True","type":"Initialized"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: containers with unready status: [app]","reason":"ContainersNotReady","status":"False","type":"ContainersReady"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: containers with unready status: [app]","reason":"ContainersNotReady","status":"False","type":"Ready"}
              {"image":"nginx:1","imageID":"","name":"app","ready":false,"restartCount":0,"started":false,"state":{"waiting":{"reason":"ContainerCreating"}}}
            0 wait until 500
            1000 {"observedGeneration":1,"phase":"Running","podIP":"10.244.8.108","podIPs":[{"ip":"10.244.8.108"}],"qosClass":"BestEffort","startTime":"00:00:00Z"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs","status":"True","type":"PodScheduled"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs","status":"True","type":"Initialized"}
              {"lastTransitionTime":"00:00:01Z","message":"simulated: nothing runs","status":"True","type":"ContainersReady"}
              {"lastTransitionTime":"00:00:01Z","message":"simulated: nothing runs","status":"True","type":"Ready"}
              {"image":"nginx:1","imageID":"","name":"app","ready":true,"restartCount":0,"started":true,"state":{"running":{"startedAt":"00:00:01Z"}}}
            1000 rest
            1000 {"observedGeneration":1,"phase":"Running","podIP":"10.244.8.108","podIPs":[{"ip":"10.244.8.108"}],"qosClass":"BestEffort","startTime":"00:00:00Z"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs (deltaplane.io/simulate: fail)","status":"True","type":"PodScheduled"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs (deltaplane.io/simulate: fail)","status":"True","type":"Initialized"}
              {"lastTransitionTime":"00:00:01Z","message":"simulated: containers with unready status: [app] (deltaplane.io/simulate: fail)","reason":"ContainersNotReady","status":"False","type":"ContainersReady"}
              {"lastTransitionTime":"00:00:01Z","message":"simulated: containers with unready status: [app] (deltaplane.io/simulate: fail)","reason":"ContainersNotReady","status":"False","type":"Ready"}
              {"image":"nginx:1","imageID":"","name":"app","ready":false,"restartCount":0,"started":false,"state":{"waiting":{"reason":"ContainerCreating"}}}
            1000 wait until 1500
            2000 {"observedGeneration":1,"phase":"Running","podIP":"10.244.8.108","podIPs":[{"ip":"10.244.8.108"}],"qosClass":"BestEffort","startTime":"00:00:00Z"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs (deltaplane.io/simulate: fail)","status":"True","type":"PodScheduled"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs (deltaplane.io/simulate: fail)","status":"True","type":"Initialized"}
              {"lastTransitionTime":"00:00:01Z","message":"simulated: containers with unready status: [app] (deltaplane.io/simulate: fail)","reason":"ContainersNotReady","status":"False","type":"ContainersReady"}
              {"lastTransitionTime":"00:00:01Z","message":"simulated: containers with unready status: [app] (deltaplane.io/simulate: fail)","reason":"ContainersNotReady","status":"False","type":"Ready"}
              {"image":"nginx:1","imageID":"","lastState":{"terminated":{"exitCode":1,"finishedAt":"00:00:02Z","reason":"Error","startedAt":"00:00:02Z"}},"name":"app","ready":false,"restartCount":5,"started":false,"state":{"waiting":{"message":"simulated: back-off 5m0s restarting failed container=app pod=web_shop(u-1)","reason":"CrashLoopBackOff"}}}
            2000 rest
            3000 rest
        "#]],
    );
    check(
        Kind::Pod,
        pod("Never", "nginx:broken"),
        vec![
            Pass(1000),
            Edit(json!({"metadata": {"labels": {"a": "b"}}})),
        ],
        &expect![[r#"
            0 {"observedGeneration":1,"phase":"Pending","qosClass":"BestEffort","startTime":"00:00:00Z"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs (image nginx:broken)","status":"True","type":"PodScheduled"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs (image nginx:broken)","status":"True","type":"Initialized"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: containers with unready status: [app] (image nginx:broken)","reason":"ContainersNotReady","status":"False","type":"ContainersReady"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: containers with unready status: [app] (image nginx:broken)","reason":"ContainersNotReady","status":"False","type":"Ready"}
              {"image":"nginx:broken","imageID":"","name":"app","ready":false,"restartCount":0,"started":false,"state":{"waiting":{"reason":"ContainerCreating"}}}
            0 wait until 500
            1000 {"observedGeneration":1,"phase":"Failed","podIP":"10.244.8.108","podIPs":[{"ip":"10.244.8.108"}],"qosClass":"BestEffort","startTime":"00:00:00Z"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs (image nginx:broken)","status":"True","type":"PodScheduled"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: nothing runs (image nginx:broken)","status":"True","type":"Initialized"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: the containers have failed (image nginx:broken)","reason":"PodFailed","status":"False","type":"ContainersReady"}
              {"lastTransitionTime":"00:00:00Z","message":"simulated: the containers have failed (image nginx:broken)","reason":"PodFailed","status":"False","type":"Ready"}
              {"image":"nginx:broken","imageID":"","name":"app","ready":false,"restartCount":0,"started":false,"state":{"terminated":{"exitCode":1,"finishedAt":"00:00:01Z","reason":"Error","startedAt":"00:00:01Z"}}}
            1000 rest
            1000 rest
        "#]],
    );
}

#[test]
fn services_and_ingresses_get_addresses() {
    check(
        Kind::Service,
        json!({"spec": {"type": "ClusterIP"}, "status": {"loadBalancer": {}}}),
        vec![
            Edit(json!({"spec": {"type": "LoadBalancer"}})),
            Pass(500),
            Edit(json!({"spec": {"type": "ClusterIP"}})),
            Pass(500),
        ],
        &expect![[r#"
            0 rest
            0 wait until 500
            500 {"loadBalancer":{"ingress":[{"ip":"192.0.2.108","ipMode":"VIP"}]}}
            500 rest
            500 wait until 1000
            1000 {"loadBalancer":{}}
            1000 rest
        "#]],
    );
    check(
        Kind::Service,
        annotated(json!({"spec": {"type": "LoadBalancer"}}), "fail"),
        vec![Pass(3_600_000)],
        &expect![[r#"
            0 rest
            3600000 rest
        "#]],
    );
    check(
        Kind::Ingress,
        json!({"spec": {}}),
        vec![Pass(500)],
        &expect![[r#"
            0 wait until 500
            500 {"loadBalancer":{"ingress":[{"ip":"192.0.2.108"}]}}
            500 rest
        "#]],
    );
}

#[test]
fn claims_are_bound_and_grow() {
    let size = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let mut claim = size("1Gi");
    claim["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
    check(
        Kind::PersistentVolumeClaim,
        claim,
        vec![Pass(500), Edit(size("2Gi")), Pass(500)],
        &expect![[r#"
            0 {"phase":"Pending"}
            0 wait until 500
            500 {"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"phase":"Bound"}
            500 rest
            500 wait until 1000
            1000 {"accessModes":["ReadWriteOnce"],"capacity":{"storage":"2Gi"},"phase":"Bound"}
            1000 rest
        "#]],
    );
}

#[test]
fn what_others_write_or_delete_is_left_alone() {
    let by = |manager: &str, fields: &str| {
        let managed = json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}},
            {"manager": manager, "fieldsV1": {fields: {"f:replicas": {}}}}]);
        let mut object = workload(1, "nginx:1");
        object["metadata"]["managedFields"] = managed;
        object
    };
    let first = |object: Value| {
        let mut scenario = Scenario::new(Kind::ReplicaSet, object);
        scenario.settle();
        scenario
            .log
            .lines()
            .next()
            .map(str::to_owned)
            .unwrap_or_default()
    };
    let mut unclaimed = workload(1, "nginx:1");
    unclaimed["status"] = json!({"replicas": 1});
    let mut going = workload(1, "nginx:1");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut shared = by(MANAGER, "f:status");
    let other = json!({"manager": "kube-controller-manager", "fieldsV1": {"f:status": {}}});
    let managed = shared["metadata"]["managedFields"].as_array_mut();
    managed.expect("a list").push(other);
    for left in [
        by("kube-controller-manager", "f:status"),
        unclaimed,
        going,
        shared,
    ] {
        assert_eq!(first(left), "0 rest");
    }
    for taken in [by("kubectl-scale", "f:spec"), by(MANAGER, "f:status")] {
        let under_way = r#"0 {"fullyLabeledReplicas":1,"observedGeneration":1,"replicas":1}"#;
        assert_eq!(first(taken), under_way);
    }
}

#[test]
fn what_is_gone_is_forgotten() {
    let mut scenario = Scenario::new(Kind::Deployment, workload(1, "nginx:1"));
    scenario.settle();
    assert_eq!(scenario.picture.under_way.len(), 1);
    let body = Bytes::from(scenario.object.to_string());
    let item = Item::new(body).expect("an object");
    let gone = scenario
        .picture
        .apply(Kind::Deployment, Event::Deleted(item));
    assert_eq!(gone.len(), 1);
    assert!(scenario.picture.get(&gone[0]).is_none());
    assert!(scenario.picture.under_way.is_empty());
}
