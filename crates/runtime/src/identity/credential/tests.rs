use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;

use crate::tls::Material;

use super::*;

const FILE: &str = Credential::FILE;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn start() -> SystemTime {
    UNIX_EPOCH + 20_000 * DAY
}

fn material() -> Material {
    let directory = tempfile::tempdir().expect("a temporary directory");
    Material::open(directory.path(), &["localhost".to_owned()], start()).expect("made")
}

fn credential(material: &Material, lifetime: Duration) -> Credential {
    let subject = ZoneSubject {
        zone: "berlin".to_owned(),
        uid: "u".to_owned(),
        tenant: "acme".to_owned(),
    };
    let key = ZoneKey::generate().expect("a key");
    let chain = material
        .sign_zone(key.csr(), &subject, lifetime, start())
        .expect("signed");
    let credential = key.certified(&material.ca, &chain).expect("usable");
    assert_eq!(credential.zone(), &subject);
    credential
}

#[test]
fn renewed_in_time() {
    let material = material();
    for lifetime in [Duration::from_secs(300), DAY, 365 * DAY] {
        let credential = credential(&material, lifetime);
        assert_eq!(credential.expires(), start() + lifetime);
        assert!(!credential.is_expired(credential.expires() - Duration::from_secs(1)));
        assert!(credential.is_expired(credential.expires()));
        let life = credential.expires.duration_since(credential.begins);
        let life = life.expect("it ends after it begins");
        let (first, last) = (credential.renew_at(0), credential.renew_at(u16::MAX));
        assert_eq!(first, credential.begins + life * 2 / 3);
        assert_eq!(last, first + life / 10);
        assert!(start() + lifetime / 2 < first && last < start() + lifetime * 4 / 5);
    }
}

#[test]
fn kept_whole_whatever_crash() {
    let material = material();
    let (old, new) = (credential(&material, DAY), credential(&material, 2 * DAY));
    let place = tempfile::tempdir().expect("a temporary directory");
    let directory = place.path().join("identity");
    assert_eq!(Credential::load(&directory).expect("readable"), None);
    old.save(&directory).expect("saved");
    assert_eq!(
        Credential::load(&directory).expect("usable").as_ref(),
        Some(&old)
    );

    // As a crash leaves it in the middle of the only file that is written.
    let half = directory.join(format!(".{FILE}.new"));
    fs::write(&half, &new.chain[..100]).expect("written");
    assert_eq!(
        Credential::load(&directory).expect("usable").as_ref(),
        Some(&old)
    );
    new.save(&directory).expect("saved");
    assert_eq!(
        Credential::load(&directory).expect("usable").as_ref(),
        Some(&new)
    );
    let files: Vec<_> = fs::read_dir(&directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(files, [directory.join(FILE)]);
    assert_eq!(files::exposed(&files[0]), None);
    assert!(!format!("{new:?}").contains("PRIVATE KEY"));
}

#[test]
fn parts_without_an_end_of_line_stay_apart() {
    let credential = credential(&material(), DAY);
    let key = SecretPem(credential.key.0.trim().to_owned());
    let same = Credential::new(credential.ca.trim(), credential.chain.trim(), &key);
    assert_eq!(same.as_ref(), Ok(&credential));
    let place = tempfile::tempdir().expect("a temporary directory");
    credential.save(place.path()).expect("saved");
    assert_eq!(Credential::load(place.path()).expect("usable"), same.ok());
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let material = material();
    let good = credential(&material, DAY);
    let other = credential(&material, DAY);
    let none = SecretPem(String::new());
    let check = |ca, chain, key, expected| {
        assert_eq!(Credential::new(ca, chain, key), Err(expected));
    };
    check(&good.ca, "", &good.key, Flaw::NoCertificate);
    check("nonsense", &good.chain, &good.key, Flaw::NoCertificate);
    check(&good.ca, &good.chain, &none, Flaw::NoKey);
    check(&good.ca, &good.chain, &other.key, Flaw::Mismatch);
    let admin = &material.admin;
    check(&good.ca, &admin.chain, &admin.key, Flaw::NotAZone);

    let place = tempfile::tempdir().expect("a temporary directory");
    let path = place.path().join(FILE);
    fs::write(&path, "nonsense").expect("written");
    let error = Credential::load(place.path()).expect_err("refused");
    assert_eq!(error.to_string(), format!("refusing to use {path:?}"));
    let source = std::error::Error::source(&error).expect("a reason");
    assert_eq!(source.to_string(), "no ECDSA P-256 private key can be read");
}

proptest! {
    #[test]
    fn no_file_is_too_strange(before in any::<String>(), key in any::<String>(), after in ".*") {
        let content = format!("{before}{KEY_BEGIN}{key}{KEY_END}{after}");
        prop_assert!(Credential::from_pem(&content).is_err());
        prop_assert!(Credential::from_pem(&before).is_err());
    }
}
