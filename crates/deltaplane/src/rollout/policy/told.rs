//! How far a policy is, as the hub says it. Pure.

use serde::Deserialize;
use serde_json::Value;

use super::PolicyError;

/// All of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    pub(crate) policy: String,
    pub(super) as_of: String,
    /// The newest.
    pub(super) release: Option<u64>,
    #[serde(default)]
    pub(super) paused: bool,
    pub(super) propagated: bool,
    pub(super) reason: String,
    pub(super) message: String,
    /// Whether all that is decided is written down.
    pub(super) settled: bool,
    #[serde(default)]
    pub(super) current: u64,
    #[serde(default)]
    pub(super) total: u64,
    pub(super) stages: Vec<Stage>,
    pub(super) releases: Vec<Release>,
    #[serde(default)]
    pub(super) evidence: Vec<Evidence>,
    #[serde(default)]
    pub(super) approvals: Vec<Approval>,
    #[serde(default)]
    pub(super) problems: Vec<String>,
    /// When time alone may change it.
    #[serde(default)]
    pub(super) next: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stage {
    pub(super) name: String,
    /// What its zones move to.
    pub(super) release: Option<u64>,
    pub(super) completed: Option<u64>,
    pub(super) zones: Counts,
    pub(super) waiting: Vec<Waiting>,
    #[serde(default)]
    pub(super) members: Vec<Member>,
    #[serde(default)]
    pub(super) paused: bool,
    /// Whether somebody has to approve; an older hub does not say.
    #[serde(default)]
    pub(super) approval: Option<String>,
    /// Those whose approval does not count, because they authored the release that waits for one.
    #[serde(default)]
    pub(super) excluded_approvers: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Counts {
    pub(super) total: u64,
    pub(super) current: u64,
    pub(super) updating: u64,
    pub(super) failed: u64,
    pub(super) pending: u64,
    pub(super) held: u64,
    pub(super) starting: u64,
    pub(super) deferred: u64,
    pub(super) offline: u64,
    pub(super) diverged: u64,
    pub(super) ahead: u64,
    pub(super) refused: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Waiting {
    pub(super) reason: String,
    pub(super) message: String,
    #[serde(default)]
    pub(super) release: Option<u64>,
}

/// A zone of a stage.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Member {
    pub(super) zone: String,
    pub(super) state: String,
    pub(super) release: Option<u64>,
    #[serde(default)]
    pub(super) overrides: Option<Vec<usize>>,
    #[serde(default)]
    pub(super) phase: Option<String>,
    #[serde(default)]
    pub(super) reason: String,
    #[serde(default)]
    pub(super) since: Option<String>,
    #[serde(default)]
    pub(super) link: Option<Link>,
    #[serde(default)]
    pub(super) held: bool,
    #[serde(default)]
    pub(super) held_until: Option<String>,
    #[serde(default)]
    pub(super) report: Option<Report>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Link {
    pub(super) connected: bool,
    pub(super) since: String,
}

/// What a zone says of what it was admitted to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Report {
    /// Nothing as long as nothing was heard of it.
    #[serde(default)]
    pub(super) at: Option<String>,
    pub(super) state: String,
    #[serde(default)]
    pub(super) reason: String,
    #[serde(default)]
    pub(super) since: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Release {
    pub(super) release: u64,
    #[serde(default)]
    pub(super) digest: Option<String>,
    #[serde(default)]
    pub(super) restores: Option<u64>,
    /// The release that brought back something older in its place.
    #[serde(default)]
    pub(super) rolled_back_by: Option<u64>,
    #[serde(default)]
    pub(super) authors: Vec<String>,
    /// Those of them who wrote what is new; an older hub does not say.
    #[serde(default)]
    pub(super) writers: Option<Vec<String>>,
    #[serde(default)]
    pub(super) created_at: Option<String>,
    #[serde(default)]
    pub(super) changes: Option<Changes>,
    /// The divergence that it settles, if it was made for that.
    #[serde(default)]
    pub(super) settles: Option<Settles>,
    #[serde(default)]
    pub(super) objects: Option<u64>,
    /// The stages that completed it, as far as that is kept.
    #[serde(default)]
    pub(super) passed: Vec<String>,
    #[serde(default)]
    pub(super) failed: Vec<String>,
    pub(super) zones: Zones,
}

/// Zones that had followed a state which the hub lost.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Settles {
    pub(super) zones: Vec<SettledZone>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct SettledZone {
    pub(super) zone: String,
    /// How many objects of the policy differed there.
    pub(super) objects: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Changes {
    pub(super) added: u64,
    pub(super) changed: u64,
    pub(super) removed: u64,
    /// Objects that leave the policy when every stage has completed the release.
    pub(super) departing: u64,
    pub(super) overrides: bool,
}

/// How many, and which, in few words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Zones {
    pub(crate) count: u64,
    pub(crate) names: String,
}

/// Why something moved on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Evidence {
    pub(super) at: String,
    pub(super) stage: String,
    pub(super) release: u64,
    pub(super) advance: String,
    pub(super) zones: String,
    pub(super) more: u64,
    pub(super) because: String,
    pub(super) digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Approval {
    pub(super) stage: Option<String>,
    pub(super) release: u64,
    pub(super) by: String,
    /// Whether it counts; an older hub does not say.
    #[serde(default)]
    pub(super) counts: Option<bool>,
}

/// The whole, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Complete,
    Moving,
    /// For somebody to agree.
    Waiting,
    Paused,
    /// Too many failed, or it cannot be released at all.
    Stopped,
    /// Zones have what was before, and the hub what was rolled back.
    RolledBack,
    /// Zones followed a state that the hub lost, and somebody has to settle which side is right.
    Diverged,
}

/// What became of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is on its way, or something holds it.
    Open,
    /// All stages completed it, or a later one.
    Complete,
    /// By this release, which brought back something older.
    RolledBack(u64),
}

