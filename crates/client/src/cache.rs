//! What a feed has told, kept by key; a new beginning replaces the old picture at once, and what
//! vanished meanwhile is found.
//!
//! Invariant: readers never see half a picture: nothing before the first is complete, and the old
//! one until the next is.

use std::collections::BTreeMap;

use crate::feed::Event;
use crate::header::Item;
use crate::resource::ObjectKey;

/// Values made of objects, by key.
#[derive(Debug)]
pub struct Cache<V> {
    current: BTreeMap<ObjectKey, V>,
    /// The picture that is being told, until it is complete.
    next: Option<BTreeMap<ObjectKey, V>>,
    synced: bool,
}

// === impl Cache ===

impl<V: PartialEq> Cache<V> {
    /// Nothing, yet.
    pub fn new() -> Self {
        Self {
            current: BTreeMap::new(),
            next: None,
            synced: false,
        }
    }

    /// Takes an event, and says which keys have another value now, or none.
    ///
    /// `convert` makes the value to keep; `None` is an object that is not of interest.
    pub fn apply(
        &mut self,
        event: Event,
        convert: impl FnOnce(Item) -> Option<V>,
    ) -> Vec<ObjectKey> {
        match event {
            Event::Restarted => {
                self.next = Some(BTreeMap::new());
                Vec::new()
            }
            Event::Applied(item) => {
                let key = item.header.key();
                let value = convert(item);
                self.set(key, value)
            }
            Event::Deleted(item) => self.set(item.header.key(), None),
            Event::InSync => {
                self.synced = true;
                match self.next.take() {
                    Some(next) => self.swap(next),
                    None => Vec::new(),
                }
            }
        }
    }

    fn set(&mut self, key: ObjectKey, value: Option<V>) -> Vec<ObjectKey> {
        let (map, visible) = match &mut self.next {
            Some(next) => (next, false),
            None => (&mut self.current, true),
        };
        let changed = map.get(&key) != value.as_ref();
        match value {
            Some(value) => map.insert(key.clone(), value),
            None => map.remove(&key),
        };
        match visible && changed {
            true => vec![key],
            false => Vec::new(),
        }
    }

    fn swap(&mut self, next: BTreeMap<ObjectKey, V>) -> Vec<ObjectKey> {
        let before = std::mem::replace(&mut self.current, next);
        let other =
            |(key, value): (&ObjectKey, &V)| (before.get(key) != Some(value)).then(|| key.clone());
        let mut changed: Vec<_> = self.current.iter().filter_map(other).collect();
        let gone = before
            .into_keys()
            .filter(|key| !self.current.contains_key(key));
        changed.extend(gone);
        changed
    }
}

impl<V> Cache<V> {
    /// Whether there is a complete picture.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// The value of a key.
    pub fn get(&self, key: &ObjectKey) -> Option<&V> {
        self.current.get(key)
    }

    /// All values, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &V)> {
        self.current.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.current.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.current.is_empty()
    }
}

impl<V: PartialEq> Default for Cache<V> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn item(name: &str, version: &str) -> Item {
        let text = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
        Item::new(Bytes::from(text)).expect("an object")
    }

    /// Each word is an event: `name=version`, `-name`, `restart` or `sync`; shown is what each
    /// one changed, and what the cache holds in the end.
    fn check(events: &str, changes: &str, content: &str) {
        let mut cache = Cache::new();
        let mut changed = Vec::new();
        for word in events.split_whitespace() {
            let event = match (word, word.split_once('='), word.strip_prefix('-')) {
                ("restart", ..) => Event::Restarted,
                ("sync", ..) => Event::InSync,
                (_, Some((name, version)), _) => Event::Applied(item(name, version)),
                (_, _, Some(name)) => Event::Deleted(item(name, "")),
                (other, ..) => panic!("{other}"),
            };
            let keys = cache.apply(event, |item| {
                let version = item.header.resource_version;
                (version != "none").then_some(version)
            });
            let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
            changed.push(match keys.as_slice() {
                [] => ".".to_owned(),
                keys => keys.join(","),
            });
        }
        assert_eq!(changed.join(" "), changes, "{events}");
        let held: Vec<_> = cache
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(held.join(" "), content, "{events}");
    }

    #[test]
    fn changes_and_vanished_objects_are_found() {
        check("restart a=1 b=1", ". . .", "");
        check("restart a=1 b=1 sync", ". . . a,b", "a=1 b=1");
        check(
            "restart a=1 sync a=1 a=2 b=3 -a -a",
            ". . a . a b a .",
            "b=3",
        );
        check(
            "restart a=1 b=1 sync restart b=2",
            ". . . a,b . .",
            "a=1 b=1",
        );
        check(
            "restart a=1 b=1 c=1 sync restart b=2 c=1 d=1 sync",
            ". . . . a,b,c . . . . b,d,a",
            "b=2 c=1 d=1",
        );
        check(
            "restart a=1 restart b=1 -b c=1 sync",
            ". . . . . . c",
            "c=1",
        );
        check("restart a=1 sync a=none b=none", ". . a a .", "");
    }
}
