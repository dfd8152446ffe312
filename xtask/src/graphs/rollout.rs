//! How instances move from revision to revision.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::definitions::{gated_shop, instance};
use super::stage::{Stage, condition, ensure_says};
use crate::kubectl::await_that;

/// What the settings of these say, in their order.
fn greetings(stage: &Stage) -> Result<Vec<String>> {
    let names = ["a", "b", "c"].into_iter();
    let texts = names.map(|name| {
        let object = stage.get("configmap", &format!("{name}-settings"))?;
        let text = object["data"]["greeting"].as_str();
        Ok(text.unwrap_or_default().to_owned())
    });
    texts.collect()
}

fn ensure_greetings(stage: &Stage, expected: [&str; 3]) -> Result<()> {
    let found = greetings(stage)?;
    ensure!(found == expected, "{found:?}");
    Ok(())
}

/// Waits until a definition says this of its instances.
pub(super) fn until_told(stage: &Stage, definition: &str, wanted: &Value) -> Result<Value> {
    let object = stage.until("rgd", definition, |object| {
        let told = &object["status"]["propagation"];
        let wanted = wanted.as_object().into_iter().flatten();
        wanted.into_iter().all(|(key, value)| told[key] == *value)
    })?;
    Ok(object["status"]["propagation"].clone())
}

/// What a shop's Deployment says.
fn greeting(deployment: &Value) -> &Value {
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    &container["env"][0]["value"]
}

/// Waits until an instance has moved.
fn moved(stage: &Stage, name: &str, text: &str) -> Result<()> {
    stage.until("deployment", name, |object| greeting(object) == text)?;
    Ok(())
}

/// The same, and lets it be ready.
fn arrive(stage: &Stage, name: &str, text: &str) -> Result<()> {
    moved(stage, name, text)?;
    stage.make_available(name)
}

/// Lets all three arrive, in whichever order they are let go, one at a time.
fn all_arrive(stage: &Stage, mark: &str) -> Result<()> {
    await_that(&format!("all at {mark}"), || {
        let told = &stage.get("rgd", "shop")?["status"]["propagation"];
        let count = |key: &str| told[key].as_u64().unwrap_or_default();
        ensure!(count("updating") + count("failed") <= 1, "{told}");
        let mut there = 0;
        for name in ["a", "b", "c"] {
            let object = stage.get("deployment", name)?;
            let text = greeting(&object).as_str().unwrap_or_default();
            let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            match (text.ends_with(mark), seen) {
                (true, true) => there += 1,
                (true, false) => stage.make_available(name)?,
                (false, _) => {}
            }
        }
        Ok((there == 3 && count("current") == 3).then_some(()))
    })
}

pub(super) fn moves(stage: &mut Stage) -> Result<()> {
    stage.apply(&instance("Shop", "c", &json!({})))?;
    arrive(stage, "c", "hi")?;
    stage.until_state("shop", "c", "ACTIVE")?;
    // A gate alone moves nobody.
    stage.apply(&gated_shop(""))?;
    let told = json!({"revision": 2, "current": 3, "pending": 0});
    until_told(stage, "shop", &told)?;
    stage.apply(&gated_shop("!"))?;
    let told = json!({"revision": 3, "updating": 1, "pending": 2});
    let told = until_told(stage, "shop", &told)?;
    println!("    the definition says: {}", told["blocked"][0]["message"]);
    arrive(stage, "a", "hi!")?;
    moved(stage, "b", "hi!")?;
    ensure_greetings(stage, ["hi!", "hi!", "hi"])?;
    // Who has not moved is cared for as he is.
    let forged = json!({"data": {"greeting": "forged"}});
    stage.merge("configmap", "c-settings", &forged)?;
    stage.until_data("c-settings", "greeting", "hi")?;
    arrive(stage, "b", "hi!")?;
    arrive(stage, "c", "hi!")?;
    let told = json!({"current": 3, "pending": 0, "updating": 0});
    until_told(stage, "shop", &told)?;
    Ok(())
}

/// One that the API does not take: nobody comes after it.
pub(super) fn stops(stage: &mut Stage) -> Result<()> {
    let mut next = gated_shop("?");
    let replicas = "${schema.spec.greeting == 'bad' ? -1 : schema.spec.replicas}";
    next["spec"]["resources"][1]["template"]["spec"]["replicas"] = json!(replicas);
    stage.merge("shop", "b", &json!({"spec": {"greeting": "bad"}}))?;
    arrive(stage, "b", "bad!")?;
    until_told(stage, "shop", &json!({"current": 3}))?;
    stage.apply(&next)?;
    arrive(stage, "a", "hi?")?;
    let failed = stage.until_state("shop", "b", "ERROR")?;
    println!(
        "    the instance says: {}",
        condition(&failed, "Ready")["message"]
    );
    let told = until_told(stage, "shop", &json!({"failed": 1, "pending": 1}))?;
    println!("    the definition says: {told}");
    ensure_greetings(stage, ["hi?", "bad?", "hi!"])
}

