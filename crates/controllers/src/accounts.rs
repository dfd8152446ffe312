//! What every namespace has: the `default` service account, and the authority's certificate in
//! the ConfigMap `kube-root-ca.crt`; and tokens in the Secrets that ask for one.
//!
//! Not here: tokens with an end (the TokenRequest subresource).
//!
//! Invariants: a Secret is deleted for lack of its account only after the API was asked for that
//! account; nothing is written to a namespace that is going.

mod act;
mod plan;

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use kube::Client;

use deltaplane_client::{Cache, Event, Feed, ObjectKey, Query, Resource};
use deltaplane_runtime::Stop;
use deltaplane_runtime::readiness::Guard;

use crate::Context;
use crate::queue::Work;

use plan::{Account, Namespace, RootCa, TokenSecret};

/// What the controller is given.
#[derive(Clone)]
pub struct Config {
    /// The certificate of the authority that clients trust, PEM.
    pub ca: String,
    /// Makes a token without an end.
    pub mint: Mint,
}

/// Makes a token without an end for what the Secret is for.
pub type Mint = Arc<dyn Fn(&LegacyToken) -> Result<String, MintError> + Send + Sync>;

/// What a token without an end is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyToken {
    /// Of the account and of the Secret.
    pub namespace: String,
    /// The account.
    pub account: String,
    /// Which account of that name.
    pub account_uid: String,
    /// The Secret that will hold it.
    pub secret: String,
    /// Which Secret of that name.
    pub secret_uid: String,
}

/// No token could be made.
#[derive(Debug, thiserror::Error)]
#[error("failed to make a token")]
pub struct MintError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Namespace(String),
    Secret(ObjectKey),
}

/// Which feed an event is from.
#[derive(Clone, Copy)]
enum Source {
    Namespaces,
    Accounts,
    ConfigMaps,
    Secrets,
}

/// What is known.
#[derive(Default)]
struct Observed {
    namespaces: Cache<Namespace>,
    accounts: Cache<Account>,
    root_cas: Cache<RootCa>,
    secrets: Cache<TokenSecret>,
}

const DEFAULT_ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const AT_ONCE: usize = 16;

/// Keeps them, until told to stop.
///
/// The guard is told when every namespace has what it should have.
pub async fn run(context: Context, config: Config, ready: Guard, stop: Stop) {
    stop.unless(keep(context, config, ready)).await;
}

async fn keep(context: Context, config: Config, ready: Guard) {
    let config = Arc::new(config);
    let mut feeds = feeds(&context);
    let mut observed = Observed::default();
    let mut work = Work::new(AT_ONCE, context.pace.clone());
    while !observed.is_complete() {
        if let Some((source, event)) = feeds.next().await {
            observed.apply(source, event, &config.ca);
        }
    }
    for key in first_pass(&context.client, &config, &observed).await {
        work.add(key);
    }
    ready.ready();
    loop {
        tokio::select! {
            Some((source, event)) = feeds.next() => {
                for key in observed.apply(source, event, &config.ca) {
                    work.add(key);
                }
            }
            key = work.next() => match observed.plan(&key) {
                plan if plan.is_empty() => work.skip(key),
                plan => work.start(key, act::all(context.client.clone(), config.clone(), plan)),
            },
        }
    }
}

/// Does what the first complete picture leads to; returns what failed, to try again.
async fn first_pass(client: &Client, config: &Arc<Config>, observed: &Observed) -> Vec<Key> {
    let planned = observed
        .all_keys()
        .into_iter()
        .map(|key| (observed.plan(&key), key));
    let act = |(plan, key): (Vec<plan::Action>, Key)| async move {
        let done = act::all(client.clone(), config.clone(), plan).await;
        done.is_err().then_some(key)
    };
    let acts = stream::iter(planned).map(act).buffer_unordered(AT_ONCE);
    acts.filter_map(std::future::ready).collect().await
}

