//! Semantic versions.

use std::cmp::Ordering;

use serde_json::Value as Json;

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::host::Opaque;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::Value;

pub(in crate::library) const TABLES: &[&[Row]] = &[ROWS];
pub(in crate::library) const TYPE: &str = "kubernetes.Semver";

const ROWS: &[Row] = &[
    Row::new(
        "semver",
        "string_to_semver",
        "(string) -> kubernetes.Semver",
        Cost::Parse,
        semver,
    ),
    Row::new(
        "semver",
        "string_bool_to_semver",
        "(string, bool) -> kubernetes.Semver",
        Cost::Parse,
        semver,
    ),
    Row::new(
        "isSemver",
        "is_semver_string",
        "(string) -> bool",
        Cost::Parse,
        is_semver,
    ),
    Row::new(
        "isSemver",
        "is_semver_string_bool",
        "(string, bool) -> bool",
        Cost::Parse,
        is_semver,
    ),
    Row::new(
        "isGreaterThan",
        "semver_is_greater_than",
        "kubernetes.Semver.(kubernetes.Semver) -> bool",
        Cost::Unit,
        is_greater,
    ),
    Row::new(
        "isLessThan",
        "semver_is_less_than",
        "kubernetes.Semver.(kubernetes.Semver) -> bool",
        Cost::Unit,
        is_less,
    ),
    Row::new(
        "compareTo",
        "semver_compare_to",
        "kubernetes.Semver.(kubernetes.Semver) -> int",
        Cost::Unit,
        compare_to,
    ),
    Row::new(
        "major",
        "semver_major",
        "kubernetes.Semver.() -> int",
        Cost::Unit,
        major,
    ),
    Row::new(
        "minor",
        "semver_minor",
        "kubernetes.Semver.() -> int",
        Cost::Unit,
        minor,
    ),
    Row::new(
        "patch",
        "semver_patch",
        "kubernetes.Semver.() -> int",
        Cost::Unit,
        patch,
    ),
];

/// A version. What was built from which does not count when two are compared.
#[derive(Clone, Debug)]
struct Semver {
    numbers: [u64; 3],
    pre: Vec<Identifier>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl Opaque for Semver {
    fn ty(&self) -> Type {
        Type::opaque(TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> Result<bool, Box<Fault>> {
        let other: &dyn std::any::Any = other;
        let other = other.downcast_ref::<Self>();
        Ok(other.is_some_and(|other| self.order(other) == Ordering::Equal))
    }

    fn weight(&self) -> u64 {
        self.text.len() as u64
    }

    fn text(&self) -> Option<String> {
        Some(self.text.clone())
    }

    fn to_json(&self) -> Option<Json> {
        self.text().map(Json::String)
    }
}

// === impl Semver ===

impl Semver {
    fn parse(text: &str) -> Option<Self> {
        let (rest, build) = match text.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (text, None),
        };
        let (core, pre) = match rest.split_once('-') {
            Some((core, pre)) => (core, Some(pre)),
            None => (rest, None),
        };
        let mut parts = core.splitn(3, '.');
        let mut numbers = [0; 3];
        for number in &mut numbers {
            *number = numeric(parts.next()?)?;
        }
        let mut identifiers = Vec::new();
        for part in pre.into_iter().flat_map(|pre| pre.split('.')) {
            is_identifier(part).then_some(())?;
            identifiers.push(if part.bytes().all(|byte| byte.is_ascii_digit()) {
                Identifier::Number(numeric(part)?)
            } else {
                Identifier::Text(part.to_owned())
            });
        }
        let mut builds = build.into_iter().flat_map(|build| build.split('.'));
        builds.all(is_identifier).then_some(Self {
            numbers,
            pre: identifiers,
            text: text.to_owned(),
        })
    }

    /// Accepts what is nearly a version: a leading `v`, missing parts, leading zeros.
    fn normalized(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in &mut parts {
            if part.len() > 1 {
                let cut = part.trim_start_matches('0');
                let digit = cut.starts_with(|c: char| c.is_ascii_digit());
                *part = if digit {
                    cut.to_owned()
                } else {
                    format!("0{cut}")
                };
            }
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return None;
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    fn order(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                // A version without a pre-release is after those with one.
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => {
                    let pairs = self.pre.iter().zip(&other.pre);
                    let first = pairs.map(|(a, b)| a.order(b)).find(|order| order.is_ne());
                    first.unwrap_or_else(|| self.pre.len().cmp(&other.pre.len()))
                }
            }
        })
    }
}

impl Identifier {
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.cmp(b),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
        }
    }
}

fn numeric(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let leading = text.len() > 1 && text.starts_with('0');
    (digits && !leading).then_some(())?;
    text.parse().ok()
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn read(name: &str, args: &[Value<'_>]) -> Result<Option<Semver>, Box<Fault>> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => {
            Ok(Semver::parse(text.as_str()))
        }
        [Value::String(text), Value::Bool(true)] => Ok(Semver::normalized(text.as_str())),
        _ => Err(no_overload(name, args)),
    }
}

fn semver<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match read("semver", args)? {
        Some(version) => Ok(Value::opaque(version)),
        None => Err(Fault::invalid("not a semantic version")),
    }
}

fn is_semver<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(read("isSemver", args)?.is_some()))
}

fn order(name: &str, args: &[Value<'_>]) -> Result<Ordering, Box<Fault>> {
    let versions: Vec<&Semver> = args.iter().filter_map(Value::as_opaque).collect();
    match versions[..] {
        [a, b] if args.len() == 2 => Ok(a.order(b)),
        _ => Err(no_overload(name, args)),
    }
}

fn is_greater<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(order("isGreaterThan", args)?.is_gt()))
}

fn is_less<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(order("isLessThan", args)?.is_lt()))
}

fn compare_to<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(order("compareTo", args)? as i64))
}

fn number<'a>(name: &str, args: &[Value<'a>], index: usize) -> Outcome<'a> {
    match args.first().and_then(Value::as_opaque::<Semver>) {
        Some(version) => Ok(Value::Int(
            i64::try_from(version.numbers[index]).unwrap_or(i64::MAX),
        )),
        None => Err(no_overload(name, args)),
    }
}

fn major<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    number("major", args, 0)
}

fn minor<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    number("minor", args, 1)
}

fn patch<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    number("patch", args, 2)
}
