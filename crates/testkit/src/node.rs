//! A zone: what it has, how it takes it, and what the hub knows of that.

use std::collections::BTreeMap;

use deltaplane_expr::{Duration, Timestamp};
use deltaplane_propagation::Hold;
use deltaplane_propagation::stages::{Link, State, Target, Zone, ZoneReport};
use serde_json::{Map, Value as Json, json};

use crate::clock::seconds;

/// How a zone takes what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// It becomes ready.
    Healthy,
    /// It takes it, and fails.
    Failing,
    /// It takes it, and never becomes ready.
    Stuck,
    /// It does not take it.
    Refusing,
    /// It takes it, and has nothing that could show whether it works.
    Unproven,
}

/// How long it takes a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// To acknowledge what it gets.
    pub ack: Duration,
    /// To become ready then, or to fail.
    pub ready: Duration,
}

/// A zone.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) object: Map<String, Json>,
    pub(crate) nature: Nature,
    pub(crate) delays: Delays,
    pub(crate) hold: Hold,
    /// Whether it could reach a hub.
    pub(crate) reachable: bool,
    /// As the hub sees it.
    pub(crate) link: Link,
    /// What it acknowledged, and how it is with that.
    pub(crate) has: Option<(Target, Health)>,
    /// What it is being sent.
    pub(crate) receiving: Option<Target>,
    /// What it said last, as far as the hub knows.
    pub(crate) said: Option<(Target, Health)>,
    /// No two zones have the same, even if they have the same name one after the other.
    pub(crate) life: u64,
}

/// How a zone is with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Refused,
    Waiting,
    Failed,
    NoEvidence,
    Ready(Timestamp),
}

// === impl Delays ===

impl Default for Delays {
    fn default() -> Self {
        Self {
            ack: seconds(1),
            ready: seconds(4),
        }
    }
}

// === impl Node ===

impl Node {
    pub(crate) fn new(name: &str, labels: &BTreeMap<String, String>, now: Timestamp) -> Self {
        let object = json!({
            "metadata": {
                "name": name,
                "labels": labels,
                "creationTimestamp": now.to_string(),
            },
        });
        Self {
            object: object.as_object().cloned().unwrap_or_default(),
            nature: Nature::Healthy,
            delays: Delays::default(),
            hold: Hold::Free,
            reachable: true,
            link: Link::Connected { since: now },
            has: None,
            receiving: None,
            said: None,
            life: 0,
        }
    }

    /// Sets a label, or takes it away if it is empty.
    pub(crate) fn relabel(&mut self, key: &str, value: &str) {
        let labels = self.object.get_mut("metadata");
        let labels = labels.and_then(|metadata| metadata.get_mut("labels"));
        let Some(Json::Object(labels)) = labels else {
            return;
        };
        match value {
            "" => labels.remove(key),
            value => labels.insert(key.to_owned(), value.into()),
        };
    }

    /// Whether somebody took it out of service.
    pub(crate) fn is_disabled(&self) -> bool {
        let spec = self.object.get("spec");
        spec.is_some_and(|spec| spec["enabled"] == Json::Bool(false))
    }

    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.link, Link::Connected { .. })
    }

    /// As decisions see it.
    pub(crate) fn zone<'a>(&'a self, name: &'a str) -> Zone<'a> {
        Zone {
            name,
            object: &self.object,
            diverged: false,
            holds: None,
            link: self.link,
            hold: self.hold,
            released_at: None,
            report: self.said.map(|(at, health)| ZoneReport {
                at,
                state: health.state(),
            }),
        }
    }
}

// === impl Health ===

impl Health {
    fn state(self) -> State<'static> {
        match self {
            Self::Refused => State::Refused {
                reason: "there is a foreign object of that name",
            },
            Self::Waiting => State::Waiting {
                reason: "1 of 3 pods is ready",
            },
            Self::Failed => State::Failed {
                reason: "pods crash",
            },
            Self::NoEvidence => State::NoEvidence {
                reason: "it has no instances",
            },
            Self::Ready(since) => State::Ready { since },
        }
    }
}
