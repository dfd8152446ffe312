//! Objects before their rules.

use std::ops::ControlFlow::{self, Break, Continue};

use deltaplane_api::field::{Error, ErrorKind, Path, shown};
use deltaplane_schema::{Keyed, Node, ValidationRule};
use serde_json::{Map, Value as Json};

use super::compile::{Compiled, Message, Scope};
use super::correlation::{Pair, Past};
use super::{BUDGET, CALL_LIMIT, Level, MAX_ERRORS, MAX_WARNINGS, Rule, Rules, STEPS, Verdict};
use crate::eval::{Bindings, Eval};
use crate::fault::{Failure, Reason, Stopped};
use crate::meter::{Budget, Meter};
use crate::program::Program;
use crate::value::Value;

const MAX_MESSAGE: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What judging may still cost, and how much work it may still be.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    cost: u64,
    steps: u64,
}

impl Limits {
    /// What is left in either case.
    pub(super) fn min(self, other: Self) -> Self {
        Self {
            cost: self.cost.min(other.cost),
            steps: self.steps.min(other.steps),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cost: BUDGET,
            steps: STEPS,
        }
    }
}

/// Judges one object.
pub(super) struct Judge {
    left: Limits,
    /// Keeps patterns that were compiled, from one value to the next.
    meter: Meter,
    verdict: Verdict,
}

