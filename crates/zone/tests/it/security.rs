//! Who is believed to be a zone, what a zone may take of the hub, and whom it takes the hub's users
//! for.

use std::path::Path;
use std::time::Duration;

use deltaplane_client::request::{self, Patch};
use deltaplane_runtime::Clock;
use deltaplane_runtime::identity::{Credential, JoinString, ZoneKey};
use deltaplane_sync_grpc::SESSION;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::Hello;
use deltaplane_zone::{JoinError, LinkConfig, Membership};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::config::AuthInfo;
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, ZONE, get, join, json_of, send};

const FLEET: &str = "/apis/fleet.deltaplane.io/v1alpha1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const AGAIN: Duration = Duration::from_millis(20);

async fn create(client: &Client, path: &str, object: Value) -> Value {
    let made = request::create::<Value>(client, path, &object).await;
    made.expect("made")
}

async fn change_zone(world: &World, change: Value) {
    let path = format!("{FLEET}/zones/{ZONE}");
    let changed = request::patch::<Value>(&world.here, &path, Patch::Merge, &change).await;
    changed.expect("changed");
}

/// Asks until the answer is as it should be.
async fn until(client: &Client, path: &str, is: impl Fn(StatusCode, &Value) -> bool) -> Value {
    let mut last = (StatusCode::OK, Value::Null);
    let asking = async {
        loop {
            last = get(client, path).await;
            if is(last.0, &last.1) {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, asking).await;
    assert!(in_time.is_ok(), "{path}: {last:?}");
    last.1
}

async fn open(directory: &Path, join: &JoinString) -> Result<Membership, JoinError> {
    Membership::open(
        directory,
        Some(join),
        LinkConfig::default(),
        &Clock::system(),
    )
    .await
}

fn refusal(opened: Result<Membership, JoinError>) -> String {
    match opened {
        Err(JoinError::Refused(status)) => status.message().to_owned(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it joined"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_token_counts_for_the_first_key_alone() {
    let world = World::start().await;
    let (first, copy, thief) = (
        world.other_directory("first"),
        world.other_directory("copy"),
        world.other_directory("thief"),
    );
    let token = join(&world.here).await;
    // The key is kept before anybody is asked, so that a lost answer costs nothing.
    let key = ZoneKey::generate().expect("a key");
    for directory in [&first, &copy] {
        key.save_joining(directory).expect("saved");
    }
    open(&first, &token).await.expect("joined");
    open(&copy, &token)
        .await
        .expect("the same key may ask again");
    let refused = refusal(open(&thief, &token).await);
    assert!(
        refused.starts_with("the join token of zone eu-1 was used already, with another key"),
        "{refused}"
    );
    assert!(
        ZoneKey::load_joining(&thief).expect("readable").is_some(),
        "it was kept before it asked"
    );
    assert!(
        ZoneKey::load_joining(&first).expect("readable").is_none(),
        "it is not needed any more"
    );
    let path = format!("{FLEET}/zones/{ZONE}");
    let (_, zone) = get(&world.here, &path).await;
    let bound = &zone["metadata"]["annotations"]["fleet.deltaplane.io/join-key"];
    assert!(bound.as_str().is_some_and(|bound| !bound.is_empty()));
    world.stop().await;
}

/// A certificate that was given before it is known for which key could be given for others, too.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_joins_while_it_cannot_be_kept_with_which_key() {
    let world = World::start().await;
    let directory = world.other_directory("never-there");
    let path = format!("{FLEET}/zones/never-there");
    let token = create(&world.here, &format!("{path}/_token"), json!({})).await;
    let token = token["join"].as_str().expect("a join string");
    let token = token.parse().expect("a legal one");
    let fill = async |text: Option<String>| {
        let change = json!({"metadata": {"annotations": {"full": text}}});
        let changed = request::patch::<Value>(&world.here, &path, Patch::Merge, &change).await;
        changed.expect("changed");
    };
    // The annotations of an object have room for this, and not for a key.
    fill(Some("x".repeat((256 << 10) - 100))).await;
    let refused = refusal(open(&directory, &token).await);
    assert!(
        refused.starts_with("the hub cannot keep the zone's key: "),
        "{refused}"
    );
    let credential = Credential::load(&directory).expect("readable");
    assert!(credential.is_none(), "it has a certificate");
    fill(None).await;
    open(&directory, &token).await.expect("joined");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_token_ends_when_the_zone_has_connected() {
    let world = World::start().await;
    let (first, again) = (
        world.other_directory("first"),
        world.other_directory("again"),
    );
    let token = join(&world.here).await;
    let key = ZoneKey::generate().expect("a key");
    for directory in [&first, &again] {
        key.save_joining(directory).expect("saved");
    }
    let member = open(&first, &token).await.expect("joined");
    let mut client = member.connect().await.expect("connected");
    let hello = Hello {
        zone: ZONE.to_owned(),
        product: "0.0.0".to_owned(),
        oldest_protocol: 1,
        newest_protocol: 1,
        epoch: "test".to_owned(),
        ..Hello::default()
    };
    client.handshake(hello).await.expect("welcome");
    let refused = refusal(open(&again, &token).await);
    assert!(
        refused.starts_with(
            "the join token of zone eu-1 was used already, and the zone has connected"
        ),
        "{refused}"
    );
    world.stop().await;
}

/// A client with the certificate of the zone.
async fn with_certificate(world: &World) -> Client {
    let credential = Credential::load(&world.membership()).expect("readable");
    let credential = credential.expect("it joined");
    let mut config = world.nobody().await;
    let file = |name: &str, pem: &str| {
        let path = world.other_directory(name);
        std::fs::write(&path, pem).expect("written");
        path.to_str().map(str::to_owned)
    };
    config.auth_info = AuthInfo {
        client_certificate: file("zone.crt", credential.chain()),
        client_key: file("zone.key", &credential.key().0),
        ..AuthInfo::default()
    };
    Client::try_from(config).expect("a client")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_of_a_disabled_or_deleted_zone_is_nobodys() {
    let world = World::start().await;
    let connected = with_certificate(&world).await;
    assert_eq!(get(&connected, "/apis").await.0, StatusCode::OK);
    let unauthorized = |code: StatusCode, _: &Value| code == StatusCode::UNAUTHORIZED;
    change_zone(&world, json!({"spec": {"enabled": false}})).await;
    until(&with_certificate(&world).await, "/apis", unauthorized).await;
    change_zone(&world, json!({"spec": {"enabled": true}})).await;
    let known = |code: StatusCode, _: &Value| code == StatusCode::OK;
    until(&with_certificate(&world).await, "/apis", known).await;
    let path = format!("{FLEET}/zones/{ZONE}");
    request::delete(&world.here, &path, &json!({}))
        .await
        .expect("deleted");
    until(&with_certificate(&world).await, "/apis", unauthorized).await;
    // Another zone of the same name is not the one that the certificate is for.
    let zone = json!({"apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "Zone",
        "metadata": {"name": ZONE}, "spec": {}});
    create(&world.here, &format!("{FLEET}/zones"), zone).await;
    let zones = with_certificate(&world).await;
    assert_eq!(get(&zones, "/apis").await.0, StatusCode::UNAUTHORIZED);
    world.zone.stop().await;
    world.hub.stop().await;
}

/// The numbers of sessions can be guessed.
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_zone_takes_no_part_in_the_session_of_another() {
    let world = World::start().await;
    let zones = format!("{FLEET}/zones");
    let zone = json!({"apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "Zone",
        "metadata": {"name": "again"}, "spec": {}});
    let joined = async |directory: &str| {
        create(&world.here, &zones, zone.clone()).await;
        let path = format!("{zones}/again/_token");
        let token = create(&world.here, &path, json!({})).await;
        let join = token["join"].as_str().expect("a join string");
        let join = join.parse().expect("a legal one");
        let joined = open(&world.other_directory(directory), &join).await;
        joined.expect("joined")
    };
    let earlier = joined("earlier").await;
    let mut thief = earlier.connect().await.expect("connected");
    let path = format!("{zones}/again");
    request::delete(&world.here, &path, &json!({}))
        .await
        .expect("deleted");
    let gone = |code: StatusCode, _: &Value| code == StatusCode::NOT_FOUND;
    until(&world.here, &path, gone).await;
    let later = joined("later").await;
    let hello = Hello {
        zone: "again".to_owned(),
        oldest_protocol: 1,
        newest_protocol: 1,
        epoch: "e".to_owned(),
        ..Hello::default()
    };
    let mut client = later.connect().await.expect("connected");
    let welcome = client.handshake(hello).await.expect("welcome");
    let session = welcome.into_inner().session;
    let mut follow = tonic::Request::new(futures::stream::pending());
    follow.metadata_mut().insert(SESSION, session.into());
    let taken = thief.hub_to_zone(follow).await.map(|_| ());
    assert_eq!(
        taken.expect_err("refused").code(),
        tonic::Code::Unauthenticated
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_the_certificate_that_opened_it() {
    let world = World::start().await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": "zones"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "Group", "apiGroup": group, "name": "system:zones"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    create(&world.here, bindings, binding).await;
    let zone = with_certificate(&world).await;
    let mut watch = send(
        &zone,
        Method::GET,
        &format!("{MAPS}?watch=1"),
        "application/json",
    )
    .await;
    assert_eq!(watch.status(), StatusCode::OK);
    change_zone(&world, json!({"spec": {"enabled": false}})).await;
    let ended = async { while let Some(Ok(_)) = watch.body_mut().frame().await {} };
    let in_time = tokio::time::timeout(PATIENCE, ended).await;
    assert!(in_time.is_ok(), "it goes on");
    world.stop().await;
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"value": value}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_uploads_within_its_quota() {
    let world = World::start().await;
    change_zone(&world, json!({"spec": {"quota": {"objects": 2}}})).await;
    let synced = json!({"apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
    "metadata": {"name": "configmaps"},
    "spec": {"group": "", "kind": "ConfigMap", "direction": "ZoneToHub",
        "selector": {"matchExpressions": [
            {"key": "up", "operator": "Exists"},
        ]}}});
    create(&world.here, &format!("{FLEET}/syncedkinds"), synced).await;
    for name in ["one", "two", "three"] {
        let mut map = map(name, "1");
        map["metadata"]["labels"] = json!({"up": "yes"});
        create(&world.there, MAPS, map).await;
    }
    let uploaded = format!("{MAPS}?labelSelector=up");
    let count = |expected: usize| {
        move |_: StatusCode, list: &Value| {
            let items = list["items"].as_array();
            items.is_some_and(|items| items.len() == expected)
        }
    };
    let sync = format!("{FLEET}/zones/{ZONE}/_sync");
    let refused = |_: StatusCode, sync: &Value| {
        let reasons = sync["fromZone"]["kinds"].to_string();
        reasons.contains("would have 3 objects at the hub, and its quota allows 2")
            && reasons.contains("spec.quota.objects")
    };
    until(&world.here, &sync, refused).await;
    let (_, here) = get(&world.here, &uploaded).await;
    assert!(count(2)(StatusCode::OK, &here), "{here}");
    // A smaller quota does not keep what is there from becoming smaller.
    change_zone(
        &world,
        json!({"spec": {"quota": {"objects": 0, "bytes": 0}}}),
    )
    .await;
    let first = here["items"][0]["metadata"]["annotations"]["deltaplane.io/name"].as_str();
    let first = first.unwrap_or_else(|| {
        let name = here["items"][0]["metadata"]["name"].as_str();
        name.and_then(|name| name.strip_prefix("eu-1."))
            .expect("a name")
    });
    let path = format!("{MAPS}/{first}");
    let change = json!({"data": {"value": ""}});
    let changed = request::patch::<Value>(&world.there, &path, Patch::Merge, &change).await;
    changed.expect("changed");
    let shrunk = |_: StatusCode, list: &Value| {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().any(|item| item["data"]["value"] == "")
    };
    until(&world.here, &uploaded, shrunk).await;
    change_zone(&world, json!({"spec": {"quota": null}})).await;
    until(&world.here, &uploaded, count(3)).await;
    world.stop().await;
}

/// The hub keeps a namespace that it made for an object which is gone.
#[tokio::test(flavor = "multi_thread")]
async fn empty_namespaces_of_a_zone_count_against_its_quota() {
    let world = World::start().await;
    change_zone(&world, json!({"spec": {"quota": {"namespaces": 1}}})).await;
    let synced = json!({"apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
    "metadata": {"name": "configmaps"},
    "spec": {"group": "", "kind": "ConfigMap", "direction": "ZoneToHub",
        "selector": {"matchLabels": {"up": "yes"}}}});
    create(&world.here, &format!("{FLEET}/syncedkinds"), synced).await;
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    let upload = async |namespace: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace}});
        create(&world.there, "/api/v1/namespaces", object).await;
        let mut object = map("one", "1");
        object["metadata"]["namespace"] = namespace.into();
        object["metadata"]["labels"] = json!({"up": "yes"});
        create(&world.there, &maps(namespace), object).await;
    };
    let uploaded = format!("{}/{ZONE}.one", maps("first"));
    upload("first").await;
    until(&world.here, &uploaded, |code, _| code == StatusCode::OK).await;
    let path = format!("{}/one", maps("first"));
    let deleted = request::delete(&world.there, &path, &json!({})).await;
    deleted.expect("deleted");
    until(&world.here, &uploaded, |code, _| {
        code == StatusCode::NOT_FOUND
    })
    .await;
    upload("second").await;
    let sync = format!("{FLEET}/zones/{ZONE}/_sync");
    let refused = |_: StatusCode, sync: &Value| {
        let reasons = sync["fromZone"]["kinds"].to_string();
        reasons.contains("would have 2 namespaces at the hub, and its quota allows 1")
    };
    until(&world.here, &sync, refused).await;
    let (code, _) = get(&world.here, "/api/v1/namespaces/second").await;
    assert_eq!(code, StatusCode::NOT_FOUND);
    world.stop().await;
}

async fn token(client: &Client, name: &str) -> String {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name}});
    create(client, accounts, account).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {}});
    let issued = create(client, &format!("{accounts}/{name}/token"), request).await;
    issued["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned()
}

