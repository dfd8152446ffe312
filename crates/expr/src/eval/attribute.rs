//! Variables and selections.

use serde_json::Value as Json;

use super::{Bound, Item, Local, Machine, Outcome, State, waiting};
use crate::decl::{Absent, Decl, Shape};
use crate::env::Slot;
use crate::fault::{Fault, Path, Reason, Step};
use crate::program::{Attribute, Op, OpId, Qualifier, QualifierKind, Root};
use crate::value::{LazyJson, List, Map, Value};

/// What a step found.
enum Found<'a> {
    Value(Value<'a>),
    /// Nothing, and whether that means to wait.
    Absent(Missing, Reason),
}

/// What it means that something is not there.
enum Missing {
    Fails,
    Waits,
    /// It depends on what the value was made of.
    Computed,
}

impl From<Absent> for Missing {
    fn from(absent: Absent) -> Self {
        match absent {
            Absent::Fails => Self::Fails,
            Absent::Waits => Self::Waits,
        }
    }
}

impl<'p: 'a, 'b, 'a> Machine<'p, 'b, 'a> {
    pub(super) fn attribute(&mut self, attribute: &'p Attribute) -> Outcome<'a> {
        let start = match attribute.root {
            Root::Variable(slot) => match self.bindings.get(slot) {
                Some(Bound::Value(value)) => Start::of(value, attribute),
                Some(Bound::Lazy(json)) => self.lazy(slot, json, attribute)?,
                Some(Bound::Fault(fault)) => {
                    let fault = Box::new(Fault::clone(fault));
                    return self.charged(fault, attribute.charge);
                }
                None => return self.unbound(slot, attribute),
            },
            Root::Local(local) => {
                if !matches!(self.locals[local].state, State::Ready)
                    && let Err(fault) = self.first_read(local)
                {
                    return self.charged(fault, attribute.charge);
                }
                Start::of(&self.locals[local].value, attribute)
            }
            Root::Value(op) => Start::Value(self.eval(op)?),
        };
        let (place, decl) = match start {
            Start::Json(place, decl) => (place, decl),
            Start::Value(value) => return self.steps(attribute, value, 0),
        };
        match walk(place, decl, &attribute.steps) {
            Walked::End(json, decl, optional) => {
                let steps = attribute.steps.len() as u64;
                self.meter.charge(attribute.charge.wrapping_add(steps))?;
                if let (Json::String(text), Shape::Bytes) = (json, decl.shape()) {
                    self.meter.write(text.len())?;
                }
                let value = Value::declared(json, decl).map_err(|fault| fault.at(attribute.span));
                if optional { Value::some(value?) } else { value }
            }
            Walked::Present(present) => {
                let steps = attribute.steps.len() as u64;
                self.meter.charge(attribute.charge.wrapping_add(steps))?;
                Ok(Value::Bool(present))
            }
            Walked::Nothing(made) => self.finish(attribute, made, nothing(attribute)),
            Walked::Stuck => self.steps(attribute, place.value(decl), 0),
        }
    }

    /// A text that nothing but plain steps through JSON lead to, and what reading it costs.
    pub(super) fn text(&self, id: OpId) -> Option<(&'a str, u64)> {
        let Op::Attribute(attribute) = self.program.op(id) else {
            return None;
        };
        let root = match attribute.root {
            Root::Variable(slot) => match self.bindings.get(slot) {
                Some(Bound::Value(value)) => value,
                Some(Bound::Lazy(_) | Bound::Fault(_)) | None => return None,
            },
            Root::Local(local) => match &self.locals[local] {
                Local {
                    value,
                    state: State::Ready,
                    ..
                } => value,
                Local { .. } => return None,
            },
            Root::Value(_) => return None,
        };
        let (map, decl) = object(root)?;
        let walked = walk(Place::Map(map), decl, &attribute.steps);
        let Walked::End(Json::String(text), decl, false) = walked else {
            return None;
        };
        let cost = attribute.charge.wrapping_add(attribute.steps.len() as u64);
        matches!(decl.shape(), Shape::Dyn | Shape::String).then_some((text, cost))
    }

    /// JSON that is looked at.
    #[cold]
    fn lazy(
        &mut self,
        slot: Slot,
        json: &'a LazyJson<'a>,
        attribute: &Attribute,
    ) -> Result<Start<'a>, Box<Fault>> {
        let span = attribute.span;
        let decl = &self.program.env.variable(slot).decl;
        let json = json.json(self.meter).map_err(|fault| fault.at(span))?;
        let value = Value::declared(json, decl).map_err(|fault| fault.at(span))?;
        Ok(Start::of(&value, attribute))
    }

    /// Makes the steps from `made` on.
    fn steps(&mut self, attribute: &'p Attribute, value: Value<'a>, made: usize) -> Outcome<'a> {
        let mut value = value;
        // An optional along the way makes everything after it optional.
        let mut optional = false;
        let strict = self.program.env.options().strict;
        for (index, step) in attribute.steps.iter().enumerate().skip(made) {
            if let Value::Optional(inner) = &value {
                optional = true;
                match inner {
                    Some(inner) => value = inner.value.clone(),
                    None => return self.finish(attribute, index, nothing(attribute)),
                }
            }
            let key = match &step.kind {
                QualifierKind::Computed(op) => {
                    let key = self.eval(*op)?;
                    self.meter.read(&key)?;
                    Some(key)
                }
                QualifierKind::Field(..) | QualifierKind::Test(_) | QualifierKind::Constant(_) => {
                    None
                }
            };
            optional |= step.optional;
            // What has no fields has none that is asked for, either.
            let tests = matches!(step.kind, QualifierKind::Test(_));
            let asked = tests || step.optional || optional && !strict;
            if asked && is_plain(&value) {
                let made = index + usize::from(!optional);
                return self.finish(attribute, made, nothing(attribute));
            }
            let found = match step_into(&value, step, key.as_ref()) {
                Ok(found) => found,
                Err(fault) => {
                    let made = index + usize::from(!step.optional);
                    return self.fail(attribute, made, fault.at(step.span));
                }
            };
            if tests {
                let present = matches!(found, Found::Value(_));
                // In an optional, what is not there is not charged for.
                let made = index + usize::from(present || !optional);
                return self.finish(attribute, made, Value::Bool(present));
            }
            value = match found {
                Found::Value(value) => value,
                Found::Absent(..) if optional => {
                    // What is not there is not charged for.
                    return self.finish(attribute, index, nothing(attribute));
                }
                Found::Absent(Missing::Waits, _) => {
                    let path = self.path(attribute, index, key.as_ref());
                    return self.fail(attribute, index + 1, waiting(path));
                }
                Found::Absent(Missing::Computed, reason) => {
                    // What was made of data that may come may come, too.
                    let fault = match self.root_path(attribute.root, 0) {
                        Some(_) => waiting(self.path(attribute, index, key.as_ref())),
                        None => Fault::failed(reason).at(step.span),
                    };
                    return self.fail(attribute, index + 1, fault);
                }
                Found::Absent(Missing::Fails, reason) => {
                    return self.fail(attribute, index + 1, Fault::failed(reason).at(step.span));
                }
            };
        }
        // Also when what was found is an optional itself: then there is one in another.
        if optional {
            value = Value::some(value)?;
        }
        self.finish(attribute, attribute.steps.len(), value)
    }

    /// Charges for the attribute and the steps that were made.
    fn finish(&mut self, attribute: &Attribute, steps: usize, value: Value<'a>) -> Outcome<'a> {
        self.meter
            .charge(attribute.charge.wrapping_add(steps as u64))?;
        Ok(value)
    }

    /// Like [`Self::finish`] for a step that found nothing.
    fn fail(&mut self, attribute: &Attribute, steps: usize, fault: Box<Fault>) -> Outcome<'a> {
        self.meter
            .charge(attribute.charge.wrapping_add(steps as u64))?;
        Err(fault)
    }

    /// A variable without a value.
    fn unbound(&self, slot: Slot, attribute: &Attribute) -> Outcome<'a> {
        let variable = self.program.env.variable(slot);
        match variable.decl.absent() {
            Absent::Waits => Err(waiting(Path {
                root: variable.name.to_string(),
                steps: Vec::new(),
            })),
            Absent::Fails => {
                let reason = Reason::NoSuchVariable(variable.name.to_string());
                Err(Fault::failed(reason).at(attribute.span))
            }
        }
    }

    /// The path up to and with the step at `index`.
    fn path(&self, attribute: &Attribute, index: usize, key: Option<&Value<'a>>) -> Path {
        let mut path = self.root_path(attribute.root, 0).unwrap_or_else(|| Path {
            root: "?".to_owned(),
            steps: Vec::new(),
        });
        let last = attribute.steps.get(index).map(|step| to_step(step, key));
        let before = attribute.steps[..index]
            .iter()
            .map(|step| to_step(step, None));
        path.steps.extend(before.chain(last));
        path
    }

    /// Where data that may come is from; nothing for data that does not.
    fn root_path(&self, root: Root, depth: usize) -> Option<Path> {
        match root {
            Root::Variable(slot) => {
                let variable = self.program.env.variable(slot);
                (variable.decl.absent() == Absent::Waits).then(|| Path {
                    root: variable.name.to_string(),
                    steps: Vec::new(),
                })
            }
            Root::Local(local) => {
                // One of a macro that is done, inside of what is looked at, is there no more.
                let origin = self.locals.get(local)?.origin?;
                let mut path = self.source(origin.range, depth + 1)?;
                match origin.item {
                    Item::Whole => {}
                    Item::At(index) => {
                        let index = i64::try_from(index).unwrap_or(i64::MAX);
                        path.steps.push(Step::Index(index));
                    }
                    Item::Some => path.steps.push(Step::Any),
                }
                Some(path)
            }
            Root::Value(op) => self.source(op, depth + 1),
        }
    }

    /// The data that an operation is about: what it reads, or what it is made of.
    fn source(&self, id: OpId, depth: usize) -> Option<Path> {
        if depth > MAX_SOURCES {
            return None;
        }
        let source = |id: &OpId| self.source(*id, depth + 1);
        match self.program.op(id) {
            Op::Attribute(attribute) => {
                let mut path = self.root_path(attribute.root, depth + 1)?;
                let steps = attribute.steps.iter().map(|step| to_step(step, None));
                path.steps.extend(steps);
                Some(path)
            }
            Op::Fold(fold) => {
                let mut path = source(&fold.range)?;
                path.steps.push(Step::Any);
                Some(path)
            }
            Op::Call(call) => call.args.iter().find_map(source),
            Op::Conditional(_, yes, no, _) => source(yes).or_else(|| source(no)),
            Op::Otherwise(first, other, ..) => source(first).or_else(|| source(other)),
            Op::Bind(_, init, body) => source(body).or_else(|| source(init)),
            Op::OptMap(op) => source(&op.target),
            Op::Chain(first, _) => source(first),
            // What is written down has what is written, and no more.
            Op::Const(..)
            | Op::List(..)
            | Op::Map(..)
            | Op::Not(..)
            | Op::And(..)
            | Op::Or(..)
            | Op::Equal(..)
            | Op::Order(_)
            | Op::Matches(_)
            | Op::Block(..)
            | Op::Broken(..) => None,
        }
    }
}

