//! A hub with a zone that keeps to the rules, and another of which only the credential is real.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_client::request;
use deltaplane_e2e::PATIENCE;
use deltaplane_hub::{Hub, HubConfig};
use deltaplane_plane::PlaneConfig;
use deltaplane_runtime::identity::{JoinString, joining_config};
use deltaplane_runtime::{Clock, Tasks, Trigger};
use deltaplane_sync::Crossing;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{Hello, Rejected, SyncedObject};
use deltaplane_sync_grpc::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource,
};
use deltaplane_sync_grpc::{SESSION, receiving};
use deltaplane_zone::{
    GraphOptions, LinkConfig, Membership, SyncClient, Zone, ZoneConfig, connect,
};
use futures::StreamExt;
use kube::Client;
use prost::Message;
use prost_types::Any;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::{Code, Status, Streaming};

pub(crate) const CONFIG_MAPS: &str = "deltaplane.io/core/ConfigMap";

pub(crate) struct World {
    pub(crate) bad: Membership,
    address: SocketAddr,
    join: JoinString,
    hub: Client,
    good: Client,
    written: std::sync::atomic::AtomicU32,
    /// Ends both when dropped.
    _running: Trigger,
    _dir: TempDir,
}

/// A zone that sends.
pub(crate) struct Uploading {
    out: mpsc::Sender<DeltaDiscoveryResponse>,
    answers: Streaming<DeltaDiscoveryRequest>,
    nonce: u64,
    _client: SyncClient,
}

/// A zone that is sent something.
pub(crate) struct Following {
    _out: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
    _client: SyncClient,
}

pub(crate) fn hello(zone: &str, protocols: RangeInclusive<u32>) -> Hello {
    Hello {
        zone: zone.to_owned(),
        product: "9.9.9".to_owned(),
        oldest_protocol: *protocols.start(),
        newest_protocol: *protocols.end(),
        features: vec!["unheard-of".to_owned()],
        epoch: "e".to_owned(),
        ..Hello::default()
    }
}

pub(crate) fn with_session<T>(messages: T, session: u64) -> tonic::Request<T> {
    let mut request = tonic::Request::new(messages);
    request.metadata_mut().insert(SESSION, session.into());
    request
}

pub(crate) fn object(name: &str, content: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": content},
        "metadata": {"name": name, "namespace": "team"},
    })
}

/// Its version and its bytes.
pub(crate) fn crossing(object: &Value) -> (String, Vec<u8>) {
    let crossing = Crossing::of(object).expect("an object");
    let body = serde_json::to_vec(crossing.object()).expect("JSON");
    (crossing.version().to_string(), body)
}

pub(crate) fn resource(name: &str, version: &str, object: &SyncedObject) -> Resource {
    Resource {
        name: name.to_owned(),
        version: version.to_owned(),
        resource: Some(Any {
            type_url: "type.googleapis.com/deltaplane.sync.v1.SyncedObject".to_owned(),
            value: object.encode_to_vec(),
        }),
        aliases: Vec::new(),
    }
}

async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("in time")
}

async fn create(client: &Client, path: &str, object: &Value) -> Value {
    request::create(client, path, object).await.expect("made")
}

async fn join(hub: &Client, zone: &str) -> JoinString {
    let fleet = "/apis/fleet.deltaplane.io/v1alpha1";
    let object = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "Zone",
        "metadata": {"name": zone}, "spec": {},
    });
    create(hub, &format!("{fleet}/zones"), &object).await;
    let token = create(hub, &format!("{fleet}/zones/{zone}/_token"), &json!({})).await;
    token["join"]
        .as_str()
        .expect("text")
        .parse()
        .expect("a join string")
}

// === impl World ===

