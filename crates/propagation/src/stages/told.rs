//! What is said of a stage: how far it is, and what it waits for.

use std::fmt;

use deltaplane_expr::Timestamp;
use serde_json::{Value as Json, json};

use crate::rollout::Counts;
use crate::verdict::Verdict;

/// The reason of a stage in which more zones failed than may.
pub(super) const TOO_MANY_FAILURES: &str = "TooManyFailures";

/// How a stage stands, once what was decided is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTold {
    pub name: String,
    /// The release that its zones move to.
    pub release: Option<u64>,
    pub completed: Option<u64>,
    pub counts: Counted,
    /// What it waits for, what matters most first.
    pub waiting: Vec<Waiting>,
}

/// How many zones of a stage stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub moving: Counts,
    /// Away for so long that nobody waits for them.
    pub deferred: usize,
    /// Away for now.
    pub offline: usize,
    /// Sent nothing, because they followed a state that the hub lost.
    pub diverged: usize,
    /// At a later release than the stage, because they came from another one.
    pub ahead: usize,
    /// With something of their own in place of what was released.
    pub refused: usize,
}

/// Why something is not further. Each is said with what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing was released yet, or nothing that passed the stage before.
    Release {
        after: Option<String>,
    },
    Paused {
        what: String,
    },
    Approval {
        release: u64,
        refused: Option<Refusal>,
    },
    /// A release takes away more than it may without approval.
    Deletions {
        release: u64,
        /// Nothing if that is not known.
        removes: Option<u64>,
        may: u64,
    },
    /// A newer release waits until the stage is done with this one.
    Queued {
        release: u64,
        behind: u64,
    },
    /// Too many failed.
    Failed {
        release: u64,
        failed: usize,
        may: usize,
    },
    /// A release failed, and is not rolled back because a newer one comes in its place.
    Newer {
        release: u64,
        newer: u64,
    },
    /// Why a zone failed.
    Zone {
        zone: String,
        reason: String,
        failed: bool,
    },
    /// Why a zone does not take something. Nobody waits for that.
    Refused {
        zone: String,
        reason: String,
    },
    Gate {
        zone: String,
        verdict: Verdict,
    },
    Offline {
        zone: String,
        since: Timestamp,
    },
    /// The zone followed a later state of the hub than the hub has.
    Diverged {
        zone: String,
    },
    Held {
        zone: String,
    },
    /// Nothing shows that the release works.
    NoEvidence {
        reason: String,
    },
    Soak {
        until: Timestamp,
    },
}

/// Why somebody's approval does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Author(String),
    /// It is not known who authored what is to be approved.
    Unknown,
}

// === impl StageTold ===

impl StageTold {
    /// As the status of a policy has it.
    pub fn write(&self) -> Json {
        let waiting = self.waiting.iter().map(Waiting::write);
        json!({
            "name": self.name,
            "release": self.release,
            "completed": self.completed,
            "zones": self.counts.write(),
            "waiting": waiting.collect::<Vec<_>>(),
        })
    }

    /// The same with no more than so much of what it waits for, and that in few words: for where it
    /// is stored. All of it is told on demand.
    pub fn write_brief(&self, most: usize) -> Json {
        let waiting = self.waiting.iter().take(most);
        let waiting = waiting.map(|one| {
            let mut written = one.write();
            written["message"] = cut(&one.to_string(), MESSAGE).into();
            written
        });
        let mut written = self.write();
        written["waiting"] = waiting.collect();
        written
    }
}

/// So many bytes of what a stage waits for are stored.
const MESSAGE: usize = 300;

/// The beginning of a text, of so many bytes.
pub fn cut(text: &str, most: usize) -> String {
    match text.len() > most {
        true => format!("{}…", &text[..text.floor_char_boundary(most)]),
        false => text.to_owned(),
    }
}

// === impl Counted ===

impl Counted {
    /// Those that are not nought, and the total.
    pub fn write(&self) -> Json {
        let moving = &self.moving;
        let all = [
            ("total", moving.total),
            ("current", moving.current),
            ("updating", moving.updating),
            ("failed", moving.failed),
            ("pending", moving.pending),
            ("held", moving.held),
            ("starting", moving.starting),
            ("deferred", self.deferred),
            ("offline", self.offline),
            ("diverged", self.diverged),
            ("ahead", self.ahead),
            ("refused", self.refused),
        ];
        let shown = all
            .into_iter()
            .filter(|(name, count)| *count > 0 || *name == "total");
        let shown = shown.map(|(name, count)| (name.to_owned(), count.into()));
        Json::Object(shown.collect())
    }
}

// === impl Waiting ===

impl Waiting {
    fn write(&self) -> Json {
        let mut written = json!({"reason": self.reason(), "message": self.to_string()});
        if let Some(release) = self.release() {
            written["release"] = release.into();
        }
        written
    }

