//! Estimates: the least and the most that evaluating can cost, from the bounds of schemas.
//!
//! The arithmetic is cel-go's on its expansion of macros, with Kubernetes' costs of functions and
//! Kubernetes' sizes of data.

mod calls;
mod folds;

use std::ops::Add as _;
use std::sync::Arc;

use super::Interval;
use crate::check::Checked;
use crate::env::Env;
use crate::syntax::{Ast, Literal, Node, NodeId};
use crate::types::Type;

/// The least and the most that evaluating can cost.
pub fn estimate(ast: &Ast, checked: &Checked, env: &Env) -> Interval {
    Coster {
        ast,
        checked,
        env,
        paths: vec![None; ast.len()],
        sizes: vec![None; ast.len()],
        entries: vec![None; ast.len()],
        locals: Vec::new(),
    }
    .cost(ast.root())
}

/// A way through the data, as sizes are looked up by it.
type Path = Arc<[Step]>;

/// Longer paths are not followed.
const MAX_PATH: usize = 128;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Name(Arc<str>),
    Items,
    Values,
    Keys,
    Indices,
}

/// The sizes of the keys and values in a list or map.
#[derive(Clone, Copy, Debug)]
struct Entry {
    is_list: bool,
    key: Interval,
    value: Interval,
}

#[derive(Clone, Debug)]
struct Local {
    name: Arc<str>,
    path: Option<Path>,
    size: Option<Interval>,
    entry: Option<Entry>,
}

struct Coster<'a> {
    ast: &'a Ast,
    checked: &'a Checked,
    env: &'a Env,
    paths: Vec<Option<Path>>,
    sizes: Vec<Option<Interval>>,
    entries: Vec<Option<Entry>>,
    locals: Vec<Local>,
}

/// What the cost of a function is estimated from.
struct Operand {
    /// What was computed for it, if anything.
    size: Option<Interval>,
    path: Option<Path>,
    ty: Type,
    node: Option<NodeId>,
}

// === impl Entry ===

