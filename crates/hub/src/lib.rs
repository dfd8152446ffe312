//! The wiring of a hub: a control plane, and the fleet that it serves.
//!
//! Not here: decisions of any sort; everything that is wired is its own crate.
//!
//! Invariants: whoever calls the sync services is who the certificate of its connection says;
//! a zone's API is reached through the hub only by whom the hub has authenticated, and the zone
//! decides what they may.

mod certificates;
mod columns;
mod grpc;
mod policies;
mod query;
mod tokens;
mod zones;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_api::identity::{Identity, MASTERS};
use deltaplane_apiserver::ApiServer;
use deltaplane_client::{Feed, Pace, Query, RequestError, Resource, in_process, request};
use deltaplane_controllers::Context;
use deltaplane_controllers::graphs::{
    self, Circles, DefinitionChecker, DefinitionError, Mode, Running,
};
use deltaplane_fleet::kinds::CONTROLLERS;
use deltaplane_fleet::{
    DefinitionFindings, DefinitionProblem, Fleet, FleetConfig, FleetError, GraphAuthorRights,
    KindOrigins, ObjectZones, Ownership, Policing, PolicyPlan, PolicyRollout, SYNC_USER,
    UploadQuota, ZonePropagated, ZoneReconcile, ZoneSync, kinds,
};
use deltaplane_plane::{Extensions, Opened, Plane, PlaneConfig, PlaneError, Role};
use deltaplane_runtime::identity::{KeyError, ZoneTokens};
use deltaplane_runtime::{Stop, Tasks};
use deltaplane_sync::ZoneName;
use futures::{FutureExt, StreamExt};
use kube::Client;
use serde_json::{Value, json};

use certificates::ZoneCertificates;
use columns::ZonesColumn;
use grpc::{Issuer, JoinBindings, SyncRoute};
use policies::Facts;
use query::Channels;
use tokens::ZoneToken;
use zones::{Asking, ZonesRoute};

/// What a hub is told.
#[derive(Clone, Debug)]
pub struct HubConfig {
    pub plane: PlaneConfig,
    /// How long a zone's certificate lives.
    pub zone_certificate: Duration,
    /// How long zones may take to answer what is asked through the hub; watches to begin.
    pub zone_answer: Duration,
}

/// A hub that is ready.
pub struct Hub {
    plane: Plane,
    fleet: Fleet,
    zones: Arc<ZonesRoute>,
}

