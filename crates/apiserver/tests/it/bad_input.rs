//! Whatever is sent: the status that Kubernetes gives, nothing changed, nobody harmed.

use http::Method;
use serde_json::json;

use crate::harness::Server;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn malformed_requests_change_nothing() {
    let server = Server::start().await;
    let before = server.store.revision();
    let deep = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{}1{}}}"#,
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    let cases: [(Method, &str, &str, &[u8], u16); 22] = [
        (Method::POST, MAPS, "application/json", b"", 400),
        (Method::POST, MAPS, "application/json", b"{", 400),
        (Method::POST, MAPS, "application/json", b"[]", 400),
        (Method::POST, MAPS, "application/json", b"null", 400),
        (Method::POST, MAPS, "application/json", b"\xff\xfe", 400),
        (Method::POST, MAPS, "application/json", deep.as_bytes(), 400),
        (
            Method::POST,
            MAPS,
            "application/json",
            br#"{"kind":"Secret","apiVersion":"v1"}"#,
            400,
        ),
        (
            Method::POST,
            MAPS,
            "application/json",
            br#"{"kind":"ConfigMap","apiVersion":"v2"}"#,
            400,
        ),
        (
            Method::POST,
            MAPS,
            "application/json",
            br#"{"kind":"ConfigMap","metadata":{"name":"a","namespace":"other"}}"#,
            400,
        ),
        (
            Method::POST,
            MAPS,
            "application/json",
            br#"{"kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":1}}"#,
            400,
        ),
        (
            Method::POST,
            MAPS,
            "application/json",
            br#"{"kind":"ConfigMap","metadata":"x"}"#,
            400,
        ),
        (
            Method::POST,
            MAPS,
            "application/json",
            br#"{"kind":"ConfigMap","metadata":{}}"#,
            422,
        ),
        (
            Method::POST,
            MAPS,
            "application/json",
            br#"{"kind":"ConfigMap","metadata":{"name":"a","labels":{"b c":"d"}}}"#,
            422,
        ),
        (Method::POST, MAPS, "application/cbor", b"\xa0", 415),
        (
            Method::POST,
            MAPS,
            "application/vnd.kubernetes.protobuf",
            b"k8s\0garbage",
            400,
        ),
        (
            Method::POST,
            "/api/v1/configmaps",
            "application/json",
            b"{}",
            405,
        ),
        (
            Method::POST,
            "/api/v1/namespaces/default/nothings",
            "application/json",
            b"{}",
            404,
        ),
        (
            Method::POST,
            "/api/v9/namespaces/default/configmaps",
            "application/json",
            b"{}",
            404,
        ),
        (Method::PUT, MAPS, "application/json", b"{}", 405),
        (
            Method::PATCH,
            "/api/v1/namespaces/default/configmaps/x",
            "application/json",
            b"{}",
            415,
        ),
        (
            Method::DELETE,
            "/api/v1/namespaces/default/configmaps/x",
            "application/json",
            b"{",
            400,
        ),
        (
            Method::DELETE,
            "/api/v1/namespaces/default/configmaps/x",
            "application/json",
            br#"{"propagationPolicy":"Maybe"}"#,
            422,
        ),
    ];
    for (method, path, kind, body, code) in cases {
        let reply = server.send(method.clone(), path, kind, body).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        assert_eq!(
            reply.code.as_u16(),
            code,
            "{method} {path} {shown}: {:?}",
            reply.json()
        );
        assert_eq!(reply.json()["kind"], "Status", "{method} {path}");
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
    for wrong in [json!({"uid": "x"}), json!({"resourceVersion": "1"})] {
        let refused = server
            .delete(&path, &json!({ "preconditions": wrong }))
            .await
            .refused(409);
        assert!(refused.contains("Precondition failed"), "{refused}");
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