/// Data is not looked for through more operations than this.
const MAX_SOURCES: usize = 64;

/// An object or a list on the way.
#[derive(Clone, Copy)]
enum Place<'a> {
    Map(&'a serde_json::Map<String, Json>),
    List(&'a Vec<Json>),
}

/// Where a way begins.
enum Start<'a> {
    Json(Place<'a>, &'a Decl),
    Value(Value<'a>),
}

impl<'a> Start<'a> {
    fn of(value: &Value<'a>, attribute: &Attribute) -> Self {
        // Without a step, a value of the host is itself and not the object that it stands for.
        let whole = attribute.steps.is_empty() && matches!(value, Value::Host(_));
        if !whole && let Some((map, decl)) = object(value) {
            return Self::Json(Place::Map(map), decl);
        }
        if let Value::List(List::Json(items, decl)) = value {
            return Self::Json(Place::List(items), decl);
        }
        Self::Value(value.clone())
    }
}

impl<'a> Place<'a> {
    fn value(self, decl: &'a Decl) -> Value<'a> {
        match self {
            Self::Map(map) => Value::Map(Map::Json(map, decl)),
            Self::List(items) => Value::List(List::Json(items, decl)),
        }
    }
}

/// The object in JSON that a value is, or stands for.
fn object<'a>(value: &Value<'a>) -> Option<(&'a serde_json::Map<String, Json>, &'a Decl)> {
    let map = if let Value::Host(host) = value {
        host.object()
    } else {
        value.as_map().cloned()
    };
    if let Some(Map::Json(map, decl)) = map {
        return Some((map, decl));
    }
    None
}

/// Where plain steps through JSON led.
enum Walked<'a> {
    /// To the end; whether the value is an optional one.
    End(&'a Json, &'a Decl, bool),
    /// To the question whether something is there.
    Present(bool),
    /// To nothing, where nothing is a value, after so many steps.
    Nothing(usize),
    /// Not to the end: a step is not plain, or finds nothing.
    Stuck,
}

