//! The instances of graphs: a graph fares as they do. Their kinds are followed while their
//! definitions are asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use deltaplane_client::feed::{Event, Feed, Query};
use deltaplane_client::{Cache, Catalog, Discovery, Item, Pace, Resource};
use deltaplane_expr::Timestamp;
use deltaplane_propagation::readiness::{Judgement, State, graph};
use deltaplane_runtime::Trigger;
use deltaplane_sync::ObjectName;
use futures::StreamExt;
use futures::stream::{self, BoxStream, SelectAll};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Graphs that are asked for, and their instances.
pub(super) struct Instances {
    client: Client,
    pace: Pace,
    discovery: Discovery,
    catalog: Option<Arc<Catalog>>,
    definitions: BTreeMap<ObjectName, Arc<Value>>,
    followed: BTreeMap<Kind, Followed>,
    feeds: SelectAll<BoxStream<'static, (Kind, Told)>>,
    /// Graphs to be judged, and when at the latest.
    dirty: BTreeSet<ObjectName>,
    due: Option<Duration>,
}

/// A graph, what it is, and how it fares.
pub(super) type Judged = (ObjectName, Arc<Value>, Judgement);

/// Group and kind.
type Kind = (String, String);

struct Followed {
    resource: Resource,
    instances: Cache<Value>,
    trouble: Option<String>,
    /// It is followed until this is dropped.
    _until: Trigger,
}

enum Told {
    Event(Box<Event>),
    Trouble(Option<String>),
}

/// What changes together is judged together: all instances of a graph are looked at for that.
const GATHER: Duration = Duration::from_millis(20);
/// What graphs are of that do not say their group.
const GROUP: &str = "kro.run";

// === impl Instances ===

impl Instances {
    pub(super) fn new((client, pace): (Client, Pace), discovery: Discovery) -> Self {
        Self {
            client,
            pace,
            discovery,
            catalog: None,
            definitions: BTreeMap::new(),
            followed: BTreeMap::new(),
            feeds: SelectAll::new(),
            dirty: BTreeSet::new(),
            due: None,
        }
    }

    /// A graph is there, and is this.
    pub(super) fn insert(&mut self, name: ObjectName, definition: Value) {
        self.definitions.insert(name.clone(), Arc::new(definition));
        self.follow();
        self.look_at([name]);
    }

    /// A graph is gone, or not asked for.
    pub(super) fn remove(&mut self, name: &ObjectName) {
        self.dirty.remove(name);
        if self.definitions.remove(name).is_some() {
            self.follow();
        }
    }

    /// These are all.
    pub(super) fn retain(&mut self, there: &BTreeSet<ObjectName>) {
        self.dirty.retain(|name| there.contains(name));
        self.definitions.retain(|name, _| there.contains(name));
        self.follow();
    }

    /// Whether something is still to be found out, and will be.
    pub(super) fn is_pending(&self) -> bool {
        let looks = |one: &Followed| !one.instances.is_synced() && one.trouble.is_none();
        let unknown = self.catalog.is_none() && !self.definitions.is_empty();
        unknown || !self.dirty.is_empty() || self.followed.values().any(looks)
    }

    /// Graphs of which something changed. Cancel safe.
    pub(super) async fn next(&mut self) -> Vec<Judged> {
        loop {
            let clock = &self.pace.clock;
            let due = self.due;
            let left = due.unwrap_or_default().saturating_sub(clock.elapsed());
            tokio::select! {
                biased;
                () = clock.sleep(left), if due.is_some() => return self.judged(),
                catalog = newest(&mut self.discovery, self.catalog.is_some()) => {
                    self.catalog = Some(catalog);
                    self.follow();
                    self.look_at(self.definitions.keys().cloned().collect::<Vec<_>>());
                }
                Some((kind, told)) = self.feeds.next(), if !self.feeds.is_empty() => {
                    self.told(&kind, told);
                }
            }
        }
    }

    fn look_at(&mut self, names: impl IntoIterator<Item = ObjectName>) {
        self.dirty.extend(names);
        if !self.dirty.is_empty() {
            let soon = self.pace.clock.elapsed() + GATHER;
            self.due.get_or_insert(soon);
        }
    }

