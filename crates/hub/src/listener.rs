//! TLS connections, each with its identity, served until the hub drains.
//!
//! Not here: authentication by token, authorization, what a request means (the API server).
//!
//! Invariants: a connection beyond the limit waits in the kernel's queue and costs nothing here; a
//! client that does not finish its handshake or its headers is cut off; only a verified client
//! certificate puts an [`Identity`] into a request.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tower::{Service, ServiceExt};

use deltaplane_api::identity::Identity;
use deltaplane_runtime::tls::ServerConfig;
use deltaplane_runtime::{Stop, TaskGroup};

use crate::certificate;
use crate::metrics::Metrics;

/// What a client may take before it is cut off.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at one time.
    pub connections: usize,
    /// Requests at one time on one HTTP/2 connection.
    pub streams: u32,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time between requests of an HTTP/1 connection, and for the headers of each.
    pub headers: Duration,
    /// How often an HTTP/2 client is asked whether it is still there.
    pub keep_alive: Duration,
    /// How long it may take to answer that.
    pub keep_alive_timeout: Duration,
}

/// A bound address that is not yet served.
pub(crate) struct Listener {
    socket: TcpListener,
}

/// How connections are served.
pub(crate) struct Setup {
    pub(crate) tls: ServerConfig,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
}

/// What every connection needs.
struct Front {
    acceptor: TlsAcceptor,
    protocols: Protocols,
    limits: Limits,
    stop: Stop,
    metrics: Metrics,
}

/// Who is at the other end.
struct Peer {
    /// Who the client is, by its certificate.
    identity: Option<Identity>,
    address: SocketAddr,
}

/// What the handshake may have agreed on. Finding out from the first bytes instead would wait for
/// them without a limit.
struct Protocols {
    http1: Builder<Streams>,
    http2: Builder<Streams>,
}

/// Lets hyper run the requests of an HTTP/2 connection as tasks that somebody owns.
#[derive(Clone)]
struct Streams(TaskGroup);

/// The kernel's queue of connections that are not yet accepted.
const BACKLOG: u32 = 1024;
/// How long to wait when the process cannot take a connection, such as for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What a client may send on one HTTP/2 stream before we read it: enough for most bodies.
const WINDOW: u32 = 1 << 20;
/// For the headers of one request.
const HEADER_BYTES: u32 = 128 << 10;

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            streams: 250,
            handshake: Duration::from_secs(10),
            headers: Duration::from_secs(90),
            keep_alive: Duration::from_secs(30),
            keep_alive_timeout: Duration::from_secs(20),
        }
    }
}

// === impl Listener ===

impl Listener {
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let socket = socket.listen(BACKLOG)?;
        Ok(Self { socket })
    }

    /// The address, with the port that was chosen.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves connections as tasks of `group` until `stop`; then those that exist finish what
    /// they are doing, as tasks of the group still.
    pub(crate) async fn serve<S, B>(self, setup: Setup, service: S, group: TaskGroup, stop: Stop)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
        B: http_body::Body<Data: Send> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Self { socket } = self;
        let Setup {
            tls,
            limits,
            metrics,
        } = setup;
        let front = Arc::new(Front {
            acceptor: TlsAcceptor::from(tls.rustls()),
            protocols: Protocols::new(&limits, &group),
            limits,
            stop: stop.clone(),
            metrics,
        });
        let places = Arc::new(Semaphore::new(front.limits.connections));
        while let Some((stream, peer, place)) = stop.unless(accept(&socket, &places)).await {
            let (front, service) = (front.clone(), service.clone());
            group.spawn(async move {
                let _place = place;
                let _open = front.metrics.connection();
                if let Err(error) = front.connection(stream, peer, service).await {
                    tracing::debug!(%peer, error = &*error, "connection lost");
                }
            });
        }
    }
}

// === impl Front ===

impl Front {
    async fn connection<S, B>(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        service: S,
    ) -> Result<(), Box<dyn Error + Send + Sync>>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone,
        S: Send + 'static,
        S::Future: Send + 'static,
        B: http_body::Body<Data: Send> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let accept = self.acceptor.accept(stream);
        let accepted = tokio::time::timeout(self.limits.handshake, accept).await;
        let stream = accepted
            .map_err(io::Error::from)
            .flatten()
            .inspect_err(|_| {
                self.metrics.handshake_failures.inc();
            })?;
        let (_, session) = stream.get_ref();
        let shown = session.peer_certificates().and_then(|chain| chain.first());
        let identity = shown.and_then(|leaf| certificate::identity(leaf));
        let builder = self.protocols.negotiated(session.alpn_protocol());
        let asked = Arc::new(AtomicBool::new(false));
        let service = identified(
            service,
            Peer {
                identity,
                address: peer,
            },
            asked.clone(),
        );
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        // Beyond its first request a connection has limits of its own.
        let mut patience = pin!(tokio::time::sleep(self.limits.headers));
        let mut waiting = true;
        loop {
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = self.stop.wait() => break,
                () = &mut patience, if waiting => {
                    if !asked.load(Ordering::Relaxed) {
                        return Err("no request came".into());
                    }
                    waiting = false;
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    }
}

async fn accept(
    socket: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    let place = places.clone().acquire_owned().await;
    let place = place.expect("the semaphore is never closed");
    loop {
        match socket.accept().await {
            Ok((stream, peer)) => {
                // Without it small answers wait for an acknowledgement. It cannot fail on a
                // connection that is alive, and one that is not shows at the first read.
                let _ = stream.set_nodelay(true);
                return (stream, peer, place);
            }
            Err(error) if concerns_one(&error) => {
                tracing::debug!(%error, "connection lost before it was accepted");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether the error is that of the connection, and not of the listener.
fn concerns_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// The service, told with each request who is at the other end.
fn identified<S, B>(
    service: S,
    peer: Peer,
    asked: Arc<AtomicBool>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response<B>,
    Error = Infallible,
    Future: Send,
>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send,
    S::Future: Send,
    B: http_body::Body,
{
    service_fn(move |mut request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        let extensions = request.extensions_mut();
        extensions.insert(peer.address);
        if let Some(identity) = &peer.identity {
            extensions.insert(identity.clone());
        }
        service.clone().oneshot(request)
    })
}

// === impl Protocols ===

impl Protocols {
    fn new(limits: &Limits, group: &TaskGroup) -> Self {
        let mut builder = Builder::new(Streams(group.clone()));
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.headers)
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(HEADER_BYTES)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(4 * WINDOW)
            .keep_alive_interval(limits.keep_alive)
            .keep_alive_timeout(limits.keep_alive_timeout);
        Self {
            http1: builder.clone().http1_only(),
            http2: builder.http2_only(),
        }
    }

    fn negotiated(&self, protocol: Option<&[u8]>) -> &Builder<Streams> {
        match protocol {
            Some(b"h2") => &self.http2,
            Some(_) | None => &self.http1,
        }
    }
}

// === impl Streams ===

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

#[cfg(test)]
mod tests;
