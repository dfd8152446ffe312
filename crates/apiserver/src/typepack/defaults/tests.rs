use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::typepack;

fn check(api_version: &str, kind: &str, given: Value, expected: Value) {
    let pack = typepack::load();
    let version: ApiVersion = api_version.parse().unwrap();
    let kind = pack.kind(&version.group, &version.version, kind).unwrap();
    let mut object = given;
    apply(pack, kind, &mut object);
    assert_eq!(object, expected);
    let once = object.clone();
    apply(pack, kind, &mut object);
    assert_eq!(object, once, "a second time changes nothing");
}

#[test]
fn every_default_is_of_a_message_and_a_field_that_exist() {
    let tables = typepack::load().tables();
    let names: BTreeSet<&str> = tables.names().collect();
    for name in Rules::mentioned() {
        assert!(names.contains(name.as_str()), "{name}");
    }
    for (index, name) in tables.names().enumerate() {
        let message = tables.message_at(index);
        for (field, _) in fixed::of(name) {
            assert!(
                message.fields.iter().any(|known| known.json == field),
                "{name}.{field}"
            );
        }
    }
}

#[test]
fn a_deployment_is_completed() {
    let labels = json!({"app": "a"});
    check(
        "apps/v1",
        "Deployment",
        json!({"metadata": {"name": "web"}, "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "creationTimestamp": null},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}}),
        json!({"metadata": {"name": "web"}, "status": {}, "spec": {
            "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "template": {"metadata": {"labels": labels}, "spec": {
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
                "terminationGracePeriodSeconds": 30, "securityContext": {},
                "containers": [{"name": "c", "image": "nginx", "imagePullPolicy": "Always", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}]}}}}),
    );
}

#[test]
fn what_go_would_not_print_vanishes() {
    check(
        "v1",
        "ConfigMap",
        json!({"metadata": {"labels": {}, "finalizers": [], "annotations": null, "generateName": ""},
            "data": {"empty": ""}, "immutable": false, "unknown": null}),
        json!({"metadata": {}, "data": {"empty": ""}, "immutable": false, "unknown": null}),
    );
}

#[test]
fn a_status_is_filled_with_zeros_but_a_spec_is_not() {
    check(
        "policy/v1",
        "PodDisruptionBudget",
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}}),
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}, "status": {
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}}),
    );
    check(
        "coordination.k8s.io/v1",
        "Lease",
        json!({"metadata": {}, "spec": {"renewTime": "2026-01-01T01:00:00.000001+01:00"}}),
        json!({"metadata": {}, "spec": {"renewTime": "2026-01-01T00:00:00.000001Z"}}),
    );
}

#[test]
fn a_service_is_completed_by_its_type() {
    check(
        "v1",
        "Service",
        json!({"metadata": {}, "spec": {"type": "NodePort", "sessionAffinity": "ClientIP", "ports": [{"port": 80}]}}),
        json!({"metadata": {}, "status": {"loadBalancer": {}}, "spec": {
            "type": "NodePort", "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Cluster",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}, "externalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]}}),
    );
}

#[test]
fn text_becomes_data_and_quantities_become_canonical() {
    check(
        "v1",
        "Secret",
        json!({"metadata": {}, "stringData": {"a": "b"}, "data": {"a": "x", "c": "ZA=="}}),
        json!({"metadata": {}, "type": "Opaque", "data": {"a": "Yg==", "c": "ZA=="}}),
    );
    check(
        "v1",
        "ResourceQuota",
        json!({"metadata": {}, "spec": {"hard": {"cpu": 1.5, "memory": "1024Mi", "pods": "0.0001", "odd": "?"}}}),
        json!({"metadata": {}, "status": {},
            "spec": {"hard": {"cpu": "1500m", "memory": "1Gi", "pods": "1m", "odd": "?"}}}),
    );
}

#[test]
fn an_empty_string_is_a_missing_one() {
    check(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        json!({"metadata": {}, "roleRef": {"apiGroup": "", "kind": "Role", "name": ""}}),
        json!({"metadata": {}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role"}}),
    );
    check(
        "storage.k8s.io/v1",
        "CSINode",
        json!({"metadata": {}, "spec": {}}),
        json!({"metadata": {}, "spec": {"drivers": []}}),
    );
}

#[test]
fn objects_of_any_shape_are_survived() {
    let pack = typepack::load();
    for kind in pack.kinds() {
        for value in [
            json!(null),
            json!([]),
            json!("x"),
            json!({}),
            json!({"spec": [], "metadata": 1, "status": "x"}),
        ] {
            apply(pack, kind, &mut value.clone());
        }
    }
}
