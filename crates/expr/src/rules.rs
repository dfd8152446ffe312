//! Validation rules of schemas (`x-kubernetes-validations`): compiled once per schema, checked
//! when a definition is written, evaluated when an object is.
//!
//! Rules, limits and words are those of Kubernetes 1.36. A rule is evaluated where its value is,
//! with `self` and, when the object replaces one whose value there can be told, `oldSelf`. What
//! did not change may go on failing rules that came later ("ratcheting"): the client is warned.
//!
//! Invariants: an object costs no more than [`BUDGET`] to judge, and no more work than is given,
//! whatever its rules; a rule that does not compile fails every object that it is about, and never
//! passes one. As in Kubernetes, what has no type is not seen, and neither are rules in it.

mod compile;
mod correlation;
mod definition;
mod field_path;
mod judge;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use deltaplane_api::field;
use deltaplane_schema::{Additional, Kind, Node, PatternBudget, Schema, ValidationRule};

use crate::decl::{Decl, Reading};

use compile::{Compiled, Scope};

pub use definition::check;

/// The most that judging one object may cost.
pub const BUDGET: u64 = 10_000_000;
/// The most that one evaluation may cost.
const CALL_LIMIT: u64 = 1_000_000;
/// The work that judging one object may take, whatever it costs.
const STEPS: u64 = 30_000_000;
/// Nobody reads more.
const MAX_ERRORS: usize = 1_000;
const MAX_WARNINGS: usize = 32;

/// The rules of a schema, compiled.
#[derive(Debug)]
pub struct Rules {
    root: Level,
}

/// What is wrong with an object, and what its author is to be warned of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    pub errors: Vec<field::Error>,
    pub warnings: Vec<String>,
}

/// The rules at one node of a schema, and below it.
#[derive(Debug)]
struct Level {
    /// What the values here are, for those who look for their past.
    schema: Schema,
    type_name: &'static str,
    scope: Option<Scope>,
    rules: Vec<Rule>,
    items: Option<Box<Level>>,
    /// Of fields that are not declared.
    values: Option<Box<Level>>,
    properties: BTreeMap<Box<str>, Level>,
}

#[derive(Debug)]
struct Rule {
    written: ValidationRule,
    compiled: Result<Compiled, String>,
}

// === impl Rules ===

impl Rules {
    /// The rules of a whole resource's schema, which were checked when it was written; nothing when
    /// it has none.
    pub fn of_resource(schema: &Schema) -> Option<Self> {
        Self::of(schema, true, &mut PatternBudget::trusting())
    }

    fn of(schema: &Schema, resource: bool, patterns: &mut PatternBudget) -> Option<Self> {
        let root = Level::new(schema, schema.root(), resource, patterns)?;
        Some(Self { root })
    }
}

// === impl Level ===

impl Level {
    fn new(
        schema: &Schema,
        node: Node<'_>,
        resource: bool,
        patterns: &mut PatternBudget,
    ) -> Option<Self> {
        if !has_rules(node) {
            return None;
        }
        let own = schema.rooted_at(node);
        let reading = Reading {
            resource,
            ..Reading::default()
        };
        // What has no type cannot be named, and what is in it neither.
        let decl = Decl::of_schema(&own, "selfType", reading)?;
        let scope = (!node.rules().is_empty()).then(|| Scope::new(decl));
        let mut rules = Vec::new();
        for written in node.rules() {
            let scope = scope.as_ref();
            let compiled = scope.and_then(|scope| scope.compile(written, node, patterns));
            rules.extend(compiled.map(|compiled| Rule {
                written: written.clone(),
                compiled,
            }));
        }
        let mut child =
            |node: Node<'_>| Self::new(schema, node, node.is_embedded_resource(), patterns);
        let mut properties = BTreeMap::new();
        for (name, node) in node.properties() {
            properties.extend(child(node).map(|level| (name.into(), level)));
        }
        Some(Self {
            type_name: type_name(node.kind()),
            scope,
            rules,
            items: node.items().and_then(&mut child).map(Box::new),
            values: values(node).and_then(child).map(Box::new),
            properties,
            schema: own,
        })
    }
}

/// Whether there are rules here or below.
fn has_rules(node: Node<'_>) -> bool {
    if node.is_untyped() {
        return false;
    }
    !node.rules().is_empty()
        || node.properties().any(|(_, node)| has_rules(node))
        || node.items().is_some_and(has_rules)
        || values(node).is_some_and(has_rules)
}

/// The schema of fields that are not declared.
fn values(node: Node<'_>) -> Option<Node<'_>> {
    match node.additional() {
        Additional::Schema(node) => Some(node),
        Additional::Unspecified | Additional::Denied | Additional::Any => None,
    }
}

/// `type`, as the schema writes it.
fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        Kind::Any | Kind::IntOrString | Kind::Quantity => "",
    }
}
