//! What somebody in a zone changes or deletes behind sync comes back, and the hub does not say
//! meanwhile that it is there.

use deltaplane_client::request::{self, Patch};
use kube::Client;
use serde_json::{Value, json};

use crate::world::{World, get, until};

const NAMESPACES: &str = "/api/v1/namespaces";
const TEAM: &str = "/api/v1/namespaces/team";
const MAPS: &str = "/api/v1/namespaces/team/configmaps";

fn map(name: &str, metadata: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name}, "data": {"a": "hub", "b": "hub"},
    });
    let added = metadata.as_object().expect("an object").clone();
    object["metadata"]
        .as_object_mut()
        .expect("an object")
        .extend(added);
    object
}

async fn create(client: &Client, path: &str, object: Value) {
    let made = request::create::<Value>(client, path, &object).await;
    made.expect("made");
}

async fn change(client: &Client, path: &str, change: Value) {
    let changed = request::patch::<Value>(client, path, Patch::Merge, &change).await;
    changed.expect("changed");
}

async fn delete(client: &Client, path: &str) {
    let deleted = request::delete(client, path, &json!({})).await;
    deleted.expect("deleted");
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
}

/// The hub's ConfigMaps cross, and one of them is in the zone.
async fn delivered(world: &World) {
    let synced = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "configmaps"},
        "spec": {
            "group": "", "kind": "ConfigMap", "direction": "HubToZone",
            "selector": {"matchLabels": {"cross": "yes"}},
        },
    });
    let kinds = "/apis/fleet.deltaplane.io/v1alpha1/syncedkinds";
    create(&world.here, kinds, synced).await;
    create(&world.here, NAMESPACES, namespace()).await;
    let crosses = map("a", json!({"labels": {"cross": "yes"}}));
    create(&world.here, MAPS, crosses).await;
    until(&world.there, &format!("{MAPS}/a"), is_there).await;
    until(&world.here, &format!("{MAPS}/a/_zones"), |all| {
        is(all, "Current")
    })
    .await;
}

fn is_there(object: &Value) -> bool {
    object["data"] == json!({"a": "hub", "b": "hub"})
}