fn feeds(context: &Context) -> stream::SelectAll<BoxStream<'static, (Source, Event)>> {
    let Context { client, pace } = context;
    let feed = |source: Source, query: Query| {
        let client: Client = client.clone();
        let events = Feed::new(client, query, pace.clone()).events();
        events.map(move |event| (source, event)).boxed()
    };
    stream::select_all([
        feed(Source::Namespaces, Query::all(namespaces())),
        feed(Source::Accounts, Query::metadata(accounts())),
        feed(
            Source::ConfigMaps,
            Query::all(config_maps()).with_fields(&format!("metadata.name={ROOT_CA}")),
        ),
        feed(
            Source::Secrets,
            Query::all(secrets()).with_fields("type=kubernetes.io/service-account-token"),
        ),
    ])
}

fn namespaces() -> Resource {
    Resource::cluster("", "v1", "namespaces", "Namespace")
}

fn accounts() -> Resource {
    Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount")
}

fn config_maps() -> Resource {
    Resource::namespaced("", "v1", "configmaps", "ConfigMap")
}

fn secrets() -> Resource {
    Resource::namespaced("", "v1", "secrets", "Secret")
}

// === impl Observed ===

impl Observed {
    fn is_complete(&self) -> bool {
        self.namespaces.is_synced()
            && self.accounts.is_synced()
            && self.root_cas.is_synced()
            && self.secrets.is_synced()
    }

    /// Takes an event, and says what to look at because of it.
    fn apply(&mut self, source: Source, event: Event, ca: &str) -> Vec<Key> {
        match source {
            Source::Namespaces => {
                let changed = self
                    .namespaces
                    .apply(event, |item| Some(Namespace::of(&item)));
                changed
                    .into_iter()
                    .map(|key| Key::Namespace(key.name))
                    .collect()
            }
            Source::Accounts => {
                let changed = self.accounts.apply(event, |item| Some(Account::of(&item)));
                changed.iter().flat_map(|key| self.concerned(key)).collect()
            }
            Source::ConfigMaps => {
                let changed = self.root_cas.apply(event, |item| RootCa::of(&item, ca));
                changed
                    .into_iter()
                    .map(|key| Key::Namespace(key.namespace))
                    .collect()
            }
            Source::Secrets => {
                let changed = self.secrets.apply(event, |item| TokenSecret::of(&item, ca));
                changed.into_iter().map(Key::Secret).collect()
            }
        }
    }

    /// What an account that came or went concerns.
    fn concerned(&self, account: &ObjectKey) -> Vec<Key> {
        let of_account = |(key, secret): (&ObjectKey, &TokenSecret)| {
            let concerned = key.namespace == account.namespace && secret.account == account.name;
            concerned.then(|| Key::Secret(key.clone()))
        };
        let mut keys: Vec<_> = self.secrets.iter().filter_map(of_account).collect();
        if account.name == DEFAULT_ACCOUNT {
            keys.push(Key::Namespace(account.namespace.clone()));
        }
        keys
    }

    fn all_keys(&self) -> Vec<Key> {
        let namespaces = self
            .namespaces
            .iter()
            .map(|(key, _)| Key::Namespace(key.name.clone()));
        let secrets = self.secrets.iter().map(|(key, _)| Key::Secret(key.clone()));
        namespaces.chain(secrets).collect()
    }

    fn plan(&self, key: &Key) -> Vec<plan::Action> {
        match key {
            Key::Namespace(name) => {
                let Some(namespace) = self.namespaces.get(&ObjectKey::cluster(name)) else {
                    return Vec::new();
                };
                let account = self.accounts.get(&ObjectKey::new(name, DEFAULT_ACCOUNT));
                let root_ca = self.root_cas.get(&ObjectKey::new(name, ROOT_CA));
                plan::namespace(name, *namespace, account, root_ca)
            }
            Key::Secret(key) => {
                let Some(secret) = self.secrets.get(key) else {
                    return Vec::new();
                };
                let account = ObjectKey::new(&key.namespace, &secret.account);
                plan::secret(key, secret, self.accounts.get(&account))
                    .into_iter()
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
