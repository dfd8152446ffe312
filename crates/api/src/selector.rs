//! Label and field selectors: the query grammar of `?labelSelector=` and `?fieldSelector=`.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::names;

/// A conjunction of requirements on labels; empty selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// A conjunction of `field=value` and `field!=value` terms; empty selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The terms, in the order written.
    pub terms: Vec<FieldTerm>,
}

/// One term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// Such as `metadata.name`.
    pub field: String,
    /// What it is compared with.
    pub value: String,
    /// Whether it must be equal, or must differ.
    pub equal: bool,
}

/// The selector cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ParseError(String);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(BTreeSet<String>),
    /// Also matches when the label is absent.
    NotIn(BTreeSet<String>),
    GreaterThan(i64),
    LessThan(i64),
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether labels match that `get` looks up by key.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(get(&requirement.key)))
    }

    /// Selects exactly these labels' values (`matchLabels`).
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let requirement = |(key, value): (&str, &str)| Requirement {
            key: key.to_owned(),
            operator: Operator::In(BTreeSet::from([value.to_owned()])),
        };
        Self {
            requirements: labels.into_iter().map(requirement).collect(),
        }
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let as_number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.operator {
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::GreaterThan(bound) => as_number().is_some_and(|value| value > *bound),
            Operator::LessThan(bound) => as_number().is_some_and(|value| value < *bound),
        }
    }
}

impl FromStr for LabelSelector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parser = Parser {
            tokens: tokens(text),
            next: 0,
        };
        let mut requirements = Vec::new();
        if parser.peek() == Token::END {
            return Ok(Self::default());
        }
        loop {
            requirements.push(parser.requirement()?);
            match parser.take().mark() {
                Some("") => break,
                Some(",") if parser.peek() == Token::END => {
                    return Err(found("", "identifier after ','"));
                }
                Some(",") => {}
                _ => return Err(parser.unexpected("',' or 'end of string'")),
            }
        }
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(Self { requirements })
    }
}

fn found(what: &str, expected: &str) -> ParseError {
    ParseError(format!(
        "unable to parse requirement: found '{what}', expected: {expected}"
    ))
}

/// A word, or a mark such as `,` or `!=`; the end is an empty mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    is_word: bool,
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (is_word, length) = match first {
            '!' | '=' if rest[1..].starts_with('=') => (false, 2),
            ',' | '(' | ')' | '>' | '<' | '!' | '=' => (false, 1),
            _ => {
                let special = |c: char| c.is_whitespace() || ",()><!=".contains(c);
                (true, rest.find(special).unwrap_or(rest.len()))
            }
        };
        tokens.push(Token {
            text: &rest[..length],
            is_word,
        });
        rest = rest[length..].trim_start();
    }
    tokens
}

// === impl Token ===

impl<'a> Token<'a> {
    const END: Self = Self {
        text: "",
        is_word: false,
    };

    fn mark(self) -> Option<&'a str> {
        (!self.is_word).then_some(self.text)
    }

    fn word(self) -> Option<&'a str> {
        self.is_word.then_some(self.text)
    }
}

