//! The store as its users see it: a driver, and the memory in front of it.

use std::{collections::HashMap, fmt, sync::Arc};

use crate::{
    driver::{CloseError, CompactError, Driver, Epoch, Version},
    health::HealthWatch,
    index::{Held, Range, Tree},
    key::{Collection, Key, Scope},
    list::{ListQuery, Page, ReadError, Slot},
    memory::Memory,
    object::Object,
    retention::{History, RetentionPolicy},
    revision::Revision,
    txn::{CommitError, Committed, Prepared, Txn},
    watch::{Watch, WatchError},
};

/// How many objects a list goes through at once: under one lock for an older
/// revision, and before other tasks may run.
const STRIDE: usize = 2048;

/// A revisioned store. Cloning gives another handle to the same store.
#[derive(Clone)]
pub struct Store {
    driver: Arc<dyn Driver>,
}

/// One collection at one revision. Reading it takes no lock, and later writes
/// do not show in it; keep it only as long as a request takes, since it keeps
/// what they replace in memory.
#[derive(Clone)]
pub struct Snapshot {
    tree: Arc<Tree>,
    collection: Collection,
    revision: Revision,
}

// === impl Store ===

impl Store {
    /// A store on any driver.
    pub fn new(driver: Arc<dyn Driver>) -> Self {
        Self { driver }
    }

    /// Applies a transaction, and returns when it is durable and visible.
    ///
    /// Dropping the future leaves open whether the transaction is applied.
    pub async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        let prepared = Prepared::new(txn, self.memory().header())?;
        self.driver.commit(prepared).await
    }

    /// The newest version of an object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.memory().get(key)
    }

    /// The version of an object that was the newest at a revision.
    pub async fn get_at(&self, key: &Key, at: Revision) -> Result<Option<Arc<Object>>, ReadError> {
        let slot = self.memory().index().get_at(key, at)?;
        let found = self.resolve(at, slot.into_iter().collect()).await?;
        Ok(found.into_iter().next())
    }

    /// Objects of a collection in key order.
    ///
    /// At the current revision this reads memory only; at an older one it may
    /// read older versions from the storage.
    pub async fn list(&self, query: &ListQuery) -> Result<Page, ReadError> {
        match query.at {
            None => self.snapshot(&query.collection).list(query, None).await,
            Some(at) => self.list_at(query, at, None).await,
        }
    }

    /// Like [`Store::list`], for the objects that `wanted` accepts.
    pub async fn list_where(
        &self,
        query: &ListQuery,
        wanted: &(dyn Fn(&Object) -> bool + Sync),
    ) -> Result<Page, ReadError> {
        match query.at {
            None => {
                let snapshot = self.snapshot(&query.collection);
                snapshot.list(query, Some(wanted)).await
            }
            Some(at) => self.list_at(query, at, Some(wanted)).await,
        }
    }

    /// A collection as it is now, to be read without a lock.
    #[must_use]
    pub fn snapshot(&self, collection: &Collection) -> Snapshot {
        let index = self.memory().index();
        Snapshot {
            tree: index.tree(collection),
            collection: collection.clone(),
            revision: index.revision(),
        }
    }

    /// The collections that have objects, in order.
    #[must_use]
    pub fn collections(&self) -> Vec<Collection> {
        self.memory().index().collections()
    }

    /// The newest revision that reads show.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.memory().revision()
    }

    /// The oldest revision that can be read and watched from.
    #[must_use]
    pub fn oldest(&self) -> Revision {
        self.memory().compacted()
    }

    /// Waits until reads show everything that was acknowledged before the
    /// call, also by other processes on the same storage. The embedded driver
    /// need not wait.
    pub async fn barrier(&self) -> Result<Revision, ReadError> {
        self.driver.barrier().await
    }

    /// The identity of the stored data.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.driver.epoch()
    }

    /// How much is held in memory.
    #[must_use]
    pub fn held(&self) -> Held {
        self.memory().held()
    }

    /// How many bytes the storage takes, superseded versions and free room included; `None` if
    /// that cannot be told.
    #[must_use]
    pub fn stored_bytes(&self) -> Option<u64> {
        self.driver.stored_bytes()
    }

    /// How many watches are open.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.memory().feed().watchers()
    }

    /// Whether writes are taken, now and later.
    #[must_use]
    pub fn health(&self) -> HealthWatch {
        self.memory().health()
    }

    /// Tries whether writes are taken again, if they were not. [`Store::health`] tells how it went.
    pub fn heal(&self) {
        self.driver.heal();
    }

    /// What a [`Retention`](crate::Retention) has to know to decide.
    #[must_use]
    pub fn history(&self, policy: &RetentionPolicy) -> History {
        let index = self.memory().index();
        History {
            newest: index.revision(),
            oldest: index.compacted(),
            fitting: match index.held().superseded_bytes > policy.max_bytes {
                true => index.fitting(policy.bytes_after_cut()),
                false => index.compacted(),
            },
        }
    }

    /// Ends when more history is retained than the policy allows in bytes. Cancel safe.
    pub async fn outgrown(&self, policy: &RetentionPolicy) {
        self.memory().outgrown(policy.max_bytes).await;
    }

    /// Watches a scope for everything after `from`.
    pub fn watch(&self, scope: Scope, from: Revision) -> Result<Watch, WatchError> {
        // Let go of the index first: subscribing reads it again, and a second read behind a
        // waiting writer would wait for ever.
        let readable = self.memory().index().readable(from);
        match readable {
            Err(ReadError::Compacted { requested, oldest }) => Err(WatchError::Resync {
                after: requested,
                oldest,
            }),
            Err(ReadError::Future { requested, newest }) => {
                Err(WatchError::Future { requested, newest })
            }
            Ok(())
            | Err(ReadError::ForeignKey { .. } | ReadError::Storage { .. } | ReadError::Closed) => {
                Ok(Watch::new(Arc::clone(&self.driver), scope, from))
            }
        }
    }

    /// Drops the history before `to`: afterwards `to` is the oldest revision
    /// that can be read and watched from. Returns the oldest revision.
    pub async fn compact(&self, to: Revision) -> Result<Revision, CompactError> {
        self.driver.compact(to).await
    }

    /// Finishes what was accepted, tells watchers, and lets go of the storage.
    pub async fn close(&self) -> Result<(), CloseError> {
        self.driver.close().await
    }

    async fn list_at(
        &self,
        query: &ListQuery,
        at: Revision,
        wanted: Option<&(dyn Fn(&Object) -> bool + Sync)>,
    ) -> Result<Page, ReadError> {
        let mut page = Page {
            items: Vec::new(),
            revision: at,
            more: false,
            remaining: None,
        };
        let mut query = query.clone();
        loop {
            // With a predicate, one more is looked for to know if there is one.
            let left = query.limit.saturating_sub(page.items.len());
            let stride = if wanted.is_some() {
                STRIDE
            } else {
                left.min(STRIDE)
            };
            let outline = self.memory().index().outline(&query, at, stride)?;
            let found = self.resolve(at, outline.items).await?;
            let last = found.last().map(|object| object.key().clone());
            for object in found {
                if !wanted.is_none_or(|wanted| wanted(&object)) {
                    continue;
                }
                if page.items.len() == query.limit {
                    page.more = true;
                    return Ok(page);
                }
                page.items.push(object);
            }
            let full = wanted.is_none() && page.items.len() == query.limit;
            if full || !outline.more {
                page.more = outline.more;
                page.remaining = wanted.is_none().then_some(outline.remaining);
                return Ok(page);
            }
            query.after = last;
        }
    }

    /// Finds the bodies of older versions, in memory or in the storage.
    async fn resolve(&self, at: Revision, slots: Vec<Slot>) -> Result<Vec<Arc<Object>>, ReadError> {
        let mut slots = slots;
        let mut missing: Vec<Version> = Vec::new();
        for slot in &mut slots {
            let Slot::Stored(version) = slot else {
                continue;
            };
            match self.memory().feed().find(&version.key, version.row) {
                Some(object) => *slot = Slot::Here(object),
                None => missing.push(version.clone()),
            }
        }
        let mut loaded = HashMap::new();
        if !missing.is_empty() {
            let objects = self.driver.load(missing).await;
            // What was compacted meanwhile is missing for that reason.
            self.memory().index().readable(at)?;
            let objects = objects?.into_iter();
            loaded = objects
                .map(|object| (object.row().to_bits(), object))
                .collect();
        }
        let objects = slots.into_iter().map(|slot| match slot {
            Slot::Here(object) => Ok(object),
            Slot::Stored(version) => {
                let found = loaded.get(&version.row.to_bits()).cloned();
                found.ok_or_else(|| ReadError::Storage {
                    reason: format!("{} of revision {} is missing", version.key, at).into(),
                })
            }
        });
        objects.collect()
    }

    fn memory(&self) -> &Memory {
        self.driver.memory()
    }

    /// The driver, for tests that put another one in front of it.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn driver(&self) -> Arc<dyn Driver> {
        Arc::clone(&self.driver)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("epoch", &self.epoch())
            .field("revision", &self.revision().get())
            .finish_non_exhaustive()
    }
}

