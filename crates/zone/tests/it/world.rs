//! A hub and a zone that has joined it. They share a process and nothing else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use deltaplane_api::identity::{Identity, MASTERS};
use deltaplane_apiserver::ApiServer;
use deltaplane_client::{in_process, request};
use deltaplane_fleet::Fleet;
use deltaplane_hub::{Hub, HubConfig};
use deltaplane_plane::{Plane, PlaneConfig};
use deltaplane_runtime::identity::JoinString;
use deltaplane_runtime::{Stop, Tasks, Trigger};
use deltaplane_sync::ZoneName;
use deltaplane_zone::{
    ClusterConfig, ClusterZone, GraphOptions, LinkConfig, SimulatorConfig, Zone, ZoneConfig,
    leave_embedded,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(20);
pub(crate) const ZONE: &str = "eu-1";
/// How many watches of one user the zone has at most: enough for its own controllers.
pub(crate) const WATCHES: usize = 150;

pub(crate) struct World {
    pub(crate) hub: Node,
    pub(crate) zone: Node,
    /// At the hub, as one of its controllers.
    pub(crate) here: Client,
    /// What the hub knows of its zones.
    pub(crate) fleet: Fleet,
    /// In the zone, as its administrator.
    pub(crate) there: Client,
    api: ApiServer,
    config: Kubeconfig,
    /// The cluster that is the zone, where the zone has no API of its own.
    cluster: Option<Node>,
    directory: TempDir,
}

/// How the hub reaches the zone's API.
#[derive(Clone, Copy)]
enum Reach {
    Connection,
    Local,
}

/// A control plane that runs until it is told to stop.
pub(crate) struct Node {
    trigger: Trigger,
    tasks: Tasks,
}

impl World {
    /// The zone has an API of its own.
    pub(crate) async fn start() -> Self {
        Self::embedded(None).await
    }

    /// The zone is one of the hub's own process, as in `up`.
    pub(crate) async fn local() -> Self {
        Self::begin(Reach::Local, async |here, data| {
            embedded(here, data, None).await
        })
        .await
    }

    /// The zone has an API of its own, and workloads seem to run there.
    pub(crate) async fn simulated() -> Self {
        let delay = Duration::from_millis(50);
        Self::embedded(Some(SimulatorConfig { delay })).await
    }

    async fn embedded(simulate: Option<SimulatorConfig>) -> Self {
        Self::begin(Reach::Connection, async |here, data| {
            embedded(here, data, simulate).await
        })
        .await
    }

    /// The zone is a cluster that has no admission policies: nothing there keeps anybody from
    /// changing what came from the hub.
    pub(crate) async fn on_cluster() -> Self {
        Self::begin(Reach::Connection, async |here, data| {
            let cluster = Plane::start(plane(&data.join("cluster"))).await;
            let cluster = cluster.expect("the cluster started");
            let config = ClusterConfig {
                kubeconfig: cluster.kubeconfig().to_owned(),
                data_dir: data.join("agent"),
                join: Some(join(here).await),
                link: LinkConfig::default(),
                graphs: None,
                metrics: None,
            };
            let zone = ClusterZone::start(config).await.expect("the zone started");
            let api = cluster.api().clone();
            let there = cluster.client(administrator());
            let cluster = Node::run(|stop| async { cluster.run(stop).await.expect("a clean end") });
            let zone = Node::run(|stop| async { zone.run(stop).await.expect("a clean end") });
            (there, api, zone, Some(cluster))
        })
        .await
    }

    async fn begin(
        reach: Reach,
        zone: impl AsyncFnOnce(&Client, &Path) -> (Client, ApiServer, Node, Option<Node>),
    ) -> Self {
        // For libraries that ask for the process's provider, as the binary does it.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let hub = Hub::start(HubConfig::new(plane(&directory.path().join("hub"))));
        let hub = hub.await.expect("the hub started");
        let here = hub.controllers();
        let config = Kubeconfig::read_from(hub.kubeconfig()).expect("a kubeconfig");
        make_zone(&here, ZONE).await;
        make_zone(&here, "never-there").await;
        let (there, api, zone, cluster) = zone(&here, &directory.path().join("zone")).await;
        let name: ZoneName = ZONE.parse().expect("a legal name");
        tokio::time::timeout(PATIENCE, hub.fleet().connected(&name))
            .await
            .expect("connected in time");
        if let Reach::Local = reach {
            hub.add_local(name, api.clone());
        }
        Self {
            fleet: hub.fleet().clone(),
            hub: Node::run(|stop| async { hub.run(stop).await.expect("a clean end") }),
            zone,
            here,
            there,
            api,
            config,
            cluster,
            directory,
        }
    }

    /// Where the zone keeps its credential.
    pub(crate) fn membership(&self) -> PathBuf {
        self.directory.path().join("zone").join("zone")
    }

    /// A directory for something else.
    pub(crate) fn other_directory(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The hub's address and authority, without anybody's credentials.
    pub(crate) async fn nobody(&self) -> kube::Config {
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(self.config.clone(), &options);
        let mut config = config.await.expect("a usable kubeconfig");
        config.auth_info = AuthInfo::default();
        config.default_retry = false;
        config
    }

    /// At the hub, as its administrator, over TLS.
    pub(crate) async fn administrator(&self) -> Client {
        self.at_hub(None).await
    }

    /// At the hub, as a user.
    pub(crate) async fn here_as(&self, user: &str) -> Client {
        self.at_hub(Some(user)).await
    }

    async fn at_hub(&self, user: Option<&str>) -> Client {
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(self.config.clone(), &options);
        let mut config = config.await.expect("a usable kubeconfig");
        config.auth_info.impersonate = user.map(str::to_owned);
        Client::try_from(config).expect("a client")
    }

    /// In the zone, as a user.
    pub(crate) fn there_as(&self, user: &str) -> Client {
        in_process(self.api.clone(), Identity::authenticated(user, &[]))
    }

    /// A client over TLS of a zone through the hub, with the hub's kubeconfig.
    pub(crate) async fn through(&self, zone: &str) -> Client {
        self.through_as(zone, None).await
    }

    pub(crate) async fn through_as(&self, zone: &str, user: Option<&str>) -> Client {
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(self.config.clone(), &options);
        let mut config = config.await.expect("a usable kubeconfig");
        let url = format!("{}zones/{zone}", config.cluster_url);
        config.cluster_url = url.parse().expect("a legal address");
        config.default_retry = false;
        config.auth_info.impersonate = user.map(str::to_owned);
        Client::try_from(config).expect("a client")
    }

    /// Stops the zone, does something to its membership directory, and starts it again.
    pub(crate) async fn restart_zone(&mut self, meanwhile: impl FnOnce(&Path)) {
        self.zone.stop().await;
        meanwhile(&self.membership());
        let data = self.directory.path().join("zone");
        let zone = zone(None, &data, None).await;
        self.api = zone.api().clone();
        self.there = zone.client(administrator());
        self.zone = Node::run(|stop| async { zone.run(stop).await.expect("a clean end") });
    }

    /// The kubeconfig of the cluster that is the zone, and the data directory of its agent.
    pub(crate) fn cluster_files(&self) -> (PathBuf, PathBuf) {
        let zone = self.directory.path().join("zone");
        (zone.join("cluster").join("kubeconfig"), zone.join("agent"))
    }

    /// Stops the zone, lets it leave the fleet, and starts it again with a new join string.
    pub(crate) async fn rejoin_zone(&mut self) {
        self.zone.stop().await;
        let data = self.directory.path().join("zone");
        leave_embedded(plane(&data)).await.expect("it left");
        let zone = zone(Some(join(&self.here).await), &data, None).await;
        self.api = zone.api().clone();
        self.there = zone.client(administrator());
        self.zone = Node::run(|stop| async { zone.run(stop).await.expect("a clean end") });
    }

    pub(crate) async fn stop(self) {
        self.zone.stop().await;
        self.stop_cluster().await;
        self.hub.stop().await;
    }

    /// Stops the cluster that is the zone, if there is one.
    pub(crate) async fn stop_cluster(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.stop().await;
        }
    }
}

impl Node {
    fn run<F: Future<Output = ()> + Send + 'static>(run: impl FnOnce(Stop) -> F) -> Self {
        let (trigger, stop) = Trigger::new();
        let tasks = Tasks::new();
        tasks.group("node").spawn(run(stop));
        Self { trigger, tasks }
    }

    pub(crate) async fn stop(&self) {
        self.trigger.stop();
        let ended = self.tasks.shutdown(PATIENCE).await;
        ended.expect("ended in time");
    }
}

