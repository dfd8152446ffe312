//! Requests that are not for the API, and who takes them.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::{self, BoxFuture};
use futures::{FutureExt, TryFutureExt};
use http::{Request, Response};
use http_body_util::Either;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use tower::{BoxError, Service};

use deltaplane_apiserver::{ApiServer, Body, Pieces};

/// The body of an answer that is not the API's.
pub type RouteBody = UnsyncBoxBody<Pieces, BoxError>;

/// Takes some requests before the API sees them. The identity of a client certificate is in a
/// request's extensions.
pub trait Route: Send + Sync {
    /// Whether it takes requests with this path.
    fn takes(&self, path: &str) -> bool;
    fn answer(&self, request: Request<Incoming>) -> BoxFuture<'static, Response<RouteBody>>;
}

type Answer = Response<Either<Body, RouteBody>>;
type FromRoute = future::Map<
    BoxFuture<'static, Response<RouteBody>>,
    fn(Response<RouteBody>) -> Result<Answer, Infallible>,
>;
type FromApi =
    future::MapOk<<ApiServer as Service<Request<Incoming>>>::Future, fn(Response<Body>) -> Answer>;

/// The API, and what goes elsewhere.
#[derive(Clone)]
pub(crate) struct Routed {
    api: ApiServer,
    routes: Arc<[Arc<dyn Route>]>,
}

// === impl Routed ===

impl Routed {
    pub(crate) fn new(api: ApiServer, routes: Vec<Arc<dyn Route>>) -> Self {
        let routes = routes.into();
        Self { api, routes }
    }
}

impl Service<Request<Incoming>> for Routed {
    type Response = Answer;
    type Error = Infallible;
    type Future = future::Either<FromRoute, FromApi>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Turns are taken per request, behind this.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let path = request.uri().path();
        let route = self.routes.iter().find(|route| route.takes(path));
        if let Some(route) = route {
            let routed: fn(_) -> _ = |answer: Response<_>| Ok(answer.map(Either::Right));
            return future::Either::Left(route.answer(request).map(routed));
        }
        let answered: fn(_) -> _ = |answer: Response<_>| answer.map(Either::Left);
        future::Either::Right(self.api.call(request).map_ok(answered))
    }
}
