//! From text to a tree and back: lexer, parser with its macros, printer.
//!
//! Limits on length, nesting and the number of nodes are checked while parsing.

mod ast;
mod carve;
mod lexer;
mod literal;
mod macros;
mod parser;
mod print;
mod template;

pub use ast::{
    Ast, Binary, Fold, FoldKind, Item, Literal, MapEntry, Node, NodeId, StructField, Unary,
};
pub use literal::{quote, quote_bytes};
pub(crate) use macros::NEW_CONDITION;
pub use macros::{MacroSet, condition_types};
pub use parser::{Limits, Syntax, parse};
pub use print::print;
pub use template::{Template, check_terminated, expressions, parse_template};

#[cfg(test)]
mod tests;
