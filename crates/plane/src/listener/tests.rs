mod unread;

use std::sync::OnceLock;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::{http1, http2};
use prometheus_client::metrics::counter::Counter;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use deltaplane_runtime::Tasks;
use deltaplane_runtime::tls::{Leaf, Material};

use super::*;

const GRACE: Duration = Duration::from_secs(5);
/// How an HTTP/2 client begins, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn material() -> &'static Material {
    static MATERIAL: OnceLock<Material> = OnceLock::new();
    MATERIAL.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let names = ["localhost".to_owned()];
        let now = std::time::SystemTime::now();
        Material::open(directory.path(), &names, now).expect("made")
    })
}

/// A server that says who asks, its address, and what it counts.
fn start(limits: Limits) -> (Tasks, SocketAddr, ListenerMetrics) {
    let whoami = tower::service_fn(|request: Request<Incoming>| async move {
        let identity = request.extensions().get::<Identity>();
        let name = identity.map_or("nobody", |identity| &identity.name);
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(name.to_owned()))))
    });
    serve(limits, whoami)
}

fn serve<S, B>(limits: Limits, service: S) -> (Tasks, SocketAddr, ListenerMetrics)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data: Send, Error = Infallible> + Send + 'static,
{
    let tls = ServerConfig::new(&material().server, &[&material().ca]).expect("usable");
    let bound = Bound::new(([127, 0, 0, 1], 0).into()).expect("bound");
    let address = bound.address().expect("bound");
    let listener = bound.listen().expect("listening");
    let tasks = Tasks::new();
    let group = tasks.group("connection");
    let metrics = ListenerMetrics::default();
    let setup = Setup {
        tls,
        limits,
        metrics: metrics.clone(),
        zone_gate: None,
    };
    tasks.spawn("listener", |stop| {
        listener.serve(setup, service, group, stop)
    });
    (tasks, address, metrics)
}

/// Runs the streams of a client.
fn streams(group: &TaskGroup) -> Streams {
    Streams {
        group: group.clone(),
        unread: Limits::default().unread,
    }
}

