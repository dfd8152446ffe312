//! An instance and its objects as they change.

use deltaplane_client::{Cache, Event, ObjectKey, Query, Resource};
use futures::StreamExt;
use futures::stream::{BoxStream, select_all};
use kube::Client;
use serde_json::Value;

use super::picture::Sources;
use crate::rollout::{feed, whole};

/// The instance and its objects, as watches tell them.
pub(super) struct Following {
    events: BoxStream<'static, (usize, Event)>,
    resources: Vec<Resource>,
    /// The first is that of the instance.
    caches: Vec<Cache<Value>>,
    key: ObjectKey,
    uid: Value,
}

// === impl Following ===

impl Following {
    pub(super) fn new(
        client: &Client,
        sources: &Sources,
        (place, key): (&Resource, &ObjectKey),
        instance: &Value,
    ) -> Self {
        let own = Query::all(place.clone()).with_fields(&format!("metadata.name={}", key.name));
        let own = match place.namespaced {
            true => own.in_namespace(&key.namespace),
            false => own,
        };
        let queries: Vec<Query> = std::iter::once(own)
            .chain(sources.queries.iter().cloned())
            .collect();
        let resources = queries.iter().map(|query| query.resource.clone());
        let resources: Vec<Resource> = resources.collect();
        let feeds = queries.into_iter().enumerate();
        let feeds =
            feeds.map(|(at, query)| feed(client, query).map(move |event| (at, event)).boxed());
        Self {
            events: select_all(feeds).boxed(),
            caches: resources.iter().map(|_| Cache::new()).collect(),
            resources,
            key: key.clone(),
            uid: instance["metadata"]["uid"].clone(),
        }
    }

    /// The instance, once all was seen and something changed; nothing when it is gone.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            let (at, event) = self.events.next().await?;
            let resource = &self.resources[at];
            let changed =
                self.caches[at].apply(event, |item| Some(whole(item.parse().ok()?, resource)));
            let first = !changed.is_empty() || at == 0;
            if !self.caches.iter().all(Cache::is_synced) || !first {
                continue;
            }
            let instance = self.caches[0].get(&self.key);
            return instance
                .filter(|one| one["metadata"]["uid"] == self.uid)
                .cloned();
        }
    }

    pub(super) fn there(&self) -> Vec<Value> {
        let objects = self.caches[1..].iter().flat_map(Cache::iter);
        objects.map(|(_, object)| object.clone()).collect()
    }
}
