//! Questions about a collection whose answer is a sum over its items: each item is asked once, and
//! once more when it changes.

use std::sync::Arc;

use deltaplane_expr::syntax::{Ast, Fold, FoldKind, Node, NodeId};
use deltaplane_expr::{Checked, Env, Problems, Program, Slot};

use super::expression::{Replaced, part};
use super::names::{Locals, Names, Place, walk};
use crate::functions::reads_standing;
use crate::scope::Scope;

/// A question that is asked of every item.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) name: Arc<str>,
    pub(crate) kind: CounterKind,
    /// The variables of the question, with the item among them.
    pub(crate) env: Env,
    pub(crate) element: Slot,
    /// The name of the item in the question, and of the collection.
    pub(crate) variable: Arc<str>,
    pub(crate) collection: Arc<str>,
    pub(crate) program: Program,
    /// Whether an admission may change an item's answer.
    pub(crate) reads_standing: bool,
}

/// What is made of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterKind {
    /// `filter(…).size()`.
    Size,
    Exists,
    All,
    ExistsOne,
}

/// The questions in a tree, and the parts that they stand for.
pub(super) fn counters(
    ast: &Ast,
    checked: &Checked,
    env: &Env,
    scope: &Scope,
) -> Result<(Vec<Replaced>, Vec<Counter>), Problems> {
    let names = Names::of(ast);
    let mut found: Vec<(NodeId, CounterKind, &Fold)> = Vec::new();
    walk(ast, |locals, place| {
        let counted = counted(ast, place.id);
        let counted = counted.filter(|(_, fold)| {
            let depends = Depends {
                scope,
                names: &names,
            };
            depends.on_items_alone(ast, locals, place, fold)
        });
        if let Some((kind, fold)) = counted {
            found.push((place.id, kind, fold));
        }
        counted.is_none()
    });
    let mut parts = Vec::new();
    let mut counters = Vec::new();
    for (index, (id, kind, fold)) in found.into_iter().enumerate() {
        let name: Arc<str> = format!("@count{index}").into();
        parts.push(Replaced {
            id,
            name: name.clone(),
            ty: checked.ty(id).clone(),
        });
        counters.push(counter(ast, (name, kind, fold), env, scope)?);
    }
    Ok((parts, counters))
}

fn counter(
    ast: &Ast,
    (name, kind, fold): (Arc<str>, CounterKind, &Fold),
    env: &Env,
    scope: &Scope,
) -> Result<Counter, Problems> {
    let inner = with_element(env, &fold.var, scope.item());
    let collection = if let Node::Ident(name) = ast.node(fold.range) {
        name.clone()
    } else {
        fold.var.clone()
    };
    Ok(Counter {
        name,
        kind,
        element: inner.slot(&fold.var).expect("declared right above"),
        variable: fold.var.clone(),
        collection,
        program: part(ast, fold.body, &inner)?,
        env: inner,
        reads_standing: has_standing(&ast.carved(fold.body, &|_| None)),
    })
}

/// The environment with one more variable, which hides others of its name.
pub(super) fn with_element(env: &Env, name: &str, decl: &deltaplane_expr::Decl) -> Env {
    let variables = env.variables();
    let variables = variables.map(|one| (one.name.to_string(), (*one.decl).clone()));
    env.with_variables(variables.chain([(name.to_owned(), decl.clone())]))
}

/// Whether a tree asks how items stand.
pub(super) fn has_standing(ast: &Ast) -> bool {
    ast.ids()
        .any(|id| matches!(ast.node(id), Node::Call { function, .. } if reads_standing(function)))
}

/// The loop of a question, if the node is one.
fn counted(ast: &Ast, id: NodeId) -> Option<(CounterKind, &Fold)> {
    if let Node::Fold(fold) = ast.node(id) {
        let kind = match fold.kind {
            FoldKind::Exists => CounterKind::Exists,
            FoldKind::All => CounterKind::All,
            FoldKind::ExistsOne | FoldKind::ExistsOneCamel => CounterKind::ExistsOne,
            FoldKind::Map
            | FoldKind::Filter
            | FoldKind::TransformList
            | FoldKind::TransformMap
            | FoldKind::TransformMapEntry
            | FoldKind::SortBy => return None,
        };
        return Some((kind, fold));
    }
    let Node::Call {
        function,
        target,
        args,
    } = ast.node(id)
    else {
        return None;
    };
    let of = match (target, &args[..]) {
        (Some(of), []) | (None, [of]) if &**function == "size" => *of,
        _ => return None,
    };
    if let Node::Fold(fold) = ast.node(of)
        && fold.kind == FoldKind::Filter
    {
        return Some((CounterKind::Size, fold));
    }
    None
}

struct Depends<'a> {
    scope: &'a Scope,
    names: &'a Names,
}

impl Depends<'_> {
    /// Whether a loop goes through the collection, and asks each item of nothing but itself and
    /// what does not change in a pass.
    fn on_items_alone(&self, ast: &Ast, locals: &Locals, place: Place, fold: &Fold) -> bool {
        let range = locals.variable(ast, place, fold.range);
        let through_items = range.is_some_and(|name| self.scope.is_items(&name));
        let plain = fold.var2.is_none() && fold.filter.is_none();
        let mut used = self.names.at(fold.body).clone();
        used.remove(&fold.var);
        let alone = !used
            .iter()
            .any(|name| self.scope.is_item(name) || self.scope.is_items(name));
        through_items && plain && alone && !locals.bring_any(place, &used)
    }
}
