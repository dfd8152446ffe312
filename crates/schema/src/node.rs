//! The schema model: nodes in an arena, seen through [`Schema`] and [`Node`].
//!
//! One model serves CRD schemas and the OpenAPI definitions of built-in kinds. Nodes refer to each
//! other by index, so sharing and recursion cost nothing and a whole set of definitions is one
//! allocation behind an `Arc`.
//!
//! Not here: reading schemas (`parse`, `crd`, `definitions`) and what is done with them.
//!
//! Invariants: every [`NodeId`] in an arena is an index into it; properties are sorted by name;
//! nodes 0 and 1 are the two untyped nodes of server-side apply.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::validate::format::Format;
use crate::validate::pattern::Pattern;

/// A compiled schema. Cheap to clone; shares its nodes with all schemas of the same origin.
#[derive(Clone)]
pub struct Schema {
    arena: Arc<Arena>,
    root: NodeId,
}

/// One node of a [`Schema`].
#[derive(Clone, Copy)]
pub struct Node<'a> {
    arena: &'a Arena,
    id: NodeId,
}

/// The JSON type that a node asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No type was given.
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// `x-kubernetes-int-or-string`.
    IntOrString,
    /// A `resource.Quantity`: written as a string, also read from a number.
    Quantity,
}

/// What `additionalProperties` says.
#[derive(Clone, Copy)]
pub enum Additional<'a> {
    /// Nothing.
    Unspecified,
    /// `false`.
    Denied,
    /// `true`.
    Any,
    /// A schema for the values.
    Schema(Node<'a>),
}

/// How the items of a list are told apart when it is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType<'a> {
    /// Not at all: the list is replaced as a whole.
    Atomic,
    /// By their value.
    Set,
    /// By the named fields of the item.
    Map(&'a [Box<str>]),
}

/// Whether the entries of an object have owners of their own when it is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    Granular,
    Atomic,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged item by item, by `merge_key` or by value.
    pub merge: bool,
    /// `$retainKeys` may be used.
    pub retain_keys: bool,
    /// The field that tells list items apart.
    pub merge_key: Option<Box<str>>,
}

/// One entry of `x-kubernetes-validations`, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationRule {
    pub rule: Box<str>,
    pub message: Box<str>,
    pub message_expression: Box<str>,
    pub reason: Option<Box<str>>,
    pub field_path: Box<str>,
    pub optional_old_self: Option<bool>,
}

/// An index into an [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(u32);

/// All nodes of a schema, or of many that share them.
pub(crate) struct Arena {
    nodes: Box<[NodeData]>,
}

#[derive(Clone, Debug)]
pub(crate) struct NodeData {
    pub(crate) kind: Kind,
    pub(crate) flags: Flags,
    pub(crate) list: ListKind,
    pub(crate) map: MapType,
    pub(crate) additional: AdditionalId,
    pub(crate) items: Option<NodeId>,
    pub(crate) properties: Arc<[Property]>,
    pub(crate) default: Option<Arc<Value>>,
    pub(crate) checks: Option<Arc<Checks>>,
    pub(crate) patch: Option<Arc<PatchStrategy>>,
    /// The name of the struct that Kubernetes decodes it into, such as `v1.Container`.
    pub(crate) title: Option<Arc<str>>,
}

/// Yes-or-no facts about a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) nullable: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    /// Server-side apply accepts undeclared fields here (this node or one above preserves them).
    pub(crate) open: bool,
    /// The value is decoded into a typed field by Kubernetes: a wrong JSON type fails the request.
    pub(crate) decoded: bool,
    /// The default is Go's zero value: it stands in for a list's key but is never written out.
    pub(crate) zero_default: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    Map(Arc<[Box<str>]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdditionalId {
    Unspecified,
    Denied,
    Any,
    Schema(NodeId),
}

#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) name: Box<str>,
    pub(crate) node: NodeId,
}

