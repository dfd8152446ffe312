//! Rules when their definition is written: they must compile, be affordable for the largest
//! object that the schema allows, and hold for the schema's own defaults.

use deltaplane_api::field::{Error, ErrorKind, Path};
use deltaplane_schema::{Additional, Kind, Node, PatternBudget, Schema, ValidationRule};
use serde_json::{Value as Json, json};

use super::compile::{Compiled, Scope};
use super::correlation::Past;
use super::judge::{Judge, Limits};
use super::{Rules, has_rules, values};
use crate::decl::{Decl, MAX_REQUEST, Reading};

/// The most that one expression may be estimated to cost for an object.
const EXPRESSION_LIMIT: u64 = 10_000_000;
/// The most that all of them may.
const TOTAL_LIMIT: u64 = 100_000_000;
/// How many of the most expensive ones are named.
const NAMED: usize = 4;

const RULES: &str = "x-kubernetes-validations";

/// All that is wrong with the rules of a definition's schema, which stands at `path`.
pub fn check(schema: &Schema, path: &Path) -> Vec<Error> {
    if !has_rules(schema.root()) {
        return Vec::new();
    }
    let mut defaults = Defaults {
        schema,
        left: Limits::default(),
        patterns: PatternBudget::default(),
        errors: Vec::new(),
    };
    defaults.node(schema.root(), path, true);
    if !defaults.errors.is_empty() {
        return defaults.errors;
    }
    let mut checker = Checker {
        schema,
        errors: Vec::new(),
        total: 0,
        expensive: Vec::new(),
        patterns: defaults.patterns,
    };
    let around = Around {
        cardinality: Some(1),
        uncorrelatable: None,
        resource: true,
    };
    checker.node(schema.root(), path, around);
    checker.finish(path)
}

struct Checker<'a> {
    schema: &'a Schema,
    errors: Vec<Error>,
    total: u64,
    /// The most expensive expressions, first the most expensive one.
    expensive: Vec<(u64, Path)>,
    patterns: PatternBudget,
}

/// What the nodes around one say about it.
#[derive(Clone, Copy)]
struct Around<'p> {
    /// How many such values an object can have; nothing when nothing bounds them.
    cardinality: Option<u64>,
    /// Where the list stands whose items have no past.
    uncorrelatable: Option<&'p Path>,
    resource: bool,
}

// === impl Checker ===

impl Checker<'_> {
    fn node(&mut self, node: Node<'_>, path: &Path, around: Around<'_>) {
        if node.is_untyped() {
            return;
        }
        let here = Around {
            cardinality: around.cardinality.zip(multiplicity(node)).map(product),
            ..around
        };
        let into = |child: Node<'_>| Around {
            resource: child.is_embedded_resource(),
            ..here
        };
        if let Some(values) = values(node) {
            self.node(values, &path.child("additionalProperties"), into(values));
        }
        for (name, property) in node.properties() {
            let path = path.child("properties").key(name);
            self.node(property, &path, into(property));
        }
        if let Some(items) = node.items() {
            let keyed = matches!(node.list_type(), deltaplane_schema::ListType::Map(_));
            let below = match keyed {
                true => into(items),
                false => Around {
                    uncorrelatable: Some(path),
                    ..into(items)
                },
            };
            self.node(items, &path.child("items"), below);
        }
        if !node.rules().is_empty() {
            self.rules(node, &path.child(RULES), around);
        }
    }

    fn rules(&mut self, node: Node<'_>, path: &Path, around: Around<'_>) {
        let reading = Reading {
            resource: around.resource,
            ..Reading::default()
        };
        let schema = self.schema.rooted_at(node);
        let Some(decl) = Decl::of_schema(&schema, "selfType", reading) else {
            self.errors.push(Error {
                kind: ErrorKind::Internal,
                path: path.clone(),
                value: None,
                detail: "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations".to_owned(),
            });
            return;
        };
        let fit = MAX_REQUEST / (decl.min_size() + 1);
        let cardinality = around.cardinality.unwrap_or(fit);
        let scope = Scope::new(decl);
        for (index, rule) in node.rules().iter().enumerate() {
            let path = path.index(index);
            match scope.compile(rule, node, &mut self.patterns) {
                Some(Ok(compiled)) => self.compiled(rule, &compiled, &path, (cardinality, around)),
                Some(Err(why)) => {
                    let shown = shown(rule);
                    let error = Error::invalid(path.child("rule"), shown, why);
                    self.errors.push(error);
                    self.optional_old_self(rule, &path);
                }
                None => self.optional_old_self(rule, &path),
            }
        }
    }

    fn compiled(
        &mut self,
        rule: &ValidationRule,
        compiled: &Compiled,
        path: &Path,
        (cardinality, around): (u64, Around<'_>),
    ) {
        let cost = compiled.cost.saturating_mul(cardinality);
        self.affordable("estimated rule cost", cost, path.child("rule"));
        match &compiled.message {
            Some(Ok(message)) => {
                let name = "estimated messageExpression cost";
                self.affordable(name, message.cost, path.child("messageExpression"));
            }
            Some(Err(why)) => {
                let path = path.child("messageExpression");
                let error = Error::invalid(path, shown(rule), why.as_str());
                self.errors.push(error);
            }
            None => {}
        }
        match (compiled.uses_old_self, around.uncorrelatable) {
            (true, Some(list)) => {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                let error = Error::invalid(path.child("rule"), &*rule.rule, why);
                self.errors.push(error);
            }
            (true, None) => {}
            (false, _) => self.optional_old_self(rule, path),
        }
    }

    /// A rule that does not use `oldSelf` need not say how.
    fn optional_old_self(&mut self, rule: &ValidationRule, path: &Path) {
        if let Some(set) = rule.optional_old_self {
            let why = "may not be set if oldSelf is not used in rule";
            let error = Error::invalid(path.child("optionalOldSelf"), set, why);
            self.errors.push(error);
        }
    }

    /// Adds the cost of an expression to the total; too much is an error.
    fn affordable(&mut self, name: &str, cost: u64, path: Path) {
        if cost > EXPRESSION_LIMIT {
            let error = Error::forbidden(path.clone(), too_expensive(name, cost, EXPRESSION_LIMIT));
            self.errors.push(error);
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_LIMIT / 100 {
            self.expensive.push((cost, path));
            self.expensive
                .sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED);
        }
    }

    fn finish(mut self, path: &Path) -> Vec<Error> {
        if self.total > TOTAL_LIMIT {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            let named = self.expensive.into_iter();
            self.errors
                .extend(named.map(|(_, path)| Error::forbidden(path, why)));
            let name =
                "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            let why = too_expensive(name, self.total, TOTAL_LIMIT);
            self.errors.push(Error::forbidden(path.clone(), why));
        }
        self.errors
    }
}

