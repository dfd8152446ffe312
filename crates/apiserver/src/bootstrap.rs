//! What every server has from its first start: namespaces, roles, and itself as a Service.
//!
//! Written through the server's own front door, so that it is defaulted and checked like
//! everything else. What exists is left as it is.

mod roles;

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
    for role in roles::cluster_roles() {
        ensure(server, &format!("{RBAC}/clusterroles"), role).await?;
    }
    for binding in roles::bindings() {
        ensure(server, &format!("{RBAC}/clusterrolebindings"), binding).await?;
    }
    ensure_service(server).await
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
    let body = body.collect().await;
    let body = body.map_err(|error| failed(error.to_string()))?;
    Ok((parts.status, body.to_bytes()))
}
