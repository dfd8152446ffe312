use std::fs;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tempfile::TempDir;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + 20_000 * DAY
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn open(directory: &TempDir, hosts: &[&str], now: SystemTime) -> Material {
    Material::open(&directory.path().join("pki"), &names(hosts), now).expect("usable")
}

fn roots(ca: &str) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let der = CertificateDer::from_pem_slice(ca.as_bytes()).expect("PEM");
    roots.add(der).expect("an authority");
    Arc::new(roots)
}

fn unix(time: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(time.duration_since(SystemTime::UNIX_EPOCH).expect("later"))
}

fn der(leaf: &Leaf) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(leaf.chain.as_bytes()).expect("PEM")
}

/// What a TLS client that knows only the authority thinks of the server's certificate.
fn trusted_as(material: &Material, host: &str, now: SystemTime) -> bool {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(&material.ca), provider)
        .build()
        .expect("a verifier");
    let name = ServerName::try_from(host.to_owned()).expect("a name");
    let der = der(&material.server);
    verifier
        .verify_server_cert(&der, &[], &name, &[], unix(now))
        .is_ok()
}

#[test]
fn the_first_start_makes_everything_and_later_ones_load_it() {
    let directory = directory();
    let hosts = ["localhost", "127.0.0.1", "::1"];
    let first = open(&directory, &hosts, start());
    for host in hosts {
        assert!(trusted_as(&first, host, start()), "{host}");
    }
    assert!(!trusted_as(&first, "example.org", start()));
    let second = open(&directory, &hosts, start() + DAY);
    assert_eq!(
        (
            first.ca,
            first.server,
            first.admin,
            first.service_account_key,
            first.zone_key,
            first.renew_at
        ),
        (
            second.ca,
            second.server,
            second.admin,
            second.service_account_key,
            second.zone_key,
            second.renew_at
        ),
    );
    assert_eq!(second.renew_at, start() + LEAF_LIFETIME - RENEW_BEFORE);
    let made = |all| Made {
        authority: all,
        service_account_key: all,
    };
    assert_eq!((first.made, second.made), (made(true), made(false)));
}

#[test]
fn the_authority_is_shown_with_the_server() {
    let directory = directory();
    // The second time the server's certificate comes from its file.
    for _ in 0..2 {
        let material = open(&directory, &["localhost"], start());
        let (leaf, ca) = material
            .server
            .chain
            .split_once("-----END CERTIFICATE-----\n")
            .expect("two certificates");
        assert_eq!(ca, material.ca);
        assert_ne!(leaf, "");
    }
}

#[test]
fn the_administrator_is_known_by_the_certificate() {
    let material = open(&directory(), &["localhost"], start());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(&material.ca), provider)
        .build()
        .expect("a verifier");
    let der = der(&material.admin);
    verifier
        .verify_client_cert(&der, &[], unix(start()))
        .expect("trusted");
    let (_, certificate) = X509Certificate::from_der(&der).expect("a certificate");
    assert_eq!(
        certificate.subject().to_string(),
        "CN=admin, O=system:masters"
    );
}

#[test]
fn leaves_are_renewed_in_time_and_the_authority_stays() {
    let directory = directory();
    let first = open(&directory, &["localhost"], start());
    let early = open(&directory, &["localhost"], first.renew_at - DAY);
    assert_eq!(early.server, first.server);
    let due = open(&directory, &["localhost"], first.renew_at);
    assert_ne!(due.server, first.server);
    assert_ne!(due.admin, first.admin);
    assert_eq!(
        (&due.ca, &due.service_account_key),
        (&first.ca, &first.service_account_key)
    );
    let later = start() + LEAF_LIFETIME + DAY;
    assert!(!trusted_as(&first, "localhost", later));
    assert!(trusted_as(&due, "localhost", later));
}

#[test]
fn a_new_address_needs_a_new_certificate() {
    let directory = directory();
    let first = open(&directory, &["localhost", "10.0.0.1"], start());
    let fewer = open(&directory, &["localhost"], start());
    assert_eq!(first.server, fewer.server);
    let other = open(&directory, &["localhost", "10.0.0.2"], start());
    assert_ne!(other.server, first.server);
    assert_eq!(other.admin, first.admin);
    assert!(trusted_as(&other, "10.0.0.2", start()));
}

#[test]
fn a_start_that_broke_off_is_continued() {
    for missing in [AUTHORITY, SERVER, ADMIN, ACCOUNTS, ZONES] {
        let directory = directory();
        let first = open(&directory, &["localhost"], start());
        let mut all = vec![AUTHORITY, SERVER, ADMIN, ACCOUNTS, ZONES];
        all.drain(
            ..all
                .iter()
                .position(|name| *name == missing)
                .expect("one of them"),
        );
        for name in all {
            fs::remove_file(directory.path().join("pki").join(name)).expect("it is there");
        }
        let second = open(&directory, &["localhost"], start());
        assert_eq!(second.ca == first.ca, missing != AUTHORITY, "{missing}");
        assert!(trusted_as(&second, "localhost", start()), "{missing}");
    }
}

