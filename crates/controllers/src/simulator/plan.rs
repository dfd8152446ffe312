//! What is to be done for an object. Pure.
//!
//! An object is at rest, under way, or about to begin, and its status tells which: it is what it
//! will be in the end, what it is meanwhile, or neither.

use std::time::SystemTime;

use serde_json::Value;

use deltaplane_api::time::Time;

use super::kind::Kind;
use super::object::{Object, is_same};
use super::order::Outcome;
use super::status::{Stage, status};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan<T = Value> {
    /// Not before the object changes.
    Nothing,
    /// This is its status now.
    Write(T),
    /// It is looked at again then.
    Later(SystemTime),
}

/// What is to be done now. What is under way ends when it is `due`, or never.
pub(super) fn plan(kind: Kind, object: &Object, due: Option<SystemTime>, now: SystemTime) -> Plan {
    let time = Time::from_system(now);
    let end = match object.order.outcome {
        Outcome::Healthy => Some(Stage::Healthy),
        Outcome::Fails => Some(Stage::Failed),
        Outcome::Hangs => None,
    };
    let end = end.map(|stage| status(kind, object, stage, time));
    let shows = |wanted: &Value| is_same(&object.status, wanted);
    if end.as_ref().is_some_and(shows) {
        return Plan::Nothing;
    }
    let meanwhile = status(kind, object, Stage::UnderWay, time);
    if !shows(&meanwhile) {
        return Plan::Write(meanwhile);
    }
    match (end, due) {
        (Some(end), Some(due)) if due <= now => Plan::Write(end),
        (Some(_), Some(due)) => Plan::Later(due),
        (None, _) | (_, None) => Plan::Nothing,
    }
}

// === impl Plan ===

impl<T> Plan<T> {
    pub(super) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Plan<U> {
        match self {
            Self::Nothing => Plan::Nothing,
            Self::Write(status) => Plan::Write(convert(status)),
            Self::Later(at) => Plan::Later(at),
        }
    }
}
