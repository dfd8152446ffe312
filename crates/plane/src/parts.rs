//! The parts that run beside the listener.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_api::identity::{Identity, MASTERS};
use deltaplane_apiserver::auth::tokens::{Claims, Reference};
use deltaplane_apiserver::{ApiServer, Config as ApiConfig};
use deltaplane_client::{Pace, discovery, in_process};
use deltaplane_controllers::accounts::{LegacyToken, Mint, MintError};
use deltaplane_controllers::{Context, accounts, definitions, events, garbage, namespaces, roles};
use deltaplane_runtime::readiness::Indicator;
use deltaplane_runtime::{Clock, Readiness, Stop, Tasks};
use deltaplane_store::{Health, HealthWatch, Retention, RetentionPolicy, Store};

use crate::certificates::Loaded;
use crate::config::{Extensions, PlaneConfig};
use crate::routes::Route;

/// Who our own controllers are.
const CONTROLLERS: &str = "system:deltaplane:controllers";
/// How often it is looked whether history can be dropped; nothing happens if nothing was written.
const RETENTION_TICK: Duration = Duration::from_secs(10);
/// How often it is tried whether a store that fails takes writes again.
const HEAL_TICK: Duration = Duration::from_secs(5);

/// What the API server is made from.
pub(crate) struct Own<'a> {
    pub(crate) config: &'a PlaneConfig,
    pub(crate) loaded: &'a Loaded,
    pub(crate) port: u16,
    pub(crate) clock: &'a Clock,
    pub(crate) readiness: &'a Readiness,
}

// === impl Own ===

impl Own<'_> {
    /// With what others add, and what is left of that for the listener.
    pub(crate) fn api_config(self, extensions: Extensions) -> (ApiConfig, Vec<Arc<dyn Route>>) {
        let Extensions {
            admission,
            subresources,
            columns,
            routes,
            zone_gate: _,
            beginning: _,
        } = extensions;
        let config = ApiConfig {
            address: self.config.public(self.port),
            service_account_key: self.loaded.material.service_account_key.0.clone(),
            commit: self.config.commit,
            limits: self.config.requests.clone(),
            admission,
            subresources,
            columns,
            clock: self.clock.clone(),
            readiness: self.readiness.clone(),
        };
        (config, routes)
    }
}

/// What programs are told to trust.
pub(crate) fn root_ca(loaded: &Loaded) -> String {
    loaded
        .ca
        .clone()
        .unwrap_or_else(|| loaded.material.ca.clone())
}

pub(crate) fn spawn_controllers(
    tasks: &Tasks,
    api: &ApiServer,
    config: &PlaneConfig,
    loaded: &Loaded,
    readiness: &Readiness,
) {
    let identity = Identity::authenticated(CONTROLLERS, &[MASTERS]);
    let context = Context {
        client: in_process(api.clone(), identity),
        pace: Pace::system(),
    };
    let (discovery, follower) = discovery::follow(context.client.clone(), context.pace.clone());
    tasks.spawn("discovery", |stop| follower.run(stop));
    let one = context.clone();
    tasks.spawn("garbage", |stop| garbage::run(one, discovery, stop));
    let (one, guard) = (context.clone(), readiness.guard("namespaces"));
    tasks.spawn("namespaces", |stop| namespaces::run(one, guard, stop));
    let (one, guard) = (context.clone(), readiness.guard("definitions"));
    tasks.spawn("definitions", |stop| definitions::run(one, guard, stop));
    let (one, guard) = (context.clone(), readiness.guard("roles"));
    tasks.spawn("roles", |stop| roles::run(one, guard, stop));
    let (one, lifetime) = (context.clone(), config.event_lifetime);
    tasks.spawn("events", move |stop| events::run(one, lifetime, stop));
    let accounts = accounts::Config {
        ca: root_ca(loaded),
        mint: mint(api.clone()),
    };
    let guard = readiness.guard("accounts");
    tasks.spawn("accounts", |stop| {
        accounts::run(context, accounts, guard, stop)
    });
}

fn mint(api: ApiServer) -> Mint {
    Arc::new(move |token: &LegacyToken| {
        let LegacyToken {
            namespace,
            account,
            account_uid,
            secret,
            secret_uid,
        } = token;
        let reference = |name: &str, uid: &str| Reference {
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        let claims = Claims::legacy(
            namespace,
            reference(account, account_uid),
            reference(secret, secret_uid),
        );
        let signed = api.legacy_token(&claims);
        signed.map_err(|error| MintError(error.to_string().into()))
    })
}

pub(crate) fn spawn_retention(tasks: &Tasks, store: Store, policy: RetentionPolicy, clock: Clock) {
    tasks.spawn("retention", move |stop| retain(store, policy, clock, stop));
}

async fn retain(store: Store, policy: RetentionPolicy, clock: Clock, stop: Stop) {
    let mut retention = Retention::new(policy);
    // What could not be dropped is tried again with the next tick, not at once.
    let mut unfinished = false;
    loop {
        let next = async {
            tokio::select! {
                () = clock.sleep(RETENTION_TICK) => {}
                () = store.outgrown(&policy), if !unfinished => {}
            }
        };
        if stop.unless(next).await.is_none() {
            return;
        }
        let history = store.history(&policy);
        let due = retention.tick(clock.elapsed(), history);
        let Some(revision) = due.or(unfinished.then_some(history.oldest)) else {
            continue;
        };
        let dropped = store.compact(revision).await;
        unfinished = dropped.is_err();
        if let Err(error) = dropped {
            let error = &error as &dyn Error;
            tracing::warn!(error, %revision, "failed to drop history");
        }
    }
}

/// The store has ended by itself.
#[derive(Debug, thiserror::Error)]
#[error("the store's writer died")]
struct WriterDied;

pub(crate) fn spawn_health(tasks: &Tasks, store: &Store, indicator: Indicator, clock: Clock) {
    let (health, store) = (store.health(), store.clone());
    tasks.spawn("store", move |stop| {
        show_health(health, store, indicator, clock, stop)
    });
}

/// Shows at `/readyz` whether the store takes writes. While it does not, it is tried now and then
/// whether it does again, since a hub that is not ready may get no writes that would find out.
async fn show_health(
    mut health: HealthWatch,
    store: Store,
    indicator: Indicator,
    clock: Clock,
    stop: Stop,
) -> Result<(), WriterDied> {
    loop {
        let failing = match health.now() {
            Health::Well => {
                indicator.ready();
                false
            }
            Health::Failing { reason } => {
                indicator.failing(format!("it takes no writes: {reason}"));
                true
            }
            Health::Closed => return Err(WriterDied),
        };
        let next = async {
            tokio::select! {
                () = health.changed() => {}
                () = clock.sleep(HEAL_TICK), if failing => store.heal(),
            }
        };
        if stop.unless(next).await.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
