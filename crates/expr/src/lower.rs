//! From a tree to a program.

use std::cmp::Ordering;
use std::sync::Arc;

use deltaplane_schema::{Pattern, PatternBudget};

use crate::check::Checked;
use crate::cost::Cost;
use crate::decl::Hint;
use crate::env::{Env, Named, Overload, Run};
use crate::eval::{Bindings, Machine};
use crate::fault::Reason;
use crate::meter::{Budget, Meter};
use crate::program::{
    Attribute, Call, Dispatch, FoldOp, Link, ListItem, MapItem, Matches, Op, OpId, OptMapOp, Order,
    Program, Qualifier, QualifierKind, Root,
};
use crate::span::{Problem, Problems, Span};
use crate::syntax::{Ast, Binary, Fold, Item, Literal, MapEntry, Node, NodeId, Unary};
use crate::value::Value;

/// Compiles a tree. What was checked is dispatched by its types; what was not, by its values.
pub fn lower(ast: &Ast, checked: Option<&Checked>, env: &Env) -> Result<Program, Problems> {
    lower_among(ast, checked, env, &mut PatternBudget::default())
}

/// Like [`lower`], for one of several expressions whose patterns are bounded together.
pub(crate) fn lower_among(
    ast: &Ast,
    checked: Option<&Checked>,
    env: &Env,
    patterns: &mut PatternBudget,
) -> Result<Program, Problems> {
    let mut lowering = Lowering {
        ast,
        checked,
        env,
        program: Program {
            env: env.clone(),
            ops: Vec::with_capacity(ast.len()),
            root: OpId(0),
            locals: 0,
            patterns: None,
        },
        budget: patterns,
        constants: Vec::new(),
        scopes: Vec::new(),
        folding: FOLDING,
        problems: Vec::new(),
    };
    let root = lowering.node(ast.root());
    lowering.program.root = root;
    if !lowering.constants.is_empty() {
        lowering.program.patterns = Some(lowering.constants.into());
    }
    if !lowering.problems.is_empty() {
        return Err(Problems::new(ast.source(), lowering.problems));
    }
    Ok(lowering.program)
}

struct Lowering<'a> {
    ast: &'a Ast,
    checked: Option<&'a Checked>,
    env: &'a Env,
    program: Program,
    budget: &'a mut PatternBudget,
    /// Patterns that are constants of calls.
    constants: Vec<Pattern>,
    /// Variables of macros; the position is the local.
    scopes: Vec<Arc<str>>,
    problems: Vec<Problem>,
    /// The work that may still be done ahead of time.
    folding: u64,
}

/// The work that is done ahead of time, for all constants of an expression.
const FOLDING: u64 = 500_000;
/// Longer texts and lists are not kept.
const MAX_FOLDED: u64 = 256;

/// Chains of operators shorter than this nest.
const CHAIN: usize = 3;
/// Functions that cel-go evaluates ahead of time when their argument is a constant.
const CONVERSIONS: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "string",
    "timestamp",
    "type",
    "uint",
];

// === impl Lowering ===

