//! Maps: computed, or objects seen in JSON.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value as Json;

use super::{Text, Value, deeper, json};
use crate::decl::{Decl, Field, Hint, ObjectType};
use crate::fault::{Fault, Reason};

/// A map.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    Owned(Arc<OwnedMap<'a>>),
    Json(&'a serde_json::Map<String, Json>, &'a Decl),
}

/// A computed map: entries in the order in which they came.
#[derive(Debug, Default)]
pub struct OwnedMap<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
    /// Where each key is, once there are many.
    index: Option<HashMap<Key<'a>, usize>>,
    depth: u16,
}

/// A key as it is compared: numbers of any kind are equal when their values are. Texts are shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key<'a> {
    Bool(bool),
    Number(i128),
    String(KeyText<'a>),
}

/// A text that is compared as such, whoever has it.
#[derive(Clone, Debug)]
pub(super) struct KeyText<'a>(Text<'a>);

/// Fewer entries are searched one by one.
const INDEXED: usize = 8;
const JSON_DEPTH: u16 = 128;

// === impl KeyText ===

impl PartialEq for KeyText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for KeyText<'_> {}

impl Hash for KeyText<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}

// === impl Key ===

impl<'a> Key<'a> {
    /// Nothing for values that cannot be keys.
    pub(super) fn of(value: &Value<'a>) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(value) => Some(Self::Number(i128::from(*value))),
            Value::Uint(value) => Some(Self::Number(i128::from(*value))),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 1e20 => {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "integral and far below 2^127"
                )]
                let number = *value as i128;
                Some(Self::Number(number))
            }
            Value::String(text) => Some(Self::String(KeyText(text.clone()))),
            Value::Null
            | Value::Double(_)
            | Value::Bytes(_)
            | Value::Timestamp(_)
            | Value::Duration(_)
            | Value::Type(_)
            | Value::List(_)
            | Value::Map(_)
            | Value::Optional(_)
            | Value::Opaque(_)
            | Value::Host(_) => None,
        }
    }
}

/// Whether two keys are the same, without building [`Key`]s for strings.
fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => a == b,
        (None, None) => match (Key::of(a), Key::of(b)) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        },
        _ => false,
    }
}

// === impl OwnedMap ===

impl<'a> OwnedMap<'a> {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry. An error when the key is none, or is there already.
    pub fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> Result<(), Box<Fault>> {
        if self.position(&key).is_some() {
            return Err(Fault::failed(Reason::RepeatedKey(key_text(&key))));
        }
        self.push(key, value)
    }

    /// Adds an entry or replaces the one with the same key.
    pub fn set(&mut self, key: Value<'a>, value: Value<'a>) -> Result<(), Box<Fault>> {
        match self.position(&key) {
            Some(at) => {
                self.depth = self.depth.max(deeper(value.depth())?);
                self.entries[at].1 = value;
                Ok(())
            }
            None => self.push(key, value),
        }
    }

    fn push(&mut self, key: Value<'a>, value: Value<'a>) -> Result<(), Box<Fault>> {
        if !matches!(
            key,
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::String(_)
        ) {
            return Err(Fault::failed(Reason::BadKey(
                key.type_of().name().to_owned(),
            )));
        }
        self.depth = self.depth.max(deeper(value.depth())?);
        self.entries.push((key, value));
        let count = self.entries.len();
        if let Some(index) = &mut self.index {
            index.extend(Key::of(&self.entries[count - 1].0).map(|key| (key, count - 1)));
        } else if count > INDEXED {
            let keys = self.entries.iter().enumerate();
            self.index = Some(
                keys.filter_map(|(at, (key, _))| Some((Key::of(key)?, at)))
                    .collect(),
            );
        }
        Ok(())
    }

    fn position(&self, key: &Value<'_>) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(&Key::of(key)?).copied(),
            None => self.entries.iter().position(|(one, _)| same(one, key)),
        }
    }

    pub fn get(&self, key: &Value<'_>) -> Option<&Value<'a>> {
        self.position(key).map(|at| &self.entries[at].1)
    }

    pub fn entries(&self) -> &[(Value<'a>, Value<'a>)] {
        &self.entries
    }
}

// === impl Map ===

