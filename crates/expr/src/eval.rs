//! The evaluator.

mod attribute;
mod call;
mod fold;

use std::sync::Arc;

use serde_json::Value as Json;

use crate::decl::Shape;
use crate::env::{Env, Slot};
use crate::fault::{Failure, Fault, Path, Reason, Stopped};
use crate::meter::{Budget, Meter};
use crate::program::{Op, OpId, Order, Program};
use crate::span::Span;
use crate::value::{LazyJson, Map, OwnedMap, Value, equal};

/// What making a list or a map costs.
const LIST: u64 = 10;
const MAP: u64 = 30;

pub(crate) type Outcome<'a> = Result<Value<'a>, Box<Fault>>;

/// What an evaluation came to.
#[derive(Clone, Debug)]
pub enum Eval<'a> {
    Value(Value<'a>),
    /// Data at this path is not there yet.
    Waiting(Box<Path>),
    Failed(Box<Failure>),
    /// A limit was reached.
    Stopped(Stopped),
}

/// The values of an environment's variables, by slot.
#[derive(Clone, Debug)]
pub struct Bindings<'a> {
    /// Few variables need no allocation.
    first: [Option<Bound<'a>>; INLINE],
    rest: Vec<Option<Bound<'a>>>,
}

/// What a variable is bound to.
#[derive(Clone, Debug)]
enum Bound<'a> {
    Value(Value<'a>),
    /// JSON that may not have been looked at yet.
    Lazy(&'a LazyJson<'a>),
    /// Nothing, for a reason that is known already.
    Fault(Arc<Fault>),
}

const INLINE: usize = 2;

impl<'a> Bindings<'a> {
    pub fn new(env: &Env) -> Self {
        let more = env.size().saturating_sub(INLINE);
        Self {
            first: [const { None }; INLINE],
            rest: if more == 0 {
                Vec::new()
            } else {
                vec![None; more]
            },
        }
    }

    pub(crate) fn none() -> Self {
        Self {
            first: [const { None }; INLINE],
            rest: Vec::new(),
        }
    }

    #[inline]
    pub fn set(&mut self, slot: Slot, value: Value<'a>) {
        self.bind(slot, Bound::Value(value));
    }

    /// Binds JSON that is parsed when an expression looks at it.
    pub fn set_lazy(&mut self, slot: Slot, json: &'a LazyJson<'a>) {
        self.bind(slot, Bound::Lazy(json));
    }

    /// Binds what came to no value: whoever reads it comes to the same fault.
    pub fn set_fault(&mut self, slot: Slot, fault: Arc<Fault>) {
        self.bind(slot, Bound::Fault(fault));
    }

    #[inline]
    fn bind(&mut self, slot: Slot, bound: Bound<'a>) {
        let at = slot.0 as usize;
        if let Some(place) = self.first.get_mut(at) {
            *place = Some(bound);
        } else if let Some(place) = self.rest.get_mut(at - INLINE) {
            *place = Some(bound);
        }
    }

    /// Binds JSON as the variable's declaration reads it.
    pub fn set_json(&mut self, env: &'a Env, slot: Slot, json: &'a Json) -> Result<(), Box<Fault>> {
        let decl = &*env.variable(slot).decl;
        // Nearly always it is an object, which is written where it belongs at once.
        if let (Json::Object(map), Shape::Dyn | Shape::Map { .. } | Shape::Object(_)) =
            (json, decl.shape())
        {
            self.set(slot, Value::Map(Map::Json(map, decl)));
            return Ok(());
        }
        let value = Value::declared(json, decl)?;
        self.set(slot, value);
        Ok(())
    }

    fn get(&self, slot: Slot) -> Option<&Bound<'a>> {
        let at = slot.0 as usize;
        let place = self.first.get(at).or_else(|| self.rest.get(at - INLINE));
        place.and_then(Option::as_ref)
    }
}

