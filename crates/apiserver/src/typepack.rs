//! Kubernetes' own kinds as data: names, schemas, protobuf messages, defaults, Table columns.
//!
//! The data file is made by `cargo xtask typepack` from one published release and is compiled in.
//! What Kubernetes keeps in code, and no document says, is code here too, as pure functions on
//! JSON: defaults that depend on other fields ([`defaults`]) and the cells of Tables ([`cells`]).
//!
//! Not here: serving, storing or validating anything; whether a kind is served is the server's
//! choice. The definitions' `default`s are mostly zero values of Go structs; a server that applied
//! them like those of a CRD would hide missing fields, so built-in kinds are defaulted by
//! [`defaults::apply`] alone.
//!
//! Invariant: the committed pack parses and is consistent, which a test asserts; [`load`] relies
//! on it.

pub mod cells;
pub mod defaults;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use deltaplane_schema::{Definitions, Schema};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protobuf::{InvalidTables, RawField, RawTables, Tables};

/// Everything the pack holds. Borrowed from the binary: loading copies little.
#[derive(Debug)]
pub struct Pack {
    release: &'static str,
    groups: Vec<Group>,
    kinds: Vec<Kind>,
    definitions: BTreeMap<&'static str, &'static RawValue>,
    tables: Tables,
    rules: defaults::Rules,
}

/// A group and its versions.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "(&'static str, Vec<&'static str>)")]
pub struct Group {
    /// Empty for the core group.
    pub name: &'static str,
    /// The preferred one first.
    pub versions: Vec<&'static str>,
}

/// One kind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    /// Such as `v1`.
    pub version: &'static str,
    /// Such as `Deployment`.
    pub kind: &'static str,
    /// Such as `deployments`.
    pub plural: &'static str,
    /// Such as `deployment`.
    pub singular: &'static str,
    /// Such as `deploy`.
    #[serde(default, borrow)]
    pub short_names: Vec<&'static str>,
    /// Such as `all`.
    #[serde(default, borrow)]
    pub categories: Vec<&'static str>,
    /// Do objects live in namespaces?
    pub namespaced: bool,
    /// What the real server lets one do with it.
    #[serde(borrow)]
    pub verbs: Vec<&'static str>,
    /// The name of its OpenAPI definition.
    pub definition: &'static str,
    /// The name of the definition of its list; empty for kinds that cannot be listed.
    #[serde(default)]
    pub list_definition: &'static str,
    /// As which kind it is stored; none for reviews and the like.
    #[serde(default)]
    pub stored: Option<Gvk>,
    /// Discovery's `storageVersionHash`; empty when nothing is stored.
    #[serde(default)]
    pub storage_hash: &'static str,
    /// What the real server serves below an object.
    #[serde(default)]
    pub subresources: Vec<Subresource>,
    /// Table columns; empty for kinds that cannot be listed.
    #[serde(default)]
    pub columns: Vec<Column>,
}

/// Group, version and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "(&'static str, &'static str, &'static str)")]
pub struct Gvk {
    /// Empty for the core group.
    pub group: &'static str,
    /// Such as `v1`.
    pub version: &'static str,
    /// Such as `Event`.
    pub kind: &'static str,
}

/// Something below an object, such as `status` or `scale`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subresource {
    /// Such as `scale`.
    pub name: &'static str,
    /// The group of what is sent and answered.
    pub group: &'static str,
    /// The version of what is sent and answered.
    pub version: &'static str,
    /// The kind of what is sent and answered.
    pub kind: &'static str,
    /// What the real server lets one do with it.
    #[serde(borrow)]
    pub verbs: Vec<&'static str>,
}

/// One column of a Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "(&'static str, &'static str, &'static str, i32)")]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// An OpenAPI type.
    pub r#type: &'static str,
    /// An OpenAPI format; `name` marks the column that identifies the row.
    pub format: &'static str,
    /// 0 is always shown, more is shown in wide output.
    pub priority: i32,
}

/// The committed data is broken.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// It is not the JSON that we write.
    #[error("failed to parse the type pack")]
    Parse(#[from] serde_json::Error),
    /// Its protobuf tables contradict themselves.
    #[error("failed to read the type pack's messages")]
    Tables(#[from] InvalidTables),
}

/// The file's layout.
#[derive(Deserialize)]
struct Document {
    release: &'static str,
    groups: Vec<Group>,
    kinds: Vec<Kind>,
    #[serde(borrow)]
    definitions: BTreeMap<&'static str, &'static RawValue>,
    #[serde(borrow)]
    objects: BTreeMap<&'static str, &'static str>,
    #[serde(borrow)]
    messages: BTreeMap<&'static str, Vec<RawField>>,
}

const DATA: &str = include_str!("../data/kubernetes-1.36.json");
const REFERENCE: &str = "#/components/schemas/";

/// The pack of this build, parsed on first use.
pub fn load() -> &'static Pack {
    static PACK: LazyLock<Pack> =
        LazyLock::new(|| Pack::parse(DATA).expect("the committed pack is valid: a test loads it"));
    &PACK
}

