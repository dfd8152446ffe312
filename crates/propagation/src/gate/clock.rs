//! Where an expression depends on the time, and how to find out when that changes something.
//!
//! A comparison in which the time stands once, beside what does not depend on it, is solved;
//! `readyFor` is, too. What a clock or a calendar shows changes when its unit turns. For the rest
//! a minute has to do.

use std::sync::Arc;

use deltaplane_expr::check::{Checked, check};
use deltaplane_expr::syntax::{Ast, Binary, Node, NodeId};
use deltaplane_expr::{CalendarUnit, Env, Problems, Program, Slot, Type};

use super::counter::with_element;
use super::expression::part;
use super::names::{Locals, Names, Place, walk};
use crate::functions::READY_FOR;
use crate::scope::{NOW, Scope};

/// Something in an expression that the time changes.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) moment: Moment,
    pub(crate) place: Where,
}

/// When that is.
#[derive(Debug)]
pub(crate) enum Moment {
    /// When the subject has been ready for so long.
    ReadyFor { subject: Program, period: Program },
    /// When the time passes the point at which both sides are equal.
    Compare { operator: Binary, sides: [Side; 2] },
    /// When the unit turns, for the time and what is added to it.
    Turn {
        unit: CalendarUnit,
        zone: Option<Program>,
        of: Side,
    },
    /// The window at this index.
    Window(usize),
    /// Nobody knows.
    Unknown,
}

/// Whose data it depends on.
#[derive(Debug)]
pub(crate) enum Where {
    /// The item's.
    Item,
    /// Nobody's in particular.
    Once,
    /// Each item's of a collection, as a loop over it sees it.
    Each {
        collection: Arc<str>,
        env: Box<Env>,
        element: Slot,
    },
}

/// A sum: the time, so many times, and what does not depend on it.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) now: i8,
    /// What is added, or taken away.
    pub(crate) rest: Vec<(i8, Program)>,
}

/// A [`Side`] in the tree.
struct Sum {
    now: i8,
    rest: Vec<(i8, NodeId)>,
}

/// Sums are not looked through more deeply.
const MAX_TERMS: usize = 32;

/// Everything in a tree that the time changes.
pub(super) fn clocks(ast: &Ast, env: &Env, scope: &Scope) -> Result<Vec<Clock>, Problems> {
    let finder = Finder {
        ast,
        env,
        scope,
        names: Names::of(ast),
        checked: check(ast, env)?,
        timed: timed(ast),
    };
    let mut found: Vec<Clock> = Vec::new();
    let mut broken = None;
    walk(ast, |locals, place| {
        match finder.at(locals, place) {
            Ok(Some(clock)) => {
                // Where nobody knows, what is below may know more.
                let known = !matches!(clock.moment, Moment::Unknown);
                found.push(clock);
                return !known;
            }
            Ok(None) => {}
            Err(problems) => broken = Some(problems),
        }
        true
    });
    match broken {
        Some(problems) => Err(problems),
        None => Ok(found),
    }
}

struct Finder<'a> {
    ast: &'a Ast,
    env: &'a Env,
    scope: &'a Scope,
    names: Names,
    checked: Checked,
    timed: Vec<bool>,
}

/// Which parts of a tree the time changes, in whatever way.
fn timed(ast: &Ast) -> Vec<bool> {
    let mut timed: Vec<bool> = Vec::with_capacity(ast.len());
    for id in ast.ids() {
        let node = ast.node(id);
        let own = matches!(node, Node::Ident(name) if named(name).is_some())
            || matches!(node, Node::Call { function, .. } if &**function == READY_FOR);
        let below = node.children();
        let below = below.iter().any(|child| timed[child.index()]);
        timed.push(own || below);
    }
    timed
}

// === impl Finder ===

