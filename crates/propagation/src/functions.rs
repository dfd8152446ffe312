//! The functions of gates.

use std::sync::Arc;

use deltaplane_expr::cost::Cost;
use deltaplane_expr::env::{Builder, Overload};
use deltaplane_expr::host::{Host, HostFunction};
use deltaplane_expr::types::Signature;
use deltaplane_expr::value::List;
use deltaplane_expr::{Duration, Failure, Fault, Meter, Reason, Span, Timestamp, Type, Value};

use crate::seen::{IN_FLIGHT, NOW, PROVEN, SINCE, UPDATED, UPDATING};

pub(crate) const READY: &str = "ready";
pub(crate) const UPDATED_FUNCTION: &str = "updated";
pub(crate) const READY_FOR: &str = "readyFor";
pub(crate) const LINEARLY: &str = "linearlyReady";
pub(crate) const EXPONENTIALLY: &str = "exponentiallyReady";
pub(crate) const WINDOW: &str = "window";

/// The smallest that `n` and `factor` may be.
pub(crate) const LEAST_ITEMS: i64 = 1;
pub(crate) const LEAST_FACTOR: i64 = 2;

#[derive(Clone, Copy, Debug)]
enum Function {
    Ready,
    Updated,
    ReadyFor,
    Linearly,
    Exponentially,
}

/// What is counted in a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) in_flight: u64,
    /// Those of them that are at the target.
    pub(crate) updating: u64,
    /// Updated and ready.
    pub(crate) proven: u64,
}

/// Adds the functions, for subjects of these types.
pub(crate) fn declare(mut builder: Builder, subjects: &[Type]) -> Builder {
    let global = |params: Vec<Type>, result| Signature {
        member: false,
        params,
        result,
    };
    for (index, ty) in subjects.iter().enumerate() {
        let member = Signature {
            member: true,
            params: vec![ty.clone()],
            result: Type::Bool,
        };
        let list = || Type::list(ty.clone());
        let rows = [
            (READY, Function::Ready, member.clone()),
            (UPDATED_FUNCTION, Function::Updated, member),
            (READY_FOR, Function::ReadyFor, {
                global(vec![ty.clone(), Type::Duration], Type::Bool)
            }),
            (READY_FOR, Function::ReadyFor, {
                global(vec![ty.clone(), Type::String], Type::Bool)
            }),
            (LINEARLY, Function::Linearly, {
                global(vec![ty.clone(), list(), Type::Int], Type::Bool)
            }),
            (EXPONENTIALLY, Function::Exponentially, {
                global(vec![ty.clone(), list()], Type::Bool)
            }),
            (EXPONENTIALLY, Function::Exponentially, {
                global(vec![ty.clone(), list(), Type::Int], Type::Bool)
            }),
        ];
        for (row, (name, run, signature)) in rows.into_iter().enumerate() {
            let id = format!("{name}_{index}_{row}");
            let overload = Overload::host(name, &id, signature, Cost::Unit, Arc::new(run));
            builder = builder.overload(overload);
        }
    }
    // Both are put in as values before anything is evaluated.
    let now = global(Vec::new(), Type::Timestamp);
    let window = global(vec![Type::String], Type::Bool);
    builder
        .overload(Overload::declared("time.now", "time_now", now))
        .overload(Overload::declared(WINDOW, WINDOW, window))
}

/// Whether a function's answer depends on how items stand.
pub(crate) fn reads_standing(function: &str) -> bool {
    matches!(
        function,
        READY | UPDATED_FUNCTION | READY_FOR | LINEARLY | EXPONENTIALLY
    )
}

/// Counts the items of a list: what is known of it, or one by one.
pub(crate) fn tally(meter: &mut Meter, list: &List<'_>) -> Result<Tally, Box<Fault>> {
    if let List::Host(host) = list
        && let (Some(in_flight), Some(updating)) = (host.counted(IN_FLIGHT), host.counted(UPDATING))
        && let Some(proven) = host.counted(PROVEN)
    {
        return Ok(Tally {
            in_flight,
            updating,
            proven,
        });
    }
    let mut tally = Tally {
        in_flight: 0,
        updating: 0,
        proven: 0,
    };
    for item in list.iter() {
        meter.step(1)?;
        let item = item?;
        let host = subject(LINEARLY, &item)?;
        tally.in_flight += u64::from(flag(host, IN_FLIGHT)?);
        tally.updating += u64::from(flag(host, UPDATING)?);
        tally.proven += u64::from(flag(host, UPDATED)? && since(host)?.is_some());
    }
    Ok(tally)
}

