//! Many simulated zones.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use deltaplane_runtime::{Clock, Tasks};
use deltaplane_zone::{LinkConfig, Membership};
use futures::stream::{self, StreamExt, TryStreamExt};
use kube::Client;
use serde_json::Value;

use super::faring::Manner;
use super::simulated::Simulated;
use super::versions::{Arrivals, Character, Memory, Versions};
use super::witness::Witness;
use super::{Spread, authored};

/// Zones with credentials of their own, connected until this value goes.
pub(crate) struct Zones {
    tasks: Tasks,
    zones: Vec<Arc<Simulated>>,
    arrivals: Arc<Arrivals>,
    connected: Arc<AtomicUsize>,
}

/// What zones are like, by their numbers.
#[derive(Clone, Copy)]
pub(crate) struct Fleet<'a> {
    pub(crate) labels: &'a (dyn Fn(usize) -> Value + Sync),
    pub(crate) manner: &'a (dyn Fn(usize) -> Manner + Sync),
    pub(crate) witness: Option<&'a Arc<Witness>>,
    /// What they have from the beginning.
    pub(crate) memory: &'a Memory,
}

/// So many join at once.
const AT_ONCE: usize = 16;
/// Longer than anything should take on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(5);

// === impl Zones ===

impl Zones {
    /// Makes zones with these numbers at the hub, lets them join, and connects them. They have
    /// what `memory` says.
    pub(crate) async fn start(
        hub: &Client,
        numbers: std::ops::Range<usize>,
        directory: &Path,
        memory: &Memory,
    ) -> Result<Self> {
        let fleet = Fleet {
            labels: &|_| Value::Null,
            manner: &|_| Manner::default(),
            witness: None,
            memory,
        };
        Self::start_as(hub, numbers, directory, fleet).await
    }

    /// The same, with zones as they are described.
    pub(crate) async fn start_as(
        hub: &Client,
        numbers: std::ops::Range<usize>,
        directory: &Path,
        fleet: Fleet<'_>,
    ) -> Result<Self> {
        let joining = stream::iter(numbers).map(|number| async move {
            let labels = (fleet.labels)(number);
            let joined = join(hub, number, &labels, directory).await;
            joined.map(|membership| (number, membership))
        });
        let joining = joining.buffer_unordered(AT_ONCE);
        let members: Vec<(usize, Membership)> = joining.try_collect().await?;
        let (tasks, arrivals) = (Tasks::new(), Arc::<Arrivals>::default());
        let connected = Arc::<AtomicUsize>::default();
        let zones = members.into_iter().map(|(number, membership)| {
            let character = Character {
                name: authored::zone(number),
                manner: (fleet.manner)(number),
                witness: fleet.witness.cloned(),
            };
            let versions = Versions::new(fleet.memory.clone(), arrivals.clone(), character);
            let group = tasks.group("apply");
            let zone = Simulated::new(membership, versions, group, connected.clone());
            let zone = Arc::new(zone);
            let running = zone.clone();
            tasks.spawn("zone", |stop| running.run(stop));
            zone
        });
        Ok(Self {
            zones: zones.collect(),
            tasks,
            arrivals,
            connected,
        })
    }

    pub(crate) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// How many are connected now.
    pub(crate) fn connected(&self) -> usize {
        self.connected.load(Ordering::Relaxed)
    }

    /// Waits until all are connected, and as many objects have come in all.
    pub(crate) async fn complete(&self, objects: u64) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.connected() < self.zones.len() || self.arrivals.objects() < objects {
            if Instant::now() > deadline {
                bail!(
                    "{} of {} zones are connected, and {} of {objects} objects came",
                    self.connected(),
                    self.zones.len(),
                    self.arrivals.objects()
                );
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Changes an object, and waits until all zones have it; gives how long that took each, from
    /// the hub's answer on.
    pub(crate) async fn spread(&self, hub: &Client, number: usize, turn: usize) -> Result<Spread> {
        let mut arriving = self.arrivals.expect(authored::name(number)?);
        authored::change(hub, number, turn).await?;
        let answered = Instant::now();
        let mut all = Vec::with_capacity(self.zones.len());
        while all.len() < self.zones.len() {
            let arrived = tokio::time::timeout(PATIENCE, arriving.recv()).await;
            let arrived = arrived.with_context(|| {
                let (came, zones) = (all.len(), self.zones.len());
                format!("a change came to {came} of {zones} zones")
            })?;
            let arrived = arrived.context("nobody tells what comes")?;
            all.push(arrived.saturating_duration_since(answered));
        }
        Ok(Spread::new(all))
    }

    /// Ends the connections; gives what the first zone has.
    pub(crate) async fn stop(self) -> Result<Memory> {
        self.tasks.shutdown(PATIENCE).await?;
        let first = self.zones.first();
        Ok(first.map_or_else(Memory::default, |zone| zone.memory().shared()))
    }
}

async fn join(hub: &Client, number: usize, labels: &Value, directory: &Path) -> Result<Membership> {
    let zone = authored::zone(number);
    let join = authored::make_zone_with(hub, &zone, labels).await?;
    let join = join.parse()?;
    let directory = directory.join(&zone);
    let link = LinkConfig::default();
    let joined = Membership::open(&directory, Some(&join), link, &Clock::system()).await;
    joined.with_context(|| format!("joining as {zone}"))
}
