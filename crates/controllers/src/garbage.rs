//! Deletes what has lost its owners, and ends deletions that concern dependents.
//!
//! - An object all of whose owners are gone is deleted.
//! - An owner that is deleted in the foreground (finalizer `foregroundDeletion`) goes when the
//!   dependents are gone that block it.
//! - An owner that leaves its dependents behind (finalizer `orphan`) goes when none names it, by
//!   a look at all objects that is not older than its end.
//!
//! Only objects with owners, and those in such a deletion, are remembered: the cost grows with
//! them, not with all objects. That an owner is gone is known only from the API: it was asked for
//! that owner, by name and uid, and said that there is no such object. A kind that is not served,
//! a watch that broke off, an error: none of that is a deletion. What is written carries the uid
//! and revision that it was planned for, so a plan that was overtaken changes nothing.

mod act;
mod blockers;
mod graph;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use tokio::sync::{mpsc, oneshot};

use deltaplane_client::discovery::{Catalog, Discovery};
use deltaplane_client::{Event, Feed, Query, Resource};
use deltaplane_runtime::Stop;

use crate::Context;
use crate::queue::Work;

use act::Act;
use graph::{Fact, Graph, KindId, Task};

/// Writes and lookups at one time.
const AT_ONCE: usize = 32;
/// Kinds whose objects never have owners, and are too many to look at.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// Collects, until told to stop.
pub async fn run(context: Context, discovery: Discovery, stop: Stop) {
    stop.unless(collect(context, discovery)).await;
}

async fn collect(context: Context, mut discovery: Discovery) {
    let mut catalog = discovery.current().await;
    let mut feeds = Feeds::new(&context);
    let mut graph = Graph::new();
    // A lookup sends one fact, and so many run at once.
    let (facts, mut learned) = mpsc::channel::<Fact>(AT_ONCE);
    let mut work = Work::new(AT_ONCE, context.pace.clone());
    schedule(&mut work, feeds.follow(&catalog, &mut graph));
    loop {
        tokio::select! {
            Some((kind, event)) = feeds.events.next() => {
                schedule(&mut work, graph.apply(kind, event));
            }
            Some(fact) = learned.recv() => schedule(&mut work, graph.learn(fact)),
            newer = discovery.changed() => {
                catalog = newer;
                schedule(&mut work, feeds.follow(&catalog, &mut graph));
            }
            task = work.next() => match plan::plan(&graph, &catalog, &task) {
                None => work.skip(task),
                Some(plan) => {
                    let act = Act { client: context.client.clone(), facts: facts.clone() };
                    work.start(task, act.run(plan));
                }
            },
        }
    }
}

fn schedule(work: &mut Work<Task>, tasks: Vec<Task>) {
    for task in tasks {
        work.add(task);
    }
}

/// The feeds of all kinds.
struct Feeds<'a> {
    context: &'a Context,
    events: SelectAll<BoxStream<'static, (KindId, Event)>>,
    /// Dropping the sender ends the feed.
    kinds: BTreeMap<Resource, (KindId, oneshot::Sender<()>)>,
}

// === impl Feeds ===

impl<'a> Feeds<'a> {
    fn new(context: &'a Context) -> Self {
        Self {
            context,
            events: SelectAll::new(),
            kinds: BTreeMap::new(),
        }
    }

    /// Follows the kinds of this catalog, and no others.
    fn follow(&mut self, catalog: &Arc<Catalog>, graph: &mut Graph) -> Vec<Task> {
        let wanted: Vec<&Resource> = catalog
            .with_verbs(&["list", "watch", "delete"])
            .filter(|kind| !IGNORED.contains(&(kind.group.as_str(), kind.plural.as_str())))
            .collect();
        let served = |kind: &Resource| {
            // A group that did not answer is not one that serves nothing.
            wanted.contains(&kind) || catalog.failures.contains_key(&kind.api_version())
        };
        let gone: Vec<Resource> = self
            .kinds
            .keys()
            .filter(|kind| !served(kind))
            .cloned()
            .collect();
        for kind in gone {
            if let Some((id, _)) = self.kinds.remove(&kind) {
                graph.remove_kind(id);
            }
        }
        for kind in wanted {
            if !self.kinds.contains_key(kind) {
                self.add(kind, graph);
            }
        }
        graph.unresolved()
    }

    fn add(&mut self, kind: &Resource, graph: &mut Graph) {
        let id = graph.add_kind(kind.clone());
        let (end, ended) = oneshot::channel();
        let Context { client, pace } = self.context;
        // Whole objects: the server has their bytes at hand, and would have to make metadata.
        let feed = Feed::new(client.clone(), Query::all(kind.clone()), pace.clone());
        let events = feed
            .events()
            .map(move |event| (id, event))
            .take_until(ended);
        self.events.push(events.boxed());
        self.kinds.insert(kind.clone(), (id, end));
    }
}

#[cfg(test)]
mod tests;
