//! Values seen through a schema, as structured merge sees them: which fields a value has, how two
//! values differ, how they merge, and what is left when fields are taken away.
//!
//! The behaviour is that of `sigs.k8s.io/structured-merge-diff`, down to its corner cases (nulls,
//! empty containers, duplicate items, values whose type changes), because owners of fields depend
//! on it; `cargo xtask conformance apply` runs that project's own sequences.
//!
//! Not here: owners (`managed`).

mod check;
mod compare;
mod fields;
mod merge;
mod reconcile;
mod remove;

use std::fmt;

use serde_json::Value;

use crate::fieldset::{Key, PathElement, Set};
use crate::node::{AdditionalId, Kind, ListType, MapType, Node, NodeId};

pub use check::{Duplicates, check};
pub use compare::{Comparison, compare};
pub use fields::fields;
pub use merge::merge;
pub use reconcile::reconcile;
pub use remove::{extract_items, remove_items};

/// Where a value does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeErrors(Vec<TypeError>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct TypeError {
    path: String,
    message: String,
}

/// What a node may hold; more than one where the type is open.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shapes {
    map: bool,
    list: bool,
    scalar: Option<Scalar>,
}

/// The shape that counts for a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Map,
    Scalar(Scalar),
    List,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

// === impl TypeErrors ===

impl TypeErrors {
    fn one(message: impl Into<String>) -> Self {
        Self(vec![TypeError {
            path: String::new(),
            message: message.into(),
        }])
    }

    fn none() -> Self {
        Self(Vec::new())
    }

    fn push(&mut self, message: String) {
        self.0.push(TypeError {
            path: String::new(),
            message,
        });
    }

    /// Takes over errors from below `element`.
    fn adopt(&mut self, element: &PathElement, below: Result<(), Self>) {
        let Err(below) = below else { return };
        self.0.extend(below.0.into_iter().map(|mut error| {
            error.path.insert_str(0, &element.to_string());
            error
        }));
    }

    fn into_result(self) -> Result<(), Self> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(self),
        }
    }
}

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "{only}");
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for TypeErrors {}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

// === impl Shapes ===

impl Shapes {
    fn of(node: Node<'_>) -> Self {
        let scalar = |scalar| Self {
            map: false,
            list: false,
            scalar: Some(scalar),
        };
        match node.kind() {
            Kind::Any => Self {
                map: true,
                list: true,
                scalar: Some(Scalar::Untyped),
            },
            Kind::Object => Self {
                map: true,
                list: false,
                scalar: None,
            },
            Kind::Array => Self {
                map: false,
                list: true,
                scalar: None,
            },
            Kind::Integer | Kind::Number => scalar(Scalar::Numeric),
            Kind::Boolean => scalar(Scalar::Boolean),
            Kind::String => match node.format() {
                None | Some("byte") => scalar(Scalar::String),
                Some(_) => scalar(Scalar::Untyped),
            },
            Kind::IntOrString | Kind::Quantity => scalar(Scalar::Untyped),
        }
    }

    /// Only the shape that `value` has, if it is one of these; all of them otherwise.
    fn deduced(self, value: Option<&Value>) -> Self {
        let none = Self {
            map: false,
            list: false,
            scalar: None,
        };
        match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if self.scalar.is_some() => {
                Self {
                    scalar: self.scalar,
                    ..none
                }
            }
            Some(Value::Array(_)) if self.list => Self { list: true, ..none },
            Some(Value::Object(_)) if self.map => Self { map: true, ..none },
            Some(_) | None => self,
        }
    }

    /// The shape that goes first.
    fn first(self) -> Shape {
        match self.scalar {
            _ if self.map => Shape::Map,
            Some(scalar) => Shape::Scalar(scalar),
            None => Shape::List,
        }
    }
}

/// The schema of the entries of `node` that it does not declare; none if it may have no others.
fn element(node: Node<'_>) -> Option<Node<'_>> {
    let data = node.data();
    match data.additional {
        AdditionalId::Schema(id) => Some(node.with(id)),
        AdditionalId::Any => Some(node.with(NodeId::DEDUCED)),
        AdditionalId::Denied => None,
        AdditionalId::Unspecified => {
            (data.flags.open || data.properties.is_empty()).then(|| node.with(NodeId::DEDUCED))
        }
    }
}

/// The schema of the entry `name`, and whether it is declared. What the schema does not know is
/// treated as untyped: values are checked where they come in.
fn entry<'a>(node: Node<'a>, name: &str) -> (Node<'a>, bool) {
    match node.property(name) {
        Some(property) => (property, true),
        None => (element(node).unwrap_or(node.with(NodeId::DEDUCED)), false),
    }
}