/// How many children one value of the node can have in one place; nothing when nothing says.
fn multiplicity(node: Node<'_>) -> Option<u64> {
    match node.kind() {
        Kind::Array => node.max_items(),
        Kind::Object => match node.additional() {
            Additional::Schema(_) | Additional::Any => node.max_properties(),
            Additional::Unspecified | Additional::Denied => Some(1),
        },
        Kind::Any
        | Kind::String
        | Kind::Integer
        | Kind::Number
        | Kind::Boolean
        | Kind::IntOrString
        | Kind::Quantity => Some(1),
    }
}

fn product((one, other): (u64, u64)) -> u64 {
    one.saturating_mul(other)
}

fn too_expensive(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// A rule as errors show it.
fn shown(rule: &ValidationRule) -> Json {
    json!({
        "Rule": rule.rule,
        "Message": rule.message,
        "MessageExpression": rule.message_expression,
        "Reason": rule.reason,
        "FieldPath": rule.field_path,
        "OptionalOldSelf": rule.optional_old_self,
    })
}

/// The schema's own defaults before its rules.
struct Defaults<'a> {
    schema: &'a Schema,
    left: Limits,
    patterns: PatternBudget,
    errors: Vec<Error>,
}

// === impl Defaults ===

impl Defaults<'_> {
    fn node(&mut self, node: Node<'_>, path: &Path, resource: bool) {
        if node.is_untyped() {
            return;
        }
        if let Some(default) = node.default() {
            self.default(node, &path.child("default"), default, resource);
        }
        let resource = |child: Node<'_>| child.is_embedded_resource();
        if let Some(items) = node.items() {
            self.node(items, &path.child("items"), resource(items));
        }
        for (name, property) in node.properties() {
            let path = path.child("properties").key(name);
            self.node(property, &path, resource(property));
        }
    }

    /// A default must do for new values and for those that were there.
    fn default(&mut self, node: Node<'_>, path: &Path, default: &Json, resource: bool) {
        let schema = self.schema.rooted_at(node);
        let Some(rules) = Rules::of(&schema, resource, &mut self.patterns) else {
            return;
        };
        let before = self.left;
        for old in [Some(default), None] {
            let mut judge = Judge::new(before);
            judge.object(&rules, path, default, old, Past::default());
            let (verdict, left) = judge.finish();
            self.left = self.left.min(left);
            if !verdict.errors.is_empty() {
                self.errors.extend(verdict.errors);
                return;
            }
        }
    }
}
