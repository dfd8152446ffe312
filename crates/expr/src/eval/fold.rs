//! Macros that go through lists and maps.
//!
//! Costs are those of cel-go's expansion: a loop condition and a step for each item, and the
//! result; what each costs is said where it is charged.

use super::{Item, Local, Machine, Origin, Outcome, State, no_overload, truth};
use crate::cost::self_compare;
use crate::fault::Fault;
use crate::library::{sorted, sorting};
use crate::program::{FoldOp, Op, OpId};
use crate::syntax::FoldKind;
use crate::value::{List, Map, OwnedMap, Value};

/// What a loop goes through.
enum Range<'a> {
    List(List<'a>),
    Map(Map<'a>, Vec<Value<'a>>),
}

/// What a loop has so far.
enum Accumulator<'a> {
    /// `all` and `exists`: the fault of an item that did not decide.
    Decide(Option<Box<Fault>>),
    Count(u64),
    Items(Vec<Value<'a>>),
    /// `sortBy`: items with their keys.
    Keyed(Vec<(Value<'a>, Value<'a>)>),
    Entries(OwnedMap<'a>),
}

impl<'p: 'a, 'b, 'a> Machine<'p, 'b, 'a> {
    pub(super) fn fold(&mut self, fold: &'p FoldOp) -> Outcome<'a> {
        let range = self.eval(fold.range)?;
        let range = match (range.as_list(), range.as_map()) {
            (Some(list), _) => Range::List(list.clone()),
            (None, Some(map)) => {
                // All keys are looked at before the first one is used.
                self.meter.step(map.len() as u64)?;
                Range::Map(map.clone(), map.keys())
            }
            (None, None) => return Err(no_overload("comprehension", &[range]).at(fold.span)),
        };
        let length = match &range {
            Range::List(list) => list.len(),
            Range::Map(_, keys) => keys.len(),
        };
        let mut accumulator = Accumulator::new(fold.kind, length);
        self.meter.charge(setup_cost(fold.kind))?;
        // cel-go goes on after an item that failed, and charges.
        let mut broken: Option<Box<Fault>> = None;
        for index in 0..length {
            if broken.is_some() && fold.kind == FoldKind::TransformMap {
                self.meter.charge(1)?;
                continue;
            }
            self.bind(fold, &range, index)?;
            self.meter.charge(item_cost(fold.kind))?;
            let more = self.item(fold, &mut accumulator);
            self.locals.truncate(fold.local);
            let more = match more {
                Err(fault) if !fault.is_stop() => {
                    broken = broken.or(Some(fault));
                    continue;
                }
                more => more?,
            };
            if !more {
                // The loop's condition is asked once more if there is more to go through.
                let asked = if index + 1 < length {
                    item_cost(fold.kind) - 1
                } else {
                    0
                };
                self.meter.charge(asked + 1)?;
                return Ok(Value::Bool(fold.kind == FoldKind::Exists));
            }
        }
        if let Some(fault) = broken {
            return self.charged(
                fault,
                1 + u64::from(matches!(accumulator, Accumulator::Count(_))),
            );
        }
        self.meter.charge(result_cost(&accumulator))?;
        if let Accumulator::Keyed(items) = &accumulator {
            sorting(self.meter, items)?;
        }
        accumulator.finish(fold.kind)
    }

    /// Puts the item at `index` into the loop's variables.
    fn bind(&mut self, fold: &FoldOp, range: &Range<'a>, index: usize) -> Result<(), Box<Fault>> {
        self.locals.truncate(fold.local);
        let origin = Some(Origin {
            range: fold.range,
            item: Item::At(index),
        });
        let mut push = |value, origin| {
            let state = State::Ready;
            self.locals.push(Local {
                value,
                state,
                origin,
            });
        };
        match range {
            Range::List(list) => {
                let item = list.get(index)?.unwrap_or(Value::Null);
                if fold.two {
                    push(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)), None);
                }
                push(item, origin);
            }
            Range::Map(map, keys) => {
                let key = keys[index].clone();
                let value = match fold.two {
                    true => Some(map.get(&key)?.unwrap_or(Value::Null)),
                    false => None,
                };
                push(key, None);
                if let Some(value) = value {
                    let item = Item::Some;
                    let range = fold.range;
                    push(value, Some(Origin { range, item }));
                }
            }
        }
        Ok(())
    }

    /// One item. Whether to go on.
    fn item(
        &mut self,
        fold: &'p FoldOp,
        accumulator: &mut Accumulator<'a>,
    ) -> Result<bool, Box<Fault>> {
        if let Some(filter) = fold.filter
            && !self.condition(filter, fold)?
        {
            // The accumulator is read in its place; a conditional's branch costs nothing.
            return Ok(true);
        }
        match accumulator {
            Accumulator::Decide(fault) => {
                let deciding = fold.kind == FoldKind::Exists;
                match self.condition(fold.body, fold) {
                    Ok(value) => return Ok(value != deciding),
                    Err(found) if found.is_stop() => return Err(found),
                    Err(found) => {
                        *fault = Some(match fault.take() {
                            Some(before) => before.join(found),
                            None => found,
                        });
                    }
                }
            }
            Accumulator::Count(count) => {
                if self.condition(fold.body, fold)? {
                    self.meter.charge(2)?;
                    *count += 1;
                }
            }
            Accumulator::Items(items) => {
                if fold.kind == FoldKind::Filter {
                    if !self.condition(fold.body, fold)? {
                        return Ok(true);
                    }
                    // `accu + [item]`: two reads, a list, an addition.
                    self.meter.charge(1 + 1 + 10 + 1)?;
                    items.push(self.locals[self.locals.len() - 1].value.clone());
                } else {
                    items.push(self.eval_then(fold.body, self.appending(fold.body))?);
                }
            }
            Accumulator::Keyed(items) => {
                let key = self.eval_then(fold.body, self.appending(fold.body))?;
                items.push((key, self.locals[self.locals.len() - 1].value.clone()));
            }
            Accumulator::Entries(map) => {
                let is_value = fold.kind == FoldKind::TransformMap;
                // Reading the accumulator, and the key, and putting it in.
                let value = self.eval_then(fold.body, 1 + u64::from(is_value) + 1)?;
                if is_value {
                    let key = self.locals[fold.local].value.clone();
                    self.meter.read(&key)?;
                    map.insert(key, value)?;
                    return Ok(true);
                }
                let Value::Map(entries) = value else {
                    return Err(no_overload("transformMapEntry", &[value]).at(fold.span));
                };
                for key in entries.keys() {
                    self.meter.step(1)?;
                    self.meter.read(&key)?;
                    let value = entries.get(&key)?.unwrap_or(Value::Null);
                    map.insert(key, value)?;
                }
            }
        }
        Ok(true)
    }

    /// What `accu + [body]` costs beside the body; a list of a constant is a constant.
    fn appending(&self, body: OpId) -> u64 {
        let constant = matches!(self.program.op(body), Op::Const(_, 0));
        if constant { 1 + 1 } else { 1 + 10 + 1 }
    }

    /// Evaluates, and charges for what is done with the value, whether there is one or not.
    fn eval_then(&mut self, id: OpId, cost: u64) -> Outcome<'a> {
        match self.eval(id) {
            Ok(value) => {
                self.meter.charge(cost)?;
                Ok(value)
            }
            Err(fault) => self.charged(fault, cost),
        }
    }

    fn condition(&mut self, id: OpId, fold: &FoldOp) -> Result<bool, Box<Fault>> {
        let value = self.eval(id)?;
        truth(value, "condition", fold.span)
    }
}

