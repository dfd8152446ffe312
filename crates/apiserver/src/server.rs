//! The state that all requests share.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use deltaplane_api::time::Time;
use deltaplane_runtime::{Clock, Readiness, Stop};
use deltaplane_store::{Collection, Key, Store};
use parking_lot::{Mutex, RwLock};
use prometheus_client::registry::Registry as MetricsRegistry;
use serde_json::Value;
use tokio::sync::watch;

use crate::auth::rbac::{Part, Rbac};
use crate::auth::tokens::Tokens;
use crate::costly::CostlyPlaces;
use crate::error::Error;
use crate::flow::Flow;
use crate::kinds::custom::{self, Inputs};
use crate::kinds::registry::Registry;
use crate::kinds::{Kind, Source};
use crate::metrics::Metrics;
use crate::reach::Reach;
use crate::seams::{Admission, TableColumns, VirtualSubresource};

/// The tenant that everything belongs to until there are several.
pub const TENANT: &str = "default";

/// What a server is given at its start.
pub struct Config {
    /// Where clients reach the server; the `kubernetes` Service points there.
    pub address: std::net::SocketAddr,
    /// The key that signs service accounts' tokens, PKCS#8 PEM, P-256.
    pub service_account_key: String,
    /// The commit that the program was built from; shown at `/version`.
    pub commit: &'static str,
    /// Limits on what clients may ask for.
    pub limits: Limits,
    /// Decides about writes, in this order.
    pub admission: Vec<Arc<dyn Admission>>,
    /// Subresources that others compute.
    pub subresources: Vec<Arc<dyn VirtualSubresource>>,
    /// Columns that others add to Tables, in this order.
    pub columns: Vec<Arc<dyn TableColumns>>,
    /// The time.
    pub clock: Clock,
    /// Whether the process is ready; shown at `/readyz`.
    pub readiness: Readiness,
}

/// Limits on what clients may ask for.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest body, in bytes.
    pub body: usize,
    /// How long a body may take to arrive.
    pub body_time: Duration,
    /// All bodies at once, in bytes, shared among users.
    pub bodies: usize,
    /// All answers at once that were rendered and are not read yet, in bytes, shared among users.
    pub answers: usize,
    /// Requests carried out at once, watches apart, shared among users.
    pub in_flight: usize,
    /// Requests of one user that may wait for their turn.
    pub queued_per_user: usize,
    /// Watches at once, shared among users.
    pub watches: usize,
    /// Watches of one user at once.
    pub watches_per_user: usize,
}

/// The shared state.
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) registry: ArcSwap<Registry>,
    pub(crate) rbac: RwLock<Arc<Rbac>>,
    /// How often rights were withdrawn, for those who were let in for longer.
    pub(crate) withdrawn: watch::Sender<u64>,
    /// How far the followers of some collections have come.
    pub(crate) reaches: Vec<(&'static str, Reach)>,
    pub(crate) tokens: Tokens,
    pub(crate) flow: Flow,
    pub(crate) costly: CostlyPlaces,
    pub(crate) metrics: Metrics,
    pub(crate) metrics_registry: Mutex<MetricsRegistry>,
    pub(crate) watches: AtomicUsize,
    pub(crate) config: Config,
    pub(crate) stop: Stop,
}

// === impl Limits ===

impl Default for Limits {
    /// 3 MiB is the real server's limit on bodies. The rest keeps two cores busy. A watch costs
    /// a few kilobytes, and while its client does not read, one batch: of objects that are shared
    /// with all who have them, or in a form of its own, which counts as an answer. A user with more of them than a few thousand means something else.
    fn default() -> Self {
        Self {
            body: 3 << 20,
            body_time: Duration::from_secs(30),
            bodies: 128 << 20,
            answers: 256 << 20,
            in_flight: 256,
            queued_per_user: 256,
            watches: 50_000,
            watches_per_user: 10_000,
        }
    }
}

// === impl Inner ===

impl Inner {
    pub(crate) fn now(&self) -> Time {
        Time::from_system(self.config.clock.now())
    }

    /// Waits until memory shows everything that was acknowledged before. The one place for it:
    /// all requests that must not see the past come through here before they read.
    pub(crate) async fn fresh(&self) -> Result<(), Error> {
        let reached = self.store.barrier().await;
        reached
            .map(drop)
            .map_err(|error| Error::unavailable(error.to_string()))
    }

    /// How long it has been since.
    pub(crate) fn took(&self, since: SystemTime) -> Duration {
        let now = self.config.clock.now();
        now.duration_since(since).unwrap_or_default()
    }

    /// The key of an object, if the names can be part of one.
    pub(crate) fn key(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Key, Error> {
        let namespace = if kind.namespaced { namespace } else { "" };
        Key::new(TENANT, &kind.collection, namespace, name)
            .map_err(|_| Error::not_found(kind.about(name)))
    }

    /// Returns all rights as they are now.
    pub(crate) fn rights(&self) -> Arc<Rbac> {
        self.rbac.read().clone()
    }

    /// Takes in a role or binding as it now is, and tells watches if it gave more before.
    pub(crate) fn replace_rights(&self, part: Part, key: &Key, object: Option<&Value>) {
        let (namespace, name) = (key.namespace(), key.name());
        let withdrawn = Arc::make_mut(&mut self.rbac.write()).apply(part, namespace, name, object);
        if withdrawn {
            self.withdrawn.send_modify(|times| *times += 1);
        }
    }

    /// How far the cache that follows this collection has come, if there is one.
    pub(crate) fn reach(&self, collection: &str) -> Option<&Reach> {
        self.reaches
            .iter()
            .find(|(name, _)| *name == collection)
            .map(|(_, reach)| reach)
    }

    /// Serves what this definition says from now on, or nothing for it. If that is another thing
    /// than before, watches of what was served end, so that their clients begin anew; writes that
    /// leave it as it is (conditions, labels) end nothing.
    pub(crate) fn replace_definition(&self, name: &str, definition: Option<&Value>) {
        let before = self.registry.load_full();
        let rows = before.all().filter_map(|kind| match &kind.source {
            Source::Custom(one) if one.name == name => Some(one),
            Source::Custom(_) | Source::BuiltIn(_) => None,
        });
        let rows: Vec<_> = rows.collect();
        let inputs = definition.and_then(Inputs::of);
        if rows.first().map(|one| one.inputs) == inputs {
            return;
        }
        let kinds = definition.zip(inputs);
        let kinds = kinds.map(|(definition, inputs)| custom::kinds(definition, inputs));
        let next = before.with_definition(name, kinds.unwrap_or_default());
        self.registry.store(Arc::new(next));
        for definition in rows {
            definition.retired.stop();
        }
    }

    pub(crate) fn collection(&self, kind: &Kind) -> Result<Collection, Error> {
        Collection::new(TENANT, &kind.collection).map_err(Error::internal)
    }
}
