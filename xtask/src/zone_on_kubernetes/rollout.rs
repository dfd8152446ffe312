//! A policy at the hub moves a ConfigMap and a graph to a first zone, and then to the cluster.

use std::net::TcpListener;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::stage::{Stage, ZONE};
use crate::kubectl::{Kubectl, await_that};

const CANARY: &str = "canary";
const POLICY: &str = "web";
const ROLLBACK: &str = "fleet.deltaplane.io/rollback";

/// The stage before the cluster's has one zone, which joined and is offline.
pub(super) fn waits(stage: &mut Stage) -> Result<()> {
    grant(stage)?;
    let hub = stage.hub();
    hub.make_zone(CANARY)?;
    hub.ok(&["label", "zone", CANARY, "tier=canary"])?;
    let join = hub.join(CANARY)?;
    start_canary(stage, &["--join", &join])?;
    await_connection(&hub, "Connected")?;
    stage.canary.kill()?;
    await_connection(&hub, "Disconnected")?;
    hub.apply(&policy())?;
    hub.apply(&graph())?;
    hub.apply(&map("web", &json!({"text": "one"})))?;
    let waiting = await_that("a stage that waits", || {
        let policy = found(&hub, "propagationpolicy", POLICY)?;
        let first = policy["status"]["stages"][0].clone();
        let waits = first["waiting"][0]["message"].is_string();
        Ok((waits && !first["release"].is_null()).then_some(first["waiting"].clone()))
    })?;
    println!("    the first stage waits: {waiting}");
    for (kind, name) in [("configmap", "web"), ("rgd", "web")] {
        let came = stage.cluster().find(kind, name, "team").ok().flatten();
        ensure!(came.is_none(), "it came before its turn: {came:?}");
    }
    Ok(())
}

/// The canary zone is back, and then it is the cluster's turn.
pub(super) fn follows(stage: &mut Stage) -> Result<()> {
    start_canary(stage, &[])?;
    moved(stage, "web", "one")?;
    for zone in [stage.cluster(), stage.canary()] {
        let came = found(&zone, "rgd", "web")?;
        let from = &came["metadata"]["labels"]["deltaplane.io/origin"];
        ensure!(from == "hub", "{came}");
    }
    stage.hub().apply(&map("web", &json!({"text": "two"})))?;
    moved(stage, "web", "two")?;
    show(stage)
}

/// What is called like this in the cluster stays, and the policy says so; nobody waits for that.
pub(super) fn foreign(stage: &mut Stage) -> Result<()> {
    let (hub, cluster) = (stage.hub(), stage.cluster());
    cluster.apply(&map("taken", &json!({"text": "the cluster's"})))?;
    hub.apply(&map("taken", &json!({"text": "the hub's"})))?;
    let mut last = Value::Null;
    let said = await_that("a reason", || {
        let policy = found(&hub, "propagationpolicy", POLICY)?;
        let condition = propagated(&policy);
        last = policy["status"].clone();
        let stages = last["stages"].as_array().into_iter().flatten();
        let waiting = stages.flat_map(|stage| stage["waiting"].as_array().into_iter().flatten());
        let mut refused = waiting.filter(|one| one["reason"] == "ZoneRefuses");
        let message = refused.find_map(|one| Some(one["message"].as_str()?.to_owned()));
        let of_zone = |said: &String| said.contains(ZONE) && said.contains("taken");
        Ok(message.filter(|said| condition["status"] == "True" && of_zone(said)))
    });
    let said = said.with_context(|| format!("the policy says {last}"))?;
    println!("    the policy says: {said}");
    show(stage)?;
    let (ours, theirs) = (text(&stage.canary(), "taken")?, text(&cluster, "taken")?);
    ensure!(ours == "the hub's", "{ours}");
    ensure!(theirs == "the cluster's", "{theirs}");
    // Nothing else is kept from the cluster by it.
    let web = text(&cluster, "web")?;
    ensure!(web == "two", "{web}");
    cluster.ok(&["delete", "configmap", "taken", "-n", "team"])?;
    moved(stage, "taken", "the hub's")
}

pub(super) fn back(stage: &mut Stage) -> Result<()> {
    let hub = stage.hub();
    let before = release(&hub)?;
    hub.apply(&map("web", &json!({"text": "three"})))?;
    moved(stage, "web", "three")?;
    let newest = release(&hub)?;
    let asked = format!("{ROLLBACK}={before} instead of {newest}");
    hub.ok(&["annotate", "propagationpolicy", POLICY, &asked])?;
    reached(stage, "web", "two")?;
    // The hub has another version than its zones: that is no success.
    await_that("a policy that says it was rolled back", || {
        let condition = propagated(&found(&hub, "propagationpolicy", POLICY)?);
        let rolled_back = condition["status"] == "False" && condition["reason"] == "RolledBack";
        Ok(rolled_back.then_some(()))
    })?;
    ensure!(release(&hub)? == newest + 1, "it is no new release");
    let at_hub = text(&hub, "web")?;
    ensure!(at_hub == "three", "what is authored changed: {at_hub}");
    show(stage)
}

