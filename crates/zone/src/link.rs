//! One TLS connection to the hub, which carries everything.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_runtime::identity::HubUrl;
use deltaplane_sync_grpc::MAX_MESSAGE;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::sync_client::SyncClient;
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
    /// Whether what is sent is compressed, both ways.
    pub compress: bool,
}

/// What can be asked of the hub.
pub type Client = SyncClient<Channel>;

/// What a stream may have sent before it is read: as much as one response holds.
const WINDOW: u32 = 2 << 20;

// === impl LinkConfig ===

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

/// Connects to the hub.
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
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    Ok(match config.compress {
        true => client
            .send_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Gzip),
        false => client,
    })
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
    use super::*;

    #[test]
    fn a_hub_that_is_gone_is_noticed_within_twenty_seconds() {
        let config = LinkConfig::default();
        let noticed = config.keep_alive + config.keep_alive_timeout;
        assert!(noticed < Duration::from_secs(20));
    }
}
