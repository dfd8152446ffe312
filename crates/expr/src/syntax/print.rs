//! From a tree back to text: what is printed parses to the same tree.

use super::ast::{Ast, Fold, FoldKind, Literal, Node, NodeId, Unary};
use super::literal::{quote, quote_bytes};
use super::macros::{CONDITION_FIELDS, NEW_CONDITION};

/// How tightly a printed node holds together: below what its place asks for, it gets parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grip {
    Conditional,
    Or,
    And,
    Operator(u8),
    Unary,
    Member,
}

/// The text of `ast`.
pub fn print(ast: &Ast) -> String {
    let mut out = String::new();
    Printer { ast, out: &mut out }.node(ast.root(), Grip::Conditional);
    out
}

struct Printer<'a> {
    ast: &'a Ast,
    out: &'a mut String,
}

fn grip(node: &Node) -> Grip {
    match node {
        Node::Conditional(..) => Grip::Conditional,
        Node::Or(_) => Grip::Or,
        Node::And(_) => Grip::And,
        Node::Binary(operator, ..) => Grip::Operator(operator.strength()),
        Node::Unary(..) => Grip::Unary,
        Node::Literal(_)
        | Node::Ident(_)
        | Node::Select { .. }
        | Node::Has { .. }
        | Node::Index { .. }
        | Node::Call { .. }
        | Node::List(_)
        | Node::Map(_)
        | Node::Struct { .. }
        | Node::Fold(_)
        | Node::Bind { .. }
        | Node::OptMap { .. }
        | Node::Block { .. } => Grip::Member,
    }
}

