//! The zone's side of TLS.

use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
    WantsVerifier,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::tls::{ConfigError, certificates};

use super::{Credential, Fingerprint};

/// The authority of the hub that was dialed with the config that this came with.
#[derive(Clone, Debug)]
pub struct LearnedCa(Arc<OnceLock<String>>);

/// The server did not show the certificate that it should lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's certificate does not come from the authority {expected}")]
pub struct NotTheAuthority {
    /// Which one it should be.
    pub expected: Fingerprint,
}

/// Trusts what an authority signed of which nothing is known but the fingerprint.
#[derive(Debug)]
struct Joining {
    expected: Fingerprint,
    provider: Arc<CryptoProvider>,
    learned: LearnedCa,
}

/// For a zone that joined: trusts only its credential's authority, and shows its certificate.
pub fn client_config(credential: &Credential) -> Result<ClientConfig, ConfigError> {
    let mut roots = RootCertStore::empty();
    let tls = |what| move |source| ConfigError::Tls { what, source };
    for certificate in certificates(credential.ca(), "hub's authority")? {
        roots.add(certificate).map_err(tls("hub's authority"))?;
    }
    let chain = certificates(credential.chain(), "zone's certificate")?;
    let key = PrivateKeyDer::from_pem_slice(credential.key().0.as_bytes()).map_err(|source| {
        ConfigError::Pem {
            what: "zone's key",
            source,
        }
    })?;
    let config = builder(provider())
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(tls("zone's certificate"))?;
    Ok(for_zones(config))
}

/// For a zone's first connection: trusts only what the authority with this fingerprint signed,
/// which the server has to show. Shows no certificate.
pub fn joining_config(ca: Fingerprint) -> (ClientConfig, LearnedCa) {
    let learned = LearnedCa(Arc::default());
    let provider = provider();
    let verifier = Joining {
        expected: ca,
        provider: provider.clone(),
        learned: learned.clone(),
    };
    let config = builder(provider)
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    (for_zones(config), learned)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Both sides are ours, so nothing older is needed; and 1.3 does not show the zone's certificate
/// to those between them.
fn builder(provider: Arc<CryptoProvider>) -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider knows TLS 1.3")
}

fn for_zones(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Each connection proves both sides anew; there are few.
    config.resumption = Resumption::disabled();
    config
}

// === impl LearnedCa ===

impl LearnedCa {
    /// The authority's certificate, PEM; `None` before a server has shown it.
    pub fn pem(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

// === impl Joining ===

impl Joining {
    /// What verifies a chain with the one certificate as root that has the fingerprint.
    fn verifier(
        &self,
        authority: &CertificateDer<'_>,
    ) -> Result<Arc<WebPkiServerVerifier>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone())
            .build()
            .map_err(|error| rustls::Error::Other(OtherError(Arc::new(error))))
    }
}

impl ServerCertVerifier for Joining {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let expected = self.expected;
        let authority = intermediates
            .iter()
            .find(|shown| Fingerprint::of(shown) == expected)
            .ok_or_else(|| {
                rustls::Error::Other(OtherError(Arc::new(NotTheAuthority { expected })))
            })?;
        // Anybody can show the authority's certificate: that it signed the server's is yet to be
        // found out.
        let verified = self.verifier(authority)?.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        self.learned.0.get_or_init(|| pem(authority));
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let known = &self.provider.signature_verification_algorithms;
        known.supported_schemes()
    }
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let encoded = STANDARD.encode(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    // Base64 is ASCII, so that every place is a boundary.
    for start in (0..encoded.len()).step_by(64) {
        pem.push_str(&encoded[start..encoded.len().min(start + 64)]);
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