// === impl Pack ===

impl Pack {
    fn parse(text: &'static str) -> Result<Self, PackError> {
        let document: Document = serde_json::from_str(text)?;
        let tables = RawTables {
            objects: document.objects,
            messages: document.messages,
        };
        let tables = Tables::new(tables)?;
        let rules = defaults::Rules::new(&tables);
        Ok(Self {
            release: document.release,
            groups: document.groups,
            kinds: document.kinds,
            definitions: document.definitions,
            tables,
            rules,
        })
    }

    /// The Kubernetes release, such as `1.36.3`.
    pub fn release(&self) -> &'static str {
        self.release
    }

    /// In the order in which the real server lists them.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Sorted by group, version and plural.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The kind with this name.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        self.kinds
            .iter()
            .find(|one| (one.group, one.version, one.kind) == (group, version, kind))
    }

    /// The kind with this plural.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Kind> {
        let key = |kind: &Kind| (kind.group, kind.version, kind.plural);
        let index = self
            .kinds
            .binary_search_by(|kind| key(kind).cmp(&(group, version, plural)))
            .ok()?;
        self.kinds.get(index)
    }

    /// One OpenAPI v3 schema, as JSON text.
    pub fn definition(&self, name: &str) -> Option<&'static str> {
        self.definitions.get(name).map(|schema| schema.get())
    }

    /// All OpenAPI v3 schemas, as JSON text, sorted by name.
    pub fn definitions(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.definitions
            .iter()
            .map(|(name, schema)| (*name, schema.get()))
    }

    /// The roots and every definition that they refer to, directly or not.
    pub fn reachable(&self, roots: &[&str]) -> BTreeSet<&'static str> {
        let mut reached = BTreeSet::new();
        let mut queue: Vec<&str> = roots.to_vec();
        while let Some(name) = queue.pop() {
            if let Some((name, schema)) = self.definitions.get_key_value(name)
                && reached.insert(*name)
            {
                queue.extend(references(schema.get()));
            }
        }
        reached
    }

    /// What objects of a kind look like, as the kind's OpenAPI document publishes it; only what the
    /// kind refers to is read. The server checks objects by more than that, which is in no document.
    ///
    /// ```
    /// let pack = deltaplane_apiserver::typepack::load();
    /// let kind = pack.kind("apps", "v1", "Deployment").expect("it is built in");
    /// let schema = pack.schema(kind);
    /// assert!(schema.root().at("spec.replicas").is_some());
    /// assert_eq!((kind.plural, kind.namespaced), ("deployments", true));
    /// ```
    pub fn schema(&self, kind: &Kind) -> Schema {
        let names = self.reachable(&[kind.definition]);
        let parsed: Vec<(&str, Value)> = names
            .into_iter()
            .filter_map(|name| Some((name, self.definition(name)?)))
            .map(|(name, text)| {
                let schema = serde_json::from_str(text);
                (name, schema.expect("the type pack is made by our own tool"))
            })
            .collect();
        Definitions::from_openapi(parsed.iter().map(|(name, value)| (*name, value)))
            .expect("the type pack's definitions are complete")
            .get(kind.definition)
            .unwrap_or_else(Schema::deduced)
    }

    /// The protobuf messages.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }
}

/// The definitions that a schema's text refers to. No string in a definition but a reference
/// contains the prefix.
fn references(schema: &str) -> impl Iterator<Item = &str> {
    schema
        .split(REFERENCE)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
}

impl From<(&'static str, Vec<&'static str>)> for Group {
    fn from((name, versions): (&'static str, Vec<&'static str>)) -> Self {
        Self { name, versions }
    }
}

impl From<(&'static str, &'static str, &'static str)> for Gvk {
    fn from((group, version, kind): (&'static str, &'static str, &'static str)) -> Self {
        Self {
            group,
            version,
            kind,
        }
    }
}

impl From<(&'static str, &'static str, &'static str, i32)> for Column {
    fn from(
        (name, r#type, format, priority): (&'static str, &'static str, &'static str, i32),
    ) -> Self {
        Self {
            name,
            r#type,
            format,
            priority,
        }
    }
}

#[cfg(test)]
mod tests;
