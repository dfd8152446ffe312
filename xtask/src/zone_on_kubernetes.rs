//! A real cluster (etcd and kube-apiserver, without controllers) as a zone of a real hub: what
//! crosses, what is refused there, and what a killed agent and a restarted API server change.
//!
//! The agent has the rights of `deltaplane zone manifest` and no others.

mod refusals;
mod rollout;
mod stage;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::hub;
use crate::kubectl::await_that;
use stage::{Stage, ZONE, widget};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use this binary instead of building one.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// May delete what came from elsewhere: it comes back when the agent starts.
const COLLECTOR: &str = "system:serviceaccount:kube-system:namespace-controller";
const POLICIES: &str = "admissionregistration.k8s.io";

/// What is seen, and how.
type Step = (&'static str, fn(&mut Stage) -> Result<()>);

/// In this order: each begins with what those before it left.
const STEPS: [Step; 17] = [
    ("the manifest gives the least rights", rights),
    ("the hub has something for its zone", author),
    (
        "the agent waits for a cluster that is away",
        wait_for_cluster,
    ),
    (
        "what the hub has reaches the cluster, without status",
        arrives,
    ),
    ("a status stays through a change of the spec", status_stays),
    ("what is authored in the cluster reaches the hub", goes_up),
    ("what came is read-only, and says why", refusals::mirrored),
    (
        "computed fields are written by those who may",
        refusals::computed,
    ),
    (
        "the agent leaves alone what is the cluster's",
        refusals::authored_here,
    ),
    (
        "nothing is lost, repeated or resurrected by kill -9",
        killed,
    ),
    (
        "the agent survives a restart of the API server, and deletes what the hub deletes",
        restarted,
    ),
    ("a name is free when its last object is gone", going),
    ("rights that are missing concern nothing else", lacking),
    (
        "a change does not reach the cluster before its stage",
        rollout::waits,
    ),
    ("it does when the stage before is done", rollout::follows),
    (
        "an object that is the cluster's own is refused there, and there alone",
        rollout::foreign,
    ),
    ("an older release comes back", rollout::back),
];

/// `cargo xtask zone-on-kubernetes`
pub(crate) fn run(args: &Args) -> Result<()> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => hub::binary()?,
    };
    let mut stage = Stage::start(&binary)?;
    for (name, step) in STEPS {
        let started = Instant::now();
        if let Err(error) = step(&mut stage) {
            eprintln!("the agent said\n{}", stage.agent.log());
            return Err(error.context(name));
        }
        println!("ok  {name} ({:.1} s)", started.elapsed().as_secs_f64());
    }
    println!("{} steps passed", STEPS.len());
    Ok(())
}

fn rights(stage: &mut Stage) -> Result<()> {
    let manifest = stage.deltaplane(&["zone", "manifest", "--kinds", "widgets.example.com"])?;
    let cluster = stage.cluster();
    cluster.reading(&["apply", "-f", "-"], &manifest)?;
    let words = [
        "create",
        "token",
        "deltaplane-zone",
        "-n",
        "deltaplane-system",
        "--duration=24h",
    ];
    stage.accredit(cluster.ok(&words)?.trim())?;
    // A role is in force a moment after it was made.
    await_that("the agent's rights", || {
        Ok(may(stage, "patch", "example.com", "widgets")?.then_some(()))
    })?;
    for (expected, verb, group, resource) in [
        (
            true,
            "create",
            "apiextensions.k8s.io",
            "customresourcedefinitions",
        ),
        (
            false,
            "delete",
            "apiextensions.k8s.io",
            "customresourcedefinitions",
        ),
        (false, "delete", "", "namespaces"),
        (false, "get", "", "secrets"),
        (false, "get", "", "configmaps"),
        (false, "impersonate", "", "users"),
        (false, "create", POLICIES, "validatingadmissionpolicies"),
    ] {
        let found = may(stage, verb, group, resource)?;
        ensure!(found == expected, "{verb} {resource}: {found}");
    }
    Ok(())
}

/// Whether the agent may do this to any object.
fn may(stage: &Stage, verb: &str, group: &str, resource: &str) -> Result<bool> {
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource}},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let words = ["create", "--raw", path, "-f", "-"];
    let answer = stage.as_agent().reading(&words, &question.to_string())?;
    let answer: Value = serde_json::from_str(&answer).context("reading a review")?;
    Ok(answer["status"]["allowed"] == true)
}

