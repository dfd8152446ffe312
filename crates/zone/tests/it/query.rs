//! The zone's API through the hub.

use deltaplane_client::request;
use http::header::{ALLOW, RETRY_AFTER, WARNING};
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::world::{PATIENCE, WATCHES, World, ZONE, get, json_of, send};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1&labelSelector=watched";
const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

async fn create(client: &Client, name: &str, value: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"watched": "yes"}}, "data": {"value": value},
    });
    let created = request::create::<Value>(client, MAPS, &object).await;
    created.expect("created");
}

/// Lets a user read configmaps in the zone.
async fn allow(zone: &Client, user: &str) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    for (path, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let made = request::create::<Value>(zone, &format!("{rbac}/{path}"), &object).await;
        made.expect("made");
    }
}

/// The next event of a watch: its type, and the name of its object.
async fn event(watch: &mut Response<Body>) -> (String, String) {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let frame = watch.body_mut().frame().await.expect("it goes on");
        let data = frame.expect("unbroken").into_data().expect("data");
        line.extend_from_slice(&data);
    }
    let event: Value = serde_json::from_slice(&line).expect("one event");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (
        text(&event["type"]),
        text(&event["object"]["metadata"]["name"]),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn zones_are_read_through_the_hub() {
    let world = World::start().await;
    let client = world.through(ZONE).await;
    // More than there is credit for at once, and more than one part.
    let large = "x".repeat(900_000);
    create(&world.there, "small", "1").await;
    create(&world.there, "large", &large).await;

    let (status, found) = get(&client, &format!("{MAPS}/large")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(found["data"]["value"], large);
    let (status, found) = get(&client, &format!("{MAPS}/none")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(found["message"], "configmaps \"none\" not found");

    let list = format!("{MAPS}?labelSelector=watched");
    let table = send(&client, Method::GET, &list, TABLE).await;
    let (status, table) = json_of(table).await;
    assert_eq!((status, &table["kind"]), (StatusCode::OK, &json!("Table")));
    let rows = table["rows"].as_array().expect("rows").iter();
    let names: Vec<&Value> = rows.map(|row| &row["cells"][0]).collect();
    assert_eq!(names, ["large", "small"]);

    let head = send(&client, Method::HEAD, &format!("{MAPS}/small"), JSON).await;
    assert_eq!(head.status(), StatusCode::OK);
    assert_eq!(head.headers()["content-type"], JSON);
    let body = head.into_body().collect().await.expect("complete");
    assert!(body.to_bytes().is_empty());

    let warned = send(&client, Method::GET, "/api/v1/endpoints", JSON).await;
    let warning = warned.headers()[WARNING].to_str().expect("a text");
    assert!(warning.contains("v1 Endpoints is deprecated"), "{warning}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_go_on_until_the_client_goes() {
    let world = World::start().await;
    allow(&world.there, "anna").await;
    let client = world.through_as(ZONE, Some("anna")).await;
    let mut watch = send(&client, Method::GET, WATCH, JSON).await;
    assert_eq!(watch.status(), StatusCode::OK);
    create(&world.there, "later", "1").await;
    let told = tokio::time::timeout(PATIENCE, event(&mut watch)).await;
    let expected = ("ADDED".to_owned(), "later".to_owned());
    assert_eq!(told.expect("in time"), expected);

    // The zone allows so many at a time; that one more is refused shows that all are open there.
    let direct = world.there_as("anna");
    let mut others = Vec::new();
    for _ in 1..WATCHES {
        let other = send(&direct, Method::GET, WATCH, JSON).await;
        assert_eq!(other.status(), StatusCode::OK);
        others.push(other);
    }
    let further = send(&direct, Method::GET, WATCH, JSON).await;
    assert_eq!(further.status(), StatusCode::TOO_MANY_REQUESTS);
    drop(watch);
    let closed = async {
        while !send(&direct, Method::GET, WATCH, JSON)
            .await
            .status()
            .is_success()
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, closed)
        .await
        .expect("cancelled in the zone");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_zone_decides_who_may_read_and_nobody_writes() {
    let world = World::start().await;
    create(&world.there, "one", "1").await;
    let path = format!("{MAPS}/one");
    let anna = world.through_as(ZONE, Some("anna")).await;
    let (status, refused) = get(&anna, &path).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "configmaps \"one\" is forbidden: User \"anna\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    allow(&world.there, "anna").await;
    assert_eq!(get(&anna, &path).await.0, StatusCode::OK);
    // Whom the zone's own names belong to is not for the hub to say.
    let account = "system:serviceaccount:default:default";
    let foreign = world.through_as(ZONE, Some(account)).await;
    let (_, refused) = get(&foreign, &path).await;
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("User \"hub:system:serviceaccount:default:default\""),
        "{message}"
    );

    let admin = world.through(ZONE).await;
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let answer = send(&admin, method, &path, JSON).await;
        assert_eq!(answer.headers()[ALLOW], "GET, HEAD");
        let (status, refused) = json_of(answer).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(message.contains("write at the hub"), "{message}");
    }
    assert_eq!(get(&admin, &path).await.0, StatusCode::OK);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zones_that_cannot_be_asked_are_told_apart() {
    let world = World::start().await;
    let (status, refused) = get(&world.through("nowhere").await, "/version").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(
        refused["message"],
        "zones.fleet.deltaplane.io \"nowhere\" not found"
    );

    let never = world.through("never-there").await;
    let (status, refused) = get(&never, "/version").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let expected = "zone never-there is not connected, and was not since the hub was started";
    assert_eq!(refused["message"], expected);

    let client = world.through(ZONE).await;
    let mut watch = send(&client, Method::GET, WATCH, JSON).await;
    assert_eq!(watch.status(), StatusCode::OK);
    world.zone.stop().await;
    // It is broken off, or it was ended as a whole by the zone when that stopped.
    while let Some(Ok(_)) = watch.body_mut().frame().await {}
    let gone = async {
        loop {
            let answer = send(&client, Method::GET, "/version", JSON).await;
            if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
                // A zone that is stopping may say so itself, for the moment.
                let retry = answer.headers().get(RETRY_AFTER).cloned();
                let (_, refused) = json_of(answer).await;
                let message = refused["message"].as_str().unwrap_or_default().to_owned();
                if message.starts_with("zone eu-1 is not connected since ") {
                    // Clients would wait for it, and people for them.
                    assert_eq!(retry, None);
                    return;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("in time");
    world.hub.stop().await;
}
