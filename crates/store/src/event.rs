//! What changed, as watchers see it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::{key::Key, object::Object, revision::Revision};

/// One change of one object, shared by all who watch it.
#[derive(Debug)]
pub struct Event {
    change: Change,
    encoded: OnceLock<Bytes>,
}

/// What a change did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was created (no previous version) or replaced.
    Put {
        /// The object as it became.
        object: Arc<Object>,
        /// The version that it replaced.
        previous: Option<Arc<Object>>,
    },
    /// The object was deleted.
    Delete {
        /// The final content, at the deletion's revision.
        object: Arc<Object>,
        /// The last version before the deletion.
        previous: Arc<Object>,
    },
}

// === impl Event ===

impl Event {
    /// An event that nobody has encoded yet.
    #[must_use]
    pub fn new(change: Change) -> Self {
        Self {
            change,
            encoded: OnceLock::new(),
        }
    }

    /// The revision of the transaction that made the change.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.object().revision()
    }

    /// The changed object's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.object().key()
    }

    /// What changed.
    #[must_use]
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// The object as it became, or the final object of a deletion.
    #[must_use]
    pub fn object(&self) -> &Arc<Object> {
        match &self.change {
            Change::Put { object, .. } | Change::Delete { object, .. } => object,
        }
    }

    /// The version before the change.
    #[must_use]
    pub fn previous(&self) -> Option<&Arc<Object>> {
        match &self.change {
            Change::Put { previous, .. } => previous.as_ref(),
            Change::Delete { previous, .. } => Some(previous),
        }
    }

    /// Whether the object is gone after this event.
    #[must_use]
    pub fn is_delete(&self) -> bool {
        matches!(self.change, Change::Delete { .. })
    }

    /// The event in the encoding that most watchers want: made by the first
    /// who asks, and shared by all others.
    pub fn encoded(&self, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(self)).clone()
    }

    /// What keeping this event costs at most, in bytes.
    pub(crate) fn cost(&self) -> usize {
        /// The structs of an event and its objects, and their keys.
        const FIXED: usize = 512;
        let body = self.object().bytes().len();
        let previous = self.previous().map_or(0, |previous| previous.bytes().len());
        FIXED + 2 * body + previous
    }
}
