//! A SyncedKind with the name of another kind than its own: nothing crosses because of it.

use std::collections::BTreeMap;

use deltaplane_client::request;
use serde_json::{Value, json};

use crate::world::{World, ZONE, until};

const KINDS: &str = "/apis/fleet.deltaplane.io/v1alpha1/syncedkinds";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn synced(name: &str, group: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": name},
        "spec": {"group": group, "kind": kind, "direction": "Both"},
    })
}

fn object(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
    })
}

async fn create(client: &kube::Client, path: &str, object: &Value) {
    let made = request::create::<Value>(client, path, object).await;
    made.expect("made");
}

/// What the zone says of the ConfigMaps that it sends.
fn uploaded_maps(sync: &Value) -> Value {
    let kinds = sync["fromZone"]["kinds"].as_array();
    let mut kinds = kinds.into_iter().flatten();
    let maps = kinds.find(|one| one["kind"] == "ConfigMap");
    maps.cloned().unwrap_or_default()
}

fn remembered(world: &World) -> BTreeMap<String, String> {
    let file = world.membership().join("kinds.json");
    // None is written before the first kind comes.
    let text = std::fs::read(file).unwrap_or_else(|_| b"{}".to_vec());
    serde_json::from_slice(&text).expect("kinds and plurals")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_another_kind_is_refused_at_the_hub() {
    let world = World::start().await;
    let user = world.administrator().await;
    for (name, group, kind, expected) in [
        ("secrets", "", "ConfigMap", Some("name it configmaps")),
        ("pods", "", "Service", Some("name it services")),
        (
            "deployment.apps",
            "apps",
            "Deployment",
            Some("name it deployments.apps"),
        ),
        (
            "deployments.apps",
            "apps",
            "StatefulSet",
            Some("name it statefulsets.apps"),
        ),
        (
            "secrets",
            "",
            "Gear",
            Some("secrets is served as kind Secret"),
        ),
        ("gears.example.com", "example.com", "Gear", None),
        ("deployments.apps", "apps", "Deployment", None),
    ] {
        let made = request::create::<Value>(&user, KINDS, &synced(name, group, kind)).await;
        let refused = made.err().map(|error| error.to_string());
        match (expected, refused) {
            (None, None) => {}
            (Some(expected), Some(refused)) => assert!(refused.contains(expected), "{refused}"),
            (_, refused) => panic!("{name} for {kind}: {refused:?}"),
        }
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_synced_kind_with_the_name_of_another_kind_is_inert() {
    let mut world = World::start().await;
    let sync = format!("/apis/fleet.deltaplane.io/v1alpha1/zones/{ZONE}/_sync");
    create(&world.there, SECRETS, &object("Secret", "of-zone")).await;
    create(&world.here, SECRETS, &object("Secret", "of-hub")).await;
    // As an earlier version stored it.
    create(&world.here, KINDS, &synced("secrets", "", "ConfigMap")).await;
    let said = until(&world.here, &sync, |sync| {
        uploaded_maps(sync)["unread"].is_string()
    })
    .await;
    let maps = uploaded_maps(&said);
    assert_eq!(maps["rejected"], json!([]), "{maps}");
    assert_eq!(
        maps["unread"],
        "the zone serves ConfigMap as configmaps; nothing crosses until the SyncedKind has that name"
    );
    assert_eq!(remembered(&world).get("ConfigMap"), None);

    // All that the zone said of it ends with it.
    let deleted = request::delete(&world.here, &format!("{KINDS}/secrets"), &json!({})).await;
    deleted.expect("deleted");
    until(&world.here, &sync, |sync| uploaded_maps(sync).is_null()).await;

    create(&world.here, KINDS, &synced("configmaps", "", "ConfigMap")).await;
    create(&world.here, MAPS, &object("ConfigMap", "first")).await;
    let is_map = |object: &Value| object["kind"] == "ConfigMap";
    until(&world.there, &format!("{MAPS}/first"), is_map).await;
    assert_eq!(remembered(&world)["ConfigMap"], "configmaps");

    // As an earlier version wrote it down.
    world
        .restart_zone(|membership| {
            let poisoned = r#"{"ConfigMap":"configmaps","Secret":"configmaps"}"#;
            std::fs::write(membership.join("kinds.json"), poisoned).expect("written");
        })
        .await;
    create(&world.here, MAPS, &object("ConfigMap", "second")).await;
    until(&world.there, &format!("{MAPS}/second"), is_map).await;
    assert_eq!(remembered(&world)["Secret"], "secrets");
    world.stop().await;
}