/// Damages the material in one way, and expects a refusal that changes nothing.
fn refused(damage: impl FnOnce(&Path), expected: &str, hint: &str) {
    let directory = directory();
    open(&directory, &["localhost"], start());
    let pki = directory.path().join("pki");
    damage(&pki);
    let read = || {
        let entries = fs::read_dir(&pki).expect("a directory");
        let mut files: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .map(|path| (fs::read(&path).expect("readable"), path))
            .collect();
        files.sort();
        files
    };
    let before = read();
    let error = Material::open(&pki, &names(&["localhost"]), start()).expect_err("refused");
    let place = pki.display().to_string();
    assert_eq!(error.to_string().replace(&place, "PKI"), expected);
    assert!(
        error.hint().replace(&place, "PKI").starts_with(hint),
        "{}",
        error.hint()
    );
    assert_eq!(read(), before);
}

#[test]
fn damaged_and_foreign_files_are_refused() {
    let restore = "restore ca.crt and ca.key from a backup, or move PKI away";
    let write = |name: &'static str, content: &'static str| {
        move |pki: &Path| fs::write(pki.join(name), content).expect("written")
    };
    let foreign = |name: &'static str| {
        move |pki: &Path| {
            let other = directory();
            open(&other, &["localhost"], start());
            fs::copy(other.path().join("pki").join(name), pki.join(name)).expect("copied");
        }
    };
    refused(
        write(AUTHORITY, "nonsense"),
        r#"refusing to use "PKI/ca.crt": no certificate can be read from it"#,
        restore,
    );
    refused(
        write(AUTHORITY_KEY, ""),
        r#"refusing to use "PKI/ca.key": no ECDSA P-256 private key can be read from it"#,
        restore,
    );
    refused(
        |pki| fs::remove_file(pki.join(AUTHORITY_KEY)).expect("removed"),
        r#"refusing to use "PKI/ca.crt": its key is missing"#,
        restore,
    );
    refused(
        foreign(AUTHORITY),
        r#"refusing to use "PKI/ca.crt": its certificate and its key do not belong together"#,
        restore,
    );
    refused(
        |pki| {
            let leaf = fs::read(pki.join(SERVER)).expect("readable");
            fs::write(pki.join(AUTHORITY), leaf).expect("written");
        },
        r#"refusing to use "PKI/ca.crt": its certificate is not an authority's"#,
        restore,
    );
    refused(
        foreign(SERVER),
        r#"refusing to use "PKI/server.pem": it was not signed by the authority beside it"#,
        "move PKI/server.pem away to have it made anew",
    );
    refused(
        write(
            ADMIN,
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ),
        r#"refusing to use "PKI/admin.pem": no certificate can be read from it"#,
        "move PKI/admin.pem away to have it made anew",
    );
    refused(
        write(ACCOUNTS, "nonsense"),
        r#"refusing to use "PKI/service-accounts.key": no ECDSA P-256 private key can be read from it"#,
        "restore PKI/service-accounts.key from a backup",
    );
    refused(
        write(ZONES, ""),
        r#"refusing to use "PKI/zones.key": no ECDSA P-256 private key can be read from it"#,
        "restore PKI/zones.key from a backup",
    );
    refused(
        |pki| {
            let server = fs::read_to_string(pki.join(SERVER)).expect("readable");
            let admin = fs::read_to_string(pki.join(ADMIN)).expect("readable");
            let key = admin.find("-----BEGIN PRIVATE").expect("a key");
            let end = server.find("-----BEGIN PRIVATE").expect("a key");
            let mixed = format!("{}{}", &server[..end], &admin[key..]);
            fs::write(pki.join(SERVER), mixed).expect("written");
        },
        r#"refusing to use "PKI/server.pem": its certificate and its key do not belong together"#,
        "move PKI/server.pem away to have it made anew",
    );
}

#[test]
fn an_authority_whose_time_is_over_is_refused() {
    let directory = directory();
    let first = open(&directory, &["localhost"], start());
    let pki = directory.path().join("pki");
    let over = start() + AUTHORITY_LIFETIME;
    let error = Material::open(&pki, &names(&["localhost"]), over).expect_err("refused");
    assert!(error.to_string().ends_with("its time is over"), "{error}");
    assert!(!format!("{first:?}").contains("PRIVATE KEY"));
}

#[test]
fn a_server_takes_a_new_certificate_while_it_runs() {
    let directory = directory();
    let first = open(&directory, &["localhost"], start());
    let config = ServerConfig::new(&first.server, &[&first.ca]).expect("usable");
    let next = open(&directory, &["localhost"], first.renew_at);
    config.replace(&next.server).expect("usable");
    let crossed = Leaf {
        chain: next.server.chain.clone(),
        key: first.server.key.clone(),
    };
    let error = config
        .replace(&crossed)
        .expect_err("they do not belong together");
    assert_eq!(error.to_string(), "the server key is not usable");
    let error = ServerConfig::new(&next.server, &[""]).expect_err("no authority");
    assert_eq!(
        error.to_string(),
        "there is no certificate in the client authority"
    );
}
