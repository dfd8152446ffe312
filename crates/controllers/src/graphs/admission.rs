//! Which revision of its graph each instance may run: decided for all of them at once, written on
//! each before anything is made of it. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use deltaplane_api::keys;
use deltaplane_api::time::Time;
use deltaplane_client::ObjectKey;
use deltaplane_expr::{Absent, Decl, Timestamp};
use deltaplane_graph::Graph;
use deltaplane_propagation::{
    self as propagation, Course, Decision, Gate, Hold, Item, Limits, Report, Scope, Surroundings,
    Terms, Window,
};
use serde_json::Value;

/// Where an instance says which revision it may run.
pub(super) const ADMISSION: &str = "deltaplane.io/admission";

/// The owner's word that nothing is to be done.
const RECONCILE: &str = "kro.run/reconcile";

/// Which revision an instance may run, and how far it is with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It began with this one.
    Started(i64),
    /// It may move to this one.
    Admitted(i64),
    /// It was ready at this one.
    Arrived(i64),
}

/// What is known of an instance.
#[derive(Clone, Debug)]
pub(super) struct Known<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) json: &'a Value,
    pub(super) admission: Option<Admission>,
    /// What came of the last pass, at the revision that it was for.
    pub(super) passed: Option<&'a Passed>,
}

/// What came of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) revision: i64,
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

/// Revisions that make the same of an instance: those that differ in their gates alone count as
/// one, the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Alike(BTreeMap<i64, i64>);

/// Where instances are to go.
#[derive(Clone, Copy)]
pub(super) struct Rollout<'a> {
    pub(super) graph: &'a Graph,
    /// The newest revision.
    pub(super) target: i64,
    pub(super) alike: &'a Alike,
    /// Whether none may move for now.
    pub(super) paused: bool,
}

