//! Gates: lists of expressions all of which must be true, compiled once for many passes.
//!
//! What is wrong is found here, all of it at once. Not here: evaluating them (`board`).

mod clock;
mod counter;
mod expression;
mod names;
mod refusal;
mod shared;
mod state;
mod tree;

use std::collections::BTreeSet;
use std::fmt;

use deltaplane_expr::Span;

use crate::scope::Scope;

pub(crate) use clock::{Clock, Moment, Side, Where};
pub(crate) use counter::{Counter, CounterKind};
pub(crate) use expression::{Expression, Leaf, LeafKind, compiled};
pub use state::state_reads;
pub(crate) use tree::{told, tree, unwrapped};

/// A gate: without expressions it is open.
#[derive(Debug)]
pub struct Gate {
    pub(crate) scope: Scope,
    pub(crate) expressions: Vec<Expression>,
}

/// Something that is wrong with a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateProblem {
    /// Which of its expressions.
    pub index: usize,
    /// The expression as it is written.
    pub text: String,
    /// Where in the text.
    pub span: Span,
    pub message: String,
    /// What would have done, when that is known.
    pub expected: Vec<String>,
}

/// Everything that is wrong with a gate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct GateProblems(pub Vec<GateProblem>);

/// How expressions are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// What does not depend on the item is kept between items.
    Incremental,
    /// Everything is evaluated for every item: what the other mode must agree with.
    #[cfg(test)]
    Plain,
}

// === impl Gate ===

impl Gate {
    /// Compiles a gate from texts, bare or written as `${…}`.
    pub fn compile(texts: &[impl AsRef<str>], scope: Scope) -> Result<Self, GateProblems> {
        Self::compile_as(Mode::Incremental, texts, scope)
    }

    pub(crate) fn compile_as(
        mode: Mode,
        texts: &[impl AsRef<str>],
        scope: Scope,
    ) -> Result<Self, GateProblems> {
        let mut expressions = Vec::new();
        let mut problems = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            match Expression::compile(mode, text.as_ref(), &scope) {
                Ok(expression) => expressions.push(expression),
                Err(found) => problems.extend(found.into_iter().map(|mut problem| {
                    problem.index = index;
                    problem
                })),
            }
        }
        if problems.is_empty() {
            return Ok(Self { scope, expressions });
        }
        Err(GateProblems(problems))
    }

    /// The names that its expressions use, of those in its scope.
    pub fn reads(&self) -> BTreeSet<&str> {
        let all = self.expressions.iter().flat_map(|one| one.reads.iter());
        all.map(String::as_str).collect()
    }

    /// Returns true if one of its expressions depends on nothing in its scope.
    pub(crate) fn is_constant(&self, index: usize) -> bool {
        let expression = self.expressions.get(index);
        expression.is_some_and(|one| one.reads.is_empty())
    }

    /// Returns the places of its expressions that are false whatever the items and the time are.
    pub fn never_true(&self) -> impl Iterator<Item = usize> {
        let all = self.expressions.iter().enumerate();
        let closed = all.filter(|(_, one)| one.is_never_true);
        closed.map(|(index, _)| index)
    }

    /// Whether nothing is asked.
    pub fn is_always_open(&self) -> bool {
        self.expressions.is_empty()
    }
}

// === impl GateProblems ===

impl fmt::Display for GateProblems {
    /// One problem to a line, as `expression: line:column: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, problem) in self.0.iter().enumerate() {
            if line > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl fmt::Display for GateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.span.position(&self.text);
        let (line, column) = (at.line, at.column + 1);
        write!(f, "[{}]: {line}:{column}: {}", self.index, self.message)
    }
}
