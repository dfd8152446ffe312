//! What a hostile author of a graph does not get.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::api::Api;
use super::definitions::{heist, instance};
use super::stage::{NAMESPACE, On, Stage, condition, ensure_says};
use crate::kubectl::await_that;

/// A namespace of others.
const VAULT: &str = "vault";
const ROLES: &str = "rbac.authorization.k8s.io";
/// May write definitions, and nothing else.
const AUTHOR: &str = "mallory";

/// Bindings, kinds, Secrets and objects of others: the instance names the rights that are missing,
/// and the rest of it is there.
pub(super) fn gains_nothing(stage: &mut Stage) -> Result<()> {
    let here = stage.here.kubectl();
    here.ok(&["create", "namespace", VAULT])?;
    here.apply(&json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "db", "namespace": VAULT, "labels": {"app": "db"}},
        "stringData": {"password": "hunter2"},
    }))?;
    here.apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "theirs", "namespace": VAULT}, "data": {"mine": "no"},
    }))?;
    stage.apply(&heist(VAULT))?;
    stage.until_definition("heist", "Ready", "True")?;
    stage.apply(&instance("Heist", "h", &json!({})))?;
    let told = stage.until("heist", "h", |object| {
        condition(object, "ResourcesReady")["reason"] == "MissingRights"
    })?;
    let message = condition(&told, "ResourcesReady")["message"].clone();
    for missing in [
        "ServiceAccount team/deltaplane-graphs may not patch clusterrolebindings.rbac.authorization.k8s.io \"heist\" in the cluster",
        "may not patch customresourcedefinitions.apiextensions.k8s.io \"loots.example.com\"",
        "may not patch configmaps \"theirs\" in namespace vault",
        "may not get secrets \"db\" in namespace vault",
        "may not list secrets in namespace vault",
    ] {
        ensure_says(&message, missing)?;
    }
    println!("    the instance says: {message}");
    ensure!(!told.to_string().contains("aHVudGVyMg"), "{told}");
    stage.get("configmap", "h-own").context("the rest of it")?;
    for (kind, name) in [
        ("clusterrolebinding", "heist"),
        ("crd", "loots.example.com"),
    ] {
        ensure!(
            here.find(kind, name, "")?.is_none(),
            "there is {kind} {name}"
        );
    }
    for name in ["h-named", "h-selected"] {
        let copy = here.find("configmap", name, NAMESPACE)?;
        ensure!(copy.is_none(), "there is {copy:?}");
    }
    let theirs = here.find("configmap", "theirs", VAULT)?;
    let theirs = theirs.context("the object of others is gone")?;
    ensure!(theirs["data"]["mine"] == "no", "{theirs}");
    stage.delete("heist", "h")?;
    stage.until_gone("heist", "h")?;
    let theirs = here.find("configmap", "theirs", VAULT)?;
    ensure!(
        theirs.is_some(),
        "the object of others went with the instance"
    );
    here.ok(&["delete", "namespace", VAULT, "--wait=false"])?;
    Ok(())
}

/// Whoever may write definitions names no account that they may not act as.
pub(super) fn names_no_account(stage: &mut Stage) -> Result<()> {
    let mut apis = vec![stage.here.clone()];
    if stage.on != On::Kubernetes {
        apis.push(stage.definitions.clone());
    }
    for api in apis {
        allow_author(&api)?;
        let mut definition = heist(VAULT);
        definition["metadata"]["name"] = "mine".into();
        definition["spec"]["schema"]["kind"] = "Mine".into();
        definition["spec"]["serviceAccountName"] = "deployer".into();
        let author = api.kubectl().acting_as(AUTHOR);
        let words = ["create", "--dry-run=server", "-f", "-"];
        let text = definition.to_string();
        // A cluster's policy is in force a moment after it was made.
        let refused = await_that("an author to be refused", || {
            let answer = author.answer(&words, &text)?;
            Ok((!answer.good).then_some(answer.err))
        })?;
        let told = Value::from(refused.trim());
        ensure_says(
            &told,
            "may not impersonate ServiceAccount deployer in all namespaces",
        )?;
        println!("    the author is told: {told}");
        // Without it, and with the right, it is taken.
        let mut own = definition.clone();
        own["spec"]["serviceAccountName"] = Value::Null;
        author.reading(&words, &own.to_string())?;
        api.kubectl().reading(&words, &text)?;
    }
    Ok(())
}

fn allow_author(api: &Api) -> Result<()> {
    let kubectl = api.kubectl();
    kubectl.apply(&json!({
        "apiVersion": format!("{ROLES}/v1"), "kind": "ClusterRole",
        "metadata": {"name": "graph-author"},
        "rules": [{
            "apiGroups": ["kro.run"], "resources": ["resourcegraphdefinitions"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        }],
    }))?;
    kubectl.apply(&json!({
        "apiVersion": format!("{ROLES}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": "graph-author"},
        "roleRef": {"apiGroup": ROLES, "kind": "ClusterRole", "name": "graph-author"},
        "subjects": [{"apiGroup": ROLES, "kind": "User", "name": AUTHOR}],
    }))
}
