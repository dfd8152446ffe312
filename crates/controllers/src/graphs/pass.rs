//! A pass over an instance: plans and applies until nothing more can be done now, deletes what is
//! not wanted any more, and tells how it stands.
//!
//! Invariants: the finalizer is there, and what gates decided is kept, before anything is made; an
//! object that the API refused is not applied again in the same pass; one that may or may not have
//! been applied counts as applied to its gate until it was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_api::admission::{Admission, Point, Stage, is_suspended};
use deltaplane_client::RequestError;
use deltaplane_client::request::Refusal;
use deltaplane_expr::Timestamp;
use deltaplane_graph::observed::{Live, ObjectId, Observed};
use deltaplane_graph::plan::{Apply, Inputs, Instance, Plan, Reference, Rendering, Which, plan};
use deltaplane_graph::{Graph, Node, NodeIndex};
use futures::{StreamExt, stream};

use super::accounts::GraphAccount;
use super::admission::{self, Health, Passed};
use super::deletions::cause::RecordedPass;
use super::deletions::{PassCase, Uncounted};
use super::externals::{Sight, Who};
use super::instance::{AT_ONCE, PRODUCT, Subject, Unwritten};
use super::inventory::Inventory;
use super::kept::Behind;
use super::memory::Memory;
use super::report::{self, Ended, Hindrances};
use super::rights::AccountRight;
use crate::queue::{Failure, Next};

/// What an instance may run.
pub(super) struct Course {
    /// The graph of the revision that it is admitted to.
    pub(super) graph: Arc<Graph>,
    pub(super) admission: Admission,
    /// The revision that this comes to: the newest, if that makes the same of it.
    pub(super) runs: Point,
    /// The last pass, as the status of the instance has it, and the content version of its graph.
    pub(super) last: Option<Box<RecordedPass>>,
    pub(super) last_version: Option<String>,
    /// The newest revision, if that is another and makes something else of it.
    pub(super) behind: Option<Behind>,
}

struct Pass<'a> {
    subject: &'a Subject,
    course: &'a Course,
    hindered: Hindrances,
    /// How often what was applied.
    applied: BTreeMap<ObjectId, usize>,
    /// An answer that did not come.
    lost: Option<RequestError>,
    /// Whether it was noted what came of it.
    noted: bool,
    /// The inventory that the instance has.
    inventory: Option<Inventory>,
    /// Nodes that refer to what the account may not read, and the right that it lacks.
    withheld: BTreeMap<NodeIndex, String>,
    /// Nodes with objects that no graph created and that the account may not read, and the right
    /// that it lacks.
    hidden: BTreeMap<String, String>,
}

/// About how many bytes of objects are rendered at a time: many instances are at work at once.
const AT_A_TIME: usize = 4 << 20;
/// An object is applied so often in a pass: what it depends on may become another on the way.
const MOST: usize = 5;

/// Makes what can be made now.
pub(super) async fn run(subject: Subject, course: Course) -> Result<Next, Failure> {
    let mut pass = Pass {
        subject: &subject,
        course: &course,
        hindered: Hindrances::default(),
        applied: BTreeMap::new(),
        lost: None,
        noted: false,
        inventory: None,
        withheld: BTreeMap::new(),
        hidden: BTreeMap::new(),
    };
    let done = pass.run().await;
    // That it could not be told how an instance stands changes nothing about that.
    if done.is_err() && !pass.noted {
        course.note_failed(&subject);
    }
    done
}

// === impl Pass ===

