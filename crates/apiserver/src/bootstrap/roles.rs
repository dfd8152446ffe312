//! The roles that every cluster has, and who has them from the start. Data.
//!
//! `admin`, `edit` and `view` have no rules of their own: a controller gathers those of the roles
//! that are labelled for them, so that whoever adds a kind can add it to these roles too.

use deltaplane_api::default_roles::{EDIT, Rule, VIEW};
use deltaplane_api::identity::MASTERS;
use serde_json::{Value, json};

use crate::auth::rbac::GROUP;
use crate::discovery::VERBS;

const READ_WRITE: &[&str] = &VERBS;
const CREATE: &[&str] = &["create"];

/// What `admin` gathers besides.
const ADMIN: &[Rule] = &[
    (
        &["authorization.k8s.io"],
        &["localsubjectaccessreviews"],
        CREATE,
    ),
    (&[GROUP], &["rolebindings", "roles"], READ_WRITE),
];

/// What everyone who is known may ask.
const BASIC: &[Rule] = &[
    (
        &["authorization.k8s.io"],
        &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        CREATE,
    ),
    (&["authentication.k8s.io"], &["selfsubjectreviews"], CREATE),
];

const DISCOVERY: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// How to verify tokens of service accounts.
const ISSUER: &[&str] = &[
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
];

/// Role, and the group that has it.
const BINDINGS: [(&str, &str); 5] = [
    ("cluster-admin", MASTERS),
    ("system:discovery", "system:authenticated"),
    ("system:basic-user", "system:authenticated"),
    ("system:public-info-viewer", "system:authenticated"),
    (
        "system:service-account-issuer-discovery",
        "system:serviceaccounts",
    ),
];

pub(super) fn cluster_roles() -> Vec<Value> {
    let paths = |urls: &[&str]| json!([{"verbs": ["get"], "nonResourceURLs": urls}]);
    let everything = json!([
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]);
    vec![
        role("cluster-admin", everything),
        role("system:discovery", paths(DISCOVERY)),
        role("system:public-info-viewer", paths(PUBLIC)),
        role("system:basic-user", rules(BASIC)),
        role("system:service-account-issuer-discovery", paths(ISSUER)),
        gathered_by("admin", role("system:aggregate-to-admin", rules(ADMIN))),
        gathered_by("edit", role("system:aggregate-to-edit", rules(EDIT))),
        gathered_by("view", role("system:aggregate-to-view", rules(VIEW))),
        gathering("admin"),
        gathered_by("admin", gathering("edit")),
        gathered_by("edit", gathering("view")),
    ]
}

pub(super) fn bindings() -> Vec<Value> {
    let binding = |(role, group): (&str, &str)| {
        let mut binding = object("ClusterRoleBinding", role);
        binding["roleRef"] = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": role});
        binding["subjects"] = json!([{"apiGroup": GROUP, "kind": "Group", "name": group}]);
        binding
    };
    BINDINGS.into_iter().map(binding).collect()
}

fn object(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    })
}

fn role(name: &str, rules: Value) -> Value {
    let mut role = object("ClusterRole", name);
    role["rules"] = rules;
    role
}

/// A role whose rules are those of the roles that are labelled for it.
fn gathering(name: &str) -> Value {
    let mut role = object("ClusterRole", name);
    role["aggregationRule"] =
        json!({"clusterRoleSelectors": [{"matchLabels": {label(name): "true"}}]});
    role
}

fn gathered_by(name: &str, mut role: Value) -> Value {
    role["metadata"]["labels"][label(name)] = json!("true");
    role
}

fn label(role: &str) -> String {
    format!("{GROUP}/aggregate-to-{role}")
}

fn rules(rules: &[Rule]) -> Value {
    let rule = |(groups, resources, verbs): &Rule| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    rules.iter().map(rule).collect()
}
