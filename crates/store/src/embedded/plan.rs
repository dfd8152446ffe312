//! Deciding a batch: which transactions hold, at which revision, and what they
//! change. Pure: it reads memory and returns values.

use std::{collections::HashMap, sync::Arc};

use super::engine::Entry;
use crate::{
    event::{Change, Event},
    key::Key,
    memory::Memory,
    object::{Identity, Object},
    revision::{Revision, Row},
    txn::{CommitError, Committed, Expect, Prepared, PreparedDraft, PreparedOp},
};

/// A decided batch. Nothing of it may be shown before `entries` are durable:
/// refusals too may rest on what the batch itself changes.
pub(super) struct Plan {
    /// What to append, in order.
    pub(super) entries: Vec<Entry>,
    /// The answer to each transaction, in the order of the batch.
    pub(super) answers: Vec<Result<Committed, CommitError>>,
}

struct Planner<'a> {
    memory: &'a Memory,
    /// What the batch has changed so far.
    changed: HashMap<Key, Option<Arc<Object>>>,
    last: Revision,
    plan: Plan,
}

/// Decides `batch` on top of the memory's state; revisions continue after `last`.
pub(super) fn plan(memory: &Memory, last: Revision, batch: Vec<Prepared>) -> Plan {
    let mut planner = Planner {
        memory,
        changed: HashMap::new(),
        last,
        plan: Plan {
            entries: Vec::with_capacity(batch.len()),
            answers: Vec::with_capacity(batch.len()),
        },
    };
    for txn in batch {
        let answer = planner.decide(txn);
        planner.plan.answers.push(answer);
    }
    planner.plan
}

/// An operation that will be done, and what it finds.
enum Step {
    Put(Key, PreparedDraft, Option<Arc<Object>>),
    Delete(Key, Option<PreparedDraft>, Arc<Object>),
}

impl Planner<'_> {
    fn decide(&mut self, txn: Prepared) -> Result<Committed, CommitError> {
        for (key, expect) in txn.guards() {
            self.check(key, *expect)?;
        }
        let floor = txn.floor();
        // All are looked up before any is done: each is in another collection,
        // so that none changes what another one finds.
        let steps = txn.into_ops().into_iter().map(|op| self.step(op));
        let steps = steps.collect::<Result<Vec<_>, _>>()?;
        let revision = self.last.next().max(floor);
        #[cfg(feature = "sabotage")]
        let revision = super::sabotage::repeat(self.last, revision);
        self.last = revision;
        let objects = (0_u8..=u8::MAX)
            .zip(steps)
            .map(|(index, step)| self.apply(step, Row::new(revision, index)))
            .collect();
        Ok(Committed { revision, objects })
    }

    fn check(&self, key: &Key, expect: Expect) -> Result<(), CommitError> {
        let current = self.current(key);
        if expect.holds(current.as_deref()) {
            return Ok(());
        }
        Err(CommitError::Conflict {
            key: key.clone(),
            expect,
            current,
        })
    }

    fn step(&self, op: PreparedOp) -> Result<Step, CommitError> {
        let current = self.current(op.key());
        match op {
            PreparedOp::Put(key, draft) => Ok(Step::Put(key, draft, current)),
            PreparedOp::Delete(key, draft) => match current {
                Some(current) => Ok(Step::Delete(key, draft, current)),
                None => Err(CommitError::Missing { key }),
            },
        }
    }

    fn current(&self, key: &Key) -> Option<Arc<Object>> {
        match self.changed.get(key) {
            Some(changed) => changed.clone(),
            None => self.memory.get(key),
        }
    }

    fn apply(&mut self, step: Step, row: Row) -> Arc<Object> {
        match step {
            Step::Put(key, draft, previous) => {
                let created = previous
                    .as_ref()
                    .map_or(row.revision(), |previous| previous.created());
                let object = version(key.clone(), row, created, draft);
                self.changed.insert(key, Some(Arc::clone(&object)));
                let change = Change::Put {
                    object: Arc::clone(&object),
                    previous,
                };
                self.push(change, false);
                object
            }
            Step::Delete(key, draft, previous) => {
                let as_is = draft.is_none();
                let object = match draft {
                    Some(draft) => version(key.clone(), row, previous.created(), draft),
                    None => Arc::new(previous.deleted_at(row)),
                };
                self.changed.insert(key, None);
                let change = Change::Delete {
                    object: Arc::clone(&object),
                    previous,
                };
                self.push(change, as_is);
                object
            }
        }
    }

    fn push(&mut self, change: Change, as_is: bool) {
        let event = Arc::new(Event::new(change));
        self.plan.entries.push(Entry { event, as_is });
    }
}

