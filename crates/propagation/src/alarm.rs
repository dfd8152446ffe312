//! When time alone may change an answer.

use deltaplane_expr::syntax::Binary;
use deltaplane_expr::{Bindings, CalendarUnit, Duration, Program, Timestamp, Value};

use crate::board::earlier;
use crate::functions::{period, since};
use crate::gate::{Clock, Expression, Moment, Side, Where};
use crate::scope::Scope;
use crate::work::Work;
use crate::world::World;

/// Reads clocks of one expression.
pub(crate) struct Reader<'r, 'a> {
    pub(crate) expression: &'a Expression,
    pub(crate) bindings: &'r Bindings<'a>,
    pub(crate) world: &'a World<'a>,
    pub(crate) scope: &'a Scope,
    pub(crate) work: &'r mut Work,
}

const SECOND: i128 = 1_000_000_000;
/// Where nobody knows better.
const MINUTE: i64 = 60_000_000_000;

// === impl Reader ===

impl<'a> Reader<'_, 'a> {
    /// For the item that is bound.
    pub(crate) fn for_item(&mut self, clock: &'a Clock) -> Option<Timestamp> {
        match clock.place {
            Where::Item => self.next(&clock.moment, None),
            Where::Once | Where::Each { .. } => None,
        }
    }

    /// For all items alike.
    pub(crate) fn for_all(&mut self, clock: &'a Clock) -> Option<Timestamp> {
        match &clock.place {
            Where::Item => None,
            Where::Once => self.next(&clock.moment, None),
            Where::Each {
                collection,
                env,
                element,
            } => {
                let world = self.world;
                let mut bindings = world.bindings_for(self.expression, env, self.scope);
                let mut next = None;
                for seen in self.world.collection(collection, self.scope) {
                    bindings.set(*element, Value::Host(seen));
                    next = earlier(next, self.next(&clock.moment, Some(&bindings)));
                }
                next
            }
        }
    }

    fn next(&mut self, moment: &'a Moment, bindings: Option<&Bindings<'a>>) -> Option<Timestamp> {
        let now = self.world.now;
        match moment {
            Moment::ReadyFor { subject, period } => self.ready_for(subject, period, bindings),
            Moment::Compare { operator, sides } => self.compare(*operator, sides, bindings),
            Moment::Turn { unit, zone, of } => self.turn(*unit, zone.as_ref(), of, bindings),
            Moment::Window(index) => {
                let edge = self
                    .world
                    .windows
                    .get(*index)
                    .and_then(|window| window.edge);
                edge.filter(|edge| *edge > now)
            }
            Moment::Unknown => unknown(now),
        }
    }

    /// What a part comes to; what does not come to anything does not by time alone, either.
    fn value(
        &mut self,
        program: &'a Program,
        bindings: Option<&Bindings<'a>>,
    ) -> Option<Value<'a>> {
        let bindings = bindings.unwrap_or(self.bindings);
        self.work.eval(program, bindings).ok()
    }

    fn ready_for(
        &mut self,
        subject: &'a Program,
        length: &'a Program,
        bindings: Option<&Bindings<'a>>,
    ) -> Option<Timestamp> {
        let Value::Host(host) = self.value(subject, bindings)? else {
            return None;
        };
        let since = since(host).ok()??;
        let length = period(&self.value(length, bindings)?)?;
        since.plus(length).filter(|end| *end > self.world.now)
    }

    fn compare(
        &mut self,
        operator: Binary,
        [left, right]: &'a [Side; 2],
        bindings: Option<&Bindings<'a>>,
    ) -> Option<Timestamp> {
        let times = i32::from(left.now) - i32::from(right.now);
        let rest = self.rest(left, bindings)? - self.rest(right, bindings)?;
        match times {
            0 => None,
            1 => passing(operator, -rest, self.world.now),
            -1 => passing(mirrored(operator), rest, self.world.now),
            _ => unknown(self.world.now),
        }
    }

    fn turn(
        &mut self,
        unit: CalendarUnit,
        zone: Option<&'a Program>,
        of: &'a Side,
        bindings: Option<&Bindings<'a>>,
    ) -> Option<Timestamp> {
        let zone = match zone {
            Some(zone) => Some(self.value(zone, bindings)?.as_str()?.to_owned()),
            None => None,
        };
        let ahead = self.rest(of, bindings)?;
        let shown = timestamp(nanos(self.world.now) + ahead)?;
        let turn = shown.next_turn(unit, zone.as_deref())?;
        timestamp(nanos(turn) - ahead)
    }

    /// What stands beside the time, in nanoseconds.
    fn rest(&mut self, side: &'a Side, bindings: Option<&Bindings<'a>>) -> Option<i128> {
        let mut sum = 0;
        for (sign, program) in &side.rest {
            let value = self.value(program, bindings)?;
            let value = if let Value::Timestamp(time) = value {
                nanos(time)
            } else if let Value::Duration(duration) = value {
                i128::from(duration.nanos())
            } else {
                return None;
            };
            sum += i128::from(*sign) * value;
        }
        Some(sum)
    }
}

/// When to look again if nobody knows when something changes.
pub(crate) fn unknown(now: Timestamp) -> Option<Timestamp> {
    now.plus(Duration::from_nanos(MINUTE))
}

/// When `now operator point` changes next.
fn passing(operator: Binary, point: i128, now: Timestamp) -> Option<Timestamp> {
    let moments = match operator {
        Binary::Less | Binary::GreaterEquals => [point, point],
        Binary::LessEquals | Binary::Greater => [point + 1, point + 1],
        Binary::Equals | Binary::NotEquals => [point, point + 1],
        Binary::Add
        | Binary::Subtract
        | Binary::Multiply
        | Binary::Divide
        | Binary::Modulo
        | Binary::In => return None,
    };
    let now = nanos(now);
    let next = moments.into_iter().find(|moment| *moment > now)?;
    timestamp(next)
}

/// The operator with its sides exchanged.
fn mirrored(operator: Binary) -> Binary {
    match operator {
        Binary::Less => Binary::Greater,
        Binary::LessEquals => Binary::GreaterEquals,
        Binary::Greater => Binary::Less,
        Binary::GreaterEquals => Binary::LessEquals,
        Binary::Add
        | Binary::Subtract
        | Binary::Multiply
        | Binary::Divide
        | Binary::Modulo
        | Binary::Equals
        | Binary::NotEquals
        | Binary::In => operator,
    }
}

fn nanos(time: Timestamp) -> i128 {
    i128::from(time.seconds()) * SECOND + i128::from(time.nanos())
}

fn timestamp(nanos: i128) -> Option<Timestamp> {
    let seconds = i64::try_from(nanos.div_euclid(SECOND)).ok()?;
    Timestamp::new(seconds, u32::try_from(nanos.rem_euclid(SECOND)).ok()?)
}
