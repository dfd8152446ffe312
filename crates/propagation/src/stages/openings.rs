//! Whether the gates of a policy can open at all: each stage is played by itself, from now on, with
//! zones that take everything well at once.
//!
//! Of many zones a few are played with, so that it takes about the same for a fleet of any size. A
//! gate may ask how many there are: what a few cannot do is asked of all before it is said. What
//! cannot be told within the bounds is not held against a policy.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_expr::Timestamp;
use serde_json::{Map, Value as Json, json};

use super::compiled::{Policy, Stage};
use super::problem::Problem;
use super::situation::labels;
use super::told::Waiting;
use crate::pass::{Answer, Terms, pass};
use crate::scope::{Given, Surroundings};
use crate::subject::{Health, Hold, Standing, Subject};
use crate::verdict::Verdict;
use crate::work::Limits;

/// A zone, by its name.
type Named<'a> = (&'a str, &'a Map<String, Json>);

/// A stage as far as it was played.
struct Play<'a> {
    policy: &'a Policy,
    stage: &'a Stage,
    zones: Vec<Named<'a>>,
    /// When each was let in, and was ready.
    ready: Vec<Option<Timestamp>>,
    now: Timestamp,
}

/// What a stage came to.
enum Ending {
    /// All zones were let in, or nobody can tell.
    Open,
    /// Nobody is let in any more, whatever time it is, and these are left.
    Stuck(Vec<(usize, Verdict)>),
}

/// What may still be done.
struct Budget {
    /// So often a zone may be asked about.
    asked: usize,
}

/// With so many zones a stage is played, and with more where more differ.
const PLAYED: usize = 32;
/// So many values of a label are told apart.
const VALUES: usize = 8;
/// Zones of a policy are asked about no more often than this.
const ASKED: usize = 64_000;
/// To ask about one zone takes no more steps on average, and about all of them no more in all.
const STEPS: u64 = 500;
const STEPS_IN_ALL: u64 = 500_000;