// === impl Snapshot ===

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("collection", &self.collection)
            .field("revision", &self.revision.get())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    /// The revision at which the collection was like this.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many objects the collection had.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether it had none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.len() == 0
    }

    /// One object as it was, if it was there.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.tree.get(key.as_str())
    }

    /// The objects in key order, of one namespace or all, after a key or from
    /// the start. The iterator knows how many are left.
    pub fn range(
        &self,
        namespace: Option<&str>,
        after: Option<&Key>,
    ) -> Result<impl ExactSizeIterator<Item = &Arc<Object>>, ReadError> {
        let range = Range::new(&self.collection, namespace, after)?;
        Ok(self.tree.range(&range))
    }

    /// A page of the collection. `query.collection` and `query.at` are not
    /// looked at.
    async fn list(
        &self,
        query: &ListQuery,
        wanted: Option<&(dyn Fn(&Object) -> bool + Sync)>,
    ) -> Result<Page, ReadError> {
        let mut objects = self.range(query.namespace.as_deref(), query.after.as_ref())?;
        let expected = if wanted.is_some() { 0 } else { objects.len() };
        let mut page = Page {
            items: Vec::with_capacity(query.limit.min(expected)),
            revision: self.revision,
            more: false,
            remaining: None,
        };
        let mut seen = 0_usize;
        while wanted.is_some() || page.items.len() < query.limit {
            let Some(object) = objects.next() else { break };
            seen += 1;
            if seen.is_multiple_of(STRIDE) {
                // A long scan lets other tasks run.
                tokio::task::yield_now().await;
            }
            if !wanted.is_none_or(|wanted| wanted(object)) {
                continue;
            }
            if page.items.len() == query.limit {
                page.more = true;
                return Ok(page);
            }
            page.items.push(Arc::clone(object));
        }
        if wanted.is_none() {
            page.more = objects.len() > 0;
            page.remaining = Some(objects.len() as u64);
        }
        Ok(page)
    }
}
