//! What goes along with a namespace counts, whoever made it.

use deltaplane_client::request::{self, Patch};
use kube::Client;
use serde_json::{Value, json};

use super::world::{Apart, until_done, until_gone};

const FLEET: &str = "/apis/fleet.deltaplane.io/v1alpha1";
const NAMESPACES: &str = "/api/v1/namespaces";

async fn make(client: &Client, path: &str, object: Value) {
    let _: Value = until_done(|| request::create(client, path, &object)).await;
}

async fn patch(client: &Client, path: &str, change: Value) -> Value {
    until_done(|| request::patch(client, path, Patch::Merge, &change)).await
}

/// Why the namespace is not removed.
fn refusal(sync: &Value) -> Option<&str> {
    let kinds = sync["kinds"].as_array()?;
    let namespaces = kinds.iter().find(|one| one["kind"] == "Namespace")?;
    namespaces["rejected"][0]["reason"].as_str()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_takes_no_more_along_than_the_budget_allows() {
    let apart = Apart::start(&["hub"]).await;
    let (hub, zone) = (apart.hub_client(), apart.zone_client());
    let selector = json!({"matchLabels": {"goes": "yes"}});
    let kind = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "namespaces"},
        "spec": {"kind": "Namespace", "direction": "HubToZone", "selector": selector},
    });
    make(hub, &format!("{FLEET}/syncedkinds"), kind).await;
    // The zone is told of the new budget as well.
    let budget = json!({"spec": {"deletionBudget": {"max": 3, "percent": 0}}});
    let the_zone = format!("{FLEET}/zones/eu-1");
    patch(hub, &the_zone, budget).await;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"goes": "yes"}},
    });
    make(hub, NAMESPACES, namespace).await;
    for number in 0..3 {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("s{number}"), "namespace": "shop"},
        });
        make(zone, &format!("{NAMESPACES}/shop/secrets"), object).await;
    }
    let shop = format!("{NAMESPACES}/shop");
    let options = json!({});
    until_done(|| request::delete(hub, &shop, &options)).await;
    let sync = apart.stands(|sync| refusal(sync).is_some()).await;
    assert_eq!(
        refusal(&sync),
        Some("4 objects would be deleted (0 lately), and 3 may be without approval")
    );
    let kept: Value = until_done(|| request::get(zone, &shop)).await;
    assert_eq!(kept["status"]["phase"], "Active");

    let revision = sync["revision"].as_u64().expect("a number");
    let approved = json!({"fleet.deltaplane.io/approve-deletions": revision.to_string()});
    patch(
        hub,
        &the_zone,
        json!({"metadata": {"annotations": approved}}),
    )
    .await;
    apart
        .stands(|sync| refusal(sync).is_none() && sync["through"].as_u64() >= Some(revision))
        .await;
    until_gone(zone, &shop).await;
}
