//! The tree of an expression: nodes in one vector, children before their parents.

use std::sync::Arc;

use crate::span::Span;

/// An index into [`Ast`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

/// A parsed expression.
///
/// Invariant: a node's children have smaller ids than the node, so a walk over ids is bottom-up.
#[derive(Clone, Debug)]
pub struct Ast {
    source: Arc<str>,
    nodes: Vec<Node>,
    spans: Vec<Span>,
    root: NodeId,
    parts: Vec<NodeId>,
}

/// One node. Macros that a reader would recognise are nodes of their own, not their expansion.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Literal(Literal),
    /// A name; one that begins with a dot is looked up from the root.
    Ident(Arc<str>),
    /// `operand.field`, or `operand.?field`.
    Select {
        operand: NodeId,
        field: Arc<str>,
        optional: bool,
    },
    /// `has(operand.field)`.
    Has {
        operand: NodeId,
        field: Arc<str>,
    },
    /// `operand[index]`, or `operand[?index]`.
    Index {
        operand: NodeId,
        index: NodeId,
        optional: bool,
    },
    Call {
        function: Arc<str>,
        target: Option<NodeId>,
        args: Box<[NodeId]>,
    },
    Unary(Unary, NodeId),
    Binary(Binary, NodeId, NodeId),
    /// A chain of `&&`: two terms or more.
    And(Box<[NodeId]>),
    /// A chain of `||`: two terms or more.
    Or(Box<[NodeId]>),
    Conditional(NodeId, NodeId, NodeId),
    List(Box<[Item]>),
    Map(Box<[MapEntry]>),
    Struct {
        name: Arc<str>,
        fields: Box<[StructField]>,
    },
    /// A macro that goes through a list or a map.
    Fold(Box<Fold>),
    /// `cel.bind(name, init, body)`.
    Bind {
        name: Arc<str>,
        init: NodeId,
        body: NodeId,
    },
    /// `target.optMap(name, body)`, or `optFlatMap`.
    OptMap {
        target: NodeId,
        name: Arc<str>,
        body: NodeId,
        flat: bool,
    },
    /// `cel.block([…], body)`: values that `cel.index(n)` refers to.
    Block {
        slots: Box<[NodeId]>,
        body: NodeId,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    Not,
    Negate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    Equals,
    NotEquals,
    In,
}

/// An item of a list; an optional one is there when it has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub value: NodeId,
    pub optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry {
    pub key: NodeId,
    pub value: NodeId,
    pub optional: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructField {
    pub name: Arc<str>,
    pub value: NodeId,
    pub optional: bool,
}

/// A loop over `range`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    pub kind: FoldKind,
    pub range: NodeId,
    pub var: Arc<str>,
    /// The second variable: then the first is the index or the key.
    pub var2: Option<Arc<str>>,
    /// A condition that an item must meet before the body is asked.
    pub filter: Option<NodeId>,
    pub body: NodeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// `exists_one` under its second name.
    ExistsOneCamel,
    Map,
    /// The body is the condition.
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
    SortBy,
}

// === impl NodeId ===

impl NodeId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

// === impl Ast ===

impl Ast {
    pub(crate) fn new(source: Arc<str>) -> Self {
        Self {
            source,
            nodes: Vec::new(),
            spans: Vec::new(),
            root: NodeId(0),
            parts: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, node: Node, span: Span) -> NodeId {
        // The parser's limit on nodes keeps the index far below `u32::MAX`.
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        self.spans.push(span);
        id
    }

    pub(crate) fn finish(&mut self, root: NodeId, parts: Vec<NodeId>) {
        self.root = root;
        self.parts = parts;
    }

    /// The expressions of a template, which must be strings.
    pub fn parts(&self) -> &[NodeId] {
        &self.parts
    }

    /// The text that was parsed.
    pub fn source(&self) -> &Arc<str> {
        &self.source
    }

    pub fn root(&self) -> NodeId {
        self.root
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn span(&self, id: NodeId) -> Span {
        self.spans[id.index()]
    }

    /// All nodes, children before their parents.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// `a.b.c` as one name, when the node is nothing but names and dots.
    pub(crate) fn qualified_name(&self, id: NodeId) -> Option<String> {
        let mut parts = Vec::new();
        let mut at = id;
        loop {
            match self.node(at) {
                Node::Ident(name) => {
                    parts.push(&**name);
                    break;
                }
                Node::Select {
                    operand,
                    field,
                    optional: false,
                } => {
                    parts.push(field);
                    at = *operand;
                }
                Node::Literal(_)
                | Node::Select { .. }
                | Node::Has { .. }
                | Node::Index { .. }
                | Node::Call { .. }
                | Node::Unary(..)
                | Node::Binary(..)
                | Node::And(_)
                | Node::Or(_)
                | Node::Conditional(..)
                | Node::List(_)
                | Node::Map(_)
                | Node::Struct { .. }
                | Node::Fold(_)
                | Node::Bind { .. }
                | Node::OptMap { .. }
                | Node::Block { .. } => return None,
            }
        }
        parts.reverse();
        Some(parts.join("."))
    }

    /// Whether both are the same tree, wherever its nodes were in the text.
    pub fn same(&self, other: &Self) -> bool {
        let mut pairs = vec![(self.root, other.root)];
        while let Some((a, b)) = pairs.pop() {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            if self.node(a).shape(&mut left) != other.node(b).shape(&mut right) {
                return false;
            }
            pairs.extend(left.into_iter().zip(right));
        }
        true
    }

    /// The child that is evaluated first and may be nested without bound: long chains of
    /// operators and selections lean to the left.
    pub(crate) fn left(&self, id: NodeId) -> Option<NodeId> {
        match self.node(id) {
            Node::Select { operand, .. }
            | Node::Has { operand, .. }
            | Node::Index { operand, .. } => Some(*operand),
            Node::Binary(_, left, _) => Some(*left),
            Node::Literal(_)
            | Node::Ident(_)
            | Node::Unary(..)
            | Node::And(_)
            | Node::Or(_)
            | Node::Conditional(..)
            | Node::List(_)
            | Node::Map(_)
            | Node::Struct { .. }
            | Node::Call { .. }
            | Node::OptMap { .. }
            | Node::Fold(_)
            | Node::Bind { .. }
            | Node::Block { .. } => None,
        }
    }

    /// The chain of left children from `id` down, `id` first.
    pub(crate) fn spine(&self, id: NodeId) -> Vec<NodeId> {
        let mut spine = vec![id];
        let mut at = id;
        while let Some(left) = self.left(at) {
            spine.push(left);
            at = left;
        }
        spine
    }

    /// The names at the bottom of a spine, as `a.b.c` has them; at most so many. None when it does
    /// not begin with a name.
    pub(crate) fn dotted(&self, spine: &[NodeId], most: usize) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for &at in spine.iter().rev().take(most) {
            if let Node::Ident(name) = self.node(at)
                && names.is_empty()
            {
                names.push(name);
            } else if let Node::Select {
                field,
                optional: false,
                ..
            } = self.node(at)
                && !names.is_empty()
            {
                names.push(field);
            } else {
                break;
            }
        }
        names
    }
}

// === impl Node ===

impl Node {
    /// The node without the ids of its children, which go to `children` in order.
    fn shape(&self, children: &mut Vec<NodeId>) -> Self {
        let mut out = self.clone();
        out.each_child(|id| children.push(std::mem::replace(id, NodeId(0))));
        out
    }

