//! A cluster that runs graphs and follows no hub.

use std::path::Path;
use std::time::Duration;

use deltaplane_client::pace::Backoff;
use deltaplane_client::{Pace, remote};
use deltaplane_controllers::Context;
use deltaplane_controllers::graphs::{self, Mode, Running};
use deltaplane_controllers::simulator::SimulatorConfig;
use deltaplane_runtime::{Stop, Tasks};
use kube::Client;

use crate::{ZoneError, spawn_simulator};

/// A cluster whose graphs are run.
pub struct Standalone {
    client: Client,
    simulate: Option<SimulatorConfig>,
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
    pub async fn start(
        kubeconfig: &Path,
        simulate: Option<SimulatorConfig>,
    ) -> Result<Self, ZoneError> {
        let client = remote(kubeconfig).await?;
        Ok(Self { client, simulate })
    }

    /// Runs until `stop` or until something breaks. That the cluster is away breaks nothing.
    pub async fn run(self, stop: Stop) -> Result<(), ZoneError> {
        let Self { client, simulate } = self;
        let tasks = Tasks::new();
        spawn(&tasks, &client, simulate);
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
pub(crate) fn spawn(tasks: &Tasks, client: &Client, simulate: Option<SimulatorConfig>) {
    let context = Context {
        client: client.clone(),
        pace: Pace::system(),
    };
    if let Some(simulate) = simulate {
        spawn_simulator(tasks, context.clone(), simulate);
    }
    let group = tasks.group("graph");
    tasks.spawn("graphs", |stop| async move {
        if stop.unless(install(&context.client)).await.is_some() {
            tracing::info!("running the graphs of the cluster: ready");
            let running = Running {
                mode: Mode::Run,
                metrics: graphs::Metrics::default(),
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
