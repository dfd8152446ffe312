//! The shapes of answers: Tables, metadata alone, discovery, protobuf in, gzip out.

use std::time::{Duration, UNIX_EPOCH};

use deltaplane_runtime::Clock;
use serde_json::{Value, json};

use crate::harness::{Server, Setup};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn tables_show_rows_and_metadata_alone_is_enough_for_some() {
    let server = Server::start().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    server.post(MAPS, &map).await.expect(201);
    let table = server
        .accept(MAPS, "application/json;as=Table;v=v1;g=meta.k8s.io")
        .await
        .expect(200);
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(
        table["rows"][0]["cells"][1].to_string().trim_matches('"'),
        "1"
    );
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let partial = server.accept(MAPS, accept).await.expect(200);
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert_eq!(partial["items"][0]["metadata"]["name"], "a");
    assert!(partial["items"][0].get("kind").is_none());
    assert!(
        server.get(MAPS).await.expect(200)["items"][0]
            .get("kind")
            .is_none()
    );
    assert!(partial["items"][0].get("data").is_none());
    let cbor = server.accept(MAPS, "application/cbor").await;
    assert!(
        cbor.refused(406)
            .contains("application/vnd.kubernetes.protobuf")
    );
}

#[tokio::test]
async fn discovery_lists_what_can_be_done() {
    let server = Server::start().await;
    let core = server.get("/api/v1").await.expect(200);
    let resources = core["resources"].as_array().expect("a list");
    let find = |name: &str| resources.iter().find(|one| one["name"] == name);
    let pods = find("pods").expect("pods are served");
    assert_eq!(
        (&pods["shortNames"], &pods["namespaced"]),
        (&json!(["po"]), &json!(true))
    );
    assert!(find("serviceaccounts/token").is_some());
    assert!(
        find("resourcequotas").is_none(),
        "what nobody enforces is not offered"
    );
    let groups = server.get("/apis").await.expect(200);
    let names: Vec<&str> = groups["groups"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    for group in [
        "apps",
        "batch",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "apiextensions.k8s.io",
    ] {
        assert!(names.contains(&group), "{group} in {names:?}");
    }
    for (group, version) in [("apps", "v1"), ("authorization.k8s.io", "v1")] {
        server
            .get(&format!("/apis/{group}/{version}"))
            .await
            .expect(200);
    }
    server.get("/apis/nothing.example").await.refused(404);
}

#[tokio::test]
async fn documents_are_sent_again_only_when_they_changed() {
    let server = Server::start().await;
    let index = server.get("/openapi/v3").await;
    let tag = index.headers["etag"].clone();
    let url = index.expect(200)["paths"]["apis/apps/v1"]["serverRelativeURL"].clone();
    let document = server.get(url.as_str().expect("a url")).await;
    assert!(
        document.headers["cache-control"]
            .to_str()
            .expect("text")
            .contains("immutable")
    );
    let document = document.expect(200);
    let patch =
        &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"]["kind"],
        "Deployment"
    );
    let parameters = patch["parameters"].as_array().expect("a list");
    assert!(
        parameters
            .iter()
            .any(|one| one["name"] == "fieldValidation")
    );
    let request = http::Request::get("/openapi/v3")
        .header("if-none-match", tag)
        .extension(server.user().clone())
        .body(Default::default())
        .expect("a request");
    assert_eq!(server.raw(request).await.code.as_u16(), 304);
}

#[tokio::test]
async fn protobuf_bodies_are_read() {
    let server = Server::start().await;
    // A ConfigMap as client-go writes it: the envelope, and in it name `p` and data {"k":"v"}.
    let metadata = [b"\x0a\x01p".as_slice()].concat();
    let entry = b"\x0a\x01k\x12\x01v";
    let object = [
        &[0x0a, metadata.len() as u8][..],
        &metadata,
        &[0x12, entry.len() as u8],
        entry,
    ]
    .concat();
    let type_meta = b"\x0a\x02v1\x12\x09ConfigMap";
    let body = [
        b"k8s\0".as_slice(),
        &[0x0a, type_meta.len() as u8],
        type_meta,
        &[0x12, object.len() as u8],
        &object,
    ]
    .concat();
    let reply = server
        .send(
            http::Method::POST,
            MAPS,
            "application/vnd.kubernetes.protobuf",
            &body,
        )
        .await;
    let created = reply.expect(201);
    assert_eq!(
        (&created["metadata"]["name"], &created["data"]),
        (&json!("p"), &json!({"k": "v"}))
    );
}