impl Program {
    /// Evaluates within `budget`.
    pub fn eval<'a>(&'a self, bindings: &Bindings<'a>, budget: Budget) -> Eval<'a> {
        self.eval_metered(bindings, &mut Meter::new(budget))
    }

    /// Evaluates with a meter of the caller's, which knows the cost afterwards.
    pub fn eval_metered<'a>(&'a self, bindings: &Bindings<'a>, meter: &mut Meter) -> Eval<'a> {
        meter.constants.clone_from(&self.patterns);
        match Machine::new(self, bindings, meter).eval(self.root) {
            Ok(value) => Eval::Value(value),
            Err(fault) => match *fault {
                Fault::Waiting(path) => Eval::Waiting(Box::new(path)),
                Fault::Failed(failure) => Eval::Failed(Box::new(failure)),
                Fault::Stopped(stopped) => Eval::Stopped(stopped),
            },
        }
    }
}

/// One evaluation.
pub(crate) struct Machine<'p, 'b, 'a> {
    program: &'p Program,
    bindings: &'b Bindings<'a>,
    meter: &'b mut Meter,
    /// Variables of macros.
    locals: Vec<Local<'a>>,
}

/// A variable of a macro, and where its value comes from.
#[derive(Clone, Debug)]
struct Local<'a> {
    /// Only to be looked at once it is [`State::Ready`].
    value: Value<'a>,
    state: State,
    origin: Option<Origin>,
}

/// As in cel-go, what is bound is evaluated, and paid for, when it is first read.
#[derive(Clone, Debug)]
enum State {
    Ready,
    /// The value is there; this is what it costs to read it for the first time.
    Unpaid(u64),
    /// What gives the value.
    Due(OpId),
    Failed(Box<Fault>),
}

/// A variable may be read in the evaluation of another one, and so on, which takes stack: for as
/// many operations as there are at most, which are no more than may be nested anyway. In longer
/// programs variables are evaluated where they are bound, and only their faults wait.
const SHORT: usize = 160;

/// The place of an item: which operation gave the range, and which of its items it is.
#[derive(Clone, Copy, Debug)]
struct Origin {
    range: OpId,
    item: Item,
}

/// Which part of a range.
#[derive(Clone, Copy, Debug)]
enum Item {
    Whole,
    At(usize),
    /// One of a map's values.
    Some,
}

// === impl Machine ===

