//! A watch: every change of a scope after a revision, in order, exactly once,
//! or the word to start over.

use std::{fmt, sync::Arc};

use tokio::sync::watch;

use crate::{
    driver::{Driver, Replay},
    event::Event,
    feed::{Feed, Next, Signal, Topic},
    key::Scope,
    list::ReadError,
    revision::Revision,
};

/// A cursor in the store's history. It holds no events: those are shared, in
/// memory or in the log, so that a slow watcher costs nothing and slows
/// nobody. A watch keeps its store open until [`Store::close`](crate::Store::close).
pub struct Watch {
    driver: Arc<dyn Driver>,
    scope: Scope,
    topic: Arc<Topic>,
    /// `Some` until the watch is dropped.
    signal: Option<watch::Receiver<Signal>>,
    /// All changes of the scope up to here have been returned.
    cursor: Revision,
}

/// Several changes at once.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The changes, in order, never empty. All changes of one revision are in
    /// one batch.
    pub events: Vec<Arc<Event>>,
    /// With this batch the watcher has seen everything up to here.
    pub revision: Revision,
}

/// Why a watch cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The history after the cursor has been dropped: list again, and watch
    /// from there.
    #[error("the changes after revision {after} have been compacted; the oldest is {oldest}")]
    Resync {
        /// Where the watch was.
        after: Revision,
        /// The oldest revision from which a watch can start.
        oldest: Revision,
    },
    /// The revision to start from does not exist yet.
    #[error("revision {requested} is in the future; the newest is {newest}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// The log could not be read. The watch is where it was; try again.
    #[error("the storage could not be read: {reason}")]
    Storage {
        /// What the storage said.
        reason: Arc<str>,
    },
    /// The store is closed, and everything that it had in memory has been
    /// returned.
    #[error("the store is closed")]
    Closed,
}

// === impl Watch ===

impl Watch {
    pub(crate) fn new(driver: Arc<dyn Driver>, scope: Scope, from: Revision) -> Self {
        let memory = driver.memory();
        let last_change = || memory.index().last_change(&scope);
        let (topic, signal) = memory.feed().subscribe(&scope, last_change);
        Self {
            driver,
            scope,
            topic,
            signal: Some(signal),
            cursor: from,
        }
    }

    /// What is watched.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Waits for changes and returns about `max` of them, more only so that a
    /// revision is not split.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    pub async fn next_batch(&mut self, max: usize) -> Result<Batch, WatchError> {
        loop {
            let signal = self.seen_signal();
            match self.topic.next(self.cursor, max) {
                Next::Events(events) => return Ok(self.advance(events)),
                Next::Behind => {
                    if let Some(batch) = self.catch_up(max).await? {
                        return Ok(batch);
                    }
                }
                Next::Nothing => match signal {
                    Signal::Closed => return Err(WatchError::Closed),
                    Signal::Open => self.changed().await?,
                },
            }
        }
    }

    /// The changes that are there without waiting; `None` if there are none,
    /// or if they have to be read from the log.
    pub fn try_next_batch(&mut self, max: usize) -> Option<Batch> {
        match self.topic.next(self.cursor, max) {
            Next::Events(events) => Some(self.advance(events)),
            Next::Nothing | Next::Behind => None,
        }
    }

    /// The revision up to which this watcher has seen everything, which grows
    /// with other scopes' changes too: a watch can be resumed from it.
    #[must_use]
    pub fn progress(&self) -> Revision {
        // Read first: what is published after it may be missing in the ring.
        let published = self.feed().published();
        if self.topic.caught_up(self.cursor) {
            self.cursor.max(published)
        } else {
            self.cursor
        }
    }

    fn advance(&mut self, events: Vec<Arc<Event>>) -> Batch {
        if let Some(last) = events.last() {
            self.cursor = last.revision();
        }
        self.cursor = self.progress();
        Batch {
            events,
            revision: self.cursor,
        }
    }

    /// Reads the part of the log that the ring no longer holds.
    async fn catch_up(&mut self, max: usize) -> Result<Option<Batch>, WatchError> {
        let request = Replay {
            scope: self.scope.clone(),
            after: self.cursor,
            until: self.feed().published(),
            max,
        };
        let replayed = self.driver.replay(request).await.map_err(read_failed)?;
        self.cursor = self.cursor.max(replayed.through);
        if replayed.events.is_empty() {
            return Ok(None);
        }
        Ok(Some(Batch {
            events: replayed.events,
            revision: self.cursor,
        }))
    }

    /// The newest signal, marked as seen before the ring is looked at, so that
    /// no change can be missed in between.
    fn seen_signal(&mut self) -> Signal {
        match &mut self.signal {
            Some(signal) => *signal.borrow_and_update(),
            None => Signal::Closed,
        }
    }

    async fn changed(&mut self) -> Result<(), WatchError> {
        match &mut self.signal {
            Some(signal) => signal.changed().await.map_err(|_| WatchError::Closed),
            None => Err(WatchError::Closed),
        }
    }

    fn feed(&self) -> &Feed {
        self.driver.memory().feed()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("scope", &self.scope)
            .field("cursor", &self.cursor.get())
            .finish_non_exhaustive()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Unsubscribed first, so that the feed sees how many are left.
        self.signal = None;
        self.feed().release(&self.topic);
    }
}

fn read_failed(error: ReadError) -> WatchError {
    match error {
        ReadError::Compacted { requested, oldest } => WatchError::Resync {
            after: requested,
            oldest,
        },
        ReadError::Storage { reason } => WatchError::Storage { reason },
        ReadError::Future { requested, newest } => WatchError::Future { requested, newest },
        ReadError::ForeignKey { .. } | ReadError::Closed => WatchError::Closed,
    }
}
