//! The checker: gives every node a type, finds the overloads of every call, collects all errors.
//!
//! It follows cel-go's rules: types unify through variables, `dyn` goes with everything, null
//! goes with wrappers, messages, times and opaque types.

mod assign;
mod calls;
mod folds;
mod literals;
mod references;

use std::sync::Arc;

use crate::env::{Env, Named, Overload};
use crate::span::{MAX_PROBLEMS, Problem, Problems, Span};
use crate::syntax::{Ast, Item, Literal, MapEntry, Node, NodeId};
use crate::types::{Primitive, Type};

use assign::Mapping;
use literals::Literals;

pub use references::{Names, Reference, names, references};

/// What the checker found out.
#[derive(Clone, Debug)]
pub struct Checked {
    types: Vec<Type>,
    overloads: Vec<Option<Arc<[Arc<Overload>]>>>,
    /// Calls of functions with dots in their names, whose target is part of the name.
    namespaced: Vec<bool>,
}

impl Checked {
    /// The type of a node. Parts of names have none of their own: they are errors.
    pub fn ty(&self, id: NodeId) -> &Type {
        &self.types[id.index()]
    }

    /// The overloads that a call may resolve to.
    pub(crate) fn overloads(&self, id: NodeId) -> Option<&Arc<[Arc<Overload>]>> {
        self.overloads[id.index()].as_ref()
    }

    pub(crate) fn is_namespaced(&self, id: NodeId) -> bool {
        self.namespaced[id.index()]
    }
}

/// Checks `ast` against what `env` declares.
pub fn check(ast: &Ast, env: &Env) -> Result<Checked, Problems> {
    let mut checker = Checker {
        ast,
        env,
        types: vec![Type::Error; ast.len()],
        overloads: vec![None; ast.len()],
        namespaced: vec![false; ast.len()],
        mapping: Mapping::default(),
        scopes: Vec::new(),
        mixed: false,
        literals: Literals::default(),
        problems: Vec::new(),
        expected: Vec::new(),
    };
    checker.parts();
    if checker.problems.is_empty() {
        checker.node(ast.root());
    }
    if !checker.problems.is_empty() {
        let problems = Problems::new(ast.source(), checker.problems);
        return Err(problems.expecting(checker.expected));
    }
    let mut mapping = checker.mapping;
    mapping.shorten();
    let types: Vec<Type> = checker
        .types
        .iter()
        .map(|ty| mapping.finished(ty))
        .collect();
    let problems = checker.literals.problems(ast, env, &types);
    if !problems.is_empty() {
        return Err(Problems::new(ast.source(), problems));
    }
    Ok(Checked {
        types,
        overloads: checker.overloads,
        namespaced: checker.namespaced,
    })
}

struct Checker<'a> {
    ast: &'a Ast,
    env: &'a Env,
    types: Vec<Type>,
    overloads: Vec<Option<Arc<[Arc<Overload>]>>>,
    namespaced: Vec<bool>,
    mapping: Mapping,
    /// Variables of macros, the innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    /// Whether literals may be of mixed types here even where they usually may not.
    mixed: bool,
    /// What is looked at again once all types are known.
    literals: Literals,
    problems: Vec<Problem>,
    /// What would have done instead of a call that does not.
    expected: Vec<(Problem, Vec<String>)>,
}

// === impl Checker ===

