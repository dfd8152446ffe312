//! Graphs: definitions become kinds, and instances of those kinds become objects.
//!
//! `definition` compiles a definition, serves its kind and keeps its revisions; `runner` goes
//! through the instances of a kind; `instance` makes one of them, or ends it; `objects` is what
//! there is of their objects; `kinds` is what the API says that objects look like.
//!
//! Not here: what a definition means and what is to be done for an instance (`graph`, pure).
//!
//! Invariants: what is as it should be is neither read nor written; a graph that cannot run keeps
//! no other from running; an instance can be deleted whether its definition is there, or valid, or
//! not; a definition that does not compile leaves in force what was before.

pub mod accounts;
mod admission;
pub mod api;
mod asked;
mod authoring;
mod check;
mod circles;
mod compiled;
mod conditions;
mod definition;
mod deletions;
mod effort;
mod externals;
mod finalizers;
mod following;
mod guard;
mod history;
mod instance;
mod inventory;
mod kept;
mod kinds;
mod memories;
mod memory;
mod metrics;
mod notes;
mod objects;
mod pass;
mod passes;
mod report;
mod revision;
mod rights;
mod runner;
mod runners;
mod served;
mod serving;
mod troubles;
mod verified;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use deltaplane_api::keys;
use deltaplane_client::{
    Cache, Catalog, Discovery, Feed, Item, ObjectKey, Query, RequestError, Resource,
};
use deltaplane_graph::{Graph, Node, labels};
use deltaplane_runtime::{Stop, TaskGroup};
use futures::StreamExt;
use serde_json::Value;

use crate::Context;
use crate::queue::{Failure, Next, Work};

use accounts::Accounts;
use accounts::served::ServedKinds;
use asked::Asked;
use authoring::Crossed;
use compiled::{Compiled, Uncompiled};
use definition::{Accepted, Kind, Progress};
use externals::Externals;
use guard::Guard;
use history::Needed;
use kinds::Kinds;
use memories::Memories;
use objects::Objects;
use revision::Revision;
use rights::Rights;
use runners::Runners;

pub use accounts::GraphIdentity;
pub use check::{DefinitionChecker, DefinitionError};
pub use circles::Circles;
pub use metrics::Metrics;
use troubles::Troubles;

/// What is done with graphs here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Their kinds are served, so that they can be authored; nothing runs.
    Author,
    /// Their instances run.
    Run,
}

/// How graphs are run.
#[derive(Clone)]
pub struct Running {
    pub mode: Mode,
    pub options: GraphOptions,
    pub metrics: Metrics,
    /// Shared with a [`DefinitionChecker`], if there is one.
    pub circles: Circles,
}

/// The settings that an administrator has for graphs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphOptions {
    /// How many revisions of a definition are kept to go back to; revisions that instances use are
    /// kept beside them.
    pub revisions: usize,
    /// Deletes the kind of a definition, and so its instances, with the definition.
    pub delete_kinds: bool,
    /// The identity that the objects of instances are written with.
    pub identity: GraphIdentity,
    /// The accounts that definitions of the hub may name.
    pub accounts: BTreeSet<String>,
}

/// What kinds look like is documented a moment after they changed, and nobody tells when.
const UNTIL_DOCUMENTED: Duration = Duration::from_secs(3);
/// Definitions are seen to beside each other. Most wait for answers, and some for long: there are
/// more places than an API has groups that do not answer. What is compiled at once is less.
const AT_ONCE: usize = 256;

/// All that the work on a definition shares with others.
#[derive(Clone)]
struct Graphs {
    context: Context,
    mode: Mode,
    options: GraphOptions,
    tasks: TaskGroup,
    discovery: Discovery,
    objects: Objects,
    externals: Externals,
    accounts: Accounts,
    served_kinds: ServedKinds,
    memories: Memories,
    troubles: Troubles,
    compiled: Compiled,
    /// Whether the API serves other kinds than those that are known.
    stale: Arc<AtomicBool>,
    runners: Runners,
    circles: Circles,
    guard: Guard,
    needed: Needed,
    crossed: Crossed,
    metrics: Metrics,
}

