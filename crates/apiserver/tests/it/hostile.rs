//! Requests that try to get more than they may.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use deltaplane_apiserver::Limits;
use deltaplane_runtime::Clock;
use futures::FutureExt;
use http::{HeaderValue, Request};
use http_body_util::Full;
use serde_json::json;
use tower::ServiceExt;

use crate::harness::{Server, Setup, endless, grant};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn make_maps(server: &Server, names: &[&str]) {
    for name in names {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        server.post(MAPS, &map).await.expect(201);
    }
}

#[tokio::test]
async fn one_object_is_got_and_not_watched_whatever_the_query_says() {
    let server = Server::start().await;
    make_maps(&server, &["mine", "other"]).await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"],
        "resourceNames": ["mine"], "verbs": ["get", "watch"]}]);
    grant(&server, "eve", rules).await;
    let eve = server.as_user("eve", &[]);
    let map = eve.get(&format!("{MAPS}/mine?watch=1")).await.expect(200);
    assert_eq!(map["metadata"]["name"], "mine");
}

#[tokio::test]
async fn a_name_in_the_field_selector_is_the_name_that_rights_are_about() {
    let server = Server::start().await;
    make_maps(&server, &["mine", "other"]).await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"],
        "resourceNames": ["mine"], "verbs": ["list"]}]);
    grant(&server, "eve", rules).await;
    let eve = server.as_user("eve", &[]);
    let list = |selector: &str| format!("{MAPS}?fieldSelector={selector}");
    let listed = eve.get(&list("metadata.name%3Dmine")).await.expect(200);
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1));
    for selector in ["", "metadata.name%3Dother", "metadata.name!%3Dmine"] {
        eve.get(&list(selector)).await.refused(403);
    }
}

#[tokio::test]
async fn a_name_in_the_field_selector_gives_no_right_to_write() {
    let server = Server::start().await;
    make_maps(&server, &["mine", "other"]).await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"],
        "resourceNames": ["mine"], "verbs": ["*"]}]);
    grant(&server, "eve", rules).await;
    let eve = server.as_user("eve", &[]);
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "new"}});
    for path in [MAPS, &format!("{MAPS}?fieldSelector=metadata.name%3Dmine")] {
        eve.post(path, &map).await.refused(403);
        eve.delete(path, &json!({})).await.refused(403);
    }
    eve.delete(&format!("{MAPS}/mine"), &json!({}))
        .await
        .expect(200);
}

#[tokio::test]
async fn an_impersonation_that_cannot_be_read_is_refused() {
    let server = Server::start().await;
    let whoami = async |value: &[u8]| {
        let question = json!({"apiVersion": "authentication.k8s.io/v1",
            "kind": "SelfSubjectReview"});
        let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("impersonate-user", HeaderValue::from_bytes(value).unwrap())
            .extension(server.user().clone())
            .body(Full::new(Bytes::from(question.to_string())));
        server.raw(request.unwrap()).await
    };
    whoami(b"j\xfcrgen").await.refused(400);
    let review = whoami("j\u{fc}rgen".as_bytes()).await.expect(201);
    assert_eq!(review["status"]["userInfo"]["username"], "j\u{fc}rgen");
}

#[tokio::test]
async fn bodies_that_never_come_starve_nobody_and_end() {
    let (clock, hand) = Clock::manual(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let limits = Limits {
        in_flight: 2,
        ..Limits::default()
    };
    let server = Server::start_with(Setup {
        limits,
        clock,
        ..Setup::default()
    })
    .await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
    for user in ["slow", "quick"] {
        grant(&server, user, rules.clone()).await;
    }
    let (slow, quick) = (server.as_user("slow", &[]), server.as_user("quick", &[]));
    let request = endless(&slow, MAPS, b"");
    let mut waiting = Box::pin(server.api.clone().oneshot(request));
    assert!(waiting.as_mut().now_or_never().is_none());
    // An unfinished upload holds no place, not even of its own user.
    slow.get(MAPS).await.expect(200);
    quick.get(MAPS).await.expect(200);
    hand.advance(Limits::default().body_time);
    assert_eq!(waiting.await.unwrap().status(), 408);
    slow.get(MAPS).await.expect(200);
}

#[tokio::test]
async fn a_patch_that_nests_without_end_is_refused() {
    let server = Server::start().await;
    make_maps(&server, &["deep"]).await;
    let mut operations = vec![json!({"op": "add", "path": "/data", "value": {"a": {}}})];
    let copy = json!({"op": "copy", "from": "/data/a", "path": "/data/a/a"});
    operations.extend(std::iter::repeat_n(copy, 600));
    let path = format!("{MAPS}/deep");
    let reply = server.patch(&path, "json", &json!(operations)).await;
    assert!(reply.refused(422).contains("nested deeper"));
    server.get(&path).await.expect(200);
}

#[tokio::test]
async fn a_patch_cannot_make_an_object_larger_than_a_body() {
    let server = Server::start().await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = json!({"kind": "Role", "metadata": {"name": "large"}, "rules": []});
    server.post(&roles, &role).await.expect(201);
    let name = "x".repeat(Limits::default().body / 3);
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"],
        "resourceNames": [name]});
    let patch = json!([{"op": "add", "path": "/rules/-", "value": rule}]);
    let mut codes = Vec::new();
    for _ in 0..4 {
        let reply = server
            .patch(&format!("{roles}/large"), "json", &patch)
            .await;
        codes.push(reply.code.as_u16());
    }
    assert_eq!(codes, [200, 200, 413, 413]);
}

