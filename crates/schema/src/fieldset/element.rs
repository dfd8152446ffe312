//! One step of a path.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use crate::order;

/// One step of a path into an object.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of an object or an entry of a map.
    Field(Box<str>),
    /// The item of a list whose key fields have these values.
    Key(Key),
    /// The item of a set with this value.
    Value(Box<Value>),
    /// The item at this index.
    Index(i64),
}

/// Names and values of the fields that identify a list's item, sorted by name.
#[derive(Clone, Debug)]
pub struct Key(Box<[(Box<str>, Value)]>);

// === impl PathElement ===

impl PathElement {
    /// The field `name`.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// The name, if this is a field.
    pub fn as_field(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name),
            Self::Key(_) | Self::Value(_) | Self::Index(_) => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => a.cmp(b),
            (Self::Value(a), Self::Value(b)) => order::compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (Self::Field(_) | Self::Key(_) | Self::Value(_) | Self::Index(_), _) => {
                self.rank().cmp(&other.rank())
            }
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(key) => {
                f.write_str("[")?;
                for (index, (name, value)) in key.0.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={}", Shown(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", Shown(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

// === impl Key ===

impl Key {
    /// A key of these fields; `None` without any.
    pub fn new(fields: impl IntoIterator<Item = (Box<str>, Value)>) -> Option<Self> {
        let mut fields: Vec<_> = fields.into_iter().collect();
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        (!fields.is_empty()).then(|| Self(fields.into()))
    }

    /// The fields, sorted by name.
    pub fn fields(&self) -> &[(Box<str>, Value)] {
        &self.0
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let fields = self
            .0
            .iter()
            .zip(&other.0)
            .map(|((a_name, a), (b_name, b))| {
                a_name.cmp(b_name).then_with(|| order::compare(a, b))
            });
        fields
            .into_iter()
            .find(|order| order.is_ne())
            .unwrap_or_else(|| self.0.len().cmp(&other.0.len()))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// A value as paths show it: strings quoted, objects as `name=value`.
struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Array(list) => {
                f.write_str("[")?;
                for (index, item) in list.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{}", Shown(item))?;
                }
                f.write_str("]")
            }
            Value::Object(map) => map
                .iter()
                .try_for_each(|(name, value)| write!(f, "{name}={}", Shown(value))),
            scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                write!(f, "{scalar}")
            }
        }
    }
}
