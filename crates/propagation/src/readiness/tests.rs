use deltaplane_expr::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// An object of generation 2, with what is given of it.
fn object(kind: &str, spec: &Value, status: &Value) -> Value {
    let (api_version, kind) = kind.rsplit_once('/').expect("apiVersion/kind");
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": "a", "namespace": "prod", "generation": 2},
        "spec": spec,
    });
    if !status.is_null() {
        object["status"] = status.clone();
    }
    object
}

fn shown(judgement: &Judgement) -> String {
    let state = match judgement.state {
        State::Ready => "ready",
        State::Waiting => "waiting",
        State::Failed => "failed",
        State::NoEvidence => "no evidence",
    };
    match judgement.reason.as_str() {
        "" => state.to_owned(),
        reason => format!("{state}: {reason}"),
    }
}

#[track_caller]
fn check(kind: &str, spec: Value, status: Value, expected: &str) {
    let object = object(kind, &spec, &status);
    let judgement = judge(&object, &Rules::default());
    assert_eq!(shown(&judgement), expected, "{status}");
    // Nothing else of it is read.
    let mut read = json!({});
    for keys in FIELDS {
        let found = keys.iter().try_fold(&object, |json, key| json.get(key));
        if let Some(found) = found {
            *keys.iter().fold(&mut read, |json, key| &mut json[key]) = found.clone();
        }
    }
    assert_eq!(judge(&read, &Rules::default()), judgement, "{status}");
}

fn condition(r#type: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": r#type, "status": status, "reason": reason, "message": message})
}

#[test]
fn what_has_no_status_is_ready_when_it_is_there() {
    for kind in ["v1/ConfigMap", "v1/Secret", "kuma.io/v1alpha1/MeshTimeout"] {
        check(kind, json!({}), Value::Null, "ready");
        let object = object(kind, &json!({}), &Value::Null);
        assert!(is_ready_when_applied(&object, &Rules::default()));
        assert!(!is_ready_when_applied(&object, &Rules::new(&["true"])));
    }
    let waits = object("apps/v1/Deployment", &json!({}), &Value::Null);
    assert!(!is_ready_when_applied(&waits, &Rules::default()));
    check("example.com/v1/Widget", json!({}), json!({}), "ready");
    check(
        "v1/Namespace",
        json!({}),
        json!({"phase": "Active"}),
        "ready",
    );
}

