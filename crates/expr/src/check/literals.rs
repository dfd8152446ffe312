//! Literals that are refused although their types fit, as cel-go's validators do:
//! lists and maps of mixed types, formats that do not fit what is formatted.

use crate::library::strings::clauses;
use crate::span::Problem;
use crate::syntax::{Ast, Item, Literal, MapEntry, Node, NodeId};
use crate::types::{Primitive, Type};

/// What is to be looked at once the types are known.
#[derive(Default)]
pub(super) struct Literals {
    /// Nodes that have one type; whether they are optionals of it.
    uniform: Vec<Vec<(NodeId, bool)>>,
    /// Calls of `format`.
    calls: Vec<NodeId>,
}

/// A problem, and the node that it is in.
type Found = (NodeId, String);

// === impl Literals ===

impl Literals {
    pub(super) fn list(&mut self, items: &[Item]) {
        let parts = items.iter().map(|item| (item.value, item.optional));
        self.uniform.push(parts.collect());
    }

    /// Every entry is compared with the first.
    pub(super) fn map(&mut self, entries: &[MapEntry]) {
        let Some((first, rest)) = entries.split_first() else {
            return;
        };
        for entry in rest {
            self.uniform
                .push(vec![(first.key, false), (entry.key, false)]);
            self.uniform.push(vec![
                (first.value, first.optional),
                (entry.value, entry.optional),
            ]);
        }
    }

    /// A call on a target.
    pub(super) fn call(&mut self, id: NodeId, function: &str) {
        if function == "format" {
            self.calls.push(id);
        }
    }

    pub(super) fn problems(&self, ast: &Ast, types: &[Type]) -> Vec<Problem> {
        let mixed = self.uniform.iter().filter_map(|parts| mixed(parts, types));
        let calls = self.calls.iter().filter_map(|&id| call(id, ast, types));
        let problem = |(id, message): Found| Problem {
            span: ast.span(id),
            message,
        };
        mixed.chain(calls).map(problem).collect()
    }
}

/// The first part whose type is another than that of the first.
fn mixed(parts: &[(NodeId, bool)], types: &[Type]) -> Option<Found> {
    let ty = |&(id, optional): &(NodeId, bool)| {
        let ty = &types[id.index()];
        if optional { ty.unwrap_optional().0 } else { ty }
    };
    let (first, rest) = parts.split_first()?;
    let wanted = ty(first);
    let other = rest.iter().find(|part| ty(part) != wanted)?;
    let message = format!("expected type '{wanted}' but found '{}'", ty(other));
    Some((other.0, message))
}

fn call(id: NodeId, ast: &Ast, types: &[Type]) -> Option<Found> {
    let Node::Call {
        target: Some(target),
        args,
        ..
    } = ast.node(id)
    else {
        return None;
    };
    let text = |id: NodeId| match ast.node(id) {
        Node::Literal(Literal::String(text)) => Some(text),
        _ => None,
    };
    let [list] = **args else {
        return None;
    };
    let Node::List(items) = ast.node(list) else {
        return None;
    };
    format(id, text(*target)?, items, &|id| {
        (ast.node(id), &types[id.index()])
    })
    .err()
}

type Look<'a> = &'a dyn Fn(NodeId) -> (&'a Node, &'a Type);

/// Whether a template fits what it is given.
fn format(id: NodeId, template: &str, items: &[Item], look: Look<'_>) -> Result<(), Found> {
    let mut used = 0;
    for clause in clauses(template) {
        let Some(item) = items.get(used) else {
            return Err((id, format!("index {used} out of range")));
        };
        used += 1;
        let verb = clause.map_err(|fault| (id, fault.to_string()))?;
        let unfit = |id: NodeId, what: &str| {
            let found = look(id).1.name();
            let message = format!("error during formatting: {what}, was given {found}");
            Err((id, message))
        };
        if verb == 's' {
            if let Err(at) = has_text(item.value, look) {
                return unfit(at, STRING);
            }
            continue;
        }
        let Some((what, fits)) = wanted(verb) else {
            let message = format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            );
            return Err((id, message));
        };
        if !fits(&plain(look(item.value).1)) {
            return unfit(item.value, what);
        }
    }
    if used < items.len() {
        let given = items.len();
        let message =
            format!("too many arguments supplied to string.format (expected {used}, got {given})");
        return Err((id, message));
    }
    Ok(())
}

/// The place of what has no text in what is written with `%s`, within literals, too.
fn has_text(id: NodeId, look: Look<'_>) -> Result<(), NodeId> {
    let (node, ty) = look(id);
    if matches!(ty, Type::Optional(_) | Type::Opaque(_) | Type::Object(_)) {
        return Err(id);
    }
    match node {
        Node::List(items) => items.iter().try_for_each(|item| has_text(item.value, look)),
        Node::Map(entries) => entries.iter().try_for_each(|entry| {
            has_text(entry.key, look)?;
            has_text(entry.value, look)
        }),
        _ => Ok(()),
    }
}

/// The words about what a verb writes, and whether it is a type of these.
fn wanted(verb: char) -> Option<(&'static str, fn(&Type) -> bool)> {
    Some(match verb {
        'd' => ("decimal clause can only be used on integers", |ty| {
            matches!(ty, Type::Dyn | Type::Int | Type::Uint | Type::Double)
        }),
        'f' => ("fixed-point clause can only be used on doubles", |ty| {
            matches!(ty, Type::Dyn | Type::Int | Type::Uint | Type::Double)
        }),
        'e' => ("scientific clause can only be used on doubles", |ty| {
            matches!(ty, Type::Dyn | Type::Int | Type::Uint | Type::Double)
        }),
        'b' => ("only integers and bools can be formatted as binary", |ty| {
            matches!(ty, Type::Dyn | Type::Int | Type::Uint | Type::Bool)
        }),
        'o' => ("octal clause can only be used on integers", |ty| {
            matches!(ty, Type::Dyn | Type::Int | Type::Uint)
        }),
        'x' | 'X' => (
            "only integers, byte buffers, and strings can be formatted as hex",
            |ty| {
                matches!(
                    ty,
                    Type::Dyn | Type::Int | Type::Uint | Type::String | Type::Bytes
                )
            },
        ),
        _ => return None,
    })
}

const STRING: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";

/// A wrapper holds what it wraps.
fn plain(ty: &Type) -> Type {
    match ty {
        Type::Wrapper(primitive) => Primitive::plain(*primitive),
        other => other.clone(),
    }
}
