//! What the real server makes of an object of a built-in kind before anyone looks at it.
//!
//! Two things, in one walk over the Go types' tables:
//! - **Normal form.** Go reads JSON into structs and prints them again. Nulls vanish; empty strings,
//!   zeros, `false`, empty lists and maps vanish where the type says `omitempty`; structs that are
//!   not pointers appear as `{}`; times are in UTC and whole seconds; quantities are canonical.
//! - **Defaults.** Fixed values for absent fields (`fixed`), and rules that look at other fields
//!   (`rules`), outer objects before inner ones.
//!
//! Zero values of required fields are not filled in, except inside `status`, and an empty string in
//! one is taken out: validation must still see that a name is missing. Unknown fields stay: dropping or reporting them is the schema's job.
//!
//! Not here: what the real server allocates or admits (cluster IPs, tolerations, priorities), and
//! validation. `applying twice` changes nothing, which a test asserts.

mod fixed;
mod rules;

use deltaplane_api::kind::ApiVersion;
use deltaplane_api::quantity::{self, Quantity};
use deltaplane_api::time::Time;
use serde_json::{Map, Value};

use super::{Kind, Pack};
use crate::protobuf::Tables;
use crate::protobuf::tables::{FieldType, Item, MessageId, Presence, Shape, Special};

type Object = Map<String, Value>;

/// The defaults of every message, by its index.
#[derive(Debug)]
pub(crate) struct Rules {
    messages: Vec<Rule>,
}

/// The defaults of one message.
#[derive(Debug, Default)]
struct Rule {
    /// Values for fields that are absent.
    fixed: Vec<(&'static str, Value)>,
    /// Runs after the fixed ones, before inner messages are visited.
    conditional: Option<fn(&mut Object)>,
    /// Are quantities in maps compute resources, which are kept in thousandths?
    rounds: bool,
}

/// Where in an object the walk is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Root,
    Spec,
    Status,
}

struct Walk<'p> {
    tables: &'p Tables,
    rules: &'p Rules,
}

/// Brings an object of a built-in kind into the form in which the real server would keep it.
pub fn apply(pack: &Pack, kind: &Kind, object: &mut Value) {
    let version = ApiVersion::new(kind.group, kind.version);
    if let (Some(message), Value::Object(object)) = (pack.tables.find(&version, kind.kind), object)
    {
        let walk = Walk {
            tables: &pack.tables,
            rules: &pack.rules,
        };
        walk.message(message, object, Place::Root);
    }
}

// === impl Rules ===

impl Rules {
    pub(crate) fn new(tables: &Tables) -> Self {
        let rule = |name: &str| Rule {
            fixed: fixed::of(name),
            conditional: rules::of(name),
            rounds: name.starts_with("k8s.io.api.core.v1."),
        };
        Self {
            messages: tables.names().map(rule).collect(),
        }
    }

    fn of(&self, id: MessageId) -> &Rule {
        &self.messages[id.index()]
    }

    /// Every message name that a default refers to; a test compares them with the tables.
    #[cfg(test)]
    fn mentioned() -> impl Iterator<Item = String> {
        fixed::names().chain(rules::names())
    }
}

// === impl Walk ===

impl Walk<'_> {
    fn message(&self, id: MessageId, object: &mut Object, place: Place) {
        let message = self.tables.message(id);
        for field in message.fields.iter().filter(|field| !field.json.is_empty()) {
            shallow(field, object, place);
        }
        let rule = self.rules.of(id);
        for (name, value) in &rule.fixed {
            let is_value = message
                .fields
                .iter()
                .any(|field| field.json == *name && field.presence == Presence::Always);
            if object
                .get(*name)
                .is_none_or(|found| is_value && is_zero(found))
            {
                object.insert((*name).to_owned(), value.clone());
            }
        }
        if let Some(conditional) = rule.conditional {
            conditional(object);
        }
        for field in &message.fields {
            self.field(field, object, place, rule.rounds);
        }
    }

    /// Visits what a field holds.
    fn field(&self, field: &FieldType, object: &mut Object, place: Place, rounds: bool) {
        let inner = match (place, field.json) {
            (Place::Root, "status") | (Place::Status, _) => Place::Status,
            (Place::Root, "") => Place::Root,
            (Place::Root | Place::Spec, _) => Place::Spec,
        };
        match (field.item, field.json) {
            (Item::Message(id), "") => self.message(id, object, place),
            (Item::Message(id), name) => {
                each(field.shape, object.get_mut(name), |value| {
                    if let Value::Object(object) = value {
                        self.message(id, object, inner);
                    }
                });
            }
            (Item::Special(Special::Quantity), name) => {
                let rounds = rounds && field.shape == Shape::Map;
                each(field.shape, object.get_mut(name), |value| {
                    normal_quantity(value, rounds)
                });
            }
            (Item::Special(Special::Time), name) => {
                each(field.shape, object.get_mut(name), |value| {
                    normal_time(value, |time| time.to_string())
                });
            }
            (Item::Special(Special::MicroTime), name) => {
                each(field.shape, object.get_mut(name), |value| {
                    normal_time(value, Time::micro)
                });
            }
            (
                Item::Bool
                | Item::Int32
                | Item::Int64
                | Item::Double
                | Item::String
                | Item::Bytes
                | Item::Special(_),
                _,
            ) => {}
        }
    }
}

