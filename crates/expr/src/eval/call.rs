//! Calls.

use super::{Machine, Outcome, no_overload};
use crate::cost::{Cost, runtime, scan};
use crate::env::{Overload, Run};
use crate::fault::{Fault, Reason};
use crate::meter::{BYTES_READ_PER_STEP, BYTES_WRITTEN_PER_STEP};
use crate::program::{Call, Dispatch, Link, Matches, OpId};
use crate::value::Value;

/// The work of reading an argument once, which most functions do; what else they do they count.
fn reading(arg: &Value<'_>) -> u64 {
    arg.weight() / BYTES_READ_PER_STEP
}

/// Texts that are put together are rarely longer.
const ROOM: usize = 96;

/// A text that is put together.
#[derive(Default)]
struct Sum {
    bytes: String,
    characters: u64,
}

impl Sum {
    fn push(&mut self, text: &str) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(ROOM.max(2 * text.len()));
        }
        self.bytes.push_str(text);
        self.characters += text.chars().count() as u64;
    }

    /// What is there; nothing is left.
    fn take<'a>(&mut self) -> Option<Value<'a>> {
        self.characters = 0;
        let bytes = std::mem::take(&mut self.bytes);
        (!bytes.is_empty()).then(|| Value::string(bytes))
    }
}

