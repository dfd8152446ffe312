//! How objects fare, as their statuses say: ready, not yet, failed, or nothing to tell it by.
//!
//! [`judge`] asks the expressions that somebody wrote, or the common rules: those by which
//! Kubernetes' own kinds and most others say it. [`graph`] asks the instances of a graph.
//!
//! Deliberate limits: a status that does not say of which generation it is counts for the object
//! as it is, since nothing tells it from one that is newer; an object without any status is ready,
//! since most kinds that nobody writes one for are policies and data.
//!
//! Invariants: what cannot be evaluated is not ready, and says why; a status of an earlier
//! generation says nothing; whatever an object looks like, there is an answer; nothing of what
//! Secrets hold is in a reason.

mod conditions;
mod expressions;
mod graph;
mod kinds;

use serde_json::Value;

use crate::gate::GateProblems;

pub use graph::{graph, is_graph};

use conditions::Conditions;
use expressions::Expressions;

/// The fields that [`judge`] reads by the common rules, each by its keys.
pub const FIELDS: [&[&str]; 8] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "generation"],
    &["metadata", "deletionTimestamp"],
    &["spec", "replicas"],
    &["spec", "type"],
    &["spec", "updateStrategy"],
    &["status"],
];

/// How an object fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub state: State,
    /// Why, for people. Empty when there is nothing to say.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    /// Not yet.
    Waiting,
    /// It will not come right by waiting.
    Failed,
    /// Nothing is there that could tell.
    NoEvidence,
}

/// By what an object is judged.
#[derive(Debug, Default)]
pub struct Rules(Which);

#[derive(Debug, Default)]
enum Which {
    #[default]
    Common,
    Expressions(Expressions),
    /// Expressions that make no sense here, and why.
    Unreadable(String),
}

/// Whether all of these are expressions over `object` that are true or false. Bare, or as `${…}`.
pub fn check(ready_when: &[impl AsRef<str>]) -> Result<(), GateProblems> {
    Expressions::compile(ready_when).map(drop)
}

/// How an object fares.
pub fn judge(object: &Value, rules: &Rules) -> Judgement {
    if is_deleting(object) {
        return Judgement::waiting("it is being deleted");
    }
    if is_stale(object) {
        return Judgement::stale();
    }
    match &rules.0 {
        Which::Common => kinds::judge(object),
        Which::Expressions(expressions) => expressions.judge(object),
        Which::Unreadable(why) => {
            Judgement::waiting(format!("readyWhen cannot be evaluated: {why}"))
        }
    }
}

/// Whether an object is ready as soon as it is there, by the common rules.
pub fn is_ready_when_applied(object: &Value, rules: &Rules) -> bool {
    rules.is_common() && object["status"].is_null() && !kinds::has_status(object)
}

// === impl Rules ===

impl Rules {
    /// All of these must be true; the common rules if there are none.
    pub fn new(ready_when: &[impl AsRef<str>]) -> Self {
        if ready_when.is_empty() {
            return Self::default();
        }
        Self(match Expressions::compile(ready_when) {
            Ok(expressions) => Which::Expressions(expressions),
            Err(problems) => Which::Unreadable(problems.to_string()),
        })
    }

    /// Whether nobody wrote others.
    pub fn is_common(&self) -> bool {
        matches!(self.0, Which::Common)
    }
}

// === impl Judgement ===

impl Judgement {
    pub fn ready() -> Self {
        Self::new(State::Ready, "")
    }

    pub fn waiting(reason: impl Into<String>) -> Self {
        Self::new(State::Waiting, reason)
    }

    pub fn failed(reason: impl Into<String>) -> Self {
        Self::new(State::Failed, reason)
    }

    pub fn no_evidence(reason: impl Into<String>) -> Self {
        Self::new(State::NoEvidence, reason)
    }

    fn stale() -> Self {
        Self::waiting("its status is of an earlier generation")
    }

    fn new(state: State, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { state, reason }
    }
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whether the status says of itself that it is older than the object.
fn is_stale(object: &Value) -> bool {
    let Some(generation) = object["metadata"]["generation"].as_i64() else {
        return false;
    };
    let status = object["status"]["observedGeneration"].as_i64();
    let observed = status.or_else(|| Conditions::of(object).newest_generation());
    observed.is_some_and(|observed| observed < generation)
}

#[cfg(test)]
mod tests;
