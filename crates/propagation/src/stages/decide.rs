//! What becomes of a situation: the one function that decides about the fleet.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use deltaplane_expr::{Duration, Timestamp};

use super::compiled::{Approval, Policy, Stage};
use super::members::{At, Fares, Known, Member, target};
use super::moving::Moving;
use super::record::{Admitted, Advance, Evidence, Mark, Phase, Progress, Record, Target, settle};
use super::situation::{Approved, Forgiven, Link, Release, Situation, find, labels};
use super::spec::{NoEvidence, OnFailure, OnNewer};
use super::told::{Counted, Refusal, StageTold, Waiting};
use crate::board::earlier;
use crate::pass::Terms;
use crate::rollout::{Course, Decision, rollout};
use crate::scope::{Given, Surroundings};
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

/// Decides about all zones of a policy.
///
/// What one decision makes room for is seen by the next: whoever writes down a record that differs
/// from the one before decides again.
pub fn decide(policy: &Policy, situation: Situation<'_>) -> Outcome {
    let mut deciding = Deciding::new(policy, situation);
    let mut stages: Vec<Vec<usize>> = vec![Vec::new(); policy.stages.len()];
    let mut left_out = Vec::new();
    for (place, known) in deciding.zones.iter().enumerate() {
        match policy.stage_with(known.labels) {
            Some(stage) => stages[stage].push(place),
            None => left_out.push(known.zone.name.to_owned()),
        }
    }
    let newest = situation.releases.last().map(|release| release.number);
    let (mut offered, mut after) = (newest, None);
    let mut told = Vec::new();
    for (stage, places) in policy.stages.iter().zip(&stages) {
        let one = deciding.stage(stage, places, (offered, after));
        offered = one.completed;
        after = Some(stage.name.as_str());
        told.push(one);
    }
    Outcome {
        effect: deciding.effect,
        next: deciding.next,
        record: deciding.finish(),
        stages: told,
        left_out,
    }
}

/// Returns true if somebody's yes counts, or counted when its stage took the release.
pub fn counts(policy: &Policy, situation: Situation<'_>, approved: &Approved) -> bool {
    // Anybody may agree to what a release takes away.
    let Some(name) = &approved.stage else {
        return true;
    };
    let Some(stage) = policy.stages.iter().find(|one| one.name == *name) else {
        return false;
    };
    match stage.approval {
        Approval::None => false,
        Approval::Required => true,
        Approval::RequiredByOther => {
            let authors = authors_for_stage(policy, situation, (name, approved.release));
            authors.is_some_and(|authors| !authors.contains(&approved.by))
        }
    }
}

/// Returns the authors of what a release would change in a stage, who cannot approve it there under
/// `RequiredByOther`; nothing where they are not known.
pub fn authors_for_stage(
    policy: &Policy,
    situation: Situation<'_>,
    (stage, release): (&str, u64),
) -> Option<BTreeSet<String>> {
    let deciding = Deciding::new(policy, situation);
    let since = deciding.completed_before(stage, release);
    let authors = deciding.authors_after(since, deciding.release(release)?)?;
    Some(authors.into_iter().cloned().collect())
}

/// The number of the first release of a policy.
const FIRST: u64 = 1;

struct Deciding<'a> {
    policy: &'a Policy,
    situation: Situation<'a>,
    /// By their names.
    zones: Vec<Known<'a>>,
    /// What was decided of zones that are not selected any more: whoever is selected again does
    /// not begin anew, with less than it had.
    left: Vec<(&'a String, Admitted)>,
    resumed: Vec<Forgiven>,
    /// All but the zones.
    record: Record,
    /// A release that waits for nothing but that a stage is done with another.
    queued: Option<u64>,
    effect: Option<Effect>,
    next: Option<Timestamp>,
}

// === impl Deciding ===

