//! Static types, and how they are written in signatures.

use std::fmt;
use std::sync::Arc;

use crate::decl::ObjectType;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Known at run time only.
    Dyn,
    /// What an expression has that does not check.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// A primitive or null.
    Wrapper(Primitive),
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    Optional(Arc<Type>),
    /// The type of a type.
    Type(Arc<Type>),
    /// A type parameter: of a signature, or a variable of the checker.
    Param(u32),
    /// A type known by its name only.
    Opaque(Arc<OpaqueType>),
    /// An object with declared fields.
    Object(Arc<ObjectType>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primitive {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueType {
    pub name: Arc<str>,
    pub params: Vec<Type>,
}

// === impl Primitive ===

impl Primitive {
    pub fn plain(self) -> Type {
        match self {
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::String => Type::String,
            Self::Bytes => Type::Bytes,
        }
    }
}

// === impl Type ===

impl Type {
    pub fn list(item: Self) -> Self {
        Self::List(Arc::new(item))
    }

    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    pub fn of_type(inner: Self) -> Self {
        Self::Type(Arc::new(inner))
    }

    pub fn opaque(name: &str) -> Self {
        Self::Opaque(Arc::new(OpaqueType {
            name: name.into(),
            params: Vec::new(),
        }))
    }

    /// The name that `type()` gives: without parameters.
    pub fn name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Error => "error",
            Self::Null => "null_type",
            Self::Bool | Self::Wrapper(Primitive::Bool) => "bool",
            Self::Int | Self::Wrapper(Primitive::Int) => "int",
            Self::Uint | Self::Wrapper(Primitive::Uint) => "uint",
            Self::Double | Self::Wrapper(Primitive::Double) => "double",
            Self::String | Self::Wrapper(Primitive::String) => "string",
            Self::Bytes | Self::Wrapper(Primitive::Bytes) => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Param(_) => "param",
            Self::Opaque(opaque) => &opaque.name,
            Self::Object(object) => object.name(),
        }
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The type inside an optional, and whether there was one.
    pub(crate) fn unwrap_optional(&self) -> (&Self, bool) {
        match self {
            Self::Optional(inner) => (inner, true),
            other @ (Self::Dyn
            | Self::Error
            | Self::Null
            | Self::Bool
            | Self::Int
            | Self::Uint
            | Self::Double
            | Self::String
            | Self::Bytes
            | Self::Timestamp
            | Self::Duration
            | Self::Wrapper(_)
            | Self::List(_)
            | Self::Map(_)
            | Self::Type(_)
            | Self::Param(_)
            | Self::Opaque(_)
            | Self::Object(_)) => (other, false),
        }
    }

    /// The types that it is made of.
    pub(crate) fn children(&self) -> Vec<&Self> {
        match self {
            Self::List(inner) | Self::Optional(inner) | Self::Type(inner) => vec![inner],
            Self::Map(pair) => vec![&pair.0, &pair.1],
            Self::Opaque(opaque) => opaque.params.iter().collect(),
            Self::Dyn
            | Self::Error
            | Self::Null
            | Self::Bool
            | Self::Int
            | Self::Uint
            | Self::Double
            | Self::String
            | Self::Bytes
            | Self::Timestamp
            | Self::Duration
            | Self::Wrapper(_)
            | Self::Param(_)
            | Self::Object(_) => Vec::new(),
        }
    }

    /// Whether any type parameter is inside.
    pub(crate) fn is_generic(&self) -> bool {
        matches!(self, Self::Param(_)) || self.children().into_iter().any(Self::is_generic)
    }

    /// The type with `replace` applied to its parameters.
    pub fn rebuild(&self, replace: &mut dyn FnMut(u32) -> Self) -> Self {
        match self {
            Self::Param(param) => replace(*param),
            Self::List(inner) => Self::list(inner.rebuild(replace)),
            Self::Optional(inner) => Self::optional(inner.rebuild(replace)),
            Self::Type(inner) => Self::of_type(inner.rebuild(replace)),
            Self::Map(pair) => Self::map(pair.0.rebuild(replace), pair.1.rebuild(replace)),
            Self::Opaque(opaque) if !opaque.params.is_empty() => {
                Self::Opaque(Arc::new(OpaqueType {
                    name: opaque.name.clone(),
                    params: opaque
                        .params
                        .iter()
                        .map(|param| param.rebuild(replace))
                        .collect(),
                }))
            }
            other @ (Self::Dyn
            | Self::Error
            | Self::Null
            | Self::Bool
            | Self::Int
            | Self::Uint
            | Self::Double
            | Self::String
            | Self::Bytes
            | Self::Timestamp
            | Self::Duration
            | Self::Wrapper(_)
            | Self::Opaque(_)
            | Self::Object(_)) => other.clone(),
        }
    }

    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool
            | Self::Int
            | Self::Uint
            | Self::Double
            | Self::Timestamp
            | Self::Duration
            | Self::Wrapper(
                Primitive::Bool | Primitive::Int | Primitive::Uint | Primitive::Double,
            ) => true,
            Self::Optional(inner) => inner.is_scalar(),
            Self::Dyn
            | Self::Error
            | Self::Null
            | Self::String
            | Self::Bytes
            | Self::Wrapper(Primitive::String | Primitive::Bytes)
            | Self::List(_)
            | Self::Map(_)
            | Self::Type(_)
            | Self::Param(_)
            | Self::Opaque(_)
            | Self::Object(_) => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Param(param) = self {
            return write!(f, "<T{param}>");
        }
        if let Self::Wrapper(primitive) = self {
            return write!(f, "wrapper({})", primitive.plain());
        }
        f.write_str(self.name())?;
        let children = self.children();
        if children.is_empty() {
            return Ok(());
        }
        f.write_str("(")?;
        for (index, child) in children.into_iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{child}")?;
        }
        f.write_str(")")
    }
}

