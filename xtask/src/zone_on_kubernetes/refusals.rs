//! What the cluster refuses, as kubectl shows it.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::stage::{Stage, widget};
use crate::kubectl::{Kubectl, await_that};

const MIRRORED: &str =
    "denied request: the object is managed by the hub and read-only here; edit it at the hub, as a";
const FORGED: &str =
    " says where an object is from and is written by sync alone; leave it as it is";

/// Tries it, and prints how it is refused.
fn refused(kubectl: &Kubectl, line: &str, stdin: &str, reason: &str) -> Result<()> {
    let words: Vec<&str> = line.split(' ').collect();
    let answer = kubectl.answer(&words, stdin)?;
    ensure!(
        !answer.good,
        "kubectl {line}: it was not refused: {}",
        answer.out
    );
    ensure!(
        answer.err.contains(reason),
        "kubectl {line}: {}",
        answer.err
    );
    println!("    $ kubectl {line}");
    for line in answer.err.lines() {
        println!("    {line}");
    }
    Ok(())
}

fn allowed(kubectl: &Kubectl, line: &str) -> Result<()> {
    let words: Vec<&str> = line.split(' ').collect();
    kubectl.ok(&words)?;
    Ok(())
}

/// A policy is in force a moment after it was made.
fn await_force(kubectl: &Kubectl, line: &str) -> Result<()> {
    let words: Vec<&str> = line.split(' ').chain(["--dry-run=server"]).collect();
    await_that("the policies to be in force", || {
        Ok((!kubectl.answer(&words, "")?.good).then_some(()))
    })
}

pub(super) fn mirrored(stage: &mut Stage) -> Result<()> {
    let admin = stage.cluster();
    await_force(
        &admin,
        r#"patch widget a -n team --type=merge -p {"spec":{"size":9}}"#,
    )?;
    await_force(&admin, "label widget local -n team deltaplane.io/zone=eu-2")?;
    for (line, reason) in [
        (
            r#"patch widget a -n team --type=merge -p {"spec":{"size":9}}"#,
            MIRRORED,
        ),
        (
            r#"patch widget a -n team --type=merge -p {"data":{}}"#,
            MIRRORED,
        ),
        ("label widget a -n team app=other --overwrite", MIRRORED),
        ("label widget a -n team app-", MIRRORED),
        (
            r#"patch widget a -n team --type=merge -p {"metadata":{"managedFields":[{}]}}"#,
            MIRRORED,
        ),
        ("delete widget a -n team", MIRRORED),
        ("delete widget a -n team --force", MIRRORED),
        ("label widget a -n team deltaplane.io/origin-", MIRRORED),
        (
            "annotate widget a -n team deltaplane.io/version=1 --overwrite",
            MIRRORED,
        ),
        (
            "label widget local -n team deltaplane.io/origin=hub",
            FORGED,
        ),
        ("label widget local -n team deltaplane.io/zone=eu-2", FORGED),
    ] {
        refused(&admin, line, "", reason)?;
    }
    let mut forged = widget("forged", &json!({}));
    forged["metadata"]["labels"]["deltaplane.io/origin"] = "hub".into();
    refused(&admin, "create -f -", &forged.to_string(), FORGED)?;
    refused(
        &admin,
        "delete namespace team",
        "",
        "the object is managed by the hub",
    )?;
    // Notes of the cluster's own, and what its controllers must be able to do.
    allowed(&admin, "label widget a -n team mine=x")?;
    allowed(&admin, "label widget a -n team mine-")?;
    allowed(&admin, "annotate widget a -n team mine=x")?;
    let status = r#"{"status":{"ready":true}}"#;
    allowed(
        &admin,
        &format!("patch widget a -n team --subresource=status --type=merge -p {status}"),
    )?;
    allowed(
        &admin,
        r#"patch widget a -n team --type=merge -p {"metadata":{"finalizers":["a.b/c"]}}"#,
    )?;
    allowed(
        &admin,
        r#"patch widget a -n team --type=merge -p {"metadata":{"finalizers":[]}}"#,
    )?;
    for collector in ["namespace-controller", "generic-garbage-collector"] {
        let user = format!("system:serviceaccount:kube-system:{collector}");
        let collector = stage.cluster().acting_as(&user);
        allowed(&collector, "delete widget a -n team --dry-run=server")?;
    }
    allowed(&admin, "label widget local -n team mine=x")
}