/// Whom the zone takes the owner of a token for, asked through the hub.
async fn whoami(world: &World, token: &str) -> (StatusCode, String) {
    whoami_at(world, &format!("zones/{ZONE}"), token).await
}

/// Whom the API below a path of the hub takes the owner of a token for.
async fn whoami_at(world: &World, path: &str, token: &str) -> (StatusCode, String) {
    let mut config = world.nobody().await;
    let url = format!("{}{path}", config.cluster_url);
    config.cluster_url = url.parse().expect("a legal address");
    config.auth_info.token = Some(token.to_owned().into());
    let client = Client::try_from(config).expect("a client");
    let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::builder()
        .method(Method::POST)
        .uri("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(Body::from(question.to_string().into_bytes()));
    let answer = client
        .send(request.expect("legal"))
        .await
        .expect("answered");
    let (status, review) = json_of(answer).await;
    let user = review["status"]["userInfo"]["username"].as_str();
    (status, user.unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_of_hub_and_zone_are_told_apart_in_one_process() {
    let world = World::local().await;
    let of_hub = token(&world.here, "robot").await;
    let of_zone = token(&world.there, "robot").await;
    let made = StatusCode::CREATED;
    let user = "hub:system:serviceaccount:default:robot".to_owned();
    assert_eq!(whoami(&world, &of_hub).await, (made, user));
    let user = "system:serviceaccount:default:robot".to_owned();
    assert_eq!(whoami(&world, &of_zone).await, (made, user));
    let (status, _) = whoami(&world, "nonsense").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    // The hub itself does not know the zone's accounts.
    let (status, _) = whoami_at(&world, "", &of_zone).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let user = "system:serviceaccount:default:robot".to_owned();
    assert_eq!(whoami_at(&world, "", &of_hub).await, (made, user));

    let admin = world.through(ZONE).await;
    let listed = send(
        &admin,
        Method::GET,
        "/api/v1/namespaces",
        "application/json",
    )
    .await;
    assert_eq!(listed.status(), StatusCode::OK);
    assert_eq!(listed.headers()["x-content-type-options"], "nosniff");
    let path = format!("{FLEET}/zones/{ZONE}");
    request::delete(&world.here, &path, &json!({}))
        .await
        .expect("deleted");
    let gone = |code: StatusCode, _: &Value| code == StatusCode::NOT_FOUND;
    until(&admin, "/api/v1/namespaces", gone).await;
    let (status, _) = whoami(&world, &of_zone).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    world.zone.stop().await;
    world.hub.stop().await;
}

/// Labels a role in the zone as a user who may patch roles there.
async fn label_role(world: &World, role: &str) -> (StatusCode, Value) {
    let label =
        json!({"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(format!("{RBAC}/clusterroles/{role}"))
        .header("content-type", "application/merge-patch+json")
        .header("impersonate-user", "eve")
        .body(Body::from(label.to_string().into_bytes()));
    let answer = world.there.send(request.expect("legal")).await;
    json_of(answer.expect("answered")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_a_zone_grants_nothing_there_by_a_label_that_they_do_not_hold() {
    let world = World::start().await;
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let role = json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "labeller"},
        "rules": [{"apiGroups": [group], "resources": ["clusterroles"], "verbs": ["patch"]}]});
    create(&world.there, &format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({"apiVersion": version, "kind": "ClusterRoleBinding",
        "metadata": {"name": "labeller"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "eve"}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "labeller"}});
    create(
        &world.there,
        &format!("{RBAC}/clusterrolebindings"),
        binding,
    )
    .await;
    let (status, said) = label_role(&world, "cluster-admin").await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{said}");
    let message = said["message"].as_str().unwrap_or_default();
    assert!(message.contains("permissions not currently held"), "{said}");
    // A role with nothing but what they hold.
    let (status, said) = label_role(&world, "labeller").await;
    assert_eq!(status, StatusCode::OK, "{said}");
    world.stop().await;
}

const DEFINITIONS: &str = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";

/// Lets a user do something with definitions of graphs, and nothing else.
async fn allow_author(client: &Client, user: &str, rules: Value) {
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let role = json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": user},
        "rules": rules});
    create(client, &format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({"apiVersion": version, "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user}});
    create(client, &format!("{RBAC}/clusterrolebindings"), binding).await;
}

/// Writes a definition as a user; nothing is stored.
async fn define(
    client: &Client,
    user: &str,
    (method, path): (Method, &str),
    object: &Value,
) -> (StatusCode, Value) {
    let format = match method {
        Method::POST => "application/json",
        _ => "application/merge-patch+json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", format)
        .header("impersonate-user", user)
        .body(Body::from(object.to_string().into_bytes()));
    let answer = client.send(request.expect("legal")).await;
    json_of(answer.expect("answered")).await
}

/// At the hub and in a zone alike.
#[tokio::test(flavor = "multi_thread")]
async fn an_author_of_graphs_names_no_account_and_approves_no_deletion_without_the_right() {
    let world = World::start().await;
    let write = json!({"apiGroups": ["kro.run"], "resources": ["resourcegraphdefinitions"],
        "verbs": ["create", "patch"]});
    let impersonate = json!({"apiGroups": [""], "resources": ["serviceaccounts"],
        "resourceNames": ["deployer"], "verbs": ["impersonate"]});
    let approve = json!({"apiGroups": ["kro.run"], "resources": ["resourcegraphdefinitions"],
        "verbs": ["approve"]});
    let definition = |account: Option<&str>| {
        json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": "mine"},
            "spec": {
                "serviceAccountName": account,
                "schema": {"kind": "Mine", "apiVersion": "v1", "spec": {"name": "string"}},
                "resources": [],
            },
        })
    };
    let approval = json!({"metadata": {"annotations": {"deltaplane.io/approved-deletions": "x"}}});
    for client in [&world.here, &world.there] {
        allow_author(client, "mallory", json!([write])).await;
        allow_author(client, "ann", json!([write, impersonate, approve])).await;
        let dry = format!("{DEFINITIONS}?dryRun=All");
        let create_as = |user: &'static str, account: Option<&'static str>| {
            let (dry, object) = (dry.clone(), definition(account));
            async move { define(client, user, (Method::POST, &dry), &object).await }
        };
        let (status, refused) = create_as("mallory", Some("deployer")).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{refused}");
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("may not impersonate ServiceAccount deployer in all namespaces"),
            "{message}"
        );
        for (user, account) in [
            ("mallory", None),
            ("mallory", Some("deltaplane-graphs")),
            ("ann", Some("deployer")),
        ] {
            let (status, answer) = create_as(user, account).await;
            assert_eq!(status, StatusCode::CREATED, "{answer}");
        }
        let (status, answer) = create_as("ann", Some("other")).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    }
    // Whoever may not name the account may not change what is done as it either.
    create(&world.here, DEFINITIONS, definition(Some("deployer"))).await;
    let path = format!("{DEFINITIONS}/mine");
    let change = |user: &'static str, change: Value| {
        let (client, path) = (world.here.clone(), path.clone());
        async move { define(&client, user, (Method::PATCH, &path), &change).await }
    };
    let other = json!({"spec": {"orderBy": "'a'"}});
    let (status, answer) = change("mallory", other.clone()).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    let labelled = json!({"metadata": {"labels": {"team": "a"}}});
    for (user, allowed) in [("mallory", labelled), ("ann", other)] {
        let (status, answer) = change(user, allowed).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    let (status, refused) = change("mallory", approval.clone()).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{refused}");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("ask for the verb approve"), "{message}");
    let (status, answer) = change("ann", approval).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    world.stop().await;
}