fn author(stage: &mut Stage) -> Result<()> {
    let hub = stage.hub();
    let fleet = "fleet.deltaplane.io/v1alpha1";
    hub.make_zone(ZONE)?;
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer"}, "state": {"type": "string"},
        }},
        "data": {"type": "object"},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    }});
    hub.apply(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "widgets.example.com",
            "annotations": {"deltaplane.io/computed-fields": "spec.state"},
        },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    }))?;
    hub.ok(&[
        "wait",
        "--for=condition=Established",
        "crd/widgets.example.com",
        "--timeout=60s",
    ])?;
    hub.apply(&json!({
        "apiVersion": fleet, "kind": "SyncedKind", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "kind": "Widget", "direction": "Both"},
    }))?;
    hub.ok(&["create", "namespace", "team"])?;
    for name in ["a", "b", "kept", "swept"] {
        hub.apply(&widget(name, &json!({"size": 1})))?;
    }
    Ok(())
}

fn wait_for_cluster(stage: &mut Stage) -> Result<()> {
    stage.cluster.stop_apiserver()?;
    let join = stage.hub().join(ZONE)?;
    stage.start_agent(Some(&join))?;
    await_that("the agent's complaint", || {
        let log = stage.agent.log();
        Ok(log
            .contains("the cluster cannot be asked yet")
            .then_some(()))
    })?;
    stage.agent.process()?;
    stage.cluster.start_apiserver()
}

fn arrives(stage: &mut Stage) -> Result<()> {
    let cluster = stage.cluster();
    for name in ["a", "b", "kept"] {
        let came = cluster.await_widget(name, |_| true)?;
        let labels = &came["metadata"]["labels"];
        ensure!(
            *labels == json!({"app": "web", "deltaplane.io/origin": "hub"}),
            "{labels}"
        );
        ensure!(
            came.get("status").is_none() && came["spec"] == json!({"size": 1}),
            "{came}"
        );
    }
    let open = await_that("the hub's word that all came", || {
        let sync = stage.sync()?;
        let kinds = sync["kinds"].as_array().cloned().unwrap_or_default();
        let kinds = kinds.into_iter().filter(|kind| kind["kind"] == "Widget");
        let done: Vec<Value> = kinds.filter(|kind| kind["open"] == 0).collect();
        Ok(done.into_iter().next())
    })?;
    ensure!(open["wanted"] == 4 && open["acknowledged"] == 4, "{open}");
    Ok(())
}

fn status_stays(stage: &mut Stage) -> Result<()> {
    let (hub, cluster) = (stage.hub(), stage.cluster());
    let status = r#"{"status":{"ready":true}}"#;
    let words = [
        "patch",
        "widget",
        "a",
        "-n",
        "team",
        "--subresource=status",
        "--type=merge",
        "-p",
        status,
    ];
    cluster.ok(&words)?;
    hub.apply(&widget("a", &json!({"size": 2})))?;
    let came = cluster.await_widget("a", |came| came["spec"]["size"] == 2)?;
    ensure!(came["status"] == json!({"ready": true}), "{came}");
    let at_hub = hub.widget("a")?.context("it is gone")?;
    ensure!(at_hub.get("status").is_none(), "status crossed: {at_hub}");
    Ok(())
}

fn goes_up(stage: &mut Stage) -> Result<()> {
    let (hub, cluster) = (stage.hub(), stage.cluster());
    for name in ["local", "local-too"] {
        cluster.apply(&widget(name, &json!({"size": 7})))?;
        let came = hub.await_widget(&format!("{ZONE}.{name}"), |_| true)?;
        let labels = &came["metadata"]["labels"];
        ensure!(
            labels["deltaplane.io/zone"] == ZONE && came["spec"]["size"] == 7,
            "{came}"
        );
    }
    Ok(())
}

