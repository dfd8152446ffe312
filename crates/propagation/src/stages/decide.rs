//! What becomes of a situation: the one function that decides about the fleet.

use deltaplane_expr::Timestamp;
use sha2::{Digest, Sha256};

use super::compiled::{Approval, Policy, Stage};
use super::members::{At, Fares, Member, target};
use super::record::{Admitted, Advance, Evidence, Mark, Phase, Progress, Record, Target};
use super::sets;
use super::situation::{Release, Situation, Zone};
use super::spec::{NoEvidence, OnFailure, OnNewer};
use super::told::{Counted, StageTold, Waiting};
use crate::board::earlier;
use crate::pass::Terms;
use crate::rollout::{Course, Decision, rollout};
use crate::scope::{Given, Surroundings};
use crate::subject::Hold;
use crate::work::Limits;

/// What was decided. The record is to be written down before it takes effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub record: Record,
    pub effect: Option<Effect>,
    pub stages: Vec<StageTold>,
    /// Zones that the policy selects and no stage does.
    pub left_out: Vec<String>,
    /// When time alone may change this.
    pub next: Option<Timestamp>,
}

/// What else is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make a new release with the content of an older one.
    Rollback { failed: u64, to: u64 },
}

/// So many of each sort are named among what a stage waits for.
const NAMED: usize = 5;

/// Decides about all zones of a policy.
pub fn decide(policy: &Policy, situation: Situation<'_>) -> Outcome {
    let mut zones: Vec<Vec<Zone<'_>>> = vec![Vec::new(); policy.stages.len()];
    let mut left_out = Vec::new();
    for zone in situation.zones {
        match policy.stage_of(zone.object) {
            Some(stage) => zones[stage].push(*zone),
            None => left_out.push(zone.name.to_owned()),
        }
    }
    let mut deciding = Deciding {
        policy,
        situation,
        record: situation.record.clone(),
        effect: None,
        next: None,
    };
    deciding.forget();
    let newest = situation.releases.last().map(|release| release.number);
    let (mut offered, mut after) = (newest, None);
    let mut stages = Vec::new();
    for (stage, zones) in policy.stages.iter().zip(&zones) {
        let told = deciding.stage(stage, zones, (offered, after));
        offered = told.completed;
        after = Some(stage.name.as_str());
        stages.push(told);
    }
    left_out.sort();
    Outcome {
        record: deciding.record,
        effect: deciding.effect,
        stages,
        left_out,
        next: deciding.next,
    }
}

struct Deciding<'a> {
    policy: &'a Policy,
    situation: Situation<'a>,
    record: Record,
    effect: Option<Effect>,
    next: Option<Timestamp>,
}

/// A stage that has a release to move to.
struct Moving<'s, 'a> {
    stage: &'s Stage,
    release: &'a Release,
    members: Vec<Member<'a>>,
    /// Those that failed at the release.
    failed: Vec<&'a str>,
    /// How many may.
    may: usize,
    /// Whether a person said that they may, however many.
    forgiven: bool,
    paused: bool,
}

// === impl Deciding ===

impl<'a> Deciding<'a> {
    /// Zones and stages that are not there any more.
    fn forget(&mut self) {
        let zones: std::collections::BTreeSet<&str> =
            self.situation.zones.iter().map(|zone| zone.name).collect();
        self.record
            .zones
            .retain(|name, _| zones.contains(name.as_str()));
        let stages = &self.policy.stages;
        self.record
            .stages
            .retain(|name, _| stages.iter().any(|stage| stage.name == *name));
    }

