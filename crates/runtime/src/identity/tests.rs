//! Joining, over real connections.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::Resumption;
use rustls::{ClientConfig, HandshakeKind};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::tls::{Leaf, Material, ServerConfig};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn material(now: SystemTime) -> Material {
    let directory = tempfile::tempdir().expect("a temporary directory");
    Material::open(directory.path(), &["localhost".to_owned()], now).expect("made")
}

fn fingerprint(material: &Material) -> Fingerprint {
    Fingerprint::of_pem(&material.ca).expect("a certificate")
}

fn berlin() -> ZoneSubject {
    ZoneSubject {
        zone: "berlin".to_owned(),
        uid: "u-1".to_owned(),
        tenant: "acme".to_owned(),
    }
}

fn joined(hub: &Material, now: SystemTime) -> Credential {
    let key = ZoneKey::generate().expect("a key");
    let chain = hub
        .sign_zone(key.csr(), &berlin(), DAY, now)
        .expect("signed");
    key.certified(&hub.ca, &chain).expect("usable")
}

/// One connection to a server of its own, on which the server says which zone it sees.
async fn dial(
    server: &Leaf,
    client_ca: &str,
    client: ClientConfig,
    host: &str,
) -> io::Result<Option<String>> {
    let server = ServerConfig::new(server, &[client_ca]).expect("usable");
    let (_, seen) = connect(&server, Arc::new(client), host).await?;
    Ok((seen != "nobody").then_some(seen))
}

async fn connect(
    server: &ServerConfig,
    client: Arc<ClientConfig>,
    host: &str,
) -> io::Result<(Option<HandshakeKind>, String)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serve = async {
        let (stream, _) = listener.accept().await?;
        let mut stream = TlsAcceptor::from(server.rustls()).accept(stream).await?;
        let certificates = stream.get_ref().1.peer_certificates();
        let zone = certificates.and_then(|chain| zone_of(&chain[0]));
        let seen = zone.map_or("nobody".to_owned(), |zone| format!("{zone:?}"));
        stream.write_all(seen.as_bytes()).await?;
        stream.shutdown().await
    };
    let ask = async {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from(host.to_owned()).expect("a name");
        let connector = TlsConnector::from(client);
        let mut stream = connector.connect(name, stream).await?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
        let mut seen = String::new();
        stream.read_to_string(&mut seen).await?;
        Ok((stream.get_ref().1.handshake_kind(), seen))
    };
    // What goes wrong on the server is seen by the client.
    let (_, answer) = tokio::join!(serve, ask);
    answer
}

#[tokio::test]
async fn a_zone_joins_with_a_join_string_and_nothing_else() {
    let now = SystemTime::now();
    let hub = material(now);
    let tokens = ZoneTokens::new(&hub.zone_key.0).expect("usable");
    let grant = ZoneGrant {
        zone: "berlin".to_owned(),
        uid: "u-1".to_owned(),
        tenant: "acme".to_owned(),
        id: "t-1".to_owned(),
        expires: now + Duration::from_secs(600),
    };
    let text = JoinString {
        url: "https://localhost:7443".parse().expect("a hub"),
        ca: fingerprint(&hub),
        token: tokens.sign(&grant).expect("signed"),
    }
    .to_string();

    // The zone.
    let join: JoinString = text.parse().expect("whole");
    let (config, learned) = joining_config(join.ca);
    assert_eq!(learned.pem(), None);
    let seen = dial(&hub.server, &hub.ca, config, join.url.host()).await;
    assert_eq!(seen.expect("connected"), None);
    assert_eq!(learned.pem(), Some(hub.ca.as_str()));
    let key = ZoneKey::generate().expect("a key");

    // The hub.
    let ZoneGrant {
        zone, uid, tenant, ..
    } = tokens.verify(&join.token, now).expect("valid");
    let subject = ZoneSubject { zone, uid, tenant };
    let chain = hub
        .sign_zone(key.csr(), &subject, DAY, now)
        .expect("signed");

    // The zone again.
    let ca = learned.pem().expect("learned");
    let credential = key.certified(ca, &chain).expect("usable");
    let config = client_config(&credential).expect("usable");
    let seen = dial(&hub.server, &hub.ca, config, "localhost").await;
    assert_eq!(seen.expect("connected"), Some(format!("{:?}", berlin())));
}

