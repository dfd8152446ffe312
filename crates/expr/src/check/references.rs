//! Which data an expression reads: the paths from its variables, for those who wait for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::env::{Env, Named};
use crate::fault::{Path, Step};
use crate::span::Span;
use crate::syntax::{Ast, Literal, Node, NodeId};

/// Data that an expression reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub path: Path,
    pub span: Span,
}

/// All paths that `ast` reads, in source order, each place once. Variables of macros are followed
/// to what they go through.
pub fn references(ast: &Ast, env: &Env) -> Vec<Reference> {
    names(ast, env).references
}

/// What the names in an expression stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// As [`references`] gives them.
    pub references: Vec<Reference>,
    /// Names that stand for nothing, in source order.
    pub unknown: Vec<(Span, Arc<str>)>,
}

/// Which data `ast` reads, and which of its names are not declared.
pub fn names(ast: &Ast, env: &Env) -> Names {
    let mut collector = Collector {
        ast,
        env,
        scopes: Vec::new(),
        found: BTreeSet::new(),
        unknown: BTreeSet::new(),
    };
    collector.read(ast.root());
    let mut references: Vec<Reference> = collector.found.into_iter().collect();
    references.sort_by(|a, b| (a.span, &a.path).cmp(&(b.span, &b.path)));
    Names {
        references,
        unknown: collector.unknown.into_iter().collect(),
    }
}

struct Collector<'a> {
    ast: &'a Ast,
    env: &'a Env,
    /// Variables of macros and the path of what each goes through, if it is one.
    scopes: Vec<(Arc<str>, Option<Path>)>,
    found: BTreeSet<Reference>,
    unknown: BTreeSet<(Span, Arc<str>)>,
}

