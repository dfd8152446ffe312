//! The kinds that the instances of a graph have objects of, followed, and whether it is seen what an
//! instance has.
//!
//! Invariant: a kind of which it is not known what there is holds up the instances that have
//! objects of it, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_client::{Catalog, Resource};
use deltaplane_graph::{Graph, Gvk, Version};
use futures::future::{BoxFuture, select_all};
use serde_json::Value;

use super::super::following::Interest;
use super::super::inventory::group_kinds_of;
use super::super::memories::Memories;
use super::super::objects::Objects;
use super::super::place;

pub(super) struct Watching {
    objects: Objects,
    memories: Memories,
    catalog: Arc<Catalog>,
    /// Of the graph, of all that came before it, and of all that instances say they have objects
    /// of.
    kinds: BTreeMap<Gvk, Followed>,
    /// Graphs of which it was said what they need of objects.
    needed: BTreeSet<Version>,
    /// What gates remember of instances. Of a graph that has none now it may be what others
    /// remembered, and is forgotten: gates that come again must not believe it.
    memory: Option<Followed>,
    /// Whether some wait for that.
    gated: bool,
}

/// A feed, and how it stood when it was last looked at.
struct Followed {
    interest: Interest,
    synced: bool,
    trouble: Option<String>,
}

/// How much is seen of what an instance has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sight {
    Whole,
    /// There will be more in a moment.
    Partial,
    /// This keeps it from being seen.
    Hindered(String),
}

// === impl Watching ===

impl Watching {
    pub(super) fn new(objects: Objects, memories: Memories, catalog: Arc<Catalog>) -> Self {
        Self {
            objects,
            memories,
            catalog,
            kinds: BTreeMap::new(),
            needed: BTreeSet::new(),
            memory: None,
            gated: false,
        }
    }

    pub(super) fn set_catalog(&mut self, catalog: Arc<Catalog>) {
        self.catalog = catalog;
    }

    /// What the API serves, as far as is known.
    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Follows the kinds of these graphs and those that instances say they have objects of, and no
    /// others.
    pub(super) fn follow<'i>(
        &mut self,
        graphs: impl Iterator<Item = &'i Arc<Graph>>,
        instances: impl Iterator<Item = Arc<Value>>,
    ) {
        // What is followed still, goes on.
        let before = std::mem::take(&mut self.kinds);
        self.gated = false;
        graphs.for_each(|graph| self.add_graph(graph));
        instances.for_each(|instance| self.add_kinds_of(&instance));
        drop(before);
    }

    /// Follows the kinds of a graph, too.
    pub(super) fn add_graph(&mut self, graph: &Graph) {
        let made = graph.nodes().iter().filter(|node| !node.is_external());
        for node in made {
            if !self.kinds.contains_key(node.gvk()) {
                self.add(node.gvk(), &place(node));
            }
        }
        if self.needed.insert(graph.version().clone()) {
            self.objects.need(graph);
            self.kinds.values_mut().for_each(Followed::look_if_synced);
        }
        if has_gates(graph) {
            self.gated = true;
            self.memories.need();
        }
        if self.memory.is_none() {
            self.memory = Some(Followed::new(self.memories.recall()));
        }
    }

    fn add(&mut self, gvk: &Gvk, place: &Resource) {
        let interest = self.objects.follow(gvk, place.clone());
        self.kinds.insert(gvk.clone(), Followed::new(interest));
    }

    /// Follows the kinds that an instance says it has objects of, too.
    pub(super) fn add_kinds_of(&mut self, instance: &Value) {
        for (group, kind) in group_kinds_of(instance) {
            if self.of(group, kind).is_some() {
                continue;
            }
            let Some(served) = self.catalog.group_kind(group, kind) else {
                continue;
            };
            let place = served.resource.clone();
            let gvk = Gvk::new(group, &place.version, kind);
            self.add(&gvk, &place);
        }
    }

    fn of(&self, group: &str, kind: &str) -> Option<&Followed> {
        let mut all = self.kinds.iter();
        let (_, followed) = all.find(|(gvk, _)| gvk.group == group && gvk.kind == kind)?;
        Some(followed)
    }

    /// How much is seen of what an instance has, and of what a graph would make of it.
    pub(super) fn sight(&mut self, instance: &Value, graph: Option<&Graph>) -> Sight {
        // What was written on it last may not have come back from its feed yet.
        self.add_kinds_of(instance);
        let mut sight = Sight::Whole;
        for (group, kind) in group_kinds_of(instance) {
            sight = sight.and(match (self.of(group, kind), self.catalog.failure(group)) {
                (Some(followed), _) => followed.sight(),
                (None, Some(why)) => Sight::Hindered(format!("kind {kind}: {why}")),
                // It is served no more, and its objects are gone with it.
                (None, None) => Sight::Whole,
            });
        }
        let nodes = graph.into_iter().flat_map(Graph::nodes);
        for node in nodes.filter(|node| !node.is_external()) {
            let followed = self.kinds.get(node.gvk());
            sight = sight.and(followed.map_or(Sight::Partial, Followed::sight));
        }
        if graph.is_some_and(has_gates) {
            sight = sight.and(self.memory.as_ref().map_or(Sight::Partial, Followed::sight));
        }
        sight
    }

    /// What keeps kinds from being followed.
    pub(super) fn troubles(&self) -> impl Iterator<Item = String> {
        let memory = self.memory.iter().filter(|_| self.gated);
        let all = self.kinds.values().chain(memory);
        all.filter_map(|one| one.trouble.clone())
    }

    /// Whether it is known what gates remember.
    pub(super) fn remembers(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.synced)
    }

    /// Waits until something stands otherwise than when it was last looked at.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + use<> {
        let all: Vec<BoxFuture<'static, ()>> = self.all().map(Followed::changed).collect();
        async move {
            match all.is_empty() {
                true => std::future::pending().await,
                false => drop(select_all(all).await),
            }
        }
    }

    /// Looks how it all stands.
    pub(super) fn look(&mut self) {
        let all = self.kinds.values_mut().chain(&mut self.memory);
        all.for_each(Followed::look);
    }

    fn all(&self) -> impl Iterator<Item = &Followed> {
        self.kinds.values().chain(&self.memory)
    }
}

