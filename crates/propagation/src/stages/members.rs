//! The zones of a stage, as its gate judges them.

use deltaplane_expr::Timestamp;

use super::compiled::Stage;
use super::record::{Admitted, Phase, Target};
use super::situation::{Labels, Link, Release, State, Zone};
use super::spec::NoEvidence;
use crate::board::earlier;
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
    /// Where it is among all zones.
    pub(super) place: usize,
    pub(super) zone: Zone<'a>,
    pub(super) labels: Labels<'a>,
    /// What it is to have once its gate lets it.
    pub(super) target: Target,
    pub(super) admitted: Option<Admitted>,
    pub(super) fares: Fares<'a>,
    /// When time alone may change that.
    pub(super) alarm: Option<Timestamp>,
    /// Whether it is away, and had as long as anybody has to become ready.
    pub(super) expired: bool,
    /// Whether its stage has completed the release.
    pub(super) done: bool,
}

/// A zone, and what was decided of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) zone: Zone<'a>,
    pub(super) labels: Labels<'a>,
    pub(super) admitted: Option<Admitted>,
}

/// How a zone fares with what it was admitted to, or why it is no business of the stage now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fares<'a> {
    /// It was not admitted to anything, or has to be admitted again.
    Behind,
    /// On its way.
    UnderWay {
        reason: &'a str,
    },
    /// It was ready, and says that it is not any more.
    Relapsed {
        reason: &'a str,
    },
    NoEvidence {
        reason: &'a str,
    },
    Failed {
        reason: &'a str,
    },
    /// It keeps something of its own instead: nobody waits for it, and it is nobody's failure.
    Refused {
        reason: &'a str,
    },
    Ready {
        since: Timestamp,
    },
    /// Away for now. Whether it is ready is not known, even if it was.
    Offline {
        since: Timestamp,
    },
    /// Away for longer than the deadline: nobody waits for it.
    Away,
    /// It has a later release.
    Ahead,
}

/// Why a zone failed that said nothing.
const LATE: &str = "not ready within the progress deadline";
const FAILED: &str = "it failed, and was not ready since";
const UNHEARD: &str = "nothing was heard of it yet";

// === impl Member ===

impl<'a> Member<'a> {
    pub(super) fn new(
        (place, known): (usize, &Known<'a>),
        (stage, release, done): (&Stage, &Release, bool),
        now: Timestamp,
    ) -> Self {
        let mut member = Self {
            place,
            zone: known.zone,
            labels: known.labels,
            target: target(release, known.labels),
            admitted: known.admitted,
            fares: Fares::Behind,
            alarm: None,
            expired: false,
            done,
        };
        (member.fares, member.alarm) = member.judge(stage, now);
        let last = member.last_moment(stage).filter(|_| !member.is_connected());
        match last {
            Some(last) if last <= now => member.expired = true,
            last => member.alarm = earlier(member.alarm, last),
        }
        member
    }

    fn judge(&self, stage: &Stage, now: Timestamp) -> (Fares<'a>, Option<Timestamp>) {
        if let Some(one) = self.admitted
            && one.target.release > self.target.release
        {
            return (Fares::Ahead, None);
        }
        match (self.zone.link, self.kept()) {
            // Nobody waits for who was deferred before, though that is asked anew, or for whom
            // somebody took out of service.
            (Link::Lost { .. }, _) if self.is_deferred() || self.zone.is_disabled() => {
                (Fares::Away, None)
            }
            // It keeps its place until the deadline.
            (Link::Lost { since }, _) => match since.plus(stage.deadline) {
                Some(end) if end <= now => (Fares::Away, None),
                end => (Fares::Offline { since }, end),
            },
            (Link::Never, _) => (Fares::Away, None),
            (Link::Connected { .. }, None) => (Fares::Behind, None),
            (Link::Connected { since }, Some(one)) => self.connected(stage, (since, one), now),
        }
    }

    fn connected(
        &self,
        stage: &Stage,
        (since, one): (Timestamp, Admitted),
        now: Timestamp,
    ) -> (Fares<'a>, Option<Timestamp>) {
        // What it says of anything else says nothing of this.
        let report = self.zone.report.filter(|report| report.at == one.target);
        let (reason, spoken) = match report.map(|report| report.state) {
            Some(State::Ready { since }) => return (Fares::Ready { since }, None),
            Some(State::NoEvidence { reason }) => {
                return match stage.no_evidence {
                    // It counts as ready from when that is seen.
                    NoEvidence::Proceed => {
                        let since = match one.phase {
                            Phase::Admitted | Phase::Failed => now,
                            Phase::Started | Phase::Arrived | Phase::Deferred => one.at,
                        };
                        (Fares::Ready { since }, None)
                    }
                    NoEvidence::Hold if one.phase == Phase::Failed => {
                        (Fares::Failed { reason }, None)
                    }
                    NoEvidence::Hold => (Fares::NoEvidence { reason }, None),
                };
            }
            Some(State::Rejected { reason } | State::Failed { reason }) => {
                return (Fares::Failed { reason }, None);
            }
            Some(State::Refused { reason }) => return (Fares::Refused { reason }, None),
            Some(State::Delivering { reason } | State::Waiting { reason }) => (reason, true),
            None => (UNHEARD, false),
        };
        if one.phase == Phase::Failed {
            let reason = if spoken { reason } else { FAILED };
            return (Fares::Failed { reason }, None);
        }
        if one.phase == Phase::Arrived && (spoken || one.target != self.target) {
            return (Fares::Relapsed { reason }, None);
        }
        // Who came back has as long as before, and no longer than twice that in all: otherwise who
        // comes and goes would keep its place for ever.
        let end = since.max(one.at).plus(stage.deadline);
        let end = self.last_moment(stage).into_iter().chain(end).min();
        match end {
            Some(end) if end <= now => {
                let reason = if spoken { reason } else { LATE };
                (Fares::Failed { reason }, None)
            }
            end => (Fares::UnderWay { reason }, end),
        }
    }

    /// When whoever is on its way has failed, or has lost its place if it is away.
    fn last_moment(&self, stage: &Stage) -> Option<Timestamp> {
        let one = self.admitted.filter(|_| self.is_on_its_way())?;
        one.at.plus(stage.deadline)?.plus(stage.deadline)
    }

    /// As [`crate::rollout`] takes it.
    pub(super) fn item(&self, halted: bool) -> Item<'a, At> {
        let away = !self.is_connected();
        let hold = match halted || away {
            true => Hold::Held,
            false => self.zone.hold,
        };
        // Who is new is started by nobody's leave, so that it has to be left out here.
        let waits = self.admitted.is_none() && (away || self.zone.hold == Hold::Held);
        Item {
            key: self.zone.name,
            object: Some(self.zone.object),
            admission: self.admission(),
            report: match (self.fares, self.at()) {
                (Fares::Ready { since }, Some(at)) => Report::Ready { at, since },
                (Fares::Failed { .. }, _) => Report::Failed,
                _ => Report::Unready,
            },
            hold,
            deleting: self.fares == Fares::Ahead || waits,
        }
    }

