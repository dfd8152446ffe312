//! What every server has from its first start: namespaces, roles, and itself as a Service.
//!
//! Written through the server's own front door, so that it is defaulted and checked like
//! everything else. What exists is left as it is.

use bytes::Bytes;
use deltaplane_api::identity::{Identity, MASTERS};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{ApiServer, StartError};

/// Whoever writes these objects; may write what others may not.
pub(crate) const USER: &str = "system:apiserver";

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub(crate) async fn run(server: &ApiServer) -> Result<(), StartError> {
    for name in NAMESPACES {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(server, "/api/v1/namespaces", namespace).await?;
    }
    for (name, labels, rules) in roles() {
        let mut role = object("ClusterRole", name);
        role["rules"] = rules;
        role["metadata"]["labels"] = labels;
        ensure(server, &format!("{RBAC}/clusterroles"), role).await?;
    }
    for (name, role, group) in BINDINGS {
        let mut binding = object("ClusterRoleBinding", name);
        binding["metadata"]["labels"] = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
        binding["roleRef"] =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
        binding["subjects"] =
            json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]);
        ensure(server, &format!("{RBAC}/clusterrolebindings"), binding).await?;
    }
    ensure_service(server).await
}

fn object(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
    })
}

const BINDINGS: [(&str, &str, &str); 4] = [
    ("cluster-admin", "cluster-admin", MASTERS),
    (
        "system:discovery",
        "system:discovery",
        "system:authenticated",
    ),
    (
        "system:basic-user",
        "system:basic-user",
        "system:authenticated",
    ),
    (
        "system:public-info-viewer",
        "system:public-info-viewer",
        "system:authenticated",
    ),
];

type Role = (&'static str, Value, Value);

fn roles() -> Vec<Role> {
    let system = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    let read = ["get", "list", "watch"];
    let write = ["create", "delete", "deletecollection", "patch", "update"];
    let both: Vec<&str> = read.iter().chain(&write).copied().collect();
    let content = json!([
        "bindings",
        "configmaps",
        "endpoints",
        "events",
        "persistentvolumeclaims",
        "pods",
        "podtemplates",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "replicationcontrollers/status",
        "serviceaccounts",
        "services",
        "services/status",
        "pods/status",
    ]);
    let groups = [
        ("apps", json!(["*"])),
        ("autoscaling", json!(["*"])),
        ("batch", json!(["*"])),
        ("discovery.k8s.io", json!(["endpointslices"])),
        ("events.k8s.io", json!(["events"])),
        (
            "networking.k8s.io",
            json!(["ingresses", "ingresses/status", "networkpolicies"]),
        ),
        (
            "policy",
            json!(["poddisruptionbudgets", "poddisruptionbudgets/status"]),
        ),
    ];
    let workloads = |verbs: &[&str], secrets: bool| -> Vec<Value> {
        let mut rules = vec![rule("", content.clone(), verbs)];
        if secrets {
            rules.push(rule("", json!(["secrets"]), verbs));
        }
        rules.extend(
            groups
                .iter()
                .map(|(group, resources)| rule(group, resources.clone(), verbs)),
        );
        rules.push(rule("coordination.k8s.io", json!(["leases"]), verbs));
        rules.push(rule("", json!(["namespaces"]), &["get", "list", "watch"]));
        rules
    };
    let mut admin = workloads(&both, true);
    admin.push(rule(
        "rbac.authorization.k8s.io",
        json!(["roles", "rolebindings"]),
        &both,
    ));
    admin.push(rule(
        "authorization.k8s.io",
        json!(["localsubjectaccessreviews"]),
        &["create"],
    ));
    admin.push(rule("", json!(["serviceaccounts/token"]), &["create"]));
    admin.push(rule("", json!(["serviceaccounts"]), &["impersonate"]));
    let mut edit = workloads(&both, true);
    edit.push(rule("", json!(["serviceaccounts/token"]), &["create"]));
    edit.push(rule("", json!(["serviceaccounts"]), &["impersonate"]));
    let discovery = json!([{
        "verbs": ["get"],
        "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/"],
    }]);
    let public = json!([{
        "verbs": ["get"],
        "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
    }]);
    let everything = json!([
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]);
    let questions = json!([
        rule(
            "authorization.k8s.io",
            json!(["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            &["create"]
        ),
        rule(
            "authentication.k8s.io",
            json!(["selfsubjectreviews"]),
            &["create"]
        ),
    ]);
    vec![
        ("cluster-admin", system.clone(), everything),
        ("admin", system.clone(), json!(admin)),
        ("edit", system.clone(), json!(edit)),
        ("view", system.clone(), json!(workloads(&read, false))),
        ("system:discovery", system.clone(), discovery),
        ("system:public-info-viewer", system.clone(), public),
        ("system:basic-user", system, questions),
    ]
}

fn rule(group: &str, resources: Value, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// The server as a Service, which clients and suites look for.
async fn ensure_service(server: &ApiServer) -> Result<(), StartError> {
    let port = server.0.config.address.port();
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "None",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
        },
    });
    let path = "/api/v1/namespaces/default/services";
    ensure(server, path, service.clone()).await?;
    // The port may be another one than at the last start.
    let patch = json!({"spec": {"ports": service["spec"]["ports"]}});
    let path = format!("{path}/kubernetes");
    let answer = send(
        server,
        Method::PATCH,
        &path,
        "application/merge-patch+json",
        &patch,
    )
    .await?;
    accept(&path, answer, &[StatusCode::OK])
}

/// Creates an object unless it exists.
async fn ensure(server: &ApiServer, path: &str, object: Value) -> Result<(), StartError> {
    let answer = send(server, Method::POST, path, "application/json", &object).await?;
    accept(path, answer, &[StatusCode::CREATED, StatusCode::CONFLICT])
}

fn accept(path: &str, answer: (StatusCode, Bytes), codes: &[StatusCode]) -> Result<(), StartError> {
    let (code, body) = answer;
    match codes.contains(&code) {
        true => Ok(()),
        false => Err(StartError::Bootstrap {
            path: path.to_owned(),
            message: String::from_utf8_lossy(&body).into_owned(),
        }),
    }
}

async fn send(
    server: &ApiServer,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Result<(StatusCode, Bytes), StartError> {
    let failed = |message: String| StartError::Bootstrap {
        path: path.to_owned(),
        message,
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, content_type)
        .header(http::header::USER_AGENT, "deltaplane")
        .extension(Identity::authenticated(USER, &[MASTERS]))
        .body(Full::new(crate::encode::bytes(body)))
        .map_err(|error| failed(error.to_string()))?;
    let answer = match server.clone().oneshot(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    };
    let (parts, body) = answer.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    };
    Ok((parts.status, body))
}