// === impl Told ===

impl Told {
    pub(super) fn read(answer: &Value) -> Result<Self, PolicyError> {
        Self::deserialize(answer).map_err(|error| PolicyError::Unreadable(Some(error)))
    }

    pub(super) fn state(&self) -> State {
        let failed = |stage: &Stage| stage.waits("TooManyFailures").is_some();
        match self.reason.as_str() {
            _ if self.propagated => State::Complete,
            "RolledBack" => State::RolledBack,
            "Paused" => State::Paused,
            "Diverged" => State::Diverged,
            "ApprovalRequired" | "DeletionBudgetExceeded" => State::Waiting,
            "Invalid" => State::Stopped,
            // Nobody is left who could show that it works.
            "NoEvidence" if self.stages.iter().any(Stage::is_lost) => State::Stopped,
            "NotReleased" if !self.problems.is_empty() => State::Stopped,
            _ if self.stages.iter().any(failed) => State::Stopped,
            _ => State::Moving,
        }
    }

    /// Whether nothing is left to wait for.
    pub(super) fn is_over(&self) -> bool {
        self.settled && matches!(self.state(), State::Complete | State::RolledBack)
    }

    /// The release that is watched: the one that is named, or the newest once what is at the hub
    /// was released.
    pub(super) fn watched(&self, named: Option<u64>) -> Result<Option<u64>, PolicyError> {
        if let Some(named) = named {
            return Ok(Some(self.find_release(named)?.release));
        }
        let is_pending = matches!(self.reason.as_str(), "NotReleased" | "NothingReleased");
        Ok(self.release.filter(|_| !is_pending))
    }

