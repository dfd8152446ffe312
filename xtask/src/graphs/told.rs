//! What is said of instances that do not move: by kubectl, and by our own commands.

use anyhow::{Result, ensure};
use serde_json::json;

use super::stage::{NAMESPACE, Stage, condition, ensure_says};

/// Prints what a command said, and sees that it said this.
fn shown(line: &str, said: &str, expected: &[&str]) -> Result<()> {
    println!("    $ {line}");
    for line in said.lines() {
        println!("    {line}");
    }
    expected
        .iter()
        .try_for_each(|text| ensure_says(&json!(said), text))
}

/// One of ours, where graphs run.
fn ours(stage: &Stage, line: &str, expected: &[&str]) -> Result<()> {
    shown(&format!("deltaplane {line}"), &stage.says(line)?, expected)
}

/// The end of what kubectl says of a shop.
fn described(stage: &Stage, name: &str, expected: &[&str]) -> Result<()> {
    let said = stage
        .here
        .kubectl()
        .ok(&["describe", "shop", name, "-n", NAMESPACE])?;
    let events = said.find("\nEvents:").unwrap_or_default();
    println!("    $ kubectl describe shop {name}");
    for line in said[events..].lines() {
        println!("    {line}");
    }
    expected
        .iter()
        .try_for_each(|text| ensure_says(&json!(said), text))
}

/// The second of three has failed, and the third waits.
pub(super) fn stopped(stage: &mut Stage) -> Result<()> {
    let gate = "linearlyReady(shop, shops, 1): 1 in flight (team/b); 1 of 3 updated and ready";
    let kept = stage.get("shop", "c")?;
    let why = condition(&kept, "ResourcesPropagated");
    ensure!(
        why["status"] == "False" && why["reason"] == "GateClosed",
        "{why}"
    );
    let ready = condition(&kept, "Ready");
    ensure!(ready["status"] == "True", "{ready}");
    described(stage, "b", &["Warning", "Deployment team/b was refused"])?;
    described(stage, "c", &["ResourcesPropagated", "GateClosed"])?;
    ours(
        stage,
        "rollout status shop",
        &["1 of 3 at revision 4", "team/b", "team/c", gate],
    )?;
    ours(
        stage,
        "rollout why shop",
        &["team/c: kept back by the gate", gate],
    )?;
    ours(
        stage,
        "rollout why shop team/b",
        &["Deployment team/b was refused"],
    )?;
    ours(stage, "rollout history shop", &["REVISION", "TARGET"])?;
    ours(
        stage,
        "graph tree shop/b --live",
        &["shop revision 4: Shop team/b", "app: apps/v1 Deployment"],
    )?;
    let unknown = stage.answer("rollout status shp")?;
    ensure!(
        !unknown.good && unknown.err.contains("did you mean `shop`?"),
        "{unknown:?}"
    );
    Ok(())
}
