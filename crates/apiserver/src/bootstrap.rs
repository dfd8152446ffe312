//! What every server has from its first start: namespaces, roles, and itself as a Service.
//!
//! Written through the server's own front door, so that it is defaulted and checked like
//! everything else. What exists is left as it is.
//!
//! A store that was set up once is served on a disk that takes no writes: what a new version adds
//! is then written later.

mod roles;

use bytes::Bytes;
use deltaplane_api::identity::{Identity, MASTERS};
use deltaplane_runtime::Tasks;
use deltaplane_runtime::readiness::Guard;
use deltaplane_store::{Health, Key};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::server::TENANT;
use crate::{ApiServer, StartError};

/// Whoever writes these objects; may write what others may not.
pub(crate) const USER: &str = "system:apiserver";

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Whether everything is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Progress {
    Done,
    /// The store took no writes; what is needed to serve reads is there.
    Unfinished,
}

/// Makes what is missing, or goes on with that as a task if the store takes no writes.
pub(crate) async fn run(server: &ApiServer, tasks: &Tasks) -> Result<(), StartError> {
    if ensure_all(server).await? == Progress::Unfinished {
        tracing::error!("the store takes no writes; what this version adds is written later");
        let guard = server.0.config.readiness.guard("bootstrap");
        let (server, stop) = (server.clone(), tasks.stop());
        tasks.group("bootstrap").spawn(async move {
            stop.unless(finish(server, guard)).await;
        });
    }
    Ok(())
}

/// Makes what is missing, as soon as the store takes writes.
async fn finish(server: ApiServer, guard: Guard) {
    let mut health = server.0.store.health();
    loop {
        if health.now() == Health::Well {
            match ensure_all(&server).await {
                Ok(Progress::Done) => return guard.ready(),
                Ok(Progress::Unfinished) => {}
                Err(error) => tracing::error!(%error, "failed to set up the server"),
            }
        }
        health.changed().await;
    }
}

async fn ensure_all(server: &ApiServer) -> Result<Progress, StartError> {
    let mut progress = Progress::Done;
    for name in NAMESPACES {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        progress = progress.and(ensure(server, "/api/v1/namespaces", namespace).await?);
    }
    for role in roles::cluster_roles() {
        let path = format!("{RBAC}/clusterroles");
        progress = progress.and(ensure(server, &path, role).await?);
    }
    for binding in roles::bindings() {
        let path = format!("{RBAC}/clusterrolebindings");
        progress = progress.and(ensure(server, &path, binding).await?);
    }
    Ok(progress.and(ensure_service(server).await?))
}

// === impl Progress ===

impl Progress {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Done, Self::Done) => Self::Done,
            (Self::Unfinished, _) | (_, Self::Unfinished) => Self::Unfinished,
        }
    }
}

/// The server as a Service, which clients and suites look for.
async fn ensure_service(server: &ApiServer) -> Result<Progress, StartError> {
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
    let made = ensure(server, path, service.clone()).await?;
    if made == Progress::Unfinished {
        return Ok(made);
    }
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
    accept(server, &path, answer, &[StatusCode::OK])
}

/// Creates an object unless it exists.
async fn ensure(server: &ApiServer, path: &str, object: Value) -> Result<Progress, StartError> {
    let answer = send(server, Method::POST, path, "application/json", &object).await?;
    let fine = [StatusCode::CREATED, StatusCode::CONFLICT];
    accept(server, path, answer, &fine)
}

fn accept(
    server: &ApiServer,
    path: &str,
    answer: (StatusCode, Bytes),
    codes: &[StatusCode],
) -> Result<Progress, StartError> {
    let (code, body) = answer;
    if codes.contains(&code) {
        Ok(Progress::Done)
    } else if code == StatusCode::SERVICE_UNAVAILABLE && can_wait(server) {
        Ok(Progress::Unfinished)
    } else {
        Err(StartError::Bootstrap {
            path: path.to_owned(),
            message: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

/// Returns true if the store takes no writes, and was set up before.
fn can_wait(server: &ApiServer) -> bool {
    let store = &server.0.store;
    let is_failing = matches!(store.health().now(), Health::Failing { .. });
    let first = Key::new(TENANT, "namespaces", "", NAMESPACES[0]);
    is_failing && first.is_ok_and(|key| store.get(&key).is_some())
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