/// Goes through JSON without making values of what is on the way.
fn walk<'a>(mut place: Place<'a>, mut decl: &'a Decl, steps: &[Qualifier]) -> Walked<'a> {
    let mut optional = false;
    for (index, step) in steps.iter().enumerate() {
        let found = match (place, &step.kind) {
            (Place::Map(map), QualifierKind::Field(name, hint)) => {
                Map::hinted(map, decl, (name, hint))
            }
            (Place::Map(map), QualifierKind::Constant(Value::String(name))) => {
                Map::entry(map, decl, name.as_str())
            }
            (Place::Map(map), QualifierKind::Test(name)) => {
                return Walked::Present(Map::entry(map, decl, name).is_some());
            }
            (Place::List(items), QualifierKind::Constant(Value::Int(at))) => {
                let item = usize::try_from(*at).ok().and_then(|at| items.get(at));
                item.map(|item| (item, decl.inner()))
            }
            _ => return Walked::Stuck,
        };
        optional |= step.optional;
        let Some((json, inner)) = found else {
            return if optional {
                Walked::Nothing(index)
            } else {
                Walked::Stuck
            };
        };
        if index + 1 == steps.len() {
            return Walked::End(json, inner, optional);
        }
        place = match (json, inner.shape()) {
            (Json::Object(next), Shape::Dyn | Shape::Map { .. } | Shape::Object(_)) => {
                Place::Map(next)
            }
            (Json::Array(next), Shape::Dyn | Shape::List { .. }) => Place::List(next),
            _ => return Walked::Stuck,
        };
        decl = inner;
    }
    Walked::Stuck
}

