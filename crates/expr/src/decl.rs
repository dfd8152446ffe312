//! Declarations of data: what a schema says about a value, for the checker, for the evaluator's
//! view of JSON and for the estimate of costs.
//!
//! Declarations of objects unfold their fields when they are first asked for, so that recursive
//! schemas are fine and an unused part costs nothing.

mod escape;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use deltaplane_schema::{Additional, Kind, ListType, Node, Schema};

use crate::types::Type;
use crate::value::is;

use escape::is_reserved;
pub use escape::{escape, unescape};

/// What is known about a value.
#[derive(Clone, Debug)]
pub struct Decl {
    ty: Type,
    shape: Shape,
    nullable: bool,
    /// What it means that something inside is not there.
    absent: Absent,
    /// The schema's bound on characters, items or entries.
    bound: Option<u64>,
    /// Whether there is a schema to estimate sizes by.
    sized: bool,
}

/// What a JSON value is read as.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Dyn,
    IntOrString,
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    List { items: Arc<Decl>, kind: ListKind },
    Map { values: Arc<Decl> },
    Object(Arc<ObjectType>),
}

/// How lists are compared and added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    Map(Box<[Box<str>]>),
}

/// What the absence of data means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Absent {
    /// It is an error to read it.
    #[default]
    Fails,
    /// It may come: reading it waits.
    Waits,
}

/// Which parts of a schema are visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// As in Kubernetes' validation rules: what has no type cannot be named.
    #[default]
    Declared,
    /// As in kro: undeclared fields of objects that preserve them are `dyn`.
    Open,
}

/// How to read a schema.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    pub absent: Absent,
    pub exposure: Exposure,
    /// Whether this is a whole resource: then its kind, version and name can always be read.
    pub resource: bool,
}

/// An object with declared fields.
#[derive(Debug)]
pub struct ObjectType {
    name: Arc<str>,
    fields: OnceLock<Box<[Field]>>,
    /// Where the fields come from; nothing when they were given.
    origin: Option<(Schema, Reading)>,
    /// Undeclared fields can be read, as `dyn`.
    open: bool,
    /// What undeclared fields are.
    undeclared: Box<Decl>,
}

/// A field of an object.
#[derive(Debug)]
pub struct Field {
    /// As expressions write it.
    name: Box<str>,
    /// As the data has it.
    key: Box<str>,
    decl: Decl,
    /// Its share of the smallest object, if it must be there.
    required: bool,
}

/// Where a field was found last: an expression reads the same one of the same type each time, and
/// then it need not be searched. What it says decides nothing but how long it takes.
#[derive(Debug, Default)]
pub(crate) struct Hint(AtomicUsize);

/// The largest request that the API accepts: the bound of what has no other.
pub(crate) const MAX_REQUEST: u64 = 3 * 1024 * 1024;
const MAX_DURATION: u64 = 32;
const MAX_DATE_TIME: u64 = 32;
const DATE: u64 = 12;

// === impl Decl ===

