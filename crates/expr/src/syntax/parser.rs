//! From tokens to a tree: recursive descent for what nests, loops for what chains.
//!
//! Invariants: nesting deeper than the limit, longer text and more nodes than the limits are
//! errors; chains of operators and selections of any length use no stack.

use std::ops::Range;
use std::sync::Arc;

use super::ast::{Ast, Binary, Item, Literal, MapEntry, Node, NodeId, StructField, Unary};
use super::lexer::{Lexer, Symbol, Token};
use super::macros::MacroSet;
use crate::span::{Problem, Problems, Span};

/// What may be written.
#[derive(Clone, Copy, Debug)]
pub struct Syntax {
    pub limits: Limits,
    pub macros: MacroSet,
    /// `?.`, `[?]`, `{?k: v}` and `[?e]`.
    pub optionals: bool,
}

/// How much may be written.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Characters.
    pub length: usize,
    /// Parentheses, calls, lists and the like inside each other.
    pub depth: usize,
    pub nodes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            length: 100_000,
            depth: 160,
            nodes: 100_000,
        }
    }
}

pub(super) struct Parser<'s> {
    source: &'s str,
    lexer: Lexer<'s>,
    token: Token<'s>,
    span: Span,
    /// Where the token before this one ended.
    end: u32,
    nesting: usize,
    pub(super) syntax: Syntax,
    pub(super) ast: Ast,
    /// How deep the tree below each node is, chains aside.
    depths: Vec<u32>,
}

pub(super) type Parsed<T> = Result<T, Box<Problem>>;

/// Words that are kept for later and may not be names of variables.
const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
    "__result__",
];

/// Parses `source`. The first error ends it: what follows one cannot be trusted.
pub fn parse(source: &str, syntax: Syntax) -> Result<Ast, Problems> {
    let parse = || {
        let whole = 0..source.len();
        let mut parser = Parser::new(source, std::slice::from_ref(&whole), syntax)?;
        let root = parser.within(&whole)?;
        Ok(parser.finish(root, Vec::new()))
    };
    parse().map_err(|problem: Box<Problem>| Problems::new(source, vec![*problem]))
}

// === impl Parser ===

impl<'s> Parser<'s> {
    /// A parser of the expressions at `places` in `source`.
    pub(super) fn new(source: &'s str, places: &[Range<usize>], syntax: Syntax) -> Parsed<Self> {
        let limit = syntax.limits.length;
        let bytes: usize = places.iter().map(Range::len).sum();
        // Characters are counted where it can matter only.
        if bytes > limit {
            let characters = |place: &Range<usize>| source[place.clone()].chars().count();
            let size: usize = places.iter().map(characters).sum();
            if size > limit {
                return Err(Box::new(Problem {
                    span: Span::default(),
                    message: format!(
                        "expression code point size exceeds limit: size: {size}, limit {limit}"
                    ),
                }));
            }
        }
        Ok(Parser {
            lexer: Lexer::new(source, 0),
            source,
            token: Token::End,
            span: Span::default(),
            end: 0,
            nesting: 0,
            syntax,
            ast: Ast::new(Arc::from(source)),
            depths: Vec::new(),
        })
    }

    /// The expression in `place`, all of it.
    pub(super) fn within(&mut self, place: &Range<usize>) -> Parsed<NodeId> {
        self.lexer = Lexer::new(&self.source[..place.end], place.start);
        self.span = Span::new(place.start, place.start);
        self.advance()?;
        let root = self.expression()?;
        if self.token != Token::End {
            return Err(self.unexpected("the end of the expression"));
        }
        Ok(root)
    }

    pub(super) fn finish(self, root: NodeId, parts: Vec<NodeId>) -> Ast {
        let mut ast = self.ast;
        ast.finish(root, parts);
        ast
    }

    fn advance(&mut self) -> Parsed<Token<'s>> {
        self.end = self.span.end;
        let (token, span) = self.lexer.next()?;
        self.span = span;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn unexpected(&self, wanted: &str) -> Box<Problem> {
        Box::new(Problem {
            span: self.span,
            message: format!(
                "Syntax error: unexpected {}, expecting {wanted}",
                self.token.describe()
            ),
        })
    }

