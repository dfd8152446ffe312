//! The wiring of one control plane, hub or zone: a data directory, a store, the API server, its controllers, and a TLS
//! listener in front of it.
//!
//! Not here: decisions of any sort; everything that is wired is its own crate.
//!
//! Invariants: nothing is written to a data directory that is not ours, is damaged, or is in use;
//! the kubeconfig is there only after everything was ready; when a part breaks, the whole stops,
//! naming it; stopping closes the store last.
//!
//! ```
//! use deltaplane_plane::{Plane, PlaneConfig};
//! use deltaplane_runtime::Trigger;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! let config = PlaneConfig::new(directory.path().join("data"), "127.0.0.1:0".parse()?);
//! let plane = Plane::start(config).await?;
//! assert!(plane.kubeconfig().exists());
//!
//! let (trigger, stop) = Trigger::new();
//! trigger.stop();
//! plane.run(stop).await?;
//! # Ok(())
//! # }
//! ```

mod beginning;
mod certificate;
mod certificates;
mod config;
mod error;
mod layout;
mod listener;
mod metrics;
mod parts;
mod routes;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use deltaplane_api::identity::Identity;
use deltaplane_apiserver::ApiServer;
use deltaplane_runtime::tasks::TaskError;
use deltaplane_runtime::tls::{Material, ServerConfig};
use deltaplane_runtime::{Clock, Readiness, Stop, Tasks, files};
use deltaplane_store::{Embedded, Options, Revision, Store};
use tokio::sync::watch;

pub use config::{Beginning, Certificates, Extensions, PlaneConfig};
pub use error::{PlaneError, Sort};
pub use layout::Role;
pub use listener::{Limits, ZoneGate};
pub use routes::{Route, RouteBody};

use beginning::Preparation;
use certificates::{Loaded, Renewal};
use layout::Layout;
use listener::{Bound, Setup};
use metrics::Metrics;
use parts::Own;
use routes::Routed;

/// A control plane whose data is open and whose address is bound, and that serves nothing yet.
pub struct Opened {
    config: PlaneConfig,
    layout: Layout,
    store: Store,
    bound: Bound,
    address: SocketAddr,
    loaded: Loaded,
    clock: Clock,
    readiness: Readiness,
    metrics: Metrics,
    front: Tasks,
    back: Tasks,
}

/// A control plane that is ready.
pub struct Plane {
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
    begun: watch::Receiver<bool>,
}

/// How long what is behind the API server has to end, after the last request.
const LAST_GRACE: Duration = Duration::from_secs(5);

// === impl Opened ===

impl Opened {
    /// Opens the data directory and binds the address.
    pub async fn new(config: PlaneConfig) -> Result<Self, PlaneError> {
        let clock = Clock::system();
        let metrics = Metrics::default();
        // First, so that a directory that is new is not begun in vain; a directory that is in use
        // says more than the address of the process that uses it.
        let bound = match Bound::new(config.listen).map_err(failed_on(config.listen)) {
            Err(error) if Layout::is_unused(&config.data_dir) => return Err(error),
            bound => bound,
        };
        let (layout, store) = open_data(&config, &metrics).await?;
        let bound = bound?;
        // Only now: before, it may have been a running process's.
        files::rename_if_exists(&layout.kubeconfig, &layout.last_kubeconfig)
            .map_err(PlaneError::Kubeconfig)?;
        let address = bound.address().map_err(failed_on(config.listen))?;
        let loaded = certificates::load(&config, &layout, clock.now())?;
        if store.revision() > Revision::ZERO {
            loaded.warn_of_lost(&layout);
        }
        layout.warn_of_exposed();
        Ok(Self {
            config,
            layout,
            store,
            bound,
            address,
            loaded,
            clock,
            readiness: Readiness::new(),
            metrics,
            front: Tasks::new(),
            back: Tasks::new(),
        })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where clients will find it.
    pub fn url(&self) -> String {
        self.config.url(self.address.port())
    }

    /// Its keys and certificates.
    pub fn material(&self) -> &Material {
        &self.loaded.material
    }

    /// The authority that clients check the server's certificate with.
    pub fn served_ca(&self) -> String {
        parts::root_ca(&self.loaded)
    }

    /// Where others keep what belongs to this control plane.
    pub fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }

    /// Tasks that requests need until the last one is answered.
    pub fn back(&self) -> &Tasks {
        &self.back
    }

    /// Tasks that are clients of the API, and end before it does.
    pub fn front(&self) -> &Tasks {
        &self.front
    }

    /// Serves; it is ready when this returns, and its kubeconfig is written.
    pub async fn start(self, extensions: Extensions) -> Result<Plane, PlaneError> {
        let (front, back) = (self.front.clone(), self.back.clone());
        let started = self.assemble(extensions).await;
        if started.is_err() {
            for tasks in [front, back] {
                // What failed is told already.
                let _ = tasks.shutdown(LAST_GRACE).await;
            }
        }
        started
    }