    fn release(&self, number: u64) -> Option<&'a Release> {
        let mut releases = self.situation.releases.iter();
        releases.find(|release| release.number == number)
    }

    fn progress(&mut self, stage: &Stage) -> &mut Progress {
        self.record.stages.entry(stage.name.clone()).or_default()
    }

    /// Decides about one stage, to which a release is offered.
    fn stage(
        &mut self,
        stage: &Stage,
        zones: &[Zone<'a>],
        (offered, after): (Option<u64>, Option<&str>),
    ) -> StageTold {
        let paused = self.policy.paused || stage.paused;
        let mut waiting = Vec::new();
        if paused {
            let what = match self.policy.paused {
                true => "the policy".to_owned(),
                false => format!("stage {}", stage.name),
            };
            waiting.push(Waiting::Paused { what });
        } else {
            waiting.extend(self.take(stage, offered));
        }
        let taken = self.progress(stage).taken;
        let Some(release) = taken.and_then(|taken| self.release(taken.release)) else {
            if waiting.is_empty() {
                let after = after.map(str::to_owned);
                waiting.push(Waiting::Release { after });
            }
            return self.told(stage, Counted::new(zones.len()), waiting);
        };
        let moving = self.moving(stage, release, zones, paused);
        let decision = self.pass(&moving);
        self.fail(&moving);
        self.defer(&moving);
        self.apply(&moving, &decision);
        let counts = moving.counted(&decision);
        waiting.extend(moving.waits(&decision));
        waiting.extend(self.complete(&moving));
        self.told(stage, counts, waiting)
    }

    fn told(&mut self, stage: &Stage, counts: Counted, waiting: Vec<Waiting>) -> StageTold {
        let progress = *self.progress(stage);
        StageTold {
            name: stage.name.clone(),
            release: progress.taken.map(|mark| mark.release),
            completed: progress.completed.map(|mark| mark.release),
            counts,
            waiting,
        }
    }

    /// Lets a stage take the release that is offered to it, unless something keeps it back.
    fn take(&mut self, stage: &Stage, offered: Option<u64>) -> Option<Waiting> {
        let progress = *self.progress(stage);
        let taken = progress.taken.map(|mark| mark.release);
        let offered = offered.filter(|offered| taken.is_none_or(|taken| *offered > taken))?;
        let release = self.release(offered)?;
        let is_done = |mark: Option<Mark>| mark.map(|mark| mark.release) == taken;
        let done = is_done(progress.completed) || is_done(progress.failed);
        if let (Some(behind), OnNewer::Queue, false) = (taken, self.policy.on_newer, done) {
            let release = release.number;
            return Some(Waiting::Queued { release, behind });
        }
        if let Some(waiting) = self
            .excess(release)
            .or_else(|| self.unapproved(stage, release))
        {
            return Some(waiting);
        }
        let at = self.situation.now;
        let mark = Mark {
            release: offered,
            at,
        };
        self.progress(stage).taken = Some(mark);
        let because = match taken {
            Some(taken) => format!("it was offered, in place of {taken}"),
            None => "it was offered".to_owned(),
        };
        self.note(stage, offered, Advance::Taken, because, String::new());
        None
    }

    /// A release that takes away too much.
    fn excess(&self, release: &Release) -> Option<Waiting> {
        let (removes, of) = release.removes;
        let may = self.policy.may_remove(of);
        let mut approvals = self.situation.approvals.iter();
        let approved = approvals.any(|one| one.stage.is_none() && one.release == release.number);
        (removes > may && !approved).then_some(Waiting::Deletions {
            release: release.number,
            removes,
            may,
        })
    }

    fn unapproved(&self, stage: &Stage, release: &Release) -> Option<Waiting> {
        let approvals = self.situation.approvals.iter();
        let mut approvals = approvals.filter(|one| {
            one.stage.as_deref() == Some(&stage.name) && one.release == release.number
        });
        let (approved, refused) = match stage.approval {
            Approval::None => return None,
            Approval::Required => (approvals.next().is_some(), None),
            Approval::RequiredByOther => {
                let authored =
                    |by: &String| release.authors.is_empty() || release.authors.contains(by);
                let by: Vec<&String> = approvals.map(|one| &one.by).collect();
                let refused = by.iter().find(|by| authored(by)).map(|by| (*by).clone());
                (by.iter().any(|by| !authored(by)), refused)
            }
        };
        let release = release.number;
        (!approved).then_some(Waiting::Approval { release, refused })
    }

    fn moving<'s>(
        &mut self,
        stage: &'s Stage,
        release: &'a Release,
        zones: &[Zone<'a>],
        paused: bool,
    ) -> Moving<'s, 'a> {
        let now = self.situation.now;
        let record = &self.record;
        let member =
            |zone: &Zone<'a>| Member::new(*zone, stage, (target(release, zone), record), now);
        let members: Vec<Member<'a>> = zones.iter().map(member).collect();
        for member in &members {
            let released = member.zone.released_at.filter(|at| *at > now);
            self.next = earlier(self.next, earlier(member.alarm, released));
        }
        let has_failed = |member: &&Member<'a>| {
            matches!(member.fares, Fares::Failed { .. }) && member.is_at(release)
        };
        let failed = members.iter().filter(has_failed);
        Moving {
            failed: failed.map(|member| member.zone.name).collect(),
            may: stage.max_failures.of(members.len()),
            forgiven: self
                .situation
                .resumed
                .is_some_and(|upto| upto >= release.number),
            stage,
            release,
            members,
            paused,
        }
    }

    /// Asks the gate of the stage.
    fn pass(&mut self, moving: &Moving<'_, 'a>) -> Decision<At> {
        let Moving { stage, release, .. } = moving;
        let progress = *self.progress(stage);
        let halted = moving.paused || moving.has_failed(&progress);
        let item = |member: &Member<'a>| {
            let tolerated = moving.failed.contains(&member.zone.name);
            member.item(target(release, &member.zone), tolerated, halted)
        };
        let items: Vec<_> = moving.members.iter().map(item).collect();
        let completed = progress.completed.map(|mark| mark.release);
        let completed =
            completed.filter(|number| self.release(*number).is_some() && !moving.paused);
        let at = |release| At {
            release,
            exact: true,
        };
        let (to, completed) = (at(release.number), completed.map(at));
        let course = Course {
            target: &to,
            completed: completed.as_ref(),
        };
        let given = Surroundings::from([("release", Given::Data(&release.data))]);
        let terms = Terms {
            gate: &stage.gate,
            order: stage.order.as_ref(),
            given: &given,
            now: self.situation.now,
            windows: &|name, now| self.policy.window(name, now),
            limits: Limits::default(),
        };
        let decision = rollout(&items, course, terms);
        self.next = earlier(self.next, decision.summary.next);
        decision
    }

    /// Writes down that too many failed.
    fn fail(&mut self, moving: &Moving<'_, 'a>) {
        let Moving { stage, release, .. } = moving;
        if moving.paused || moving.forgiven {
            return;
        }
        let number = release.number;
        let marked = self.progress(stage).failed.map(|mark| mark.release) == Some(number);
        if !marked && moving.failed.len() <= moving.may {
            return;
        }
        if !marked {
            let at = self.situation.now;
            self.progress(stage).failed = Some(Mark {
                release: number,
                at,
            });
            let zones = moving
                .failed
                .iter()
                .map(|zone| (*zone).to_owned())
                .collect();
            let because = format!("{} failed, and {} may", moving.failed.len(), moving.may);
            let digest = moving.digest();
            self.note(stage, number, Advance::Failed(zones), because, digest);
        }
        self.effect = self.effect.or_else(|| self.rollback(stage, release));
    }

    /// What is brought back. Who brought something back that fails, too, is asked what to do.
    fn rollback(&self, stage: &Stage, release: &Release) -> Option<Effect> {
        let newest = self.situation.releases.last()?;
        let is_newest = newest.number == release.number && release.restores.is_none();
        let completed = self.record.stages.get(&stage.name)?.completed?;
        let wanted = is_newest && self.policy.on_failure == OnFailure::Rollback;
        wanted.then_some(Effect::Rollback {
            failed: release.number,
            to: completed.release,
        })
    }

    /// Who is away for too long loses its place.
    fn defer(&mut self, moving: &Moving<'_, 'a>) {
        if moving.paused {
            return;
        }
        let at = self.situation.now;
        let mut deferred = Vec::new();
        for member in moving
            .members
            .iter()
            .filter(|one| one.fares == Fares::Deferred)
        {
            if let Some(one) = self.record.zones.get_mut(member.zone.name)
                && one.phase == Phase::Admitted
            {
                *one = Admitted {
                    at,
                    phase: Phase::Deferred,
                    ..*one
                };
                deferred.push(member.zone.name.to_owned());
            }
        }
        if !deferred.is_empty() {
            let because = "away for longer than the progress deadline".to_owned();
            let advance = Advance::Deferred(deferred);
            let digest = moving.digest();
            self.note(
                moving.stage,
                moving.release.number,
                advance,
                because,
                digest,
            );
        }
    }

    /// Writes down who arrived, who begins and who is let in.
    fn apply(&mut self, moving: &Moving<'_, 'a>, decision: &Decision<At>) {
        let now = self.situation.now;
        for zone in &decision.arrivals {
            if let Some(one) = self.record.zones.get_mut(zone) {
                one.phase = Phase::Arrived;
                one.at = now;
            }
        }
        let starts = decision.starts.iter().map(|one| (one, Phase::Started));
        let moves = decision.admissions.iter().map(|one| (one, Phase::Admitted));
        for (change, phase) in starts.chain(moves) {
            let member = moving
                .members
                .iter()
                .find(|one| one.zone.name == change.key);
            if let (Some(member), Some(release)) = (member, self.release(change.to.release)) {
                let admitted = Admitted {
                    target: target(release, &member.zone),
                    at: now,
                    phase,
                };
                self.record.zones.insert(change.key.clone(), admitted);
            }
        }
        if !decision.admissions.is_empty() {
            let zones = decision.admissions.iter().map(|one| one.key.clone());
            let because = moving.because(decision);
            let advance = Advance::Admitted(zones.collect());
            let digest = moving.digest();
            self.note(
                moving.stage,
                moving.release.number,
                advance,
                because,
                digest,
            );
        }
    }

    /// Whether all of a stage has the release now; if not, what is waited for.
    fn complete(&mut self, moving: &Moving<'_, 'a>) -> Option<Waiting> {
        let Moving { stage, release, .. } = moving;
        let progress = *self.progress(stage);
        let number = release.number;
        let is_done = progress
            .completed
            .is_some_and(|mark| mark.release >= number);
        let halted = moving.paused || moving.has_failed(&progress);
        if is_done || halted || !moving.members.iter().all(|one| moving.lets_complete(one)) {
            return None;
        }
        let proven = moving.proven();
        if proven.is_empty() && stage.no_evidence == NoEvidence::Hold {
            let reason = match moving.members.is_empty() {
                true => format!("no zone is in stage {}", stage.name),
                false => format!("all zones of stage {} are held or away", stage.name),
            };
            return Some(Waiting::NoEvidence { reason });
        }
        let now = self.situation.now;
        let last = proven.iter().filter_map(|(_, since)| *since).max();
        let until = last.and_then(|last| last.plus(stage.soak));
        if let Some(until) = until.filter(|until| *until > now) {
            self.next = earlier(self.next, Some(until));
            return Some(Waiting::Soak { until });
        }
        self.progress(stage).completed = Some(Mark {
            release: number,
            at: now,
        });
        let zones = sets::write(proven.iter().map(|(zone, _)| *zone).take(64));
        let because = match last {
            Some(last) => format!("ready at it: {zones}, the last since {last}"),
            None => format!("ready at it: {zones}"),
        };
        self.note(stage, number, Advance::Completed, because, moving.digest());
        None
    }

    fn note(
        &mut self,
        stage: &Stage,
        release: u64,
        advance: Advance,
        because: String,
        digest: String,
    ) {
        self.record.note(Evidence {
            at: self.situation.now,
            stage: stage.name.clone(),
            release,
            advance,
            because,
            digest,
        });
    }
}