    /// The nodes right below; of a loop its filter, its range and its body.
    pub fn children(&self) -> Vec<NodeId> {
        let mut children = Vec::new();
        self.shape(&mut children);
        children
    }

    pub(super) fn each_child(&mut self, mut take: impl FnMut(&mut NodeId)) {
        match self {
            Self::Literal(_) | Self::Ident(_) => {}
            Self::Select { operand, .. } | Self::Has { operand, .. } => take(operand),
            Self::Index { operand, index, .. } => [operand, index].into_iter().for_each(take),
            Self::Call { target, args, .. } => target.iter_mut().chain(args).for_each(take),
            Self::Unary(_, operand) => take(operand),
            Self::Binary(_, left, right) => [left, right].into_iter().for_each(take),
            Self::And(terms) | Self::Or(terms) => terms.iter_mut().for_each(take),
            Self::Conditional(a, b, c) => [a, b, c].into_iter().for_each(take),
            Self::List(items) => items.iter_mut().for_each(|item| take(&mut item.value)),
            Self::Map(entries) => entries.iter_mut().for_each(|entry| {
                take(&mut entry.key);
                take(&mut entry.value);
            }),
            Self::Struct { fields, .. } => {
                fields.iter_mut().for_each(|field| take(&mut field.value))
            }
            Self::Fold(fold) => {
                let parts = fold
                    .filter
                    .iter_mut()
                    .chain([&mut fold.range, &mut fold.body]);
                parts.for_each(take);
            }
            Self::Bind { init, body, .. } => [init, body].into_iter().for_each(take),
            Self::OptMap { target, body, .. } => [target, body].into_iter().for_each(take),
            Self::Block { slots, body } => slots.iter_mut().chain([body]).for_each(take),
        }
    }
}

// === impl Unary, Binary ===

impl Unary {
    /// The name of the function behind the operator.
    pub fn function(self) -> &'static str {
        match self {
            Self::Not => "!_",
            Self::Negate => "-_",
        }
    }
}

impl Binary {
    /// The name of the function behind the operator.
    pub fn function(self) -> &'static str {
        match self {
            Self::Add => "_+_",
            Self::Subtract => "_-_",
            Self::Multiply => "_*_",
            Self::Divide => "_/_",
            Self::Modulo => "_%_",
            Self::Less => "_<_",
            Self::LessEquals => "_<=_",
            Self::Greater => "_>_",
            Self::GreaterEquals => "_>=_",
            Self::Equals => "_==_",
            Self::NotEquals => "_!=_",
            Self::In => "@in",
        }
    }

    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Less => "<",
            Self::LessEquals => "<=",
            Self::Greater => ">",
            Self::GreaterEquals => ">=",
            Self::Equals => "==",
            Self::NotEquals => "!=",
            Self::In => "in",
        }
    }

    /// How tightly it binds: the larger the tighter.
    pub(crate) fn strength(self) -> u8 {
        match self {
            Self::Multiply | Self::Divide | Self::Modulo => 3,
            Self::Add | Self::Subtract => 2,
            Self::Less
            | Self::LessEquals
            | Self::Greater
            | Self::GreaterEquals
            | Self::Equals
            | Self::NotEquals
            | Self::In => 1,
        }
    }
}
