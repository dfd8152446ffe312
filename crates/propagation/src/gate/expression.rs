//! One expression of a gate, taken apart: what is the same for all items is evaluated apart from
//! what is not, and counted where it can be.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_expr::check::{Checked, check};
use deltaplane_expr::syntax::{Ast, Binary, Literal, Node, NodeId, Unary};
use deltaplane_expr::{Absent, Decl, Env, Problem, Problems, Program, Slot, Type, Value};

use super::clock::{Clock, clocks};
use super::counter::{Counter, counters};
use super::names::{Names, walk};
use super::refusal::{evaluated, refusals};
use super::shared::{Shared, shared};
use super::tree::{told, tree, unwrapped};
use super::{GateProblem, Mode};
use crate::functions::{EXPONENTIALLY, LINEARLY, READY_FOR, WINDOW};
use crate::scope::{NOW, Scope};

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    /// As it is written, without `${…}`.
    pub(crate) text: Arc<str>,
    /// What its variables are: those of the scope, and those for what is evaluated apart.
    pub(crate) env: Env,
    pub(crate) program: Program,
    pub(crate) counters: Vec<Counter>,
    pub(crate) shared: Vec<Shared>,
    /// What its value follows from, for those who ask why.
    pub(crate) leaves: Vec<Leaf>,
    /// Where its value depends on the time.
    pub(crate) clocks: Vec<Clock>,
    pub(crate) now: Slot,
    pub(crate) windows: Vec<Slot>,
    /// The names of the scope that it uses.
    pub(crate) reads: BTreeSet<String>,
    /// The fields of items that it reads.
    pub(crate) selected: BTreeSet<Arc<str>>,
    /// It is false whatever the items and the time are.
    pub(crate) is_never_true: bool,
}

/// A part that operators make the value of.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) text: Arc<str>,
    pub(crate) program: Program,
    pub(crate) kind: LeafKind,
}

#[derive(Debug)]
pub(crate) enum LeafKind {
    Value,
    /// A budget: its collection.
    Budget(Program),
    /// `readyFor`: its subject.
    ReadyFor(Program),
}

/// A variable for a part of a tree.
pub(super) struct Replaced {
    pub(super) id: NodeId,
    pub(super) name: Arc<str>,
    pub(super) ty: Type,
}

// === impl Expression ===

impl Expression {
    pub(super) fn compile(mode: Mode, text: &str, scope: &Scope) -> Result<Self, Vec<GateProblem>> {
        let ast = tree(text, scope.env(), &|ast, ty| {
            let wrong = format!("a gate is true or false: expected type 'bool' but found '{ty}'");
            let fits = matches!(ty, Type::Bool | Type::Dyn);
            let wrong = (!fits).then(|| Problem {
                span: ast.span(ast.root()),
                message: wrong,
            });
            wrong.into_iter().chain(refusals(ast, scope)).collect()
        })?;
        let reads = Names::of(&ast).at(ast.root()).clone();
        let reads = reads.iter().map(ToString::to_string);
        let reads = reads.filter(|name| scope.names().contains_key(name));
        let reads = reads.collect();
        let expression = Self::taken_apart(mode, text, &ast, scope);
        // It was checked before it was taken apart: what could be wrong was found.
        let expression = expression.map_err(|problems| told(&problems, text, 0))?;
        Ok(Self {
            reads,
            ..expression
        })
    }

    fn taken_apart(mode: Mode, text: &str, ast: &Ast, scope: &Scope) -> Result<Self, Problems> {
        let mut variables = scope.variables();
        let dated = dated(ast, scope, &mut variables);
        let env = scope.env().with_variables(variables.clone());
        let incremental = mode == Mode::Incremental;

        let is_constant = Names::of(&dated).at(dated.root()).is_empty();
        let is_false = |value: &Value<'_>| value.as_bool() == Some(false);
        let is_never_true = is_constant && evaluated(&dated, &env, is_false) == Some(true);
        let checked = check(&dated, &env)?;
        let (found, counters) = match incremental {
            true => counters(&dated, &checked, &env, scope)?,
            false => (Vec::new(), Vec::new()),
        };
        let counted = replace(&dated, found, &mut variables);
        let env = scope.env().with_variables(variables.clone());

        let checked = check(&counted, &env)?;
        let (found, shared) = match incremental {
            true => shared(&counted, &checked, &env, (scope, &counters))?,
            false => (Vec::new(), Vec::new()),
        };
        let leaves = leaves(&counted, &env)?;
        let clocks = clocks(&dated, &env, scope)?;
        let own = replace(&counted, found, &mut variables);
        let env = scope.env().with_variables(variables);

        let program = compiled(&own, &env)?;
        let slot = |name: &str| env.slot(name);
        let windows = 0..scope.declared_windows().len();
        Ok(Self {
            text: unwrapped(text).into(),
            program,
            counters,
            shared,
            leaves,
            clocks,
            now: slot(NOW).expect("`dated` declares it"),
            windows: windows
                .filter_map(|index| slot(&window_name(index)))
                .collect(),
            env,
            reads: BTreeSet::new(),
            selected: selected(&own, scope),
            is_never_true,
        })
    }
}

/// The fields of items that are read.
fn selected(ast: &Ast, scope: &Scope) -> BTreeSet<Arc<str>> {
    let is_item = |id| matches!(ast.node(id), Node::Ident(name) if scope.is_item(name));
    let field = |id| {
        if let Node::Select { operand, field, .. } = ast.node(id) {
            is_item(*operand).then(|| field.clone())
        } else {
            None
        }
    };
    ast.ids().filter_map(field).collect()
}

