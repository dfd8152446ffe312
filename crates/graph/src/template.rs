//! Templates: JSON with holes, and the expressions that fill them.
//!
//! Holes are evaluated first ([`Hole::fill`]), so that a caller can compare what they came to with
//! what it was before; only then is the text rendered. What an expression omits, and an optional
//! without a value, is left out with its key or item; kro writes null for the latter, which no one
//! asked for.

use std::sync::Arc;

use deltaplane_api::field;
use deltaplane_expr::{Bindings, Eval, Failure, Meter, Program, Stopped, Value, is_omitted};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::digest;
use crate::graph::NodeIndex;

/// JSON with holes.
#[derive(Debug)]
pub struct Template {
    literal: Json,
    holes: Vec<Hole>,
    fingerprint: [u8; 32],
    /// About how many bytes the literal takes.
    weight: usize,
}

/// A place in a template, and the expression whose value goes there.
#[derive(Debug)]
pub struct Hole {
    pub(crate) spot: Spot,
    pub(crate) program: Program,
    pub(crate) form: Form,
    pub(crate) source: Arc<str>,
    pub(crate) reads: Reads,
}

/// A place in a definition.
#[derive(Clone, Debug)]
pub struct Spot {
    /// Where the template is.
    pub(crate) base: Arc<field::Path>,
    /// The way from there.
    pub(crate) steps: Box<[Step]>,
}

/// One step into JSON.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Key(Box<str>),
    Index(usize),
}

/// How an expression stands in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It is all of it: the value has whatever type it has.
    Value,
    /// There is text around it, or another expression: the value is a string.
    Joined,
}

/// What an expression reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub schema: bool,
    /// In topological order.
    pub nodes: Vec<NodeIndex>,
    /// Whether it reads an iterator or `each`, so that it has a value for every item.
    pub item: bool,
}

/// What goes into a hole.
#[derive(Clone, Debug, PartialEq)]
pub enum Filled {
    Value(Json),
    /// The key or item is left out.
    Omitted,
}

/// Why there is nothing to go into a hole.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfilled {
    /// Data is not there yet.
    Waiting(Box<deltaplane_expr::Path>),
    Failed(Box<Failure>),
    Stopped(Stopped),
}

// === impl Template ===

impl Template {
    /// Holes are where their spots say; what the literal has there is replaced.
    pub(crate) fn new(mut literal: Json, holes: Vec<Hole>) -> Self {
        for hole in &holes {
            if let Some(place) = find(&mut literal, hole.steps()) {
                *place = Json::Null;
            }
        }
        let fingerprint = fingerprint(&literal, &holes);
        Self {
            weight: weight(&literal),
            literal,
            holes,
            fingerprint,
        }
    }

    /// A digest of the text and of where its holes are: with the same values in them, templates
    /// with the same fingerprint are rendered to the same.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// The text, with null in its holes.
    pub fn literal(&self) -> &Json {
        &self.literal
    }

    /// About how many bytes it takes with these values in its holes.
    pub(crate) fn weight(&self, filled: &[Filled]) -> usize {
        self.weight + filled.iter().map(Filled::weight).sum::<usize>()
    }

    /// In the order of the text.
    pub fn holes(&self) -> &[Hole] {
        &self.holes
    }

    /// The text with its holes filled, in their order.
    pub fn render(&self, filled: impl IntoIterator<Item = Filled>) -> Json {
        let mut rendered = self.literal.clone();
        let mut omitted = Vec::new();
        for (hole, filled) in self.holes.iter().zip(filled) {
            match filled {
                Filled::Value(value) => {
                    if let Some(place) = find(&mut rendered, hole.steps()) {
                        *place = value;
                    }
                }
                Filled::Omitted => omitted.push(hole.steps()),
            }
        }
        // From the end, so that the items before keep their places.
        for steps in omitted.into_iter().rev() {
            remove(&mut rendered, steps);
        }
        rendered
    }
}