// === impl Moving ===

impl Moving<'_, '_> {
    /// Whether too many failed, now or before.
    fn has_failed(&self, progress: &Progress) -> bool {
        let marked = progress.failed.map(|mark| mark.release) == Some(self.release.number);
        !self.forgiven && (marked || self.failed.len() > self.may)
    }

    /// Whether nobody has to wait for a zone.
    fn lets_complete(&self, member: &Member<'_>) -> bool {
        match member.fares {
            Fares::Deferred | Fares::Ahead => true,
            Fares::WasReady | Fares::Ready { .. } | Fares::Failed { .. }
                if member.is_at(self.release) =>
            {
                true
            }
            // Who is held is not waited for, unless it is on its way.
            _ if member.zone.hold == Hold::Held => !member.is_at(self.release),
            Fares::Behind
            | Fares::UnderWay { .. }
            | Fares::NoEvidence { .. }
            | Fares::Failed { .. }
            | Fares::Ready { .. }
            | Fares::WasReady
            | Fares::Offline { .. } => false,
        }
    }

    /// The zones that show that the release works, and since when.
    fn proven(&self) -> Vec<(&str, Option<Timestamp>)> {
        let here = self.members.iter().filter(|one| one.is_at(self.release));
        let proven = here.filter_map(|one| match one.fares {
            Fares::Ready { since } => Some((one.zone.name, Some(since))),
            Fares::WasReady => Some((one.zone.name, None)),
            Fares::Behind
            | Fares::UnderWay { .. }
            | Fares::NoEvidence { .. }
            | Fares::Failed { .. }
            | Fares::Offline { .. }
            | Fares::Deferred
            | Fares::Ahead => None,
        });
        proven.collect()
    }

