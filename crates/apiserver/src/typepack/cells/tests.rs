use serde_json::json;

use super::*;
use crate::typepack;

fn check(group: &str, version: &str, kind: &str, object: Value, expected: Value) {
    let kind = typepack::load().kind(group, version, kind).unwrap();
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    assert_eq!(Value::Array(cells(kind, &object, now)), expected);
}

#[test]
fn every_row_is_as_wide_as_its_table() {
    for kind in typepack::load()
        .kinds()
        .iter()
        .filter(|kind| !kind.columns.is_empty())
    {
        for object in [
            json!({}),
            json!(null),
            json!([1]),
            json!({"spec": 1, "status": [], "metadata": "x"}),
        ] {
            let cells = cells(kind, &object, Time::from_unix(0));
            assert_eq!(cells.len(), kind.columns.len(), "{}", kind.kind);
        }
    }
}

#[test]
fn every_printer_is_of_a_kind_in_the_pack() {
    for (group, name, _) in PRINTERS {
        let found = typepack::load()
            .kinds()
            .iter()
            .any(|kind| (kind.group, kind.kind) == (*group, *name));
        assert!(found, "{group} {name}");
    }
}

#[test]
fn a_pod_says_what_it_is_doing() {
    let created = json!({"name": "p", "creationTimestamp": "2026-01-01T23:58:00Z"});
    let status = |name: &str, state: Value| json!({"name": name, "ready": state.get("running").is_some(), "state": state, "restartCount": 1});
    check(
        "",
        "v1",
        "Pod",
        json!({"metadata": created, "spec": {"containers": [{}, {}], "nodeName": "n"}, "status": {"phase": "Running",
            "podIPs": [{"ip": "10.0.0.1"}],
            "containerStatuses": [status("a", json!({"running": {}})), status("b", json!({"waiting": {"reason": "CrashLoopBackOff"}}))]}}),
        json!([
            "p",
            "1/2",
            "CrashLoopBackOff",
            "2",
            "2m",
            "10.0.0.1",
            "n",
            "<none>",
            "<none>"
        ]),
    );
    check(
        "",
        "v1",
        "Pod",
        json!({"metadata": created, "spec": {"containers": [{}]}, "status": {"phase": "Pending"}}),
        json!([
            "p", "0/1", "Pending", "0", "2m", "<none>", "<none>", "<none>", "<none>"
        ]),
    );
}

#[test]
fn plain_kinds_have_a_name_and_an_age_or_a_date() {
    let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}});
    check(
        "",
        "v1",
        "ServiceAccount",
        object.clone(),
        json!(["a", "24h"]),
    );
    check(
        "rbac.authorization.k8s.io",
        "v1",
        "Role",
        object,
        json!(["a", "2026-01-01T00:00:00Z"]),
    );
    check(
        "",
        "v1",
        "ServiceAccount",
        json!({"metadata": {"name": "a"}}),
        json!(["a", "<unknown>"]),
    );
}

#[test]
fn selectors_read_as_clients_type_them() {
    let given = json!({"matchLabels": {"b": "1", "a": "2"}, "matchExpressions": [
        {"key": "c", "operator": "NotIn", "values": ["y", "x"]}, {"key": "aa", "operator": "DoesNotExist"},
        {"key": "d", "operator": "Exists"}, {"key": "e", "operator": "In", "values": ["z"]}]});
    assert_eq!(
        selector(Some(&given)),
        "a=2,!aa,b=1,c notin (x,y),d,e in (z)"
    );
    assert_eq!(selector(Some(&json!({}))), "");
    assert_eq!(selector(None), "");
}
