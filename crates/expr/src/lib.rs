//! CEL, the expression language of validation rules, graphs, readiness and gates.
//!
//! Text is parsed ([`syntax`]), checked against what an [`Env`] declares ([`check`]), and
//! compiled to a [`Program`], which is evaluated over borrowed data. An evaluation comes to a
//! value, to data that is waited for, to a failure, or to a limit: [`Eval`].
//! PURE: no clock, environment, files or network; what depends on those comes from the caller,
//! as values and functions of the host.
//!
//! Invariants: no text and no data makes it panic, recurse without bound, or work beyond the
//! budget given; evaluation never changes its inputs; nothing is decided by the text of an error.
//!
//! ```
//! use deltaplane_expr::{Absent, Bindings, Budget, Eval, Value, env};
//! use serde_json::json;
//!
//! let env = env::standard().with_dynamic(&["app"], Absent::Waits);
//! let program = deltaplane_expr::compile("app.status.replicas >= app.spec.replicas", &env)?;
//! let slot = env.slot("app").expect("declared above");
//!
//! let eval = |object| {
//!     let mut bindings = Bindings::new(&env);
//!     bindings.set_json(&env, slot, &object).expect("any JSON fits");
//!     match program.eval(&bindings, Budget::default()) {
//!         Eval::Value(Value::Bool(ready)) => format!("ready: {ready}"),
//!         Eval::Waiting(path) => format!("waiting for {path}"),
//!         other => format!("{other:?}"),
//!     }
//! };
//! assert_eq!(eval(json!({"spec": {"replicas": 2}, "status": {"replicas": 2}})), "ready: true");
//! assert_eq!(eval(json!({"spec": {"replicas": 2}})), "waiting for app.status");
//! # Ok::<(), deltaplane_expr::Problems>(())
//! ```

pub mod check;
pub mod cost;
mod decl;
pub mod env;
mod eval;
mod fault;
mod gotext;
pub mod host;
mod library;
mod lower;
mod meter;
mod program;
pub mod rules;
mod span;
pub mod syntax;
mod time;
pub mod types;
pub mod value;

pub use check::Checked;
pub use decl::{Absent, Decl, Exposure, Field, ObjectType, Reading, escape, unescape};
pub use env::{Env, Slot};
pub use eval::{Bindings, Eval};
pub use fault::{Failure, Fault, Path, Reason, Step, Stopped};
pub use library::{
    Authority, CONDITION, Decision, Library, Principal, Question, ResourceTarget, Target,
    is_omitted,
};
pub use lower::lower;
pub use meter::{Budget, Meter};
pub use program::Program;
pub use span::{Position, Problem, Problems, Span};
pub use syntax::Template;
pub use time::{CalendarUnit, Duration, Timestamp};
pub use types::Type;
pub use value::{LazyJson, Value};

/// Parses, checks and compiles an expression.
pub fn compile(source: &str, env: &Env) -> Result<Program, Problems> {
    let ast = parse(source, env)?;
    let checked = check::check(&ast, env)?;
    lower(&ast, Some(&checked), env)
}

/// Parses, checks and compiles a text with expressions in it, `app-${schema.spec.name}`.
pub fn compile_template(text: &str, env: &Env) -> Result<Template<Program>, Problems> {
    let compiled = |ast: &syntax::Ast| lower(ast, Some(&check::check(ast, env)?), env);
    Ok(match parse_template(text, env)? {
        Template::Text => Template::Text,
        Template::Value(ast) => Template::Value(compiled(&ast)?),
        Template::Joined(ast) => Template::Joined(compiled(&ast)?),
    })
}

/// Parses an expression with the syntax of an environment.
pub fn parse(source: &str, env: &Env) -> Result<syntax::Ast, Problems> {
    syntax::parse(source, env.syntax())
}

/// Parses a text with expressions in it.
pub fn parse_template(text: &str, env: &Env) -> Result<Template<syntax::Ast>, Problems> {
    syntax::parse_template(text, env.syntax())
}
