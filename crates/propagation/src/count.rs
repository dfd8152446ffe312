//! The answers of all items to one question.

use std::collections::BTreeMap;

use deltaplane_expr::{Bindings, Failure, Fault, Path, Reason, Span, Step, Stopped, Value};

use crate::gate::{Counter, CounterKind};
use crate::work::Work;
use crate::world::World;

/// The answers so far.
#[derive(Debug)]
pub(crate) struct Count<'a> {
    counter: &'a Counter,
    bindings: Bindings<'a>,
    /// Whether each item said yes; one that has no answer did not.
    answers: Vec<bool>,
    yes: usize,
    /// The items that have no answer, and why.
    faults: BTreeMap<usize, Fault>,
}

// === impl Count ===

impl<'a> Count<'a> {
    /// Asks all items. `bindings` are those of the question.
    pub(crate) fn new(
        counter: &'a Counter,
        bindings: Bindings<'a>,
        (work, world): (&mut Work, &World<'a>),
    ) -> Self {
        let mut count = Self {
            counter,
            bindings,
            answers: vec![false; world.items.seen.len()],
            yes: 0,
            faults: BTreeMap::new(),
        };
        for index in 0..world.items.seen.len() {
            count.ask(index, (work, world));
        }
        count
    }

    pub(crate) fn counter(&self) -> &'a Counter {
        self.counter
    }

    /// Asks one item again.
    pub(crate) fn ask(&mut self, index: usize, (work, world): (&mut Work, &World<'a>)) {
        self.yes -= usize::from(std::mem::take(&mut self.answers[index]));
        self.faults.remove(&index);
        let seen = &world.items.seen[index];
        self.bindings.set(self.counter.element, Value::Host(seen));
        match work.eval(&self.counter.program, &self.bindings) {
            Ok(Value::Bool(yes)) => {
                self.answers[index] = yes;
                self.yes += usize::from(yes);
            }
            Ok(other) => {
                // As the loop itself would say it.
                let what = format!("condition({})", other.type_of().name());
                let fault = Fault::Failed(Failure {
                    span: Span::default(),
                    reason: Reason::NoSuchOverload(what),
                });
                self.faults.insert(index, fault);
            }
            Err(fault) => {
                let fault = self.placed(fault, index);
                self.faults.insert(index, fault);
            }
        }
    }

    /// The fault with the path as the expression has it: through the collection.
    fn placed(&self, fault: Fault, index: usize) -> Fault {
        match fault {
            Fault::Waiting(path) if path.root == *self.counter.variable => {
                let index = i64::try_from(index).unwrap_or(i64::MAX);
                let steps = [Step::Index(index)].into_iter().chain(path.steps);
                Fault::Waiting(Path {
                    root: self.counter.collection.to_string(),
                    steps: steps.collect(),
                })
            }
            other @ (Fault::Waiting(_) | Fault::Failed(_) | Fault::Stopped(_)) => other,
        }
    }

    /// What the question comes to, just as if the collection had been gone through.
    pub(crate) fn value(&self) -> Result<Value<'static>, Fault> {
        let stopped = self.faults.values().find_map(stopped);
        if let Some(stopped) = stopped {
            return Err(Fault::Stopped(stopped));
        }
        let no = self.answers.len() - self.yes - self.faults.len();
        match self.counter.kind {
            CounterKind::Exists if self.yes > 0 => Ok(Value::Bool(true)),
            CounterKind::All if no > 0 => Ok(Value::Bool(false)),
            CounterKind::Exists | CounterKind::All => match self.weightiest() {
                Some(fault) => Err(fault.clone()),
                None => Ok(Value::Bool(self.counter.kind == CounterKind::All)),
            },
            CounterKind::Size | CounterKind::ExistsOne => match self.faults.values().next() {
                Some(fault) => Err(fault.clone()),
                None if self.counter.kind == CounterKind::ExistsOne => {
                    Ok(Value::Bool(self.yes == 1))
                }
                None => Ok(Value::Int(i64::try_from(self.yes).unwrap_or(i64::MAX))),
            },
        }
    }

    /// Where nothing decides, waiting wins over failing, and the first over the others.
    fn weightiest(&self) -> Option<&Fault> {
        let mut faults = self.faults.values();
        let waiting = faults.find(|fault| matches!(fault, Fault::Waiting(_)));
        waiting.or_else(|| self.faults.values().next())
    }
}

fn stopped(fault: &Fault) -> Option<Stopped> {
    match fault {
        Fault::Stopped(stopped) => Some(*stopped),
        Fault::Waiting(_) | Fault::Failed(_) => None,
    }
}
