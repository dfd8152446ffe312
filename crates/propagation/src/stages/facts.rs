//! What is known of a policy and its zones at one moment, handed from whoever knows it to whoever
//! has it decided.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use deltaplane_expr::Timestamp;
use serde_json::{Map, Value as Json, json};

use super::compiled::Policy;
use super::problem::Problem;
use super::record::{Record, Target};
use super::situation::{Approved, Forgiven, Link, Release, Situation, State, Zone, ZoneReport};
use super::spec::PolicySpec;
use crate::subject::Hold;

/// A policy, and all that decisions about it need.
#[derive(Clone, Debug)]
pub struct PolicyFacts {
    /// As it is stored.
    pub object: Arc<Json>,
    /// As it was decided, and took effect.
    pub record: Record,
    /// Set while something that decisions are made of cannot be read: nothing is decided, since that
    /// would forget it.
    pub unreadable: Option<UnreadableInput>,
    pub head: HeadFacts,
    /// By their numbers.
    pub releases: Vec<Release>,
    pub contents: BTreeMap<u64, ContentFacts>,
    pub zones: Vec<ZoneFacts>,
    /// Zones that are there, and that the policy selected before and does not select now.
    pub left: Vec<String>,
    /// Zones that it selects and that followed a later state of this hub than the hub has.
    pub diverged: Vec<String>,
    /// The revision at which the youngest of all zones was created.
    pub zones_as_of: Option<u64>,
    pub approvals: Vec<Approved>,
    /// The highest release of a policy of this name that zones had followed when somebody settled
    /// them, also zones whose Zones are gone: they may be made again. 0 if none, and for policies
    /// that have releases, whose floor was raised.
    pub settled_release: u64,
    /// When time alone may change what is known.
    pub again: Option<Timestamp>,
}

/// Of the status of a zone: what it had followed of a lost future when somebody settled that.
pub const RECONCILED: &str = "reconciled";

/// Of the status of a policy: the lowest number that its next release may have.
pub const RELEASE_FLOOR: &str = "releaseFloor";

/// An input of decisions that was written by another version, and cannot be read by this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnreadableInput {
    /// The recorded decisions of the policy.
    Decisions,
    /// SyncedKinds, by name: one of them may be for a kind that the policy targets or has released.
    SyncedKinds(BTreeSet<String>),
}

/// What it governs now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadFacts {
    /// Of all content, with overrides: of what would be released. What was rolled back is not
    /// among it until it is changed.
    pub digest: String,
    pub objects: usize,
    /// Why it cannot be released.
    pub problems: Vec<String>,
    /// Why objects at the hub differ from the newest release, if a rollback is why.
    pub rolled_back: Option<RolledBack>,
}

/// A rollback whose objects are at the hub as they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// The release that was rolled back.
    pub release: u64,
    pub cause: RollbackCause,
    /// The objects that differ, for people.
    pub objects: Vec<String>,
}

/// Why a release was rolled back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollbackCause {
    /// The zone in which it failed; nothing where a person asked.
    pub zone: Option<String>,
    /// What the zone said, or who asked.
    pub reason: String,
}

/// What a release holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentFacts {
    pub digest: String,
    pub objects: usize,
    /// How many objects it takes away from who has the one before it, counted or not.
    pub removes: u64,
}

/// A zone that a policy selects.
#[derive(Clone, Debug)]
pub struct ZoneFacts {
    pub name: String,
    pub object: Arc<Map<String, Json>>,
    pub link: Link,
    /// The release whose content the zone has acknowledged, although no decision says so: it had
    /// the objects before they were governed, or followed a later state of the hub.
    pub holds: Option<u64>,
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
    Refused(String),
    Waiting(String),
    Failed(String),
    NoEvidence(String),
    Ready { since: Timestamp },
}

/// By this annotation somebody asks for an older release: `3 instead of 7`.
pub const ROLLBACK: &str = "fleet.deltaplane.io/rollback";
/// By this annotation somebody says that failures that were seen are not to stop anything:
/// `5 canary 1`.
pub const RESUME: &str = "fleet.deltaplane.io/resume";

/// The older release that the object of a policy asks for, instead of the newest.
pub fn asked_for(policy: &Json, newest: u64) -> Option<u64> {
    let (to, instead) = rollback_of(policy)?;
    (instead == newest).then_some(to)
}

/// The releases that the object of a policy names to go back: to which, and instead of which.
pub fn rollback_of(policy: &Json) -> Option<(u64, u64)> {
    read_asked(policy["metadata"]["annotations"][ROLLBACK].as_str()?)
}

fn read_asked(asked: &str) -> Option<(u64, u64)> {
    let (to, instead) = asked.split_once(" instead of ")?;
    Some((to.trim().parse().ok()?, instead.trim().parse().ok()?))
}

