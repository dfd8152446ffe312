//! Reads JSON schemas into an arena.
//!
//! It reads what it knows and skips the rest: whether a CRD's schema is acceptable is decided
//! before (`crd`), and the definitions of built-in kinds are taken as they are published.
//!
//! Invariant: nodes are only ever appended, so an id stays valid while more is read.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::meta;
use crate::node::{
    AdditionalId, Arena, Bound, Checks, Flags, Kind, ListKind, MapType, NodeData, NodeId,
    PatchStrategy, Property, ValidationRule, untyped_nodes,
};
use crate::validate::format::Format;
use crate::validate::pattern::Pattern;

/// Schemas nested deeper than this are refused; Kubernetes' own need 14.
pub(crate) const MAX_SCHEMA_DEPTH: usize = 100;
/// More nodes than this are refused; all of Kubernetes has 20,000.
const MAX_NODES: usize = 1 << 20;

/// Where a schema comes from, which decides what its keywords mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// A CRD's structural schema.
    Crd,
    /// The published definition of a Go type.
    GoType,
}

/// Why a schema cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ReadError {
    #[error("schemas may not be nested deeper than {MAX_SCHEMA_DEPTH} levels")]
    TooDeep,
    #[error("schemas may not have more than {MAX_NODES} nodes")]
    TooLarge,
    #[error("reference to the undefined schema {0:?}")]
    UndefinedReference(String),
    #[error("reference to itself: {0:?}")]
    CircularReference(String),
}

pub(crate) struct Reader<'v> {
    nodes: Vec<NodeData>,
    names: HashMap<&'v str, NodeId>,
    /// Plain scalar nodes by their text, so that thousands of `type: string` are one node.
    scalars: HashMap<String, NodeId>,
    overlays: Vec<Overlay<'v>>,
    meta: Option<NodeId>,
}

/// What the parent of a node hands down to it.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) flavor: Flavor,
    open: bool,
    depth: usize,
}

/// A node that is another one with some keywords changed (`allOf: [{$ref}]` and siblings).
/// Resolved when all definitions have been read.
struct Overlay<'v> {
    node: NodeId,
    target: NodeId,
    target_name: &'v str,
    raw: &'v Map<String, Value>,
}

// === impl Scope ===

impl Scope {
    pub(crate) fn root(flavor: Flavor) -> Self {
        Self {
            flavor,
            open: false,
            depth: 0,
        }
    }

    fn below(self, open: bool) -> Self {
        Self {
            open: self.open || open,
            depth: self.depth + 1,
            ..self
        }
    }
}

// === impl Reader ===

impl<'v> Reader<'v> {
    pub(crate) fn new() -> Self {
        Self {
            nodes: untyped_nodes(),
            names: HashMap::new(),
            scalars: HashMap::new(),
            overlays: Vec::new(),
            meta: None,
        }
    }

    pub(crate) fn finish(self) -> Arena {
        Arena::new(self.nodes)
    }

    /// Reserves the node of a definition, so that others may refer to it before it is read.
    pub(crate) fn reserve(&mut self, name: &'v str) -> Result<(), ReadError> {
        let id = self.push(NodeData::of(Kind::Any))?;
        self.names.insert(name, id);
        Ok(())
    }

    /// Reads a reserved definition.
    pub(crate) fn define(&mut self, name: &'v str, raw: &'v Value) -> Result<NodeId, ReadError> {
        let id = *self
            .names
            .get(name)
            .ok_or_else(|| ReadError::UndefinedReference(name.to_owned()))?;
        let empty = empty();
        let raw = raw.as_object().unwrap_or(empty);
        let scope = Scope::root(Flavor::GoType);
        if let Some(target) = reference(raw) {
            self.overlay(id, target, raw)?;
            return Ok(id);
        }
        let data = match name.rsplit('.').next() {
            Some("Quantity") => go_type(Kind::Quantity),
            Some("RawExtension") => self.nodes[NodeId::UNTYPED.index()].clone(),
            Some(_) | None => self.data(raw, scope)?,
        };
        let title = go_name(name).map(Arc::from);
        self.nodes[id.index()] = NodeData { title, ..data };
        Ok(id)
    }

