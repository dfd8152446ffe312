//! What the source says, before names mean anything: fields in structs, their types and markers.

use deltaplane_api::field::Path;
use serde_json::{Map, Value};

use super::expr::{self, Base, TypeExpr};
use super::marker::{self, Marker};
use super::{MAX_NESTING, Problems};

/// A struct in a struct nests the JSON of the schema by two levels.
const MAX_STRUCTS: usize = MAX_NESTING / 2;

/// What stands for a field or a type.
pub(super) enum Shape<'v> {
    Field(Field<'v>),
    Struct(Fields<'v>),
    /// It was reported.
    Broken,
}

/// The fields of a struct, with their names and paths.
pub(super) type Fields<'v> = Vec<(&'v str, Path, Shape<'v>)>;

/// `type | markers`.
pub(super) struct Field<'v> {
    pub(super) expr: TypeExpr<'v>,
    pub(super) markers: Vec<Marker>,
    /// Of the text, in bytes.
    pub(super) length: usize,
}

/// A custom type.
pub(super) struct Type<'v> {
    pub(super) name: &'v str,
    pub(super) path: Path,
    pub(super) shape: Shape<'v>,
}

/// The custom types, sorted by name.
pub(super) fn types<'v>(
    raw: Option<&'v Value>,
    path: &Path,
    problems: &mut Problems,
) -> Vec<Type<'v>> {
    let fields = fields(raw, path, problems);
    let mut types: Vec<Type<'v>> = fields
        .into_iter()
        .map(|(name, path, shape)| Type { name, path, shape })
        .collect();
    types.sort_by_key(|one| one.name);
    types
}

/// The fields of `spec`, or the types of `types`: none when it is absent.
pub(super) fn fields<'v>(
    raw: Option<&'v Value>,
    path: &Path,
    problems: &mut Problems,
) -> Fields<'v> {
    match raw {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(map)) => structure(map, path, 1, problems),
        Some(other) => {
            problems.push(path, format!("must be a map, not {}", what(other)));
            Vec::new()
        }
    }
}

fn structure<'v>(
    map: &'v Map<String, Value>,
    path: &Path,
    level: usize,
    problems: &mut Problems,
) -> Fields<'v> {
    map.iter()
        .map(|(name, raw)| {
            let path = path.child(name);
            let shape = shape(raw, &path, level, problems);
            (name.as_str(), path, shape)
        })
        .collect()
}

fn shape<'v>(raw: &'v Value, path: &Path, level: usize, problems: &mut Problems) -> Shape<'v> {
    match raw {
        Value::String(text) => field(text, path, problems),
        Value::Object(_) if level >= MAX_STRUCTS => {
            problems.push(path, format!("nested deeper than {MAX_STRUCTS} levels"));
            Shape::Broken
        }
        Value::Object(map) => Shape::Struct(structure(map, path, level + 1, problems)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            let message = format!("must be a type or a map of fields, not {}", what(raw));
            problems.push(path, message);
            Shape::Broken
        }
    }
}

fn field<'v>(text: &'v str, path: &Path, problems: &mut Problems) -> Shape<'v> {
    let end = text.find('|').unwrap_or(text.len());
    let expr = expr::parse(text, end);
    let (markers, complaints) = match end < text.len() {
        true => marker::parse(text, end + 1),
        false => Default::default(),
    };
    let whole = complaints.is_empty();
    for complaint in complaints {
        problems.complain(path, complaint);
    }
    match expr {
        Ok(expr) => Shape::Field(Field {
            expr,
            // Some of them would only be misunderstood.
            markers: if whole { markers } else { Vec::new() },
            length: text.len(),
        }),
        Err(complaint) => {
            problems.complain(path, complaint);
            Shape::Broken
        }
    }
}

// === impl Shape ===

impl<'v> Shape<'v> {
    /// The custom types that it names.
    pub(super) fn names(&self, found: &mut Vec<&'v str>) {
        match self {
            Self::Broken => {}
            Self::Field(field) => {
                if let Base::Custom(name) = field.expr.base {
                    found.push(name);
                }
            }
            Self::Struct(fields) => fields.iter().for_each(|(_, _, shape)| shape.names(found)),
        }
    }
}

/// What a value is, in words.
pub(super) fn what(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
