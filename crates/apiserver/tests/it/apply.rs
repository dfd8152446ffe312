//! Server-side apply and the other patches, through the front door.

use serde_json::{Value, json};

use crate::harness::Server;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

/// A server with the Deployment `web`, and its path.
async fn with_deployment() -> (Server, String) {
    let server = Server::start().await;
    server
        .post(DEPLOYMENTS, &deployment(1, "nginx:1"))
        .await
        .expect(201);
    (server, format!("{DEPLOYMENTS}/web"))
}

#[tokio::test]
async fn owners_are_asked_and_can_be_overruled() {
    let server = Server::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    let one = format!("{path}?fieldManager=one");
    let created = server
        .patch(&one, "apply", &deployment(2, "nginx:1"))
        .await
        .expect(201);
    assert_eq!(
        created["spec"]["strategy"]["type"], "RollingUpdate",
        "it is defaulted"
    );
    let again = server
        .patch(&one, "apply", &deployment(2, "nginx:1"))
        .await
        .expect(200);
    assert_eq!(again, created, "applying the same writes nothing");

    let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}});
    let two = format!("{path}?fieldManager=two");
    let refused = server.patch(&two, "apply", &config).await.expect(409);
    assert_eq!(
        refused["message"],
        "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas"
    );
    assert_eq!(
        refused["details"]["causes"][0]["reason"],
        "FieldManagerConflict"
    );
    let forced = server
        .patch(&format!("{two}&force=true"), "apply", &config)
        .await
        .expect(200);
    assert_eq!(forced["spec"]["replicas"], 5);
    server.patch(&path, "apply", &config).await.refused(422);
}

#[tokio::test]
async fn what_is_applied_no_more_goes() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces/default/configmaps/a?fieldManager=one";
    let config = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
    server
        .patch(path, "apply", &config(json!({"a": "1", "b": "2"})))
        .await
        .expect(201);
    let applied = server
        .patch(path, "apply", &config(json!({"b": "2"})))
        .await
        .expect(200);
    assert_eq!(applied["data"], json!({"b": "2"}));
}

#[tokio::test]
async fn strategic_patches_merge_lists_by_key() {
    let server = Server::start().await;
    server
        .post(DEPLOYMENTS, &deployment(1, "nginx:1"))
        .await
        .expect(201);
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": "nginx:2"},
        {"name": "side", "image": "envoy"},
    ]}}}});
    let patched = server
        .patch(&format!("{DEPLOYMENTS}/web"), "strategic-merge", &patch)
        .await
        .expect(200);
    let containers = patched["spec"]["template"]["spec"]["containers"]
        .as_array()
        .expect("a list");
    let images: Vec<&Value> = containers.iter().map(|one| &one["image"]).collect();
    assert_eq!(images.len(), 2);
    assert!(images.contains(&&json!("nginx:2")) && images.contains(&&json!("envoy")));
    assert_eq!(patched["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_json_patch_can_test_that_a_field_is_absent() {
    let (server, path) = with_deployment().await;
    let claim = json!([
        {"op": "test", "path": "/metadata/finalizers", "value": null},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]},
    ]);
    let claimed = server.patch(&path, "json", &claim).await.expect(200);
    assert_eq!(claimed["metadata"]["finalizers"], json!(["example.com/x"]));
    server.patch(&path, "json", &claim).await.refused(422);
    let nowhere = json!([{"op": "test", "path": "/nowhere/at/all", "value": null}]);
    server.patch(&path, "json", &nowhere).await.refused(422);
}

#[tokio::test]
async fn json_patches_test_and_change() {
    let (server, path) = with_deployment().await;
    let good = json!([
        {"op": "test", "path": "/spec/replicas", "value": 1},
        {"op": "replace", "path": "/spec/replicas", "value": 3},
    ]);
    assert_eq!(
        server.patch(&path, "json", &good).await.expect(200)["spec"]["replicas"],
        3
    );
    server.patch(&path, "json", &good).await.refused(422);
    let bomb: Vec<Value> = std::iter::once(json!({"op": "add", "path": "/metadata/annotations", "value": {"a": "x".repeat(1000)}}))
        .chain((0..20).map(|index| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/annotations/c{index}")})))
        .collect();
    let refused = server.patch(&path, "json", &json!(bomb)).await;
    assert_eq!(refused.code.as_u16(), 413, "{}", refused.refused(413));
}