impl Lowering<'_> {
    fn push(&mut self, op: Op) -> OpId {
        let id = OpId(u32::try_from(self.program.ops.len()).unwrap_or(u32::MAX));
        self.program.ops.push(op);
        id
    }

    fn constant(&mut self, value: Value<'static>) -> OpId {
        self.push(Op::Const(value, 0))
    }

    fn as_constant(&self, id: OpId) -> Option<&Value<'static>> {
        if let Op::Const(value, 0) = self.program.op(id) {
            Some(value)
        } else {
            None
        }
    }

    fn node(&mut self, id: NodeId) -> OpId {
        let ast = self.ast;
        let span = ast.span(id);
        match ast.node(id) {
            Node::Literal(literal) => {
                let value = constant(literal);
                self.constant(value)
            }
            Node::Ident(_) | Node::Select { .. } | Node::Has { .. } | Node::Index { .. } => {
                self.attribute(id)
            }
            Node::Call {
                function,
                target,
                args,
            } => self.call(id, function, *target, args),
            Node::Unary(operator, operand) => self.unary(id, *operator, *operand),
            Node::Binary(..) => self.binary(id),
            Node::And(terms) => {
                let terms = terms.iter().map(|&term| self.node(term)).collect();
                self.push(Op::And(terms, span))
            }
            Node::Or(terms) => {
                let terms = terms.iter().map(|&term| self.node(term)).collect();
                self.push(Op::Or(terms, span))
            }
            Node::Conditional(condition, yes, no) => {
                let condition = self.node(*condition);
                let yes = self.uncharged(*yes);
                let no = self.uncharged(*no);
                self.push(Op::Conditional(condition, yes, no, span))
            }
            Node::List(items) => self.list(items, span),
            Node::Map(entries) => self.map(entries, span),
            Node::Struct { name, .. } => {
                let reason = Reason::Invalid(format!("unknown type: {name}"));
                self.push(Op::Broken(reason, span))
            }
            Node::Fold(fold) => self.fold(fold, span),
            Node::Bind { name, init, body } => {
                let init = self.node(*init);
                let local = self.enter(name.clone());
                let body = self.node(*body);
                self.scopes.truncate(local);
                self.push(Op::Bind(local, init, body))
            }
            Node::OptMap {
                target,
                name,
                body,
                flat,
            } => {
                let target = self.node(*target);
                let local = self.enter(name.clone());
                let body = self.node(*body);
                self.scopes.truncate(local);
                self.push(Op::OptMap(Box::new(OptMapOp {
                    target,
                    local,
                    body,
                    flat: *flat,
                    span,
                })))
            }
            Node::Block { slots, body } => {
                let base = self.scopes.len();
                let mut ops = Vec::new();
                for (index, slot) in slots.iter().enumerate() {
                    ops.push(self.node(*slot));
                    self.enter(format!("@index{index}").into());
                }
                let body = self.node(*body);
                self.scopes.truncate(base);
                self.push(Op::Block(base, ops.into(), body))
            }
        }
    }

    fn list(&mut self, items: &[Item], span: Span) -> OpId {
        let lower = |item: &Item| ListItem {
            value: self.node(item.value),
            optional: item.optional,
        };
        let items: Box<[ListItem]> = items.iter().map(lower).collect();
        let constant = items
            .iter()
            .all(|item| !item.optional && self.as_constant(item.value).is_some());
        let op = self.push(Op::List(items, span));
        self.fold_if(constant, op, span)
    }

    fn map(&mut self, entries: &[MapEntry], span: Span) -> OpId {
        let lower = |entry: &MapEntry| MapItem {
            key: self.node(entry.key),
            value: self.node(entry.value),
            optional: entry.optional,
        };
        let items: Box<[MapItem]> = entries.iter().map(lower).collect();
        let constant = items.iter().all(|item| {
            let both = [item.key, item.value];
            !item.optional && both.iter().all(|id| self.as_constant(*id).is_some())
        });
        let op = self.push(Op::Map(items, span));
        self.fold_if(constant, op, span)
    }

    fn enter(&mut self, name: Arc<str>) -> usize {
        let local = self.scopes.len();
        self.scopes.push(name);
        self.program.locals = self.program.locals.max(self.scopes.len());
        local
    }

    /// Lowers a node in a place where cel-go reads attributes without charging for the reading.
    fn uncharged(&mut self, id: NodeId) -> OpId {
        let op = self.node(id);
        if let Op::Attribute(attribute) = &mut self.program.ops[op.0 as usize] {
            attribute.charge = 0;
        }
        op
    }

    /// Replaces an operation on constants by its value, if it has one. The language's own
    /// evaluator does this for lists, maps and conversions, and then they cost nothing.
    fn fold_if(&mut self, constant: bool, op: OpId, span: Span) -> OpId {
        if !constant {
            return op;
        }
        let mut meter = Meter::new(Budget::default());
        let bindings = Bindings::none();
        let value = Machine::new(&self.program, &bindings, &mut meter).eval(op);
        let value = value
            .map(|value| fixed(&value))
            .map_err(|fault| fault.to_string());
        match value {
            Ok(Some(value)) => self.program.ops[op.0 as usize] = Op::Const(value, 0),
            Ok(None) => {}
            Err(message) if self.env.options().validate_literals => {
                self.problems.push(Problem { span, message });
            }
            Err(_) => {}
        }
        op
    }

    /// Replaces a call on constants by what it gives, which then costs what the call would have
    /// cost. A call that fails is left for the time when it is made; so is one that costs nothing,
    /// for what is free is taken to be written: a list of it would be free as well.
    fn compute(&mut self, op: OpId) -> OpId {
        let mut meter = Meter::new(Budget {
            cost: u64::MAX,
            steps: self.folding,
        });
        let bindings = Bindings::none();
        let value = Machine::new(&self.program, &bindings, &mut meter).eval(op);
        let value = value.ok().filter(|value| value.cost_size() < MAX_FOLDED);
        let value = value.and_then(|value| fixed(&value));
        self.folding = self.folding.saturating_sub(meter.steps());
        if let Some(value) = value
            && meter.cost() > 0
        {
            self.program.ops[op.0 as usize] = Op::Const(value, meter.cost());
        }
        op
    }

    /// Variables, and everything that is selected from something.
    fn attribute(&mut self, id: NodeId) -> OpId {
        let ast = self.ast;
        let spine = ast.spine(id);
        // Binary operators end an attribute.
        let bottom = spine
            .iter()
            .position(|&at| matches!(ast.node(at), Node::Binary(..)))
            .unwrap_or(spine.len() - 1);
        let (mut root, mut at, mut charge) = self.root(&spine[..=bottom]);
        let mut steps = Vec::new();
        while at > 0 {
            at -= 1;
            let here = spine[at];
            let span = ast.span(here);
            let (kind, optional) = match ast.node(here) {
                Node::Select {
                    field, optional, ..
                } => (
                    QualifierKind::Field(field.clone(), Hint::default()),
                    *optional,
                ),
                Node::Has { field, .. } => {
                    if !self.env.options().presence_costs {
                        charge = charge.wrapping_sub(1);
                    }
                    (QualifierKind::Test(field.clone()), false)
                }
                Node::Index {
                    index, optional, ..
                } => {
                    let index = self.uncharged(*index);
                    let kind = match self.as_constant(index) {
                        Some(value) => QualifierKind::Constant(value.clone()),
                        None => QualifierKind::Computed(index),
                    };
                    (kind, *optional)
                }
                Node::Literal(_)
                | Node::Ident(_)
                | Node::Call { .. }
                | Node::Unary(..)
                | Node::Binary(..)
                | Node::And(_)
                | Node::Or(_)
                | Node::Conditional(..)
                | Node::List(_)
                | Node::Map(_)
                | Node::Struct { .. }
                | Node::Fold(_)
                | Node::Bind { .. }
                | Node::OptMap { .. }
                | Node::Block { .. } => continue,
            };
            let is_test = matches!(kind, QualifierKind::Test(_));
            steps.push(Qualifier {
                kind,
                optional,
                span,
            });
            if is_test && at > 0 {
                // What is selected from the answer of `has` is another attribute.
                let tested = self.push_attribute(root, std::mem::take(&mut steps), charge, span);
                (root, charge) = (Root::Value(tested), 1);
            }
        }
        if let (Root::Value(op), true) = (root, steps.is_empty()) {
            return op;
        }
        self.push_attribute(root, steps, charge, ast.span(id))
    }

    fn push_attribute(
        &mut self,
        root: Root,
        steps: Vec<Qualifier>,
        charge: u64,
        span: Span,
    ) -> OpId {
        self.push(Op::Attribute(Box::new(Attribute {
            root,
            steps: steps.into(),
            charge,
            span,
        })))
    }

    /// What an attribute begins with, where in the spine that is, and what reading it costs.
    fn root(&mut self, spine: &[NodeId]) -> (Root, usize, u64) {
        let leaf = spine.len() - 1;
        let Node::Ident(first) = self.ast.node(spine[leaf]) else {
            let op = self.node(spine[leaf]);
            // cel-go adds the steps to a conditional itself, and charges nothing for it.
            let charge = u64::from(!matches!(self.program.op(op), Op::Conditional(..)));
            return (Root::Value(op), leaf, charge);
        };
        if let Some(local) = self.scopes.iter().rposition(|name| name == first) {
            return (Root::Local(local), leaf, 1);
        }
        match self.env.leading(self.ast, spine) {
            Some((Named::Variable(slot), count)) => {
                return (Root::Variable(slot), leaf + 1 - count, 1);
            }
            Some((Named::Type(ty), count)) => {
                let op = self.constant(Value::of_type(ty));
                return (Root::Value(op), leaf + 1 - count, 1);
            }
            None => {}
        }
        let reason = Reason::NoSuchVariable(first.to_string());
        let op = self.push(Op::Broken(reason, self.ast.span(spine[leaf])));
        (Root::Value(op), leaf, 1)
    }

    fn unary(&mut self, id: NodeId, operator: Unary, operand: NodeId) -> OpId {
        let span = self.ast.span(id);
        let operand = self.node(operand);
        match operator {
            Unary::Not => self.push(Op::Not(operand, span)),
            Unary::Negate => self.function(id, "-_", vec![operand], false),
        }
    }

    fn binary(&mut self, id: NodeId) -> OpId {
        let ast = self.ast;
        let spine = ast.spine(id);
        let operators = spine
            .iter()
            .take_while(|&&at| matches!(ast.node(at), Node::Binary(..)))
            .count();
        let mut left = match ast.left(spine[operators - 1]) {
            Some(first) => self.node(first),
            None => return self.push(Op::Broken(Reason::TooDeep, ast.span(id))),
        };
        let added = |at: NodeId| matches!(ast.node(at), Node::Binary(Binary::Add, ..));
        let sums = spine[..operators]
            .iter()
            .rev()
            .take_while(|&&at| added(at))
            .count();
        let mut links = Vec::new();
        for (index, &at) in spine[..operators].iter().rev().enumerate() {
            let Node::Binary(operator, _, right) = ast.node(at) else {
                continue;
            };
            if index == sums && operators < CHAIN && !links.is_empty() {
                left = self.push(Op::Chain(left, std::mem::take(&mut links).into()));
            }
            let right = self.node(*right);
            if operators >= CHAIN || (index < sums && sums > 1) {
                let call = self.prepared(at, operator.function(), vec![right], false);
                let adds = *operator == Binary::Add;
                links.extend(call.map(|call| Link { call, adds }));
            } else {
                left = self.operation(at, *operator, left, right);
            }
        }
        if links.is_empty() {
            return left;
        }
        self.push(Op::Chain(left, links.into()))
    }

    fn operation(&mut self, id: NodeId, operator: Binary, left: OpId, right: OpId) -> OpId {
        let holds = match operator {
            Binary::Less => Some(Ordering::is_lt as fn(Ordering) -> bool),
            Binary::LessEquals => Some(Ordering::is_le as fn(Ordering) -> bool),
            Binary::Greater => Some(Ordering::is_gt as fn(Ordering) -> bool),
            Binary::GreaterEquals => Some(Ordering::is_ge as fn(Ordering) -> bool),
            Binary::Add
            | Binary::Subtract
            | Binary::Multiply
            | Binary::Divide
            | Binary::Modulo
            | Binary::Equals
            | Binary::NotEquals
            | Binary::In => None,
        };
        if let Some(holds) = holds
            && let Some(call) = self.prepared(id, operator.function(), vec![left, right], false)
        {
            let sides = [left, right];
            return self.push(Op::Order(Box::new(Order { sides, holds, call })));
        }
        match operator {
            Binary::Equals => self.push(Op::Equal(left, right, true)),
            Binary::NotEquals => self.push(Op::Equal(left, right, false)),
            Binary::Add
            | Binary::Subtract
            | Binary::Multiply
            | Binary::Divide
            | Binary::Modulo
            | Binary::Less
            | Binary::LessEquals
            | Binary::Greater
            | Binary::GreaterEquals
            | Binary::In => self.function(id, operator.function(), vec![left, right], false),
        }
    }

    fn call(
        &mut self,
        id: NodeId,
        function: &str,
        target: Option<NodeId>,
        args: &[NodeId],
    ) -> OpId {
        let Some(target) = target else {
            let args = args.iter().map(|&arg| self.node(arg)).collect();
            return self.function(id, function, args, false);
        };
        if let Some(name) = self.namespaced(id, function, target) {
            let args = args.iter().map(|&arg| self.node(arg)).collect();
            return self.function(id, &name, args, false);
        }
        let args = std::iter::once(target).chain(args.iter().copied());
        let args = args.map(|arg| self.node(arg)).collect();
        self.function(id, function, args, true)
    }

    /// The whole name, when the target of a call is a part of it.
    fn namespaced(&self, id: NodeId, function: &str, target: NodeId) -> Option<String> {
        if self
            .checked
            .is_some_and(|checked| !checked.is_namespaced(id))
        {
            return None;
        }
        let name = format!("{}.{function}", self.ast.qualified_name(target)?);
        self.env.function(&name).is_some().then_some(name)
    }

    fn function(&mut self, id: NodeId, name: &str, args: Vec<OpId>, member: bool) -> OpId {
        let span = self.ast.span(id);
        if let Some(op) = self.special(id, name, &args, member) {
            return op;
        }
        let all_constant = args.iter().all(|arg| self.as_constant(*arg).is_some());
        let is_constant = |arg: &OpId| matches!(self.program.op(*arg), Op::Const(..));
        let args_are_constant = args.iter().all(is_constant);
        let foldable = all_constant && !member && CONVERSIONS.contains(&name) && args.len() == 1;
        match self.prepared(id, name, args, member) {
            Some(call) => {
                self.keep_pattern(&call);
                let pure = call.is_pure() && args_are_constant;
                let op = self.push(Op::Call(Box::new(call)));
                match pure && !foldable {
                    true => self.compute(op),
                    false => self.fold_if(foldable, op, span),
                }
            }
            None => self.push(Op::Broken(Reason::Unbound(name.to_owned()), span)),
        }
    }

    /// Calls with an operation of their own.
    fn special(&mut self, id: NodeId, name: &str, args: &[OpId], member: bool) -> Option<OpId> {
        let span = self.ast.span(id);
        match (name, args) {
            ("or" | "orValue", [first, other]) if self.env.function(name).is_some() => {
                Some(self.push(Op::Otherwise(*first, *other, name == "orValue", span)))
            }
            ("matches", [text, pattern]) => {
                let Some(Value::String(pattern)) = self.as_constant(*pattern) else {
                    return None;
                };
                let pattern = pattern.as_str().to_owned();
                // Unless it is refused, it fails like any other pattern: when it is matched.
                if !self.is_pattern(name, &pattern, span) {
                    return None;
                }
                Some(self.push(Op::Matches(Box::new(Matches {
                    text: *text,
                    length: pattern.chars().count() as u64,
                    pattern: Pattern::new(&pattern),
                    cost: if member { Cost::Matches } else { Cost::Unit },
                    span,
                }))))
            }
            _ => None,
        }
    }

    /// Whether the constant argument of a function is a pattern.
    fn is_pattern(&mut self, function: &str, pattern: &str, span: Span) -> bool {
        let Err(why) = self.budget.check(pattern) else {
            return true;
        };
        if self.env.options().validate_literals {
            let message = format!("invalid {function} argument: error parsing regexp: {why}");
            self.problems.push(Problem { span, message });
        }
        false
    }

    /// Keeps a call's pattern, so that it is compiled once.
    fn keep_pattern(&mut self, call: &Call) {
        let (Cost::Find, Some(pattern)) = (call.cost, call.args.get(1)) else {
            return;
        };
        let Some(Value::String(pattern)) = self.as_constant(*pattern) else {
            return;
        };
        let pattern = pattern.as_str().to_owned();
        let is_new = self.constants.iter().all(|one| one.source() != pattern);
        if self.is_pattern(&call.name, &pattern, call.span) && is_new {
            self.constants.push(Pattern::new(&pattern));
        }
    }

    /// A call with its dispatch decided. The first argument of a link comes from the chain.
    fn prepared(&mut self, id: NodeId, name: &str, args: Vec<OpId>, member: bool) -> Option<Call> {
        let candidates = self.candidates(id, name, args.len(), member)?;
        let mut cost = match &candidates[..] {
            [one] => one.cost,
            several => shared_cost(several),
        };
        if name == "@in"
            && let Some(list) = args.last()
            && self.is_constant_set(*list)
        {
            cost = Cost::Free;
        }
        Some(Call {
            name: name.into(),
            run: dispatch(candidates),
            args: args.into(),
            cost,
            span: self.ast.span(id),
        })
    }

    /// Whether a list is a constant of plain values: looking into it then costs nothing.
    fn is_constant_set(&self, id: OpId) -> bool {
        let Some(Value::List(list)) = self.as_constant(id) else {
            return false;
        };
        list.iter().all(|item| {
            matches!(
                item,
                Ok(Value::Bool(_)
                    | Value::Int(_)
                    | Value::Uint(_)
                    | Value::Double(_)
                    | Value::String(_)
                    | Value::Null)
            )
        })
    }

    fn candidates(
        &self,
        id: NodeId,
        name: &str,
        count: usize,
        member: bool,
    ) -> Option<Arc<[Arc<Overload>]>> {
        if let Some(found) = self.checked.and_then(|checked| checked.overloads(id)) {
            return Some(found.clone());
        }
        let function = self.env.function(name)?;
        let fits = |overload: &&Arc<Overload>| {
            let params = overload.signature().params.len();
            overload.signature().member == member && (params == count || params == count + 1)
        };
        let found: Arc<[Arc<Overload>]> =
            function.overloads().iter().filter(fits).cloned().collect();
        (!found.is_empty()).then_some(found)
    }

    fn fold(&mut self, fold: &Fold, span: Span) -> OpId {
        let range = self.node(fold.range);
        let local = self.enter(fold.var.clone());
        if let Some(second) = &fold.var2 {
            self.enter(second.clone());
        }
        let filter = fold.filter.map(|filter| self.node(filter));
        let body = self.node(fold.body);
        self.scopes.truncate(local);
        self.push(Op::Fold(Box::new(FoldOp {
            kind: fold.kind,
            range,
            local,
            two: fold.var2.is_some(),
            filter,
            body,
            span,
        })))
    }
}