impl<'a> Map<'a> {
    pub fn owned(map: OwnedMap<'a>) -> Self {
        Self::Owned(Arc::new(map))
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Owned(map) => map.entries.len(),
            Self::Json(map, _) => map.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key. In an object, names are escaped and null is absence.
    pub fn get(&self, key: &Value<'_>) -> Result<Option<Value<'a>>, Box<Fault>> {
        match self {
            Self::Owned(map) => Ok(map.get(key).cloned()),
            Self::Json(..) => {
                if let Value::String(name) = key {
                    self.field(name.as_str())
                } else {
                    Ok(None)
                }
            }
        }
    }

    /// Like [`Self::get`] for a key that is a string.
    pub fn field(&self, name: &str) -> Result<Option<Value<'a>>, Box<Fault>> {
        let (map, decl) = match self {
            Self::Owned(map) => return Ok(map.get(&Value::borrowed(name)).cloned()),
            Self::Json(map, decl) => (*map, *decl),
        };
        let found = Self::entry(map, decl, name);
        match found {
            Some((value, decl)) => json::view(value, decl).map(Some),
            None => Ok(None),
        }
    }

    /// A field of JSON, and its declaration.
    pub(crate) fn entry(
        map: &'a serde_json::Map<String, Json>,
        decl: &'a Decl,
        name: &str,
    ) -> Option<(&'a Json, &'a Decl)> {
        Self::found(map, (decl, name), |object| object.field(name))
    }

    /// The same, where it was found last time if it is there again.
    pub(crate) fn hinted(
        map: &'a serde_json::Map<String, Json>,
        decl: &'a Decl,
        (name, hint): (&str, &Hint),
    ) -> Option<(&'a Json, &'a Decl)> {
        Self::found(map, (decl, name), |object| object.hinted(name, hint))
    }

    #[inline]
    fn found(
        map: &'a serde_json::Map<String, Json>,
        (decl, name): (&'a Decl, &str),
        field: impl FnOnce(&'a ObjectType) -> Option<&'a Field>,
    ) -> Option<(&'a Json, &'a Decl)> {
        let Some(object) = decl.object() else {
            return lookup(map, name).map(|value| (value, decl.inner()));
        };
        let found = match field(object) {
            Some(field) => lookup(map, field.key()).map(|value| (value, field.decl())),
            None if object.is_open() => lookup(map, name).map(|value| (value, decl.inner())),
            None => None,
        };
        found.filter(|(value, _)| !value.is_null())
    }

    /// The keys, in order; of an object those that can be read.
    pub fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Owned(map) => map.entries.iter().map(|(key, _)| key.clone()).collect(),
            Self::Json(map, decl) => match decl.object() {
                Some(object) => {
                    let fields = object.fields().iter();
                    fields
                        .filter(|field| map.get(field.key()).is_some_and(|one| !one.is_null()))
                        .map(|field| Value::borrowed(field.name()))
                        .collect()
                }
                None => map.keys().map(|key| Value::borrowed(key)).collect(),
            },
        }
    }

    pub(crate) fn depth(&self) -> u16 {
        match self {
            Self::Owned(map) => map.depth.max(1),
            Self::Json(..) => JSON_DEPTH,
        }
    }

    pub(crate) fn decl(&self) -> Option<&'a Decl> {
        match self {
            Self::Owned(_) => None,
            Self::Json(_, decl) => Some(decl),
        }
    }
}

/// The value of a key. A small map is one node of its tree: looking at the lengths of its keys
/// first takes half the time of comparing them.
fn lookup<'a>(map: &'a serde_json::Map<String, Json>, name: &str) -> Option<&'a Json> {
    const NODE: usize = 11;
    if map.len() > NODE {
        return map.get(name);
    }
    map.iter()
        .find(|(key, _)| is(key, name))
        .map(|(_, value)| value)
}

/// Whether two names are the same. Names are short: their ends tell, and no function is called.
#[inline]
pub(crate) fn is(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        4..=8 => a.first_chunk::<4>() == b.first_chunk() && a.last_chunk::<4>() == b.last_chunk(),
        9..=16 => a.first_chunk::<8>() == b.first_chunk() && a.last_chunk::<8>() == b.last_chunk(),
        _ => a == b,
    }
}

/// A key, for messages.
pub(crate) fn key_text(key: &Value<'_>) -> String {
    match key {
        Value::String(text) => text.as_str().to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        other @ (Value::Null
        | Value::Double(_)
        | Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Optional(_)
        | Value::Opaque(_)
        | Value::Host(_)) => other.type_of().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::is;

    #[test]
    fn names_are_the_same_when_all_of_them_is() {
        for length in 0..40 {
            let name = "abcdefghijklmnopqrstuvwxyz0123456789ABCD"[..length].to_owned();
            assert!(is(&name, &name.clone()));
            assert!(!is(&name, &format!("{name}x")));
            for at in 0..length {
                let mut other = name.clone();
                other.replace_range(at..=at, "_");
                assert!(!is(&name, &other), "{name} {other}");
            }
        }
    }
}
