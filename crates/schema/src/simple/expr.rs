//! Types as they are written: `[]map[string]Port`.

use std::ops::Range;

use super::Complaint;

/// How many `[]` and `map[string]` may stand before a name.
const MAX_WRAPS: usize = 16;

/// A type: lists and maps around a base.
#[derive(Debug)]
pub(super) struct TypeExpr<'t> {
    /// The outermost first.
    pub(super) wraps: Vec<Wrap>,
    pub(super) base: Base<'t>,
    /// Where the base is.
    pub(super) span: Range<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Wrap {
    List,
    Map,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Base<'t> {
    /// Its name in OpenAPI.
    Atomic(&'static str),
    Object,
    Custom(&'t str),
}

/// Parses the first `end` bytes of `text`.
pub(super) fn parse(text: &str, end: usize) -> Result<TypeExpr<'_>, Complaint> {
    let mut wraps = Vec::new();
    let mut span = trimmed(text, 0..end);
    if span.is_empty() {
        return Err(Complaint::new(0..end, "empty type").hint("write a type, such as string"));
    }
    loop {
        if wraps.len() > MAX_WRAPS {
            let message = format!("type nesting too deep (max {MAX_WRAPS})");
            return Err(Complaint::new(0..end, message));
        }
        let rest = &text[span.clone()];
        if let Some(base) = builtin(rest) {
            return Ok(TypeExpr { wraps, base, span });
        }
        let Some((wrap, length)) = wrap(rest, &span)? else {
            let base = Base::Custom(rest);
            return Ok(TypeExpr { wraps, base, span });
        };
        let inner = trimmed(text, span.start + length..span.end);
        if inner.is_empty() {
            return Err(nothing_in(wrap, span));
        }
        wraps.push(wrap);
        span = inner;
    }
}

fn builtin(name: &str) -> Option<Base<'static>> {
    Some(match name {
        "string" => Base::Atomic("string"),
        "integer" => Base::Atomic("integer"),
        "boolean" => Base::Atomic("boolean"),
        "float" => Base::Atomic("number"),
        "object" => Base::Object,
        _ => return None,
    })
}

/// What `rest` begins with, if that is a wrap, and its length.
fn wrap(rest: &str, span: &Range<usize>) -> Result<Option<(Wrap, usize)>, Complaint> {
    for (prefix, wrap) in [("[]", Wrap::List), ("map[string]", Wrap::Map)] {
        if rest.starts_with(prefix) {
            return Ok(Some((wrap, prefix.len())));
        }
    }
    if rest.starts_with("map[") {
        let complaint = Complaint::new(span.clone(), "map key must be string");
        return Err(complaint.hint("write map[string] and the type of the values"));
    }
    Ok(None)
}

fn nothing_in(wrap: Wrap, span: Range<usize>) -> Complaint {
    match wrap {
        Wrap::List => Complaint::new(span, "empty slice element type")
            .hint("name the type of the items, such as []string"),
        Wrap::Map => Complaint::new(span, "map value type is required")
            .hint("name the type of the values, such as map[string]string"),
    }
}

/// `range` without the white space at both ends of the text.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    start..start + part.trim().len()
}