    /// Makes every overlay a copy of what it refers to, with its own keywords on top.
    pub(crate) fn resolve(&mut self) -> Result<(), ReadError> {
        let pending: HashMap<NodeId, usize> = self
            .overlays
            .iter()
            .enumerate()
            .map(|(index, one)| (one.node, index))
            .collect();
        let mut done = vec![false; self.overlays.len()];
        for start in 0..self.overlays.len() {
            let mut chain = Vec::new();
            let mut next = Some(start);
            while let Some(index) = next.filter(|&index| !done[index]) {
                if chain.contains(&index) {
                    return Err(ReadError::CircularReference(
                        self.overlays[index].target_name.to_owned(),
                    ));
                }
                chain.push(index);
                next = pending.get(&self.overlays[index].target).copied();
            }
            for index in chain.into_iter().rev() {
                self.resolve_one(index);
                done[index] = true;
            }
        }
        self.overlays.clear();
        Ok(())
    }

    fn resolve_one(&mut self, index: usize) {
        let Overlay {
            node, target, raw, ..
        } = self.overlays[index];
        let mut data = self.nodes[target.index()].clone();
        set_default(&mut data, raw, Flavor::GoType);
        data.flags.nullable |= is_true(raw, "nullable");
        if let Some(map) = map_type(raw) {
            data.map = map;
        }
        if let Some(patch) = patch_strategy(raw) {
            data.patch = Some(Arc::new(patch));
        }
        self.nodes[node.index()] = data;
    }

    fn overlay(
        &mut self,
        node: NodeId,
        target_name: &'v str,
        raw: &'v Map<String, Value>,
    ) -> Result<(), ReadError> {
        let target = self.target(target_name)?;
        self.overlays.push(Overlay {
            node,
            target,
            target_name,
            raw,
        });
        Ok(())
    }

