//! The rules, in other words than those that decide: whatever breaks one is found.
//!
//! What is followed here comes from what happens, and from what is written down; how it was come to
//! is not looked at.

use std::collections::BTreeMap;

use deltaplane_expr::{Duration, Timestamp};
use deltaplane_propagation::stages::{
    Admitted, Approval, Effect, Forgiven, Link, Mark, NoEvidence, OnNewer, Outcome, Phase, Record,
    Release, Removes, Stage, Target,
};
use deltaplane_propagation::{Hold, InFlight};

use crate::fleet::Fleet;
use crate::node::{Health, Node};

/// Who follows what happens.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// Those that were let in and have not been ready since, with what they were let into.
    flights: BTreeMap<String, Admitted>,
}

/// A stage at one moment.
struct Scene<'a> {
    fleet: &'a Fleet,
    stage: &'a Stage,
    index: usize,
    before: &'a Record,
    after: &'a Record,
    zones: Vec<(&'a str, &'a Node)>,
}

/// Who of a stage is in flight, and how many may be.
struct Flights {
    in_flight: InFlight,
    most: usize,
}

/// How many may be in flight.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Linear(usize),
    Exponential(usize),
}

type Judged = Result<(), String>;

fn must(holds: bool, what: impl FnOnce() -> String) -> Judged {
    match holds {
        true => Ok(()),
        false => Err(what()),
    }
}

/// Nothing is brought back that failed anywhere, or that no stage has completed.
fn goes_back(fleet: &Fleet, outcome: &Outcome) -> Judged {
    let Some(Effect::Rollback { failed, to }) = outcome.effect else {
        return Ok(());
    };
    let content = |release: u64| {
        let all = fleet.releases.iter().rev();
        let all = all.skip_while(|one| one.number > release);
        all.fold(release, |content, one| match one.restores {
            Some(older) if one.number == content => older,
            Some(_) | None => content,
        })
    };
    let mut stages = outcome.record.stages.values();
    let completed = stages
        .clone()
        .any(|one| one.completed.is_some_and(|mark| mark.release == to));
    must(completed, || {
        format!("{to} is brought back, and was nowhere")
    })?;
    let bad = stages.any(|one| {
        let number = |mark: Option<Mark>| mark.map(|mark| mark.release);
        let is_bad = number(one.failed) > number(one.completed);
        is_bad
            && one
                .failed
                .is_some_and(|mark| content(mark.release) == content(to))
    });
    must(!bad && to < failed, || {
        format!("{to} is brought back in place of {failed}, and failed itself")
    })
}

// === impl Witness ===

impl Witness {
    /// Judges what is about to be written down.
    ///
    /// # Errors
    ///
    /// The rule that it breaks.
    pub(crate) fn judge(&mut self, fleet: &Fleet, outcome: &Outcome) -> Judged {
        let (before, after) = (&fleet.record, &outcome.record);
        self.flights
            .retain(|name, _| fleet.nodes.contains_key(name));
        for index in 0..fleet.policy.stages.len() {
            let zones = fleet.nodes.iter().filter(|(_, node)| {
                fleet.policy.selects(&node.object)
                    && fleet.policy.stage_of(&node.object) == Some(index)
            });
            let scene = Scene {
                fleet,
                stage: &fleet.policy.stages[index],
                index,
                before,
                after,
                zones: zones.map(|(name, node)| (name.as_str(), node)).collect(),
            };
            scene.judge(self)?;
        }
        goes_back(fleet, outcome)?;
        for name in after.zones.keys() {
            must(fleet.nodes.contains_key(name), || {
                format!("{name} has left, and is not forgotten")
            })?;
        }
        // Also of those that the policy does not select for a while.
        for (name, before) in &before.zones {
            let after = after.zones.get(name).map(|after| after.target.release);
            let back = fleet.nodes.contains_key(name) && after < Some(before.target.release);
            must(!back, || {
                format!("{name} goes back from {} to {after:?}", before.target)
            })?;
        }
        Ok(())
    }
}

// === impl Scene ===

