//! Workloads that seem to run where nothing runs them: their status is what a healthy cluster
//! would write, a moment later; or what a failing one would, on request.
//!
//! - Statuses are written through `/status` and as a field manager of its own; beside them only the
//!   annotation of a Deployment with its revision.
//! - Workloads make what controllers would make of them: ReplicaSets, ControllerRevisions and Pods,
//!   at most 50 Pods each, with statuses of their own (`offspring`). No volumes or endpoints are
//!   made; a DaemonSet has one node.
//! - A change of what is asked for begins a rollout, and after the delay ends it. Rollouts replace
//!   everything at once: nothing is available until the end, nor after a failure.
//! - The annotation `deltaplane.io/simulate`, on the object or on its Pod template, asks for
//!   trouble: `fail`, `hang`, `delay=5s`, or several with commas between. An image with the tag
//!   `broken` fails too. Services, Ingresses and claims that fail wait for ever, as real ones do.
//! - Conditions say that they are simulated.
//!
//! Not here: scheduling, scaling, probes, deadlines; `paused` has no effect.
//!
//! Invariants: a status that anybody else has written is left alone, and so is a Job that names
//! another controller in `managedBy`; nothing is written, read or waited for when nothing is under
//! way; a finished Job stays as it is.

mod digest;
mod kind;
mod object;
mod offspring;
mod order;
mod plan;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream::{self, BoxStream, SelectAll};
use kube::Client;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use deltaplane_client::discovery::{self, Catalog};
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{Cache, Event, Feed, ObjectKey, Query};
use deltaplane_runtime::Stop;

use crate::Context;
use crate::queue::{Failure, Next, Work};

use kind::Kind;
use object::Object;
use offspring::{Act, Child, Siblings};
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
    /// Everything of the kinds that workloads make.
    children: BTreeMap<Kind, Cache<Child>>,
    /// What each workload controls, by its uid.
    families: BTreeMap<String, BTreeSet<Key>>,
    /// What is under way: for what, and since when. A restart begins the delay anew.
    under_way: BTreeMap<Key, (u64, SystemTime)>,
}

/// A status, and the object that it is for.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    metadata: Value,
    status: Value,
}

/// What is to be done for an object now.
struct Step {
    acts: Vec<Act>,
    status: Plan<Change>,
}

/// The objects of one namespace.
struct Neighbours<'a> {
    picture: &'a Picture,
    namespace: &'a str,
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
            key = work.next() => {
                let Step { acts, status } = picture.plan(&key, config, pace.clock.now());
                let (change, at) = match status {
                    Plan::Nothing => (None, None),
                    Plan::Later(at) => (None, Some(at)),
                    Plan::Write(change) => (Some(change), None),
                };
                if acts.is_empty() && change.is_none() {
                    work.skip(key.clone());
                } else {
                    work.start(key.clone(), perform(client.clone(), key.clone(), acts, change));
                }
                if let Some(at) = at {
                    work.add_at(key, at);
                }
            }
        }
    }
}

/// Writes the status of a workload, then makes and changes what belongs to it: the status is written
/// on the workload as it was seen, which may be annotated afterwards.
async fn perform(
    client: Client,
    key: Key,
    acts: Vec<Act>,
    change: Option<Change>,
) -> Result<Next, Failure> {
    let owner = key.1.clone();
    let next = match change {
        Some(change) => write(client.clone(), key, change).await?,
        None => Next::Rest,
    };
    for act in acts {
        perform_act(&client, &owner, act).await?;
    }
    Ok(next)
}

