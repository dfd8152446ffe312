//! What there is to say of a policy as a whole, from what is known and what was decided.

use super::compiled::Policy;
use super::decide::Outcome;
use super::facts::{PolicyFacts, RESUME, ROLLBACK};
use super::sets;
use super::told::{StageTold, TOO_MANY_FAILURES};

/// Whether all that is there is everywhere; if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Propagated {
    pub holds: bool,
    /// For conditions.
    pub reason: &'static str,
    pub message: String,
}

// === impl Propagated ===

impl Propagated {
    pub fn of(facts: &PolicyFacts, outcome: &Outcome) -> Self {
        let told = Self::in_stages(facts, outcome);
        if facts.diverged.is_empty() || told.reason == NOTHING_RELEASED {
            return told;
        }
        let zones = facts.diverged.join(", ");
        let diverged = format!(
            "the hub may be at an earlier state than {zones} followed, and sends nothing there; settle it with: deltaplane zones reconcile <zone> --keep hub|zone"
        );
        // A failure is told first: nobody waits for what will not come.
        if [ROLLED_BACK, TOO_MANY_FAILURES].contains(&told.reason) {
            let message = format!("{}; {diverged}", told.message);
            return Self { message, ..told };
        }
        Self {
            holds: false,
            reason: "Diverged",
            message: diverged,
        }
    }

    /// As stages and releases say, whichever zones have diverged.
    fn in_stages(facts: &PolicyFacts, outcome: &Outcome) -> Self {
        let not_yet = |reason, message| Self {
            holds: false,
            reason,
            message,
        };
        let Some(newest) = facts.releases.last().map(|release| release.number) else {
            return not_yet(NOTHING_RELEASED, "nothing was released yet".to_owned());
        };
        if !facts.is_released() {
            let message = match facts.head.problems.first() {
                Some(problem) => format!("what is there cannot be released: {problem}"),
                None => "what is there is about to be released".to_owned(),
            };
            return not_yet("NotReleased", message);
        }
        let asked = facts.asked_for();
        if let Some(to) = asked.filter(|to| facts.contents.contains_key(to)) {
            let message = format!("release {to} was asked for, and is to come back as a new one");
            return not_yet("NotReleased", message);
        }
        if !outcome.left_out.is_empty() {
            let count = outcome.left_out.len();
            let message = format!("no stage is for {count} of the zones that are selected");
            return not_yet("ZonesInNoStage", message);
        }
        let mut stages = outcome.stages.iter();
        let behind = stages.find(|stage| stage.completed != Some(newest));
        match behind.map(|stage| (stage, stage.waiting.first())) {
            None if facts.head.rolled_back.is_some() => {
                let why = facts.head.rolled_back.as_ref();
                not_yet(
                    ROLLED_BACK,
                    why.map(ToString::to_string).unwrap_or_default(),
                )
            }
            None => {
                let restored = facts.newest_of_head() != Some(newest);
                let note = if restored {
                    ", which brings back an older one"
                } else {
                    ""
                };
                let refused: usize = outcome.stages.iter().map(|one| one.counts.refused).sum();
                let but = match refused {
                    0 => String::new(),
                    1 => "; 1 zone keeps something of its own".to_owned(),
                    many => format!("; {many} zones keep something of their own"),
                };
                Self {
                    holds: true,
                    reason: "Propagated",
                    message: format!("all stages completed release {newest}{note}{but}"),
                }
            }
            Some((stage, Some(waiting))) => {
                not_yet(waiting.reason(), format!("stage {}: {waiting}", stage.name))
            }
            Some((stage, None)) => not_yet(
                "Progressing",
                format!("stage {}: {}", stage.name, stage.counts),
            ),
        }
    }
}

/// The reason of conditions while what was rolled back is at the hub.
const ROLLED_BACK: &str = "RolledBack";
const NOTHING_RELEASED: &str = "NothingReleased";

/// Whether objects at the hub differ from the newest release because of a rollback.
pub fn rolled_back(facts: &PolicyFacts) -> Propagated {
    match &facts.head.rolled_back {
        Some(rolled_back) => Propagated {
            holds: true,
            reason: ROLLED_BACK,
            message: rolled_back.to_string(),
        },
        None => Propagated {
            holds: false,
            reason: "NotRolledBack",
            message: String::new(),
        },
    }
}

/// Zones are named in a problem as long as their names take so many bytes.
const NAMED: usize = 300;

/// What is wrong with a policy where it is, though it can be decided by.
pub fn problems(facts: &PolicyFacts, policy: &Policy, outcome: &Outcome) -> Vec<String> {
    let mut problems = facts.head.problems.clone();
    let asked = facts.not_brought_back();
    problems.extend(asked.map(|why| format!("metadata.annotations[{ROLLBACK}]: {why}")));
    let forgiven = facts.not_forgiven();
    problems.extend(forgiven.map(|why| format!("metadata.annotations[{RESUME}]: {why}")));
    if facts.head.objects == 0 && facts.releases.is_empty() {
        problems.push("spec.targets: no object is among them".to_owned());
    }
    if facts.zones.is_empty() {
        problems.push("spec.zones: no zone is selected".to_owned());
    }
    if !outcome.left_out.is_empty() {
        let names: Vec<&str> = outcome.left_out.iter().map(String::as_str).collect();
        problems.push(format!(
            "spec.stages: no stage is for {}; a last stage without a selector takes what is left",
            sets::brief(&names, NAMED)
        ));
    }
    for (stage, told) in policy.stages.iter().zip(&outcome.stages) {
        let total = told.counts.moving.total + told.counts.ahead;
        if total == 0 && !facts.zones.is_empty() {
            problems.push(format!("spec.stages: no zone is in stage {}", stage.name));
        }
    }
    problems
}

/// How many zones are ready at the newest release, of how many.
pub fn progress(stages: &[StageTold], newest: Option<u64>) -> (usize, usize) {
    let at_newest = stages.iter().filter(|stage| stage.release == newest);
    let current = at_newest.map(|stage| stage.counts.moving.current).sum();
    let total = stages.iter().map(|stage| stage.counts.moving.total).sum();
    (current, total)
}
