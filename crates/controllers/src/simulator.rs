//! Workloads that seem to run where nothing runs them: their status is what a healthy cluster
//! would write, a moment later; or what a failing one would, on request.
//!
//! - Only status is written, through `/status` and as a field manager of its own. No Pods are made
//!   for a Deployment, and no ReplicaSets, volumes or endpoints; a DaemonSet has one node.
//! - A change of what is asked for begins a rollout, and after the delay ends it. Rollouts replace
//!   everything at once: nothing is available until the end, nor after a failure.
//! - The annotation `deltaplane.io/simulate`, on the object or on its Pod template, asks for
//!   trouble: `fail`, `hang`, `delay=5s`, or several with commas between. An image with the tag
//!   `broken` fails too. Services, Ingresses and claims that fail wait for ever, as real ones do.
//! - Conditions say that they are simulated.
//!
//! Not here: scheduling, scaling, probes, deadlines; `paused` has no effect.
//!
//! Invariants: a status that anybody else has written is left alone; nothing is written, read or
//! waited for when nothing is under way; a finished Job stays as it is.

mod digest;
mod kind;
mod object;
mod order;
mod plan;
mod status;

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream::{self, BoxStream, SelectAll};
use kube::Client;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use deltaplane_client::discovery::{self, Catalog};
use deltaplane_client::{Cache, Event, Feed, ObjectKey, Query, request};
use deltaplane_runtime::Stop;

use crate::Context;
use crate::queue::{Failure, Next, Work};

use kind::Kind;
use object::Object;
use plan::Plan;

/// What the managed fields of simulated statuses say who wrote them.
pub const MANAGER: &str = "deltaplane-simulator";
/// Statuses written at one time.
const AT_ONCE: usize = 16;

/// How workloads are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatorConfig {
    /// How long a rollout takes that does not ask for another delay.
    pub delay: Duration,
}

type Key = (Kind, ObjectKey);

/// What is known of the objects of all kinds.
#[derive(Default)]
struct Picture {
    caches: BTreeMap<Kind, Cache<Object>>,
    /// What is under way: for what, and since when. A restart begins the delay anew.
    under_way: BTreeMap<Key, (u64, SystemTime)>,
}

/// A status, and the object that it is for.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    metadata: Value,
    status: Value,
}

/// Simulates workloads, until told to stop.
pub async fn run(context: Context, config: SimulatorConfig, stop: Stop) {
    stop.unless(simulate(context, config)).await;
}

async fn simulate(context: Context, config: SimulatorConfig) {
    tracing::info!("workloads are simulated here: nothing runs");
    let mut events = feeds(&context).await;
    let Context { client, pace } = context;
    let mut picture = Picture::default();
    let mut work = Work::new(AT_ONCE, pace.clone());
    loop {
        tokio::select! {
            Some((kind, event)) = events.next() => {
                for key in picture.apply(kind, event) {
                    match picture.get(&key) {
                        Some(_) => work.add(key),
                        None => work.cancel(&key),
                    }
                }
            }
            key = work.next() => match picture.plan(&key, config, pace.clock.now()) {
                Plan::Nothing => work.skip(key),
                Plan::Later(at) => {
                    work.skip(key.clone());
                    work.add_at(key, at);
                }
                Plan::Write(change) => work.start(key.clone(), write(client.clone(), key, change)),
            },
        }
    }
}

/// The objects of the kinds that are served. These kinds are built in, so it is asked once.
async fn feeds(context: &Context) -> SelectAll<BoxStream<'static, (Kind, Event)>> {
    let catalog = served(context).await;
    let is_served = |kind: &Kind| {
        let resource = kind.resource();
        let found = catalog.kind(&resource.api_version(), &resource.kind);
        found.is_some_and(|served| served.verbs.contains("watch"))
    };
    let feed = |kind: Kind| {
        let query = Query::all(kind.resource());
        let feed = Feed::new(context.client.clone(), query, context.pace.clone());
        feed.events().map(move |event| (kind, event)).boxed()
    };
    stream::select_all(Kind::ALL.into_iter().filter(is_served).map(feed))
}

/// What the API serves, when every group that matters has answered.
async fn served(context: &Context) -> Catalog {
    let mut failures = 0;
    loop {
        let asked = match discovery::discover(&context.client).await {
            Ok(catalog) => match kind::unanswered(&catalog) {
                None => return catalog,
                Some((group, error)) => {
                    tracing::warn!(group, error, "failed to ask which workloads are served");
                    None
                }
            },
            Err(error) => {
                let asked = error.retry_after();
                let error = &error as &dyn Error;
                tracing::warn!(error, "failed to ask which workloads are served");
                asked
            }
        };
        failures += 1;
        context.pace.rest(failures, asked).await;
    }
}

/// Writes the status, provided that the object is still as it was when that was decided. If not,
/// the feed tells what it is now, and that leads here again; not by force, so that what others own
/// stays theirs.
async fn write(client: Client, (kind, key): Key, change: Change) -> Result<Next, Failure> {
    let Change { metadata, status } = change;
    let resource = kind.resource();
    let object = json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "metadata": metadata,
        "status": status,
    });
    let path = resource.object_path(&key);
    let path = format!("{path}/status?fieldManager={MANAGER}");
    match request::apply::<IgnoredAny>(&client, &path, &object).await {
        Ok(_) => Ok(Next::Rest),
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(Next::Rest),
        Err(error) => Err(Failure::to("write a simulated status")(error)),
    }
}

// === impl SimulatorConfig ===

impl Default for SimulatorConfig {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(500),
        }
    }
}

// === impl Picture ===

impl Picture {
    /// Takes what a feed tells, and says what may have something to do now, or is gone.
    fn apply(&mut self, kind: Kind, event: Event) -> Vec<Key> {
        let cache = self.caches.entry(kind).or_default();
        let changed = cache.apply(event, |item| Object::of(kind, &item));
        let keys: Vec<Key> = changed.into_iter().map(|key| (kind, key)).collect();
        for key in &keys {
            if self.get(key).is_none() {
                self.under_way.remove(key);
            }
        }
        keys
    }

    fn get(&self, (kind, key): &Key) -> Option<&Object> {
        self.caches.get(kind)?.get(key)
    }

    /// What is to be done now, remembering since when something is under way.
    fn plan(&mut self, key: &Key, config: SimulatorConfig, now: SystemTime) -> Plan<Change> {
        let Some(object) = self.get(key) else {
            return Plan::Nothing;
        };
        let since = match self.under_way.get(key) {
            Some((asked, since)) if *asked == object.asked => *since,
            Some(_) | None => now,
        };
        let delay = object.order.delay.unwrap_or(config.delay);
        // A delay beyond all time is the same as to hang.
        let due = since.checked_add(delay);
        let (asked, planned) = (object.asked, plan::plan(key.0, object, due, now));
        let planned = planned.map(|status| Change {
            metadata: object.precondition(),
            status,
        });
        match planned {
            Plan::Nothing => self.under_way.remove(key),
            Plan::Write(_) | Plan::Later(_) => self.under_way.insert(key.clone(), (asked, since)),
        };
        planned
    }
}

#[cfg(test)]
mod tests;