impl Printer<'_> {
    /// Prints a node in a place that asks for `wanted`. What leans to the left is a loop: first
    /// the opening parentheses downwards, then the rest of each node upwards.
    fn node(&mut self, id: NodeId, wanted: Grip) {
        let ast = self.ast;
        let spine = ast.spine(id);
        let mut wanted = wanted;
        let mut closing = Vec::new();
        for &at in &spine {
            let node = ast.node(at);
            let parentheses = grip(node) < wanted;
            if parentheses {
                self.out.push('(');
            }
            if let Node::Has { .. } = node {
                self.out.push_str("has(");
            }
            closing.push(parentheses);
            wanted = if let Node::Binary(operator, ..) = node {
                Grip::Operator(operator.strength())
            } else {
                Grip::Member
            };
        }
        for (&at, parentheses) in spine.iter().zip(closing).rev() {
            self.rest(ast.node(at));
            if parentheses {
                self.out.push(')');
            }
        }
    }

    /// What comes after a node's left child; all of it when there is none.
    fn rest(&mut self, node: &Node) {
        match node {
            Node::Literal(literal) => self.literal(literal),
            Node::Ident(name) => self.ident(name),
            Node::Select {
                field, optional, ..
            } => {
                self.out.push_str(if *optional { ".?" } else { "." });
                self.field(field);
            }
            Node::Has { field, .. } => {
                self.out.push('.');
                self.field(field);
                self.out.push(')');
            }
            Node::Index {
                index, optional, ..
            } => {
                self.out.push_str(if *optional { "[?" } else { "[" });
                self.node(*index, Grip::Conditional);
                self.out.push(']');
            }
            Node::Binary(operator, _, right) => {
                self.out.push_str(&format!(" {} ", operator.symbol()));
                self.node(*right, Grip::Operator(operator.strength() + 1));
            }
            Node::Call {
                function,
                target,
                args,
            } => self.call(function, *target, args),
            Node::Unary(operator, operand) => self.unary(*operator, *operand),
            Node::And(terms) => self.chain(terms, " && ", Grip::Operator(1)),
            Node::Or(terms) => self.chain(terms, " || ", Grip::And),
            Node::Conditional(condition, yes, no) => {
                self.node(*condition, Grip::Or);
                self.out.push_str(" ? ");
                self.node(*yes, Grip::Or);
                self.out.push_str(" : ");
                self.node(*no, Grip::Conditional);
            }
            Node::List(_) | Node::Map(_) | Node::Struct { .. } => self.container(node),
            Node::Fold(fold) => self.fold(fold),
            Node::Bind { name, init, body } => {
                self.out.push_str("cel.bind(");
                self.ident(name);
                self.out.push_str(", ");
                self.list(&[*init, *body]);
                self.out.push(')');
            }
            Node::OptMap {
                target,
                name,
                body,
                flat,
            } => {
                self.node(*target, Grip::Member);
                self.out
                    .push_str(if *flat { ".optFlatMap(" } else { ".optMap(" });
                self.ident(name);
                self.out.push_str(", ");
                self.node(*body, Grip::Conditional);
                self.out.push(')');
            }
            Node::Block { slots, body } => {
                self.out.push_str("cel.block([");
                self.list(slots);
                self.out.push_str("], ");
                self.node(*body, Grip::Conditional);
                self.out.push(')');
            }
        }
    }

    /// A list, a map or a message.
    fn container(&mut self, node: &Node) {
        if let Node::List(items) = node {
            self.out.push('[');
            for (index, item) in items.iter().enumerate() {
                self.separate(index, item.optional);
                self.node(item.value, Grip::Conditional);
            }
            self.out.push(']');
        }
        if let Node::Map(entries) = node {
            self.out.push('{');
            for (index, entry) in entries.iter().enumerate() {
                self.separate(index, entry.optional);
                self.node(entry.key, Grip::Conditional);
                self.out.push_str(": ");
                self.node(entry.value, Grip::Conditional);
            }
            self.out.push('}');
        }
        if let Node::Struct { name, fields } = node {
            self.out.push_str(name);
            self.out.push('{');
            for (index, field) in fields.iter().enumerate() {
                self.separate(index, field.optional);
                self.field(&field.name);
                self.out.push_str(": ");
                self.node(field.value, Grip::Conditional);
            }
            self.out.push('}');
        }
    }

    fn separate(&mut self, index: usize, optional: bool) {
        if index > 0 {
            self.out.push_str(", ");
        }
        if optional {
            self.out.push('?');
        }
    }

    fn list(&mut self, ids: &[NodeId]) {
        for (index, id) in ids.iter().enumerate() {
            self.separate(index, false);
            self.node(*id, Grip::Conditional);
        }
    }

    fn chain(&mut self, terms: &[NodeId], symbol: &str, wanted: Grip) {
        for (index, term) in terms.iter().enumerate() {
            if index > 0 {
                self.out.push_str(symbol);
            }
            self.node(*term, wanted);
        }
    }

    fn unary(&mut self, operator: Unary, operand: NodeId) {
        self.out.push(match operator {
            Unary::Not => '!',
            Unary::Negate => '-',
        });
        // A number would take the sign for itself, and two signs would cancel out.
        let plain = match self.ast.node(operand) {
            Node::Literal(Literal::Int(_) | Literal::Double(_)) => false,
            other @ (Node::Literal(_)
            | Node::Ident(_)
            | Node::Select { .. }
            | Node::Has { .. }
            | Node::Index { .. }
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
            | Node::Block { .. }) => {
                grip(other) == Grip::Member && !self.begins_with_number(operand)
            }
        };
        if plain {
            self.node(operand, Grip::Member);
        } else {
            self.out.push('(');
            self.node(operand, Grip::Conditional);
            self.out.push(')');
        }
    }

    /// Whether the first thing printed for the node is a number.
    fn begins_with_number(&self, id: NodeId) -> bool {
        let mut at = id;
        loop {
            at = match self.ast.node(at) {
                Node::Literal(Literal::Int(_) | Literal::Double(_)) => return true,
                Node::Select { operand, .. } | Node::Index { operand, .. } => *operand,
                Node::Call {
                    target: Some(target),
                    ..
                }
                | Node::OptMap { target, .. } => *target,
                Node::Fold(fold) => fold.range,
                Node::Literal(_)
                | Node::Ident(_)
                | Node::Has { .. }
                | Node::Call { .. }
                | Node::Unary(..)
                | Node::Binary(..)
                | Node::And(_)
                | Node::Or(_)
                | Node::Conditional(..)
                | Node::List(_)
                | Node::Map(_)
                | Node::Struct { .. }
                | Node::Bind { .. }
                | Node::Block { .. } => return false,
            };
        }
    }

    fn call(&mut self, function: &str, target: Option<NodeId>, args: &[NodeId]) {
        if function == NEW_CONDITION {
            self.out.push_str("runtime.newCondition({");
            for (index, (field, value)) in CONDITION_FIELDS.iter().zip(args).enumerate() {
                self.separate(index, false);
                self.out.push_str(&format!("{field}: "));
                self.node(*value, Grip::Conditional);
            }
            self.out.push_str("})");
            return;
        }
        if let Some(target) = target {
            self.node(target, Grip::Member);
            self.out.push('.');
        }
        let name = match function {
            "math.@max" => "math.greatest",
            "math.@min" => "math.least",
            name => name,
        };
        self.out.push_str(name);
        self.out.push('(');
        self.list(args);
        self.out.push(')');
    }

    fn fold(&mut self, fold: &Fold) {
        self.node(fold.range, Grip::Member);
        self.out.push_str(match fold.kind {
            FoldKind::All => ".all(",
            FoldKind::Exists => ".exists(",
            FoldKind::ExistsOne => ".exists_one(",
            FoldKind::ExistsOneCamel => ".existsOne(",
            FoldKind::Map => ".map(",
            FoldKind::Filter => ".filter(",
            FoldKind::TransformList => ".transformList(",
            FoldKind::TransformMap => ".transformMap(",
            FoldKind::TransformMapEntry => ".transformMapEntry(",
            FoldKind::SortBy => ".sortBy(",
        });
        for name in std::iter::once(&fold.var).chain(&fold.var2) {
            self.ident(name);
            self.out.push_str(", ");
        }
        if let Some(filter) = fold.filter {
            self.node(filter, Grip::Conditional);
            self.out.push_str(", ");
        }
        self.node(fold.body, Grip::Conditional);
        self.out.push(')');
    }

    /// A variable; those of blocks have names that cannot be written as such.
    fn ident(&mut self, name: &str) {
        if let Some(number) = name.strip_prefix("@index") {
            self.out.push_str(&format!("cel.index({number})"));
            return;
        }
        for (prefix, function) in [("@it:", "iterVar"), ("@ac:", "accuVar")] {
            if let Some((outer, inner)) = name
                .strip_prefix(prefix)
                .and_then(|rest| rest.split_once(':'))
            {
                self.out
                    .push_str(&format!("cel.{function}({outer}, {inner})"));
                return;
            }
        }
        self.out.push_str(name);
    }

    fn field(&mut self, name: &str) {
        let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !matches!(name, "true" | "false" | "null" | "in");
        if plain {
            self.out.push_str(name);
        } else {
            self.out.push_str(&format!("`{name}`"));
        }
    }

    fn literal(&mut self, literal: &Literal) {
        let text = match literal {
            Literal::Null => "null".to_owned(),
            Literal::Bool(value) => value.to_string(),
            Literal::Int(value) => value.to_string(),
            Literal::Uint(value) => format!("{value}u"),
            Literal::Double(value) => double(*value),
            Literal::String(text) => quote(text),
            Literal::Bytes(bytes) => quote_bytes(bytes),
        };
        self.out.push_str(&text);
    }
}

/// The shortest text that reads back as the same double, and as a double.
fn double(value: f64) -> String {
    let text = format!("{value:?}");
    if text.contains(['.', 'e']) {
        text
    } else {
        format!("{text}.0")
    }
}