/// The way to a value; written out only when something is wrong there.
enum Trail<'t> {
    Start(&'t Path),
    Field(&'t Trail<'t>, &'t str),
    Key(&'t Trail<'t>, &'t str),
    Index(&'t Trail<'t>, usize),
}

/// A value on the way through an object.
#[derive(Clone, Copy)]
struct Place<'t, 'a> {
    trail: &'t Trail<'t>,
    value: &'a Json,
    old: Option<&'a Json>,
    past: Past<'t, 'a>,
}

/// Why a message could not be computed.
enum NoMessage {
    /// The rule's own message is used instead.
    Unusable,
    /// Nothing more is evaluated.
    Over(String),
}

// === impl Rules ===

impl Rules {
    /// Judges an object that replaces `old`, if there was one.
    pub fn judge(&self, object: &Json, old: Option<&Json>) -> Verdict {
        let mut judge = Judge::new(Limits::default());
        let pair = old.map(|old| Pair::new(object, old, self.root.schema.root()));
        judge.object(self, &Path::root(), object, old, Past::of(pair.as_ref()));
        judge.verdict
    }
}

// === impl Judge ===

impl Judge {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            left: limits,
            meter: Meter::new(Budget::default()),
            verdict: Verdict::default(),
        }
    }

    /// Judges a value at `path`.
    pub(super) fn object<'a>(
        &mut self,
        rules: &'a Rules,
        path: &Path,
        value: &'a Json,
        old: Option<&'a Json>,
        past: Past<'_, 'a>,
    ) {
        let place = Place {
            trail: &Trail::Start(path),
            value,
            old,
            past,
        };
        // Whether it came to the end or was cut short, the verdict stands.
        let _ = self.level(&rules.root, place);
    }

    pub(super) fn finish(self) -> (Verdict, Limits) {
        (self.verdict, self.left)
    }

    fn level<'a>(&mut self, level: &'a Level, place: Place<'_, 'a>) -> ControlFlow<()> {
        // Whether a value may be null is for the rules around it to say.
        if place.value.is_null() {
            return Continue(());
        }
        self.rules(level, place)?;
        match place.value {
            Json::Array(list) => self.items(level, place, list),
            Json::Object(map) => self.fields(level, place, map),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Continue(()),
        }
    }

    fn items<'a>(
        &mut self,
        level: &'a Level,
        place: Place<'_, 'a>,
        list: &'a [Json],
    ) -> ControlFlow<()> {
        let Some(items) = &level.items else {
            return Continue(());
        };
        let node: Node<'a> = level.schema.root();
        let old = place.old.and_then(Json::as_array);
        let old = old.and_then(|old| Keyed::new(node, old));
        for (index, value) in list.iter().enumerate() {
            let old = old.as_ref().and_then(|old| old.get(value));
            let own = place.past.own();
            let pair = old.and_then(|old| own?.item(value, old));
            let place = Place {
                trail: &Trail::Index(place.trail, index),
                value,
                old,
                past: place.past.below(pair.as_ref()),
            };
            self.level(items, place)?;
        }
        Continue(())
    }

    fn fields<'a>(
        &mut self,
        level: &'a Level,
        place: Place<'_, 'a>,
        map: &'a Map<String, Json>,
    ) -> ControlFlow<()> {
        if let Some(values) = &level.values {
            for (name, value) in map {
                self.field(values, place, name, value, Trail::Key(place.trail, name))?;
            }
        }
        for (name, rules) in &level.properties {
            if let Some(value) = map.get(&**name) {
                self.field(rules, place, name, value, Trail::Field(place.trail, name))?;
            }
        }
        Continue(())
    }

    fn field<'a>(
        &mut self,
        rules: &'a Level,
        around: Place<'_, 'a>,
        name: &str,
        value: &'a Json,
        trail: Trail<'_>,
    ) -> ControlFlow<()> {
        let pair = around.past.own().and_then(|own| own.field(name));
        // Of an object's kind and version only one form is ever seen: they have no past.
        let hidden = around.past.is_root() && matches!(name, "apiVersion" | "kind");
        let past = match hidden {
            true => Past::default(),
            false => around.past.below(pair.as_ref()),
        };
        let place = Place {
            trail: &trail,
            value,
            old: around.old.and_then(|old| old.get(name)),
            past,
        };
        self.level(rules, place)
    }

    /// The rules of one value.
    fn rules<'a>(&mut self, level: &'a Level, place: Place<'_, 'a>) -> ControlFlow<()> {
        let Some(scope) = &level.scope else {
            return Continue(());
        };
        if level.rules.is_empty() {
            return Continue(());
        }
        if self.left.cost == 0 {
            return self.give_up(level, place, OUT_OF_BUDGET.to_owned());
        }
        let value = Value::declared(place.value, scope.decl());
        let old = place.old.filter(|old| !old.is_null());
        let old = old
            .map(|old| Value::declared(old, scope.decl()))
            .transpose();
        let (value, old) = match (value, old) {
            (Ok(value), Ok(old)) => (value, old),
            (Err(fault), _) | (_, Err(fault)) => {
                return self.refuse(level, place, fault.to_string());
            }
        };
        for rule in &level.rules {
            match &rule.compiled {
                Ok(compiled) => self.rule(level, place, (rule, compiled), &value, old.as_ref())?,
                Err(why) => self.refuse(level, place, format!("rule compile error: {why}"))?,
            }
        }
        Continue(())
    }

    fn rule<'a>(
        &mut self,
        level: &Level,
        place: Place<'_, 'a>,
        (rule, compiled): (&Rule, &'a Compiled),
        value: &Value<'a>,
        old: Option<&Value<'a>>,
    ) -> ControlFlow<()> {
        if compiled.uses_old_self && old.is_none() && !compiled.optional_old_self {
            return Continue(());
        }
        let env = compiled.program.env();
        let mut bindings = Bindings::new(env);
        let [this, before] = Scope::SLOTS;
        bindings.set(this, value.clone());
        match (compiled.optional_old_self, old) {
            (false, None) => {}
            (false, Some(old)) => bindings.set(before, old.clone()),
            (true, None) => bindings.set(before, Value::NONE),
            (true, Some(old)) => match Value::some(old.clone()) {
                Ok(old) => bindings.set(before, old),
                Err(fault) => return self.refuse(level, place, fault.to_string()),
            },
        }
        let Some(outcome) = self.eval(&compiled.program, &bindings) else {
            return self.give_up(level, place, OUT_OF_BUDGET.to_owned());
        };
        let text = spoken(&rule.written);
        let why = match outcome {
            Eval::Value(Value::Bool(true)) => return Continue(()),
            Eval::Value(_) => return self.failed(level, place, (rule, compiled), &bindings),
            Eval::Stopped(stopped) => {
                let limit = match stopped {
                    Stopped::Cost => "call cost exceeds limit".to_owned(),
                    Stopped::Steps => format!("more work than {STEPS} steps for an object"),
                };
                let why = format!(
                    "'{stopped}': no further validation rules will be run due to {limit} for rule: {text}"
                );
                return self.give_up(level, place, why);
            }
            Eval::Failed(failure) => {
                let Failure { reason, .. } = *failure;
                match matches!(reason, Reason::NoSuchOverload(_)) {
                    true => format!(
                        "'{reason}': call arguments did not match a supported operator, function or macro signature for rule: {text}"
                    ),
                    false => format!("{reason} evaluating rule: {text}"),
                }
            }
            Eval::Waiting(path) => format!("no such key: {path} evaluating rule: {text}"),
        };
        self.refuse(level, place, why)
    }

    /// Evaluates within what is left; nothing when the budget is used up by it.
    fn eval<'a>(&mut self, program: &'a Program, bindings: &Bindings<'a>) -> Option<Eval<'a>> {
        self.meter.restart(Budget {
            cost: CALL_LIMIT,
            steps: Budget::default().steps.min(self.left.steps),
        });
        let outcome = program.eval_metered(bindings, &mut self.meter);
        let left = &mut self.left;
        left.steps = left.steps.saturating_sub(self.meter.steps());
        left.cost = left.cost.checked_sub(self.meter.cost())?;
        Some(outcome)
    }

    /// A rule does not hold.
    fn failed<'a>(
        &mut self,
        level: &Level,
        place: Place<'_, 'a>,
        (rule, compiled): (&Rule, &'a Compiled),
        bindings: &Bindings<'a>,
    ) -> ControlFlow<()> {
        let mut path = place.trail.path();
        if let Some(below) = &compiled.field_path {
            path = path.child(below);
        }
        let ratcheted = !compiled.uses_old_self && place.past.unchanged();
        let message = match &compiled.message {
            Some(Ok(message)) => self.message(&rule.written, message, bindings),
            Some(Err(_)) | None => Err(NoMessage::Unusable),
        };
        let detail = match message {
            Ok(text) => text,
            Err(NoMessage::Unusable) => stated(&rule.written),
            Err(NoMessage::Over(why)) => {
                let error = Error::invalid(path, level.type_name, why);
                let _ = self.report(error, ratcheted);
                return Break(());
            }
        };
        let shown = match level.type_name {
            "object" | "array" => None,
            _ => Some(shown(place.value.clone())),
        };
        self.report(error(&rule.written, path, shown, detail), ratcheted)
    }

    /// Goes on until there is enough to read.
    fn report(&mut self, error: Error, ratcheted: bool) -> ControlFlow<()> {
        let Verdict { errors, warnings } = &mut self.verdict;
        match ratcheted {
            true if warnings.len() < MAX_WARNINGS => warnings.push(error.to_string()),
            true => {}
            false => errors.push(error),
        }
        match errors.len() < MAX_ERRORS {
            true => Continue(()),
            false => Break(()),
        }
    }

    /// The message that a rule computes.
    fn message<'a>(
        &mut self,
        rule: &ValidationRule,
        message: &'a Message,
        bindings: &Bindings<'a>,
    ) -> Result<String, NoMessage> {
        let over = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
        let outcome = self.eval(&message.program, bindings);
        let outcome = outcome.ok_or_else(|| NoMessage::Over(over.to_owned()))?;
        let text = match &outcome {
            Eval::Value(value) => value.as_str().unwrap_or_default().trim(),
            Eval::Stopped(Stopped::Cost | Stopped::Steps) => {
                return Err(NoMessage::Over(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {:?}",
                    rule.message_expression
                )));
            }
            Eval::Waiting(_) | Eval::Failed(_) => "",
        };
        match text.is_empty() || text.len() > MAX_MESSAGE || text.contains('\n') {
            true => Err(NoMessage::Unusable),
            false => Ok(text.to_owned()),
        }
    }

    fn refuse(&mut self, level: &Level, place: Place<'_, '_>, why: String) -> ControlFlow<()> {
        let error = Error::invalid(place.trail.path(), level.type_name, why);
        self.report(error, false)
    }

    fn give_up(&mut self, level: &Level, place: Place<'_, '_>, why: String) -> ControlFlow<()> {
        self.left.cost = 0;
        let _ = self.refuse(level, place, why);
        Break(())
    }
}

