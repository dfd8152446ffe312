//! The fleet as one handle, for all who serve zones or ask about them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use deltaplane_border::{Catalog, Entry, Reader, Shared};
use deltaplane_client::Pace;
use deltaplane_runtime::{Clock, Stop, TaskGroup, Tasks};
use deltaplane_store::Store;
use deltaplane_sync::{Ledger, ObjectName, Presence, Sessions, SyncKind, View, ZoneName};
use kube::Client;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::watch;

use crate::divergence::ReconcileClaim;
use crate::divergence::SettledReleases;
use crate::governing::{Contents, Decided, Governing, KeptBack, Reports};
use crate::graphs::{DefinitionCheck, DefinitionFindings};
use crate::known::Known;
use crate::lineage::{self, FollowedLineage};
use crate::losses::LossListeners;
use crate::made_namespaces::MadeNamespaces;
use crate::policing::Overlaps;
use crate::projector::{FromZones, Outlets, Projector};
use crate::propagated::WrittenCache;
use crate::quota::ZoneUsage;
use crate::readiness::Readiness;
use crate::served::ServedError;
use crate::session::Session;
use crate::status::Transitions;

/// What a fleet is made from.
pub struct FleetConfig {
    pub store: Store,
    pub clock: Clock,
    /// The product's version, for people.
    pub product: String,
}

/// All zones of a hub. Cheap to clone.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) product: String,
    pub(crate) catalog: Arc<Shared>,
    pub(crate) known: watch::Receiver<Arc<Known>>,
    pub(crate) from_zones: Arc<RwLock<FromZones>>,
    /// The sessions that ask zones for objects that the hub lost.
    pub(crate) losses: Arc<LossListeners>,
    pub(crate) made_namespaces: Arc<RwLock<MadeNamespaces>>,
    pub(crate) governing: Arc<Mutex<Governing>>,
    pub(crate) reports: Mutex<Reports>,
    pub(crate) decided: Mutex<Decided>,
    pub(crate) written: Mutex<WrittenCache>,
    pub(crate) overlaps: Mutex<Overlaps>,
    /// Read when it is needed for the first time.
    pub(crate) settled_releases: Mutex<Option<SettledReleases>>,
    /// Counts what concerns policies.
    pub(crate) stirred: watch::Sender<u64>,
    /// As of which revision each policy says how far it is.
    pub(crate) told: watch::Sender<BTreeMap<String, u64>>,
    /// When this process began.
    pub(crate) began: SystemTime,
    pub(crate) zones: Mutex<Zones>,
    pub(crate) readiness: Arc<Readiness>,
    /// Counts the sessions that were opened.
    pub(crate) opened: watch::Sender<u64>,
    /// Says whether it is written down that the store was opened. Nobody follows it before.
    pub(crate) recorded: watch::Receiver<bool>,
    pub(crate) transitions: Transitions,
    /// Applies what comes from zones.
    pub(crate) group: TaskGroup,
    client: OnceLock<Client>,
    controllers: OnceLock<Client>,
    check: OnceLock<DefinitionCheck>,
}

/// The sessions of zones, and what is kept from one to the next.
#[derive(Default)]
pub(crate) struct Zones {
    pub(crate) numbers: Sessions,
    /// The last of each zone, open or not.
    pub(crate) sessions: BTreeMap<ZoneName, Arc<Session>>,
    /// What was deleted at the hub lately because a zone said so.
    pub(crate) ledgers: BTreeMap<ZoneName, Ledger>,
    /// Whoever takes what a zone sends, one session after the other.
    pub(crate) taking: BTreeMap<ZoneName, Arc<tokio::sync::Mutex<()>>>,
    /// Who settles the divergence of a zone.
    pub(crate) reconciling: BTreeMap<ZoneName, ReconcileClaim>,
    /// How much of each zone's quota is used.
    pub(crate) usage: BTreeMap<ZoneName, Arc<Mutex<ZoneUsage>>>,
}

/// Nobody waits longer until a definition is compiled before it is written.
const CHECK: Duration = Duration::from_secs(2);