impl<'p: 'a, 'b, 'a> Machine<'p, 'b, 'a> {
    pub(super) fn call(&mut self, call: &'p Call) -> Outcome<'a> {
        match &*call.args {
            [] => self.apply(call, &[]),
            [only] => match self.eval(*only) {
                Ok(only) => self.apply(call, &[only]),
                Err(fault) => self.failed(call, fault, &[]),
            },
            [first, second] => {
                let first = match self.eval(*first) {
                    Ok(first) => first,
                    failed @ Err(_) => return self.failed_before(call, failed, *second),
                };
                match self.eval(*second) {
                    Ok(second) => self.apply(call, &[first, second]),
                    Err(fault) => self.failed(call, fault, &[first]),
                }
            }
            args => {
                let mut values = Vec::with_capacity(args.len());
                for (index, arg) in args.iter().enumerate() {
                    match self.eval(*arg) {
                        Ok(value) => values.push(value),
                        // Of more than two, cel-go looks at none behind one that fails. Then it
                        // charges nothing, unless that is the last.
                        Err(fault) if index + 1 < args.len() => return Err(fault),
                        Err(fault) => return self.failed(call, fault, &values),
                    }
                }
                self.apply(call, &values)
            }
        }
    }

    pub(super) fn apply(&mut self, call: &'p Call, args: &[Value<'a>]) -> Outcome<'a> {
        self.meter.step(args.iter().map(reading).sum())?;
        let result = match &call.run {
            Dispatch::Library(run) => run(self.meter, args),
            Dispatch::Host(run) => run.call(self.meter, args),
            Dispatch::Values(overloads) => {
                match overloads.iter().find(|overload| overload.takes(args)) {
                    Some(overload) => self.run(overload, args),
                    None => Err(no_overload(&call.name, args)),
                }
            }
        };
        let cost = match &result {
            Ok(_) if call.cost == Cost::Unit => 1,
            Ok(result) => runtime(self.meter, call.cost, args, result)?,
            Err(_) => runtime(self.meter, call.cost, args, &Value::Null)?,
        };
        let result = match result {
            Ok(made) => made,
            Err(fault) => return self.charged(fault.at(call.span), cost),
        };
        self.meter.charge(cost)?;
        // What was made takes memory.
        self.meter
            .step(reading(&result) * (BYTES_READ_PER_STEP / BYTES_WRITTEN_PER_STEP))?;
        Ok(result)
    }

    /// One operation after the other. Strings that are added are written one behind the other.
    pub(super) fn chain(&mut self, first: OpId, links: &'p [Link]) -> Outcome<'a> {
        let mut value = match self.eval(first) {
            Ok(value) => value,
            Err(fault) => return self.broken_chain(fault, links),
        };
        let mut text = Sum::default();
        for (index, link) in links.iter().enumerate() {
            let right = match self.eval(link.call.args[0]) {
                Ok(right) => right,
                Err(fault) => {
                    let left = text.take().unwrap_or(value);
                    let failed = self.failed(&link.call, fault, &[left]);
                    return failed.or_else(|fault| self.broken_chain(fault, &links[index + 1..]));
                }
            };
            if let (true, Some(left), Some(right)) = (link.adds, value.as_str(), right.as_str()) {
                self.meter.write(right.len())?;
                if text.bytes.is_empty() {
                    text.push(left);
                }
                text.push(right);
                let known = link.call.cost == Cost::Concatenate;
                let cost = if known { scan(text.characters) } else { 1 };
                self.meter.charge(cost)?;
                continue;
            }
            let left = text.take().unwrap_or(value);
            value = match self.apply(&link.call, &[left, right]) {
                Ok(value) => value,
                Err(fault) => return self.broken_chain(fault, &links[index + 1..]),
            };
        }
        Ok(text.take().unwrap_or(value))
    }

    /// What is left of a chain after a fault: evaluated all the same, as cel-go does.
    #[cold]
    fn broken_chain(&mut self, fault: Box<Fault>, links: &'p [Link]) -> Outcome<'a> {
        let mut failed = Err(fault);
        for link in links {
            failed = self.failed_before(&link.call, failed, link.call.args[0]);
        }
        failed
    }

    /// A call an argument of which failed: charged by those before it, as if it were plain.
    #[cold]
    pub(super) fn failed(
        &mut self,
        call: &Call,
        fault: Box<Fault>,
        args: &[Value<'a>],
    ) -> Outcome<'a> {
        let cost = runtime(self.meter, call.cost, args, &Value::Null)?;
        self.charged(fault, cost)
    }

    /// The same for a first argument; the second is evaluated all the same, as cel-go does.
    #[cold]
    pub(super) fn failed_before(
        &mut self,
        call: &Call,
        failed: Outcome<'a>,
        second: OpId,
    ) -> Outcome<'a> {
        let second = self.beside(&failed, second)?;
        failed.or_else(|fault| self.failed(call, fault, &[Value::Null, second]))
    }

    fn run(&mut self, overload: &Overload, args: &[Value<'a>]) -> Outcome<'a> {
        match &overload.run {
            Run::Library(run) => run(self.meter, args),
            Run::Host(run) => run.call(self.meter, args),
            Run::Nothing => Err(Fault::failed(Reason::Unbound(
                overload.function().to_owned(),
            ))),
        }
    }

    pub(super) fn matches(&mut self, matches: &'p Matches) -> Outcome<'a> {
        let text = self.eval(matches.text)?;
        let Some(found) = text.as_str() else {
            return Err(no_overload("matches", &[text]).at(matches.span));
        };
        let cost = match matches.cost == Cost::Unit {
            true => 1,
            false => crate::cost::regex_cost(text.cost_size(), matches.length),
        };
        self.meter.charge(cost)?;
        let pattern = &matches.pattern;
        self.meter.scan(found.len(), pattern.places())?;
        // It was compiled once to see that it can be.
        let regex = pattern.regex();
        let regex = regex.ok_or_else(|| Fault::invalid("error parsing regexp"))?;
        Ok(Value::Bool(regex.is_match(found)))
    }

    /// Equality costs by the smaller side; library values cost one.
    pub(super) fn charge_equal(
        &mut self,
        left: &Value<'_>,
        right: &Value<'_>,
        equals: bool,
    ) -> Result<(), Box<Fault>> {
        let cost = match (left, right) {
            (Value::Opaque(_), _) if equals => 1,
            (Value::String(a), Value::String(b)) => crate::cost::scan_texts(a.as_str(), b.as_str()),
            _ => crate::cost::scan(left.cost_size().min(right.cost_size())),
        };
        self.meter.charge(cost)
    }
}