/// The error of a rule that does not hold, in the kind that its author chose.
fn error(rule: &ValidationRule, path: Path, value: Option<Json>, detail: String) -> Error {
    let (kind, value, detail) = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => (ErrorKind::Forbidden, None, detail),
        Some("FieldValueRequired") => (ErrorKind::Required, None, detail),
        Some("FieldValueDuplicate") => (ErrorKind::Duplicate, value, String::new()),
        Some(_) | None => (ErrorKind::Invalid, value, detail),
    };
    Error {
        kind,
        path,
        value,
        detail,
    }
}

/// What a rule that does not hold says.
fn stated(rule: &ValidationRule) -> String {
    match rule.message.is_empty() {
        true => match spoken(rule) {
            long if long.len() > MAX_MESSAGE => "failed rule, which is too long to show".to_owned(),
            rule => format!("failed rule: {rule}"),
        },
        false => rule.message.trim().to_owned(),
    }
}

/// How errors speak of a rule.
fn spoken(rule: &ValidationRule) -> &str {
    match rule.message.is_empty() {
        true => rule.rule.trim(),
        false => rule.message.trim(),
    }
}

// === impl Trail ===

impl Trail<'_> {
    fn path(&self) -> Path {
        match self {
            Self::Start(path) => (*path).clone(),
            Self::Field(above, name) => above.path().child(name),
            Self::Key(above, name) => above.path().key(name),
            Self::Index(above, index) => above.path().index(*index),
        }
    }
}
