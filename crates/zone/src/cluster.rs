//! An existing Kubernetes cluster as a zone: the agent is a client of its API, with no more rights
//! than [`Manifest`] lists, and keeps nothing but the zone's membership.
//!
//! The cluster's store is known by the uid of its namespace `kube-system`, which lives as long as
//! it does, and by its resource versions, which are etcd's revisions. A cluster that was restored
//! to an earlier state is told by a resource version that is lower than one the hub has seen; one
//! that has been written to beyond that meanwhile is not, and is then brought in line by versions
//! object by object, as after any loss of touch.

mod guard;
mod manifest;
mod policies;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_border::Openings;
use deltaplane_client::{Pace, RequestError, remote, request};
use deltaplane_controllers::Context;
use deltaplane_controllers::graphs::{GraphOptions, Metrics};
use deltaplane_fleet::follow_definitions;
use deltaplane_fleet::kinds::GROUP;
use deltaplane_plane::Role;
use deltaplane_runtime::identity::JoinString;
use deltaplane_runtime::tasks::TaskError;
use deltaplane_runtime::{Clock, Stop, Tasks};
use deltaplane_sync::{Epoch, Revision, ZoneName};
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;

pub use manifest::{GraphRights, KindName, Manifest, NotAKindName};

use crate::exposition::Exposition;
use crate::link::LinkConfig;
use crate::membership::Membership;
use crate::query::Cluster;
use crate::{Endpoint, ZoneError, membership_dir, spawn_agent, standalone};
use guard::Guard;
pub(crate) use guard::take_policies_away;

/// What a zone is told whose API is an existing cluster's.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// How to reach the cluster, and as whom.
    pub kubeconfig: PathBuf,
    /// Where the zone's membership is kept.
    pub data_dir: PathBuf,
    /// Needed until the zone has joined.
    pub join: Option<JoinString>,
    pub link: LinkConfig,
    /// How graphs run there, if they do: it takes further rights.
    pub graphs: Option<GraphOptions>,
    /// Where to serve metrics.
    pub metrics: Option<SocketAddr>,
}

/// A zone whose API is an existing cluster's.
pub struct ClusterZone {
    client: Client,
    membership: Membership,
    /// How graphs run there, if they do.
    graphs: Option<GraphOptions>,
    counted: Metrics,
    exposition: Option<Exposition>,
    pace: Pace,
}

/// The cluster's store.
struct Store {
    epoch: Epoch,
    at: Revision,
}

/// Why the cluster's store is not known.
#[derive(Debug, thiserror::Error)]
enum MeetError {
    #[error("failed to ask the cluster which one it is")]
    Request(#[from] RequestError),
    #[error("the cluster does not say {0}")]
    Silent(&'static str),
}

/// How long what is under way has to finish.
const GRACE: Duration = Duration::from_secs(10);

// === impl ClusterZone ===

impl ClusterZone {
    /// Joins if that is needed. The cluster need not be there yet.
    pub async fn start(config: ClusterConfig) -> Result<Self, ZoneError> {
        let ClusterConfig {
            kubeconfig,
            data_dir,
            join,
            link,
            graphs,
            metrics,
        } = config;
        Role::Zone.check(&data_dir)?;
        let client = remote(&kubeconfig).await?;
        // One that does not answer yet is looked at no further.
        let group = request::get::<Value>(&client, &format!("/apis/{GROUP}")).await;
        if group.is_ok() {
            return Err(ZoneError::IsHub);
        }
        let directory = membership_dir(&data_dir);
        let clock = Clock::system();
        let membership = Membership::open(&directory, join.as_ref(), link, &clock).await?;
        let counted = Metrics::default();
        let exposition = Exposition::of_graphs(&counted, metrics).await?;
        Ok(Self {
            client,
            membership,
            graphs,
            counted,
            exposition,
            pace: Pace::system(),
        })
    }

    pub fn name(&self) -> &ZoneName {
        self.membership.zone()
    }

    /// Runs until `stop` or until something breaks. That the cluster or the hub is away breaks
    /// nothing.
    pub async fn run(self, stop: Stop) -> Result<(), ZoneError> {
        let Some(store) = stop.unless(self.meet()).await else {
            return Ok(());
        };
        let Self {
            client,
            membership,
            graphs,
            counted,
            exposition,
            pace,
        } = self;
        let of_graphs = Context {
            client: client.clone(),
            pace: Pace::system(),
        };
        let zone = membership.zone().clone();
        let tasks = Tasks::new();
        let (definitions, known) = watch::channel(Arc::default());
        let guard = Guard {
            client: client.clone(),
            pace: pace.clone(),
            zone: zone.clone(),
        };
        tasks.spawn("policies", |stop| guard.keep(known, stop));
        let of_definitions = client.clone();
        tasks.spawn("computed fields", |stop| {
            follow_definitions(of_definitions, pace, definitions, stop)
        });
        let endpoint = Endpoint {
            api: Arc::new(Cluster(client.clone())),
            client,
            // The policies may be missing, and take a moment to be in force.
            guarded: false,
            openings: Openings::only(store.epoch),
            at: store.at,
        };
        if let Some(options) = graphs {
            standalone::spawn(&tasks, of_graphs, options, counted);
        }
        if let Some(exposition) = exposition {
            tasks.spawn("metrics", |stop| exposition.run(stop));
        }
        spawn_agent(&tasks, membership, endpoint)?;
        tracing::info!(%zone, "ready");
        let failure = tokio::select! {
            () = stop.wait() => None,
            failure = tasks.failed() => Some(failure),
        };
        tracing::info!("stopping");
        let ended = tasks.shutdown(GRACE).await;
        match (failure, ended) {
            (Some(failure), _) => Err(TaskError::from(failure).into()),
            (None, Err(failed @ TaskError::Failed(_))) => Err(failed.into()),
            (None, Err(stuck @ TaskError::Stuck(_))) => {
                // They had their time; that they are cut off is no failure of ours.
                tracing::warn!(%stuck, "gave up waiting");
                Ok(())
            }
            (None, Ok(())) => Ok(()),
        }
    }

    /// Which store it is that the cluster has, as soon as it can be asked.
    async fn meet(&self) -> Store {
        let mut failures = 0;
        loop {
            let error = match self.ask().await {
                Ok(store) => return store,
                Err(error) => error,
            };
            failures += 1;
            let pause = self.pace.delay(failures, None);
            waits(&error, pause);
            self.pace.clock.sleep(pause).await;
        }
    }

    async fn ask(&self) -> Result<Store, MeetError> {
        let namespace: Value = request::get(&self.client, "/api/v1/namespaces/kube-system").await?;
        let uid = namespace["metadata"]["uid"].as_str();
        let uid = uid.ok_or(MeetError::Silent("the uid of its namespace kube-system"))?;
        let page: Value = request::get(&self.client, "/api/v1/namespaces?limit=1").await?;
        let at = page["metadata"]["resourceVersion"].as_str();
        let at = at.and_then(|at| at.parse().ok());
        Ok(Store {
            epoch: Epoch(uid.into()),
            at: at.ok_or(MeetError::Silent("its resource version as a number"))?,
        })
    }
}

fn waits(error: &MeetError, pause: Duration) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(
        error,
        again_in = ?pause,
        "the cluster cannot be asked yet; the zone waits for it"
    );
}