#[tokio::test]
async fn large_answers_are_compressed_for_those_who_ask() {
    use std::io::Read;
    let server = Server::start().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v".repeat(200_000)}});
    server.post(MAPS, &map).await.expect(201);
    let request = http::Request::get(MAPS)
        .header("accept-encoding", "gzip")
        .extension(server.user().clone())
        .body(Default::default())
        .expect("a request");
    let reply = server.raw(request).await;
    assert_eq!(reply.headers["content-encoding"], "gzip");
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&reply.bytes[..])
        .read_to_end(&mut plain)
        .expect("it is gzip");
    let list: Value = serde_json::from_slice(&plain).expect("it is JSON");
    assert_eq!(
        list["items"][0]["data"]["k"].as_str().map(str::len),
        Some(200_000)
    );
}

#[tokio::test]
async fn both_groups_of_events_show_the_same_event() {
    let server = Server::start().await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started", "message": "it began", "type": "Normal",
    });
    server
        .post("/api/v1/namespaces/default/events", &event)
        .await
        .expect(201);
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let other = server.get(&format!("{path}/e")).await.expect(200);
    assert_eq!(
        (&other["regarding"]["name"], &other["note"]),
        (&json!("p"), &json!("it began"))
    );
    assert_eq!(other["apiVersion"], "events.k8s.io/v1");
    let modern = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "f"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Stopped", "note": "it ended", "type": "Normal", "action": "Stop",
        "reportingController": "test", "reportingInstance": "t", "eventTime": "2026-01-01T00:00:00.000000Z",
    });
    server.post(path, &modern).await.expect(201);
    let core = server
        .get("/api/v1/namespaces/default/events/f")
        .await
        .expect(200);
    assert_eq!(
        (&core["involvedObject"]["name"], &core["message"]),
        (&json!("p"), &json!("it ended"))
    );
    let selected = server
        .get("/api/v1/namespaces/default/events?fieldSelector=reason%3DStopped,involvedObject.name%3Dp")
        .await
        .expect(200);
    assert_eq!(selected["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn ages_in_a_watched_table_are_those_of_the_moment() {
    let (clock, hand) = Clock::manual(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let server = Server::start_with(Setup {
        clock,
        ..Setup::default()
    })
    .await;
    let request = http::Request::get(format!("{MAPS}?watch=1"))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .extension(server.user().clone())
        .body(Default::default());
    let mut watch = server.watch_by(request.expect("a request")).await;
    hand.advance(Duration::from_secs(100));
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "young"}});
    server.post(MAPS, &map).await.expect(201);
    let event = watch.next().await.expect("an event");
    assert_eq!(
        event["object"]["rows"][0]["cells"],
        json!(["young", 0, "0s"])
    );
    hand.advance(Duration::from_secs(30));
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let path = format!("{MAPS}/young");
    server.patch(&path, "merge", &label).await.expect(200);
    let event = watch.next().await.expect("an event");
    assert_eq!(
        event["object"]["rows"][0]["cells"],
        json!(["young", 0, "30s"])
    );
}

#[tokio::test]
async fn people_get_answers_that_they_can_read() {
    let server = Server::start().await;
    let ask = async |path: &str, client: &str| {
        let request = http::Request::get(path)
            .header("user-agent", client)
            .extension(server.user().clone())
            .body(Default::default());
        let reply = server.raw(request.expect("a request")).await;
        String::from_utf8(reply.bytes.to_vec()).expect("text")
    };
    let path = "/api/v1/namespaces/default";
    let compact = ask(path, "kubectl/v1.36.3").await;
    assert_eq!(compact.trim_end().lines().count(), 1);
    let value: Value = serde_json::from_str(&compact).expect("JSON");
    let indented = serde_json::to_string_pretty(&value).expect("a value");
    // Fields are in the server's order in both.
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(|line| line.replace(',', "")).collect();
        lines.sort();
        lines
    };
    for (query, client) in [("", "curl/8.5.0"), ("?pretty=true", "kubectl/v1.36.3")] {
        let shown = ask(&format!("{path}{query}"), client).await;
        assert_eq!(lines(&shown), lines(&indented));
    }
    let missing = ask("/api/v1/namespaces/none", "curl/8.5.0").await;
    assert!(missing.contains("\n  \"kind\": \"Status\",\n"), "{missing}");
    assert_eq!(ask("/livez", "curl/8.5.0").await, "ok");
}

#[tokio::test]
async fn a_document_is_not_kept_under_the_hash_of_another() {
    let server = Server::start().await;
    let index = server.get("/openapi/v3").await.expect(200);
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str();
    let url = url.expect("a URL");
    let forever = "public, immutable, max-age=31536000";
    let current = server.get(url).await;
    assert_eq!(current.headers["cache-control"], forever);
    let (path, _) = url.split_once('?').expect("a hash");
    let stale = server.get(&format!("{path}?hash=0123")).await;
    assert_eq!(stale.code.as_u16(), 301);
    assert_eq!(stale.headers["location"], url);
    assert_eq!(stale.headers["cache-control"], "no-cache, private");
}
