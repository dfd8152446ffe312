//! Streams of a zone that does not keep to the rules, at a hub that does.

use deltaplane_client::request::{self, Patch};
use deltaplane_runtime::Clock;
use deltaplane_sync::{Crossing, Item, Request, Response, SyncKind};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{Answer, Hello, ZoneReport};
use deltaplane_sync_grpc::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource,
};
use deltaplane_sync_grpc::{SESSION, decode_request, encode_response, receiving};
use deltaplane_zone::{LinkConfig, Membership, SyncClient};
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tonic::codec::CompressionEncoding;
use tonic::{Code, Status, Streaming};

use crate::world::{PATIENCE, World};

const OTHER: &str = "never-there";

/// A zone of which only the credential is real.
struct Peer {
    client: SyncClient,
    session: u64,
    _membership: Membership,
}

impl Peer {
    async fn connect(world: &World) -> Self {
        let path = format!("/apis/fleet.deltaplane.io/v1alpha1/zones/{OTHER}/_token");
        let token: Value = request::create(&world.here, &path, &json!({}))
            .await
            .expect("a token");
        let join = token["join"].as_str().expect("a join string").parse();
        let join = join.expect("a legal one");
        let (directory, link) = (world.other_directory(OTHER), LinkConfig::default());
        let membership = Membership::open(&directory, Some(&join), link, &Clock::system()).await;
        let membership = membership.expect("joined");
        let mut client = membership.connect().await.expect("connected");
        let hello = Hello {
            zone: OTHER.to_owned(),
            oldest_protocol: 1,
            newest_protocol: 1,
            epoch: "e".to_owned(),
            ..Hello::default()
        };
        let welcome = client.handshake(hello).await.expect("welcome");
        Self {
            client,
            session: welcome.into_inner().session,
            _membership: membership,
        }
    }

    fn request<T>(&self, messages: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(messages);
        request.metadata_mut().insert(SESSION, self.session.into());
        request
    }
}

/// The status that a stream ends with.
async fn end<T>(opened: Result<tonic::Response<Streaming<T>>, Status>) -> Status {
    let mut messages = match opened {
        Ok(opened) => opened.into_inner(),
        Err(status) => return status,
    };
    loop {
        match messages.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return Status::ok(""),
            Err(status) => return status,
        }
    }
}

/// Few bytes when compressed, and gigabytes when decoded.
#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded_by_what_they_become() {
    const MANY: usize = 200_000;
    let world = World::start().await;
    let peer = Peer::connect(&world).await;
    let names = DeltaDiscoveryRequest {
        resource_names_subscribe: vec![String::new(); MANY],
        ..DeltaDiscoveryRequest::default()
    };
    let resources = DeltaDiscoveryResponse {
        resources: vec![Resource::default(); MANY],
        ..DeltaDiscoveryResponse::default()
    };
    let long = DeltaDiscoveryResponse {
        nonce: "0".repeat(32 << 20),
        ..DeltaDiscoveryResponse::default()
    };
    let mut plain = peer.client.clone();
    let mut gzip = peer
        .client
        .clone()
        .send_compressed(CompressionEncoding::Gzip);

    let request = peer.request(stream::iter([names]));
    let ended = end(plain.hub_to_zone(request).await).await;
    assert!(ended.message().contains("elements"), "{ended:?}");
    // Where long messages are legal, compressed ones are not.
    let long_request = DeltaDiscoveryRequest {
        response_nonce: "0".repeat(32 << 20),
        ..DeltaDiscoveryRequest::default()
    };
    let request = peer.request(stream::iter([long_request]));
    let ended = end(gzip.hub_to_zone(request).await).await;
    assert!(ended.message().contains("size limit"), "{ended:?}");

    let request = peer.request(stream::iter([resources]));
    let ended = end(gzip.zone_to_hub(request).await).await;
    assert!(ended.message().contains("elements"), "{ended:?}");
    let request = peer.request(stream::iter([long]));
    let ended = end(gzip.zone_to_hub(request).await).await;
    assert!(ended.message().contains("size limit"), "{ended:?}");
    world.stop().await;
}

