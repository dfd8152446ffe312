//! A real cluster (etcd and kube-apiserver, without controllers) whose graphs are run by
//! `deltaplane zone --standalone`: what becomes of definitions and instances there, and what a
//! killed runner, a restarted API server and missing rights change.
//!
//! The runner has the rights that its graphs need and no others. Nothing runs Deployments: that
//! they are available is said by the steps.

mod graphs;
mod rollout;
mod stage;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::audit::Requests;
use crate::hub;
use crate::kubectl::await_that;
use graphs::{instance, pair, shop, vault};
use stage::{NAMESPACE, Stage, condition};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use this binary instead of building one.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// What is seen, and how.
type Step = (&'static str, fn(&mut Stage) -> Result<()>);

/// In this order: each begins with what those before it left.
const STEPS: [Step; 15] = [
    (
        "the runner has an account with the rights that its graphs need",
        rights,
    ),
    ("the runner waits for a cluster that is away", wait),
    ("a definition becomes a kind", defined),
    ("an instance becomes its objects, in order", made),
    ("while nothing changes nothing is asked", quiet),
    ("what is changed or deleted comes back", mended),
    (
        "instances move one by one, and stop where one fails",
        rollout::moves,
    ),
    (
        "an invalid edit leaves the last good revision in force",
        rollout::invalid,
    ),
    ("kill -9 in the midst loses and repeats nothing", killed),
    ("kill -9 lets nobody past a gate", rollout::killed),
    ("the runner survives a restart of the API server", restarted),
    ("an instance goes in reverse order", ended),
    (
        "a kind that may not be followed stops its graph alone",
        unfollowed,
    ),
    ("an object that may not be made says so", unmade),
    (
        "instances can be deleted when their definition is gone",
        orphaned,
    ),
];

/// `cargo xtask graphs-on-kubernetes`
pub(crate) fn run(args: &Args) -> Result<()> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => hub::binary()?,
    };
    let mut stage = Stage::start(&binary)?;
    for (at, (name, step)) in STEPS.into_iter().enumerate() {
        let started = Instant::now();
        if let Err(error) = step(&mut stage) {
            eprintln!("the runner said\n{}", stage.log());
            return Err(error.context(name));
        }
        let seconds = started.elapsed().as_secs_f64();
        println!("ok {:2}  {name} ({seconds:.1} s)", at + 1);
    }
    println!("{} steps passed", STEPS.len());
    Ok(())
}

fn rights(stage: &mut Stage) -> Result<()> {
    stage.accredit()
}

fn wait(stage: &mut Stage) -> Result<()> {
    stage.cluster.stop_apiserver()?;
    stage.start_runner()?;
    await_that("the runner's complaint", || {
        let log = stage.log();
        Ok(log.contains("cannot install").then_some(()))
    })?;
    stage.runner()?;
    stage.cluster.start_apiserver()?;
    for name in [
        "resourcegraphdefinitions.kro.run",
        "graphrevisions.internal.kro.run",
    ] {
        stage.until("crd", name, |crd| {
            condition(crd, "Established")["status"] == "True"
        })?;
    }
    Ok(())
}