impl<'a> Scene<'a> {
    fn judge(&self, witness: &mut Witness) -> Judged {
        self.takes()?;
        self.completes()?;
        self.fails()?;
        // Who is ready has landed once that is seen.
        for (name, node) in &self.zones {
            let flight = witness.flights.get(*name);
            if flight.is_some_and(|flight| self.is_ready(node, flight.target)) {
                witness.flights.remove(*name);
            }
        }
        let mut flights = Flights {
            in_flight: self.in_flight(witness),
            most: self.most().unwrap_or(usize::MAX),
        };
        for (name, node) in &self.zones {
            let (before, after) = (self.before.zones.get(*name), self.after.zones.get(*name));
            if before != after {
                self.moves(name, node, (before, after))
                    .map_err(|broken| format!("{name}: {broken}"))?;
                self.follow(name, (before, after), (witness, &mut flights))?;
            }
        }
        match self.before == self.after {
            true => self.moves_on(),
            false => Ok(()),
        }
    }

    fn paused(&self) -> bool {
        self.fleet.policy.paused || self.stage.paused
    }

    fn taken(&self, record: &Record) -> Option<u64> {
        let progress = record.stages.get(&self.stage.name)?;
        progress.taken.map(|mark| mark.release)
    }

    fn completed(&self, record: &Record) -> Option<u64> {
        let progress = record.stages.get(&self.stage.name)?;
        progress.completed.map(|mark| mark.release)
    }