#[tokio::test]
async fn copying_has_an_end_even_where_nothing_grows() {
    let server = Server::start().await;
    let text = "x".repeat(100 << 10);
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": text}});
    server.post(MAPS, &map).await.expect(201);
    let copies = |count: usize| {
        let copy = json!({"op": "copy", "from": "/data/a", "path": "/data/b"});
        json!(vec![copy; count])
    };
    let path = format!("{MAPS}/m");
    server.patch(&path, "json", &copies(29)).await.expect(200);
    let reply = server.patch(&path, "json", &copies(31)).await;
    assert!(reply.refused(413).contains("accumulated size"));
}

/// An object that is as large as any can be, with a finalizer.
async fn make_largest(server: &Server) -> String {
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |size: usize| {
        json!({"kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "large", "namespace": "default", "finalizers": ["example.com/held"]},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"],
            "resourceNames": ["x".repeat(size)]}]})
    };
    let path = format!("{roles}/large");
    server.post(&roles, &role(1)).await.expect(201);
    // The largest that is taken, found by halving.
    let (mut taken, mut refused) = (1, Limits::default().body);
    while refused - taken > 1 {
        let size = taken.midpoint(refused);
        let patch = json!({"rules": role(size)["rules"]});
        match server.patch(&path, "merge", &patch).await.code.as_u16() {
            200 => taken = size,
            _ => refused = size,
        }
    }
    path
}

#[tokio::test]
async fn the_largest_object_can_be_deleted() {
    let server = Server::start().await;
    let path = make_largest(&server).await;
    server.delete(&path, &json!({})).await.expect(200);
    let released = json!({"metadata": {"finalizers": null}});
    server.patch(&path, "merge", &released).await.expect(200);
    server.get(&path).await.refused(404);
}

#[tokio::test]
async fn metadata_cannot_be_patched_away() {
    let server = Server::start().await;
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "kept", "finalizers": ["a/b"]}});
    server.post(MAPS, &map).await.expect(201);
    let path = format!("{MAPS}/kept");
    let gone = json!({"metadata": null});
    let words =
        "the name of the object (kept based on URL) was undeterminable: name must be provided";
    assert_eq!(
        server.patch(&path, "merge", &gone).await.refused(400),
        words
    );
    let gone = json!([{"op": "remove", "path": "/metadata"}]);
    assert_eq!(server.patch(&path, "json", &gone).await.refused(400), words);
    let kept = server.get(&path).await.expect(200);
    assert_eq!(kept["metadata"]["finalizers"], json!(["a/b"]));
}

#[tokio::test]
async fn what_cannot_be_answered_is_not_done() {
    let server = Server::start().await;
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "unseen"}});
    let request = Request::post(MAPS)
        .header("accept", "text/html")
        .extension(server.user().clone())
        .body(Full::new(Bytes::from(map.to_string())));
    server.raw(request.unwrap()).await.refused(406);
    server.get(&format!("{MAPS}/unseen")).await.refused(404);
}

#[tokio::test]
async fn questions_are_asked_in_their_place() {
    let server = Server::start().await;
    let rules = json!([{"apiGroups": ["authorization.k8s.io", "authentication.k8s.io"],
        "resources": ["*"], "verbs": ["create"]}]);
    grant(&server, "eve", rules).await;
    let eve = server.as_user("eve", &[]);
    let spec = json!({"user": "admin", "nonResourceAttributes": {"verb": "get", "path": "/"}});
    let question = json!({"kind": "SubjectAccessReview", "spec": spec});
    let group = "/apis/authorization.k8s.io/v1";
    for place in [
        "namespaces/default/subjectaccessreviews",
        "namespaces/default/selfsubjectaccessreviews",
    ] {
        eve.post(&format!("{group}/{place}"), &question)
            .await
            .refused(404);
    }
}

#[tokio::test]
async fn an_empty_segment_is_not_skipped() {
    let server = Server::start().await;
    let namespace = json!({"kind": "Namespace", "metadata": {"name": "configmaps"}});
    server
        .post("/api/v1/namespaces", &namespace)
        .await
        .expect(201);
    let all = server
        .get("/api/v1/namespaces//configmaps")
        .await
        .expect(200);
    assert_eq!(all["kind"], "ConfigMapList");
    let deleted = server
        .delete("/api/v1/namespaces//configmaps", &json!({}))
        .await;
    assert_ne!(deleted.code.as_u16(), 200, "nothing is deleted everywhere");
    server
        .get("/api/v1/namespaces/configmaps")
        .await
        .expect(200);
    server.get("/api/v1//namespaces").await.refused(400);
}
