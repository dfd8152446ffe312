//! Gates of nodes, of items, and of instances by other rules than one by one.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::definitions::{config_map, instance, lamp, list, pipe, wall};
use super::rollout::until_told;
use super::stage::{NAMESPACE, Stage, condition, ensure_says};
use crate::kubectl::await_that;

/// Says of ConfigMaps that what they say was seen; of those that say this.
fn see(stage: &Stage, label: &str, text: &str) -> Result<usize> {
    let mut seen = 0;
    for object in stage.labelled("configmaps", label)? {
        let data = &object["data"];
        if data["text"] == text && data["seen"] != text {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            stage.merge("configmap", name, &json!({"data": {"seen": text}}))?;
            seen += 1;
        }
    }
    Ok(seen)
}

/// What an instance says of what its gates keep back.
fn kept(object: &Value) -> &Value {
    condition(object, "ResourcesPropagated")
}

pub(super) fn of_nodes(stage: &mut Stage) -> Result<()> {
    stage.apply(&pipe())?;
    stage.until_definition("pipe", "Ready", "True")?;
    stage.apply(&config_map("tap", &json!({"open": "yes"})))?;
    stage.apply(&instance("Pipe", "p", &json!({"text": "1"})))?;
    stage.until_state("pipe", "p", "ACTIVE")?;
    stage.merge("configmap", "tap", &json!({"data": {"open": "no"}}))?;
    stage.merge("pipe", "p", &json!({"spec": {"text": "2"}}))?;
    stage.until_data("p-free", "text", "2")?;
    let told = stage.until("pipe", "p", |object| kept(object)["reason"] == "GateClosed")?;
    ensure_says(&kept(&told)["message"], "tap.data.open == 'yes'")?;
    println!("    the instance says: {}", kept(&told)["message"]);
    let describe = ["describe", "pipe", "p", "-n", NAMESPACE];
    await_that("an event", || {
        let said = stage.here.kubectl().ok(&describe)?;
        let events = said.split("\nEvents:").nth(1).unwrap_or_default();
        Ok(events.contains("GateClosed").then_some(()))
    })?;
    // It is kept as it was, also by another process.
    for _ in 0..2 {
        let forged = json!({"data": {"text": "forged"}});
        stage.merge("configmap", "p-gated", &forged)?;
        stage.until_data("p-gated", "text", "1")?;
        stage.kill_runner()?;
        stage.start_runner()?;
    }
    let tree = stage.says("graph tree pipe/p --live")?;
    for line in tree.lines() {
        println!("    {line}");
    }
    stage.merge("configmap", "tap", &json!({"data": {"open": "yes"}}))?;
    stage.until_data("p-gated", "text", "2")?;
    stage.until("pipe", "p", |object| kept(object)["status"] == "True")?;
    stage.delete("pipe", "p")?;
    stage.until_gone("pipe", "p")
}

/// How many of the bricks say this.
fn bricks(stage: &Stage, text: &str) -> Result<usize> {
    let all = stage.labelled("configmaps", BRICKS)?;
    Ok(all.iter().filter(|one| one["data"]["text"] == text).count())
}

const BRICKS: &str = "kro.run/instance-kind=Wall";

/// Lets all bricks say this, of which no more than two do that nobody has seen.
fn lay(stage: &Stage, text: &str) -> Result<()> {
    await_that(&format!("all bricks at {text}"), || {
        let all = stage.labelled("configmaps", BRICKS)?;
        let new = all.iter().filter(|one| one["data"]["text"] == text);
        let unseen = new.filter(|one| one["data"]["seen"] != text).count();
        ensure!(unseen <= 2, "{unseen} at a time");
        let done = all.len() == 5 && bricks(stage, text)? == 5;
        Ok((see(stage, BRICKS, text)? == 0 && done).then_some(()))
    })
}

pub(super) fn of_items(stage: &mut Stage) -> Result<()> {
    stage.apply(&wall())?;
    stage.until_definition("wall", "Ready", "True")?;
    let names = ["a", "b", "c", "d", "e"];
    let spec = json!({"names": names, "text": "1"});
    stage.apply(&instance("Wall", "w", &spec))?;
    let closed = |object: &Value| kept(object)["reason"] == "GateClosed";
    let told = stage.until("wall", "w", closed)?;
    println!("    the instance says: {}", kept(&told)["message"]);
    lay(stage, "1")?;
    stage.until_state("wall", "w", "ACTIVE")?;
    stage.merge("wall", "w", &json!({"spec": {"text": "2"}}))?;
    stage.until("wall", "w", closed)?;
    ensure!((bricks(stage, "1")?, bricks(stage, "2")?) == (3, 2));
    lay(stage, "2")?;
    stage.until_state("wall", "w", "ACTIVE")?;
    stage.delete("wall", "w")?;
    stage.until_gone("wall", "w")
}

const LAMPS: usize = 7;
const LIGHTS: &str = "kro.run/instance-kind=Lamp";

/// Lets all lamps move as they may, of which no more are under way than are there already.
fn light(stage: &Stage, text: &str) -> Result<()> {
    await_that(&format!("all lamps at {text}"), || {
        let told = &stage.get("rgd", "lamp")?["status"]["propagation"];
        let count = |key: &str| told[key].as_u64().unwrap_or_default();
        let (under_way, there) = (count("updating"), count("current"));
        ensure!(under_way <= there.max(1), "{told}");
        see(stage, LIGHTS, text)?;
        Ok((there == LAMPS as u64 && count("pending") == 0).then_some(()))
    })
}

pub(super) fn waves(stage: &mut Stage) -> Result<()> {
    let gate = ["exponentiallyReady(lamp, lamps)"];
    stage.apply(&lamp("1", &gate))?;
    stage.until_definition("lamp", "Ready", "True")?;
    let all = (0..LAMPS).map(|at| instance("Lamp", &format!("l{at}"), &json!({})));
    stage.apply(&list(all.collect()))?;
    for at in 0..LAMPS {
        stage.until_data(&format!("l{at}-light"), "text", "1")?;
    }
    see(stage, LIGHTS, "1")?;
    until_told(stage, "lamp", &json!({"current": LAMPS, "pending": 0}))?;
    stage.apply(&lamp("2", &gate))?;
    for (current, updating, pending) in [(0, 1, 6), (1, 1, 5), (2, 2, 3)] {
        let wanted = json!({"current": current, "updating": updating, "pending": pending});
        until_told(stage, "lamp", &wanted)?;
        // Not all of the last at once: others would follow the first of them.
        if updating == 1 {
            see(stage, LIGHTS, "2")?;
        }
    }
    light(stage, "2")
}

pub(super) fn patient(stage: &mut Stage) -> Result<()> {
    let gates = |time: &str| {
        let rest = format!("lamps.all(one, !one.updated() || readyFor(one, '{time}'))");
        lamp("3", &["exponentiallyReady(lamp, lamps)", &rest])
    };
    stage.apply(&gates("1h"))?;
    until_told(stage, "lamp", &json!({"updating": 1, "pending": 6}))?;
    see(stage, LIGHTS, "3")?;
    let wanted = json!({"current": 1, "updating": 0, "pending": 6});
    let told = until_told(stage, "lamp", &wanted)?;
    println!("    the definition says: {}", told["blocked"][0]["message"]);
    ensure_says(&told["blocked"][0]["message"], "readyFor(one, '1h')")?;
    // A gate alone counts at once.
    stage.apply(&gates("1s"))?;
    light(stage, "3")
}