    /// What became of a release.
    pub(super) fn fate(&self, release: u64) -> Fate {
        let mut releases = self.releases.iter();
        let found = releases.find(|one| one.release == release);
        if let Some(by) = found.and_then(|one| one.rolled_back_by) {
            return Fate::RolledBack(by);
        }
        let is_newest = self.release == Some(release);
        let passed = |stage: &Stage| stage.completed.is_some_and(|one| one >= release);
        let is_passed = !self.stages.is_empty() && self.stages.iter().all(passed);
        match self.is_over() || (!is_newest && is_passed && self.settled) {
            true => Fate::Complete,
            false => Fate::Open,
        }
    }

    /// `moving: 1 of 3 zones at release 2`.
    pub(super) fn headline(&self) -> String {
        let word = self.state().word();
        let Self { current, total, .. } = self;
        match self.release {
            None => format!("{word}: nothing was released yet"),
            Some(release) => format!("{word}: {current} of {total} zones at release {release}"),
        }
    }

    pub(super) fn stage(&self, name: &str) -> Result<&Stage, PolicyError> {
        let missing = || PolicyError::NoStage {
            policy: self.policy.clone(),
            stage: name.to_owned(),
            known: self.stages.iter().map(|stage| stage.name.clone()).collect(),
        };
        let mut stages = self.stages.iter();
        stages.find(|stage| stage.name == name).ok_or_else(missing)
    }

    pub(super) fn find_release(&self, number: u64) -> Result<&Release, PolicyError> {
        let missing = || PolicyError::NoRelease {
            policy: self.policy.clone(),
            number,
            known: self.releases.iter().map(|one| one.release).collect(),
        };
        let mut releases = self.releases.iter();
        releases
            .find(|one| one.release == number)
            .ok_or_else(missing)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&Stage, &Member)> {
        let stages = self.stages.iter();
        stages.flat_map(|stage| stage.members.iter().map(move |member| (stage, member)))
    }

    /// The newest release of what people wrote, and not of what was brought back.
    pub(super) fn authored(&self) -> Option<u64> {
        let mut releases = self.releases.iter().rev();
        let release = releases.find(|one| one.restores.is_none())?;
        Some(release.release)
    }

    /// The release that is brought back when none is named: the newest with another content that
    /// all stages completed.
    pub(super) fn previous(&self) -> Option<&Release> {
        let newest = self.release?;
        let last = self.stages.last()?;
        let newest = self.find_release(newest).ok()?;
        let content = newest.digest.as_ref();
        // What somebody went back from already is not gone back to, but for who names it.
        let before = newest.restores.unwrap_or(newest.release);
        let older = self.releases.iter().rev();
        let mut older = older.filter(|one| one.release < before && one.failed.is_empty());
        // What passed the last stage passed all; and going back to the same is not going back.
        older.find(|one| {
            let passed = one.passed.contains(&last.name) || last.completed == Some(one.release);
            passed && one.digest.as_ref() != content
        })
    }
}

// === impl Stage ===

impl Stage {
    /// Whether all of its zones that were let in failed.
    fn is_lost(&self) -> bool {
        let Counts {
            failed,
            current,
            updating,
            ..
        } = self.zones;
        failed > 0 && current + updating == 0 && self.waits("NoEvidence").is_some()
    }

    /// What it waits for, of a sort.
    pub(super) fn waits(&self, reason: &str) -> Option<&Waiting> {
        self.waiting.iter().find(|one| one.reason == reason)
    }
}

// === impl Counts ===

impl Counts {
    /// Those that are not nought, with their words.
    pub(super) fn words(self) -> String {
        let all = [
            (self.current, "current"),
            (self.updating, "updating"),
            (self.failed, "failed"),
            (self.refused, "refused"),
            (self.starting, "starting"),
            (self.offline, "offline"),
            (self.diverged, "diverged"),
            (self.pending, "pending"),
            (self.held, "held"),
            (self.deferred, "deferred"),
            (self.ahead, "ahead"),
        ];
        let some = all.into_iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = some
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        words.join(", ")
    }
}

// === impl State ===

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Moving => "moving",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::RolledBack => "rolled back",
            Self::Diverged => "diverged",
        }
    }
}
