//! What somebody wrote: expressions over the object, all of which must be true.

use std::sync::OnceLock;

use deltaplane_expr::{Absent, Bindings, Budget, Env, Eval, Problem, Program, Type, env};
use serde_json::Value as Json;

use super::Judgement;
use crate::gate::{GateProblem, GateProblems, compiled, told, tree, unwrapped};

#[derive(Debug)]
pub(super) struct Expressions(Vec<Expression>);

#[derive(Debug)]
struct Expression {
    text: String,
    program: Program,
}

/// What expressions call the object.
const OBJECT: &str = "object";

fn environment() -> &'static Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    ENV.get_or_init(|| {
        let env = env::gate().build();
        env.with_dynamic(&[OBJECT], Absent::Waits)
    })
}

// === impl Expressions ===

impl Expressions {
    pub(super) fn compile(texts: &[impl AsRef<str>]) -> Result<Self, GateProblems> {
        let mut all = Vec::new();
        let mut problems = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            match Expression::compile(text.as_ref()) {
                Ok(expression) => all.push(expression),
                Err(found) => problems.extend(
                    found
                        .into_iter()
                        .map(|problem| GateProblem { index, ..problem }),
                ),
            }
        }
        match problems.is_empty() {
            true => Ok(Self(all)),
            false => Err(GateProblems(problems)),
        }
    }

    pub(super) fn judge(&self, object: &Json) -> Judgement {
        let Self(all) = self;
        let mut hindrances = all.iter().filter_map(|one| one.hindrance(object));
        match hindrances.next() {
            Some(why) => Judgement::waiting(why),
            None => Judgement::ready(),
        }
    }
}

// === impl Expression ===

impl Expression {
    fn compile(text: &str) -> Result<Self, Vec<GateProblem>> {
        let env = environment();
        let ast = tree(text, env, &|ast, ty| {
            let fits = matches!(ty, Type::Bool | Type::Dyn);
            let wrong = (!fits).then(|| Problem {
                span: ast.span(ast.root()),
                message: format!("it must be true or false, and is of type '{ty}'"),
            });
            wrong.into_iter().collect()
        })?;
        let program = compiled(&ast, env);
        Ok(Self {
            text: unwrapped(text).to_owned(),
            // It was checked: what could be wrong was found.
            program: program.map_err(|problems| told(&problems, text, 0))?,
        })
    }

    /// Why it is not true.
    fn hindrance(&self, object: &Json) -> Option<String> {
        let text = &self.text;
        let hindrance = self.unguarded(object)?;
        // What is waited for, and what went wrong, may quote what the Secret holds.
        Some(match is_secret(object) {
            true => format!("{text} is not true"),
            false => hindrance,
        })
    }

    /// Why it is not true, in words that may quote the object.
    fn unguarded(&self, object: &Json) -> Option<String> {
        let text = &self.text;
        let env = environment();
        let slot = env.slot(OBJECT).expect("declared above");
        let mut bindings = Bindings::new(env);
        let wrong = |why: &dyn std::fmt::Display| {
            Some(format!("readyWhen cannot be evaluated: {text}: {why}"))
        };
        if bindings.set_json(env, slot, object).is_err() {
            return wrong(&"the object cannot be read");
        }
        match self.program.eval(&bindings, Budget::default()) {
            Eval::Value(value) => match value.as_bool() {
                Some(true) => None,
                Some(false) => Some(format!("{text} is false")),
                None => wrong(&format!("it is of type {}", value.type_of())),
            },
            Eval::Waiting(path) => Some(format!("{text}: waiting for {path}")),
            Eval::Failed(failure) => wrong(&failure.reason),
            Eval::Stopped(stopped) => wrong(&stopped),
        }
    }
}

fn is_secret(object: &Json) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Secret"
}
