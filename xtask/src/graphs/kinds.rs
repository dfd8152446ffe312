//! Kinds that go away while they are used.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::definitions::{gadgets, holder, instance};
use super::rights;
use super::stage::{Stage, condition};

/// An object of the same name that is another one.
fn is_new(before: &Value) -> impl Fn(&Value) -> bool {
    |object| object["metadata"]["uid"] != before["metadata"]["uid"]
}

/// The kind of instances: what of it comes back by itself does, and the rest when it is applied.
pub(super) fn of_instances(stage: &mut Stage) -> Result<()> {
    let one = instance("Pair", "lost", &json!({"text": "found"}));
    stage.apply(&one)?;
    let before = stage.until_state("pair", "lost", "ACTIVE")?;
    let object = stage.get("configmap", "lost-right")?;
    let kind = stage.get("crd", "pairs.kro.run")?;
    let words = ["delete", "crd", "pairs.kro.run", "--wait=false"];
    stage.here.kubectl().ok(&words)?;
    stage.until("crd", "pairs.kro.run", |crd| {
        is_new(&kind)(crd) && condition(crd, "Established")["status"] == "True"
    })?;
    stage.until_definition("pair", "Ready", "True")?;
    stage.apply(&one)?;
    stage.until("pair", "lost", |object| {
        is_new(&before)(object) && object["status"]["state"] == "ACTIVE"
    })?;
    // Nothing of the first one was left over.
    let now = stage.until_data("lost-right", "text", "found")?;
    ensure!(is_new(&object)(&now), "{now}");
    stage.delete("pair", "lost")?;
    stage.until_gone("pair", "lost")
}

/// The kind of their objects: whoever needs it says so, and goes on when it is there again.
pub(super) fn of_objects(stage: &mut Stage) -> Result<()> {
    stage.apply(&gadgets())?;
    stage.until("crd", "gadgets.example.com", |crd| {
        condition(crd, "Established")["status"] == "True"
    })?;
    rights::extend(stage, "example.com", "gadgets")?;
    // Where definitions are authored it must be known too.
    stage.definitions.kubectl().apply(&gadgets())?;
    stage.apply(&holder())?;
    stage.until_definition("holder", "Ready", "True")?;
    stage.apply(&instance("Holder", "h", &json!({})))?;
    stage.until_state("holder", "h", "ACTIVE")?;
    let before = stage.get("gadget", "h")?;
    let words = ["delete", "crd", "gadgets.example.com"];
    stage.here.kubectl().ok(&words)?;
    let told = stage.until("holder", "h", |object| {
        object["status"]["state"] != "ACTIVE"
    })?;
    println!(
        "    the instance says: {}",
        condition(&told, "Ready")["message"]
    );
    stage.apply(&gadgets())?;
    stage.until("gadget", "h", is_new(&before))?;
    stage.until_state("holder", "h", "ACTIVE")?;
    stage.delete("holder", "h")?;
    stage.until_gone("holder", "h")?;
    stage.until_gone("gadget", "h")
}
