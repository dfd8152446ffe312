//! What a zone shows to the hub: made, kept in a directory, and replaced in time.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls_pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::files::{self, FileError};
use crate::tls::{SecretPem, certificates, check, issue};

use super::{ZoneSubject, zone_of};

/// A new private key, and the request for its certificate.
#[derive(Clone, Debug)]
pub struct ZoneKey {
    key: SecretPem,
    csr: String,
}

/// A zone's certificate and key, and the authority by which it knows the hub. Invariant: the first
/// two belong together, and the certificate is a zone's. The third may be another authority than
/// the one that signed it: operators bring their own certificates for servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    ca: String,
    chain: String,
    key: SecretPem,
    zone: ZoneSubject,
    begins: SystemTime,
    expires: SystemTime,
}

/// There is no credential to work with.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// Its file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is in its file cannot be used.
    #[error("refusing to use {path:?}")]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        flaw: Flaw,
    },
}

/// Why certificates and a key are no credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// No certificate in its place.
    #[error("the certificate of the zone or of the authority cannot be read")]
    NoCertificate,
    /// No key of the right kind.
    #[error("no ECDSA P-256 private key can be read")]
    NoKey,
    /// The certificate is of another key.
    #[error("the zone's certificate and its key do not belong together")]
    Mismatch,
    /// It is an administrator's, say.
    #[error("the certificate is not a zone's")]
    NotAZone,
}

/// The key of a zone that has asked to join, and was not answered yet.
const JOINING: &str = "joining.pem";
const KEY_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const KEY_END: &str = "-----END PRIVATE KEY-----";

// === impl ZoneKey ===

impl ZoneKey {
    /// At random.
    pub fn generate() -> Result<Self, rcgen::Error> {
        Self::of(&issue::key()?)
    }

    /// The key that was kept in a directory to join with; `None` if there is none, or one that
    /// cannot be used.
    pub fn load_joining(directory: &Path) -> Result<Option<Self>, FileError> {
        let kept = files::read_if_exists(&directory.join(JOINING))?;
        let key = kept.and_then(|pem| KeyPair::from_pem(&pem).ok());
        Ok(key.and_then(|key| Self::of(&key).ok()))
    }

    /// Keeps the key to join with. The hub knows the join token by this key from the first request
    /// on: without it an answer that is lost would make the token worthless.
    pub fn save_joining(&self, directory: &Path) -> Result<(), FileError> {
        files::create_private_dir(directory)?;
        files::write_private(&directory.join(JOINING), self.key.0.as_bytes())
    }

    /// Removes the key that was kept to join with.
    pub fn forget_joining(directory: &Path) -> Result<(), FileError> {
        files::remove_if_exists(&directory.join(JOINING))
    }

    fn of(key: &KeyPair) -> Result<Self, rcgen::Error> {
        // The hub knows who asks, and takes no names from the request.
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        Ok(Self {
            csr: params.serialize_request(key)?.pem()?,
            key: SecretPem(key.serialize_pem()),
        })
    }

    /// The request for a certificate, PEM.
    pub fn csr(&self) -> &str {
        &self.csr
    }

    /// What it becomes with the certificate that the hub signed.
    pub fn certified(&self, ca: &str, chain: &str) -> Result<Credential, Flaw> {
        Credential::new(ca, chain, &self.key)
    }
}

// === impl Credential ===

impl Credential {
    /// The file that it is kept in.
    pub const FILE: &str = "credential.pem";

    /// From the authority's certificate, the zone's (others of its chain may follow) and its key,
    /// all PEM.
    pub fn new(ca: &str, chain: &str, key: &SecretPem) -> Result<Self, Flaw> {
        read(ca)?;
        let der = read(chain)?.swap_remove(0);
        let certificate = parse(&der)?;
        let pair = check::key(&key.0).map_err(|_| Flaw::NoKey)?;
        if !check::belong_together(&certificate, &pair) {
            return Err(Flaw::Mismatch);
        }
        let validity = certificate.validity();
        Ok(Self {
            zone: zone_of(&der).ok_or(Flaw::NotAZone)?,
            begins: check::system_time(validity.not_before),
            expires: check::system_time(validity.not_after),
            ca: whole_lines(ca),
            chain: whole_lines(chain),
            key: SecretPem(whole_lines(&key.0)),
        })
    }

    /// The one that is kept in a directory; `None` before there is one.
    pub fn load(directory: &Path) -> Result<Option<Self>, CredentialError> {
        let path = directory.join(Self::FILE);
        let Some(content) = files::read_if_exists(&path)? else {
            return Ok(None);
        };
        match Self::from_pem(&content) {
            Ok(credential) => Ok(Some(credential)),
            Err(flaw) => Err(CredentialError::Unusable { path, flaw }),
        }
    }

    /// Keeps it in a directory, which is made if it is not there, instead of an earlier one.
    pub fn save(&self, directory: &Path) -> Result<(), FileError> {
        files::create_private_dir(directory)?;
        let content = format!("{}{}{}", self.chain, self.key.0, self.ca);
        files::write_private(&directory.join(Self::FILE), content.as_bytes())
    }

    /// The authority, PEM.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// The zone's certificate, PEM; others of its chain may follow.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// The certificate's key, PKCS#8, PEM.
    pub fn key(&self) -> &SecretPem {
        &self.key
    }

    /// Whose it is.
    pub fn zone(&self) -> &ZoneSubject {
        &self.zone
    }

    /// From then on it is worth nothing.
    pub fn expires(&self) -> SystemTime {
        self.expires
    }

    /// Whether it is worth nothing any more.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.expires <= now
    }

    /// When to replace it: two thirds of its time are over then, or up to a tenth of it more.
    /// `jitter` is any random number, the same for one credential: zones that joined together
    /// need not come back together.
    pub fn renew_at(&self, jitter: u16) -> SystemTime {
        let life = self.expires.duration_since(self.begins).unwrap_or_default();
        let later = life / 10 * u32::from(jitter) / u32::from(u16::MAX);
        self.begins + life * 2 / 3 + later
    }

    fn from_pem(content: &str) -> Result<Self, Flaw> {
        let key = content.find(KEY_BEGIN).ok_or(Flaw::NoKey)?;
        let (chain, rest) = content.split_at(key);
        let end = rest.find(KEY_END).ok_or(Flaw::NoKey)? + KEY_END.len();
        let (key, ca) = rest.split_at(end);
        Self::new(ca, chain, &SecretPem(key.to_owned()))
    }
}

/// Each part of the file begins on a line of its own.
fn whole_lines(pem: &str) -> String {
    format!("{}\n", pem.trim())
}

/// One certificate at least.
fn read(pem: &str) -> Result<Vec<CertificateDer<'static>>, Flaw> {
    certificates(pem, "credential").map_err(|_| Flaw::NoCertificate)
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Flaw> {
    match X509Certificate::from_der(der) {
        Ok((_, certificate)) => Ok(certificate),
        Err(_) => Err(Flaw::NoCertificate),
    }
}

#[cfg(test)]
mod tests;
