//! The ways to a zone's API.

use bytes::Bytes;
use deltaplane_api::identity::Identity;
use deltaplane_apiserver::{ApiServer, Body, Error, Pieces};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited};
use kube::Client;
use serde_json::Value;
use tower::{BoxError, ServiceExt};

use super::reading::Reading;

/// The body of an answer.
pub type ApiBody = UnsyncBoxBody<Pieces, BoxError>;

/// Reads from the zone's API as somebody whom the API decides about. It cannot write.
pub trait ZoneApi: Send + Sync {
    fn read(&self, reading: Reading) -> BoxFuture<'static, Result<Response<ApiBody>, ApiError>>;
}

/// The API could not be asked, or broke off.
#[derive(Debug, thiserror::Error)]
#[error("failed to ask the zone's API")]
pub struct ApiError(#[source] pub BoxError);

/// An API in this process.
#[derive(Clone)]
pub struct Embedded(pub ApiServer);

/// The API of an existing cluster. Whoever the client is must be allowed to impersonate there.
#[derive(Clone)]
pub struct Cluster(pub Client);

/// No refusal of a cluster is larger.
const LARGEST_REFUSAL: usize = 64 << 10;

/// What a cluster zone needs so that users of the hub can read from it.
const MISSING_RIGHT: &str = "the zone's agent lacks the right to impersonate users and groups in its cluster; add --impersonate to `deltaplane zone manifest` and apply it there";

const OUR_NAME: HeaderValue = HeaderValue::from_static("deltaplane");

// === impl Embedded ===

impl ZoneApi for Embedded {
    fn read(&self, reading: Reading) -> BoxFuture<'static, Result<Response<ApiBody>, ApiError>> {
        let api = self.0.clone();
        async move {
            let mut request = request(&reading, Empty::<Bytes>::new())?;
            request.extensions_mut().insert::<Identity>(reading.user);
            match api.oneshot(request).await {
                Ok(answer) => Ok(answer.map(boxed)),
                Err(never) => match never {},
            }
        }
        .boxed()
    }
}

pub(super) fn boxed(body: Body) -> ApiBody {
    body.map_err(Into::into).boxed_unsync()
}

// === impl Cluster ===

impl ZoneApi for Cluster {
    fn read(&self, reading: Reading) -> BoxFuture<'static, Result<Response<ApiBody>, ApiError>> {
        let client = self.0.clone();
        async move {
            let mut request = request(&reading, kube::client::Body::empty())?;
            let headers = request.headers_mut();
            headers.insert("impersonate-user", legal(&reading.user.name)?);
            for group in &reading.user.groups {
                headers.append("impersonate-group", legal(group)?);
            }
            let answer = client.send(request).await;
            let answer = answer.map_err(|error| ApiError(error.into()))?;
            if answer.status() == StatusCode::FORBIDDEN {
                return named(answer).await;
            }
            Ok(answer.map(|body| {
                let body = body.map_frame(|frame| frame.map_data(Pieces::from));
                body.map_err(Into::into).boxed_unsync()
            }))
        }
        .boxed()
    }
}

/// Names the right that the agent lacks, if a cluster refuses that it asks for somebody else. What
/// it refuses to that user is passed on as it is.
async fn named(answer: Response<kube::client::Body>) -> Result<Response<ApiBody>, ApiError> {
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, LARGEST_REFUSAL).collect().await;
    let body = body.map_err(ApiError)?.to_bytes();
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = status["message"].as_str().unwrap_or_default();
    if !said.contains("cannot impersonate resource") {
        let body = Full::new(body).map_frame(|frame| frame.map_data(Pieces::from));
        let body = body.map_err(|never| match never {}).boxed_unsync();
        return Ok(Response::from_parts(parts, body));
    }
    let refusal = Error::forbidden_path("the zone", &format!("{MISSING_RIGHT} ({said})"));
    Ok(refusal.response().map(boxed))
}

fn request<B>(reading: &Reading, body: B) -> Result<Request<B>, ApiError> {
    let request = Request::get(reading.path.as_str()).header(USER_AGENT, OUR_NAME);
    let request = match &reading.accept {
        Some(accept) => request.header(ACCEPT, accept),
        None => request,
    };
    request.body(body).map_err(|error| ApiError(error.into()))
}

/// A name that cannot be said must not be left out: the request would be somebody else's.
fn legal(name: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_bytes(name.as_bytes()).map_err(|error| ApiError(error.into()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    fn reading(user: &str) -> Reading {
        Reading {
            path: "/api/v1/pods?limit=5".parse().unwrap(),
            accept: Some(HeaderValue::from_static("application/json")),
            user: Identity::authenticated(user, &["ops"]),
        }
    }

    #[tokio::test]
    async fn clusters_decide_about_the_user_who_asks() {
        let seen = Arc::new(Mutex::new(None));
        let server = tower::service_fn({
            let seen = seen.clone();
            move |request: Request<kube::client::Body>| {
                let line = format!("{} {}", request.method(), request.uri());
                *seen.lock() = Some((line, request.headers().clone()));
                async { Ok::<_, Infallible>(Response::new("pods".to_owned())) }
            }
        });
        let cluster = Cluster(Client::new(server, "default"));
        let answer = cluster.read(reading("ánna")).await.unwrap();
        let body = answer.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "pods");
        let (line, headers) = seen.lock().take().expect("asked");
        assert_eq!(line, "GET /api/v1/pods?limit=5");
        assert_eq!(headers["accept"], "application/json");
        assert_eq!(headers["impersonate-user"].as_bytes(), "ánna".as_bytes());
        let groups: Vec<_> = headers.get_all("impersonate-group").iter().collect();
        assert_eq!(groups, ["ops", "system:authenticated"]);

        let error = cluster.read(reading("an\nna")).await;
        assert!(error.is_err());
        assert!(seen.lock().is_none(), "nobody is asked as somebody else");
    }

    #[tokio::test]
    async fn a_cluster_that_does_not_let_the_agent_impersonate_is_named() {
        let refusing = |message: &'static str| {
            let server = tower::service_fn(move |_: Request<kube::client::Body>| async move {
                let status = serde_json::json!({"kind": "Status", "code": 403, "message": message});
                let refusal = Response::builder().status(403).body(status.to_string());
                Ok::<_, Infallible>(refusal.expect("a response"))
            });
            Cluster(Client::new(server, "default"))
        };
        let said = async |message: &'static str| {
            let answer = refusing(message).read(reading("anna")).await.unwrap();
            assert_eq!(answer.status(), 403);
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let status: Value = serde_json::from_slice(&body).unwrap();
            status["message"].as_str().unwrap_or_default().to_owned()
        };
        let lacks = "users \"anna\" is forbidden: User \"agent\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope";
        let named = said(lacks).await;
        assert!(
            named.contains("lacks the right to impersonate users and groups"),
            "{named}"
        );
        assert!(named.contains("zone manifest"), "{named}");
        assert!(named.contains("--impersonate"), "{named}");
        let own = "pods is forbidden: User \"anna\" cannot list resource \"pods\"";
        assert_eq!(said(own).await, own);
    }
}
