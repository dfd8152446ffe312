//! The schema of a status from the types of its expressions, as kro infers it.

use deltaplane_expr::Type;
use serde_json::{Value as Json, json};

use crate::template::Step;

/// Schemas of more parts, or deeper ones, come from types that contain themselves.
const MOST: usize = 10_000;
const DEEPEST: usize = 64;

/// The type contains itself, or is too large to be written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its type contains itself, or is too large, so that it has no schema")]
pub(crate) struct Endless;

/// The schema of a value.
pub(crate) fn schema_of(ty: &Type) -> Result<Json, Endless> {
    Inference {
        left: MOST,
        depth: 0,
        declared: false,
    }
    .schema(ty)
}

struct Inference {
    left: usize,
    depth: usize,
    /// Whether this is inside of an object: there, kro knows fewer types.
    declared: bool,
}

impl Inference {
    fn schema(&mut self, ty: &Type) -> Result<Json, Endless> {
        self.left = self.left.checked_sub(1).ok_or(Endless)?;
        if self.depth == DEEPEST {
            return Err(Endless);
        }
        self.depth += 1;
        let schema = self.parts(ty);
        self.depth -= 1;
        schema
    }

    fn parts(&mut self, ty: &Type) -> Result<Json, Endless> {
        Ok(match ty {
            Type::Bool => json!({"type": "boolean"}),
            Type::Int | Type::Uint => json!({"type": "integer"}),
            Type::Double => json!({"type": "number"}),
            Type::String => json!({"type": "string"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::List(items) => json!({"type": "array", "items": self.schema(items)?}),
            Type::Map(pair) => {
                json!({"type": "object", "additionalProperties": self.schema(&pair.1)?})
            }
            Type::Object(object) => {
                let outside = std::mem::replace(&mut self.declared, true);
                let mut properties = serde_json::Map::new();
                for field in object.fields() {
                    properties.insert(field.key().to_owned(), self.schema(field.decl().ty())?);
                }
                self.declared = outside;
                match properties.is_empty() {
                    true => json!({"type": "object"}),
                    false => json!({"type": "object", "properties": properties}),
                }
            }
            Type::Dyn | Type::Error => open(),
            Type::Null => described("null type - any value allowed"),
            Type::Timestamp if !self.declared => json!({
                "type": "string",
                "format": "date-time",
                "description": "Timestamp representing a creation time",
            }),
            Type::Timestamp | Type::Duration if self.declared => open(),
            Type::Opaque(_) => json!({"type": "object", "additionalProperties": true}),
            other @ (Type::Timestamp
            | Type::Duration
            | Type::Wrapper(_)
            | Type::Optional(_)
            | Type::Type(_)
            | Type::Param(_)) => described(&format!("unknown CEL type: {other}")),
        })
    }
}

fn open() -> Json {
    json!({"x-kubernetes-preserve-unknown-fields": true})
}

fn described(description: &str) -> Json {
    json!({"description": description, "x-kubernetes-preserve-unknown-fields": true})
}

/// Puts the schema of one value into that of the whole, making objects and lists on the way. All
/// items of a list have the schema of the last one.
pub(crate) fn put(schema: &mut Json, steps: &[Step], leaf: Json) {
    let Some((step, rest)) = steps.split_first() else {
        *schema = leaf;
        return;
    };
    let (ty, child) = match step {
        Step::Key(key) => ("object", ["properties", key]),
        Step::Index(_) => ("array", ["items", ""]),
    };
    if schema.get("type").and_then(Json::as_str) != Some(ty) {
        *schema = json!({"type": ty});
    }
    let inner = &mut schema[child[0]];
    match step {
        Step::Key(key) => {
            if !inner.is_object() {
                *inner = json!({});
            }
            put(&mut inner[&**key], rest, leaf);
        }
        Step::Index(_) => put(inner, rest, leaf),
    }
}