    fn target(&self, name: &str) -> Result<NodeId, ReadError> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| ReadError::UndefinedReference(name.to_owned()))
    }

    pub(crate) fn node(&self, id: NodeId) -> &NodeData {
        &self.nodes[id.index()]
    }

    pub(crate) fn append(&mut self, data: NodeData) -> Result<NodeId, ReadError> {
        self.push(data)
    }

    fn push(&mut self, data: NodeData) -> Result<NodeId, ReadError> {
        let id = NodeId::at(self.nodes.len()).filter(|_| self.nodes.len() < MAX_NODES);
        self.nodes.push(data);
        id.ok_or(ReadError::TooLarge)
    }

    /// Reads the schema `raw` and all below it.
    pub(crate) fn read(&mut self, raw: &'v Value, scope: Scope) -> Result<NodeId, ReadError> {
        if scope.depth > MAX_SCHEMA_DEPTH {
            return Err(ReadError::TooDeep);
        }
        let Some(raw) = raw.as_object() else {
            return Ok(NodeId::DEDUCED);
        };
        if let Some(name) = reference(raw) {
            if ![
                "default",
                "nullable",
                "x-kubernetes-map-type",
                "x-kubernetes-patch-strategy",
            ]
            .iter()
            .any(|key| raw.contains_key(*key))
            {
                return self.target(name);
            }
            let id = self.push(NodeData::of(Kind::Any))?;
            self.overlay(id, name, raw)?;
            return Ok(id);
        }
        let Some(key) = scalar_key(raw, scope) else {
            let data = self.data(raw, scope)?;
            return self.push(data);
        };
        if let Some(id) = self.scalars.get(&key) {
            return Ok(*id);
        }
        let data = self.data(raw, scope)?;
        let id = self.push(data)?;
        self.scalars.insert(key, id);
        Ok(id)
    }

    fn data(&mut self, raw: &'v Map<String, Value>, scope: Scope) -> Result<NodeData, ReadError> {
        let mut data = NodeData::of(kind(raw));
        let preserve = is_true(raw, "x-kubernetes-preserve-unknown-fields");
        let below = scope.below(preserve);
        data.flags = Flags {
            nullable: is_true(raw, "nullable"),
            preserve_unknown: preserve,
            embedded: is_true(raw, "x-kubernetes-embedded-resource"),
            open: below.open,
            decoded: scope.flavor == Flavor::GoType,
            zero_default: false,
        };
        data.properties = self.properties(raw, below)?;
        if let Some(items) = raw.get("items") {
            data.items = Some(self.read(items, below)?);
        }
        data.additional = self.additional(raw, below)?;
        data.patch = patch_strategy(raw).map(Arc::new);
        data.list = list_kind(raw, data.patch.as_deref());
        data.map = map_type(raw).unwrap_or(MapType::Granular);
        set_default(&mut data, raw, scope.flavor);
        data.checks = self.checks(raw, data.kind, below)?.map(Arc::new);
        if scope.flavor == Flavor::GoType {
            data.title = raw.get("title").and_then(Value::as_str).map(Arc::from);
        }
        if scope.flavor == Flavor::GoType && is_free_form(&data) {
            data.flags.preserve_unknown = true;
        }
        if data.flags.embedded {
            self.graft_meta(&mut data)?;
        }
        Ok(data)
    }

    fn properties(
        &mut self,
        raw: &'v Map<String, Value>,
        below: Scope,
    ) -> Result<Arc<[Property]>, ReadError> {
        let Some(raw) = raw.get("properties").and_then(Value::as_object) else {
            return Ok(NodeData::of(Kind::Any).properties);
        };
        let mut properties = Vec::with_capacity(raw.len());
        for (name, raw) in raw {
            properties.push(Property {
                name: name.as_str().into(),
                node: self.read(raw, below)?,
            });
        }
        properties.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(properties.into())
    }

    fn additional(
        &mut self,
        raw: &'v Map<String, Value>,
        below: Scope,
    ) -> Result<AdditionalId, ReadError> {
        Ok(match raw.get("additionalProperties") {
            None | Some(Value::Null) => AdditionalId::Unspecified,
            Some(Value::Bool(false)) => AdditionalId::Denied,
            Some(Value::Bool(true)) if below.flavor == Flavor::Crd => AdditionalId::Any,
            Some(schema) => AdditionalId::Schema(self.read(schema, below)?),
        })
    }

    fn checks(
        &mut self,
        raw: &'v Map<String, Value>,
        kind: Kind,
        below: Scope,
    ) -> Result<Option<Checks>, ReadError> {
        if !raw.keys().any(|key| CHECKS.contains(&key.as_str())) {
            return Ok(None);
        }
        let bound = |limit: &str, exclusive: &str| {
            let value = raw.get(limit)?.as_f64()?;
            Some(Bound {
                value,
                exclusive: is_true(raw, exclusive),
            })
        };
        let format_name = text(raw, "format").filter(|format| !format.is_empty());
        Ok(Some(Checks {
            // Go types decode their texts themselves.
            format: format_name
                .and_then(|name| Format::named(name, kind))
                .filter(|format| below.flavor == Flavor::Crd || !format.is_text()),
            format_name: format_name.map(Into::into),
            required: texts(raw, "required"),
            enumeration: raw
                .get("enum")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default()
                .into(),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: raw.get("multipleOf").and_then(Value::as_f64),
            min_length: count(raw, "minLength"),
            max_length: count(raw, "maxLength"),
            min_items: count(raw, "minItems"),
            max_items: count(raw, "maxItems"),
            unique_items: is_true(raw, "uniqueItems"),
            min_properties: count(raw, "minProperties"),
            max_properties: count(raw, "maxProperties"),
            pattern: text(raw, "pattern")
                .filter(|pattern| !pattern.is_empty())
                .map(Pattern::new),
            all_of: self.branches(raw, "allOf", below)?,
            any_of: self.branches(raw, "anyOf", below)?,
            one_of: self.branches(raw, "oneOf", below)?,
            not: raw
                .get("not")
                .filter(|not| !not.is_null())
                .map(|not| self.read(not, below))
                .transpose()?,
            rules: rules(raw),
        }))
    }

    fn branches(
        &mut self,
        raw: &'v Map<String, Value>,
        key: &str,
        below: Scope,
    ) -> Result<Box<[NodeId]>, ReadError> {
        let branches = raw.get(key).and_then(Value::as_array);
        branches
            .into_iter()
            .flatten()
            .map(|branch| self.read(branch, below))
            .collect()
    }

    /// Gives an object the fields that every Kubernetes object has, keeping what its schema says
    /// about them.
    pub(crate) fn graft_meta(&mut self, data: &mut NodeData) -> Result<(), ReadError> {
        let mut properties: Vec<Property> = data.properties.to_vec();
        for name in ["apiVersion", "kind", "metadata"] {
            let declared = properties.iter().position(|one| &*one.name == name);
            let own = declared.map(|index| self.nodes[properties[index].node.index()].clone());
            let node = match (name, own) {
                ("metadata", own) => self.object_meta(own)?,
                (_, Some(own)) => {
                    let flags = Flags {
                        decoded: true,
                        ..own.flags
                    };
                    self.push(NodeData { flags, ..own })?
                }
                (_, None) => self.push(go_type(Kind::String))?,
            };
            match declared {
                Some(index) => properties[index].node = node,
                None => properties.push(Property {
                    name: name.into(),
                    node,
                }),
            }
        }
        properties.sort_by(|a, b| a.name.cmp(&b.name));
        data.properties = properties.into();
        Ok(())
    }

    /// The node of `ObjectMeta`; with the fields and checks of `own` where it has some.
    fn object_meta(&mut self, own: Option<NodeData>) -> Result<NodeId, ReadError> {
        let plain = match self.meta {
            Some(plain) => plain,
            None => {
                let scope = Scope::root(Flavor::GoType);
                let plain = Reader::read_static(self, meta::object_meta(), scope)?;
                *self.meta.insert(plain)
            }
        };
        let Some(own) = own else { return Ok(plain) };
        let mut data = self.nodes[plain.index()].clone();
        let mut properties = data.properties.to_vec();
        for property in &mut properties {
            let found = own.properties.iter().find(|one| one.name == property.name);
            property.node = found.map_or(property.node, |one| one.node);
        }
        data.properties = properties.into();
        data.checks = own.checks;
        data.default = own.default;
        self.push(data)
    }

    /// Reads a schema that outlives this reader's input.
    fn read_static(&mut self, raw: &'static Value, scope: Scope) -> Result<NodeId, ReadError> {
        let mut reader = Reader {
            nodes: std::mem::take(&mut self.nodes),
            ..Reader::new()
        };
        let id = reader.read(raw, scope);
        self.nodes = reader.nodes;
        id
    }
}

