//! Whatever is sent: the status that Kubernetes gives, nothing changed, nobody harmed.

use http::Method;
use serde_json::json;

use crate::harness::Server;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Status, method, path below `/api`, body (JSON).
const MALFORMED: &str = r#"
400 POST v1/namespaces/default/configmaps
400 POST v1/namespaces/default/configmaps {
400 POST v1/namespaces/default/configmaps []
422 POST v1/namespaces/default/configmaps null
400 POST v1/namespaces/default/configmaps {"kind":"Secret","apiVersion":"v1"}
400 POST v1/namespaces/default/configmaps {"kind":"ConfigMap","apiVersion":"v2"}
400 POST v1/namespaces/default/configmaps {"kind":"ConfigMap","metadata":{"name":"a","namespace":"other"}}
400 POST v1/namespaces/default/configmaps {"kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":1}}
400 POST v1/namespaces/default/configmaps {"kind":"ConfigMap","metadata":"x"}
422 POST v1/namespaces/default/configmaps {"kind":"ConfigMap","metadata":{}}
422 POST v1/namespaces/default/configmaps {"kind":"ConfigMap","metadata":{"name":"a","labels":{"b c":"d"}}}
405 POST v1/configmaps {}
404 POST v1/namespaces/default/nothings {}
404 POST v9/namespaces/default/configmaps {}
405 PUT v1/namespaces/default/configmaps {}
405 DELETE v1/namespaces {}
415 PATCH v1/namespaces/default/configmaps/x {}
400 DELETE v1/namespaces/default/configmaps/x {
422 DELETE v1/namespaces/default/configmaps/x {"propagationPolicy":"Maybe"}
"#;

#[tokio::test]
async fn malformed_requests_change_nothing() {
    let server = Server::start().await;
    let before = server.store.revision();
    for line in MALFORMED.lines().filter(|line| !line.is_empty()) {
        let mut parts = line.splitn(4, ' ');
        let mut next = || parts.next().unwrap_or_default();
        let (code, method, path, body) = (next(), next(), next(), next());
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let path = format!("/api/{path}");
        let reply = server
            .send(method, &path, "application/json", body.as_bytes())
            .await;
        assert_eq!(reply.code.as_str(), code, "{line}: {}", reply.json());
        assert_eq!(reply.json()["kind"], "Status", "{line}");
    }
    assert_eq!(server.store.revision(), before);
}

#[tokio::test]
async fn bodies_that_are_no_text_change_nothing() {
    let server = Server::start().await;
    let before = server.store.revision();
    let deep = format!(r#"{{"data":{}1{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    let cases: [(&str, &[u8], u16); 4] = [
        ("application/json", b"\xff\xfe", 400),
        ("application/json", deep.as_bytes(), 400),
        ("application/cbor", b"\xa0", 415),
        ("application/vnd.kubernetes.protobuf", b"k8s\0garbage", 400),
    ];
    for (kind, body, code) in cases {
        server
            .send(Method::POST, MAPS, kind, body)
            .await
            .refused(code);
    }
    assert_eq!(server.store.revision(), before);
}

#[tokio::test]
async fn bad_queries_are_refused() {
    let server = Server::start().await;
    let cases = [
        ("labelSelector=a+in", 400),
        ("fieldSelector=nope%3D1", 400),
        ("resourceVersion=abc", 400),
        ("resourceVersion=1&resourceVersionMatch=Sometimes", 422),
        ("limit=many", 400),
        ("continue=garbage", 400),
        ("watch=1&sendInitialEvents=true", 422),
        ("watch=1&resourceVersion=abc", 400),
    ];
    for (query, code) in cases {
        let reply = server.get(&format!("{MAPS}?{query}")).await;
        assert_eq!(reply.code.as_u16(), code, "{query}: {}", reply.json());
    }
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
    for query in ["dryRun=Maybe", "fieldValidation=Loose", "fieldManager=%01"] {
        server
            .post(&format!("{MAPS}?{query}"), &map)
            .await
            .refused(422);
    }
}

#[tokio::test]
async fn large_bodies_are_refused_by_their_size() {
    let server = Server::start().await;
    let body = vec![b' '; (3 << 20) + 1];
    let reply = server
        .send(Method::POST, MAPS, "application/json", &body)
        .await;
    assert_eq!(reply.expect(413)["reason"], "RequestEntityTooLarge");
    let big = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "x".repeat((1 << 20) + 1)}});
    server.post(MAPS, &big).await.refused(422);
}

#[tokio::test]
async fn what_must_stay_stays() {
    let server = Server::start().await;
    let refused = server
        .delete("/api/v1/namespaces/default", &json!({}))
        .await
        .refused(403);
    assert!(
        refused.contains("this namespace may not be deleted"),
        "{refused}"
    );
    let service = "/api/v1/namespaces/default/services/kubernetes";
    server.delete(service, &json!({})).await.refused(403);
    server
        .patch(service, "merge", &json!({"spec": {"type": "LoadBalancer"}}))
        .await
        .refused(403);
    server.get(service).await.expect(200);
}

#[tokio::test]
async fn preconditions_are_kept() {
    let server = Server::start().await;
    let created = server
        .post(
            MAPS,
            &json!({"kind": "ConfigMap", "metadata": {"name": "a"}}),
        )
        .await
        .expect(201);
    let path = format!("{MAPS}/a");
    for (field, wrong) in [
        ("UID", json!({"uid": "x"})),
        ("ResourceVersion", json!({"resourceVersion": "x"})),
    ] {
        let refused = server
            .delete(&path, &json!({ "preconditions": wrong }))
            .await
            .refused(409);
        let expected = format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the {field} in the precondition (x) does not match the {field} in record ("
        );
        assert!(refused.starts_with(&expected), "{refused}");
    }
    let mut other = created.clone();
    other["metadata"]["uid"] = json!("another");
    server.put(&path, &other).await.refused(409);
    let right = json!({"preconditions": {"uid": created["metadata"]["uid"]}});
    server.delete(&path, &right).await.expect(200);
}

#[tokio::test]
async fn nothing_new_comes_into_a_namespace_that_is_going() {
    let server = Server::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}});
    server
        .post("/api/v1/namespaces", &namespace)
        .await
        .expect(201);
    let marked = server
        .delete("/api/v1/namespaces/going", &json!({}))
        .await
        .expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
    let refused = server
        .post("/api/v1/namespaces/going/configmaps", &map)
        .await
        .expect(403);
    assert_eq!(
        refused["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
    let mut final_one = server.get("/api/v1/namespaces/going").await.expect(200);
    final_one["spec"]["finalizers"] = json!([]);
    server
        .put("/api/v1/namespaces/going/finalize", &final_one)
        .await
        .expect(200);
    server.get("/api/v1/namespaces/going").await.refused(404);
}
