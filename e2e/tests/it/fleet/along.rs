//! What goes along with a namespace counts, whoever made it.

use deltaplane_client::request;
use kube::Client;
use serde_json::{Value, json};

use super::world::{Apart, SYNC, until_done, until_gone};

const FLEET: &str = "/apis/fleet.deltaplane.io/v1alpha1";
const NAMESPACES: &str = "/api/v1/namespaces";

async fn make(client: &Client, path: &str, object: Value) {
    let _: Value = until_done(|| request::create(client, path, &object)).await;
}

/// Why the namespace is not removed.
fn refusal(sync: &Value) -> Option<&str> {
    let kinds = sync["kinds"].as_array()?;
    let namespaces = kinds.iter().find(|one| one["kind"] == "Namespace")?;
    namespaces["held"].as_str()
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
    apart.budget(3).await;
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
    let sync = apart.until_said(SYNC, |sync| refusal(sync).is_some()).await;
    assert_eq!(
        refusal(&sync),
        Some("4 objects would be deleted (0 lately), and 3 may be without approval")
    );
    let kept: Value = until_done(|| request::get(zone, &shop)).await;
    assert_eq!(kept["status"]["phase"], "Active");

    apart
        .deltaplane(&["zones", "approve-deletions", "eu-1"])
        .await;
    until_gone(zone, &shop).await;
}
