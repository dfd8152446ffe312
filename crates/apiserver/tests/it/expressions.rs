//! Validation rules of definitions: refused when they are wrong, enforced when they are right.

use serde_json::{Value, json};

use crate::custom::establish;
use crate::harness::{Reply, Server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LIMITS: &str = "/apis/example.com/v1/namespaces/default/limits";

fn definition(rules: Value) -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-validations": rules, "properties": {
            "max": {"type": "integer"}, "note": {"type": "string", "maxLength": 10},
        }},
        "status": {"type": "object", "properties": {"used": {
            "type": "integer",
            "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "never falls"}],
        }}},
    }});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "limits.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "limits", "kind": "Limit"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}]}})
}

fn limit(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Limit",
        "metadata": {"name": name}, "spec": spec})
}

async fn merge(server: &Server, path: &str, patch: &Value) -> Reply {
    server.patch(path, "merge", patch).await
}

async fn with_rules(rules: Value) -> Server {
    let server = Server::start().await;
    server
        .post(DEFINITIONS, &definition(rules))
        .await
        .expect(201);
    establish(&server, "limits.example.com").await;
    server
}

#[tokio::test]
async fn rules_are_enforced_by_all_writes() {
    let server = with_rules(json!([{"rule": "self.max > 5", "message": "more than 5"}])).await;
    let refused = server.post(LIMITS, &limit("a", json!({"max": 5}))).await;
    let message = refused.refused(422);
    assert_eq!(
        message,
        r#"Limit.example.com "a" is invalid: spec: Invalid value: more than 5"#
    );
    server
        .post(LIMITS, &limit("a", json!({"max": 6})))
        .await
        .expect(201);
    let path = format!("{LIMITS}/a");
    let patch = json!({"spec": {"max": 4}});
    merge(&server, &path, &patch).await.refused(422);
    let stored = server.get(&path).await.expect(200);
    assert_eq!(stored["spec"]["max"], 6);
}

#[tokio::test]
async fn transitions_of_a_status_are_judged() {
    let server = with_rules(json!([])).await;
    server
        .post(LIMITS, &limit("a", json!({})))
        .await
        .expect(201);
    let path = format!("{LIMITS}/a/status");
    let used = |used: u64| json!({"status": {"used": used}});
    merge(&server, &path, &used(3)).await.expect(200);
    let refused = merge(&server, &path, &used(2)).await;
    let message = refused.refused(422);
    assert_eq!(
        message,
        r#"Limit.example.com "a" is invalid: status.used: Invalid value: 2: never falls"#
    );
    merge(&server, &path, &used(4)).await.expect(200);
}

#[tokio::test]
async fn rules_are_for_objects_of_the_right_shape() {
    let server = with_rules(json!([{"rule": "self.max > 5"}])).await;
    let object = limit("a", json!({"max": 1, "note": "far too long a note"}));
    let refused = server.post(LIMITS, &object).await;
    let message = refused.refused(422);
    assert!(
        message.contains("some validation rules were not checked"),
        "{message}"
    );
    assert!(!message.contains("self.max"), "{message}");
}

#[tokio::test]
async fn a_rule_that_came_later_is_warned_of_until_its_field_changes() {
    let server = with_rules(json!([])).await;
    server
        .post(LIMITS, &limit("a", json!({"max": 1})))
        .await
        .expect(201);
    let stricter = json!([{"rule": "self.max > 5", "message": "more than 5"}]);
    let path = format!("{DEFINITIONS}/limits.example.com");
    let versions = definition(stricter)["spec"]["versions"].clone();
    let patch = json!({"spec": {"versions": versions}});
    merge(&server, &path, &patch).await.expect(200);
    let path = format!("{LIMITS}/a");
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    let reply = merge(&server, &path, &label).await;
    reply.expect(200);
    assert_eq!(
        reply.warnings(),
        ["299 - \"spec: Invalid value: more than 5\""]
    );
    let note = json!({"spec": {"note": "n"}});
    merge(&server, &path, &note).await.refused(422);
}

#[tokio::test]
async fn what_is_going_can_be_let_go_whatever_rules_came_later() {
    let server = with_rules(json!([])).await;
    let mut object = limit("a", json!({"max": 1}));
    object["metadata"]["finalizers"] = json!(["example.com/held"]);
    server.post(LIMITS, &object).await.expect(201);
    let path = format!("{LIMITS}/a");
    server.delete(&path, &json!({})).await.expect(200);
    let stricter = json!([{"rule": "self.max > 5 && self == oldSelf && false"}]);
    let versions = definition(stricter)["spec"]["versions"].clone();
    let patch = json!({"spec": {"versions": versions}});
    let definition = format!("{DEFINITIONS}/limits.example.com");
    merge(&server, &definition, &patch).await.expect(200);
    let note = json!({"spec": {"note": "n"}});
    merge(&server, &path, &note).await.refused(422);
    let released = json!({"metadata": {"finalizers": null}});
    merge(&server, &path, &released).await.expect(200);
    server.get(&path).await.refused(404);
}

#[tokio::test]
async fn rules_that_cannot_work_are_refused() {
    let server = Server::start().await;
    let at = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
    for (rule, expected) in [
        (json!({"rule": "self.nope == 1"}), "undefined field 'nope'"),
        (
            json!({"rule": "self.max =="}),
            "compilation failed: ERROR: <input>:1:",
        ),
        (
            json!({"rule": "self.max"}),
            "cel expression must evaluate to a bool",
        ),
        (
            json!({"rule": "true", "messageExpression": "self.max"}),
            "messageExpression must evaluate to a string",
        ),
    ] {
        let reply = server.post(DEFINITIONS, &definition(json!([rule]))).await;
        let message = reply.refused(422);
        assert!(message.contains(expected), "{message}");
        assert!(message.contains(at), "{message}");
    }
}