/// The schema of a list's items.
fn items(node: Node<'_>) -> Node<'_> {
    node.items().unwrap_or(node.with(NodeId::UNTYPED))
}

fn is_atomic_map(node: Node<'_>) -> bool {
    node.map_type() == MapType::Atomic
}

fn is_atomic_list(node: Node<'_>) -> bool {
    node.list_type() == ListType::Atomic
}

/// Null and absent are both the empty map.
fn as_map(value: Option<&Value>) -> Option<&serde_json::Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// Visits every field that either object has, with its two values.
fn in_either(
    left: Option<&serde_json::Map<String, Value>>,
    right: Option<&serde_json::Map<String, Value>>,
    mut visit: impl FnMut(&str, Option<&Value>, Option<&Value>),
) {
    for (name, value) in left.into_iter().flatten() {
        visit(name, Some(value), right.and_then(|right| right.get(name)));
    }
    for (name, value) in right.into_iter().flatten() {
        if left.is_none_or(|left| !left.contains_key(name)) {
            visit(name, None, Some(value));
        }
    }
}

fn as_list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What identifies an item of a granular list.
fn item_element(list: Node<'_>, item: &Value) -> Result<PathElement, String> {
    match list.list_type() {
        ListType::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListType::Set => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => {
                Err("not supported: associative list with lists as elements".to_owned())
            }
            Value::Null => Err(
                "associative list without keys has an element that's an explicit null".to_owned(),
            ),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Ok(PathElement::Value(Box::new(item.clone())))
            }
        },
        ListType::Map(keys) => keyed_element(list, keys, item),
    }
}

fn keyed_element(list: Node<'_>, keys: &[Box<str>], item: &Value) -> Result<PathElement, String> {
    let map = match item {
        Value::Object(map) => map,
        Value::Null => {
            return Err("associative list with keys may not have a null element".to_owned());
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err("associative list with keys may not have non-map elements".to_owned());
        }
    };
    let fields = keys.iter().filter_map(|key| {
        let value = map
            .get(&**key)
            .or_else(|| items(list).property(key).and_then(Node::default))?;
        Some((key.clone(), value.clone()))
    });
    Key::new(fields).map(PathElement::Key).ok_or_else(|| {
        let names = keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(" ");
        format!(
            "associative list with keys has an element that omits all key fields [{names}] (and doesn't have default values for any key fields)"
        )
    })
}

fn check_scalar(scalar: Scalar, value: Option<&Value>) -> Result<(), String> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(());
    };
    let (fits, expected) = match scalar {
        Scalar::Numeric => (value.is_number(), "numeric (int or float)"),
        Scalar::String => (value.is_string(), "string"),
        Scalar::Boolean => (value.is_boolean(), "boolean"),
        Scalar::Untyped => (!value.is_array() && !value.is_object(), "any scalar"),
    };
    match fits {
        true => Ok(()),
        false => Err(format!("expected {expected}, got {}", kind_name(value))),
    }
}

fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

/// The set and, as members too, all declared fields that lead to its members: a field that holds
/// something of the set goes with it.
pub(crate) fn with_declared_parents(set: &Set, node: Option<Node<'_>>) -> Set {
    let mut out = Set::new();
    let shapes = node.map(Shapes::of);
    for entry in set.entries() {
        let (child, declared) = match (&entry.element, node, shapes) {
            (PathElement::Field(name), Some(node), Some(Shapes { map: true, .. })) => {
                match node.property(name) {
                    Some(property) => (Some(property), true),
                    None => (element(node), false),
                }
            }
            (PathElement::Key(_), Some(node), Some(Shapes { list: true, .. })) => {
                (Some(items(node)), false)
            }
            (_, _, _) => (None, false),
        };
        let member = entry.member || (declared && !entry.children.is_empty());
        out.put(
            entry.element.clone(),
            member,
            with_declared_parents(&entry.children, child),
        );
    }
    out
}