    fn told(&mut self, kind: &Kind, told: Told) {
        let Some(followed) = self.followed.get_mut(kind) else {
            return;
        };
        let changed = match told {
            Told::Event(event) => {
                let complete = matches!(*event, Event::InSync);
                let changed = followed.instances.apply(*event, |one| kept(&one));
                complete || !changed.is_empty()
            }
            Told::Trouble(trouble) => {
                let other = followed.trouble != trouble;
                followed.trouble = trouble;
                other
            }
        };
        if changed {
            let of_kind = self.definitions.iter();
            let of_kind = of_kind.filter(|(_, definition)| kind_of(definition) == *kind);
            let of_kind: Vec<ObjectName> = of_kind.map(|(name, _)| name.clone()).collect();
            self.look_at(of_kind);
        }
    }

    /// Follows the kinds that graphs define, where they are served, and no others.
    fn follow(&mut self) {
        let kinds = self.definitions.values().map(|one| kind_of(one));
        let kinds: BTreeSet<Kind> = kinds.collect();
        let Some(catalog) = &self.catalog else { return };
        let served =
            |(group, kind): &Kind| catalog.group_kind(group, kind).map(|one| &one.resource);
        self.followed
            .retain(|kind, one| kinds.contains(kind) && served(kind) == Some(&one.resource));
        for kind in kinds {
            let Some(resource) = served(&kind).filter(|_| !self.followed.contains_key(&kind))
            else {
                continue;
            };
            let (until, over) = Trigger::new();
            let (told, trouble) = watch::channel(None);
            let query = Query::all(resource.clone());
            let feed = Feed::new(self.client.clone(), query, self.pace.clone()).telling(told);
            let events = stream::select(
                feed.events().map(|event| Told::Event(Box::new(event))),
                troubles(trouble),
            );
            let events = events.take_until(async move { over.wait().await });
            let of = kind.clone();
            self.feeds
                .push(events.map(move |told| (of.clone(), told)).boxed());
            let followed = Followed {
                resource: resource.clone(),
                instances: Cache::new(),
                trouble: None,
                _until: until,
            };
            self.followed.insert(kind, followed);
        }
    }

    fn judged(&mut self) -> Vec<Judged> {
        self.due = None;
        let dirty = std::mem::take(&mut self.dirty);
        let judged = dirty.into_iter().filter_map(|name| {
            let definition = self.definitions.get(&name)?.clone();
            let judgement = self.judge(&definition);
            Some((name, definition, judgement))
        });
        judged.collect()
    }

    fn judge(&self, definition: &Value) -> Judgement {
        let now = self.pace.clock.now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let Some(now) = Timestamp::new(seconds, now.subsec_nanos()) else {
            return Judgement::waiting("the clock here is wrong");
        };
        let kind = kind_of(definition);
        let followed = self.followed.get(&kind);
        let instances = followed.into_iter().flat_map(|one| one.instances.iter());
        let judgement = graph(definition, instances.map(|(_, instance)| instance), now);
        let unseen = match followed {
            Some(one) if one.trouble.is_some() => one.trouble.clone(),
            Some(one) if one.instances.is_synced() => None,
            Some(_) => Some("its instances are being looked for".to_owned()),
            None => Some("its kind is not served yet".to_owned()),
        };
        // What is seen of instances may be too old or too little, unless it is wrong already.
        match (unseen, judgement.state) {
            (Some(why), State::Ready | State::NoEvidence) => Judgement::waiting(why),
            (Some(_), State::Waiting | State::Failed) | (None, _) => judgement,
        }
    }
}

/// What a feed says keeps it from going on.
fn troubles(trouble: watch::Receiver<Option<String>>) -> impl futures::Stream<Item = Told> {
    stream::unfold(trouble, |mut trouble| async move {
        trouble.changed().await.ok()?;
        let now = trouble.borrow_and_update().clone();
        Some((Told::Trouble(now), trouble))
    })
}

/// The newest catalog, when it is another.
async fn newest(discovery: &mut Discovery, known: bool) -> Arc<Catalog> {
    match known {
        true => discovery.changed().await,
        false => discovery.current().await,
    }
}

/// The kind that a graph defines.
fn kind_of(definition: &Value) -> Kind {
    let schema = &definition["spec"]["schema"];
    let text = |field: &str| schema[field].as_str().filter(|text| !text.is_empty());
    let group = text("group").unwrap_or(GROUP).to_owned();
    (group, text("kind").unwrap_or_default().to_owned())
}

/// What of an instance says how it fares.
fn kept(item: &Item) -> Option<Value> {
    let object: Value = item.parse().ok()?;
    let (metadata, status) = (&object["metadata"], &object["status"]);
    Some(json!({
        "metadata": {
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "generation": metadata["generation"],
            "deletionTimestamp": metadata["deletionTimestamp"],
            "annotations": metadata["annotations"],
        },
        "status": {"state": status["state"], "conditions": status["conditions"]},
    }))
}
