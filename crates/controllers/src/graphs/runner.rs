//! The instances of one graph, each in its turn.
//!
//! A graph has a runner of its own, so that one that is sick keeps nobody else waiting.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use deltaplane_client::{Cache, Discovery, Feed, Item, ObjectKey, Query, Resource};
use deltaplane_graph::{Graph, Gvk};
use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use super::admission::{self, Admission, Alike, Rollout};
use super::externals::Externals;
use super::following::Interest;
use super::instance::{self, Definition, Latest, Passes, Subject};
use super::memories::Memories;
use super::objects::{Dirty, Objects};
use super::pass::{self, Course};
use super::troubles::Troubles;
use crate::Context;
use crate::queue::Work;

/// What a runner runs; replaced as a whole.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) definition: Arc<Definition>,
    /// The newest, or why there is none.
    pub(super) target: Result<i64, String>,
    /// All that instances may run, by their numbers.
    pub(super) graphs: Arc<BTreeMap<i64, Arc<Graph>>>,
    pub(super) alike: Arc<Alike>,
    /// Whether no instance may move for now.
    pub(super) paused: bool,
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
    pub(super) externals: Externals,
    pub(super) memories: Memories,
    pub(super) troubles: Troubles,
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
    uids: BTreeMap<ObjectKey, String>,
    work: Work<ObjectKey>,
    latest: Latest,
    passes: Passes,
    /// What was decided, and is not written yet, or not seen.
    decided: BTreeMap<ObjectKey, Admission>,
    telling: Telling,
    /// Instances with something new.
    dirty: Arc<Dirty>,
    /// The kinds of all objects, followed, and what is remembered of instances.
    interests: Vec<Interest>,
    /// What kept each of them from going on when it was last looked at.
    troubles: Vec<Option<String>>,
}

/// Runs the instances of a kind for ever.
pub(super) async fn run(known: Known, serving: watch::Receiver<Serving>) {
    let work = Work::new(AT_ONCE, known.context.pace.clone());
    let dirty = {
        let Resource { group, kind, .. } = &known.resource;
        known.objects.listen(group, kind)
    };
    let runner = Runner {
        known,
        serving,
        further: BTreeMap::new(),
        instances: Cache::new(),
        keys: BTreeMap::new(),
        uids: BTreeMap::new(),
        work,
        latest: Latest::default(),
        passes: Passes::default(),
        decided: BTreeMap::new(),
        telling: Telling::default(),
        dirty,
        interests: Vec::new(),
        troubles: Vec::new(),
    };
    runner.run().await;
}

// === impl Runner ===

