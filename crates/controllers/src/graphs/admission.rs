//! Which revision of its graph each instance may run: decided for all of them at once, written on
//! each before anything is made of it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deltaplane_api::admission::{Admission, Point, Stage, is_suspended};
use deltaplane_api::keys;
use deltaplane_api::time::Time;
use deltaplane_client::ObjectKey;
use deltaplane_expr::{Absent, Decl, Timestamp};
use deltaplane_graph::Graph;
use deltaplane_propagation::{
    self as propagation, Change, Course, Decision, Gate, Hold, Item, Limits, Report, Scope,
    Surroundings, Terms, Verdict, Window,
};
use serde_json::Value;

use super::kept::{KeptBy, Question};

/// What is known of an instance.
#[derive(Clone, Debug)]
pub(super) struct Known<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) json: &'a Value,
    pub(super) admission: Option<Admission>,
    /// What came of the last pass, at the revision that it was for.
    pub(super) passed: Option<&'a Passed>,
    /// Whether it cannot be seen what it has, or its passes fail, so that nobody will know soon how
    /// it stands.
    pub(super) unseen: bool,
    /// What was last said to keep it back.
    pub(super) kept: Option<&'a KeptBy>,
}

/// What came of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) at: Point,
    /// Of the instance.
    pub(super) generation: i64,
    pub(super) health: Health,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Ready { since: Timestamp },
    Unready,
    Failed,
}

/// What instances of a graph may run. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Revisions(Arc<BTreeMap<i64, Revised>>, Arc<BTreeMap<Point, String>>);

/// A revision of a graph.
#[derive(Clone, Debug)]
struct Revised {
    graph: Arc<Graph>,
    at: Point,
    /// Revisions that make the same of an instance, since they differ in their gates alone, count
    /// as one, the first of them.
    first: i64,
}

/// Where instances are to go.
#[derive(Clone, Copy)]
pub(super) struct Rollout<'a> {
    /// The newest revision.
    pub(super) target: i64,
    pub(super) revisions: &'a Revisions,
    /// Whether none may move for now.
    pub(super) paused: bool,
}

/// How many instances are on their way, and how many wait for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) in_flight: usize,
    pub(super) waiting: usize,
}

/// What is to be written on instances, and what is said of it all.
pub(super) struct Decided {
    pub(super) counts: Counts,
    pub(super) admissions: Vec<(ObjectKey, Admission)>,
    /// What keeps back those that are not at the newest revision.
    pub(super) kept: BTreeMap<ObjectKey, KeptBy>,
    /// What the definition's status says.
    pub(super) told: Value,
    /// When time alone may change it.
    pub(super) next: Option<Timestamp>,
}

