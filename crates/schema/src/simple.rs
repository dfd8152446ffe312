//! SimpleSchema: kro's short way to write the schema of a kind, `replicas: integer | default=1`.
//!
//! [`compile`] turns the `spec` of a definition, and the custom `types` that it uses, into the
//! OpenAPI schema that the generated CustomResourceDefinition has, the same as kro's. All problems
//! are reported at once, each with the field where it is, the part of its text and, where one is
//! near, what to write instead.
//!
//! What kro refuses for no good reason is accepted: white space at the end, `|` between markers,
//! texts in defaults that its way of writing JSON cannot hold. What it accepts and no API server
//! does, a default that is not JSON or not of the type, is refused here, where its author sees it.
//!
//! Not here: what holds for every CustomResourceDefinition ([`crate::crd`]), and the expressions
//! of `validation`.
//!
//! Invariants: time and memory are bounded by the size of the source, [`MAX_SIZE`] and
//! [`MAX_NESTING`]; the outcome does not depend on the order of fields.
//!
//! ```
//! use deltaplane_api::field::Path;
//! use deltaplane_schema::simple::{self, Source};
//! use serde_json::json;
//!
//! let path = Path::new("spec").child("schema");
//! let schema = simple::compile(&Source {
//!     spec: Some(&json!({"image": "string | required=true", "replicas": "Count"})),
//!     types: Some(&json!({"Count": "integer | default=1 minimum=0"})),
//!     path: &path,
//! });
//! assert_eq!(schema, Ok(json!({
//!     "type": "object",
//!     "required": ["image"],
//!     "properties": {
//!         "image": {"type": "string"},
//!         "replicas": {"type": "integer", "default": 1, "minimum": 0},
//!     },
//! })));
//!
//! let wrong = simple::compile(&Source { spec: Some(&json!({"ratio": "number"})), types: None, path: &path });
//! assert_eq!(wrong.unwrap_err()[0].to_string(), "spec.schema.spec.ratio: unknown type: number\nhint: use float");
//! ```

mod apply;
mod build;
mod expr;
mod hint;
mod marker;
mod order;
mod shape;

use std::fmt;
use std::ops::Range;

use deltaplane_api::field::Path;
use serde_json::Value;

/// How deeply the JSON of a schema may be nested, so that it fits into a definition, and that
/// into what can be stored ([`crate::MAX_DEPTH`]).
pub const MAX_NESTING: usize = 100;

/// How large all types and the schema may become, in bytes of JSON, about: a type is written out
/// wherever it is used.
pub const MAX_SIZE: usize = 4 << 20;

/// More are counted, not told.
const MAX_PROBLEMS: usize = 100;

/// How long a message may be, in characters.
const MAX_MESSAGE: usize = 300;

/// The parts of a definition's schema that are written in SimpleSchema.
#[derive(Clone, Copy, Debug)]
pub struct Source<'v> {
    pub spec: Option<&'v Value>,
    pub types: Option<&'v Value>,
    /// Where both are in the document: `spec.schema`.
    pub path: &'v Path,
}

/// One thing that is wrong. `Display` is for people: path, message and hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field in the document.
    pub path: Path,
    /// The part of the field's text, in bytes, where it is a part.
    pub span: Option<Range<usize>>,
    pub message: String,
    /// What to do instead.
    pub hint: Option<String>,
}

/// What is wrong with a part of a field's text.
#[derive(Debug)]
struct Complaint {
    span: Range<usize>,
    message: String,
    hint: Option<String>,
}

/// All problems that were found, up to a number.
#[derive(Debug, Default)]
struct Problems {
    told: Vec<Problem>,
    untold: usize,
}

/// The schema of `spec`, or all that is wrong with it and with `types`, in the order of paths.
pub fn compile(source: &Source<'_>) -> Result<Value, Vec<Problem>> {
    let mut problems = Problems::default();
    let types = shape::types(source.types, &source.path.child("types"), &mut problems);
    let spec_path = source.path.child("spec");
    let spec = shape::fields(source.spec, &spec_path, &mut problems);
    let order = order::sorted(&types, &mut problems);
    let schema = build::schema(&types, &order, &spec, &spec_path, &mut problems);
    match schema {
        Some(schema) if problems.told.is_empty() => Ok(schema),
        Some(_) | None => Err(problems.finish(source.path)),
    }
}

// === impl Complaint ===

impl Complaint {
    fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
            hint: None,
        }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

// === impl Problems ===

impl Problems {
    fn push(&mut self, path: &Path, message: impl Into<String>) {
        self.add(Problem {
            path: path.clone(),
            span: None,
            message: message.into(),
            hint: None,
        });
    }

    fn complain(&mut self, path: &Path, complaint: Complaint) {
        self.add(Problem {
            path: path.clone(),
            span: Some(complaint.span),
            message: complaint.message,
            hint: complaint.hint,
        });
    }

    /// Whether one more would be told.
    fn is_full(&self) -> bool {
        self.told.len() >= MAX_PROBLEMS
    }

    fn add(&mut self, mut problem: Problem) {
        if self.is_full() {
            self.untold += 1;
            return;
        }
        shorten(&mut problem.message);
        problem.hint.iter_mut().for_each(shorten);
        self.told.push(problem);
    }

    fn finish(mut self, path: &Path) -> Vec<Problem> {
        let place = |problem: &Problem| problem.span.as_ref().map_or(0, |span| span.start);
        self.told
            .sort_by(|a, b| a.path.cmp(&b.path).then_with(|| place(a).cmp(&place(b))));
        if self.untold > 0 {
            self.told.push(Problem {
                path: path.clone(),
                span: None,
                message: format!("{} more problems", self.untold),
                hint: None,
            });
        }
        self.told
    }
}

/// Messages repeat parts of the source, which may be long.
fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_MESSAGE) {
        text.truncate(end);
        text.push('…');
    }
}

// === impl Problem ===

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