    fn release(&self, number: u64) -> Option<&'a Release> {
        let mut releases = self.fleet.releases.iter();
        releases.find(|release| release.number == number)
    }

    fn target(&self, release: u64, node: &Node) -> Option<Target> {
        let class = self.release(release)?.class(&node.object);
        Some(Target { release, class })
    }

    /// How long it is that something is so.
    fn is_past(&self, since: Timestamp, length: Duration) -> bool {
        since.plus(length).is_some_and(|end| end <= self.fleet.now)
    }

    fn is_ready(&self, node: &Node, target: Target) -> bool {
        self.ready_since(node, target).is_some()
    }

    /// Since when the hub knows that a zone is ready at exactly something.
    fn ready_since(&self, node: &Node, target: Target) -> Option<Timestamp> {
        let (at, health) = node.said.filter(|_| node.is_connected())?;
        match health {
            _ if at != target => None,
            Health::Ready(since) => Some(since),
            Health::NoEvidence if self.stage.no_evidence == NoEvidence::Proceed => {
                Some(self.fleet.now)
            }
            Health::NoEvidence | Health::Refused | Health::Waiting | Health::Failed => None,
        }
    }

    /// Whether a zone failed at what it was let into, as far as the hub knows.
    fn has_failed(&self, node: &Node, one: &Admitted) -> bool {
        let Link::Connected { since: connected } = node.link else {
            return false;
        };
        match node.said.filter(|(at, _)| *at == one.target) {
            Some((_, Health::Failed)) => true,
            // Who failed has failed until it is ready.
            Some((_, Health::Waiting)) | None if one.phase == Phase::Failed => true,
            Some((_, Health::NoEvidence)) if one.phase == Phase::Failed => {
                self.stage.no_evidence == NoEvidence::Hold
            }
            Some((_, Health::Ready(_) | Health::NoEvidence | Health::Refused)) => false,
            Some((_, Health::Waiting)) | None => {
                let late = self.is_past(connected.max(one.at), self.stage.deadline);
                late || self.has_expired(one)
            }
        }
    }

    /// Whether a zone is on its way for twice as long as it may be without a break.
    fn has_expired(&self, one: &Admitted) -> bool {
        let first = one.at.plus(self.stage.deadline);
        let past = first.is_some_and(|first| self.is_past(first, self.stage.deadline));
        one.phase == Phase::Admitted && past
    }

    /// Whether a zone keeps something of its own in place of something.
    fn refuses(&self, node: &Node, target: Target) -> bool {
        node.is_connected() && node.said == Some((target, Health::Refused))
    }

    /// Whether a zone has no place in flight, whatever it was let into.
    fn is_aside(&self, node: &Node, one: &Admitted) -> bool {
        self.has_failed(node, one) || self.refuses(node, one.target)
    }

    fn takes(&self) -> Judged {
        let (before, after) = (self.taken(self.before), self.taken(self.after));
        let Some(number) = after.filter(|_| before != after) else {
            return must(before == after, || {
                "a release is not taken any more".to_owned()
            });
        };
        let name = &self.stage.name;
        must(!self.paused(), || {
            format!("{name} is paused and takes {number}")
        })?;
        must(Some(number) > before, || {
            format!("{name} goes back to {number}")
        })?;
        let offered = match self.index {
            0 => self.fleet.releases.last().map(|release| release.number),
            index => {
                let stage = &self.fleet.policy.stages[index - 1].name;
                let progress = self.after.stages.get(stage);
                progress.and_then(|progress| Some(progress.completed?.release))
            }
        };
        must(offered == Some(number), || {
            format!("{name} takes {number} where {offered:?} is offered")
        })?;
        self.approved(number)?;
        let progress = self.before.stages.get(name).copied().unwrap_or_default();
        let done = [progress.completed, progress.failed].into_iter().flatten();
        let done = done.map(|mark| mark.release).max();
        let queued = self.fleet.policy.on_newer == OnNewer::Queue && before.is_some();
        must(!queued || done == before, || {
            format!("{name} takes {number} before it is done with {before:?}")
        })
    }

    fn approved(&self, number: u64) -> Judged {
        let Some(release) = self.release(number) else {
            return Err(format!("there is no release {number}"));
        };
        let by = |stage: Option<&str>| {
            let all = self.fleet.approvals.iter();
            let all = all.filter(|one| one.release == number && one.stage.as_deref() == stage);
            all.map(|one| &one.by).collect::<Vec<_>>()
        };
        let agreed = by(Some(&self.stage.name));
        let enough = match self.stage.approval {
            Approval::None => true,
            Approval::Required => !agreed.is_empty(),
            Approval::RequiredByOther => {
                // What people changed that zones do not have yet, and who brings it.
                let has = self
                    .completed(self.before)
                    .map_or(0, |one| self.content(one));
                let gets = self.content(number);
                let all = self.fleet.releases.iter();
                let all = all.filter(|one| {
                    let edit = one.restores.is_none() && one.number > has && one.number <= gets;
                    edit || one.number == number
                });
                let all: Vec<&Release> = all.collect();
                let known = all.iter().all(|one| !one.authors.is_empty());
                let is_author = |by: &String| all.iter().any(|one| one.authors.contains(by));
                known && agreed.iter().any(|by| !is_author(by))
            }
        };
        must(enough, || {
            format!("nobody agreed that {number} goes to {}", self.stage.name)
        })?;
        // What the stage had as a whole, or as long as it had nothing, what each of its zones has.
        let zones = self.zones.iter();
        let zones = zones.filter_map(|(zone, _)| self.before.zones.get(*zone));
        let zones = zones.map(|one| match one.phase {
            // It may have got nothing of it yet.
            Phase::Admitted => 1,
            Phase::Started | Phase::Arrived | Phase::Deferred | Phase::Failed => one.target.release,
        });
        let had: Vec<u64> = match self.completed(self.before) {
            Some(completed) => vec![completed],
            None => zones.filter(|had| *had < number).collect(),
        };
        let few = had.iter().all(|had| {
            let Removes { objects, of } = release.removes[had];
            objects <= self.fleet.policy.may_remove(of)
        });
        must(few || !by(None).is_empty(), || {
            format!("{number} takes away too much")
        })
    }

    fn completes(&self) -> Judged {
        let (before, after) = (self.completed(self.before), self.completed(self.after));
        let Some(number) = after.filter(|_| before != after) else {
            return Ok(());
        };
        let name = &self.stage.name;
        must(!self.paused(), || {
            format!("{name} is paused and completes {number}")
        })?;
        must(self.taken(self.after) == after, || {
            format!("{name} completes {number} unseen")
        })?;
        let mut proven = 0;
        let mut failed = 0;
        for (zone, node) in &self.zones {
            let admitted = self.before.zones.get(*zone);
            let target = self.target(number, node);
            let there =
                admitted.filter(|one| Some(one.target) == target && one.phase != Phase::Deferred);
            if admitted.is_some_and(|one| one.target.release > number) {
                continue;
            }
            match (node.link, there) {
                (Link::Never, _) => {}
                (Link::Lost { since }, there) => {
                    let held = there.is_none() && node.hold == Hold::Held;
                    let deferred = admitted.is_some_and(|one| one.phase == Phase::Deferred);
                    let given_up = deferred || node.is_disabled();
                    let late = self.is_past(since, self.stage.deadline);
                    must(held || given_up || late, || {
                        format!("{name} completes {number} while {zone} is away")
                    })?;
                }
                (Link::Connected { .. }, Some(one)) if self.is_ready(node, one.target) => {
                    self.soaked(zone, node, *one)?;
                    proven += 1;
                }
                (Link::Connected { .. }, Some(one)) if self.refuses(node, one.target) => {}
                (Link::Connected { .. }, Some(one)) => {
                    let fails = self.has_failed(node, one);
                    must(fails, || {
                        format!("{name} completes {number} without {zone}")
                    })?;
                    failed += 1;
                }
                (Link::Connected { .. }, None) => must(node.hold == Hold::Held, || {
                    format!("{name} completes {number} and {zone} does not have it")
                })?,
            }
        }
        let may = self.may_fail(number);
        must(failed <= may, || {
            format!("{name} completes {number} although {failed} failed")
        })?;
        must(
            proven > 0 || self.stage.no_evidence == NoEvidence::Proceed,
            || format!("{name} completes {number}, and nothing shows that it works"),
        )
    }

    fn soaked(&self, zone: &str, node: &Node, one: Admitted) -> Judged {
        if self.stage.soak == Duration::from_nanos(0) {
            return Ok(());
        }
        let since = match (node.said, one.phase) {
            (Some((_, Health::Ready(since))), _) => since,
            // Nobody has looked before now.
            (_, Phase::Admitted | Phase::Failed) => self.fleet.now,
            (_, Phase::Arrived | Phase::Started | Phase::Deferred) => one.at,
        };
        must(self.is_past(since, self.stage.soak), || {
            format!("{} has not soaked in {zone}", self.stage.name)
        })
    }

    fn fails(&self) -> Judged {
        let failed = |record: &Record| record.stages.get(&self.stage.name)?.failed;
        let (before, after) = (failed(self.before), failed(self.after));
        let Some(mark) = after.filter(|_| before != after) else {
            let forgiven = before.is_none_or(|mark| self.is_forgiven(mark.release));
            return must(before == after || forgiven, || {
                "a failure is forgotten".to_owned()
            });
        };
        let name = &self.stage.name;
        must(!self.paused(), || {
            format!("{name} is paused and fails {}", mark.release)
        })?;
        must(self.completed(self.before) < Some(mark.release), || {
            format!("{name} fails {}, which it has completed", mark.release)
        })?;
        let (failed, may) = (self.failed(mark.release), self.may_fail(mark.release));
        must(failed > may, || {
            format!("{name} fails although only {failed} did, and {may} may")
        })
    }

    /// How many have failed at a release.
    fn failed(&self, release: u64) -> usize {
        let failed = self.zones.iter().filter(|(zone, node)| {
            let target = self.target(release, node);
            let one = self.before.zones.get(*zone);
            one.is_some_and(|one| Some(one.target) == target && self.has_failed(node, one))
        });
        failed.count()
    }

    /// How many may: as the stage says, or as many as a person has seen in this one.
    fn may_fail(&self, release: u64) -> usize {
        let may = self.stage.max_failures.of(self.zones.len());
        may.max(self.seen_to_fail(release).unwrap_or(0))
    }

    fn seen_to_fail(&self, release: u64) -> Option<usize> {
        let resumed = self.fleet.resumed.as_deref().and_then(Forgiven::read)?;
        let mut resumed = resumed.iter();
        let one = resumed.find(|one| one.release == release && one.stage == self.stage.name)?;
        Some(one.failed)
    }

    fn is_forgiven(&self, release: u64) -> bool {
        self.seen_to_fail(release).is_some() && self.failed(release) <= self.may_fail(release)
    }

    /// The release whose content a release has.
    fn content(&self, number: u64) -> u64 {
        let restores = self.release(number).and_then(|one| one.restores);
        restores.map_or(number, |older| self.content(older))
    }

    /// Judges what becomes of a zone.
    fn moves(
        &self,
        name: &str,
        node: &Node,
        (before, after): (Option<&Admitted>, Option<&Admitted>),
    ) -> Judged {
        let Some(after) = after else {
            return Err("it is forgotten".to_owned());
        };
        let target = self.target(after.target.release, node);
        let same = before.filter(|before| before.target == after.target);
        let was = same.map(|one| one.phase);
        if was == Some(after.phase) && after.phase != Phase::Admitted {
            // When all that stand alike began to.
            return must(Some(after.at) >= before.map(|one| one.at), || {
                "it is younger".to_owned()
            });
        }
        if after.phase == Phase::Arrived && matches!(was, Some(Phase::Admitted | Phase::Failed)) {
            let ready = self.is_ready(node, after.target);
            return must(ready, || {
                format!("it has arrived at {} and is not ready", after.target)
            });
        }
        must(!self.paused(), || {
            format!("it is paused and moves from {before:?} to {after:?}")
        })?;
        must(
            before.is_none_or(|one| one.target.release <= after.target.release),
            || format!("it goes back from {before:?} to {after:?}"),
        )?;
        let link = node.link;
        match (after.phase, was) {
            (Phase::Admitted, Some(Phase::Arrived)) => {
                let ready = self.is_ready(node, after.target);
                must(!ready, || "it is ready and begins again".to_owned())
            }
            (Phase::Failed, Some(Phase::Admitted | Phase::Arrived)) => {
                let failed = before.is_some_and(|one| self.has_failed(node, one));
                must(failed, || "it has not failed".to_owned())
            }
            (Phase::Started, Some(Phase::Admitted)) => {
                let refuses = self.refuses(node, after.target);
                must(refuses, || "it is set aside and does not refuse".to_owned())
            }
            (Phase::Admitted, Some(Phase::Failed)) => {
                Err("it failed, and is in flight again".to_owned())
            }
            (Phase::Deferred, Some(Phase::Admitted)) => {
                let expired = before.is_some_and(|one| self.has_expired(one));
                let late = matches!(link, Link::Lost { since }
                    if self.is_past(since, self.stage.deadline) || expired || node.is_disabled());
                must(late, || "it loses its place too soon".to_owned())
            }
            (Phase::Admitted, _) => {
                must(node.is_connected(), || "it is away and let in".to_owned())?;
                must(node.hold == Hold::Free, || {
                    "it is held and let in".to_owned()
                })?;
                must(Some(after.target) == target, || {
                    "it gets what is another's".to_owned()
                })?;
                must(!self.is_given_up(), || {
                    "its stage failed, and it is let in".to_owned()
                })?;
                must(self.taken(self.after) == Some(after.target.release), || {
                    format!("it gets {} which its stage has not taken", after.target)
                })
            }
            (Phase::Started, None) if before.is_none() => {
                let completed = self.completed(self.before);
                must(Some(after.target) == target, || {
                    "it begins with another's".to_owned()
                })?;
                must(completed == Some(after.target.release), || {
                    format!("{name} begins with {} and not {completed:?}", after.target)
                })
            }
            (Phase::Started | Phase::Arrived | Phase::Deferred | Phase::Failed, _) => {
                Err(format!("it goes from {before:?} to {after:?}"))
            }
        }
    }

    /// Whether too many failed, and nobody said that it goes on.
    fn is_given_up(&self) -> bool {
        let taken = self.taken(self.after);
        let progress = self.before.stages.get(&self.stage.name);
        let failed = progress.and_then(|progress| progress.failed);
        let failed = failed.is_some_and(|mark| Some(mark.release) == taken);
        let forgiven = taken.is_some_and(|taken| self.is_forgiven(taken));
        failed && self.completed(self.before) < taken && !forgiven
    }

    /// Where nothing changes any more, nobody is left who could have been let in.
    fn moves_on(&self) -> Judged {
        let Some(taken) = self.taken(self.after).filter(|_| !self.paused()) else {
            return Ok(());
        };
        let zones = || {
            self.zones.iter().map(|(name, node)| {
                let one = self.after.zones.get(*name);
                let one = one.filter(|one| one.target.release <= taken);
                let there = one.is_some_and(|one| {
                    one.phase != Phase::Deferred && Some(one.target) == self.target(taken, node)
                });
                (*name, *node, one, there)
            })
        };
        let failed = zones().filter(|(_, node, one, there)| {
            *there && one.is_some_and(|one| self.has_failed(node, one))
        });
        let many = failed.count() > self.may_fail(taken);
        let Some(bound) = self.most().filter(|_| !many && !self.is_given_up()) else {
            return Ok(());
        };
        let in_flight = zones().filter(|(_, node, one, there)| {
            let Some(one) = one.filter(|one| !self.is_aside(node, one)) else {
                return false;
            };
            let away = match node.link {
                Link::Lost { since } => {
                    self.is_past(since, self.stage.deadline) || self.has_expired(one)
                }
                Link::Connected { .. } => false,
                Link::Never => true,
            };
            match one.phase {
                Phase::Admitted => !away,
                // What falls back when its stage has completed is in nobody's way.
                Phase::Arrived => {
                    let heard = node.said.is_some_and(|(at, _)| at == one.target);
                    let done = self.completed(self.after) >= Some(taken) && heard;
                    *there && node.is_connected() && !done && !self.is_ready(node, one.target)
                }
                Phase::Started | Phase::Deferred | Phase::Failed => false,
            }
        });
        let in_flight = in_flight.count();
        let ahead = |name: &str| {
            let one = self.after.zones.get(name);
            one.is_some_and(|one| one.target.release > taken)
        };
        let mut left = zones().filter(|(name, node, _, there)| {
            !there && !ahead(name) && node.is_connected() && node.hold == Hold::Free
        });
        match left.next().filter(|_| in_flight < bound) {
            Some((name, ..)) => Err(format!(
                "{name} is not let into {taken}, with {in_flight} in flight where {bound} may be"
            )),
            None => Ok(()),
        }
    }

    /// Those of the stage that are in flight, but for what has a later release than the stage. Who
    /// failed or refuses is not any more once that is written down, and not before.
    fn in_flight(&self, witness: &Witness) -> InFlight {
        let taken = self.taken(self.after);
        let flying = self.zones.iter().filter_map(|(name, node)| {
            let after = self.after.zones.get(*name);
            let is_left = after.is_some_and(|one| one.phase == Phase::Admitted);
            let flight = witness.flights.get(*name).filter(|_| is_left)?;
            let target = taken.and_then(|taken| self.target(taken, node));
            let there = Some(flight.target) == target;
            (Some(flight.target.release) <= taken).then_some((*name, there))
        });
        let (there, elsewhere): (Vec<_>, Vec<_>) = flying.partition(|(_, there)| *there);
        let mut in_flight = InFlight::default();
        for (name, _) in elsewhere {
            let _ = in_flight.admit(name, usize::MAX);
        }
        in_flight.retarget();
        for (name, _) in there {
            let _ = in_flight.admit(name, usize::MAX);
        }
        in_flight
    }

    /// Follows who is let in, and that no more are than may be.
    fn follow(
        &self,
        name: &str,
        (before, after): (Option<&Admitted>, Option<&Admitted>),
        (witness, flights): (&mut Witness, &mut Flights),
    ) -> Judged {
        let Some(after) = after else {
            return Ok(());
        };
        if after.phase != Phase::Admitted {
            witness.flights.remove(name);
            return Ok(());
        }
        witness.flights.insert(name.to_owned(), *after);
        let relapses = before
            .is_some_and(|before| before.target == after.target && before.phase == Phase::Arrived);
        let most = if relapses { usize::MAX } else { flights.most };
        let admitted = flights.in_flight.admit(name, most);
        admitted.map_err(|exceeded| format!("{}: {exceeded}", self.stage.name))
    }

    /// How many are ready at what the stage has taken.
    fn proven(&self) -> usize {
        let proven = self.zones.iter().filter(|(name, node)| {
            let taken = self.taken(self.after);
            let target = taken.and_then(|taken| self.target(taken, node));
            let one = self.before.zones.get(*name);
            one.is_some_and(|one| {
                one.phase != Phase::Deferred
                    && Some(one.target) == target
                    && self.is_ready(node, one.target)
            })
        });
        proven.count()
    }

    /// How many may be in flight now, if the gate says nothing else.
    fn most(&self) -> Option<usize> {
        let gates = &self.fleet.spec["stages"][self.index]["propagateWhen"];
        match gates.as_array().map(Vec::as_slice) {
            None | Some([]) => Some(usize::MAX),
            Some([gate]) => Some(Bound::read(gate.as_str()?)?.most(self.proven())),
            Some(_) => None,
        }
    }
}

// === impl Bound ===

impl Bound {
    fn read(gate: &str) -> Option<Self> {
        let (function, rest) = gate.split_once("(zone, zones")?;
        let number = rest.strip_suffix(')')?.trim_start_matches(", ");
        match function {
            "linearlyReady" => Some(Self::Linear(number.parse().ok()?)),
            "exponentiallyReady" if number.is_empty() => Some(Self::Exponential(2)),
            "exponentiallyReady" => Some(Self::Exponential(number.parse().ok()?)),
            _ => None,
        }
    }

    fn most(self, proven: usize) -> usize {
        match self {
            Self::Linear(most) => most,
            Self::Exponential(factor) => (proven * (factor - 1)).max(1),
        }
    }
}
