//! What the account of a runner may do in a real cluster, and what it says when it may not.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::definitions::{KINDS, instance, vault};
use super::stage::{NAMESPACE, On, Stage, condition, ensure_says};
use crate::kubectl::await_that;
use crate::{manifests, process};

/// Where the account is.
const SYSTEM: &str = "deltaplane-system";
const ACCOUNT: &str = "graphs";
const ROLES: &str = "rbac.authorization.k8s.io";

/// Makes the account.
pub(super) fn granted(stage: &mut Stage) -> Result<()> {
    let admin = stage.here.kubectl();
    for name in [SYSTEM, NAMESPACE] {
        admin.ok(&["create", "namespace", name])?;
    }
    admin.ok(&["create", "serviceaccount", ACCOUNT, "-n", SYSTEM])?;
    allow(stage, &[])?;
    bind(stage, ACCOUNT)?;
    let words = ["create", "token", ACCOUNT, "-n", SYSTEM, "--duration=24h"];
    stage.accredit(admin.ok(&words)?.trim())
}

/// Gives the account the rights of a role.
fn bind(stage: &Stage, role: &str) -> Result<()> {
    stage.apply(&json!({
        "apiVersion": format!("{ROLES}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{ACCOUNT}-{role}")},
        "roleRef": {"apiGroup": ROLES, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM}],
    }))
}

