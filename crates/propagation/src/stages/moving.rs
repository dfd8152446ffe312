//! A stage that has a release to move to: how its zones stand, and what is said of them.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use deltaplane_expr::Timestamp;
use sha2::{Digest, Sha256};

use super::compiled::Stage;
use super::members::{At, Fares, Member};
use super::sets;
use super::situation::Release;
use super::standing::Standing;
use super::told::{Counted, Waiting};
use crate::rollout::Decision;
use crate::subject::Hold;

/// A stage that has a release to move to.
#[derive(Debug)]
pub(super) struct Moving<'s, 'a> {
    pub(super) stage: &'s Stage,
    pub(super) release: &'a Release,
    /// By their names.
    pub(super) members: Vec<Member<'a>>,
    /// Those that failed at the release.
    pub(super) failed: Vec<&'a str>,
    /// How many may.
    pub(super) may: usize,
    /// Whether it is written down that too many failed, and nobody has forgiven it.
    pub(super) marked: bool,
    /// Whether the stage has completed the release.
    pub(super) done: bool,
    pub(super) paused: bool,
    pub(super) digest: OnceCell<String>,
}

/// What is waited for of a zone, what matters most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Failed,
    Refused,
    NoEvidence,
    UnderWay,
    Offline,
    Held,
}

/// So many of each sort are named among what a stage waits for.
const NAMED: usize = 5;
/// Zones are named in a reason as long as their names take so many bytes.
const BECAUSE: usize = 300;

// === impl Moving ===

impl<'a> Moving<'_, 'a> {
    pub(super) fn member(&self, name: &str) -> Option<&Member<'a>> {
        let members = &self.members;
        let place = members.binary_search_by_key(&name, |member| member.zone.name);
        members.get(place.ok()?)
    }

    /// Whether too many failed, now or before. Of what has completed it is only asked how it is
    /// now.
    pub(super) fn has_failed(&self) -> bool {
        (self.marked && !self.done) || self.failed.len() > self.may
    }

    /// Whether nobody moves.
    pub(super) fn is_halted(&self) -> bool {
        self.paused || self.has_failed()
    }

    /// Whether nobody has to wait for any of its zones.
    pub(super) fn lets_complete(&self) -> bool {
        self.members.iter().all(Member::lets_complete)
    }

    /// The zones that show that the release works, and since when.
    pub(super) fn proven(&self) -> Vec<(&str, Timestamp)> {
        let proven = self.members.iter().filter_map(|one| {
            let since = one.fares.ready_since().filter(|_| one.is_there())?;
            Some((one.zone.name, since))
        });
        proven.collect()
    }

    /// Their names, in few words.
    pub(super) fn proof(&self) -> String {
        let proven = self.proven();
        let names: Vec<&str> = proven.iter().map(|(name, _)| *name).collect();
        format!("ready at it: {}", sets::brief(&names, BECAUSE))
    }

    pub(super) fn counted(&self, decision: &Decision<At>) -> Counted {
        let mut moves = vec![None; self.members.len()];
        for one in &decision.admissions {
            moves[one.index] = Some(Standing::Updating);
        }
        for one in &decision.starts {
            moves[one.index] = Some(Standing::Starting);
        }
        let mut counted = Counted::default();
        counted.moving.total = self.members.len();
        for (member, moves) in self.members.iter().zip(moves) {
            *counted.place(moves.unwrap_or_else(|| member.standing())) += 1;
        }
        counted
    }

    /// What keeps the stage from being further.
    pub(super) fn waits(&self, decision: &Decision<At>) -> Vec<Waiting> {
        let failed = self.has_failed().then_some(Waiting::Failed {
            release: self.release.number,
            failed: self.failed.len(),
            may: self.may,
        });
        let mut sorts: BTreeMap<Sort, Vec<Waiting>> = BTreeMap::new();
        for member in &self.members {
            let Some(sort) = member.sort() else {
                continue;
            };
            let named = sorts.entry(sort).or_default();
            if named.len() < NAMED {
                named.push(member.waiting(sort));
            }
        }
        let gates = decision.summary.blocked.iter().take(NAMED);
        let gates = gates.map(|(zone, verdict)| Waiting::Gate {
            zone: zone.clone(),
            verdict: verdict.clone(),
        });
        let zones = sorts.into_values().flatten();
        failed.into_iter().chain(zones).chain(gates).collect()
    }

    /// Of all that is known of the zones.
    pub(super) fn digest(&self) -> &str {
        self.digest.get_or_init(|| {
            let mut hash = Sha256::new();
            let mut line = Vec::new();
            for member in &self.members {
                line.clear();
                member.print(&mut line);
                hash.update(&line);
            }
            let digest = hash.finalize();
            let bytes = digest[..8].iter();
            bytes.map(|byte| format!("{byte:02x}")).collect()
        })
    }
}

// === impl Fares ===

impl<'a> Fares<'a> {
    fn ready_since(self) -> Option<Timestamp> {
        match self {
            Fares::Ready { since } => Some(since),
            Fares::Behind
            | Fares::UnderWay { .. }
            | Fares::Relapsed { .. }
            | Fares::NoEvidence { .. }
            | Fares::Failed { .. }
            | Fares::Refused { .. }
            | Fares::Offline { .. }
            | Fares::Away
            | Fares::Ahead => None,
        }
    }