async fn connect(
    address: SocketAddr,
    user: Option<&Leaf>,
    protocol: &[u8],
) -> io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(material().ca.as_bytes()).expect("PEM");
    roots.add(authority).expect("an authority");
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider's")
        .with_root_certificates(roots);
    let mut config = match user {
        Some(leaf) => {
            let chain = vec![CertificateDer::from_pem_slice(leaf.chain.as_bytes()).expect("PEM")];
            let key = PrivateKeyDer::from_pem_slice(leaf.key.0.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(chain, key).expect("usable")
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

fn request() -> Request<Empty<Bytes>> {
    let request = Request::builder()
        .uri("https://localhost/")
        .header("host", "localhost");
    request.body(Empty::new()).expect("well-formed")
}

async fn text(response: Response<Incoming>) -> String {
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await.expect("complete");
    String::from_utf8(body.to_bytes().to_vec()).expect("text")
}

async fn ask_http1(address: SocketAddr, user: Option<&Leaf>) -> String {
    let stream = connect(address, user, b"http/1.1")
        .await
        .expect("connected");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
    let answer = async move { text(sender.send_request(request()).await.expect("answered")).await };
    tokio::join!(answer, async { connection.await.expect("clean") }).0
}

#[tokio::test]
async fn an_address_is_taken_before_anybody_waits_there() {
    let bound = Bound::new(([127, 0, 0, 1], 0).into()).expect("bound");
    let address = bound.address().expect("bound");
    let refused = TcpStream::connect(address).await.map(drop);
    let refused = refused.map_err(|error| error.kind());
    assert_eq!(refused, Err(io::ErrorKind::ConnectionRefused));
    let _listener = bound.listen().expect("listening");
    TcpStream::connect(address).await.expect("connected");
    let taken = Bound::new(address).map(drop).map_err(|error| error.kind());
    assert_eq!(taken, Err(io::ErrorKind::AddrInUse));
}

#[tokio::test]
async fn clients_are_known_by_their_certificate() {
    let (tasks, address, _) = start(Limits::default());
    assert_eq!(ask_http1(address, Some(&material().admin)).await, "admin");
    assert_eq!(ask_http1(address, None).await, "nobody");
    tasks.shutdown(GRACE).await.expect("clean");
}

#[tokio::test]
async fn http2_runs_in_the_group() {
    let (tasks, address, _) = start(Limits::default());
    let stream = connect(address, Some(&material().admin), b"h2")
        .await
        .expect("connected");
    let group = tasks.group("client");
    let executor = streams(&group);
    let (mut sender, connection) = http2::handshake(executor, TokioIo::new(stream))
        .await
        .expect("HTTP");
    group.spawn(async move { connection.await.expect("clean") });
    let (one, two) = (
        sender.send_request(request()),
        sender.clone().send_request(request()),
    );
    let (one, two) = tokio::join!(one, two);
    assert_eq!(text(one.expect("answered")).await, "admin");
    assert_eq!(text(two.expect("answered")).await, "admin");
    tasks
        .shutdown(GRACE)
        .await
        .expect("clean, although the client keeps its connection");
}

/// Asks by HEAD, then by GET on the same connection; gives the length that HEAD told.
async fn ask_head(protocol: &'static [u8]) -> String {
    let (tasks, address, _) = start(Limits::default());
    let stream = connect(address, Some(&material().admin), protocol)
        .await
        .expect("connected");
    let group = tasks.group("client");
    let stream = TokioIo::new(stream);
    let head = || {
        let mut head = request();
        *head.method_mut() = Method::HEAD;
        head
    };
    let (head, get) = if protocol == b"h2" {
        let executor = streams(&group);
        let (mut sender, connection) = http2::handshake(executor, stream).await.expect("HTTP");
        group.spawn(async move { connection.await.expect("clean") });
        let head = sender.send_request(head()).await.expect("answered");
        let (head, body) = head.into_parts();
        let body = body.collect().await.expect("complete").to_bytes();
        assert!(body.is_empty());
        (head, sender.send_request(request()).await)
    } else {
        let (mut sender, connection) = http1::handshake(stream).await.expect("HTTP");
        group.spawn(async move { connection.await.expect("clean") });
        let head = sender.send_request(head()).await.expect("answered");
        let (head, body) = head.into_parts();
        let body = body.collect().await.expect("complete").to_bytes();
        assert!(body.is_empty());
        (head, sender.send_request(request()).await)
    };
    assert_eq!(text(get.expect("the connection goes on")).await, "admin");
    tasks.shutdown(GRACE).await.expect("clean");
    assert_eq!(head.status, StatusCode::OK);
    let length = head.headers[CONTENT_LENGTH].to_str();
    length.expect("a number").to_owned()
}

#[tokio::test]
async fn head_is_answered_without_a_body() {
    assert_eq!(ask_head(b"http/1.1").await, "5");
    assert_eq!(ask_head(b"h2").await, "5");
}

#[tokio::test]
async fn a_foreign_certificate_is_refused() {
    let (tasks, address, _) = start(Limits::default());
    let other = tempfile::tempdir().expect("a temporary directory");
    let now = std::time::SystemTime::now();
    let other = Material::open(other.path(), &["localhost".to_owned()], now).expect("made");
    // In TLS 1.3 the client learns of it with the first read.
    let refused = match connect(address, Some(&other.admin), b"http/1.1").await {
        Ok(mut stream) => stream.read_u8().await.map(drop),
        Err(error) => Err(error),
    };
    assert!(refused.is_err());
    tasks.shutdown(GRACE).await.expect("clean");
}

/// Connects, says this much, and then nothing; must be cut off.
async fn check_cut(limits: Limits, protocol: &[u8], said: &[u8]) {
    let (tasks, address, _) = start(limits);
    let connected = connect(address, None, protocol).await;
    let mut stream = connected.expect("connected");
    stream.write_all(said).await.expect("it listens");
    // However it ends: a server that cuts off does not say goodbye.
    let ended = tokio::time::timeout(GRACE, stream.read_to_end(&mut Vec::new())).await;
    assert!(ended.is_ok(), "not cut off after {said:?}");
    tasks.shutdown(GRACE).await.expect("clean");
}

#[tokio::test]
async fn silence_is_cut_off() {
    let short = Duration::from_millis(20);
    let (tasks, address, _) = start(Limits {
        handshake: short,
        ..Limits::default()
    });
    let mut silent = TcpStream::connect(address).await.expect("connected");
    let mut buffer = [0; 64];
    let read = tokio::time::timeout(GRACE, silent.read(&mut buffer)).await;
    assert_eq!(read.expect("in time").expect("closed"), 0);
    tasks.shutdown(GRACE).await.expect("clean");

    // Each by the one limit that is short.
    let headers = Limits {
        headers: short,
        ..Limits::default()
    };
    check_cut(headers.clone(), b"http/1.1", b"").await;
    check_cut(headers.clone(), b"http/1.1", b"GET / HTTP/1.1\r\nhost: ").await;
    check_cut(headers, b"h2", b"").await;
    let idle = Limits {
        idle: short,
        ..Limits::default()
    };
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    check_cut(idle, b"http/1.1", request).await;
    let keep_alive = Limits {
        keep_alive: short,
        keep_alive_timeout: short,
        ..Limits::default()
    };
    check_cut(keep_alive, b"h2", PREFACE).await;
}

/// A zone whose machine is gone is known to be away then.
#[tokio::test]
async fn a_peer_that_is_gone_is_cut_off_within_twenty_seconds() {
    let (tasks, address, _) = start(Limits::default());
    let mut stream = connect(address, None, b"h2").await.expect("connected");
    stream.write_all(PREFACE).await.expect("it listens");
    // The header of the server's settings: from here on it asks whether the client is there.
    let mut header = [0; 9];
    stream.read_exact(&mut header).await.expect("it speaks");
    tokio::time::pause();
    let gone = tokio::time::Instant::now();
    // However it ends: pings are read, and not answered.
    let mut pings = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut pings));
    assert!(ended.await.is_ok(), "not cut off");
    let noticed = gone.elapsed();
    assert!(noticed > GRACE, "a busy client has some time: {noticed:?}");
    tokio::time::resume();
    tasks.shutdown(GRACE).await.expect("clean");
}

/// Ends when the counter has counted.
async fn counted(counter: &Counter) {
    let until = async {
        while counter.get() == 0 {
            tokio::task::yield_now().await;
        }
    };
    let counted = tokio::time::timeout(GRACE, until).await;
    counted.expect("in time");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let limits = Limits {
        connections: 1,
        ..Limits::default()
    };
    let (tasks, address, metrics) = start(limits);
    let first = connect(address, None, b"http/1.1")
        .await
        .expect("connected");
    // From here on nothing is accepted until the first has gone.
    counted(&metrics.full).await;
    let second = ask_http1(address, None);
    let mut second = std::pin::pin!(second);
    assert!(futures::poll!(&mut second).is_pending());
    assert_eq!(metrics.connections(), 1);
    drop(first);
    assert_eq!(second.await, "nobody");
    assert_eq!(metrics.connections(), 2);
    tasks.shutdown(GRACE).await.expect("clean");
}

#[tokio::test]
async fn a_client_with_too_many_connections_is_turned_away() {
    let limits = Limits {
        per_loopback: 1,
        ..Limits::default()
    };
    let (tasks, address, metrics) = start(limits);
    let first = connect(address, None, b"http/1.1").await;
    connect(address, None, b"http/1.1")
        .await
        .expect_err("closed at once");
    assert_eq!(metrics.refused.get(), 1);
    drop(first.expect("connected"));
    let again = async {
        // It takes a moment until the server has noticed.
        while connect(address, None, b"http/1.1").await.is_err() {}
    };
    let again = tokio::time::timeout(GRACE, again).await;
    again.expect("a place became free");
    tasks.shutdown(GRACE).await.expect("clean");
}
