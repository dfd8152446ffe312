//! One TLS connection to the hub, which carries everything.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_runtime::identity::HubUrl;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::sync_client::SyncClient;
use deltaplane_sync_grpc::{MAX_MESSAGE, MAX_PART};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::codec::CompressionEncoding;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

/// How a connection behaves.
#[derive(Clone, Copy, Debug)]
pub struct LinkConfig {
    /// How long connecting may take.
    pub connect: Duration,
    /// How often the hub is asked whether it is still there.
    pub keep_alive: Duration,
    /// How long it may take to answer that.
    pub keep_alive_timeout: Duration,
    /// Compresses objects, reports and answers, both ways.
    pub compress: bool,
}

/// What can be asked of the hub.
pub type Client = SyncClient<Channel>;

/// What a stream may have sent before it is read: as much as one response holds.
const WINDOW: u32 = 2 << 20;

// === impl LinkConfig ===

impl LinkConfig {
    /// Compresses what is sent, if that is configured.
    pub(crate) fn compress_sent(self, client: Client) -> Client {
        if self.compress {
            client.send_compressed(CompressionEncoding::Gzip)
        } else {
            client
        }
    }

    /// Lets the hub compress what it sends, if that is configured. For streams on which only parts
    /// come: what they become is bounded.
    pub(crate) fn compress_received(self, client: Client) -> Client {
        if self.compress {
            client.accept_compressed(CompressionEncoding::Gzip)
        } else {
            client
        }
    }
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            keep_alive: Duration::from_secs(10),
            keep_alive_timeout: Duration::from_secs(5),
            compress: true,
        }
    }
}

/// Takes subscriptions of the hub, which are larger than other messages. For a stream on which the hub
/// compresses nothing.
pub(crate) fn take_subscriptions(client: Client) -> Client {
    client.max_decoding_message_size(MAX_MESSAGE)
}

/// Connects to the hub. The client compresses nothing and takes no message that is larger than a part;
/// each stream widens this as it needs (`compress_sent`, `compress_received`, `take_subscriptions`).
pub async fn connect(
    url: &HubUrl,
    tls: ClientConfig,
    config: LinkConfig,
) -> Result<Client, tonic::transport::Error> {
    let (host, port) = (url.host().to_owned(), url.port());
    let connector = TlsConnector::from(Arc::new(tls));
    // The connector speaks TLS; the endpoint's scheme would only ask for another on top.
    let endpoint = Endpoint::from_shared(url.as_str().replacen("https", "http", 1))?
        .connect_timeout(config.connect)
        .http2_keep_alive_interval(config.keep_alive)
        .keep_alive_timeout(config.keep_alive_timeout)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW);
    let channel = endpoint
        .connect_with_connector(service_fn(move |_: Uri| {
            let (host, connector) = (host.clone(), connector.clone());
            async move { Ok::<_, io::Error>(TokioIo::new(open(host, port, connector).await?)) }
        }))
        .await?;
    let client = SyncClient::new(channel)
        .max_decoding_message_size(MAX_PART)
        .max_encoding_message_size(MAX_MESSAGE);
    Ok(client)
}

async fn open(
    host: String,
    port: u16,
    connector: TlsConnector,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    stream.set_nodelay(true)?;
    connector.connect(name, stream).await
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use deltaplane_runtime::tls::Material;
    use deltaplane_sync_grpc::proto::deltaplane::sync::v1::Hello;
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// Both ends of TLS.
    fn tls() -> (rustls::ServerConfig, ClientConfig) {
        let directory = tempfile::tempdir().expect("a directory");
        let names = ["localhost".to_owned()];
        let material = Material::open(directory.path(), &names, SystemTime::now());
        let material = material.expect("made");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = CertificateDer::pem_slice_iter(material.server.chain.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(material.server.key.0.as_bytes()).expect("PEM");
        let server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider's")
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let mut roots = rustls::RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(material.ca.as_bytes()).expect("PEM");
        roots.add(authority).expect("an authority");
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider's")
            .with_root_certificates(roots)
            .with_no_client_auth();
        (server.expect("usable"), client)
    }

    /// A hub that begins a connection, and then answers nothing: its machine is gone.
    async fn begin_and_vanish(
        listener: TcpListener,
        tls: rustls::ServerConfig,
        vanished: oneshot::Sender<()>,
    ) {
        let (stream, _) = listener.accept().await.expect("a connection");
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let mut stream = acceptor.accept(stream).await.expect("TLS");
        // Empty settings, and the acknowledgement of the client's.
        let settings = b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";
        stream.write_all(settings).await.expect("sent");
        // What the client began with and asked.
        stream.read_u8().await.expect("it asks");
        vanished.send(()).expect("somebody waits");
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }

    #[tokio::test]
    async fn a_hub_that_is_gone_is_noticed_within_twenty_seconds() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let url = format!("https://localhost:{port}").parse().expect("legal");
        let (server, client) = tls();
        let (vanish, vanished) = oneshot::channel();
        let asked = async {
            let connected = connect(&url, client, LinkConfig::default()).await;
            let mut hub = connected.expect("connected");
            let paused = async {
                vanished.await.expect("it began");
                tokio::time::pause();
                tokio::time::Instant::now()
            };
            let answer = hub.handshake(Hello::default());
            let answer = tokio::time::timeout(Duration::from_secs(20), answer);
            let (answer, gone) = tokio::join!(answer, paused);
            let answer = answer.expect("it is noticed");
            answer.expect_err("nobody answers");
            gone.elapsed()
        };
        let (noticed, ()) = tokio::join!(asked, begin_and_vanish(listener, server, vanish));
        assert!(
            noticed > Duration::from_secs(5),
            "a busy hub has some time: {noticed:?}"
        );
    }
}
