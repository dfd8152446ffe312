//! Who a client is, by the certificate that it showed. Pure.

use std::time::{Duration, SystemTime};

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use deltaplane_api::identity::Identity;

/// The common name is the user, organizations are groups, as everywhere in Kubernetes.
///
/// `None` for a certificate that names nobody: whoever shows it proved nothing but that.
pub(crate) fn identity(der: &[u8]) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups: Vec<&str> = subject
        .iter_organization()
        .map(|group| group.as_str())
        .collect::<Result<_, _>>()
        .ok()?;
    (!name.is_empty()).then(|| Identity::authenticated(name, &groups))
}

/// When a certificate ends: whoever showed it has proved nothing for later.
pub(crate) fn expires(der: &[u8]) -> Option<SystemTime> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let seconds = certificate.validity().not_after.timestamp();
    let seconds = u64::try_from(seconds).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn check(subject: &[(DnType, &str)], expected: Option<Identity>) {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (sort, value) in subject {
            params.distinguished_name.push(sort.clone(), *value);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        assert_eq!(identity(certificate.der()), expected);
    }

    #[test]
    fn names_and_groups() {
        let (name, group) = (DnType::CommonName, DnType::OrganizationName);
        check(
            &[(name.clone(), "admin"), (group.clone(), "system:masters")],
            Some(Identity::authenticated("admin", &["system:masters"])),
        );
        check(
            &[(name.clone(), "eve")],
            Some(Identity::authenticated("eve", &[])),
        );
        check(&[(name, ""), (group.clone(), "system:masters")], None);
        check(&[(group, "system:masters")], None);
        check(&[], None);
        assert_eq!(identity(b"nonsense"), None);
    }
}
