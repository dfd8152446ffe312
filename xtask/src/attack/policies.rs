//! A user with rights on policies alone changes or learns what it has no right to.

use std::time::Duration;

use anyhow::Result;
use deltaplane_client::request;
use serde_json::{Value, json};

use super::Outcome;
use super::stage::{FLEET, RBAC, Stage, appears, create};

const WAIT: Duration = Duration::from_secs(20);
const SECRET: &str = "hunter2-is-the-password";

fn rules() -> Value {
    json!([{"apiGroups": ["fleet.deltaplane.io"], "verbs": ["create", "get"],
        "resources": ["propagationpolicies", "propagationpolicies/_rollout"]}])
}

fn synced(name: &str, group: &str, kind: &str) -> Value {
    json!({"apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": name},
        "spec": {"group": group, "kind": kind, "direction": "HubToZone",
            "selector": {"matchLabels": {"cross": "yes"}}}})
}

fn policy(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name}, "spec": spec})
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

/// Asks for a field whose name is the content of a Secret.
pub(super) async fn secret_in_evidence(stage: &Stage) -> Result<Outcome> {
    let kind = synced("secrets", "", "Secret");
    create(&stage.admin, &format!("{FLEET}/syncedkinds"), &kind).await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "db", "labels": {"cross": "yes", "deltaplane.io/sync": "true"}},
        "stringData": {"password": SECRET}});
    create(&stage.admin, "/api/v1/namespaces/default/secrets", &secret).await?;
    let attacker = stage.account("prober", &rules()).await?;
    let probe = "object.metadata[string(base64.decode(object.data.password))] == ''";
    let spec = json!({"targets": [{"kind": "Secret", "names": ["default/db"],
        "readyWhen": [probe]}]});
    let path = format!("{FLEET}/propagationpolicies");
    let answer = attacker.post(&path, &policy("probing", &spec)).await?;
    if !answer.status.is_success() {
        return Ok(Outcome::Refused(answer.brief()));
    }
    let leaked = appears(WAIT, async || {
        for path in [
            format!("{path}/probing"),
            format!("{path}/probing/_rollout"),
        ] {
            if attacker.get(&path).await?.text().contains(SECRET) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    });
    Ok(match leaked.await? {
        Some(path) => Outcome::Succeeded(format!("{path} shows the Secret")),
        None => Outcome::Refused("the policy was taken, and shows nothing".to_owned()),
    })
}
