//! Requests of a mirror, tried again while it is the API that fails and not the object.

use deltaplane_client::feed::{self, Query};
use deltaplane_client::request::{self, RequestError};
use deltaplane_client::{Pace, Resource};
use deltaplane_sync::MANAGER;
use kube::Client;
use serde_json::{Value, json};

/// After so many tries the object is rejected, which delays the next try further.
const TRIES: u32 = 8;

/// Does it until it is done, or it is clear that it will not be.
pub(super) async fn repeat<T, F>(pace: &Pace, mut act: impl FnMut() -> F) -> Result<T, String>
where
    F: Future<Output = Result<T, RequestError>>,
{
    let mut tries = 0;
    loop {
        tries += 1;
        match act().await {
            Ok(done) => return Ok(done),
            Err(error) if tries < TRIES && may_pass(&error) => {
                pace.rest(tries, error.retry_after()).await;
            }
            Err(error) => return Err(reason(&error)),
        }
    }
}

/// An object, if it is there.
pub(super) async fn get(client: &Client, pace: &Pace, path: &str) -> Result<Option<Value>, String> {
    repeat(pace, || async {
        match request::get(client, path).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    })
    .await
}

/// All objects of a kind with these labels.
pub(super) async fn list(
    client: &Client,
    resource: &Resource,
    labels: &str,
) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    let query = Query::metadata(resource.clone()).with_labels(labels);
    let listed = feed::list(client, &query, |item| objects.extend(item.parse().ok())).await;
    match listed {
        Ok(()) => Ok(objects),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(reason(&error)),
    }
}

/// The version in which the API prefers to serve a group, if it serves it.
pub async fn preferred_version(client: &Client, group: &str) -> Result<Option<String>, String> {
    if group.is_empty() {
        return Ok(Some("v1".to_owned()));
    }
    match request::get::<Value>(client, &format!("/apis/{group}")).await {
        Ok(found) => {
            let version = found["preferredVersion"]["version"].as_str();
            Ok(version.map(str::to_owned))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(reason(&error)),
    }
}

/// Whether an object was refused because its namespace is not there.
pub(super) fn lacks_namespace(error: &RequestError, namespace: &str) -> bool {
    error.refusal().is_some_and(|refusal| {
        refusal.code == 404 && refusal.message == format!("namespaces {namespace:?} not found")
    })
}

pub(super) async fn create_namespace(client: &Client, namespace: &str) -> Result<(), RequestError> {
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
    });
    let path = format!("/api/v1/namespaces?fieldManager={MANAGER}");
    match request::create::<Value>(client, &path, &object).await {
        Err(error) if !error.is_conflict() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether it may work when tried again soon.
fn may_pass(error: &RequestError) -> bool {
    match error {
        RequestError::Unreachable(_) => true,
        RequestError::Refused(refusal) => {
            // A definition that has just come is served a moment later.
            let not_served = refusal.code == 404 && refusal.name.is_empty();
            not_served || matches!(refusal.code, 409 | 429 | 500..)
        }
        RequestError::Answer(_) | RequestError::Request(_) => false,
    }
}

/// What is said of the object that could not be applied.
fn reason(error: &RequestError) -> String {
    match error {
        RequestError::Refused(refusal) => refusal.message.clone(),
        RequestError::Unreachable(source) => format!("{error}: {source}"),
        RequestError::Answer(source) => format!("{error}: {source}"),
        RequestError::Request(source) => format!("{error}: {source}"),
    }
}
