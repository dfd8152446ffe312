//! A user with rights on policies alone changes or learns what it has no right to.

use std::time::Duration;

use anyhow::{Context, Result};
use deltaplane_client::request::{self, Patch};
use serde_json::{Value, json};

use super::Outcome;
use super::account::Account;
use super::stage::{FLEET, MAPS, RBAC, Stage, appears, create};

pub(super) const WAIT: Duration = Duration::from_secs(20);
/// A change that should not happen has had its time to happen.
const SETTLE: Duration = Duration::from_secs(3);
pub(super) const SECRET: &str = "hunter2-is-the-password";

pub(super) fn rules() -> Value {
    json!([{"apiGroups": ["fleet.deltaplane.io"], "verbs": ["create", "get"],
        "resources": ["propagationpolicies", "propagationpolicies/_rollout"]}])
}

pub(super) fn synced(name: &str, group: &str, kind: &str) -> Value {
    json!({"apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": name},
        "spec": {"group": group, "kind": kind, "direction": "HubToZone",
            "selector": {"matchLabels": {"cross": "yes"}}}})
}

pub(super) fn policy(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name}, "spec": spec})
}

/// A ConfigMap that crosses, with one value.
fn config(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"cross": "yes", "app": name}},
        "data": {"value": value}})
}

/// Waits until the zone has this value of a ConfigMap.
async fn value_in_zone(stage: &Stage, name: &str, value: &str) -> Result<Option<()>> {
    let path = format!("{MAPS}/{name}");
    let found = appears(WAIT, async || {
        let found = request::get::<Value>(&stage.there, &path).await.ok();
        Ok(found.filter(|found| found["data"]["value"] == value))
    });
    Ok(found.await?.map(|_| ()))
}