impl Pass<'_> {
    async fn run(&mut self) -> Result<Next, Failure> {
        let namespace = self.subject.key.namespace.as_str();
        if is_suspended(&self.subject.json) {
            let own = self.subject.observed();
            let inventory = Inventory::of_observed(&self.subject.json, &own, namespace);
            if let Err(error) = self.manage(inventory).await {
                return self.unmanaged(error).await;
            }
            return self.subject.tell(&Ended::Suspended).await;
        }
        loop {
            let (observed, unseen) = self.observed().await?;
            let memory = self.subject.memories.of(self.subject.uid());
            let clock = &self.subject.context.pace.clock;
            let plan = || self.plan(&observed, &unseen, &memory);
            let plan = self.subject.passes.plan(clock, plan);
            let withheld = self.unreadable(&plan.references).await?;
            if withheld != self.withheld {
                self.withheld = withheld;
                continue;
            }
            self.subject.objects.verified(&observed);
            match self.see(&plan) {
                Sight::Other => continue,
                Sight::Partial => return Ok(Next::Rest),
                Sight::Whole(mut hindered) => {
                    hindered.extend(self.withheld.clone());
                    if !hindered.keys().eq(&unseen) {
                        // More is seen by now, or less, than it was planned with.
                        continue;
                    }
                    self.hindered.unseen = hindered;
                }
            }
            let graph = &self.course.graph;
            let hidden = self.hidden.iter();
            let hidden = hidden.filter_map(|(node, why)| Some((graph.find(node)?, why.clone())));
            self.hindered.unseen.extend(hidden);
            self.hindered.lacks_rights |= !self.withheld.is_empty() || !self.hidden.is_empty();
            let hindered = &self.hindered;
            let kept_back = hindered.refused.keys().chain(hindered.unsure.keys());
            let inventory = Inventory::of_plan(graph, &plan, &observed, namespace);
            let inventory = inventory.with(kept_back, namespace);
            if let Err(error) = self.manage(inventory).await {
                return self.unmanaged(error).await;
            }
            let next = memory.after(&plan, &observed);
            if next != *memory {
                let whose = self.subject.whose();
                if let Err(failure) = self.subject.memories.remember(&whose, next).await {
                    return self.unkept(failure).await;
                }
            }
            let applies = plan.apply.iter();
            let applies: Vec<&Apply> = applies.filter(|one| self.may_apply(&one.id)).collect();
            let applies = self.once_more(applies);
            if applies.is_empty() && plan.more == 0 {
                return self.finish(plan).await;
            }
            self.apply(&applies).await;
        }
    }

    /// Writes the finalizer, labels and inventory of the instance, before anything is made.
    async fn manage(&mut self, inventory: Inventory) -> Result<(), RequestError> {
        let admission = self.course.admission;
        let before = self.inventory.as_ref();
        self.subject.manage(admission, &inventory, before).await?;
        self.inventory = Some(inventory);
        Ok(())
    }

    async fn unmanaged(&self, error: RequestError) -> Result<Next, Failure> {
        if error.is_not_found() {
            return Ok(Next::Rest);
        }
        if error.is_conflict() {
            // It is another, or was written since: then its feed tells, or has told before.
            return Ok(Next::Later);
        }
        if error.refusal().is_some() {
            let why = error.to_string();
            self.subject.tell(&Ended::Unmanaged { why: &why }).await?;
        }
        Err(Failure::to("put the finalizer on the instance")(error))
    }

    async fn unkept(&self, failure: Failure) -> Result<Next, Failure> {
        if let Some(refusal) = failure.refusal() {
            let why = refusal.to_string();
            self.subject.tell(&Ended::Unkept { why: &why }).await?;
        }
        Err(failure)
    }

    /// What there is, and the nodes of which it is not known what others have.
    async fn observed(&mut self) -> Result<(Observed, BTreeSet<NodeIndex>), Failure> {
        let uid = self.subject.uid();
        let mut observed = self.subject.observed();
        self.hide_unreadable(&mut observed).await?;
        let graph = &self.course.graph;
        let mut unseen = self.subject.externals.show(uid, graph, &mut observed);
        unseen.extend(self.withheld.keys());
        Ok((observed, unseen))
    }

    /// Leaves of objects that no graph created, and that the account may not read, only what the
    /// account wrote on them.
    async fn hide_unreadable(&mut self, observed: &mut Observed) -> Result<(), Failure> {
        self.hidden.clear();
        let Some(account) = &self.subject.account else {
            return Ok(());
        };
        let of_others = observed.iter().filter(|(_, live)| !live.is_created());
        let of_others: Vec<(String, Arc<Live>)> = of_others
            .map(|(node, live)| (node.to_owned(), live.clone()))
            .collect();
        for (node, live) in of_others {
            let right = self.subject.right_to(account, "get", &live.id);
            let has = self.subject.has(&right).await;
            if !has.map_err(Failure::to("ask for a right of the account"))? {
                observed.insert(&node, Arc::new(live.without_content()));
                self.hidden.insert(node, right.to_string());
            }
        }
        Ok(())
    }

    /// The references that the account may not read, with the right that it lacks.
    async fn unreadable(
        &self,
        references: &[(NodeIndex, Reference)],
    ) -> Result<BTreeMap<NodeIndex, String>, Failure> {
        let mut unreadable = BTreeMap::new();
        let Some(account) = &self.subject.account else {
            return Ok(unreadable);
        };
        for (index, reference) in references {
            let right = reference_right(account, self.course.graph.node(*index), reference);
            let has = self.subject.has(&right).await;
            if !has.map_err(Failure::to("ask for a right of the account"))? {
                unreadable.insert(*index, right.to_string());
            }
        }
        Ok(unreadable)
    }

    fn plan(&self, observed: &Observed, unseen: &BTreeSet<NodeIndex>, memory: &Memory) -> Plan {
        let subject = self.subject;
        plan(Inputs {
            graph: &self.course.graph,
            instance: Instance::new(&subject.json),
            observed,
            taken: &|id| subject.foreign(id),
            product: PRODUCT,
            now: Timestamp::from_system(subject.context.pace.clock.now()),
            frozen: &|id| memory.frozen.get(id).cloned(),
            unsure: &self.hindered.unsure,
            in_flight: &memory.in_flight,
            unseen: &|node| unseen.contains(&node),
            rendering: Rendering {
                most: AT_A_TIME,
                without: &|id| !self.may_apply(id),
            },
        })
    }

    fn see(&self, plan: &Plan) -> Sight {
        let who = Who {
            uid: self.subject.uid(),
            dirty: &self.subject.dirty,
        };
        let externals = &self.subject.externals;
        let (graph, references) = (&self.course.graph, &plan.references);
        externals.refer(&who, graph, references, &self.withheld)
    }

    fn may_apply(&self, id: &ObjectId) -> bool {
        !self.hindered.refused.contains_key(id) && !self.hindered.unsure.contains_key(id)
    }

    /// Those that may be applied once more: what is not as it was applied, although it was just
    /// now, would be for ever.
    fn once_more<'p>(&mut self, applies: Vec<&'p Apply>) -> Vec<&'p Apply> {
        let mut may = Vec::with_capacity(applies.len());
        for one in applies {
            let times = self.applied.entry(one.id.clone()).or_default();
            *times += 1;
            match *times > MOST {
                true => {
                    let why = "it is not what was applied: somebody changes it on its way";
                    self.hindered.refused.insert(one.id.clone(), why.to_owned());
                }
                false => may.push(one),
            }
        }
        may
    }

    async fn apply(&mut self, applies: &[&Apply]) {
        let subject = self.subject;
        let applying: Vec<_> = {
            let all = applies.iter();
            all.map(|one| async move { (*one, subject.apply(one).await) })
                .collect()
        };
        let mut answers = stream::iter(applying).buffer_unordered(AT_ONCE);
        while let Some((one, answer)) = answers.next().await {
            let id = one.id.clone();
            match answer {
                Ok(()) => {}
                Err(Unwritten::MissingRight(right)) => {
                    self.hindered.lacks_rights = true;
                    self.hindered.refused.insert(id, right.to_string());
                }
                Err(Unwritten::Refused(why)) => drop(self.hindered.refused.insert(id, why)),
                Err(Unwritten::Request(error)) if error.refusal().is_some() => {
                    let refusal = error.refusal();
                    let why = match refusal.is_some_and(Refusal::is_kind_not_served) {
                        true => "its kind is not served".to_owned(),
                        false => error.to_string(),
                    };
                    self.hindered.refused.insert(id, why);
                }
                Err(Unwritten::Request(error)) => {
                    self.hindered.unsure.insert(id, one.content.clone());
                    self.lost = Some(error);
                }
            }
        }
    }

    /// Nothing is left to be applied.
    async fn finish(&mut self, mut plan: Plan) -> Result<Next, Failure> {
        let subject = self.subject;
        let uncounted = self.prune(&mut plan).await;
        let deleted = subject.delete(&plan.prune).await;
        self.hindered.undeleted.extend(deleted.refused);
        self.conclude_deletions(&plan, deleted.lost.is_some());
        let untold = deleted.untold;
        self.note(&plan);
        self.lost = self.lost.take().or(deleted.lost);
        if let Some(next) = plan.next {
            let at = next.to_system();
            subject.passes.look_again(subject.uid(), at);
        }
        let ended = Ended::Planned {
            graph: &self.course.graph,
            plan: &plan,
            hindered: &self.hindered,
            runs: self.course.runs,
            behind: self.course.behind.as_ref(),
        };
        let told = subject.tell(&ended).await?;
        match self.lost.take() {
            // It is done again, which does no harm if it was.
            Some(error) => Err(Failure::to("apply or delete an object")(error)),
            None if let Some(why) = uncounted => Err(Failure::to("count deletions")(why)),
            // Nothing tells when it would be taken.
            None if self.hindered.is_refused() || self.hindered.lacks_rights || untold => {
                Ok(Next::Later)
            }
            None => Ok(told),
        }
    }

    /// Leaves those in the plan that may be deleted now. Why some could not be counted, if an answer
    /// did not come.
    async fn prune(&mut self, plan: &mut Plan) -> Option<String> {
        let (subject, course) = (self.subject, self.course);
        let known = plan.undecided.is_empty() && plan.dropped.is_empty();
        let settled = plan.unwanted.is_empty() && known;
        if settled && !subject.deletions.knows(subject.uid()) {
            return None;
        }
        let observed = subject.observed();
        let weight = |uid: &str| subject.objects.weight(uid);
        let case = PassCase {
            uid: subject.uid(),
            generation: admission::generation(&subject.json),
            last: course.last.as_deref(),
            last_version: course.last_version.as_deref(),
            graph: &course.graph,
            plan,
            observed: &observed,
            weight: &weight,
        };
        let judged = subject.deletions.judge(case).await;
        plan.prune = judged.go;
        let held = judged.held.as_ref();
        self.hindered.held = held.map(|held| held.message(&subject.definition.name));
        match judged.uncounted? {
            (Uncounted::Lost(why), _) => Some(why),
            (Uncounted::Refused(why), ids) => {
                let why = format!("its deletion cannot be counted: {why}");
                let refused = ids.into_iter().map(|id| (id, why.clone()));
                self.hindered.undeleted.extend(refused);
                None
            }
        }
    }

    /// What goes needs no cause any more.
    fn conclude_deletions(&mut self, plan: &Plan, lost: bool) {
        let undeleted = &self.hindered.undeleted;
        let gone = plan.prune.iter();
        let gone = gone.filter(|one| !lost && !undeleted.contains_key(&one.id));
        let (instance, at) = (&self.subject.json, self.course.runs);
        self.hindered.pending = self.subject.deletions.conclude(instance, at, gone);
    }

    fn note(&mut self, plan: &Plan) {
        let now = Timestamp::from_system(self.subject.context.pace.clock.now());
        // Something was not applied, as far as is known.
        let failed = report::has_failed(plan, &self.hindered) || self.lost.is_some();
        let health = match (plan.is_ready(), failed) {
            (_, true) => Health::Failed,
            (true, false) if self.hindered.held.is_none() => Health::Ready { since: now },
            (true | false, false) => Health::Unready,
        };
        self.course.note(self.subject, health);
        self.noted = true;
    }
}