async fn embedded(
    here: &Client,
    data: &Path,
    simulate: Option<SimulatorConfig>,
) -> (Client, ApiServer, Node, Option<Node>) {
    let zone = zone(Some(join(here).await), data, simulate).await;
    let api = zone.api().clone();
    let there = zone.client(administrator());
    let zone = Node::run(|stop| async { zone.run(stop).await.expect("a clean end") });
    (there, api, zone, None)
}

fn plane(data: &Path) -> PlaneConfig {
    PlaneConfig::new(data.to_owned(), ([127, 0, 0, 1], 0).into())
}

async fn make_zone(hub: &Client, zone: &str) {
    let zones = "/apis/fleet.deltaplane.io/v1alpha1/zones";
    let object = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "Zone",
        "metadata": {"name": zone}, "spec": {},
    });
    let made = request::create::<Value>(hub, zones, &object).await;
    made.expect("made");
}

fn administrator() -> Identity {
    Identity::authenticated("test", &[MASTERS])
}

pub(crate) async fn join(hub: &Client) -> JoinString {
    let path = format!("/apis/fleet.deltaplane.io/v1alpha1/zones/{ZONE}/_token");
    let token: Value = request::create(hub, &path, &json!({}))
        .await
        .expect("a token");
    let join = token["join"].as_str().expect("a join string");
    join.parse().expect("a legal one")
}

async fn zone(join: Option<JoinString>, data: &Path, simulate: Option<SimulatorConfig>) -> Zone {
    let mut plane = plane(data);
    plane.requests.watches_per_user = WATCHES;
    let config = ZoneConfig {
        simulate,
        graphs: GraphOptions::default(),
        hub: None,
        plane,
        join,
        link: LinkConfig::default(),
    };
    Zone::start(config).await.expect("the zone started")
}

pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    accept: &str,
) -> Response<Body> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("accept", accept).body(Body::empty());
    let answer = client.send(request.expect("legal")).await;
    answer.expect("an answer")
}

/// The status, and the body as JSON.
pub(crate) async fn get(client: &Client, path: &str) -> (StatusCode, Value) {
    json_of(send(client, Method::GET, path, "application/json").await).await
}

pub(crate) async fn json_of(answer: Response<Body>) -> (StatusCode, Value) {
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("complete");
    let body = serde_json::from_slice(&body.to_bytes()).expect("JSON");
    (status, body)
}

/// Asks until the answer is as it should be.
pub(crate) async fn until(client: &Client, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let asking = async {
        loop {
            last = get(client, path).await.1;
            if is(&last) {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, asking).await;
    assert!(in_time.is_ok(), "{path}: {last}");
    last
}
