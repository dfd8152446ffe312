//! Schemas out of shapes: every custom type once, then `spec`.

use std::collections::BTreeMap;
use std::ops::Range;

use deltaplane_api::field::Path;
use serde_json::{Map, Value, json};

use super::apply::Draft;
use super::expr::{Base, TypeExpr, Wrap};
use super::shape::{Field, Fields, Shape, Type};
use super::{Complaint, MAX_NESTING, MAX_SIZE, Problem, Problems, hint};
use crate::validate::pattern::PatternBudget;

/// What a schema takes at least, in bytes.
const NODE_SIZE: usize = 64;
/// How deep a schema without others in it is: it may hold a list of rules.
const NODE_DEPTH: usize = 3;

/// A schema that is done.
struct Built {
    schema: Map<String, Value>,
    /// A field of this very type is required.
    required: bool,
    size: usize,
    depth: usize,
}

struct Builder<'a, 'v> {
    types: BTreeMap<&'v str, State>,
    /// What may still be built.
    left: Option<usize>,
    patterns: PatternBudget,
    problems: &'a mut Problems,
}

/// What came of a custom type.
enum State {
    Built(Built),
    /// It was reported.
    Broken,
}

/// The schema of `spec`; nothing when a problem was reported.
pub(super) fn schema<'v>(
    types: &[Type<'v>],
    order: &[usize],
    spec: &Fields<'v>,
    spec_path: &Path,
    problems: &mut Problems,
) -> Option<Value> {
    let mut builder = Builder {
        types: types.iter().map(|one| (one.name, State::Broken)).collect(),
        left: Some(MAX_SIZE),
        patterns: PatternBudget::default(),
        problems,
    };
    for one in order.iter().map(|at| &types[*at]) {
        if let Some(built) = builder.shape(&one.shape, &one.path) {
            builder.types.insert(one.name, State::Built(built));
        }
    }
    let built = builder.structure(spec, spec_path)?;
    Some(Value::Object(built.schema))
}

// === impl Builder ===

