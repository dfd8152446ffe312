//! A user with rights on roles takes more.

use std::time::Duration;

use anyhow::Result;
use deltaplane_client::request::{self, Patch};
use serde_json::{Value, json};

use super::Outcome;
use super::stage::{RBAC, Stage, create};

const LABEL: &str = "rbac.authorization.k8s.io/aggregate-to-view";

fn rules() -> Value {
    json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
        "verbs": ["get", "patch"]}])
}

/// Labels a role so that everybody with `view` has its rules.
async fn label(stage: &Stage, user: &str, role: &str) -> Result<Outcome> {
    let attacker = stage.account(user, &rules()).await?;
    let path = format!("{RBAC}/clusterroles/{role}");
    let label = json!({"metadata": {"labels": {LABEL: "true"}}});
    let answer = attacker.patch(&path, &label).await?;
    if !answer.status.is_success() {
        return Ok(Outcome::Refused(answer.brief()));
    }
    // Nobody else should be harmed by it.
    let back = json!({"metadata": {"labels": {LABEL: null}}});
    request::patch::<Value>(&stage.admin, &path, Patch::Merge, &back).await?;
    Ok(Outcome::Succeeded(format!("{role} was labelled")))
}

pub(super) async fn label_grants_roles(stage: &Stage) -> Result<Outcome> {
    label(stage, "labeller", "cluster-admin").await
}

pub(super) async fn label_on_aggregated_role(stage: &Stage) -> Result<Outcome> {
    label(stage, "aggregator", "admin").await
}

/// A request that is not answered within this holds the server.
const ANSWERED: Duration = Duration::from_secs(10);
const NAMES: usize = 100_000;
const RULES: usize = 10_000;

/// The administrator of one namespace grants many rules while holding a rule of many names, and
/// changes a role meanwhile.
pub(super) async fn rules_without_end(stage: &Stage) -> Result<Outcome> {
    let attacker = stage.account("ruler", &json!([])).await?;
    let subject = json!({"kind": "ServiceAccount", "namespace": "default", "name": "ruler"});
    let group = "rbac.authorization.k8s.io";
    let bind = |name: &str, kind: &str, role: &str| {
        json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": group, "kind": kind, "name": role}})
    };
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    create(
        &stage.admin,
        &bindings,
        &bind("ruler", "ClusterRole", "admin"),
    )
    .await?;
    let rule = json!({"apiGroups": [group], "resources": ["roles", "rolebindings"],
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update",
            "watch"]});
    let role = |name: &str, rules: Vec<Value>| {
        json!({"apiVersion": format!("{group}/v1"), "kind": "Role",
            "metadata": {"name": name}, "rules": rules})
    };
    let roles = format!("{RBAC}/namespaces/default/roles");
    let mut named = rule.clone();
    named["resourceNames"] = (0..NAMES).map(|number| format!("n{number}")).collect();
    for (path, object) in [
        (&roles, role("0", vec![named])),
        (&bindings, bind("0", "Role", "0")),
    ] {
        let answer = attacker.post(path, &object).await?;
        if !answer.status.is_success() {
            return Ok(Outcome::Refused(answer.brief()));
        }
    }
    let many = role("many", vec![rule; RULES]);
    let dry = format!("{roles}?dryRun=All");
    let granting = tokio::time::timeout(ANSWERED, attacker.post(&dry, &many));
    let small = role("small", Vec::new());
    let changing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        tokio::time::timeout(ANSWERED, attacker.post(&roles, &small)).await
    };
    let (granted, changed) = tokio::join!(granting, changing);
    Ok(match (granted, changed) {
        (Ok(granted), Ok(_)) => Outcome::Refused(format!("answered {}", granted?.status)),
        _ => Outcome::Succeeded("the hub compares rules for more than 10 s".to_owned()),
    })
}