impl Decl {
    /// Anything, whose absence is an error.
    pub fn dynamic(absent: Absent) -> &'static Self {
        static FAILS: OnceLock<Decl> = OnceLock::new();
        static WAITS: OnceLock<Decl> = OnceLock::new();
        let cell = match absent {
            Absent::Fails => &FAILS,
            Absent::Waits => &WAITS,
        };
        cell.get_or_init(|| Self {
            absent,
            nullable: true,
            ..Self::plain(Type::Dyn, Shape::Dyn)
        })
    }

    /// Data of a type, without further bounds. JSON is read as the type says.
    pub fn of_type(ty: Type, absent: Absent) -> Self {
        let shape = match &ty {
            Type::Bool => Shape::Bool,
            Type::Int => Shape::Int,
            Type::Double => Shape::Double,
            Type::String => Shape::String,
            Type::Bytes => Shape::Bytes,
            Type::Duration => Shape::Duration,
            Type::Timestamp => Shape::DateTime,
            Type::List(items) => Shape::List {
                items: Arc::new(Self::of_type((**items).clone(), absent)),
                kind: ListKind::Atomic,
            },
            Type::Map(pair) => Shape::Map {
                values: Arc::new(Self::of_type(pair.1.clone(), absent)),
            },
            Type::Object(object) => Shape::Object(object.clone()),
            Type::Dyn
            | Type::Error
            | Type::Null
            | Type::Uint
            | Type::Wrapper(_)
            | Type::Optional(_)
            | Type::Type(_)
            | Type::Param(_)
            | Type::Opaque(_) => Shape::Dyn,
        };
        Self {
            absent,
            nullable: true,
            ..Self::plain(ty, shape)
        }
    }

    /// Reads a schema. Nothing when expressions cannot see such data.
    pub fn of_schema(schema: &Schema, name: &str, reading: Reading) -> Option<Self> {
        Builder { schema, reading }.decl(schema.root(), name, reading.resource)
    }

    fn plain(ty: Type, shape: Shape) -> Self {
        Self {
            ty,
            shape,
            nullable: false,
            absent: Absent::Fails,
            bound: None,
            sized: false,
        }
    }

    pub fn ty(&self) -> &Type {
        &self.ty
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn nullable(&self) -> bool {
        self.nullable
    }

    /// What it means that something inside is not there.
    pub fn absent(&self) -> Absent {
        self.absent
    }

    /// Whether such data can have this field, as expressions write it.
    pub(crate) fn can_have(&self, field: &str) -> bool {
        match self.object() {
            Some(object) => object.is_open() || object.field(field).is_some(),
            None => true,
        }
    }

    /// The declaration of list items or map values.
    pub(crate) fn inner(&self) -> &Self {
        match &self.shape {
            Shape::List { items, .. } => items,
            Shape::Map { values } => values,
            Shape::Object(object) => &object.undeclared,
            Shape::Dyn
            | Shape::IntOrString
            | Shape::Bool
            | Shape::Int
            | Shape::Double
            | Shape::String
            | Shape::Bytes
            | Shape::Duration
            | Shape::Date
            | Shape::DateTime => Self::dynamic(self.absent),
        }
    }

    /// The most characters, items or entries that such a value can have; nothing when there is
    /// no schema to tell. Like Kubernetes, it takes what has no such size to have none at all.
    pub(crate) fn max_elements(&self) -> Option<u64> {
        if !self.sized {
            return None;
        }
        Some(self.bounded().unwrap_or(0))
    }

    fn bounded(&self) -> Option<u64> {
        let text = || self.bound.unwrap_or(MAX_REQUEST - 2);
        match &self.shape {
            Shape::IntOrString | Shape::String => Some(text()),
            Shape::Bytes => Some(text()),
            Shape::Duration => Some(MAX_DURATION),
            Shape::Date => Some(DATE),
            Shape::DateTime => Some(MAX_DATE_TIME),
            Shape::List { items, .. } => {
                let fit = (MAX_REQUEST - 2) / (items.min_size() + 1);
                Some(self.bound.unwrap_or(fit))
            }
            Shape::Map { values } => {
                let fit = (MAX_REQUEST - 2) / (values.min_size() + 6);
                Some(self.bound.unwrap_or(fit))
            }
            Shape::Dyn | Shape::Bool | Shape::Int | Shape::Double | Shape::Object(_) => None,
        }
    }

    /// The fewest bytes of JSON that such a value takes.
    pub(crate) fn min_size(&self) -> u64 {
        match &self.shape {
            Shape::Dyn | Shape::IntOrString | Shape::Int | Shape::Double => 1,
            Shape::Bool => 4,
            Shape::String | Shape::Bytes | Shape::List { .. } | Shape::Map { .. } => 2,
            Shape::Duration => 3,
            Shape::Date => DATE,
            Shape::DateTime => 21,
            Shape::Object(object) => {
                let required = object.fields().iter().filter(|field| field.required);
                let sizes =
                    required.map(|field| field.key.len() as u64 + field.decl.min_size() + 4);
                2 + sizes.sum::<u64>()
            }
        }
    }

    /// The object that it is, if it is one.
    pub(crate) fn object(&self) -> Option<&Arc<ObjectType>> {
        if let Shape::Object(object) = &self.shape {
            Some(object)
        } else {
            None
        }
    }
}

