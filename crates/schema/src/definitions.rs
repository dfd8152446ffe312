//! The schemas of built-in kinds, from the definitions that Kubernetes publishes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::node::{Arena, NodeId, Schema};
use crate::parse::{ReadError, Reader};

/// Named schemas that refer to each other, in one arena.
#[derive(Clone)]
pub struct Definitions {
    arena: Arc<Arena>,
    names: Arc<BTreeMap<Box<str>, NodeId>>,
}

/// The definitions cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the schema {name:?}: {reason}")]
pub struct DefinitionsError {
    name: String,
    reason: ReadError,
}

// === impl Definitions ===

impl Definitions {
    /// From the `components.schemas` of OpenAPI v3 documents. Where a name occurs twice, the last
    /// schema counts.
    pub fn from_openapi<'v>(
        schemas: impl IntoIterator<Item = (&'v str, &'v Value)>,
    ) -> Result<Self, DefinitionsError> {
        let schemas: BTreeMap<&str, &Value> = schemas.into_iter().collect();
        let mut reader = Reader::new();
        let failed = |name: &str| {
            let name = name.to_owned();
            move |reason| DefinitionsError { name, reason }
        };
        for name in schemas.keys() {
            reader.reserve(name).map_err(failed(name))?;
        }
        let mut names = BTreeMap::new();
        for (name, schema) in &schemas {
            let id = reader.define(name, schema).map_err(failed(name))?;
            names.insert(Box::from(*name), id);
        }
        reader.resolve().map_err(failed("*"))?;
        Ok(Self {
            arena: Arc::new(reader.finish()),
            names: Arc::new(names),
        })
    }

    /// The schema `name`, such as `io.k8s.api.core.v1.ConfigMap`.
    pub fn get(&self, name: &str) -> Option<Schema> {
        let id = *self.names.get(name)?;
        Some(Schema::new(self.arena.clone(), id))
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }
}