fn defined(stage: &mut Stage) -> Result<()> {
    let admin = stage.admin();
    admin.apply(&shop(""))?;
    let told = stage.until_definition("shop", "Ready", "True")?;
    ensure!(told["status"]["state"] == "Active", "{told}");
    ensure!(
        told["status"]["topologicalOrder"] == json!(["settings", "app", "door"]),
        "{told}"
    );
    let labels = &stage.get("crd", "shops.kro.run")?["metadata"]["labels"];
    ensure!(
        labels["kro.run/owned"] == "true"
            && labels["kro.run/resource-graph-definition-name"] == "shop",
        "{labels}"
    );
    let revision = stage.get("graphrevision", "shop-r00001")?;
    ensure!(revision["spec"]["revision"] == 1, "{revision}");
    for line in admin.ok(&["get", "rgd,graphrevisions"])?.lines() {
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

fn made(stage: &mut Stage) -> Result<()> {
    let admin = stage.admin();
    admin.apply(&instance("Shop", "a", &json!({})))?;
    let waiting = stage.until_state("shop", "a", "IN_PROGRESS")?;
    let message = &condition(&waiting, "ResourcesReady")["message"];
    ensure!(
        message
            .as_str()
            .is_some_and(|text| text.contains("door: waits for app")),
        "{message}"
    );
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
    let uid = &active["metadata"]["uid"];
    let set = &active["metadata"]["labels"]["applyset.kubernetes.io/id"];
    for (kind, name, node, order) in [
        ("configmap", "a-settings", "settings", "1"),
        ("deployment", "a", "app", "2"),
        ("service", "a", "door", "3"),
    ] {
        let object = stage.get(kind, name)?;
        let mut labels = object["metadata"]["labels"].clone();
        let map = labels.as_object_mut().context("no labels")?;
        ensure!(map.remove("kro.run/instance-id").as_ref() == Some(uid));
        ensure!(map.remove("applyset.kubernetes.io/part-of").as_ref() == Some(set));
        ensure!(map.remove("kro.run/kro-version").is_some());
        ensure!(labels == marks("a", node), "{labels}");
        let annotations = &object["metadata"]["annotations"];
        ensure!(
            annotations["internal.kro.run/apply-order"] == order,
            "{annotations}"
        );
    }
    let metadata = &active["metadata"];
    ensure!(
        metadata["finalizers"] == json!(["kro.run/finalizer"]),
        "{metadata}"
    );
    Ok(())
}

fn quiet(stage: &mut Stage) -> Result<()> {
    stage.audit.news()?;
    let admin = stage.admin();
    // The same again, and a word that means nothing to graphs.
    admin.apply(&shop(""))?;
    admin.apply(&instance("Shop", "a", &json!({})))?;
    let note = json!({"metadata": {"annotations": {"note": "mine"}}});
    stage.merge("rgd", "shop", &note)?;
    stage.merge("shop", "a", &note)?;
    stage.merge("configmap", "a-settings", &note)?;
    // Whatever came of that came before this.
    admin.apply(&instance("Shop", "b", &json!({})))?;
    stage.until_state("shop", "b", "IN_PROGRESS")?;
    stage.make_available("b")?;
    stage.until_state("shop", "b", "ACTIVE")?;
    let one = |what: &str, times: usize| (what.to_owned(), times);
    let expected = Requests::from([
        one("patch configmaps", 1),
        one("patch deployments", 1),
        one("patch services", 1),
        one("patch shops", 1),
        one("patch shops/status", 2),
    ]);
    let found = stage.audit.news()?;
    ensure!(found == expected, "{found:?}");
    Ok(())
}

fn mended(stage: &mut Stage) -> Result<()> {
    let forged = json!({"data": {"greeting": "forged", "own": "kept"}});
    stage.merge("configmap", "a-settings", &forged)?;
    let mended = stage.until("configmap", "a-settings", |object| {
        object["data"]["greeting"] == "hi"
    })?;
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

fn killed(stage: &mut Stage) -> Result<()> {
    let admin = stage.admin();
    admin.apply(&pair())?;
    stage.until_definition("pair", "Ready", "True")?;
    let name = |at: usize| format!("p{at:02}");
    let all: Vec<Value> = (0..MANY)
        .map(|at| instance("Pair", &name(at), &json!({"text": format!("{at}")})))
        .collect();
    let all = json!({"apiVersion": "v1", "kind": "List", "items": all});
    stage.kill_runner()?;
    admin.apply(&all)?;
    stage.start_runner()?;
    let maps = |stage: &Stage| -> Result<Vec<Value>> {
        let words = ["get", "configmaps", "-n", NAMESPACE, "-o", "json"];
        let words = [&words[..], &["-l", "kro.run/instance-kind=Pair"]].concat();
        let list: Value = serde_json::from_str(&stage.admin().ok(&words)?)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    };
    let before = await_that("the first objects", || {
        let some = maps(stage)?;
        Ok((!some.is_empty()).then_some(some))
    })?;
    stage.kill_runner()?;
    let before = before.len().max(maps(stage)?.len());
    let left = maps(stage)?;
    stage.start_runner()?;
    for at in 0..MANY {
        stage.until_state("pair", &name(at), "ACTIVE")?;
    }
    let after = maps(stage)?;
    ensure!(after.len() == 2 * MANY, "{} objects", after.len());
    for object in &after {
        let instance = object["metadata"]["labels"]["kro.run/instance-name"].as_str();
        let text = instance.map(|name| name.trim_start_matches(['p', '0']));
        let text = text.map(|text| if text.is_empty() { "0" } else { text });
        ensure!(object["data"]["text"].as_str() == text, "{object}");
    }
    // What was made before is not written again.
    for object in left {
        ensure!(after.contains(&object), "it was written again: {object}");
    }
    println!(
        "    {before} of {} objects were made when it was killed",
        2 * MANY
    );
    Ok(())
}

fn restarted(stage: &mut Stage) -> Result<()> {
    let process = stage.runner()?;
    stage.cluster.stop_apiserver()?;
    stage.cluster.start_apiserver()?;
    stage.merge("pair", "p00", &json!({"spec": {"text": "after"}}))?;
    stage.until("configmap", "p00-right", |object| {
        object["data"]["text"] == "after"
    })?;
    ensure!(stage.runner()? == process, "the runner was replaced");
    Ok(())
}

fn ended(stage: &mut Stage) -> Result<()> {
    let held = json!({"metadata": {"finalizers": ["example.com/slow"]}});
    stage.merge("service", "a", &held)?;
    stage.delete("shop", "a")?;
    let going = stage.until_state("shop", "a", "DELETING")?;
    let message = &condition(&going, "ResourcesReady")["message"];
    ensure!(
        message
            .as_str()
            .is_some_and(|text| text.contains("Service team/a")),
        "{message}"
    );
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
    for (kind, name) in [("deployment", "a"), ("configmap", "a-settings")] {
        ensure!(stage.find(kind, name)?.is_none(), "{kind} {name} is left");
    }
    Ok(())
}

fn unfollowed(stage: &mut Stage) -> Result<()> {
    let admin = stage.admin();
    admin.apply(&vault())?;
    let told = stage.until_definition("vault", "ControllerReady", "False")?;
    let message = &condition(&told, "Ready")["message"];
    ensure!(
        message
            .as_str()
            .is_some_and(|text| text.contains("cannot follow /api/v1/secrets")),
        "{message}"
    );
    println!("    the definition says: {message}");
    admin.apply(&instance("Vault", "v", &json!({"word": "open"})))?;
    // Others go on.
    admin.apply(&instance("Pair", "other", &json!({})))?;
    stage.until_state("pair", "other", "ACTIVE")?;
    // Nothing was done for this one, and it says why.
    let unseen = stage.until_state("vault", "v", "ERROR")?;
    let why = condition(&unseen, "ResourcesReady");
    ensure!(why["reason"] == "CannotObserve", "{why}");
    ensure!(unseen["metadata"]["finalizers"].is_null(), "it was run");
    Ok(())
}

fn unmade(stage: &mut Stage) -> Result<()> {
    let rule =
        |verbs: &[&str]| json!({"apiGroups": [""], "resources": ["secrets"], "verbs": verbs});
    stage.allow(&[rule(&["get", "list", "watch"])])?;
    stage.until_definition("vault", "Ready", "True")?;
    let refused = stage.until_state("vault", "v", "ERROR")?;
    let message = &condition(&refused, "ResourcesReady")["message"];
    ensure!(
        message
            .as_str()
            .is_some_and(|text| text.contains("Secret team/v was refused")),
        "{message}"
    );
    println!("    the instance says: {message}");
    stage.allow(&[rule(&["get", "list", "watch", "create", "patch", "delete"])])?;
    stage.until_state("vault", "v", "ACTIVE")?;
    // The API keeps `stringData` as something else; that is no reason to write it again.
    stage.kill_runner()?;
    stage.audit.news()?;
    stage.start_runner()?;
    let admin = stage.admin();
    admin.apply(&instance("Vault", "w", &json!({"word": "sesame"})))?;
    stage.until_state("vault", "w", "ACTIVE")?;
    let written = stage.audit.news()?.get("patch secrets").copied();
    ensure!(written == Some(1), "written {written:?} times");
    Ok(())
}

fn orphaned(stage: &mut Stage) -> Result<()> {
    stage.delete("rgd", "shop")?;
    stage.until_gone("rgd", "shop")?;
    stage.delete("shop", "b")?;
    stage.until_gone("shop", "b")?;
    stage.kill_runner()?;
    stage.start_runner()?;
    stage.delete("shop", "c")?;
    stage.until_gone("shop", "c")?;
    for name in ["b", "c"] {
        for (kind, name) in [("service", name), ("deployment", name)] {
            ensure!(stage.find(kind, name)?.is_none(), "{kind} {name} is left");
        }
    }
    Ok(())
}
