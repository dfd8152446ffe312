//! Evaluating within bounds: of one evaluation, and of a pass as a whole.

use deltaplane_expr::{
    Bindings, Budget, Eval, Failure, Fault, Meter, Program, Reason, Span, Value,
};

/// How much a pass may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// One expression for one item.
    pub item: Budget,
    /// All evaluations together, in steps.
    pub pass: u64,
    /// So many of those who are kept back are listed where not all are.
    pub explained: usize,
    /// So many of these are told which values did it.
    pub valued: usize,
}

/// What is left of the bounds.
#[derive(Debug)]
pub(crate) struct Work {
    limits: Limits,
    left: u64,
    meter: Meter,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            item: Budget::default(),
            pass: 50_000_000,
            explained: 10,
            valued: 10,
        }
    }
}

// === impl Work ===

impl Work {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            left: limits.pass,
            meter: Meter::new(limits.item),
        }
    }

    /// Does something with half of what is left: however much that takes, the rest remains.
    pub(crate) fn with_half<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let kept = self.left - self.left / 2;
        self.left /= 2;
        let done = work(self);
        self.left += kept;
        done
    }

    /// Whether nothing more can be evaluated in this pass.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// Evaluates for one item.
    pub(crate) fn eval<'a>(
        &mut self,
        program: &'a Program,
        bindings: &Bindings<'a>,
    ) -> Result<Value<'a>, Fault> {
        self.within(self.limits.item, program, bindings)
    }

    /// Evaluates for all items at once: only the steps are bounded.
    pub(crate) fn eval_shared<'a>(
        &mut self,
        program: &'a Program,
        bindings: &Bindings<'a>,
    ) -> Result<Value<'a>, Fault> {
        let budget = Budget {
            cost: u64::MAX,
            ..self.limits.item
        };
        self.within(budget, program, bindings)
    }

    fn within<'a>(
        &mut self,
        budget: Budget,
        program: &'a Program,
        bindings: &Bindings<'a>,
    ) -> Result<Value<'a>, Fault> {
        self.meter.restart(Budget {
            steps: budget.steps.min(self.left),
            ..budget
        });
        let outcome = program.eval_metered(bindings, &mut self.meter);
        self.left = self.left.saturating_sub(self.meter.steps());
        match outcome {
            Eval::Value(value) => Ok(value),
            Eval::Waiting(path) => Err(Fault::Waiting(*path)),
            Eval::Failed(failure) => Err(Fault::Failed(*failure)),
            Eval::Stopped(stopped) => Err(Fault::Stopped(stopped)),
        }
    }

    /// The fault of a value that should have been true or false.
    pub(crate) fn unfit(value: &Value<'_>) -> Fault {
        let ty = value.type_of();
        Fault::Failed(Failure {
            span: Span::default(),
            reason: Reason::Invalid(format!("it must be true or false, and is of type {ty}")),
        })
    }
}
