//! Templates against the schemas of their kinds: fields that do not exist, literals of the wrong
//! type, and the expressions between them.
//!
//! As in kro, only the structure counts: what is required, enumerated or bounded is for the API to
//! say. Where a schema leaves fields open, anything goes.

use std::sync::Arc;

use deltaplane_api::field::Path;
use deltaplane_expr::syntax::{Ast, check_terminated};
use deltaplane_schema::{Additional, Kind, Node};
use serde_json::{Map, Value as Json};

use super::expression::{Parsed, parse};
use super::word;
use crate::problem::{Problem, Problems};
use crate::template::{Form, Spot, Step};

/// An expression in a template.
pub(crate) struct Found {
    pub(crate) spot: Spot,
    pub(crate) ast: Ast,
    pub(crate) form: Form,
}

/// What a walk through a template found.
#[derive(Default)]
pub(crate) struct Walked {
    pub(crate) found: Vec<Found>,
    /// The ways to values that are no expressions.
    pub(crate) plain: Vec<Box<[Step]>>,
}

/// Finds the expressions in `value`, and what does not go with `schema`, if there is one.
pub(crate) fn walk(
    value: &Json,
    base: &Arc<Path>,
    schema: Option<Node<'_>>,
    problems: &mut Problems,
) -> Walked {
    let mut walk = Walk {
        base,
        steps: Vec::new(),
        walked: Walked::default(),
        problems,
    };
    walk.value(value, schema.filter(|node| !is_open(*node)));
    walk.walked
}

/// Whether anything goes here and below.
fn is_open(node: Node<'_>) -> bool {
    node.is_untyped() || node.preserves_unknown() || node.kind() == Kind::Any
}

struct Walk<'w> {
    base: &'w Arc<Path>,
    steps: Vec<Step>,
    walked: Walked,
    problems: &'w mut Problems,
}

// === impl Walk ===

impl Walk<'_> {
    fn path(&self) -> Path {
        crate::template::path(self.base, &self.steps)
    }

    /// Templates are no deeper than a definition may be, so this recurses no deeper either.
    fn value(&mut self, value: &Json, node: Option<Node<'_>>) {
        match value {
            Json::Object(map) => self.object(map, node),
            Json::Array(items) => self.array(items, node),
            Json::String(text) => self.text(text, node),
            Json::Null | Json::Bool(_) | Json::Number(_) => {
                self.walked.plain.push(self.steps.as_slice().into());
                if let Some(node) = node
                    && !takes(node.kind(), value)
                {
                    self.unfit(node, value);
                }
            }
        }
    }

    fn unfit(&mut self, node: Node<'_>, value: &Json) {
        let problem = self.mismatch(node, word(value));
        self.problems.push(problem);
    }

    /// The schema asks for something else than what is there. The words are kro's, which people
    /// search for.
    fn mismatch(&self, node: Node<'_>, got: &str) -> Problem {
        let path = self.path();
        let text = path.to_string();
        let parts = [".template.", ".externalRef."].map(|part| text.split_once(part));
        let within = parts.into_iter().flatten().next();
        let within = within.map_or(&*text, |(_, within)| within);
        let wanted = wanted(node.kind());
        let message = format!("expected {wanted} type for path {within}, got {got}");
        Problem::new(&path, message)
    }

    fn within(&mut self, step: Step, value: &Json, node: Option<Node<'_>>) {
        self.steps.push(step);
        self.value(value, node);
        self.steps.pop();
    }

    fn object(&mut self, map: &Map<String, Json>, node: Option<Node<'_>>) {
        if let Some(node) = node
            && node.kind() != Kind::Object
        {
            let problem = self.mismatch(node, "object");
            self.problems.push(problem);
            return;
        }
        for (key, value) in map {
            let below = match node {
                Some(node) => match field(node, key) {
                    Some(below) => below,
                    None => {
                        self.no_field(node, key);
                        continue;
                    }
                },
                None => None,
            };
            self.within(Step::Key(key.as_str().into()), value, below);
        }
    }

    fn no_field(&mut self, node: Node<'_>, key: &str) {
        self.steps.push(Step::Key(key.into()));
        let spot = Spot::new(self.base, &self.steps);
        self.steps.pop();
        let known = || node.properties().map(|(name, _)| name);
        let message = || format!("there is no such field: schema not found for field {key}");
        let make = || Problem::new(&spot.path(), message());
        self.problems.unknown(key, known, make);
    }

    fn array(&mut self, items: &[Json], node: Option<Node<'_>>) {
        if let Some(node) = node
            && node.kind() != Kind::Array
        {
            let problem = self.mismatch(node, "array");
            self.problems.push(problem);
            return;
        }
        let below = node.and_then(Node::items).filter(|node| !is_open(*node));
        for (index, item) in items.iter().enumerate() {
            self.within(Step::Index(index), item, below);
        }
    }

    fn text(&mut self, text: &str, node: Option<Node<'_>>) {
        let spot = Spot::new(self.base, &self.steps);
        let form = match parse(text, &spot, self.problems) {
            Parsed::Expression(parsed) => {
                let (ast, form) = *parsed;
                self.walked.found.push(Found { spot, ast, form });
                Some(form)
            }
            Parsed::Text => {
                self.walked.plain.push(self.steps.as_slice().into());
                None
            }
            // To kro, what has no end is text.
            Parsed::Broken if check_terminated(text).is_err() => None,
            Parsed::Broken => return,
        };
        // An expression alone has a type of its own, which is compared later.
        if form != Some(Form::Value)
            && let Some(node) = node
            && !takes_text(node.kind())
        {
            let problem = self.mismatch(node, "string");
            self.problems.push(match form {
                Some(_) => problem.hint("write it as one `${…}`, with nothing around it"),
                None => problem,
            });
        }
    }
}

/// What a field is: nothing when there is none, and no schema where anything goes.
fn field<'n>(node: Node<'n>, key: &str) -> Option<Option<Node<'n>>> {
    if let Some(child) = node.child(key) {
        return Some(Some(child).filter(|child| !is_open(*child)));
    }
    match node.additional() {
        Additional::Any => Some(None),
        Additional::Unspecified | Additional::Denied | Additional::Schema(_) => None,
    }
}

fn takes_text(kind: Kind) -> bool {
    match kind {
        Kind::String | Kind::IntOrString | Kind::Quantity | Kind::Any => true,
        Kind::Object | Kind::Array | Kind::Integer | Kind::Number | Kind::Boolean => false,
    }
}

/// Whether null, a boolean or a number is of a kind. Null is nothing, and so goes with everything.
fn takes(kind: Kind, value: &Json) -> bool {
    let integer = value.is_i64();
    value.is_null()
        || match kind {
            Kind::Any => true,
            Kind::Boolean => value.is_boolean(),
            Kind::Integer | Kind::IntOrString => integer,
            Kind::Number | Kind::Quantity => value.is_number(),
            Kind::Object | Kind::Array | Kind::String => false,
        }
}

fn wanted(kind: Kind) -> &'static str {
    match kind {
        Kind::Any => "anything",
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        Kind::IntOrString => "string or integer",
        Kind::Quantity => "a quantity",
    }
}