fn dispatch(candidates: Arc<[Arc<Overload>]>) -> Dispatch {
    let first = &candidates[0].run;
    let same = candidates.iter().all(|one| match (first, &one.run) {
        (Run::Library(a), Run::Library(b)) => std::ptr::fn_addr_eq(*a, *b),
        _ => candidates.len() == 1,
    });
    match (first, same) {
        (Run::Library(run), true) => Dispatch::Library(*run),
        (Run::Host(run), true) => Dispatch::Host(run.clone()),
        _ => Dispatch::Values(candidates),
    }
}

/// The cost of a call whose overload is not known: what the function costs, whatever its
/// arguments are.
fn shared_cost(candidates: &[Arc<Overload>]) -> Cost {
    let first = candidates[0].cost;
    if first.is_by_function() && candidates.iter().all(|one| one.cost == first) {
        return first;
    }
    Cost::Unit
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::string(text.clone()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}

/// The value without borrowed parts; nothing when it has some that cannot be owned.
fn fixed(value: &Value<'_>) -> Option<Value<'static>> {
    Some(match value {
        Value::Null => Value::Null,
        Value::Bool(value) => Value::Bool(*value),
        Value::Int(value) => Value::Int(*value),
        Value::Uint(value) => Value::Uint(*value),
        Value::Double(value) => Value::Double(*value),
        Value::String(text) => Value::string(text.as_str()),
        Value::Bytes(bytes) => Value::Bytes(bytes.clone()),
        Value::Timestamp(time) => Value::Timestamp(*time),
        Value::Duration(duration) => Value::Duration(*duration),
        Value::Type(ty) => Value::Type(ty.clone()),
        Value::Opaque(opaque) => Value::Opaque(opaque.clone()),
        Value::List(list) => {
            let items: Option<Vec<_>> = list.iter().map(|item| fixed(&item.ok()?)).collect();
            Value::list(items?).ok()?
        }
        Value::Map(map) => {
            let mut owned = crate::value::OwnedMap::new();
            for key in map.keys() {
                let value = fixed(&map.get(&key).ok()??)?;
                owned.insert(fixed(&key)?, value).ok()?;
            }
            Value::Map(crate::value::Map::owned(owned))
        }
        Value::Optional(None) => Value::NONE,
        Value::Optional(Some(inner)) => Value::some(fixed(&inner.value)?).ok()?,
        Value::Host(_) => return None,
    })
}
