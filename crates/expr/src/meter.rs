//! How much an evaluation may use, and what it has used.

use regex::Regex;

use crate::fault::{Fault, Stopped};
use crate::program::Patterns;
use crate::value::Value;

/// The bounds of one evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Cost, counted as cel-go and Kubernetes count it.
    pub cost: u64,
    /// Work that is really done: nodes, items and bytes touched. Unlike the cost it counts
    /// what the cost model takes to be free.
    pub steps: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            cost: 1_000_000,
            steps: 10_000_000,
        }
    }
}

impl Budget {
    /// No bound on the cost; the steps are bounded all the same.
    pub const STEPS_ONLY: Self = Self {
        cost: u64::MAX,
        steps: 10_000_000,
    };
}

/// What an evaluation has used, and what is left.
#[derive(Debug)]
pub struct Meter {
    budget: Budget,
    cost: u64,
    steps: u64,
    /// Computed patterns that were compiled last: they often come again.
    patterns: Vec<(Box<str>, Matcher)>,
    /// The patterns of the program that is evaluated.
    pub(crate) constants: Patterns,
}

/// A compiled pattern, and at how many places it can be at once.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    pub(crate) regex: Regex,
    pub(crate) places: u64,
}

/// Reading so many bytes is as much work as a step, and so is writing so many: they take memory.
pub(crate) const BYTES_READ_PER_STEP: u64 = 64;
pub(crate) const BYTES_WRITTEN_PER_STEP: u64 = 16;
/// So many bytes are matched at one place of a pattern in a step.
const BYTES_MATCHED_PER_STEP: u64 = 16;

/// How many computed patterns are remembered.
const PATTERNS: usize = 8;
/// The work of compiling a pattern of which nothing is known, and for each of its characters. A
/// short one can stand for a long one: what it may come to is bounded by its size.
const COMPILING: u64 = 100_000;
const COMPILING_CHARACTER: u64 = 50;
const PATTERN_SIZE: usize = 256 << 10;

impl Meter {
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            cost: 0,
            steps: 0,
            patterns: Vec::new(),
            constants: None,
        }
    }

    /// Begins anew, with another budget; patterns that were compiled are kept.
    pub fn restart(&mut self, budget: Budget) {
        self.budget = budget;
        self.cost = 0;
        self.steps = 0;
    }

    /// The work so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Compiles a pattern, unless it is a constant or was just used.
    pub(crate) fn pattern(&mut self, source: &str) -> Result<Matcher, Box<Fault>> {
        let mut constants = self.constants.iter().flat_map(|all| all.iter());
        let constant = constants.find(|pattern| pattern.source() == source);
        if let Some((pattern, regex)) = constant.and_then(|one| Some((one, one.regex()?))) {
            return Ok(Matcher {
                regex: regex.clone(),
                places: pattern.places(),
            });
        }
        let known = self.patterns.iter().find(|(known, _)| **known == *source);
        if let Some((_, matcher)) = known {
            return Ok(matcher.clone());
        }
        self.step(COMPILING + COMPILING_CHARACTER * source.len() as u64)?;
        let regex = deltaplane_schema::compile_pattern(source, PATTERN_SIZE)
            .map_err(|why| Fault::invalid(format!("error parsing regexp: {why}")))?;
        self.patterns.truncate(PATTERNS - 1);
        let places = deltaplane_schema::places(source);
        let matcher = Matcher { regex, places };
        self.patterns.insert(0, (source.into(), matcher.clone()));
        Ok(matcher)
    }

    /// The cost so far.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Adds to the cost.
    #[inline]
    pub fn charge(&mut self, cost: u64) -> Result<(), Box<Fault>> {
        let total = self.cost.saturating_add(cost);
        // What is not done is not charged: the cost never exceeds the budget.
        self.cost = total.min(self.budget.cost);
        if total > self.budget.cost {
            return Err(stopped(Stopped::Cost));
        }
        Ok(())
    }

    /// Counts the work of matching a text: at worst, all places of a pattern are followed at once.
    pub(crate) fn scan(&mut self, bytes: usize, places: u64) -> Result<(), Box<Fault>> {
        self.step((bytes as u64).saturating_mul(places) / BYTES_MATCHED_PER_STEP)
    }

    /// Counts the work of reading a value.
    pub(crate) fn read(&mut self, value: &Value<'_>) -> Result<(), Box<Fault>> {
        self.step(value.weight() / BYTES_READ_PER_STEP)
    }

    /// Counts the work of writing a text.
    pub(crate) fn write(&mut self, bytes: usize) -> Result<(), Box<Fault>> {
        self.step(bytes as u64 / BYTES_WRITTEN_PER_STEP)
    }

    /// Counts work.
    #[inline]
    pub fn step(&mut self, steps: u64) -> Result<(), Box<Fault>> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.budget.steps {
            return Err(stopped(Stopped::Steps));
        }
        Ok(())
    }
}

/// Kept out of the way of what goes on.
#[cold]
#[inline(never)]
fn stopped(limit: Stopped) -> Box<Fault> {
    Box::new(Fault::Stopped(limit))
}
