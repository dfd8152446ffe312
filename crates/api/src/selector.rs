//! Label and field selectors: the query grammar of `?labelSelector=` and `?fieldSelector=`.

mod form;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::field::{self, Path};
use crate::names;

pub use form::{check_form, terms};

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

/// The requirements and values of a selector that comes as text: watches keep it, and compare every
/// event with it.
pub const MAX_TERMS: usize = 2_000;
/// The terms of a field selector: watches keep it, too, and there are few fields.
const MAX_FIELD_TERMS: usize = 64;

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

// === impl Requirement ===

impl Requirement {
    /// How many comparisons it may take.
    fn terms(&self) -> usize {
        match &self.operator {
            Operator::In(values) | Operator::NotIn(values) => 1 + values.len(),
            Operator::Exists
            | Operator::Absent
            | Operator::GreaterThan(_)
            | Operator::LessThan(_) => 1,
        }
    }
}

// === impl LabelSelector ===

/// As it is written in a request.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { key, operator }) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let list = |values: &BTreeSet<String>| {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                values.join(",")
            };
            match operator {
                Operator::Exists => write!(f, "{key}")?,
                Operator::Absent => write!(f, "!{key}")?,
                Operator::In(values) => write!(f, "{key} in ({})", list(values))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values))?,
                Operator::GreaterThan(number) => write!(f, "{key}>{number}")?,
                Operator::LessThan(number) => write!(f, "{key}<{number}")?,
            }
        }
        Ok(())
    }
}

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

    /// From the object form, with `matchLabels` and `matchExpressions`; an empty one selects
    /// everything. None if it says something that is not understood: without it more would be
    /// selected.
    pub fn from_object(selector: &Value) -> Option<Self> {
        let mut selected = Self::default();
        if selector.is_null() {
            return Some(selected);
        }
        let fields = selector.as_object()?;
        for (field, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            match field.as_str() {
                "matchLabels" => {
                    let labels = value.as_object()?.iter();
                    let labels = labels.map(|(key, value)| Some((key.as_str(), value.as_str()?)));
                    let labels = Self::from_labels(labels.collect::<Option<Vec<_>>>()?);
                    selected.requirements.splice(..0, labels.requirements);
                }
                "matchExpressions" => {
                    let requirements = value.as_array()?.iter().map(Requirement::of);
                    let requirements = requirements.collect::<Option<Vec<_>>>()?;
                    selected.requirements.extend(requirements);
                }
                _ => return None,
            }
        }
        Some(selected)
    }

    /// As it is written in a request; nothing if it cannot be, since what it names are no labels.
    pub fn to_query(&self) -> Option<String> {
        let mut sorted = self.clone();
        sorted
            .requirements
            .sort_by(|left, right| left.key.cmp(&right.key));
        let text = sorted.to_string();
        // Whatever a value holds, it means the same to whoever reads it.
        (text.parse().as_ref() == Ok(&sorted)).then_some(text)
    }

    /// The object form, with `matchExpressions` alone.
    pub fn to_object(&self) -> Value {
        let expressions = self.requirements.iter().map(Requirement::expression);
        json!({"matchExpressions": expressions.collect::<Vec<_>>()})
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
    /// From one of `matchExpressions`.
    fn of(expression: &Value) -> Option<Self> {
        let values = expression["values"].as_array().into_iter().flatten();
        let values: Option<BTreeSet<String>> = values
            .map(|value| value.as_str().map(str::to_owned))
            .collect();
        let values = values?;
        let operator = match (expression["operator"].as_str()?, values.is_empty()) {
            ("In", false) => Operator::In(values),
            ("NotIn", false) => Operator::NotIn(values),
            ("Exists", true) => Operator::Exists,
            ("DoesNotExist", true) => Operator::Absent,
            _ => return None,
        };
        Some(Self {
            key: expression["key"].as_str()?.to_owned(),
            operator,
        })
    }

    /// As one of `matchExpressions`. Comparisons, which only queries have, are as those of nodes.
    fn expression(&self) -> Value {
        let key = &self.key;
        match &self.operator {
            Operator::Exists => json!({"key": key, "operator": "Exists"}),
            Operator::Absent => json!({"key": key, "operator": "DoesNotExist"}),
            Operator::In(values) => json!({"key": key, "operator": "In", "values": values}),
            Operator::NotIn(values) => json!({"key": key, "operator": "NotIn", "values": values}),
            Operator::GreaterThan(bound) => {
                json!({"key": key, "operator": "Gt", "values": [bound.to_string()]})
            }
            Operator::LessThan(bound) => {
                json!({"key": key, "operator": "Lt", "values": [bound.to_string()]})
            }
        }
    }

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
        if !parser.at_requirement() {
            return Err(found(parser.peek(), "!, identifier, or 'end of string'"));
        }
        loop {
            let requirement = parser.requirement();
            let within = |error| ParseError(format!("unable to parse requirement: {error}"));
            requirements.push(requirement.map_err(within)?);
            let token = parser.take();
            match token.mark() {
                Some("") => break,
                Some(",") if parser.at_requirement() => {}
                Some(",") => return Err(found(parser.peek(), "identifier after ','")),
                _ => return Err(found(token, "',' or 'end of string'")),
            }
        }
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        requirements.dedup();
        let terms: usize = requirements.iter().map(Requirement::terms).sum();
        if terms > MAX_TERMS {
            return Err(ParseError(format!(
                "the selector has {terms} requirements and values, and {MAX_TERMS} are possible"
            )));
        }
        Ok(Self { requirements })
    }
}