impl<'p: 'a, 'b, 'a> Machine<'p, 'b, 'a> {
    pub(crate) fn new(
        program: &'p Program,
        bindings: &'b Bindings<'a>,
        meter: &'b mut Meter,
    ) -> Self {
        Self {
            program,
            bindings,
            meter,
            locals: Vec::with_capacity(program.locals),
        }
    }

    pub(crate) fn eval(&mut self, id: OpId) -> Outcome<'a> {
        self.meter.step(1)?;
        let program = self.program;
        match program.op(id) {
            Op::Const(value, cost) => {
                if *cost > 0 {
                    self.meter.charge(*cost)?;
                }
                Ok(shared(value))
            }
            Op::Attribute(attribute) => self.attribute(attribute),
            Op::Call(call) => self.call(call),
            Op::Equal(left, right, wanted) => self.equal(*left, *right, *wanted),
            Op::Order(order) => self.order(order),
            Op::And(terms, span) => self.decide(terms, false, *span),
            Op::Or(terms, span) => self.decide(terms, true, *span),
            Op::Not(operand, span) => match self.eval(*operand) {
                Ok(value) => {
                    self.meter.charge(1)?;
                    Ok(Value::Bool(!truth(value, "!_", *span)?))
                }
                Err(fault) => self.charged(fault, 1),
            },
            Op::Conditional(condition, yes, no, span) => {
                let condition = self.eval(*condition)?;
                let taken = if truth(condition, "_?_:_", *span)? {
                    yes
                } else {
                    no
                };
                self.eval(*taken)
            }
            Op::Fold(fold) => self.fold(fold),
            Op::Chain(first, links) => self.chain(*first, links),
            Op::Matches(matches) => self.matches(matches),
            Op::List(items, span) => self.list(items).map_err(|fault| fault.at(*span)),
            Op::Map(items, span) => self.map(items).map_err(|fault| fault.at(*span)),
            Op::Bind(local, init, body) => {
                self.locals.truncate(*local);
                self.hold(*init)?;
                let result = self.eval(*body);
                self.locals.truncate(*local);
                result
            }
            Op::OptMap(op) => self.opt_map(op),
            Op::Otherwise(first, other, unwrap, span) => {
                let first = self.eval(*first)?;
                match in_optional(&first)
                    .map_err(|()| no_overload("or", std::slice::from_ref(&first)).at(*span))?
                {
                    Some(inner) if *unwrap => Ok(inner),
                    Some(_) => Ok(first),
                    None => self.eval(*other),
                }
            }
            Op::Block(base, slots, body) => self.block(*base, slots, *body),
            Op::Broken(reason, span) => Err(Fault::failed(reason.clone()).at(*span)),
        }
    }

    fn equal(&mut self, left: OpId, right: OpId, wanted: bool) -> Outcome<'a> {
        // A field that is compared with a constant text is the most common question of all.
        if let Op::Const(Value::String(right), 0) = self.program.op(right)
            && let Some((text, cost)) = self.text(left)
        {
            self.meter.step(1)?;
            self.meter.charge(cost)?;
            let right = right.as_str();
            self.meter.charge(crate::cost::scan_texts(text, right))?;
            return Ok(Value::Bool((text == right) == wanted));
        }
        // Values are looked at where they are: moving what was just written is slow.
        let first = self.eval(left);
        let left = match &first {
            Ok(left) => left,
            Err(_) => {
                let other = self.beside(&first, right)?;
                return self.unequal(first, &other);
            }
        };
        // A constant need not be copied.
        if let Op::Const(right, 0) = self.program.op(right) {
            self.charge_equal(left, right, wanted)?;
            return Ok(Value::Bool(equal(self.meter, left, right)? == wanted));
        }
        let second = self.eval(right);
        let Ok(right) = &second else {
            return self.unequal(second, left);
        };
        self.charge_equal(left, right, wanted)?;
        Ok(Value::Bool(equal(self.meter, left, right)? == wanted))
    }

    /// A comparison one side of which failed.
    #[cold]
    fn unequal(&mut self, failed: Outcome<'a>, other: &Value<'a>) -> Outcome<'a> {
        let cost = crate::cost::scan(other.cost_size().min(1));
        failed.or_else(|fault| self.charged(fault, cost))
    }

    /// `<` and the like. Integers are by far the most common.
    fn order(&mut self, order: &'p Order) -> Outcome<'a> {
        let [left, right] = order.sides;
        let first = self.eval(left);
        if let (Ok(Value::Int(left)), Op::Const(Value::Int(right), 0)) =
            (&first, self.program.op(right))
        {
            self.meter.step(1)?;
            self.meter.charge(1)?;
            return Ok(Value::Bool((order.holds)(left.cmp(right))));
        }
        let left = match first {
            Ok(left) => left,
            Err(_) => return self.failed_before(&order.call, first, right),
        };
        let right = match self.eval(right) {
            Ok(right) => right,
            Err(fault) => return self.failed(&order.call, fault, &[left]),
        };
        if let (Value::Int(left), Value::Int(right)) = (&left, &right) {
            self.meter.charge(1)?;
            return Ok(Value::Bool((order.holds)(left.cmp(right))));
        }
        let is_nan = |value: &Value<'_>| matches!(value, Value::Double(value) if value.is_nan());
        if self.program.env.options().unordered_nan && (is_nan(&left) || is_nan(&right)) {
            self.meter.charge(1)?;
            return Ok(Value::Bool(false));
        }
        self.apply(&order.call, &[left, right])
    }

    /// Evaluates an argument although one before it failed: cel-go does, and charges by it.
    #[cold]
    fn beside(&mut self, failed: &Outcome<'a>, id: OpId) -> Outcome<'a> {
        if failed.as_ref().is_err_and(|fault| fault.is_stop()) {
            return Ok(Value::Null);
        }
        match self.eval(id) {
            Err(fault) if fault.is_stop() => Err(fault),
            Ok(value) => Ok(value),
            Err(_) => Ok(Value::Null),
        }
    }

    /// The fault, charged for what it kept from happening.
    #[cold]
    fn charged(&mut self, fault: Box<Fault>, cost: u64) -> Outcome<'a> {
        if !fault.is_stop() {
            self.meter.charge(cost)?;
        }
        Err(fault)
    }

    /// `&&` and `||`: the term that decides wins over every fault but a stop.
    fn decide(&mut self, terms: &[OpId], deciding: bool, span: Span) -> Outcome<'a> {
        let mut fault: Option<Box<Fault>> = None;
        for &term in terms {
            let found = match self.eval(term) {
                Ok(Value::Bool(value)) if value == deciding => return Ok(Value::Bool(value)),
                Ok(Value::Bool(_)) => continue,
                Ok(other) => {
                    let name = if deciding { "_||_" } else { "_&&_" };
                    no_overload(name, &[other]).at(span)
                }
                Err(found) if found.is_stop() => return Err(found),
                Err(found) => found,
            };
            fault = Some(match fault {
                Some(before) => before.join(found),
                None => found,
            });
        }
        match fault {
            Some(fault) => Err(fault),
            None => Ok(Value::Bool(!deciding)),
        }
    }

    fn list(&mut self, items: &[crate::program::ListItem]) -> Outcome<'a> {
        let values = self.items(items);
        let values = match values {
            Ok(values) => values,
            Err(fault) => return self.charged(fault, LIST),
        };
        self.meter.charge(LIST)?;
        Value::list(values)
    }

    fn items(&mut self, items: &[crate::program::ListItem]) -> Result<Vec<Value<'a>>, Box<Fault>> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval(item.value)?;
            if item.optional {
                values.extend(in_optional(&value).map_err(|()| not_optional(&value))?);
            } else {
                values.push(value);
            }
        }
        Ok(values)
    }

    fn map(&mut self, items: &[crate::program::MapItem]) -> Outcome<'a> {
        let map = match self.entries(items) {
            Ok(map) => map,
            Err(fault) => return self.charged(fault, MAP),
        };
        self.meter.charge(MAP)?;
        Ok(Value::Map(Map::owned(map)))
    }

    fn entries(&mut self, items: &[crate::program::MapItem]) -> Result<OwnedMap<'a>, Box<Fault>> {
        let strict = self.program.env.options().strict;
        let mut map = OwnedMap::new();
        for item in items {
            let key = self.eval(item.key)?;
            self.meter.read(&key)?;
            let value = self.eval(item.value)?;
            let value = if item.optional {
                in_optional(&value).map_err(|()| not_optional(&value))?
            } else {
                Some(value)
            };
            match value {
                Some(value) if strict => map.insert(key, value)?,
                Some(value) => map.set(key, value)?,
                None => {}
            }
        }
        Ok(map)
    }

    /// Puts what `init` gives into the next variable, to be evaluated when it is read.
    fn hold(&mut self, init: OpId) -> Result<(), Box<Fault>> {
        let mut value = Value::Null;
        let mut state = State::Due(init);
        if self.program.ops.len() > SHORT {
            // What it is made of is bound before it.
            (value, state) = match self.eval(init) {
                Ok(value) => (value, State::Ready),
                Err(fault) if fault.is_stop() => return Err(fault),
                Err(fault) => (Value::Null, State::Failed(fault)),
            };
        }
        self.locals.push(Local {
            value,
            state,
            origin: Some(Origin {
                range: init,
                item: Item::Whole,
            }),
        });
        Ok(())
    }

    /// Makes a variable's value ready.
    #[cold]
    fn first_read(&mut self, at: usize) -> Result<(), Box<Fault>> {
        match std::mem::replace(&mut self.locals[at].state, State::Ready) {
            State::Ready => Ok(()),
            State::Unpaid(cost) => self.meter.charge(cost),
            State::Failed(fault) => {
                self.locals[at].state = State::Failed(fault.clone());
                Err(fault)
            }
            State::Due(init) => {
                // It sees the variables before it; its own take the place of those behind.
                let behind = self.locals.split_off(at);
                let result = self.eval(init);
                self.locals.truncate(at);
                self.locals.extend(behind);
                match result {
                    Ok(value) => self.locals[at].value = value,
                    Err(fault) => {
                        self.locals[at].state = State::Failed(fault.clone());
                        return Err(fault);
                    }
                }
                Ok(())
            }
        }
    }

    fn opt_map(&mut self, op: &'p crate::program::OptMapOp) -> Outcome<'a> {
        let before = self.meter.cost();
        let target = match self.eval(op.target) {
            Ok(target) => target,
            Err(fault) => return self.charged(fault, 1),
        };
        let unfit =
            |value: &Value<'a>| no_overload("optMap", std::slice::from_ref(value)).at(op.span);
        let Some(value) = in_optional(&target).map_err(|()| unfit(&target))? else {
            // `target.hasValue() ? … : optional.none()`
            self.meter.charge(1 + 1)?;
            return Ok(Value::NONE);
        };
        // The expansion evaluates the target for `hasValue`, and once more for `value` if what is
        // in it is read.
        let again = self.meter.cost() - before;
        self.meter.charge(1 + u64::from(!op.flat))?;
        self.locals.truncate(op.local);
        self.locals.push(Local {
            value,
            state: State::Unpaid(again + 1),
            origin: Some(Origin {
                range: op.target,
                item: Item::Whole,
            }),
        });
        let result = self.eval(op.body);
        self.locals.truncate(op.local);
        let result = result?;
        if !op.flat {
            return Value::some(result);
        }
        in_optional(&result).map_err(|()| unfit(&result))?;
        Ok(result)
    }

    fn block(&mut self, base: usize, slots: &[OpId], body: OpId) -> Outcome<'a> {
        self.locals.truncate(base);
        for slot in slots {
            self.hold(*slot)?;
        }
        let result = self.eval(body);
        self.locals.truncate(base);
        result
    }
}

