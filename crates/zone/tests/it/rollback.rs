//! A release that fails is rolled back, whatever rights the author of its policy has.

use deltaplane_client::request::{self, Patch};
use kube::Client;
use serde_json::{Value, json};

use crate::world::{World, until};

const FLEET: &str = "/apis/fleet.deltaplane.io/v1alpha1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(client: &Client, path: &str, object: Value) {
    let made = request::create::<Value>(client, path, &object).await;
    made.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Lets a user write policies at the hub, and nothing else.
async fn grant_policies(hub: &Client, user: &str) {
    let rule = json!({
        "apiGroups": ["fleet.deltaplane.io"], "resources": ["propagationpolicies"],
        "verbs": ["*"],
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "policies"}, "rules": [rule],
    });
    create(hub, &format!("{RBAC}/clusterroles"), role).await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "policies"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "policies"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    create(hub, &format!("{RBAC}/clusterrolebindings"), binding).await;
}

fn map(value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value},
        "metadata": {"name": "a", "namespace": "default", "labels": {"team": "web"}},
    })
}

fn has(value: &'static str) -> impl Fn(&Value) -> bool {
    move |object| object["data"]["value"] == value
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_release_is_rolled_back_without_rights_of_its_author() {
    let world = World::start().await;
    let hub = world.administrator().await;
    let synced = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "configmaps"},
        "spec": {"kind": "ConfigMap", "direction": "HubToZone"},
    });
    create(&hub, &format!("{FLEET}/syncedkinds"), synced).await;
    grant_policies(&hub, "ann").await;
    let ann = world.here_as("ann").await;
    let policy = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web"},
        "spec": {
            "targets": [{
                "kind": "ConfigMap", "selector": {"matchLabels": {"team": "web"}},
                "readyWhen": ["object.data.value != 'bad'"],
            }],
            "stages": [{"name": "all", "progressDeadline": "1s"}],
            "onFailure": "Rollback",
        },
    });
    create(&ann, &format!("{FLEET}/propagationpolicies"), policy).await;
    create(&hub, MAPS, map("good")).await;
    let path = format!("{MAPS}/a");
    until(&world.there, &path, has("good")).await;
    let policy = format!("{FLEET}/propagationpolicies/web");
    let condition = |policy: &Value, of: &str, status: &str| {
        let conditions = policy["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| one["type"] == of && one["status"] == status)
    };
    until(&hub, &policy, |one| condition(one, "Propagated", "True")).await;

    let bad = json!({"data": {"value": "bad"}});
    let changed = request::patch::<Value>(&hub, &path, Patch::Merge, &bad).await;
    changed.expect("changed");
    until(&world.there, &path, has("bad")).await;
    until(&world.there, &path, has("good")).await;
    until(&hub, &policy, |one| condition(one, "RolledBack", "True")).await;

    // She could not have asked for it.
    let asked = json!({"metadata": {"annotations": {
        "fleet.deltaplane.io/rollback": "2 instead of 3",
    }}});
    let refused = request::patch::<Value>(&ann, &policy, Patch::Merge, &asked).await;
    let refused = refused.expect_err("refused").to_string();
    let why = "you cannot update ConfigMap default/a at the hub";
    assert!(refused.contains(why), "{refused}");
    world.stop().await;
}
