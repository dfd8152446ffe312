//! Peers that do not keep to the rules: none harms another zone, and nothing is deleted.

mod world;

use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{CertificateRequest, SyncedObject};
use deltaplane_sync_grpc::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource,
};
use tokio::io::AsyncWriteExt;
use tonic::codec::CompressionEncoding;
use tonic::{Code, Request};

use world::{CONFIG_MAPS, World, crossing, hello, object, resource, with_session};

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_is_who_its_certificate_says() {
    let world = World::start().await;
    let mut bad = world.bad.connect().await.expect("connected");
    let forged = bad.handshake(hello("good", 1..=1)).await;
    let forged = forged.expect_err("not its name");
    assert_eq!(forged.code(), Code::PermissionDenied);
    assert_eq!(
        forged.message(),
        "the certificate is for zone bad, and not for good"
    );
    // The numbers of others' sessions are worth nothing.
    for session in 0..20 {
        let nothing = futures::stream::pending::<DeltaDiscoveryRequest>();
        let refused = bad.hub_to_zone(with_session(nothing, session)).await;
        let refused = refused.expect_err("not its session");
        assert_eq!(refused.code(), Code::Aborted, "{refused:?}");
    }
    let nobody = world.nobody().await;
    let refused = nobody.clone().handshake(hello("good", 1..=1)).await;
    assert_eq!(
        refused.expect_err("no certificate").code(),
        Code::Unauthenticated
    );
    world.serves_the_other().await;
}