/// Value validations. Most nodes have none.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) format_name: Option<Box<str>>,
    pub(crate) format: Option<Format>,
    pub(crate) required: Box<[Box<str>]>,
    pub(crate) enumeration: Box<[Value]>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) all_of: Box<[NodeId]>,
    pub(crate) any_of: Box<[NodeId]>,
    pub(crate) one_of: Box<[NodeId]>,
    pub(crate) not: Option<NodeId>,
    pub(crate) rules: Box<[ValidationRule]>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) exclusive: bool,
}

// === impl Schema ===

impl Schema {
    pub(crate) fn new(arena: Arc<Arena>, root: NodeId) -> Self {
        Self { arena, root }
    }

    /// The schema of kinds that have none: all fields are kept, maps are granular, lists atomic.
    pub fn deduced() -> Self {
        static DEDUCED: OnceLock<Schema> = OnceLock::new();
        DEDUCED
            .get_or_init(|| Self {
                arena: Arc::new(Arena::new(untyped_nodes())),
                root: NodeId::DEDUCED,
            })
            .clone()
    }

    /// The node that describes the whole object.
    pub fn root(&self) -> Node<'_> {
        Node {
            arena: &self.arena,
            id: self.root,
        }
    }

    /// The schema that begins at `node`, which must be one of this schema's.
    pub fn rooted_at(&self, node: Node<'_>) -> Self {
        debug_assert!(
            std::ptr::eq(&*self.arena, node.arena),
            "a node of another schema"
        );
        Self {
            arena: self.arena.clone(),
            root: node.id,
        }
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("root", &self.root())
            .finish_non_exhaustive()
    }
}

// === impl Node ===

impl<'a> Node<'a> {
    pub(crate) fn data(self) -> &'a NodeData {
        self.arena.get(self.id)
    }

    pub(crate) fn with(self, id: NodeId) -> Self {
        Self {
            arena: self.arena,
            id,
        }
    }

    /// Whether anything goes here, and below. Such a node is its own child: whoever walks a schema
    /// must stop here.
    pub fn is_untyped(self) -> bool {
        self.id == NodeId::DEDUCED || self.id == NodeId::UNTYPED
    }

    /// The JSON type.
    pub fn kind(self) -> Kind {
        self.data().kind
    }

    /// `format`, as written.
    pub fn format(self) -> Option<&'a str> {
        self.checks()
            .and_then(|checks| checks.format_name.as_deref())
    }

    /// Whether null is a value of its own.
    pub fn nullable(self) -> bool {
        self.data().flags.nullable
    }

    /// Whether undeclared fields are kept.
    pub fn preserves_unknown(self) -> bool {
        self.data().flags.preserve_unknown
    }

    /// `x-kubernetes-embedded-resource`.
    pub fn is_embedded_resource(self) -> bool {
        self.data().flags.embedded
    }

    /// The declared fields, sorted by name.
    pub fn properties(self) -> impl ExactSizeIterator<Item = (&'a str, Node<'a>)> {
        self.data()
            .properties
            .iter()
            .map(move |one| (&*one.name, self.with(one.node)))
    }

    /// The declared field `name`.
    pub fn property(self, name: &str) -> Option<Self> {
        let properties = &self.data().properties;
        let found = properties
            .binary_search_by(|one| (*one.name).cmp(name))
            .ok()?;
        Some(self.with(properties[found].node))
    }

    /// What the items of a list are.
    pub fn items(self) -> Option<Self> {
        self.data().items.map(|id| self.with(id))
    }

    /// What undeclared fields are.
    pub fn additional(self) -> Additional<'a> {
        match self.data().additional {
            AdditionalId::Unspecified => Additional::Unspecified,
            AdditionalId::Denied => Additional::Denied,
            AdditionalId::Any => Additional::Any,
            AdditionalId::Schema(id) => Additional::Schema(self.with(id)),
        }
    }

    /// The schema of the field `name`, declared or not.
    pub fn child(self, name: &str) -> Option<Self> {
        self.property(name).or_else(|| match self.additional() {
            Additional::Schema(node) => Some(node),
            Additional::Unspecified | Additional::Denied | Additional::Any => None,
        })
    }

    /// The node at a path such as `spec.ports[].name` or `.spec.template`.
    pub fn at(self, path: &str) -> Option<Self> {
        let path = path.strip_prefix('.').unwrap_or(path);
        if path.is_empty() {
            return Some(self);
        }
        path.split('.').try_fold(self, |node, step| {
            let (name, indices) = step.split_at(step.find('[').unwrap_or(step.len()));
            let node = if name.is_empty() {
                Some(node)
            } else {
                node.child(name)
            };
            indices.matches('[').try_fold(node?, |node, _| node.items())
        })
    }

    /// The fields that must be there.
    pub fn required(self) -> &'a [Box<str>] {
        self.checks().map_or(&[], |checks| &checks.required)
    }

    /// The default value.
    pub fn default(self) -> Option<&'a Value> {
        self.data().default.as_deref()
    }

    /// The values allowed; empty when all are.
    pub fn enumeration(self) -> &'a [Value] {
        self.checks().map_or(&[], |checks| &checks.enumeration)
    }

    /// How lists are merged.
    pub fn list_type(self) -> ListType<'a> {
        match &self.data().list {
            ListKind::Atomic => ListType::Atomic,
            ListKind::Set => ListType::Set,
            ListKind::Map(keys) => ListType::Map(keys),
        }
    }

    /// How objects are merged.
    pub fn map_type(self) -> MapType {
        self.data().map
    }

    /// How a strategic merge patch treats this field.
    pub fn patch_strategy(self) -> Option<&'a PatchStrategy> {
        self.data().patch.as_deref()
    }

    /// `maxLength`.
    pub fn max_length(self) -> Option<u64> {
        self.checks()?.max_length
    }

    /// `maxItems`.
    pub fn max_items(self) -> Option<u64> {
        self.checks()?.max_items
    }

    /// `maxProperties`.
    pub fn max_properties(self) -> Option<u64> {
        self.checks()?.max_properties
    }

    /// `x-kubernetes-validations`.
    pub fn rules(self) -> &'a [ValidationRule] {
        self.checks().map_or(&[], |checks| &checks.rules)
    }

    pub(crate) fn checks(self) -> Option<&'a Checks> {
        self.data().checks.as_deref()
    }

    pub(crate) fn flags(self) -> Flags {
        self.data().flags
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}, {:?})", self.id.0, self.kind())
    }
}