impl Finder<'_> {
    /// What the time changes at a place itself.
    fn at(&self, locals: &Locals, place: Place) -> Result<Option<Clock>, Problems> {
        let node = self.ast.node(place.id);
        if let Node::Ident(name) = node {
            return Ok(named(name));
        }
        if let Node::Call {
            function,
            target: None,
            args,
        } = node
            && &**function == READY_FOR
        {
            return match &args[..] {
                [subject, period] if !self.is_timed(*subject) && !self.is_timed(*period) => {
                    self.ready_for(locals, place, [*subject, *period])
                }
                _ => Ok(Some(UNKNOWN)),
            };
        }
        if let Node::Binary(operator, left, right) = node
            && is_comparison(*operator)
            && self.is_timed(place.id)
            && (self.is_time(*left) || self.is_time(*right))
            && let (Some(left), Some(right)) = (self.sum(*left, 0), self.sum(*right, 0))
        {
            return self.compare(locals, place, *operator, [left, right]);
        }
        if let Node::Call {
            function,
            target: Some(target),
            args,
        } = node
            && self.is_timed(*target)
            && self.is(*target, &Type::Timestamp)
            && let (Some(unit), Some(sum)) = (unit(function), self.sum(*target, 0))
            && sum.now == 1
        {
            return self.turn(locals, place, (unit, sum, args.first().copied()));
        }
        // What is below tells.
        Ok(None)
    }

    fn ready_for(
        &self,
        locals: &Locals,
        place: Place,
        [subject, period]: [NodeId; 2],
    ) -> Result<Option<Clock>, Problems> {
        let Some((whose, env)) = self.place(locals, place) else {
            return Ok(Some(UNKNOWN));
        };
        let moment = Moment::ReadyFor {
            subject: part(self.ast, subject, &env)?,
            period: part(self.ast, period, &env)?,
        };
        Ok(Some(Clock {
            moment,
            place: whose,
        }))
    }

    fn compare(
        &self,
        locals: &Locals,
        place: Place,
        operator: Binary,
        [left, right]: [Sum; 2],
    ) -> Result<Option<Clock>, Problems> {
        let Some((whose, env)) = self.place(locals, place) else {
            return Ok(Some(UNKNOWN));
        };
        let sides = [self.side(left, &env)?, self.side(right, &env)?];
        Ok(Some(Clock {
            moment: Moment::Compare { operator, sides },
            place: whose,
        }))
    }

    fn turn(
        &self,
        locals: &Locals,
        place: Place,
        (unit, sum, zone): (CalendarUnit, Sum, Option<NodeId>),
    ) -> Result<Option<Clock>, Problems> {
        let Some((whose, env)) = self.place(locals, place) else {
            return Ok(Some(UNKNOWN));
        };
        let zone = zone.map(|zone| part(self.ast, zone, &env)).transpose()?;
        let of = self.side(sum, &env)?;
        Ok(Some(Clock {
            moment: Moment::Turn { unit, zone, of },
            place: whose,
        }))
    }

    fn side(&self, sum: Sum, env: &Env) -> Result<Side, Problems> {
        let rest = sum.rest.into_iter();
        let rest = rest.map(|(sign, id)| Ok((sign, part(self.ast, id, env)?)));
        Ok(Side {
            now: sum.now,
            rest: rest.collect::<Result<_, Problems>>()?,
        })
    }

    /// The terms of a sum; nothing when the time is in it in another way.
    fn sum(&self, id: NodeId, depth: usize) -> Option<Sum> {
        if !self.is_timed(id) {
            let rest = vec![(1, id)];
            return Some(Sum { now: 0, rest });
        }
        if depth > MAX_TERMS {
            return None;
        }
        let node = self.ast.node(id);
        if let Node::Ident(name) = node
            && &**name == NOW
        {
            let rest = Vec::new();
            return Some(Sum { now: 1, rest });
        }
        let Node::Binary(operator @ (Binary::Add | Binary::Subtract), left, right) = node else {
            return None;
        };
        let mut left = self.sum(*left, depth + 1)?;
        let right = self.sum(*right, depth + 1)?;
        let sign = if *operator == Binary::Add { 1 } else { -1 };
        left.now = left.now.checked_add(sign * right.now)?;
        let rest = right.rest.into_iter();
        left.rest.extend(rest.map(|(of, id)| (sign * of, id)));
        Some(left)
    }

    /// Whose data a part depends on, and the variables that it sees. Nothing for loops that are
    /// not over a collection alone.
    fn place(&self, locals: &Locals, place: Place) -> Option<(Where, Env)> {
        let used = self.names.at(place.id);
        let of_item = used.iter().any(|name| {
            // One of a macro's may have the same name.
            self.scope.is_item(name) && !locals.brings(place, name)
        });
        if !locals.bring_any(place, used) {
            let whose = if of_item { Where::Item } else { Where::Once };
            return Some((whose, self.env.clone()));
        }
        let (variable, collection) = locals.element(place, used)?;
        let decl = self.scope.element(collection).filter(|_| !of_item)?;
        let env = with_element(self.env, variable, decl);
        let whose = Where::Each {
            collection: collection.clone(),
            element: env.slot(variable)?,
            env: Box::new(env.clone()),
        };
        Some((whose, env))
    }

    fn is_timed(&self, id: NodeId) -> bool {
        self.timed[id.index()]
    }

    fn is(&self, id: NodeId, ty: &Type) -> bool {
        self.checked.ty(id) == ty
    }

    fn is_time(&self, id: NodeId) -> bool {
        self.is(id, &Type::Timestamp) || self.is(id, &Type::Duration)
    }
}

const UNKNOWN: Clock = Clock {
    moment: Moment::Unknown,
    place: Where::Once,
};

/// What the time changes about a variable.
fn named(name: &str) -> Option<Clock> {
    if name == NOW {
        return Some(UNKNOWN);
    }
    let index = name.strip_prefix("@window")?.parse().ok()?;
    Some(Clock {
        moment: Moment::Window(index),
        place: Where::Once,
    })
}

fn is_comparison(operator: Binary) -> bool {
    match operator {
        Binary::Less
        | Binary::LessEquals
        | Binary::Greater
        | Binary::GreaterEquals
        | Binary::Equals
        | Binary::NotEquals => true,
        Binary::Add
        | Binary::Subtract
        | Binary::Multiply
        | Binary::Divide
        | Binary::Modulo
        | Binary::In => false,
    }
}

/// The unit that a function shows.
fn unit(function: &str) -> Option<CalendarUnit> {
    Some(match function {
        "getFullYear" => CalendarUnit::Year,
        "getMonth" => CalendarUnit::Month,
        "getDayOfYear" | "getDayOfMonth" | "getDate" | "getDayOfWeek" => CalendarUnit::Day,
        "getHours" => CalendarUnit::Hour,
        "getMinutes" => CalendarUnit::Minute,
        "getSeconds" => CalendarUnit::Second,
        "getMilliseconds" => CalendarUnit::Millisecond,
        _ => return None,
    })
}
