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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Additional, Kind, ListType, MapType};

    #[test]
    fn references_may_be_shared_changed_and_recursive() {
        let props = json!({"type": "object", "properties": {
            "not": {"$ref": "#/components/schemas/Props"},
            "properties": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Props"}},
            "selector": {"allOf": [{"$ref": "#/components/schemas/Selector"}], "x-kubernetes-map-type": "atomic", "default": {}},
            "plain": {"$ref": "#/components/schemas/Selector"},
            "ports": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "port"},
        }});
        let selector = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let alias = json!({"$ref": "#/components/schemas/Selector"});
        let schemas = [
            ("Props", &props),
            ("Selector", &selector),
            ("Alias", &alias),
        ];
        let definitions = Definitions::from_openapi(schemas).unwrap();
        assert_eq!(
            definitions.names().collect::<Vec<_>>(),
            ["Alias", "Props", "Selector"]
        );
        let schema = definitions.get("Props").unwrap();
        let root = schema.root();
        assert_eq!(
            root.at("not.not.properties.x.not.selector.a")
                .unwrap()
                .kind(),
            Kind::String
        );
        assert_eq!(root.at("selector").unwrap().map_type(), MapType::Atomic);
        assert_eq!(root.at("plain").unwrap().map_type(), MapType::Granular);
        assert_eq!(root.at("selector").unwrap().default(), Some(&json!({})));
        assert_eq!(
            root.at("ports").unwrap().list_type(),
            ListType::Map(&["port".into()])
        );
        assert!(matches!(
            root.at("properties").unwrap().additional(),
            Additional::Schema(_)
        ));
        assert_eq!(root.at("ports[0]").unwrap().kind(), Kind::String);
        assert!(root.at("ports.x").is_none() && root.at("nope").is_none());
        assert!(
            definitions
                .get("Alias")
                .unwrap()
                .root()
                .property("a")
                .is_some()
        );
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        let error = |schema: Value| {
            Definitions::from_openapi([("A", &schema)])
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(
            error(json!({"properties": {"x": {"$ref": "#/components/schemas/B"}}})).unwrap(),
            r#"cannot read the schema "A": reference to the undefined schema "B""#
        );
        assert_eq!(
            error(json!({"$ref": "#/components/schemas/A"})).unwrap(),
            r#"cannot read the schema "*": reference to itself: "A""#
        );
    }
}
