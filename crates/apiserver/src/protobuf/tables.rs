//! What messages look like, as data.

use std::collections::BTreeMap;

use deltaplane_api::kind::ApiVersion;

/// The messages of a release, and which kind is which message.
#[derive(Debug)]
pub struct Tables {
    messages: Vec<Message>,
    /// By `group/version/Kind`; kinds that belong to every group have the group `meta.k8s.io`.
    kinds: BTreeMap<&'static str, MessageId>,
    schema: Option<MessageId>,
}

/// The tables contradict themselves. A committed pack never does: a test loads it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidTables {
    /// A field or kind refers to a message that is not there.
    #[error("there is no message {0}")]
    MissingMessage(String),
    /// A type that is not known here.
    #[error("{0} is not a type")]
    UnknownType(String),
}

/// The tables as they are written: kinds to messages, messages to fields.
pub(crate) struct RawTables {
    pub(crate) objects: BTreeMap<&'static str, &'static str>,
    pub(crate) messages: BTreeMap<&'static str, Vec<RawField>>,
}

/// Number, JSON name, type, flags.
pub(crate) type RawField = (u32, &'static str, &'static str, &'static str);

/// An index into the messages of the same tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageId(usize);

/// One message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) name: &'static str,
    /// Sorted by number.
    pub(crate) fields: Vec<FieldType>,
    /// Indices of the fields that Go prints even when nothing was sent.
    pub(crate) always: Vec<usize>,
}

/// One field.
#[derive(Debug)]
pub(crate) struct FieldType {
    pub(crate) number: u32,
    /// Empty when the message's fields are those of its parent.
    pub(crate) json: &'static str,
    pub(crate) shape: Shape,
    pub(crate) item: Item,
    pub(crate) presence: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    List,
    Map,
}

/// What a field holds once, or each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Bool,
    Int32,
    Int64,
    Double,
    String,
    Bytes,
    Message(MessageId),
    Special(Special),
}

/// Types whose two encodings are not those of their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Any JSON inside a message with one field: `RawExtension`, `FieldsV1`.
    Raw,
    /// The same, but a present empty one is `null`: the JSON of CRD schemas.
    Json,
    /// A message that wraps a list of strings.
    Strings,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
}

/// When Go writes the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// A pointer: when it is set, in both encodings.
    Pointer,
    /// A value: always in protobuf; in JSON not when it is empty, which a struct never is.
    OmitEmpty,
    /// A value: always in protobuf; in JSON not when it is zero, a struct included.
    OmitZero,
    /// A value: always.
    Always,
}

// === impl Tables ===

impl Tables {
    pub(crate) fn new(raw: RawTables) -> Result<Self, InvalidTables> {
        let names: Vec<&'static str> = raw.messages.keys().copied().collect();
        let find = |name: &str| match names.binary_search(&name) {
            Ok(index) => Ok(MessageId(index)),
            Err(_) => Err(InvalidTables::MissingMessage(name.to_owned())),
        };
        let mut messages = Vec::with_capacity(raw.messages.len());
        for (name, fields) in raw.messages {
            messages.push(Message::new(name, fields, &find)?);
        }
        let kinds = raw
            .objects
            .into_iter()
            .map(|(kind, message)| Ok((kind, find(message)?)));
        let kinds = kinds.collect::<Result<_, InvalidTables>>()?;
        let schema =
            find("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").ok();
        Ok(Self {
            messages,
            kinds,
            schema,
        })
    }

    /// The message of a kind. Options, statuses and the like are found in every group.
    pub(crate) fn find(&self, version: &ApiVersion, kind: &str) -> Option<MessageId> {
        let own = format!("{}/{}/{kind}", version.group, version.version);
        let shared = || self.kinds.get(format!("meta.k8s.io/v1/{kind}").as_str());
        self.kinds.get(own.as_str()).or_else(shared).copied()
    }