// === impl Parser ===

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.next).copied().unwrap_or(Token::END)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    /// The token that was taken last is not what it should be.
    fn unexpected(&self, expected: &str) -> ParseError {
        let token = self
            .tokens
            .get(self.next.saturating_sub(1))
            .copied()
            .unwrap_or(Token::END);
        found(token.text, expected)
    }

    fn requirement(&mut self) -> Result<Requirement, ParseError> {
        if self.peek().mark() == Some("!") {
            self.take();
            let key = self.key()?;
            return Ok(Requirement {
                key,
                operator: Operator::Absent,
            });
        }
        let key = self.key()?;
        let operator = self.operator(&key)?;
        Ok(Requirement { key, operator })
    }

    fn operator(&mut self, key: &str) -> Result<Operator, ParseError> {
        if self.at_end_of_requirement() {
            return Ok(Operator::Exists);
        }
        match self.take().text {
            "=" | "==" => Ok(Operator::In(BTreeSet::from([self.exact_value(key)?]))),
            "!=" => Ok(Operator::NotIn(BTreeSet::from([self.exact_value(key)?]))),
            "in" => Ok(Operator::In(self.values(key)?)),
            "notin" => Ok(Operator::NotIn(self.values(key)?)),
            ">" => Ok(Operator::GreaterThan(self.number(key)?)),
            "<" => Ok(Operator::LessThan(self.number(key)?)),
            _ => Err(self.unexpected("in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn at_end_of_requirement(&self) -> bool {
        matches!(self.peek().mark(), Some("" | ","))
    }

    fn key(&mut self) -> Result<String, ParseError> {
        let Some(key) = self.take().word() else {
            return Err(self.unexpected("!, identifier, or 'end of string'"));
        };
        match names::qualified_name(key).as_slice() {
            [] => Ok(key.to_owned()),
            errors => Err(invalid("key", key, errors)),
        }
    }

    /// After `=` a value may be missing: then it is empty.
    fn exact_value(&mut self, key: &str) -> Result<String, ParseError> {
        match self.at_end_of_requirement() {
            true => Ok(String::new()),
            false => self.value(key),
        }
    }

    fn value(&mut self, key: &str) -> Result<String, ParseError> {
        let Some(value) = self.take().word() else {
            return Err(self.unexpected("identifier"));
        };
        match names::label_value(value).as_slice() {
            [] => Ok(value.to_owned()),
            errors => Err(invalid(&format!("values[0][{key}]"), value, errors)),
        }
    }

    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, ParseError> {
        if self.take().mark() != Some("(") {
            return Err(self.unexpected("'('"));
        }
        let mut values = BTreeSet::new();
        loop {
            match self.peek().mark() {
                Some("," | ")") => values.insert(String::new()),
                _ => values.insert(self.value(key)?),
            };
            match self.take().mark() {
                Some(",") => {}
                Some(")") => return Ok(values),
                _ => return Err(self.unexpected("',' or ')'")),
            }
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, ParseError> {
        let value = self.value(key)?;
        value.parse().map_err(|_| {
            let error = "for 'Gt', 'Lt' operators, the value must be an integer".to_owned();
            invalid(&format!("values[0][{key}]"), &value, &[error])
        })
    }
}

fn invalid(what: &str, value: &str, errors: &[String]) -> ParseError {
    ParseError(format!(
        "unable to parse requirement: {what}: Invalid value: {value:?}: {}",
        errors.join("; ")
    ))
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether fields match that `get` looks up by path; what is absent is empty.
    pub fn matches<S: AsRef<str>>(&self, get: impl Fn(&str) -> S) -> bool {
        self.terms
            .iter()
            .all(|term| (get(&term.field).as_ref() == term.value) == term.equal)
    }

    /// The value that `field` must have exactly, if a term says so.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let term = self
            .terms
            .iter()
            .find(|term| term.equal && term.field == field);
        term.map(|term| term.value.as_str())
    }
}

impl FromStr for FieldSelector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = split_unescaped(text)
            .into_iter()
            .filter(|part| !part.is_empty());
        let terms = parts
            .map(|part| field_term(&part))
            .collect::<Result<_, _>>()?;
        Ok(Self { terms })
    }
}

/// Splits at commas that no backslash precedes.
fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        match c {
            ',' if !escaped => parts.push(String::new()),
            _ => parts.last_mut().expect("it starts with one part").push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    parts
}

fn field_term(part: &str) -> Result<FieldTerm, ParseError> {
    let at = part.find(['=', '!']).unwrap_or(part.len());
    let (field, rest) = part.split_at(at);
    let (value, equal) = match (
        rest.strip_prefix("!="),
        rest.strip_prefix("=="),
        rest.strip_prefix('='),
    ) {
        (Some(value), _, _) => (value, false),
        (_, Some(value), _) | (_, _, Some(value)) => (value, true),
        _ => {
            return Err(ParseError(format!(
                "invalid selector: '{part}'; can't understand '{part}'"
            )));
        }
    };
    Ok(FieldTerm {
        field: field.to_owned(),
        value: unescape(value)?,
        equal,
    })
}

fn unescape(value: &str) -> Result<String, ParseError> {
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => text.push(next),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(ParseError(format!(
                        "invalid field selector: invalid escape sequence: \\{other}"
                    )));
                }
            },
            ('=', false) => {
                return Err(ParseError(format!(
                    "invalid field selector: unescaped character in value: {value}"
                )));
            }
            (c, false) => text.push(c),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> Option<bool> {
        let selector: LabelSelector = selector.parse().ok()?;
        Some(selector.matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)))
    }

    #[test]
    fn label_selectors() {
        let labels = [("app", "web"), ("tier", "1"), ("empty", "")];
        let cases = [
            ("", Some(true)),
            ("app", Some(true)),
            ("!app", Some(false)),
            ("app=web", Some(true)),
            ("app==web,tier=1", Some(true)),
            ("app!=web", Some(false)),
            ("other!=web", Some(true)),
            ("app in (api, web)", Some(true)),
            ("app notin (api,web)", Some(false)),
            ("other notin (x)", Some(true)),
            ("tier>0,tier<2", Some(true)),
            ("tier>1", Some(false)),
            ("empty=", Some(true)),
            ("empty in (,x)", Some(true)),
            ("in in (a)", Some(false)),
            ("app=web,", None),
            (",", None),
            ("app in web", None),
            ("app in (web", None),
            ("app>x", None),
            ("a b", None),
            ("-bad=x", None),
            ("app=a b", None),
            ("app=web app", None),
        ];
        for (selector, expected) in cases {
            assert_eq!(selects(selector, &labels), expected, "{selector:?}");
        }
    }

    #[test]
    fn field_selectors() {
        let matches = |text: &str| {
            let selector: FieldSelector = text.parse().ok()?;
            Some(selector.matches(|field| match field {
                "metadata.name" => "a,b",
                _ => "",
            }))
        };
        let cases = [
            ("", Some(true)),
            (r"metadata.name=a\,b", Some(true)),
            (r"metadata.name==a\,b,metadata.namespace=", Some(true)),
            (r"metadata.name!=a\,b", Some(false)),
            ("metadata.name", None),
            (r"metadata.name=\x", None),
            ("metadata.name=a=b", None),
        ];
        for (selector, expected) in cases {
            assert_eq!(matches(selector), expected, "{selector:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_selector_or_an_error(text in ".{0,40}") {
            let _ = text.parse::<LabelSelector>();
            let _ = text.parse::<FieldSelector>();
        }
    }
}
