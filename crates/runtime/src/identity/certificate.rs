//! A zone's certificate: signed by the hub, and read back from a connection.
//!
//! The zone's uid and tenant are in its URI, `deltaplane://<tenant>/zones/<zone>?uid=<uid>`; the
//! subject is the user and the group that it is to the API server.

use std::fmt;
use std::time::{Duration, SystemTime};

use rcgen::string::Ia5String;
use rcgen::{
    DnType, ExtendedKeyUsagePurpose, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData,
    SanType, SerialNumber, SubjectPublicKeyInfo,
};
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::x509::AttributeTypeAndValue;

use super::Fingerprint;
use crate::tls::{AUTHORITY_LIFETIME, Material, issue};

/// Which zone a certificate is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSubject {
    /// Its name: a DNS label.
    pub zone: String,
    /// The uid of its object: letters, digits and hyphens.
    pub uid: String,
    /// Whose zone it is: a DNS label.
    pub tenant: String,
}

/// No certificate was made.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// No request is so long.
    #[error("the certificate request is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// It is not PEM, or not a request.
    #[error("the certificate request cannot be read")]
    Malformed,
    /// Whoever asks may not have the key.
    #[error("the certificate request is not signed by its own key")]
    Signature,
    /// Of another kind.
    #[error("the key of the certificate request is not ECDSA on P-256")]
    Key,
    /// A part of the subject could not be told from what is around it.
    #[error("{what} {value:?} cannot be in a certificate")]
    Name {
        /// Which part.
        what: &'static str,
        /// What it is.
        value: String,
    },
    /// There were no random numbers.
    #[error("failed to choose a serial number")]
    Serial,
    /// The certificate could not be made.
    #[error("failed to make a certificate")]
    Issue(#[from] rcgen::Error),
}

const USER_PREFIX: &str = "system:zone:";
const GROUP: &str = "system:zones";
const SCHEME: &str = "deltaplane://";
/// Many times what a request with a P-256 key takes.
const MAX_BYTES: usize = 16 * 1024;
/// As long as DNS labels may be; more than a uid has.
const MAX_PART: usize = 63;
/// Far more than it takes for two never to be the same.
const SERIAL_BYTES: usize = 16;

/// The fingerprint of a zone's public key, by which a join token is bound to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneKeyFingerprint(Fingerprint);

/// Which zone this certificate is of; `None` for one that is not a zone's. That it can be trusted
/// is for TLS to find out.
pub fn zone_of(certificate_der: &[u8]) -> Option<ZoneSubject> {
    let Ok(([], certificate)) = X509Certificate::from_der(certificate_der) else {
        return None;
    };
    let names = certificate.subject_alternative_name().ok()??;
    let [GeneralName::URI(uri)] = names.value.general_names.as_slice() else {
        return None;
    };
    let subject = ZoneSubject::from_uri(uri)?;
    // What the API server goes by says the same.
    let name = certificate.subject();
    let user = only(name.iter_common_name())?;
    let group = only(name.iter_organization())?;
    (user == subject.user() && group == GROUP).then_some(subject)
}

fn only<'a>(mut values: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Option<&'a str> {
    let value = values.next()?.as_str().ok()?;
    values.next().is_none().then_some(value)
}

// === impl ZoneKeyFingerprint ===

impl ZoneKeyFingerprint {
    /// That of the key that a zone asks a certificate for, PEM.
    pub fn of_request(csr_pem: &str) -> Result<Self, SignError> {
        let key = requested_key(csr_pem)?;
        Ok(Self(Fingerprint::of(&key.subject_public_key_info())))
    }

    /// That of the key of a zone's certificate; none for one that is not a zone's.
    pub fn of_certificate(der: &[u8]) -> Option<Self> {
        zone_of(der)?;
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        Some(Self(Fingerprint::of(certificate.public_key().raw)))
    }
}

impl fmt::Display for ZoneKeyFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Material ===

impl Material {
    /// A certificate for a zone that asks for one, PEM: for the key of its request, and with
    /// nothing else from it. Lasts no longer than the authority could.
    pub fn sign_zone(
        &self,
        csr_pem: &str,
        subject: &ZoneSubject,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<String, SignError> {
        subject.check()?;
        let key = requested_key(csr_pem)?;
        let mut params = issue::valid(now, lifetime.min(AUTHORITY_LIFETIME));
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, subject.user());
        name.push(DnType::OrganizationName, GROUP);
        let uri = Ia5String::try_from(subject.uri())?;
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(serial()?);
        Ok(self.authority.sign(&params, &key)?)
    }
}

/// The key of a request for a certificate, whose owner has signed the request.
fn requested_key(csr_pem: &str) -> Result<SubjectPublicKeyInfo, SignError> {
    if csr_pem.len() > MAX_BYTES {
        return Err(SignError::TooLong);
    }
    let der = CertificateSigningRequestDer::from_pem_slice(csr_pem.as_bytes())
        .map_err(|_| SignError::Malformed)?;
    let Ok(([], request)) = X509CertificationRequest::from_der(&der) else {
        return Err(SignError::Malformed);
    };
    let info = request.certification_request_info.subject_pki.raw;
    // First, because whether a signature can be verified depends on the kind of key.
    let key = SubjectPublicKeyInfo::from_der(info).map_err(|_| SignError::Key)?;
    if key.algorithm() != &PKCS_ECDSA_P256_SHA256 {
        return Err(SignError::Key);
    }
    request
        .verify_signature()
        .map_err(|_| SignError::Signature)?;
    Ok(key)
}

fn serial() -> Result<SerialNumber, SignError> {
    let mut bytes = [0; SERIAL_BYTES];
    rustls::crypto::aws_lc_rs::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| SignError::Serial)?;
    Ok(SerialNumber::from_slice(&bytes))
}

// === impl ZoneSubject ===

impl ZoneSubject {
    /// The zone, as a user of the API server.
    fn user(&self) -> String {
        format!("{USER_PREFIX}{}", self.zone)
    }

    fn uri(&self) -> String {
        let Self { zone, uid, tenant } = self;
        format!("{SCHEME}{tenant}/zones/{zone}?uid={uid}")
    }

    /// The opposite of `uri`, and of nothing else.
    fn from_uri(uri: &str) -> Option<Self> {
        let (tenant, rest) = uri.strip_prefix(SCHEME)?.split_once("/zones/")?;
        let (zone, uid) = rest.split_once("?uid=")?;
        let subject = Self {
            zone: zone.to_owned(),
            uid: uid.to_owned(),
            tenant: tenant.to_owned(),
        };
        subject.check().is_ok().then_some(subject)
    }

    fn check(&self) -> Result<(), SignError> {
        let Self { zone, uid, tenant } = self;
        let parts = [
            ("the zone", zone, is_label(zone)),
            ("the uid", uid, is_uid(uid)),
            ("the tenant", tenant, is_label(tenant)),
        ];
        match parts.into_iter().find(|(_, _, good)| !good) {
            None => Ok(()),
            Some((what, value, _)) => Err(SignError::Name {
                what,
                value: value.clone(),
            }),
        }
    }
}

fn is_label(text: &str) -> bool {
    is_uid(text)
        && !text.bytes().any(|byte| byte.is_ascii_uppercase())
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_uid(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=MAX_PART).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests;