impl Entry {
    fn union(self, other: Self) -> Self {
        Self {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

// === impl Coster ===

impl Coster<'_> {
    /// The cost of a node; chains that lean to the left are added up from below.
    fn cost(&mut self, id: NodeId) -> Interval {
        let spine = self.ast.spine(id);
        let (mut cost, mut at) = self.leading_name(&spine);
        while at > 0 {
            at -= 1;
            cost = self.one(spine[at], cost);
        }
        cost
    }

    /// The cost of the name at the bottom of a spine, and where in the spine it ends.
    fn leading_name(&mut self, spine: &[NodeId]) -> (Interval, usize) {
        let leaf = spine.len() - 1;
        let Node::Ident(first) = self.ast.node(spine[leaf]) else {
            return (Interval::fixed(0), leaf + 1);
        };
        // Parts of a dotted name have no type of their own.
        let mut end = leaf;
        let mut name = first.to_string();
        if !self.locals.iter().any(|local| local.name == *first) {
            while end > 0 && *self.checked.ty(spine[end]) == Type::Error {
                end -= 1;
                if let Node::Select { field, .. } = self.ast.node(spine[end]) {
                    name = format!("{name}.{field}");
                }
            }
        }
        let local = self.locals.iter().rev().find(|local| *local.name == *name);
        let path = match local {
            Some(local) => local.path.clone(),
            None => Some([Step::Name(name.into())].into()),
        };
        self.paths[spine[end].index()] = path;
        (Interval::fixed(1), end)
    }

    /// The cost of a node whose left child costs `left`.
    fn one(&mut self, id: NodeId, left: Interval) -> Interval {
        let ast = self.ast;
        match ast.node(id) {
            Node::Literal(_) => Interval::fixed(0),
            Node::Ident(_) => left,
            Node::Select {
                operand,
                field,
                optional: false,
            } => {
                self.paths[id.index()] = self.extended(*operand, Step::Name(field.clone()));
                let structured = matches!(
                    self.checked.ty(*operand),
                    Type::Map(_) | Type::Object(_) | Type::Param(_)
                );
                left.add(Interval::fixed(u64::from(structured)))
            }
            Node::Select { optional: true, .. } => left.add(Interval::fixed(1)),
            Node::Has { .. } => {
                let presence = u64::from(self.env.options().presence_costs);
                left.add(Interval::fixed(presence))
            }
            Node::Index { operand, index, .. } => {
                let index_cost = self.cost(*index);
                let operands = [self.operand(*operand), self.operand(*index)];
                self.call_cost(id, &operands, &[left, index_cost], false)
            }
            Node::Call { target, args, .. } => self.call(id, *target, args),
            Node::Unary(_, operand) => {
                let cost = self.cost(*operand);
                let operands = [self.operand(*operand)];
                self.call_cost(id, &operands, &[cost], false)
            }
            Node::Binary(_, first, second) => {
                let cost = self.cost(*second);
                let operands = [self.operand(*first), self.operand(*second)];
                self.call_cost(id, &operands, &[left, cost], false)
            }
            Node::And(terms) | Node::Or(terms) => {
                let costs: Vec<Interval> = terms.iter().map(|term| self.cost(*term)).collect();
                let most = costs
                    .iter()
                    .fold(0, |sum: u64, cost| sum.saturating_add(cost.max));
                Interval::new(costs[0].min, most)
            }
            Node::Conditional(condition, yes, no) => self.conditional(id, *condition, *yes, *no),
            Node::List(items) => self.list(id, items),
            Node::Map(entries) => self.map(id, entries),
            Node::Struct { fields, .. } => {
                let costs = fields.iter().map(|field| self.cost(field.value));
                costs.fold(Interval::fixed(40), Interval::add)
            }
            Node::Fold(fold) => self.fold(id, fold),
            Node::Bind { name, init, body } => {
                // The expansion has an empty list to go through.
                let init_cost = self.cost(*init).add(Interval::fixed(10));
                let cost = self.bound(name, *init, *body);
                self.sizes[id.index()] = self.size(*body);
                self.entries[id.index()] = self.entry(*body);
                init_cost.add(cost)
            }
            Node::OptMap {
                target,
                name,
                body,
                flat,
            } => {
                let asked = self.cost(*target).add(Interval::fixed(1));
                let body = self.bound(name, *target, *body);
                let some = asked.add(Interval::fixed(10 + u64::from(!flat))).add(body);
                asked.add(some.union(Interval::fixed(1)))
            }
            Node::Block { slots, body } => self.block(slots, *body),
        }
    }

    fn call(&mut self, id: NodeId, target: Option<NodeId>, args: &[NodeId]) -> Interval {
        let costs: Vec<Interval> = args.iter().map(|arg| self.cost(*arg)).collect();
        let operands: Vec<Operand> = args.iter().map(|arg| self.operand(*arg)).collect();
        let Some(target) = target.filter(|_| !self.checked.is_namespaced(id)) else {
            return self.call_cost(id, &operands, &costs, false);
        };
        let cost = self.cost(target);
        let mut all = vec![self.operand(target)];
        all.extend(operands);
        cost.add(self.call_cost(id, &all, &costs, true))
    }

    fn block(&mut self, slots: &[NodeId], body: NodeId) -> Interval {
        let depth = self.locals.len();
        let mut sum = Interval::fixed(10);
        for (index, slot) in slots.iter().enumerate() {
            sum = sum.add(self.cost(*slot));
            let local = self.local(format!("@index{index}").into(), *slot);
            self.locals.push(local);
        }
        sum = sum.add(self.cost(body));
        self.locals.truncate(depth);
        sum
    }

    /// The cost of `body` where `name` stands for `init`.
    fn bound(&mut self, name: &Arc<str>, init: NodeId, body: NodeId) -> Interval {
        let local = self.local(name.clone(), init);
        self.locals.push(local);
        let cost = self.cost(body);
        self.locals.pop();
        cost
    }

    fn local(&mut self, name: Arc<str>, init: NodeId) -> Local {
        Local {
            name,
            path: self.paths[init.index()].clone(),
            size: self.size(init),
            entry: self.entry(init),
        }
    }

    fn conditional(&mut self, id: NodeId, condition: NodeId, yes: NodeId, no: NodeId) -> Interval {
        let [condition, yes_cost, no_cost] = [condition, yes, no].map(|part| self.cost(part));
        self.sizes[id.index()] = Some(self.size_or_unknown(yes).union(self.size_or_unknown(no)));
        if let (Some(a), Some(b)) = (self.entry(yes), self.entry(no)) {
            self.entries[id.index()] = Some(a.union(b));
        }
        condition.add(yes_cost.union(no_cost))
    }

    fn list(&mut self, id: NodeId, items: &[crate::syntax::Item]) -> Interval {
        let mut sum = Interval::fixed(10);
        let mut value = if items.is_empty() {
            Interval::fixed(0)
        } else {
            Interval::NOTHING
        };
        for item in items {
            sum = sum.add(self.cost(item.value));
            value = value.union(self.size_or_unknown(item.value));
        }
        self.entries[id.index()] = Some(Entry {
            is_list: true,
            key: Interval::fixed(1),
            value,
        });
        sum
    }

    fn map(&mut self, id: NodeId, entries: &[crate::syntax::MapEntry]) -> Interval {
        let mut sum = Interval::fixed(30);
        let none = if entries.is_empty() {
            Interval::fixed(0)
        } else {
            Interval::NOTHING
        };
        let (mut key, mut value) = (none, none);
        for entry in entries {
            sum = sum.add(self.cost(entry.key)).add(self.cost(entry.value));
            key = key.union(self.size_or_unknown(entry.key));
            value = value.union(self.size_or_unknown(entry.value));
        }
        self.entries[id.index()] = Some(Entry {
            is_list: false,
            key,
            value,
        });
        sum
    }

    fn extended(&self, id: NodeId, step: Step) -> Option<Path> {
        let before = self.paths[id.index()].as_deref().unwrap_or_default();
        // No schema is so deep; what is not known to be small is taken to be large.
        (before.len() < MAX_PATH).then(|| before.iter().cloned().chain([step]).collect())
    }

    fn operand(&mut self, id: NodeId) -> Operand {
        Operand {
            size: self.size(id),
            path: self.paths[id.index()].clone(),
            ty: self.checked.ty(id).clone(),
            node: Some(id),
        }
    }

    fn size_or_unknown(&mut self, id: NodeId) -> Interval {
        self.size(id).unwrap_or(Interval::UNKNOWN)
    }

    /// The size of a node's value, if anything is known about it.
    fn size(&mut self, id: NodeId) -> Option<Interval> {
        if let Some(size) = self.sizes[id.index()] {
            return Some(size);
        }
        let literal = match self.ast.node(id) {
            Node::Literal(Literal::String(text)) => Some(text.chars().count()),
            Node::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            Node::Literal(_) => Some(1),
            Node::List(items) => Some(items.len()),
            Node::Map(entries) => Some(entries.len()),
            Node::Ident(_)
            | Node::Select { .. }
            | Node::Has { .. }
            | Node::Index { .. }
            | Node::Call { .. }
            | Node::Unary(..)
            | Node::Binary(..)
            | Node::And(_)
            | Node::Or(_)
            | Node::Conditional(..)
            | Node::Struct { .. }
            | Node::Fold(_)
            | Node::Bind { .. }
            | Node::OptMap { .. }
            | Node::Block { .. } => None,
        };
        if let Some(size) = literal {
            return Some(Interval::fixed(size as u64));
        }
        if let Some(size) = self.declared(self.paths[id.index()].as_ref()) {
            self.sizes[id.index()] = Some(size);
            return Some(size);
        }
        if self.checked.ty(id).is_scalar() {
            return Some(Interval::fixed(1));
        }
        self.local_of(id).and_then(|local| local.size)
    }

    fn entry(&self, id: NodeId) -> Option<Entry> {
        self.entries[id.index()].or_else(|| self.local_of(id).and_then(|local| local.entry))
    }

    fn local_of(&self, id: NodeId) -> Option<&Local> {
        if let Node::Ident(name) = self.ast.node(id) {
            self.locals.iter().rev().find(|local| local.name == *name)
        } else {
            None
        }
    }

    /// The size of the data at a path, as its schema bounds it.
    fn declared(&self, path: Option<&Path>) -> Option<Interval> {
        let (first, steps) = path?.split_first()?;
        let mut variables = self.env.variables();
        let first_declared = self.env.variables().next();
        let named = match first {
            Step::Name(name) => variables.find(|variable| variable.name == *name),
            Step::Items | Step::Values | Step::Keys | Step::Indices => None,
        };
        // What is in no variable is measured by the first one: Kubernetes has but one.
        let mut decl = &*named.or(first_declared)?.decl;
        for step in steps {
            decl = match (step, decl.shape()) {
                (Step::Name(name), crate::decl::Shape::Object(object)) => {
                    object.field(name)?.decl()
                }
                (Step::Items | Step::Values, crate::decl::Shape::List { items, .. }) => items,
                (Step::Items | Step::Values, crate::decl::Shape::Map { values }) => values,
                (Step::Keys, crate::decl::Shape::Map { .. }) => {
                    return decl.max_elements().map(|_| Interval::fixed(0));
                }
                _ => return None,
            };
        }
        decl.max_elements().map(|most| Interval::new(0, most))
    }
}
