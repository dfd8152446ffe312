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
    let bytes = if let Value::String(text) = arg {
        text.as_str().len()
    } else if let Value::Bytes(bytes) = arg {
        bytes.len()
    } else {
        0
    };
    bytes as u64 / BYTES_READ_PER_STEP
}

/// Texts that are put together are rarely longer.
const ROOM: usize = 96;

impl<'p: 'a, 'b, 'a> Machine<'p, 'b, 'a> {
    pub(super) fn call(&mut self, call: &'p Call) -> Outcome<'a> {
        match &*call.args {
            [] => self.apply(call, &[]),
            [only] => match self.eval(*only) {
                Ok(only) => self.apply(call, &[only]),
                Err(fault) => self.failed(call, fault),
            },
            [first, second] => {
                let first = match self.eval(*first) {
                    Ok(first) => first,
                    Err(fault) => return self.failed_before(call, fault, *second),
                };
                match self.eval(*second) {
                    Ok(second) => self.apply(call, &[first, second]),
                    Err(fault) => self.failed(call, fault),
                }
            }
            args => {
                let mut values = Vec::with_capacity(args.len());
                let mut fault = None;
                for arg in args {
                    match self.eval(*arg) {
                        Ok(value) => values.push(value),
                        Err(found) if found.is_stop() => return Err(found),
                        Err(found) => fault = fault.or(Some(found)),
                    }
                }
                if let Some(fault) = fault {
                    return self.failed(call, fault);
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
            Err(_) => return result.or_else(|fault| self.failed(call, fault.at(call.span))),
        };
        self.meter.charge(cost)?;
        // What was made takes memory.
        if let Ok(made) = &result {
            self.meter
                .step(reading(made) * (BYTES_READ_PER_STEP / BYTES_WRITTEN_PER_STEP))?;
        }
        result
    }

    /// One operation after the other. Strings that are added are written one behind the other.
    pub(super) fn chain(&mut self, first: OpId, links: &'p [Link]) -> Outcome<'a> {
        let mut value = self.eval(first)?;
        let mut text = String::new();
        for link in links {
            let right = match self.eval(link.call.args[0]) {
                Ok(right) => right,
                Err(fault) => return self.failed(&link.call, fault),
            };
            if let (true, Some(left), Some(right)) = (link.adds, value.as_str(), right.as_str()) {
                self.meter.write(right.len())?;
                if text.is_empty() {
                    text.reserve(ROOM.max(left.len() + right.len()));
                    text.push_str(left);
                }
                let known = link.call.cost == Cost::Concatenate;
                let size = |text: &str| {
                    if known {
                        text.chars().count() as u64
                    } else {
                        0
                    }
                };
                let cost = if known {
                    scan(size(&text) + size(right))
                } else {
                    1
                };
                text.push_str(right);
                self.meter.charge(cost)?;
                continue;
            }
            let left = if text.is_empty() {
                value
            } else {
                Value::string(std::mem::take(&mut text))
            };
            value = self.apply(&link.call, &[left, right])?;
        }
        if text.is_empty() {
            Ok(value)
        } else {
            Ok(Value::string(text))
        }
    }

    /// A call that failed, or an argument of which did: charged as if on plain values.
    #[cold]
    pub(super) fn failed(&mut self, call: &Call, fault: Box<Fault>) -> Outcome<'a> {
        let cost = runtime(
            self.meter,
            call.cost,
            &[Value::Null, Value::Null],
            &Value::Null,
        )?;
        self.charged(fault, cost)
    }

    /// The same for a first argument; the second is evaluated all the same, as cel-go does.
    #[cold]
    pub(super) fn failed_before(
        &mut self,
        call: &Call,
        fault: Box<Fault>,
        second: OpId,
    ) -> Outcome<'a> {
        self.beside(&fault, second)?;
        self.failed(call, fault)
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
        self.meter
            .charge(crate::cost::regex_cost(text.cost_size(), matches.length))?;
        self.meter.scan(found.len(), &matches.pattern)?;
        let compile = || deltaplane_schema::compile_pattern(&matches.pattern).ok();
        let regex = matches.regex.get_or_init(compile).as_ref();
        // It was compiled once to see that it can be.
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
