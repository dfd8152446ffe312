//! The instances of one graph, each in its turn.
//!
//! A graph has a runner of its own, so that one that is sick keeps nobody else waiting.

mod kept_instance;
mod living;
mod telling;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use deltaplane_api::admission::{Admission, Point, Stage, is_suspended};
use deltaplane_client::{Cache, Discovery, Feed, ObjectKey, Query, Resource};
use deltaplane_expr::Timestamp;
use deltaplane_graph::Graph;
use deltaplane_propagation::stages::BudgetSpec;
use futures::StreamExt;
use serde_json::Value;
use tokio::sync::watch;

use super::accounts::Accounts;
use super::admission::{self, Revisions, Rollout};
use super::asked::Asked;
use super::deletions::cause::RecordedPass;
use super::deletions::{self, Deletions};
use super::effort::Effort;
use super::externals::Externals;
use super::guard::Guard;
use super::instance::{self, Definition, Latest, Subject};
use super::kept::{Behind, KeptBy};
use super::memories::Memories;
use super::metrics::Counted;
use super::objects::{Dirty, Objects};
use super::pass::{self, Course};
use super::passes::Passes;
use super::troubles;
use crate::Context;
use crate::queue::{Failure, Next, Work};

use kept_instance::KeptInstance;
use living::Living;
use telling::Telling;
use watching::{Sight, Watching};

/// What a runner runs; replaced as a whole.
#[derive(Clone, PartialEq)]
pub(super) struct Serving {
    pub(super) definition: Arc<Definition>,
    /// The newest, or why there is none.
    pub(super) target: Result<i64, String>,
    /// All that instances may run.
    pub(super) revisions: Revisions,
    /// Whether no instance may move for now.
    pub(super) paused: bool,
    /// The version whose deletions may exceed the deletion budget.
    pub(super) approved: Option<String>,
}

/// So many instances of a graph are worked on at once.
const AT_ONCE: usize = 64;
/// After so many changes it is decided who may move, also if there are more to come.
const TOGETHER: usize = 64;

/// What a runner is given.
pub(super) struct Given {
    pub(super) context: Context,
    pub(super) objects: Objects,
    pub(super) externals: Externals,
    pub(super) accounts: Accounts,
    pub(super) memories: Memories,
    pub(super) troubles: troubles::OfKind,
    pub(super) counted: Counted,
    pub(super) discovery: Discovery,
    pub(super) guard: Guard,
    /// Whether it says how it stands with instances.
    pub(super) tells: Arc<AtomicBool>,
    /// The kind of the instances.
    pub(super) resource: Resource,
}

struct Runner {
    given: Given,
    serving: watch::Receiver<Serving>,
    instances: Cache<KeptInstance>,
    /// Which instance has which uid.
    keys: BTreeMap<String, ObjectKey>,
    living: Living,
    uids: BTreeMap<ObjectKey, String>,
    work: Work<ObjectKey>,
    latest: Latest,
    passes: Passes,
    /// What was decided, and is not written yet, or not seen.
    decided: BTreeMap<ObjectKey, Admission>,
    /// What each was last run with, by uid.
    run_with: BTreeMap<String, Admission>,
    /// How much changed since it was last decided who may move.
    undecided: usize,
    deciding: Effort,
    /// Whether something else is served than when it was last decided: nobody is told what keeps
    /// them back before that is known.
    overdue: bool,
    /// What keeps back those that are not at the newest revision.
    kept: BTreeMap<ObjectKey, KeptBy>,
    /// It is not decided again before, since it takes long.
    rest: Option<SystemTime>,
    /// Those whose owners keep them where they are.
    held: BTreeSet<ObjectKey>,
    telling: Telling,
    /// Instances with something new.
    dirty: Arc<Dirty>,
    /// The kinds of all objects.
    watching: Watching,
    /// Instances of which it is not seen what they have.
    unseen: BTreeSet<ObjectKey>,
    asked: Asked<ObjectKey>,
    /// Whether some could not move at once when that was last looked at.
    held_back: bool,
    deletions: Deletions,
    /// Whether a pass looked at each instance since this began.
    looked_at_all: bool,
}

/// What is done about an instance.
enum Task {
    End,
    /// There is no graph for it.
    Unresolved(String),
    /// The revision that it may run is gone.
    Lost(Point, String),
    Pass(Course),
}

