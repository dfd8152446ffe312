//! Computed fields: written through a subresource of their own.

use serde_json::{Value, json};

use crate::custom::{definition, establish};
use crate::harness::{Server, grant};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const ONE: &str = "/apis/example.com/v1/namespaces/default/widgets/a";
const COMPUTED: &str = "/apis/example.com/v1/namespaces/default/widgets/a/computed";
const ANNOTATION: &str = "deltaplane.io/computed-fields";

fn computing(paths: &str) -> Value {
    let mut definition = definition();
    definition["metadata"]["annotations"] = json!({ANNOTATION: paths});
    definition
}

/// A server with the widget `a`, of which some fields are computed.
async fn with_computed() -> (Server, Value) {
    let server = Server::start().await;
    let definition = computing("spec.size, spec.parts");
    server.post(DEFINITIONS, &definition).await.expect(201);
    establish(&server, "widgets.example.com").await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a"}, "spec": {"color": "red", "size": 1}});
    let created = server.post(WIDGETS, &widget).await.expect(201);
    (server, created)
}

/// The fields that are owned through the subresource.
fn owned(object: &Value) -> Vec<(&str, &Value)> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    entries
        .filter(|entry| entry["subresource"] == "computed")
        .map(|entry| {
            (
                entry["operation"].as_str().unwrap_or_default(),
                &entry["fieldsV1"],
            )
        })
        .collect()
}

#[tokio::test]
async fn computed_fields_are_all_that_is_written() {
    for way in ["put", "merge", "json", "apply"] {
        let (server, created) = with_computed().await;
        let mut sent = created.clone();
        sent["metadata"]["labels"] = json!({"a": "b"});
        sent["spec"] = json!({"color": "blue", "size": 7, "replicas": 4});
        sent["status"] = json!({"ready": true});
        let written = match way {
            "put" => server.put(COMPUTED, &sent).await,
            "json" => {
                let replace =
                    |path: &str, value: &Value| json!({"op": "add", "path": path, "value": value});
                let operations = [
                    replace("/spec", &sent["spec"]),
                    replace("/status", &sent["status"]),
                    replace("/metadata/labels", &sent["metadata"]["labels"]),
                ];
                server.patch(COMPUTED, way, &json!(operations)).await
            }
            "merge" => server.patch(COMPUTED, way, &sent).await,
            _ => {
                let config = json!({"apiVersion": "example.com/v1", "kind": "Widget",
                    "metadata": {"name": "a", "labels": {"a": "b"}}, "spec": sent["spec"]});
                let path = format!("{COMPUTED}?fieldManager=m&force=true");
                server.patch(&path, way, &config).await
            }
        };
        let written = written.expect(200);
        assert_eq!(written["spec"], json!({"color": "red", "size": 7}), "{way}");
        assert_eq!(written["metadata"]["generation"], 2, "{way}");
        assert_eq!(written["metadata"].get("labels"), None, "{way}");
        assert_eq!(written.get("status"), None, "{way}");
        let operation = if way == "apply" { "Apply" } else { "Update" };
        let size = json!({"f:spec": {"f:size": {}}});
        assert_eq!(owned(&written), [(operation, &size)], "{way}");
        assert_eq!(server.get(COMPUTED).await.expect(200), written, "{way}");
        assert_eq!(server.get(ONE).await.expect(200), written, "{way}");
    }
}

#[tokio::test]
async fn computed_fields_go_when_they_are_taken_away() {
    let (server, _) = with_computed().await;
    let parts = json!({"spec": {"parts": [{"name": "x"}]}});
    let patched = server.patch(COMPUTED, "merge", &parts).await.expect(200);
    assert_eq!(patched["spec"]["parts"], parts["spec"]["parts"]);
    let without = json!({"spec": {"parts": null, "size": null, "color": null}});
    let patched = server.patch(COMPUTED, "merge", &without).await.expect(200);
    assert_eq!(patched["spec"], json!({"color": "red", "size": 3}));
}

#[tokio::test]
async fn computed_fields_have_a_right_of_their_own() {
    let (server, created) = with_computed().await;
    let may = |resource: &str| json!([{"apiGroups": ["example.com"], "resources": [resource], "verbs": ["*"]}]);
    grant(&server, "eve", may("widgets")).await;
    grant(&server, "adam", may("widgets/computed")).await;
    let (eve, adam) = (server.as_user("eve", &[]), server.as_user("adam", &[]));
    eve.put(COMPUTED, &created).await.refused(403);
    adam.put(ONE, &created).await.refused(403);
    adam.put(COMPUTED, &created).await.expect(200);
    let mut changed = created;
    changed["spec"]["size"] = json!(9);
    let through_main = eve.put(ONE, &changed).await.expect(200);
    assert_eq!(through_main["spec"]["size"], 9, "admission would refuse it");
}

#[tokio::test]
async fn the_annotation_makes_the_subresource() {
    let (server, _) = with_computed().await;
    let discovered = || async {
        let found = server.get("/apis/example.com/v1").await.expect(200);
        let rows = found["resources"].as_array().cloned().unwrap_or_default();
        rows.into_iter()
            .find(|row| row["name"] == "widgets/computed")
    };
    let row = json!({"name": "widgets/computed", "singularName": "", "namespaced": true,
        "kind": "Widget", "verbs": ["get", "patch", "update"]});
    assert_eq!(discovered().await, Some(row));
    let annotate = |paths: Value| json!({"metadata": {"annotations": {ANNOTATION: paths}}});
    let none = annotate(Value::Null);
    server.patch(DEFINITION, "merge", &none).await.expect(200);
    assert_eq!(discovered().await, None);
    server.get(COMPUTED).await.refused(404);
    server
        .patch(COMPUTED, "merge", &json!({}))
        .await
        .refused(404);
    let color = annotate(json!("spec.color"));
    server.patch(DEFINITION, "merge", &color).await.expect(200);
    let blue = json!({"spec": {"color": "blue", "size": 9}});
    let patched = server.patch(COMPUTED, "merge", &blue).await.expect(200);
    assert_eq!(patched["spec"], json!({"color": "blue", "size": 1}));
}

#[tokio::test]
async fn what_cannot_be_computed_is_refused_with_the_definition() {
    let server = Server::start().await;
    let illegal = "must be a path of fields below spec, such as spec.state";
    let unknown = "names no field in the schema of v1, v2";
    let cases = [
        ("", "", illegal),
        ("spec.size,", "", illegal),
        ("spec", "spec", illegal),
        ("spec.", "spec.", illegal),
        ("spec..size", "spec..size", illegal),
        ("status.ready", "status.ready", illegal),
        ("metadata.labels", "metadata.labels", illegal),
        ("spec.size,spec.weight", "spec.weight", unknown),
        ("spec.parts.name", "spec.parts.name", unknown),
    ];
    for (paths, path, why) in cases {
        let refused = server.post(DEFINITIONS, &computing(paths)).await;
        let expected =
            format!("metadata.annotations[{ANNOTATION}]: Invalid value: {path:?}: {why}");
        let refused = refused.refused(422);
        assert!(refused.contains(&expected), "{refused}");
    }
    let mut one_sided = computing("spec.size");
    let schema = &mut one_sided["spec"]["versions"][1]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"] = json!({"type": "object"});
    one_sided["spec"]["versions"][1]["selectableFields"] = json!([]);
    let refused = server.post(DEFINITIONS, &one_sided).await.refused(422);
    assert!(
        refused.contains("names no field in the schema of v2"),
        "{refused}"
    );
}
