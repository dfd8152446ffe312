//! What a hub is asked to have: zones, a kind that crosses, and objects of it.

use std::time::Duration;

use anyhow::{Context, Result};
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{ObjectKey, RequestError, Resource};
use deltaplane_fleet::kinds::{GROUP, VERSION};
use deltaplane_sync::ObjectName;
use futures::stream::{self, StreamExt, TryStreamExt};
use kube::Client;
use serde_json::{Value, json};

/// Where the objects are.
const NAMESPACE: &str = "bench";
/// So many requests at once fill the store's batches.
const AT_ONCE: usize = 64;
/// What each object carries.
const BYTES: usize = 1024;

/// What the object with this number is called.
pub(crate) fn name(number: usize) -> Result<ObjectName> {
    Ok(ObjectName::new(NAMESPACE, &title(number))?)
}

/// What the zone with this number is called.
pub(crate) fn zone(number: usize) -> String {
    format!("zone-{number:04}")
}

fn title(number: usize) -> String {
    format!("object-{number:06}")
}

fn zones() -> Resource {
    Resource::cluster(GROUP, VERSION, "zones", "Zone")
}

fn synced_kinds() -> Resource {
    Resource::cluster(GROUP, VERSION, "syncedkinds", "SyncedKind")
}

fn policies() -> Resource {
    Resource::cluster(GROUP, VERSION, "propagationpolicies", "PropagationPolicy")
}

/// Lets a policy govern the objects with these numbers.
pub(crate) async fn govern(
    hub: &Client,
    policy: &str,
    numbers: std::ops::Range<usize>,
    stages: &Value,
) -> Result<()> {
    let names: Vec<String> = numbers
        .map(|number| format!("{NAMESPACE}/{}", title(number)))
        .collect();
    let object = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "PropagationPolicy",
        "metadata": {"name": policy},
        "spec": {
            "targets": [{"group": "", "kind": "ConfigMap", "names": names}],
            "stages": stages,
        },
    });
    create(hub, &policies().collection_path(None), &object).await
}

/// A policy as it is now.
pub(crate) async fn policy(hub: &Client, policy: &str) -> Result<Value> {
    let path = policies().object_path(&ObjectKey::cluster(policy));
    request::get(hub, &path)
        .await
        .context("asking for a policy")
}

/// What a change of an object would do, as the hub says without doing it.
pub(crate) async fn plan(hub: &Client, policy: &str, number: usize, turn: usize) -> Result<Value> {
    let path = policies().object_path(&ObjectKey::cluster(policy));
    let change = json!({"objects": [configmap(number, turn)]});
    request::create(hub, &format!("{path}/_plan"), &change)
        .await
        .context("asking for a plan")
}

/// Whether all of a release is everywhere, as a policy says.
pub(crate) fn is_propagated(policy: &Value) -> bool {
    let conditions = policy["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Propagated" && one["status"] == "True")
}

/// ConfigMaps go to all zones from now on.
pub(crate) async fn prepare(hub: &Client) -> Result<()> {
    let kind = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "SyncedKind",
        "metadata": {"name": "configmaps"},
        "spec": {"group": "", "kind": "ConfigMap", "direction": "Both"},
    });
    create(hub, &synced_kinds().collection_path(None), &kind).await?;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
    });
    create(hub, "/api/v1/namespaces", &namespace).await
}

/// Makes objects with these numbers.
pub(crate) async fn objects(hub: &Client, numbers: std::ops::Range<usize>) -> Result<()> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let made = stream::iter(numbers).map(|number| {
        let object = configmap(number, 0);
        let path = &path;
        async move { create(hub, path, &object).await }
    });
    made.buffer_unordered(AT_ONCE).try_collect().await
}

/// Changes an object; ends when the hub has answered. `turn` is to be another one each time.
pub(crate) async fn change(hub: &Client, number: usize, turn: usize) -> Result<()> {
    let path = format!(
        "/api/v1/namespaces/{NAMESPACE}/configmaps/{}",
        title(number)
    );
    let change = json!({"data": {"text": text(turn)}});
    request::patch::<Value>(hub, &path, Patch::Merge, &change)
        .await
        .context("changing an object")?;
    Ok(())
}

