use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, IsCa, KeyPair, PKCS_ECDSA_P384_SHA384,
    PKCS_ED25519, PKCS_RSA_SHA256, SignatureAlgorithm,
};
use rustls_pki_types::CertificateDer;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn start() -> SystemTime {
    UNIX_EPOCH + 20_000 * DAY
}

fn material() -> &'static Material {
    static MATERIAL: OnceLock<Material> = OnceLock::new();
    MATERIAL.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Material::open(directory.path(), &["localhost".to_owned()], start()).expect("made")
    })
}

fn berlin() -> ZoneSubject {
    ZoneSubject {
        zone: "berlin".to_owned(),
        uid: "7a1c0e8e-1111-4222-8333-944445555666".to_owned(),
        tenant: "acme".to_owned(),
    }
}

fn request(params: &CertificateParams, algorithm: &'static SignatureAlgorithm) -> String {
    let key = KeyPair::generate_for(algorithm).expect("a key");
    let request = params.serialize_request(&key).expect("a request");
    request.pem().expect("PEM")
}

/// The PEM of a request.
fn armored(der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
}

fn sign(csr: &str, subject: &ZoneSubject) -> Result<CertificateDer<'static>, SignError> {
    let pem = material().sign_zone(csr, subject, DAY, start())?;
    Ok(CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM"))
}

fn public_key(der: &[u8]) -> Vec<u8> {
    let (_, certificate) = X509Certificate::from_der(der).expect("a certificate");
    certificate.public_key().raw.to_vec()
}

fn refused(csr: &str, expected: &str) {
    let error = sign(csr, &berlin()).expect_err("refused");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_request_gets_our_names_and_none_of_its_own() {
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, "admin");
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let strange = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    params.custom_extensions = vec![strange];
    let csr = request(&params, &PKCS_ECDSA_P256_SHA256);

    let der = sign(&csr, &berlin()).expect("signed");
    assert_eq!(zone_of(&der), Some(berlin()));
    let (_, certificate) = X509Certificate::from_der(&der).expect("a certificate");
    assert_eq!(
        certificate.subject().to_string(),
        "CN=system:zone:berlin, O=system:zones"
    );
    let names = certificate.subject_alternative_name().expect("one");
    assert_eq!(
        names.expect("some").value.general_names,
        [GeneralName::URI(
            "deltaplane://acme/zones/berlin?uid=7a1c0e8e-1111-4222-8333-944445555666"
        )]
    );
    assert!(!certificate.is_ca());
    let usage = certificate.key_usage().expect("one").expect("some").value;
    assert!(usage.digital_signature() && !usage.key_cert_sign());
    let purposes = certificate.extended_key_usage().expect("one");
    let purposes = purposes.expect("some").value;
    assert!(purposes.client_auth && !purposes.server_auth && !purposes.any);
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).expect("later").as_secs();
    let validity = certificate.validity();
    assert_eq!(
        (
            validity.not_before.timestamp().cast_unsigned(),
            validity.not_after.timestamp().cast_unsigned()
        ),
        (
            seconds(start() - Duration::from_secs(3600)),
            seconds(start() + DAY)
        )
    );
    // The same key again is another certificate.
    let again = sign(&csr, &berlin()).expect("signed");
    let (_, again) = X509Certificate::from_der(&again).expect("a certificate");
    assert_ne!(again.raw_serial(), certificate.raw_serial());
}

#[test]
fn lifetimes_are_bounded_on_both_sides() {
    let csr = request(&CertificateParams::default(), &PKCS_ECDSA_P256_SHA256);
    for lifetime in [Duration::ZERO, Duration::from_secs(60), Duration::MAX] {
        let signed = material().sign_zone(&csr, &berlin(), lifetime, start());
        assert!(signed.is_ok(), "{lifetime:?}");
    }
}