/// Lets the runner's account and the accounts of graphs do anything: definitions of others make
/// roles among other things.
pub(super) fn allow_all(stage: &Stage) -> Result<()> {
    if stage.on == On::Kubernetes {
        bind(stage, "cluster-admin")?;
    }
    stage.apply(&json!({
        "apiVersion": format!("{ROLES}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": "graphs-of-others"},
        "roleRef": {"apiGroup": ROLES, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": ROLES, "kind": "Group", "name": "system:serviceaccounts"}],
    }))
}

/// Extends what graphs may do by a kind.
pub(super) fn extend(stage: &Stage, group: &str, plural: &str) -> Result<()> {
    let name = format!("graphs-{plural}");
    stage.apply(&json!({
        "apiVersion": format!("{ROLES}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"deltaplane.io/aggregate-to-graphs": "true"}},
        "rules": [{
            "apiGroups": [group], "resources": [plural],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        }],
    }))?;
    if stage.on != On::Kubernetes {
        return Ok(());
    }
    // Nobody aggregates roles in a cluster without controllers.
    stage.apply(&json!({
        "apiVersion": format!("{ROLES}/v1"), "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "roleRef": {"apiGroup": ROLES, "kind": "ClusterRole", "name": name},
        "subjects": [{
            "kind": "ServiceAccount", "name": "deltaplane-graphs", "namespace": NAMESPACE,
        }],
    }))
}

/// What the objects of graphs are here, but for Secrets.
const OBJECTS: &str = "configmaps,services,deployments.apps,gadgets.example.com";

/// What our own command prints for the graphs here: the rights of the agent, and the roles of graphs.
fn printed(stage: &Stage) -> Result<Printed> {
    let kinds = KINDS.map(|(_, plural)| format!("{plural}.kro.run"));
    let line = format!(
        "zone manifest --graphs {} --graph-objects {OBJECTS}",
        kinds.join(",")
    );
    let text = process::text(Command::new(&stage.here.binary).args(line.split(' ')))?;
    let documents = manifests::documents(&text).into_iter();
    let documents = documents.map(|document| manifests::parse(&document));
    let documents = documents.collect::<Result<Vec<_>>>()?;
    let of_agent = |document: &&Value| document["metadata"]["name"] == "deltaplane-zone";
    let mut agents = documents.iter().filter(of_agent);
    let role = agents.find(|document| document["kind"] == "ClusterRole");
    let role = role.context("no role is printed")?;
    let rules = role["rules"].as_array().cloned().unwrap_or_default();
    let secrets = |rule: &Value| rule["resources"] == json!(["secrets"]);
    ensure!(rules.iter().any(secrets), "{rules:?}");
    let is_other = |document: &&Value| {
        let kind = document["kind"].as_str();
        !of_agent(document) && kind.is_some_and(|kind| kind != "Namespace")
    };
    Ok(Printed {
        roles: documents.iter().filter(is_other).cloned().collect(),
        rules: rules.into_iter().filter(|rule| !secrets(rule)).collect(),
    })
}

/// What is to be in a cluster.
struct Printed {
    /// Of the agent. Secrets are not among them, though gates need them: until they are asked for,
    /// steps see what happens without.
    rules: Vec<Value>,
    /// The objects that graphs act with.
    roles: Vec<Value>,
}

/// Lets the account do what our own command says that it must, and this.
fn allow(stage: &Stage, further: &[Value]) -> Result<()> {
    let Printed { mut rules, roles } = printed(stage)?;
    for role in &roles {
        stage.apply(role)?;
    }
    rules.extend_from_slice(further);
    stage.apply(&json!({
        "apiVersion": format!("{ROLES}/v1"), "kind": "ClusterRole",
        "metadata": {"name": ACCOUNT}, "rules": rules,
    }))
}

pub(super) fn waits(stage: &mut Stage) -> Result<()> {
    stage.cluster()?.stop_apiserver()?;
    stage.start_runner()?;
    await_that("the runner's complaint", || {
        let log = stage.log();
        Ok(log.contains("cannot install").then_some(()))
    })?;
    stage.runner()?;
    stage.cluster()?.start_apiserver()?;
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

pub(super) fn restarted(stage: &mut Stage) -> Result<()> {
    let process = stage.runner()?;
    stage.cluster()?.stop_apiserver()?;
    stage.cluster()?.start_apiserver()?;
    stage.merge("pair", "p00", &json!({"spec": {"text": "after"}}))?;
    stage.until_data("p00-right", "text", "after")?;
    ensure!(stage.runner()? == process, "the runner was replaced");
    Ok(())
}

pub(super) fn unfollowed(stage: &mut Stage) -> Result<()> {
    stage.apply(&vault())?;
    let told = stage.until_definition("vault", "ControllerReady", "False")?;
    let message = &condition(&told, "Ready")["message"];
    ensure_says(message, "cannot follow /api/v1/secrets")?;
    println!("    the definition says: {message}");
    stage.apply(&instance("Vault", "v", &json!({"word": "open"})))?;
    // Others go on.
    stage.apply(&instance("Pair", "other", &json!({})))?;
    stage.until_state("pair", "other", "ACTIVE")?;
    // Nothing was done for this one, and it says why.
    let unseen = stage.until_state("vault", "v", "ERROR")?;
    let why = condition(&unseen, "ResourcesReady");
    ensure!(why["reason"] == "CannotObserve", "{why}");
    ensure!(unseen["metadata"]["finalizers"].is_null(), "it was run");
    Ok(())
}

pub(super) fn unmade(stage: &mut Stage) -> Result<()> {
    let rule =
        |verbs: &[&str]| json!({"apiGroups": [""], "resources": ["secrets"], "verbs": verbs});
    // It is the account of the graph that makes it. Gates keep what they decided in Secrets.
    allow(
        stage,
        &[rule(&["get", "list", "watch", "create", "patch", "delete"])],
    )?;
    stage.until_definition("vault", "Ready", "True")?;
    stage.until_state("vault", "v", "ACTIVE")?;
    // The API keeps `stringData` as something else; that is no reason to write it again.
    stage.kill_runner()?;
    stage.audit()?.news()?;
    stage.start_runner()?;
    stage.apply(&instance("Vault", "w", &json!({"word": "sesame"})))?;
    stage.until_state("vault", "w", "ACTIVE")?;
    let written = stage.audit()?.news()?.get("patch secrets").copied();
    ensure!(written == Some(1), "written {written:?} times");
    Ok(())
}
