//! From a text to a tree that has been checked.

use deltaplane_expr::check::check;
use deltaplane_expr::syntax::Ast;
use deltaplane_expr::{Env, Problem, Problems, Span, Template, Type};

use super::GateProblem;

/// What is wrong with a tree of some type.
type Judge<'j> = &'j dyn Fn(&Ast, &Type) -> Vec<Problem>;

/// The tree of a text, bare or written as `${…}`, in which nothing is wrong.
pub(crate) fn tree(text: &str, env: &Env, judge: Judge<'_>) -> Result<Ast, Vec<GateProblem>> {
    let inner = text.trim_start();
    let shift = text.len() - inner.len();
    let inner = inner.trim_end();
    let wrong = |problems: Problems| told(&problems, text, shift);
    let ast = match inner.starts_with("${") {
        false => deltaplane_expr::parse(inner, env).map_err(wrong)?,
        true => match deltaplane_expr::parse_template(inner, env).map_err(wrong)? {
            Template::Value(ast) => ast,
            Template::Joined(_) => {
                let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
                let problem = Problem {
                    span: Span { start: 0, end },
                    message: "it must be one expression, not a text with some".to_owned(),
                };
                return Err(vec![one(problem, text, 0)]);
            }
            // A beginning without an end: as an expression it says what is wrong.
            Template::Text => deltaplane_expr::parse(inner, env).map_err(wrong)?,
        },
    };
    let checked = check(&ast, env).map_err(wrong)?;
    let found = judge(&ast, checked.ty(ast.root()));
    if found.is_empty() {
        return Ok(ast);
    }
    Err(found
        .into_iter()
        .map(|problem| one(problem, text, shift))
        .collect())
}

/// Problems as those of a gate; `shift` bytes of the text come before what was read.
pub(crate) fn told(problems: &Problems, text: &str, shift: usize) -> Vec<GateProblem> {
    let all = problems.iter().map(|problem| GateProblem {
        expected: problems.expected(problem).to_vec(),
        ..one(problem.clone(), text, shift)
    });
    all.collect()
}

fn one(problem: Problem, text: &str, shift: usize) -> GateProblem {
    let shift = u32::try_from(shift).unwrap_or(0);
    GateProblem {
        index: 0,
        text: text.to_owned(),
        span: Span {
            start: problem.span.start.saturating_add(shift),
            end: problem.span.end.saturating_add(shift),
        },
        message: problem.message,
        expected: Vec::new(),
    }
}

/// An expression without what is around it.
pub(crate) fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    let inner = text
        .strip_prefix("${")
        .and_then(|text| text.strip_suffix('}'));
    inner.unwrap_or(text).trim()
}