impl<'a> Deciding<'a> {
    /// Zones and stages that are not there any more are forgotten.
    fn new(policy: &'a Policy, situation: Situation<'a>) -> Self {
        let mut zones = situation.zones.to_vec();
        // Nothing depends on the order in which they are given.
        zones.sort_by_key(|zone| zone.name);
        let mut known = situation.record.zones.iter().peekable();
        let zones = zones.into_iter().map(|zone| {
            while known
                .next_if(|(name, _)| name.as_str() < zone.name)
                .is_some()
            {}
            let admitted = known.next_if(|(name, _)| name.as_str() == zone.name);
            Known {
                zone,
                labels: labels(zone.object),
                admitted: admitted.map(|(_, admitted)| *admitted),
            }
        });
        let resumed = situation.resumed.and_then(Forgiven::read);
        let left = situation.left.iter().filter_map(|name| {
            let one = situation.record.zones.get(name)?;
            let phase = Phase::Deferred;
            Some((name, Admitted { phase, ..*one }))
        });
        let Record {
            stages,
            past,
            evidence,
            ..
        } = situation.record;
        let is_stage = |name: &String| policy.stages.iter().any(|one| one.name == *name);
        let stages = stages.iter().filter(|(name, _)| is_stage(name));
        let past = past.iter().filter(|(name, _)| is_stage(name));
        let is_kept = |number: &u64| find(situation.releases, *number).is_some();
        Self {
            zones: zones.collect(),
            left: left.collect(),
            resumed: resumed.unwrap_or_default(),
            policy,
            situation,
            record: Record {
                zones: BTreeMap::new(),
                stages: stages.map(|(name, one)| (name.clone(), *one)).collect(),
                past: past
                    .filter_map(|(name, past)| Some((name.clone(), past.of_kept(is_kept)?)))
                    .collect(),
                evidence: evidence.clone(),
                zones_as_of: situation.record.zones_as_of,
            },
            queued: None,
            effect: None,
            next: None,
        }
    }

    /// What is to be written down.
    fn finish(mut self) -> Record {
        let known = self.zones.iter_mut();
        let known = known.filter_map(|known| known.admitted.as_mut());
        settle(known.chain(self.left.iter_mut().map(|(_, one)| one)));
        let zones = self.zones.into_iter();
        let zones = zones.filter_map(|one| Some((one.zone.name.to_owned(), one.admitted?)));
        let left = self.left.into_iter();
        let left = left.map(|(name, one)| (name.clone(), one));
        let record = Record {
            zones: zones.chain(left).collect(),
            ..self.record
        };
        // That another zone came is nothing to write down by itself.
        if record == *self.situation.record {
            return record;
        }
        let as_of = [record.zones_as_of, self.situation.zones_as_of];
        Record {
            zones_as_of: as_of.into_iter().max().flatten(),
            ..record
        }
    }