/// Whether the hub says this of the zone.
fn is(zones: &Value, phase: &str) -> bool {
    let mut all = zones["zones"].as_array().into_iter().flatten();
    all.any(|zone| zone["zone"] == crate::world::ZONE && zone["phase"] == phase)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_with_a_namespace_comes_back() {
    let world = World::start().await;
    // The namespace is the zone's own, and does as well.
    create(&world.there, NAMESPACES, namespace()).await;
    delivered(&world).await;
    // While something keeps it from going nothing new comes into it.
    let keeps = map("keeps", json!({"finalizers": ["example.com/keeps"]}));
    create(&world.there, MAPS, keeps).await;
    delete(&world.there, TEAM).await;
    let zones = format!("{MAPS}/a/_zones");
    let ends = |all: &Value| is(all, "Rejected") && all.to_string().contains("being terminated");
    until(&world.here, &zones, ends).await;
    let (status, _) = get(&world.there, &format!("{MAPS}/a")).await;
    assert_eq!(status, 404);
    let keeps = format!("{MAPS}/keeps");
    change(
        &world.there,
        &keeps,
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    // The namespace comes back as well, unless somebody makes it sooner.
    let _ = request::create::<Value>(&world.there, NAMESPACES, &namespace()).await;
    until(&world.there, &format!("{MAPS}/a"), is_there).await;
    until(&world.here, &zones, |all| is(all, "Current")).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nothing_guards_comes_back() {
    let world = World::on_cluster().await;
    delivered(&world).await;
    let path = format!("{MAPS}/a");
    let zones = format!("{path}/_zones");
    let (_, before) = get(&world.there, &path).await;
    // What others add is theirs.
    change(&world.there, &path, json!({"data": {"c": "mine"}})).await;
    // What they change, remove or delete is the hub's.
    change(
        &world.there,
        &path,
        json!({"data": {"a": "mine", "b": null}}),
    )
    .await;
    let whole = json!({"a": "hub", "b": "hub", "c": "mine"});
    until(&world.there, &path, |object| object["data"] == whole).await;
    until(&world.here, &zones, |all| is(all, "Current")).await;
    delete(&world.there, &path).await;
    let back =
        |object: &Value| is_there(object) && object["metadata"]["uid"] != before["metadata"]["uid"];
    until(&world.there, &path, back).await;
    until(&world.here, &zones, |all| is(all, "Current")).await;
    // Who takes it for their own has it, and the hub says so.
    let own = json!({"metadata": {"labels": {"deltaplane.io/origin": null}}});
    change(&world.there, &path, own).await;
    let taken = |all: &Value| is(all, "Rejected") && all.to_string().contains("was authored here");
    until(&world.here, &zones, taken).await;
    world.stop().await;
}

/// What a zone was left with is the zone's, as far as it changed it.
async fn is_left_and_changed(world: World) {
    delivered(&world).await;
    let path = format!("{MAPS}/a");
    let zones = format!("{path}/_zones");
    let orphaned = |object: &Value| {
        let annotations = &object["metadata"]["annotations"];
        annotations["deltaplane.io/orphaned-from"] == "hub"
    };
    let crosses = |yes: Value| json!({"metadata": {"labels": {"cross": yes}}});
    change(&world.here, &path, crosses(Value::Null)).await;
    until(&world.there, &path, orphaned).await;
    change(&world.there, &path, json!({"data": {"b": null}})).await;
    change(&world.here, &path, crosses("yes".into())).await;
    let refuses = |all: &Value| {
        let said = all.to_string();
        is(all, "Rejected") && said.contains("was left here and changed since")
    };
    until(&world.here, &zones, refuses).await;
    let (_, kept) = get(&world.there, &path).await;
    assert_eq!(kept["data"], json!({"a": "hub"}));
    assert!(orphaned(&kept), "{kept}");
    // Whoever wants it back says so by what it is, and whoever set it before has it no longer.
    change(&world.here, &path, json!({"data": {"b": "newer"}})).await;
    change(&world.there, &path, json!({"data": {"b": "hub"}})).await;
    until(&world.here, &zones, |all| is(all, "Current")).await;
    let (_, back) = get(&world.there, &path).await;
    assert_eq!(back["data"], json!({"a": "hub", "b": "newer"}));
    let annotations = back["metadata"]["annotations"].to_string();
    assert!(!annotations.contains("orphaned"), "{annotations}");
    assert_eq!(back["metadata"]["labels"]["deltaplane.io/origin"], "hub");
    // It is the hub's again, in all.
    change(&world.here, &path, json!({"data": {"a": "new"}})).await;
    until(&world.there, &path, |object| object["data"]["a"] == "new").await;
    // What the zone adds is no change of it, as long as the hub does not say the same.
    for (added, from_hub, phase) in [
        ("c", json!({}), "Current"),
        ("d", json!({"d": "hub"}), "Rejected"),
    ] {
        change(&world.here, &path, crosses(Value::Null)).await;
        until(&world.there, &path, orphaned).await;
        change(&world.there, &path, json!({"data": {added: "mine"}})).await;
        change(&world.here, &path, json!({"data": from_hub})).await;
        change(&world.here, &path, crosses("yes".into())).await;
        until(&world.here, &zones, |all| is(all, phase)).await;
        let (_, kept) = get(&world.there, &path).await;
        assert_eq!(kept["data"][added], "mine", "{phase}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_zone_changed_of_what_it_was_left_with_is_not_taken() {
    is_left_and_changed(World::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_is_it_on_a_cluster() {
    is_left_and_changed(World::on_cluster().await).await;
}

/// A kind of two versions: what is stored is not what servers prefer.
fn widgets() -> Value {
    let version = |name: &str, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": schema},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_is_known_again_in_the_version_that_is_sent() {
    let world = World::start().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(&world.here, definitions, widgets()).await;
    let synced = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "kind": "Widget", "direction": "HubToZone",
            "selector": {"matchLabels": {"cross": "yes"}},
        },
    });
    let kinds = "/apis/fleet.deltaplane.io/v1alpha1/syncedkinds";
    create(&world.here, kinds, synced).await;
    let all = "/apis/example.com/v1/widgets";
    until(&world.here, all, |list| list["kind"] == "WidgetList").await;
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a", "labels": {"cross": "yes"}}, "spec": {"size": 1},
    });
    create(&world.here, all, widget).await;
    let path = format!("{all}/a");
    let current = |said: &Value| is(said, "Current");
    until(&world.here, &format!("{path}/_zones"), current).await;
    let crosses = |yes: Value| json!({"metadata": {"labels": {"cross": yes}}});
    change(&world.here, &path, crosses(Value::Null)).await;
    let orphaned = |object: &Value| {
        let annotations = &object["metadata"]["annotations"];
        annotations["deltaplane.io/orphaned-as"].is_string()
    };
    until(&world.there, &path, orphaned).await;
    for size in [2, 1] {
        change(&world.there, &path, json!({"spec": {"size": size}})).await;
    }
    change(&world.here, &path, crosses("yes".into())).await;
    until(&world.here, &format!("{path}/_zones"), current).await;
    world.stop().await;
}
