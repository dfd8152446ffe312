//! Hubs: definitions are authored there, and run in zones.

use anyhow::{Result, ensure};
use serde_json::json;

use super::definitions::{instance, pair};
use super::stage::{NAMESPACE, Stage};
use crate::kubectl::{Kubectl, await_that};

/// Something that is at an API, in the end.
fn until_found(kubectl: &Kubectl, kind: &str, name: &str) -> Result<()> {
    await_that(&format!("{kind} {name}"), || {
        let found = kubectl.find(kind, name, NAMESPACE).ok().flatten();
        Ok(found.map(|_| ()))
    })
}

pub(super) fn authored(stage: &mut Stage) -> Result<()> {
    let hub = stage.definitions.kubectl();
    if hub.find("namespace", NAMESPACE, "")?.is_none() {
        hub.ok(&["create", "namespace", NAMESPACE])?;
    }
    stage.definitions.kubectl().apply(&pair())?;
    hub.ok(&["wait", "--for=condition=Ready", "rgd/pair", "--timeout=60s"])?;
    hub.apply(&instance("Pair", "far", &json!({"text": "away"})))?;
    for zone in stage.zones() {
        let zone = zone.kubectl();
        until_found(&zone, "rgd", "pair")?;
        until_found(&zone, "graphrevision", "pair-r00001")?;
        until_found(&zone, "configmap", "far-right")?;
    }
    stage.until_state("pair", "far", "ACTIVE")?;
    // What the hub has is what was authored there.
    let far = hub.find("pair", "far", NAMESPACE)?.unwrap_or_default();
    ensure!(far["spec"]["text"] == "away", "{far}");
    ensure!(
        far["status"].is_null() && far["metadata"]["finalizers"].is_null(),
        "it was run: {far}"
    );
    let found = hub.find("configmap", "far-right", NAMESPACE)?;
    ensure!(found.is_none(), "it was run: {found:?}");
    for line in hub.ok(&["get", "rgd"])?.lines() {
        println!("    {line}");
    }
    hub.ok(&["delete", "pair", "far", "-n", NAMESPACE])?;
    stage.until_gone("pair", "far")
}

pub(super) fn alone(stage: &mut Stage) -> Result<()> {
    let binary = stage.here.binary.clone();
    let process = stage.runner()?;
    stage.hub()?.kill()?;
    stage.merge("pair", "p00", &json!({"spec": {"text": "alone"}}))?;
    stage.until_data("p00-right", "text", "alone")?;
    let forged = json!({"data": {"text": "forged"}});
    stage.merge("configmap", "p00-right", &forged)?;
    stage.until_data("p00-right", "text", "alone")?;
    stage.hub()?.spawn_again(&binary)?;
    await_that("the hub", || Ok(stage.hub()?.is_ready()?.then_some(())))?;
    let mut changed = pair();
    changed["spec"]["resources"][1]["template"]["data"]["after"] = json!("yes");
    stage.apply(&changed)?;
    stage.until_data("p00-right", "after", "yes")?;
    stage.apply(&pair())?;
    stage.until("configmap", "p00-right", |object| {
        object["data"]["after"].is_null()
    })?;
    ensure!(stage.runner()? == process, "the zone was replaced");
    Ok(())
}