    fn release(&self, number: u64) -> Option<&'a Release> {
        find(self.situation.releases, number)
    }

    fn progress(&self, stage: &Stage) -> Progress {
        let progress = self.record.stages.get(&stage.name);
        progress.copied().unwrap_or_default()
    }

    fn progress_of(&mut self, stage: &Stage) -> &mut Progress {
        self.record.stages.entry(stage.name.clone()).or_default()
    }

    /// This moment, for a release.
    fn mark(&self, release: u64) -> Option<Mark> {
        let at = self.situation.now;
        Some(Mark { release, at })
    }

    /// Decides about one stage, to which a release is offered.
    fn stage(
        &mut self,
        stage: &Stage,
        places: &[usize],
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
            waiting.extend(self.take(stage, places, offered));
        }
        let taken = self.progress(stage).taken;
        let Some(release) = taken.and_then(|taken| self.release(taken.release)) else {
            if waiting.is_empty() {
                let after = after.map(str::to_owned);
                waiting.push(Waiting::Release { after });
            }
            return self.told(stage, Counted::new(places.len()), waiting);
        };
        let moving = self.moving(stage, release, places, paused);
        let decision = self.pass(&moving);
        self.fail(&moving);
        self.fall_back(&moving);
        self.apply(&moving, &decision);
        let counts = moving.counted(&decision);
        waiting.extend(moving.waits(&decision));
        waiting.extend(self.no_way_back(&moving));
        waiting.extend(self.complete(&moving));
        self.told(stage, counts, waiting)
    }

    fn told(&self, stage: &Stage, counts: Counted, waiting: Vec<Waiting>) -> StageTold {
        let progress = self.progress(stage);
        StageTold {
            name: stage.name.clone(),
            release: progress.taken.map(|mark| mark.release),
            completed: progress.completed.map(|mark| mark.release),
            counts,
            waiting,
        }
    }

    /// Lets a stage take the release that is offered to it, unless something keeps it back.
    fn take(&mut self, stage: &Stage, places: &[usize], offered: Option<u64>) -> Option<Waiting> {
        let progress = self.progress(stage);
        let taken = progress.taken.map(|mark| mark.release);
        let offered = offered.filter(|offered| taken.is_none_or(|taken| *offered > taken))?;
        let release = self.release(offered)?;
        let is_taken = |mark: Option<Mark>| mark.map(|mark| mark.release) == taken;
        let done = is_taken(progress.completed) || is_taken(progress.failed);
        if let (Some(behind), OnNewer::Queue, false) = (taken, self.policy.on_newer, done) {
            let release = release.number;
            self.queued = self.queued.max(Some(release));
            return Some(Waiting::Queued { release, behind });
        }
        if let Some(waiting) = self
            .excess(release, progress, places)
            .or_else(|| self.unapproved(stage, release, places))
        {
            return Some(waiting);
        }
        self.progress_of(stage).taken = self.mark(offered);
        let because = match taken {
            Some(taken) => format!("it was offered, in place of {taken}"),
            None => "it was offered".to_owned(),
        };
        self.record.note(Evidence {
            at: self.situation.now,
            stage: stage.name.clone(),
            release: offered,
            advance: Advance::Taken,
            more: 0,
            because,
            digest: String::new(),
        });
        None
    }

    /// How many zones a person let fail at a release in a stage.
    fn forgiven(&self, stage: &Stage, release: u64) -> Option<usize> {
        let mut all = self.resumed.iter();
        let one = all.find(|one| one.release == release && one.stage == stage.name)?;
        Some(one.failed)
    }

    /// A release that takes away too much from what the stage had: what releases in between took
    /// away counts, too, whether its zones got them or not.
    fn excess(&self, release: &Release, progress: Progress, places: &[usize]) -> Option<Waiting> {
        let mut approvals = self.situation.approvals.iter();
        if approvals.any(|one| one.stage.is_none() && one.release == release.number) {
            return None;
        }
        let had = self.had(progress, places);
        let excess = had.into_iter().filter(|had| *had < release.number);
        let excess = excess.filter_map(|had| {
            let removes = release.removes_since(had);
            let may = self.policy.may_remove(removes.unwrap_or_default().of);
            let within = removes.is_some_and(|removes| removes.objects <= may);
            (!within).then_some((removes.map(|removes| removes.objects), may))
        });
        let (removes, may) = excess.max_by_key(|(removes, _)| removes.unwrap_or(u64::MAX))?;
        Some(Waiting::Deletions {
            release: release.number,
            removes,
            may,
        })
    }

    /// The releases that something may be taken away from: the one that the stage had as a whole,
    /// or, while there is none, all that its zones have. Who is on its way may have any that is
    /// kept, and who was never let in what was there when the policy came.
    fn had(&self, progress: Progress, places: &[usize]) -> BTreeSet<u64> {
        if let Some(completed) = progress.completed {
            return BTreeSet::from([completed.release]);
        }
        let first = self.situation.releases.first().map(|first| first.number);
        let admitted = places.iter().map(|place| self.zones[*place].admitted);
        let had = admitted.filter_map(|one| match one {
            Some(one) if one.phase == Phase::Admitted => first,
            Some(one) => Some(one.target.release),
            None => first.filter(|first| *first == FIRST),
        });
        had.collect()
    }

    /// Returns true if the zones of a stage get by a release what they are to have already.
    fn changes_nothing(&self, release: &Release, places: &[usize]) -> bool {
        let zones = places.iter().map(|place| &self.zones[*place]);
        // Who never joined has nothing, and begins with what its stage has completed.
        let mut zones = zones
            .filter(|known| known.zone.link != Link::Never)
            .peekable();
        let is_any = zones.peek().is_some();
        is_any
            && zones.all(|known| {
                if known.zone.holds == Some(release.number) {
                    return true;
                }
                let has = known.admitted.filter(|one| one.phase != Phase::Deferred);
                let has = has.and_then(|one| Some((one, self.release(one.target.release)?)));
                has.is_some_and(|(one, had)| {
                    let class = release.class_of(known.labels);
                    release.is_same(class, had, one.target.class)
                })
            })
    }

    fn unapproved(&self, stage: &Stage, release: &Release, places: &[usize]) -> Option<Waiting> {
        if stage.approval != Approval::None && self.changes_nothing(release, places) {
            return None;
        }
        let approvals = self.situation.approvals.iter();
        let mut approvals = approvals.filter(|one| {
            one.stage.as_deref() == Some(&stage.name) && one.release == release.number
        });
        let (approved, refused) = match stage.approval {
            Approval::None => return None,
            Approval::Required => (approvals.next().is_some(), None),
            Approval::RequiredByOther => {
                let authors = self.authors(stage, release);
                let known = |by: &&String| authors.as_ref().is_some_and(|all| !all.contains(*by));
                let by: Vec<&String> = approvals.map(|one| &one.by).collect();
                let refused = by.first().map(|by| match &authors {
                    Some(_) => Refusal::Author((*by).clone()),
                    None => Refusal::Unknown,
                });
                (by.iter().any(known), refused)
            }
        };
        let release = release.number;
        (!approved).then_some(Waiting::Approval { release, refused })
    }

    /// Whose doing it is that a stage would have something else than it had as a whole; nothing
    /// where that is not known. Who changed what a newer release changed again is among them.
    fn authors(&self, stage: &Stage, release: &'a Release) -> Option<BTreeSet<&'a String>> {
        let completed = self.progress(stage).completed;
        self.authors_after(completed.map(|mark| mark.release), release)
    }

    /// The newest release that a stage had completed before it took another one.
    fn completed_before(&self, stage: &str, release: u64) -> Option<u64> {
        let past = self.record.past.get(stage);
        let past = past.into_iter().flat_map(|past| past.completed.iter());
        let progress = self.record.stages.get(stage);
        let last = progress.and_then(|one| Some(one.completed?.release));
        let all = past.copied().chain(last);
        all.filter(|one| *one < release).max()
    }

    fn authors_after(
        &self,
        completed: Option<u64>,
        release: &'a Release,
    ) -> Option<BTreeSet<&'a String>> {
        let completed = completed.map(|completed| self.content_of(completed));
        // What is brought back has what led to it, and nothing of what came after.
        let until = self.content_of(release.number);
        let releases = self.situation.releases.iter();
        let since = releases.filter(|one| {
            let newer = completed.is_none_or(|completed| one.number > completed);
            (newer && one.number <= until) || one.number == release.number
        });
        let mut authors = BTreeSet::new();
        for one in since {
            if one.authors.is_empty() {
                return None;
            }
            authors.extend(&one.authors);
        }
        Some(authors)
    }

    fn moving<'s>(
        &mut self,
        stage: &'s Stage,
        release: &'a Release,
        places: &[usize],
        paused: bool,
    ) -> Moving<'s, 'a> {
        let now = self.situation.now;
        let Progress {
            failed: marked,
            completed,
            ..
        } = self.progress(stage);
        let number = release.number;
        let done = completed.is_some_and(|mark| mark.release >= number);
        let members = places.iter().map(|place| {
            let known = &self.zones[*place];
            Member::new((*place, known), (stage, release, done), now)
        });
        let members: Vec<Member<'a>> = members.collect();
        for member in &members {
            let released = member.zone.released_at.filter(|at| *at > now);
            self.next = earlier(self.next, earlier(member.alarm, released));
        }
        let failed = members.iter().filter(|member| member.has_failed());
        let failed: Vec<&str> = failed.map(|member| member.zone.name).collect();
        let forgiven = self.forgiven(stage, number);
        let may = stage
            .max_failures
            .of(members.len())
            .max(forgiven.unwrap_or(0));
        let is_forgiven = forgiven.is_some() && failed.len() <= may;
        Moving {
            may,
            marked: marked.is_some_and(|mark| mark.release == number) && !is_forgiven,
            failed,
            done,
            stage,
            release,
            members,
            paused,
            digest: OnceCell::new(),
        }
    }

    /// Asks the gate of the stage.
    fn pass(&mut self, moving: &Moving<'_, 'a>) -> Decision<At> {
        let Moving { stage, release, .. } = moving;
        let halted = moving.is_halted();
        let items = moving.members.iter().map(|member| member.item(halted));
        let items: Vec<_> = items.collect();
        let completed = self.progress(stage).completed.map(|mark| mark.release);
        let completed = completed.filter(|one| self.release(*one).is_some() && !moving.paused);
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

    /// Writes down that too many failed, or that it was forgiven. What has completed has not failed,
    /// whatever comes later.
    fn fail(&mut self, moving: &Moving<'_, 'a>) {
        let Moving { stage, release, .. } = moving;
        if moving.paused || moving.done {
            return;
        }
        if !moving.has_failed() {
            if let Some(progress) = self.record.stages.get_mut(&stage.name) {
                let mark = progress.failed;
                progress.failed = mark.filter(|mark| mark.release != release.number);
            }
            return;
        }
        if !moving.marked {
            self.progress_of(stage).failed = self.mark(release.number);
            let zones = moving.failed.iter().map(|zone| (*zone).to_owned());
            let advance = Advance::Failed(zones.collect());
            let because = format!("{} failed, and {} may", moving.failed.len(), moving.may);
            self.note(moving, advance, because);
        }
        self.effect = self.effect.or_else(|| self.rollback(stage, release));
    }

    /// What is brought back. Who brought something back that fails, too, is asked what to do.
    fn rollback(&self, stage: &Stage, release: &Release) -> Option<Effect> {
        let wanted = self.policy.on_failure == OnFailure::Rollback && release.restores.is_none();
        let newer = self.situation.releases.iter().rev();
        let newer = newer.take_while(|one| one.number > release.number);
        let mut newer = newer.filter(|one| self.is_other(one.number, release));
        if !wanted || newer.any(|one| one.restores.is_some()) || self.helps(release).is_some() {
            return None;
        }
        Some(Effect::Rollback {
            failed: release.number,
            to: self.proven_until(stage)?,
        })
    }

    /// Why nothing is brought back though somebody asked for it.
    fn no_way_back(&self, moving: &Moving<'_, 'a>) -> Option<Waiting> {
        let Moving { release, .. } = moving;
        let wanted = self.policy.on_failure == OnFailure::Rollback && release.restores.is_none();
        let failed = !moving.done && moving.has_failed();
        let newer = self.helps(release).filter(|_| wanted && failed)?;
        let release = release.number;
        Some(Waiting::Newer { release, newer })
    }

    /// A newer release that comes in place of one that failed without anybody's doing: some stage
    /// has taken it and does well, or takes it next.
    fn helps(&self, release: &Release) -> Option<u64> {
        let stages = self.record.stages.values();
        let taken = stages.filter_map(|one| {
            let taken = one.taken?.release;
            let failed = one.failed.is_some_and(|failed| failed.release == taken);
            Some(taken).filter(|_| !failed)
        });
        taken
            .chain(self.queued)
            .filter(|one| *one > release.number && self.is_other(*one, release))
            .max()
    }

    /// Whether a release has something else than one that failed: what brings back its content does
    /// not help.
    fn is_other(&self, one: u64, failed: &Release) -> bool {
        self.content_of(one) != self.content_of(failed.number)
    }

    /// The newest release that a stage has completed, and whose content failed in none: what passed
    /// the stage may have failed in a later one, and then it is what that one completed.
    fn proven_until(&self, stage: &Stage) -> Option<u64> {
        let failed = self.record.stages.values().filter_map(|one| {
            let failed = one.failed?.release;
            let completed = one.completed.is_some_and(|mark| mark.release >= failed);
            (!completed).then(|| self.content_of(failed))
        });
        let failed: BTreeSet<u64> = failed.collect();
        let stages = self.policy.stages.iter();
        let stages = stages.skip_while(|one| one.name != stage.name);
        let completed = stages.filter_map(|one| Some(self.progress(one).completed?.release));
        let kept = completed.filter(|one| self.release(*one).is_some());
        kept.filter(|one| !failed.contains(&self.content_of(*one)))
            .max()
    }

    /// The release that first had the content of a release.
    fn content_of(&self, release: u64) -> u64 {
        let restores = self.release(release).and_then(|one| one.restores);
        match restores.filter(|older| *older < release) {
            Some(older) => self.content_of(older),
            None => release,
        }
    }

    /// Who is away for too long loses its place, and so does who failed or refuses; who was ready and is not is
    /// on its way again, and has as long as before, until the stage has completed.
    fn fall_back(&mut self, moving: &Moving<'_, 'a>) {
        if moving.paused {
            return;
        }
        let at = whole(self.situation.now);
        let mut deferred = Vec::new();
        for member in &moving.members {
            let phase = match member.fares {
                Fares::Away if member.is_on_its_way() => Phase::Deferred,
                Fares::Offline { .. } if member.expired => Phase::Deferred,
                Fares::Relapsed { .. } if member.is_there() && !moving.done => Phase::Admitted,
                Fares::Failed { .. } if member.gives_up(moving.done) => Phase::Failed,
                Fares::Refused { .. } if member.is_on_its_way() => Phase::Started,
                Fares::Behind
                | Fares::UnderWay { .. }
                | Fares::Relapsed { .. }
                | Fares::NoEvidence { .. }
                | Fares::Failed { .. }
                | Fares::Refused { .. }
                | Fares::Ready { .. }
                | Fares::Offline { .. }
                | Fares::Away
                | Fares::Ahead => continue,
            };
            if let Some(one) = &mut self.zones[member.place].admitted {
                *one = Admitted { at, phase, ..*one };
            }
            if phase == Phase::Deferred {
                deferred.push(member.zone.name.to_owned());
            }
        }
        if !deferred.is_empty() {
            let because = "away beyond the progress deadline".to_owned();
            self.note(moving, Advance::Deferred(deferred), because);
        }
    }

    /// Writes down who arrived, who begins and who is let in.
    fn apply(&mut self, moving: &Moving<'_, 'a>, decision: &Decision<At>) {
        let at = whole(self.situation.now);
        let arrivals = decision.arrivals.iter();
        let arrivals = arrivals.filter_map(|zone| moving.member(zone));
        let members = moving.members.iter();
        for member in arrivals.chain(members.filter(|one| one.has_recovered())) {
            if let Some(one) = &mut self.zones[member.place].admitted {
                let phase = Phase::Arrived;
                *one = Admitted { at, phase, ..*one };
            }
        }
        let starts = decision.starts.iter().map(|one| (one, Phase::Started));
        let moves = decision.admissions.iter().map(|one| (one, Phase::Admitted));
        for (change, phase) in starts.chain(moves) {
            let member = &moving.members[change.index];
            let target = match phase {
                Phase::Started => self.target(change.to.release, member),
                Phase::Admitted | Phase::Arrived | Phase::Deferred | Phase::Failed => {
                    Some(member.target)
                }
            };
            let admitted = target.map(|target| Admitted { target, at, phase });
            self.zones[member.place].admitted = admitted;
        }
        if !decision.admissions.is_empty() {
            let zones = decision.admissions.iter().map(|one| one.key.clone());
            let because = format!("{}; then {}", moving.proof(), moving.counted(decision));
            self.note(moving, Advance::Admitted(zones.collect()), because);
        }
    }

    fn target(&self, release: u64, member: &Member<'a>) -> Option<Target> {
        let release = self.release(release)?;
        Some(target(release, member.labels))
    }

    /// Whether all of a stage has the release now; if not, what is waited for.
    fn complete(&mut self, moving: &Moving<'_, 'a>) -> Option<Waiting> {
        let Moving { stage, release, .. } = moving;
        if moving.done || moving.is_halted() || !moving.lets_complete() {
            return None;
        }
        let last = moving.proven().into_iter().map(|(_, since)| since).max();
        if last.is_none() && stage.no_evidence == NoEvidence::Hold {
            let reason = match moving.members.is_empty() {
                true => format!("no zone is in stage {}", stage.name),
                false => format!(
                    "all zones of stage {} failed, refused it, are held or away",
                    stage.name
                ),
            };
            return Some(Waiting::NoEvidence { reason });
        }
        // Moments are written down by the second: without a soak there is nothing to wait for.
        let soaks = last.filter(|_| stage.soak != Duration::from_nanos(0));
        let until = soaks.and_then(|last| last.plus(stage.soak));
        if let Some(until) = until.filter(|until| *until > self.situation.now) {
            self.next = earlier(self.next, Some(until));
            return Some(Waiting::Soak { until });
        }
        self.progress_of(stage).completed = self.mark(release.number);
        let because = match last {
            Some(last) => format!("{}, the last since {last}", moving.proof()),
            None => moving.proof(),
        };
        self.note(moving, Advance::Completed, because);
        None
    }

    fn note(&mut self, moving: &Moving<'_, 'a>, advance: Advance, because: String) {
        self.record.note(Evidence {
            at: self.situation.now,
            stage: moving.stage.name.clone(),
            release: moving.release.number,
            advance,
            more: 0,
            because,
            digest: moving.digest().to_owned(),
        });
    }
}

/// The second that is not before a time: so much is written down.
fn whole(at: Timestamp) -> Timestamp {
    match at.nanos() {
        0 => at,
        _ => Timestamp::new(at.seconds() + 1, 0).unwrap_or(at),
    }
}

#[cfg(test)]
mod tests;