pub(super) fn computed(stage: &mut Stage) -> Result<()> {
    let (admin, eve) = (stage.cluster(), stage.cluster().acting_as("eve"));
    let role = "create clusterrole widgets --verb=get,list,create,patch,update --resource=widgets.example.com";
    allowed(&admin, role)?;
    allowed(
        &admin,
        "create clusterrolebinding eve --clusterrole=widgets --user=eve",
    )?;
    let change = r#"patch widget local -n team --type=merge -p {"spec":{"state":"Up"}}"#;
    await_force(&eve, change)?;
    let reason = "spec.state is computed by controllers, which may update widgets/computed of example.com; leave it as it is";
    refused(&eve, change, "", reason)?;
    allowed(
        &eve,
        r#"patch widget local -n team --type=merge -p {"spec":{"size":8}}"#,
    )?;
    let new = widget("computed", &json!({"state": "Up"})).to_string();
    refused(&eve, "create -f -", &new, reason)?;
    allowed(
        &admin,
        "create clusterrole computers --verb=update --resource=widgets.example.com/computed",
    )?;
    allowed(
        &admin,
        "create clusterrolebinding computers --clusterrole=computers --user=eve",
    )?;
    await_that("the right to compute", || {
        let words: Vec<&str> = change.split(' ').collect();
        Ok(eve.answer(&words, "")?.good.then_some(()))
    })?;
    let came = stage
        .hub()
        .await_widget("eu-1.local", |came| came["spec"]["state"] == "Up")?;
    ensure!(came["spec"]["size"] == 8, "{came}");
    // The policy goes with the annotation, which crosses, and comes with it.
    let policy = [
        "get",
        "validatingadmissionpolicy",
        "computed-fields.deltaplane.io",
        "-o",
        "name",
        "--ignore-not-found",
    ];
    let fields = "deltaplane.io/computed-fields";
    allowed(
        &stage.hub(),
        &format!("annotate crd widgets.example.com {fields}-"),
    )?;
    await_that("the end of the policy", || {
        Ok(admin.ok(&policy)?.is_empty().then_some(()))
    })?;
    allowed(
        &stage.hub(),
        &format!("annotate crd widgets.example.com {fields}=spec.state"),
    )?;
    await_that("the policy", || {
        Ok((!admin.ok(&policy)?.is_empty()).then_some(()))
    })
}

pub(super) fn authored_here(stage: &mut Stage) -> Result<()> {
    let (hub, cluster) = (stage.hub(), stage.cluster());
    cluster.apply(&widget("taken", &json!({"size": 5})))?;
    let before = cluster.widget("taken")?.context("it is gone")?;
    hub.apply(&widget("taken", &json!({"size": 6})))?;
    let rejected = await_that("a rejection", || stage.rejected("team/taken"))?;
    println!("    the hub says: {rejected}");
    let reason = "an object of this name was authored here, and sync does not overwrite it; rename one of them";
    ensure!(rejected["reason"] == reason, "{rejected}");
    ensure!(cluster.widget("taken")? == Some(before), "it was changed");
    // Not even if the agent did not look before.
    let mut applied = widget("taken", &json!({"size": 6}));
    applied["metadata"]["labels"]["deltaplane.io/origin"] = "hub".into();
    let line = "apply --server-side --force-conflicts --field-manager=deltaplane-sync -f -";
    refused(&stage.as_agent(), line, &applied.to_string(), reason)?;
    hub.ok(&["delete", "widget", "taken", "-n", "team"])?;
    Ok(())
}