/// The tree with variables for the time and for windows.
fn dated(ast: &Ast, scope: &Scope, variables: &mut Vec<(String, Decl)>) -> Ast {
    let declare = |name: String, ty| (name, Decl::of_type(ty, Absent::Fails));
    variables.push(declare(NOW.to_owned(), Type::Timestamp));
    let windows = scope.declared_windows();
    variables.extend((0..windows.len()).map(|index| declare(window_name(index), Type::Bool)));
    ast.carved(ast.root(), &|id| {
        let Node::Call {
            function,
            target,
            args,
        } = ast.node(id)
        else {
            return None;
        };
        let target = target.map(|target| ast.node(target));
        let is_time = matches!(target, Some(Node::Ident(name)) if &**name == "time");
        if &**function == "now" && args.is_empty() && is_time {
            return Some(NOW.into());
        }
        if &**function != WINDOW || target.is_some() {
            return None;
        }
        let Node::Literal(Literal::String(name)) = ast.node(*args.first()?) else {
            return None;
        };
        let index = windows.iter().position(|one| **one == **name)?;
        Some(window_name(index).into())
    })
}

fn window_name(index: usize) -> String {
    format!("@window{index}")
}

/// The tree with variables for some of its parts, which are declared.
fn replace(ast: &Ast, parts: Vec<Replaced>, variables: &mut Vec<(String, Decl)>) -> Ast {
    let out = ast.carved(ast.root(), &|id| {
        let found = parts.iter().find(|part| part.id == id);
        found.map(|part| part.name.clone())
    });
    variables.extend(parts.into_iter().map(|part| {
        let decl = Decl::of_type(part.ty, Absent::Fails);
        (part.name.to_string(), decl)
    }));
    out
}

pub(crate) fn compiled(ast: &Ast, env: &Env) -> Result<Program, Problems> {
    let checked: Checked = check(ast, env)?;
    deltaplane_expr::lower(ast, Some(&checked), env)
}

/// The part of a tree as a program.
pub(super) fn part(ast: &Ast, id: NodeId, env: &Env) -> Result<Program, Problems> {
    compiled(&ast.carved(id, &|_| None), env)
}

/// What operators make the value of, in the order in which it is written. What is another at every
/// moment is not among it: whoever writes down why a gate is closed would do so for ever.
fn leaves(ast: &Ast, env: &Env) -> Result<Vec<Leaf>, Problems> {
    let names = Names::of(ast);
    let checked = check(ast, env)?;
    let mut found = Vec::new();
    walk(ast, |locals, place| {
        let goes_on = is_operator(ast.node(place.id));
        let is_literal = matches!(ast.node(place.id), Node::Literal(_));
        let read = names.at(place.id);
        let runs = read.contains(NOW) && !is_lasting(ast.node(place.id), checked.ty(place.id));
        if !goes_on && !is_literal && !runs && !locals.bring_any(place, read) {
            found.push(place.id);
        }
        goes_on
    });
    let mut leaves: Vec<Leaf> = Vec::new();
    for id in found {
        let span = ast.span(id);
        let text = ast.source().get(span.start as usize..span.end as usize);
        let text: Arc<str> = text.unwrap_or_default().into();
        if leaves.iter().any(|leaf| leaf.text == text) {
            continue;
        }
        leaves.push(Leaf {
            text,
            program: part(ast, id, env)?,
            kind: leaf_kind(ast, id, env)?,
        });
    }
    Ok(leaves)
}

/// Parts of a time that stay the same for an hour or longer, and how many items something holds of.
const LASTING: &[&str] = &[
    "getHours",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getMonth",
    "getFullYear",
    "size",
];

/// Whether what is told of a part that reads the clock is the same a moment later.
fn is_lasting(node: &Node, ty: &Type) -> bool {
    let told = |function: &str| matches!(function, LINEARLY | EXPONENTIALLY | READY_FOR);
    let lasts = matches!(
        node,
        Node::Call { function, .. } if LASTING.contains(&&**function) || told(function)
    );
    lasts || *ty == Type::Bool
}

fn is_operator(node: &Node) -> bool {
    matches!(
        node,
        Node::And(_)
            | Node::Or(_)
            | Node::Unary(Unary::Not | Unary::Negate, _)
            | Node::Conditional(..)
            | Node::Binary(
                Binary::Add
                    | Binary::Subtract
                    | Binary::Multiply
                    | Binary::Divide
                    | Binary::Modulo
                    | Binary::Less
                    | Binary::LessEquals
                    | Binary::Greater
                    | Binary::GreaterEquals
                    | Binary::Equals
                    | Binary::NotEquals
                    | Binary::In,
                ..
            )
    )
}

fn leaf_kind(ast: &Ast, id: NodeId, env: &Env) -> Result<LeafKind, Problems> {
    let Node::Call {
        function,
        target: None,
        args,
    } = ast.node(id)
    else {
        return Ok(LeafKind::Value);
    };
    match (&**function, &args[..]) {
        (LINEARLY | EXPONENTIALLY, [_, list, ..]) => Ok(LeafKind::Budget(part(ast, *list, env)?)),
        (READY_FOR, [one, _]) => Ok(LeafKind::ReadyFor(part(ast, *one, env)?)),
        _ => Ok(LeafKind::Value),
    }
}