fn killed(stage: &mut Stage) -> Result<()> {
    let (hub, cluster) = (stage.hub(), stage.cluster());
    let before = cluster.widget("kept")?;
    let own = hub.widget(&format!("{ZONE}.local-too"))?;
    let collector = stage.cluster().acting_as(COLLECTOR);
    collector.ok(&["delete", "widget", "swept", "-n", "team"])?;
    stage.agent.kill()?;
    hub.apply(&widget("a", &json!({"size": 3})))?;
    hub.ok(&["delete", "widget", "b", "-n", "team"])?;
    hub.apply(&widget("c", &json!({"size": 1})))?;
    cluster.ok(&["delete", "widget", "local", "-n", "team"])?;
    cluster.apply(&widget("later", &json!({"size": 8})))?;
    stage.start_agent(None)?;
    let came = cluster.await_widget("a", |came| came["spec"]["size"] == 3)?;
    ensure!(came["status"] == json!({"ready": true}), "{came}");
    cluster.await_gone("b")?;
    cluster.await_widget("c", |_| true)?;
    cluster.await_widget("swept", |_| true)?;
    hub.await_gone(&format!("{ZONE}.local"))?;
    hub.await_widget(&format!("{ZONE}.later"), |_| true)?;
    // Not even their resource versions moved: nothing was written again.
    ensure!(
        cluster.widget("kept")? == before,
        "it was written again: {before:?}"
    );
    ensure!(
        hub.widget(&format!("{ZONE}.local-too"))? == own,
        "it was written again: {own:?}"
    );
    ensure!(
        cluster.widget("b")?.is_none() && hub.widget("b")?.is_none(),
        "it came back"
    );
    Ok(())
}

fn restarted(stage: &mut Stage) -> Result<()> {
    let process = stage.agent.process()?;
    stage.cluster.stop_apiserver()?;
    let hub = stage.hub();
    hub.apply(&widget("a", &json!({"size": 4})))?;
    hub.ok(&["delete", "widget", "c", "-n", "team"])?;
    stage.cluster.start_apiserver()?;
    let cluster = stage.cluster();
    cluster.await_widget("a", |came| came["spec"]["size"] == 4)?;
    cluster.await_gone("c")?;
    cluster.apply(&widget("after", &json!({"size": 9})))?;
    hub.await_widget(&format!("{ZONE}.after"), |_| true)?;
    ensure!(stage.agent.process()? == process, "the agent was replaced");
    Ok(())
}

/// Finalizers of the cluster's controllers keep an object whose name the hub has used again.
fn going(stage: &mut Stage) -> Result<()> {
    let (hub, cluster) = (stage.hub(), stage.cluster());
    let finalizers = |list: &str| {
        let change = format!(r#"{{"metadata":{{"finalizers":{list}}}}}"#);
        cluster.ok(&[
            "patch",
            "widget",
            "a",
            "-n",
            "team",
            "--type=merge",
            "-p",
            &change,
        ])
    };
    finalizers(r#"["example.com/slow"]"#)?;
    hub.ok(&["delete", "widget", "a", "-n", "team"])?;
    cluster.await_widget("a", |a| !a["metadata"]["deletionTimestamp"].is_null())?;
    hub.apply(&widget("a", &json!({"size": 10})))?;
    let rejected = await_that("a rejection", || stage.rejected("team/a"))?;
    println!("    the hub says: {rejected}");
    finalizers("[]")?;
    cluster.await_widget("a", |a| {
        a["metadata"]["deletionTimestamp"].is_null() && a["spec"]["size"] == 10
    })?;
    Ok(())
}

/// A kind that the agent may not read, and policies that it may not write.
fn lacking(stage: &mut Stage) -> Result<()> {
    let (hub, cluster) = (stage.hub(), stage.cluster());
    hub.apply(&json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "configmaps"},
        "spec": {"group": "", "kind": "ConfigMap", "direction": "HubToZone"},
    }))?;
    let without = r#"[{"op":"remove","path":"/rules/0"}]"#;
    cluster.ok(&[
        "patch",
        "clusterrole",
        "deltaplane-zone",
        "--type=json",
        "-p",
        without,
    ])?;
    stage.agent.kill()?;
    stage.start_agent(None)?;
    hub.apply(&widget("a", &json!({"size": 5})))?;
    cluster.await_widget("a", |came| came["spec"]["size"] == 5)?;
    for said in [
        "failed to install admission policies",
        "cannot list resource",
    ] {
        await_that(said, || Ok(stage.agent.log().contains(said).then_some(())))?;
    }
    for line in stage
        .agent
        .log()
        .lines()
        .filter(|line| line.contains("WARN"))
    {
        println!("    {line}");
    }
    Ok(())
}
