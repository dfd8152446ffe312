//! Transactions: what a writer asks for, and how it is answered.
//!
//! A transaction checks its guards and applies its operations atomically, at
//! one revision. It may hold **at most one operation per collection**: a watch
//! of a collection then sees at most one event per revision, so that it can
//! always be resumed after the revision of the last event it saw.

use std::{collections::HashSet, sync::Arc};

use crate::{
    header::{Header, HeaderFn},
    key::Key,
    object::{Draft, Object},
    revision::{Revision, Row},
};

/// Guards and operations, applied together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// What must be true of the current state.
    pub guards: Vec<(Key, Expect)>,
    /// What to do then, in this order, at most one per collection.
    pub ops: Vec<Op>,
    /// The transaction's revision is at least this one, and so are all that follow. For a store
    /// that was restored to an earlier state, whose readers have seen later revisions.
    pub floor: Revision,
}

/// What a guard asks of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is no such object.
    Absent,
    /// There is one, at any revision.
    Present,
    /// There is one, at any revision, and its deletion was not asked for. Changes that do not end
    /// it never make this fail, however many there are.
    Alive,
    /// The object's current version is the one of this revision.
    At(Revision),
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Creates or replaces an object.
    Put(Key, Draft),
    /// Removes an object. The draft, if any, is the final content that the
    /// deletion's event shows; without one the event shows the content that
    /// was there, which then still carries its older revision inside.
    Delete(Key, Option<Draft>),
}

/// The answer to a transaction that was applied. It is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The transaction's revision.
    pub revision: Revision,
    /// For each operation in order, the object as it now is, or for a
    /// deletion the final object.
    pub objects: Vec<Arc<Object>>,
}

/// Why a transaction was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A guard did not hold; nothing was changed.
    #[error("{key} is not {expect:?}")]
    Conflict {
        /// The guarded key.
        key: Key,
        /// What was asked.
        expect: Expect,
        /// What is there instead, so that no second read is needed.
        current: Option<Arc<Object>>,
    },
    /// A deletion of an object that does not exist; nothing was changed.
    #[error("{key} does not exist")]
    Missing {
        /// The key to delete.
        key: Key,
    },
    /// The transaction can never be applied.
    #[error("the transaction is not valid")]
    Invalid(#[from] InvalidTxn),
    /// The storage refused the write, for example because the disk is full.
    /// Nothing was changed; later writes may succeed.
    #[error("the write could not be stored: {reason}")]
    Storage {
        /// What the storage said.
        reason: Arc<str>,
    },
    /// The storage failed in a way that leaves open whether the write is
    /// there. It becomes visible later or never; a reader will find out.
    #[error("it is not known whether the write was stored: {reason}")]
    Unknown {
        /// What the storage said.
        reason: Arc<str>,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a transaction can never be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTxn {
    /// It has no operation.
    #[error("a transaction needs an operation")]
    Empty,
    /// It has two operations in one collection.
    #[error(
        "a transaction may hold one operation per collection, and {first} and {second} share one"
    )]
    SharedCollection {
        /// The first key.
        first: Key,
        /// The second key.
        second: Key,
    },
    /// It has more operations than a revision can number.
    #[error("a transaction may hold {max} operations", max = Row::OPS)]
    TooManyOps,
    /// The revision is to be inserted past the end of the content.
    #[error("the content of {key} ends before the place of its revision")]
    RevisionPastEnd {
        /// The key of the content.
        key: Key,
    },
    /// The transaction's content is larger than the store accepts.
    #[error("a transaction of {len} bytes is larger than {max}")]
    TooLarge {
        /// Its size.
        len: usize,
        /// The limit.
        max: usize,
    },
}

/// A transaction that was found valid, with its headers parsed: what drivers
/// get. Only [`Prepared::new`] makes one.
#[derive(Debug)]
pub struct Prepared {
    guards: Vec<(Key, Expect)>,
    ops: Vec<PreparedOp>,
    floor: Revision,
}

