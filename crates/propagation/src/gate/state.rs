//! Finds the names whose state an expression reads: what others bring about, and not what somebody
//! wrote.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use deltaplane_expr::syntax::{Ast, Fold, Literal, Node, NodeId};
use deltaplane_expr::{Env, env};

use super::names::{Names, brought};
use super::tree::unwrapped;
use crate::functions::reads_standing;

const STATUS: &str = "status";

/// The names whose state each part of a tree reads.
struct StateReads<'a> {
    ast: &'a Ast,
    names: Names,
    reads: Vec<BTreeSet<Arc<str>>>,
}

/// Returns the names of the objects whose status or readiness an expression reads, be it bare or
/// written as `${…}`. An expression that cannot be parsed reads none.
pub fn state_reads(text: &str) -> BTreeSet<Arc<str>> {
    let Ok(ast) = deltaplane_expr::parse(unwrapped(text), &syntax_env()) else {
        return BTreeSet::new();
    };
    let mut all = StateReads {
        names: Names::of(&ast),
        ast: &ast,
        reads: Vec::with_capacity(ast.len()),
    };
    // Children come first.
    for id in ast.ids() {
        let reads = all.of(id);
        all.reads.push(reads);
    }
    all.at(ast.root()).clone()
}

/// Only for parsing: calls are not looked up.
fn syntax_env() -> Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    ENV.get_or_init(|| env::gate().build()).clone()
}

// === impl StateReads ===

impl StateReads<'_> {
    fn at(&self, id: NodeId) -> &BTreeSet<Arc<str>> {
        &self.reads[id.index()]
    }

    fn of(&self, id: NodeId) -> BTreeSet<Arc<str>> {
        match self.ast.node(id) {
            Node::Fold(fold) => self.of_fold(fold),
            Node::Bind { name, init, body } => self.through(*init, &[name], *body),
            Node::OptMap {
                target, name, body, ..
            } => self.through(*target, &[name], *body),
            node @ (Node::Literal(_)
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
            | Node::Block { .. }) => {
                let children = node.children().into_iter();
                let below = children.flat_map(|child| self.at(child).clone());
                below.chain(self.own(id, node)).collect()
            }
        }
    }

    fn of_fold(&self, fold: &Fold) -> BTreeSet<Arc<str>> {
        let variables: Vec<&Arc<str>> = brought(fold).collect();
        let parts = fold.filter.iter().chain([&fold.body]);
        let parts = parts.flat_map(|part| self.through(fold.range, &variables, *part));
        parts.collect()
    }

    /// The reads of a part with variables that stand for values of another.
    fn through(&self, of: NodeId, variables: &[&Arc<str>], part: NodeId) -> BTreeSet<Arc<str>> {
        let (bound, free): (BTreeSet<Arc<str>>, BTreeSet<Arc<str>>) = self
            .at(part)
            .iter()
            .cloned()
            .partition(|name| variables.contains(&name));
        let mut reads = &free | self.at(of);
        if !bound.is_empty() && self.is_object(of) {
            reads.extend(self.names.at(of).iter().cloned());
        }
        reads
    }

    /// The names whose state a node reads by itself.
    fn own(&self, id: NodeId, node: &Node) -> BTreeSet<Arc<str>> {
        if let Node::Call { function, .. } = node
            && reads_standing(function)
        {
            return self.names.at(id).clone();
        }
        match self.field(node) {
            Some((operand, STATUS)) if self.is_object(operand) => self.names.at(operand).clone(),
            Some(_) | None => BTreeSet::new(),
        }
    }

    /// Returns true for an object or an item of a list, and false for a field: `spec.status` is what
    /// somebody wrote.
    fn is_object(&self, id: NodeId) -> bool {
        let node = self.ast.node(id);
        if let Node::Index { operand, .. } = node {
            return self.field(node).is_none() && self.is_object(*operand);
        }
        self.field(node).is_none()
    }

    /// The field that a node reads, and of what.
    fn field<'n>(&'n self, node: &'n Node) -> Option<(NodeId, &'n str)> {
        if let Node::Select { operand, field, .. } | Node::Has { operand, field } = node {
            return Some((*operand, field));
        }
        if let Node::Index { operand, index, .. } = node
            && let Node::Literal(Literal::String(key)) = self.ast.node(*index)
        {
            return Some((*operand, key));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_status_and_readiness_of_objects() {
        let check = |text: &str, expected: &[&str]| {
            let reads = state_reads(text);
            let reads: Vec<&str> = reads.iter().map(|name| &**name).collect();
            assert_eq!(reads, expected, "{text}");
        };
        for text in [
            "egg.status.done",
            "${ egg.status.done }",
            "has(egg.status)",
            "egg.?status.orValue(1) == 1",
            "egg[\"status\"].done",
            "egg.ready()",
            "readyFor(egg, '5m')",
            "linearlyReady(nest, egg, 1) && false || egg.ready()",
            "egg.all(one, one.status.done)",
            "egg.filter(one, one.ready()).size() == 1",
            "egg[0].status.done",
            "cel.bind(one, egg, one.status.done)",
            "nest.spec.size == egg.status.size",
            "egg.status.conditions.all(one, one.status == 'True')",
        ] {
            let reads = state_reads(text);
            assert!(reads.contains("egg"), "{text}: {reads:?}");
        }
        check("egg.spec.alreadyPaid", &[]);
        check("egg.spec.ready && egg.metadata.labels.updated == 'x'", &[]);
        check("egg.spec.status == 'on'", &[]);
        check("egg.spec[\"a\"].status == 'on'", &[]);
        check("egg[\"spec\"][\"status\"] == 'on'", &[]);
        check("egg.spec.parts.all(part, part.status == 'on')", &[]);
        check("egg.spec.note == 'status'", &[]);
        check("size(eggs) == 3", &[]);
        check("egg.spec.on && nest.ready()", &["nest"]);
        check("nest.spec.all(n, n > 0) && egg.updated()", &["egg"]);
        check("egg.status.", &[]);
    }
}