/// A zone that joins does not talk to this server, nor learn an authority from it.
async fn refused(server: &Leaf, ca: Fingerprint, host: &str, expected: &str) {
    let (config, learned) = joining_config(ca);
    let any = material(SystemTime::now()).ca;
    let error = dial(server, &any, config, host).await.expect_err("refused");
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(learned.pem(), None);
}

#[tokio::test]
async fn a_joining_zone_trusts_the_fingerprint_only() {
    let now = SystemTime::now();
    let (hub, other) = (material(now), material(now));
    let ca = fingerprint(&hub);
    let foreign = format!("the server's certificate does not come from the authority {ca}");

    // Another authority, of the same name.
    refused(&other.server, ca, "localhost", &foreign).await;
    // It also shows the true one, which everybody may have.
    let borrowed = Leaf {
        chain: format!("{}{}", other.server.chain, hub.ca),
        key: other.server.key.clone(),
    };
    refused(&borrowed, ca, "localhost", "BadSignature").await;
    // The fingerprint is the server's own and not its authority's.
    let own = Fingerprint::of_pem(&hub.server.chain).expect("a certificate");
    let expected = format!("the server's certificate does not come from the authority {own}");
    refused(&hub.server, own, "localhost", &expected).await;
    // The authority is not shown.
    let alone = Leaf {
        chain: hub.server.chain.replace(&hub.ca, ""),
        key: hub.server.key.clone(),
    };
    assert_ne!(alone, hub.server);
    refused(&alone, ca, "localhost", &foreign).await;
}

#[tokio::test]
async fn a_joining_zone_checks_the_server_too() {
    let now = SystemTime::now();
    let hub = material(now);
    let ca = fingerprint(&hub);
    let expected = "certificate not valid for name \"example.org\"";
    refused(&hub.server, ca, "example.org", expected).await;
    let old = material(now - 366 * DAY);
    let expected = "certificate expired";
    refused(&old.server, fingerprint(&old), "localhost", expected).await;
    let early = material(now + DAY);
    let expected = "certificate not valid yet";
    refused(&early.server, fingerprint(&early), "localhost", expected).await;
    // A zone that serves, with the certificate that it has.
    let zone = joined(&hub, now);
    let chain = format!("{}{}", zone.chain(), hub.ca);
    let key = zone.key().clone();
    let server = Leaf { chain, key };
    let expected = "certificate does not allow extended key usage for server authentication";
    refused(&server, ca, "localhost", expected).await;
}

#[tokio::test]
async fn a_joined_zone_trusts_its_hub_only() {
    let now = SystemTime::now();
    let (hub, other) = (material(now), material(now));
    let zone = joined(&hub, now);
    let config = || client_config(&zone).expect("usable");
    let borrowed = Leaf {
        chain: format!("{}{}", other.server.chain, hub.ca),
        key: other.server.key.clone(),
    };
    for server in [&other.server, &borrowed] {
        let answer = dial(server, &hub.ca, config(), "localhost").await;
        assert!(answer.is_err(), "{answer:?}");
    }
    let answer = dial(&hub.server, &hub.ca, config(), "example.org").await;
    assert!(answer.is_err(), "{answer:?}");
    // Neither does another hub trust it.
    let answer = dial(&hub.server, &other.ca, config(), "localhost").await;
    assert!(answer.is_err(), "{answer:?}");
    let over = joined(&hub, now - 2 * DAY);
    let config = client_config(&over).expect("usable");
    let answer = dial(&hub.server, &hub.ca, config, "localhost").await;
    assert!(answer.is_err(), "{answer:?}");
}

#[tokio::test]
async fn every_connection_is_verified_anew() {
    let now = SystemTime::now();
    let hub = material(now);
    let mut config = client_config(&joined(&hub, now)).expect("usable");
    // A zone that would like to go on with what it showed before.
    config.resumption = Resumption::default();
    let config = Arc::new(config);
    let server = ServerConfig::new(&hub.server, &[&hub.ca]).expect("usable");
    for _ in 0..2 {
        let answer = connect(&server, config.clone(), "localhost").await;
        let (kind, zone) = answer.expect("connected");
        assert_eq!(kind, Some(HandshakeKind::Full));
        assert_eq!(zone, format!("{:?}", berlin()));
    }
}
