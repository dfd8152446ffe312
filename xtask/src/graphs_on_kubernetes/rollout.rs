//! How instances move from revision to revision.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::graphs::{gated_shop, instance};
use super::stage::{Stage, condition};

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

/// Waits until the definition says this of its instances.
fn until_told(stage: &Stage, wanted: &Value) -> Result<Value> {
    let object = stage.until("rgd", "shop", |object| {
        let told = &object["status"]["propagation"];
        let wanted = wanted.as_object().into_iter().flatten();
        wanted.into_iter().all(|(key, value)| told[key] == *value)
    })?;
    Ok(object["status"]["propagation"].clone())
}

/// Waits until an instance has moved.
fn moved(stage: &Stage, name: &str, greeting: &str) -> Result<()> {
    stage.until("deployment", name, |object| {
        let container = &object["spec"]["template"]["spec"]["containers"][0];
        container["env"][0]["value"] == greeting
    })?;
    Ok(())
}

/// The same, and lets it be ready.
fn arrive(stage: &Stage, name: &str, greeting: &str) -> Result<()> {
    moved(stage, name, greeting)?;
    stage.make_available(name)
}

pub(super) fn moves(stage: &mut Stage) -> Result<()> {
    let admin = stage.admin();
    admin.apply(&instance("Shop", "c", &json!({})))?;
    arrive(stage, "c", "hi")?;
    stage.until_state("shop", "c", "ACTIVE")?;
    // A gate alone moves nobody.
    admin.apply(&gated_shop(""))?;
    until_told(stage, &json!({"revision": 2, "current": 3, "pending": 0}))?;
    admin.apply(&gated_shop("!"))?;
    let told = until_told(stage, &json!({"revision": 3, "updating": 1, "pending": 2}))?;
    println!("    the definition says: {}", told["blocked"][0]["message"]);
    arrive(stage, "a", "hi!")?;
    moved(stage, "b", "hi!")?;
    let now = greetings(stage)?;
    ensure!(now == ["hi!", "hi!", "hi"], "{now:?}");
    arrive(stage, "b", "hi!")?;
    arrive(stage, "c", "hi!")?;
    until_told(stage, &json!({"current": 3, "pending": 0, "updating": 0}))?;
    // One that the API does not take: nobody comes after it.
    let mut next = gated_shop("?");
    let replicas = "${schema.spec.greeting == 'bad' ? -1 : schema.spec.replicas}";
    next["spec"]["resources"][1]["template"]["spec"]["replicas"] = json!(replicas);
    stage.merge("shop", "b", &json!({"spec": {"greeting": "bad"}}))?;
    arrive(stage, "b", "bad!")?;
    until_told(stage, &json!({"current": 3}))?;
    admin.apply(&next)?;
    arrive(stage, "a", "hi?")?;
    let failed = stage.until_state("shop", "b", "ERROR")?;
    println!(
        "    the instance says: {}",
        condition(&failed, "Ready")["message"]
    );
    let told = until_told(stage, &json!({"failed": 1, "pending": 1}))?;
    println!("    the definition says: {told}");
    ensure!(
        greetings(stage)? == ["hi?", "bad?", "hi!"],
        "{:?}",
        greetings(stage)?
    );
    // Whoever repairs it lets the others go on.
    stage.merge("shop", "b", &json!({"spec": {"greeting": "hi"}}))?;
    arrive(stage, "b", "hi?")?;
    arrive(stage, "c", "hi?")?;
    until_told(stage, &json!({"current": 3, "failed": 0, "pending": 0}))?;
    Ok(())
}

pub(super) fn invalid(stage: &mut Stage) -> Result<()> {
    let admin = stage.admin();
    let revision = stage.get("rgd", "shop")?["status"]["lastIssuedRevision"].clone();
    let mut wrong = gated_shop("%");
    wrong["spec"]["resources"][2]["template"]["metadata"]["name"] =
        json!("${nobody.metadata.name}");
    admin.apply(&wrong)?;
    let told = stage.until_definition("shop", "GraphAccepted", "False")?;
    println!(
        "    the definition says: {}",
        condition(&told, "GraphAccepted")["message"]
    );
    ensure!(told["status"]["lastIssuedRevision"] == revision, "{told}");
    admin.apply(&instance("Shop", "d", &json!({})))?;
    arrive(stage, "d", "hi?")?;
    stage.until_state("shop", "d", "ACTIVE")?;
    stage.merge(
        "configmap",
        "a-settings",
        &json!({"data": {"greeting": "forged"}}),
    )?;
    stage.until("configmap", "a-settings", |object| {
        object["data"]["greeting"] == "hi?"
    })?;
    stage.delete("shop", "d")?;
    stage.until_gone("shop", "d")?;
    admin.apply(&gated_shop("?"))?;
    stage.until_definition("shop", "Ready", "True")?;
    for name in ["a", "b", "c"] {
        arrive(stage, name, "hi?")?;
    }
    until_told(stage, &json!({"current": 3, "pending": 0, "updating": 0}))?;
    Ok(())
}

pub(super) fn killed(stage: &mut Stage) -> Result<()> {
    let admin = stage.admin();
    admin.apply(&gated_shop("~"))?;
    until_told(stage, &json!({"updating": 1, "pending": 2}))?;
    stage.kill_runner()?;
    stage.start_runner()?;
    // It is at work again.
    stage.delete("service", "c")?;
    stage.until("service", "c", |_| true)?;
    ensure!(
        greetings(stage)? == ["hi~", "hi?", "hi?"],
        "{:?}",
        greetings(stage)?
    );
    for name in ["a", "b", "c"] {
        arrive(stage, name, "hi~")?;
    }
    until_told(stage, &json!({"current": 3, "pending": 0, "updating": 0}))?;
    Ok(())
}
