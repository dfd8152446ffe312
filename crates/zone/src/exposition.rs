//! What is counted, for who asks by plain HTTP: a cluster's zone has no API of its own to ask.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_controllers::graphs;
use deltaplane_runtime::Stop;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::ZoneError;

/// A listener, and what it shows. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Exposition {
    listener: Arc<TcpListener>,
    registry: Arc<Registry>,
}

/// So many may ask at once.
const CONNECTIONS: usize = 16;
/// So long somebody may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

// === impl Exposition ===

impl Exposition {
    /// Shows what is counted of graphs at this address, if there is one.
    pub(crate) async fn of_graphs(
        metrics: &graphs::Metrics,
        address: Option<SocketAddr>,
    ) -> Result<Option<Self>, ZoneError> {
        let Some(address) = address else {
            return Ok(None);
        };
        let mut registry = Registry::with_prefix("deltaplane");
        metrics.register(&mut registry);
        let bound = Self::bind(address, registry).await;
        let bound = bound.map_err(|source| ZoneError::Metrics { address, source })?;
        Ok(Some(bound))
    }

    async fn bind(address: SocketAddr, registry: Registry) -> io::Result<Self> {
        let listener = Arc::new(TcpListener::bind(address).await?);
        let address = listener.local_addr()?;
        tracing::info!(%address, "serving metrics");
        let registry = Arc::new(registry);
        Ok(Self { listener, registry })
    }

    /// Answers until told to stop.
    pub(crate) async fn run(self, stop: Stop) {
        stop.unless(self.serve()).await;
    }

    async fn serve(&self) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            // It is never closed.
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let registry = self.registry.clone();
                    connections.spawn(async move {
                        answer_all(stream, registry).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection that asks for metrics");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }
}

async fn answer_all(stream: TcpStream, registry: Arc<Registry>) {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = answer(&request, &registry);
        async { Ok::<_, Infallible>(answer) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection that asked for metrics broke");
    }
}

fn answer<B>(request: &Request<B>, registry: &Registry) -> Response<Full<Bytes>> {
    let known = request.method() == Method::GET || request.method() == Method::HEAD;
    let (status, kind, body) = match request.uri().path() {
        _ if !known => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", String::new()),
        "/metrics" => {
            let mut all = String::new();
            match text::encode(&mut all, registry) {
                Ok(()) => (StatusCode::OK, OPEN_METRICS, all),
                Err(_) => (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "text/plain",
                    String::new(),
                ),
            }
        }
        "/healthz" => (StatusCode::OK, "text/plain", "ok".to_owned()),
        _ => (
            StatusCode::NOT_FOUND,
            "text/plain",
            "there are /metrics and /healthz\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use deltaplane_runtime::Tasks;
    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        answer
    }

    #[tokio::test]
    async fn what_is_counted_can_be_asked_for() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (mut registry, counter) = (Registry::default(), Counter::<u64>::default());
        registry.register("turns", "Turns", counter.clone());
        counter.inc();
        let exposition = Exposition::bind(any, registry).await.expect("bound");
        let address = exposition.listener.local_addr().expect("an address");
        let tasks = Tasks::new();
        tasks.spawn("metrics", |stop| exposition.run(stop));
        let metrics = ask(address, "/metrics").await;
        assert!(metrics.starts_with("HTTP/1.0 200 OK"), "{metrics}");
        assert!(metrics.ends_with("turns_total 1\n# EOF\n"), "{metrics}");
        // More than may ask at once, one after the other.
        for _ in 0..CONNECTIONS * 2 {
            let health = ask(address, "/healthz").await;
            assert!(health.ends_with("ok"), "{health}");
        }
        assert!(ask(address, "/").await.starts_with("HTTP/1.0 404"));
        tasks.shutdown(PATIENCE).await.expect("a clean end");
    }
}