/// What there is of one definition.
struct Seen {
    definition: Option<Arc<Value>>,
    revisions: Vec<Revision>,
    /// The kinds that it made: one, unless it was deleted and made again for another.
    kinds: Vec<Arc<Value>>,
}

/// Makes the kinds that graphs are written in be there.
pub async fn install(client: &kube::Client) -> Result<(), RequestError> {
    guard::install(client).await
}

/// Runs graphs until told to stop. What it starts belongs to `tasks`.
pub async fn run(context: Context, running: Running, tasks: TaskGroup, stop: Stop) {
    let Running {
        mode,
        options,
        metrics,
        circles,
    } = running;
    let Context { client, pace } = context.clone();
    let (discovery, follower) = deltaplane_client::discovery::follow(client.clone(), pace);
    let stale = Arc::new(AtomicBool::new(false));
    let identity = options.identity;
    let rights = Rights::new(context.clone(), tasks.clone());
    let served_kinds = ServedKinds::default();
    let graphs = Graphs {
        objects: Objects::new(context.clone(), tasks.clone()),
        externals: Externals::new(context.clone(), tasks.clone()),
        accounts: Accounts::new(context.clone(), &options, rights),
        served_kinds: served_kinds.clone(),
        memories: Memories::new(context.clone(), tasks.clone()),
        troubles: Troubles::new(),
        compiled: Compiled::new(Kinds::new(client, stale.clone())),
        stale,
        runners: Runners::default(),
        circles,
        guard: Guard::new(),
        needed: Needed::default(),
        crossed: Crossed::default(),
        metrics,
        context,
        mode,
        options,
        tasks,
        discovery,
    };
    let following = follower.run(stop.clone());
    let guarding = stop.unless(graphs.guard.run(&graphs.context));
    let keeping = stop.unless(graphs.keep());
    let granting = async {
        if graphs.mode == Mode::Run && identity == GraphIdentity::Account {
            stop.unless(served_kinds.grant(&graphs.context)).await;
        }
    };
    tokio::join!(following, guarding, keeping, granting);
}

// === impl GraphOptions ===

impl Default for GraphOptions {
    fn default() -> Self {
        Self {
            revisions: revision::KEPT,
            delete_kinds: false,
            identity: GraphIdentity::default(),
            accounts: BTreeSet::from([accounts::DEFAULT_ACCOUNT.to_owned()]),
        }
    }
}

// === impl Graphs ===

impl Graphs {
    async fn keep(&self) {
        let Context { client, pace } = &self.context;
        let feed = |query: Query| Feed::new(client.clone(), query, pace.clone()).events();
        let mut definitions = feed(Query::all(api::definitions()));
        let mut revisions = feed(Query::all(api::revisions()));
        let owned = format!("{}=true", labels::OWNED);
        let mut served = feed(Query::all(api::custom_kinds()).with_labels(&owned));
        let mut all: Cache<Arc<Value>> = Cache::new();
        let mut kept: Cache<(String, Revision)> = Cache::new();
        // Whose revisions were.
        let mut of: BTreeMap<ObjectKey, String> = BTreeMap::new();
        let mut made: Cache<Arc<Value>> = Cache::new();
        let mut work: Work<String> = Work::new(AT_ONCE, pace.clone());
        let mut asked = Asked::new();
        let mut discovery = self.discovery.clone();
        let mut troubles = self.troubles.changes();
        let mut foreign = self.guard.changes();
        let mut again = None;
        loop {
            let complete = all.is_synced() && kept.is_synced() && made.is_synced();
            tokio::select! {
                Some(event) = definitions.next() => {
                    for key in all.apply(event, |item| whole(&item)) {
                        let is_news = self.see(&key.name, all.get(&key), &mut asked);
                        self.let_in_again(&key.name, &mut work);
                        if is_news || !work.is_failing(&key.name) {
                            work.add(key.name);
                        }
                    }
                }
                Some(event) = revisions.next() => {
                    for key in kept.apply(event, |item| Revision::read(&item.parse().ok()?)) {
                        let name = match kept.get(&key) {
                            Some((name, revision)) => {
                                self.circles.keep(name, revision);
                                Some(of.entry(key).or_insert(name.clone()).clone())
                            }
                            None => self.revision_gone(&key, &mut of, &mut work),
                        };
                        name.into_iter().for_each(|name| work.add(name));
                    }
                }
                Some(event) = served.next() => {
                    for key in made.apply(event, |item| whole(&item)) {
                        let owner = match made.get(&key) {
                            Some(kind) => owner(kind),
                            None => self.runners.owner(&key.name),
                        };
                        let name = owner.map(|owner| full_name(&all, owner));
                        name.into_iter().for_each(|name| work.add(name));
                    }
                    if made.is_synced() {
                        self.served_kinds.set(made.iter().map(|(_, kind)| &**kind));
                    }
                }
                catalog = discovery.changed() => {
                    self.install_again(&catalog);
                    self.look_up_again(&all, &mut work);
                    again = Some(pace.clock.now() + UNTIL_DOCUMENTED);
                }
                () = pace.clock.sleep_until(again.unwrap_or(SystemTime::UNIX_EPOCH)), if again.is_some() => {
                    again = None;
                    self.look_up_again(&all, &mut work);
                }
                Ok(()) = troubles.changed() => add_all(&all, &mut work),
                Ok(()) = foreign.changed() => add_all(&all, &mut work),
                name = work.next(), if complete => {
                    let seen = Seen {
                        definition: all.get(&ObjectKey::cluster(&name)).cloned(),
                        revisions: revisions_of(&kept, &name),
                        kinds: kinds_of(&made, &name),
                    };
                    work.start(name.clone(), self.clone().reconcile(name, seen));
                }
            }
        }
    }