impl World {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let dir = tempfile::tempdir().expect("a directory");
        let plane =
            |name: &str| PlaneConfig::new(dir.path().join(name), ([127, 0, 0, 1], 0).into());
        let hub = Hub::start(HubConfig::new(plane("hub")))
            .await
            .expect("started");
        let client = hub.controllers();
        let kind = json!({
            "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
            "metadata": {"name": "configmaps"}, "spec": {"kind": "ConfigMap", "direction": "Both"},
        });
        create(
            &client,
            "/apis/fleet.deltaplane.io/v1alpha1/syncedkinds",
            &kind,
        )
        .await;
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
        create(&client, "/api/v1/namespaces", &team).await;
        create(
            &client,
            "/api/v1/namespaces/team/configmaps",
            &object("kept", "1"),
        )
        .await;
        let link = LinkConfig {
            compress: false,
            ..LinkConfig::default()
        };
        let good = ZoneConfig {
            simulate: None,
            graphs: GraphOptions::default(),
            hub: None,
            plane: plane("good"),
            join: Some(join(&client, "good").await),
            link,
        };
        let good = Zone::start(good).await.expect("started");
        let bad_join = join(&client, "bad").await;
        let directory = dir.path().join("bad");
        let bad = Membership::open(&directory, Some(&bad_join), link, &Clock::system()).await;
        let good_client = good.client(deltaplane_api::identity::Identity::authenticated(
            "tester",
            &["system:masters"],
        ));
        let (trigger, stop) = Trigger::new();
        let address = hub.address();
        // They end with the trigger, or with the test.
        let running = Tasks::new().group("control plane");
        let (one, other) = (good.run(stop.clone()), hub.run(stop));
        running.spawn(async { drop(one.await) });
        running.spawn(async { drop(other.await) });
        Self {
            bad: bad.expect("joined"),
            address,
            join: bad_join,
            hub: client,
            good: good_client,
            written: 0.into(),
            _running: trigger,
            _dir: dir,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A connection without a certificate.
    pub(crate) async fn nobody(&self) -> SyncClient {
        let (tls, _) = joining_config(self.join.ca);
        let link = LinkConfig::default();
        connect(&self.join.url, tls, link).await.expect("connected")
    }

    /// TLS, and nothing said yet.
    pub(crate) async fn raw(&self) -> TlsStream<TcpStream> {
        let (tls, _) = joining_config(self.join.ca);
        let stream = TcpStream::connect(self.address).await.expect("connected");
        let name = "127.0.0.1".try_into().expect("a name");
        let connector = TlsConnector::from(Arc::new(tls));
        connector.connect(name, stream).await.expect("secret")
    }

    /// The other zone gets what is written now, and still has what it had.
    pub(crate) async fn serves_the_other(&self) {
        let number = self
            .written
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("n{number}");
        create(
            &self.hub,
            "/api/v1/namespaces/team/configmaps",
            &object(&name, "1"),
        )
        .await;
        for name in [name.as_str(), "kept"] {
            let path = format!("/api/v1/namespaces/team/configmaps/{name}");
            in_time(async {
                while request::get::<Value>(&self.good, &path).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
        }
    }

    /// An object at the hub, by `<namespace>/<name>`.
    pub(crate) async fn get(&self, name: &str) -> Value {
        let (namespace, name) = name.split_once('/').expect("a namespace");
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
        request::get(&self.hub, &path).await.expect("there")
    }

    /// What is at the hub, but for what tests write.
    pub(crate) async fn at_hub(&self) -> Vec<String> {
        names(&self.hub).await
    }

    /// What the zone has that keeps to the rules, but for what tests write.
    pub(crate) async fn in_good(&self) -> Vec<String> {
        names(&self.good).await
    }

    async fn session(&self) -> (SyncClient, u64) {
        let mut client = self.bad.connect().await.expect("connected");
        let welcome = client
            .handshake(hello("bad", 1..=1))
            .await
            .expect("welcome");
        let session = welcome.into_inner().session;
        (client, session)
    }

    /// A zone that has asked for ConfigMaps.
    pub(crate) async fn following(&self) -> Following {
        let (mut client, session) = self.session().await;
        let (out, requests) = mpsc::channel(16);
        let subscribe = DeltaDiscoveryRequest {
            type_url: CONFIG_MAPS.to_owned(),
            resource_names_subscribe: vec!["*".to_owned()],
            ..DeltaDiscoveryRequest::default()
        };
        out.send(subscribe).await.expect("open");
        let answer = client
            .hub_to_zone(with_session(receiving(requests), session))
            .await;
        Following {
            _out: out,
            responses: answer.expect("opened").into_inner(),
            _client: client,
        }
    }

    /// A zone that was asked for ConfigMaps.
    pub(crate) async fn uploading(&self) -> Uploading {
        let (mut client, session) = self.session().await;
        let (out, responses) = mpsc::channel(16);
        let answer = client
            .zone_to_hub(with_session(receiving(responses), session))
            .await;
        let mut answers = answer.expect("opened").into_inner();
        let asked = in_time(answers.message())
            .await
            .expect("asked")
            .expect("open");
        assert_eq!(asked.type_url, CONFIG_MAPS);
        Uploading {
            out,
            answers,
            nonce: 0,
            _client: client,
        }
    }

    /// How a stream ended on which this was sent.
    pub(crate) async fn sends_down(&self, requests: Vec<DeltaDiscoveryRequest>) -> Option<Code> {
        let (mut client, session) = self.session().await;
        let requests = futures::stream::iter(requests).chain(futures::stream::pending());
        match client.hub_to_zone(with_session(requests, session)).await {
            Ok(answer) => in_time(end(answer.into_inner())).await,
            Err(status) => Some(status.code()),
        }
    }

    pub(crate) async fn sends_up(&self, responses: Vec<DeltaDiscoveryResponse>) -> Option<Code> {
        let (mut client, session) = self.session().await;
        let responses = futures::stream::iter(responses).chain(futures::stream::pending());
        match client.zone_to_hub(with_session(responses, session)).await {
            Ok(answer) => in_time(end(answer.into_inner())).await,
            Err(status) => Some(status.code()),
        }
    }
}

async fn names(of: &Client) -> Vec<String> {
    let path = "/api/v1/namespaces/team/configmaps";
    let list: Value = request::get(of, path).await.expect("listed");
    let items = list["items"].as_array().expect("a list").iter();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    let ours = |name: &&str| *name != "kube-root-ca.crt" && !name.starts_with('n');
    names.filter(ours).map(str::to_owned).collect()
}

async fn end<T>(mut stream: Streaming<T>) -> Option<Code> {
    loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(status) => return Some(status.code()),
        }
    }
}

// === impl Uploading ===

impl Uploading {
    /// Sends that the hub may keep an object as its own, and gives how the stream ended.
    pub(crate) async fn orphan(&mut self, name: &str) -> Status {
        self.nonce += 1;
        let orphaned = Resource {
            name: name.to_owned(),
            resource: Some(Any {
                type_url: "type.googleapis.com/deltaplane.sync.v1.Orphaned".to_owned(),
                value: Vec::new(),
            }),
            ..Resource::default()
        };
        let response = DeltaDiscoveryResponse {
            system_version_info: format!("e@{}", self.nonce),
            resources: vec![orphaned],
            type_url: CONFIG_MAPS.to_owned(),
            nonce: self.nonce.to_string(),
            ..DeltaDiscoveryResponse::default()
        };
        self.out.send(response).await.expect("open");
        let answer = in_time(self.answers.message()).await;
        answer.expect_err("the stream ends")
    }