/// Which turn a body of an object is of.
pub(crate) fn turn(body: &[u8]) -> Option<usize> {
    let object: Value = serde_json::from_slice(body).ok()?;
    object["data"]["text"].as_str()?.parse().ok()
}

/// Which turn an object is of at the hub.
pub(crate) async fn turn_of(hub: &Client, number: usize) -> Result<usize> {
    let path = format!(
        "/api/v1/namespaces/{NAMESPACE}/configmaps/{}",
        title(number)
    );
    let object: Value = request::get(hub, &path)
        .await
        .context("asking for an object")?;
    let turn = object["data"]["text"]
        .as_str()
        .and_then(|text| text.parse().ok());
    turn.context("an object without a turn")
}

fn configmap(number: usize, turn: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": title(number), "namespace": NAMESPACE},
        "data": {"text": text(turn)},
    })
}

fn text(turn: usize) -> String {
    format!("{turn:0BYTES$}")
}

/// Makes a zone; gives the join string.
pub(crate) async fn make_zone(hub: &Client, zone: &str) -> Result<String> {
    make_zone_with(hub, zone, &Value::Null).await
}

/// Makes a zone with labels, if there are any; gives the join string.
pub(crate) async fn make_zone_with(hub: &Client, zone: &str, labels: &Value) -> Result<String> {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "Zone",
        "metadata": {"name": zone}, "spec": {},
    });
    if !labels.is_null() {
        object["metadata"]["labels"] = labels.clone();
    }
    create(hub, &zones().collection_path(None), &object).await?;
    let path = zones().object_path(&ObjectKey::cluster(zone));
    let answer: Value = request::create(hub, &format!("{path}/_token"), &json!({}))
        .await
        .context("asking for a join string")?;
    let join = answer["join"].as_str();
    Ok(join.context("an answer without a join string")?.to_owned())
}

/// Lets a zone connect, or not.
pub(crate) async fn enable(hub: &Client, zone: &str, enabled: bool) -> Result<()> {
    let path = zones().object_path(&ObjectKey::cluster(zone));
    let change = json!({"spec": {"enabled": enabled}});
    request::patch::<Value>(hub, &path, Patch::Merge, &change)
        .await
        .context("enabling or disabling a zone")?;
    Ok(())
}

/// What the hub says of a zone.
pub(crate) async fn sync_of(hub: &Client, zone: &str) -> Result<Value> {
    let path = zones().object_path(&ObjectKey::cluster(zone));
    request::get(hub, &format!("{path}/_sync"))
        .await
        .context("asking how it stands with a zone")
}

/// How many kinds cross: ours, and the hub's own.
pub(crate) async fn kinds(hub: &Client) -> Result<usize> {
    let list: Value = request::get(hub, &synced_kinds().collection_path(None))
        .await
        .context("listing the kinds that cross")?;
    let items = list["items"].as_array();
    Ok(items.context("a list without items")?.len())
}

/// The hub's newest revision.
pub(crate) async fn revision(hub: &Client) -> Result<u64> {
    let list: Value = request::get(hub, "/api/v1/namespaces?limit=1")
        .await
        .context("asking for the revision")?;
    let revision = list["metadata"]["resourceVersion"].as_str();
    let revision = revision.and_then(|revision| revision.parse().ok());
    revision.context("a list without a revision")
}

/// Waits until nothing is written any more, such as that zones came; gives the revision.
pub(crate) async fn settled(hub: &Client) -> Result<u64> {
    let mut before = revision(hub).await?;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = revision(hub).await?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
}

async fn create(hub: &Client, path: &str, object: &Value) -> Result<()> {
    loop {
        match request::create::<Value>(hub, path, object).await {
            Ok(_) => return Ok(()),
            Err(error) => match retry_after(&error) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error).with_context(|| format!("creating at {path}")),
            },
        }
    }
}

/// When to ask again, if that may help: a hub that has just started may not serve our kinds yet.
fn retry_after(error: &RequestError) -> Option<Duration> {
    let refusal = error.refusal()?;
    let not_served = refusal.code == 404 && refusal.name.is_empty();
    let soon = not_served.then_some(Duration::from_millis(10));
    refusal.retry_after.or(soon)
}