/// Runs the instances of a kind for ever.
pub(super) async fn run(mut given: Given, serving: watch::Receiver<Serving>) {
    let work = Work::new(AT_ONCE, given.context.pace.clone());
    let dirty = {
        let Resource { group, kind, .. } = &given.resource;
        given.objects.listen(group, kind)
    };
    let catalog = given.discovery.current().await;
    let (objects, memories) = (given.objects.clone(), given.memories.clone());
    let telling = Telling::new(given.tells.clone(), given.guard.clone());
    let deletions = Deletions::default();
    let writer = deletions::Writer {
        context: given.context.clone(),
        serving: serving.clone(),
        guard: given.guard.clone(),
        counted: given.counted.clone(),
    };
    let counting = deletions.clone().run(writer);
    let runner = Runner {
        given,
        serving,
        instances: Cache::new(),
        keys: BTreeMap::new(),
        living: Living::default(),
        uids: BTreeMap::new(),
        work,
        latest: Latest::default(),
        passes: Passes::default(),
        decided: BTreeMap::new(),
        run_with: BTreeMap::new(),
        undecided: 0,
        deciding: Effort::default(),
        overdue: true,
        kept: BTreeMap::new(),
        rest: None,
        telling,
        held: BTreeSet::new(),
        dirty,
        watching: Watching::new(objects, memories, catalog),
        unseen: BTreeSet::new(),
        asked: Asked::new(),
        held_back: false,
        deletions,
        looked_at_all: false,
    };
    tokio::select! {
        () = runner.run() => {}
        () = counting => {}
    }
}

// === impl Serving ===

impl Serving {
    /// The deletion budget of the newest.
    pub(super) fn deletion_budget(&self) -> BudgetSpec {
        let newest = self.target.as_ref().ok();
        let newest = newest.and_then(|target| self.revisions.graph(*target));
        newest.map_or_else(BudgetSpec::default, |graph| graph.deletion_budget())
    }
}

// === impl Runner ===

impl Runner {
    async fn run(mut self) {
        let resource = self.given.resource.clone();
        let Context { client, pace } = &self.given.context;
        let feed = Feed::new(client.clone(), Query::all(resource), pace.clone());
        let (told, mut own_trouble) = watch::channel(None);
        let mut feed = feed.telling(told).events();
        let (dirty, mut discovery) = (self.dirty.clone(), self.given.discovery.clone());
        let (passes, clock) = (self.passes.clone(), self.given.context.pace.clock.clone());
        self.follow();
        let mut again = None;
        loop {
            let complete = self.instances.is_synced();
            let undecided = complete && self.undecided > 0;
            if undecided && self.is_overdue(clock.now()) {
                again = self.decide();
                continue;
            }
            tokio::select! {
                // What happens at the same time is decided about at once, when all of it was seen.
                biased;
                changed = self.serving.changed() => {
                    if changed.is_err() {
                        // There is nothing more to run.
                        self.given.troubles.set(None);
                        self.given.counted.end();
                        return;
                    }
                    self.follow();
                    self.tell_trouble(&own_trouble);
                    self.add_all();
                    self.undecided += 1;
                    self.overdue = true;
                }
                Ok(()) = own_trouble.changed() => self.tell_trouble(&own_trouble),
                () = self.watching.changed() => {
                    let before = self.watching.remembers();
                    self.watching.look();
                    self.tell_trouble(&own_trouble);
                    self.look_again();
                    if self.watching.remembers() && !before {
                        self.recall();
                    }
                }
                catalog = discovery.changed() => {
                    self.watching.set_catalog(catalog);
                    self.follow();
                    self.tell_trouble(&own_trouble);
                    self.look_again();
                }
                Some(event) = feed.next() => {
                    for key in self.instances.apply(event, |item| KeptInstance::of(&item)) {
                        self.changed(key);
                    }
                    self.given.counted.instances(self.instances.len());
                    self.undecided += 1;
                }
                uids = dirty.changed() => {
                    let keys = uids.iter().filter_map(|uid| self.keys.get(uid));
                    keys.cloned().for_each(|key| self.work.add(key));
                }
                () = passes.news() => {
                    for (uid, at) in passes.due() {
                        if let Some(key) = self.keys.get(&uid) {
                            self.work.add_by(key.clone(), at);
                        }
                    }
                    self.undecided += 1;
                }
                () = clock.sleep_until(again.unwrap_or(SystemTime::UNIX_EPOCH)), if again.is_some() => {
                    again = None;
                    self.undecided += 1;
                }
                // There may be something newer to tell.
                () = self.telling.next() => self.undecided += 1,
                key = self.work.next(), if complete => self.start(key),
                () = clock.sleep_until(self.rest.unwrap_or(SystemTime::UNIX_EPOCH)), if undecided => {
                    again = self.decide();
                }
            }
        }
    }

