//! What evaluations come to, in forms that can be compared.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what holds nothing is all alike here"
)]

use deltaplane_expr::{Bindings, Budget, Eval, Meter, Program, Reason, Type, Value};

/// An evaluation: what it came to, what it cost, and how much work it was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ran {
    pub(crate) outcome: String,
    pub(crate) cost: u64,
    pub(crate) steps: u64,
}

pub(crate) fn run(program: &Program, bindings: &Bindings<'_>, budget: Budget) -> Ran {
    run_metered(program, bindings, &mut Meter::new(budget))
}

pub(crate) fn run_metered<'a>(
    program: &'a Program,
    bindings: &Bindings<'a>,
    meter: &mut Meter,
) -> Ran {
    let outcome = told(&program.eval_metered(bindings, meter));
    Ran {
        outcome,
        cost: meter.cost(),
        steps: meter.steps(),
    }
}

/// An outcome with all that is in it: places in the text aside.
pub(crate) fn told(outcome: &Eval<'_>) -> String {
    match outcome {
        Eval::Value(value) => written(value),
        Eval::Waiting(path) => format!("waiting for {path}"),
        Eval::Failed(failure) => format!("failed: {:?}", failure.reason),
        Eval::Stopped(stopped) => format!("stopped: {stopped:?}"),
    }
}

/// A value with all that is in it, however it is kept: read from data, shared or computed.
pub(crate) fn written(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.as_str()),
        Value::List(list) => {
            let items = list.iter().map(|item| match item {
                Ok(item) => written(&item),
                Err(fault) => format!("<{fault}>"),
            });
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Map(map) => {
            let entry = |key: &Value<'_>| match map.get(key) {
                Ok(Some(value)) => format!("{}: {}", written(key), written(&value)),
                Ok(None) => format!("{}: <nothing>", written(key)),
                Err(fault) => format!("{}: <{fault}>", written(key)),
            };
            let entries = map.keys().iter().map(entry).collect::<Vec<_>>();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(Some(inner)) => format!("optional({})", written(&inner.value)),
        other => format!("{other:?}"),
    }
}

/// Whether a failure is one that a checker should have prevented.
pub(crate) fn is_for_types(reason: &Reason) -> bool {
    match reason {
        Reason::NoSuchOverload(_)
        | Reason::NoSuchVariable(_)
        | Reason::BadKey(_)
        | Reason::Unbound(_) => true,
        Reason::NoSuchKey(_)
        | Reason::OutOfBounds(_)
        | Reason::DivisionByZero
        | Reason::ModulusByZero
        | Reason::Overflow(_)
        | Reason::Conversion { .. }
        | Reason::RepeatedKey(_)
        | Reason::EmptyOptional
        | Reason::BadData(_)
        | Reason::Invalid(_)
        | Reason::TooDeep => false,
    }
}

/// Whether a value is of a type, with all that is in it.
pub(crate) fn fits(value: &Value<'_>, ty: &Type) -> bool {
    match (ty, value) {
        (Type::Dyn, _)
        | (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Type(_), Value::Type(_))
        | (Type::Optional(_), Value::Optional(None)) => true,
        (Type::List(item), Value::List(list)) => {
            list.iter().all(|one| one.is_ok_and(|one| fits(&one, item)))
        }
        (Type::Map(pair), Value::Map(map)) => map.keys().iter().all(|key| {
            let value = map.get(key).ok().flatten();
            fits(key, &pair.0) && value.is_some_and(|value| fits(&value, &pair.1))
        }),
        (Type::Object(object), Value::Map(map)) => object.fields().iter().all(|field| {
            let value = map.field(field.name());
            value.is_ok_and(|value| value.is_none_or(|value| fits(&value, field.decl().ty())))
        }),
        (Type::Optional(inner), Value::Optional(Some(some))) => fits(&some.value, inner),
        (Type::Opaque(_), Value::Opaque(opaque)) => opaque.ty() == *ty,
        _ => false,
    }
}

/// Whether `dyn` is anywhere in a type. The type of a type says nothing about values.
pub(crate) fn has_dyn(ty: &Type) -> bool {
    match ty {
        Type::Dyn => true,
        Type::List(inner) | Type::Optional(inner) => has_dyn(inner),
        Type::Map(pair) => has_dyn(&pair.0) || has_dyn(&pair.1),
        Type::Opaque(opaque) => opaque.params.iter().any(has_dyn),
        _ => false,
    }
}