fn found(token: Token<'_>, expected: &str) -> ParseError {
    ParseError(format!("found '{}', expected: {expected}", token.text))
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
    const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(SPACE);
    while let Some(first) = rest.chars().next() {
        let (is_word, length) = match first {
            '!' | '=' if rest[1..].starts_with('=') => (false, 2),
            ',' | '(' | ')' | '>' | '<' | '!' | '=' => (false, 1),
            _ => {
                let special = |c: char| SPACE.contains(&c) || ",()><!=".contains(c);
                (true, rest.find(special).unwrap_or(rest.len()))
            }
        };
        tokens.push(Token {
            text: &rest[..length],
            is_word,
        });
        rest = rest[length..].trim_start_matches(SPACE);
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

    fn at_requirement(&self) -> bool {
        let next = self.peek();
        next.is_word || next.mark() == Some("!")
    }

    fn at_end_of_requirement(&self) -> bool {
        matches!(self.peek().mark(), Some("" | ","))
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
        let token = self.take();
        match token.text {
            "=" | "==" => Ok(Operator::In(checked(key, self.exact_value()?)?)),
            "!=" => Ok(Operator::NotIn(checked(key, self.exact_value()?)?)),
            "in" => Ok(Operator::In(checked(key, self.values()?)?)),
            "notin" => Ok(Operator::NotIn(checked(key, self.values()?)?)),
            ">" => Ok(Operator::GreaterThan(number(key, self.exact_value()?)?)),
            "<" => Ok(Operator::LessThan(number(key, self.exact_value()?)?)),
            _ => Err(found(token, "in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn key(&mut self) -> Result<String, ParseError> {
        let token = self.take();
        let key = token.word().ok_or_else(|| found(token, "identifier"))?;
        match names::qualified_name(key).as_slice() {
            [] => Ok(key.to_owned()),
            faults => {
                let error = field::Error::invalid(Path::root(), key, faults.join("; "));
                Err(ParseError(error.to_string()))
            }
        }
    }

    /// One value; where none is written, it is empty.
    fn exact_value(&mut self) -> Result<BTreeSet<String>, ParseError> {
        let value = match self.at_end_of_requirement() {
            true => "",
            false => {
                let token = self.take();
                token.word().ok_or_else(|| found(token, "identifier"))?
            }
        };
        Ok(BTreeSet::from([value.to_owned()]))
    }

    /// Values in brackets; where none is written between two marks, it is empty.
    fn values(&mut self) -> Result<BTreeSet<String>, ParseError> {
        let open = self.take();
        if open.mark() != Some("(") {
            let text = format!("found '{}' expected: '('", open.text);
            return Err(ParseError(text));
        }
        let mut values = BTreeSet::new();
        let mut expected = "',', ')' or identifier";
        loop {
            let next = self.peek();
            match (next.word(), next.mark()) {
                (Some(word), _) => {
                    self.take();
                    values.insert(word.to_owned());
                }
                (None, Some("," | ")")) => {
                    values.insert(String::new());
                }
                (None, _) => return Err(found(next, expected)),
            }
            expected = "',', or identifier";
            let token = self.take();
            match token.mark() {
                Some(",") => {}
                Some(")") => return Ok(values),
                _ => return Err(found(token, "',' or ')'")),
            }
        }
    }
}

/// The values of a requirement, if all of them can be values of labels.
fn checked(key: &str, values: BTreeSet<String>) -> Result<BTreeSet<String>, ParseError> {
    match faults(key, &values).as_slice() {
        [] => Ok(values),
        faults => Err(aggregate(faults)),
    }
}

/// The one value of a comparison.
fn number(key: &str, values: BTreeSet<String>) -> Result<i64, ParseError> {
    let value = values.first().map_or("", String::as_str);
    let parsed = value.parse();
    let mut all = Vec::new();
    if parsed.is_err() {
        let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
        let path = Path::new("values").index(0);
        all.push(field::Error::invalid(path, value, detail));
    }
    all.extend(faults(key, &values));
    match (parsed, all.as_slice()) {
        (Ok(number), []) => Ok(number),
        (_, faults) => Err(aggregate(faults)),
    }
}

fn faults(key: &str, values: &BTreeSet<String>) -> Vec<field::Error> {
    let fault = |(index, value): (usize, &String)| {
        let faults = names::label_value(value);
        let path = Path::new("values").index(index).key(key);
        (!faults.is_empty()).then(|| field::Error::invalid(path, value.clone(), faults.join("; ")))
    };
    values.iter().enumerate().filter_map(fault).collect()
}

fn aggregate(errors: &[field::Error]) -> ParseError {
    ParseError(field::aggregate(errors))
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
        let mut terms: Vec<FieldTerm> = Vec::new();
        for part in parts {
            let term = field_term(&part)?;
            if terms.contains(&term) {
                continue;
            }
            if terms.len() == MAX_FIELD_TERMS {
                return Err(ParseError(format!(
                    "the field selector has more than {MAX_FIELD_TERMS} terms"
                )));
            }
            terms.push(term);
        }
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
                // The character's number, as Go writes it.
                return Err(ParseError(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from('=')
                )));
            }
            (c, false) => text.push(c),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