    async fn assemble(self, mut extensions: Extensions) -> Result<Plane, PlaneError> {
        let Self {
            config,
            layout,
            store,
            bound,
            address,
            loaded,
            clock,
            readiness,
            metrics,
            front,
            back,
        } = self;
        let guard = readiness.guard("control plane");
        let beginning_guard = readiness.guard("beginning");
        let beginning = extensions.beginning.take();
        let zone_gate = extensions.zone_gate.take();
        let tls = server_config(&config, &loaded)?;
        let own = Own {
            config: &config,
            loaded: &loaded,
            port: address.port(),
            clock: &clock,
            readiness: &readiness,
        };
        let (api_config, routes) = own.api_config(extensions);
        let api = ApiServer::start(api_config, store.clone(), &back).await?;
        parts::spawn_retention(&back, store.clone(), config.retention, clock.clone());
        parts::spawn_controllers(&front, &api, &config, &loaded, &readiness);
        let group = front.group("connection");
        let service = Routed::new(api.clone(), routes);
        let setup = Setup {
            tls: tls.clone(),
            limits: config.connections.clone(),
            metrics: metrics.listener.clone(),
            zone_gate,
        };
        api.register_metrics(|registry| metrics.register(registry, &store));
        let listener = bound.listen().map_err(failed_on(config.listen))?;
        front.spawn("listener", move |stop| {
            listener.serve(setup, service, group, stop)
        });
        guard.ready();
        let preparation = Preparation {
            api: api.clone(),
            store: store.clone(),
            clock: clock.clone(),
            begun: watch::Sender::new(false),
            guard: beginning_guard,
        };
        let plane = Plane {
            front,
            back,
            api,
            store,
            readiness,
            address,
            url: config.url(address.port()),
            kubeconfig: layout.kubeconfig.clone(),
            drain: config.drain,
            begun: preparation.begun.subscribe(),
        };
        plane.prepare(preparation, beginning).await?;
        // From now on: a full disk must not keep it from starting, which can be read.
        let indicator = plane.readiness.indicator("store");
        parts::spawn_health(&plane.back, &plane.store, indicator, clock.clone());
        let again_at =
            certificates::write_kubeconfig_if_room(&config, &layout, &plane.url, &loaded, &clock)?;
        let renewal = Renewal {
            config,
            layout,
            tls,
            url: plane.url.clone(),
            clock,
            again_at,
        };
        plane.back.spawn("certificates", |stop| renewal.run(stop));
        tracing::info!(%address, "ready");
        Ok(plane)
    }
}

// === impl Plane ===

impl Plane {
    /// Starts a control plane that nothing is added to.
    pub async fn start(config: PlaneConfig) -> Result<Self, PlaneError> {
        let opened = Opened::new(config).await?;
        opened.start(Extensions::default()).await
    }

    /// Does what must be done first, and waits until it can be used.
    async fn prepare(
        &self,
        preparation: Preparation,
        beginning: Option<Beginning>,
    ) -> Result<(), PlaneError> {
        let prepared = preparation.run(beginning, &self.front);
        self.unless_broken(prepared).await??;
        let ready = beginning::ready_to_read(&self.readiness, &self.store);
        self.unless_broken(ready).await
    }

    /// Waits for it, or until something breaks.
    async fn unless_broken<T>(&self, done: impl Future<Output = T>) -> Result<T, PlaneError> {
        let failure = tokio::select! {
            done = done => return Ok(done),
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

    /// Ends when what must be there first is there. That is so when the control plane has started,
    /// unless its store takes no writes.
    pub fn begun(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut begun = self.begun.clone();
        async move {
            if begun.wait_for(|begun| *begun).await.is_err() {
                // It never will.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The API, to be called in this process.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// The objects, as they are stored.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Tasks that are clients of the API, and end before it does.
    pub fn front(&self) -> &Tasks {
        &self.front
    }

    /// A client in this process, without sockets, as the given user.
    pub fn client(&self, identity: Identity) -> kube::Client {
        deltaplane_client::in_process(self.api.clone(), identity)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Runs until `stop` or until something breaks; then answers what was asked, and ends.
    pub async fn run(self, stop: Stop) -> Result<(), PlaneError> {
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

async fn open_data(config: &PlaneConfig, metrics: &Metrics) -> Result<(Layout, Store), PlaneError> {
    let layout = Layout::open(&config.data_dir)?;
    if layout.lost_store() && !config.start_empty {
        let path = config.data_dir.clone();
        return Err(PlaneError::StoreMissing { path });
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

fn server_config(config: &PlaneConfig, loaded: &Loaded) -> Result<ServerConfig, PlaneError> {
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

fn failed_on(address: SocketAddr) -> impl FnOnce(std::io::Error) -> PlaneError {
    move |source| PlaneError::Listen { address, source }
}
