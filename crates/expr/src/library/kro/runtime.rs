//! Conditions: made, and found on an object.

use serde_json::{Value as Json, json};

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::host::Opaque;
use crate::meter::Meter;
use crate::syntax::NEW_CONDITION;
use crate::types::Type;
use crate::value::{Map, Value};

/// The name of the type of conditions.
pub const CONDITION: &str = "kro.run.Condition";
/// All of them are strings.
pub(in crate::library) const FIELDS: [&str; 4] = ["type", "status", "reason", "message"];

pub(super) const ROWS: &[Row] = &[
    Row::new(
        NEW_CONDITION,
        "runtime_new_condition",
        "(string, string, string, string) -> kro.run.Condition",
        Cost::Unit,
        new_condition,
    ),
    Row::new(
        "runtime.condition",
        "runtime_condition_dyn_string",
        "(dyn, string) -> kro.run.Condition",
        Cost::Unit,
        condition,
    ),
];

/// A condition that an expression made.
#[derive(Debug, PartialEq, Eq)]
struct Condition([String; 4]);

impl Opaque for Condition {
    fn ty(&self) -> Type {
        Type::opaque(CONDITION)
    }

    fn equals(&self, other: &dyn Opaque) -> Result<bool, Box<Fault>> {
        let other: &dyn std::any::Any = other;
        Ok(other.downcast_ref::<Self>() == Some(self))
    }

    fn weight(&self) -> u64 {
        self.0.iter().map(|field| field.len() as u64).sum()
    }

    fn field(&self, name: &str) -> Option<Value<'static>> {
        let at = FIELDS.iter().position(|field| *field == name)?;
        Some(Value::string(self.0[at].as_str()))
    }

    fn to_json(&self) -> Option<Json> {
        let [kind, status, reason, message] = &self.0;
        Some(json!({"type": kind, "status": status, "reason": reason, "message": message}))
    }
}

fn new_condition<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let texts: Option<Vec<String>> = args
        .iter()
        .map(|arg| arg.as_str().map(str::to_owned))
        .collect();
    match texts.map(<[String; 4]>::try_from) {
        Some(Ok(fields)) => {
            if fields[0].is_empty() {
                return Err(Fault::invalid("a condition's type must not be empty"));
            }
            if !matches!(fields[1].as_str(), "True" | "False" | "Unknown") {
                return Err(Fault::invalid(format!(
                    "a condition's status cannot be {:?}",
                    fields[1]
                )));
            }
            Ok(Value::opaque(Condition(fields)))
        }
        Some(Err(_)) | None => Err(no_overload("runtime.newCondition", args)),
    }
}

/// The condition of a type among those of an object; all of its fields are empty when there is
/// none.
fn condition<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Map(object), Value::String(kind)] = args else {
        return Err(no_overload("runtime.condition", args));
    };
    let mut fields = [const { String::new() }; 4];
    if let Some(condition) = find(meter, object, kind.as_str())? {
        for (name, field) in FIELDS.iter().zip(&mut fields) {
            let value = condition.field(name)?;
            value
                .as_ref()
                .and_then(Value::as_str)
                .unwrap_or_default()
                .clone_into(field);
        }
    }
    Ok(Value::opaque(Condition(fields)))
}

fn find<'a>(
    meter: &mut Meter,
    object: &Map<'a>,
    kind: &str,
) -> Result<Option<Map<'a>>, Box<Fault>> {
    let Some(Value::Map(status)) = object.field("status")? else {
        return Ok(None);
    };
    let Some(Value::List(conditions)) = status.field("conditions")? else {
        return Ok(None);
    };
    for condition in conditions.iter() {
        meter.step(1)?;
        if let Value::Map(condition) = condition?
            && condition.field("type")?.as_ref().and_then(Value::as_str) == Some(kind)
        {
            return Ok(Some(condition));
        }
    }
    Ok(None)
}
