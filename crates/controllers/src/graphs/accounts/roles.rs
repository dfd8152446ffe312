//! The roles of the account that graphs act as by default. Data, and pure.
//!
//! | ClusterRole | has |
//! |---|---|
//! | [`NAMESPACED`] | what [`EDIT_RULES`], [`SERVED_KINDS`] and roles with the label [`EXTENDS`] have, and what others add to `edit` |
//! | [`CLUSTER`] | what [`CLUSTER_RULES`], [`SERVED_KINDS`] and roles with the label [`EXTENDS`] have |
//!
//! A RoleBinding gives the first to the account of a namespace, a ClusterRoleBinding the second to
//! that of instances in no namespace.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_api::default_roles::{EDIT, Rule, VIEW};
use deltaplane_client::Resource;
use serde_json::{Value, json};

use super::{DEFAULT_ACCOUNT, SYSTEM_NAMESPACE};

/// The role of the account in a namespace, and its binding.
pub const NAMESPACED: &str = DEFAULT_ACCOUNT;
/// The role of the account of instances in no namespace, and its binding.
pub const CLUSTER: &str = "deltaplane-graphs-cluster";
/// The rules of `edit`, without the right to impersonate.
pub const EDIT_RULES: &str = "deltaplane-graphs-edit";
/// The same for all namespaces, without Secrets and tokens, and with namespaces.
pub const CLUSTER_RULES: &str = "deltaplane-graphs-edit-cluster";
/// The kinds that graphs define.
pub const SERVED_KINDS: &str = "deltaplane-graphs-kinds";
/// The label, with the value `true`, of ClusterRoles that extend what graphs may do.
pub const EXTENDS: &str = "deltaplane.io/aggregate-to-graphs";

/// The label of our own rules, with the role that they are for.
const RULES_OF: &str = "deltaplane.io/rules-of";
const RBAC: &str = "rbac.authorization.k8s.io";
/// The verbs that graphs need for the kinds that they define.
const INSTANCE_VERBS: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];
/// The verbs of the account in no namespace for namespaces.
const NAMESPACE_VERBS: [&str; 7] = [
    "get", "list", "watch", "create", "update", "patch", "delete",
];

/// The objects that the roles consist of, but for [`SERVED_KINDS`]. Aggregated roles have their
/// rules from the start: nobody need aggregate them before they count.
pub fn cluster_roles() -> Vec<Value> {
    let edit = edit_rules();
    let cluster = cluster_rules();
    let mut namespaced = role(NAMESPACED, &edit);
    namespaced["aggregationRule"] = json!({"clusterRoleSelectors": [
        selected(EXTENDS, "true"),
        selected(RULES_OF, NAMESPACED),
        {
            "matchLabels": {format!("{RBAC}/aggregate-to-edit"): "true"},
            "matchExpressions": [
                {"key": "kubernetes.io/bootstrapping", "operator": "DoesNotExist"},
            ],
        },
    ]});
    let mut in_no_namespace = role(CLUSTER, &cluster);
    in_no_namespace["aggregationRule"] = json!({"clusterRoleSelectors": [
        selected(EXTENDS, "true"),
        selected(RULES_OF, CLUSTER),
    ]});
    vec![
        labelled(role(EDIT_RULES, &edit), RULES_OF, NAMESPACED),
        labelled(role(CLUSTER_RULES, &cluster), RULES_OF, CLUSTER),
        namespaced,
        in_no_namespace,
    ]
}

/// The role for the kinds that graphs define, by group and plural.
pub fn served_kinds(kinds: &BTreeSet<(String, String)>) -> Value {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (group, plural) in kinds {
        groups.entry(group).or_default().push(plural);
    }
    let rules = groups.iter().map(|(group, plurals)| {
        json!({"apiGroups": [group], "resources": plurals, "verbs": INSTANCE_VERBS})
    });
    let rules: Vec<Value> = rules.collect();
    labelled(role(SERVED_KINDS, &rules), EXTENDS, "true")
}

