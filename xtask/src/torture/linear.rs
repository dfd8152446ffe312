//! Whether one object's history is linearizable: whether all operations could have happened one
//! after the other, each at a moment between its beginning and its end.
//!
//! The search is Wing and Gong's, on a list of beginnings and ends as Lowe's, and remembers where
//! it has been: a set of operations and a state lead to the same end however they were reached.
//!
//! - An operation whose answer is unknown may have happened at any later moment, or never. If
//!   somebody read what it wrote, then it did happen, at that revision.
//! - Writes take effect in the order of their revisions, which the answers tell. This leaves
//!   little to search, and is a demand besides: an order that revisions contradict is none.
//! - An operation that changes nothing, such as a read, is put in order as soon as it fits.
//! - Operations whose answers are unknown are many after each kill, and most have the same effect.
//!   Of those, one is tried at each point: the one that is of least use later. And among ways to
//!   the same place, one that used fewer of them is at least as good.

mod bits;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::{HashMap, HashSet};

use super::history::{Answer, Call, Op, OpId, Revision, Version};
use super::object::State;
use bits::Bits;
use timeline::Timeline;

/// Steps after which a search gives up: a minute of work. Real histories need about one for each
/// operation.
const MOST_STEPS: usize = 1_000_000;

/// Why no order was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is none.
    None(Stuck),
    /// The search was given up.
    GaveUp,
}

/// How far the best attempt came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stuck {
    /// In this order.
    pub(crate) ordered: Vec<Op>,
    /// What could have been next, and what of it had to be.
    pub(crate) next: Vec<Op>,
}

/// An operation in the search.
struct Entry {
    op: Op,
    sort: Sort,
}

enum Sort {
    /// It happened, and was answered like this. The number is its place among the writes.
    Must(Answer, Option<usize>),
    /// Nobody knows.
    May(Effect),
}

/// What an operation does that may have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Creates(OpId),
    Replaces(OpId),
    Patches,
    Deletes,
}

/// Where the search is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    state: State,
    /// Writes in order of their revisions: so many are done.
    written: usize,
}

/// A point of the search.
struct Point {
    /// What can come next and leads somewhere new, the most promising last.
    next: Vec<usize>,
    /// What led here, and where from; nothing for the first point.
    by: Option<(usize, Place)>,
}

struct Search {
    entries: Vec<Entry>,
    timeline: Timeline,
    place: Place,
    /// What is done of that which must be, and of that which need not.
    done: Bits,
    used: Bits,
    points: Vec<Point>,
    /// Operations that must be and are not done.
    left: usize,
    seen: HashMap<(Bits, Place), Vec<Bits>>,
    best: Stuck,
    /// Of all attempts so far.
    least_left: usize,
}

/// Checks the operations on one key.
pub(crate) fn check(ops: &[Op]) -> Result<(), Failure> {
    Search::new(entries(ops)).run()
}

/// What somebody saw of each operation that wrote.
fn observed(ops: &[Op]) -> HashMap<OpId, Version> {
    let answers = ops.iter().filter_map(Op::answer);
    let versions = answers.filter_map(|answer| match answer {
        Answer::Object(version) => Some((version.last, version)),
        Answer::Deleted | Answer::Absent | Answer::Exists | Answer::Conflict => None,
    });
    versions.collect()
}

/// Operations of whose content somebody saw a part, below what others patched.
fn built_upon(ops: &[Op]) -> HashSet<OpId> {
    let answers = ops.iter().filter_map(Op::answer);
    let wholes = answers.filter_map(|answer| match answer {
        Answer::Object(version) => Some(version.whole),
        Answer::Deleted | Answer::Absent | Answer::Exists | Answer::Conflict => None,
    });
    wholes.collect()
}

fn entries(ops: &[Op]) -> Vec<Entry> {
    let (observed, built_upon) = (observed(ops), built_upon(ops));
    // Nobody can tell apart the writers of what nobody saw.
    let writer = |op: &Op| match built_upon.contains(&op.id) {
        true => op.id,
        false => OpId::NOBODY,
    };
    let answer = |op: &Op| match op.answer() {
        Some(answer) => Some(answer),
        None => observed.get(&op.id).copied().map(Answer::Object),
    };
    let wrote = |op: &&Op| op.call.writes();
    let mut order: Vec<(Revision, OpId)> =
        ops.iter()
            .filter(wrote)
            .filter_map(|op| match answer(op) {
                Some(Answer::Object(version)) => Some((version.revision, op.id)),
                Some(Answer::Deleted | Answer::Absent | Answer::Exists | Answer::Conflict)
                | None => None,
            })
            .collect();
    order.sort_unstable();
    let places: HashMap<OpId, usize> = order
        .iter()
        .enumerate()
        .map(|(place, (_, id))| (*id, place))
        .collect();
    // A read whose answer is unknown says nothing.
    let telling = ops
        .iter()
        .filter(|op| op.call.writes() || op.ended.is_some());
    telling
        .map(|op| Entry {
            op: *op,
            sort: match answer(op) {
                Some(answer) if op.call.writes() => Sort::Must(answer, places.get(&op.id).copied()),
                Some(answer) => Sort::Must(answer, None),
                None => Sort::May(match op.call {
                    Call::Create => Effect::Creates(writer(op)),
                    Call::Replace { .. } => Effect::Replaces(writer(op)),
                    Call::Patch => Effect::Patches,
                    // A read whose answer is unknown is not here.
                    Call::Delete { .. } | Call::Read => Effect::Deletes,
                }),
            },
        })
        .collect()
}

