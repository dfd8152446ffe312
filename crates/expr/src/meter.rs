//! How much an evaluation may use, and what it has used.

use crate::fault::{Fault, Stopped};

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
}

impl Meter {
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            cost: 0,
            steps: 0,
        }
    }

    /// The cost so far.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Adds to the cost.
    pub fn charge(&mut self, cost: u64) -> Result<(), Box<Fault>> {
        let total = self.cost.saturating_add(cost);
        // What is not done is not charged: the cost never exceeds the budget.
        self.cost = total.min(self.budget.cost);
        if total > self.budget.cost {
            return Err(Box::new(Fault::Stopped(Stopped::Cost)));
        }
        Ok(())
    }

    /// Counts work.
    pub fn step(&mut self, steps: u64) -> Result<(), Box<Fault>> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.budget.steps {
            return Err(Box::new(Fault::Stopped(Stopped::Steps)));
        }
        Ok(())
    }
}
