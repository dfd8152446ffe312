//! Roles that gather: their rules are those of all roles that their selectors match.
//!
//! Not here: who may make such a role (the API server).
//!
//! Invariant: what a role gathers does not depend on the order in which roles came.

mod plan;

use futures::StreamExt;
use kube::Client;
use serde::de::IgnoredAny;
use serde_json::Value;

use deltaplane_client::request::{self, Patch};
use deltaplane_client::{Cache, Feed, ObjectKey, Query, Resource};
use deltaplane_runtime::Stop;
use deltaplane_runtime::readiness::Guard;

use crate::Context;
use crate::queue::{Failure, Next, Work, settled};

use plan::Role;

/// What the roles' managed fields say who wrote them.
const MANAGER: &str = "clusterrole-aggregation-controller";
const AT_ONCE: usize = 4;

/// Gathers, until told to stop.
///
/// The guard is told when every role has the rules that it should have.
pub async fn run(context: Context, ready: Guard, stop: Stop) {
    stop.unless(gather(context, ready)).await;
}

async fn gather(context: Context, ready: Guard) {
    let mut ready = Some(ready);
    let Context { client, pace } = &context;
    let mut feed = Feed::new(client.clone(), Query::all(resource()), pace.clone()).events();
    let mut cache = Cache::new();
    let mut work = Work::new(AT_ONCE, pace.clone());
    loop {
        tokio::select! {
            Some(event) = feed.next() => {
                // Any role may be gathered by any other.
                if !cache.apply(event, |item| Role::of(&item)).is_empty() {
                    let gathering = cache.iter().filter(|(_, role)| role.gathers());
                    gathering.for_each(|(key, _)| work.add(key.clone()));
                }
                let settled = || cache.iter().all(|(key, _)| plan::plan(key, &cache).is_none());
                if let Some(guard) = ready.take_if(|_| cache.is_synced() && settled()) {
                    guard.ready();
                }
            }
            key = work.next() => match plan::plan(&key, &cache) {
                Some(change) => work.start(key.clone(), write(client.clone(), key, change)),
                None => work.skip(key),
            },
        }
    }
}

fn resource() -> Resource {
    Resource::cluster(
        "rbac.authorization.k8s.io",
        "v1",
        "clusterroles",
        "ClusterRole",
    )
}

async fn write(client: Client, key: ObjectKey, change: Value) -> Result<Next, Failure> {
    let path = format!("{}?fieldManager={MANAGER}", resource().object_path(&key));
    let written = request::patch::<IgnoredAny>(&client, &path, Patch::Merge, &change).await;
    settled(written, "write the rules that a role gathers")
}
