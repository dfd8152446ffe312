//! Strategic merge patches: JSON merge patches that know from the schema which lists are merged item
//! by item, and by which key.
//!
//! Directives: `$patch: replace|delete` in objects and list items, `$deleteFromPrimitiveList/<list>`,
//! `$setElementOrder/<list>`, `$retainKeys`.
//!
//! Not here: JSON patches and plain merge patches. Kinds without a published schema have no
//! strategic merge patch; that is for the caller to refuse.
//!
//! Invariant: the cost of a patch grows with the size of the object and the patch, and not with
//! their product. Lists are indexed by merge key. Only a patch that names an item of a list many
//! times merges the lists in that item many times; `MAX_MERGED` bounds that.

mod lists;

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::depth::{self, TooDeep};
use crate::node::{Node, PatchStrategy, Schema};
use lists::{MergedField, MergedList};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// All list merges of one patch together may have this many items. An object and a patch of 3 MiB
/// have fewer, unless the patch merges a list again and again.
const MAX_MERGED: usize = 3_000_000;

/// The patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    #[error("the patch must be an object")]
    NotAnObject,
    #[error("unknown patch type: {0} in map")]
    UnknownDirective(String),
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirective,
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoMergeKey { item: String, key: String },
    #[error("cannot merge lists without merge key for {0}")]
    UndeclaredMergeKey(String),
    #[error("list element types are not identical")]
    MixedTypes,
    #[error("lists of lists are not supported")]
    ListOfLists,
    #[error("no elements in any of the given slices")]
    NoElements,
    #[error("invalid patch format of retainKeys")]
    BadRetainKeys,
    #[error("invalid patch format of primitive list")]
    BadDeletionList,
    #[error("invalid patch format of setElementOrder list")]
    BadOrder,
    #[error("the order in the patch list {0} does not match its {SET_ORDER} list")]
    OrderMismatch(String),
    #[error(
        "the patch merges lists with more than {MAX_MERGED} items in total; name each list item once"
    )]
    TooManyItems,
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// The number of list items that may still be merged.
struct MergeBudget(usize);

/// `object` with `patch` merged into it.
pub fn apply(schema: &Schema, object: &Value, patch: &Value) -> Result<Value, StrategicError> {
    depth::check(patch)?;
    let patch = patch.as_object().ok_or(StrategicError::NotAnObject)?;
    let original = object.as_object().cloned().unwrap_or_default();
    let mut budget = MergeBudget(MAX_MERGED);
    merge_map(original, patch.clone(), Some(schema.root()), &mut budget).map(Value::Object)
}

// === impl MergeBudget ===

impl MergeBudget {
    fn spend(&mut self, items: usize) -> Result<(), StrategicError> {
        self.0 = self
            .0
            .checked_sub(items)
            .ok_or(StrategicError::TooManyItems)?;
        Ok(())
    }
}

fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    node: Option<Node<'_>>,
    budget: &mut MergeBudget,
) -> Result<Map<String, Value>, StrategicError> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::new()),
            Some(_) | None => Err(StrategicError::UnknownDirective(directive.to_string())),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    merge_ordered_lists(&mut original, &mut patch, node, budget)?;
    for (key, value) in patch {
        if key.starts_with(DELETE_FROM_LIST) {
            let field = suffix(&key, DELETE_FROM_LIST).ok_or(StrategicError::BadDeletionList)?;
            delete_from_list(&mut original, field, value, node, budget)?;
        } else {
            merge_field(&mut original, key, value, node, budget)?;
        }
    }
    Ok(original)
}