impl Checker<'_> {
    /// Nobody reads more than a hundred.
    fn problem(&mut self, span: Span, message: impl Into<String>) {
        if self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        self.problems.push(Problem {
            span,
            message: message.into(),
        });
    }

    /// Expressions in a text are strings: nothing is made one silently.
    fn parts(&mut self) {
        for &part in self.ast.parts() {
            self.node(part);
            let ty = self.resolved(part);
            if !matches!(
                ty,
                Type::String | Type::Dyn | Type::Error | Type::Wrapper(Primitive::String)
            ) {
                let message = format!(
                    "expected type 'string' but found '{ty}': in a text, write string(…) around it"
                );
                self.problem(self.ast.span(part), message);
            }
        }
    }

    fn set(&mut self, id: NodeId, ty: Type) {
        let fits = self.mapping.fits(&ty);
        self.types[id.index()] = match fits {
            true => ty,
            false => Type::Error,
        };
        if !fits {
            self.problem(self.ast.span(id), "the type of this has too many parts");
        }
    }

    fn ty(&self, id: NodeId) -> &Type {
        &self.types[id.index()]
    }

    /// The type of a node as far as it is known.
    fn resolved(&self, id: NodeId) -> Type {
        self.mapping.substitute(self.ty(id))
    }

    /// Checks a node: first what leans to the left, from the bottom up, then the node itself.
    fn node(&mut self, id: NodeId) -> Type {
        let spine = self.ast.spine(id);
        let done = self.leading_name(&spine);
        for &at in spine.iter().rev().skip(done) {
            let ty = self.one(at);
            self.set(at, ty);
        }
        self.ty(id).clone()
    }

    /// Resolves the name at the bottom of a spine, dotted as far as something is declared.
    /// Returns how many nodes it takes.
    fn leading_name(&mut self, spine: &[NodeId]) -> usize {
        let ast = self.ast;
        let leaf = spine[spine.len() - 1];
        let Node::Ident(first) = ast.node(leaf) else {
            return 0;
        };
        let local = self.scopes.iter().rev().find(|(name, _)| **name == **first);
        if let Some((_, ty)) = local {
            let ty = ty.clone();
            self.set(leaf, ty);
            return 1;
        }
        if let Some((named, count)) = self.env.leading(ast, spine) {
            let ty = match named {
                Named::Variable(slot) => self.env.variable(slot).decl.ty().clone(),
                Named::Type(ty) => Type::of_type(ty),
            };
            self.set(spine[spine.len() - count], ty);
            return count;
        }
        let message = format!(
            "undeclared reference to '{first}' (in container '{}')",
            self.env.container()
        );
        self.problem(ast.span(leaf), message);
        self.set(leaf, Type::Error);
        1
    }

    /// Checks one node whose left child has been checked.
    fn one(&mut self, id: NodeId) -> Type {
        let ast = self.ast;
        match ast.node(id) {
            Node::Literal(literal) => literal_type(literal),
            // Names are resolved before.
            Node::Ident(_) => self.ty(id).clone(),
            Node::Select {
                operand,
                field,
                optional,
            } => self.select(id, *operand, field, *optional),
            Node::Has { operand, field } => {
                self.select(id, *operand, field, false);
                Type::Bool
            }
            Node::Index {
                operand,
                index,
                optional,
            } => self.index(id, *operand, *index, *optional),
            Node::Call {
                function,
                target,
                args,
            } => self.call(id, function, *target, args),
            Node::Unary(operator, operand) => {
                self.node(*operand);
                self.resolve(id, operator.function(), &[*operand], false)
            }
            Node::Binary(operator, left, right) => {
                self.node(*right);
                self.resolve(id, operator.function(), &[*left, *right], false)
            }
            Node::And(terms) | Node::Or(terms) => {
                for &term in terms {
                    self.node(term);
                    self.expect(term, &Type::Bool);
                }
                Type::Bool
            }
            Node::Conditional(condition, yes, no) => {
                for part in [*condition, *yes, *no] {
                    self.node(part);
                }
                self.resolve(id, "_?_:_", &[*condition, *yes, *no], false)
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Struct { name, fields } => {
                for field in fields {
                    self.node(field.value);
                }
                let message = format!(
                    "undeclared reference to '{name}' (in container '{}')",
                    self.env.container()
                );
                self.problem(ast.span(id), message);
                Type::Error
            }
            Node::Fold(fold) => self.fold(fold),
            Node::Bind { name, init, body } => {
                let ty = self.node(*init);
                self.scoped(&[(name.clone(), ty)], |checker| checker.node(*body))
            }
            Node::OptMap {
                target,
                name,
                body,
                flat,
            } => self.opt_map(*target, name, (*body, *flat)),
            Node::Block { slots, body } => self.block(slots, *body),
        }
    }

    fn list(&mut self, items: &[Item]) -> Type {
        let mut common = None;
        for item in items {
            self.node(item.value);
            let ty = self.element(item.value, item.optional);
            common = Some(self.join(common, ty));
        }
        if self.is_uniform() {
            self.literals.list(items);
        }
        Type::list(common.unwrap_or_else(|| self.mapping.fresh()))
    }

    fn map(&mut self, entries: &[MapEntry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.node(entry.key);
            let key = self.ty(entry.key).clone();
            keys = Some(self.join(keys, key));
            self.node(entry.value);
            let value = self.element(entry.value, entry.optional);
            values = Some(self.join(values, value));
        }
        if self.is_uniform() {
            self.literals.map(entries);
        }
        let keys = keys.unwrap_or_else(|| self.mapping.fresh());
        Type::map(keys, values.unwrap_or_else(|| self.mapping.fresh()))
    }

    fn block(&mut self, slots: &[NodeId], body: NodeId) -> Type {
        let mut names = Vec::new();
        for (index, slot) in slots.iter().enumerate() {
            let ty = self.scoped(&names, |checker| checker.node(*slot));
            names.push((format!("@index{index}").into(), ty));
        }
        self.scoped(&names, |checker| checker.node(body))
    }

    /// Runs `inner` with these variables in scope.
    fn scoped<T>(&mut self, names: &[(Arc<str>, Type)], inner: impl FnOnce(&mut Self) -> T) -> T {
        let depth = self.scopes.len();
        self.scopes.extend_from_slice(names);
        let result = inner(self);
        self.scopes.truncate(depth);
        result
    }

    /// Reports a node whose type is not the wanted one.
    fn expect(&mut self, id: NodeId, wanted: &Type) {
        let found = self.ty(id).clone();
        if !self.mapping.assignable(wanted, &found) {
            let found = self.mapping.finished(&found);
            self.problem(
                self.ast.span(id),
                format!("expected type '{wanted}' but found '{found}'"),
            );
        }
    }

    /// The type of an item, taken out of its optional when it is marked as one.
    fn element(&mut self, id: NodeId, optional: bool) -> Type {
        let ty = self.resolved(id);
        if !optional {
            return ty;
        }
        let (inner, is_optional) = ty.unwrap_optional();
        if !is_optional && !inner.is_dyn_or_error() {
            let message = format!("expected type 'optional_type({inner})' but found '{inner}'");
            self.problem(self.ast.span(id), message);
        }
        inner.clone()
    }

    /// The type that covers both.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else {
            return current;
        };
        if self.mapping.assignable(&previous, &current) {
            return assign::most_general(&previous, &current).clone();
        }
        Type::Dyn
    }

    fn is_uniform(&self) -> bool {
        self.env.options().homogeneous && !self.mixed
    }

    /// A field that the operand does not have.
    fn undefined(&mut self, id: NodeId, operand: NodeId, field: &str) -> Type {
        let span = Span {
            start: self.ast.span(operand).end,
            ..self.ast.span(id)
        };
        self.problem(span, format!("undefined field '{field}'"));
        Type::Error
    }

    fn select(&mut self, id: NodeId, operand: NodeId, field: &str, optional: bool) -> Type {
        let operand_type = self.resolved(operand);
        let (target, was_optional) = operand_type.unwrap_optional();
        let result = match target {
            Type::Map(pair) => pair.1.clone(),
            Type::Object(object) => match object.field(field) {
                Some(field) => field.decl().ty().clone(),
                None if object.is_open() => Type::Dyn,
                None => self.undefined(id, operand, field),
            },
            Type::Opaque(opaque) if !self.env.fields(&opaque.name).is_empty() => {
                match self.env.fields(&opaque.name).contains(&field) {
                    true => Type::String,
                    false => self.undefined(id, operand, field),
                }
            }
            Type::Param(_) => {
                self.mapping.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            other @ (Type::Dyn
            | Type::Error
            | Type::Null
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::String
            | Type::Bytes
            | Type::Timestamp
            | Type::Duration
            | Type::Wrapper(_)
            | Type::List(_)
            | Type::Optional(_)
            | Type::Type(_)
            | Type::Opaque(_)) => {
                if !other.is_dyn_or_error() {
                    let message = format!("type '{other}' does not support field selection");
                    self.problem(self.ast.span(id), message);
                }
                Type::Dyn
            }
        };
        if was_optional || optional {
            return Type::optional(result);
        }
        result
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

#[cfg(test)]
mod tests;
