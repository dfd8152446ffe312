//! The store's memory, which every driver fills: index and feed together.
//!
//! Invariant: a change is first in the index, then in the feed, and only then
//! acknowledged. What is here is durable.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::{Notify, watch};

use crate::{
    event::{Change, Event},
    feed::{Feed, RingLimits},
    header::HeaderFn,
    health::{Health, HealthWatch},
    index::{Held, Index},
    key::Key,
    object::Object,
    revision::{Revision, Row},
};

/// The memory of one store. Drivers write it, [`Store`](crate::Store) reads it.
pub struct Memory {
    index: RwLock<Index>,
    feed: Feed,
    header: HeaderFn,
    health: watch::Sender<Health>,
    /// The least number of superseded bytes that somebody wants to know of.
    alarm: AtomicU64,
    outgrown: Notify,
}

/// Fills a [`Memory`] from a log, before anybody can see it.
pub struct Loader {
    index: Index,
    header: HeaderFn,
    limits: RingLimits,
    /// The last events of the log, for the ring.
    recent: VecDeque<Arc<Event>>,
    recent_cost: usize,
    /// Where `recent` begins.
    floor: Revision,
}

// === impl Memory ===

impl Memory {
    /// The parser of headers that this store was opened with.
    #[must_use]
    pub fn header(&self) -> HeaderFn {
        self.header
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.index.read().revision()
    }

    /// The oldest readable revision.
    #[must_use]
    pub fn compacted(&self) -> Revision {
        self.index.read().compacted()
    }

    /// The newest version of an object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.index.read().get(key).cloned()
    }

    /// How much is held in memory.
    #[must_use]
    pub fn held(&self) -> Held {
        self.index.read().held()
    }

    /// Shows durable events, which must come after all earlier ones and in
    /// order, to readers and then to watchers.
    pub fn apply(&self, events: &[Arc<Event>]) {
        let superseded = {
            let mut index = self.index.write();
            for event in events {
                match event.change() {
                    Change::Put { object, .. } => index.put(Arc::clone(object)),
                    Change::Delete { object, .. } => {
                        let len = object.bytes().len();
                        index.delete(object.key(), object.row(), Some(len))
                    }
                };
            }
            index.held().superseded_bytes
        };
        self.feed.publish(events);
        if superseded > self.alarm.load(Ordering::Acquire) {
            self.outgrown.notify_waiters();
        }
    }

    /// Declares the history before `to` unreadable; [`Memory::sweep`] then says
    /// what to drop.
    pub fn set_compacted(&self, to: Revision) {
        self.index.write().set_compacted(to);
    }

    /// Forgets about `max` superseded versions and returns their rows.
    #[must_use]
    pub fn sweep(&self, max: usize) -> Vec<Row> {
        self.index.write().sweep(max)
    }

    /// Tells watchers that nothing will follow.
    pub fn close(&self) {
        self.set_health(Health::Closed);
        self.feed.close();
    }

    /// Says whether writes are taken. Nobody is told what they know.
    pub fn set_health(&self, health: Health) {
        self.health.send_if_modified(|current| {
            let changed = *current != health;
            *current = health;
            changed
        });
    }

    pub(crate) fn health(&self) -> HealthWatch {
        HealthWatch::new(self.health.subscribe())
    }

    /// Ends when more than `limit` bytes of superseded content are retained.
    pub(crate) async fn outgrown(&self, limit: u64) {
        self.alarm.fetch_min(limit, Ordering::AcqRel);
        loop {
            // Before looking, so that no later change is missed.
            let mut told = std::pin::pin!(self.outgrown.notified());
            told.as_mut().enable();
            if self.held().superseded_bytes > limit {
                return;
            }
            told.await;
        }
    }

    pub(crate) fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read()
    }

    pub(crate) fn feed(&self) -> &Feed {
        &self.feed
    }
}

// === impl Loader ===

impl Loader {
    /// An empty store whose history was compacted up to `compacted`.
    #[must_use]
    pub fn new(header: HeaderFn, limits: RingLimits, compacted: Revision) -> Self {
        let mut index = Index::default();
        index.advance(compacted);
        index.set_compacted(compacted);
        Self {
            index,
            header,
            limits,
            recent: VecDeque::new(),
            recent_cost: 0,
            floor: compacted,
        }
    }

    /// Adds the next version of the log; returns the one that it replaces.
    pub fn put(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let previous = self.index.put(Arc::clone(&object));
        self.remember(Change::Put {
            object,
            previous: previous.clone(),
        });
        previous
    }

    /// Adds the next deletion of the log, with its final content if it has
    /// one; returns what it removes.
    pub fn delete(
        &mut self,
        key: &Key,
        row: Row,
        last: Option<Arc<Object>>,
    ) -> Option<Arc<Object>> {
        let len = last.as_ref().map(|last| last.bytes().len());
        let previous = self.index.delete(key, row, len)?;
        self.remember(Change::Delete {
            object: last.unwrap_or_else(|| Arc::new(previous.deleted_at(row))),
            previous: Arc::clone(&previous),
        });
        Some(previous)
    }

    fn remember(&mut self, change: Change) {
        let event = Event::new(change);
        if event.revision() <= self.index.compacted() {
            return;
        }
        self.recent_cost += event.cost();
        self.recent.push_back(Arc::new(event));
        while !self.limits.allow(self.recent.len(), self.recent_cost) {
            let Some(oldest) = self.recent.pop_front() else {
                break;
            };
            self.recent_cost -= oldest.cost();
            self.floor = oldest.revision();
        }
    }

    /// Shows what was loaded.
    #[must_use]
    pub fn finish(mut self) -> Memory {
        let feed = Feed::new(self.limits, self.floor);
        feed.publish(self.recent.make_contiguous());
        feed.advance(self.index.revision());
        Memory {
            index: RwLock::new(self.index),
            feed,
            header: self.header,
            health: watch::Sender::default(),
            alarm: AtomicU64::new(u64::MAX),
            outgrown: Notify::new(),
        }
    }
}
