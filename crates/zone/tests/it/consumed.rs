//! Kinds that the hub consumes itself, and that cross nevertheless.

use deltaplane_client::request;
use kube::Client;
use serde_json::{Value, json};

use crate::world::{World, until};

const FLEET: &str = "/apis/fleet.deltaplane.io/v1alpha1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GRAPHS: &str = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";

fn synced(plural: &str, group: &str, kind: &str) -> Value {
    let name = match group {
        "" => plural.to_owned(),
        group => format!("{plural}.{group}"),
    };
    json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": name},
        "spec": {"group": group, "kind": kind, "direction": "HubToZone"},
    })
}

async fn create(hub: &Client, path: &str, object: &Value) {
    let made = request::create::<Value>(hub, path, object).await;
    made.unwrap_or_else(|error| panic!("{path}: {error}"));
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == condition && one["status"] == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hub_goes_on_to_consume_kinds_that_cross() {
    let world = World::start().await;
    let hub = world.administrator().await;
    let kinds = format!("{FLEET}/syncedkinds");
    for kind in [
        synced(
            "customresourcedefinitions",
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
        ),
        synced("namespaces", "", "Namespace"),
        synced("graphrevisions", "internal.kro.run", "GraphRevision"),
    ] {
        create(&hub, &kinds, &kind).await;
        let path = format!(
            "{kinds}/{}",
            kind["metadata"]["name"].as_str().expect("a name")
        );
        // Zones never write the status of what the hub consumes.
        let by_zones = json!({"spec": {"status": "Zones"}});
        let patch = request::Patch::Merge;
        let refused = request::patch::<Value>(&hub, &path, patch, &by_zones).await;
        let refused = refused.expect_err("refused").to_string();
        assert!(refused.contains("leave it out"), "{refused}");
    }

    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    create(&hub, DEFINITIONS, &definition).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    until(&hub, &path, |one| is_true(one, "Established")).await;
    let widgets = "/apis/example.com/v1/widgets";
    until(&hub, widgets, |list| list["kind"] == "WidgetList").await;

    let namespace = json!({"metadata": {"name": "team"}});
    create(&hub, "/api/v1/namespaces", &namespace).await;
    let path = "/api/v1/namespaces/team";
    let deleted = request::delete(&hub, path, &json!({})).await;
    deleted.expect("deleted");
    until(&hub, path, |one| one["reason"] == "NotFound").await;

    // Graphs cross from the beginning.
    let template = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.name}"},
    });
    let graph = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {"kind": "Shop", "apiVersion": "v1", "spec": {"name": "string"}},
            "resources": [{"id": "one", "template": template}],
        },
    });
    create(&hub, GRAPHS, &graph).await;
    let path = format!("{GRAPHS}/shop");
    until(&hub, &path, |one| is_true(one, "GraphAccepted")).await;
    world.stop().await;
}