/// While one change is under way: who comes new begins with the one before.
pub(super) fn newcomer(stage: &mut Stage) -> Result<()> {
    stage.apply(&instance("Shop", "d", &json!({})))?;
    arrive(stage, "d", "hi!")?;
    stage.until_state("shop", "d", "ACTIVE")?;
    stage.delete("shop", "d")?;
    stage.until_gone("shop", "d")
}

pub(super) fn overtaken(stage: &mut Stage) -> Result<()> {
    // Whoever repairs it lets the others go on.
    stage.merge("shop", "b", &json!({"spec": {"greeting": "hi"}}))?;
    moved(stage, "b", "hi?")?;
    // Before it arrives there is something newer.
    stage.apply(&gated_shop("="))?;
    stage.until_definition("shop", "Ready", "True")?;
    all_arrive(stage, "=")?;
    ensure_greetings(stage, ["hi="; 3])
}

pub(super) fn undone(stage: &mut Stage) -> Result<()> {
    stage.apply(&gated_shop("+"))?;
    arrive(stage, "a", "hi+")?;
    moved(stage, "b", "hi+")?;
    let difference = stage.definitions.says("rollout undo shop --dry-run")?;
    for line in difference.lines() {
        println!("    {line}");
    }
    stage.definitions.says("rollout undo shop")?;
    stage.until_definition("shop", "Ready", "True")?;
    all_arrive(stage, "=")?;
    ensure_greetings(stage, ["hi="; 3])
}

/// How far it is, in one line.
fn headline(stage: &Stage) -> Result<Value> {
    let said = stage.says("rollout status shop")?;
    Ok(json!(said.lines().nth(1)))
}

pub(super) fn held(stage: &mut Stage) -> Result<()> {
    stage.instances.says("rollout hold shop team/b")?;
    stage.until("shop", "b", |object| {
        object["metadata"]["annotations"]["deltaplane.io/hold"] == "true"
    })?;
    stage.definitions.says("rollout pause shop")?;
    stage.apply(&gated_shop("#"))?;
    let told = json!({"current": 0, "updating": 0, "held": 3, "paused": true});
    until_told(stage, "shop", &told)?;
    ensure_says(&headline(stage)?, "paused")?;
    println!("    rollout status says: {}", headline(stage)?);
    ensure_greetings(stage, ["hi="; 3])?;
    stage.definitions.says("rollout resume shop")?;
    arrive(stage, "a", "hi#")?;
    arrive(stage, "c", "hi#")?;
    let told = json!({"current": 2, "updating": 0, "pending": 0, "held": 1});
    until_told(stage, "shop", &told)?;
    println!("    rollout status says: {}", headline(stage)?);
    ensure_greetings(stage, ["hi#", "hi=", "hi#"])?;
    stage.instances.says("rollout release shop team/b")?;
    arrive(stage, "b", "hi#")?;
    until_told(stage, "shop", &json!({"current": 3, "held": 0}))?;
    Ok(())
}

pub(super) fn invalid(stage: &mut Stage) -> Result<()> {
    let last = |object: &Value| object["status"]["lastIssuedRevision"].clone();
    let revision = last(&stage.get("rgd", "shop")?);
    let mut wrong = gated_shop("%");
    let nobody = json!("${nobody.metadata.name}");
    wrong["spec"]["resources"][2]["template"]["metadata"]["name"] = nobody;
    stage.apply(&wrong)?;
    let told = stage.until_refused("shop")?;
    println!(
        "    the definition says: {}",
        condition(&told, "GraphAccepted")["message"]
    );
    let here = stage.get("rgd", "shop")?;
    ensure!(last(&here) == revision, "{here}");
    stage.apply(&instance("Shop", "d", &json!({})))?;
    arrive(stage, "d", "hi#")?;
    stage.until_state("shop", "d", "ACTIVE")?;
    let forged = json!({"data": {"greeting": "forged"}});
    stage.merge("configmap", "a-settings", &forged)?;
    stage.until_data("a-settings", "greeting", "hi#")?;
    stage.delete("shop", "d")?;
    stage.until_gone("shop", "d")?;
    stage.apply(&gated_shop("#"))?;
    stage.until_definition("shop", "Ready", "True")?;
    ensure_greetings(stage, ["hi#"; 3])
}

pub(super) fn killed(stage: &mut Stage) -> Result<()> {
    stage.apply(&gated_shop("~"))?;
    until_told(stage, "shop", &json!({"updating": 1, "pending": 2}))?;
    stage.kill_runner()?;
    stage.start_runner()?;
    // It is at work again.
    stage.delete("service", "c")?;
    stage.until("service", "c", |_| true)?;
    ensure_greetings(stage, ["hi~", "hi#", "hi#"])?;
    for name in ["a", "b", "c"] {
        arrive(stage, name, "hi~")?;
    }
    let told = json!({"current": 3, "pending": 0, "updating": 0});
    until_told(stage, "shop", &told)?;
    Ok(())
}
