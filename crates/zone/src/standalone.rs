//! A cluster that runs graphs and follows no hub.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use deltaplane_client::pace::Backoff;
use deltaplane_client::{Pace, remote};
use deltaplane_controllers::Context;
use deltaplane_controllers::graphs::{self, GraphOptions, Mode, Running};
use deltaplane_controllers::simulator::SimulatorConfig;
use deltaplane_runtime::{Stop, Tasks};
use kube::Client;

use crate::exposition::Exposition;
use crate::{ZoneError, spawn_simulator};

/// A cluster whose graphs are run.
pub struct Standalone {
    client: Client,
    simulate: Option<SimulatorConfig>,
    options: GraphOptions,
    metrics: graphs::Metrics,
    exposition: Option<Exposition>,
}

/// What a cluster is told whose graphs are run.
#[derive(Clone, Debug)]
pub struct StandaloneConfig {
    /// How to reach the cluster, and as whom.
    pub kubeconfig: PathBuf,
    pub simulate: Option<SimulatorConfig>,
    pub graphs: GraphOptions,
    /// Where to serve metrics.
    pub metrics: Option<SocketAddr>,
}

/// How long what is under way has to finish.
const GRACE: Duration = Duration::from_secs(10);
/// How long to wait before the cluster is asked again.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(200),
    longest: Duration::from_secs(10),
};

// === impl Standalone ===

impl Standalone {
    /// The cluster need not be there yet.
    pub async fn start(config: StandaloneConfig) -> Result<Self, ZoneError> {
        let metrics = graphs::Metrics::default();
        Ok(Self {
            exposition: Exposition::of_graphs(&metrics, config.metrics).await?,
            client: remote(&config.kubeconfig).await?,
            simulate: config.simulate,
            options: config.graphs,
            metrics,
        })
    }

    /// Runs until `stop` or until something breaks. That the cluster is away breaks nothing.
    pub async fn run(self, stop: Stop) -> Result<(), ZoneError> {
        let Self {
            client,
            simulate,
            options,
            metrics,
            exposition,
        } = self;
        let tasks = Tasks::new();
        let context = Context {
            client,
            pace: Pace::system(),
        };
        if let Some(simulate) = simulate {
            spawn_simulator(&tasks, context.clone(), simulate);
        }
        if let Some(exposition) = exposition {
            tasks.spawn("metrics", |stop| exposition.run(stop));
        }
        spawn(&tasks, context, options, metrics);
        tokio::select! {
            () = stop.wait() => {}
            failure = tasks.failed() => {
                return Err(deltaplane_runtime::tasks::TaskError::from(failure).into());
            }
        }
        tasks.shutdown(GRACE).await?;
        Ok(())
    }
}

/// Runs the graphs of a cluster, as soon as it has the kinds for it.
pub(crate) fn spawn(
    tasks: &Tasks,
    context: Context,
    options: GraphOptions,
    metrics: graphs::Metrics,
) {
    let group = tasks.group("graph");
    tasks.spawn("graphs", |stop| async move {
        if stop.unless(install(&context.client)).await.is_some() {
            tracing::info!("running the graphs of the cluster: ready");
            let running = Running {
                mode: Mode::Run,
                options,
                metrics,
                circles: graphs::Circles::default(),
            };
            graphs::run(context, running, group, stop).await;
        }
    });
}

/// Makes the kinds of graphs be there, as soon as the cluster takes them.
async fn install(client: &Client) {
    let pace = Pace {
        backoff: BACKOFF,
        ..Pace::system()
    };
    let mut failures = 0;
    while let Err(error) = graphs::install(client).await {
        failures += 1;
        if failures == 1 {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot install the kinds of graphs; trying again");
        }
        pace.rest(failures, error.retry_after()).await;
    }
}
