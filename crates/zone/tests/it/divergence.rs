//! A zone that may be ahead of its hub is sent nothing, says all that it holds, and goes on to upload,
//! through restarts of its process.

use deltaplane_border::{definitions, namespaces};
use deltaplane_client::request::{self, Patch};
use deltaplane_fleet::synced_kinds;
use deltaplane_runtime::Clock;
use deltaplane_sync::{Known, Request, SyncKind};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::Hello;
use deltaplane_sync_grpc::{SESSION, encode_request};
use deltaplane_zone::{LinkConfig, Membership};
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::world::{World, ZONE, get, until};

const FLEET: &str = "/apis/fleet.deltaplane.io/v1alpha1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"content": "1"},
    })
}

fn content(is: &'static str) -> impl Fn(&Value) -> bool {
    move |object| object["data"]["content"] == is
}

fn reconcile(zone: &str) -> String {
    format!("{FLEET}/zones/{zone}/_reconcile")
}

/// ConfigMaps cross both ways, and the zone has one of the hub.
async fn follow_config_maps(world: &World) {
    let kind = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "configmaps"},
        "spec": {"kind": "ConfigMap", "direction": "Both"},
    });
    let path = format!("{FLEET}/syncedkinds");
    for (path, object) in [(path.as_str(), kind), (MAPS, map("plain"))] {
        let made = request::create::<Value>(&world.here, path, &object).await;
        made.expect("made");
    }
    until(&world.there, &format!("{MAPS}/plain"), content("1")).await;
}

async fn change_at_hub(world: &World, to: &str) {
    let change = json!({"data": {"content": to}});
    let path = format!("{MAPS}/plain");
    let changed = request::patch::<Value>(&world.here, &path, Patch::Merge, &change).await;
    changed.expect("changed");
}

async fn settle(world: &World, zone: &str) -> Result<Value, String> {
    let settled = request::create(&world.here, &reconcile(zone), &json!({"step": "Settle"})).await;
    settled.map_err(|error| error.to_string())
}

/// The hub sends the zone nothing, and both keep what they have.
async fn is_apart(world: &World) {
    let told = |said: &Value| said["reason"] == "RecordLost" && said["untold"] == json!([]);
    until(&world.here, &reconcile(ZONE), told).await;
    let counts = json!({"changed": 1, "onlyAtHub": 0, "onlyInZone": 0});
    until(&world.here, &reconcile(ZONE), |said| {
        said["counts"] == counts
    })
    .await;
    let sync = format!("{FLEET}/zones/{ZONE}/_sync");
    let (_, sync) = get(&world.here, &sync).await;
    assert_eq!(sync["sent"]["responses"], 0, "{sync:#}");
    let (_, plain) = get(&world.there, &format!("{MAPS}/plain")).await;
    assert_eq!(plain["data"]["content"], "1");
}

