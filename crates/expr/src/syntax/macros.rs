//! Macros: calls that are something else once their arguments are known.
//!
//! A macro that does not fit (another number of arguments) is an ordinary call.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ast::{Ast, Fold, FoldKind, Literal, Node, NodeId};
use super::parser::{Parsed, Parser};
use crate::span::Span;

/// Which macros are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacroSet {
    /// `all`, `exists` and the others with two variables, and `transformList` and its kin.
    pub two_variables: bool,
    /// `cel.bind`.
    pub bindings: bool,
    /// `optMap`, `optFlatMap`.
    pub optionals: bool,
    /// `sortBy`.
    pub sort_by: bool,
    /// `math.greatest`, `math.least`.
    pub math: bool,
    /// `cel.block`, `cel.index`, `cel.iterVar`, `cel.accuVar`.
    pub blocks: bool,
    /// `runtime.newCondition`.
    pub conditions: bool,
}

/// The function behind `runtime.newCondition({…})`: its arguments are the four fields in order.
pub(crate) const NEW_CONDITION: &str = "runtime.@newCondition";
/// The conditions that every instance of a graph has.
const INSTANCE_CONDITIONS: [&str; 4] = [
    "InstanceManaged",
    "GraphResolved",
    "ResourcesReady",
    "Ready",
];
/// The fields of a condition.
pub(crate) const CONDITION_FIELDS: [&str; 4] = ["type", "status", "reason", "message"];

/// The types of the conditions that an expression makes, as far as they are written out.
pub fn condition_types(ast: &Ast) -> BTreeSet<&str> {
    let made = ast.ids().filter_map(|id| {
        if let Node::Call { function, args, .. } = ast.node(id)
            && **function == *NEW_CONDITION
        {
            return args.first();
        }
        None
    });
    made.filter_map(|kind| {
        if let Node::Literal(Literal::String(text)) = ast.node(*kind) {
            return Some(&**text);
        }
        None
    })
    .collect()
}

