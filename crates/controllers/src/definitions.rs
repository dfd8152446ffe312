//! Definitions of custom kinds: are their names free, are they served, are their objects gone.
//!
//! A definition reserves its names in its group; of two that want the same, the first one has it,
//! and the other says so until it is free. A definition that is to go takes its objects with it.
//!
//! Not here: serving the kinds, and refusing definitions that make no sense (the API server).
//!
//! Invariants: no two definitions of a group are accepted with the same name; a definition whose
//! objects cannot be listed does not go.

mod plan;

use std::collections::BTreeMap;

use futures::StreamExt;
use kube::Client;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use deltaplane_api::time::Time;
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{Cache, Feed, ObjectKey, Query, RequestError, Resource};
use deltaplane_runtime::Stop;
use deltaplane_runtime::readiness::Guard;

use crate::Context;
use crate::content;
use crate::queue::{Failure, Next, Outcome, Work, settled};

use plan::{Definition, Names, Plan};

/// Names are given one after the other; definitions end beside each other.
const AT_ONCE: usize = 16;

/// Keeps the status of definitions, until told to stop.
///
/// The guard is told when all that exists has been seen.
pub async fn run(context: Context, ready: Guard, stop: Stop) {
    stop.unless(keep(context, ready)).await;
}

async fn keep(context: Context, ready: Guard) {
    let mut ready = Some(ready);
    let Context { client, pace } = &context;
    let mut feed = Feed::new(client.clone(), Query::all(resource()), pace.clone()).events();
    let mut cache = Cache::new();
    // Names that were given, until the feed shows them: the next plan must know.
    let mut given: BTreeMap<ObjectKey, Names> = BTreeMap::new();
    let mut work = Work::new(AT_ONCE, pace.clone());
    loop {
        tokio::select! {
            Some(event) = feed.next() => {
                for key in cache.apply(event, |item| Definition::of(&item)) {
                    let shown = cache.get(&key).map(|definition| &definition.accepted);
                    if shown.is_none() || shown == given.get(&key) {
                        given.remove(&key);
                    }
                    for other in waiting(&cache, &key) {
                        work.add(other);
                    }
                    work.add(key);
                }
                if let Some(guard) = ready.take_if(|_| cache.is_synced()) {
                    guard.ready();
                }
            }
            key = work.next() => {
                let Some(definition) = cache.get(&key) else {
                    work.skip(key);
                    continue;
                };
                let used = used(&cache, &given, &key, definition);
                match plan::plan(definition, &used, Time::from_system(pace.clock.now())) {
                    Plan::Nothing => work.skip(key),
                    Plan::Write { status, names } => {
                        given.insert(key.clone(), names);
                        let act = write(client.clone(), key.clone(), status);
                        work.start(key, act);
                    }
                    Plan::End { status, objects } => {
                        let end = End { key: key.clone(), definition: definition.clone(), objects };
                        work.start(key, finish(context.clone(), end, status));
                    }
                }
            }
        }
    }
}

fn resource() -> Resource {
    Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    )
}

/// Those that may get their names now that `key` has changed or gone.
fn waiting(cache: &Cache<Definition>, key: &ObjectKey) -> Vec<ObjectKey> {
    let (_, group) = key.name.split_once('.').unwrap_or_default();
    let wants = |(other, definition): (&ObjectKey, &Definition)| {
        let waits = definition.group == group && definition.wants_names() && other != key;
        waits.then(|| other.clone())
    };
    cache.iter().filter_map(wants).collect()
}

/// The names that others in the group have.
fn used(
    cache: &Cache<Definition>,
    given: &BTreeMap<ObjectKey, Names>,
    key: &ObjectKey,
    definition: &Definition,
) -> plan::Used {
    let mut used = plan::Used::default();
    let others = cache.iter().filter(|(other, _)| *other != key);
    for (other, same) in others.filter(|(_, other)| other.group == definition.group) {
        used.add(&same.accepted);
        if let Some(names) = given.get(other) {
            used.add(names);
        }
    }
    used
}

async fn write(client: Client, key: ObjectKey, status: Value) -> Result<Next, Failure> {
    let path = format!("{}/status", resource().object_path(&key));
    let written = request::patch::<IgnoredAny>(&client, &path, Patch::Merge, &status).await;
    settled(written, "write the definition's status")
}

/// A definition that is to go.
struct End {
    key: ObjectKey,
    definition: Definition,
    /// Its objects, unless it never had any.
    objects: Option<Resource>,
}

async fn finish(context: Context, end: End, status: Option<Value>) -> Result<Outcome, Failure> {
    let End {
        key,
        definition,
        objects,
    } = end;
    let client = &context.client;
    if let Some(status) = status {
        // What the feed then tells leads here again, with the revision that the rest needs.
        return write(client.clone(), key, status).await.map(Outcome::from);
    }
    if let Some(objects) = objects {
        let failed = || Failure::to::<RequestError>("delete the definition's objects");
        let left = content::left(client, &objects, None)
            .await
            .map_err(failed())?;
        if !left.objects.is_empty() {
            for namespace in &left.namespaces {
                content::delete_all(client, &objects, namespace)
                    .await
                    .map_err(failed())?;
            }
            let left = vec![(objects, left)];
            let fewer = async move { content::fewer(&context, None, left).await };
            return Ok(Outcome::Wait(Box::pin(fewer)));
        }
    }
    let path = resource().object_path(&key);
    let change = json!({"metadata": definition.without_finalizer()});
    let written = request::patch::<IgnoredAny>(client, &path, Patch::Merge, &change).await;
    settled(written, "let the definition go").map(Outcome::from)
}