fn version(key: Key, row: Row, created: Revision, draft: PreparedDraft) -> Arc<Object> {
    let identity = Identity {
        key,
        row,
        created,
        tag: draft.draft.tag,
    };
    let bytes = draft.draft.stamp(row.revision());
    Arc::new(Object::new(identity, draft.header, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Draft, Header, Op, RingLimits, Txn, memory::Loader};

    fn key(name: &str) -> Key {
        Key::new("t", name, "", "x").unwrap()
    }

    /// A transaction in one line: guards such as `a?` (present), `a!` (absent)
    /// and `a@3`, operations such as `+a`, `-a` and `~a` (deleted as it is).
    fn txn(line: &str) -> Prepared {
        let mut txn = Txn::default();
        for word in line.split_whitespace() {
            let (sign, rest) = word.split_at(1);
            match sign {
                "+" => txn.ops.push(Op::Put(key(rest), Draft::stamped("", 0))),
                "-" => txn
                    .ops
                    .push(Op::Delete(key(rest), Some(Draft::stamped("end ", 4)))),
                "~" => txn.ops.push(Op::Delete(key(rest), None)),
                name => {
                    let expect = match rest.split_at(1) {
                        ("?", _) => Expect::Present,
                        ("!", _) => Expect::Absent,
                        (_, revision) => Expect::At(Revision::new(revision.parse().unwrap())),
                    };
                    txn.guards.push((key(name), expect));
                }
            }
        }
        Prepared::new(txn, Header::none).unwrap()
    }

    fn object(object: &Object) -> String {
        let body = String::from_utf8_lossy(object.bytes()).into_owned();
        format!("{}@{} {body:?}", object.key().resource(), object.revision())
    }

    fn answer(answer: &Result<Committed, CommitError>) -> String {
        match answer {
            Ok(done) => done.revision.to_string(),
            Err(CommitError::Conflict { key, current, .. }) => {
                let current = current.as_ref().map_or("nothing".to_owned(), |c| object(c));
                format!("{}: {current}", key.resource())
            }
            Err(error) => error.to_string(),
        }
    }

    fn entry(entry: &Entry) -> String {
        let previous = entry.event.previous().map(|previous| previous.revision());
        let previous = previous.map_or(String::new(), |previous| format!(" after {previous}"));
        let kind = match (entry.event.is_delete(), entry.as_is) {
            (false, _) => "put",
            (true, false) => "delete",
            (true, true) => "delete as is",
        };
        format!("{kind} {}{previous}", object(entry.event.object()))
    }

    /// Decides `batch` on a store that holds `a` at revision 4 and `b` at 5.
    fn check(batch: &[&str], answers: &[&str], entries: &[&str]) {
        let mut loader = Loader::new(Header::none, RingLimits::default(), Revision::new(3));
        for (name, revision) in [("a", 4), ("b", 5)] {
            let row = Row::new(Revision::new(revision), 0);
            let draft = Draft::stamped("", 0);
            let header = Header::default();
            loader.put(version(
                key(name),
                row,
                row.revision(),
                PreparedDraft { draft, header },
            ));
        }
        let memory = loader.finish();
        let batch = batch.iter().map(|line| txn(line)).collect();
        let plan = plan(&memory, Revision::new(7), batch);
        assert_eq!(plan.answers.iter().map(answer).collect::<Vec<_>>(), answers);
        assert_eq!(plan.entries.iter().map(entry).collect::<Vec<_>>(), entries);
        assert_eq!(memory.revision(), Revision::new(5));
    }

    #[test]
    fn revisions_follow_the_last_one_given_out() {
        check(
            &["+a", "c! +c", "-b +d"],
            &["8", "9", "10"],
            &[
                "put a@8 \"8\" after 4",
                "put c@9 \"9\"",
                "delete b@10 \"end 10\" after 5",
                "put d@10 \"10\"",
            ],
        );
    }

    #[test]
    fn later_transactions_see_earlier_ones_of_the_batch() {
        check(
            &["a@4 +a", "a@4 +a", "a@8 +a", "~a", "a? +c", "~a", "a! +a"],
            &[
                "8",
                "a: a@8 \"8\"",
                "9",
                "10",
                "a: nothing",
                "t|a||x does not exist",
                "11",
            ],
            &[
                "put a@8 \"8\" after 4",
                "put a@9 \"9\" after 8",
                "delete as is a@10 \"9\" after 9",
                "put a@11 \"11\"",
            ],
        );
    }

    #[test]
    fn a_refused_transaction_changes_nothing_and_takes_no_revision() {
        check(
            &["a! +b", "+a ~c", "b@4 a? +a", "b@5 a? +a"],
            &["a: a@4 \"4\"", "t|c||x does not exist", "b: b@5 \"5\"", "8"],
            &["put a@8 \"8\" after 4"],
        );
    }
}
