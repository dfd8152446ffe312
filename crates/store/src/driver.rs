//! The seam between the store and what makes it durable.
//!
//! The store's memory ([`Memory`]) is the same for every driver: index, rings,
//! watches. A driver orders transactions, makes them durable and then applies
//! them to the memory, in the order of their revisions. It also reads what
//! memory no longer has.
//!
//! The embedded driver evaluates guards against the memory, which it alone
//! writes. An etcd driver would let etcd evaluate them, and would apply what
//! etcd's watch delivers, whoever wrote it; [`Driver::barrier`] is the seam
//! for its linearizable reads, and [`Draft::stamp`](crate::Draft::stamp) is
//! where it would put `mod_revision` into a body.

use std::{fmt, pin::Pin, sync::Arc};

use crate::{
    event::Event,
    key::{Key, Scope},
    list::ReadError,
    memory::Memory,
    object::Object,
    revision::{Revision, Row},
    txn::{CommitError, Committed, Prepared},
};

/// A boxed future, which keeps [`Driver`] usable as a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes transactions durable.
pub trait Driver: Send + Sync + 'static {
    /// The memory to which this driver applies what is durable.
    fn memory(&self) -> &Arc<Memory>;

    /// The identity of the stored data.
    fn epoch(&self) -> Epoch;

    /// Applies a transaction. When this returns `Ok`, the transaction is
    /// durable and the memory shows it. Dropping the future does not undo it.
    fn commit(&self, txn: Prepared) -> BoxFuture<'_, Result<Committed, CommitError>>;

    /// Waits until the memory shows everything that was acknowledged anywhere
    /// before the call.
    fn barrier(&self) -> BoxFuture<'_, Result<Revision, ReadError>>;

    /// Reads older versions from the storage. What is not there is left out.
    fn load(&self, wanted: Vec<Version>) -> BoxFuture<'_, Result<Vec<Arc<Object>>, ReadError>>;

    /// Reads a part of the log from the storage.
    fn replay(&self, request: Replay) -> BoxFuture<'_, Result<Replayed, ReadError>>;

    /// Drops the history before `to`; returns the oldest readable revision.
    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<Revision, CompactError>>;

    /// Tries whether writes are taken again, if they were not, and tells the memory.
    fn heal(&self);

    /// How many bytes the storage takes, if that can be told.
    fn stored_bytes(&self) -> Option<u64>;

    /// Finishes what was accepted and lets go of the storage.
    fn close(&self) -> BoxFuture<'_, Result<(), CloseError>>;
}

/// The identity of a store's data: made when it is created, kept for its life.
/// A wiped or restored store shows by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u128);

/// One version of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// The key.
    pub key: Key,
    /// Where the version is in the log.
    pub row: Row,
}

/// Which part of the log to read.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Only changes of these keys.
    pub scope: Scope,
    /// After this revision.
    pub after: Revision,
    /// Up to and including this revision, which the memory shows.
    pub until: Revision,
    /// About how many events to return; a revision is never split.
    pub max: usize,
}

/// A part of the log.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The changes, in order.
    pub events: Vec<Arc<Event>>,
    /// `events` holds all changes of the scope up to this revision.
    pub through: Revision,
}

/// Why history was not dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompactError {
    /// The revision does not exist yet.
    #[error("revision {requested} is in the future; the newest is {newest}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// The storage failed. What was not dropped will be, later.
    #[error("the storage could not be compacted: {reason}")]
    Storage {
        /// What the storage said.
        reason: Arc<str>,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a store did not close cleanly. What was acknowledged is safe even so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseError {
    /// It was closed already.
    #[error("the store is closed")]
    Closed,
}

// === impl Epoch ===

impl Epoch {
    /// An epoch from a number, for tests and for drivers that read it back.
    #[must_use]
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// A new epoch, from the randomness that the standard library seeds its
    /// hash maps with.
    #[must_use]
    pub fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let half = || u128::from(RandomState::new().hash_one(0));
        Self((half() << 64) | half())
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
