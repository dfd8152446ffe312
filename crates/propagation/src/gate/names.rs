//! Which names the parts of an expression use, and where macros bring names of their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_expr::syntax::{Ast, Fold, Node, NodeId};

/// The names that each part of a tree uses and does not bring itself.
#[derive(Debug)]
pub(crate) struct Names(Vec<BTreeSet<Arc<str>>>);

/// A name that a macro brings, and the ones around it.
#[derive(Debug)]
struct Local {
    name: Arc<str>,
    /// The variable that a loop goes through, item by item.
    range: Option<Arc<str>>,
    outer: Option<usize>,
}

/// Names of macros; a place in a tree knows which of them it sees.
#[derive(Debug, Default)]
pub(crate) struct Locals(Vec<Local>);

/// A place in a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) id: NodeId,
    pub(crate) parent: Option<NodeId>,
    scope: Option<usize>,
}

// === impl Names ===

impl Names {
    pub(crate) fn of(ast: &Ast) -> Self {
        let mut names = Self(Vec::with_capacity(ast.len()));
        // Children come first.
        for id in ast.ids() {
            let used = names.used(ast.node(id));
            names.0.push(used);
        }
        names
    }

    pub(crate) fn at(&self, id: NodeId) -> &BTreeSet<Arc<str>> {
        &self.0[id.index()]
    }

    fn used(&self, node: &Node) -> BTreeSet<Arc<str>> {
        let without = |id: NodeId, hidden: &[&Arc<str>]| -> BTreeSet<Arc<str>> {
            let seen = self.at(id).iter().filter(|name| !hidden.contains(name));
            seen.cloned().collect()
        };
        match node {
            Node::Ident(name) => BTreeSet::from([bare(name)]),
            Node::Fold(fold) => {
                let hidden: Vec<&Arc<str>> = brought(fold).collect();
                let mut used = self.at(fold.range).clone();
                for part in fold.filter.iter().chain([&fold.body]) {
                    used.extend(without(*part, &hidden));
                }
                used
            }
            Node::Bind { name, init, body } => &without(*body, &[name]) | self.at(*init),
            Node::OptMap {
                target, name, body, ..
            } => &without(*body, &[name]) | self.at(*target),
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
            | Node::Block { .. } => {
                let children = node.children().into_iter();
                children.flat_map(|id| self.at(id).clone()).collect()
            }
        }
    }
}

/// A name without the dot that makes it one of the root's.
fn bare(name: &Arc<str>) -> Arc<str> {
    name.strip_prefix('.')
        .map_or_else(|| name.clone(), Arc::from)
}

pub(super) fn brought(fold: &Fold) -> impl Iterator<Item = &Arc<str>> {
    std::iter::once(&fold.var).chain(&fold.var2)
}

// === impl Locals ===

impl Locals {
    /// Whether a macro brings the name at this place.
    pub(crate) fn brings(&self, place: Place, name: &str) -> bool {
        self.seen(place).any(|local| *local.name == *name)
    }

    /// Whether any of the names is one of a macro's.
    pub(crate) fn bring_any(&self, place: Place, names: &BTreeSet<Arc<str>>) -> bool {
        self.seen(place).any(|local| names.contains(&local.name))
    }

    /// The only name of a macro among `names`, and the variable that its loop goes through.
    pub(crate) fn element(
        &self,
        place: Place,
        names: &BTreeSet<Arc<str>>,
    ) -> Option<(&Arc<str>, &Arc<str>)> {
        let mut used = self.seen(place).filter(|local| names.contains(&local.name));
        let first = used.next()?;
        let range = first.range.as_ref()?;
        used.next().is_none().then_some((&first.name, range))
    }

    fn seen(&self, place: Place) -> impl Iterator<Item = &Local> {
        let outer = |at: &Local| at.outer.and_then(|outer| self.0.get(outer));
        std::iter::successors(place.scope.and_then(|at| self.0.get(at)), move |at| {
            outer(at)
        })
    }

    fn bring(&mut self, name: &Arc<str>, range: Option<Arc<str>>, outer: Option<usize>) -> usize {
        self.0.push(Local {
            name: name.clone(),
            range,
            outer,
        });
        self.0.len() - 1
    }

    /// The parts right below a place, with the names that they see.
    fn below(&mut self, ast: &Ast, place: Place) -> Vec<Place> {
        let at = |id, scope| Place {
            id,
            parent: Some(place.id),
            scope,
        };
        let same = place.scope;
        match ast.node(place.id) {
            Node::Fold(fold) => {
                // With two names the first is a number.
                let single = fold.var2.is_none();
                let range = self.variable(ast, place, fold.range).filter(|_| single);
                let mut inner = same;
                for name in brought(fold) {
                    inner = Some(self.bring(name, range.clone(), inner));
                }
                let bodies = fold.filter.iter().chain([&fold.body]);
                let bodies = bodies.map(|body| at(*body, inner));
                std::iter::once(at(fold.range, same))
                    .chain(bodies)
                    .collect()
            }
            Node::Bind { name, init, body } => {
                let inner = self.bring(name, None, same);
                vec![at(*init, same), at(*body, Some(inner))]
            }
            Node::OptMap {
                target, name, body, ..
            } => {
                let inner = self.bring(name, None, same);
                vec![at(*target, same), at(*body, Some(inner))]
            }
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
                children.map(|id| at(id, same)).collect()
            }
        }
    }

    /// The variable that a part is, if it is one and no macro's.
    pub(crate) fn variable(&self, ast: &Ast, place: Place, id: NodeId) -> Option<Arc<str>> {
        let Node::Ident(name) = ast.node(id) else {
            return None;
        };
        (!self.brings(place, name)).then(|| bare(name))
    }
}

/// Goes through a tree from the top. `visit` says whether to go on below.
pub(crate) fn walk(ast: &Ast, mut visit: impl FnMut(&Locals, Place) -> bool) {
    let mut locals = Locals::default();
    let mut left = vec![Place {
        id: ast.root(),
        parent: None,
        scope: None,
    }];
    while let Some(place) = left.pop() {
        if visit(&locals, place) {
            let below = locals.below(ast, place);
            // What is written first comes first.
            left.extend(below.into_iter().rev());
        }
    }
}