    /// What tells it apart from others: a number, since when, and why.
    pub(super) fn parts(&self) -> (u8, Option<Timestamp>, &'a str) {
        match *self {
            Fares::Behind => (0, None, ""),
            Fares::UnderWay { reason } => (1, None, reason),
            Fares::Relapsed { reason } => (2, None, reason),
            Fares::NoEvidence { reason } => (3, None, reason),
            Fares::Failed { reason } => (4, None, reason),
            Fares::Ready { since } => (5, Some(since), ""),
            Fares::Offline { since } => (6, Some(since), ""),
            Fares::Away => (7, None, ""),
            Fares::Ahead => (8, None, ""),
            Fares::Refused { reason } => (9, None, reason),
        }
    }
}

// === impl Member ===

impl Member<'_> {
    /// Whether nobody has to wait for it.
    fn lets_complete(&self) -> bool {
        let held = self.zone.hold == Hold::Held;
        match self.fares {
            Fares::Away | Fares::Ahead => true,
            // Who is held is not waited for, unless it is on its way.
            Fares::Ready { .. } | Fares::Failed { .. } | Fares::Refused { .. } => {
                held || self.is_there()
            }
            Fares::Behind
            | Fares::UnderWay { .. }
            | Fares::Relapsed { .. }
            | Fares::NoEvidence { .. }
            | Fares::Offline { .. } => held && !self.is_there(),
        }
    }

    /// What sort of thing it is that is waited for, if anything is.
    fn sort(&self) -> Option<Sort> {
        let moves = self.is_there() || self.is_on_its_way();
        let held = self.zone.hold == Hold::Held && !self.is_there();
        match self.fares {
            Fares::Away | Fares::Ahead => None,
            Fares::Offline { .. } => Some(Sort::Offline),
            _ if held => Some(Sort::Held),
            Fares::Failed { .. } => moves.then_some(Sort::Failed),
            Fares::Refused { .. } => moves.then_some(Sort::Refused),
            Fares::NoEvidence { .. } => moves.then_some(Sort::NoEvidence),
            Fares::UnderWay { .. } | Fares::Relapsed { .. } => moves.then_some(Sort::UnderWay),
            Fares::Behind | Fares::Ready { .. } => None,
        }
    }

    fn waiting(&self, sort: Sort) -> Waiting {
        let zone = self.zone.name.to_owned();
        let (_, since, reason) = self.fares.parts();
        match (sort, since) {
            (Sort::Offline, _) if self.zone.diverged => Waiting::Diverged { zone },
            (Sort::Offline, Some(since)) => Waiting::Offline { zone, since },
            (Sort::Held | Sort::Offline, _) => Waiting::Held { zone },
            (Sort::NoEvidence, _) => Waiting::NoEvidence {
                reason: format!("{zone}: {reason}"),
            },
            (Sort::Refused, _) => Waiting::Refused {
                zone,
                reason: reason.to_owned(),
            },
            (Sort::Failed | Sort::UnderWay, _) => Waiting::Zone {
                zone,
                reason: reason.to_owned(),
                failed: sort == Sort::Failed,
            },
        }
    }

    /// All that is known of it, as bytes that differ if it does.
    fn print(&self, line: &mut Vec<u8>) {
        let mut text = |text: &str| {
            line.extend(text.as_bytes());
            line.push(0);
        };
        let (kind, since, reason) = self.fares.parts();
        text(self.zone.name);
        text(reason);
        let nothing = (0, 0, 0);
        let admitted = self.admitted.map_or(nothing, |one| {
            let phase = one.phase as u8 + 1;
            (one.target.release, one.target.class.bits(), phase)
        });
        line.extend(admitted.0.to_le_bytes());
        line.extend(admitted.1.to_le_bytes());
        let held = u8::from(self.zone.hold == Hold::Held);
        line.extend([admitted.2, kind, held]);
        if let Some(since) = since {
            line.extend(since.seconds().to_le_bytes());
            line.extend(since.nanos().to_le_bytes());
        }
        line.push(b'\n');
    }
}

// === impl Counted ===

impl Counted {
    /// Of a stage in which nothing moves yet.
    pub(super) fn new(total: usize) -> Self {
        let mut counted = Self::default();
        counted.moving.total = total;
        counted.moving.pending = total;
        counted
    }

    /// Where a zone is counted. Each is counted once.
    fn place(&mut self, standing: Standing) -> &mut usize {
        let moving = &mut self.moving;
        match standing {
            Standing::Ahead => &mut self.ahead,
            Standing::Deferred => &mut self.deferred,
            Standing::Offline => &mut self.offline,
            Standing::Diverged => &mut self.diverged,
            Standing::Refused => &mut self.refused,
            Standing::Current => &mut moving.current,
            Standing::Failed => &mut moving.failed,
            Standing::Starting => &mut moving.starting,
            Standing::Updating => &mut moving.updating,
            Standing::Held => &mut moving.held,
            Standing::Pending => &mut moving.pending,
        }
    }
}
