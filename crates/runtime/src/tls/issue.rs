//! Making keys and certificates: ECDSA on P-256, which every TLS client knows.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
};

use super::{AUTHORITY_LIFETIME, LEAF_LIFETIME, Leaf, Purpose, SKEW, SecretPem};

/// Signs the leaves. (`Debug` of its key shows no secret.)
#[derive(Debug)]
pub(crate) struct Authority {
    pub(crate) pem: String,
    pub(crate) key: KeyPair,
}

pub(crate) fn key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
}

pub(super) fn authority(key: KeyPair, now: SystemTime) -> Result<Authority, rcgen::Error> {
    let mut params = valid(now, AUTHORITY_LIFETIME);
    params
        .distinguished_name
        .push(DnType::CommonName, "deltaplane");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    let pem = params.self_signed(&key)?.pem();
    Ok(Authority { pem, key })
}

pub(super) fn leaf(
    authority: &Authority,
    purpose: Purpose<'_>,
    now: SystemTime,
) -> Result<Leaf, rcgen::Error> {
    let mut params = valid(now, LEAF_LIFETIME);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    match purpose {
        Purpose::Server(names) => {
            params.subject_alt_names = CertificateParams::new(names.to_vec())?.subject_alt_names;
            params
                .distinguished_name
                .push(DnType::CommonName, "deltaplane-server");
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        }
        Purpose::Admin => {
            params.distinguished_name.push(DnType::CommonName, "admin");
            params
                .distinguished_name
                .push(DnType::OrganizationName, "system:masters");
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        }
    }
    let key = key()?;
    Ok(Leaf {
        chain: authority.sign(&params, &key)?,
        key: SecretPem(key.serialize_pem()),
    })
}

// === impl Authority ===

impl Authority {
    /// A certificate for the owner of this key, PEM.
    pub(crate) fn sign(
        &self,
        params: &CertificateParams,
        key: &impl PublicKeyData,
    ) -> Result<String, rcgen::Error> {
        let issuer = Issuer::from_ca_cert_pem(&self.pem, &self.key)?;
        Ok(params.signed_by(key, &issuer)?.pem())
    }
}

pub(crate) fn valid(now: SystemTime, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    // Not by much of a short life: what goes by age would be due at once.
    params.not_before = epoch + since.saturating_sub(SKEW.min(lifetime / 10));
    params.not_after = epoch + since + lifetime;
    params
}
