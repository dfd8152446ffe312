//! The wiring of a zone: an API, its own or that of an existing cluster, and the agent that keeps
//! it in touch with the hub.
//!
//! Not here: decisions of any sort; everything that is wired is its own crate.
//!
//! Invariants: a zone without its hub goes on as it is; nothing is deleted here that the hub did
//! not name; what the hub asks is read, and never written.

mod agent;
mod cluster;
mod drift;
mod exposition;
mod followed;
mod kinds_file;
mod leaving;
mod link;
mod membership;
mod query;
mod readiness;
mod remembered;
mod report;
mod standalone;
mod target;
mod uploads;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deltaplane_api::identity::{Identity, MASTERS};
use deltaplane_apiserver::ApiServer;
use deltaplane_border::{Mirror, MirrorConfig, Openings};
use deltaplane_client::pace::Backoff;
use deltaplane_client::{ConnectError, Pace, in_process};
use deltaplane_controllers::Context;
use deltaplane_controllers::graphs::{self, Mode, Running};
use deltaplane_controllers::simulator;
use deltaplane_fleet::kinds::{CONTROLLERS, GROUP};
use deltaplane_fleet::{
    FollowedLineage, GraphAuthorRights, LineageError, Ownership, SYNC_USER, follow_definitions,
    open_lineage_as_possible,
};
use deltaplane_plane::{Extensions, Opened, Plane, PlaneConfig, PlaneError, Role};
use deltaplane_runtime::identity::{HubUrl, JoinString};
use deltaplane_runtime::tasks::TaskError;
use deltaplane_runtime::{Clock, Stop, Tasks};
use deltaplane_store::Store;
use deltaplane_sync::{Origin, Revision, ZoneName};
use futures::FutureExt;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;

pub use deltaplane_controllers::graphs::accounts::DEFAULT_ACCOUNT as GRAPH_ACCOUNT;
pub use deltaplane_controllers::graphs::{GraphIdentity, GraphOptions};
pub use deltaplane_controllers::simulator::SimulatorConfig;

pub use cluster::{ClusterConfig, ClusterZone, GraphRights, KindName, Manifest, NotAKindName};
pub use leaving::{LeaveError, LeftFleet, leave_cluster, leave_embedded};
pub use link::{Client as SyncClient, LinkConfig, connect};
pub use membership::{JoinError, Membership};
pub use query::{ApiBody, ApiError, Cluster, Embedded, Reading, ZoneApi};
pub use report::REPORT;
pub use standalone::{Standalone, StandaloneConfig};

use agent::{Agent, Kept};
use drift::Drift;
use followed::FollowedHub;
use kinds_file::KindsFile;
use query::Queries;
use readiness::Readiness;
use remembered::Remembered;
use target::ZoneTarget;
use uploads::Uploads;

/// What a zone with an API of its own is told.
#[derive(Clone, Debug)]
pub struct ZoneConfig {
    pub plane: PlaneConfig,
    /// Needed until the zone has joined.
    pub join: Option<JoinString>,
    /// Where the hub is, if not where it was when the zone joined.
    pub hub: Option<HubUrl>,
    pub link: LinkConfig,
    /// Whether workloads are said to run, and how soon.
    pub simulate: Option<SimulatorConfig>,
    pub graphs: GraphOptions,
}

/// A zone with an API of its own, which is ready.
pub struct Zone {
    plane: Plane,
    name: ZoneName,
}

