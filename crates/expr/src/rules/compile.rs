//! From the text of a rule to programs.

use deltaplane_schema::{Node, PatternBudget, ValidationRule};

use super::field_path;
use crate::check;
use crate::cost;
use crate::decl::{Absent, Decl};
use crate::env::{self, Env, Slot};
use crate::lower::lower_among;
use crate::program::Program;
use crate::types::Type;
use crate::{Problems, parse};

const SELF: &str = "self";
const OLD_SELF: &str = "oldSelf";

/// What the rules of one node see.
#[derive(Debug)]
pub(super) struct Scope {
    decl: Decl,
    env: Env,
    /// For rules that take an `oldSelf` that may be missing.
    optional_env: Env,
}

/// A rule that can be evaluated.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) program: Program,
    pub(super) cost: u64,
    pub(super) uses_old_self: bool,
    pub(super) optional_old_self: bool,
    /// Nothing when there is none; why not, when it does not compile.
    pub(super) message: Option<Result<Message, String>>,
    /// Where the fault is, below the value.
    pub(super) field_path: Option<String>,
}

/// A message that is computed.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) program: Program,
    pub(super) cost: u64,
}

// === impl Scope ===

impl Scope {
    pub(super) fn new(decl: Decl) -> Self {
        let with = |old: Decl| {
            let variables = [(SELF, decl.clone()), (OLD_SELF, old)];
            env::kubernetes().with_variables(variables.map(|(name, decl)| (name.to_owned(), decl)))
        };
        let optional = Decl::of_type(Type::optional(decl.ty().clone()), Absent::Fails);
        Self {
            env: with(decl.clone()),
            optional_env: with(optional),
            decl,
        }
    }

    /// What values are read as.
    pub(super) fn decl(&self) -> &Decl {
        &self.decl
    }

    fn env(&self, optional_old_self: bool) -> &Env {
        match optional_old_self {
            true => &self.optional_env,
            false => &self.env,
        }
    }

    /// The slots of `self` and `oldSelf`, in the order in which they are declared.
    pub(super) const SLOTS: [Slot; 2] = [Slot(0), Slot(1)];

    /// Compiles a rule at `node`; nothing when it is empty.
    pub(super) fn compile(
        &self,
        rule: &ValidationRule,
        node: Node<'_>,
        patterns: &mut PatternBudget,
    ) -> Option<Result<Compiled, String>> {
        if rule.rule.trim().is_empty() {
            return None;
        }
        let optional_old_self = rule.optional_old_self.unwrap_or(false);
        Some(self.compile_rule(rule, node, optional_old_self, patterns))
    }

    fn compile_rule(
        &self,
        rule: &ValidationRule,
        node: Node<'_>,
        optional_old_self: bool,
        patterns: &mut PatternBudget,
    ) -> Result<Compiled, String> {
        let env = self.env(optional_old_self);
        let Expression {
            program,
            cost,
            uses_old_self,
        } = expression(&rule.rule, env, &Type::Bool, patterns).map_err(|fault| match fault {
            Fault::Problems(problems) => format!("compilation failed: {}", problems.reported()),
            Fault::Type => "cel expression must evaluate to a bool".to_owned(),
        })?;
        let message = (!rule.message_expression.is_empty()).then(|| {
            let compiled = expression(&rule.message_expression, env, &Type::String, patterns);
            let message = |compiled: Expression| Message {
                program: compiled.program,
                cost: compiled.cost,
            };
            compiled.map(message).map_err(|fault| match fault {
                Fault::Problems(problems) => {
                    format!(
                        "messageExpression compilation failed: {}",
                        problems.reported()
                    )
                }
                Fault::Type => "messageExpression must evaluate to a string".to_owned(),
            })
        });
        Ok(Compiled {
            program,
            cost,
            uses_old_self,
            optional_old_self,
            message,
            field_path: field_path::normalized(&rule.field_path, node),
        })
    }
}

struct Expression {
    program: Program,
    cost: u64,
    uses_old_self: bool,
}

enum Fault {
    Problems(Problems),
    /// It does not give what it should.
    Type,
}

impl From<Problems> for Fault {
    fn from(problems: Problems) -> Self {
        Self::Problems(problems)
    }
}

fn expression(
    source: &str,
    env: &Env,
    gives: &Type,
    patterns: &mut PatternBudget,
) -> Result<Expression, Fault> {
    let ast = parse(source, env)?;
    let checked = check::check(&ast, env)?;
    if checked.ty(ast.root()) != gives {
        return Err(Fault::Type);
    }
    let reads = check::references(&ast, env);
    Ok(Expression {
        cost: cost::estimate(&ast, &checked, env).max,
        uses_old_self: reads.iter().any(|read| read.path.root == OLD_SELF),
        program: lower_among(&ast, Some(&checked), env, patterns)?,
    })
}