fn merge_field(
    original: &mut Map<String, Value>,
    key: String,
    value: Value,
    node: Option<Node<'_>>,
    budget: &mut MergeBudget,
) -> Result<(), StrategicError> {
    let child = node.and_then(|node| node.child(&key));
    let strategy = Strategy::of(child);
    let merged = match (original.remove(&key), value) {
        (_, Value::Null) => None,
        (Some(Value::Object(old)), Value::Object(new)) => match strategy.replace {
            true => Some(Value::Object(new)),
            false => Some(Value::Object(merge_map(old, new, child, budget)?)),
        },
        (Some(Value::Array(old)), Value::Array(new)) => match strategy.merge {
            true => {
                let list = MergedField {
                    name: &key,
                    node: child,
                    merge_key: strategy.merge_key,
                };
                Some(Value::Array(lists::merge(old, new, list, budget)?))
            }
            false => Some(Value::Array(new)),
        },
        (_, value) => without_directives(without_nulls(value)),
    };
    original.extend(merged.map(|merged| (key, merged)));
    Ok(())
}

fn delete_from_list(
    original: &mut Map<String, Value>,
    field: &str,
    value: Value,
    node: Option<Node<'_>>,
    budget: &mut MergeBudget,
) -> Result<(), StrategicError> {
    if value.is_null() {
        original.remove(field);
        return Ok(());
    }
    let (Some(Value::Array(old)), Value::Array(gone)) = (original.get_mut(field), value) else {
        return Ok(());
    };
    if lists::kind(old, &gone)? == Some(lists::ItemKind::Object) {
        let child = node.and_then(|node| node.child(field));
        let list = MergedField {
            name: field,
            node: child,
            merge_key: Strategy::of(child).merge_key,
        };
        *old = lists::merge(std::mem::take(old), gone, list, budget)?;
    } else {
        budget.spend(old.len() + gone.len())?;
        let gone = lists::Positions::new(&gone, None);
        old.retain(|item| gone.of(item).is_none());
    }
    Ok(())
}

/// How the schema wants one field merged.
#[derive(Clone, Copy, Default)]
struct Strategy<'a> {
    merge: bool,
    replace: bool,
    merge_key: Option<&'a str>,
}

// === impl Strategy ===

impl<'a> Strategy<'a> {
    fn of(node: Option<Node<'a>>) -> Self {
        match node.and_then(Node::patch_strategy) {
            None => Self::default(),
            Some(PatchStrategy {
                merge,
                retain_keys,
                merge_key,
            }) => Self {
                merge: *merge,
                replace: !merge && !retain_keys,
                merge_key: merge_key.as_deref(),
            },
        }
    }
}

/// What follows `prefix/`.
fn suffix<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    key.strip_prefix(prefix)?.strip_prefix('/')
}

/// Drops what `$retainKeys` does not list.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), StrategicError> {
    let Some(listed) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let listed = listed.as_array().ok_or(StrategicError::BadRetainKeys)?;
    let listed: HashSet<&str> = listed.iter().filter_map(Value::as_str).collect();
    let retained = |key: &str| listed.contains(key);
    let directive = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
    let stray =
        |(key, value): (&String, &Value)| !value.is_null() && !directive(key) && !retained(key);
    if patch.iter().any(stray) {
        return Err(StrategicError::BadRetainKeys);
    }
    original.retain(|key, _| retained(key));
    Ok(())
}

/// Merges the lists whose order the patch gives, and takes them out of the patch.
fn merge_ordered_lists(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    node: Option<Node<'_>>,
    budget: &mut MergeBudget,
) -> Result<(), StrategicError> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let field = suffix(&directive, SET_ORDER).ok_or(StrategicError::BadOrder)?;
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(StrategicError::BadOrder);
        };
        let list = |value: Option<Value>| match value {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => Err(StrategicError::BadOrder),
        };
        let new = list(patch.remove(field))?;
        let old = list(original.get(field).cloned())?;
        if old.is_none() && new.is_none() {
            continue;
        }
        let child = node.and_then(|node| node.child(field));
        let list = MergedList {
            old,
            new,
            order,
            strategy: Strategy::of(child),
            node: child,
            name: field,
        };
        original.insert(field.to_owned(), Value::Array(list.merge(budget)?));
    }
    Ok(())
}

/// A value that is taken over as a whole says nothing by nulls.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                entries
                    .map(|(key, value)| (key, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
    }
}

/// The value without objects that are directives; nothing if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(list) => Some(list.into_iter().filter_map(without_directives).collect()),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            Some(scalar)
        }
    }
}

#[cfg(test)]
mod tests;
