//! Hub and zones in this process, to be stopped and started again.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use deltaplane_apiserver::TENANT;
use deltaplane_hub::{Hub, HubConfig};
use deltaplane_plane::PlaneConfig;
use deltaplane_runtime::Tasks;
use deltaplane_store::{Collection, Scope, Store, Watch};
use deltaplane_zone::{GraphOptions, LinkConfig, Zone, ZoneConfig};
use kube::Client;

use crate::fleet::authored;

/// A hub with ConfigMaps that cross.
pub(super) struct EmbeddedHub {
    tasks: Tasks,
    /// Of an administrator.
    pub(super) client: Client,
    address: SocketAddr,
    data_dir: PathBuf,
}

/// A zone that has joined.
pub(super) struct EmbeddedZone {
    tasks: Tasks,
    pub(super) name: String,
    pub(super) store: Store,
    data_dir: PathBuf,
}

/// Longer than anything should take on a machine that does other things.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

// === impl EmbeddedHub ===

impl EmbeddedHub {
    /// With nothing in it but the kind that crosses.
    pub(super) async fn start(directory: &Path) -> Result<Self> {
        let hub = Self::open(directory.join("hub"), any_port()).await?;
        authored::prepare(&hub.client).await?;
        Ok(hub)
    }

    async fn open(data_dir: PathBuf, listen: SocketAddr) -> Result<Self> {
        let config = HubConfig::new(PlaneConfig::new(data_dir.clone(), listen));
        let hub = Hub::start(config).await.context("starting a hub")?;
        let (client, address) = (hub.controllers(), hub.address());
        let tasks = Tasks::new();
        tasks.spawn("hub", |stop| hub.run(stop));
        Ok(Self {
            tasks,
            client,
            address,
            data_dir,
        })
    }

    /// Stops it, and starts it again where it was.
    pub(super) async fn restart(self) -> Result<Self> {
        let (address, data_dir) = (self.address, self.data_dir.clone());
        self.stop().await?;
        Self::open(data_dir, address).await
    }

    pub(super) async fn stop(self) -> Result<()> {
        drop(self.client);
        Ok(self.tasks.shutdown(PATIENCE).await?)
    }
}

// === impl EmbeddedZone ===

impl EmbeddedZone {
    /// A new zone.
    pub(super) async fn start(hub: &EmbeddedHub, number: usize, directory: &Path) -> Result<Self> {
        let name = authored::zone(number);
        let join = authored::make_zone(&hub.client, &name).await?;
        Self::open(name.clone(), directory.join(&name), Some(&join)).await
    }

    async fn open(name: String, data_dir: PathBuf, join: Option<&str>) -> Result<Self> {
        let config = ZoneConfig {
            simulate: None,
            graphs: GraphOptions::default(),
            hub: None,
            plane: PlaneConfig::new(data_dir.clone(), any_port()),
            join: join.map(str::parse).transpose()?,
            link: LinkConfig::default(),
        };
        let zone = Zone::start(config).await.context("starting a zone")?;
        let store = zone.store().clone();
        let tasks = Tasks::new();
        tasks.spawn("zone", |stop| zone.run(stop));
        Ok(Self {
            tasks,
            name,
            store,
            data_dir,
        })
    }

    /// Stops it, and opens its store again.
    pub(super) async fn restart(self) -> Result<Self> {
        let (name, data_dir) = (self.name.clone(), self.data_dir.clone());
        self.stop().await?;
        Self::open(name, data_dir, None).await
    }

    pub(super) async fn stop(self) -> Result<()> {
        drop(self.store);
        Ok(self.tasks.shutdown(PATIENCE).await?)
    }

    /// What is there from `from` on, and what comes.
    pub(super) fn objects(&self) -> Result<Objects> {
        let collection = Collection::new(TENANT, "configmaps")?;
        let watch = self
            .store
            .watch(Scope::collection(&collection), self.store.revision())?;
        Ok(Objects { watch })
    }

    /// Waits until as many objects are there; `objects` is of before the first came.
    pub(super) async fn holds(&self, objects: &mut Objects, count: usize) -> Result<()> {
        let mut there = 0;
        while there < count {
            there += objects.come().await?;
        }
        Ok(())
    }
}

/// Our objects, as they come into a zone's store.
pub(super) struct Objects {
    watch: Watch,
}

// === impl Objects ===

impl Objects {
    /// Waits until some came; gives how many.
    pub(super) async fn come(&mut self) -> Result<usize> {
        let ours = authored::name(0)?;
        loop {
            let next = tokio::time::timeout(PATIENCE, self.watch.next_batch(4096));
            let batch = next.await.context("nothing came")??;
            let events = batch.events.iter();
            // Every namespace has one of its own.
            let came = events.filter(|event| {
                event.key().namespace() == ours.namespace()
                    && event.key().name() != "kube-root-ca.crt"
            });
            match came.count() {
                0 => {}
                came => return Ok(came),
            }
        }
    }
}

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}
