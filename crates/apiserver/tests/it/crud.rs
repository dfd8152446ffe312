//! Objects come, change and go.

use serde_json::{Value, json};

use crate::harness::Server;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

#[tokio::test]
async fn an_object_lives() {
    let server = Server::start().await;
    let created = server
        .post(MAPS, &map("a", json!({"k": "1"})))
        .await
        .expect(201);
    assert!(
        created["metadata"]["uid"]
            .as_str()
            .is_some_and(|uid| uid.len() == 36)
    );
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "test");
    let path = format!("{MAPS}/a");
    assert_eq!(server.get(&path).await.expect(200), created);

    let mut changed = created.clone();
    changed["data"]["k"] = json!("2");
    let updated = server.put(&path, &changed).await.expect(200);
    assert_ne!(
        updated["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );
    let stale = server.put(&path, &changed).await.refused(409);
    assert!(
        stale.starts_with("Operation cannot be fulfilled on configmaps \"a\""),
        "{stale}"
    );

    let same = server.put(&path, &updated).await.expect(200);
    assert_eq!(same, updated, "a write that changes nothing writes nothing");

    let patched = server
        .patch(&path, "merge", &json!({"data": {"k": null, "n": "x"}}))
        .await
        .expect(200);
    assert_eq!(patched["data"], json!({"n": "x"}));

    let deleted = server.delete(&path, &json!({})).await.expect(200);
    assert_eq!(deleted["status"], "Success");
    assert_eq!(
        server.get(&path).await.refused(404),
        "configmaps \"a\" not found"
    );
}

#[tokio::test]
async fn names_are_unique_checked_and_generated() {
    let server = Server::start().await;
    server.post(MAPS, &map("a", json!({}))).await.expect(201);
    let taken = server.post(MAPS, &map("a", json!({}))).await;
    assert_eq!(taken.expect(409)["reason"], "AlreadyExists");
    let illegal = server.post(MAPS, &map("A_b", json!({}))).await.refused(422);
    assert!(
        illegal.starts_with("ConfigMap \"A_b\" is invalid: metadata.name: Invalid value"),
        "{illegal}"
    );
    let generated =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "web-"}});
    let name = server.post(MAPS, &generated).await.expect(201)["metadata"]["name"].clone();
    assert!(
        name.as_str()
            .is_some_and(|name| name.starts_with("web-") && name.len() == 9),
        "{name}"
    );
    let missing = server
        .post(
            "/api/v1/namespaces/nowhere/configmaps",
            &map("a", json!({})),
        )
        .await;
    assert_eq!(missing.refused(404), "namespaces \"nowhere\" not found");
}

#[tokio::test]
async fn dry_runs_store_nothing() {
    let server = Server::start().await;
    let before = server.store.revision();
    let path = format!("{MAPS}?dryRun=All");
    let shown = server
        .post(&path, &map("a", json!({"k": "1"})))
        .await
        .expect(201);
    assert_eq!(shown["data"]["k"], "1");
    server.get(&format!("{MAPS}/a")).await.refused(404);
    assert_eq!(server.store.revision(), before);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let server = Server::start().await;
    let mut held = map("a", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.post(MAPS, &held).await.expect(201);
    let path = format!("{MAPS}/a");
    let marked = server.delete(&path, &json!({})).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    server.get(&path).await.expect(200);
    server
        .patch(&path, "merge", &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    server.get(&path).await.refused(404);
}

#[tokio::test]
async fn everything_acknowledged_is_there_after_a_restart() {
    let server = Server::start().await;
    for index in 0..20 {
        server
            .post(MAPS, &map(&format!("m{index}"), json!({"k": "v"})))
            .await
            .expect(201);
    }
    let before = server.get(MAPS).await.expect(200);
    let server = server.restart().await;
    assert_eq!(server.get(MAPS).await.expect(200)["items"], before["items"]);
}

#[tokio::test]
async fn watches_see_every_change_in_order_and_resume() {
    let server = Server::start().await;
    let start = server.get(MAPS).await.expect(200)["metadata"]["resourceVersion"].clone();
    let start = start.as_str().expect("text").to_owned();
    let mut watch = server
        .watch(&format!("{MAPS}?watch=1&resourceVersion={start}"))
        .await;
    let created = server
        .post(MAPS, &map("a", json!({"k": "1"})))
        .await
        .expect(201);
    server
        .patch(&format!("{MAPS}/a"), "merge", &json!({"data": {"k": "2"}}))
        .await
        .expect(200);
    server
        .delete(&format!("{MAPS}/a"), &json!({}))
        .await
        .expect(200);
    for expected in ["ADDED a", "MODIFIED a", "DELETED a"] {
        assert_eq!(watch.brief().await, expected);
    }
    let from = created["metadata"]["resourceVersion"]
        .as_str()
        .expect("text");
    let mut resumed = server
        .watch(&format!("{MAPS}?watch=1&resourceVersion={from}"))
        .await;
    for expected in ["MODIFIED a", "DELETED a"] {
        assert_eq!(resumed.brief().await, expected);
    }
}
