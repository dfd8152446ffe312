//! Literals that are refused although their types fit, as cel-go's validators do:
//! lists and maps of mixed types, formats that do not fit what is formatted.

use crate::env::Env;
use crate::library::strings::clauses;
use crate::span::Problem;
use crate::syntax::{Ast, Item, Literal, MapEntry, Node, NodeId};
use crate::types::Type;

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

    pub(super) fn problems(&self, ast: &Ast, env: &Env, types: &[Type]) -> Vec<Problem> {
        let wanted = if env.options().first_format {
            wanted_first
        } else {
            wanted
        };
        let mixed = self.uniform.iter().filter_map(|parts| mixed(parts, types));
        let calls = self
            .calls
            .iter()
            .filter_map(|&id| call(id, ast, types, wanted));
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

fn call(id: NodeId, ast: &Ast, types: &[Type], wanted: Wanted) -> Option<Found> {
    let Node::Call {
        target: Some(target),
        args,
        ..
    } = ast.node(id)
    else {
        return None;
    };
    let text = |id: NodeId| {
        if let Node::Literal(Literal::String(text)) = ast.node(id) {
            Some(text)
        } else {
            None
        }
    };
    let [list] = **args else {
        return None;
    };
    let Node::List(items) = ast.node(list) else {
        return None;
    };
    let template = Template {
        call: id,
        text: text(*target)?,
        look: &|id| (ast.node(id), &types[id.index()]),
        wanted,
    };
    template.fits(items).err()
}

/// A literal that something is formatted with.
struct Template<'a> {
    call: NodeId,
    text: &'a str,
    look: &'a dyn Fn(NodeId) -> (&'a Node, &'a Type),
    wanted: Wanted,
}

impl Template<'_> {
    /// Whether it fits what it is given.
    fn fits(&self, items: &[Item]) -> Result<(), Found> {
        let mut used = 0;
        for clause in clauses(self.text) {
            let Some(item) = items.get(used) else {
                return Err((self.call, format!("index {used} out of range")));
            };
            used += 1;
            let verb = clause.map_err(|fault| (self.call, fault.to_string()))?;
            self.takes(verb, item.value)?;
        }
        if used < items.len() {
            let given = items.len();
            let message = format!(
                "too many arguments supplied to string.format (expected {used}, got {given})"
            );
            return Err((self.call, message));
        }
        Ok(())
    }

    fn takes(&self, verb: char, item: NodeId) -> Result<(), Found> {
        let unfit = |id: NodeId, what: &str| {
            let found = (self.look)(id).1.name();
            let message = format!("error during formatting: {what}, was given {found}");
            (id, message)
        };
        if verb == 's' {
            return self.has_text(item).map_err(|at| unfit(at, STRING));
        }
        let Some((what, fits)) = (self.wanted)(verb) else {
            let message = format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            );
            return Err((self.call, message));
        };
        if fits(&plain((self.look)(item).1)) {
            return Ok(());
        }
        Err(unfit(item, what))
    }

    /// The place of what has no text in what is written with `%s`, within literals, too.
    fn has_text(&self, id: NodeId) -> Result<(), NodeId> {
        let (node, ty) = (self.look)(id);
        if matches!(ty, Type::Optional(_) | Type::Opaque(_) | Type::Object(_)) {
            return Err(id);
        }
        if let Node::List(items) = node {
            return items.iter().try_for_each(|item| self.has_text(item.value));
        }
        if let Node::Map(entries) = node {
            return entries.iter().try_for_each(|entry| {
                self.has_text(entry.key)?;
                self.has_text(entry.value)
            });
        }
        Ok(())
    }
}

/// The words about what a verb writes, and whether it writes a type.
type Clause = (&'static str, Fits);
type Fits = fn(&Type) -> bool;
type Wanted = fn(char) -> Option<Clause>;

fn wanted(verb: char) -> Option<Clause> {
    let number: Fits = |ty| matches!(ty, Type::Dyn | Type::Int | Type::Uint | Type::Double);
    Some(match verb {
        'd' => (
            "decimal clause can only be used on ints, uints, and doubles",
            number,
        ),
        'f' => (
            "fixed-point clause can only be used on ints, uints, and doubles",
            number,
        ),
        'e' => (
            "scientific clause can only be used on ints, uints, and doubles",
            number,
        ),
        'b' => (
            "only ints, uints, and bools can be formatted as binary",
            |ty| matches!(ty, Type::Dyn | Type::Int | Type::Uint | Type::Bool),
        ),
        'o' => ("octal clause can only be used on ints and uints", |ty| {
            matches!(ty, Type::Dyn | Type::Int | Type::Uint)
        }),
        'x' | 'X' => (
            "only ints, uints, bytes, and strings can be formatted as hex",
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

/// The same for the first release of `format`. Names of doubles are doubles to it.
fn wanted_first(verb: char) -> Option<Clause> {
    let (_, fits) = wanted(verb)?;
    let double: Fits = |ty| matches!(ty, Type::Dyn | Type::Double | Type::String);
    Some(match verb {
        'd' => ("decimal clause can only be used on integers", |ty| {
            matches!(ty, Type::Dyn | Type::Int | Type::Uint)
        }),
        'f' => ("fixed-point clause can only be used on doubles", double),
        'e' => ("scientific clause can only be used on doubles", double),
        'b' => ("only integers and bools can be formatted as binary", fits),
        'o' => ("octal clause can only be used on integers", fits),
        _ => (
            "only integers, byte buffers, and strings can be formatted as hex",
            fits,
        ),
    })
}

const STRING: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";

/// A wrapper holds what it wraps.
fn plain(ty: &Type) -> Type {
    if let Type::Wrapper(primitive) = ty {
        return primitive.plain();
    }
    ty.clone()
}
