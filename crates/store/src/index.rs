//! What the store holds in memory: the newest version of every object, and
//! where the older versions that are still retained are in the log.
//!
//! This is a plain value with one writer; [`crate::memory::Memory`] puts the lock
//! around it. It does no I/O: for an older version it answers with its row.
//!
//! Invariants:
//! - `compacted <= revision`, and both only grow.
//! - A collection's `history` holds exactly the retained versions of a key
//!   that are not its newest one, ascending, tombstones included; it never
//!   begins with a tombstone.
//! - `superseded` lists, in log order, every change after `compacted` that
//!   made an older version superfluous.

mod tree;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

pub(crate) use self::tree::{Range, Tree};
use crate::{
    driver::Version,
    key::{Collection, Key, Scope},
    list::{ListQuery, Outline, ReadError, Slot},
    object::Object,
    revision::{Revision, Row},
};

#[derive(Default)]
pub(crate) struct Index {
    revision: Revision,
    compacted: Revision,
    collections: HashMap<Box<str>, Shelf>,
    superseded: VecDeque<Superseded>,
    objects: u64,
    bytes: u64,
    superseded_bytes: u64,
}

/// One collection.
#[derive(Default)]
struct Shelf {
    /// The revision of its last change.
    changed: Revision,
    tree: Arc<Tree>,
    history: BTreeMap<Key, Vec<Past>>,
}

/// A version that is not the newest of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Past {
    row: Row,
    live: bool,
}

/// A change that replaced or removed a version.
struct Superseded {
    by: Row,
    previous: Row,
    key: Key,
    deleted: bool,
    /// What the log keeps for it: the old content, and that of the deletion.
    bytes: u64,
}

/// How much the index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Objects.
    pub objects: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Changes whose older versions are retained.
    pub superseded: u64,
    /// Bytes of the content of those versions, and of the deletions among the changes.
    pub superseded_bytes: u64,
}

// === impl Index ===

impl Index {
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn compacted(&self) -> Revision {
        self.compacted
    }

    pub(crate) fn held(&self) -> Held {
        Held {
            objects: self.objects,
            bytes: self.bytes,
            superseded: self.superseded.len() as u64,
            superseded_bytes: self.superseded_bytes,
        }
    }

    pub(crate) fn collections(&self) -> Vec<Collection> {
        let held = |shelf: &Shelf| shelf.tree.len() > 0;
        let names = self.collections.iter().filter(|(_, shelf)| held(shelf));
        let mut names: Vec<_> = names
            .map(|(name, _)| Collection::from_prefix(name))
            .collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.collections.get(key.prefix(2))?.tree.get(key.as_str())
    }

    /// The collection as it is now, unaffected by later changes.
    pub(crate) fn tree(&self, collection: &Collection) -> Arc<Tree> {
        let shelf = self.collections.get(collection.as_str());
        shelf
            .map(|shelf| Arc::clone(&shelf.tree))
            .unwrap_or_default()
    }

    /// A revision after which nothing in `scope` has changed.
    pub(crate) fn last_change(&self, scope: &Scope) -> Revision {
        match scope.collection_prefix() {
            None => self.revision,
            // A collection is forgotten when all its changes are compacted.
            Some(name) => self
                .collections
                .get(name)
                .map_or(self.compacted, |shelf| shelf.changed),
        }
    }