impl Collector<'_> {
    /// Records what a node reads; returns its path if it is one.
    fn read(&mut self, id: NodeId) -> Option<Path> {
        let path = self.walk(id);
        if let Some(path) = &path {
            let span = self.ast.span(id);
            self.found.insert(Reference {
                path: path.clone(),
                span,
            });
        }
        path
    }

    /// Like [`Self::read`], but the node's own path is left to whoever goes on from it.
    fn walk(&mut self, id: NodeId) -> Option<Path> {
        let spine = self.ast.spine(id);
        let (mut path, mut at) = self.start(&spine);
        while at > 0 {
            at -= 1;
            path = self.step(spine[at], path);
        }
        path
    }

    /// The name at the bottom of a spine, and where in the spine it ends.
    fn start(&mut self, spine: &[NodeId]) -> (Option<Path>, usize) {
        let leaf = spine.len() - 1;
        let Node::Ident(first) = self.ast.node(spine[leaf]) else {
            self.children(spine[leaf]);
            return (None, leaf);
        };
        if let Some((_, path)) = self.scopes.iter().rev().find(|(name, _)| name == first) {
            return (path.clone(), leaf);
        }
        match self.env.leading(self.ast, spine) {
            Some((Named::Variable(slot), count)) => {
                let root = self.env.variable(slot).name.to_string();
                let steps = Vec::new();
                (Some(Path { root, steps }), leaf + 1 - count)
            }
            Some((Named::Type(_), count)) => (None, leaf + 1 - count),
            None => {
                self.unknown
                    .insert((self.ast.span(spine[leaf]), first.clone()));
                (None, leaf)
            }
        }
    }

    /// One step up a spine.
    fn step(&mut self, id: NodeId, path: Option<Path>) -> Option<Path> {
        let extend = |path: Option<Path>, step: Step| {
            path.map(|mut path| {
                path.steps.push(step);
                path
            })
        };
        match self.ast.node(id) {
            Node::Select { field, .. } => extend(path, Step::Field(field.to_string())),
            Node::Has { field, .. } => {
                let tested = extend(path, Step::Field(field.to_string()));
                self.record(id, tested);
                None
            }
            Node::Index { index, .. } => {
                let step = match self.ast.node(*index) {
                    Node::Literal(Literal::String(text)) => Step::Field(text.to_string()),
                    Node::Literal(Literal::Int(value)) => Step::Index(*value),
                    Node::Literal(_)
                    | Node::Ident(_)
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
                    | Node::Block { .. } => {
                        self.read(*index);
                        Step::Any
                    }
                };
                extend(path, step)
            }
            Node::Binary(_, _, right) => {
                self.record(id, path);
                self.read(*right);
                None
            }
            Node::Literal(_)
            | Node::Ident(_)
            | Node::Call { .. }
            | Node::Unary(..)
            | Node::And(_)
            | Node::Or(_)
            | Node::Conditional(..)
            | Node::List(_)
            | Node::Map(_)
            | Node::Struct { .. }
            | Node::Fold(_)
            | Node::Bind { .. }
            | Node::OptMap { .. }
            | Node::Block { .. } => path,
        }
    }

    fn record(&mut self, id: NodeId, path: Option<Path>) {
        if let Some(path) = path {
            let span = self.ast.span(id);
            self.found.insert(Reference { path, span });
        }
    }

    /// Everything below a node that is no path itself.
    fn children(&mut self, id: NodeId) {
        let ast = self.ast;
        match ast.node(id) {
            Node::Literal(_)
            | Node::Ident(_)
            | Node::Select { .. }
            | Node::Has { .. }
            | Node::Index { .. }
            | Node::Binary(..) => {}
            Node::Call {
                function,
                target,
                args,
            } => {
                if let Some(target) = target {
                    let prefix = ast.qualified_name(*target);
                    let name = prefix.map(|prefix| format!("{prefix}.{function}"));
                    if name.is_none_or(|name| self.env.function(&name).is_none()) {
                        self.read(*target);
                    }
                }
                self.read_all(args);
            }
            Node::Unary(_, operand) => self.read_all(&[*operand]),
            Node::And(terms) | Node::Or(terms) => self.read_all(terms),
            Node::Conditional(a, b, c) => self.read_all(&[*a, *b, *c]),
            Node::List(items) => items.iter().for_each(|item| {
                self.read(item.value);
            }),
            Node::Map(entries) => entries
                .iter()
                .for_each(|entry| self.read_all(&[entry.key, entry.value])),
            Node::Struct { fields, .. } => fields.iter().for_each(|field| {
                self.read(field.value);
            }),
            Node::Fold(fold) => {
                let range = self.read(fold.range);
                let item = range.map(|mut path| {
                    path.steps.push(Step::Any);
                    path
                });
                let depth = self.scopes.len();
                // With two variables the first is a key; alone it may be one, of a map.
                let keyed = fold.var2.is_some();
                self.scopes
                    .push((fold.var.clone(), item.clone().filter(|_| !keyed)));
                if let Some(second) = &fold.var2 {
                    self.scopes.push((second.clone(), item));
                }
                for body in fold.filter.iter().chain([&fold.body]) {
                    self.read(*body);
                }
                self.scopes.truncate(depth);
            }
            Node::Bind { name, init, body } => {
                let path = self.read(*init);
                self.scopes.push((name.clone(), path));
                self.read(*body);
                self.scopes.pop();
            }
            Node::OptMap {
                target, name, body, ..
            } => {
                let path = self.read(*target);
                self.scopes.push((name.clone(), path));
                self.read(*body);
                self.scopes.pop();
            }
            Node::Block { slots, body } => {
                let depth = self.scopes.len();
                for (index, slot) in slots.iter().enumerate() {
                    let path = self.read(*slot);
                    self.scopes.push((format!("@index{index}").into(), path));
                }
                self.read(*body);
                self.scopes.truncate(depth);
            }
        }
    }

    fn read_all(&mut self, ids: &[NodeId]) {
        for id in ids {
            self.read(*id);
        }
    }
}
