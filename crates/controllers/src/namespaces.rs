//! Empties namespaces that are to go, and lets them go when they are empty.
//!
//! Which kinds there are is asked of the API at that very time: a kind that was forgotten would
//! leave its objects behind. While something is left, because it has finalizers, the namespace
//! says what, and the controller waits for it to go.
//!
//! Invariant: a namespace is let go only when every kind was asked and had nothing in it.

mod plan;

use std::error::Error;

use futures::StreamExt;
use kube::Client;
use serde::de::IgnoredAny;
use serde_json::json;

use deltaplane_api::time::Time;
use deltaplane_client::discovery::{self, Catalog};
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{Cache, Feed, ObjectKey, Query, RequestError, Resource};
use deltaplane_runtime::Stop;
use deltaplane_runtime::readiness::Guard;

use crate::Context;
use crate::content::{self, Left};
use crate::queue::{Failure, Next, Outcome, Work};

use plan::{Emptied, Namespace};

/// Namespaces emptied at one time, those apart that wait for others.
const AT_ONCE: usize = 16;

/// Empties them, until told to stop.
///
/// The guard is told when all that exists has been seen.
pub async fn run(context: Context, ready: Guard, stop: Stop) {
    stop.unless(empty(context, ready)).await;
}

async fn empty(context: Context, ready: Guard) {
    let mut ready = Some(ready);
    let Context { client, pace } = &context;
    let mut feed = Feed::new(client.clone(), Query::all(resource()), pace.clone()).events();
    // Whether it is going, which is all that is looked at before the namespace is read anew.
    let mut cache: Cache<bool> = Cache::new();
    let mut work = Work::new(AT_ONCE, pace.clone());
    loop {
        tokio::select! {
            Some(event) = feed.next() => {
                let going = |item: deltaplane_client::Item| Some(item.header.is_deleting());
                for key in cache.apply(event, going) {
                    work.add(key);
                }
                if let Some(guard) = ready.take_if(|_| cache.is_synced()) {
                    guard.ready();
                }
            }
            key = work.next() => match cache.get(&key) {
                Some(true) => work.start(key.clone(), reconcile(context.clone(), key)),
                Some(false) | None => work.skip(key),
            },
        }
    }
}

fn resource() -> Resource {
    Resource::cluster("", "v1", "namespaces", "Namespace")
}

async fn reconcile(context: Context, key: ObjectKey) -> Result<Outcome, Failure> {
    let Context { client, pace } = &context;
    let path = resource().object_path(&key);
    let namespace: Namespace = match request::get(client, &path).await {
        Ok(namespace) => namespace,
        Err(error) if error.is_not_found() => return Ok(Next::Rest.into()),
        Err(error) => return Err(Failure::to("read the namespace")(error)),
    };
    if !namespace.is_to_be_emptied() {
        return Ok(Next::Rest.into());
    }
    let emptied = delete_content(client, &key.name).await?;
    if emptied.is_empty() {
        return let_go(client, &path, &namespace).await.map(Outcome::from);
    }
    let now = Time::from_system(pace.clock.now());
    if let Some(status) = plan::status(&namespace, &emptied, now) {
        let change = json!({"metadata": namespace.precondition(), "status": status});
        let path = format!("{path}/status");
        let written = request::patch::<IgnoredAny>(client, &path, Patch::Merge, &change).await;
        if let Some(next) = overtaken(&written) {
            return Ok(next.into());
        }
        written.map_err(Failure::to("write the namespace's status"))?;
    }
    if let Some(failure) = emptied.failure() {
        return Err(Failure::to("empty the namespace")(failure));
    }
    let fewer = async move { content::fewer(&context, Some(&key.name), emptied.left).await };
    Ok(Outcome::Wait(Box::pin(fewer)))
}

/// Asks for the deletion of everything, and looks what is left.
async fn delete_content(client: &Client, namespace: &str) -> Result<Emptied, Failure> {
    let catalog: Catalog = discovery::discover(client)
        .await
        .map_err(Failure::to("ask which kinds there are"))?;
    let mut emptied = Emptied {
        undiscovered: catalog.failures.clone(),
        ..Emptied::default()
    };
    let kinds = catalog.with_verbs(&["list", "delete"]);
    for kind in kinds.filter(|kind| kind.namespaced) {
        match delete_kind(client, kind, namespace).await {
            Ok(left) if left.objects.is_empty() => {}
            Ok(left) => emptied.left.push((kind.clone(), left)),
            Err(error) => {
                let source = (&error as &dyn Error).source().map(ToString::to_string);
                let text = source.unwrap_or_else(|| error.to_string());
                emptied.failures.push(format!("{kind}: {text}"));
            }
        }
    }
    Ok(emptied)
}

async fn delete_kind(
    client: &Client,
    kind: &Resource,
    namespace: &str,
) -> Result<Left, RequestError> {
    let left = match content::left(client, kind, Some(namespace)).await {
        // Not served any more: whoever ended that sees to its objects.
        Err(error) if error.is_not_found() => return Ok(Left::default()),
        left => left?,
    };
    if left.objects.is_empty() {
        return Ok(left);
    }
    content::delete_all(client, kind, namespace).await?;
    content::left(client, kind, Some(namespace)).await
}

async fn let_go(client: &Client, path: &str, namespace: &Namespace) -> Result<Next, Failure> {
    let path = format!("{path}/finalize");
    let written = request::replace::<IgnoredAny>(client, &path, &namespace.finalized()).await;
    if let Some(next) = overtaken(&written) {
        return Ok(next);
    }
    written.map_err(Failure::to("let the namespace go"))?;
    Ok(Next::Rest)
}

/// Somebody else changed or removed the namespace meanwhile.
fn overtaken<T>(written: &Result<T, RequestError>) -> Option<Next> {
    match written {
        Err(error) if error.is_conflict() => Some(Next::Again),
        Err(error) if error.is_not_found() => Some(Next::Rest),
        Ok(_) | Err(_) => None,
    }
}