/// Decides about all instances of a graph, if something may hold them back.
pub(super) fn decide(
    rollout: Rollout<'_>,
    instances: &[Known<'_>],
    now: Timestamp,
) -> Option<Decision<i64>> {
    let Rollout {
        graph,
        alike,
        paused,
        ..
    } = rollout;
    let gate = graph.gate().compiled();
    let gate = gate.or_else(|| paused.then(no_gate))?;
    let target = alike.first(rollout.target);
    let names: Vec<String> = instances.iter().map(|one| one.key.to_string()).collect();
    let items: Vec<Item<'_, i64>> = instances
        .iter()
        .zip(&names)
        .map(|(one, name)| {
            let mut item = one.item(name, alike, now);
            if paused {
                item.hold = Hold::Held;
            }
            item
        })
        .collect();
    let completed = completed(instances, alike, target);
    let course = Course {
        target: &target,
        completed: Some(&completed),
    };
    let given = Surroundings::new();
    let terms = Terms {
        gate,
        order: graph.gate().order(),
        given: &given,
        now,
        windows: &|_, _| Window {
            open: false,
            edge: None,
        },
        limits: Limits::default(),
    };
    let mut decision = propagation::rollout(&items, course, terms);
    let released = instances.iter().filter_map(|one| one.held_until(now));
    decision.summary.next = decision.summary.next.into_iter().chain(released).min();
    // After a restart: who is taken for broken may be ready, and has given its place to another.
    if !are_known(instances) {
        decision.admissions.clear();
    }
    Some(decision)
}

/// Whether it is known how all that began stand.
pub(super) fn are_known(instances: &[Known<'_>]) -> bool {
    instances.iter().all(Known::is_known)
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

/// The newest revision that all instances have reached.
fn completed(instances: &[Known<'_>], alike: &Alike, target: i64) -> i64 {
    let settled = instances.iter().filter_map(|one| match one.admission? {
        Admission::Started(revision) | Admission::Arrived(revision) => Some(alike.first(revision)),
        Admission::Admitted(_) => None,
    });
    settled.min().unwrap_or(target)
}

// === impl Admission ===

impl Admission {
    /// As it is written on an instance.
    pub(super) fn read(json: &Value) -> Option<Self> {
        let text = json["metadata"]["annotations"][ADMISSION].as_str()?;
        let (word, number) = text.split_once('/')?;
        let number = number.parse().ok()?;
        match word {
            "started" => Some(Self::Started(number)),
            "admitted" => Some(Self::Admitted(number)),
            "arrived" => Some(Self::Arrived(number)),
            _ => None,
        }
    }

    pub(super) fn revision(self) -> i64 {
        match self {
            Self::Started(number) | Self::Admitted(number) | Self::Arrived(number) => number,
        }
    }
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(number) => write!(f, "started/{number}"),
            Self::Admitted(number) => write!(f, "admitted/{number}"),
            Self::Arrived(number) => write!(f, "arrived/{number}"),
        }
    }
}

// === impl Known ===

impl<'a> Known<'a> {
    fn item<'i>(&self, name: &'i str, alike: &Alike, now: Timestamp) -> Item<'i, i64>
    where
        'a: 'i,
    {
        Item {
            key: name,
            object: self.json.as_object(),
            admission: match self.admission {
                None => propagation::Admission::New,
                Some(Admission::Started(at)) => propagation::Admission::Started(alike.first(at)),
                Some(Admission::Admitted(at)) => propagation::Admission::Admitted(alike.first(at)),
                Some(Admission::Arrived(at)) => propagation::Admission::Arrived(alike.first(at)),
            },
            report: match self.found() {
                Some(passed) => match passed.health {
                    Health::Ready { since } => Report::Ready {
                        at: alike.first(passed.revision),
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
    fn is_known(&self) -> bool {
        let begun = self.admission.is_some() && !is_deleting(self.json);
        !begun || is_suspended(self.json) || self.found().is_some()
    }

    /// When it is free again by itself.
    fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        let said = self.json["metadata"]["annotations"][keys::HOLD].as_str();
        let until = said.and_then(Timestamp::parse);
        until.filter(|until| *until > now)
    }

    fn hold(&self, now: Timestamp) -> Hold {
        if is_suspended(self.json) {
            return Hold::Held;
        }
        let said = self.json["metadata"]["annotations"][keys::HOLD].as_str();
        match said.map(Timestamp::parse) {
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

/// Whether its owner said that nothing is to be done.
pub(super) fn is_suspended(json: &Value) -> bool {
    let said = json["metadata"]["annotations"][RECONCILE].as_str();
    let said = said.map(str::to_ascii_lowercase);
    matches!(said.as_deref(), Some("suspended" | "disabled"))
}

/// The generation of an object.
pub(super) fn generation(json: &Value) -> i64 {
    json["metadata"]["generation"].as_i64().unwrap_or(0)
}

// === impl Alike ===

impl Alike {
    /// Of revisions by their numbers.
    pub(super) fn of<'g>(graphs: impl IntoIterator<Item = (i64, &'g Graph)>) -> Self {
        let mut all = BTreeMap::new();
        let mut last: Option<(i64, &Graph)> = None;
        for (number, graph) in graphs {
            let first = match last {
                Some((first, before)) if before.content_version() == graph.content_version() => {
                    first
                }
                Some(_) | None => number,
            };
            all.insert(number, first);
            last = Some((first, graph));
        }
        Self(all)
    }

    /// Whether both make the same of an instance.
    pub(super) fn is_alike(&self, one: i64, other: i64) -> bool {
        self.first(one) == self.first(other)
    }

    fn first(&self, revision: i64) -> i64 {
        self.0.get(&revision).copied().unwrap_or(revision)
    }
}

/// The time, as expressions have it.
pub(super) fn timestamp(now: std::time::SystemTime) -> Timestamp {
    let since = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let begin = || Timestamp::parse("1970-01-01T00:00:00Z").expect("a time");
    Timestamp::new(seconds, since.subsec_nanos()).unwrap_or_else(begin)
}

/// The time at which to decide again.
pub(super) fn instant(next: Timestamp) -> std::time::SystemTime {
    let seconds = u64::try_from(next.seconds()).unwrap_or(0);
    std::time::UNIX_EPOCH + std::time::Duration::new(seconds, next.nanos())
}

/// What the definition's status says of a decision.
pub(super) fn told(decision: &Decision<i64>, rollout: Rollout<'_>) -> Value {
    let summary = &decision.summary;
    let counts = &summary.counts;
    let blocked = summary.blocked.iter().map(|(key, verdict)| {
        serde_json::json!({
            "instance": key, "reason": verdict.reason(), "message": verdict.to_string(),
        })
    });
    let next = summary
        .next
        .map(|next| Time::from_system(instant(next)).to_string());
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
        "blocked": blocked.collect::<Vec<_>>(),
        "lookAgainAt": next,
    })
}
