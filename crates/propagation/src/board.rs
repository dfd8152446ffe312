//! The state of a pass: what is counted and shared, kept up to date with every admission.

use std::sync::Arc;

use deltaplane_expr::{Bindings, Fault, Slot, Timestamp, Value};

use crate::alarm;
use crate::count::Count;
use crate::gate::{Expression, Gate};
use crate::verdict::{Place, Verdict};
use crate::why;
use crate::work::Work;
use crate::world::World;

/// The state of a pass.
#[derive(Debug)]
pub(crate) struct Board<'a> {
    gate: &'a Gate,
    world: &'a World<'a>,
    work: Work,
    frames: Vec<Frame<'a>>,
    /// Indices of those in flight.
    in_flight: Vec<usize>,
    /// Their names as they were told last, and how many there were.
    named: Option<(usize, String)>,
}

/// The state of one expression.
#[derive(Debug)]
struct Frame<'a> {
    expression: &'a Expression,
    bindings: Bindings<'a>,
    items: Vec<Slot>,
    counts: Vec<Count<'a>>,
    /// Whether it kept anybody back.
    closed: bool,
}

// === impl Board ===

impl<'a> Board<'a> {
    pub(crate) fn new(gate: &'a Gate, world: &'a World<'a>, mut work: Work) -> Self {
        let frames = gate.expressions.iter();
        let frames = frames.map(|expression| Frame::new(expression, gate, (&mut work, world)));
        let seen = world.items.seen.iter().enumerate();
        let in_flight = seen.filter(|(_, one)| one.standing().is_in_flight());
        Self {
            gate,
            world,
            frames: frames.collect(),
            work,
            in_flight: in_flight.map(|(index, _)| index).collect(),
            named: None,
        }
    }

    /// Has in the processor's cache what expressions read of these items. Of many items nothing is
    /// there, and most of the time that one takes would be spent waiting for it.
    pub(crate) fn fetch<'i>(&self, indices: impl Iterator<Item = &'i usize>) {
        let all = self.frames.iter();
        let mut selected = all.flat_map(|frame| &frame.expression.selected).peekable();
        if selected.peek().is_none() {
            return;
        }
        for index in indices {
            let seen = &self.world.items.seen[*index];
            selected.clone().for_each(|name| seen.fetch(name));
        }
    }

    /// What the gate says of an item: the first expression that is not true decides.
    pub(crate) fn judge(&mut self, index: usize) -> Verdict {
        let Self {
            world,
            work,
            frames,
            ..
        } = self;
        for (number, frame) in frames.iter_mut().enumerate() {
            for slot in &frame.items {
                let item = Value::Host(&world.items.seen[index]);
                frame.bindings.set(*slot, item);
            }
            let fault = match work.eval(&frame.expression.program, &frame.bindings) {
                Ok(Value::Bool(true)) => continue,
                Ok(Value::Bool(false)) => None,
                Ok(other) => Some(Work::unfit(&other)),
                Err(fault) => Some(fault),
            };
            frame.closed = true;
            let text = frame.expression.text.clone();
            return shut(
                Place {
                    index: number,
                    text,
                },
                fault,
            );
        }
        Verdict::Open
    }

    /// The values that made an expression false for the item that was judged last.
    pub(crate) fn explain(&mut self, expression: usize) -> Vec<String> {
        // Nobody leaves in a pass: as many as before are the same as before.
        let count = self.in_flight.len();
        if self.named.as_ref().is_none_or(|(named, _)| *named != count) {
            let keys = self.in_flight.iter();
            let keys = keys.map(|index| self.world.items.seen[*index].subject.key);
            self.named = Some((count, why::named(keys)));
        }
        let frame = &self.frames[expression];
        let leaves = frame.expression.leaves.iter();
        let asked = why::Asked {
            bindings: &frame.bindings,
            in_flight: self.named.as_ref().map_or("", |(_, names)| names),
            items: self.world.items,
        };
        leaves
            .map(|leaf| why::told(leaf, &asked, &mut self.work))
            .collect()
    }

    /// When time alone may change what an expression says of the item that was judged last.
    pub(crate) fn item_alarm(&mut self, expression: usize) -> Option<Timestamp> {
        let frame = &self.frames[expression];
        let clocks = frame.expression.clocks.iter();
        let mut clock = alarm::Reader {
            expression: frame.expression,
            bindings: &frame.bindings,
            world: self.world,
            scope: &self.gate.scope,
            work: &mut self.work,
        };
        clocks.filter_map(|one| clock.for_item(one)).min()
    }

    /// When time alone may change what those expressions say of all items that kept some back.
    pub(crate) fn common_alarm(&mut self) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        for frame in self.frames.iter().filter(|frame| frame.closed) {
            let mut reader = alarm::Reader {
                expression: frame.expression,
                bindings: &frame.bindings,
                world: self.world,
                scope: &self.gate.scope,
                work: &mut self.work,
            };
            for clock in &frame.expression.clocks {
                next = earlier(next, reader.for_all(clock));
            }
        }
        match self.work.is_exhausted() {
            // Not everything was asked.
            true => earlier(next, alarm::unknown(self.world.now)),
            false => next,
        }
    }

    /// Admits an item, and brings everything up to date that depends on it.
    pub(crate) fn admit(&mut self, index: usize) {
        if !self.world.items.seen[index].standing().is_in_flight() {
            self.in_flight.push(index);
        }
        self.world.items.admit(index);
        for frame in &mut self.frames {
            frame.update(Some(index), (&mut self.work, self.world));
        }
    }
}