/// The keywords that [`Checks`] holds.
const CHECKS: [&str; 21] = [
    "format",
    "required",
    "enum",
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "pattern",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "x-kubernetes-validations",
];

pub(crate) fn text<'v>(raw: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    raw.get(key).and_then(Value::as_str)
}

pub(crate) fn is_true(raw: &Map<String, Value>, key: &str) -> bool {
    raw.get(key) == Some(&Value::Bool(true))
}

fn texts(raw: &Map<String, Value>, key: &str) -> Box<[Box<str>]> {
    let list = raw.get(key).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(Into::into).collect()
}

fn count(raw: &Map<String, Value>, key: &str) -> Option<u64> {
    let number = raw.get(key)?;
    // Negative limits are as good as zero.
    number
        .as_u64()
        .or_else(|| number.as_f64().map(|float| float.max(0.0) as u64))
}

fn empty() -> &'static Map<String, Value> {
    static EMPTY: std::sync::OnceLock<Map<String, Value>> = std::sync::OnceLock::new();
    EMPTY.get_or_init(Map::new)
}

/// The name that a schema refers to, itself or through an `allOf` of one.
fn reference(raw: &Map<String, Value>) -> Option<&str> {
    let direct = text(raw, "$ref").or_else(|| match raw.get("allOf")?.as_array()?.as_slice() {
        [one] => text(one.as_object()?, "$ref"),
        _ => None,
    })?;
    direct.rsplit('/').next().filter(|name| !name.is_empty())
}

