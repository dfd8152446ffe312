//! What a zone knows of its definitions: the fields that controllers compute.

use std::sync::Arc;

use deltaplane_client::feed::{Event, Feed, Query};
use deltaplane_client::{Item, Pace, Resource};
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
            Event::Restarted => starting = Some(Known::default()),
            Event::InSync => {
                if let Some(Known { computed, at, .. }) = starting.take() {
                    known.send_modify(|known| {
                        let known = Arc::make_mut(known);
                        known.computed = computed;
                        // With no definitions, too, all is known.
                        known.at = known.at.max(at).max(1);
                    });
                }
            }
            Event::Applied(item) => {
                let object: Value = item.parse().unwrap_or_default();
                let fields = object["metadata"]["annotations"][COMPUTED_FIELDS].as_str();
                tell(&known, starting.as_mut(), &item, fields);
            }
            Event::Deleted(item) => tell(&known, starting.as_mut(), &item, None),
        }
    }
    stop.wait().await;
}

/// Says what a definition computes: to all, or to whoever begins.
fn tell(
    known: &watch::Sender<Arc<Known>>,
    starting: Option<&mut Known>,
    definition: &Item,
    fields: Option<&str>,
) {
    match starting {
        Some(starting) => starting.learn(definition, fields),
        None => known.send_modify(|known| Arc::make_mut(known).learn(definition, fields)),
    }
}

impl Known {
    fn learn(&mut self, definition: &Item, fields: Option<&str>) {
        let header = &definition.header;
        // Those of clusters may be no numbers; nobody waits for them there.
        self.at = self.at.max(header.resource_version.parse().unwrap_or(0));
        let Some((plural, group)) = header.name.split_once('.') else {
            return;
        };
        let key = (group.to_owned(), plural.to_owned());
        match fields {
            Some(fields) => self.computed.insert(key, Computed::list(fields)),
            None => self.computed.remove(&key),
        };
    }
}
