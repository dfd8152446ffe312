//! Sets of fields, and their wire form `FieldsV1`.
//!
//! A [`Set`] is a tree of [`PathElement`]s; a path is in the set when the tree's entry at its end
//! is a member. Parents of members are not members unless they say so.
//!
//! Not here: which fields an object has (`typed`) and who owns them (`managed`).
//!
//! Invariants: entries are sorted and unique; an entry that is no member has something below it.

mod element;
mod json;
mod matcher;

use std::cmp::Ordering;
use std::fmt;

pub use element::{Key, PathElement};
pub use json::ParseError;
pub use matcher::{Filter, Matcher};

/// A set of fields of an object.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Set {
    entries: Vec<Entry>,
}

/// One step of a path, whether it ends a path of the set, and what is below it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) element: PathElement,
    pub(crate) member: bool,
    pub(crate) children: Set,
}

/// A path to a field: `.spec.ports[name="http"].port`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(Vec<PathElement>);

/// What is below an entry when there is no such entry.
static EMPTY: Set = Set {
    entries: Vec::new(),
};

// === impl Set ===

impl Set {
    /// The empty set.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// The set of the given paths of named fields.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(path.iter().map(|name| PathElement::field(name)));
        }
        set
    }

    /// Adds a path. Its parents are not added.
    pub fn insert(&mut self, path: impl IntoIterator<Item = PathElement>) {
        let mut path = path.into_iter().peekable();
        let mut set = self;
        while let Some(element) = path.next() {
            let last = path.peek().is_none();
            let entry = set.entry(element);
            entry.member |= last;
            set = &mut entry.children;
        }
    }

    fn entry(&mut self, element: PathElement) -> &mut Entry {
        let index = match self.position(&element) {
            Ok(index) => index,
            Err(index) => {
                self.entries.insert(
                    index,
                    Entry {
                        element,
                        member: false,
                        children: Self::new(),
                    },
                );
                index
            }
        };
        &mut self.entries[index]
    }

    /// Adds an entry whose element is not in the set yet; cheap when it is the greatest. Entries
    /// without content are left out.
    pub(crate) fn put(&mut self, element: PathElement, member: bool, children: Self) {
        if !member && children.is_empty() {
            return;
        }
        let entry = Entry {
            element,
            member,
            children,
        };
        if self
            .entries
            .last()
            .is_none_or(|last| last.element < entry.element)
        {
            self.entries.push(entry);
            return;
        }
        match self.position(&entry.element) {
            Err(index) => self.entries.insert(index, entry),
            Ok(index) => {
                let old = &mut self.entries[index];
                old.member |= entry.member;
                old.children = old.children.union(&entry.children);
            }
        }
    }

    fn position(&self, element: &PathElement) -> Result<usize, usize> {
        self.entries
            .binary_search_by(|entry| entry.element.cmp(element))
    }

    pub(crate) fn get(&self, element: &PathElement) -> Option<&Entry> {
        self.position(element)
            .ok()
            .map(|index| &self.entries[index])
    }

    /// The set of the first `count` entries.
    pub(crate) fn first(&self, count: usize) -> Self {
        Self {
            entries: self.entries[..count].to_vec(),
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.entries
            .iter()
            .map(|entry| usize::from(entry.member) + entry.children.len())
            .sum()
    }

    /// Whether `path` is a member.
    pub fn contains(&self, path: &FieldPath) -> bool {
        let Some((last, parents)) = path.0.split_last() else {
            return false;
        };
        let set = parents
            .iter()
            .try_fold(self, |set, element| Some(&set.get(element)?.children));
        set.and_then(|set| set.get(last))
            .is_some_and(|entry| entry.member)
    }

    /// Whether the field directly in the root is a member.
    pub fn has(&self, element: &PathElement) -> bool {
        self.get(element).is_some_and(|entry| entry.member)
    }

    /// What is below `element`, with paths that begin there.
    pub fn with_prefix(&self, element: &PathElement) -> &Self {
        self.get(element).map_or(&EMPTY, |entry| &entry.children)
    }

    /// The members without those that have members below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let mut out = Self::new();
        for entry in &self.entries {
            let member = entry.member && entry.children.is_empty();
            out.put(entry.element.clone(), member, entry.children.leaves());
        }
        out
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.merge(other, |pair| match pair {
            Pair::Left(entry) | Pair::Right(entry) => Some(entry.clone()),
            Pair::Both(a, b) => Some(Entry {
                element: a.element.clone(),
                member: a.member || b.member,
                children: a.children.union(&b.children),
            }),
        })
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.merge(other, |pair| match pair {
            Pair::Left(_) | Pair::Right(_) => None,
            Pair::Both(a, b) => Some(Entry {
                element: a.element.clone(),
                member: a.member && b.member,
                children: a.children.intersection(&b.children),
            }),
        })
    }

    /// What is in this set and not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        self.merge(other, |pair| match pair {
            Pair::Left(entry) => Some(entry.clone()),
            Pair::Right(_) => None,
            Pair::Both(a, b) => Some(Entry {
                element: a.element.clone(),
                member: a.member && !b.member,
                children: a.children.difference(&b.children),
            }),
        })
    }

    /// Takes out what is in the other set, like [`Self::difference`] but in place. For other sets
    /// that are much smaller than this one.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for gone in &other.entries {
            let Ok(index) = self.position(&gone.element) else {
                continue;
            };
            let entry = &mut self.entries[index];
            entry.member &= !gone.member;
            entry.children.subtract(&gone.children);
            if !entry.member && entry.children.is_empty() {
                self.entries.remove(index);
            }
        }
    }

    /// What is in this set and not in the other, nor below a member of the other.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        self.merge(other, |pair| match pair {
            Pair::Left(entry) => Some(entry.clone()),
            Pair::Right(_) => None,
            Pair::Both(_, b) if b.member => None,
            Pair::Both(a, b) => Some(Entry {
                element: a.element.clone(),
                member: a.member,
                children: a.children.recursive_difference(&b.children),
            }),
        })
    }

    /// Whether the sets have a member in common.
    pub fn intersects(&self, other: &Self) -> bool {
        // The smaller side leads, each of its entries is looked up.
        let (small, large) = match self.entries.len() <= other.entries.len() {
            true => (self, other),
            false => (other, self),
        };
        small.entries.iter().any(|a| {
            large
                .get(&a.element)
                .is_some_and(|b| (a.member && b.member) || a.children.intersects(&b.children))
        })
    }

    fn merge(&self, other: &Self, mut choose: impl FnMut(Pair<'_>) -> Option<Entry>) -> Self {
        let mut out = Vec::with_capacity(self.entries.len());
        let (mut left, mut right) = (self.entries.as_slice(), other.entries.as_slice());
        loop {
            let order = match (left, right) {
                ([], []) => break,
                ([_, ..], []) => Ordering::Less,
                ([], [_, ..]) => Ordering::Greater,
                ([a, ..], [b, ..]) => a.element.cmp(&b.element),
            };
            let pair = match order {
                Ordering::Less => Pair::Left(&left[0]),
                Ordering::Equal => Pair::Both(&left[0], &right[0]),
                Ordering::Greater => Pair::Right(&right[0]),
            };
            let chosen = choose(pair);
            out.extend(chosen.filter(|entry| entry.member || !entry.children.is_empty()));
            left = &left[usize::from(order.is_le())..];
            right = &right[usize::from(order.is_ge())..];
        }
        Self { entries: out }
    }

    /// All members, parents before children.
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<FieldPath>) {
        for entry in self.entries.iter().filter(|entry| entry.member) {
            let path = prefix.iter().chain([&entry.element]).cloned().collect();
            out.push(FieldPath(path));
        }
        for entry in self
            .entries
            .iter()
            .filter(|entry| !entry.children.is_empty())
        {
            prefix.push(entry.element.clone());
            entry.children.collect(prefix, out);
            prefix.pop();
        }
    }
}

enum Pair<'a> {
    Left(&'a Entry),
    Both(&'a Entry, &'a Entry),
    Right(&'a Entry),
}

impl FromIterator<FieldPath> for Set {
    fn from_iter<I: IntoIterator<Item = FieldPath>>(paths: I) -> Self {
        let mut set = Self::new();
        paths.into_iter().for_each(|path| set.insert(path.0));
        set
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.paths().iter().map(ToString::to_string))
            .finish()
    }
}

// === impl FieldPath ===

impl FieldPath {
    /// The steps, from the root.
    pub fn elements(&self) -> &[PathElement] {
        &self.0
    }
}

impl FromIterator<PathElement> for FieldPath {
    fn from_iter<I: IntoIterator<Item = PathElement>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}

#[cfg(test)]
mod tests;