#[test]
fn requests_are_refused_with_a_reason() {
    let malformed = "the certificate request cannot be read";
    refused("", malformed);
    refused("nonsense", malformed);
    refused(&material().ca, malformed);
    refused(
        "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
        malformed,
    );
    refused(
        &"a".repeat(MAX_BYTES + 1),
        "the certificate request is longer than 16384 bytes",
    );
    let other = "the key of the certificate request is not ECDSA on P-256";
    for algorithm in [&PKCS_ECDSA_P384_SHA384, &PKCS_ED25519, &PKCS_RSA_SHA256] {
        refused(&request(&CertificateParams::default(), algorithm), other);
    }
}

#[test]
fn a_key_must_be_in_the_hands_of_who_asks() {
    let csr = request(&CertificateParams::default(), &PKCS_ECDSA_P256_SHA256);
    let der = CertificateSigningRequestDer::from_pem_slice(csr.as_bytes()).expect("PEM");
    let (_, parsed) = X509CertificationRequest::from_der(&der).expect("a request");
    let point = parsed.certification_request_info.subject_pki;
    let point = &point.subject_public_key.data;
    let place = der
        .windows(point.len())
        .position(|bytes| bytes == point.as_ref())
        .expect("the key is in it");
    // Another's key in a request that is otherwise our own.
    let theirs = KeyPair::generate().expect("a key");
    let mut stolen = der.to_vec();
    stolen[place..place + point.len()].copy_from_slice(theirs.public_key_raw());
    let mut broken = der.to_vec();
    *broken.last_mut().expect("some") ^= 1;
    for bytes in [stolen, broken] {
        refused(
            &armored(&bytes),
            "the certificate request is not signed by its own key",
        );
    }
}

#[test]
fn names_that_could_be_mistaken_are_refused() {
    let csr = request(&CertificateParams::default(), &PKCS_ECDSA_P256_SHA256);
    let long = "x".repeat(64);
    for bad in [
        "",
        "a/zones/b",
        "a?uid=b",
        "ä",
        "a b",
        "A",
        "-a",
        "a-",
        "a.b",
        &long,
    ] {
        let zone = ZoneSubject {
            zone: bad.to_owned(),
            ..berlin()
        };
        let tenant = ZoneSubject {
            tenant: bad.to_owned(),
            ..berlin()
        };
        for (subject, what) in [(zone, "zone"), (tenant, "tenant")] {
            let error = sign(&csr, &subject).expect_err("refused");
            let expected = format!("the {what} {bad:?} cannot be in a certificate");
            assert_eq!(error.to_string(), expected);
        }
    }
    for bad in ["", "a&b", "a?uid=b", &long] {
        let subject = ZoneSubject {
            uid: bad.to_owned(),
            ..berlin()
        };
        let error = sign(&csr, &subject).expect_err("refused");
        let expected = format!("the uid {bad:?} cannot be in a certificate");
        assert_eq!(error.to_string(), expected);
    }
    let longest = ZoneSubject {
        zone: "x".repeat(63),
        ..berlin()
    };
    let der = sign(&csr, &longest).expect("signed");
    assert_eq!(zone_of(&der), Some(longest));
}

/// What a certificate with these names is taken for.
fn read(user: &[&str], group: &[&str], uris: &[&str]) -> Option<ZoneSubject> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for user in user {
        params.distinguished_name.push(DnType::CommonName, *user);
    }
    for group in group {
        params
            .distinguished_name
            .push(DnType::OrganizationName, *group);
    }
    for uri in uris {
        let uri = Ia5String::try_from(*uri).expect("ASCII");
        params.subject_alt_names.push(SanType::URI(uri));
    }
    let key = KeyPair::generate().expect("a key");
    zone_of(params.self_signed(&key).expect("a certificate").der())
}