/// About how many bytes a value takes: what it says, and what holds it together.
fn weight(value: &Json) -> usize {
    /// Of each value, and of each entry of a map.
    const EACH: usize = 32;
    EACH + match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(weight).sum(),
        Json::Object(map) => {
            let entries = map.iter();
            entries
                .map(|(key, value)| EACH + key.len() + weight(value))
                .sum()
        }
    }
}

// === impl Filled ===

impl Filled {
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Value(value) => weight(value),
            Self::Omitted => 0,
        }
    }
}

// === impl Hole ===

impl Hole {
    /// The way to it from the template's root.
    pub fn steps(&self) -> &[Step] {
        &self.spot.steps
    }

    /// Where it is in the definition.
    pub fn path(&self) -> field::Path {
        self.spot.path()
    }

    pub fn program(&self) -> &Program {
        &self.program
    }

    pub fn form(&self) -> Form {
        self.form
    }

    /// The text that it was written as; spans of failures are in it.
    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// What goes into it.
    pub fn fill<'a>(
        &'a self,
        bindings: &Bindings<'a>,
        meter: &mut Meter,
    ) -> Result<Filled, Unfilled> {
        let value = match self.program.eval_metered(bindings, meter) {
            Eval::Value(value) => value,
            Eval::Waiting(path) => return Err(Unfilled::Waiting(path)),
            Eval::Failed(failure) => return Err(Unfilled::Failed(failure)),
            Eval::Stopped(stopped) => return Err(Unfilled::Stopped(stopped)),
        };
        if is_omitted(&value) || matches!(value, Value::Optional(None)) {
            return Ok(Filled::Omitted);
        }
        match value.to_json(meter) {
            Ok(json) => Ok(Filled::Value(json)),
            Err(fault) => Err((*fault).into()),
        }
    }
}

// === impl Unfilled ===

impl From<deltaplane_expr::Fault> for Unfilled {
    fn from(fault: deltaplane_expr::Fault) -> Self {
        match fault {
            deltaplane_expr::Fault::Waiting(path) => Self::Waiting(Box::new(path)),
            deltaplane_expr::Fault::Failed(failure) => Self::Failed(Box::new(failure)),
            deltaplane_expr::Fault::Stopped(stopped) => Self::Stopped(stopped),
        }
    }
}

// === impl Spot ===

impl Spot {
    pub(crate) fn new(base: &Arc<field::Path>, steps: &[Step]) -> Self {
        Self {
            base: base.clone(),
            steps: steps.into(),
        }
    }

    /// Where it is in the definition.
    pub fn path(&self) -> field::Path {
        path(&self.base, &self.steps)
    }
}

/// The path that is reached from `base` by `steps`.
pub(crate) fn path(base: &field::Path, steps: &[Step]) -> field::Path {
    steps.iter().fold(base.clone(), |path, step| match step {
        Step::Key(key) if key.is_empty() || key.contains(['.', '/', '[']) => path.key(key),
        Step::Key(key) => path.child(key),
        Step::Index(index) => path.index(*index),
    })
}

fn fingerprint(literal: &Json, holes: &[Hole]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    digest::feed(&mut hasher, literal);
    for hole in holes {
        hasher.update(hole.steps().len().to_le_bytes());
        for step in hole.steps() {
            match step {
                Step::Key(key) => digest::sized(&mut hasher, key.as_bytes()),
                Step::Index(index) => hasher.update(index.to_le_bytes()),
            }
        }
    }
    hasher.finalize().into()
}

fn find<'v>(value: &'v mut Json, steps: &[Step]) -> Option<&'v mut Json> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(&**key),
        Step::Index(index) => value.get_mut(*index),
    })
}

fn remove(value: &mut Json, steps: &[Step]) {
    let Some((last, before)) = steps.split_last() else {
        return;
    };
    match (find(value, before), last) {
        (Some(Json::Object(map)), Step::Key(key)) => {
            map.remove(&**key);
        }
        (Some(Json::Array(items)), Step::Index(index)) if *index < items.len() => {
            items.remove(*index);
        }
        (Some(_) | None, _) => {}
    }
}