    fn counted(&self, decision: &Decision<At>) -> Counted {
        let count = |wanted: fn(&Fares<'_>) -> bool| {
            let members = self.members.iter();
            members.filter(|member| wanted(&member.fares)).count()
        };
        Counted {
            moving: decision.summary.counts,
            deferred: count(|fares| matches!(fares, Fares::Deferred)),
            offline: count(|fares| matches!(fares, Fares::Offline { .. } | Fares::WasReady)),
            ahead: count(|fares| matches!(fares, Fares::Ahead)),
        }
    }

    /// What keeps the stage from being further.
    fn waits(&self, decision: &Decision<At>) -> Vec<Waiting> {
        let mut waits = Vec::new();
        if self.failed.len() > self.may && !self.forgiven {
            waits.push(Waiting::Failed {
                release: self.release.number,
                failed: self.failed.len(),
                may: self.may,
            });
        }
        let zone = |one: &Member<'_>, reason: &str, failed| Waiting::Zone {
            zone: one.zone.name.to_owned(),
            reason: reason.to_owned(),
            failed,
        };
        let mut sorts: [Vec<Waiting>; 5] = Default::default();
        for one in &self.members {
            let name = || one.zone.name.to_owned();
            match one.fares {
                Fares::Failed { reason } => sorts[0].push(zone(one, reason, true)),
                Fares::NoEvidence { reason } => sorts[1].push(Waiting::NoEvidence {
                    reason: format!("{}: {reason}", one.zone.name),
                }),
                Fares::UnderWay { reason } => sorts[2].push(zone(one, reason, false)),
                Fares::Offline { since } => sorts[3].push(Waiting::Offline {
                    zone: name(),
                    since,
                }),
                Fares::Behind | Fares::Ready { .. }
                    if one.zone.hold == Hold::Held && !one.is_at(self.release) =>
                {
                    sorts[4].push(Waiting::Held { zone: name() });
                }
                Fares::Behind
                | Fares::Ready { .. }
                | Fares::WasReady
                | Fares::Deferred
                | Fares::Ahead => {}
            }
        }
        let gates = decision.summary.blocked.iter();
        let gates = gates.map(|(zone, verdict)| Waiting::Gate {
            zone: zone.clone(),
            verdict: verdict.clone(),
        });
        let gates: Vec<Waiting> = gates.take(NAMED).collect();
        for sort in sorts {
            waits.extend(sort.into_iter().take(NAMED));
        }
        waits.extend(gates);
        waits
    }

    /// Which zones opened the gate.
    fn because(&self, decision: &Decision<At>) -> String {
        let proven = self.proven();
        let zones = sets::write(proven.iter().map(|(zone, _)| *zone).take(64));
        let counts = &decision.summary.counts;
        let zones = if zones.is_empty() { "none" } else { &zones };
        format!("ready at it: {zones}; then {counts}")
    }

    /// Of all that is known of the zones.
    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for member in &self.members {
            let line = format!(
                "{} {:?} {:?}\n",
                member.zone.name,
                member.admitted.map(|one| one.target),
                member.fares
            );
            hash.update(line.as_bytes());
        }
        let digest = hash.finalize();
        digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

// === impl Member ===

impl Member<'_> {
    /// Whether it was admitted to a release exactly as it is for it now.
    fn is_at(&self, release: &Release) -> bool {
        let wanted: Target = target(release, &self.zone);
        let admitted = self.admitted.filter(|one| one.phase != Phase::Deferred);
        admitted.is_some_and(|one| one.target == wanted)
    }
}

// === impl Counted ===

impl Counted {
    /// Of a stage in which nothing moves yet.
    fn new(total: usize) -> Self {
        let mut counted = Self::default();
        counted.moving.total = total;
        counted.moving.pending = total;
        counted
    }
}