/// What a signature says: `"list(A).(int) -> A"` is a member, `"(string, A) -> bool"` is not.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Whether the first parameter is written before the dot.
    pub member: bool,
    pub params: Vec<Type>,
    pub result: Type,
}

impl Signature {
    /// Reads a signature. `None` when it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (left, result) = text.rsplit_once("->")?;
        let left = left.trim();
        let mut params = Vec::new();
        let (member, list) = match left.strip_prefix('(') {
            Some(list) => (false, list),
            None => {
                let (target, list) = left.split_once(".(")?;
                params.push(parse_type(target)?);
                (true, list)
            }
        };
        let list = list.strip_suffix(')')?;
        for param in split(list) {
            params.push(parse_type(param)?);
        }
        Some(Self {
            member,
            params,
            result: parse_type(result)?,
        })
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = ["A", "B", "C"];
        let shown = |ty: &Type| {
            let letter = |param| letters.get(param as usize).copied().unwrap_or("dyn");
            ty.rebuild(&mut |param| Type::opaque(letter(param)))
                .to_string()
        };
        let params: Vec<String> = self.params.iter().map(shown).collect();
        match params.split_first() {
            Some((target, rest)) if self.member => write!(f, "{target}.({})", rest.join(", "))?,
            _ => write!(f, "({})", params.join(", "))?,
        }
        write!(f, " -> {}", shown(&self.result))
    }
}

/// The parts of a list between commas, parentheses respected.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
}

fn parse_type(text: &str) -> Option<Type> {
    let text = text.trim();
    if let Some((name, rest)) = text.split_once('(') {
        let params: Option<Vec<Type>> = split(rest.strip_suffix(')')?).map(parse_type).collect();
        let mut params = params?.into_iter();
        let first = params.next()?;
        return Some(match name {
            "list" => Type::list(first),
            "map" => Type::map(first, params.next()?),
            "optional" => Type::optional(first),
            "type" => Type::of_type(first),
            _ => return None,
        });
    }
    Some(match text {
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "A" => Type::Param(0),
        "B" => Type::Param(1),
        "C" => Type::Param(2),
        name if name.contains('.') => Type::opaque(name),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read() {
        let member = Signature::parse("list(A).(int, map(string, dyn)) -> optional(A)").unwrap();
        assert!(member.member);
        let params: Vec<String> = member.params.iter().map(ToString::to_string).collect();
        assert_eq!(params, ["list(<T0>)", "int", "map(string, dyn)"]);
        assert_eq!(member.result.to_string(), "optional_type(<T0>)");
        assert_eq!(
            member.to_string(),
            "list(A).(int, map(string, dyn)) -> optional_type(A)"
        );
        let global = Signature::parse("() -> net.IP").unwrap();
        assert!(!global.member && global.params.is_empty());
        assert_eq!(global.result, Type::opaque("net.IP"));
        for bad in ["", "x", "(int -> int", "(nope) -> int", "int -> int"] {
            assert_eq!(Signature::parse(bad), None, "{bad}");
        }
    }
}
