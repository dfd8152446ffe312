//! Expressions of a definition, parsed, with what they read.

use std::collections::BTreeSet;

use deltaplane_api::field::Path;
use deltaplane_expr::syntax::{Ast, Node, check_terminated};
use deltaplane_expr::{Program, Span, Template, Type, check, lower, parse_template};

use super::scope::{Context, Refused, Roots, Scope, base};
use crate::problem::{Problem, Problems};
use crate::template::{Form, Spot};

/// An expression that was parsed and whose names are known.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) spot: Spot,
    pub(crate) ast: Ast,
    pub(crate) form: Form,
    pub(crate) roots: Roots,
    /// Where it asks for something to be left out.
    pub(crate) omits: Option<Span>,
}

/// What a text is.
pub(crate) enum Parsed {
    /// Nothing but text.
    Text,
    Expression(Box<(Ast, Form)>),
    /// There was a problem, and it was reported.
    Broken,
}

/// Parses a text with expressions in it.
pub(crate) fn parse(text: &str, spot: &Spot, problems: &mut Problems) -> Parsed {
    if !text.contains("${") {
        return Parsed::Text;
    }
    match check_terminated(text).and_then(|()| parse_template(text, base())) {
        Ok(Template::Text) => Parsed::Text,
        Ok(Template::Value(ast)) => Parsed::Expression(Box::new((ast, Form::Value))),
        Ok(Template::Joined(ast)) => Parsed::Expression(Box::new((ast, Form::Joined))),
        Err(wrong) => {
            problems.expression(&spot.path(), &wrong);
            Parsed::Broken
        }
    }
}

// === impl Expression ===

impl Expression {
    /// A text that must be one expression and nothing else.
    pub(crate) fn alone(
        text: &str,
        spot: Spot,
        (scope, context): (&Scope<'_>, Context),
        problems: &mut Problems,
    ) -> Option<Self> {
        match parse(text, &spot, problems) {
            Parsed::Expression(parsed) if parsed.1 == Form::Value => {
                Self::of(*parsed, spot, (scope, context), problems)
            }
            Parsed::Expression(_) | Parsed::Text => {
                let problem = Problem::new(&spot.path(), "only standalone expressions are allowed");
                problems.push(problem.hint("write all of it as one `${…}`"));
                None
            }
            Parsed::Broken => None,
        }
    }

    /// Finds what an expression reads, and whether it may.
    pub(crate) fn of(
        (ast, form): (Ast, Form),
        spot: Spot,
        (scope, context): (&Scope<'_>, Context),
        problems: &mut Problems,
    ) -> Option<Self> {
        let before = problems.count();
        let mut roots = Roots::default();
        let names = check::names(&ast, &scope.env);
        for (span, name) in &names.unknown {
            let known = || scope.allowed(context);
            let make = || unknown(name).at(ast.source(), *span).within(&spot);
            problems.unknown(name, known, make);
        }
        let mut told = BTreeSet::new();
        for reference in &names.references {
            let name = &reference.path.root;
            if let Err(refused) = scope.note(reference, context, &mut roots)
                && told.insert(name)
            {
                problems.lazily(|| {
                    let span = root_span(reference.span, name);
                    let problem = refusal(refused, name, scope, context).at(ast.source(), span);
                    problem.within(&spot)
                });
            }
        }
        let omits = call(&ast, |function| function == "omit");
        if let Some(span) = omits
            && context != Context::Template
        {
            let message = "omit() can only be used in resource template expressions";
            problems.push(Problem::new(&spot.path(), message).at(ast.source(), span));
        }
        let runtime = |function: &str| function.starts_with("runtime");
        if context != Context::Condition
            && let Some(span) = call(&ast, runtime)
        {
            problems.push(no_runtime().at(ast.source(), span).within(&spot));
        }
        let sound = problems.count() == before;
        sound.then_some(Self {
            spot,
            ast,
            form,
            roots,
            omits,
        })
    }

    /// Checks and compiles it; reports what is wrong.
    pub(crate) fn compile(
        &self,
        env: &deltaplane_expr::Env,
        problems: &mut Problems,
    ) -> Option<(Program, Type)> {
        let compiled = check::check(&self.ast, env).and_then(|checked| {
            let ty = checked.ty(self.ast.root()).clone();
            Ok((lower(&self.ast, Some(&checked), env)?, ty))
        });
        match compiled {
            Ok(compiled) => Some(compiled),
            Err(wrong) => {
                problems.expression(&self.spot.path(), &wrong);
                None
            }
        }
    }

    /// A problem with the expression as a whole.
    pub(crate) fn problem(&self, message: impl Into<String>) -> Problem {
        let span = self.ast.span(self.ast.root());
        Problem::new(&self.spot.path(), message).at(self.ast.source(), span)
    }
}

fn no_runtime() -> Problem {
    let message = "`runtime` is only available in status.conditions expressions";
    Problem::new(&Path::root(), message)
}

fn unknown(name: &str) -> Problem {
    match name == "runtime" {
        true => no_runtime(),
        false => Problem::new(&Path::root(), format!("there is no `{name}`")),
    }
}

fn refusal(refused: Refused, name: &str, scope: &Scope<'_>, context: Context) -> Problem {
    let message = match refused {
        Refused::Own => "self references are not allowed".to_owned(),
        Refused::Iterator => {
            format!("a dimension cannot be made of another, `{name}`: they are independent")
        }
        Refused::NotHere => format!("`{name}` cannot be used in {}", context.word()),
    };
    let problem = Problem::new(&Path::root(), message);
    if refused != Refused::NotHere {
        return problem;
    }
    let allowed = scope.allowed(context);
    let shown: Vec<String> = allowed
        .iter()
        .take(5)
        .map(|one| format!("`{one}`"))
        .collect();
    let more = if allowed.len() > shown.len() {
        ", …"
    } else {
        ""
    };
    problem.hint(format!("it can use {}{more}", shown.join(", ")))
}

/// The name at the beginning of a reference.
fn root_span(span: Span, root: &str) -> Span {
    let length = u32::try_from(root.len()).unwrap_or(u32::MAX);
    Span {
        start: span.start,
        end: span.start.saturating_add(length).min(span.end),
    }
}

/// Where an expression calls a function, if it does.
fn call(ast: &Ast, is: impl Fn(&str) -> bool) -> Option<Span> {
    ast.ids().find_map(|id| {
        if let Node::Call {
            function, target, ..
        } = ast.node(id)
        {
            let name = target.map(|target| ast.node(target));
            let name = match name {
                Some(Node::Ident(prefix)) => &**prefix,
                Some(_) => "",
                None => &**function,
            };
            return is(name).then(|| ast.span(id));
        }
        None
    })
}
