//! All that a decision is made of, beside the policy.

use std::collections::BTreeMap;
use std::fmt;

use deltaplane_api::selector::LabelSelector;
use deltaplane_expr::Timestamp;
use serde_json::{Map, Value as Json};

use super::record::{Class, Record, Target};
use crate::subject::Hold;

/// What is known at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// All that may still matter, in the order of their numbers.
    pub releases: &'a [Release],
    pub record: &'a Record,
    /// The zones that the policy selects, each once.
    pub zones: &'a [Zone<'a>],
    pub approvals: &'a [Approved],
    /// Failures that a person saw, and that are not to stop anything, as [`Forgiven`] writes them.
    pub resumed: Option<&'a str>,
    /// Zones that are there, and that the policy selected before and does not select now.
    pub left: &'a [String],
    /// The revision at which the youngest of all zones was created, as far as that is known.
    pub zones_as_of: Option<u64>,
    pub now: Timestamp,
}

/// A release, as far as decisions are about it.
#[derive(Clone, Debug)]
pub struct Release {
    pub number: u64,
    /// Who changed what is new in it.
    pub authors: Vec<String>,
    /// The release whose content it brings back.
    pub restores: Option<u64>,
    /// Where its overrides apply.
    pub overrides: Vec<LabelSelector>,
    /// What it takes away from zones that have an older one, by the number of that one.
    pub removes: BTreeMap<u64, Removes>,
    /// What expressions see of it.
    pub data: Json,
    pub content: ContentId,
}

/// What tells the content of releases apart. Nothing is known to be the same without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentId {
    /// Of all versions, before overrides.
    pub manifest: Option<String>,
    /// Of each override.
    pub patches: Vec<String>,
}

/// What a release takes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removes {
    /// How many objects, with what goes along.
    pub objects: u64,
    /// Of how many.
    pub of: u64,
}

/// A zone that a policy selects.
#[derive(Clone, Copy, Debug)]
pub struct Zone<'a> {
    pub name: &'a str,
    pub object: &'a Map<String, Json>,
    pub link: Link,
    /// The zone followed a later state of the hub than the hub has, so nothing is sent to it.
    pub diverged: bool,
    /// The release whose content the zone has acknowledged, although no decision says so.
    pub holds: Option<u64>,
    pub hold: Hold,
    /// When it is not held any more, if that is known.
    pub released_at: Option<Timestamp>,
    pub report: Option<ZoneReport<'a>>,
}

/// Whether a zone can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Connected {
        since: Timestamp,
    },
    Lost {
        since: Timestamp,
    },
    /// It never joined: nobody waits for it.
    Never,
}

/// How a zone fares with what it was admitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport<'a> {
    /// With what exactly.
    pub at: Target,
    pub state: State<'a>,
}

/// How far a zone is, with the first reason where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State<'a> {
    /// It has not acknowledged all of it.
    Delivering {
        reason: &'a str,
    },
    /// It could not take something.
    Rejected {
        reason: &'a str,
    },
    /// It keeps something of its own in place of what was released, and is ready at the rest.
    Refused {
        reason: &'a str,
    },
    /// It acknowledged all of it, exactly, and not all is ready.
    Waiting {
        reason: &'a str,
    },
    Failed {
        reason: &'a str,
    },
    /// It acknowledged all of it, exactly, and has nothing that could show whether it works.
    NoEvidence {
        reason: &'a str,
    },
    Ready {
        since: Timestamp,
    },
}

/// So many zones of a stage may fail at a release: a person saw that they did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgiven {
    pub release: u64,
    pub stage: String,
    pub failed: usize,
}

/// A person's yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approved {
    /// To which stage it may go; nothing for what it takes away.
    pub stage: Option<String>,
    pub release: u64,
    pub by: String,
}

/// A release by its number.
pub(super) fn find(releases: &[Release], number: u64) -> Option<&Release> {
    let place = releases.binary_search_by_key(&number, |release| release.number);
    releases.get(place.ok()?)
}

// === impl Forgiven ===

impl Forgiven {
    /// `5 canary 1`, one after the other with commas between them. Nothing if somebody wrote
    /// something else.
    pub fn read(text: &str) -> Option<Vec<Self>> {
        let one = |text: &str| {
            let mut words = text.split_whitespace();
            let release = words.next()?.parse().ok()?;
            let stage = words.next()?.to_owned();
            let failed = words.next()?.parse().ok()?;
            words.next().is_none().then_some(Self {
                release,
                stage,
                failed,
            })
        };
        text.split(',').map(one).collect()
    }
}

impl fmt::Display for Forgiven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.release, self.stage, self.failed)
    }
}

// === impl Zone ===

impl Zone<'_> {
    /// Whether it is away because somebody wants that.
    pub(super) fn is_disabled(&self) -> bool {
        let spec = self.object.get("spec");
        let enabled = spec.and_then(|spec| spec.get("enabled"));
        !matches!(self.link, Link::Connected { .. }) && enabled == Some(&Json::Bool(false))
    }
}

// === impl Release ===

impl Release {
    /// What it takes away from zones that have an older one; nothing if that is not known.
    pub fn removes_since(&self, older: u64) -> Option<Removes> {
        self.removes.get(&older).copied()
    }

    /// Returns true if zones get the same by this, with these overrides, as by another release with
    /// those that were for them then.
    pub(super) fn is_same(&self, class: Class, other: &Self, others: Class) -> bool {
        let patches = |release: &Self, class: Class| -> Option<Vec<String>> {
            let all = &release.content.patches;
            class
                .places()
                .map(|place| all.get(place).cloned())
                .collect()
        };
        let known = self.content.manifest.is_some();
        let patched = patches(self, class);
        known
            && self.content.manifest == other.content.manifest
            && patched.is_some()
            && patched == patches(other, others)
    }

    /// Which overrides apply to a zone with these labels.
    pub fn class(&self, zone: &Map<String, Json>) -> Class {
        self.class_of(labels(zone))
    }

    pub(super) fn class_of(&self, labels: Labels<'_>) -> Class {
        let all = self.overrides.iter().enumerate();
        let apply = all.filter(|(_, selector)| selects(selector, labels));
        Class::of(apply.map(|(place, _)| place))
    }
}

/// The labels of an object, if it has any.
pub(super) type Labels<'a> = Option<&'a Map<String, Json>>;

pub(super) fn labels(object: &Map<String, Json>) -> Labels<'_> {
    object.get("metadata")?.get("labels")?.as_object()
}

/// Whether a selector is for an object with these labels.
pub(super) fn selects(selector: &LabelSelector, labels: Labels<'_>) -> bool {
    selector.matches(|key| labels?.get(key)?.as_str())
}