    /// Whether it is decided before anything else is done.
    fn is_overdue(&self, now: SystemTime) -> bool {
        let many = self.undecided > TOGETHER.max(self.instances.len() / 8);
        self.overdue || (many && self.rest.is_none_or(|rest| rest <= now))
    }

    /// Decides which instances may move, if the graph has a gate. When to decide again, if time
    /// alone may change it.
    fn decide(&mut self) -> Option<SystemTime> {
        self.undecided = 0;
        self.overdue = false;
        self.see_all();
        let (deciding, clock) = (self.deciding.clone(), self.given.context.pace.clock.clone());
        let (again, rest) = deciding.make(&clock, || self.decide_now());
        self.rest = rest;
        again
    }

    /// Once each instance was looked at, it is known what is held of all.
    fn see_all(&mut self) {
        if self.looked_at_all {
            return;
        }
        let passed = self.passes.all();
        let is_left_alone =
            |json: &Value| json["metadata"]["deletionTimestamp"].is_string() || is_suspended(json);
        let mut all = self.instances.iter();
        self.looked_at_all =
            all.all(|(_, kept)| passed.contains_key(kept.uid()) || is_left_alone(&kept.json()));
        if self.looked_at_all {
            self.deletions.complete();
        }
    }

    fn decide_now(&mut self) -> Option<SystemTime> {
        let serving = self.serving.borrow().clone();
        let target = serving.target.clone().ok()?;
        let graph = serving.revisions.graph(target)?;
        let holds_back = self.holds_back(graph, serving.paused);
        if std::mem::replace(&mut self.held_back, holds_back) && !holds_back {
            // Those move now about whom nothing was decided yet.
            self.add_all();
        }
        if !holds_back {
            // There is nothing to decide, however often something changes.
            self.decided.clear();
            self.kept.clear();
            self.telling
                .retract(&self.given.context, &serving.definition);
            self.given.counted.propagation(admission::Counts::default());
            return None;
        }
        let (passed, untold) = (self.passes.all(), self.passes.untold());
        let latest: Vec<(&ObjectKey, Arc<Value>)> = {
            let all = self.instances.iter();
            all.map(|(key, kept)| (key, self.latest.newest(kept.read())))
                .collect()
        };
        let known: Vec<admission::Known<'_>> = latest
            .iter()
            .map(|(key, json)| {
                let uid = json["metadata"]["uid"].as_str().unwrap_or_default();
                let untold = untold.get(uid) == Some(&admission::generation(json));
                admission::Known {
                    key,
                    json,
                    admission: self.said(key, json),
                    passed: passed.get(uid),
                    unseen: untold || self.unseen.contains(*key),
                    kept: self.kept.get(*key),
                }
            })
            .collect();
        let now = Timestamp::from_system(self.given.context.pace.clock.now());
        let rollout = Rollout {
            target,
            revisions: &serving.revisions,
            paused: serving.paused,
        };
        let decided = admission::decide(rollout, &known, now)?;
        // Otherwise there is more to tell in a moment.
        let settled = |one: &admission::Known<'_>| one.is_known() || one.unseen;
        let settled = known.iter().all(settled);
        for (key, kept) in &decided.kept {
            if self.kept.get(key) != Some(kept) {
                self.work.add(key.clone());
            }
        }
        self.kept = decided.kept;
        for (key, admission) in decided.admissions {
            self.decided.insert(key.clone(), admission);
            self.work.add(key);
        }
        self.given.counted.propagation(decided.counts);
        if settled {
            let context = &self.given.context;
            self.telling
                .tell(context, &serving.definition, decided.told);
        }
        decided.next.map(Timestamp::to_system)
    }

    /// Whether some may not move at once.
    fn holds_back(&self, graph: &Graph, paused: bool) -> bool {
        admission::holds_back(graph, paused) || !self.held.is_empty()
    }

    /// What an instance may run, as it was decided last. What is written on it is for those who
    /// do not know that yet: whoever else writes it moves nobody.
    fn said(&self, key: &ObjectKey, json: &Value) -> Option<Admission> {
        let decided = self.decided.get(key).copied();
        let uid = json["metadata"]["uid"].as_str().unwrap_or_default();
        let known = decided.or_else(|| self.run_with.get(uid).copied());
        known.or_else(|| Admission::read(json))
    }