/// What was done by somebody else meanwhile is told by the feed, and what the API refuses is not
/// asked for again before something changes.
async fn perform_act(client: &Client, owner: &ObjectKey, act: Act) -> Result<(), Failure> {
    let path = |kind: Kind, name: &str| {
        let key = ObjectKey::new(&owner.namespace, name);
        kind.resource().object_path(&key)
    };
    let done = match act {
        Act::Create { kind, mut object } => {
            let resource = kind.resource();
            object["apiVersion"] = json!(resource.api_version());
            object["kind"] = json!(resource.kind);
            let path = resource.collection_path(Some(&owner.namespace));
            let path = format!("{path}?fieldManager={MANAGER}");
            request::create::<IgnoredAny>(client, &path, &object)
                .await
                .map(drop)
        }
        Act::Patch { kind, name, change } => {
            let path = format!("{}?fieldManager={MANAGER}", path(kind, &name));
            let patched = request::patch::<IgnoredAny>(client, &path, Patch::Merge, &change);
            patched.await.map(drop)
        }
        Act::Delete { kind, name, uid } => {
            let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid},
                "propagationPolicy": "Background"});
            request::delete(client, &path(kind, &name), &options).await
        }
    };
    match done {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.code(), Some(403 | 404 | 409 | 422)) => {
            let error = &error as &dyn Error;
            tracing::debug!(workload = %owner, error, "an object of a simulated workload was refused");
            Ok(())
        }
        Err(error) => Err(Failure::to("write an object of a simulated workload")(
            error,
        )),
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
        let mut keys = match Kind::MADE.contains(&kind) {
            true => self.apply_child(kind, event.clone()),
            false => Vec::new(),
        };
        let cache = self.caches.entry(kind).or_default();
        let changed = cache.apply(event, |item| Object::of(kind, &item));
        keys.extend(changed.into_iter().map(|key| (kind, key)));
        for key in &keys {
            if self.get(key).is_none() {
                self.under_way.remove(key);
            }
        }
        keys
    }

    /// Says which workloads the change concerns.
    fn apply_child(&mut self, kind: Kind, event: Event) -> Vec<Key> {
        let is_complete = event == Event::InSync;
        let key = match &event {
            Event::Applied(item) | Event::Deleted(item) => Some(item.header.key()),
            Event::Restarted | Event::InSync => None,
        };
        let cache = self.children.entry(kind).or_default();
        let before = key.as_ref().and_then(|key| cache.get(key)).cloned();
        cache.apply(event, |item| Child::of(kind, &item));
        let after = key.as_ref().and_then(|key| cache.get(key)).cloned();
        if is_complete {
            self.index_families(kind);
            return self.workloads();
        }
        let Some(key) = key.filter(|_| before != after) else {
            return Vec::new();
        };
        let mut owners = Vec::new();
        for child in [before.as_ref(), after.as_ref()].into_iter().flatten() {
            owners.extend(child.owner_key(&key.namespace));
        }
        if let Some(owner) = before.and_then(|child| child.owner) {
            let family = self.families.entry(owner.uid.clone()).or_default();
            family.remove(&(kind, key.clone()));
            if family.is_empty() {
                self.families.remove(&owner.uid);
            }
        }
        if let Some(owner) = after.and_then(|child| child.owner) {
            self.families
                .entry(owner.uid)
                .or_default()
                .insert((kind, key));
        }
        owners.sort();
        owners.dedup();
        owners
    }

    /// Finds anew what workloads control of this kind.
    fn index_families(&mut self, kind: Kind) {
        for family in self.families.values_mut() {
            family.retain(|(other, _)| *other != kind);
        }
        self.families.retain(|_, family| !family.is_empty());
        for (key, child) in self.children.get(&kind).into_iter().flat_map(Cache::iter) {
            if let Some(owner) = &child.owner {
                let family = self.families.entry(owner.uid.clone()).or_default();
                family.insert((kind, key.clone()));
            }
        }
    }

    /// Everything that may make objects.
    fn workloads(&self) -> Vec<Key> {
        let all = self.caches.iter();
        all.flat_map(|(kind, cache)| cache.iter().map(|(key, _)| (*kind, key.clone())))
            .collect()
    }

    /// Returns true if all is known that workloads may have made before.
    fn knows_children(&self) -> bool {
        Kind::MADE.iter().all(|kind| {
            let cache = self.children.get(kind);
            cache.is_some_and(Cache::is_synced)
        })
    }

    fn get(&self, (kind, key): &Key) -> Option<&Object> {
        self.caches.get(kind)?.get(key)
    }

    /// What is to be done now, remembering since when something is under way.
    fn plan(&mut self, key: &Key, config: SimulatorConfig, now: SystemTime) -> Step {
        Step {
            acts: self.plan_offspring(key),
            status: self.plan_status(key, config, now),
        }
    }

    fn plan_offspring(&self, key: &Key) -> Vec<Act> {
        let Some(object) = self.get(key).filter(|_| self.knows_children()) else {
            return Vec::new();
        };
        let neighbours = Neighbours {
            picture: self,
            namespace: &object.namespace,
        };
        offspring::plan(key.0, object, &neighbours)
    }

    fn plan_status(&mut self, key: &Key, config: SimulatorConfig, now: SystemTime) -> Plan<Change> {
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

// === impl Neighbours ===

impl Siblings for Neighbours<'_> {
    fn named(&self, kind: Kind, name: &str) -> Option<&Child> {
        let key = ObjectKey::new(self.namespace, name);
        self.picture.children.get(&kind)?.get(&key)
    }

    fn controlled_by(&self, uid: &str, kind: Kind) -> Vec<(&str, &Child)> {
        let (Some(family), Some(cache)) = (
            self.picture.families.get(uid),
            self.picture.children.get(&kind),
        ) else {
            return Vec::new();
        };
        let of_kind = family.iter().filter(|(other, _)| *other == kind);
        of_kind
            .filter_map(|(_, key)| Some((key.name.as_str(), cache.get(key)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