    /// A definition came, changed or went. Whether it asks for something else.
    fn see(&self, name: &String, one: Option<&Arc<Value>>, asked: &mut Asked<String>) -> bool {
        match one {
            Some(one) => {
                self.guard.see(one);
                asked.is_news(name, one)
            }
            None => {
                // Others are let in by what is known when they are looked at.
                self.circles.forget(name);
                asked.forget(name);
                true
            }
        }
    }

    /// The kinds that graphs are written in are made again, if somebody deleted them.
    fn install_again(&self, catalog: &Catalog) {
        let kinds = [api::definitions(), api::revisions()];
        let gone = |kind: &Resource| {
            let unknown = catalog.group_kind(&kind.group, &kind.kind).is_none();
            unknown && catalog.failure(&kind.group).is_none()
        };
        if !kinds.iter().any(gone) {
            return;
        }
        let client = self.context.client.clone();
        self.tasks.spawn(async move {
            if let Err(error) = install(&client).await {
                let error = &error as &(dyn std::error::Error + Sync);
                tracing::warn!(error = %error, "the kinds of graphs are gone, and cannot be made again");
            }
        });
    }

    /// A revision is gone. Whose it was.
    fn revision_gone(
        &self,
        key: &ObjectKey,
        of: &mut BTreeMap<ObjectKey, String>,
        work: &mut Work<String>,
    ) -> Option<String> {
        let definition = of.remove(key)?;
        self.circles.drop_revision(&definition, &key.name);
        self.let_in_again(&definition, work);
        Some(definition)
    }

    /// A definition may make less than it did: others may not lead in a circle any more.
    fn let_in_again(&self, changed: &str, work: &mut Work<String>) {
        let refused = self.circles.refused().into_iter();
        let others = refused.filter(|other| other != changed);
        others.for_each(|other| work.add(other));
    }

    /// Kinds may look otherwise than they did.
    fn look_up_again(&self, all: &Cache<Arc<Value>>, work: &mut Work<String>) {
        self.stale.store(true, Ordering::Release);
        add_all(all, work);
    }

    async fn reconcile(self, name: String, seen: Seen) -> Result<Next, Failure> {
        self.compiled.see_kinds(&name, &seen.kinds);
        let done = self.see_to(&name, &seen).await;
        if let (Err(_), Some(object)) = (&done, &seen.definition) {
            // Whatever failed, what is there runs, and its instances can be deleted.
            let catalog = self.discovery.clone().current().await;
            // What failed first is what is told.
            let _ = self.serve_last((&name, object), &seen, &catalog).await;
        }
        self.compiled.sweep(&name);
        done
    }