/// Why a hub did not start, or went down.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error(transparent)]
    Plane(#[from] PlaneError),
    #[error(transparent)]
    Fleet(#[from] FleetError),
    #[error("cannot use the key that signs zones' tokens")]
    ZoneKey(#[from] KeyError),
}

/// A graph with this label, and `false`, stays at the hub.
const DISTRIBUTE: &str = "kro.run/distribute";
/// Zones renew their certificates in time; one that was away for longer joins again.
const ZONE_CERTIFICATE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Clients give up after about twice of this.
const ZONE_ANSWER: Duration = Duration::from_secs(30);

// === impl HubConfig ===

impl HubConfig {
    /// A hub on this control plane, and the rest as usual.
    pub fn new(plane: PlaneConfig) -> Self {
        Self {
            plane,
            zone_certificate: ZONE_CERTIFICATE,
            zone_answer: ZONE_ANSWER,
        }
    }
}

// === impl Hub ===

impl Hub {
    /// Starts a hub; it is ready when this returns, and its kubeconfig is written.
    pub async fn start(config: HubConfig) -> Result<Self, HubError> {
        Role::Hub.check(&config.plane.data_dir)?;
        let opened = Opened::new(config.plane).await?;
        let fleet_config = FleetConfig {
            store: opened.store().clone(),
            clock: opened.clock().clone(),
            product: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let fleet = Fleet::open(fleet_config, opened.back()).await?;
        let tokens = Arc::new(ZoneTokens::new(&opened.material().zone_key.0)?);
        let bindings = Arc::new(JoinBindings::default());
        let issuer = Issuer {
            bindings: bindings.clone(),
            material: opened.material().clone(),
            tokens: tokens.clone(),
            lifetime: config.zone_certificate,
            clock: opened.clock().clone(),
        };
        let channels = Arc::new(Channels::default());
        let asking = Asking {
            fleet: fleet.clone(),
            channels: channels.clone(),
            clock: opened.clock().clone(),
            limit: config.zone_answer,
            group: opened.front().group("zone answer"),
        };
        let zones = Arc::new(ZonesRoute::new(asking));
        let group = opened.front().group("sync stream");
        let sync = SyncRoute::new(fleet.clone(), issuer, channels, group);
        let token = Arc::new(ZoneToken::new(tokens, &opened, fleet.clone()));
        let ownership = Ownership::at_hub(fleet.known(), fleet.catalog().clone());
        let extensions = Extensions {
            admission: vec![
                Arc::new(ownership),
                Arc::new(GraphAuthorRights),
                Arc::new(Policing(fleet.clone())),
                Arc::new(UploadQuota(fleet.clone())),
            ],
            subresources: vec![
                Arc::new(ObjectZones(fleet.clone())),
                Arc::new(ZoneSync(fleet.clone())),
                Arc::new(KindOrigins(fleet.clone())),
                Arc::new(ZonePropagated(fleet.clone())),
                Arc::new(ZoneReconcile(fleet.clone())),
                Arc::new(PolicyRollout(fleet.clone())),
                Arc::new(PolicyPlan(fleet.clone())),
                token.clone(),
            ],
            columns: vec![Arc::new(ZonesColumn(fleet.clone()))],
            routes: vec![Arc::new(sync), zones.clone()],
            zone_gate: Some(Arc::new(ZoneCertificates(fleet.clone()))),
            beginning: Some(Box::new(|api| {
                async move { install(&client_as(&api, CONTROLLERS)).await }.boxed()
            })),
        };
        let plane = opened.start(extensions).await?;
        let sync = client_as(plane.api(), SYNC_USER);
        let controllers = client_as(plane.api(), CONTROLLERS);
        token.attach(controllers.clone());
        bindings.attach(controllers.clone());
        zones.attach(plane.api().clone());
        run_controllers(&plane, &fleet, &controllers);
        fleet.attach(sync, controllers, plane.front());
        Ok(Self {
            plane,
            fleet,
            zones,
        })
    }

    /// A zone whose API is in this process.
    pub fn add_local(&self, zone: ZoneName, api: ApiServer) {
        self.zones.add_local(zone, api);
    }

    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.plane.address()
    }

    /// Where clients find it.
    pub fn url(&self) -> &str {
        self.plane.url()
    }

    /// A client in this process, without sockets, as the given user.
    pub fn client(&self, identity: Identity) -> Client {
        self.plane.client(identity)
    }

    /// A client in this process that may do everything.
    pub fn controllers(&self) -> Client {
        client_as(self.plane.api(), CONTROLLERS)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.plane.kubeconfig()
    }

    /// Tasks that end before the hub does.
    pub fn tasks(&self) -> &Tasks {
        self.plane.front()
    }

    /// Runs until `stop` or until something breaks; then answers what was asked, and ends.
    pub async fn run(self, stop: Stop) -> Result<(), HubError> {
        Ok(self.plane.run(stop).await?)
    }
}

/// Runs what authors graphs, and what moves releases.
fn run_controllers(plane: &Plane, fleet: &Fleet, controllers: &Client) {
    let circles = Circles::default();
    let checker = DefinitionChecker::new(controllers.clone(), circles.clone());
    fleet.check_definitions(Box::new(move |definition| {
        let checker = checker.clone();
        async move {
            let compiled = checker.compile(&definition).await?;
            Some(match compiled {
                Ok(graph) => DefinitionFindings {
                    problem: None,
                    warnings: graph.warnings(),
                },
                Err(problem) => DefinitionFindings {
                    problem: Some(match problem {
                        DefinitionError::Uncompiled(why) => DefinitionProblem::DoesNotCompile(why),
                        DefinitionError::Circle(why) => DefinitionProblem::LeadsInACircle(why),
                        DefinitionError::KindIsTaken(why) => DefinitionProblem::KindIsTaken(why),
                    }),
                    warnings: Vec::new(),
                },
            })
        }
        .boxed()
    }));
    let context = Context {
        client: controllers.clone(),
        pace: Pace::system(),
    };
    let running = Running {
        mode: Mode::Author,
        options: graphs::GraphOptions::default(),
        metrics: graphs::Metrics::default(),
        circles,
    };
    let group = plane.front().group("graph");
    let policies = context.clone();
    // Definitions of an earlier version would drop fields of what they write.
    let begun = plane.begun();
    plane.front().spawn("graphs", |stop| async move {
        if stop.unless(begun).await.is_some() {
            graphs::run(context, running, group, stop).await;
        }
    });
    let facts = Arc::new(Facts(fleet.clone()));
    let begun = plane.begun();
    plane.front().spawn("policies", |stop| async move {
        if stop.unless(begun).await.is_some() {
            deltaplane_controllers::policies::run(policies, facts, stop).await;
        }
    });
}

fn client_as(api: &ApiServer, user: &str) -> Client {
    in_process(api.clone(), Identity::authenticated(user, &[MASTERS]))
}

/// After so long it is looked again whether a kind is served, whatever a watch said.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Makes the definitions of our own kinds be there as this version has them.
async fn install(client: &Client) -> Result<(), RequestError> {
    for definition in kinds::definitions() {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=deltaplane&force=true"
        );
        request::apply::<serde_json::Value>(client, &path, &definition).await?;
    }
    graphs::install(client).await?;
    wait_served(client).await?;
    let definitions = graphs::api::definitions();
    let crosses = json!({
        "apiVersion": format!("{}/{}", kinds::GROUP, kinds::VERSION),
        "kind": "SyncedKind",
        "metadata": {
            "name": definitions.to_string(),
            "labels": {kinds::OF_GRAPHS: "true"},
        },
        "spec": {
            "group": definitions.group, "kind": definitions.kind,
            "direction": "HubToZone", "status": "Each",
            "selector": {"matchExpressions": [
                {"key": DISTRIBUTE, "operator": "NotIn", "values": ["false"]},
            ]},
        },
    });
    let path = Resource::cluster(kinds::GROUP, kinds::VERSION, "syncedkinds", "SyncedKind");
    match request::create::<Value>(client, &path.collection_path(None), &crosses).await {
        Err(error) if !error.is_conflict() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Waits until our own kinds can be written: a definition is served when its controller has
/// accepted it.
async fn wait_served(client: &Client) -> Result<(), RequestError> {
    let definitions = Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    );
    let feed = Feed::new(client.clone(), Query::metadata(definitions), Pace::system());
    let mut changes = feed.events();
    let mut missing = kinds::definitions();
    missing.extend(graphs::api::kinds());
    loop {
        while let Some(definition) = missing.last()
            && is_served(client, definition).await?
        {
            missing.pop();
        }
        if missing.is_empty() {
            return Ok(());
        }
        // A feed never ends. An event may come before discovery shows what it tells.
        let _ = tokio::time::timeout(LOOK_AGAIN, changes.next()).await;
    }
}

async fn is_served(client: &Client, definition: &Value) -> Result<bool, RequestError> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, version) = (text(&spec["group"]), text(&spec["versions"][0]["name"]));
    let found = request::get::<Value>(client, &format!("/apis/{group}/{version}")).await;
    match found {
        Ok(found) => {
            let mut served = found["resources"].as_array().into_iter().flatten();
            Ok(served.any(|one| one["kind"] == spec["names"]["kind"]))
        }
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

// === impl HubError ===

impl HubError {
    /// What the operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Plane(error) => error.hint(),
            Self::ZoneKey(_) => {
                "move zones.key of the data directory's pki away to have it made anew; join strings made so far then stop working".to_owned()
            }
            Self::Fleet(_) => "this should not happen; please report it".to_owned(),
        }
    }
}
