//! Objects of others that instances refer to: a feed for each name and each selector that somebody
//! refers to, however many do; and where these are many, one for the kind and namespace.
//!
//! Invariants: a feed goes on for as long as an instance refers to something in it; an instance is
//! told of what it refers to, and of nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use deltaplane_client::{Cache, Feed, Item, ObjectKey, Query, Resource};
use deltaplane_graph::observed::{Live, ObjectId, Observed};
use deltaplane_graph::plan::{Reference, Which};
use deltaplane_graph::{Graph, Gvk, Node, NodeIndex};
use deltaplane_runtime::TaskGroup;
use futures::StreamExt;
use parking_lot::Mutex;

use super::following::{Following, Interest, Telling};
use super::objects::Dirty;
use crate::Context;

/// All of them. Cheap to clone.
#[derive(Clone)]
pub(super) struct Externals {
    context: Context,
    tasks: TaskGroup,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    places: BTreeMap<Place, Followed>,
    /// By the uid of the instance.
    instances: BTreeMap<String, Referring>,
}

/// Where objects are that somebody refers to: a kind, as it was served when that was found out, and a
/// namespace, or all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    resource: Resource,
    namespace: Option<String>,
    only: Only,
}

/// Which of those that are there are followed: what nobody refers to need not be kept, nor allowed to
/// be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Only {
    All,
    Name(String),
    /// As it is written in a request.
    Labels(String),
}

/// So many feeds are for some objects of a kind and namespace; then one is for all. An API has only
/// so many watches.
const FEW: usize = 16;

/// What is known of a place.
#[derive(Default)]
struct Followed {
    feed: Weak<Following>,
    objects: BTreeMap<ObjectId, Arc<Live>>,
    /// The instances that refer to one, by its name.
    named: BTreeMap<String, BTreeSet<String>>,
    /// Those that refer to some by their labels.
    labelled: BTreeSet<String>,
}

/// What an instance refers to.
struct Referring {
    dirty: Arc<Dirty>,
    /// By the id of the node.
    nodes: BTreeMap<String, Refers>,
}

/// What a node refers to, and where that is followed.
struct Refers {
    to: Reference,
    place: Place,
    interest: Interest,
}

/// Who refers to something.
pub(super) struct Who<'a> {
    pub(super) uid: &'a str,
    pub(super) dirty: &'a Arc<Dirty>,
}

/// How much is seen of what an instance refers to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// It refers to something else than before.
    Other,
    /// It is told when there is more.
    Partial,
    /// All that can be; some nodes' objects cannot, for these reasons.
    Whole(BTreeMap<NodeIndex, String>),
}

/// An object as the feed tells it.
#[derive(Clone)]
struct Told(Arc<Live>);

// === impl Externals ===

impl Externals {
    pub(super) fn new(context: Context, tasks: TaskGroup) -> Self {
        Self {
            context,
            tasks,
            shared: Arc::default(),
        }
    }

    /// Adds what an instance refers to, as far as it is seen, and by this graph. The nodes of which
    /// not all was seen.
    pub(super) fn show(
        &self,
        uid: &str,
        graph: &Graph,
        observed: &mut Observed,
    ) -> BTreeSet<NodeIndex> {
        let shared = self.shared.lock();
        let referring = shared.instances.get(uid);
        let nodes = referring.into_iter().flat_map(|one| &one.nodes);
        let mut unseen = BTreeSet::new();
        for (node, refers) in nodes.filter(|(node, _)| refers(graph, node)) {
            let place = shared.places.get(&refers.place);
            for live in place.iter().flat_map(|place| place.meant(&refers.to)) {
                observed.insert(node, live.clone());
            }
            // All that a feed tells first is put here before it says so.
            if !refers.interest.is_synced() {
                unseen.extend(graph.find(node));
            }
        }
        unseen
    }

