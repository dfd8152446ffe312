//! What is refused although it has the right types: constants that can never do, and windows that
//! are not declared.

use deltaplane_expr::syntax::{Ast, Literal, Node, NodeId};
use deltaplane_expr::{Bindings, Budget, Env, Eval, Problem, Value};

use super::names::Names;
use crate::functions::{
    EXPONENTIALLY, LEAST_FACTOR, LEAST_ITEMS, LINEARLY, READY_FOR, WINDOW, period,
};
use crate::scope::Scope;

/// Everything in a checked tree that is refused.
pub(super) fn refusals(ast: &Ast, scope: &Scope) -> Vec<Problem> {
    let names = Names::of(ast);
    let mut found = Vec::new();
    for id in ast.ids() {
        let Node::Call {
            function,
            target: None,
            args,
        } = ast.node(id)
        else {
            continue;
        };
        let constant = |at: usize| {
            let arg = *args.get(at)?;
            let free = names.at(arg).is_empty();
            free.then(|| (arg, ast.carved(arg, &|_| None)))
        };
        let wrong = match &**function {
            LINEARLY => constant(2).and_then(|arg| too_small(arg, scope.env(), "n", LEAST_ITEMS)),
            EXPONENTIALLY => {
                constant(2).and_then(|arg| too_small(arg, scope.env(), "factor", LEAST_FACTOR))
            }
            READY_FOR => constant(1).and_then(|arg| no_period(arg, scope.env())),
            WINDOW => undeclared(ast, args, scope),
            _ => None,
        };
        found.extend(wrong.map(|(at, message)| Problem {
            span: ast.span(at),
            message,
        }));
    }
    found
}

fn too_small(
    (at, part): (NodeId, Ast),
    env: &Env,
    what: &str,
    least: i64,
) -> Option<(NodeId, String)> {
    let value = evaluated(&part, env, |value| value.as_int())??;
    (value < least).then(|| (at, format!("{what} must be {least} or more")))
}

fn no_period((at, part): (NodeId, Ast), env: &Env) -> Option<(NodeId, String)> {
    let fits = evaluated(&part, env, |value| period(value).is_some())?;
    let message = "it must be a length of time such as '10m' or '1h30m'";
    (!fits).then(|| (at, message.to_owned()))
}

/// Judging a constant takes so much at most: a policy has many expressions, and all are judged when
/// it is written. A constant that takes more is left to the gate.
const CONSTANT: Budget = Budget {
    cost: 1_000,
    steps: 5_000,
};

/// Evaluates a constant; nothing when it has no value, or takes too long.
pub(super) fn evaluated<T>(part: &Ast, env: &Env, of: impl FnOnce(&Value<'_>) -> T) -> Option<T> {
    let program = deltaplane_expr::lower(part, None, env).ok()?;
    let bindings = Bindings::new(env);
    if let Eval::Value(value) = program.eval(&bindings, CONSTANT) {
        return Some(of(&value));
    }
    None
}

fn undeclared(ast: &Ast, args: &[NodeId], scope: &Scope) -> Option<(NodeId, String)> {
    let [arg] = args else {
        return None;
    };
    let declared = scope.declared_windows();
    let Node::Literal(Literal::String(name)) = ast.node(*arg) else {
        let message = "the name of a window must be written down";
        return Some((*arg, message.to_owned()));
    };
    if declared.iter().any(|one| **one == **name) {
        return None;
    }
    let which = match declared.is_empty() {
        true => "none is declared".to_owned(),
        false => format!("declared are {}", declared.join(", ")),
    };
    Some((*arg, format!("there is no window '{name}': {which}")))
}