    async fn see_to(&self, name: &str, seen: &Seen) -> Result<Next, Failure> {
        finalizers::release(&self.context, seen).await?;
        let Some(object) = &seen.definition else {
            self.circles.forget(name);
            self.guard.forget(name);
            self.needed.forget(name);
            self.crossed.forget(name);
            let why = format!("the ResourceGraphDefinition {name} is gone");
            self.leave(name, seen, None, &why);
            if self.options.delete_kinds {
                definition::delete_kinds(&self.context, &seen.kinds).await?;
            }
            return Ok(Next::Rest);
        };
        if let Some(why) = self.guard.foreign() {
            self.go_on((name, object), seen, &why);
            return Ok(Next::Rest);
        }
        let account = object["spec"]["serviceAccountName"].as_str();
        let refused = self.accounts.refusal(account, is_hub_authored(object));
        if let Some(why) = refused.filter(|_| self.mode == Mode::Run) {
            let catalog = self.discovery.clone().current().await;
            self.serve_last((name, object), seen, &catalog).await?;
            let accepted = Accepted::AccountRefused(why);
            return self.tell_unaccepted(name, object, seen, accepted).await;
        }
        let newest = seen.newest();
        if let Some(why) = self.guard.lost(&self.context, object, newest).await? {
            return self.halt(name, object, seen, why).await;
        }
        let catalog = self.discovery.clone().current().await;
        let graph = match self.compiled.graph(object, &catalog).await {
            Ok(graph) => graph,
            Err(Uncompiled::Wrong(problems)) => {
                let wrong = problems.to_string();
                return self.refuse(name, object, seen, wrong, &catalog).await;
            }
            Err(Uncompiled::Later(why)) => return self.put_off(name, object, seen, why).await,
        };
        if let Err(why) = self.circles.admit(name, &graph) {
            return self.refuse(name, object, seen, why, &catalog).await;
        }
        let there = seen.kind(graph.crd()).map(|there| &**there);
        let past = self.past(object, &graph, seen, &catalog).await;
        let kind = definition::serve(&self.context, object, &graph, there, &past).await?;
        let mut progress = Progress {
            accepted: Accepted::Valid,
            kind,
            revision: None,
            unkept: None,
            untidied: None,
            hindered: self.troubles.of(name),
        };
        let mut failed = None;
        if progress.kind == Kind::Ready {
            let named = (name, object);
            let issued = self.issue(named, &graph, seen, &catalog, &mut progress);
            failed = issued.await;
        }
        if progress.revision.is_none() && !seen.revisions.is_empty() {
            self.serve_last((name, object), seen, &catalog).await?;
        }
        match failed {
            // It is not known whether there is a revision, and may be in a moment.
            Some(failure) if progress.revision.is_none() && progress.unkept.is_none() => {
                return Err(failure);
            }
            Some(_) | None => {
                definition::tell(&self.context, object, Some(&graph), &progress).await?;
            }
        }
        match (failed, progress.kind) {
            (Some(failure), _) => Err(failure),
            // Nothing tells when it would be taken.
            (None, Kind::Refused(_)) => Ok(Next::Later),
            (None, Kind::Ready | Kind::Pending | Kind::Failed(_)) => Ok(Next::Rest),
        }
    }

    /// A definition that cannot be run: what was in force stays.
    async fn refuse(
        &self,
        name: &str,
        object: &Arc<Value>,
        seen: &Seen,
        wrong: String,
        catalog: &Catalog,
    ) -> Result<Next, Failure> {
        self.serve_last((name, object), seen, catalog).await?;
        let accepted = Accepted::Invalid(wrong);
        self.tell_unaccepted(name, object, seen, accepted).await
    }

    /// A definition that is not what somebody wrote: what was in force stays.
    async fn halt(
        &self,
        name: &str,
        object: &Arc<Value>,
        seen: &Seen,
        why: String,
    ) -> Result<Next, Failure> {
        let catalog = self.discovery.clone().current().await;
        self.serve_last((name, object), seen, &catalog).await?;
        let accepted = Accepted::Lost(why);
        self.tell_unaccepted(name, object, seen, accepted).await
    }

