//! Which type belongs where.

use std::sync::OnceLock;

use deltaplane_expr::{Absent, Decl, Exposure, Reading, Type, escape};

use super::draft::reference_schema;
use crate::template::Step;

/// Whether it can be a condition.
pub(super) fn is_bool(ty: &Type) -> bool {
    if let Type::Optional(inner) = ty {
        return **inner == Type::Bool;
    }
    *ty == Type::Bool
}

/// The types of the fields of references.
fn reference_type() -> &'static Type {
    static DECL: OnceLock<Option<Decl>> = OnceLock::new();
    let decl = DECL.get_or_init(|| {
        let reading = Reading {
            absent: Absent::Waits,
            exposure: Exposure::Open,
            resource: false,
        };
        Decl::of_schema(reference_schema(), "reference", reading)
    });
    decl.as_ref().map_or(&Type::Dyn, Decl::ty)
}

/// What belongs at a place of a reference. A whole selector may come from an object of any shape.
pub(super) fn expected_in_reference(steps: &[Step]) -> Type {
    match steps {
        [Step::Key(key)] if &**key == "selector" => Type::map(Type::String, Type::Dyn),
        steps => expected(reference_type(), steps),
    }
}

/// What belongs at a place. What is not declared is anything.
pub(super) fn expected(root: &Type, steps: &[Step]) -> Type {
    let mut ty = root.clone();
    for step in steps {
        ty = match (&ty, step) {
            (Type::Object(object), Step::Key(key)) => {
                let field = escape(key).and_then(|name| object.field(&name));
                field.map_or(Type::Dyn, |field| field.decl().ty().clone())
            }
            (Type::Map(pair), Step::Key(_)) => pair.1.clone(),
            (Type::List(items), Step::Index(_)) => (**items).clone(),
            _ => return Type::Dyn,
        };
    }
    ty
}

/// What people call a type.
pub(super) fn named(ty: &Type) -> String {
    if let Type::Object(object) = ty {
        return format!("an object ({})", object.name());
    }
    ty.to_string()
}

/// How to make one type of the other.
pub(super) fn conversion(from: &Type, to: &Type) -> Option<String> {
    let function = match (from, to) {
        (Type::Int | Type::Uint | Type::Double | Type::Bool, Type::String) => "string",
        (Type::Timestamp | Type::Duration, Type::String) => "string",
        (Type::Int | Type::Uint | Type::String, Type::Double) => "double",
        (Type::Double | Type::String, Type::Int) => "int",
        (Type::String, Type::Bool) => "bool",
        _ => return None,
    };
    Some(format!("write {function}(…) around it"))
}
