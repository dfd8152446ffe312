//! Questions about one collection, and their answers.

use std::sync::Arc;

use crate::{
    key::{Collection, Key},
    object::Object,
    revision::Revision,
};

/// Which objects of a collection to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// The collection.
    pub collection: Collection,
    /// Only this namespace.
    pub namespace: Option<Box<str>>,
    /// Only what comes after this key, the last one of the page before.
    pub after: Option<Key>,
    /// At most this many objects.
    pub limit: usize,
    /// As of this revision instead of now.
    pub at: Option<Revision>,
}

/// Objects in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The objects.
    pub items: Vec<Arc<Object>>,
    /// The revision at which this is the answer; continue at it, or watch
    /// from it.
    pub revision: Revision,
    /// Whether there are more after the last one here.
    pub more: bool,
    /// How many more; `None` when a predicate was given, since then only a
    /// full scan would tell.
    pub remaining: Option<u64>,
}

/// Why a read could not be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The revision's history has been dropped.
    #[error("revision {requested} has been compacted; the oldest is {oldest}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// The oldest revision that can still be read.
        oldest: Revision,
    },
    /// The revision does not exist yet.
    #[error("revision {requested} is in the future; the newest is {newest}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// The key to continue after is of another collection.
    #[error("{after} is not in the collection that is listed")]
    ForeignKey {
        /// The key.
        after: Key,
    },
    /// Older versions could not be read from the storage.
    #[error("the storage could not be read: {reason}")]
    Storage {
        /// What the storage said.
        reason: Arc<str>,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

/// A page whose older versions are still to be read from the driver.
pub(crate) struct Outline {
    pub(crate) items: Vec<Slot>,
    pub(crate) more: bool,
    pub(crate) remaining: u64,
}

/// One object of an [`Outline`].
#[derive(Clone)]
pub(crate) enum Slot {
    Here(Arc<Object>),
    Stored(crate::driver::Version),
}

// === impl ListQuery ===

impl ListQuery {
    /// All objects of a collection, now.
    #[must_use]
    pub fn all(collection: Collection) -> Self {
        Self {
            collection,
            namespace: None,
            after: None,
            limit: usize::MAX,
            at: None,
        }
    }

    /// The same query for one namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..self
        }
    }

    /// The same query for at most `limit` objects.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// The same query as of a revision.
    #[must_use]
    pub fn at(self, revision: Revision) -> Self {
        Self {
            at: Some(revision),
            ..self
        }
    }

    /// The same query for what comes after a key.
    #[must_use]
    pub fn after(self, key: Key) -> Self {
        Self {
            after: Some(key),
            ..self
        }
    }
}
