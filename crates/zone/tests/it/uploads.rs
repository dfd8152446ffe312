//! What zones author reaches the hub when the version goes away in which it was read, or when the
//! kind was first given a wrong name.

use deltaplane_client::request::{self, Patch};
use serde_json::{Value, json};

use crate::world::{World, ZONE, until};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KINDS: &str = "/apis/fleet.deltaplane.io/v1alpha1/syncedkinds";

/// A version of the kind, and whether it is served.
fn version(name: &str, served: bool, storage: bool) -> Value {
    json!({
        "name": name, "served": served, "storage": storage,
        "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        }},
    })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [version("v1alpha1", true, true)],
        },
    })
}

async fn author(world: &World, version: &str, name: &str) {
    let path = format!("/apis/example.com/{version}/widgets");
    let widget = json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": {"name": name},
    });
    until(&world.there, &path, |list| list["kind"] == "WidgetList").await;
    let made = request::create::<Value>(&world.there, &path, &widget).await;
    made.expect("made");
}

/// Why the zone cannot read a kind, as it says itself.
fn unread<'a>(sync: &'a Value, kind: &str) -> Option<&'a str> {
    let kinds = sync["fromZone"]["kinds"].as_array()?;
    let one = kinds.iter().find(|one| one["kind"] == kind)?;
    one["unread"].as_str()
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_follow_the_version_that_is_served() {
    let world = World::start().await;
    let made = request::create::<Value>(&world.here, DEFINITIONS, &definition()).await;
    made.expect("made");
    let synced = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "kind": "Widget", "direction": "ZoneToHub"},
    });
    let made = request::create::<Value>(&world.here, KINDS, &synced).await;
    made.expect("made");
    author(&world, "v1alpha1", "first").await;
    let at_hub =
        |version: &str, name: &str| format!("/apis/example.com/{version}/widgets/{ZONE}.{name}");
    let is_there = |object: &Value| object["kind"] == "Widget";
    until(&world.here, &at_hub("v1alpha1", "first"), is_there).await;

    let path = format!("{DEFINITIONS}/widgets.example.com");
    let change = async |versions: Value| {
        let change = json!({"spec": {"versions": versions}});
        let changed = request::patch::<Value>(&world.here, &path, Patch::Merge, &change).await;
        changed.expect("changed");
    };
    let v1 = || version("v1", true, true);
    change(json!([version("v1alpha1", false, false), v1()])).await;
    author(&world, "v1", "second").await;
    until(&world.here, &at_hub("v1", "second"), is_there).await;

    // While nothing is served, the zone says so, and the hub keeps what it has.
    let none = json!([
        version("v1alpha1", false, false),
        version("v1", false, true)
    ]);
    change(none).await;
    let sync = format!("/apis/fleet.deltaplane.io/v1alpha1/zones/{ZONE}/_sync");
    until(&world.here, &sync, |sync| unread(sync, "Widget").is_some()).await;
    change(json!([version("v1alpha1", false, false), v1()])).await;
    until(&world.here, &sync, |sync| unread(sync, "Widget").is_none()).await;
    for name in ["first", "second"] {
        until(&world.here, &at_hub("v1", name), is_there).await;
    }
    world.stop().await;
}

/// A built-in kind: where the zone serves it, and what of it is uploaded.
struct BuiltIn {
    group: &'static str,
    kind: &'static str,
    api_version: &'static str,
    path: &'static str,
    wrong_name: &'static str,
    right_name: &'static str,
}

/// Nothing is asked of the API for kinds of the core group; of others it says what it serves.
const BUILT_IN: [BuiltIn; 2] = [
    BuiltIn {
        group: "",
        kind: "ConfigMap",
        api_version: "v1",
        path: "/api/v1/namespaces/default/configmaps",
        wrong_name: "configmap",
        right_name: "configmaps",
    },
    BuiltIn {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        api_version: "networking.k8s.io/v1",
        path: "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        wrong_name: "networkpolicy.networking.k8s.io",
        right_name: "networkpolicies.networking.k8s.io",
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn a_synced_kind_that_is_renamed_is_uploaded_without_a_restart() {
    let world = World::start().await;
    let sync = format!("/apis/fleet.deltaplane.io/v1alpha1/zones/{ZONE}/_sync");
    for one in &BUILT_IN {
        let synced = |name: &str| {
            json!({
                "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
                "metadata": {"name": name},
                "spec": {"group": one.group, "kind": one.kind, "direction": "Both"},
            })
        };
        let own = json!({
            "apiVersion": one.api_version, "kind": one.kind,
            "metadata": {"name": "own", "namespace": "default"},
        });
        let made = request::create::<Value>(&world.there, one.path, &own).await;
        made.expect("made");
        let made = request::create::<Value>(&world.here, KINDS, &synced(one.wrong_name)).await;
        made.expect("made, with a warning");
        until(&world.here, &sync, |sync| unread(sync, one.kind).is_some()).await;

        // Nothing is missed of a kind that nobody asks for.
        let wrong = format!("{KINDS}/{}", one.wrong_name);
        let deleted = request::delete(&world.here, &wrong, &json!({})).await;
        deleted.expect("deleted");
        until(&world.here, &sync, |sync| unread(sync, one.kind).is_none()).await;

        let made = request::create::<Value>(&world.here, KINDS, &synced(one.right_name)).await;
        made.expect("made");
        let uploaded = format!("{}/{ZONE}.own", one.path);
        until(&world.here, &uploaded, |object| object["kind"] == one.kind).await;
    }
    world.stop().await;
}
