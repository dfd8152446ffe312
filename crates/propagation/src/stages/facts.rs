//! What is known of a policy and its zones at one moment, handed from whoever knows it to whoever
//! has it decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_expr::Timestamp;
use serde_json::{Map, Value as Json};

use super::record::{Record, Target};
use super::situation::{Approved, Link, Release, State, Zone, ZoneReport};
use crate::subject::Hold;

/// A policy, and all that decisions about it need.
#[derive(Clone, Debug)]
pub struct PolicyFacts {
    /// As it is stored.
    pub object: Arc<Json>,
    /// As it was decided, and took effect.
    pub record: Record,
    pub head: HeadFacts,
    /// By their numbers.
    pub releases: Vec<Release>,
    pub contents: BTreeMap<u64, ContentFacts>,
    pub zones: Vec<ZoneFacts>,
    pub approvals: Vec<Approved>,
}

/// What it governs now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadFacts {
    /// Of all content, with overrides.
    pub digest: String,
    pub objects: usize,
    /// Why it cannot be released.
    pub problems: Vec<String>,
}

/// What a release holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentFacts {
    pub digest: String,
    pub objects: usize,
}

/// A zone that a policy selects.
#[derive(Clone, Debug)]
pub struct ZoneFacts {
    pub name: String,
    pub object: Arc<Map<String, Json>>,
    pub link: Link,
    pub hold: Hold,
    pub released_at: Option<Timestamp>,
    pub report: Option<ReportFacts>,
}

/// How a zone fares with exactly this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFacts {
    pub at: Target,
    pub state: Fared,
}

/// As [`State`], with its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fared {
    Delivering(String),
    Rejected(String),
    Waiting(String),
    Failed(String),
    NoEvidence(String),
    Ready { since: Timestamp },
}

// === impl ZoneFacts ===

impl ZoneFacts {
    pub fn zone(&self) -> Zone<'_> {
        let report = self.report.as_ref().map(|report| ZoneReport {
            at: report.at,
            state: report.state.state(),
        });
        Zone {
            name: &self.name,
            object: &self.object,
            link: self.link,
            hold: self.hold,
            released_at: self.released_at,
            report,
        }
    }
}

// === impl Fared ===

impl Fared {
    fn state(&self) -> State<'_> {
        match self {
            Self::Delivering(reason) => State::Delivering { reason },
            Self::Rejected(reason) => State::Rejected { reason },
            Self::Waiting(reason) => State::Waiting { reason },
            Self::Failed(reason) => State::Failed { reason },
            Self::NoEvidence(reason) => State::NoEvidence { reason },
            Self::Ready { since } => State::Ready { since: *since },
        }
    }
}