/// One operation of a [`Prepared`] transaction.
#[derive(Debug)]
pub enum PreparedOp {
    /// Creates or replaces an object.
    Put(Key, PreparedDraft),
    /// Removes an object.
    Delete(Key, Option<PreparedDraft>),
}

/// A draft with its header.
#[derive(Debug)]
pub struct PreparedDraft {
    /// The content.
    pub draft: Draft,
    /// Its header.
    pub header: Header,
}

// === impl Txn ===

impl Txn {
    /// Creates an object that must not exist.
    #[must_use]
    pub fn create(key: Key, draft: Draft) -> Self {
        Self {
            guards: vec![(key.clone(), Expect::Absent)],
            ops: vec![Op::Put(key, draft)],
            floor: Revision::ZERO,
        }
    }

    /// Replaces the version that is at `at`.
    #[must_use]
    pub fn update(key: Key, at: Revision, draft: Draft) -> Self {
        Self {
            guards: vec![(key.clone(), Expect::At(at))],
            ops: vec![Op::Put(key, draft)],
            floor: Revision::ZERO,
        }
    }

    /// Writes an object whatever is there.
    #[must_use]
    pub fn put(key: Key, draft: Draft) -> Self {
        Self {
            guards: Vec::new(),
            ops: vec![Op::Put(key, draft)],
            floor: Revision::ZERO,
        }
    }

    /// Removes the version that is at `at`, showing `last` as its end.
    #[must_use]
    pub fn delete(key: Key, at: Revision, last: Option<Draft>) -> Self {
        Self {
            guards: vec![(key.clone(), Expect::At(at))],
            ops: vec![Op::Delete(key, last)],
            floor: Revision::ZERO,
        }
    }

    /// The same at a revision that is not below `floor`.
    #[must_use]
    pub fn not_below(self, floor: Revision) -> Self {
        Self { floor, ..self }
    }
}

// === impl Expect ===

impl Expect {
    /// Whether `current` is what was expected.
    #[must_use]
    pub fn holds(self, current: Option<&Object>) -> bool {
        match (self, current) {
            (Self::Absent, None) | (Self::Present, Some(_)) => true,
            (Self::Absent, Some(_)) | (Self::Present | Self::Alive | Self::At(_), None) => false,
            (Self::Alive, Some(object)) => !object.header().deleting(),
            (Self::At(revision), Some(object)) => object.revision() == revision,
        }
    }
}

// === impl Op ===

impl Op {
    /// The key that the operation changes.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Put(key, _) | Self::Delete(key, _) => key,
        }
    }

    fn draft(&self) -> Option<&Draft> {
        match self {
            Self::Put(_, draft) => Some(draft),
            Self::Delete(_, draft) => draft.as_ref(),
        }
    }
}

// === impl Prepared ===

impl Prepared {
    /// The largest content of one transaction in bytes.
    pub const MAX_LEN: usize = 16 << 20;

    /// Checks a transaction and parses its headers.
    pub fn new(txn: Txn, header: HeaderFn) -> Result<Self, InvalidTxn> {
        validate(&txn)?;
        let prepare = |draft: Draft| PreparedDraft {
            header: header(&draft.bytes),
            draft,
        };
        let ops = txn.ops.into_iter().map(|op| match op {
            Op::Put(key, draft) => PreparedOp::Put(key, prepare(draft)),
            Op::Delete(key, draft) => PreparedOp::Delete(key, draft.map(prepare)),
        });
        Ok(Self {
            guards: txn.guards,
            ops: ops.collect(),
            floor: txn.floor,
        })
    }

    /// The guards.
    #[must_use]
    pub fn guards(&self) -> &[(Key, Expect)] {
        &self.guards
    }

    /// The lowest revision that it may get.
    #[must_use]
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// The operations.
    #[must_use]
    pub fn ops(&self) -> &[PreparedOp] {
        &self.ops
    }

    /// Takes the operations out.
    #[must_use]
    pub fn into_ops(self) -> Vec<PreparedOp> {
        self.ops
    }

