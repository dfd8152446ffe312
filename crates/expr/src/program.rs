//! Expressions ready to run: operations in one vector, variables as slots, constants folded,
//! regular expressions compiled, overloads chosen where types are known.

use std::cmp::Ordering;
use std::sync::Arc;

use deltaplane_schema::Pattern;

use crate::cost::Cost;
use crate::decl::Hint;
use crate::env::{Env, Fun, Overload, Run, Slot};
use crate::host::HostFunction;
use crate::span::Span;
use crate::syntax::FoldKind;
use crate::value::Value;

/// An operation of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpId(pub(crate) u32);

/// A compiled expression. Cheap to share; holds no data.
#[derive(Debug)]
pub struct Program {
    pub(crate) env: Env,
    pub(crate) ops: Vec<Op>,
    pub(crate) root: OpId,
    /// How many variables of macros exist at once, at most.
    pub(crate) locals: usize,
    /// Patterns that are constants of calls, compiled once.
    pub(crate) patterns: Patterns,
}

/// Patterns that are known beforehand; most programs have none.
pub(crate) type Patterns = Option<Arc<[Pattern]>>;

#[derive(Debug)]
pub(crate) enum Op {
    /// A constant, and what computing it would have cost.
    Const(Value<'static>, u64),
    Attribute(Box<Attribute>),
    Not(OpId, Span),
    And(Box<[OpId]>, Span),
    Or(Box<[OpId]>, Span),
    Conditional(OpId, OpId, OpId, Span),
    Equal(OpId, OpId, bool),
    Call(Box<Call>),
    Order(Box<Order>),
    /// A long chain of binary operators: one operation after the other on the first value.
    Chain(OpId, Box<[Link]>),
    Matches(Box<Matches>),
    List(Box<[ListItem]>, Span),
    Map(Box<[MapItem]>, Span),
    Fold(Box<FoldOp>),
    /// `local`, its value, the rest.
    Bind(usize, OpId, OpId),
    OptMap(Box<OptMapOp>),
    /// `or` and `orValue`: the other is evaluated only if there is nothing in the first.
    Otherwise(OpId, OpId, bool, Span),
    Block(usize, Box<[OpId]>, OpId),
    /// What cannot be evaluated, and why.
    Broken(crate::fault::Reason, Span),
}

/// A variable or a value, and the way from there.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) steps: Box<[Qualifier]>,
    /// What reading it costs beside its steps.
    pub(crate) charge: u64,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Root {
    Variable(Slot),
    Local(usize),
    Value(OpId),
}

#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) kind: QualifierKind,
    pub(crate) optional: bool,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum QualifierKind {
    Field(Arc<str>, Hint),
    /// `has()`: always the last.
    Test(Arc<str>),
    Constant(Value<'static>),
    Computed(OpId),
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: Arc<str>,
    pub(crate) run: Dispatch,
    pub(crate) args: Box<[OpId]>,
    pub(crate) cost: Cost,
    pub(crate) span: Span,
}

/// An order of two values, and the call that it is for those that are no integers.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) sides: [OpId; 2],
    pub(crate) holds: fn(Ordering) -> bool,
    pub(crate) call: Call,
}

/// One link of a [`Op::Chain`].
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) call: Call,
    /// Whether it is an addition.
    pub(crate) adds: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Dispatch {
    /// One function takes whatever comes.
    Library(Fun),
    Host(Arc<dyn HostFunction>),
    /// The values decide.
    Values(Arc<[Arc<Overload>]>),
}

/// A match against a pattern that is a constant.
#[derive(Debug)]
pub(crate) struct Matches {
    pub(crate) text: OpId,
    pub(crate) pattern: Pattern,
    /// What it costs: by the sizes of both as a member, one as a function, as in cel-go.
    pub(crate) cost: Cost,
    /// Characters of the pattern.
    pub(crate) length: u64,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct ListItem {
    pub(crate) value: OpId,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) struct MapItem {
    pub(crate) key: OpId,
    pub(crate) value: OpId,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) struct FoldOp {
    pub(crate) kind: FoldKind,
    pub(crate) range: OpId,
    /// The first variable's local; the second's is the next one.
    pub(crate) local: usize,
    pub(crate) two: bool,
    pub(crate) filter: Option<OpId>,
    pub(crate) body: OpId,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct OptMapOp {
    pub(crate) target: OpId,
    pub(crate) local: usize,
    pub(crate) body: OpId,
    pub(crate) flat: bool,
    pub(crate) span: Span,
}

// === impl Call ===

impl Call {
    /// Whether it gives the same each time: what libraries bring does, what the host brings may
    /// not.
    pub(crate) fn is_pure(&self) -> bool {
        match &self.run {
            Dispatch::Library(_) => true,
            Dispatch::Host(_) => false,
            Dispatch::Values(overloads) => overloads
                .iter()
                .all(|overload| matches!(overload.run, Run::Library(_))),
        }
    }
}

impl Program {
    pub(crate) fn op(&self, id: OpId) -> &Op {
        &self.ops[id.0 as usize]
    }

    /// The environment that it was compiled in.
    pub fn env(&self) -> &Env {
        &self.env
    }
}
