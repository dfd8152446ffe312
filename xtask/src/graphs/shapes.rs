//! What instances say decides which objects there are: collections, conditions, objects of others.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::definitions::{config_map, crowd, instance, menu};
use super::stage::{Stage, condition, ensure_says};
use crate::kubectl::await_that;

/// Two dishes, one of them at the usual price.
fn dishes() -> Value {
    json!([{"name": "soup"}, {"name": "pie", "price": 9}])
}

pub(super) fn refers(stage: &mut Stage) -> Result<()> {
    stage.apply(&menu())?;
    stage.until_definition("menu", "Ready", "True")?;
    // The instances' namespace comes with them, where they come from elsewhere.
    stage.apply(&instance("Menu", "m", &json!({"dishes": dishes()})))?;
    stage.until("menu", "m", |object| {
        let message = &condition(object, "ResourcesReady")["message"];
        ensure_says(message, "prices: ConfigMap team/prices is not there").is_ok()
    })?;
    stage.apply(&config_map("prices", &json!({"tax": "7"})))?;
    let active = stage.until_state("menu", "m", "ACTIVE")?;
    let (names, tax) = (&active["status"]["names"], &active["status"]["tax"]);
    ensure!(
        *names == json!(["m-soup", "m-pie"]) && *tax == "7",
        "{active}"
    );
    let soup = stage.get("configmap", "m-soup")?;
    ensure!(
        soup["data"] == json!({"price": "5 eur", "tax": "7"}),
        "{soup}"
    );
    let labels = &soup["metadata"]["labels"];
    ensure!(
        labels["kro.run/collection-index"] == "0" && labels["kro.run/collection-size"] == "2",
        "{labels}"
    );
    stage.merge("configmap", "prices", &json!({"data": {"tax": "19"}}))?;
    for name in ["m-soup", "m-pie"] {
        stage.until_data(name, "tax", "19")?;
    }
    stage.until("menu", "m", |object| object["status"]["tax"] == "19")?;
    let labels = &stage.get("configmap", "prices")?["metadata"]["labels"];
    ensure!(labels.is_null(), "it was taken: {labels}");
    Ok(())
}

pub(super) fn includes(stage: &mut Stage) -> Result<()> {
    let bad = instance("Menu", "bad", &json!({"dishes": [], "currency": "yen"}));
    let words = ["apply", "-f", "-"];
    let answer = stage.instances.kubectl().answer(&words, &bad.to_string())?;
    ensure!(!answer.good, "it was taken");
    for line in answer.err.lines() {
        println!("    {line}");
    }
    ensure_says(&json!(answer.err), "spec.currency: Unsupported value")?;
    ensure!(stage.find("configmap", "m-note")?.is_none(), "it is there");
    stage.merge("menu", "m", &json!({"spec": {"noted": true}}))?;
    stage.until_data("m-note", "text", "2")?;
    let fewer = json!({"noted": false, "dishes": [{"name": "pie", "price": 9}]});
    stage.merge("menu", "m", &json!({"spec": fewer}))?;
    for name in ["m-note", "m-soup"] {
        stage.until_gone("configmap", name)?;
    }
    stage.until("menu", "m", |object| {
        object["status"]["state"] == "ACTIVE" && object["status"]["names"] == json!(["m-pie"])
    })?;
    stage.delete("menu", "m")?;
    stage.until_gone("menu", "m")?;
    stage.until_gone("configmap", "m-pie")?;
    // That is somebody else's.
    stage.get("configmap", "prices")?;
    Ok(())
}

/// As many as a collection may have.
const MOST: usize = 1000;

pub(super) fn crowds(stage: &mut Stage) -> Result<()> {
    stage.apply(&crowd())?;
    stage.until_definition("crowd", "Ready", "True")?;
    let names: Vec<String> = (0..MOST).map(|at| format!("{at:03}")).collect();
    stage.apply(&instance("Crowd", "all", &json!({"names": names})))?;
    let label = "kro.run/instance-name=all";
    let count = |stage: &Stage| -> Result<usize> {
        let words = ["get", "configmaps", "-n", "team", "-l", label, "-o", "name"];
        Ok(stage.here.kubectl().ok(&words)?.lines().count())
    };
    stage.until_state("crowd", "all", "ACTIVE")?;
    ensure!(count(stage)? == MOST, "{} objects", count(stage)?);
    stage.merge("crowd", "all", &json!({"spec": {"greeting": "bye"}}))?;
    stage.until_data("all-999", "greeting", "bye")?;
    stage.delete("configmap", "all-500")?;
    stage.until_data("all-500", "greeting", "bye")?;
    let one_more = (0..=MOST).map(|at| format!("{at:03}")).collect::<Vec<_>>();
    stage.merge("crowd", "all", &json!({"spec": {"names": one_more}}))?;
    let failed = stage.until_state("crowd", "all", "ERROR")?;
    let message = &condition(&failed, "ResourcesReady")["message"];
    ensure_says(message, "there are more than 1000 items")?;
    println!("    the instance says: {message}");
    ensure!(count(stage)? == MOST, "{} objects", count(stage)?);
    stage.delete("crowd", "all")?;
    stage.until_gone("crowd", "all")?;
    await_that("the end of them all", || {
        Ok((count(stage)? == 0).then_some(()))
    })
}