    /// Sends these, and gives those that were rejected, with the reasons.
    pub(crate) async fn send(
        &mut self,
        resources: Vec<Resource>,
        removed: &[String],
    ) -> Vec<(String, String)> {
        self.nonce += 1;
        let response = DeltaDiscoveryResponse {
            system_version_info: format!("e@{}", self.nonce),
            resources,
            type_url: CONFIG_MAPS.to_owned(),
            nonce: self.nonce.to_string(),
            removed_resources: removed.to_vec(),
            control_plane: None,
        };
        self.out.send(response).await.expect("open");
        let answer: Result<_, Status> = in_time(self.answers.message()).await;
        let answer = answer.expect("answered").expect("open");
        assert_eq!(answer.response_nonce, self.nonce.to_string());
        let details = answer
            .error_detail
            .into_iter()
            .flat_map(|error| error.details);
        let rejected = details.map(|detail| Rejected::decode(&*detail.value).expect("rejections"));
        let rejections = rejected.flat_map(|rejected| rejected.rejections);
        let mut reasons: Vec<_> = rejections.map(|one| (one.name, one.reason)).collect();
        reasons.sort();
        reasons
    }
}

// === impl Following ===

impl Following {
    pub(crate) async fn next(&mut self) -> DeltaDiscoveryResponse {
        let next = in_time(self.responses.message()).await;
        next.expect("no error").expect("open")
    }

    /// Whether nothing is there to be read.
    pub(crate) async fn is_silent(&mut self) -> bool {
        futures::poll!(std::pin::pin!(self.responses.message())).is_pending()
    }

    /// Whether it ends.
    pub(crate) async fn ends(&mut self) -> bool {
        in_time(async {
            while let Ok(Some(_)) = self.responses.message().await {}
            true
        })
        .await
    }
}