    /// Moves the store's revision, which never goes back.
    pub(crate) fn advance(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// Makes `object` the newest version of its key.
    pub(crate) fn put(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let row = object.row();
        self.advance(row.revision());
        self.bytes += object.bytes().len() as u64;
        let shelf = shelf(&mut self.collections, object.key());
        shelf.changed = row.revision();
        let previous = Arc::make_mut(&mut shelf.tree).insert(object);
        match &previous {
            None => self.objects += 1,
            Some(previous) => self.supersede(previous, row, None),
        }
        previous
    }

    /// Removes the newest version of `key`; `None` if there is none. `last` is the length of the
    /// content that the deletion brought, if any.
    pub(crate) fn delete(
        &mut self,
        key: &Key,
        row: Row,
        last: Option<usize>,
    ) -> Option<Arc<Object>> {
        self.advance(row.revision());
        let shelf = self.collections.get_mut(key.prefix(2))?;
        let previous = Arc::make_mut(&mut shelf.tree).remove(key.as_str())?;
        shelf.changed = row.revision();
        self.objects -= 1;
        let last = last.unwrap_or(previous.bytes().len());
        self.supersede(&previous, row, Some(last));
        Some(previous)
    }

    /// `deletion` is the length of a deletion's content.
    fn supersede(&mut self, previous: &Object, by: Row, deletion: Option<usize>) {
        let len = previous.bytes().len();
        self.bytes -= len as u64;
        // Only while a log is loaded: the rest of an interrupted compaction.
        if by.revision() <= self.compacted {
            return;
        }
        let shelf = shelf(&mut self.collections, previous.key());
        let past = shelf.history.entry(previous.key().clone()).or_default();
        past.push(Past {
            row: previous.row(),
            live: true,
        });
        if deletion.is_some() {
            past.push(Past {
                row: by,
                live: false,
            });
        }
        let bytes = (len + deletion.unwrap_or(0)) as u64;
        self.superseded_bytes += bytes;
        self.superseded.push_back(Superseded {
            by,
            previous: previous.row(),
            key: previous.key().clone(),
            deleted: deletion.is_some(),
            bytes,
        });
    }

    /// Whether `at` can be read.
    pub(crate) fn readable(&self, at: Revision) -> Result<(), ReadError> {
        if at > self.revision {
            return Err(ReadError::Future {
                requested: at,
                newest: self.revision,
            });
        }
        if at < self.compacted {
            return Err(ReadError::Compacted {
                requested: at,
                oldest: self.compacted,
            });
        }
        Ok(())
    }

    /// The version of `key` that was the newest at `at`.
    pub(crate) fn get_at(&self, key: &Key, at: Revision) -> Result<Option<Slot>, ReadError> {
        self.readable(at)?;
        let Some(shelf) = self.collections.get(key.prefix(2)) else {
            return Ok(None);
        };
        let newest = shelf.tree.get(key.as_str());
        Ok(slot(newest, key, shelf.history.get(key), at))
    }

    /// The page that `query` asks for as of `at`, at most `limit` objects.
    pub(crate) fn outline(
        &self,
        query: &ListQuery,
        at: Revision,
        limit: usize,
    ) -> Result<Outline, ReadError> {
        self.readable(at)?;
        let mut outline = Outline {
            items: Vec::new(),
            more: false,
            remaining: 0,
        };
        let Some(shelf) = self.collections.get(query.collection.as_str()) else {
            return Ok(outline);
        };
        let range = Range::new(
            &query.collection,
            query.namespace.as_deref(),
            query.after.as_ref(),
        )?;
        let newest = shelf.tree.range(&range);
        let total = newest.len();
        for slot in shelf.as_of(newest, &range, at) {
            if outline.items.len() == limit {
                outline.more = true;
                // An estimate: how many there are now, not how many there were.
                outline.remaining = total.saturating_sub(limit).max(1) as u64;
                break;
            }
            outline.items.push(slot);
        }
        Ok(outline)
    }

    /// The oldest revision with no more than `bytes` of superseded content after it. Costs what
    /// there is to drop.
    pub(crate) fn fitting(&self, bytes: u64) -> Revision {
        let mut left = self.superseded_bytes;
        let mut to = self.compacted;
        for next in &self.superseded {
            if left <= bytes {
                break;
            }
            left -= next.bytes;
            to = next.by.revision();
        }
        to
    }

    /// Declares everything before `to` unreadable.
    pub(crate) fn set_compacted(&mut self, to: Revision) {
        self.compacted = self.compacted.max(to);
    }

    /// Forgets at most `max` of the superseded versions that no readable
    /// revision can see, and returns their rows for the log to drop.
    pub(crate) fn sweep(&mut self, max: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        while rows.len() < max {
            let due = |next: &Superseded| next.by.revision() <= self.compacted;
            if !self.superseded.front().is_some_and(due) {
                break;
            }
            let Some(next) = self.superseded.pop_front() else {
                break;
            };
            self.superseded_bytes -= next.bytes;
            self.forget(&next);
            rows.push(next.previous);
            if next.deleted {
                rows.push(next.by);
            }
        }
        rows
    }

    fn forget(&mut self, gone: &Superseded) {
        let name = gone.key.prefix(2);
        let Some(shelf) = self.collections.get_mut(name) else {
            return;
        };
        if let Some(past) = shelf.history.get_mut(&gone.key) {
            let unseen = |row: Row| row == gone.previous || (gone.deleted && row == gone.by);
            past.retain(|past| !unseen(past.row));
            if past.is_empty() {
                shelf.history.remove(&gone.key);
            }
        }
        if shelf.history.is_empty() && shelf.tree.len() == 0 {
            self.collections.remove(name);
        }
    }
}

fn shelf<'a>(collections: &'a mut HashMap<Box<str>, Shelf>, key: &Key) -> &'a mut Shelf {
    let name = key.prefix(2);
    if !collections.contains_key(name) {
        collections.insert(name.into(), Shelf::default());
    }
    collections
        .get_mut(name)
        .expect("the shelf was there or has just been put up")
}

// === impl Shelf ===

impl Shelf {
    /// The versions in `range` that were the newest at `at`, in key order: the
    /// tree and the history, merged.
    fn as_of<'a>(
        &'a self,
        newest: impl Iterator<Item = &'a Arc<Object>>,
        range: &Range,
        at: Revision,
    ) -> impl Iterator<Item = Slot> {
        let bounds = (range.start(), range.end());
        let mut newest = newest.peekable();
        let mut history = self.history.range::<str, _>(bounds).peekable();
        std::iter::from_fn(move || {
            loop {
                let next = match (newest.peek(), history.peek()) {
                    (None, None) => return None,
                    (Some(object), Some((key, _))) => object.key().min(key),
                    (Some(object), None) => object.key(),
                    (None, Some((key, _))) => key,
                };
                let object = newest.next_if(|object| object.key() == next);
                let past = history.next_if(|(key, _)| *key == next);
                let found = slot(object, next, past.map(|(_, past)| past), at);
                if found.is_some() {
                    return found;
                }
            }
        })
    }
}

/// The version of `key` at `at`, of its newest version and its history.
fn slot(
    newest: Option<&Arc<Object>>,
    key: &Key,
    past: Option<&Vec<Past>>,
    at: Revision,
) -> Option<Slot> {
    if let Some(object) = newest.filter(|object| object.revision() <= at) {
        return Some(Slot::Here(Arc::clone(object)));
    }
    let past = past?;
    let after = past.partition_point(|past| past.row.revision() <= at);
    let found = past.get(after.checked_sub(1)?)?;
    found.live.then(|| {
        Slot::Stored(Version {
            key: key.clone(),
            row: found.row,
        })
    })
}

#[cfg(test)]
mod tests;
