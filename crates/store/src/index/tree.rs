//! The newest versions of one collection, in key order.
//!
//! A two-level sorted array of shared chunks rather than a `BTreeMap`, for
//! three things that one cannot do: a snapshot is one reference count, so that
//! a reader never holds a lock while it scans; the rank of a key is cheap, so
//! that a page can say how many objects follow; and an entry costs little more
//! than its pointer. A writer copies only the chunks that a snapshot shares.
//!
//! Invariants: no chunk is empty or longer than [`CHUNK`]; keys ascend within
//! and across chunks; `len` is the sum of the chunks.

use std::{ops::Bound, sync::Arc};

use crate::{
    key::{Collection, Key},
    list::ReadError,
    object::Object,
};

/// Large enough that the outer array stays small, small enough that copying a
/// shared chunk is a matter of microseconds.
const CHUNK: usize = 256;

#[derive(Clone, Default)]
pub(crate) struct Tree {
    chunks: Vec<Arc<Vec<Arc<Object>>>>,
    len: usize,
}

/// A part of a collection: a namespace or all of it, after a key or from the
/// start.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    start: Bound<Box<str>>,
    end: Box<str>,
}

/// A place between entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    chunk: usize,
    item: usize,
}

/// The objects of a [`Range`], in key order.
pub(crate) struct Items<'a> {
    tree: &'a Tree,
    next: Place,
    left: usize,
}

// === impl Tree ===

impl Tree {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Object>> {
        let place = self.seek(Bound::Included(key));
        let found = self.at(place)?;
        (found.key().as_str() == key).then_some(found)
    }

    /// Adds an object, or replaces and returns the one with its key.
    pub(crate) fn insert(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let key = object.key().as_str();
        let place = self.seek(Bound::Included(key));
        if self
            .at(place)
            .is_some_and(|found| found.key().as_str() == key)
        {
            let chunk = Arc::make_mut(&mut self.chunks[place.chunk]);
            return Some(std::mem::replace(&mut chunk[place.item], object));
        }
        self.len += 1;
        self.insert_new(place, object);
        None
    }

    fn insert_new(&mut self, place: Place, object: Arc<Object>) {
        // A place at the start of a chunk is as well the end of the one before,
        // and appending there keeps chunks full when keys arrive in order.
        let (at, item) = match place.chunk.checked_sub(1) {
            Some(before) if place.item == 0 => (before, self.chunks[before].len()),
            _ => (place.chunk, place.item),
        };
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(Arc::new(vec![object]));
            return;
        };
        if chunk.len() < CHUNK {
            Arc::make_mut(chunk).insert(item, object);
            return;
        }
        if item == CHUNK {
            self.chunks.insert(at + 1, Arc::new(vec![object]));
            return;
        }
        let chunk = Arc::make_mut(chunk);
        let mut upper = chunk.split_off(CHUNK / 2);
        if item <= CHUNK / 2 {
            chunk.insert(item, object);
        } else {
            upper.insert(item - CHUNK / 2, object);
        }
        self.chunks.insert(at + 1, Arc::new(upper));
    }

    /// Removes and returns the object of a key.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Object>> {
        let place = self.seek(Bound::Included(key));
        self.at(place).filter(|found| found.key().as_str() == key)?;
        self.len -= 1;
        let chunk = Arc::make_mut(&mut self.chunks[place.chunk]);
        let removed = chunk.remove(place.item);
        if chunk.is_empty() {
            self.chunks.remove(place.chunk);
        } else if chunk.len() < CHUNK / 4 {
            self.merge(place.chunk);
        }
        Some(removed)
    }

    /// Joins a small chunk with the next one if both fit into half a chunk, so
    /// that neither deletions nor alternation leave many small ones.
    fn merge(&mut self, at: usize) {
        let Some(next) = self.chunks.get(at + 1) else {
            return;
        };
        if self.chunks[at].len() + next.len() > CHUNK / 2 {
            return;
        }
        let next = self.chunks.remove(at + 1);
        Arc::make_mut(&mut self.chunks[at]).extend(next.iter().cloned());
    }

    pub(crate) fn range(&self, range: &Range) -> Items<'_> {
        let start = self.seek(range.start());
        let end = self.seek(Bound::Included(&range.end));
        Items {
            tree: self,
            next: start,
            left: self.rank(end).saturating_sub(self.rank(start)),
        }
    }

    /// The first place whose key is not below the bound.
    fn seek(&self, bound: Bound<&str>) -> Place {
        let below = |object: &Arc<Object>| match bound {
            Bound::Included(key) => object.key().as_str() < key,
            Bound::Excluded(key) => object.key().as_str() <= key,
            Bound::Unbounded => false,
        };
        let chunk = self
            .chunks
            .partition_point(|chunk| chunk.last().is_some_and(below));
        let item = self
            .chunks
            .get(chunk)
            .map_or(0, |chunk| chunk.partition_point(below));
        Place { chunk, item }
    }

    fn rank(&self, place: Place) -> usize {
        let before = self.chunks[..place.chunk].iter();
        before.map(|chunk| chunk.len()).sum::<usize>() + place.item
    }

    fn at(&self, place: Place) -> Option<&Arc<Object>> {
        self.chunks.get(place.chunk)?.get(place.item)
    }
}

// === impl Range ===

impl Range {
    /// A namespace of a collection or all of it, after a key or from the start.
    pub(crate) fn new(
        collection: &Collection,
        namespace: Option<&str>,
        after: Option<&Key>,
    ) -> Result<Self, ReadError> {
        let prefix = collection.prefix_of(namespace);
        let mut start = Bound::Included(format!("{prefix}\0").into_boxed_str());
        if let Some(after) = after {
            if !collection.contains(after) {
                let after = after.clone();
                return Err(ReadError::ForeignKey { after });
            }
            start = later(start, after);
        }
        // The separator is NUL, so this is the first text after all keys that
        // have the prefix.
        let end = format!("{prefix}\u{1}").into_boxed_str();
        Ok(Self { start, end })
    }

    pub(crate) fn start(&self) -> Bound<&str> {
        self.start.as_ref().map(|start| &**start)
    }

    pub(crate) fn end(&self) -> Bound<&str> {
        // A start past the end is legal in a query, but not in a `BTreeMap`.
        match &self.start {
            Bound::Included(start) | Bound::Excluded(start) if **start >= *self.end => {
                Bound::Included(start)
            }
            Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => {
                Bound::Excluded(&self.end)
            }
        }
    }
}

fn later(start: Bound<Box<str>>, after: &Key) -> Bound<Box<str>> {
    match &start {
        Bound::Included(first) if **first > *after.as_str() => start,
        Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => {
            Bound::Excluded(after.as_str().into())
        }
    }
}

// === impl Items ===

impl<'a> Iterator for Items<'a> {
    type Item = &'a Arc<Object>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let chunk = self.tree.chunks.get(self.next.chunk)?;
        let found = chunk.get(self.next.item)?;
        self.next.item += 1;
        if self.next.item == chunk.len() {
            self.next = Place {
                chunk: self.next.chunk + 1,
                item: 0,
            };
        }
        Some(found)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Items<'_> {}