/// Decides about all instances of a graph, of which something may hold some back. Nothing if there
/// is no graph.
pub(super) fn decide(
    rollout: Rollout<'_>,
    instances: &[Known<'_>],
    now: Timestamp,
) -> Option<Decided> {
    let Rollout {
        revisions,
        paused,
        target,
    } = rollout;
    let gates = revisions.graph(target)?.gate();
    let gate = gates.compiled().unwrap_or_else(|| no_gate());
    let names: Vec<String> = instances.iter().map(|one| one.key.to_string()).collect();
    let items: Vec<Item<'_, i64>> = instances
        .iter()
        .zip(&names)
        .map(|(one, name)| {
            let mut item = one.item(name, revisions, now);
            if paused {
                item.hold = Hold::Held;
            }
            item
        })
        .collect();
    let completed = completed(instances, revisions, now);
    let first = revisions.first(target);
    let course = Course {
        target: &first,
        completed: Some(&completed.unwrap_or(first)),
    };
    let given = Surroundings::new();
    let terms = Terms {
        gate,
        order: gates.order(),
        given: &given,
        now,
        windows: &|_, _| Window {
            open: false,
            edge: None,
        },
        limits: Limits {
            // The instances say themselves what keeps them back.
            explained: usize::MAX,
            ..Limits::default()
        },
    };
    let known = are_known(instances);
    // Who cannot be seen takes nobody's turn: whether it goes on is asked by itself.
    let seen = (!known).then(|| without_unseen(instances, &items));
    let mut decision = propagation::rollout(seen.as_deref().unwrap_or(&items), course, terms);
    let released = instances.iter().filter_map(|one| one.held_until(now));
    decision.summary.next = decision.summary.next.into_iter().chain(released).min();
    // After a restart: who is taken for broken may be ready, and has given its place to another.
    if !known {
        rollout.take_back(&mut decision, instances, &items);
        let sent = sent_on(instances, &items, course, terms);
        decision.admissions.extend(sent);
    }
    let counts = &decision.summary.counts;
    Some(Decided {
        counts: Counts {
            in_flight: counts.in_flight(),
            waiting: counts.pending,
        },
        admissions: rollout.written(instances, &names, &decision),
        kept: rollout.kept(instances, &names, &decision, now),
        told: told(&decision, rollout, instances, now),
        next: decision.summary.next,
    })
}

/// Whether it is known how all that began stand.
fn are_known(instances: &[Known<'_>]) -> bool {
    instances.iter().all(Known::is_known)
}

/// The items, of which those that cannot be seen stay where they are.
fn without_unseen<'a>(instances: &[Known<'_>], items: &[Item<'a, i64>]) -> Vec<Item<'a, i64>> {
    let mut seen = items.to_vec();
    for (item, one) in seen.iter_mut().zip(instances) {
        if one.unseen && !one.is_known() {
            item.hold = Hold::Held;
        }
    }
    seen
}

/// So many of those that keep others back, or are kept back, are listed and asked for.
const LISTED: usize = 10;

/// One that was overtaken and cannot be seen, if only such are unknown and it may be sent on: what is
/// newer may be what lets it be seen. It may have been ready and have given its place to another, so
/// that it takes a new one, and all others of which nothing is known count as on their way.
fn sent_on(
    instances: &[Known<'_>],
    items: &[Item<'_, i64>],
    course: Course<'_, i64>,
    terms: Terms<'_>,
) -> Option<Change<i64>> {
    let unknown = instances.iter().enumerate();
    let unknown: Vec<(usize, &Known<'_>)> = unknown.filter(|(_, one)| !one.is_known()).collect();
    if !unknown.iter().all(|(_, one)| one.unseen) {
        return None;
    }
    let unknown = unknown.into_iter().take(LISTED);
    let mut sent = unknown.filter_map(|(index, _)| {
        let propagation::Admission::Admitted(at) = items[index].admission else {
            return None;
        };
        let mut asked = items.to_vec();
        let others = asked.iter_mut().enumerate().filter(|(at, _)| *at != index);
        others.for_each(|(_, one)| one.hold = Hold::Held);
        asked[index].admission = propagation::Admission::Arrived(at);
        let decided = propagation::rollout(&asked, course, terms);
        decided
            .admissions
            .into_iter()
            .find(|one| one.index == index)
    });
    sent.next()
}

/// Whether instances may have to wait for their turn.
pub(super) fn holds_back(graph: &Graph, paused: bool) -> bool {
    paused || graph.gate().compiled().is_some()
}

/// A gate that lets everybody through.
fn no_gate() -> &'static Gate {
    static OPEN: OnceLock<Gate> = OnceLock::new();
    OPEN.get_or_init(|| {
        let scope = Scope::new(Decl::dynamic(Absent::Waits).clone(), &["instance"]);
        Gate::compile(&[""; 0], scope).expect("nothing to compile")
    })
}

/// The newest revision that all instances have reached that may move. New ones begin with it.
fn completed(instances: &[Known<'_>], revisions: &Revisions, now: Timestamp) -> Option<i64> {
    let reached = |free: bool| {
        let all = instances.iter().filter(|one| !is_deleting(one.json));
        let all = all.filter(move |one| !free || one.hold(now) == Hold::Free);
        let settled = all.filter_map(|one| one.admission).map(|one| one.settled());
        let known = settled.filter_map(|at| revisions.find(at));
        known.map(|(_, revised)| revised.first).min()
    };
    reached(true).or_else(|| reached(false))
}

// === impl Rollout ===

impl Rollout<'_> {
    /// What a decision writes on instances, whose names these are.
    fn written(
        self,
        instances: &[Known<'_>],
        names: &[String],
        decision: &Decision<i64>,
    ) -> Vec<(ObjectKey, Admission)> {
        let all = names.iter().map(String::as_str).zip(instances);
        let all: BTreeMap<&str, &Known<'_>> = all.collect();
        let mut written: BTreeMap<&ObjectKey, Admission> = BTreeMap::new();
        for name in &decision.arrivals {
            if let Some((key, admission)) = all
                .get(name.as_str())
                .and_then(|one| Some((one.key, one.admission?)))
            {
                written.insert(key, Admission::new(Stage::Arrived, admission.at));
            }
        }
        let starts = decision.starts.iter().map(|one| (Stage::Started, one));
        let moves = decision.admissions.iter();
        for (stage, change) in starts.chain(moves.map(|one| (Stage::Admitted, one))) {
            let (Some(one), Some(at)) = (all.get(change.key.as_str()), self.point(change.to))
            else {
                continue;
            };
            let mut admission = Admission::new(stage, at);
            let before = written.get(one.key).copied().or(one.admission);
            admission.from = before.map(|before| before.settled());
            written.insert(one.key, admission);
        }
        let written = written.into_iter();
        written.map(|(key, one)| (key.clone(), one)).collect()
    }

    /// What keeps back those that are not at the newest revision, and are not sent there.
    fn kept(
        self,
        instances: &[Known<'_>],
        names: &[String],
        decision: &Decision<i64>,
        now: Timestamp,
    ) -> BTreeMap<ObjectKey, KeptBy> {
        let Some(newest) = self.revisions.point(self.target) else {
            return BTreeMap::new();
        };
        let verdicts = decision.summary.blocked.iter();
        let verdicts: BTreeMap<&str, &Verdict> = verdicts
            .map(|(name, verdict)| (name.as_str(), verdict))
            .collect();
        let moves = decision.admissions.iter();
        let moves: BTreeSet<usize> = moves.map(|one| one.index).collect();
        let target = self.revisions.first(self.target);
        let all = instances.iter().zip(names).enumerate();
        let behind = all.filter(|(index, (one, _))| {
            let at = one.admission.map(|one| self.revisions.place(one.at));
            at.is_some_and(|at| at != target) && !moves.contains(index)
        });
        let kept = behind.map(|(_, (one, name))| {
            let kept = match (one.hold(now), self.paused) {
                (Hold::Held, _) => KeptBy::Held,
                (Hold::Free, true) => KeptBy::Paused,
                (Hold::Free, false) => {
                    let generation = generation(one.json);
                    let asked = Question { newest, generation };
                    KeptBy::by_gate(verdicts.get(name.as_str()).copied(), asked, one.kept)
                }
            };
            (one.key.clone(), kept)
        });
        kept.collect()
    }

    /// Nobody moves after all, but for those that are known to be on their way.
    fn take_back(
        self,
        decision: &mut Decision<i64>,
        instances: &[Known<'_>],
        items: &[Item<'_, i64>],
    ) {
        let on_the_way = |index: usize| {
            // What is overtaken is on its way whether it is sent on or not.
            matches!(items[index].admission, propagation::Admission::Admitted(_))
        };
        let flies = |index: usize| {
            let ready = matches!(items[index].report, Report::Ready { .. });
            on_the_way(index) && instances[index].is_known() && !ready
        };
        let moves = std::mem::take(&mut decision.admissions);
        let waiting = moves.iter().filter(|one| !on_the_way(one.index)).count();
        let sent = moves.into_iter().filter(|one| flies(one.index));
        decision.admissions = sent.collect();
        let counts = &mut decision.summary.counts;
        counts.updating -= waiting;
        counts.pending += waiting;
    }

    /// The revision that is meant by the first of those that are like it.
    fn point(self, first: i64) -> Option<Point> {
        let number = match first == self.revisions.first(self.target) {
            true => self.target,
            false => first,
        };
        self.revisions.point(number)
    }
}

// === impl Known ===

impl<'a> Known<'a> {
    fn item<'i>(&self, name: &'i str, revisions: &Revisions, now: Timestamp) -> Item<'i, i64>
    where
        'a: 'i,
    {
        let admission = self
            .admission
            .map(|one| (one.stage, revisions.place(one.at)));
        Item {
            key: name,
            object: self.json.as_object(),
            admission: match admission {
                None => propagation::Admission::New,
                Some((Stage::Started, at)) => propagation::Admission::Started(at),
                Some((Stage::Admitted, at)) => propagation::Admission::Admitted(at),
                Some((Stage::Arrived, at)) => propagation::Admission::Arrived(at),
            },
            report: match self.found() {
                Some(passed) => match passed.health {
                    Health::Ready { since } => Report::Ready {
                        at: revisions.place(passed.at),
                        since,
                    },
                    Health::Unready => Report::Unready,
                    Health::Failed => Report::Failed,
                },
                // Nobody looked yet.
                None => Report::Unready,
            },
            hold: self.hold(now),
            deleting: is_deleting(self.json),
        }
    }

    /// What the last pass over it as it is now found.
    fn found(&self) -> Option<&Passed> {
        let passed = self.passed;
        passed.filter(|passed| passed.generation == generation(self.json))
    }

    /// Whether it is known how it stands: what did not begin is not looked at.
    pub(super) fn is_known(&self) -> bool {
        let begun = self.admission.is_some() && !is_deleting(self.json);
        !begun || is_suspended(self.json) || self.found().is_some()
    }

    /// When it is free again by itself.
    fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = keys::hold(&self.json["metadata"]).and_then(Timestamp::parse);
        until.filter(|until| *until > now)
    }

    fn hold(&self, now: Timestamp) -> Hold {
        if is_suspended(self.json) {
            return Hold::Held;
        }
        match keys::hold(&self.json["metadata"]).map(Timestamp::parse) {
            None => Hold::Free,
            Some(Some(until)) if until <= now => Hold::Free,
            // Until somebody takes it away.
            Some(_) => Hold::Held,
        }
    }
}

fn is_deleting(json: &Value) -> bool {
    json["metadata"]["deletionTimestamp"].is_string()
}

/// Whether its owner said that it stays as it is, be it for a while.
pub(super) fn is_held(json: &Value) -> bool {
    keys::hold(&json["metadata"]).is_some()
}

/// The generation of an object.
pub(super) fn generation(json: &Value) -> i64 {
    json["metadata"]["generation"].as_i64().unwrap_or(0)
}

// === impl Revisions ===

impl Revisions {
    /// Of graphs by their numbers.
    pub(super) fn new(graphs: BTreeMap<i64, Arc<Graph>>) -> Self {
        let mut all: BTreeMap<i64, Revised> = BTreeMap::new();
        for (number, graph) in graphs {
            let before = all.last_key_value().map(|(_, before)| before);
            let alike = before.filter(|one| one.graph.content_version() == graph.content_version());
            let revised = Revised {
                at: Point::new(number, graph.revision_hash()),
                first: alike.map_or(number, |one| one.first),
                graph,
            };
            all.insert(number, revised);
        }
        Self(Arc::new(all), Arc::default())
    }

    /// The same, and others that are there and cannot be run now, with why.
    pub(super) fn without(self, broken: BTreeMap<Point, String>) -> Self {
        Self(self.0, Arc::new(broken))
    }

    /// Why a revision that is none of these cannot be run.
    pub(super) fn missing(&self, at: Point) -> String {
        let number = at.number;
        let broken = self.1.iter().find(|(one, _)| match at.hash {
            Some(_) => one.hash == at.hash,
            None => one.number == number,
        });
        match broken {
            Some((_, why)) => format!("revision {number} of the graph cannot be run now: {why}"),
            None => format!("revision {number} of the graph is gone"),
        }
    }

    pub(super) fn graph(&self, number: i64) -> Option<&Arc<Graph>> {
        Some(&self.0.get(&number)?.graph)
    }

    pub(super) fn point(&self, number: i64) -> Option<Point> {
        Some(self.0.get(&number)?.at)
    }

    /// What an instance may run that is there, and where that is now: a definition that was deleted
    /// and made again has other numbers for what it said before.
    pub(super) fn resolve(&self, at: Point) -> Option<(Point, &Arc<Graph>)> {
        let (_, revised) = self.find(at)?;
        Some((revised.at, &revised.graph))
    }

    fn find(&self, at: Point) -> Option<(i64, &Revised)> {
        let exact = self.0.get(&at.number).filter(|one| one.at == at);
        if let Some(exact) = exact {
            return Some((at.number, exact));
        }
        let mut newest = self.0.iter().rev();
        let same = newest.find(|(_, one)| at.hash.is_some() && one.at.hash == at.hash);
        same.map(|(number, one)| (*number, one))
    }

    /// The content versions of all that instances may run, in short; nothing while some of them
    /// cannot be told.
    pub(super) fn content_versions(&self) -> Option<BTreeSet<&str>> {
        let all = self
            .0
            .values()
            .map(|one| one.graph.content_version().short());
        self.1.is_empty().then(|| all.collect())
    }

    /// Whether both make the same of an instance.
    pub(super) fn are_alike(&self, one: i64, other: i64) -> bool {
        self.first(one) == self.first(other)
    }

    fn first(&self, number: i64) -> i64 {
        self.0.get(&number).map_or(number, |one| one.first)
    }

    /// The first of those that are like it. What is not there any more is like nothing that is.
    fn place(&self, at: Point) -> i64 {
        let known = self.find(at).map(|(_, one)| one.first);
        known.unwrap_or(-1 - at.number)
    }
}

/// The same are those that were compiled at the same time: kinds may look otherwise since.
impl PartialEq for Revisions {
    fn eq(&self, Self(other, others): &Self) -> bool {
        let Self(all, broken) = self;
        let mut pairs = all.iter().zip(&**other);
        let same = pairs.all(|((number, one), (of, other))| {
            number == of && Arc::ptr_eq(&one.graph, &other.graph)
        });
        same && all.len() == other.len() && broken == others
    }
}

/// A time that is no further away is not told: where none can be found it is looked again every
/// minute, and each time would be a write.
const SOON: Duration = Duration::from_secs(60);

/// What is told of an instance that holds up others.
const UNSEEN: &str = "it was on its way and it cannot be seen how it stands, so that nobody moves \
    who was not: see its conditions";

/// What the definition's status says of a decision.
fn told(
    decision: &Decision<i64>,
    rollout: Rollout<'_>,
    instances: &[Known<'_>],
    now: Timestamp,
) -> Value {
    let summary = &decision.summary;
    let counts = &summary.counts;
    let blocked = summary.blocked.iter().take(LISTED).map(|(key, verdict)| {
        serde_json::json!({
            "instance": key, "reason": verdict.reason(), "message": verdict.to_string(),
        })
    });
    // Nobody else moves while it is not known how these stand.
    let unknown = instances.iter().filter(|one| !one.is_known());
    let unknown = unknown.take(LISTED).map(|one| {
        serde_json::json!({
            "instance": one.key.to_string(), "reason": "Unseen", "message": UNSEEN,
        })
    });
    let soon = now.to_system() + SOON;
    let next = summary.next.map(Timestamp::to_system);
    let next = next.filter(|next| *next > soon);
    let next = next.map(|next| Time::from_system(next).to_string());
    serde_json::json!({
        "revision": rollout.target,
        "paused": rollout.paused,
        "instances": counts.total,
        "current": counts.current,
        "updating": counts.updating,
        "failed": counts.failed,
        "pending": counts.pending,
        "held": counts.held,
        "starting": counts.starting,
        "blocked": unknown.chain(blocked).collect::<Vec<_>>(),
        "lookAgainAt": next,
    })
}

#[cfg(test)]
mod tests;