    /// The release that it is about, if it is not the one that the stage moves to anyway.
    fn release(&self) -> Option<u64> {
        match self {
            Self::Approval { release, .. }
            | Self::Deletions { release, .. }
            | Self::Queued { release, .. }
            | Self::Newer { release, .. }
            | Self::Failed { release, .. } => Some(*release),
            Self::Release { .. }
            | Self::Paused { .. }
            | Self::Zone { .. }
            | Self::Refused { .. }
            | Self::Gate { .. }
            | Self::Offline { .. }
            | Self::Diverged { .. }
            | Self::Held { .. }
            | Self::NoEvidence { .. }
            | Self::Soak { .. } => None,
        }
    }

    /// For conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Release { .. } => "NothingReleased",
            Self::Paused { .. } => "Paused",
            Self::Approval { .. } => "ApprovalRequired",
            Self::Deletions { .. } => "DeletionBudgetExceeded",
            Self::Queued { .. } => "Queued",
            Self::Failed { .. } => TOO_MANY_FAILURES,
            Self::Newer { .. } => "NewerOnItsWay",
            Self::Zone { failed: true, .. } => "ZoneFailed",
            Self::Zone { failed: false, .. } => "ZoneNotReady",
            Self::Refused { .. } => "ZoneRefuses",
            Self::Gate { verdict, .. } => verdict.reason(),
            Self::Offline { .. } => "ZoneOffline",
            Self::Diverged { .. } => "ZoneDiverged",
            Self::Held { .. } => "ZoneHeld",
            Self::NoEvidence { .. } => "NoEvidence",
            Self::Soak { .. } => "Soaking",
        }
    }
}

fn zones(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} zone{plural}")
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Release { after: None } => f.write_str("nothing was released yet"),
            Self::Release { after: Some(stage) } => {
                write!(f, "no release has completed stage {stage} yet")
            }
            Self::Paused { what } => write!(f, "{what} is paused"),
            Self::Approval { release, refused } => {
                write!(f, "release {release} needs approval")?;
                match refused {
                    Some(Refusal::Author(by)) => {
                        write!(f, " by somebody else than {by}, who authored it")
                    }
                    Some(Refusal::Unknown) => f.write_str(
                        " by somebody who did not author it, and it is not known who did: change it once more",
                    ),
                    None => Ok(()),
                }
            }
            Self::Deletions {
                release,
                removes: Some(removes),
                may,
            } => write!(
                f,
                "release {release} takes away {removes} objects, and {may} may go without approval"
            ),
            Self::Deletions { release, .. } => write!(
                f,
                "release {release} takes away a graph that is in use, or it is not known what it takes away: it needs approval"
            ),
            Self::Queued { release, behind } => {
                write!(
                    f,
                    "release {release} waits until the stage is done with {behind}"
                )
            }
            Self::Failed {
                release,
                failed,
                may,
            } if failed > may => write!(
                f,
                "release {release} failed in {}, and {may} may fail",
                zones(*failed)
            ),
            Self::Failed { release, .. } => write!(
                f,
                "release {release} had failed in too many zones: resume it, or release another"
            ),
            Self::Newer { release, newer } => write!(
                f,
                "release {release} is not rolled back: release {newer} comes in its place"
            ),
            Self::Zone { zone, reason, .. } | Self::Refused { zone, reason } => {
                write!(f, "{zone}: {reason}")
            }
            Self::Gate { zone, verdict } => write!(f, "{zone}: {}", verdict.sentence()),
            Self::Offline { zone, since } => write!(f, "{zone} is offline since {since}"),
            Self::Diverged { zone } => write!(
                f,
                "{zone} followed a state that the hub lost, and is sent nothing; settle it with: deltaplane zones reconcile {zone} --keep hub|zone"
            ),
            Self::Held { zone } => write!(f, "{zone} is held"),
            Self::NoEvidence { reason } => write!(f, "nothing shows that it works: {reason}"),
            Self::Soak { until } => write!(f, "soaking until {until}"),
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.moving)?;
        for (count, name) in [
            (self.deferred, "deferred"),
            (self.offline, "offline"),
            (self.diverged, "diverged"),
            (self.ahead, "ahead"),
            (self.refused, "refused"),
        ] {
            if count > 0 {
                write!(f, ", {count} {name}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for StageTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let release = self.release.map(|release| release.to_string());
        let release = release.as_deref().unwrap_or("-");
        write!(f, "{} at {release}: {}", self.name, self.counts)?;
        if let Some(completed) = self.completed {
            write!(f, "; completed {completed}")?;
        }
        self.waiting
            .iter()
            .try_for_each(|one| write!(f, "\n  {one}"))
    }
}