/// What is charged before the loop. `sortBy` is a loop over a variable, and a call on it.
fn setup_cost(kind: FoldKind) -> u64 {
    if kind == FoldKind::SortBy { 1 + 1 } else { 0 }
}

/// What is charged after the loop: reading the accumulator, and what is done with it.
fn result_cost(accumulator: &Accumulator<'_>) -> u64 {
    match accumulator {
        Accumulator::Decide(_) | Accumulator::Items(_) | Accumulator::Entries(_) => 1,
        Accumulator::Count(_) => 1 + 1,
        Accumulator::Keyed(items) => {
            let texts = matches!(items.first(), Some((Value::String(_) | Value::Bytes(_), _)));
            1 + self_compare(items.len() as u64, texts)
        }
    }
}

/// What each item is charged beside its body: reading the accumulator, and the loop's condition.
fn item_cost(kind: FoldKind) -> u64 {
    match kind {
        // `@not_strictly_false(accu)`, then `accu && body` or `accu || body`; for `exists` the
        // condition negates the accumulator first.
        FoldKind::All => 1 + 1 + 1,
        FoldKind::Exists => 1 + 1 + 1 + 1,
        FoldKind::ExistsOne
        | FoldKind::ExistsOneCamel
        | FoldKind::Map
        | FoldKind::Filter
        | FoldKind::TransformList
        | FoldKind::TransformMap
        | FoldKind::TransformMapEntry
        | FoldKind::SortBy => 0,
    }
}

// === impl Accumulator ===

impl<'a> Accumulator<'a> {
    fn new(kind: FoldKind, length: usize) -> Self {
        // Lists of a host may be long; what is not filled costs nothing.
        let room = length.min(1024);
        match kind {
            FoldKind::All | FoldKind::Exists => Self::Decide(None),
            FoldKind::ExistsOne | FoldKind::ExistsOneCamel => Self::Count(0),
            FoldKind::Map | FoldKind::TransformList => Self::Items(Vec::with_capacity(room)),
            FoldKind::Filter => Self::Items(Vec::new()),
            FoldKind::SortBy => Self::Keyed(Vec::with_capacity(room)),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => Self::Entries(OwnedMap::new()),
        }
    }

    fn finish(self, kind: FoldKind) -> Outcome<'a> {
        match self {
            Self::Decide(Some(fault)) => Err(fault),
            Self::Decide(None) => Ok(Value::Bool(kind == FoldKind::All)),
            Self::Count(count) => Ok(Value::Bool(count == 1)),
            Self::Items(items) => Value::list(items),
            Self::Entries(map) => Ok(Value::Map(Map::owned(map))),
            Self::Keyed(items) => sorted(items),
        }
    }
}
