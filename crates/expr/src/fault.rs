//! Why an evaluation has no value.
//!
//! The lattice: a value that decides (`false` of `&&`, `true` of `||`, and what follows from them
//! for `all` and `exists`) absorbs every fault of the other side but an exhausted budget. Where
//! nothing decides, waiting wins over failing: what is waited for may yet decide. A strict
//! function takes the first fault of its arguments, from left to right.

use std::fmt;

use crate::span::Span;

/// An evaluation's outcome when there is no value.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Data is not there yet.
    Waiting(Path),
    /// There will be no value.
    Failed(Failure),
    /// The evaluation was stopped.
    Stopped(Stopped),
}

/// What failed, and where in the expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub span: Span,
    pub reason: Reason,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    #[error("operation cancelled: actual cost limit exceeded")]
    Cost,
    #[error("operation cancelled: step limit exceeded")]
    Steps,
}

/// Why an evaluation failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Reason {
    #[error("no such key: {0}")]
    NoSuchKey(String),
    #[error("no such attribute: {0}")]
    NoSuchVariable(String),
    #[error("index out of bounds: {0}")]
    OutOfBounds(i64),
    #[error("no such overload: {0}")]
    NoSuchOverload(String),
    #[error("division by zero")]
    DivisionByZero,
    #[error("modulus by zero")]
    ModulusByZero,
    #[error("{0} overflow")]
    Overflow(&'static str),
    #[error("type conversion error from '{from}' to '{to}'")]
    Conversion { from: String, to: &'static str },
    #[error("unsupported key type: {0}")]
    BadKey(String),
    #[error("insert failed: key {0} already exists")]
    RepeatedKey(String),
    #[error("optional.none() dereference")]
    EmptyOptional,
    #[error("{0}")]
    BadData(String),
    #[error("{0}")]
    Invalid(String),
    #[error("a value is nested too deeply")]
    TooDeep,
    #[error("a function has no implementation: {0}")]
    Unbound(String),
}

/// A place in the data: a variable and the way from there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    pub root: String,
    pub steps: Vec<Step>,
}

/// One step of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    Field(String),
    Index(i64),
    /// Some item or entry: which one is known at run time.
    Any,
}

// === impl Failure ===

impl Failure {
    /// What failed, with the line of the expression that it is in and a mark under the place.
    pub fn drawn(&self, source: &str) -> String {
        self.span.drawn(source, &self.reason.to_string())
    }
}

// === impl Fault ===

impl Fault {
    pub(crate) fn failed(reason: Reason) -> Box<Self> {
        Box::new(Self::Failed(Failure {
            span: Span::default(),
            reason,
        }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Box<Self> {
        Self::failed(Reason::Invalid(message.into()))
    }

    /// The same, at `span` unless it has a place already.
    pub(crate) fn at(mut self: Box<Self>, span: Span) -> Box<Self> {
        if let Self::Failed(failure) = &mut *self
            && failure.span == Span::default()
        {
            failure.span = span;
        }
        self
    }

    /// Which of two faults remains when neither side decides.
    pub(crate) fn join(self: Box<Self>, other: Box<Self>) -> Box<Self> {
        match (&*self, &*other) {
            (Self::Stopped(_), _) | (Self::Waiting(_), Self::Waiting(_) | Self::Failed(_)) => self,
            (Self::Failed(_), Self::Failed(_)) => self,
            (_, Self::Stopped(_) | Self::Waiting(_)) => other,
        }
    }

    pub(crate) fn is_stop(&self) -> bool {
        matches!(self, Self::Stopped(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(path) => write!(f, "waiting for {path}"),
            Self::Failed(failure) => write!(f, "{}", failure.reason),
            Self::Stopped(stopped) => write!(f, "{stopped}"),
        }
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        for step in &self.steps {
            match step {
                Step::Field(name) if is_name(name) => write!(f, ".{name}")?,
                Step::Field(name) => write!(f, "[{}]", crate::syntax::quote(name))?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Any => f.write_str("[*]")?,
            }
        }
        Ok(())
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