    pub(super) fn problem<T>(&self, span: Span, message: impl Into<String>) -> Parsed<T> {
        Err(Box::new(Problem {
            span,
            message: message.into(),
        }))
    }

    fn at(&self, symbol: Symbol) -> bool {
        self.token == Token::Symbol(symbol)
    }

    fn take(&mut self, symbol: Symbol) -> Parsed<bool> {
        let found = self.at(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, symbol: Symbol) -> Parsed<()> {
        if !self.take(symbol)? {
            return Err(self.unexpected(&format!("'{}'", symbol.text())));
        }
        Ok(())
    }

    fn since(&self, start: Span) -> Span {
        Span {
            start: start.start,
            end: self.end.max(start.end),
        }
    }

    /// Adds a node, if there is room for it.
    pub(super) fn add(&mut self, node: Node, span: Span) -> Parsed<NodeId> {
        let limits = self.syntax.limits;
        if self.ast.len() >= limits.nodes {
            return self.problem(
                span,
                format!("expression has more than {} parts", limits.nodes),
            );
        }
        let depth = self.depth_of(&node);
        if depth as usize > limits.depth {
            return self.problem(
                span,
                format!("expression recursion limit exceeded: {}", limits.depth),
            );
        }
        self.depths.push(depth);
        Ok(self.ast.push(node, span))
    }

    fn depth_of(&self, node: &Node) -> u32 {
        let of = |id: &NodeId| self.depths[id.index()];
        let deepest = |ids: &[NodeId]| ids.iter().map(of).max().unwrap_or(0);
        match node {
            Node::Literal(_) | Node::Ident(_) => 0,
            Node::Select { operand, .. } | Node::Has { operand, .. } => of(operand),
            Node::Index { operand, index, .. } => of(operand).max(of(index) + 1),
            Node::Binary(_, left, right) => of(left).max(of(right) + 1),
            Node::Call { target, args, .. } => 1 + deepest(args).max(target.as_ref().map_or(0, of)),
            Node::Unary(_, operand) => 1 + of(operand),
            Node::And(terms) | Node::Or(terms) => 1 + deepest(terms),
            Node::Conditional(a, b, c) => 1 + deepest(&[*a, *b, *c]),
            Node::List(items) => 1 + items.iter().map(|item| of(&item.value)).max().unwrap_or(0),
            Node::Map(entries) => {
                1 + entries
                    .iter()
                    .map(|entry| of(&entry.key).max(of(&entry.value)))
                    .max()
                    .unwrap_or(0)
            }
            Node::Struct { fields, .. } => {
                1 + fields
                    .iter()
                    .map(|field| of(&field.value))
                    .max()
                    .unwrap_or(0)
            }
            Node::Fold(fold) => {
                let filter = fold.filter.as_ref().map_or(0, of);
                1 + of(&fold.range).max(of(&fold.body)).max(filter)
            }
            Node::Bind { init, body, .. } => 1 + deepest(&[*init, *body]),
            Node::OptMap { target, body, .. } => 1 + deepest(&[*target, *body]),
            Node::Block { slots, body } => 1 + deepest(slots).max(of(body)),
        }
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting >= self.syntax.limits.depth {
            return self.problem(
                self.span,
                format!(
                    "expression recursion limit exceeded: {}",
                    self.syntax.limits.depth
                ),
            );
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }

    fn expression(&mut self) -> Parsed<NodeId> {
        self.nested(Self::conditional)
    }

    fn conditional(&mut self) -> Parsed<NodeId> {
        let start = self.span;
        let condition = self.chain(Symbol::Or, Node::Or, Self::conjunction)?;
        if !self.take(Symbol::Question)? {
            return Ok(condition);
        }
        let yes = self.nested(|parser| parser.chain(Symbol::Or, Node::Or, Self::conjunction))?;
        self.expect(Symbol::Colon)?;
        let no = self.expression()?;
        let span = self.since(start);
        self.add(Node::Conditional(condition, yes, no), span)
    }

    fn conjunction(&mut self) -> Parsed<NodeId> {
        self.chain(Symbol::And, Node::And, |parser| parser.operators(1))
    }

    fn chain(
        &mut self,
        symbol: Symbol,
        node: fn(Box<[NodeId]>) -> Node,
        term: fn(&mut Self) -> Parsed<NodeId>,
    ) -> Parsed<NodeId> {
        let start = self.span;
        let first = term(self)?;
        if !self.at(symbol) {
            return Ok(first);
        }
        let mut terms = vec![first];
        while self.take(symbol)? {
            terms.push(term(self)?);
        }
        let span = self.since(start);
        self.add(node(terms.into()), span)
    }

    /// Binary operators that bind at least as tightly as `strength`.
    fn operators(&mut self, strength: u8) -> Parsed<NodeId> {
        let start = self.span;
        let mut left = self.unary()?;
        while let Some(operator) = self.operator().filter(|found| found.strength() >= strength) {
            self.advance()?;
            // At most three levels of strength nest here.
            let right = self.operators(operator.strength() + 1)?;
            let span = self.since(start);
            left = self.add(Node::Binary(operator, left, right), span)?;
        }
        Ok(left)
    }

    fn operator(&self) -> Option<Binary> {
        let Token::Symbol(symbol) = &self.token else {
            return (self.token == Token::In).then_some(Binary::In);
        };
        match symbol {
            Symbol::Plus => Some(Binary::Add),
            Symbol::Minus => Some(Binary::Subtract),
            Symbol::Star => Some(Binary::Multiply),
            Symbol::Slash => Some(Binary::Divide),
            Symbol::Percent => Some(Binary::Modulo),
            Symbol::Less => Some(Binary::Less),
            Symbol::LessEquals => Some(Binary::LessEquals),
            Symbol::Greater => Some(Binary::Greater),
            Symbol::GreaterEquals => Some(Binary::GreaterEquals),
            Symbol::Equals => Some(Binary::Equals),
            Symbol::NotEquals => Some(Binary::NotEquals),
            Symbol::Dot
            | Symbol::Comma
            | Symbol::Colon
            | Symbol::Question
            | Symbol::OpenParen
            | Symbol::CloseParen
            | Symbol::OpenBracket
            | Symbol::CloseBracket
            | Symbol::OpenBrace
            | Symbol::CloseBrace
            | Symbol::Not
            | Symbol::And
            | Symbol::Or => None,
        }
    }

    fn unary(&mut self) -> Parsed<NodeId> {
        let start = self.span;
        let (symbol, operator) = match self.token {
            Token::Symbol(Symbol::Not) => (Symbol::Not, Unary::Not),
            Token::Symbol(Symbol::Minus) => (Symbol::Minus, Unary::Negate),
            Token::End
            | Token::Ident(_)
            | Token::Quoted(_)
            | Token::Int(_)
            | Token::Uint(_)
            | Token::Double(_)
            | Token::String(_)
            | Token::Bytes(_)
            | Token::True
            | Token::False
            | Token::Null
            | Token::In
            | Token::Symbol(_) => return self.member(),
        };
        let mut count = 0_usize;
        while self.take(symbol)? {
            count += 1;
        }
        let is_number = matches!(self.token, Token::Int(_) | Token::Double(_));
        let operand = if operator == Unary::Negate && is_number {
            // The last sign belongs to the number.
            count -= 1;
            let literal = self.number(true)?;
            let span = self.since(start);
            let literal = self.add(Node::Literal(literal), span)?;
            self.suffixes(literal, start)?
        } else {
            self.member()?
        };
        // Two of them cancel out.
        if count.is_multiple_of(2) {
            return Ok(operand);
        }
        let span = self.since(start);
        self.add(Node::Unary(operator, operand), span)
    }

    fn number(&mut self, negative: bool) -> Parsed<Literal> {
        let span = self.span;
        let sign = if negative { "-" } else { "" };
        let radix = |text: &str| match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            Some(digits) => (format!("{sign}{digits}"), 16),
            None => (format!("{sign}{text}"), 10),
        };
        let literal = match self.advance()? {
            Token::Int(text) => {
                let (digits, base) = radix(text);
                i64::from_str_radix(&digits, base).ok().map(Literal::Int)
            }
            Token::Uint(text) => {
                let (digits, base) = radix(text);
                u64::from_str_radix(&digits, base).ok().map(Literal::Uint)
            }
            Token::Double(text) => format!("{sign}{text}")
                .parse()
                .ok()
                .filter(|value: &f64| value.is_finite())
                .map(Literal::Double),
            Token::End
            | Token::Ident(_)
            | Token::Quoted(_)
            | Token::String(_)
            | Token::Bytes(_)
            | Token::True
            | Token::False
            | Token::Null
            | Token::In
            | Token::Symbol(_) => None,
        };
        match literal {
            Some(literal) => Ok(literal),
            None => self.problem(span, "Syntax error: invalid number literal"),
        }
    }

    fn member(&mut self) -> Parsed<NodeId> {
        let start = self.span;
        let primary = self.primary()?;
        self.suffixes(primary, start)
    }

    fn suffixes(&mut self, mut operand: NodeId, start: Span) -> Parsed<NodeId> {
        loop {
            if self.take(Symbol::Dot)? {
                operand = self.selection(operand, start)?;
            } else if self.take(Symbol::OpenBracket)? {
                let optional = self.optional_mark()?;
                let index = self.expression()?;
                self.expect(Symbol::CloseBracket)?;
                let span = self.since(start);
                let node = Node::Index {
                    operand,
                    index,
                    optional,
                };
                operand = self.add(node, span)?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn optional_mark(&mut self) -> Parsed<bool> {
        let span = self.span;
        let marked = self.take(Symbol::Question)?;
        if marked && !self.syntax.optionals {
            return self.problem(span, "unsupported syntax '?'");
        }
        Ok(marked)
    }

    fn selection(&mut self, operand: NodeId, start: Span) -> Parsed<NodeId> {
        let optional = self.optional_mark()?;
        let (name, quoted) = self.field_name()?;
        if !quoted && !optional && self.at(Symbol::OpenParen) {
            let args = self.arguments()?;
            let span = self.since(start);
            return self.member_call(operand, name, args, span);
        }
        let span = self.since(start);
        let node = Node::Select {
            operand,
            field: name.into(),
            optional,
        };
        self.add(node, span)
    }

    /// A name, and whether it was in backticks.
    fn field_name(&mut self) -> Parsed<(&'s str, bool)> {
        let found = match self.token {
            Token::Ident(name) => (name, false),
            Token::Quoted(name) => (name, true),
            Token::End
            | Token::Int(_)
            | Token::Uint(_)
            | Token::Double(_)
            | Token::String(_)
            | Token::Bytes(_)
            | Token::Symbol(_) => return Err(self.unexpected("a field name")),
            Token::True | Token::False | Token::Null | Token::In => {
                return Err(self.unexpected("a field name (write it in `backticks`)"));
            }
        };
        self.advance()?;
        Ok(found)
    }

    fn arguments(&mut self) -> Parsed<Vec<NodeId>> {
        self.expect(Symbol::OpenParen)?;
        let mut args = Vec::new();
        if self.take(Symbol::CloseParen)? {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.take(Symbol::CloseParen)? {
                return Ok(args);
            }
            self.expect(Symbol::Comma)?;
        }
    }

    fn primary(&mut self) -> Parsed<NodeId> {
        let start = self.span;
        let literal = match &self.token {
            Token::Int(_) | Token::Uint(_) | Token::Double(_) => {
                let literal = self.number(false)?;
                return self.add(Node::Literal(literal), start);
            }
            Token::Ident(_) => return self.name(false, start),
            Token::Symbol(Symbol::Dot) => {
                self.advance()?;
                return self.name(true, start);
            }
            Token::Symbol(Symbol::OpenParen) => {
                self.advance()?;
                let inner = self.expression()?;
                self.expect(Symbol::CloseParen)?;
                return Ok(inner);
            }
            Token::Symbol(Symbol::OpenBracket) => return self.list(),
            Token::Symbol(Symbol::OpenBrace) => return self.map(),
            Token::True => Literal::Bool(true),
            Token::False => Literal::Bool(false),
            Token::Null => Literal::Null,
            Token::String(text) => Literal::String(text.as_str().into()),
            Token::Bytes(bytes) => Literal::Bytes(bytes.as_slice().into()),
            Token::End | Token::Quoted(_) | Token::In | Token::Symbol(_) => {
                return Err(self.unexpected("an expression"));
            }
        };
        self.advance()?;
        self.add(Node::Literal(literal), start)
    }

    /// A variable, a call, or the name of a message to build.
    fn name(&mut self, rooted: bool, start: Span) -> Parsed<NodeId> {
        let Token::Ident(name) = self.token else {
            return Err(self.unexpected("a name"));
        };
        if RESERVED.contains(&name) {
            return self.problem(self.span, format!("reserved identifier: {name}"));
        }
        self.advance()?;
        let dot = if rooted { "." } else { "" };
        if self.at(Symbol::OpenParen) {
            let args = self.arguments()?;
            let span = self.since(start);
            return self.global_call(&format!("{dot}{name}"), args, span);
        }
        let ident = self.add(
            Node::Ident(format!("{dot}{name}").into()),
            self.since(start),
        )?;
        self.message(ident, start)
    }

    /// After a name: `a.b.C{…}` builds a message; otherwise the name stands.
    fn message(&mut self, ident: NodeId, start: Span) -> Parsed<NodeId> {
        let mut operand = ident;
        loop {
            if self.at(Symbol::OpenBrace) {
                let name = self.ast.qualified_name(operand).unwrap_or_default();
                return self.structure(&name, start);
            }
            if !self.at(Symbol::Dot) {
                return Ok(operand);
            }
            self.advance()?;
            operand = self.selection(operand, start)?;
            if !matches!(
                self.ast.node(operand),
                Node::Select {
                    optional: false,
                    ..
                }
            ) {
                return Ok(operand);
            }
        }
    }

    fn structure(&mut self, name: &str, start: Span) -> Parsed<NodeId> {
        self.expect(Symbol::OpenBrace)?;
        let mut fields = Vec::new();
        while !self.at(Symbol::CloseBrace) {
            let optional = self.optional_mark()?;
            let field: Arc<str> = self.field_name()?.0.into();
            self.expect(Symbol::Colon)?;
            let value = self.expression()?;
            fields.push(StructField {
                name: field,
                value,
                optional,
            });
            if !self.take(Symbol::Comma)? {
                break;
            }
        }
        self.expect(Symbol::CloseBrace)?;
        let span = self.since(start);
        let node = Node::Struct {
            name: name.into(),
            fields: fields.into(),
        };
        self.add(node, span)
    }

    fn list(&mut self) -> Parsed<NodeId> {
        let start = self.span;
        self.expect(Symbol::OpenBracket)?;
        let mut items = Vec::new();
        while !self.at(Symbol::CloseBracket) {
            let optional = self.optional_mark()?;
            let value = self.expression()?;
            items.push(Item { value, optional });
            if !self.take(Symbol::Comma)? {
                break;
            }
        }
        self.expect(Symbol::CloseBracket)?;
        let span = self.since(start);
        self.add(Node::List(items.into()), span)
    }

    fn map(&mut self) -> Parsed<NodeId> {
        let start = self.span;
        self.expect(Symbol::OpenBrace)?;
        let mut entries = Vec::new();
        while !self.at(Symbol::CloseBrace) {
            let optional = self.optional_mark()?;
            let key = self.expression()?;
            self.expect(Symbol::Colon)?;
            let value = self.expression()?;
            entries.push(MapEntry {
                key,
                value,
                optional,
            });
            if !self.take(Symbol::Comma)? {
                break;
            }
        }
        self.expect(Symbol::CloseBrace)?;
        let span = self.since(start);
        self.add(Node::Map(entries.into()), span)
    }
}