    /// An instance refers to these by now. What a node refers to that is not among them stays, unless
    /// it is withheld from the instance.
    pub(super) fn refer(
        &self,
        who: &Who<'_>,
        graph: &Graph,
        references: &[(NodeIndex, Reference)],
        withheld: &BTreeMap<NodeIndex, String>,
    ) -> Sight {
        if references.is_empty() && !self.shared.lock().instances.contains_key(who.uid) {
            return Sight::Whole(BTreeMap::new());
        }
        let is_withheld = |node: &str| {
            let index = graph.find(node);
            index.is_some_and(|index| withheld.contains_key(&index))
        };
        self.shared
            .lock()
            .retain(who.uid, |node| refers(graph, node) && !is_withheld(node));
        let mut other = false;
        let may = references.iter();
        for (index, reference) in may.filter(|(index, _)| !withheld.contains_key(index)) {
            let node = graph.node(*index);
            let resource = super::place(node);
            other |= self.refer_one(who, node.id(), reference, &resource);
        }
        if other {
            return Sight::Other;
        }
        let shared = self.shared.lock();
        let referring = shared.instances.get(who.uid);
        let nodes = referring.into_iter().flat_map(|one| &one.nodes);
        let mut unseen = BTreeMap::new();
        for (id, one) in nodes.filter(|(_, one)| !one.interest.is_synced()) {
            match (one.interest.trouble(), graph.find(id)) {
                (Some(trouble), Some(index)) => unseen.insert(index, trouble),
                _ => return Sight::Partial,
            };
        }
        Sight::Whole(unseen)
    }

    /// Whether the node referred to something else, or elsewhere, or to nothing.
    fn refer_one(&self, who: &Who<'_>, node: &str, to: &Reference, resource: &Resource) -> bool {
        let mut shared = self.shared.lock();
        let referring = shared.instances.get(who.uid);
        let before = referring.and_then(|one| one.nodes.get(node));
        let same = |before: &Refers| before.to == *to && before.place.resource == *resource;
        if before.is_some_and(same) {
            return false;
        }
        let place = shared.place(to, resource);
        let interest = self.follow(&mut shared, &place);
        let referring = shared.instances.entry(who.uid.to_owned());
        let referring = referring.or_insert_with(|| Referring {
            dirty: who.dirty.clone(),
            nodes: BTreeMap::new(),
        });
        let nodes = &mut referring.nodes;
        let to = to.clone();
        let refers = Refers {
            to,
            place,
            interest,
        };
        let before = nodes.insert(node.to_owned(), refers);
        shared.reindex(who.uid, before.iter());
        true
    }

    fn follow(&self, shared: &mut Shared, place: &Place) -> Interest {
        let followed = shared.places.entry(place.clone()).or_default();
        if let Some(interest) = Interest::find(&followed.feed) {
            return interest;
        }
        let (all, of) = (self.clone(), place.clone());
        let interest = Interest::start(&self.tasks, |telling| async move {
            all.run(of, telling).await;
        });
        followed.feed = interest.downgrade();
        interest
    }

    /// The instance is gone.
    pub(super) fn forget(&self, uid: &str) {
        let mut shared = self.shared.lock();
        let referring = shared.instances.remove(uid);
        let gone = referring.iter().flat_map(|one| one.nodes.values());
        shared.reindex(uid, gone);
    }

    async fn run(&self, place: Place, telling: Telling) {
        let gvk = place.gvk();
        let query = Query::all(place.resource.clone());
        let query = match &place.namespace {
            Some(namespace) => query.in_namespace(namespace),
            None => query,
        };
        let query = match &place.only {
            Only::All => query,
            Only::Name(name) => query.with_fields(&format!("metadata.name={name}")),
            Only::Labels(labels) => query.with_labels(labels),
        };
        let Context { client, pace } = &self.context;
        let feed = Feed::new(client.clone(), query, pace.clone());
        let mut trouble = telling.trouble.subscribe();
        let mut feed = feed.telling(telling.trouble).events();
        let mut cache: Cache<Told> = Cache::new();
        loop {
            let event = tokio::select! {
                event = feed.next() => event,
                Ok(()) = trouble.changed() => {
                    self.tell_all(&place);
                    continue;
                }
            };
            let Some(event) = event else {
                return;
            };
            let was_synced = cache.is_synced();
            for key in cache.apply(event, |item| Told::of(&gvk, &item)) {
                self.put(&place, &key, cache.get(&key));
            }
            if cache.is_synced() && !was_synced {
                telling.synced.send_replace(true);
                self.tell_all(&place);
            }
        }
    }