/// A zone of an earlier version learned from the first one what the kind is called in paths.
#[tokio::test(flavor = "multi_thread")]
async fn a_synced_kind_that_had_a_wrong_name_works_after_a_restart() {
    let mut world = World::start().await;
    let wrong = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "configmap"},
        "spec": {"kind": "ConfigMap", "direction": "Both"},
    });
    let path = format!("{FLEET}/syncedkinds");
    let made = request::create::<Value>(&world.here, &path, &wrong).await;
    made.expect("made");
    let wrong = format!("{path}/configmap");
    let gone = request::delete(&world.here, &wrong, &json!({})).await;
    gone.expect("deleted");
    follow_config_maps(&world).await;
    let learn_wrong_name = |membership: &std::path::Path| {
        let kinds = r#"{"ConfigMap":"configmap"}"#;
        std::fs::write(membership.join("kinds.json"), kinds).expect("written");
    };
    world.restart_zone(learn_wrong_name).await;
    change_at_hub(&world, "2").await;
    until(&world.there, &format!("{MAPS}/plain"), content("2")).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_with_a_damaged_record_follows_once_somebody_settles_it() {
    let mut world = World::start().await;
    follow_config_maps(&world).await;
    world.zone.stop().await;
    change_at_hub(&world, "2").await;
    let damage = |membership: &std::path::Path| {
        std::fs::write(membership.join("followed.json"), "{\"posit").expect("written");
    };
    world.restart_zone(damage).await;
    is_apart(&world).await;
    let condition = |zone: &Value| {
        let conditions = zone["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| one["type"] == "Diverged" && one["reason"] == "RecordLost")
    };
    until(&world.here, &format!("{FLEET}/zones/{ZONE}"), condition).await;
    // What the zone authors reaches the hub nevertheless, of a process that was sent nothing.
    world.restart_zone(|_| ()).await;
    let made = request::create::<Value>(&world.there, MAPS, &map("own")).await;
    made.expect("made");
    let own = format!("{MAPS}/{ZONE}.own");
    until(&world.here, &own, content("1")).await;
    is_apart(&world).await;
    settle(&world, ZONE).await.expect("settled");
    until(&world.there, &format!("{MAPS}/plain"), content("2")).await;
    // It stays settled.
    world.restart_zone(|_| ()).await;
    change_at_hub(&world, "3").await;
    until(&world.there, &format!("{MAPS}/plain"), content("3")).await;
    let said = get(&world.here, &reconcile(ZONE)).await.1;
    assert_eq!(said["diverged"], false, "{said}");
    world.stop().await;
}

/// As the refusal advises.
#[tokio::test(flavor = "multi_thread")]
async fn a_zone_whose_claim_is_refused_follows_after_it_left_and_joined_again() {
    let mut world = World::start().await;
    follow_config_maps(&world).await;
    let epoch = world.fleet.catalog().read().epoch().0.to_string();
    let (store, _) = epoch.split_once('.').expect("a store and an opening");
    let record = json!({"position": format!("{store}.lost@9000000000"), "releases": {}});
    let claim = |membership: &std::path::Path| {
        let file = membership.join("followed.json");
        std::fs::write(file, record.to_string()).expect("written");
    };
    world.restart_zone(claim).await;
    let told = |said: &Value| said["refused"].is_string() && said["untold"] == json!([]);
    until(&world.here, &reconcile(ZONE), told).await;
    let refused = settle(&world, ZONE).await.expect_err("refused");
    assert!(refused.contains("deltaplane zone leave"), "{refused}");
    change_at_hub(&world, "2").await;
    world.rejoin_zone().await;
    until(&world.there, &format!("{MAPS}/plain"), content("2")).await;
    let said = get(&world.here, &reconcile(ZONE)).await.1;
    assert_eq!(said["diverged"], false, "{said}");
    world.stop().await;
}

/// Nothing is left of what the zone wrote down but its objects.
#[tokio::test(flavor = "multi_thread")]
async fn a_zone_without_records_says_what_it_holds_of_all_kinds() {
    let mut world = World::start().await;
    follow_config_maps(&world).await;
    world.zone.stop().await;
    change_at_hub(&world, "2").await;
    let damage = |membership: &std::path::Path| {
        for file in ["followed.json", "kinds.json", "synced-kinds.json"] {
            std::fs::write(membership.join(file), "").expect("written");
        }
    };
    world.restart_zone(damage).await;
    is_apart(&world).await;
    // It cannot know which of its own objects are synced, and the hub shows it.
    let sync = format!("{FLEET}/zones/{ZONE}/_sync");
    let unread = |sync: &Value| {
        let kinds = sync["fromZone"]["kinds"].as_array();
        let mut kinds = kinds.into_iter().flatten();
        kinds.any(|kind| kind["kind"] == "ConfigMap" && kind["unread"].is_string())
    };
    until(&world.here, &sync, unread).await;
    settle(&world, ZONE).await.expect("settled");
    until(&world.there, &format!("{MAPS}/plain"), content("2")).await;
    until(&world.here, &sync, |sync| !unread(sync)).await;
    world.stop().await;
}

/// The files are gone: only what the zone mirrors shows that it followed a hub.
#[tokio::test(flavor = "multi_thread")]
async fn a_zone_whose_records_vanished_does_not_count_as_new() {
    let mut world = World::start().await;
    follow_config_maps(&world).await;
    world.zone.stop().await;
    change_at_hub(&world, "2").await;
    let lose = |membership: &std::path::Path| {
        for file in ["followed.json", "kinds.json", "synced-kinds.json"] {
            std::fs::remove_file(membership.join(file)).expect("removed");
        }
    };
    world.restart_zone(lose).await;
    is_apart(&world).await;
    settle(&world, ZONE).await.expect("settled");
    until(&world.there, &format!("{MAPS}/plain"), content("2")).await;
    world.stop().await;
}

/// The zone names the kinds that it mirrors before it says what it holds of them.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_settled_before_the_zone_has_said_all_that_it_holds() {
    let zone = "never-there";
    let world = World::start().await;
    let path = format!("{FLEET}/zones/{zone}/_token");
    let token: Value = request::create(&world.here, &path, &json!({}))
        .await
        .expect("a token");
    let join = token["join"].as_str().expect("a join string").parse();
    let join = join.expect("a legal one");
    let (directory, link) = (world.other_directory(zone), LinkConfig::default());
    let member = Membership::open(&directory, Some(&join), link, &Clock::system()).await;
    let mut client = member.expect("joined").connect().await.expect("connected");
    // A kind that the hub knows nothing of: it was restored to a state of before it.
    let widgets = SyncKind::new("example.com", "Widget").expect("legal");
    let hello = Hello {
        zone: zone.to_owned(),
        oldest_protocol: 1,
        newest_protocol: 1,
        epoch: "e".to_owned(),
        followed: "unproven.record@0".to_owned(),
        mirrored_kinds: vec![widgets.to_string()],
        ..Hello::default()
    };
    let welcome = client.handshake(hello).await.expect("welcome").into_inner();
    let (out, requests) = mpsc::channel::<Request>(8);
    let requests = stream::unfold(requests, |mut requests| async {
        let request = requests.recv().await?;
        Some((encode_request(&request), requests))
    });
    let mut requests = tonic::Request::new(requests);
    requests
        .metadata_mut()
        .insert(SESSION, welcome.session.into());
    let subscribe = async |kind: SyncKind| {
        let known = Known::Versions {
            held: Default::default(),
            sources: Vec::new(),
        };
        out.send(Request::Subscribe { kind, known })
            .await
            .expect("taken");
    };
    for kind in [synced_kinds(), definitions(), namespaces()] {
        subscribe(kind).await;
    }
    let _responses = client.hub_to_zone(requests).await.expect("served");
    let untold = json!([widgets.to_string()]);
    until(&world.here, &reconcile(zone), |said| {
        said["diverged"] == true && said["untold"] == untold
    })
    .await;
    let refused = settle(&world, zone).await.expect_err("incomplete");
    assert!(
        refused.contains("has not reported its objects"),
        "{refused}"
    );
    subscribe(widgets).await;
    until(&world.here, &reconcile(zone), |said| {
        said["untold"] == json!([])
    })
    .await;
    settle(&world, zone).await.expect("settled");
    world.stop().await;
}
