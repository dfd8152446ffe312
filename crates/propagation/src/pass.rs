//! One pass over a collection: who may be admitted now, who may not and why, and when to look
//! again.

use deltaplane_expr::Timestamp;

use crate::board::{Board, earlier};
use crate::gate::Gate;
use crate::order::{Order, Unordered, ordered};
use crate::scope::Surroundings;
use crate::seen::{Collection, Seen};
use crate::subject::Subject;
use crate::verdict::Verdict;
use crate::work::{Limits, Work};
use crate::world::{Other, Window, World, subjects};

/// So many items are fetched together: what each waits for is not found by looking at another, so
/// that the processor waits for all of them at once.
const AHEAD: usize = 16;

/// On which terms items are admitted. The same items on the same terms have the same answer.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    pub gate: &'a Gate,
    /// By what items are ordered first; without it they are as [`pass`] says.
    pub order: Option<&'a Order>,
    pub given: &'a Surroundings<'a>,
    /// The same for the whole pass.
    pub now: Timestamp,
    /// How a declared window is at a time.
    pub windows: &'a dyn Fn(&str, Timestamp) -> Window,
    pub limits: Limits,
}

/// What a pass came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Indices of the subjects that are admitted, in this order.
    pub admitted: Vec<usize>,
    /// The other candidates, in the order in which they were asked.
    pub blocked: Vec<Blocked>,
    /// When time alone may change this.
    pub next: Option<Timestamp>,
    /// Candidates whose place in the order is not known: they came last.
    pub unordered: Vec<Unordered>,
}

/// A candidate that is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub index: usize,
    pub verdict: Verdict,
}

/// Asks the gate of every candidate of a collection (a node is one of one item), one after the other, each seeing what was decided before it.
///
/// They are asked in the order that [`Order`] gives; among equals, and where it gives none, what
/// is on its way to something older comes first, then what failed on such a way, then what is
/// ready, then what is not, of each the oldest, then by namespace and name. Each is asked once: what a later admission would have
/// opened opens in the next pass. What cannot be evaluated keeps back the item that it was
/// evaluated for, and no other.
pub fn pass<'a>(items: &'a [Subject<'a>], terms: Terms<'a>) -> Answer {
    let Terms { gate, now, .. } = terms;
    let item = gate.scope.item();
    let seen = items.iter();
    let seen: Vec<Seen<'_>> = seen.map(|one| Seen::new(one, item, now)).collect();
    let items = Collection::new(&seen);
    let others = subjects(terms.given, &gate.scope, now);
    let lists: Vec<Collection<'_>> = others
        .iter()
        .map(|(_, seen)| Collection::new(seen))
        .collect();
    let world = World {
        items: &items,
        others: gathered(&terms, &others, &lists),
        now,
        windows: gate
            .scope
            .declared_windows()
            .iter()
            .map(|name| (terms.windows)(name, now))
            .collect(),
    };
    let order = terms
        .order
        .map(|order| (order, world.bindings(order.env(), &gate.scope)));
    let mut work = Work::new(terms.limits);
    // Whatever the order takes, gates can be asked.
    let (candidates, unordered) = work.with_half(|half| ordered(&seen, order, half));
    let board = Board::new(gate, &world, work);
    Answer {
        unordered,
        ..decide(board, &candidates, terms.limits)
    }
}

/// What is given, by name.
fn gathered<'a>(
    terms: &Terms<'a>,
    seen: &'a [(&'a str, Vec<Seen<'a>>)],
    lists: &'a [Collection<'a>],
) -> Vec<(&'a str, Other<'a>)> {
    use crate::scope::{Given, Name};
    let declared = |name: &str| terms.gate.scope.names().get(name);
    let mut others = Vec::new();
    for (name, given) in terms.given {
        if let (Given::Data(json), Some(Name::Data(_))) = (given, declared(name)) {
            others.push((*name, Other::Data(json)));
        }
    }
    for ((name, seen), list) in seen.iter().zip(lists) {
        let other = match (declared(name), seen.first()) {
            (Some(Name::Subject(_)), Some(one)) => Other::Subject(one),
            _ => Other::Subjects(list),
        };
        others.push((*name, other));
    }
    others
}

fn decide(mut board: Board<'_>, candidates: &[usize], limits: Limits) -> Answer {
    let valued = limits.valued.min(limits.explained);
    let mut answer = Answer {
        admitted: Vec::new(),
        blocked: Vec::new(),
        next: None,
        unordered: Vec::new(),
    };
    for (at, &index) in candidates.iter().enumerate() {
        if at.is_multiple_of(AHEAD) {
            board.fetch(candidates[at..].iter().take(AHEAD));
        }
        let mut verdict = board.judge(index);
        let expression = match &mut verdict {
            Verdict::Open => {
                board.admit(index);
                answer.admitted.push(index);
                continue;
            }
            Verdict::Closed { expression, values } => {
                if answer.blocked.len() < valued {
                    *values = board.explain(expression.index);
                }
                expression.index
            }
            Verdict::Waiting { expression, .. }
            | Verdict::Error { expression, .. }
            | Verdict::Limit { expression } => expression.index,
        };
        answer.next = earlier(answer.next, board.item_alarm(expression));
        answer.blocked.push(Blocked { index, verdict });
    }
    answer.next = earlier(answer.next, board.common_alarm());
    answer
}

#[cfg(test)]
mod tests;
