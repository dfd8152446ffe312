//! A user of a zone changes what the hub manages there.

use std::time::Duration;

use anyhow::{Context, Result};
use deltaplane_client::request;
use serde_json::{Value, json};

use super::Outcome;
use super::account::{Account, Server};
use super::peer::map;
use super::stage::{self, MAPS, Stage, ZONE, appears, create};

/// The zone has so long to get an object.
const SENT: Duration = Duration::from_secs(20);
/// A deletion that should not happen has had its time to happen.
const WAIT: Duration = Duration::from_secs(3);

/// Gives a mirrored object an owner that does not exist, so that the garbage collector deletes it.
pub(super) async fn owner_that_is_gone(stage: &Stage) -> Result<Outcome> {
    create(&stage.admin, MAPS, &map("owned")).await?;
    let path = format!("{MAPS}/owned");
    let uid = async || {
        let found = request::get::<Value>(&stage.there, &path).await.ok();
        found.and_then(|found| found["metadata"]["uid"].as_str().map(str::to_owned))
    };
    let before = appears(SENT, async || Ok(uid().await)).await?;
    let before = before.context("the zone does not get the object")?;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]);
    let attacker = Account {
        server: Server::of(&stage.directory(ZONE).join("kubeconfig"))?,
        prefix: String::new(),
        token: stage::account(&stage.there, "owner", &rules).await?,
    };
    let gone = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone",
        "uid": "00000000-0000-4000-8000-000000000000"});
    let change = json!({"metadata": {"ownerReferences": [gone]}});
    let answer = attacker.patch(&path, &change).await?;
    if !answer.status.is_success() {
        return Ok(Outcome::Refused(answer.brief()));
    }
    // Sync may bring it back, as another object.
    let deleted = appears(WAIT, async || {
        let is_same = uid().await.is_some_and(|uid| uid == before);
        Ok((!is_same).then_some(()))
    });
    Ok(match deleted.await? {
        Some(()) => Outcome::Succeeded("the zone's copy was deleted".to_owned()),
        None => Outcome::Succeeded("the object has an owner that is gone".to_owned()),
    })
}
