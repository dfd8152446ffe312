//! Making keys and certificates: ECDSA on P-256, which every TLS client knows.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use super::{AUTHORITY_LIFETIME, LEAF_LIFETIME, Leaf, Purpose, SKEW, SecretPem};

/// Signs the leaves.
pub(super) struct Authority {
    pub(super) pem: String,
    pub(super) key: KeyPair,
}

pub(super) fn key() -> Result<KeyPair, rcgen::Error> {
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
    let issuer = Issuer::from_ca_cert_pem(&authority.pem, &authority.key)?;
    Ok(Leaf {
        chain: params.signed_by(&key, &issuer)?.pem(),
        key: SecretPem(key.serialize_pem()),
    })
}

fn valid(now: SystemTime, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    params.not_before = epoch + since.saturating_sub(SKEW);
    params.not_after = epoch + since + lifetime;
    params
}