pub(crate) fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// What it means that an expression is false, or has no value.
fn shut(expression: Place, fault: Option<Fault>) -> Verdict {
    match fault {
        None => Verdict::Closed {
            expression,
            values: Vec::new(),
        },
        Some(Fault::Waiting(path)) => Verdict::Waiting {
            expression,
            path: path.to_string(),
        },
        Some(Fault::Failed(failure)) => Verdict::Error {
            expression,
            message: failure.reason.to_string(),
        },
        Some(Fault::Stopped(_)) => Verdict::Limit { expression },
    }
}

// === impl Frame ===

impl<'a> Frame<'a> {
    fn new(
        expression: &'a Expression,
        gate: &'a Gate,
        (work, world): (&mut Work, &'a World<'a>),
    ) -> Self {
        let scope = &gate.scope;
        let bindings = world.bindings_for(expression, &expression.env, scope);
        let mut counts = Vec::new();
        for counter in &expression.counters {
            let asked = world.bindings_for(expression, &counter.env, scope);
            counts.push(Count::new(counter, asked, (work, world)));
        }
        let names = scope.names().keys().filter(|name| scope.is_item(name));
        let mut frame = Self {
            expression,
            bindings,
            items: names.filter_map(|name| expression.env.slot(name)).collect(),
            counts,
            closed: false,
        };
        frame.update(None, (work, world));
        frame
    }

    /// Brings up to date what an admission may have changed; without one, everything.
    fn update(&mut self, admitted: Option<usize>, (work, world): (&mut Work, &'a World<'a>)) {
        let env = &self.expression.env;
        for count in &mut self.counts {
            match admitted {
                Some(_) if !count.counter().reads_standing => continue,
                Some(index) => count.ask(index, (work, world)),
                None => {}
            }
            bind(
                &mut self.bindings,
                env.slot(&count.counter().name),
                count.value(),
            );
        }
        for shared in &self.expression.shared {
            if admitted.is_some() && !shared.reads_standing {
                continue;
            }
            let value = work.eval_shared(&shared.program, &self.bindings);
            bind(&mut self.bindings, env.slot(&shared.name), value);
        }
    }
}

fn bind<'a>(bindings: &mut Bindings<'a>, slot: Option<Slot>, value: Result<Value<'a>, Fault>) {
    let Some(slot) = slot else {
        return;
    };
    match value {
        Ok(value) => bindings.set(slot, value),
        Err(fault) => bindings.set_fault(slot, Arc::new(fault)),
    }
}
