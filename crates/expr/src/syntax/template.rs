//! Text with expressions in it, `app-${schema.spec.name}`, as kro reads it.
//!
//! Only double quotes hide braces: `${'}'}` ends at the first brace, `${"}"}` at the second. What
//! has no end is text. Positions are those of the whole text.

use std::ops::Range;

use super::ast::{Ast, Binary, Literal, Node, NodeId};
use super::parser::{Parsed, Parser, Syntax};
use crate::span::{Problem, Problems, Span};

/// What a text is.
#[derive(Clone, Debug)]
pub enum Template<T> {
    /// Nothing but text.
    Text,
    /// Nothing but one expression: it has whatever type it has.
    Value(T),
    /// Text and expressions, or several expressions: strings, one behind the other.
    Joined(T),
}

const START: &str = "${";

/// Texts with many beginnings that have no end are not read again and again: this many times, or
/// as long as it is little work.
const READINGS: usize = 16;
const LITTLE: usize = 1 << 20;

/// Parses a text with expressions.
pub fn parse_template(text: &str, syntax: Syntax) -> Result<Template<Ast>, Problems> {
    let failed = |problem: Box<Problem>| Problems::new(text, vec![*problem]);
    let places = places(text).map_err(failed)?;
    if places.is_empty() {
        return Ok(Template::Text);
    }
    let parser = Parser::new(text, &places, syntax).map_err(failed)?;
    if let [place] = places.as_slice()
        && place.start == START.len()
        && place.end + 1 == text.len()
    {
        return parser.value(place).map(Template::Value).map_err(failed);
    }
    let joined = parser.joined(text, &places);
    joined.map(Template::Joined).map_err(failed)
}

/// The expressions in a text, whether they can be parsed or not.
pub fn expressions(text: &str) -> Result<Vec<&str>, Problems> {
    let places = places(text).map_err(|problem| Problems::new(text, vec![*problem]))?;
    Ok(places.into_iter().map(|place| &text[place]).collect())
}

/// Fails if a `${` has no end. To kro that is text, and mostly it is a mistake.
pub fn check_terminated(text: &str) -> Result<(), Problems> {
    match unterminated(text) {
        None => Ok(()),
        Some(span) => {
            let message = "the expression has no end: a `}` is missing".to_owned();
            Err(Problems::new(text, vec![Problem { span, message }]))
        }
    }
}

/// Returns where the first `${` is that no `}` ends.
fn unterminated(text: &str) -> Option<Span> {
    let places = places(text).ok()?;
    let ends = |at: usize| {
        // The first expression that ends behind it begins with it, or has it inside.
        let next = places.partition_point(|place| place.end < at);
        let next = places.get(next);
        next.is_some_and(|place| place.start <= at + START.len())
    };
    let mut starts = text.match_indices(START).map(|(at, _)| at);
    let open = starts.find(|at| !ends(*at))?;
    Some(Span::new(open, open + START.len()))
}

/// Where the expressions are, without what is around them.
fn places(text: &str) -> Parsed<Vec<Range<usize>>> {
    let mut places = Vec::new();
    let mut work = READINGS * text.len() + LITTLE;
    let mut from = 0;
    while let Some(found) = text[from..].find(START) {
        let start = from + found + START.len();
        let Some(end) = end(text, start)? else {
            let Some(left) = work.checked_sub(text.len() - start) else {
                return Err(Box::new(Problem {
                    span: Span::new(start - START.len(), start),
                    message: "there are too many `${` without an end before".to_owned(),
                }));
            };
            work = left;
            from = start;
            continue;
        };
        places.push(start..end);
        from = end + 1;
    }
    Ok(places)
}

/// Where the expression that begins at `start` ends, if it does.
fn end(text: &str, start: usize) -> Parsed<Option<usize>> {
    let bytes = text.as_bytes();
    let mut open = 1_usize;
    let mut in_string = false;
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => open += 1,
            b'}' => {
                open -= 1;
                if open == 0 {
                    return Ok(Some(at));
                }
            }
            // Behind a quote it is taken for part of a string, whether it is or not.
            b'$' if bytes.get(at + 1) == Some(&b'{') && bytes[at - 1] != b'"' => {
                return Err(Box::new(Problem {
                    span: Span::new(at, at + START.len()),
                    message: "nested expressions are not allowed unless inside string literals"
                        .to_owned(),
                }));
            }
            _ => {}
        }
        at += 1;
    }
    Ok(None)
}