    /// The messages' names, in the order of their indices.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.messages.iter().map(|message| message.name)
    }

    #[cfg(test)]
    pub(crate) fn message_at(&self, index: usize) -> &Message {
        &self.messages[index]
    }

    pub(crate) fn message(&self, id: MessageId) -> &Message {
        &self.messages[id.0]
    }

    /// The message of a CRD's schema, to which several special types refer.
    pub(crate) fn schema(&self) -> Option<MessageId> {
        self.schema
    }

    /// Has this kind a protobuf encoding?
    pub fn knows(&self, version: &ApiVersion, kind: &str) -> bool {
        self.find(version, kind).is_some()
    }
}

// === impl MessageId ===

impl MessageId {
    /// Where the message is among [`Tables::names`].
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

// === impl Message ===

impl Message {
    fn new(
        name: &'static str,
        fields: Vec<RawField>,
        find: &impl Fn(&str) -> Result<MessageId, InvalidTables>,
    ) -> Result<Self, InvalidTables> {
        let mut fields = fields
            .into_iter()
            .map(|field| FieldType::new(field, find))
            .collect::<Result<Vec<_>, _>>()?;
        fields.sort_by_key(|field| field.number);
        let always = (0..fields.len())
            .filter(|index| fields[*index].is_always_printed())
            .collect();
        Ok(Self {
            name,
            fields,
            always,
        })
    }

    pub(crate) fn field(&self, number: u32) -> Option<&FieldType> {
        let index = self
            .fields
            .binary_search_by_key(&number, |field| field.number)
            .ok()?;
        self.fields.get(index)
    }
}

// === impl FieldType ===

impl FieldType {
    fn new(
        (number, json, kind, flags): RawField,
        find: &impl Fn(&str) -> Result<MessageId, InvalidTables>,
    ) -> Result<Self, InvalidTables> {
        let (shape, item) = match (kind.strip_prefix("[]"), kind.strip_prefix("map:")) {
            (Some(item), _) => (Shape::List, item),
            (None, Some(item)) => (Shape::Map, item),
            (None, None) => (Shape::One, kind),
        };
        let presence = match (
            flags.contains('p'),
            flags.contains('z'),
            flags.contains('e'),
        ) {
            (true, ..) => Presence::Pointer,
            (false, true, _) => Presence::OmitZero,
            (false, false, true) => Presence::OmitEmpty,
            (false, false, false) => Presence::Always,
        };
        Ok(Self {
            number,
            json,
            shape,
            item: Item::new(item, find)?,
            presence,
        })
    }

    /// Does Go print this even when its value is zero? (Nulls do not count: see the crate's notes.)
    fn is_always_printed(&self) -> bool {
        if self.shape != Shape::One {
            return false;
        }
        match (self.presence, self.item) {
            (Presence::Pointer | Presence::OmitZero, _) => false,
            (_, Item::Message(_)) => true,
            (_, Item::Special(special)) => {
                matches!(special, Special::Quantity | Special::IntOrString)
            }
            (presence, Item::Bytes) => {
                debug_assert!(presence != Presence::OmitZero);
                false
            }
            (presence, Item::Bool | Item::Int32 | Item::Int64 | Item::Double | Item::String) => {
                presence == Presence::Always
            }
        }
    }
}

// === impl Item ===

impl Item {
    fn new(
        name: &str,
        find: &impl Fn(&str) -> Result<MessageId, InvalidTables>,
    ) -> Result<Self, InvalidTables> {
        if let Some(message) = name.strip_prefix('@') {
            return Ok(Self::Message(find(message)?));
        }
        Ok(match name {
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "time" => Self::Special(Special::Time),
            "microtime" => Self::Special(Special::MicroTime),
            "quantity" => Self::Special(Special::Quantity),
            "int-or-string" => Self::Special(Special::IntOrString),
            "raw" | "fields" => Self::Special(Special::Raw),
            "json" => Self::Special(Special::Json),
            "strings" => Self::Special(Special::Strings),
            "schema-or-array" => Self::Special(Special::SchemaOrArray),
            "schema-or-bool" => Self::Special(Special::SchemaOrBool),
            "schema-or-strings" => Self::Special(Special::SchemaOrStrings),
            other => return Err(InvalidTables::UnknownType(other.to_owned())),
        })
    }
}