/// Why a fleet did not start.
#[derive(Debug, thiserror::Error)]
#[error("failed to read what belongs to the fleet")]
pub struct FleetError(#[source] Box<dyn std::error::Error + Send + Sync>);

// === impl Fleet ===

impl Fleet {
    /// Takes in all that is stored, and follows it as a task of `tasks`.
    pub async fn open(config: FleetConfig, tasks: &Tasks) -> Result<Self, FleetError> {
        let FleetConfig {
            store,
            clock,
            product,
        } = config;
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| FleetError(error);
        let lineage = lineage::open_as_possible(&store, tasks).await;
        let FollowedLineage { openings, recorded } =
            lineage.map_err(|error| failed(error.into()))?;
        let catalog = Catalog::new(openings, store.revision().get());
        let catalog = Arc::new(Shared::new(catalog));
        let (sender, known) = watch::channel(Arc::default());
        let from_zones = Arc::new(RwLock::default());
        let losses = Arc::<LossListeners>::default();
        let made_namespaces = Arc::new(RwLock::default());
        let contents = Contents::new(store.clone());
        let governing = Arc::new(Mutex::new(Governing::new(contents)));
        let stirred = watch::Sender::new(0);
        let outlets = Outlets {
            catalog: catalog.clone(),
            known: sender,
            from_zones: Arc::clone(&from_zones),
            losses: Arc::clone(&losses),
            made_namespaces: Arc::clone(&made_namespaces),
            governing: Arc::clone(&governing),
            stirred: stirred.clone(),
        };
        let mut projector = Projector::new(store.clone(), clock.clone(), outlets);
        let watch = projector.load().await;
        let watch = watch.map_err(|error| failed(error.into()))?;
        catalog.change(Vec::new(), 0, Catalog::settle);
        tasks.spawn("projector", |stop| projector.run(watch, stop));
        Ok(Self(Arc::new(Inner {
            governing,
            reports: Mutex::default(),
            decided: Mutex::default(),
            written: Mutex::default(),
            overlaps: Mutex::default(),
            settled_releases: Mutex::default(),
            stirred,
            told: watch::Sender::default(),
            began: clock.now(),
            store,
            clock,
            product,
            catalog,
            known,
            from_zones,
            losses,
            made_namespaces,
            zones: Mutex::default(),
            readiness: Arc::default(),
            opened: watch::Sender::new(0),
            recorded,
            transitions: Transitions::default(),
            group: tasks.group("from zones"),
            client: OnceLock::new(),
            controllers: OnceLock::new(),
            check: OnceLock::new(),
        })))
    }

    /// From now on zones can be served: `sync` writes what comes from them, and `controllers` the
    /// status of their objects.
    pub fn attach(&self, sync: Client, controllers: Client, tasks: &Tasks) {
        let _ = self.0.client.set(sync);
        let _ = self.0.controllers.set(controllers.clone());
        let fleet = self.clone();
        tasks.spawn("zone admission", |stop: Stop| async move {
            stop.unless(fleet.dismiss()).await;
        });
        let fleet = self.clone();
        tasks.spawn("zone questions", |stop: Stop| async move {
            let ask = fleet.ask_zones(stop.clone());
            futures::join!(ask, fleet.hear(stop));
        });
        let fleet = self.clone();
        let client = controllers.clone();
        tasks.spawn("synced kind status", |stop: Stop| {
            crate::served::run(fleet, client, Pace::system(), stop)
        });
        let fleet = self.clone();
        let pace = Pace::system();
        tasks.spawn("zone status", |stop: Stop| {
            crate::status::run(fleet, controllers, pace, stop)
        });
    }

    /// Sets how definitions are compiled before they are written, for warnings and plans.
    pub fn check_definitions(&self, check: DefinitionCheck) {
        let _ = self.0.check.set(check);
    }

    /// Compiles a definition, as far as that can be done in a moment.
    pub(crate) async fn definition_findings(&self, definition: &Value) -> DefinitionFindings {
        let Some(check) = self.0.check.get() else {
            return DefinitionFindings::default();
        };
        let findings = check(definition.clone());
        tokio::select! {
            findings = findings => findings.unwrap_or_default(),
            () = self.0.clock.sleep(CHECK) => DefinitionFindings::default(),
        }
    }

    /// Returns why objects of a SyncedKind do not cross, as far as that can be told in a moment.
    pub(crate) async fn unserved(&self, kind: &Value) -> Option<ServedError> {
        let client = self.client()?;
        let obstacle = crate::served::discover_obstacle(&client, kind);
        tokio::select! {
            obstacle = obstacle => obstacle,
            () = self.0.clock.sleep(CHECK) => None,
        }
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// What is known of kinds and zones, now and later.
    pub fn known(&self) -> watch::Receiver<Arc<Known>> {
        self.0.known.clone()
    }

    /// Everything that zones may get.
    pub fn catalog(&self) -> &Arc<Shared> {
        &self.0.catalog
    }

    /// The client for what comes from zones, once there is one.
    pub(crate) fn client(&self) -> Option<Client> {
        self.0.client.get().cloned()
    }

    /// The client for what the hub itself writes about its zones and policies, once there is one.
    pub(crate) fn controllers(&self) -> Option<Client> {
        self.0.controllers.get().cloned()
    }

    /// Whether there is a zone of this name.
    pub fn is_zone(&self, zone: &ZoneName) -> bool {
        self.0.known.borrow().zones.contains_key(zone)
    }

    /// The uid of a zone's object: another one of the same name has another.
    pub fn uid_of(&self, zone: &ZoneName) -> Option<String> {
        let known = self.0.known.borrow();
        known.zones.get(zone).map(|zone| zone.uid.clone())
    }

    /// Whether objects of a kind cross.
    pub fn is_synced(&self, group: &str, plural: &str) -> bool {
        self.0.known.borrow().synced(group, plural).is_some()
    }

    /// How many zones have an object as it is, and how many should.
    pub fn spread(&self, kind: &SyncKind, name: &ObjectName) -> (usize, usize) {
        let zones: Vec<ZoneName> = {
            let known = self.0.known.borrow();
            let enabled = known.zones.iter().filter(|(_, zone)| zone.spec.enabled);
            enabled.map(|(name, _)| name.clone()).collect()
        };
        let kept_back = self.kept_back(kind, name);
        let is_kept_back = |zone: &ZoneName| kept_back.zone(zone).is_some();
        let is_wanted = |zone: &ZoneName| {
            let catalog = self.0.catalog.read();
            let reader = Reader {
                catalog: &catalog,
                zone: Some(zone),
            };
            is_kept_back(zone) || matches!(reader.presence(kind, name), Presence::Wanted(_))
        };
        let (mut have, mut want) = (0, 0);
        for zone in zones.into_iter().filter(is_wanted) {
            want += 1;
            let session = self.session_of(&zone).filter(|_| !is_kept_back(&zone));
            let state = session.and_then(|session| session.sending.object(kind, name));
            let current = state.is_some_and(|state| state.is_current());
            have += usize::from(current);
        }
        (have, want)
    }

    /// The zones that a policy does not let have an object as it is.
    pub(crate) fn kept_back(&self, kind: &SyncKind, name: &ObjectName) -> KeptBack {
        let governed = {
            let catalog = self.0.catalog.read();
            match catalog.entry(kind, name) {
                Some(Entry::Governed(governed)) => {
                    let places = catalog.placement(&governed.policy);
                    places.map(|places| (governed.policy.clone(), places))
                }
                Some(Entry::Shared { .. }) | None => None,
            }
        };
        let Some((policy, places)) = governed else {
            return KeptBack::default();
        };
        let governing = self.0.governing.lock();
        governing.kept_back(&policy, &(kind.clone(), name.clone()), &places)
    }

    /// Waits until all that is stored now has been taken in.
    pub async fn caught_up(&self) {
        let now = self.0.store.revision().get();
        let mut positions = self.0.catalog.positions();
        // An error means that nobody reads any more; then there is nothing to wait for.
        let _ = positions.wait_for(|at| *at >= now).await;
    }

    /// Waits until a zone is connected.
    pub async fn connected(&self, zone: &ZoneName) {
        let mut sessions = self.sessions_changed();
        loop {
            sessions.borrow_and_update();
            if self
                .session_of(zone)
                .is_some_and(|session| session.is_open())
            {
                return;
            }
            if sessions.changed().await.is_err() {
                return;
            }
        }
    }

    /// Woken when a zone opens a session.
    pub(crate) fn sessions_changed(&self) -> watch::Receiver<u64> {
        self.0.opened.subscribe()
    }

    /// The last session of a zone, open or not.
    pub fn session_of(&self, zone: &ZoneName) -> Option<Arc<Session>> {
        self.0.zones.lock().sessions.get(zone).cloned()
    }
}