impl Runner {
    async fn run(mut self) {
        let resource = self.known.resource.clone();
        let Context { client, pace } = &self.known.context;
        let feed = Feed::new(client.clone(), Query::all(resource), pace.clone());
        let (told, mut own_trouble) = watch::channel(None);
        let mut feed = feed.telling(told).events();
        let dirty = self.dirty.clone();
        self.follow();
        let mut seen = false;
        let mut again = None;
        let (passes, clock) = (self.passes.clone(), self.known.context.pace.clock.clone());
        loop {
            let (interests, troubles) = (self.interests.clone(), self.troubles.clone());
            tokio::select! {
                // All that exists is seen before anything is done about it.
                () = synced(&interests), if !seen && self.instances.is_synced() => {
                    seen = true;
                    again = self.decide();
                    self.add_all();
                }
                () = other_trouble(&interests, &troubles) => {
                    self.troubles = interests.iter().map(Interest::trouble).collect();
                    self.tell_trouble(&own_trouble);
                    if !seen {
                        self.add_all();
                    }
                }
                Ok(()) = own_trouble.changed() => self.tell_trouble(&own_trouble),
                Some(event) = feed.next() => {
                    for key in self.instances.apply(event, |item| Kept::of(&item)) {
                        seen &= !self.discover(&key).await;
                        self.changed(key, seen || is_troubled(&troubles));
                    }
                    if seen {
                        again = self.decide();
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
                    self.tell_trouble(&own_trouble);
                    seen = false;
                }
                () = passes.news(), if seen => {
                    for (uid, at) in passes.due() {
                        if let Some(key) = self.keys.get(&uid) {
                            self.work.add_by(key.clone(), at);
                        }
                    }
                    again = self.decide();
                }
                () = clock.sleep_until(again.unwrap_or(SystemTime::UNIX_EPOCH)), if again.is_some() => {
                    again = self.decide();
                }
                // There may be something newer to tell.
                () = self.telling.next() => again = seen.then(|| self.decide()).flatten(),
                key = self.work.next(), if seen || is_troubled(&troubles) => match seen {
                    true => self.start(key),
                    false => self.start_unseen(key),
                },
            }
        }
    }

    /// Decides which instances may move, if the graph has a gate. When to decide again, if time
    /// alone may change it.
    fn decide(&mut self) -> Option<SystemTime> {
        let serving = self.serving.borrow().clone();
        let target = serving.target.clone().ok()?;
        let graph = serving.graphs.get(&target)?.clone();
        if !admission::holds_back(&graph, serving.paused) {
            // There is nothing to decide, however often something changes.
            self.telling
                .retract(&self.known.context, &serving.definition);
            return None;
        }
        let passed = self.passes.all();
        let latest: Vec<(&ObjectKey, Arc<Value>)> = {
            let all = self.instances.iter();
            all.map(|(key, kept)| (key, self.latest.newest(&kept.json)))
                .collect()
        };
        let known: Vec<admission::Known<'_>> = latest
            .iter()
            .map(|(key, json)| admission::Known {
                key,
                json,
                admission: self
                    .decided
                    .get(*key)
                    .copied()
                    .or_else(|| Admission::read(json)),
                passed: passed.get(json["metadata"]["uid"].as_str().unwrap_or_default()),
            })
            .collect();
        let now = admission::timestamp(self.known.context.pace.clock.now());
        let rollout = Rollout {
            graph: &graph,
            target,
            alike: &serving.alike,
            paused: serving.paused,
        };
        let decision = admission::decide(rollout, &known, now)?;
        let are_known = admission::are_known(&known);
        let keys: BTreeMap<String, ObjectKey> = {
            let keys = latest.iter().map(|(key, _)| (*key).clone());
            keys.map(|key| (key.to_string(), key)).collect()
        };
        let admitted: BTreeMap<String, Option<Admission>> = {
            let known = known.iter();
            known
                .map(|one| (one.key.to_string(), one.admission))
                .collect()
        };
        let arrivals = decision.arrivals.iter().filter_map(|key| {
            let at = (*admitted.get(key)?)?.revision();
            Some((key, Admission::Arrived(at)))
        });
        let number = |first: i64| match serving.alike.is_alike(first, target) {
            true => target,
            false => first,
        };
        let starts = decision.starts.iter();
        let starts = starts.map(|change| (&change.key, Admission::Started(number(change.to))));
        let moves = decision.admissions.iter();
        let moves = moves.map(|change| (&change.key, Admission::Admitted(number(change.to))));
        for (name, admission) in arrivals.chain(starts).chain(moves) {
            if let Some(key) = keys.get(name) {
                self.decided.insert(key.clone(), admission);
                self.work.add(key.clone());
            }
        }
        // Otherwise there is more to tell in a moment.
        if are_known {
            let told = admission::told(&decision, rollout);
            self.telling
                .tell(&self.known.context, &serving.definition, told);
        }
        decision.summary.next.map(admission::instant)
    }

    fn changed(&mut self, key: ObjectKey, go_on: bool) {
        match self.instances.get(&key) {
            Some(kept) => {
                let uid = kept.uid().to_owned();
                let before = self.uids.insert(key.clone(), uid.clone());
                if let Some(before) = before.filter(|before| *before != uid) {
                    // It was deleted and made again, unseen.
                    self.decided.remove(&key);
                    self.keys.remove(&before);
                    self.latest.forget(&before);
                    self.known.externals.forget(&before);
                    self.passes.forget(&before);
                }
                self.keys.insert(uid, key.clone());
                if self.decided.get(&key) == Admission::read(&kept.json).as_ref() {
                    self.decided.remove(&key);
                }
                if go_on {
                    self.work.add(key);
                }
            }
            None => {
                if let Some(uid) = self.uids.remove(&key) {
                    self.keys.remove(&uid);
                    self.latest.forget(&uid);
                    self.known.externals.forget(&uid);
                    self.passes.forget(&uid);
                }
                self.decided.remove(&key);
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
        let graphs = self.serving.borrow().graphs.clone();
        if graphs.values().any(|graph| has_gates(graph)) {
            self.interests.push(self.known.memories.recall());
        }
        self.troubles = vec![None; self.interests.len()];
    }

    /// The definition says what keeps it from being followed what its instances have.
    fn tell_trouble(&self, own: &watch::Receiver<Option<String>>) {
        let all = self.troubles.iter().flatten();
        let all: Vec<String> = all.cloned().chain(own.borrow().clone()).collect();
        let definition = &self.serving.borrow().definition;
        let why = (!all.is_empty()).then(|| all.join("; "));
        self.known.troubles.set(&definition.name, why);
    }

    /// It cannot be seen what there is: the instance is told why.
    fn start_unseen(&mut self, key: ObjectKey) {
        let why = self.troubles.iter().flatten().next().cloned();
        match (self.subject(&key), why) {
            (Some(subject), Some(why)) => self.work.start(key, instance::unseen(subject, why)),
            _ => self.work.skip(key),
        }
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

    fn subject(&self, key: &ObjectKey) -> Option<Subject> {
        let kept = self.instances.get(key)?;
        let Serving {
            definition, places, ..
        } = self.serving.borrow().clone();
        let places = match self.further.is_empty() {
            true => places,
            false => {
                let all = places.iter().chain(&self.further);
                let all = all.map(|(gvk, place)| (gvk.clone(), place.clone()));
                Arc::new(all.collect())
            }
        };
        let known = &self.known;
        Some(Subject {
            context: known.context.clone(),
            objects: known.objects.clone(),
            externals: known.externals.clone(),
            memories: known.memories.clone(),
            resource: known.resource.clone(),
            key: key.clone(),
            json: self.latest.newest(&kept.json),
            definition,
            places,
            latest: self.latest.clone(),
            passes: self.passes.clone(),
            dirty: self.dirty.clone(),
        })
    }

    fn start(&mut self, key: ObjectKey) {
        let Some(subject) = self.subject(&key) else {
            self.work.skip(key);
            return;
        };
        let json = subject.json.clone();
        let Serving {
            target,
            graphs,
            alike,
            paused,
            ..
        } = self.serving.borrow().clone();
        if json["metadata"]["deletionTimestamp"].is_string() {
            self.work.start(key, instance::end(subject));
            return;
        }
        let target = match target {
            Ok(target) => target,
            Err(why) => {
                self.work.start(key, instance::unresolved(subject, why));
                return;
            }
        };
        let said = self.decided.get(&key).copied();
        let said = said.or_else(|| Admission::read(&json));
        let gated = graphs
            .get(&target)
            .is_some_and(|graph| admission::holds_back(graph, paused));
        let admission = match said {
            Some(said) if gated || said.revision() == target => said,
            // Everything goes to the newest at once.
            Some(_) | None if !gated => Admission::Admitted(target),
            // It is decided when it was seen.
            Some(_) | None => {
                self.work.skip(key);
                return;
            }
        };
        match graphs.get(&admission.revision()) {
            Some(graph) => {
                let course = Course {
                    graph: graph.clone(),
                    admission,
                    behind: (!alike.is_alike(admission.revision(), target)).then_some(target),
                };
                self.work.start(key, pass::run(subject, course));
            }
            None => {
                let why = format!("revision {} of the graph is gone", admission.revision());
                self.work.start(key, instance::unresolved(subject, why));
            }
        }
    }
}

/// Whether there is something to be remembered of its instances.
fn has_gates(graph: &Graph) -> bool {
    graph.nodes().iter().any(deltaplane_graph::Node::is_gated)
}

fn is_troubled(troubles: &[Option<String>]) -> bool {
    troubles.iter().any(Option::is_some)
}

/// Waits until something else keeps one from going on than what is known.
async fn other_trouble(interests: &[Interest], known: &[Option<String>]) {
    let all = interests.iter().zip(known);
    let all = all.map(|(interest, known)| Box::pin(interest.other_trouble(known)));
    let all: Vec<_> = all.collect();
    match all.is_empty() {
        true => std::future::pending().await,
        false => {
            futures::future::select_all(all).await;
        }
    }
}

async fn synced(interests: &[Interest]) {
    for interest in interests {
        interest.synced().await;
    }
}

/// Tells the definition's status how it stands with its instances: one write at a time, the newest.
#[derive(Default)]
struct Telling {
    last: Option<Value>,
    running: Option<BoxFuture<'static, ()>>,
}

impl Telling {
    fn tell(&mut self, context: &Context, definition: &Definition, told: Value) {
        // What is newer is told when this is over.
        if self.running.is_some() || self.last.as_ref() == Some(&told) {
            return;
        }
        self.last = Some(told.clone());
        let (context, name, uid) = (
            context.clone(),
            definition.name.clone(),
            definition.uid.clone(),
        );
        self.running = Some(Box::pin(async move {
            super::definition::tell_propagation(&context, &name, &uid, &told).await;
        }));
    }

    /// Nothing is to be told any more.
    fn retract(&mut self, context: &Context, definition: &Definition) {
        if self.last.is_some() {
            self.tell(context, definition, Value::Null);
        }
    }

    /// Runs what is told, for ever.
    async fn next(&mut self) {
        match &mut self.running {
            Some(running) => running.await,
            None => std::future::pending().await,
        }
        self.running = None;
    }
}

// === impl Serving ===

impl Serving {
    /// Whether instances would become the same by it.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let versions = |serving: &Self| -> Vec<(i64, String)> {
            let graphs = serving.graphs.iter();
            graphs
                .map(|(number, graph)| (*number, graph.version().to_string()))
                .collect()
        };
        self.target == other.target
            && self.paused == other.paused
            && versions(self) == versions(other)
            && self.places == other.places
            && self.definition.uid == other.definition.uid
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