/// Makes a ConfigMap and a policy that governs it in the zone that keeps to the rules, and waits
/// until the zone has it.
async fn governed(stage: &Stage, name: &str, targets: &Value) -> Result<()> {
    create(&stage.admin, MAPS, &config(name, "one")).await?;
    let path = format!("{FLEET}/propagationpolicies");
    let spec = json!({"targets": [targets], "zones": {"matchLabels": {"rules": "kept"}}});
    create(&stage.admin, &path, &policy(name, &spec)).await?;
    let there = value_in_zone(stage, name, "one").await?;
    there.context("the zone does not get the object")?;
    let path = format!("{path}/{name}");
    let propagated = appears(WAIT, async || {
        let policy = request::get::<Value>(&stage.admin, &path).await?;
        let conditions = policy["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let done = conditions.any(|one| one["type"] == "Propagated" && one["status"] == "True");
        Ok(done.then_some(()))
    });
    propagated.await?.context("the policy does not complete")
}

/// Changes an ordinary object in zones, by an override.
pub(super) async fn override_patches_an_object(stage: &Stage) -> Result<Outcome> {
    create(&stage.admin, MAPS, &config("overridden", "one")).await?;
    let attacker = stage.account("patcher", &rules()).await?;
    let spec = json!({
        "targets": [{"kind": "ConfigMap", "names": ["default/overridden"]}],
        "overrides": [{"patch": [{"op": "replace", "path": "/data/value", "value": "mine"}]}],
    });
    let path = format!("{FLEET}/propagationpolicies");
    let answer = attacker.post(&path, &policy("overridden", &spec)).await?;
    if !answer.status.is_success() {
        return Ok(Outcome::Refused(answer.brief()));
    }
    Ok(match value_in_zone(stage, "overridden", "mine").await? {
        Some(()) => Outcome::Succeeded("the zone has the attacker's value".to_owned()),
        None => Outcome::Refused("the policy was taken, and changes nothing".to_owned()),
    })
}

/// Brings an older release back, of an object that it may not update.
pub(super) async fn rollback_without_rights(stage: &Stage) -> Result<Outcome> {
    let targets = json!({"kind": "ConfigMap", "names": ["default/returned"]});
    governed(stage, "returned", &targets).await?;
    let path = format!("{MAPS}/returned");
    let two = json!({"data": {"value": "two"}});
    request::patch::<Value>(&stage.admin, &path, Patch::Merge, &two).await?;
    let there = value_in_zone(stage, "returned", "two").await?;
    there.context("the zone does not get the change")?;
    let rules = json!([{"apiGroups": ["fleet.deltaplane.io"], "verbs": ["get", "patch"],
        "resources": ["propagationpolicies"]}]);
    let attacker = stage.account("returner", &rules).await?;
    let asked = json!({"metadata": {"annotations":
        {"fleet.deltaplane.io/rollback": "1 instead of 2"}}});
    let path = format!("{FLEET}/propagationpolicies/returned");
    let answer = attacker.patch(&path, &asked).await?;
    if !answer.status.is_success() {
        return Ok(Outcome::Refused(answer.brief()));
    }
    Ok(match value_in_zone(stage, "returned", "one").await? {
        Some(()) => Outcome::Succeeded("the zone has the older value".to_owned()),
        None => Outcome::Refused("it was taken, and nothing came back".to_owned()),
    })
}

/// Takes an object out of a policy that asks for approval, and changes it.
pub(super) async fn leaving_by_a_label(stage: &Stage) -> Result<Outcome> {
    let targets = json!({"kind": "ConfigMap", "selector": {"matchLabels": {"app": "leaving"}}});
    governed(stage, "leaving", &targets).await?;
    let path = format!("{FLEET}/propagationpolicies/leaving");
    let stages = json!({"spec": {"stages": [{"name": "all", "approval": "RequiredByOther"}]}});
    request::patch::<Value>(&stage.admin, &path, Patch::Merge, &stages).await?;
    let rules = json!([{"apiGroups": [""], "verbs": ["patch"], "resources": ["configmaps"]}]);
    let attacker = stage.account("leaver", &rules).await?;
    let change = json!({"metadata": {"labels": {"app": null}}, "data": {"value": "mine"}});
    unapproved(stage, &attacker, "leaving", &change).await
}

/// Changes an object, and looks whether the zone gets that although nobody approved it.
async fn unapproved(
    stage: &Stage,
    attacker: &Account,
    name: &str,
    change: &Value,
) -> Result<Outcome> {
    let path = format!("{MAPS}/{name}");
    let answer = attacker.patch(&path, change).await?;
    if !answer.status.is_success() {
        return Ok(Outcome::Refused(answer.brief()));
    }
    let waited = appears(SETTLE, async || {
        let found = request::get::<Value>(&stage.there, &path).await.ok();
        Ok(found.filter(|found| found["data"]["value"] == "mine"))
    });
    Ok(match waited.await? {
        Some(_) => Outcome::Succeeded("the zone has the change without approval".to_owned()),
        None => Outcome::Refused("the zone keeps what was approved".to_owned()),
    })
}

/// Takes an object out of a policy that asks for approval, into an older one that does not.
pub(super) async fn leaving_by_another_policy(stage: &Stage) -> Result<Outcome> {
    let fast = json!({"targets": [{"kind": "ConfigMap",
        "selector": {"matchLabels": {"lane": "fast"}}}],
        "zones": {"matchLabels": {"rules": "kept"}}});
    let policies = format!("{FLEET}/propagationpolicies");
    create(&stage.admin, &policies, &policy("fast", &fast)).await?;
    let targets = json!({"kind": "ConfigMap", "selector": {"matchLabels": {"app": "moving"}}});
    governed(stage, "moving", &targets).await?;
    let path = format!("{policies}/moving");
    let stages = json!({"spec": {"stages": [{"name": "all", "approval": "RequiredByOther"}]}});
    request::patch::<Value>(&stage.admin, &path, Patch::Merge, &stages).await?;
    let rules = json!([{"apiGroups": [""], "verbs": ["patch"], "resources": ["configmaps"]}]);
    let attacker = stage.account("mover", &rules).await?;
    let change = json!({"metadata": {"labels": {"lane": "fast"}}, "data": {"value": "mine"}});
    unapproved(stage, &attacker, "moving", &change).await
}

/// Learns what an object holds from the plan of a change to it.
pub(super) async fn content_in_plans(stage: &Stage) -> Result<Outcome> {
    let spec = json!({"targets": [{"kind": "ConfigMap", "names": ["default/planned"]}]});
    create(&stage.admin, MAPS, &config("planned", SECRET)).await?;
    let path = format!("{FLEET}/propagationpolicies");
    create(&stage.admin, &path, &policy("planned", &spec)).await?;
    let there = value_in_zone(stage, "planned", SECRET).await?;
    there.context("the zone does not get the object")?;
    let rules = json!([{"apiGroups": ["fleet.deltaplane.io"], "verbs": ["create"],
        "resources": ["propagationpolicies/_plan"]}]);
    let attacker = stage.account("planner", &rules).await?;
    let mut change = config("planned", "x");
    change["metadata"]["namespace"] = json!("default");
    let plan = json!({ "objects": [change] });
    let answer = attacker
        .post(&format!("{path}/planned/_plan"), &plan)
        .await?;
    Ok(match answer.text().contains(SECRET) {
        true => Outcome::Succeeded("the plan shows what the object holds".to_owned()),
        false => Outcome::Refused(match answer.status.is_success() {
            true => "the plan shows no content".to_owned(),
            false => answer.brief(),
        }),
    })
}

/// Adds itself to a binding in zones, by an override.
pub(super) async fn override_patches_a_binding(stage: &Stage) -> Result<Outcome> {
    let group = "rbac.authorization.k8s.io";
    let kind = synced(
        "clusterrolebindings.rbac.authorization.k8s.io",
        group,
        "ClusterRoleBinding",
    );
    create(&stage.admin, &format!("{FLEET}/syncedkinds"), &kind).await?;
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": "operators", "labels": {"cross": "yes"}},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": group, "name": "operator"}]});
    create(
        &stage.admin,
        &format!("{RBAC}/clusterrolebindings"),
        &binding,
    )
    .await?;
    let attacker = stage.account("overrider", &rules()).await?;
    let subject = json!({"kind": "User", "apiGroup": group, "name": "mallory"});
    let spec = json!({
        "targets": [{"group": group, "kind": "ClusterRoleBinding", "names": ["operators"]}],
        "overrides": [{"patch": [{"op": "add", "path": "/subjects/-", "value": subject}]}],
    });
    let path = format!("{FLEET}/propagationpolicies");
    let answer = attacker.post(&path, &policy("overriding", &spec)).await?;
    if !answer.status.is_success() {
        return Ok(Outcome::Refused(answer.brief()));
    }
    let path = format!("{RBAC}/clusterrolebindings/operators");
    let patched = appears(WAIT, async || {
        let found = request::get::<Value>(&stage.there, &path).await.ok();
        let patched = found.is_some_and(|found| found["subjects"].to_string().contains("mallory"));
        Ok(patched.then_some(()))
    });
    Ok(match patched.await? {
        Some(()) => Outcome::Succeeded("the zone's binding names the attacker".to_owned()),
        None => Outcome::Refused("the policy was taken, and changes no binding".to_owned()),
    })
}
