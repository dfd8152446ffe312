//! TLS connections, each with its identity, served until the hub drains.
//!
//! Not here: authentication by token, authorization, what a request means (the API server).
//!
//! Invariants: a connection beyond the limit waits in the kernel's queue and costs nothing here; one
//! client cannot take the places of all (`places`); a client that does not finish its handshake or
//! its headers is cut off, and an answer ends whose client does not read it; only a verified client certificate puts an [`Identity`] into a request,
//! and that of a zone only while the zone may connect.

mod places;

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::{Service, ServiceExt};

use deltaplane_api::identity::Identity;
use deltaplane_runtime::identity::{ZoneKeyFingerprint, ZoneSubject, zone_of};
use deltaplane_runtime::tls::ServerConfig;
use deltaplane_runtime::transit::Stalled;
use deltaplane_runtime::{Clock, Stop, TaskGroup, TransitMonitor};

use crate::certificate;
use crate::metrics::ListenerMetrics;

use places::{Episode, Free, Place, Places};

/// What a client may take before it is cut off.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at one time.
    pub connections: usize,
    /// Those of one client, by its address; never more than half of all.
    pub per_client: usize,
    /// Those of all clients on this machine; never more than four fifths of all.
    pub per_loopback: usize,
    /// Requests at one time on one HTTP/2 connection.
    pub streams: u32,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time from the handshake to the end of the first request's headers.
    pub headers: Duration,
    /// Time between requests of an HTTP/1 connection, with the headers of the next. Longer than
    /// clients keep idle connections, so that none sends a request into one that is being closed.
    pub idle: Duration,
    /// How often an HTTP/2 client is asked whether it is still there.
    pub keep_alive: Duration,
    /// How long it may take to answer that.
    pub keep_alive_timeout: Duration,
    /// How long a client may take nothing of an answer that is in transit to it. Then the answer is
    /// ended, within twice this time: its stream is reset, or its HTTP/1 connection closed.
    pub unread: Duration,
}

/// An address that is ours, where connections are still refused: whoever knocks should go
/// elsewhere, or come back, and not wait for a hub that is not there yet.
pub(crate) struct Bound {
    socket: TcpSocket,
}

/// An address where connections wait to be served.
pub(crate) struct Listener {
    socket: TcpListener,
}

/// How connections are served.
pub(crate) struct Setup {
    pub(crate) tls: ServerConfig,
    pub(crate) limits: Limits,
    pub(crate) metrics: ListenerMetrics,
    pub(crate) zone_gate: Option<Arc<dyn ZoneGate>>,
}

/// Says whether the certificate of a zone counts: it outlives the zone that it was made for.
pub trait ZoneGate: Send + Sync {
    /// Returns true if the certificate counts now.
    fn admits(&self, zone: &ZoneSubject) -> bool;

    /// Ends when the certificate does not count any more.
    fn revoked(&self, zone: ZoneSubject) -> BoxFuture<'static, ()>;
}

/// What every connection needs.
struct Front {
    acceptor: TlsAcceptor,
    protocols: Protocols,
    limits: Limits,
    stop: Stop,
    metrics: ListenerMetrics,
    zone_gate: Option<Arc<dyn ZoneGate>>,
}

/// Takes connections, and says when it cannot.
struct Door {
    socket: TcpListener,
    places: Places,
    metrics: ListenerMetrics,
    full: Episode,
    greedy: Episode,
    broken: Episode,
}

/// Who is at the other end.
struct Peer {
    /// Who the client is, by its certificate.
    identity: Option<Identity>,
    /// Which zone it is, by its certificate, if it is one.
    zone: Option<ZoneSubject>,
    zone_key: Option<ZoneKeyFingerprint>,
    zone_gate: Option<Arc<dyn ZoneGate>>,
    address: SocketAddr,
}

/// What the handshake may have agreed on. Finding out from the first bytes instead would wait for
/// them without a limit.
struct Protocols {
    http1: Builder<Streams>,
    http2: Builder<Streams>,
}

/// Lets hyper run the requests of an HTTP/2 connection as tasks that somebody owns, each of which
/// ends when its client does not read the answer.
#[derive(Clone)]
struct Streams {
    group: TaskGroup,
    unread: Duration,
}

tokio::task_local! {
    /// Follows what is in transit from the task of an HTTP/2 stream or an HTTP/1 connection. It is
    /// in the extensions of each request, for the bodies of answers.
    static TRANSIT: TransitMonitor;
}

