//! The life of an instance: made, kept as it is, ended.

use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::definitions::{instance, list, pair, shop};
use super::stage::{NAMESPACE, On, Stage, condition, ensure_says};
use crate::audit::Requests;
use crate::kubectl::await_that;

/// The objects of a shop: kind, name, node, and the order in which they are made.
fn objects(name: &str) -> [(&'static str, String, &'static str, &'static str); 3] {
    [
        ("configmap", format!("{name}-settings"), "settings", "1"),
        ("deployment", name.to_owned(), "app", "2"),
        ("service", name.to_owned(), "door", "3"),
    ]
}

pub(super) fn defined(stage: &mut Stage) -> Result<()> {
    stage.apply(&shop(""))?;
    let told = stage.until_definition("shop", "Ready", "True")?;
    ensure!(told["status"]["state"] == "Active", "{told}");
    ensure!(
        told["status"]["topologicalOrder"] == json!(["settings", "app", "door"]),
        "{told}"
    );
    for condition in ["GraphAccepted", "KindReady", "ControllerReady"] {
        let found = self::condition(&told, condition);
        ensure!(found["status"] == "True", "{condition}: {found}");
    }
    let labels = &stage.get("crd", "shops.kro.run")?["metadata"]["labels"];
    ensure!(
        labels["kro.run/owned"] == "true"
            && labels["kro.run/resource-graph-definition-name"] == "shop",
        "{labels}"
    );
    let revision = stage.get("graphrevision", "shop-r00001")?;
    ensure!(revision["spec"]["revision"] == 1, "{revision}");
    let words = ["get", "rgd,graphrevisions"];
    for line in stage.here.kubectl().ok(&words)?.lines() {
        println!("    {line}");
    }
    Ok(())
}

/// What kro writes on an object, but for values that differ from run to run.
fn marks(name: &str, node: &str) -> Value {
    json!({
        "app.kubernetes.io/managed-by": "kro",
        "kro.run/instance-group": "kro.run",
        "kro.run/instance-kind": "Shop",
        "kro.run/instance-name": name,
        "kro.run/instance-namespace": NAMESPACE,
        "kro.run/instance-version": "v1alpha1",
        "kro.run/node-id": node,
        "kro.run/owned": "true",
    })
}

pub(super) fn made(stage: &mut Stage) -> Result<()> {
    stage.apply(&instance("Shop", "a", &json!({})))?;
    stage.until("shop", "a", |object| {
        let message = &condition(object, "ResourcesReady")["message"];
        object["status"]["state"] == "IN_PROGRESS"
            && ensure_says(message, "door: waits for app").is_ok()
    })?;
    ensure!(
        stage.find("service", "a")?.is_none(),
        "it was not waited for"
    );
    stage.make_available("a")?;
    let active = stage.until_state("shop", "a", "ACTIVE")?;
    let door = stage.get("service", "a")?;
    let status = &active["status"];
    ensure!(
        status["greets"] == "hi" && status["address"] == door["spec"]["clusterIP"],
        "{status}"
    );
    for (r#type, reason) in [
        ("InstanceManaged", "Managed"),
        ("GraphResolved", "Resolved"),
        ("ResourcesReady", "AllResourcesReady"),
        ("Ready", "Ready"),
    ] {
        let found = condition(&active, r#type);
        ensure!(
            found["status"] == "True" && found["reason"] == reason,
            "{type}: {found}"
        );
    }
    ensure_marked(stage, &active)?;
    let finalizers = &active["metadata"]["finalizers"];
    ensure!(*finalizers == json!(["kro.run/finalizer"]), "{finalizers}");
    Ok(())
}

/// The objects carry what kro writes on them.
fn ensure_marked(stage: &Stage, instance: &Value) -> Result<()> {
    let metadata = &instance["metadata"];
    let set = &metadata["labels"]["applyset.kubernetes.io/id"];
    ensure!(set.is_string(), "{metadata}");
    for (kind, name, node, order) in objects("a") {
        let object = stage.get(kind, &name)?;
        let mut labels = object["metadata"]["labels"].clone();
        let map = labels.as_object_mut().context("no labels")?;
        ensure!(map.remove("kro.run/instance-id").as_ref() == Some(&metadata["uid"]));
        ensure!(map.remove("applyset.kubernetes.io/part-of").as_ref() == Some(set));
        ensure!(map.remove("kro.run/kro-version").is_some());
        ensure!(labels == marks("a", node), "{labels}");
        let annotations = &object["metadata"]["annotations"];
        ensure!(
            annotations["internal.kro.run/apply-order"] == order,
            "{annotations}"
        );
    }
    Ok(())
}

pub(super) fn quiet(stage: &mut Stage) -> Result<()> {
    // The same again, and a word that means nothing to graphs.
    let audited = stage.on == On::Kubernetes;
    if audited {
        stage.audit()?.news()?;
    }
    stage.apply(&shop(""))?;
    stage.apply(&instance("Shop", "a", &json!({})))?;
    let note = json!({"metadata": {"annotations": {"note": "mine"}}});
    stage.merge("rgd", "shop", &note)?;
    stage.merge("shop", "a", &note)?;
    stage.merge("configmap", "a-settings", &note)?;
    let versions = |stage: &Stage| -> Result<Vec<Value>> {
        let objects = objects("a").into_iter();
        let objects = objects.map(|(kind, name, ..)| stage.get(kind, &name));
        objects.collect()
    };
    let before = versions(stage)?;
    // Whatever came of that came before this.
    stage.apply(&instance("Shop", "b", &json!({})))?;
    stage.until_state("shop", "b", "IN_PROGRESS")?;
    stage.until("deployment", "b", |_| true)?;
    stage.make_available("b")?;
    stage.until_state("shop", "b", "ACTIVE")?;
    ensure!(versions(stage)? == before, "something was written");
    if !audited {
        return Ok(());
    }
    let one = |what: &str, times: usize| (what.to_owned(), times);
    let expected = Requests::from([
        one("patch configmaps", 1),
        one("patch deployments", 1),
        one("patch services", 1),
        one("patch shops", 1),
        one("patch shops/status", 2),
    ]);
    let found = stage.audit()?.news()?;
    ensure!(found == expected, "{found:?}");
    Ok(())
}

pub(super) fn mended(stage: &mut Stage) -> Result<()> {
    let forged = json!({"data": {"greeting": "forged", "own": "kept"}});
    stage.merge("configmap", "a-settings", &forged)?;
    let mended = stage.until_data("a-settings", "greeting", "hi")?;
    ensure!(mended["data"]["own"] == "kept", "{mended}");
    let scaled = json!({"spec": {"replicas": 5}});
    stage.merge("deployment", "a", &scaled)?;
    stage.until("deployment", "a", |object| object["spec"]["replicas"] == 1)?;
    stage.make_available("a")?;
    let before = stage.get("service", "a")?["metadata"]["uid"].clone();
    stage.delete("service", "a")?;
    stage.until("service", "a", |object| object["metadata"]["uid"] != before)?;
    stage.until_state("shop", "a", "ACTIVE")?;
    Ok(())
}

/// So many instances are made when the runner is killed.
const MANY: usize = 40;
/// What their objects are found with.
const PAIRS: &str = "kro.run/instance-kind=Pair";

pub(super) fn killed(stage: &mut Stage) -> Result<()> {
    stage.apply(&pair())?;
    stage.until_definition("pair", "Ready", "True")?;
    let name = |at: usize| format!("p{at:02}");
    let all = (0..MANY).map(|at| instance("Pair", &name(at), &json!({"text": format!("{at}")})));
    let all = list(all.collect());
    let text = all.to_string();
    let words = ["apply", "-f", "-"];
    let before = killed_during(stage, &words, &text, |some| !some.is_empty())?;
    stage.start_runner()?;
    // What was not taken while there was no API.
    stage.apply(&all)?;
    for at in 0..MANY {
        stage.until_state("pair", &name(at), "ACTIVE")?;
    }
    let after = stage.labelled("configmaps", PAIRS)?;
    ensure!(after.len() == 2 * MANY, "{} objects", after.len());
    for object in &after {
        let instance = object["metadata"]["labels"]["kro.run/instance-name"].as_str();
        let text = instance.map(|name| name.trim_start_matches(['p', '0']));
        let text = text.map(|text| if text.is_empty() { "0" } else { text });
        ensure!(object["data"]["text"].as_str() == text, "{object}");
    }
    // What was made before is not written again.
    for object in &before {
        ensure!(after.contains(object), "it was written again: {object}");
    }
    let (before, all) = (before.len(), 2 * MANY);
    println!("    {before} of {all} objects were seen when it was killed");
    Ok(())
}

/// Half of them stay.
pub(super) fn killed_again(stage: &mut Stage) -> Result<()> {
    let names: Vec<String> = (MANY / 2..MANY).map(|at| format!("p{at:02}")).collect();
    let names = names.iter().map(String::as_str);
    let words = ["delete", "pair", "-n", NAMESPACE, "--wait=false"];
    let words = words.into_iter().chain(["--ignore-not-found"]);
    let words: Vec<&str> = words.chain(names).collect();
    let all = stage.labelled("configmaps", PAIRS)?.len();
    let left = killed_during(stage, &words, "", |left| left.len() < all)?;
    stage.start_runner()?;
    stage.instances.kubectl().ok(&words)?;
    await_that("the end of half of them", || {
        let objects = stage.labelled("configmaps", PAIRS)?.len();
        let names = ["get", "pairs", "-n", NAMESPACE, "-o", "name"];
        let instances = stage.here.kubectl().ok(&names)?.lines().count();
        Ok((objects == MANY && instances == MANY / 2).then_some(()))
    })?;
    stage.until_state("pair", "p00", "ACTIVE")?;
    let left = left.len();
    println!("    {left} of {all} objects were left when it was killed");
    Ok(())
}

/// Kills the runner while kubectl does this, as soon as there are such objects of pairs: those.
fn killed_during(
    stage: &mut Stage,
    words: &[&str],
    stdin: &str,
    is_time: impl Fn(&[Value]) -> bool,
) -> Result<Vec<Value>> {
    let home = stage.instances.kubectl();
    thread::scope(|scope| {
        // Where the runner serves the API itself, that ends too soon.
        let doing = scope.spawn(|| home.answer(words, stdin));
        let some = await_that("the right moment", || {
            let some = stage.labelled("configmaps", PAIRS)?;
            Ok(is_time(&some).then_some(some))
        });
        let killed = stage.kill_runner();
        let _ = doing.join();
        killed.and(some)
    })
}

pub(super) fn ended(stage: &mut Stage) -> Result<()> {
    let held = json!({"metadata": {"finalizers": ["example.com/slow"]}});
    stage.merge("service", "a", &held)?;
    stage.delete("shop", "a")?;
    let going = stage.until_state("shop", "a", "DELETING")?;
    let message = &condition(&going, "ResourcesReady")["message"];
    ensure_says(message, "Service team/a")?;
    stage.until("service", "a", |object| {
        object["metadata"]["deletionTimestamp"].is_string()
    })?;
    for (kind, name) in [("deployment", "a"), ("configmap", "a-settings")] {
        let object = stage.get(kind, name)?;
        ensure!(
            object["metadata"]["deletionTimestamp"].is_null(),
            "{object}"
        );
    }
    stage.merge("service", "a", &json!({"metadata": {"finalizers": []}}))?;
    stage.until_gone("shop", "a")?;
    ensure_gone(stage, "a")
}

/// Nothing of a shop is left.
fn ensure_gone(stage: &Stage, name: &str) -> Result<()> {
    for (kind, name, ..) in objects(name) {
        ensure!(stage.find(kind, &name)?.is_none(), "{kind} {name} is left");
    }
    Ok(())
}

pub(super) fn orphaned(stage: &mut Stage) -> Result<()> {
    stage.delete("rgd", "shop")?;
    stage.until_gone("rgd", "shop")?;
    stage.delete("shop", "b")?;
    stage.until_gone("shop", "b")?;
    stage.kill_runner()?;
    stage.start_runner()?;
    stage.delete("shop", "c")?;
    stage.until_gone("shop", "c")?;
    for name in ["b", "c"] {
        ensure_gone(stage, name)?;
    }
    Ok(())
}