    /// What failed is counted against what may fail, and has no place in flight; nor has who keeps
    /// something of its own, or was ready when it was last seen, or when its stage completed.
    fn admission(&self) -> Admission<At> {
        let (Some(one), Some(at)) = (self.admitted, self.at()) else {
            return Admission::New;
        };
        let is_failed = matches!(self.fares, Fares::Failed { .. });
        let relapsed = self.done && matches!(self.fares, Fares::Relapsed { .. });
        match one.phase {
            Phase::Deferred => Admission::Arrived(At { exact: false, ..at }),
            _ if matches!(self.fares, Fares::Refused { .. }) => Admission::Started(at),
            Phase::Started => Admission::Started(at),
            Phase::Failed => Admission::SetAside(at),
            Phase::Admitted if is_failed => Admission::SetAside(at),
            Phase::Admitted => Admission::Admitted(at),
            Phase::Arrived if is_failed && self.is_there() => Admission::SetAside(at),
            Phase::Arrived if !self.is_connected() || relapsed => Admission::Started(at),
            Phase::Arrived => Admission::Arrived(at),
        }
    }

    fn at(&self) -> Option<At> {
        let one = self.admitted?.target;
        Some(At {
            release: one.release,
            exact: one == self.target || one.release != self.target.release,
        })
    }

    /// What it was admitted to, if it has not lost its place.
    fn kept(&self) -> Option<Admitted> {
        self.admitted.filter(|one| one.phase != Phase::Deferred)
    }

    fn is_deferred(&self) -> bool {
        self.admitted
            .is_some_and(|one| one.phase == Phase::Deferred)
    }

    /// Whether it was admitted to the release exactly as it is for it now.
    pub(super) fn is_there(&self) -> bool {
        self.kept().is_some_and(|one| one.target == self.target)
    }

    /// Whether it was let in somewhere and is not known to have arrived.
    pub(super) fn is_on_its_way(&self) -> bool {
        self.admitted
            .is_some_and(|one| one.phase == Phase::Admitted)
    }

    /// Whether it is to be written down that it failed: it had a place. Of what its stage has
    /// completed it is only asked how it is now.
    pub(super) fn gives_up(&self, done: bool) -> bool {
        match self.admitted.map(|one| one.phase) {
            Some(Phase::Admitted) => true,
            Some(Phase::Arrived) => self.is_there() && !done,
            Some(Phase::Started | Phase::Deferred | Phase::Failed) | None => false,
        }
    }

    /// Whether it failed before, and is ready now.
    pub(super) fn has_recovered(&self) -> bool {
        let failed = self.admitted.is_some_and(|one| one.phase == Phase::Failed);
        failed && matches!(self.fares, Fares::Ready { .. })
    }

    /// Whether it failed at the release.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.fares, Fares::Failed { .. }) && self.is_there()
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(self.zone.link, Link::Connected { .. })
    }
}

/// What a zone is to have when it is let into a release.
pub(super) fn target(release: &Release, labels: Labels<'_>) -> Target {
    Target {
        release: release.number,
        class: release.class_of(labels),
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.release)
    }
}
