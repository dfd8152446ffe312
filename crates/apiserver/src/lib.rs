//! The Kubernetes API as a tower service, over a revisioned store.
//!
//! One generic path for every kind: a kind is a row (`kinds`) of names, a schema and a few
//! hooks; custom kinds become rows when their definitions are established. `verbs` carries
//! requests out; `auth` says who may; `paths` is everything that is not an object.
//!
//! It is not a listener (the `hub` crate puts TLS in front of it, or a client calls it in
//! process), it stores nothing itself, and no controller lives here.
//!
//! Invariants: nothing that was not stored durably is answered as stored; whoever is not allowed
//! by RBAC is refused, and the anonymous see health and version only; one bad object affects
//! itself only; no request, however malformed, panics.
//!
//! ```
//! use deltaplane_api::identity::Identity;
//!
//! // Whoever puts an `Identity` into a request's extensions vouches for it: a TLS listener that
//! // verified a certificate, or a controller in this process.
//! let request = http::Request::get("/api/v1/namespaces")
//!     .extension(Identity::authenticated("admin", &["system:masters"]))
//!     .body(())
//!     .expect("the parts are valid");
//! assert!(request.extensions().get::<Identity>().is_some());
//! ```

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use deltaplane_runtime::{Tasks, Trigger};
use deltaplane_store::Store;
use parking_lot::{Mutex, RwLock};
use prometheus_client::registry::Registry as MetricsRegistry;
use tokio::sync::watch;

use auth::tokens::Tokens;
use costly::CostlyPlaces;
use flow::Flow;
use kinds::registry::Registry;
use metrics::Metrics;
use reach::Reach;
use server::Inner;

mod answered;
pub mod auth;
mod body;
mod bootstrap;
mod context;
mod costly;
mod decode;
mod discovery;
mod encode;
pub mod error;
mod filter;
mod flow;
mod follow;
mod issuer;
mod jsonpath;
mod kinds;
mod meta;
mod metrics;
mod negotiate;
mod openapi;
mod options;
mod paths;
mod present;
pub mod protobuf;
mod reach;
mod request;
mod reviews;
pub mod seams;
mod server;
mod service;
mod share;
mod strategy;
mod table;
pub mod typepack;
mod upload;
mod value;
mod verbs;

pub use body::{Body, BrokenOff, Pieces};
pub use deltaplane_store::Revision;
pub use error::Error;
pub use server::{Config, Limits, TENANT};
pub use verbs::patch::apply_json_patch;

use deltaplane_api::identity::{ANONYMOUS, Identity};

/// The API server. Cheap to clone; all clones are one server.
#[derive(Clone)]
pub struct ApiServer(Arc<Inner>, Arc<Trigger>);

/// When it ends that a request's [`Identity`] is that of its user: in the request's extensions,
/// from whoever put the identity there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidUntil(pub SystemTime);

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The signing key is not usable.
    #[error("the service-account key cannot be used")]
    Key(#[from] auth::tokens::KeyError),
    /// The store could not be read.
    #[error("the store could not be read: {0}")]
    Store(String),
    /// An object that every server has could not be made.
    #[error("could not set up {path}: {message}")]
    Bootstrap {
        /// Where it belongs.
        path: String,
        /// What the server said.
        message: String,
    },
}

// === impl ApiServer ===

impl ApiServer {
    /// Starts serving what is in `store`. When this returns, requests can be carried out.
    pub async fn start(config: Config, store: Store, tasks: &Tasks) -> Result<Self, StartError> {
        let mut metrics_registry = MetricsRegistry::with_prefix("deltaplane");
        let metrics = Metrics::register(metrics_registry.sub_registry_with_prefix("apiserver"));
        let (trigger, stop) = Trigger::new();
        let reaches = follow::FOLLOWED
            .iter()
            .map(|(name, _)| (*name, Reach::new()));
        let inner = Inner {
            registry: ArcSwap::from_pointee(Registry::built_in()),
            rbac: RwLock::default(),
            withdrawn: watch::Sender::new(0),
            reaches: reaches.collect(),
            tokens: Tokens::new(&config.service_account_key)?,
            flow: Flow::new(&config.limits),
            costly: CostlyPlaces::new(),
            metrics,
            metrics_registry: Mutex::new(metrics_registry),
            watches: std::sync::atomic::AtomicUsize::new(0),
            store,
            config,
            stop,
        };
        let server = Self(Arc::new(inner), Arc::new(trigger));
        follow::start(&server.0, tasks).await?;
        bootstrap::run(&server, tasks).await?;
        Ok(server)
    }

    /// Ends all watches, so that connections can close.
    pub fn drain(&self) {
        self.1.stop();
    }

    /// Where others add their metrics to what `/metrics` shows.
    pub fn register_metrics(&self, register: impl FnOnce(&mut MetricsRegistry)) {
        register(&mut self.0.metrics_registry.lock());
    }

    /// Who makes a request, by what it carries, and until when it holds that they do; whoever does
    /// not say is refused. For requests that are answered elsewhere.
    pub fn authenticate(
        &self,
        parts: &http::request::Parts,
    ) -> Result<(Identity, Option<SystemTime>), Error> {
        let caller = auth::caller(&self.0, &parts.extensions, &parts.headers)?;
        match caller.user.name == ANONYMOUS {
            true => Err(Error::unauthorized()),
            false => Ok((caller.user, caller.until)),
        }
    }

    /// Returns true if the headers hold a token of this server's that counts now.
    pub fn knows_token(&self, headers: &http::HeaderMap) -> bool {
        auth::knows_token(&self.0, headers)
    }

    /// A token without an end for the account that a Secret belongs to.
    pub fn legacy_token(&self, claims: &auth::tokens::Claims) -> Result<String, Error> {
        self.0.tokens.sign(claims).map_err(Error::internal)
    }
}

/// A number that differs when any of the texts does (64 bits of SHA-256).
fn fingerprint(texts: &[&str]) -> u64 {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.len().to_le_bytes());
        hash.update(text.as_bytes());
    }
    let digest = hash.finalize();
    let mut head = [0; 8];
    head.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(head)
}
