//! Judging keys and certificates that were made earlier. Pure.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{KeyPair, PublicKeyData};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use super::issue::Authority;
use super::{Leaf, Problem, Purpose, RENEW_BEFORE, SecretPem};

/// What to do with a leaf that is ours.
pub(super) enum Verdict {
    Good { leaf: Leaf, renew_at: SystemTime },
    Renew(Reason),
}

pub(super) enum Reason {
    Due,
    NewName(String),
}

pub(crate) fn key(pem: &str) -> Result<KeyPair, Problem> {
    KeyPair::from_pkcs8_pem_and_sign_algo(pem, &rcgen::PKCS_ECDSA_P256_SHA256)
        .map_err(|_| Problem::NoKey)
}

pub(super) fn authority(pem: &str, key: &KeyPair, now: SystemTime) -> Result<(), Problem> {
    let der = first_certificate(pem)?;
    let certificate = parse(&der)?;
    if !certificate.is_ca() {
        return Err(Problem::NotAnAuthority);
    }
    if !belong_together(&certificate, key) {
        return Err(Problem::Mismatch);
    }
    if end(&certificate) <= now {
        return Err(Problem::Expired);
    }
    Ok(())
}

pub(super) fn leaf(
    content: &str,
    authority: &Authority,
    purpose: Purpose<'_>,
    now: SystemTime,
) -> Result<Verdict, Problem> {
    let authority_der = first_certificate(&authority.pem)?;
    let issuer = parse(&authority_der)?;
    let der = first_certificate(content)?;
    let certificate = parse(&der)?;
    if certificate
        .verify_signature(Some(issuer.public_key()))
        .is_err()
    {
        return Err(Problem::Foreign);
    }
    let (chain, key_pem) = split(content)?;
    if !belong_together(&certificate, &key(key_pem)?) {
        return Err(Problem::Mismatch);
    }
    let renew_at = end(&certificate)
        .checked_sub(RENEW_BEFORE)
        .unwrap_or(UNIX_EPOCH);
    if renew_at <= now {
        return Ok(Verdict::Renew(Reason::Due));
    }
    if let Purpose::Server(names) = purpose
        && let Some(name) = names.iter().find(|name| !is_for(&certificate, name))
    {
        return Ok(Verdict::Renew(Reason::NewName(name.clone())));
    }
    let leaf = Leaf {
        chain: chain.to_owned(),
        key: SecretPem(key_pem.to_owned()),
    };
    Ok(Verdict::Good { leaf, renew_at })
}

fn first_certificate(pem: &str) -> Result<CertificateDer<'static>, Problem> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| Problem::NoCertificate)
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Problem> {
    match X509Certificate::from_der(der) {
        Ok((_, certificate)) => Ok(certificate),
        Err(_) => Err(Problem::NoCertificate),
    }
}

/// The certificate and the key of a leaf's file, in the order in which they are written there.
fn split(content: &str) -> Result<(&str, &str), Problem> {
    let start = content
        .find("-----BEGIN PRIVATE KEY-----")
        .ok_or(Problem::NoKey)?;
    Ok(content.split_at(start))
}

pub(crate) fn belong_together(certificate: &X509Certificate<'_>, key: &KeyPair) -> bool {
    certificate.public_key().raw == key.subject_public_key_info()
}

fn end(certificate: &X509Certificate<'_>) -> SystemTime {
    system_time(certificate.validity().not_after)
}

pub(crate) fn system_time(time: ASN1Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0))
}

fn is_for(certificate: &X509Certificate<'_>, name: &str) -> bool {
    let Ok(Some(names)) = certificate.subject_alternative_name() else {
        return false;
    };
    let address: Option<IpAddr> = name.parse().ok();
    names.value.general_names.iter().any(|general| {
        if let GeneralName::IPAddress(bytes) = general {
            match address {
                Some(IpAddr::V4(wanted)) => *bytes == wanted.octets(),
                Some(IpAddr::V6(wanted)) => *bytes == wanted.octets(),
                None => false,
            }
        } else {
            matches!(general, GeneralName::DNSName(dns) if *dns == name)
        }
    })
}

// === impl Reason ===

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Due => f.write_str("its time is nearly over"),
            Self::NewName(name) => write!(f, "it is not for {name}"),
        }
    }
}