#[test]
fn only_zones_certificates_are_zones() {
    let (user, group) = ("system:zone:berlin", "system:zones");
    let uri = "deltaplane://acme/zones/berlin?uid=u";
    assert!(read(&[user], &[group], &[uri]).is_some());
    assert_eq!(read(&[user], &[group], &[]), None);
    assert_eq!(read(&[user], &[group], &[uri, uri]), None);
    assert_eq!(read(&[user], &[], &[uri]), None);
    assert_eq!(read(&[user], &["system:masters"], &[uri]), None);
    assert_eq!(read(&["system:zone:paris"], &[group], &[uri]), None);
    for uri in [
        "",
        "https://acme/zones/berlin?uid=u",
        "deltaplane://acme/berlin?uid=u",
        "deltaplane://acme/zones/berlin",
        "deltaplane://acme/zones/berlin?uid=",
        "deltaplane://acme/zones/berlin?uid=u&uid=v",
        "deltaplane:///zones/berlin?uid=u",
    ] {
        assert_eq!(read(&[user], &[group], &[uri]), None, "{uri}");
    }
    for leaf in [&material().admin, &material().server] {
        let der = CertificateDer::from_pem_slice(leaf.chain.as_bytes()).expect("PEM");
        assert_eq!(zone_of(&der), None);
    }
    assert_eq!(zone_of(b"nonsense"), None);
}

proptest! {
    #[test]
    fn nothing_is_too_strange(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        prop_assert!(sign(&text, &berlin()).is_err());
        prop_assert_eq!(zone_of(&bytes), None);
        let _ = ZoneSubject::from_uri(&format!("{SCHEME}{text}"));
        prop_assert!(sign(&armored(&bytes), &berlin()).is_err());
    }

    #[test]
    fn a_damaged_request_or_certificate_is_no_worse(at in any::<prop::sample::Index>(), byte: u8) {
        static PAIR: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
        let (csr, signed) = PAIR.get_or_init(|| {
            let csr = request(&CertificateParams::default(), &PKCS_ECDSA_P256_SHA256);
            let der = CertificateSigningRequestDer::from_pem_slice(csr.as_bytes()).expect("PEM");
            (der.to_vec(), sign(&csr, &berlin()).expect("signed").to_vec())
        });
        let mut damaged = csr.clone();
        damaged[at.index(csr.len())] = byte;
        if let Ok(der) = sign(&armored(&damaged), &berlin()) {
            // The tags around what is signed are read generously.
            prop_assert_eq!(public_key(&der), public_key(signed));
        }
        let mut damaged = signed.clone();
        damaged[at.index(signed.len())] = byte;
        let _ = zone_of(&damaged);
    }

    #[test]
    fn subjects_are_read_back(zone in "[a-z]([a-z0-9-]{0,61}[a-z0-9])?", uid in "[A-Za-z0-9-]{1,63}") {
        let subject = ZoneSubject { zone, uid, ..berlin() };
        prop_assert_eq!(ZoneSubject::from_uri(&subject.uri()), Some(subject));
    }
}

#[test]
fn a_key_has_one_fingerprint_in_requests_and_certificates() {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let other = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let request = |key: &KeyPair| {
        let request = CertificateParams::default().serialize_request(key);
        request.expect("a request").pem().expect("PEM")
    };
    let asked = ZoneKeyFingerprint::of_request(&request(&key)).expect("a key");
    let again = ZoneKeyFingerprint::of_request(&request(&key)).expect("a key");
    assert_eq!(asked, again);
    assert_ne!(
        asked,
        ZoneKeyFingerprint::of_request(&request(&other)).expect("a key")
    );
    let certificate = sign(&request(&key), &berlin()).expect("signed");
    assert_eq!(
        ZoneKeyFingerprint::of_certificate(&certificate),
        Some(asked)
    );
    let administrator = CertificateDer::from_pem_slice(material().admin.chain.as_bytes());
    let administrator = administrator.expect("PEM");
    assert_eq!(ZoneKeyFingerprint::of_certificate(&administrator), None);
    assert!(ZoneKeyFingerprint::of_request("nonsense").is_err());
}