// === impl UnreadableInput ===

impl UnreadableInput {
    fn problem(&self) -> Problem {
        match self {
            Self::Decisions => Problem {
                path: "status.decisions".to_owned(),
                message: "what was decided cannot be read: it was written by another version"
                    .to_owned(),
                hint: Some("run that one, or a newer one; nothing moves until then".to_owned()),
            },
            Self::SyncedKinds(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let names = names.join(", ");
                Problem {
                    path: "spec.targets".to_owned(),
                    message: format!(
                        "the hub does not know whether all targets cross: SyncedKind {names} cannot be read"
                    ),
                    hint: Some(format!(
                        "correct or delete it: kubectl get syncedkinds {names} -o yaml; nothing moves until then"
                    )),
                }
            }
        }
    }
}

// === impl PolicyFacts ===

impl PolicyFacts {
    /// The policy, if it can be decided by.
    pub fn policy(&self) -> Result<Policy, Vec<Problem>> {
        if let Some(unreadable) = &self.unreadable {
            return Err(vec![unreadable.problem()]);
        }
        let spec: Result<PolicySpec, _> = serde_json::from_value(self.object["spec"].clone());
        match spec {
            Ok(spec) => Policy::compile(&spec),
            Err(error) => Err(vec![Problem::new("spec", error.to_string())]),
        }
    }

    /// As decisions take zones.
    pub fn zones(&self) -> Vec<Zone<'_>> {
        let zones = self.zones.iter().map(|facts| Zone {
            diverged: self.diverged.contains(&facts.name),
            ..facts.zone()
        });
        zones.collect()
    }

    /// All that a decision is made of, beside the policy.
    pub fn situation<'a>(&'a self, zones: &'a [Zone<'a>], now: Timestamp) -> Situation<'a> {
        Situation {
            releases: &self.releases,
            record: &self.record,
            zones,
            approvals: &self.approvals,
            resumed: self.annotation(RESUME),
            left: &self.left,
            zones_as_of: self.zones_as_of,
            now,
        }
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["annotations"][key].as_str()
    }

    /// An older release that somebody asked for, instead of the newest.
    pub fn asked_for(&self) -> Option<u64> {
        asked_for(&self.object, self.newest())
    }

    /// Why an older release that somebody asked for is not brought back, if it was not.
    pub fn not_brought_back(&self) -> Option<String> {
        let asked = self.annotation(ROLLBACK)?;
        let Some((to, instead)) = read_asked(asked) else {
            return Some(format!(
                "{asked:?} names no releases: write such as \"1 instead of {}\"",
                self.newest()
            ));
        };
        let newest = self.newest();
        let mut later = self.releases.iter().filter(|one| one.number > instead);
        match instead.cmp(&newest) {
            Ordering::Equal if self.contents.contains_key(&to) => None,
            Ordering::Equal => Some(format!("release {to} is not kept")),
            Ordering::Greater => Some(format!("there is no release {instead}: {newest} is the newest")),
            // It was done; or it is so long ago that nobody knows.
            Ordering::Less if later.clone().any(|one| one.restores == Some(to)) => None,
            Ordering::Less => later.any(|one| one.number == instead + 1).then(|| {
                format!("release {to} was asked for instead of {instead}, and {newest} is the newest by now: ask again")
            }),
        }
    }

    /// What somebody wrote about failures, if it cannot be read.
    pub fn not_forgiven(&self) -> Option<String> {
        let resumed = self.annotation(RESUME)?;
        Forgiven::read(resumed).is_none().then(|| {
            format!("{resumed:?} names no failures: write such as \"5 canary 1\", a release, a stage, and how many zones failed")
        })
    }

    /// The highest number that a release had. Numbers are never used twice.
    pub fn newest(&self) -> u64 {
        let known = self.releases.last().map_or(0, |release| release.number);
        known.max(self.object["status"]["release"].as_u64().unwrap_or(0))
    }

    /// The newest release of what was there, and not of what was brought back.
    pub fn newest_of_head(&self) -> Option<u64> {
        let mut releases = self.releases.iter().rev();
        let release = releases.find(|release| release.restores.is_none())?;
        Some(release.number)
    }

    /// The number of the next release. Zones may have followed higher ones in a lost future of a
    /// store that was restored, also of a policy of this name that is not there any more.
    pub fn next_number(&self) -> u64 {
        let next = self.newest().max(self.followed_before()).saturating_add(1);
        next.max(self.release_floor())
    }

    /// The highest release of a policy of this name that its zones had followed when somebody settled
    /// that they follow this hub.
    fn followed_before(&self) -> u64 {
        let name = self.object["metadata"]["name"].as_str().unwrap_or_default();
        let zones = self.zones.iter();
        let followed = zones.filter_map(|zone| {
            let reconciled = &zone.object.get("status")?[RECONCILED];
            reconciled["releases"][name].as_u64()
        });
        followed.max().unwrap_or(0).max(self.settled_release)
    }

    /// Whether zones may have followed the newest release with other content, in a lost future of
    /// the store: what there is goes through their gates again.
    pub fn is_below_floor(&self) -> bool {
        self.newest() > 0 && self.newest() < self.release_floor()
    }

    fn release_floor(&self) -> u64 {
        let floor = &self.object["status"][RELEASE_FLOOR]["number"];
        floor.as_u64().unwrap_or(0)
    }

    /// Returns true if all that is there was released, but for what was rolled back.
    pub fn is_released(&self) -> bool {
        if self.is_below_floor() {
            return false;
        }
        let Some(newest) = self.releases.last() else {
            return self.head.objects == 0;
        };
        let content = self.contents.get(&newest.number);
        content.is_some_and(|content| content.digest == self.head.digest)
    }
}