/// A stream that was refused holds nothing; the first one goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_one_stream_of_each_kind() {
    let world = World::start().await;
    let peer = Peer::connect(&world).await;
    let mut client = peer.client.clone();
    let check = |kind: &str, second: Status| {
        assert_eq!(second.code(), Code::AlreadyExists, "{kind}: {second:?}");
    };
    let requests = || peer.request(stream::pending::<DeltaDiscoveryRequest>());
    let (goes_on, first) = mpsc::channel::<DeltaDiscoveryRequest>(1);
    let first = peer.request(receiving(first));
    let down = client.hub_to_zone(first).await;
    check("HubToZone", refusal(client.hub_to_zone(requests()).await));
    let responses = || peer.request(stream::pending::<DeltaDiscoveryResponse>());
    let _up = client.zone_to_hub(responses()).await.expect("served");
    check("ZoneToHub", refusal(client.zone_to_hub(responses()).await));
    let reports = || peer.request(stream::pending::<ZoneReport>());
    let _seen = client.report(reports()).await.expect("served");
    check("Report", refusal(client.report(reports()).await));

    // A zone opens this one again when it was lost: the first ends.
    let answers = || peer.request(stream::pending::<Answer>());
    let first = client.query(answers()).await;
    let _second = client.query(answers()).await.expect("served");
    let ended = end(first).await;
    assert_eq!(ended.code(), Code::Aborted, "{ended:?}");
    assert_eq!(ended.message(), "a newer stream was opened");

    // A stream that ended makes room for another.
    drop(goes_on);
    let ended = end(down).await;
    assert_eq!(ended.code(), Code::Ok, "{ended:?}");
    let opened = async { while client.hub_to_zone(requests()).await.is_err() {} };
    tokio::time::timeout(PATIENCE, opened)
        .await
        .expect("opened in time");
    world.stop().await;
}

fn refusal<T>(opened: Result<tonic::Response<Streaming<T>>, Status>) -> Status {
    opened.err().unwrap_or_else(|| Status::ok("it was opened"))
}

/// The peer's end of `ZoneToHub`, of one kind.
struct Uploading {
    out: mpsc::Sender<DeltaDiscoveryResponse>,
    answers: Streaming<DeltaDiscoveryRequest>,
    kind: SyncKind,
    nonce: u64,
}

impl Uploading {
    /// Opens the stream, and waits until the hub asks for the kind.
    async fn open(peer: &mut Peer, kind: SyncKind) -> Self {
        let (out, responses) = mpsc::channel(1);
        let responses = peer.request(receiving(responses));
        let answers = peer.client.zone_to_hub(responses).await.expect("served");
        let mut answers = answers.into_inner();
        while next(&mut answers).await.type_url != kind.to_string() {}
        Self {
            out,
            answers,
            kind,
            nonce: 0,
        }
    }

    /// Sends an object; returns the reason if it is rejected.
    async fn send(&mut self, object: &Value) -> Option<String> {
        self.nonce += 1;
        let crossing = Crossing::of(object).expect("an object");
        let body = serde_json::to_vec(crossing.object()).expect("JSON");
        let item = Item {
            version: crossing.version(),
            body: body.into(),
            relayed: None,
        };
        let name = object["metadata"]["name"].as_str().expect("a name");
        let response = Response {
            kind: self.kind.clone(),
            nonce: self.nonce,
            at: format!("e@{}", self.nonce).parse().expect("legal"),
            complete: false,
            items: vec![(name.parse().expect("legal"), item)],
            orphaned: Vec::new(),
            removed: Vec::new(),
            approved: false,
            releases: Default::default(),
        };
        self.out
            .send(encode_response(&response))
            .await
            .expect("open");
        match decode_request(next(&mut self.answers).await) {
            Ok(Request::Ack { mut rejected, .. }) => rejected.pop().map(|one| one.reason),
            other => panic!("{other:?}"),
        }
    }
}