    fn changed(&mut self, key: ObjectKey) {
        match self.instances.get(&key) {
            Some(kept) => {
                let json = kept.json();
                let uid = kept.uid().to_owned();
                self.latest.seen(&json);
                let before = self.uids.insert(key.clone(), uid.clone());
                if let Some(before) = before.filter(|before| *before != uid) {
                    // It was deleted and made again, unseen.
                    self.decided.remove(&key);
                    self.forget(&before);
                }
                self.living.add(&uid);
                self.keys.insert(uid, key.clone());
                if self.decided.get(&key) == Admission::read(&json).as_ref() {
                    self.decided.remove(&key);
                }
                self.watching.add_kinds_of(&json);
                match admission::is_held(&json) {
                    true => drop(self.held.insert(key.clone())),
                    false => drop(self.held.remove(&key)),
                }
                if self.asked.is_news(&key, &json) || !self.work.is_failing(&key) {
                    self.work.add(key);
                }
            }
            None => {
                if let Some(uid) = self.uids.remove(&key) {
                    self.forget(&uid);
                }
                self.decided.remove(&key);
                self.unseen.remove(&key);
                self.held.remove(&key);
                self.kept.remove(&key);
                self.asked.forget(&key);
                self.work.cancel(&key);
            }
        }
    }

    /// An instance is gone.
    fn forget(&mut self, uid: &str) {
        self.keys.remove(uid);
        self.living.remove(uid);
        self.run_with.remove(uid);
        self.latest.forget(uid);
        self.given.externals.forget(uid);
        self.given.accounts.rights().forget(uid);
        self.passes.forget(uid);
        self.deletions.forget(uid);
    }

    fn add_all(&mut self) {
        for (key, _) in self.instances.iter() {
            self.work.add(key.clone());
        }
    }

    /// It is known now what gates remember: some may remember what they should not.
    fn recall(&mut self) {
        let memories = &self.given.memories;
        let remembered = self.keys.iter().filter(|(uid, _)| memories.has(uid));
        for (_, key) in remembered {
            self.work.add(key.clone());
        }
    }

    /// More may be seen of what instances have.
    fn look_again(&mut self) {
        for key in std::mem::take(&mut self.unseen) {
            self.work.add(key);
        }
        self.undecided += 1;
    }

    /// Follows the kinds of the objects. Those of what came before are when somebody runs it.
    fn follow(&mut self) {
        let Serving {
            target, revisions, ..
        } = self.serving.borrow_and_update().clone();
        let newest = target.ok().and_then(|target| revisions.graph(target));
        let instances = self.instances.iter().map(|(_, kept)| kept.json());
        self.watching.follow(newest.into_iter(), instances);
    }

    /// The definition says what keeps it from being followed what its instances have.
    fn tell_trouble(&self, own: &watch::Receiver<Option<String>>) {
        let all = self.watching.troubles();
        let all: Vec<String> = all.chain(own.borrow().clone()).collect();
        self.given
            .troubles
            .set((!all.is_empty()).then(|| all.join("; ")));
    }

    fn subject(&self, key: &ObjectKey, json: Arc<Value>, account: Option<&str>) -> Subject {
        let given = &self.given;
        Subject {
            accounts: given.accounts.clone(),
            account: given.accounts.account(account, &key.namespace),
            context: given.context.clone(),
            objects: given.objects.clone(),
            externals: given.externals.clone(),
            memories: given.memories.clone(),
            resource: given.resource.clone(),
            key: key.clone(),
            json,
            definition: self.serving.borrow().definition.clone(),
            latest: self.latest.clone(),
            passes: self.passes.clone(),
            dirty: self.dirty.clone(),
            counted: given.counted.clone(),
            deletions: self.deletions.clone(),
            catalog: self.watching.catalog().clone(),
        }
    }