impl<'v> Builder<'_, 'v> {
    fn shape(&mut self, shape: &Shape<'v>, path: &Path) -> Option<Built> {
        match shape {
            Shape::Broken => None,
            Shape::Struct(fields) => self.structure(fields, path),
            Shape::Field(field) => self.field(field, path),
        }
    }

    /// An object; it is there by default when that is valid and gives its fields their defaults.
    fn structure(&mut self, fields: &Fields<'v>, path: &Path) -> Option<Built> {
        let mut properties = Map::new();
        let mut required = Vec::new();
        let mut defaults = false;
        let mut size = NODE_SIZE;
        let mut depth = NODE_DEPTH;
        let mut whole = true;
        for (name, path, shape) in fields {
            let Some(built) = self.shape(shape, path) else {
                whole = false;
                continue;
            };
            defaults |= built.schema.contains_key("default");
            if built.required {
                required.push(*name);
            }
            size += built.size + name.len();
            depth = depth.max(built.depth + 2);
            properties.insert((*name).to_owned(), built.schema.into());
        }
        if !whole || !self.affords(0, depth, path, None) {
            return None;
        }
        let mut schema = node("object", None);
        if !properties.is_empty() {
            schema.insert("properties".to_owned(), properties.into());
        }
        if required.is_empty() && defaults {
            schema.insert("default".to_owned(), json!({}));
        }
        if !required.is_empty() {
            required.sort_unstable();
            schema.insert("required".to_owned(), required.into());
        }
        Some(Built {
            schema,
            required: false,
            size,
            depth,
        })
    }

    fn field(&mut self, field: &Field<'v>, path: &Path) -> Option<Built> {
        let mut built = self.expr(&field.expr, field.length, path)?;
        let mut draft = Draft {
            schema: &mut built.schema,
            required: built.required,
            nesting: 0,
        };
        let mut whole = true;
        for marker in &field.markers {
            if let Err(complaint) = draft.apply(marker, &mut self.patterns) {
                self.problems.complain(path, complaint);
                whole = false;
            }
        }
        if !whole {
            return None;
        }
        if let Err(message) = draft.check() {
            self.problems.push(path, message);
            return None;
        }
        let nesting = draft.nesting;
        built.required = draft.required;
        built.depth = built.depth.max(nesting + 1);
        self.affords(0, built.depth, path, None).then_some(built)
    }

    /// The type alone, in a field whose text has so many bytes.
    fn expr(&mut self, expr: &TypeExpr<'v>, length: usize, path: &Path) -> Option<Built> {
        let own = NODE_SIZE * (expr.wraps.len() + 1) + length;
        let mut built = match expr.base {
            Base::Atomic(name) => self.plain(node(name, None), own, path)?,
            Base::Object => {
                let open = ("x-kubernetes-preserve-unknown-fields", true.into());
                self.plain(node("object", Some(open)), own, path)?
            }
            Base::Custom(name) => self.custom(name, own, path, &expr.span)?,
        };
        for wrap in expr.wraps.iter().rev() {
            let inner = Value::Object(built.schema);
            built.schema = match wrap {
                Wrap::List => node("array", Some(("items", inner))),
                Wrap::Map => node("object", Some(("additionalProperties", inner))),
            };
            built.required = false;
            built.depth += 1;
        }
        Some(built)
    }

    fn plain(&mut self, schema: Map<String, Value>, size: usize, path: &Path) -> Option<Built> {
        let fits = self.affords(size, NODE_DEPTH, path, None);
        fits.then_some(Built {
            schema,
            required: false,
            size,
            depth: NODE_DEPTH,
        })
    }

    /// A copy of a custom type, which is paid for before it is made.
    fn custom(
        &mut self,
        name: &str,
        own: usize,
        path: &Path,
        span: &Range<usize>,
    ) -> Option<Built> {
        let (size, depth) = match self.types.get(name) {
            Some(State::Built(built)) => (built.size + own, built.depth),
            Some(State::Broken) => return None,
            None => {
                self.unknown(name, path, span);
                return None;
            }
        };
        if !self.affords(size, depth, path, Some(span)) {
            return None;
        }
        let State::Built(built) = self.types.get(name)? else {
            return None;
        };
        Some(Built {
            schema: built.schema.clone(),
            required: built.required,
            size,
            depth,
        })
    }

    fn unknown(&mut self, name: &str, path: &Path, span: &Range<usize>) {
        let complaint = Complaint::new(span.clone(), format!("unknown type: {name}"));
        // No one reads a hint that is not told.
        let hint = match self.problems.is_full() {
            true => None,
            false => hint::for_type(name, self.types.keys().copied()),
        };
        let complaint = Complaint { hint, ..complaint };
        self.problems.complain(path, complaint);
    }

    /// Whether so much more may be built, and be so deep. What is not is reported, the size once.
    fn affords(
        &mut self,
        size: usize,
        depth: usize,
        path: &Path,
        span: Option<&Range<usize>>,
    ) -> bool {
        let problem = |message, hint: Option<&str>| Problem {
            path: path.clone(),
            span: span.cloned(),
            message,
            hint: hint.map(str::to_owned),
        };
        if depth > MAX_NESTING {
            let message = format!("the schema is nested deeper than {MAX_NESTING} levels here");
            self.problems.add(problem(message, None));
            return false;
        }
        let Some(left) = self.left else {
            return false;
        };
        self.left = left.checked_sub(size);
        if self.left.is_none() {
            let message = format!("the schema is larger than {MAX_SIZE} bytes, written out");
            let hint = "custom types are written out wherever they are used: use them less often";
            self.problems.add(problem(message, Some(hint)));
        }
        self.left.is_some()
    }
}

/// A schema of a type, with one more keyword.
fn node(kind: &str, more: Option<(&str, Value)>) -> Map<String, Value> {
    let kind = ("type".to_owned(), kind.into());
    let more = more.map(|(keyword, value)| (keyword.to_owned(), value));
    std::iter::once(kind).chain(more).collect()
}