    async fn tell_unaccepted(
        &self,
        name: &str,
        object: &Value,
        seen: &Seen,
        accepted: Accepted,
    ) -> Result<Next, Failure> {
        let progress = Progress {
            accepted,
            kind: match seen.kinds.is_empty() {
                false => Kind::Ready,
                true => Kind::Pending,
            },
            revision: seen.newest().map(|newest| newest.number),
            unkept: None,
            untidied: None,
            hindered: self.troubles.of(name),
        };
        definition::tell(&self.context, object, None, &progress).await?;
        Ok(Next::Rest)
    }
}

// === impl Seen ===

impl Seen {
    /// The newest revision.
    fn newest(&self) -> Option<&Revision> {
        self.revisions.iter().max_by_key(|one| one.number)
    }

    /// What is there of the kind that is wanted.
    fn kind(&self, wanted: &Value) -> Option<&Arc<Value>> {
        let name = &wanted["metadata"]["name"];
        let mut kinds = self.kinds.iter();
        kinds.find(|kind| kind["metadata"]["name"] == *name)
    }
}

/// Returns true if a definition was authored at the hub and came here.
fn is_hub_authored(definition: &Value) -> bool {
    definition["metadata"]["labels"][keys::ORIGIN] == "hub"
}

fn add_all(all: &Cache<Arc<Value>>, work: &mut Work<String>) {
    for (key, _) in all.iter() {
        work.add(key.name.clone());
    }
}

fn whole(item: &Item) -> Option<Arc<Value>> {
    let mut json: Value = item.parse().ok()?;
    json["metadata"].as_object_mut()?.remove("managedFields");
    Some(Arc::new(json))
}

/// The definition that a kind belongs to, as a label says its name.
fn owner(kind: &Value) -> Option<String> {
    let name = kind["metadata"]["labels"][labels::DEFINITION_NAME].as_str();
    name.map(str::to_owned)
}

/// The definition that a label means: it may hold the beginning of its name only.
fn full_name(all: &Cache<Arc<Value>>, label: String) -> String {
    if all.get(&ObjectKey::cluster(&label)).is_some() {
        return label;
    }
    let mut names = all.iter().map(|(key, _)| &key.name);
    let long = names.find(|name| labels::value(name) == label);
    long.cloned().unwrap_or(label)
}

fn revisions_of(kept: &Cache<(String, Revision)>, name: &str) -> Vec<Revision> {
    let all = kept.iter().map(|(_, kept)| kept);
    let ours = all.filter(|(definition, _)| definition == name);
    ours.map(|(_, revision)| revision.clone()).collect()
}

fn kinds_of(made: &Cache<Arc<Value>>, name: &str) -> Vec<Arc<Value>> {
    let label = labels::value(name);
    let all = made.iter().map(|(_, kind)| kind);
    let ours = all.filter(|kind| owner(kind).as_deref() == Some(&*label));
    ours.cloned().collect()
}

/// Where the instances of a graph are.
fn resource(graph: &Graph) -> Resource {
    let kind = graph.kind();
    Resource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        plural: kind.plural.clone(),
        kind: kind.kind.clone(),
        namespaced: kind.namespaced,
    }
}

/// Where the objects of a definition of a kind are.
fn defined(kind: &Value) -> Option<Resource> {
    let spec = &kind["spec"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some(Resource {
        group: text(&spec["group"])?,
        version: text(&spec["versions"][0]["name"])?,
        plural: text(&spec["names"]["plural"])?,
        kind: text(&spec["names"]["kind"])?,
        namespaced: spec["scope"] == "Namespaced",
    })
}

/// Where the objects of a node are.
fn place(node: &Node) -> Resource {
    let gvk = node.gvk();
    Resource {
        group: gvk.group.clone(),
        version: gvk.version.clone(),
        plural: node.plural().to_owned(),
        kind: gvk.kind.clone(),
        namespaced: node.namespaced(),
    }
}
