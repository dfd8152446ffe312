//! Objects of a zone that were deleted at the hub, with their namespace or with the definition of
//! their kind, come back to the hub.

use deltaplane_client::request;
use kube::Client;
use serde_json::{Value, json};

use crate::world::{World, ZONE, until};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KINDS: &str = "/apis/fleet.deltaplane.io/v1alpha1/syncedkinds";
const NAMESPACES: &str = "/api/v1/namespaces";
const MAPS: &str = "/api/v1/namespaces/team/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/widgets";

async fn create(client: &Client, path: &str, object: Value) {
    let made = request::create::<Value>(client, path, &object).await;
    made.expect("made");
}

async fn delete(client: &Client, path: &str) {
    let deleted = request::delete(client, path, &json!({})).await;
    deleted.expect("deleted");
}

async fn uid(client: &Client, path: &str, kind: &str) -> Value {
    let object = until(client, path, |object| object["kind"] == kind).await;
    object["metadata"]["uid"].clone()
}

/// Waits until there is another object of this name.
async fn is_back(client: &Client, path: &str, kind: &str, before: &Value) {
    until(client, path, |object| {
        object["kind"] == kind && object["metadata"]["uid"] != *before
    })
    .await;
}

/// Waits until the zone says that the hub has all that it sends.
async fn all_is_sent(world: &World, kind: &str) {
    let sync = format!("/apis/fleet.deltaplane.io/v1alpha1/zones/{ZONE}/_sync");
    until(&world.here, &sync, |sync| {
        let mut kinds = sync["fromZone"]["kinds"].as_array().into_iter().flatten();
        let one = kinds.find(|one| one["kind"] == kind);
        one.is_some_and(|one| one["open"] == 0 && one["wanted"] == 1 && one["here"] == 1)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_with_a_namespace_of_the_hub_comes_back() {
    let world = World::start().await;
    let synced = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "configmaps"},
        "spec": {
            "group": "", "kind": "ConfigMap", "direction": "ZoneToHub",
            "selector": {"matchLabels": {"cross": "yes"}},
        },
    });
    create(&world.here, KINDS, synced).await;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"},
    });
    create(&world.there, NAMESPACES, namespace).await;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": {"cross": "yes"}},
    });
    create(&world.there, MAPS, map).await;
    let at_hub = format!("{MAPS}/{ZONE}.a");
    let before = uid(&world.here, &at_hub, "ConfigMap").await;
    let there = uid(&world.there, &format!("{MAPS}/a"), "ConfigMap").await;
    delete(&world.here, &format!("{NAMESPACES}/team")).await;
    is_back(&world.here, &at_hub, "ConfigMap", &before).await;
    let after = uid(&world.there, &format!("{MAPS}/a"), "ConfigMap").await;
    assert_eq!(after, there, "the zone's own was never touched");
    all_is_sent(&world, "ConfigMap").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_with_a_definition_of_the_hub_comes_back() {
    let world = World::start().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    });
    // The zone has its own, which the hub's deletion does not touch.
    create(&world.there, DEFINITIONS, definition.clone()).await;
    create(&world.here, DEFINITIONS, definition.clone()).await;
    let synced = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "kind": "Widget", "direction": "ZoneToHub"},
    });
    create(&world.here, KINDS, synced).await;
    until(&world.there, WIDGETS, |list| list["kind"] == "WidgetList").await;
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
    });
    create(&world.there, WIDGETS, widget).await;
    let at_hub = format!("{WIDGETS}/{ZONE}.a");
    let before = uid(&world.here, &at_hub, "Widget").await;
    delete(&world.here, &format!("{DEFINITIONS}/widgets.example.com")).await;
    until(&world.here, WIDGETS, |list| list["kind"] != "WidgetList").await;
    create(&world.here, DEFINITIONS, definition).await;
    is_back(&world.here, &at_hub, "Widget", &before).await;
    all_is_sent(&world, "Widget").await;
    world.stop().await;
}