/// Go's omission rules for one field, and the structs that it always prints.
fn shallow(field: &FieldType, object: &mut Object, place: Place) {
    let name = field.json;
    match object.get(name) {
        Some(Value::Null) if field.item != Item::Special(Special::Json) => {
            object.remove(name);
        }
        Some(value) if is_omitted(field, value) || is_missing(field, value, place) => {
            object.remove(name);
        }
        Some(_) | None => {}
    }
    if !object.contains_key(name)
        && let Some(zero) = always(field, place)
    {
        object.insert(name.to_owned(), zero);
    }
}

fn is_omitted(field: &FieldType, value: &Value) -> bool {
    if field.presence != Presence::OmitEmpty {
        return false;
    }
    match (field.shape, field.item) {
        (Shape::List | Shape::Map, _) | (Shape::One, Item::Special(Special::Strings)) => {
            is_zero(value)
        }
        (Shape::One, Item::Message(_) | Item::Special(_)) => false,
        (
            Shape::One,
            Item::Bool | Item::Int32 | Item::Int64 | Item::Double | Item::String | Item::Bytes,
        ) => is_zero(value),
    }
}

/// Go cannot tell an empty string from a missing one, and neither may validation: a client that
/// sends protobuf always sends it.
fn is_missing(field: &FieldType, value: &Value, place: Place) -> bool {
    let required = field.presence == Presence::Always && field.shape == Shape::One;
    required && field.item == Item::String && place != Place::Status && is_zero(value)
}

/// What Go prints for an absent field. Zeros of required fields only where nobody validates them.
fn always(field: &FieldType, place: Place) -> Option<Value> {
    let by_value = matches!(field.presence, Presence::Always | Presence::OmitEmpty);
    match (field.shape, field.item, field.presence) {
        (Shape::List | Shape::Map, ..) => None,
        (Shape::One, Item::Message(_), _) if by_value => Some(Value::Object(Object::new())),
        (Shape::One, Item::Special(Special::Quantity), Presence::OmitEmpty) => {
            Some(Value::from("0"))
        }
        (Shape::One, Item::Bool, Presence::Always) if place == Place::Status => {
            Some(Value::Bool(false))
        }
        (Shape::One, Item::Int32 | Item::Int64, Presence::Always) if place == Place::Status => {
            Some(Value::from(0))
        }
        (Shape::One, Item::String, Presence::Always) if place == Place::Status => {
            Some(Value::from(""))
        }
        (Shape::One, ..) => None,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

fn each(shape: Shape, value: Option<&mut Value>, mut visit: impl FnMut(&mut Value)) {
    match (shape, value) {
        (_, None) => {}
        (Shape::One, Some(value)) => visit(value),
        (Shape::List, Some(Value::Array(list))) => list.iter_mut().for_each(visit),
        (Shape::Map, Some(Value::Object(map))) => map.values_mut().for_each(visit),
        // Of the wrong type: validation will say so.
        (Shape::List | Shape::Map, Some(_)) => {}
    }
}

/// Text that is not a quantity stays: decoding refused it in what users send.
fn normal_quantity(value: &mut Value, rounds: bool) {
    let text = match &*value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return,
    };
    let Ok(canonical) = quantity::canonical(&text) else {
        return;
    };
    let rounded = match canonical.parse::<Quantity>() {
        Ok(quantity) if rounds && quantity.round_up_to_milli() != quantity => {
            quantity.round_up_to_milli().to_string()
        }
        Ok(_) | Err(_) => canonical.into_owned(),
    };
    *value = Value::String(rounded);
}

fn normal_time(value: &mut Value, format: impl Fn(Time) -> String) {
    if let Some(Ok(time)) = value.as_str().map(str::parse::<Time>) {
        *value = Value::String(format(time));
    }
}

#[cfg(test)]
mod tests;