impl Parser<'_> {
    fn value(mut self, place: &Range<usize>) -> Parsed<Ast> {
        let root = self.within(place)?;
        Ok(self.finish(root, Vec::new()))
    }

    /// The sum of texts and expressions.
    fn joined(mut self, text: &str, places: &[Range<usize>]) -> Parsed<Ast> {
        let mut parts = Vec::new();
        let mut sum: Option<NodeId> = None;
        let mut from = 0;
        for place in places {
            sum = self.plus_text(sum, text, from..place.start - START.len())?;
            let part = self.within(place)?;
            parts.push(part);
            sum = Some(self.plus(sum, part, place.end)?);
            from = place.end + 1;
        }
        match self.plus_text(sum, text, from..text.len())? {
            Some(root) => Ok(self.finish(root, parts)),
            None => self.problem(Span::default(), "there is no expression"),
        }
    }

    fn plus_text(
        &mut self,
        sum: Option<NodeId>,
        text: &str,
        range: Range<usize>,
    ) -> Parsed<Option<NodeId>> {
        if range.is_empty() {
            return Ok(sum);
        }
        let span = Span::new(range.start, range.end);
        let literal = Literal::String(text[range].into());
        let literal = self.add(Node::Literal(literal), span)?;
        self.plus(sum, literal, span.end as usize).map(Some)
    }

    fn plus(&mut self, sum: Option<NodeId>, term: NodeId, end: usize) -> Parsed<NodeId> {
        match sum {
            Some(sum) => self.add(Node::Binary(Binary::Add, sum, term), Span::new(0, end)),
            None => Ok(term),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env;

    fn found(text: &str) -> Result<Vec<&str>, String> {
        expressions(text).map_err(|problems| problems.to_string())
    }

    #[test]
    fn expressions_are_found() {
        for (text, expressions) in [
            ("", &[][..]),
            ("plain", &[]),
            ("$", &[]),
            ("${", &[]),
            ("${unfinished", &[]),
            ("${a}", &["a"]),
            ("${}", &[""]),
            ("x-${a}-${b}", &["a", "b"]),
            ("${a}${b}", &["a", "b"]),
            ("${a} ${unfinished", &["a"]),
            // Maps have braces of their own.
            ("${c ? {'k': {}} : {}} ${b}", &["c ? {'k': {}} : {}", "b"]),
            // In double quotes nothing counts but their end, which may be escaped.
            (r#"${"}"}"#, &[r#""}""#]),
            (r#"${"{"}"#, &[r#""{""#]),
            (r#"${"\"}"}"#, &[r#""\"}""#]),
            (r#"${f("${inner}")}"#, &[r#"f("${inner}")"#]),
            // Single quotes are nothing special.
            ("${'}'}", &["'"]),
            // Escapes are only known in strings.
            (r"${\}", &[r"\"]),
            // There is no way to escape the beginning.
            ("$${a}", &["a"]),
            // What has no end hides what is in it only as far as it is in a string.
            (r#"${ "${a}"#, &["a"]),
            // Behind a quote, it is not taken for a nested expression.
            (r#"${"a"${b}}"#, &[r#""a"${b}"#]),
        ] {
            assert_eq!(found(text), Ok(expressions.to_vec()), "{text}");
        }
        for text in ["${a(${b})}", "${a ${b}", "${ x ${"] {
            let why = "nested expressions are not allowed unless inside string literals";
            assert!(found(text).unwrap_err().ends_with(why), "{text}");
        }
    }

    #[test]
    fn what_has_no_end_is_found() {
        let check = |text: &str, start: Option<u32>| {
            assert_eq!(unterminated(text).map(|span| span.start), start, "{text}");
        };
        check("text", None);
        check("${a}", None);
        check("x-${a}-${b}", None);
        check(r#"${f("${inner}")}"#, None);
        check("${a", Some(0));
        check("${a} ${b", Some(5));
        check(r#"${ "${a}"#, Some(0));
        check("${a}${", Some(4));
    }

    #[test]
    fn beginnings_without_an_end_are_read_a_few_times_only() {
        let text = r#"${""#.repeat(500_000);
        assert!(found(&text).unwrap_err().contains("too many"));
        // A few in a long text are text.
        let text = r#"${""#.repeat(7) + &"y".repeat(100_000);
        assert_eq!(found(&text), Ok(Vec::new()));
    }

    #[test]
    fn one_expression_alone_is_its_value() {
        let syntax = env::kro().build().syntax();
        let parse = |text: &str| parse_template(text, syntax);
        assert!(matches!(parse("text"), Ok(Template::Text)));
        assert!(matches!(parse("${1}"), Ok(Template::Value(_))));
        // A line's end makes it a text.
        assert!(matches!(parse("${'a'}\n"), Ok(Template::Joined(_))));
        assert!(matches!(parse("${'a'}${'b'}"), Ok(Template::Joined(_))));
    }

    #[test]
    fn positions_are_those_of_the_text() {
        let syntax = env::kro().build().syntax();
        let problems = parse_template("a-${x}-${y +}-b", syntax).unwrap_err();
        assert_eq!(
            problems.to_string(),
            "1:13: Syntax error: unexpected end of the expression, expecting an expression"
        );
        let Ok(Template::Joined(ast)) = parse_template("é${x}", syntax) else {
            panic!("it parses");
        };
        assert_eq!(&ast.source()[..], "é${x}");
        let part = ast.parts()[0];
        assert_eq!(ast.span(part).position(ast.source()).column, 3);
    }
}