/// Since when a subject is ready, if it is.
pub(crate) fn since(host: &dyn Host) -> Result<Option<Timestamp>, Box<Fault>> {
    time(host, SINCE)
}

/// A length of time, as `readyFor` takes it.
pub(crate) fn period(value: &Value<'_>) -> Option<Duration> {
    let period = match (value, value.as_str()) {
        (Value::Duration(period), _) => Some(*period),
        (_, Some(text)) => Duration::parse(text),
        (_, None) => None,
    };
    period.filter(|period| period.nanos() >= 0)
}

// === impl Function ===

impl HostFunction for Function {
    fn call<'a>(&self, meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, Box<Fault>> {
        let answer = match (self, args) {
            (Self::Ready, [one]) => since(subject(READY, one)?)?.is_some(),
            (Self::Updated, [one]) => flag(subject(UPDATED_FUNCTION, one)?, UPDATED)?,
            (Self::ReadyFor, [one, length]) => ready_for(one, length)?,
            (Self::Linearly, [item, Value::List(list), Value::Int(most)]) => {
                let most = at_least(LINEARLY, "n", *most, LEAST_ITEMS)?;
                within(LINEARLY, item, &tally(meter, list)?, |_| most)?
            }
            (Self::Exponentially, [item, Value::List(list)]) => {
                within(EXPONENTIALLY, item, &tally(meter, list)?, |proven| proven)?
            }
            (Self::Exponentially, [item, Value::List(list), Value::Int(factor)]) => {
                let factor = at_least(EXPONENTIALLY, "factor", *factor, LEAST_FACTOR)?;
                within(EXPONENTIALLY, item, &tally(meter, list)?, |proven| {
                    proven.saturating_mul(factor - 1)
                })?
            }
            (Self::Ready | Self::Updated | Self::ReadyFor, _)
            | (Self::Linearly | Self::Exponentially, _) => {
                return Err(failed(format!("{self:?}: these are no arguments for it")));
            }
        };
        Ok(Value::Bool(answer))
    }
}

fn ready_for(one: &Value<'_>, length: &Value<'_>) -> Result<bool, Box<Fault>> {
    let host = subject(READY_FOR, one)?;
    let period = period(length)
        .ok_or_else(|| failed(format!("{READY_FOR}: this is no length of time to wait")))?;
    let (Some(since), Some(now)) = (since(host)?, time(host, NOW)?) else {
        return Ok(false);
    };
    Ok(since.plus(period).is_some_and(|end| end <= now))
}

/// Whether one more fits. One that is in flight to something older adds nothing to what is in
/// flight, but it does to those at the target: what nobody has proven yet reaches no more of them
/// at once than it may, however many were on their way to what was before.
fn within(
    function: &str,
    item: &Value<'_>,
    tally: &Tally,
    bound: impl FnOnce(u64) -> u64,
) -> Result<bool, Box<Fault>> {
    let item = subject(function, item)?;
    let taken = match flag(item, IN_FLIGHT)? {
        true => tally.updating,
        false => tally.in_flight,
    };
    // The first wave is one: nothing is proven yet.
    Ok(taken < bound(tally.proven).max(1))
}

fn at_least(function: &str, what: &str, found: i64, least: i64) -> Result<u64, Box<Fault>> {
    match u64::try_from(found) {
        Ok(number) if found >= least => Ok(number),
        Ok(_) | Err(_) => Err(failed(format!(
            "{function}: {what} is {found}, and must be {least} or more"
        ))),
    }
}

fn subject<'a>(function: &str, value: &Value<'a>) -> Result<&'a dyn Host, Box<Fault>> {
    if let Value::Host(host) = value {
        return Ok(*host);
    }
    Err(failed(format!(
        "{function}: it is asked of items and nodes, and this is neither"
    )))
}

fn flag(host: &dyn Host, name: &str) -> Result<bool, Box<Fault>> {
    let value = host.field(name)?;
    Ok(value.and_then(|value| value.as_bool()).unwrap_or(false))
}

fn time(host: &dyn Host, name: &str) -> Result<Option<Timestamp>, Box<Fault>> {
    if let Some(Value::Timestamp(time)) = host.field(name)? {
        return Ok(Some(time));
    }
    Ok(None)
}

fn failed(message: String) -> Box<Fault> {
    Box::new(Fault::Failed(Failure {
        span: Span::default(),
        reason: Reason::Invalid(message),
    }))
}
