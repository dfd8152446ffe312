//! Values at run time: computed ones, and views of JSON that is never converted as a whole.
//!
//! Invariants: a value is at most `MAX_DEPTH` containers deep, so that comparing and dropping
//! it needs little stack; lists and maps are shared, never copied, when a value is cloned.

mod compare;
mod json;
mod lazy;
mod list;
mod map;

use std::sync::Arc;

use crate::fault::{Fault, Reason};
use crate::host::{Host, Opaque};
use crate::time::{Duration, Timestamp};
use crate::types::Type;

pub(crate) use compare::{compare, equal, same_keys};
pub use lazy::LazyJson;
pub use list::List;
pub use map::{Map, OwnedMap};
pub(crate) use map::{is, key_text};

/// How deep values may nest.
pub(crate) const MAX_DEPTH: u16 = 256;

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    Timestamp(Timestamp),
    Duration(Duration),
    Type(Arc<Type>),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Arc<Some<'a>>>),
    /// A value of a library's own type.
    Opaque(Arc<dyn Opaque>),
    /// A value that the caller keeps.
    Host(&'a dyn Host),
}

/// A string: part of the data or of the expression, or computed.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

/// What is in an optional.
#[derive(Debug)]
pub struct Some<'a> {
    pub value: Value<'a>,
    depth: u16,
}

// === impl Text ===

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

// === impl Value ===

impl<'a> Value<'a> {
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    pub fn borrowed(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }

    pub fn bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self::Bytes(bytes.into())
    }

    pub fn opaque(value: impl Opaque) -> Self {
        Self::Opaque(Arc::new(value))
    }

    pub fn of_type(ty: Type) -> Self {
        Self::Type(Arc::new(ty))
    }

    /// A list; an error when it would be nested too deeply.
    pub fn list(items: Vec<Self>) -> Result<Self, Box<Fault>> {
        List::new(items).map(Self::List)
    }

    /// A list of values that are no containers.
    pub fn flat_list(items: impl IntoIterator<Item = Self>) -> Self {
        Self::List(List::flat(items.into_iter().collect()))
    }

    pub fn some(value: Self) -> Result<Self, Box<Fault>> {
        let depth = deeper(value.depth())?;
        Ok(Self::Optional(Option::Some(Arc::new(Some {
            value,
            depth,
        }))))
    }

    pub const NONE: Self = Self::Optional(None);

    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self {
            Option::Some(text.as_str())
        } else {
            None
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self {
            Option::Some(*value)
        } else {
            None
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        if let Self::Int(value) = self {
            Option::Some(*value)
        } else {
            None
        }
    }

    pub fn as_list(&self) -> Option<&List<'a>> {
        if let Self::List(list) = self {
            Option::Some(list)
        } else {
            None
        }
    }

    pub fn as_map(&self) -> Option<&Map<'a>> {
        if let Self::Map(map) = self {
            Option::Some(map)
        } else {
            None
        }
    }

    /// The library value inside, if it is a `T`.
    pub fn as_opaque<T: Opaque>(&self) -> Option<&T> {
        if let Self::Opaque(opaque) = self {
            let any: &dyn std::any::Any = &**opaque;
            any.downcast_ref()
        } else {
            None
        }
    }

    /// The type of the value, as `type()` gives it.
    pub fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Duration(_) => Type::Duration,
            Self::Type(_) => Type::of_type(Type::Dyn),
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Opaque(opaque) => opaque.ty(),
            Self::Host(host) => host.ty(),
        }
    }

    /// The size that costs are counted by: characters, bytes, items; one for everything else.
    pub(crate) fn cost_size(&self) -> u64 {
        match self {
            Self::String(text) => text.as_str().chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Option::Some(inner)) => inner.value.cost_size(),
            Self::Opaque(opaque) => opaque.cost_size(),
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Uint(_)
            | Self::Double(_)
            | Self::Timestamp(_)
            | Self::Duration(_)
            | Self::Type(_)
            | Self::Optional(None)
            | Self::Host(_) => 1,
        }
    }

    /// The bytes that are gone through when it is read: of texts, and of what libraries made.
    /// What is in a container is for those to count who look into it.
    pub(crate) fn weight(&self) -> u64 {
        if let Self::String(text) = self {
            text.as_str().len() as u64
        } else if let Self::Bytes(bytes) = self {
            bytes.len() as u64
        } else if let Self::Opaque(opaque) = self {
            opaque.weight()
        } else {
            0
        }
    }

    /// How many containers are nested in it.
    pub(crate) fn depth(&self) -> u16 {
        match self {
            Self::List(list) => list.depth(),
            Self::Map(map) => map.depth(),
            Self::Optional(Option::Some(inner)) => inner.depth,
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Uint(_)
            | Self::Double(_)
            | Self::String(_)
            | Self::Bytes(_)
            | Self::Timestamp(_)
            | Self::Duration(_)
            | Self::Type(_)
            | Self::Optional(None)
            | Self::Opaque(_)
            | Self::Host(_) => 0,
        }
    }
}

/// One level more than `depth`, if values may nest so deeply.
pub(crate) fn deeper(depth: u16) -> Result<u16, Box<Fault>> {
    if depth >= MAX_DEPTH {
        return Err(Fault::failed(Reason::TooDeep));
    }
    Ok(depth + 1)
}