#[test]
fn what_is_going_or_was_not_looked_at_is_not_ready() {
    let mut going = object("v1/ConfigMap", &json!({}), &Value::Null);
    going["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z".into();
    let judgement = judge(&going, &Rules::default());
    assert_eq!(shown(&judgement), "waiting: it is being deleted");
    let earlier = "waiting: its status is of an earlier generation";
    let widget = |status: Value, expected: &str| {
        check("example.com/v1/Widget", json!({}), status, expected);
    };
    widget(json!({"observedGeneration": 1}), earlier);
    widget(json!({"observedGeneration": 2}), "ready");
    let of = |generation: i64| {
        let mut one = condition("Ready", "True", "", "");
        one["observedGeneration"] = generation.into();
        one
    };
    widget(json!({"conditions": [of(1)]}), earlier);
    widget(json!({"conditions": [of(2)]}), "ready");
    // One of them is newer, and it is not the one that counts.
    let mut other = condition("Synced", "True", "", "");
    other["observedGeneration"] = 2.into();
    widget(json!({"conditions": [of(1), other]}), earlier);
}

#[test]
fn most_kinds_say_it_with_conditions() {
    let widget = |conditions: Value, expected: &str| {
        let status = json!({"conditions": conditions});
        check("example.com/v1/Widget", json!({}), status, expected);
    };
    widget(json!([condition("Ready", "True", "", "")]), "ready");
    widget(json!([condition("Synced", "False", "", "")]), "ready");
    widget(
        json!([condition("Ready", "False", "NoSecret", "it is not there")]),
        "waiting: NoSecret: it is not there",
    );
    widget(
        json!([condition("Ready", "Unknown", "Asking", "")]),
        "waiting: Asking",
    );
    widget(
        json!([condition("Available", "False", "", "")]),
        "waiting: Available is False",
    );
    widget(
        json!([
            condition("Ready", "True", "", ""),
            condition("Available", "False", "", "no")
        ]),
        "waiting: no",
    );
    widget(
        json!([
            condition("Ready", "False", "", ""),
            condition("Stalled", "True", "Quota", "none")
        ]),
        "failed: Quota: none",
    );
    widget(
        json!([
            condition("Ready", "True", "", ""),
            condition("Reconciling", "True", "", "")
        ]),
        "waiting: Reconciling is True",
    );
    widget(json!("none"), "ready");
}

#[test]
fn deployments() {
    let deployment = |status: Value, expected: &str| {
        check(
            "apps/v1/Deployment",
            json!({"replicas": 3}),
            status,
            expected,
        );
    };
    let counts = |replicas: i64, updated: i64, ready: i64| {
        json!({
            "observedGeneration": 2, "replicas": replicas, "updatedReplicas": updated,
            "readyReplicas": ready, "availableReplicas": ready,
        })
    };
    deployment(json!({}), "waiting: nobody has written its status yet");
    deployment(counts(3, 1, 3), "waiting: 1 of 3 replicas are updated");
    deployment(counts(4, 3, 3), "waiting: 1 old replicas are still there");
    deployment(counts(3, 3, 2), "waiting: 2 of 3 replicas are available");
    deployment(counts(3, 3, 3), "ready");
    let with = |counts: Value, condition: Value| {
        let mut status = counts;
        status["conditions"] = json!([condition]);
        status
    };
    let unavailable = condition(
        "Available",
        "False",
        "MinimumReplicasUnavailable",
        "too few",
    );
    deployment(
        with(counts(3, 3, 3), unavailable),
        "waiting: MinimumReplicasUnavailable: too few",
    );
    let late = condition(
        "Progressing",
        "False",
        "ProgressDeadlineExceeded",
        "it took too long",
    );
    deployment(
        with(counts(3, 1, 1), late),
        "failed: ProgressDeadlineExceeded: it took too long",
    );
    let paused = condition("Progressing", "False", "Paused", "");
    deployment(with(counts(3, 3, 3), paused), "ready");
    let none = json!({"observedGeneration": 2});
    check("apps/v1/Deployment", json!({"replicas": 0}), none, "ready");
}

#[test]
fn other_kinds_that_keep_pods_running() {
    let set = |status: Value, expected: &str| {
        check(
            "apps/v1/ReplicaSet",
            json!({"replicas": 2}),
            status,
            expected,
        );
    };
    let counts = |replicas: i64, ready: i64| {
        json!({
            "observedGeneration": 2, "replicas": replicas,
            "readyReplicas": ready, "availableReplicas": ready,
        })
    };
    set(counts(1, 1), "waiting: 1 of 2 replicas are there");
    set(counts(2, 1), "waiting: 1 of 2 replicas are available");
    set(counts(3, 3), "waiting: 1 old replicas are still there");
    set(counts(2, 2), "ready");
    let stateful = |strategy: Value, (updated, now): (i64, &str), expected: &str| {
        let spec = json!({"replicas": 3, "updateStrategy": strategy});
        let mut status = counts(3, 3);
        status["updatedReplicas"] = updated.into();
        status["currentRevision"] = now.into();
        status["updateRevision"] = "b".into();
        check("apps/v1/StatefulSet", spec, status, expected);
    };
    stateful(json!({}), (2, "a"), "waiting: 2 of 3 replicas are updated");
    stateful(
        json!({}),
        (3, "a"),
        "waiting: its replicas are being replaced",
    );
    stateful(json!({}), (3, "b"), "ready");
    let above = json!({"rollingUpdate": {"partition": 2}});
    stateful(
        above.clone(),
        (0, "a"),
        "waiting: 0 of 1 replicas are updated",
    );
    stateful(above, (1, "a"), "ready");
    stateful(json!({"type": "OnDelete"}), (0, "a"), "ready");
    let daemon = |updated: i64, ready: i64, expected: &str| {
        let status = json!({
            "observedGeneration": 2, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
            "updatedNumberScheduled": updated, "numberAvailable": ready, "numberReady": ready,
        });
        check("apps/v1/DaemonSet", json!({}), status, expected);
    };
    daemon(1, 2, "waiting: 1 of 2 Pods are updated");
    daemon(2, 1, "waiting: 1 of 2 Pods are available");
    daemon(2, 2, "ready");
}

#[test]
fn pods_and_jobs() {
    let pod = |status: Value, expected: &str| check("v1/Pod", json!({}), status, expected);
    let running = |ready: &str| {
        let ready = condition("Ready", ready, "ContainersNotReady", "");
        json!({"phase": "Running", "conditions": [ready]})
    };
    pod(json!({}), "waiting: nobody has written its status yet");
    pod(json!({"phase": "Pending"}), "waiting: it is Pending");
    pod(running("False"), "waiting: ContainersNotReady");
    pod(running("True"), "ready");
    pod(json!({"phase": "Succeeded"}), "ready");
    pod(
        json!({"phase": "Failed", "message": "evicted"}),
        "failed: evicted",
    );
    let mut crashing = running("False");
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    crashing["containerStatuses"] = json!([{"name": "web", "state": waiting}]);
    pod(crashing, "failed: CrashLoopBackOff: container web");
    let job = |status: Value, expected: &str| check("batch/v1/Job", json!({}), status, expected);
    job(
        json!({"active": 1}),
        "waiting: it is not complete: 1 active, 0 succeeded",
    );
    let with = |one: Value| json!({"conditions": [one]});
    job(
        with(condition("Suspended", "True", "", "")),
        "waiting: it is suspended",
    );
    job(with(condition("Complete", "True", "", "")), "ready");
    let failed = condition("Failed", "True", "BackoffLimitExceeded", "too often");
    job(with(failed), "failed: BackoffLimitExceeded: too often");
}

#[test]
fn claims_services_and_definitions() {
    let claim = |phase: &str, expected: &str| {
        let status = json!({"phase": phase});
        check("v1/PersistentVolumeClaim", json!({}), status, expected);
    };
    claim("Pending", "waiting: it is Pending");
    claim("Bound", "ready");
    claim("Lost", "failed: its volume is lost");
    let service = |spec: Value, status: Value, expected: &str| {
        check("v1/Service", spec, status, expected);
    };
    service(json!({}), json!({"loadBalancer": {}}), "ready");
    let balanced = || json!({"type": "LoadBalancer"});
    let none = "waiting: its load balancer has no address yet";
    service(balanced(), json!({"loadBalancer": {}}), none);
    let address = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    service(balanced(), address, "ready");
    let definition = |conditions: Value, expected: &str| {
        let kind = "apiextensions.k8s.io/v1/CustomResourceDefinition";
        check(kind, json!({}), json!({"conditions": conditions}), expected);
    };
    definition(json!([]), "waiting: nobody has written its status yet");
    let names = |status: &str| condition("NamesAccepted", status, "PluralConflict", "taken");
    let established = |status: &str| condition("Established", status, "Installing", "");
    definition(
        json!([names("True"), established("False")]),
        "waiting: Installing",
    );
    definition(json!([names("True"), established("True")]), "ready");
    definition(
        json!([names("False"), established("False")]),
        "failed: PluralConflict: taken",
    );
}

#[test]
fn what_somebody_wrote_counts_instead() {
    let check = |ready_when: &[&str], status: Value, expected: &str| {
        let object = object("example.com/v1/Widget", &json!({"size": 3}), &status);
        let judgement = judge(&object, &Rules::new(ready_when));
        assert_eq!(shown(&judgement), expected, "{ready_when:?}");
    };
    let two = [
        "object.status.size >= object.spec.size",
        "${object.status.fine}",
    ];
    check(&two, json!({"size": 3, "fine": true}), "ready");
    check(
        &two,
        json!({"size": 2, "fine": true}),
        "waiting: object.status.size >= object.spec.size is false",
    );
    check(
        &two,
        json!({"size": 3}),
        "waiting: object.status.fine: waiting for object.status.fine",
    );
    let wrong = &two[1..];
    check(
        wrong,
        json!({"fine": "yes"}),
        "waiting: readyWhen cannot be evaluated: object.status.fine: it is of type string",
    );
    let unready = json!({"conditions": [condition("Ready", "False", "", "")]});
    check(&["true"], unready, "ready");
    let stale = json!({"observedGeneration": 1});
    check(
        &["true"],
        stale,
        "waiting: its status is of an earlier generation",
    );
    check(
        &["true", "'ready'"],
        json!({}),
        "waiting: readyWhen cannot be evaluated: [1]: 1:1: it must be true or false, and is of type 'string'",
    );
    check(
        &["thing.status"],
        json!({}),
        "waiting: readyWhen cannot be evaluated: [0]: 1:1: undeclared reference to 'thing' (in container '')",
    );
    assert!(super::check(&two).is_ok());
    assert!(super::check(&["object."]).is_err());
}

#[test]
fn reasons_tell_nothing_of_what_secrets_hold() {
    let mut secret = object("v1/Secret", &Value::Null, &Value::Null);
    secret["data"] = json!({"password": "aHVudGVyMg=="});
    for wrong in [
        "int(object.data.password) > 1",
        "object.data.password.nothing",
        "object.data.password",
        "object.metadata[object.data.password] == ''",
        "object.metadata[object.data.password].x.y",
        "object.data.password == ''",
    ] {
        let judgement = judge(&secret, &Rules::new(&[wrong]));
        assert_eq!(judgement.state, State::Waiting);
        assert!(!judgement.reason.contains("aHVu"), "{}", judgement.reason);
    }
}

// --- graphs

const NEWEST: &str = "revision 3/00000000000000ff";
const OLDER: &str = "revision 2/00000000000000aa";
/// The same number, of another definition of the same name.
const ANOTHER: &str = "revision 3/00000000000000aa";

fn definition(said: &[(&str, &str, &str)], observed: i64) -> Value {
    let conditions = said.iter().map(|(r#type, status, message)| {
        let mut one = condition(r#type, status, "", message);
        one["observedGeneration"] = observed.into();
        one
    });
    let conditions: Vec<Value> = conditions.collect();
    let kind = "kro.run/v1alpha1/ResourceGraphDefinition";
    object(kind, &json!({}), &json!({"conditions": conditions}))
}

fn accepted(revision: &str) -> Value {
    definition(
        &[
            ("GraphAccepted", "True", ""),
            ("KindReady", "True", ""),
            ("ControllerReady", "True", ""),
            ("GraphRevisionsResolved", "True", revision),
        ],
        2,
    )
}

fn instance(name: &str, revision: &str, state: &str) -> Value {
    let (status, why) = match state {
        "ACTIVE" => ("True", ""),
        _ => ("False", "not yet"),
    };
    let conditions = [
        condition("GraphResolved", "True", "Resolved", revision),
        condition("Ready", status, "", why),
    ];
    let conditions = conditions.map(|mut one| {
        one["observedGeneration"] = 2.into();
        one
    });
    let status = json!({"state": state, "conditions": conditions});
    let mut instance = object("kro.run/v1alpha1/Shop", &json!({}), &status);
    instance["metadata"]["name"] = name.into();
    instance
}

#[track_caller]
fn graph_is(definition: &Value, instances: &[Value], expected: &str) {
    let now = Timestamp::parse("2026-03-01T12:00:00Z").expect("a time");
    let judgement = graph(definition, instances, now);
    assert_eq!(shown(&judgement), expected);
}

#[test]
fn a_graph_is_as_its_instances_are() {
    let check = |instances: &[Value], expected: &str| {
        graph_is(&accepted(NEWEST), instances, expected);
    };
    check(&[], "no evidence: it has no instances here");
    let ready = |name: &str| instance(name, NEWEST, "ACTIVE");
    check(&[ready("a"), ready("b")], "ready");
    check(
        &[
            ready("a"),
            instance("c", OLDER, "ACTIVE"),
            instance("b", NEWEST, "IN_PROGRESS"),
        ],
        "waiting: 1 of 3 instances run it and are ready; first: prod/b: not yet",
    );
    check(
        &[
            ready("a"),
            instance("b", NEWEST, "ERROR"),
            instance("c", NEWEST, "IN_PROGRESS"),
        ],
        "failed: 1 of 3 instances failed; first: prod/b: not yet",
    );
    let mut going = instance("b", OLDER, "DELETING");
    going["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z".into();
    check(&[ready("a"), going.clone()], "ready");
    check(&[going], "no evidence: it has no instances here");
}

/// The author of a graph may say what is ready; how far its instances are is said beside that.
#[test]
fn a_graph_is_not_as_its_author_says() {
    let authored = |state: &str, said: &str| {
        let mut one = instance("a", NEWEST, state);
        let conditions = one["status"]["conditions"].as_array_mut().expect("a list");
        for condition in conditions.iter_mut() {
            let own = format!(
                "deltaplane.io/{}",
                condition["type"].as_str().expect("a type")
            );
            condition["type"] = own.into();
        }
        conditions.insert(0, condition("Ready", said, "Author", ""));
        one
    };
    graph_is(&accepted(NEWEST), &[authored("ACTIVE", "False")], "ready");
    graph_is(
        &accepted(NEWEST),
        &[authored("IN_PROGRESS", "True")],
        "waiting: 0 of 1 instances run it and are ready; first: prod/a: not yet",
    );
}

/// That an instance was ready before says nothing of what it is to become.
#[test]
fn ready_at_another_revision_never_counts() {
    let check = |instance: Value, why: &str| {
        let expected =
            format!("waiting: 0 of 1 instances run it and are ready; first: prod/a: {why}");
        graph_is(&accepted(NEWEST), &[instance], &expected);
    };
    let older = "it runs revision 2, and not 3 yet";
    check(instance("a", OLDER, "ACTIVE"), older);
    // What is broken since before is not broken by this.
    check(instance("a", OLDER, "ERROR"), older);
    check(
        instance("a", ANOTHER, "ACTIVE"),
        "it runs revision 3, and not 3 yet",
    );
    let silent = instance("a", "the graph is known", "ACTIVE");
    check(silent, "it does not say which revision it runs");
    let mut changed = instance("a", NEWEST, "ACTIVE");
    changed["metadata"]["generation"] = 3.into();
    check(changed, "its status is of an earlier generation");
    let new = object("kro.run/v1alpha1/Shop", &json!({}), &Value::Null);
    check(new, "nobody has looked at it yet");
}

#[test]
fn who_is_held_does_not_count_against_it() {
    let held = |name: &str, key: &str, value: &str| {
        let mut held = instance(name, OLDER, "ACTIVE");
        held["metadata"]["annotations"] = json!({key: value});
        held
    };
    let ready = instance("a", NEWEST, "ACTIVE");
    let check = |instances: &[Value], expected: &str| {
        graph_is(&accepted(NEWEST), instances, expected);
    };
    let forever = held("b", "deltaplane.io/hold", "until I say so");
    let suspended = held("c", "kro.run/reconcile", "suspended");
    check(
        &[ready.clone(), forever.clone(), suspended.clone()],
        "ready: 1 instances run it and are ready (2 held)",
    );
    check(
        &[forever, suspended],
        "no evidence: its instances are held, all 2",
    );
    let later = held("b", "deltaplane.io/hold", "2026-03-01T12:00:01Z");
    check(
        &[ready.clone(), later],
        "ready: 1 instances run it and are ready (1 held)",
    );
    let over = held("b", "deltaplane.io/hold", "2026-03-01T12:00:00Z");
    let free = held("b", "deltaplane.io/hold", "false");
    check(
        &[ready.clone(), free],
        "waiting: 1 of 2 instances run it and are ready; first: prod/b: it runs revision 2, and not 3 yet",
    );
    check(
        &[ready, over],
        "waiting: 1 of 2 instances run it and are ready; first: prod/b: it runs revision 2, and not 3 yet",
    );
}

#[test]
fn an_instance_that_a_gate_holds_is_not_ready_for_its_graph() {
    let mut held = instance("a", NEWEST, "ACTIVE");
    let mut condition = condition("ResourcesPropagated", "False", "GateClosed", "web: closed");
    condition["observedGeneration"] = 2.into();
    let conditions = held["status"]["conditions"].as_array_mut();
    conditions.expect("conditions").push(condition);
    graph_is(
        &accepted(NEWEST),
        std::slice::from_ref(&held),
        "waiting: 0 of 1 instances run it and are ready; first: prod/a: GateClosed: web: closed",
    );
    let judged = judge(&held, &Rules::default());
    assert!(matches!(judged.state, State::Waiting), "{judged:?}");
}

/// Nor is one whose deletions are held, whether its owner keeps it where it is or not.
#[test]
fn an_instance_whose_deletions_are_held_is_not_ready_for_its_graph() {
    let mut held = instance("a", NEWEST, "ACTIVE");
    let mut condition = condition("ResourcesPropagated", "False", "DeletionsHeld", "2 of 3");
    condition["observedGeneration"] = 2.into();
    let conditions = held["status"]["conditions"].as_array_mut();
    conditions.expect("conditions").push(condition);
    let expected =
        "waiting: 0 of 1 instances run it and are ready; first: prod/a: DeletionsHeld: 2 of 3";
    graph_is(&accepted(NEWEST), std::slice::from_ref(&held), expected);
    held["metadata"]["annotations"]["deltaplane.io/hold"] = "true".into();
    graph_is(&accepted(NEWEST), &[held], expected);
}

#[test]
fn a_graph_that_cannot_be_run_fails() {
    let ready = [instance("a", NEWEST, "ACTIVE")];
    let check = |said: &[(&str, &str, &str)], observed: i64, expected: &str| {
        graph_is(&definition(said, observed), &ready, expected);
    };
    let valid = ("GraphAccepted", "True", "");
    let served = ("KindReady", "True", "");
    check(
        &[("GraphAccepted", "False", "no such kind")],
        2,
        "failed: no such kind",
    );
    check(
        &[("GraphAccepted", "Unknown", "later")],
        2,
        "waiting: later",
    );
    check(
        &[("GraphAccepted", "False", "no such kind")],
        1,
        "waiting: its status is of an earlier generation",
    );
    check(&[], 2, "waiting: nobody has looked at it yet");
    check(
        &[valid, ("KindReady", "False", "it breaks")],
        2,
        "failed: it breaks",
    );
    check(
        &[
            valid,
            served,
            ("ControllerReady", "False", "cannot follow Pods"),
        ],
        2,
        "waiting: cannot follow Pods",
    );
    let unknown = "waiting: it does not say which revision it is";
    graph_is(&accepted("revision 3"), &ready, unknown);
    graph_is(&accepted(""), &ready, unknown);
    let mut going = accepted(NEWEST);
    going["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z".into();
    graph_is(&going, &ready, "waiting: it is being deleted");
}

/// Any JSON, with the words that mean something.
fn json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "True",
        "False",
        "Ready",
        "Failed",
        "GraphAccepted",
        "KindReady",
        "ControllerReady",
        "GraphRevisionsResolved",
        "GraphResolved",
        NEWEST,
        "ERROR",
        "LoadBalancer",
        "Running",
        "",
    ]);
    let numbers = prop::sample::select(vec![i64::MIN, -1, 0, 1, 2, i64::MAX]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        numbers.prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "conditions",
        "type",
        "reason",
        "message",
        "generation",
        "observedGeneration",
        "annotations",
        "replicas",
        "updatedReplicas",
        "updateStrategy",
        "rollingUpdate",
        "partition",
        "phase",
        "desiredNumberScheduled",
        "state",
    ]);
    leaf.prop_recursive(5, 64, 6, move |inner| {
        let maps = prop::collection::btree_map(keys.clone(), inner.clone(), 0..6);
        let maps = maps.prop_map(|map| {
            map.into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()
        });
        prop_oneof![
            maps.prop_map(Value::Object),
            prop::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_it_looks_like_there_is_an_answer(object in json(), instance in json()) {
        let now = Timestamp::parse("2026-03-01T12:00:00Z").expect("a time");
        graph(&object, [&instance], now);
        let kinds = [
            "apps/v1/Deployment", "apps/v1/StatefulSet", "apps/v1/DaemonSet", "apps/v1/ReplicaSet",
            "batch/v1/Job", "v1/Pod", "v1/PersistentVolumeClaim", "v1/Service", "v1/Secret",
            "apiextensions.k8s.io/v1/CustomResourceDefinition", "example.com/v1/Widget",
        ];
        let written = Rules::new(&["object.status.replicas == object.spec.replicas"]);
        for kind in kinds {
            let mut object = object.clone();
            if let Some(object) = object.as_object_mut() {
                let (api_version, kind) = kind.rsplit_once('/').expect("both");
                object.insert("apiVersion".to_owned(), api_version.into());
                object.insert("kind".to_owned(), kind.into());
            }
            judge(&object, &Rules::default());
            judge(&object, &written);
        }
    }
}