fn to_step(step: &Qualifier, key: Option<&Value<'_>>) -> Step {
    let of_value = |value: &Value<'_>| match value {
        Value::Int(index) => Step::Index(*index),
        Value::String(text) => Step::Field(text.as_str().to_owned()),
        Value::Null
        | Value::Bool(_)
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
        | Value::Host(_) => Step::Any,
    };
    match &step.kind {
        QualifierKind::Field(name, _) | QualifierKind::Test(name) => Step::Field(name.to_string()),
        QualifierKind::Constant(value) => of_value(value),
        QualifierKind::Computed(_) => key.map_or(Step::Any, of_value),
    }
}

/// What comes out when an optional along the way is empty.
fn nothing<'a>(attribute: &Attribute) -> Value<'a> {
    match attribute.steps.last().map(|step| &step.kind) {
        Some(QualifierKind::Test(_)) => Value::Bool(false),
        Some(
            QualifierKind::Field(..) | QualifierKind::Constant(_) | QualifierKind::Computed(_),
        )
        | None => Value::NONE,
    }
}

fn step_into<'a>(
    value: &Value<'a>,
    step: &Qualifier,
    key: Option<&Value<'a>>,
) -> Result<Found<'a>, Box<Fault>> {
    match (&step.kind, key) {
        (QualifierKind::Field(name, _) | QualifierKind::Test(name), _) => field(value, name),
        (QualifierKind::Constant(key), _) => index(value, key),
        (QualifierKind::Computed(_), Some(key)) => index(value, key),
        (QualifierKind::Computed(_), None) => Err(Fault::failed(Reason::TooDeep)),
    }
}

