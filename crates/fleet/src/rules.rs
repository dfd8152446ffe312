//! What a zone knows of its definitions: the fields that controllers compute.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_client::feed::{Event, Feed, Query};
use deltaplane_client::{Pace, Resource};
use deltaplane_runtime::Stop;
use deltaplane_sync::{COMPUTED_FIELDS, Computed};
use futures::StreamExt;
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;

use crate::known::Known;

/// Keeps `known` as the definitions say, until told to stop.
pub async fn follow_definitions(
    client: Client,
    pace: Pace,
    known: watch::Sender<Arc<Known>>,
    stop: Stop,
) {
    let group = "apiextensions.k8s.io";
    let resource = Resource::cluster(
        group,
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    );
    let feed = Feed::new(client, Query::metadata(resource), pace);
    let mut events = feed.events();
    let mut starting = None;
    while let Some(Some(event)) = stop.unless(events.next()).await {
        match event {
            Event::Restarted => starting = Some(BTreeMap::new()),
            Event::InSync => {
                if let Some(computed) = starting.take() {
                    known.send_modify(|known| Arc::make_mut(known).computed = computed);
                }
            }
            Event::Applied(item) | Event::Deleted(item) if item.header.name.is_empty() => {}
            Event::Applied(item) => {
                let object: Value = item.parse().unwrap_or_default();
                let fields = object["metadata"]["annotations"][COMPUTED_FIELDS].as_str();
                set(&known, starting.as_mut(), &item.header.name, fields);
            }
            Event::Deleted(item) => set(&known, starting.as_mut(), &item.header.name, None),
        }
    }
    stop.wait().await;
}

type Fields = BTreeMap<(String, String), Vec<Computed>>;

fn set(
    known: &watch::Sender<Arc<Known>>,
    starting: Option<&mut Fields>,
    name: &str,
    fields: Option<&str>,
) {
    let Some((plural, group)) = name.split_once('.') else {
        return;
    };
    let key = (group.to_owned(), plural.to_owned());
    let change = |computed: &mut Fields| {
        match fields {
            Some(fields) => computed.insert(key, Computed::list(fields)),
            None => computed.remove(&key),
        };
    };
    match starting {
        Some(computed) => change(computed),
        None => known.send_modify(|known| change(&mut Arc::make_mut(known).computed)),
    }
}