/// The gates that can never open again, though every zone takes all of it well.
pub fn stuck(policy: &Policy, zones: &[Named<'_>], now: Timestamp) -> Vec<Problem> {
    let mut places: Vec<Vec<Named<'_>>> = vec![Vec::new(); policy.stages.len()];
    for zone in zones {
        if let Some(stage) = policy.stage_of(zone.1) {
            places[stage].push(*zone);
        }
    }
    let stages = policy.stages.iter().zip(places).enumerate();
    let found = stages.filter_map(|(index, (stage, zones))| {
        let mut budget = Budget {
            asked: ASKED / policy.stages.len(),
        };
        let (zone, verdict) = never(policy, stage, (&zones, now), &mut budget)?;
        let why = Waiting::Gate { zone, verdict };
        Some(Problem {
            path: format!("spec.stages[{index}].propagateWhen"),
            message: format!("it can never open, though every zone is ready at once: {why}"),
            hint: Some("a zone must be able to be let in before others are, and what the gate reads of zones, such as labels, must be there first".to_owned()),
        })
    });
    found.collect()
}

/// The expressions of gates that are false whatever zones there are, by stage.
pub fn constantly_closed(policy: &Policy, now: Timestamp) -> Vec<String> {
    let (name, zone) = nobody();
    let stages = policy.stages.iter().enumerate();
    let found = stages.filter_map(|(index, stage)| {
        let play = Play::new(policy, stage, (vec![(name, &zone)], now));
        let mut budget = Budget { asked: PLAYED };
        let (_, Ending::Stuck(left)) = play.step(&mut budget) else {
            return None;
        };
        let (_, Verdict::Closed { expression, .. }) = left.first()? else {
            return None;
        };
        let at = expression.index;
        stage.gate.is_constant(at).then(|| {
            format!("spec.stages[{index}].propagateWhen[{at}]: {expression} is never true: no zone is let into stage {}", stage.name)
        })
    });
    found.collect()
}

/// What zones of a stage would be ordered by, where that has no order.
pub fn unordered(policy: &Policy, zones: &[Named<'_>], now: Timestamp) -> Vec<Problem> {
    let (name, zone) = nobody();
    let stages = policy.stages.iter().enumerate();
    let found = stages.filter_map(|(index, stage)| {
        stage.order.as_ref()?;
        let members = zones
            .iter()
            .filter(|(_, zone)| policy.stage_of(zone) == Some(index));
        let members: Vec<Named<'_>> = members.copied().collect();
        let mut played = some(&members);
        played.push((name, &zone));
        let mut budget = Budget {
            asked: played.len(),
        };
        let (answer, _) = Play::new(policy, stage, (played, now)).step(&mut budget);
        let wrong = answer.unordered.into_iter().find(|one| one.wrong_type)?;
        let path = format!("spec.stages[{index}].orderBy");
        let hint = "such as zone.metadata.labels['wave']";
        Some(Problem::new(path, wrong.message).hint(hint))
    });
    found.collect()
}

/// A zone that tells what does not depend on any.
fn nobody() -> (&'static str, Map<String, Json>) {
    let zone = json!({"metadata": {"name": "zone", "labels": {}}, "spec": {}});
    ("zone", zone.as_object().cloned().unwrap_or_default())
}

/// A zone of a stage that is never let in, and why.
fn never(
    policy: &Policy,
    stage: &Stage,
    (zones, now): (&[Named<'_>], Timestamp),
    budget: &mut Budget,
) -> Option<(String, Verdict)> {
    // What the next release will be nobody knows.
    let unknown = stage.gate.reads().contains("release");
    if stage.gate.is_always_open() || zones.is_empty() || unknown {
        return None;
    }
    let play = |zones: Vec<_>| Play::new(policy, stage, (zones, now));
    let mut few = play(some(zones));
    let Ending::Stuck(left) = few.run(budget) else {
        return None;
    };
    let (first, verdict) = left.first()?;
    let found = (few.zones[*first].0.to_owned(), verdict.clone());
    if few.zones.len() == zones.len() {
        return Some(found);
    }
    // The few may be too few: neither may all of them begin, nor they when all others are ready.
    let all = play(zones.to_vec());
    if let (_, Ending::Stuck(_)) = all.step(budget) {
        return Some(found);
    }
    let left: BTreeSet<&str> = left.iter().map(|(index, _)| few.zones[*index].0).collect();
    let ready = zones.iter().map(|(name, _)| match left.contains(name) {
        true => None,
        false => Some(few.now),
    });
    let last = Play {
        ready: ready.collect(),
        now: few.now,
        ..all
    };
    match last.step(budget) {
        (_, Ending::Stuck(_)) => Some(found),
        (_, Ending::Open) => None,
    }
}

/// Some zones of a stage: the first, and those with labels that others do not have.
fn some<'a>(zones: &[Named<'a>]) -> Vec<Named<'a>> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut keys: BTreeSet<Vec<&str>> = BTreeSet::new();
    let some = zones.iter().enumerate().filter(|(place, (_, object))| {
        let labels = labels(object).into_iter().flatten();
        let mut differs = false;
        let mut of: Vec<&str> = Vec::new();
        for (key, value) in labels {
            let known = values.entry(key).or_default();
            differs |= known.len() < VALUES && known.insert(value.as_str().unwrap_or_default());
            of.push(key);
        }
        differs |= keys.len() < VALUES && keys.insert(of);
        differs || *place < PLAYED
    });
    some.map(|(_, zone)| *zone).collect()
}

// === impl Play ===

impl<'a> Play<'a> {
    fn new(
        policy: &'a Policy,
        stage: &'a Stage,
        (zones, now): (Vec<Named<'a>>, Timestamp),
    ) -> Self {
        Self {
            policy,
            stage,
            ready: vec![None; zones.len()],
            zones,
            now,
        }
    }

    /// Lets in whom the gate lets in, as long as it does or time may change something.
    fn run(&mut self, budget: &mut Budget) -> Ending {
        loop {
            let (answer, ending) = self.step(budget);
            for index in &answer.admitted {
                self.ready[*index] = Some(self.now);
            }
            match (answer.admitted.is_empty(), answer.next) {
                (false, _) if self.ready.contains(&None) => {}
                (true, Some(next)) if next > self.now && budget.asked > 0 => self.now = next,
                (_, _) => return ending,
            }
        }
    }

    /// Asks once. Whoever may be let in, now or later, is not stuck.
    fn step(&self, budget: &mut Budget) -> (Answer, Ending) {
        let subjects = self.zones.iter().zip(&self.ready);
        let subjects = subjects.map(|((key, object), ready)| Subject {
            key,
            object: Some(object),
            standing: match ready {
                Some(since) => Standing::Current { since: *since },
                None => Standing::Behind {
                    health: Health::Broken,
                    hold: Hold::Free,
                },
            },
        });
        let subjects: Vec<Subject<'_>> = subjects.collect();
        let release = json!({"number": 1, "authors": ["somebody"], "changes": {}});
        let given = Surroundings::from([("release", Given::Data(&release))]);
        // Without anything left it says so of everybody.
        let asked = subjects.len().min(budget.asked);
        // Whatever is asked takes something: nothing is played without end.
        budget.asked = budget.asked.saturating_sub(asked.max(1));
        let terms = Terms {
            gate: &self.stage.gate,
            order: self.stage.order.as_ref(),
            given: &given,
            now: self.now,
            windows: &|name, now| self.policy.window(name, now),
            limits: Limits {
                pass: STEPS_IN_ALL.min(STEPS * asked as u64),
                ..Limits::default()
            },
        };
        let answer = pass(&subjects, terms);
        let told = !answer.blocked.iter().any(|one| is_limit(&one.verdict));
        let is_stuck = answer.admitted.is_empty() && answer.next.is_none() && told;
        let left = answer.blocked.iter();
        let left = left.map(|one| (one.index, one.verdict.clone()));
        let left: Vec<_> = left.filter(|_| is_stuck).collect();
        let ending = match left.is_empty() {
            true => Ending::Open,
            false => Ending::Stuck(left),
        };
        (answer, ending)
    }
}

fn is_limit(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Limit { .. })
}

#[cfg(test)]
mod tests;