impl Parser<'_> {
    pub(super) fn global_call(
        &mut self,
        name: &str,
        args: Vec<NodeId>,
        span: Span,
    ) -> Parsed<NodeId> {
        if name == "has"
            && let [tested] = args[..]
        {
            return self.has(tested, span);
        }
        let node = Node::Call {
            function: name.into(),
            target: None,
            args: args.into(),
        };
        self.add(node, span)
    }

    fn has(&mut self, tested: NodeId, span: Span) -> Parsed<NodeId> {
        if let Node::Select {
            operand,
            field,
            optional: false,
        } = self.ast.node(tested)
        {
            let node = Node::Has {
                operand: *operand,
                field: field.clone(),
            };
            self.add(node, span)
        } else {
            self.problem(self.ast.span(tested), "invalid argument to has() macro")
        }
    }

    pub(super) fn member_call(
        &mut self,
        target: NodeId,
        name: &str,
        args: Vec<NodeId>,
        span: Span,
    ) -> Parsed<NodeId> {
        if let Some(node) = self.namespaced(target, name, &args, span)? {
            return self.add(node, span);
        }
        if let Some(node) = self.fold(target, name, &args)? {
            return self.add(node, span);
        }
        let macros = self.syntax.macros;
        if let ("optMap" | "optFlatMap", true, [variable, body]) =
            (name, macros.optionals, &args[..])
        {
            let node = Node::OptMap {
                target,
                name: self.simple_name(*variable)?,
                body: *body,
                flat: name == "optFlatMap",
            };
            return self.add(node, span);
        }
        let node = Node::Call {
            function: name.into(),
            target: Some(target),
            args: args.into(),
        };
        self.add(node, span)
    }

    /// Macros whose target is a namespace: `cel.bind` and the like.
    fn namespaced(
        &mut self,
        target: NodeId,
        name: &str,
        args: &[NodeId],
        span: Span,
    ) -> Parsed<Option<Node>> {
        let Node::Ident(namespace) = self.ast.node(target) else {
            return Ok(None);
        };
        let macros = self.syntax.macros;
        let namespace = namespace.clone();
        match (&*namespace, name, args) {
            ("cel", "bind", [variable, init, body]) if macros.bindings => Ok(Some(Node::Bind {
                name: self.simple_name(*variable)?,
                init: *init,
                body: *body,
            })),
            ("cel", "block", [slots, body]) if macros.blocks => {
                let Node::List(items) = self.ast.node(*slots) else {
                    return self.problem(
                        span,
                        "cel.block requires the first arg to be a list literal",
                    );
                };
                Ok(Some(Node::Block {
                    slots: items.iter().map(|item| item.value).collect(),
                    body: *body,
                }))
            }
            ("cel", "index", [number]) if macros.blocks => {
                let number = self.natural(*number)?;
                Ok(Some(Node::Ident(format!("@index{number}").into())))
            }
            ("cel", "iterVar" | "accuVar", [outer, inner]) if macros.blocks => {
                let (outer, inner) = (self.natural(*outer)?, self.natural(*inner)?);
                let kind = if name == "iterVar" { "it" } else { "ac" };
                Ok(Some(Node::Ident(format!("@{kind}:{outer}:{inner}").into())))
            }
            ("math", "greatest" | "least", [_, ..]) if macros.math => {
                let function = if name == "greatest" {
                    "math.@max"
                } else {
                    "math.@min"
                };
                let args = if args.len() <= 2 {
                    args.to_vec()
                } else {
                    let items = args.iter().map(|&value| super::Item {
                        value,
                        optional: false,
                    });
                    vec![self.add(Node::List(items.collect()), span)?]
                };
                Ok(Some(Node::Call {
                    function: function.into(),
                    target: None,
                    args: args.into(),
                }))
            }
            ("math", "greatest" | "least", []) if macros.math => self.problem(
                span,
                format!("math.{name}() requires at least one argument"),
            ),
            ("runtime", "newCondition", args) if macros.conditions => {
                self.condition(args, span).map(Some)
            }
            ("runtime", "condition", [object, kind]) if macros.conditions => {
                self.instance_condition(*object, *kind)
            }
            _ => Ok(None),
        }
    }

    /// Of the instance itself, which is called `schema`, only conditions that its author has not
    /// made can be read. As in kro, the name alone tells.
    fn instance_condition(&mut self, object: NodeId, kind: NodeId) -> Parsed<Option<Node>> {
        if let (Node::Ident(object), Node::Literal(Literal::String(kind_name))) =
            (self.ast.node(object), self.ast.node(kind))
            && &**object == "schema"
            && !INSTANCE_CONDITIONS.contains(&&**kind_name)
        {
            let [first @ .., last] = INSTANCE_CONDITIONS;
            let known = first.join(", ");
            return self.problem(
                self.ast.span(kind),
                format!("of schema, only the conditions {known} and {last} can be read"),
            );
        }
        Ok(None)
    }

    fn condition(&mut self, args: &[NodeId], span: Span) -> Parsed<Node> {
        let [map] = args else {
            return self.problem(span, "runtime.newCondition takes one map literal");
        };
        let Node::Map(entries) = self.ast.node(*map).clone() else {
            return self.problem(span, "runtime.newCondition takes a map literal");
        };
        let mut fields: [Option<NodeId>; 4] = [None; 4];
        for entry in entries {
            let at = self.ast.span(entry.key);
            let field = if let Node::Ident(name) = self.ast.node(entry.key) {
                CONDITION_FIELDS.iter().position(|field| *field == &**name)
            } else {
                None
            };
            let Some(field) = field else {
                return self.problem(
                    at,
                    "a condition has the fields type, status, reason and message",
                );
            };
            if entry.optional || fields[field].replace(entry.value).is_some() {
                return self.problem(at, format!("{} is given twice", CONDITION_FIELDS[field]));
            }
        }
        if let Some(kind) = fields[0]
            && let Node::Literal(Literal::String(text)) = self.ast.node(kind)
            && text.is_empty()
        {
            return self.problem(self.ast.span(kind), "type must not be empty");
        }
        if let Some(status) = fields[1]
            && let Node::Literal(Literal::String(text)) = self.ast.node(status)
            && !matches!(&**text, "True" | "False" | "Unknown")
        {
            return self.problem(
                self.ast.span(status),
                "status must be True, False or Unknown",
            );
        }
        let mut args = Vec::new();
        for (index, field) in fields.into_iter().enumerate() {
            args.push(match field {
                Some(value) => value,
                None if index < 2 => {
                    return self.problem(
                        span,
                        format!("a condition needs {}", CONDITION_FIELDS[index]),
                    );
                }
                None => self.add(Node::Literal(Literal::String("".into())), span)?,
            });
        }
        Ok(Node::Call {
            function: NEW_CONDITION.into(),
            target: None,
            args: args.into(),
        })
    }

    fn fold(&mut self, range: NodeId, name: &str, args: &[NodeId]) -> Parsed<Option<Node>> {
        let macros = self.syntax.macros;
        let one = |kind, var, filter, body| Ok(Some((kind, var, None, filter, body)));
        let two = |kind, var, var2, filter, body| Ok(Some((kind, var, Some(var2), filter, body)));
        let found: Parsed<Option<_>> = match (name, args) {
            ("all", &[var, body]) => one(FoldKind::All, var, None, body),
            ("exists", &[var, body]) => one(FoldKind::Exists, var, None, body),
            ("exists_one", &[var, body]) => one(FoldKind::ExistsOne, var, None, body),
            ("filter", &[var, body]) => one(FoldKind::Filter, var, None, body),
            ("map", &[var, body]) => one(FoldKind::Map, var, None, body),
            ("map", &[var, filter, body]) => one(FoldKind::Map, var, Some(filter), body),
            ("sortBy", &[var, body]) if macros.sort_by => one(FoldKind::SortBy, var, None, body),
            ("all", &[var, var2, body]) if macros.two_variables => {
                two(FoldKind::All, var, var2, None, body)
            }
            ("exists", &[var, var2, body]) if macros.two_variables => {
                two(FoldKind::Exists, var, var2, None, body)
            }
            ("exists_one", &[var, var2, body]) if macros.two_variables => {
                two(FoldKind::ExistsOne, var, var2, None, body)
            }
            ("existsOne", &[var, var2, body]) if macros.two_variables => {
                two(FoldKind::ExistsOneCamel, var, var2, None, body)
            }
            ("transformList" | "transformMap" | "transformMapEntry", &[var, var2, body])
                if macros.two_variables =>
            {
                two(transform(name), var, var2, None, body)
            }
            (
                "transformList" | "transformMap" | "transformMapEntry",
                &[var, var2, filter, body],
            ) if macros.two_variables => two(transform(name), var, var2, Some(filter), body),
            _ => Ok(None),
        };
        let Some((kind, var, var2, filter, body)) = found? else {
            return Ok(None);
        };
        let at = self.ast.span(var);
        let var = self.simple_name(var)?;
        let var2 = match var2 {
            Some(second) => Some(self.simple_name(second)?),
            None => None,
        };
        if var2.as_ref() == Some(&var) {
            return self.problem(at, "duplicate variable name");
        }
        Ok(Some(Node::Fold(Box::new(Fold {
            kind,
            range,
            var,
            var2,
            filter,
            body,
        }))))
    }

    fn simple_name(&self, id: NodeId) -> Parsed<Arc<str>> {
        if let Node::Ident(name) = self.ast.node(id)
            && !name.starts_with('.')
        {
            Ok(name.clone())
        } else {
            self.problem(self.ast.span(id), "argument must be a simple name")
        }
    }

    fn natural(&self, id: NodeId) -> Parsed<u32> {
        if let Node::Literal(Literal::Int(value)) = self.ast.node(id) {
            match u32::try_from(*value) {
                Ok(value) => Ok(value),
                Err(_) => self.problem(self.ast.span(id), "argument must be a small number"),
            }
        } else {
            self.problem(self.ast.span(id), "argument must be a number literal")
        }
    }
}

fn transform(name: &str) -> FoldKind {
    match name {
        "transformList" => FoldKind::TransformList,
        "transformMap" => FoldKind::TransformMap,
        _ => FoldKind::TransformMapEntry,
    }
}