/// Starts the canary zone on a free port.
fn start_canary(stage: &mut Stage, more: &[&str]) -> Result<()> {
    let free = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    let listen = free.local_addr()?.to_string();
    drop(free);
    stage.start_canary(&[&["--listen", &listen], more].concat())
}

/// Waits until the hub says this of the canary zone's connection.
fn await_connection(hub: &Kubectl, wanted: &str) -> Result<()> {
    await_that(&format!("zone {CANARY} to be {wanted}"), || {
        let zone = found(hub, "zone", CANARY)?;
        Ok((zone["status"]["connection"] == wanted).then_some(()))
    })
}

/// Gives the agent what graphs and ConfigMaps need, and starts it anew.
fn grant(stage: &mut Stage) -> Result<()> {
    let kinds = "widgets.example.com,configmaps";
    let manifest = ["zone", "manifest", "--kinds", kinds];
    let graphs = ["--graphs", "webs.kro.run", "--graph-objects", "configmaps"];
    let manifest = stage.deltaplane(&[&manifest[..], &graphs].concat())?;
    stage.cluster().reading(&["apply", "-f", "-"], &manifest)?;
    stage.agent.kill()?;
    stage.start_agent_with(&["--graphs"])
}

fn policy() -> Value {
    let gate = ["linearlyReady(zone, zones, 1)"];
    json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "targets": [
                {"group": "", "kind": "ConfigMap", "names": ["team/web", "team/taken"]},
                {"group": "kro.run", "kind": "ResourceGraphDefinition", "names": ["web"]},
            ],
            "stages": [
                {
                    "name": "canary", "zones": {"matchLabels": {"tier": "canary"}},
                    "propagateWhen": gate, "whenNoEvidence": "Proceed",
                },
                {"name": "rest", "propagateWhen": gate, "whenNoEvidence": "Proceed"},
            ],
        },
    })
}

fn graph() -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "web"},
        "spec": {
            "schema": {"kind": "Web", "apiVersion": "v1alpha1", "spec": {"text": "string"}},
            "resources": [{"id": "page", "template": {
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${schema.metadata.name}-page"},
                "data": {"text": "${schema.spec.text}"},
            }}],
        },
    })
}

fn map(name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "team"}, "data": data,
    })
}

fn found(kubectl: &Kubectl, kind: &str, name: &str) -> Result<Value> {
    let found = kubectl.find(kind, name, "team")?;
    found.with_context(|| format!("there is no {kind} {name}"))
}

fn text(kubectl: &Kubectl, name: &str) -> Result<String> {
    let map = found(kubectl, "configmap", name)?;
    Ok(map["data"]["text"].as_str().unwrap_or_default().to_owned())
}

fn propagated(policy: &Value) -> Value {
    let conditions = policy["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let condition = conditions.find(|one| one["type"] == "Propagated");
    condition.cloned().unwrap_or_default()
}

fn release(hub: &Kubectl) -> Result<u64> {
    let policy = found(hub, "propagationpolicy", POLICY)?;
    policy["status"]["release"].as_u64().context("no release")
}

/// Waits until a ConfigMap says this in the cluster, and the policy is done.
fn moved(stage: &Stage, name: &str, wanted: &str) -> Result<()> {
    reached(stage, name, wanted)?;
    await_that("the end of a rollout", || {
        let policy = found(&stage.hub(), "propagationpolicy", POLICY)?;
        Ok((propagated(&policy)["status"] == "True").then_some(()))
    })
}

/// Waits until a ConfigMap says this in the cluster; whatever comes to the cluster is in the stage
/// before.
fn reached(stage: &Stage, name: &str, wanted: &str) -> Result<()> {
    let says = |zone: &Kubectl| text(zone, name).is_ok_and(|text| text == wanted);
    await_that(&format!("{wanted} in the cluster"), || {
        Ok(says(&stage.cluster()).then_some(()))
    })?;
    let before = text(&stage.canary(), name)?;
    ensure!(before == wanted, "the stage before has {before}");
    Ok(())
}

fn show(stage: &Stage) -> Result<()> {
    let table = stage.hub().ok(&["get", "propagationpolicy"])?;
    for line in table.lines() {
        println!("    {line}");
    }
    Ok(())
}