/// A few bytes that become millions of entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_bounded_by_what_it_becomes() {
    let world = World::start().await;
    let mut huge = hello("bad", 1..=1);
    huge.features = vec![String::new(); 3_000_000];
    let bad = world.bad.connect().await.expect("connected");
    let mut bad = bad.send_compressed(CompressionEncoding::Gzip);
    let refused = bad.handshake(huge.clone()).await.expect_err("too large");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    // Of somebody without a certificate it is not even read.
    let refused = world.nobody().await.handshake(huge).await;
    let refused = refused.expect_err("no certificate");
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
    world.serves_the_other().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn older_and_newer_peers_are_told_what_to_upgrade() {
    let world = World::start().await;
    let mut bad = world.bad.connect().await.expect("connected");
    let mut meet = async |protocols| {
        let met = bad.handshake(hello("bad", protocols)).await;
        met.map(|welcome| welcome.into_inner().protocol)
            .map_err(|status| (status.code(), status.message().to_owned()))
    };
    let version = env!("CARGO_PKG_VERSION");
    let refused = |what: &str, who: &str| {
        let text =
            format!("zone bad (deltaplane 9.9.9) speaks sync version{what}: upgrade the {who}");
        Err((Code::FailedPrecondition, text))
    };
    assert_eq!(
        meet(0..=0).await,
        refused(
            &format!("s up to 0, this hub (deltaplane {version}) 1 and newer"),
            "zone"
        )
    );
    assert_eq!(
        meet(7..=9).await,
        refused(
            &format!(" 7 and newer, this hub (deltaplane {version}) up to 1"),
            "hub"
        )
    );
    // The newest that both speak, whatever else it can do.
    assert_eq!(meet(0..=9).await, Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_smuggled_is_rejected_object_by_object() {
    let world = World::start().await;
    let mut up = world.uploading().await;
    let fine = crossing(&object("fine", "1"));
    let mut status = object("status", "1");
    status["status"] = serde_json::json!({"ready": true});
    let mut origin = object("origin", "1");
    origin["metadata"]["labels"] = serde_json::json!({"deltaplane.io/zone": "good"});
    let body = |value: &serde_json::Value| serde_json::to_vec(value).expect("JSON");
    let version = || crossing(&object("x", "1")).0;
    let relayed = SyncedObject {
        object: fine.1.clone(),
        relayed_from: "good".to_owned(),
        relayed_name: "x".to_owned(),
    };
    let plain = |object: Vec<u8>| SyncedObject {
        object,
        ..SyncedObject::default()
    };
    let resources: Vec<Resource> = vec![
        resource("team/fine", &fine.0, &plain(fine.1.clone())),
        resource("team/status", &version(), &plain(body(&status))),
        resource("team/origin", &version(), &plain(body(&origin))),
        resource("team/renamed", &fine.0, &plain(fine.1.clone())),
        resource("team/relayed", &fine.0, &relayed),
        resource("team/garbage", &version(), &plain(b"{".to_vec())),
    ];
    let reasons = up.send(resources, &[]).await;
    let reasons: Vec<(&str, &str)> = reasons
        .iter()
        .map(|(name, reason)| (name.as_str(), reason.as_str()))
        .collect();
    assert_eq!(
        reasons,
        [
            (
                "team/garbage",
                "it is no object: EOF while parsing an object at line 1 column 1"
            ),
            (
                "team/origin",
                "metadata.labels[deltaplane.io/zone] does not cross the border"
            ),
            (
                "team/relayed",
                "a zone sends its own objects only, and not those of zone good"
            ),
            (
                "team/renamed",
                "it is called team/fine, and not team/renamed"
            ),
            ("team/status", "status does not cross the border"),
        ]
    );
    let relayed = vec![resource("team/fine", &fine.0, &relayed)];
    let reasons = up.send(relayed, &[]).await;
    assert_eq!(
        reasons[0].1,
        "a zone sends its own objects only, and not those of zone good"
    );
    assert_eq!(world.at_hub().await, ["bad.fine", "kept"]);
    // Names are those of its own objects, whatever they look like.
    let removed = ["team/kept", "team/good.kept", "team/../kept"].map(str::to_owned);
    up.send(Vec::new(), &removed[..2]).await;
    assert_eq!(world.at_hub().await, ["bad.fine", "kept"]);
    world.serves_the_other().await;
}

/// A zone that orphans its upload would make it the hub's own, which goes to all zones.
#[tokio::test(flavor = "multi_thread")]
async fn a_zone_cannot_give_its_objects_to_the_hub() {
    let world = World::start().await;
    let mut up = world.uploading().await;
    let (version, body) = crossing(&object("mine", "1"));
    let mine = SyncedObject {
        object: body,
        ..SyncedObject::default()
    };
    let reasons = up
        .send(vec![resource("team/mine", &version, &mine)], &[])
        .await;
    assert_eq!(reasons, []);
    let refused = up.orphan("team/mine").await;
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(
        refused.message(),
        "a zone cannot orphan team/mine: only the hub changes the origin of an object"
    );
    let stored = world.get("team/bad.mine").await;
    let labels = &stored["metadata"]["labels"];
    assert_eq!(labels["deltaplane.io/origin"], "zone");
    assert_eq!(labels["deltaplane.io/zone"], "bad");
    // What is written later than the attack has come: so would have what the attack sent.
    world.serves_the_other().await;
    assert_eq!(world.in_good().await, ["kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_ends_its_own_stream_and_nothing_else() {
    let world = World::start().await;
    let nonsense: [(&str, DeltaDiscoveryRequest); 4] = [
        (
            "a type",
            DeltaDiscoveryRequest {
                type_url: "nonsense".to_owned(),
                ..DeltaDiscoveryRequest::default()
            },
        ),
        (
            "an answer to nothing",
            DeltaDiscoveryRequest {
                type_url: CONFIG_MAPS.to_owned(),
                response_nonce: "7".to_owned(),
                ..DeltaDiscoveryRequest::default()
            },
        ),
        (
            "a part of a type",
            DeltaDiscoveryRequest {
                type_url: CONFIG_MAPS.to_owned(),
                resource_names_subscribe: vec!["team/a".to_owned()],
                ..DeltaDiscoveryRequest::default()
            },
        ),
        (
            "no version",
            DeltaDiscoveryRequest {
                type_url: CONFIG_MAPS.to_owned(),
                resource_names_subscribe: vec!["*".to_owned()],
                initial_resource_versions: [("team/a".to_owned(), "x".to_owned())].into(),
                ..DeltaDiscoveryRequest::default()
            },
        ),
    ];
    for (what, request) in nonsense {
        let code = world.sends_down(vec![request]).await;
        assert_eq!(code, Some(Code::InvalidArgument), "{what}");
    }
    let response = DeltaDiscoveryResponse {
        type_url: "deltaplane.io/core/Secret".to_owned(),
        system_version_info: "e@1".to_owned(),
        nonce: "1".to_owned(),
        ..DeltaDiscoveryResponse::default()
    };
    let code = world.sends_up(vec![response]).await;
    assert_eq!(code, Some(Code::InvalidArgument), "not asked for");
    world.serves_the_other().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_protocol_harm_nobody() {
    let world = World::start().await;
    // Before TLS, and after.
    let mut plain = tokio::net::TcpStream::connect(world.address())
        .await
        .expect("connected");
    let _ = plain.write_all(&[0x42; 4096]).await;
    let mut secret = world.raw().await;
    let _ = secret.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    let _ = secret.write_all(&[0xff; 65536]).await;
    // More than any message has.
    let huge = DeltaDiscoveryRequest {
        type_url: "x".repeat(70 << 20),
        ..DeltaDiscoveryRequest::default()
    };
    let code = world.sends_down(vec![huge]).await;
    assert!(code.is_some(), "it is refused");
    world.serves_the_other().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_do_not_count_are_refused_by_the_thousand() {
    let world = World::start().await;
    let client = world.nobody().await;
    let joins = (0..1000).map(|number| {
        let mut client = client.clone();
        async move {
            let mut request = Request::new(CertificateRequest {
                zone: "good".to_owned(),
                csr: "nonsense".repeat(number % 50),
            });
            let token = format!("Bearer a.{number}.c").parse().expect("ASCII");
            request.metadata_mut().insert("authorization", token);
            client.join(request).await.map_err(|status| status.code())
        }
    });
    for refused in futures::future::join_all(joins).await {
        assert_eq!(refused.map(drop), Err(Code::Unauthenticated));
    }
    world.serves_the_other().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_never_answers_delays_itself_only() {
    let world = World::start().await;
    let mut down = world.following().await;
    let first = down.next().await;
    assert_eq!(first.type_url, CONFIG_MAPS);
    // Not answered: nothing more of the kind comes, and others go on.
    world.serves_the_other().await;
    world.serves_the_other().await;
    assert!(down.is_silent().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_session_of_a_zone_counts() {
    let world = World::start().await;
    let mut older = world.following().await;
    older.next().await;
    let _newer = world.following().await;
    assert!(older.ends().await, "the older one is ended");
    world.serves_the_other().await;
}