/// The account of a namespace and its binding; of instances in no namespace if `cluster`.
pub fn of_account(namespace: &str, cluster: bool) -> Vec<Value> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": DEFAULT_ACCOUNT, "namespace": namespace, "labels": managed()},
    });
    let (kind, role) = if cluster {
        ("ClusterRoleBinding", CLUSTER)
    } else {
        ("RoleBinding", NAMESPACED)
    };
    let mut binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind,
        "metadata": {"name": role, "labels": managed()},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": DEFAULT_ACCOUNT, "namespace": namespace}],
    });
    if !cluster {
        binding["metadata"]["namespace"] = namespace.into();
        return vec![account, binding];
    }
    let system = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE},
    });
    vec![system, account, binding]
}

/// Where objects of these kinds are.
pub fn resource(kind: &str) -> Resource {
    match kind {
        "Namespace" => Resource::cluster("", "v1", "namespaces", kind),
        "ServiceAccount" => Resource::namespaced("", "v1", "serviceaccounts", kind),
        "Role" => Resource::namespaced(RBAC, "v1", "roles", kind),
        "RoleBinding" => Resource::namespaced(RBAC, "v1", "rolebindings", kind),
        "ClusterRole" => Resource::cluster(RBAC, "v1", "clusterroles", kind),
        _ => Resource::cluster(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding"),
    }
}

fn edit_rules() -> Vec<Value> {
    let all = EDIT.iter().chain(VIEW);
    let granted = all.filter(|(_, _, verbs)| !verbs.contains(&"impersonate"));
    granted.map(|one| rule(one, &[])).collect()
}

fn cluster_rules() -> Vec<Value> {
    let withheld = ["secrets", "serviceaccounts/token"];
    let all = EDIT.iter().chain(VIEW);
    let granted = all.filter(|(_, _, verbs)| !verbs.contains(&"impersonate"));
    let mut rules: Vec<Value> = granted.map(|one| rule(one, &withheld)).collect();
    rules.retain(|rule| rule["resources"] != json!([]));
    rules.push(json!({
        "apiGroups": [""], "resources": ["namespaces"], "verbs": NAMESPACE_VERBS,
    }));
    rules
}

fn rule((groups, resources, verbs): &Rule, withheld: &[&str]) -> Value {
    let mut resources = resources.to_vec();
    resources.retain(|resource| !withheld.contains(resource));
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn role(name: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name, "labels": managed()},
        "rules": rules,
    })
}

fn labelled(mut role: Value, label: &str, value: &str) -> Value {
    role["metadata"]["labels"][label] = value.into();
    role
}

fn selected(label: &str, value: &str) -> Value {
    json!({"matchLabels": {label: value}})
}

fn managed() -> Value {
    json!({"app.kubernetes.io/managed-by": "deltaplane"})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(rules: &[Value], resource: &str, verb: &str) -> bool {
        let has = |rule: &Value, key: &str, text: &str| {
            let all = rule[key].as_array().into_iter().flatten();
            all.into_iter().any(|one| one == text || one == "*")
        };
        let mut rules = rules.iter();
        rules.any(|rule| has(rule, "resources", resource) && has(rule, "verbs", verb))
    }

    #[test]
    fn an_account_of_a_namespace_edits_and_impersonates_nobody() {
        let rules = edit_rules();
        for resource in ["configmaps", "secrets", "deployments", "serviceaccounts"] {
            assert!(grants(&rules, resource, "patch"), "{resource}");
            assert!(grants(&rules, resource, "get"), "{resource}");
        }
        assert!(!grants(&rules, "serviceaccounts", "impersonate"));
        for resource in [
            "rolebindings",
            "clusterrolebindings",
            "customresourcedefinitions",
        ] {
            assert!(!grants(&rules, resource, "create"), "{resource}");
        }
    }

    #[test]
    fn the_account_of_no_namespace_sees_no_secrets() {
        let rules = cluster_rules();
        assert!(grants(&rules, "namespaces", "create"));
        assert!(grants(&rules, "deployments", "patch"));
        for verb in ["get", "list", "watch", "create", "patch"] {
            assert!(!grants(&rules, "secrets", verb), "{verb}");
            assert!(!grants(&rules, "serviceaccounts/token", verb), "{verb}");
        }
        assert!(!grants(&rules, "serviceaccounts", "impersonate"));
    }
}
