//! The zones of a stage, as its gate judges them.

use deltaplane_expr::{Duration, Timestamp};

use super::compiled::Stage;
use super::record::{Admitted, Phase, Record, Target};
use super::situation::{Link, Release, State, Zone};
use super::spec::NoEvidence;
use crate::rollout::{Admission, Item, Report};
use crate::subject::Hold;

/// A release as a zone may have it: with the overrides that apply to it now, or with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) release: u64,
    pub(super) exact: bool,
}

/// A zone of a stage, and what is made of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) zone: Zone<'a>,
    pub(super) admitted: Option<Admitted>,
    pub(super) fares: Fares<'a>,
    /// When time alone may change that.
    pub(super) alarm: Option<Timestamp>,
}

/// How a zone fares with what it was admitted to, or why it is no business of the stage now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fares<'a> {
    /// It was not admitted to anything, or not to this release as it is.
    Behind,
    /// On its way.
    UnderWay {
        reason: &'a str,
    },
    NoEvidence {
        reason: &'a str,
    },
    Failed {
        reason: &'a str,
    },
    Ready {
        since: Timestamp,
    },
    /// Ready when it was last seen.
    WasReady,
    /// Away for now, and not where it should be.
    Offline {
        since: Timestamp,
    },
    /// Away for too long.
    Deferred,
    /// It has a later release.
    Ahead,
}

/// Why a zone failed that said nothing.
const LATE: &str = "not ready within the progress deadline";
const UNHEARD: &str = "nothing was heard of it yet";

// === impl Member ===

impl<'a> Member<'a> {
    pub(super) fn new(
        zone: Zone<'a>,
        stage: &Stage,
        (target, record): (Target, &Record),
        now: Timestamp,
    ) -> Self {
        let admitted = record.zones.get(zone.name).copied();
        let (fares, alarm) = fares(zone, stage, target, admitted, now);
        Self {
            zone,
            admitted,
            fares,
            alarm,
        }
    }

    /// As [`crate::rollout`] takes it. What failed and is tolerated has no place in flight.
    pub(super) fn item(&self, target: Target, tolerated: bool, halted: bool) -> Item<'a, At> {
        let at = |admitted: Admitted| At {
            release: admitted.target.release,
            exact: admitted.target == target || admitted.target.release != target.release,
        };
        let admission = match self.admitted {
            None => Admission::New,
            Some(one) => match one.phase {
                Phase::Deferred => Admission::Arrived(At {
                    exact: false,
                    ..at(one)
                }),
                // Not in flight: nobody waits for what is away, or has failed and may have.
                Phase::Admitted if tolerated => Admission::Started(at(one)),
                Phase::Arrived if tolerated || !self.is_connected() => Admission::Started(at(one)),
                Phase::Started => Admission::Started(at(one)),
                Phase::Admitted => Admission::Admitted(at(one)),
                Phase::Arrived => Admission::Arrived(at(one)),
            },
        };
        let report = match (self.fares, self.admitted) {
            (Fares::Ready { since }, Some(one)) => Report::Ready { at: at(one), since },
            (Fares::Failed { .. }, _) => Report::Failed,
            _ => Report::Unready,
        };
        let away = !self.is_connected();
        Item {
            key: self.zone.name,
            object: Some(self.zone.object),
            admission,
            report,
            hold: match halted || away {
                true => Hold::Held,
                false => self.zone.hold,
            },
            // Who is new is started by nobody's leave, so that it has to be left out here.
            deleting: self.fares == Fares::Ahead
                || (self.admitted.is_none() && (away || self.zone.hold == Hold::Held)),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(self.zone.link, Link::Connected { .. })
    }
}

fn fares<'a>(
    zone: Zone<'a>,
    stage: &Stage,
    target: Target,
    admitted: Option<Admitted>,
    now: Timestamp,
) -> (Fares<'a>, Option<Timestamp>) {
    let lost = match zone.link {
        Link::Connected { .. } => None,
        Link::Lost { since } => Some(since),
    };
    let Some(one) = admitted.filter(|one| one.phase != Phase::Deferred) else {
        return match lost {
            None => (Fares::Behind, None),
            Some(since) => away(since, since, stage.deadline, now),
        };
    };
    if one.target.release > target.release {
        return (Fares::Ahead, None);
    }
    match (one.phase, lost) {
        (Phase::Arrived, Some(_)) if one.target == target => (Fares::WasReady, None),
        // It keeps its place until the deadline.
        (_, Some(since)) => away(since, one.at.max(since), stage.deadline, now),
        (_, None) => connected(zone, stage, target, one, now),
    }
}

/// Of a zone that cannot be reached.
fn away<'a>(
    since: Timestamp,
    from: Timestamp,
    deadline: Duration,
    now: Timestamp,
) -> (Fares<'a>, Option<Timestamp>) {
    match from.plus(deadline) {
        Some(end) if end <= now => (Fares::Deferred, None),
        end => (Fares::Offline { since }, end),
    }
}

fn connected<'a>(
    zone: Zone<'a>,
    stage: &Stage,
    target: Target,
    one: Admitted,
    now: Timestamp,
) -> (Fares<'a>, Option<Timestamp>) {
    let report = zone.report.filter(|report| report.at == one.target);
    let reason = match report.map(|report| report.state) {
        Some(State::Ready { since }) => return (Fares::Ready { since }, None),
        Some(State::NoEvidence { reason }) => {
            return match stage.no_evidence {
                NoEvidence::Proceed => (Fares::Ready { since: one.at }, None),
                NoEvidence::Hold => (Fares::NoEvidence { reason }, None),
            };
        }
        Some(State::Rejected { reason } | State::Failed { reason }) => {
            return (Fares::Failed { reason }, None);
        }
        Some(State::Delivering { reason } | State::Waiting { reason }) => reason,
        None => UNHEARD,
    };
    if one.target != target {
        return (Fares::UnderWay { reason }, None);
    }
    let since = match zone.link {
        Link::Connected { since } => since.max(one.at),
        Link::Lost { since } => since,
    };
    match since.plus(stage.deadline) {
        Some(end) if end <= now => {
            let reason = if reason == UNHEARD { LATE } else { reason };
            (Fares::Failed { reason }, None)
        }
        end => (Fares::UnderWay { reason }, end),
    }
}

/// What a zone is to have when it is let into a release.
pub(super) fn target(release: &Release, zone: &Zone<'_>) -> Target {
    Target {
        release: release.number,
        class: release.class(zone.object),
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.release)
    }
}
