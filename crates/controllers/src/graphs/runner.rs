//! The instances of one graph, each in its turn.
//!
//! A graph has a runner of its own, so that one that is sick keeps nobody else waiting.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_client::{Cache, Discovery, Feed, Item, ObjectKey, Query, Resource};
use deltaplane_graph::{Graph, Gvk};
use futures::StreamExt;
use serde_json::Value;
use tokio::sync::watch;

use super::instance::{self, Definition, Latest, Subject};
use super::objects::{Interest, Objects};
use crate::Context;
use crate::queue::Work;

/// What a runner runs; replaced as a whole.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) definition: Arc<Definition>,
    /// The newest, or why there is none.
    pub(super) graph: Result<Arc<Graph>, String>,
    /// Where objects of these kinds are: of the graph, and of all that came before it.
    pub(super) places: Arc<BTreeMap<Gvk, Resource>>,
}

/// So many instances of a graph are worked on at once.
const AT_ONCE: usize = 64;

/// An instance.
#[derive(Clone, PartialEq)]
struct Kept {
    json: Arc<Value>,
}

/// What a runner is given.
pub(super) struct Known {
    pub(super) context: Context,
    pub(super) objects: Objects,
    pub(super) discovery: Discovery,
    /// The kind of the instances.
    pub(super) resource: Resource,
}

struct Runner {
    known: Known,
    serving: watch::Receiver<Serving>,
    /// Kinds that instances say they have objects of, and the graph does not have any more.
    further: BTreeMap<Gvk, Resource>,
    instances: Cache<Kept>,
    /// Which instance has which uid.
    keys: BTreeMap<String, ObjectKey>,
    work: Work<ObjectKey>,
    latest: Latest,
    /// The kinds of all objects, followed.
    interests: Vec<Interest>,
}

/// Runs the instances of a kind for ever.
pub(super) async fn run(known: Known, serving: watch::Receiver<Serving>) {
    let work = Work::new(AT_ONCE, known.context.pace.clone());
    let runner = Runner {
        known,
        serving,
        further: BTreeMap::new(),
        instances: Cache::new(),
        keys: BTreeMap::new(),
        work,
        latest: Latest::default(),
        interests: Vec::new(),
    };
    runner.run().await;
}

// === impl Runner ===

impl Runner {
    async fn run(mut self) {
        let resource = self.known.resource.clone();
        let Context { client, pace } = &self.known.context;
        let feed = Feed::new(client.clone(), Query::all(resource.clone()), pace.clone());
        let mut feed = feed.events();
        let dirty = self.known.objects.listen(&resource.group, &resource.kind);
        self.follow();
        let mut seen = false;
        loop {
            let interests = self.interests.clone();
            tokio::select! {
                // All that exists is seen before anything is done about it.
                () = synced(&interests), if !seen => {
                    seen = true;
                    self.add_all();
                }
                Some(event) = feed.next() => {
                    for key in self.instances.apply(event, |item| Kept::of(&item)) {
                        seen &= !self.discover(&key).await;
                        self.changed(key, seen);
                    }
                }
                uids = dirty.changed() => {
                    let keys = uids.iter().filter_map(|uid| self.keys.get(uid));
                    keys.cloned().for_each(|key| self.work.add(key));
                }
                changed = self.serving.changed() => {
                    if changed.is_err() {
                        // Whoever told it has ended: all is ending.
                        return;
                    }
                    self.follow();
                    seen = false;
                }
                key = self.work.next(), if seen => self.start(key),
            }
        }
    }

    fn changed(&mut self, key: ObjectKey, seen: bool) {
        match self.instances.get(&key) {
            Some(kept) => {
                self.keys.insert(kept.uid().to_owned(), key.clone());
                if seen {
                    self.work.add(key);
                }
            }
            None => {
                self.keys.retain(|uid, known| {
                    let kept = *known != key;
                    if !kept {
                        self.latest.forget(uid);
                    }
                    kept
                });
                self.work.cancel(&key);
            }
        }
    }

    fn add_all(&mut self) {
        for (key, _) in self.instances.iter() {
            self.work.add(key.clone());
        }
    }

    /// Follows the kinds of the objects.
    fn follow(&mut self) {
        let graph = self.serving.borrow_and_update().places.clone();
        let places = graph.iter().chain(&self.further);
        let objects = &self.known.objects;
        let interests = places.map(|(gvk, resource)| objects.follow(gvk, resource.clone()));
        self.interests = interests.collect();
    }

    /// Follows the kinds that an instance says it has objects of, too. Whether there are new ones.
    async fn discover(&mut self, key: &ObjectKey) -> bool {
        let Some(kept) = self.instances.get(key) else {
            return false;
        };
        let graph = self.serving.borrow().places.clone();
        let known = |(group, kind): &(&str, &str)| {
            let mut all = graph.keys().chain(self.further.keys());
            all.any(|gvk| gvk.group == *group && gvk.kind == *kind)
        };
        let said = instance::group_kinds_of(&kept.json);
        let new: Vec<(&str, &str)> = said.filter(|one| !known(one)).collect();
        if new.is_empty() {
            return false;
        }
        let catalog = self.known.discovery.current().await;
        let before = self.further.len();
        for (group, kind) in new {
            let mut served = catalog.kinds.values().map(|served| &served.resource);
            if let Some(found) = served.find(|one| one.group == group && one.kind == kind) {
                let gvk = Gvk::new(group, &found.version, kind);
                self.further.insert(gvk, found.clone());
            }
        }
        let more = self.further.len() > before;
        if more {
            self.follow();
        }
        more
    }

    fn start(&mut self, key: ObjectKey) {
        let Some(kept) = self.instances.get(&key) else {
            self.work.skip(key);
            return;
        };
        let json = self.latest.newest(&kept.json);
        let Serving {
            definition,
            graph,
            places,
        } = self.serving.borrow().clone();
        let places = match self.further.is_empty() {
            true => places,
            false => {
                let all = places.iter().chain(&self.further);
                Arc::new(
                    all.map(|(gvk, place)| (gvk.clone(), place.clone()))
                        .collect(),
                )
            }
        };
        let subject = Subject {
            context: self.known.context.clone(),
            objects: self.known.objects.clone(),
            resource: self.known.resource.clone(),
            key: key.clone(),
            json: json.clone(),
            definition,
            places,
            latest: self.latest.clone(),
        };
        if json["metadata"]["deletionTimestamp"].is_string() {
            self.work.start(key, instance::end(subject));
            return;
        }
        match graph {
            Ok(graph) => self.work.start(key, instance::run(subject, graph)),
            Err(why) => self.work.start(key, instance::unresolved(subject, why)),
        }
    }
}

async fn synced(interests: &[Interest]) {
    for interest in interests {
        interest.synced().await;
    }
}

// === impl Serving ===

impl Serving {
    /// Whether instances would become the same by it.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let same = match (&self.graph, &other.graph) {
            (Ok(graph), Ok(other)) => graph.version() == other.version(),
            (Err(why), Err(other)) => why == other,
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
        };
        same && self.places == other.places && self.definition.uid == other.definition.uid
    }
}

// === impl Kept ===

impl Kept {
    fn of(item: &Item) -> Option<Self> {
        let mut json: Value = item.parse().ok()?;
        // Nobody asks who wrote what.
        json["metadata"].as_object_mut()?.remove("managedFields");
        let json = Arc::new(json);
        Some(Self { json })
    }

    fn uid(&self) -> &str {
        self.json["metadata"]["uid"].as_str().unwrap_or_default()
    }
}
