use deltaplane_client::{ObjectKey, Resource};
use serde_json::{Value, json};

use crate::world::World;

fn roles() -> Resource {
    let group = "rbac.authorization.k8s.io";
    Resource::cluster(group, "v1", "clusterroles", "ClusterRole")
}

fn allows(role: &Value, verb: &str, resource: &str) -> bool {
    let has = |rule: &Value, field: &str, text: &str| {
        let list = rule[field].as_array();
        list.is_some_and(|list| list.iter().any(|one| one == text))
    };
    let rules = role["rules"].as_array();
    rules.is_some_and(|rules| {
        let mut rules = rules.iter();
        rules.any(|rule| has(rule, "verbs", verb) && has(rule, "resources", resource))
    })
}

#[tokio::test]
async fn the_roles_of_users_gather_what_is_labelled_for_them() {
    let world = World::start().await;
    // Ready means that everyone has what they should have.
    let mut found = Vec::new();
    for name in ["admin", "edit", "view"] {
        found.extend(world.get(&roles(), &ObjectKey::cluster(name)).await);
    }
    let [admin, edit, view] = found.try_into().expect("all three");
    assert!(allows(&view, "list", "configmaps") && !allows(&view, "update", "configmaps"));
    assert!(!allows(&view, "get", "secrets"));
    assert!(allows(&edit, "list", "configmaps") && allows(&edit, "update", "configmaps"));
    assert!(allows(&edit, "get", "secrets") && !allows(&edit, "create", "roles"));
    assert!(allows(&admin, "update", "configmaps") && allows(&admin, "create", "roles"));
}

#[tokio::test]
async fn a_role_follows_what_it_gathers() {
    let world = World::start().await;
    let kind = roles();
    let rule =
        |resource: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]});
    let selectors =
        json!([{"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}]);
    let all = json!({"metadata": {"name": "all"}, "rules": [rule("nodes")],
        "aggregationRule": {"clusterRoleSelectors": selectors}});
    world.create(&kind, all).await;
    let all = ObjectKey::cluster("all");
    let gathered = |rules: Value| move |role: &Value| role["rules"] == rules;
    let empty = |role: &Value| role["rules"].as_array().is_none_or(Vec::is_empty);
    world.until(&kind, &all, empty).await;

    let part =
        json!({"metadata": {"name": "part", "labels": {"team": "a"}}, "rules": [rule("pods")]});
    world.create(&kind, part).await;
    world
        .until(&kind, &all, gathered(json!([rule("pods")])))
        .await;

    let part = ObjectKey::cluster("part");
    world
        .patch(&kind, &part, json!({"rules": [rule("services")]}))
        .await;
    world
        .until(&kind, &all, gathered(json!([rule("services")])))
        .await;

    world.delete(&kind, &part, "Background").await;
    world.until(&kind, &all, empty).await;
}