// === impl NodeId ===

impl NodeId {
    /// Anything: maps are granular, lists atomic.
    pub(crate) const DEDUCED: Self = Self(0);
    /// Anything, as one value.
    pub(crate) const UNTYPED: Self = Self(1);

    /// The id of the node at `index`; `None` past what fits, which no accepted schema reaches.
    pub(crate) fn at(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(Self)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

// === impl Arena ===

impl Arena {
    pub(crate) fn new(nodes: Vec<NodeData>) -> Self {
        Self {
            nodes: nodes.into_boxed_slice(),
        }
    }

    fn get(&self, id: NodeId) -> &NodeData {
        &self.nodes[id.index()]
    }
}

// === impl NodeData ===

impl NodeData {
    /// A node of the given type and nothing else.
    pub(crate) fn of(kind: Kind) -> Self {
        Self {
            kind,
            flags: Flags::default(),
            list: ListKind::Atomic,
            map: MapType::Granular,
            additional: AdditionalId::Unspecified,
            items: None,
            properties: no_properties(),
            default: None,
            checks: None,
            patch: None,
            title: None,
        }
    }
}

/// The first two nodes of every arena.
pub(crate) fn untyped_nodes() -> Vec<NodeData> {
    let any = |map, additional| NodeData {
        flags: Flags {
            nullable: true,
            preserve_unknown: true,
            open: true,
            ..Flags::default()
        },
        map,
        additional: AdditionalId::Schema(additional),
        items: Some(NodeId::UNTYPED),
        ..NodeData::of(Kind::Any)
    };
    vec![
        any(MapType::Granular, NodeId::DEDUCED),
        any(MapType::Atomic, NodeId::UNTYPED),
    ]
}

/// The empty property list, shared because most nodes have it.
fn no_properties() -> Arc<[Property]> {
    static NONE: OnceLock<Arc<[Property]>> = OnceLock::new();
    NONE.get_or_init(|| Arc::new([])).clone()
}
