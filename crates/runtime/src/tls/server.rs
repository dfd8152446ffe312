//! The TLS side of a listener, whose certificate can be exchanged while it listens.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::Leaf;

/// Serves one certificate, and takes client certificates of the given authorities: optional, but
/// verified when shown.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    rustls: Arc<rustls::ServerConfig>,
    current: Arc<Current>,
}

/// The certificates do not make a TLS server.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not PEM, or not of the expected kind.
    #[error("failed to read the {what}")]
    Pem {
        /// Which part.
        what: &'static str,
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// There is none in the file.
    #[error("there is no certificate in the {what}")]
    Empty {
        /// Which part.
        what: &'static str,
    },
    /// What rustls thinks of it.
    #[error("the {what} is not usable")]
    Tls {
        /// Which part.
        what: &'static str,
        #[source]
        source: rustls::Error,
    },
    /// The authorities for client certificates.
    #[error("the client authorities are not usable")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

const CHAIN: &str = "server certificate";
const KEY: &str = "server key";
const CLIENT_CA: &str = "client authority";

// === impl ServerConfig ===

impl ServerConfig {
    /// A server with this certificate; `client_authorities` are PEM bundles.
    pub fn new(leaf: &Leaf, client_authorities: &[&str]) -> Result<Self, ConfigError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let current = Arc::new(Current(RwLock::new(certified(leaf, &provider)?)));
        let mut roots = RootCertStore::empty();
        for pem in client_authorities {
            for certificate in certificates(pem, CLIENT_CA)? {
                roots.add(certificate).map_err(tls(CLIENT_CA))?;
            }
        }
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .allow_unauthenticated()
                .build()?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(tls(CHAIN))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A session that is resumed brings its client certificate along, which nobody verifies
        // again: it would be taken after its end.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            rustls: Arc::new(config),
            current,
        })
    }

    /// New connections get this certificate; those that exist go on.
    pub fn replace(&self, leaf: &Leaf) -> Result<(), ConfigError> {
        let next = certified(leaf, self.rustls.crypto_provider())?;
        *self
            .current
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// For the acceptor.
    pub fn rustls(&self) -> Arc<rustls::ServerConfig> {
        self.rustls.clone()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(
            self.0
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        )
    }
}

fn certified(leaf: &Leaf, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, ConfigError> {
    let chain = certificates(&leaf.chain, CHAIN)?;
    let pem = |source| ConfigError::Pem { what: KEY, source };
    let key = PrivateKeyDer::from_pem_slice(leaf.key.0.as_bytes()).map_err(pem)?;
    let certified = CertifiedKey::from_der(chain, key, provider).map_err(tls(KEY))?;
    Ok(Arc::new(certified))
}

pub(crate) fn certificates(
    pem: &str,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err(ConfigError::Empty { what }),
        Ok(chain) => Ok(chain),
        Err(source) => Err(ConfigError::Pem { what, source }),
    }
}

fn tls(what: &'static str) -> impl FnOnce(rustls::Error) -> ConfigError {
    move |source| ConfigError::Tls { what, source }
}