/// Whether there is something to be remembered of its instances.
fn has_gates(graph: &Graph) -> bool {
    graph.nodes().iter().any(deltaplane_graph::Node::is_gated)
}

// === impl Followed ===

impl Followed {
    fn new(interest: Interest) -> Self {
        let mut new = Self {
            interest,
            synced: false,
            trouble: None,
        };
        new.look();
        new
    }

    fn look(&mut self) {
        self.synced = self.interest.is_synced();
        self.trouble = self.interest.trouble();
    }

    /// A feed that was synced may not be any more: more is needed than it told.
    fn look_if_synced(&mut self) {
        self.synced &= self.interest.is_synced();
    }

    fn sight(&self) -> Sight {
        match (self.synced, &self.trouble) {
            // What it says may be old, and is put right when it goes on.
            (true, _) => Sight::Whole,
            (false, Some(why)) => Sight::Hindered(why.clone()),
            (false, None) => Sight::Partial,
        }
    }

    fn changed(&self) -> BoxFuture<'static, ()> {
        let (interest, synced, trouble) =
            (self.interest.clone(), self.synced, self.trouble.clone());
        Box::pin(async move {
            tokio::select! {
                () = interest.synced(), if !synced => {}
                () = interest.other_trouble(&trouble) => {}
            }
        })
    }
}

// === impl Sight ===

impl Sight {
    /// Both at once: what keeps one from being seen keeps the whole.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Hindered(why), _) | (_, Self::Hindered(why)) => Self::Hindered(why),
            (Self::Partial, _) | (_, Self::Partial) => Self::Partial,
            (Self::Whole, Self::Whole) => Self::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_client::Pace;
    use deltaplane_client::discovery::Served;
    use deltaplane_runtime::Tasks;
    use serde_json::json;

    use super::super::super::inventory::GROUP_KINDS;
    use super::*;
    use crate::Context;

    #[tokio::test]
    async fn a_kind_that_is_served_and_not_followed_is_not_known_to_have_no_objects() {
        // An API that does not answer.
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<String>, std::io::Error>>()
        });
        let context = Context {
            client: kube::Client::new(service, "default"),
            pace: Pace::system(),
        };
        let tasks = Tasks::new();
        let objects = Objects::new(context.clone(), tasks.group("objects"));
        let memories = Memories::new(context, tasks.group("memories"));
        let resource = Resource::namespaced("example.com", "v1", "widgets", "Widget");
        let mut catalog = Catalog::default();
        let served = Served {
            resource,
            verbs: ["list", "watch"].map(str::to_owned).into(),
            short_names: [].into(),
        };
        let key = ("example.com".to_owned(), "widgets".to_owned());
        catalog.kinds.insert(key, served);
        let mut watching = Watching::new(objects, memories, Arc::new(catalog));
        let annotated = |kinds: &str| json!({"metadata": {"annotations": {GROUP_KINDS: kinds}}});
        assert_eq!(
            watching.sight(&annotated("Gone.example.com"), None),
            Sight::Whole
        );
        assert_eq!(
            watching.sight(&annotated("Widget.example.com"), None),
            Sight::Partial
        );
    }
}
