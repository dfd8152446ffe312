//! How each zone stands towards what its stage moves to: for people, and to be counted.

use deltaplane_expr::Timestamp;

use super::compiled::{Policy, Stage};
use super::members::{Fares, Known, Member};
use super::record::{Admitted, Phase, Record};
use super::situation::{Link, Release, Situation, Zone, find, labels};
use crate::subject::Hold;

/// How a zone stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It failed at what the stage moves to.
    Failed,
    /// It keeps something of its own in place of what was released.
    Refused,
    Updating,
    /// It joined, and is not ready at what it began with.
    Starting,
    Offline,
    /// It followed a later state of the hub than the hub has: nothing is sent to it.
    Diverged,
    Pending,
    Held,
    /// Away for so long that nobody waits for it.
    Deferred,
    /// At a later release than its stage.
    Ahead,
    /// Ready at what the stage moves to.
    Current,
}

/// A zone, and what there is to say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneTold<'a> {
    pub zone: &'a str,
    /// Nothing if no stage is for it.
    pub stage: Option<&'a str>,
    pub admitted: Option<Admitted>,
    pub standing: Standing,
    /// What it says itself, if it is not ready.
    pub reason: &'a str,
    /// Since when it is so, if that is known.
    pub since: Option<Timestamp>,
}

const DISABLED: &str = "it is disabled";
const DIVERGED: &str = "settle it with: deltaplane zones reconcile";

/// How all zones stand towards what is recorded: of a decision, give the record that it made.
pub fn zones<'a>(policy: &'a Policy, situation: Situation<'a>) -> Vec<ZoneTold<'a>> {
    let told = situation.zones.iter().map(|zone| {
        let stage = policy.stage_of(zone.object);
        let stage = stage.map(|place| &policy.stages[place]);
        let taken = stage.and_then(|stage| taken(stage, &situation));
        match (stage, taken) {
            (Some(stage), Some(release)) => moving(*zone, (stage, release), &situation),
            (stage, _) => resting(*zone, stage, situation.record),
        }
    });
    let mut told: Vec<_> = told.collect();
    told.sort_by_key(|one| one.zone);
    told
}

/// The release that the zones of a stage move to.
fn taken<'a>(stage: &Stage, situation: &Situation<'a>) -> Option<&'a Release> {
    let number = situation.record.stages.get(&stage.name)?.taken?.release;
    find(situation.releases, number)
}

fn moving<'a>(
    zone: Zone<'a>,
    (stage, release): (&'a Stage, &Release),
    situation: &Situation<'a>,
) -> ZoneTold<'a> {
    let known = Known {
        zone,
        labels: labels(zone.object),
        admitted: situation.record.zones.get(zone.name).copied(),
    };
    let progress = situation.record.stages.get(&stage.name);
    let completed = progress.and_then(|progress| progress.completed);
    let done = completed.is_some_and(|mark| mark.release >= release.number);
    let member = Member::new((0, &known), (stage, release, done), situation.now);
    let (_, since, reason) = member.fares.parts();
    let reason = zone.absence().unwrap_or(reason);
    ZoneTold {
        zone: zone.name,
        stage: Some(&stage.name),
        admitted: member.admitted,
        standing: member.standing(),
        reason,
        since: since.or_else(|| match member.fares {
            Fares::Away => lost(zone.link),
            Fares::Behind
            | Fares::UnderWay { .. }
            | Fares::Relapsed { .. }
            | Fares::NoEvidence { .. }
            | Fares::Failed { .. }
            | Fares::Refused { .. }
            | Fares::Ready { .. }
            | Fares::Offline { .. }
            | Fares::Ahead => member.admitted.map(|one| one.at),
        }),
    }
}

/// A zone whose stage moves nowhere.
fn resting<'a>(zone: Zone<'a>, stage: Option<&'a Stage>, record: &Record) -> ZoneTold<'a> {
    let lost = lost(zone.link);
    let standing = match (lost, zone.hold) {
        (Some(_), _) if zone.diverged => Standing::Diverged,
        (Some(_), _) => Standing::Offline,
        (None, Hold::Held) => Standing::Held,
        (None, Hold::Free) => Standing::Pending,
    };
    ZoneTold {
        zone: zone.name,
        stage: stage.map(|stage| stage.name.as_str()),
        admitted: record.zones.get(zone.name).copied(),
        standing,
        reason: zone.absence().unwrap_or_default(),
        since: lost,
    }
}

fn lost(link: Link) -> Option<Timestamp> {
    match link {
        Link::Connected { .. } | Link::Never => None,
        Link::Lost { since } => Some(since),
    }
}

// === impl Zone ===

impl Zone<'_> {
    /// Returns why nothing is sent to the zone, other than that it is offline.
    fn absence(&self) -> Option<&'static str> {
        if self.is_disabled() {
            Some(DISABLED)
        } else {
            self.diverged.then_some(DIVERGED)
        }
    }
}

// === impl Standing ===

impl Standing {
    /// For people and programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Updating => "updating",
            Self::Starting => "starting",
            Self::Offline => "offline",
            Self::Diverged => "diverged",
            Self::Pending => "pending",
            Self::Held => "held",
            Self::Deferred => "deferred",
            Self::Ahead => "ahead",
            Self::Current => "current",
        }
    }
}

// === impl Member ===

impl Member<'_> {
    /// Each stands in one way.
    pub(super) fn standing(&self) -> Standing {
        let began = self.admitted.map(|one| one.phase) == Some(Phase::Started);
        match (self.fares, self.is_there()) {
            (Fares::Offline { .. } | Fares::Away, _) if self.zone.diverged => Standing::Diverged,
            (Fares::Ahead, _) => Standing::Ahead,
            (Fares::Away, _) => Standing::Deferred,
            (Fares::Offline { .. }, _) => Standing::Offline,
            (Fares::Ready { .. }, true) => Standing::Current,
            (Fares::Failed { .. }, true) => Standing::Failed,
            (Fares::Refused { .. }, true) => Standing::Refused,
            (_, true) if began => Standing::Starting,
            (_, true) => Standing::Updating,
            (_, false) if self.zone.hold == Hold::Held => Standing::Held,
            (Fares::UnderWay { .. } | Fares::NoEvidence { .. }, false) if self.is_on_its_way() => {
                Standing::Updating
            }
            (_, false) => Standing::Pending,
        }
    }
}