    /// The size of the content in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        let draft_len = |op: &PreparedOp| match op {
            PreparedOp::Put(_, draft) => draft.draft.bytes.len(),
            PreparedOp::Delete(_, draft) => draft.as_ref().map_or(0, |d| d.draft.bytes.len()),
        };
        self.ops.iter().map(draft_len).sum()
    }

    /// Whether it has no content, as deletions may.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl PreparedOp {
    /// The key that the operation changes.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Put(key, _) | Self::Delete(key, _) => key,
        }
    }
}

fn validate(txn: &Txn) -> Result<(), InvalidTxn> {
    if txn.ops.is_empty() {
        return Err(InvalidTxn::Empty);
    }
    if txn.ops.len() > Row::OPS {
        return Err(InvalidTxn::TooManyOps);
    }
    if let Some((first, second)) = shared_collection(&txn.ops) {
        return Err(InvalidTxn::SharedCollection { first, second });
    }
    let mut len = 0;
    for op in &txn.ops {
        let Some(draft) = op.draft() else { continue };
        len += draft.bytes.len();
        if draft
            .revision_at
            .is_some_and(|at| at as usize > draft.bytes.len())
        {
            let key = op.key().clone();
            return Err(InvalidTxn::RevisionPastEnd { key });
        }
    }
    let max = Prepared::MAX_LEN;
    if len > max {
        return Err(InvalidTxn::TooLarge { len, max });
    }
    Ok(())
}

fn shared_collection(ops: &[Op]) -> Option<(Key, Key)> {
    if ops.len() == 1 {
        return None;
    }
    let mut seen = HashSet::with_capacity(ops.len());
    let second = ops.iter().find(|op| !seen.insert(op.key().prefix(2)))?;
    let same = |op: &&Op| op.key().prefix(2) == second.key().prefix(2);
    let first = ops.iter().find(same)?;
    Some((first.key().clone(), second.key().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(collection: &str, name: &str) -> Key {
        Key::new("t", collection, "", name).unwrap()
    }

    #[test]
    fn transactions_that_cannot_be_applied_are_refused() {
        let check = |ops: Vec<Op>, expected: InvalidTxn| {
            let txn = Txn {
                guards: vec![],
                ops,
                ..Txn::default()
            };
            assert_eq!(Prepared::new(txn, Header::none).unwrap_err(), expected);
        };
        let put = |collection: &str, name: &str| Op::Put(key(collection, name), Draft::opaque("x"));
        check(vec![], InvalidTxn::Empty);
        check(
            vec![
                put("a", "1"),
                put("b", "1"),
                Op::Delete(key("a", "2"), None),
            ],
            InvalidTxn::SharedCollection {
                first: key("a", "1"),
                second: key("a", "2"),
            },
        );
        let many = (0..=Row::OPS).map(|n| put(&format!("c{n}"), "x")).collect();
        check(many, InvalidTxn::TooManyOps);
        check(
            vec![Op::Delete(key("a", "1"), Some(Draft::stamped("ab", 3)))],
            InvalidTxn::RevisionPastEnd { key: key("a", "1") },
        );
        let huge = Draft::opaque(vec![0; Prepared::MAX_LEN]);
        check(
            vec![Op::Put(key("a", "1"), huge), put("b", "1")],
            InvalidTxn::TooLarge {
                len: Prepared::MAX_LEN + 1,
                max: Prepared::MAX_LEN,
            },
        );
    }

    #[test]
    fn one_operation_in_each_of_several_collections_is_valid() {
        let ops = (0..Row::OPS).map(|n| Op::Put(key(&format!("c{n}"), "x"), Draft::stamped("", 0)));
        let txn = Txn {
            guards: vec![],
            ops: ops.collect(),
            ..Txn::default()
        };
        let prepared = Prepared::new(txn, Header::none).unwrap();
        assert_eq!(
            (prepared.ops().len(), prepared.is_empty()),
            (Row::OPS, true)
        );
    }
}
