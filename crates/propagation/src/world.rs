//! What the names of a scope stand for in one pass, ready to be bound.

use std::sync::Arc;

use deltaplane_expr::value::List;
use deltaplane_expr::{Bindings, Env, Timestamp, Value};
use serde_json::Value as Json;

use crate::gate::Expression;
use crate::scope::{Given, Name, Scope, Surroundings};
use crate::seen::{Collection, Seen};

/// Whether a window is open, and when that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub open: bool,
    pub edge: Option<Timestamp>,
}

/// What one pass sees.
#[derive(Debug)]
pub(crate) struct World<'a> {
    pub(crate) items: &'a Collection<'a>,
    pub(crate) others: Vec<(&'a str, Other<'a>)>,
    pub(crate) now: Timestamp,
    /// By the index of their declaration.
    pub(crate) windows: Vec<Window>,
}

#[derive(Debug)]
pub(crate) enum Other<'a> {
    Data(&'a Json),
    Subject(&'a Seen<'a>),
    Subjects(&'a Collection<'a>),
}

/// The subjects among what is given. What is not given as it was declared is left out, as if it
/// had not come yet.
pub(crate) fn subjects<'a>(
    given: &'a Surroundings<'a>,
    scope: &'a Scope,
    now: Timestamp,
) -> Vec<(&'a str, Vec<Seen<'a>>)> {
    let mut all = Vec::new();
    for (name, given) in given {
        let seen = match (scope.names().get(*name), given) {
            (Some(Name::Subject(decl)), Given::Subject(one)) => vec![Seen::new(one, decl, now)],
            (Some(Name::Subjects(decl)), Given::Subjects(list)) => {
                let seen = list.iter().map(|one| Seen::new(one, decl, now));
                seen.collect()
            }
            _ => continue,
        };
        all.push((*name, seen));
    }
    all
}

// === impl World ===

impl<'a> World<'a> {
    /// Everything but the item, bound for an environment that begins with the scope's variables.
    pub(crate) fn bindings(&self, env: &'a Env, scope: &Scope) -> Bindings<'a> {
        let mut bindings = Bindings::new(env);
        let names = scope.names().keys().filter(|name| scope.is_items(name));
        for slot in names.filter_map(|name| env.slot(name)) {
            bindings.set(slot, Value::List(List::Host(self.items)));
        }
        for (name, other) in &self.others {
            let Some(slot) = env.slot(name) else {
                continue;
            };
            match other {
                Other::Subject(seen) => bindings.set(slot, Value::Host(*seen)),
                Other::Subjects(list) => bindings.set(slot, Value::List(List::Host(*list))),
                Other::Data(json) => {
                    if let Err(fault) = bindings.set_json(env, slot, json) {
                        bindings.set_fault(slot, Arc::new(*fault));
                    }
                }
            }
        }
        bindings
    }

    /// The same for the environment of an expression, or one that begins with it: also the time
    /// and the windows are bound.
    pub(crate) fn bindings_for(
        &self,
        expression: &Expression,
        env: &'a Env,
        scope: &Scope,
    ) -> Bindings<'a> {
        let mut bindings = self.bindings(env, scope);
        bindings.set(expression.now, Value::Timestamp(self.now));
        for (slot, window) in expression.windows.iter().zip(&self.windows) {
            bindings.set(*slot, Value::Bool(window.open));
        }
        bindings
    }

    /// The items of a collection, by its name.
    pub(crate) fn collection(&self, name: &str, scope: &Scope) -> &'a [Seen<'a>] {
        if scope.is_items(name) {
            return self.items.seen;
        }
        let mut others = self.others.iter();
        match others.find(|(other, _)| *other == name) {
            Some((_, Other::Subjects(list))) => list.seen,
            Some((_, Other::Data(_) | Other::Subject(_))) | None => &[],
        }
    }
}
