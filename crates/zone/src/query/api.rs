//! The ways to a zone's API.

use bytes::Bytes;
use deltaplane_api::identity::Identity;
use deltaplane_apiserver::{ApiServer, Body, Pieces};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use kube::Client;
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
            Ok(answer.map(|body| {
                let body = body.map_frame(|frame| frame.map_data(Pieces::from));
                body.map_err(Into::into).boxed_unsync()
            }))
        }
        .boxed()
    }
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
}