// === impl RolledBack ===

/// So many objects are named.
const NAMED: usize = 3;

impl fmt::Display for RolledBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { release, cause, .. } = self;
        match &cause.zone {
            Some(zone) => write!(
                f,
                "release {release} failed in zone {zone} and was rolled back: {}",
                cause.reason
            )?,
            None => write!(f, "release {release} was rolled back: {}", cause.reason)?,
        }
        let named: Vec<&str> = self
            .objects
            .iter()
            .take(NAMED)
            .map(String::as_str)
            .collect();
        match named.is_empty() {
            true => f.write_str("; the overrides of the policy are not released")?,
            false => write!(f, "; not released as at the hub: {}", named.join(", "))?,
        }
        match self.objects.len() - named.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl RolledBack {
    /// As it is told.
    pub fn write(&self) -> Json {
        let mut written = self.cause.write(self.release);
        written["objects"] = self.objects.clone().into();
        written
    }

    pub(super) fn read(written: &Json) -> Option<Self> {
        let (release, cause) = RollbackCause::read(written)?;
        let objects = written["objects"].as_array()?.iter();
        let objects = objects.map(|one| one.as_str().map(str::to_owned));
        Some(Self {
            release,
            cause,
            objects: objects.collect::<Option<_>>()?,
        })
    }
}

// === impl RollbackCause ===

impl RollbackCause {
    /// As a release has it, with the number of the one that was rolled back.
    pub fn write(&self, release: u64) -> Json {
        json!({"release": release, "zone": self.zone, "reason": self.reason})
    }

    /// Of what was written.
    pub fn read(written: &Json) -> Option<(u64, Self)> {
        let cause = Self {
            zone: written["zone"].as_str().map(str::to_owned),
            reason: written["reason"].as_str()?.to_owned(),
        };
        Some((written["release"].as_u64()?, cause))
    }
}

// === impl ZoneFacts ===

impl ZoneFacts {
    fn zone(&self) -> Zone<'_> {
        let report = self.report.as_ref().map(|report| ZoneReport {
            at: report.at,
            state: report.state.state(),
        });
        Zone {
            name: &self.name,
            object: &self.object,
            link: self.link,
            diverged: false,
            holds: self.holds,
            hold: self.hold,
            released_at: self.released_at,
            report,
        }
    }
}

// === impl Fared ===

impl Fared {
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Rejected(_) | Self::Failed(_) => true,
            Self::Delivering(_)
            | Self::Refused(_)
            | Self::Waiting(_)
            | Self::NoEvidence(_)
            | Self::Ready { .. } => false,
        }
    }

    /// Whether nothing more is to come of it.
    pub fn is_settled(&self) -> bool {
        match self {
            Self::Ready { .. } | Self::NoEvidence(_) | Self::Refused(_) => true,
            Self::Delivering(_) | Self::Rejected(_) | Self::Waiting(_) | Self::Failed(_) => false,
        }
    }

    /// The same, of a failure that may be over in a moment.
    #[must_use]
    pub fn for_now(self) -> Self {
        match self {
            Self::Rejected(reason) => Self::Delivering(reason),
            Self::Failed(reason) => Self::Waiting(reason),
            Self::Delivering(_)
            | Self::Refused(_)
            | Self::Waiting(_)
            | Self::NoEvidence(_)
            | Self::Ready { .. } => self,
        }
    }

    fn state(&self) -> State<'_> {
        match self {
            Self::Delivering(reason) => State::Delivering { reason },
            Self::Rejected(reason) => State::Rejected { reason },
            Self::Refused(reason) => State::Refused { reason },
            Self::Waiting(reason) => State::Waiting { reason },
            Self::Failed(reason) => State::Failed { reason },
            Self::NoEvidence(reason) => State::NoEvidence { reason },
            Self::Ready { since } => State::Ready { since: *since },
        }
    }
}
