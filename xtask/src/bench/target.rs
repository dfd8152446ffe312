//! A server under load: where it is, how to speak to it, what it costs.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A server and its processes.
pub(crate) struct Target {
    address: String,
    connector: TlsConnector,
    /// The value of the `Authorization` header, for servers that know no certificate of ours.
    pub(crate) authorization: Option<String>,
    pub(crate) pids: Vec<u32>,
}

// === impl Target ===

impl Target {
    /// From a kubeconfig with one cluster and one user.
    pub(crate) fn load(kubeconfig: &Path, pids: Vec<u32>) -> Result<Self> {
        let text = std::fs::read_to_string(kubeconfig)
            .with_context(|| format!("reading {}", kubeconfig.display()))?;
        let config: Value = serde_saphyr::from_str(&text).context("reading a kubeconfig")?;
        let cluster = &config["clusters"][0]["cluster"];
        let user = &config["users"][0]["user"];
        let server = cluster["server"]
            .as_str()
            .context("a kubeconfig without a server")?;
        let address = server.trim_start_matches("https://").to_owned();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trust::Anyone));
        let mut tls = match user["client-certificate-data"].as_str() {
            Some(certificate) => {
                let chain = CertificateDer::pem_slice_iter(&decode(certificate)?)
                    .collect::<Result<Vec<_>, _>>()?;
                let key = user["client-key-data"]
                    .as_str()
                    .context("a certificate without a key")?;
                builder
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&decode(key)?)?)?
            }
            None => builder.with_no_client_auth(),
        };
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let authorization = user["token"]
            .as_str()
            .map(|token| format!("Bearer {token}"));
        Ok(Self {
            address,
            connector: TlsConnector::from(Arc::new(tls)),
            authorization,
            pids,
        })
    }

    pub(crate) async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(&self.address)
            .await
            .context("connecting")?;
        stream
            .set_nodelay(true)
            .context("setting up a connection")?;
        let name = ServerName::try_from("127.0.0.1").map_err(|error| anyhow!(error))?;
        self.connector
            .connect(name, stream)
            .await
            .context("shaking hands")
    }
}

fn decode(text: &str) -> Result<Vec<u8>> {
    STANDARD
        .decode(text)
        .context("reading a kubeconfig's certificates")
}

mod trust {
    //! The load goes to servers that this very program started, on loopback.

    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    pub(super) struct Anyone;

    impl ServerCertVerifier for Anyone {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            rustls::crypto::aws_lc_rs::default_provider()
                .signature_verification_algorithms
                .supported_schemes()
        }
    }
}