/// The kernel's queue of connections that are not yet accepted.
const BACKLOG: u32 = 1024;
/// How long to wait when the process cannot take a connection, such as for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What a client may send on one HTTP/2 stream before we read it: enough for most bodies.
const WINDOW: u32 = 1 << 20;
/// For the headers of one request.
const HEADER_BYTES: u32 = 128 << 10;
/// How long a client whose certificate does not count any more may read why.
const LAST_WORDS: Duration = Duration::from_secs(5);

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            // Many clients can share an address, behind a gateway or a load balancer.
            per_client: 2_500,
            per_loopback: 8_000,
            streams: 250,
            handshake: Duration::from_secs(10),
            headers: Duration::from_secs(30),
            idle: Duration::from_secs(95),
            keep_alive: Duration::from_secs(10),
            keep_alive_timeout: Duration::from_secs(5),
            unread: Duration::from_secs(30),
        }
    }
}

// === impl Bound ===

impl Bound {
    /// Fails if somebody listens there.
    pub(crate) fn new(address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { socket })
    }

    /// The address, with the port that was chosen.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Fails if somebody else who had bound the address listens by now.
    pub(crate) fn listen(self) -> io::Result<Listener> {
        let socket = self.socket.listen(BACKLOG)?;
        Ok(Listener { socket })
    }
}

// === impl Listener ===

impl Listener {
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
        let Setup {
            tls,
            limits,
            metrics,
            zone_gate,
        } = setup;
        let mut door = Door {
            socket: self.socket,
            places: Places::new(limits.clone()),
            metrics: metrics.clone(),
            full: Episode::default(),
            greedy: Episode::default(),
            broken: Episode::default(),
        };
        let front = Arc::new(Front {
            acceptor: TlsAcceptor::from(tls.rustls()),
            protocols: Protocols::new(&limits, &group),
            limits,
            stop: stop.clone(),
            metrics,
            zone_gate,
        });
        while let Some((stream, peer, place)) = stop.unless(door.next()).await {
            let (front, service) = (front.clone(), service.clone());
            group.spawn(async move {
                let _place = place;
                let _open = front.metrics.connection();
                let connection = front.connection(stream, peer, service);
                let ended = guarded(front.limits.unread, connection).await;
                if let Err(error) = ended.map_err(Into::into).flatten() {
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
        let zone = shown.and_then(|leaf| zone_of(leaf));
        let zone_key = shown.and_then(|leaf| ZoneKeyFingerprint::of_certificate(leaf));
        let revoked = self.revoked(zone.as_ref());
        let expires = shown.and_then(|leaf| certificate::expires(leaf));
        let builder = self.protocols.negotiated(session.alpn_protocol());
        let asked = Arc::new(AtomicBool::new(false));
        let service = identified(
            service,
            Peer {
                identity,
                zone,
                zone_key,
                zone_gate: self.zone_gate.clone(),
                address: peer,
            },
            asked.clone(),
        );
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        // Beyond its first request a connection has limits of its own.
        let mut patience = pin!(tokio::time::sleep(self.limits.headers));
        let mut waiting = true;
        let mut revoked = pin!(revoked);
        let mut over = pin!(async {
            match expires {
                Some(at) => Clock::system().sleep_until(at).await,
                None => std::future::pending().await,
            }
        });
        let last_words = loop {
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = self.stop.wait() => break None,
                () = &mut revoked => break Some(LAST_WORDS),
                () = &mut over => return Err("the client's certificate has expired".into()),
                () = &mut patience, if waiting => {
                    if !asked.load(Ordering::Relaxed) {
                        return Err("no request came".into());
                    }
                    waiting = false;
                }
            }
        };
        connection.as_mut().graceful_shutdown();
        match last_words {
            None => connection.await,
            Some(limit) => {
                let ended = tokio::time::timeout(limit, connection).await;
                ended.unwrap_or_else(|_| {
                    Err("the zone's certificate does not count any more".into())
                })
            }
        }
    }

    /// Ends when the certificate of a zone does not count any more; never for other clients.
    fn revoked(&self, zone: Option<&ZoneSubject>) -> BoxFuture<'static, ()> {
        match (&self.zone_gate, zone) {
            (Some(gate), Some(zone)) if gate.admits(zone) => gate.revoked(zone.clone()),
            // One that does not count from the beginning is told so, request by request.
            _ => std::future::pending().boxed(),
        }
    }
}

// === impl Door ===

impl Door {
    /// The next connection that may be served.
    async fn next(&mut self) -> (TcpStream, SocketAddr, Place) {
        loop {
            let free = self.free().await;
            let (stream, peer) = self.accept().await;
            if let Some(place) = self.places.give(free, peer.ip()) {
                // Without it small answers wait for an acknowledgement. It cannot fail on a
                // connection that is alive, and one that is not shows at the first read.
                let _ = stream.set_nodelay(true);
                return (stream, peer, place);
            }
            self.metrics.refused.inc();
            if self.greedy.happened(Instant::now()) {
                tracing::warn!(%peer, "a client has too many connections; further ones are closed");
            }
        }
    }