fn kind(raw: &Map<String, Value>) -> Kind {
    if is_true(raw, "x-kubernetes-int-or-string") || text(raw, "format") == Some("int-or-string") {
        return Kind::IntOrString;
    }
    match text(raw, "type") {
        Some("object") => Kind::Object,
        Some("array") => Kind::Array,
        Some("string") => Kind::String,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Boolean,
        Some(_) | None => Kind::Any,
    }
}

/// `v1.Container` of `io.k8s.api.core.v1.Container`.
fn go_name(definition: &str) -> Option<&str> {
    let package = definition.rfind('.')?;
    Some(match definition[..package].rfind('.') {
        Some(before) => &definition[before + 1..],
        None => definition,
    })
}

fn go_type(kind: Kind) -> NodeData {
    NodeData {
        flags: Flags {
            decoded: true,
            ..Flags::default()
        },
        ..NodeData::of(kind)
    }
}

/// An object of which nothing is said: Go keeps it as raw JSON or as a map.
fn is_free_form(data: &NodeData) -> bool {
    matches!(data.kind, Kind::Object | Kind::Any)
        && data.properties.is_empty()
        && data.additional == AdditionalId::Unspecified
}

fn set_default(data: &mut NodeData, raw: &Map<String, Value>, flavor: Flavor) {
    let Some(default) = raw.get("default").filter(|default| !default.is_null()) else {
        return;
    };
    data.flags.zero_default = flavor == Flavor::GoType && is_zero(default);
    data.default = Some(Arc::new(default.clone()));
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn map_type(raw: &Map<String, Value>) -> Option<MapType> {
    match text(raw, "x-kubernetes-map-type")? {
        "atomic" => Some(MapType::Atomic),
        "granular" => Some(MapType::Granular),
        _ => None,
    }
}

fn patch_strategy(raw: &Map<String, Value>) -> Option<PatchStrategy> {
    let strategy = text(raw, "x-kubernetes-patch-strategy")?;
    let has = |word: &str| strategy.split(',').any(|one| one == word);
    Some(PatchStrategy {
        merge: has("merge"),
        retain_keys: has("retainKeys"),
        merge_key: text(raw, "x-kubernetes-patch-merge-key").map(Into::into),
    })
}

fn list_kind(raw: &Map<String, Value>, patch: Option<&PatchStrategy>) -> ListKind {
    match (text(raw, "x-kubernetes-list-type"), patch) {
        (Some("set"), _) => ListKind::Set,
        (Some("map"), _) => match texts(raw, "x-kubernetes-list-map-keys") {
            keys if keys.is_empty() => ListKind::Atomic,
            keys => ListKind::Map(keys.into()),
        },
        (Some(_), _) | (None, None) => ListKind::Atomic,
        (None, Some(patch)) => match (&patch.merge_key, patch.merge) {
            (Some(key), true) => ListKind::Map([key.clone()].into()),
            (None, true) => ListKind::Set,
            (_, false) => ListKind::Atomic,
        },
    }
}

fn rules(raw: &Map<String, Value>) -> Box<[ValidationRule]> {
    let list = raw
        .get("x-kubernetes-validations")
        .and_then(Value::as_array);
    let rules = list
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .map(|raw| {
            let word = |key: &str| text(raw, key).unwrap_or_default().into();
            ValidationRule {
                rule: word("rule"),
                message: word("message"),
                message_expression: word("messageExpression"),
                reason: text(raw, "reason").map(Into::into),
                field_path: word("fieldPath"),
                optional_old_self: raw.get("optionalOldSelf").and_then(Value::as_bool),
            }
        });
    rules.collect()
}

/// The text under which a plain scalar is shared; `None` for everything else.
fn scalar_key(raw: &Map<String, Value>, scope: Scope) -> Option<String> {
    let mut key = format!("{:?}{}", scope.flavor, scope.open);
    for (name, value) in raw {
        match name.as_str() {
            "description" | "title" | "example" | "externalDocs" => {}
            "type" if matches!(value.as_str(), Some("object" | "array")) => return None,
            "type" | "format" | "nullable" | "default" => {
                key.push_str(name);
                key.push_str(&value.to_string());
            }
            _ => return None,
        }
    }
    Some(key)
}