/// The boolean that a condition must be.
fn truth(value: Value<'_>, name: &str, span: Span) -> Result<bool, Box<Fault>> {
    match value.as_bool() {
        Some(value) => Ok(value),
        None => Err(no_overload(name, &[value]).at(span)),
    }
}

/// What is in an optional; an error when the value is none.
fn in_optional<'a>(value: &Value<'a>) -> Result<Option<Value<'a>>, ()> {
    if let Value::Optional(inner) = value {
        return Ok(inner.as_ref().map(|inner| inner.value.clone()));
    }
    Err(())
}

/// A program's constant, borrowed from it.
fn shared<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::String(text) => Value::borrowed(text.as_str()),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Optional(_)
        | Value::Opaque(_)
        | Value::Host(_)) => other.clone(),
    }
}

/// The fault of a call for whose arguments there is no overload.
pub(crate) fn no_overload(name: &str, args: &[Value<'_>]) -> Box<Fault> {
    let types: Vec<String> = args
        .iter()
        .map(|arg| arg.type_of().name().to_owned())
        .collect();
    Fault::failed(Reason::NoSuchOverload(format!(
        "{name}({})",
        types.join(", ")
    )))
}

fn not_optional(value: &Value<'_>) -> Box<Fault> {
    let name = value.type_of().name().to_owned();
    Fault::invalid(format!(
        "cannot initialize optional entry from non-optional value of type {name}"
    ))
}

/// The fault of data that may come.
pub(crate) fn waiting(path: Path) -> Box<Fault> {
    Box::new(Fault::Waiting(path))
}

#[cfg(test)]
mod tests;