    fn put(&self, place: &Place, key: &ObjectKey, told: Option<&Told>) {
        let Shared { places, instances } = &mut *self.shared.lock();
        let Some(followed) = places.get_mut(place) else {
            return;
        };
        let id = ObjectId {
            gvk: place.gvk(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        };
        let before = match told {
            Some(told) => followed.objects.insert(id, told.0.clone()),
            None => followed.objects.remove(&id),
        };
        let named = followed.named.get(&key.name).into_iter().flatten();
        let uids: BTreeSet<&String> = named.chain(&followed.labelled).collect();
        let change = [before.as_ref(), told.map(|told| &told.0)];
        let change: Vec<&Arc<Live>> = change.into_iter().flatten().collect();
        for uid in uids {
            if let Some(referring) = instances.get(uid)
                && referring.concerns(&change)
            {
                referring.dirty.add(uid.clone());
            }
        }
    }

    /// Tells all who refer to something there.
    fn tell_all(&self, place: &Place) {
        let shared = self.shared.lock();
        let Some(followed) = shared.places.get(place) else {
            return;
        };
        let named = followed.named.values().flatten();
        for uid in named.chain(&followed.labelled) {
            if let Some(referring) = shared.instances.get(uid) {
                referring.dirty.add(uid.clone());
            }
        }
    }
}

/// Whether the node stands for objects of others: once it may have, and makes its own now.
fn refers(graph: &Graph, node: &str) -> bool {
    let node = graph.find(node).map(|index| graph.node(index));
    node.is_some_and(Node::is_external)
}

// === impl Shared ===

impl Shared {
    /// An instance refers to nothing else any more than by these nodes.
    fn retain(&mut self, uid: &str, still: impl Fn(&str) -> bool) {
        let Some(referring) = self.instances.get_mut(uid) else {
            return;
        };
        let nodes = std::mem::take(&mut referring.nodes);
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            nodes.into_iter().partition(|(node, _)| still(node));
        referring.nodes = kept;
        self.reindex(uid, gone.values());
    }

    /// What an instance refers to is other than before: these are gone, or were replaced.
    fn reindex<'a>(&mut self, uid: &str, gone: impl Iterator<Item = &'a Refers> + Clone) {
        gone.clone().for_each(|one| self.unindex(uid, one));
        self.index(uid);
        gone.for_each(|one| self.sweep(&one.place));
    }

    /// Where something is to be followed.
    fn place(&self, to: &Reference, resource: &Resource) -> Place {
        let narrow = Place::of(to, resource);
        let beside = self.places.keys().filter(|place| {
            let same = place.resource == narrow.resource && place.namespace == narrow.namespace;
            same && place.only != Only::All
        });
        match self.places.contains_key(&narrow) || beside.count() < FEW {
            true => narrow,
            false => Place {
                only: Only::All,
                ..narrow
            },
        }
    }

    /// Nobody is told of this any more because of one node of an instance. Its other nodes stay.
    fn unindex(&mut self, uid: &str, gone: &Refers) {
        let Some(place) = self.places.get_mut(&gone.place) else {
            return;
        };
        match &gone.to.which {
            Which::Labelled(_) => {
                place.labelled.remove(uid);
            }
            Which::Named(name) => {
                if let Some(uids) = place.named.get_mut(name) {
                    uids.remove(uid);
                }
                place.named.retain(|_, uids| !uids.is_empty());
            }
        }
    }

    /// Forgets where it was, if nobody refers to anything there any more.
    fn sweep(&mut self, at: &Place) {
        let unused = |place: &Followed| place.named.is_empty() && place.labelled.is_empty();
        if self.places.get(at).is_some_and(unused) {
            self.places.remove(at);
        }
    }