/// The right that it takes to read a reference.
fn reference_right(account: &GraphAccount, node: &Node, reference: &Reference) -> AccountRight {
    let (verb, name) = match &reference.which {
        Which::Named(name) => ("get", name.clone()),
        Which::Labelled(_) => ("list", String::new()),
    };
    AccountRight {
        account: account.clone(),
        verb,
        group: reference.gvk.group.clone(),
        plural: node.plural().to_owned(),
        namespace: reference.namespace.clone().unwrap_or_default(),
        name,
    }
}

// === impl Course ===

impl Course {
    /// Keeps what came of a pass, for the gate of the graph.
    fn note(&self, subject: &Subject, health: Health) {
        let passed = Passed {
            at: self.admission.at,
            generation: admission::generation(&subject.json),
            health,
        };
        subject.passes.set(subject.uid(), passed);
        subject.counted.passed(health);
    }

    /// An instance of which nobody can see what comes of it failed at what it may run. But for one
    /// that may have been ready, and have given its place to another, before it was overtaken: of
    /// that one it cannot be told how it stands, and nobody moves before it has a place again.
    pub(super) fn note_failed(&self, subject: &Subject) {
        let Admission { at, stage, .. } = self.admission;
        let begun = Admission::read(&subject.json).is_some_and(|one| one.at == at);
        let overtaken = stage == Stage::Admitted && self.behind.is_some();
        match begun && overtaken {
            true => {
                let generation = admission::generation(&subject.json);
                subject.passes.set_untold(subject.uid(), generation);
            }
            false => self.note(subject, Health::Failed),
        }
    }
}
