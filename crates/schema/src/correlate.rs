//! What a value was before: items of lists are told apart by their keys, fields by their names.
//!
//! Items of lists without keys have no past of their own.

use std::collections::HashMap;

use serde_json::Value;

use crate::node::{ListType, Node};

/// Lists that are longer are indexed: looking for every item in all others takes too long.
const SCANNED: usize = 8;

/// The items of a stored list, to be found by what they are called.
pub struct Keyed<'a> {
    keys: &'a [Box<str>],
    items: Items<'a>,
}

enum Items<'a> {
    Few(&'a [Value]),
    /// By the texts of their keys; the first of those that share them.
    Many(HashMap<String, &'a Value>),
}

// === impl Keyed ===

impl<'a> Keyed<'a> {
    /// Nothing when the items of `list` have no keys.
    pub fn new(list: Node<'a>, items: &'a [Value]) -> Option<Self> {
        let ListType::Map(keys) = list.list_type() else {
            return None;
        };
        let items = match items.len() {
            0..=SCANNED => Items::Few(items),
            _ => {
                let mut index = HashMap::with_capacity(items.len());
                for item in items {
                    if let Some(name) = name(item, keys) {
                        index.entry(name).or_insert(item);
                    }
                }
                Items::Many(index)
            }
        };
        Some(Self { keys, items })
    }

    /// The stored item that `item` was.
    pub fn get(&self, item: &Value) -> Option<&'a Value> {
        match &self.items {
            Items::Few(items) => items.iter().find(|old| {
                let same = |key: &str| match (old.get(key), item.get(key)) {
                    (Some(old), Some(new)) => old == new,
                    (None, _) | (_, None) => false,
                };
                old.is_object() && item.is_object() && self.keys.iter().all(|key| same(key))
            }),
            Items::Many(index) => index.get(&name(item, self.keys)?).copied(),
        }
    }
}

/// The values of an item's keys as one text.
fn name(item: &Value, keys: &[Box<str>]) -> Option<String> {
    let mut text = String::new();
    for key in keys {
        // No JSON has a line break outside of strings, where it is escaped.
        text.push_str(&item.as_object()?.get(&**key)?.to_string());
        text.push('\n');
    }
    Some(text)
}

impl Node<'_> {
    /// Whether a value and all in it is what it was. What cannot be correlated, because the schema
    /// does not describe it or it has no key, counts as changed.
    pub fn is_unchanged(self, new: &Value, old: &Value) -> bool {
        match (new, old) {
            (Value::Object(new), Value::Object(old)) => {
                let same = |(name, new): (&String, &Value)| match (self.child(name), old.get(name))
                {
                    (Some(child), Some(old)) => {
                        !child.flags().decoded && child.is_unchanged(new, old)
                    }
                    (None, _) | (_, None) => false,
                };
                new.len() == old.len() && new.iter().all(same)
            }
            (Value::Array(new), Value::Array(old)) => match (Keyed::new(self, old), self.items()) {
                (Some(keyed), Some(items)) => {
                    let same = |new: &Value| {
                        let was = keyed.get(new);
                        was.is_some_and(|old| items.is_unchanged(new, old))
                    };
                    new.len() == old.len() && new.iter().all(same)
                }
                (_, _) => new == old,
            },
            (new, old) => new == old,
        }
    }
}