/// Why a zone did not start, or went down.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    #[error(transparent)]
    Plane(#[from] PlaneError),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Lineage(#[from] LineageError),
    #[error(transparent)]
    Cluster(#[from] ConnectError),
    #[error("the cluster is a hub: it serves {GROUP}")]
    IsHub,
    #[error("cannot serve metrics on {address}")]
    Metrics {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Tasks(#[from] TaskError),
}

/// An API to keep in touch with the hub.
struct Endpoint {
    /// Applies what comes, and sees what goes.
    client: Client,
    /// For what the hub's users ask.
    api: Arc<dyn ZoneApi>,
    /// Whether the API itself keeps sync from what was authored in the zone.
    guarded: bool,
    openings: Openings,
    at: Revision,
}

/// How long an agent waits before it tries again: a hub that is back is found soon, and many zones
/// do not come at once.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(5),
};
/// Where a zone keeps what makes it a member, in its data directory.
const MEMBERSHIP: &str = "zone";

// === impl Zone ===

impl Zone {
    /// Joins if that is needed, and starts; the API is ready when this returns, whether the hub is
    /// there or not.
    pub async fn start(config: ZoneConfig) -> Result<Self, ZoneError> {
        let clock = Clock::system();
        Role::Zone.check(&config.plane.data_dir)?;
        let directory = membership_dir(&config.plane.data_dir);
        let join = config.join.as_ref();
        let membership = match Membership::open(&directory, join, config.link, &clock).await {
            Err(JoinError::NotJoined) => Err(leaving::left(&directory).map_err(JoinError::from)?),
            opened => Ok(opened?),
        };
        // One that left its fleet goes on alone.
        let (name, membership) = match membership {
            Ok(membership) => (membership.zone().clone(), Some(membership)),
            Err(Some(name)) => (name, None),
            Err(None) => return Err(JoinError::NotJoined.into()),
        };
        let membership = match (membership, config.hub) {
            (Some(membership), Some(url)) => Some(membership.at(url)),
            (membership, _) => membership,
        };
        let plane = PlaneConfig {
            name: name.to_string(),
            ..config.plane
        };
        let opened = Opened::new(plane).await?;
        let FollowedLineage { openings, recorded } =
            open_lineage_as_possible(opened.store(), opened.back()).await?;
        let (definitions, known) = watch::channel(Arc::default());
        let front = opened.front().clone();
        let definitions = Mutex::new(Some(definitions));
        let extensions = Extensions {
            admission: vec![
                Arc::new(Ownership::in_zone(name.clone(), known)),
                Arc::new(GraphAuthorRights),
            ],
            beginning: Some(Box::new(move |api| {
                // Before the first definition is written: whoever writes one waits for this.
                if let Some(definitions) = definitions.lock().take() {
                    let (client, pace) = (sync_client(&api), Pace::system());
                    front.spawn("computed fields", |stop| {
                        follow_definitions(client, pace, definitions, stop)
                    });
                }
                async move { graphs::install(&controllers(&api)).await }.boxed()
            })),
            ..Extensions::default()
        };
        let plane = opened.start(extensions).await?;
        let client = sync_client(plane.api());
        let metrics = graphs::Metrics::default();
        plane
            .api()
            .register_metrics(|registry| metrics.register(registry));
        let controllers = controllers(plane.api());
        if let Some(simulate) = config.simulate {
            let context = Context {
                client: controllers.clone(),
                pace: Pace::system(),
            };
            spawn_simulator(plane.front(), context, simulate);
        }
        spawn_graphs(&plane, &controllers, config.graphs, metrics);
        let endpoint = Endpoint {
            client,
            api: Arc::new(Embedded(plane.api().clone())),
            guarded: true,
            openings,
            at: plane.store().revision().get(),
        };
        match membership {
            Some(membership) if *recorded.borrow() => {
                spawn_agent(plane.front(), membership, endpoint)?;
            }
            Some(membership) => {
                spawn_agent_later(plane.front().clone(), membership, endpoint, recorded);
            }
            None => {
                tracing::warn!(zone = %name, "the zone left its fleet; it goes on without a hub")
            }
        }
        Ok(Self { plane, name })
    }

    pub fn name(&self) -> &ZoneName {
        &self.name
    }

    /// Its API, to be called in this process.
    pub fn api(&self) -> &ApiServer {
        self.plane.api()
    }

    /// The objects, as they are stored.
    pub fn store(&self) -> &Store {
        self.plane.store()
    }

    /// A client in this process, without sockets, as the given user.
    pub fn client(&self, identity: Identity) -> Client {
        self.plane.client(identity)
    }

    /// Where clients find it.
    pub fn url(&self) -> &str {
        self.plane.url()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.plane.kubeconfig()
    }

    /// Runs until `stop` or until something breaks; then answers what was asked, and ends.
    pub async fn run(self, stop: Stop) -> Result<(), ZoneError> {
        Ok(self.plane.run(stop).await?)
    }
}

/// A client in this process, for what comes from the hub.
fn sync_client(api: &ApiServer) -> Client {
    let identity = Identity::authenticated(SYNC_USER, &[MASTERS]);
    in_process(api.clone(), identity)
}

/// A client in this process, for controllers.
fn controllers(api: &ApiServer) -> Client {
    let identity = Identity::authenticated(CONTROLLERS, &[MASTERS]);
    in_process(api.clone(), identity)
}

/// Runs graphs.
fn spawn_graphs(plane: &Plane, client: &Client, options: GraphOptions, metrics: graphs::Metrics) {
    let context = Context {
        client: client.clone(),
        pace: Pace::system(),
    };
    let tasks = plane.front();
    let group = tasks.group("graph");
    let running = Running {
        mode: Mode::Run,
        options,
        metrics,
        circles: graphs::Circles::default(),
    };
    // Definitions of an earlier version would drop fields of what it writes.
    let begun = plane.begun();
    tasks.spawn("graphs", |stop| async move {
        if stop.unless(begun).await.is_some() {
            graphs::run(context, running, group, stop).await;
        }
    });
}

fn spawn_simulator(tasks: &Tasks, context: Context, config: SimulatorConfig) {
    tasks.spawn("simulator", move |stop| {
        simulator::run(context, config, stop)
    });
}

/// Whether a zone with this data directory has joined a hub.
pub fn has_joined(data_dir: &Path) -> bool {
    membership_dir(data_dir).join("credential.pem").exists()
}

fn membership_dir(data_dir: &Path) -> PathBuf {
    data_dir.join(MEMBERSHIP)
}

/// Starts the agent as soon as it is written down that the store was opened: the hub must not follow
/// what a later opening would not know of.
fn spawn_agent_later(
    tasks: Tasks,
    membership: Membership,
    endpoint: Endpoint,
    mut recorded: watch::Receiver<bool>,
) {
    tracing::error!("the store takes no writes; the zone connects to its hub when it does");
    let (group, stop) = (tasks.group("agent start"), tasks.stop());
    group.spawn(async move {
        let Some(Ok(_)) = stop.unless(recorded.wait_for(|recorded| *recorded)).await else {
            return;
        };
        if let Err(error) = spawn_agent(&tasks, membership, endpoint) {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "failed to start the agent; start the zone again");
        }
    });
}

fn spawn_agent(tasks: &Tasks, membership: Membership, endpoint: Endpoint) -> Result<(), JoinError> {
    let remembered = Remembered::open(membership.directory())?;
    let followed = FollowedHub::open(membership.directory(), &remembered)?;
    let Endpoint {
        client,
        api,
        guarded,
        openings,
        at,
    } = endpoint;
    let pace = Pace {
        backoff: BACKOFF,
        ..Pace::system()
    };
    let mirror = Mirror::new(MirrorConfig {
        client: client.clone(),
        pace: pace.clone(),
        place: Origin::Zone(membership.zone().clone()),
        sender: Origin::Hub,
        guarded,
    });
    let membership = Arc::new(membership);
    let mirror = Arc::new(mirror);
    let drift = Drift::new(
        mirror.clone(),
        (client.clone(), pace.clone()),
        (tasks.group("drift"), tasks.stop()),
    );
    let kinds_file = KindsFile::new(membership.directory());
    let target = ZoneTarget::open(mirror, Arc::new(drift), kinds_file)?;
    let target = Arc::new(target);
    let readiness = Arc::new(Readiness::new(
        (client.clone(), pace.clone()),
        (tasks.group("readiness"), tasks.stop()),
    ));
    let uploads = Uploads::new(
        client.clone(),
        pace.clone(),
        (openings, at),
        (tasks.group("upload"), tasks.stop()),
        target.kinds(),
    );
    let agent = Arc::new(Agent {
        membership: membership.clone(),
        target,
        uploads: Arc::new(uploads),
        readiness: readiness.clone(),
        queries: Queries {
            api,
            group: tasks.group("query"),
            clock: pace.clock.clone(),
        },
        client,
        pace: pace.clone(),
        group: tasks.group("apply"),
        remembered: parking_lot::Mutex::new(remembered),
        followed: parking_lot::Mutex::new(followed),
        kept: parking_lot::Mutex::new(Kept::default()),
    });
    tasks.spawn("agent", |stop| agent.run(stop));
    tasks.spawn("readiness", |stop| readiness.run(stop));
    tasks.spawn("credential", |stop| async move {
        membership.renew(pace.clock.clone(), pace, stop).await;
    });
    Ok(())
}

// === impl ZoneError ===

impl ZoneError {
    /// What the operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Plane(error) => error.hint(),
            Self::Join(error) => error.hint(),
            Self::Cluster(_) => {
                "give with --kubeconfig a file with which kubectl reaches the cluster".to_owned()
            }
            Self::IsHub => {
                "give with --kubeconfig the file of the cluster that is to be the zone".to_owned()
            }
            Self::Metrics { .. } => {
                "give with --metrics an address of this machine that is free".to_owned()
            }
            Self::Lineage(_) | Self::Tasks(_) => {
                "this should not happen; please report it".to_owned()
            }
        }
    }
}
