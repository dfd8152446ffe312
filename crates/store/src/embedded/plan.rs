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
        // All are looked up before any is done: each is in another collection,
        // so that none changes what another one finds.
        let steps = txn.into_ops().into_iter().map(|op| self.step(op));
        let steps = steps.collect::<Result<Vec<_>, _>>()?;
        let revision = self.last.next();
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
