//! The wiring of a hub: a data directory, a store, the API server, its controllers, and a TLS
//! listener in front of it.
//!
//! Not here: decisions of any sort; everything that is wired is its own crate.
//!
//! Invariants: nothing is written to a data directory that is not ours, is damaged, or is in use;
//! the kubeconfig is there only after everything was ready; when a part breaks, the whole stops,
//! naming it; stopping closes the store last.
//!
//! ```
//! use deltaplane_hub::{Hub, HubConfig};
//! use deltaplane_runtime::Trigger;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! let config = HubConfig::new(directory.path().join("data"), "127.0.0.1:0".parse()?);
//! let hub = Hub::start(config).await?;
//! assert!(hub.kubeconfig().exists());
//!
//! let (trigger, stop) = Trigger::new();
//! trigger.stop();
//! hub.run(stop).await?;
//! # Ok(())
//! # }
//! ```

mod certificate;
mod certificates;
mod config;
mod error;
mod layout;
mod listener;
mod metrics;
mod parts;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use deltaplane_api::identity::Identity;
use deltaplane_apiserver::ApiServer;
use deltaplane_runtime::tasks::TaskError;
use deltaplane_runtime::tls::ServerConfig;
use deltaplane_runtime::{Clock, Readiness, Stop, Tasks, files};
use deltaplane_store::{Embedded, Options, Revision, Store};

pub use config::{Certificates, HubConfig};
pub use error::{HubError, Sort};
pub use listener::Limits;

use certificates::{Loaded, Renewal};
use layout::Layout;
use listener::{Bound, Setup};
use metrics::Metrics;

/// A hub that is ready.
pub struct Hub {
    /// What is in front of the API server, and its clients: stopped first.
    front: Tasks,
    /// What requests need until the last one is answered.
    back: Tasks,
    api: ApiServer,
    store: Store,
    readiness: Readiness,
    address: SocketAddr,
    url: String,
    kubeconfig: PathBuf,
    drain: Duration,
}

/// How long what is behind the API server has to end, after the last request.
const LAST_GRACE: Duration = Duration::from_secs(5);

// === impl Hub ===

impl Hub {
    /// Starts a hub; it is ready when this returns, and its kubeconfig is written.
    pub async fn start(config: HubConfig) -> Result<Self, HubError> {
        let (front, back) = (Tasks::new(), Tasks::new());
        let started = Self::assemble(config, front.clone(), back.clone()).await;
        if started.is_err() {
            for tasks in [front, back] {
                // What failed is told already.
                let _ = tasks.shutdown(LAST_GRACE).await;
            }
        }
        started
    }

    async fn assemble(config: HubConfig, front: Tasks, back: Tasks) -> Result<Self, HubError> {
        let clock = Clock::system();
        let readiness = Readiness::new();
        let guard = readiness.guard("hub");
        let metrics = Metrics::default();
        // First, so that a directory that is new is not begun in vain; a directory that is in use
        // says more than the address of the hub that uses it.
        let bound = match Bound::new(config.listen).map_err(failed_on(config.listen)) {
            Err(error) if Layout::is_unused(&config.data_dir) => return Err(error),
            bound => bound,
        };
        let (layout, store) = open_data(&config, &metrics).await?;
        let bound = bound?;
        // Only now: before, it may have been a running hub's.
        files::remove_if_exists(&layout.kubeconfig).map_err(HubError::Kubeconfig)?;
        let address = bound.address().map_err(failed_on(config.listen))?;
        let loaded = certificates::load(&config, &layout, clock.now())?;
        if store.revision() > Revision::ZERO {
            loaded.warn_of_lost(&layout);
        }
        layout.warn_of_exposed();
        let tls = server_config(&config, &loaded)?;

        let api_config = parts::api_config(&config, &loaded, address.port(), &clock, &readiness);
        let api = ApiServer::start(api_config, store.clone(), &back).await?;
        parts::spawn_retention(&back, store.clone(), config.retention, clock.clone());
        parts::spawn_controllers(&front, &api, &config, &loaded, &readiness);
        let group = front.group("connection");
        let service = api.clone();
        let setup = Setup {
            tls: tls.clone(),
            limits: config.connections.clone(),
            metrics: metrics.listener.clone(),
        };
        api.register_metrics(|registry| metrics.register(registry, &store));
        let listener = bound.listen().map_err(failed_on(config.listen))?;
        front.spawn("listener", move |stop| {
            listener.serve(setup, service, group, stop)
        });
        guard.ready();
        let hub = Self {
            front,
            back,
            api,
            store,
            readiness,
            address,
            url: config.url(address.port()),
            kubeconfig: layout.kubeconfig.clone(),
            drain: config.drain,
        };
        hub.wait_ready().await?;
        // From now on: a full disk must not keep a hub from starting, which can be read.
        let indicator = hub.readiness.indicator("store");
        parts::spawn_health(&hub.back, &hub.store, indicator, clock.clone());
        certificates::write_kubeconfig(&layout, &hub.url, &loaded)?;
        let renewal = Renewal {
            config,
            layout,
            tls,
            url: hub.url.clone(),
            clock,
            again_at: loaded.again_at,
        };
        hub.back.spawn("certificates", |stop| renewal.run(stop));
        tracing::info!(%address, "ready");
        Ok(hub)
    }

