//! Lists: computed, seen in JSON, or kept by the caller.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Value, deeper, json};
use crate::decl::Decl;
use crate::fault::Fault;
use crate::host::HostList;

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    Owned(Arc<Items<'a>>),
    Json(&'a Vec<Json>, &'a Decl),
    Host(&'a dyn HostList),
}

/// A computed list.
#[derive(Debug)]
pub struct Items<'a> {
    values: Vec<Value<'a>>,
    depth: u16,
}

/// JSON itself is at most this deep: its parser sees to it.
const JSON_DEPTH: u16 = 128;

// === impl List ===

impl<'a> List<'a> {
    /// A list; an error when it would be nested too deeply.
    pub fn new(values: Vec<Value<'a>>) -> Result<Self, Box<Fault>> {
        let depth = values.iter().map(Value::depth).max().unwrap_or(0);
        let depth = deeper(depth)?;
        Ok(Self::Owned(Arc::new(Items { values, depth })))
    }

    /// A list whose items are no containers.
    pub(crate) fn flat(values: Vec<Value<'a>>) -> Self {
        Self::Owned(Arc::new(Items { values, depth: 1 }))
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Owned(items) => items.values.len(),
            Self::Json(items, _) => items.len(),
            Self::Host(host) => host.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at `index`, which must be below the length.
    pub fn get(&self, index: usize) -> Result<Option<Value<'a>>, Box<Fault>> {
        match self {
            Self::Owned(items) => Ok(items.values.get(index).cloned()),
            Self::Json(items, decl) => match items.get(index) {
                Some(item) => json::view(item, decl.inner()).map(Some),
                None => Ok(None),
            },
            Self::Host(host) => Ok(host.get(index)),
        }
    }

    /// The items, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, Box<Fault>>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index).transpose())
    }

    /// All items.
    pub fn to_vec(&self) -> Result<Vec<Value<'a>>, Box<Fault>> {
        match self {
            Self::Owned(items) => Ok(items.values.clone()),
            Self::Json(..) | Self::Host(_) => self.iter().collect(),
        }
    }

    pub(crate) fn depth(&self) -> u16 {
        match self {
            Self::Owned(items) => items.depth,
            Self::Json(..) => JSON_DEPTH,
            Self::Host(_) => 1,
        }
    }
}
