//! What is held back, kept or refused between a hub and a zone, and where that can be seen.

use std::collections::BTreeMap;

use deltaplane_client::request;
use serde_json::{Value, json};

use super::world::{Apart, SYNC, cross, settled, until_done, until_there};

/// What is said of a kind, in one direction.
fn of_kind<'a>(kinds: &'a Value, kind: &str) -> &'a Value {
    let mut kinds = kinds.as_array().into_iter().flatten();
    kinds
        .find(|one| one["kind"] == kind)
        .unwrap_or(&Value::Null)
}

fn from_zone(said: &Value) -> &Value {
    of_kind(&said["fromZone"]["kinds"], "ConfigMap")
}

/// A zone that has the namespace, because something came with it.
async fn with_a_namespace() -> Apart {
    let apart = Apart::start(&["hub"]).await;
    apart.put("shared", "1").await;
    let expected = BTreeMap::from([("shared".to_owned(), "1".to_owned())]);
    settled(&apart, &expected).await;
    apart
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_store_had_goes_when_somebody_says_so() {
    let mut apart = with_a_namespace().await;
    for name in ["a", "b"] {
        apart.author_in_zone(name, "1").await;
        apart.comes_to_hub(name, "1").await;
    }
    let said = apart.until_said(SYNC, |said| from_zone(said)["acknowledged"] == 2);
    assert_eq!(from_zone(&said.await)["here"], 2);
    apart.kill_zone().await;
    apart.start_zone_empty().await;
    let said = apart.until_said(SYNC, |said| from_zone(said)["held"].is_string());
    let said = said.await;
    let reason =
        "2 objects are unknown to the sender's store, which is not the one that they came from";
    let found = from_zone(&said);
    assert_eq!(
        (&found["held"], &found["here"]),
        (&json!(reason), &json!(2))
    );
    let shown = apart.deltaplane(&["zones", "show", "eu-1"]).await;
    assert!(
        shown.contains(&format!("held      ConfigMap: {reason}\n")),
        "{shown}"
    );
    assert!(
        shown.contains("deltaplane zones approve-deletions eu-1"),
        "{shown}"
    );
    apart
        .deltaplane(&["zones", "approve-deletions", "eu-1"])
        .await;
    apart.leaves_hub("a").await;
    apart.leaves_hub("b").await;
    let said = apart.until_said(SYNC, |said| from_zone(said)["surplus"] == 0);
    assert_eq!(said.await["message"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_zone_deletes_beyond_its_budget_waits_at_the_hub() {
    let mut apart = with_a_namespace().await;
    for name in ["a", "b"] {
        apart.author_in_zone(name, "1").await;
        apart.comes_to_hub(name, "1").await;
    }
    apart.budget(1).await;
    apart.kill_zone().await;
    apart.start_zone().await;
    apart.delete_in_zone("a").await;
    apart.leaves_hub("a").await;
    apart.delete_in_zone("b").await;
    let held = "1 object would be deleted (1 lately), and 1 may be without approval";
    let said = apart.until_said(SYNC, |said| from_zone(said)["held"] == held);
    assert_eq!(from_zone(&said.await)["rejected"], json!([]));
    apart
        .deltaplane(&["zones", "approve-deletions", "eu-1"])
        .await;
    apart.leaves_hub("b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_zone_has_of_its_own_is_not_said_to_be_the_hubs() {
    let apart = Apart::start(&["hub"]).await;
    for (client, label) in [(apart.zone_client(), "zone"), (apart.hub_client(), "hub")] {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "both", "labels": {"made": label}},
        });
        let made = request::create::<Value>(client, "/api/v1/namespaces", &namespace).await;
        made.expect("it is new");
    }
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inside", "namespace": "both", "labels": {"cross": "yes"}},
    });
    let path = "/api/v1/namespaces/both/configmaps";
    let made = request::create::<Value>(apart.hub_client(), path, &object).await;
    made.expect("it is new");
    // What needs it comes all the same.
    let current = |said: &Value| said["zones"][0]["phase"] == "Current";
    let inside = format!("{path}/inside/_zones");
    apart.until_said(&inside, current).await;
    let said = apart.until_said("/api/v1/namespaces/both/_zones", |said| {
        said["zones"][0]["phase"] == "Own"
    });
    let said = said.await;
    let reason = "there is one here that was not made by sync: it is left as it is, and serves what needs it";
    let found = &said["zones"][0];
    assert_eq!(
        (&found["version"], &found["reason"]),
        (&Value::Null, &json!(reason))
    );
    let no_lag = |said: &Value| said["through"].is_u64() && said["through"] == said["revision"];
    let said = apart.until_said(SYNC, no_lag).await;
    let namespaces = of_kind(&said["kinds"], "Namespace");
    assert_eq!(
        namespaces["own"],
        json!([{"name": "both", "reason": reason}])
    );
    let label = "/api/v1/namespaces/both";
    let kept: Value = request::get(apart.zone_client(), label)
        .await
        .expect("there");
    assert_eq!(kept["metadata"]["labels"]["made"], "zone");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_deleted_at_the_hub_comes_back_when_it_crosses_again() {
    let apart = with_a_namespace().await;
    apart.author_in_zone("own", "1").await;
    apart.comes_to_hub("own", "1").await;
    let options = json!({});
    let kind = "/apis/fleet.deltaplane.io/v1alpha1/syncedkinds/configmaps";
    until_done(|| request::delete(apart.hub_client(), kind, &options)).await;
    // It is nobody's business any more what becomes of it here.
    let object = "/api/v1/namespaces/team/configmaps/eu-1.own";
    until_done(|| request::delete(apart.hub_client(), object, &options)).await;
    cross(apart.hub_client()).await;
    apart.comes_to_hub("own", "1").await;
}

/// A definition of widgets, under this plural.
fn widgets(plural: &str) -> Value {
    let schema = json!({"type": "object"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_not_in_force_is_left_to_the_zone_when_it_is_withdrawn() {
    let apart = Apart::start(&["hub"]).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (mine, theirs) = (widgets("widgetry"), widgets("widgets"));
    let make = |client, object| request::create::<Value>(client, definitions, object);
    until_done(|| make(apart.zone_client(), &mine)).await;
    until_done(|| make(apart.hub_client(), &theirs)).await;
    let kind = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "kind": "Widget", "direction": "HubToZone"},
    });
    let kinds = "/apis/fleet.deltaplane.io/v1alpha1/syncedkinds";
    let _: Value = until_done(|| request::create(apart.hub_client(), kinds, &kind)).await;
    // It is stored, and its names are taken.
    let rejected = |said: &Value| {
        of_kind(&said["kinds"], "CustomResourceDefinition")["rejected"][0].is_object()
    };
    apart.until_said(SYNC, rejected).await;
    let options = json!({});
    let kind = format!("{kinds}/widgets.example.com");
    until_done(|| request::delete(apart.hub_client(), &kind, &options)).await;
    let path = format!("{definitions}/widgets.example.com");
    let left = |object: &Value| object["metadata"]["labels"]["deltaplane.io/origin"].is_null();
    until_there(apart.zone_client(), &path, left).await;
}