    async fn wait_ready(&self) -> Result<(), HubError> {
        let failure = tokio::select! {
            () = self.readiness.wait() => return Ok(()),
            failure = self.front.failed() => failure,
            failure = self.back.failed() => failure,
        };
        Err(TaskError::from(failure).into())
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where clients find it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A client of this hub in this process, without sockets, as the given user.
    pub fn client(&self, identity: Identity) -> kube::Client {
        deltaplane_client::in_process(self.api.clone(), identity)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Runs until `stop` or until something breaks; then answers what was asked, and ends.
    pub async fn run(self, stop: Stop) -> Result<(), HubError> {
        let failure = tokio::select! {
            () = stop.wait() => None,
            failure = self.front.failed() => Some(failure),
            failure = self.back.failed() => Some(failure),
        };
        tracing::info!("stopping");
        self.readiness.drain();
        self.front.request_stop();
        self.api.drain();
        let front = self.front.shutdown(self.drain).await;
        let back = self.back.shutdown(LAST_GRACE).await;
        drop(self.api);
        self.store.close().await?;
        if let Some(failure) = failure {
            return Err(TaskError::from(failure).into());
        }
        for ended in [front, back] {
            match ended {
                Ok(()) => {}
                // They had their time; that they are cut off is no failure of ours.
                Err(stuck @ TaskError::Stuck(_)) => tracing::warn!(%stuck, "gave up waiting"),
                Err(failed @ TaskError::Failed(_)) => return Err(failed.into()),
            }
        }
        tracing::info!("stopped");
        Ok(())
    }
}

async fn open_data(config: &HubConfig, metrics: &Metrics) -> Result<(Layout, Store), HubError> {
    let layout = Layout::open(&config.data_dir)?;
    if layout.lost_store() && !config.start_empty {
        let path = config.data_dir.clone();
        return Err(HubError::StoreMissing { path });
    }
    let path = layout.store.clone();
    let options = Options {
        metrics: metrics.store.clone(),
        ..Options::default()
    };
    let open = move || Embedded::open(&path, options);
    let store = tokio::task::spawn_blocking(open).await??;
    Ok((layout, store))
}

fn server_config(config: &HubConfig, loaded: &Loaded) -> Result<ServerConfig, HubError> {
    let further = config
        .client_ca
        .as_deref()
        .map(|path| certificates::read("--client-ca", path))
        .transpose()?;
    let authorities: Vec<&str> = [Some(loaded.material.ca.as_str()), further.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    Ok(ServerConfig::new(&loaded.server, &authorities)?)
}

fn failed_on(address: SocketAddr) -> impl FnOnce(std::io::Error) -> HubError {
    move |source| HubError::Listen { address, source }
}