async fn next<T>(messages: &mut Streaming<T>) -> T {
    let message = tokio::time::timeout(PATIENCE, messages.message()).await;
    let message = message.expect("in time").expect("no error");
    message.expect("open")
}

/// A zone sends `{}`, and the hub stores what the schema makes of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_counts_what_the_hub_stores() {
    let world = World::start().await;
    let item = json!({"type": "object", "properties": {
        "note": {"type": "string", "default": "x".repeat(100)},
    }});
    let spec = json!({"type": "object", "properties": {
        "items": {"type": "array", "items": item},
    }});
    let zone = upload_widgets(&world, spec, json!({})).await;

    let mut peer = Peer::connect(&world).await;
    let kind = SyncKind::new("example.com", "Widget").expect("legal");
    let mut uploading = Uploading::open(&mut peer, kind).await;
    let widget = |name: &str, items: usize| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
            "spec": {"items": vec![json!({}); items]}})
    };
    // About 2,300 bytes with the defaults, and 100 without.
    assert_eq!(uploading.send(&widget("first", 20)).await, None);
    let beyond = |refused: Option<String>| {
        let refused = refused.expect("beyond the quota");
        assert!(refused.contains("spec.quota.bytes"), "{refused}");
    };
    beyond(uploading.send(&widget("second", 20)).await);
    // What is sent is smaller than what is stored, and becomes larger than the quota.
    beyond(uploading.send(&widget("first", 40)).await);
    assert_eq!(uploading.send(&widget("first", 10)).await, None);
    assert_eq!(uploading.send(&widget("second", 10)).await, None);
    // An object that becomes smaller is taken, whatever the quota is.
    let quota = json!({"spec": {"quota": {"bytes": 0}}});
    let changed = request::patch::<Value>(&world.here, &zone, Patch::Merge, &quota).await;
    changed.expect("changed");
    assert_eq!(uploading.send(&widget("second", 9)).await, None);
    beyond(uploading.send(&widget("second", 10)).await);
    world.stop().await;
}

/// Lets zones upload widgets, up to 3,000 bytes of them; returns the path of the zone.
async fn upload_widgets(world: &World, spec: Value, annotations: Value) -> String {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition", 
    "metadata": {"name": "widgets.example.com", "annotations": annotations},
    "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget",
            "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(world, definitions, &definition).await;
    let fleet = "/apis/fleet.deltaplane.io/v1alpha1";
    let synced = json!({"apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "kind": "Widget", "direction": "ZoneToHub"}});
    create(world, &format!("{fleet}/syncedkinds"), &synced).await;
    let quota = json!({"spec": {"quota": {"bytes": 3000}}});
    let zone = format!("{fleet}/zones/{OTHER}");
    let changed = request::patch::<Value>(&world.here, &zone, Patch::Merge, &quota).await;
    changed.expect("changed");
    zone
}

/// A zone leaves out a field that the hub's schema has a default for, and that is computed.
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_counts_the_defaults_of_computed_fields() {
    let world = World::start().await;
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer"},
        "note": {"type": "string", "default": "x".repeat(2000)},
    }});
    let annotations = json!({"deltaplane.io/computed-fields": "spec.note"});
    upload_widgets(&world, spec, annotations).await;
    let mut peer = Peer::connect(&world).await;
    let kind = SyncKind::new("example.com", "Widget").expect("legal");
    let mut uploading = Uploading::open(&mut peer, kind).await;
    let widget = |name: &str| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
            "spec": {"size": 1}})
    };
    assert_eq!(uploading.send(&widget("first")).await, None);
    let refused = uploading.send(&widget("second")).await;
    let refused = refused.expect("beyond the quota");
    assert!(refused.contains("spec.quota.bytes"), "{refused}");
    world.stop().await;
}

async fn create(world: &World, path: &str, object: &Value) {
    let made = request::create::<Value>(&world.here, path, object).await;
    made.expect("made");
}