// === impl ObjectType ===

impl ObjectType {
    /// An object with the given fields.
    pub fn new(name: &str, fields: impl IntoIterator<Item = (String, Decl)>) -> Arc<Self> {
        let fields = fields.into_iter().map(|(key, decl)| Field {
            name: key.as_str().into(),
            key: key.into(),
            decl,
            required: false,
        });
        let mut fields: Vec<Field> = fields.collect();
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Arc::new(Self {
            name: name.into(),
            fields: OnceLock::from(fields.into_boxed_slice()),
            origin: None,
            open: false,
            undeclared: Box::new(Decl::dynamic(Absent::Fails).clone()),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The declared fields, by name.
    pub fn fields(&self) -> &[Field] {
        self.fields.get_or_init(|| match &self.origin {
            Some((schema, reading)) => Builder {
                schema,
                reading: *reading,
            }
            .fields(&self.name),
            None => Box::default(),
        })
    }

    /// The field that expressions call `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields().get(self.position(name)?)
    }

    /// The same, where it was found last time if it is there again.
    pub(crate) fn hinted(&self, name: &str, hint: &Hint) -> Option<&Field> {
        let last = self.fields().get(hint.0.load(Ordering::Relaxed));
        if let Some(field) = last.filter(|field| is(&field.name, name)) {
            return Some(field);
        }
        let found = self.position(name)?;
        hint.0.store(found, Ordering::Relaxed);
        self.fields().get(found)
    }

    fn position(&self, name: &str) -> Option<usize> {
        let fields = self.fields();
        let find = |name: &str| {
            fields
                .binary_search_by(|field| (*field.name).cmp(name))
                .ok()
        };
        // Words that the language reserves can be written as they are after a dot.
        find(name).or_else(|| is_reserved(name).then(|| find(&format!("__{name}__")))?)
    }

    /// Whether undeclared fields can be read, as `dyn`.
    pub fn is_open(&self) -> bool {
        self.open
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

// === impl Field ===

impl Field {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn decl(&self) -> &Decl {
        &self.decl
    }
}

/// Reads schemas.
struct Builder<'a> {
    schema: &'a Schema,
    reading: Reading,
}

impl Builder<'_> {
    fn decl(&self, node: Node<'_>, name: &str, resource: bool) -> Option<Decl> {
        let (ty, shape, bound) = match node.kind() {
            Kind::IntOrString | Kind::Quantity => {
                let bound = node.max_length().map(|length| length.saturating_mul(4));
                (Type::Dyn, Shape::IntOrString, bound)
            }
            Kind::Boolean => (Type::Bool, Shape::Bool, None),
            Kind::Integer => (Type::Int, Shape::Int, None),
            Kind::Number => (Type::Double, Shape::Double, None),
            Kind::String => string(node),
            Kind::Array => {
                let items = node.items()?;
                let items =
                    self.decl(items, &format!("{name}.@idx"), items.is_embedded_resource())?;
                let kind = match node.list_type() {
                    ListType::Atomic => ListKind::Atomic,
                    ListType::Set => ListKind::Set,
                    ListType::Map(keys) => ListKind::Map(keys.into()),
                };
                let ty = Type::list(items.ty.clone());
                let items = Arc::new(items);
                (ty, Shape::List { items, kind }, node.max_items())
            }
            Kind::Object => self.object(node, name, resource)?,
            Kind::Any => match self.reading.exposure {
                Exposure::Declared => return None,
                Exposure::Open => (Type::Dyn, Shape::Dyn, None),
            },
        };
        Some(Decl {
            ty,
            shape,
            nullable: node.nullable(),
            absent: self.reading.absent,
            bound,
            sized: true,
        })
    }

    fn object(
        &self,
        node: Node<'_>,
        name: &str,
        resource: bool,
    ) -> Option<(Type, Shape, Option<u64>)> {
        if let Additional::Schema(values) = node.additional()
            && node.properties().len() == 0
        {
            let values = self.decl(
                values,
                &format!("{name}.@elem"),
                values.is_embedded_resource(),
            )?;
            let ty = Type::map(Type::String, values.ty.clone());
            let values = Arc::new(values);
            return Some((ty, Shape::Map { values }, node.max_properties()));
        }
        let open = self.reading.exposure == Exposure::Open && node.preserves_unknown();
        if open && node.properties().len() == 0 && !resource {
            return Some((Type::Dyn, Shape::Dyn, None));
        }
        let reading = Reading {
            resource,
            ..self.reading
        };
        let object = Arc::new(ObjectType {
            name: name.into(),
            fields: OnceLock::new(),
            origin: Some((self.schema.rooted_at(node), reading)),
            open,
            undeclared: Box::new(Decl::dynamic(self.reading.absent).clone()),
        });
        Some((Type::Object(object.clone()), Shape::Object(object), None))
    }

    /// The fields of the schema's root, which is an object.
    fn fields(&self, name: &str) -> Box<[Field]> {
        let root = self.schema.root();
        let mut fields: Vec<Field> = Vec::new();
        // Of the metadata of others, rules see the name alone.
        let complete = self.reading.exposure == Exposure::Open && is_resource(root);
        for (key, node) in root.properties() {
            if self.reading.resource && !complete && is_identity(key) {
                continue;
            }
            let Some(escaped) = escape(key) else { continue };
            let below = format!("{name}.{escaped}");
            let Some(decl) = self.decl(node, &below, node.is_embedded_resource()) else {
                continue;
            };
            let required =
                node.default().is_none() && root.required().iter().any(|one| **one == *key);
            fields.push(Field {
                name: escaped.into(),
                key: key.into(),
                decl,
                required,
            });
        }
        if self.reading.resource && !complete {
            fields.extend(self.identity(name));
        }
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        fields.into()
    }

    /// What every resource has, declared or not.
    fn identity(&self, name: &str) -> Vec<Field> {
        let field = |key: &str, decl: Decl| Field {
            name: key.into(),
            key: key.into(),
            decl,
            required: false,
        };
        let string = || Decl {
            absent: self.reading.absent,
            sized: true,
            ..Decl::plain(Type::String, Shape::String)
        };
        let metadata = ObjectType::new(
            &format!("{name}.metadata"),
            ["name", "generateName"].map(|key| (key.to_owned(), string())),
        );
        let metadata = Decl {
            absent: self.reading.absent,
            sized: true,
            ..Decl::plain(Type::Object(metadata.clone()), Shape::Object(metadata))
        };
        vec![
            field("apiVersion", string()),
            field("kind", string()),
            field("metadata", metadata),
        ]
    }
}

fn is_identity(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

/// Whether the schema itself declares what every resource has.
fn is_resource(root: Node<'_>) -> bool {
    let string = |node: Option<Node<'_>>| node.is_some_and(|node| node.kind() == Kind::String);
    let metadata = root.property("metadata");
    string(root.property("apiVersion"))
        && string(root.property("kind"))
        && metadata.is_some_and(|node| {
            string(node.property("name")) && string(node.property("generateName"))
        })
}

fn string(node: Node<'_>) -> (Type, Shape, Option<u64>) {
    match node.format() {
        Some("byte") => (Type::Bytes, Shape::Bytes, node.max_length()),
        Some("duration") => (Type::Duration, Shape::Duration, None),
        Some("date") => (Type::Timestamp, Shape::Date, None),
        Some("date-time") => (Type::Timestamp, Shape::DateTime, None),
        Some(_) | None => {
            let enumeration = node.enumeration();
            let longest = enumeration
                .iter()
                .filter_map(|one| one.as_str())
                .map(str::len)
                .max();
            // Lengths are characters, sizes are bytes, and a character takes up to four.
            let bound = match node.max_length() {
                Some(length) => Some(length.saturating_mul(4)),
                None if enumeration.is_empty() => None,
                None => Some(longest.unwrap_or(0) as u64),
            };
            (Type::String, Shape::String, bound)
        }
    }
}