    async fn free(&mut self) -> Free {
        if let Some(free) = self.places.try_free() {
            return free;
        }
        self.metrics.full.inc();
        if self.full.happened(Instant::now()) {
            let hint = "look for clients that leak connections, and at the limit of open files";
            tracing::warn!(
                hint,
                "the limit of connections is reached; further ones wait"
            );
        }
        self.places.free().await
    }

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if concerns_one(&error) => {
                    tracing::debug!(%error, "connection lost before it was accepted");
                }
                Err(error) => {
                    self.metrics.accept_failures.inc();
                    if self.broken.happened(Instant::now()) {
                        tracing::warn!(%error, "cannot accept connections; they wait");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
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
    Response = Response<Either<B, Empty<B::Data>>>,
    Error = Infallible,
    Future: Send,
>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send,
    S::Future: Send,
    B: http_body::Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    service_fn(move |mut request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        let extensions = request.extensions_mut();
        extensions.insert(peer.address);
        if let Some(identity) = peer.identity() {
            extensions.insert(identity.clone());
        }
        if let Some(zone) = &peer.zone {
            extensions.insert(zone.clone());
        }
        if let Some(key) = peer.zone_key {
            extensions.insert(key);
        }
        let service = service.clone();
        // Polled by the task that sends the answer.
        async move {
            if let Ok(transit) = TRANSIT.try_with(TransitMonitor::clone) {
                request.extensions_mut().insert(transit);
            }
            let is_head = request.method() == Method::HEAD;
            let answer = service.oneshot(request).await?;
            Ok(if is_head {
                bodiless(answer)
            } else {
                answer.map(Either::Left)
            })
        }
    })
}

/// Runs a task that sends answers, until it ends or its client does not read.
async fn guarded<F: Future>(unread: Duration, task: F) -> Result<F::Output, Stalled> {
    let transit = TransitMonitor::default();
    let task = TRANSIT.scope(transit.clone(), task);
    transit.guard(unread, task).await
}

/// The answer to a HEAD request: what GET would be answered, without the body. Over HTTP/1 hyper
/// does that itself; over HTTP/2 it sends the body, which clients take for a protocol error.
fn bodiless<B: http_body::Body>(answer: Response<B>) -> Response<Either<B, Empty<B::Data>>> {
    let length = answer.body().size_hint().exact();
    let mut answer = answer.map(|_| Either::Right(Empty::new()));
    if let Some(length) = length {
        let headers = answer.headers_mut();
        headers.entry(CONTENT_LENGTH).or_insert(length.into());
    }
    answer
}

// === impl Peer ===

impl Peer {
    /// Who the client is. Whoever shows the certificate of a zone that is disabled or gone is nobody
    /// to the API; the sync services say why it does not count.
    fn identity(&self) -> Option<&Identity> {
        let counts = match (&self.zone, &self.zone_gate) {
            (None, _) => true,
            (Some(zone), Some(gate)) => gate.admits(zone),
            (Some(_), None) => false,
        };
        self.identity.as_ref().filter(|_| counts)
    }
}

// === impl Protocols ===

impl Protocols {
    fn new(limits: &Limits, group: &TaskGroup) -> Self {
        let mut builder = Builder::new(Streams {
            group: group.clone(),
            unread: limits.unread,
        });
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle)
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
        let unread = self.unread;
        self.group.spawn(async move {
            if let Err(stalled) = guarded(unread, future).await {
                tracing::debug!(%stalled, "stream reset");
            }
        });
    }
}

#[cfg(test)]
mod tests;