/// How much a request insists on: what insists on more can be used less often.
fn demand(call: Call) -> u8 {
    match call {
        // A revision is there once.
        Call::Replace { at: Some(_) } | Call::Delete { at: Some(_), .. } => 2,
        Call::Delete { uid: Some(_), .. } => 1,
        Call::Create | Call::Replace { .. } | Call::Patch | Call::Delete { .. } | Call::Read => 0,
    }
}

// === impl Search ===

impl Search {
    fn new(entries: Vec<Entry>) -> Self {
        let spans = entries
            .iter()
            .map(|entry| (entry.op.began, entry.op.ended.map(|(tick, _)| tick)));
        let timeline = Timeline::new(spans);
        let size = entries.len();
        let must = |entry: &&Entry| matches!(entry.sort, Sort::Must(..));
        Self {
            left: entries.iter().filter(must).count(),
            entries,
            timeline,
            place: Place {
                state: State::default(),
                written: 0,
            },
            done: Bits::new(size),
            used: Bits::new(size),
            points: Vec::new(),
            seen: HashMap::new(),
            best: Stuck::default(),
            least_left: usize::MAX,
        }
    }

    fn run(mut self) -> Result<(), Failure> {
        self.arrive(None);
        for _ in 0..MOST_STEPS {
            if self.left == 0 {
                return Ok(());
            }
            let Some(point) = self.points.last_mut() else {
                return Err(Failure::None(self.best));
            };
            match point.next.pop() {
                Some(entry) => self.advance(entry),
                None => self.retreat(),
            }
        }
        Err(Failure::GaveUp)
    }

    fn advance(&mut self, entry: usize) {
        // It was looked at when the search arrived at this point.
        if let Some(place) = self.place.after(&self.entries[entry]) {
            let before = std::mem::replace(&mut self.place, place);
            self.mark(entry, true);
            self.timeline.remove(entry);
            self.arrive(Some((entry, before)));
        }
    }

    fn retreat(&mut self) {
        if let Some((entry, before)) = self.points.pop().and_then(|point| point.by) {
            self.timeline.restore(entry);
            self.mark(entry, false);
            self.place = before;
        }
    }

    /// Looks at everything that can come next before going there: what is reached from here in
    /// one step need not be reached again in two.
    fn arrive(&mut self, by: Option<(usize, Place)>) {
        let here = self.place;
        let mut next = Vec::new();
        for (entry, place) in self.promising() {
            self.mark(entry, true);
            self.place = place;
            if self.is_new() {
                next.push(entry);
            }
            self.mark(entry, false);
        }
        self.place = here;
        let sure = |entry: &usize| matches!(self.entries[*entry].sort, Sort::Must(..));
        let goes_on = next.iter().any(sure);
        next.reverse();
        self.points.push(Point { next, by });
        if !goes_on {
            self.note();
        }
    }

    /// What can come next and where it leads: one operation that changes nothing, or else first
    /// those that must have happened, and then one for each effect that one of the others can have.
    fn promising(&self) -> Vec<(usize, Place)> {
        let mut sure = Vec::new();
        let mut possible: Vec<(Effect, usize, Place)> = Vec::new();
        for entry in self.timeline.candidates() {
            let Some(place) = self.place.after(&self.entries[entry]) else {
                continue;
            };
            let Sort::May(effect) = self.entries[entry].sort else {
                // What changes nothing is as well here as anywhere later.
                if place == self.place {
                    return vec![(entry, place)];
                }
                sure.push((entry, place));
                continue;
            };
            let demand = |entry: usize| demand(self.entries[entry].op.call);
            match possible.iter_mut().find(|(other, ..)| *other == effect) {
                None => possible.push((effect, entry, place)),
                // Equals are used in the order in which they began.
                Some(chosen) if demand(entry) > demand(chosen.1) => {
                    *chosen = (effect, entry, place)
                }
                Some(_) => {}
            }
        }
        let possible = possible.into_iter().map(|(_, entry, place)| (entry, place));
        sure.into_iter().chain(possible).collect()
    }

    fn mark(&mut self, index: usize, on: bool) {
        match self.entries[index].sort {
            Sort::Must(..) => {
                self.done.set(index, on);
                self.left = match on {
                    true => self.left - 1,
                    false => self.left + 1,
                };
            }
            Sort::May(_) => self.used.set(index, on),
        }
    }

    fn is_new(&mut self) -> bool {
        let ways = self
            .seen
            .entry((self.done.clone(), self.place))
            .or_default();
        if ways.iter().any(|way| way.is_within(&self.used)) {
            return false;
        }
        ways.push(self.used.clone());
        true
    }

    /// Remembers how far this attempt came with what must have happened, if none came further.
    fn note(&mut self) {
        if self.left >= self.least_left {
            return;
        }
        self.least_left = self.left;
        let taken = self.points.iter().filter_map(|point| point.by);
        let ordered = taken.map(|(entry, _)| self.entries[entry].op);
        let next = self.timeline.candidates();
        self.best = Stuck {
            ordered: ordered.collect(),
            next: next.map(|entry| self.entries[entry].op).collect(),
        };
    }
}

// === impl Place ===

impl Place {
    fn after(self, entry: &Entry) -> Option<Self> {
        match entry.sort {
            Sort::Must(_, Some(place)) if place != self.written => None,
            Sort::Must(answer, place) => Some(Self {
                state: self.state.after(&entry.op, answer)?,
                written: self.written + usize::from(place.is_some()),
            }),
            Sort::May(effect) => {
                let writer = match effect {
                    Effect::Creates(writer) | Effect::Replaces(writer) => writer,
                    Effect::Patches | Effect::Deletes => OpId::NOBODY,
                };
                Some(Self {
                    state: self.state.done(entry.op.call, writer)?,
                    ..self
                })
            }
        }
    }
}
