//! A user with rights on roles takes more.

use anyhow::Result;
use deltaplane_client::request::{self, Patch};
use serde_json::{Value, json};

use super::Outcome;
use super::stage::{RBAC, Stage};

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