    fn start(&mut self, key: ObjectKey) {
        let newest = self.instances.get(&key);
        let newest = newest.map(|kept| self.latest.newest(&kept.json()));
        let Some((json, task)) =
            newest.and_then(|json| Some((json.clone(), self.task(&key, &json)?)))
        else {
            self.work.skip(key);
            return;
        };
        if let Task::Pass(course) = &task {
            self.watching.add_graph(&course.graph);
            let objects = &self.given.objects;
            let baseline = || objects.count(self.keys.keys());
            self.deletions.open(&course.graph, baseline);
        }
        let sight = match &task {
            Task::End => self.watching.sight(&json, None),
            Task::Unresolved(_) | Task::Lost(..) => Sight::Whole,
            Task::Pass(course) => self.watching.sight(&json, Some(&course.graph)),
        };
        let account = match &task {
            Task::Pass(course) => course.graph.service_account().map(str::to_owned),
            Task::End | Task::Unresolved(_) | Task::Lost(..) => self.last_account(&json),
        };
        let subject = self.subject(&key, json, account.as_deref());
        let uid = subject.uid().to_owned();
        match (sight, task) {
            (Sight::Partial, _) => {
                self.unseen.insert(key.clone());
                self.work.skip(key);
            }
            (Sight::Hindered(why), task) => {
                self.unseen.insert(key.clone());
                if let Task::Pass(course) = &task {
                    course.note_failed(&subject);
                }
                self.begin(key, uid, instance::unseen(subject, why));
            }
            (Sight::Whole, Task::End) => self.begin(key, uid, instance::end(subject)),
            (Sight::Whole, Task::Unresolved(why)) => {
                self.begin(key, uid, instance::unresolved(subject, why));
            }
            (Sight::Whole, Task::Lost(at, why)) => {
                self.begin(key, uid, instance::lost(subject, at, why));
            }
            (Sight::Whole, Task::Pass(course)) => {
                self.run_with.insert(uid.clone(), course.admission);
                self.begin(key, uid, pass::run(subject, course));
            }
        }
    }

    /// Works on an instance.
    fn begin(
        &mut self,
        key: ObjectKey,
        uid: String,
        act: impl Future<Output = Result<Next, Failure>> + Send + 'static,
    ) {
        let (latest, passes) = (self.latest.clone(), self.passes.clone());
        let (externals, accounts) = (self.given.externals.clone(), self.given.accounts.clone());
        let deletions = self.deletions.clone();
        let forget = move |uid: &str| {
            latest.forget(uid);
            externals.forget(uid);
            accounts.rights().forget(uid);
            passes.forget(uid);
            deletions.forget(uid);
        };
        let during = self.living.clone().during(uid, act, forget);
        self.work.start(key, during);
    }

    /// The account that the graph of an instance names, whether it may run or not; none if that is
    /// not known any more.
    fn last_account(&self, json: &Value) -> Option<String> {
        let serving = self.serving.borrow();
        let admitted = Admission::read(json).and_then(|one| serving.revisions.resolve(one.at));
        let newest = || serving.revisions.graph(*serving.target.as_ref().ok()?);
        let graph = admitted.map(|(_, graph)| graph).or_else(newest)?;
        graph.service_account().map(str::to_owned)
    }

    /// What is to be done about an instance. Nothing before it was decided what it may run.
    fn task(&self, key: &ObjectKey, json: &Value) -> Option<Task> {
        if json["metadata"]["deletionTimestamp"].is_string() {
            return Some(Task::End);
        }
        let serving = self.serving.borrow();
        let target = match &serving.target {
            Ok(target) => *target,
            Err(why) => return Some(Task::Unresolved(why.clone())),
        };
        let revisions = &serving.revisions;
        let newest = revisions.point(target)?;
        let gated = {
            let mut graph = revisions.graph(target).into_iter();
            graph.any(|graph| self.holds_back(graph, serving.paused))
        };
        let admission = match self.said(key, json) {
            Some(said) if gated || said.at == newest => said,
            // Everything goes to the newest at once, and nobody counts who is on the way: should
            // there be a gate next time, who was not ready here was broken before.
            Some(_) | None if !gated => Admission::new(Stage::Started, newest),
            Some(_) | None => return None,
        };
        let Some((at, graph)) = revisions.resolve(admission.at) else {
            let why = revisions.missing(admission.at);
            return Some(Task::Lost(admission.at, why));
        };
        let hub_authored = serving.definition.hub_authored;
        let refused = self
            .given
            .accounts
            .refusal(graph.service_account(), hub_authored);
        if let Some(why) = refused {
            return Some(Task::Unresolved(why));
        }
        let is_behind = !revisions.are_alike(at.number, target);
        let last = RecordedPass::read(json);
        let last_version = last.as_ref();
        let last_version = last_version.and_then(|last| last.version(json, revisions));
        Some(Task::Pass(Course {
            graph: graph.clone(),
            admission: Admission { at, ..admission },
            runs: if is_behind { at } else { newest },
            last: last.map(Box::new),
            last_version,
            behind: is_behind.then(|| {
                let kept = self.kept.get(key).cloned().unwrap_or(KeptBy::Closed);
                Behind::new(target, revisions.graph(target).unwrap_or(graph), kept)
            }),
        }))
    }
}
