//! Parts of an expression that are the same for all items: evaluated once, and once more after an
//! admission that may change them.

use std::sync::Arc;

use deltaplane_expr::syntax::{Ast, Node, NodeId};
use deltaplane_expr::{Checked, Env, Problems, Program, Type};

use super::counter::{Counter, has_standing};
use super::expression::{Replaced, part};
use super::names::{Names, Place, walk};
use crate::scope::Scope;

/// A part that is the same for all items.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) program: Program,
    /// Whether an admission may change it.
    pub(crate) reads_standing: bool,
}

/// The largest such parts of a tree.
pub(super) fn shared(
    ast: &Ast,
    checked: &Checked,
    env: &Env,
    (scope, counters): (&Scope, &[Counter]),
) -> Result<(Vec<Replaced>, Vec<Shared>), Problems> {
    let names = Names::of(ast);
    let mut found = Vec::new();
    walk(ast, |locals, place| {
        let used = names.at(place.id);
        let same = !used.iter().any(|name| scope.is_item(name));
        let alone = same && !locals.bring_any(place, used);
        let apart = alone && is_work(ast.node(place.id)) && is_plain(ast, checked, place);
        if apart {
            found.push(place.id);
        }
        !apart
    });
    let mut parts = Vec::new();
    let mut all = Vec::new();
    for (index, id) in found.into_iter().enumerate() {
        let name: Arc<str> = format!("@shared{index}").into();
        let counts = counters.iter().filter(|counter| counter.reads_standing);
        let mut counts = counts.map(|counter| &counter.name);
        let reads_standing = has_standing(&ast.carved(id, &|_| None))
            || counts.any(|counter| names.at(id).contains(counter));
        parts.push(Replaced {
            id,
            name: name.clone(),
            ty: checked.ty(id).clone(),
        });
        all.push(Shared {
            name,
            program: part(ast, id, env)?,
            reads_standing,
        });
    }
    Ok((parts, all))
}

/// Whether evaluating it is more than reading a variable.
fn is_work(node: &Node) -> bool {
    !matches!(
        node,
        Node::Literal(_)
            | Node::Ident(_)
            | Node::Select { .. }
            | Node::Has { .. }
            | Node::Index { .. }
    )
}

/// Whether its value says all there is: nothing is selected from it, which would be waited for
/// under the name of a variable that nobody wrote.
fn is_plain(ast: &Ast, checked: &Checked, place: Place) -> bool {
    let ty = checked.ty(place.id);
    let parent = place.parent.map(|parent: NodeId| ast.node(parent));
    let operand = matches!(parent, Some(Node::Binary(..)));
    let list = matches!(ty, Type::List(item) if is_scalar(item));
    let indexed = matches!(parent, Some(Node::Index { .. }));
    is_scalar(ty) || (list && !indexed) || (*ty == Type::Dyn && operand)
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Null
        | Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::Timestamp
        | Type::Duration
        | Type::Wrapper(_) => true,
        Type::Dyn
        | Type::Error
        | Type::List(_)
        | Type::Map(_)
        | Type::Optional(_)
        | Type::Type(_)
        | Type::Param(_)
        | Type::Opaque(_)
        | Type::Object(_) => false,
    }
}