/// Whether a value has neither fields nor items.
fn is_plain(value: &Value<'_>) -> bool {
    match value {
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)
        | Value::Optional(_) => true,
        Value::List(_) | Value::Map(_) | Value::Opaque(_) | Value::Host(_) => false,
    }
}

fn field<'a>(value: &Value<'a>, name: &str) -> Result<Found<'a>, Box<Fault>> {
    let found = match value {
        Value::Map(map) => map.field(name)?,
        Value::Host(host) => match host.object() {
            Some(map) => map.field(name)?,
            None => host.field(name)?,
        },
        Value::Opaque(opaque) => opaque.field(name),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)
        | Value::List(_)
        | Value::Optional(_) => {
            let message = format!("{name} (type '{}' has no fields)", value.type_of().name());
            return Err(Fault::failed(Reason::NoSuchOverload(message)));
        }
    };
    Ok(match found {
        Some(value) => Found::Value(value),
        None => Found::Absent(
            absent(value, Some(name)),
            Reason::NoSuchKey(name.to_owned()),
        ),
    })
}

fn index<'a>(value: &Value<'a>, key: &Value<'_>) -> Result<Found<'a>, Box<Fault>> {
    match value {
        Value::List(list) => item(list, key),
        Value::Map(map) => {
            let valid = matches!(
                key,
                Value::Bool(_)
                    | Value::Int(_)
                    | Value::Uint(_)
                    | Value::Double(_)
                    | Value::String(_)
            );
            if !valid {
                return Err(Fault::failed(Reason::BadKey(
                    key.type_of().name().to_owned(),
                )));
            }
            Ok(match map.get(key)? {
                Some(value) => Found::Value(value),
                None => Found::Absent(
                    absent(value, key.as_str()),
                    Reason::NoSuchKey(crate::value::key_text(key)),
                ),
            })
        }
        Value::Host(host) => match key.as_str() {
            Some(name) => field(&Value::Host(*host), name),
            None => Err(super::no_overload("_[_]", std::slice::from_ref(value))),
        },
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)
        | Value::Optional(_)
        | Value::Opaque(_) => Err(super::no_overload("_[_]", std::slice::from_ref(value))),
    }
}

fn item<'a>(list: &List<'a>, key: &Value<'_>) -> Result<Found<'a>, Box<Fault>> {
    let at = match key {
        Value::Int(at) => *at,
        Value::Uint(at) => i64::try_from(*at).unwrap_or(i64::MAX),
        #[expect(clippy::cast_possible_truncation, reason = "integral and within 2^53")]
        Value::Double(at) if at.fract() == 0.0 && at.abs() < 9e15 => *at as i64,
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Double(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Optional(_)
        | Value::Opaque(_)
        | Value::Host(_)) => {
            let message = format!(
                "unsupported index type '{}' in list",
                other.type_of().name()
            );
            return Err(Fault::failed(Reason::NoSuchOverload(message)));
        }
    };
    let found = match usize::try_from(at) {
        Ok(at) => list.get(at)?,
        Err(_) => None,
    };
    Ok(match found {
        Some(value) => Found::Value(value),
        None => Found::Absent(list_absent(list, at), Reason::OutOfBounds(at)),
    })
}

/// What it means that a key is not there; nothing stands for a key that is no text.
fn absent(value: &Value<'_>, key: Option<&str>) -> Missing {
    let map = if let Value::Host(host) = value {
        host.object()
    } else {
        value.as_map().cloned()
    };
    let Some(map) = map else {
        return Missing::Fails;
    };
    match (map.decl(), key) {
        (None, _) => Missing::Computed,
        (Some(decl), Some(key)) if decl.can_have(key) => decl.absent().into(),
        (Some(_), _) => Missing::Fails,
    }
}

fn list_absent(list: &List<'_>, at: i64) -> Missing {
    match list {
        _ if at < 0 => Missing::Fails,
        List::Json(_, decl) => decl.absent().into(),
        List::Owned(_) => Missing::Computed,
        List::Host(_) => Missing::Fails,
    }
}