    /// Has the places know what an instance refers to.
    fn index(&mut self, uid: &str) {
        let referring = self.instances.get(uid);
        for one in referring.into_iter().flat_map(|one| one.nodes.values()) {
            let place = self.places.entry(one.place.clone()).or_default();
            place.feed = one.interest.downgrade();
            let uids = match &one.to.which {
                Which::Named(name) => place.named.entry(name.clone()).or_default(),
                Which::Labelled(_) => &mut place.labelled,
            };
            uids.insert(uid.to_owned());
        }
    }
}

// === impl Place ===

impl Place {
    /// With what is referred to, and no more; with all, if that cannot be asked for: names and labels
    /// may come from expressions, and be none.
    fn of(reference: &Reference, resource: &Resource) -> Self {
        let fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        let only = match &reference.which {
            Which::Named(name) => {
                let named = !name.is_empty() && name.bytes().all(fit);
                named.then(|| Only::Name(name.clone()))
            }
            Which::Labelled(labels) => {
                let query = labels.to_query().filter(|query| !query.is_empty());
                query.map(Only::Labels)
            }
        };
        let only = only.unwrap_or(Only::All);
        Self {
            resource: resource.clone(),
            namespace: reference.namespace.clone(),
            only,
        }
    }

    fn gvk(&self) -> Gvk {
        let Resource {
            group,
            version,
            kind,
            ..
        } = &self.resource;
        Gvk::new(group, version, kind)
    }
}

// === impl Followed ===

impl Followed {
    fn meant<'a>(&'a self, reference: &'a Reference) -> impl Iterator<Item = &'a Arc<Live>> {
        self.objects.values().filter(|live| reference.means(live))
    }
}

// === impl Referring ===

impl Referring {
    /// Whether one of these is, or was, what it refers to.
    fn concerns(&self, change: &[&Arc<Live>]) -> bool {
        let mut references = self.nodes.values().map(|one| &one.to);
        references.any(|reference| change.iter().any(|live| reference.means(live)))
    }
}

// === impl Told ===

impl Told {
    fn of(gvk: &Gvk, item: &Item) -> Option<Self> {
        let header = &item.header;
        let id = ObjectId {
            gvk: gvk.clone(),
            namespace: header.namespace.clone(),
            name: header.name.clone(),
        };
        let mut live = Live::parsed(id, item.parse().ok()?);
        live.uid.clone_from(&header.uid);
        live.resource_version.clone_from(&header.resource_version);
        live.deleting = live.json()["metadata"]["deletionTimestamp"].is_string();
        Some(Self(Arc::new(live)))
    }
}

impl PartialEq for Told {
    fn eq(&self, other: &Self) -> bool {
        let version = |told: &Self| (told.0.uid.clone(), told.0.resource_version.clone());
        version(self) == version(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Reference {
        Reference {
            gvk: Gvk::new("", "v1", "Secret"),
            namespace: Some("team".to_owned()),
            which: Which::Named(name.to_owned()),
        }
    }

    #[test]
    fn many_are_followed_together() {
        let mut shared = Shared::default();
        let secrets = Resource::namespaced("", "v1", "secrets", "Secret");
        let place = |shared: &Shared, to: &Reference| shared.place(to, &secrets);
        let narrow = |to: &Reference| Place::of(to, &secrets);
        for number in 0..FEW {
            let to = named(&format!("n{number}"));
            let found = place(&shared, &to);
            assert_eq!(found, narrow(&to));
            shared.places.insert(found, Followed::default());
        }
        // What is followed already is no more.
        assert_eq!(place(&shared, &named("n3")), narrow(&named("n3")));
        assert_eq!(place(&shared, &named("other")).only, Only::All);
        let mut elsewhere = named("other");
        elsewhere.namespace = Some("ops".to_owned());
        assert_eq!(place(&shared, &elsewhere), narrow(&elsewhere));
        let labelled = Reference {
            which: Which::Labelled("a in (x)".parse().expect("a selector")),
            ..elsewhere
        };
        let only = Only::Labels("a in (x)".to_owned());
        assert_eq!(place(&shared, &labelled).only, only);
        for unfit in ["", "a,b", "a b"] {
            assert_eq!(narrow(&named(unfit)).only, Only::All, "{unfit}");
        }
    }
}
