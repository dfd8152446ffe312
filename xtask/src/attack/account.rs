//! A user of a hub, over TLS and HTTP/2, with the token of a service account.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// Where a server is, and by whom it is known.
#[derive(Clone)]
pub(super) struct Server {
    address: String,
    roots: Arc<rustls::RootCertStore>,
}

/// Somebody with a token.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) server: Server,
    /// What stands before every path.
    pub(super) prefix: String,
    pub(super) token: String,
}

/// An answer, read whole.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// A connection on which requests can be sent at once.
pub(super) struct Connection {
    account: Account,
    sender: Sender,
}

/// Sends requests for as long as it lives.
struct Sender {
    requests: http2::SendRequest<RequestBody>,
    _connection: JoinSet<()>,
}

type RequestBody = UnsyncBoxBody<Bytes, Infallible>;

/// How much may come on a stream before it is read: as much as clients usually take, or nothing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Window {
    Usual,
    Closed,
}

/// A certificate and its key, PEM.
pub(super) struct ClientCertificate<'a> {
    pub(super) chain: &'a str,
    pub(super) key: &'a str,
}

const JSON: &str = "application/json";
const USUAL_WINDOW: u32 = 1 << 20;
const CONNECT: Duration = Duration::from_secs(10);

// === impl Server ===

impl Server {
    /// That of a kubeconfig's first cluster.
    pub(super) fn of(kubeconfig: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(kubeconfig)
            .with_context(|| format!("reading {}", kubeconfig.display()))?;
        let config: Value = serde_saphyr::from_str(&text).context("reading a kubeconfig")?;
        let cluster = &config["clusters"][0]["cluster"];
        let server = cluster["server"].as_str().context("no server")?;
        let address = server.trim_start_matches("https://");
        let address = address.split('/').next().unwrap_or_default().to_owned();
        let ca = cluster["certificate-authority-data"].as_str();
        let ca = STANDARD.decode(ca.context("no authority")?)?;
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&ca) {
            roots.add(certificate?)?;
        }
        Ok(Self {
            address,
            roots: Arc::new(roots),
        })
    }

    async fn connect(
        &self,
        window: Window,
        certificate: Option<ClientCertificate<'_>>,
    ) -> Result<Sender> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(Arc::clone(&self.roots));
        let mut tls = match certificate {
            None => builder.with_no_client_auth(),
            Some(ClientCertificate { chain, key }) => {
                let chain = CertificateDer::pem_slice_iter(chain.as_bytes());
                let chain = chain.collect::<Result<Vec<_>, _>>()?;
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
                builder.with_client_auth_cert(chain, key)?
            }
        };
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let host = self.address.rsplit_once(':').map_or("", |(host, _)| host);
        let name = ServerName::try_from(host.to_owned()).map_err(|error| anyhow!(error))?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream);
        let stream = tokio::time::timeout(CONNECT, stream).await??;
        let window = match window {
            Window::Usual => USUAL_WINDOW,
            Window::Closed => 0,
        };
        let (requests, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .handshake(TokioIo::new(stream))
            .await?;
        let mut running = JoinSet::new();
        running.spawn(async move {
            // Whoever waits for an answer hears of it.
            let _ = connection.await;
        });
        Ok(Sender {
            requests,
            _connection: running,
        })
    }

    /// What is answered to whoever shows a certificate and no token.
    pub(super) async fn get_by_certificate(
        &self,
        certificate: ClientCertificate<'_>,
        path: &str,
    ) -> Result<Answer> {
        let mut sender = self.connect(Window::Usual, Some(certificate)).await?;
        let request = Request::get(format!("https://{}{path}", self.address))
            .header(ACCEPT, JSON)
            .body(empty())?;
        whole(sender.requests.send_request(request).await?).await
    }
}

// === impl Account ===

impl Account {
    pub(super) async fn connect(&self, window: Window) -> Result<Connection> {
        Ok(Connection {
            account: self.clone(),
            sender: self.server.connect(window, None).await?,
        })
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, JSON, Bytes::new()).await
    }

    pub(super) async fn post(&self, path: &str, object: &Value) -> Result<Answer> {
        let body = object.to_string().into();
        self.send(Method::POST, path, JSON, body).await
    }

    pub(super) async fn patch(&self, path: &str, change: &Value) -> Result<Answer> {
        let merge = "application/merge-patch+json";
        let body = change.to_string().into();
        self.send(Method::PATCH, path, merge, body).await
    }

    /// Asks with these headers beside the usual ones.
    pub(super) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        let mut connection = self.connect(Window::Usual).await?;
        let mut request = self.request(Method::GET, path)?;
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header(ACCEPT, JSON).body(empty())?;
        whole(connection.sender.requests.send_request(request).await?).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Answer> {
        let mut connection = self.connect(Window::Usual).await?;
        let request = self.request(method, path)?;
        let request = request.header(CONTENT_TYPE, content_type);
        let request = request.body(Full::new(body).boxed_unsync())?;
        let answer = connection.sender.requests.send_request(request).await?;
        whole(answer).await
    }

    fn request(&self, method: Method, path: &str) -> Result<http::request::Builder> {
        let url = format!("https://{}{}{path}", self.server.address, self.prefix);
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header(AUTHORIZATION, format!("Bearer {}", self.token));
        Ok(request)
    }
}

// === impl Connection ===

impl Connection {
    /// Asks for something; the head of the answer, whose body nobody reads.
    pub(super) async fn begin_get(
        &mut self,
        path: &str,
        accept: &str,
    ) -> Result<impl Future<Output = hyper::Result<Response<Incoming>>> + use<>> {
        self.sender.requests.ready().await?;
        let request = self.account.request(Method::GET, path)?;
        let request = request.header(ACCEPT, accept).body(empty())?;
        Ok(self.sender.requests.send_request(request))
    }

    /// Begins to send an object, and never ends.
    pub(super) async fn begin_post(
        &mut self,
        path: &str,
    ) -> Result<impl Future<Output = hyper::Result<Response<Incoming>>> + use<>> {
        self.sender.requests.ready().await?;
        let first = Ok(Frame::data(Bytes::from_static(b"{\"kind\":")));
        let frames = futures::stream::iter([first]);
        let frames = futures::StreamExt::chain(frames, futures::stream::pending());
        let body = StreamBody::new(frames).boxed_unsync();
        let request = self.account.request(Method::POST, path)?;
        let request = request.header(CONTENT_TYPE, JSON).body(body)?;
        Ok(self.sender.requests.send_request(request))
    }
}

// === impl Answer ===

impl Answer {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Its status, and the message of the Status that it has.
    pub(super) fn brief(&self) -> String {
        let status: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let message = status["message"].as_str().unwrap_or_default();
        let line = message.lines().next().unwrap_or_default();
        format!("{} {:.100}", self.status.as_u16(), line)
    }
}

fn empty() -> RequestBody {
    Full::new(Bytes::new()).boxed_unsync()
}

async fn whole(answer: Response<Incoming>) -> Result<Answer> {
    let (parts, body) = answer.into_parts();
    Ok(Answer {
        status: parts.status,
        headers: parts.headers,
        body: body.collect().await?.to_bytes(),
    })
}
