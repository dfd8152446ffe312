//! Messages to JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::tables::{FieldType, Item, MessageId, Presence, Shape, Special, Tables};
use super::wire::{Field, Reader};
use super::{DecodeError, MAX_DEPTH, malformed, special};

type Object = Map<String, Value>;

/// One decoding: where it is, and how much it may still make.
pub(super) struct Decoder<'t> {
    tables: &'t Tables,
    depth: usize,
    /// Values that may still be made. An honest value takes at least two bytes; small bodies get a
    /// base for the fields that are printed without being sent.
    budget: usize,
}

// === impl Decoder ===

impl<'t> Decoder<'t> {
    pub(super) fn new(tables: &'t Tables, length: usize) -> Self {
        Self {
            tables,
            depth: 0,
            budget: 4_096 + length / 2,
        }
    }

    /// Decodes into an object that may hold earlier fields: protobuf merges what occurs twice.
    pub(super) fn message(
        &mut self,
        id: MessageId,
        bytes: &[u8],
        into: &mut Object,
    ) -> Result<(), DecodeError> {
        if self.depth == MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        self.depth += 1;
        let message = self.tables.message(id);
        let mut reader = Reader::new(bytes);
        while let Some((number, field)) = reader
            .field()
            .map_err(|what| malformed(what, message.name))?
        {
            if let Some(kind) = message.field(number) {
                self.field(message.name, kind, field, into)?;
            }
        }
        self.fill(id, into)?;
        self.depth -= 1;
        Ok(())
    }

    /// Adds what Go prints although nobody sent it: zero structs and zero values without `omitempty`.
    fn fill(&mut self, id: MessageId, into: &mut Object) -> Result<(), DecodeError> {
        let message = self.tables.message(id);
        for kind in message
            .always
            .iter()
            .filter_map(|index| message.fields.get(*index))
        {
            if let (Item::Message(inner), "") = (kind.item, kind.json) {
                self.fill(inner, into)?;
            } else if !into.contains_key(kind.json) {
                let zero = self.zero(kind.item)?;
                into.insert(kind.json.to_owned(), zero);
            }
        }
        Ok(())
    }

    fn zero(&mut self, item: Item) -> Result<Value, DecodeError> {
        self.spend()?;
        Ok(match item {
            Item::Bool => Value::Bool(false),
            Item::Int32 | Item::Int64 | Item::Double => Value::from(0),
            Item::String | Item::Bytes => Value::String(String::new()),
            Item::Message(id) => {
                let mut object = Object::new();
                self.fill(id, &mut object)?;
                Value::Object(object)
            }
            Item::Special(special) => special::zero(special),
        })
    }

    fn field(
        &mut self,
        message: &'static str,
        kind: &FieldType,
        field: Field<'_>,
        into: &mut Object,
    ) -> Result<(), DecodeError> {
        match (kind.shape, kind.item, field) {
            (Shape::One, Item::Message(id), Field::Bytes(bytes)) => {
                self.nested(id, kind, bytes, into)
            }
            (Shape::One, item, field) => {
                let value = self.item(message, item, field)?;
                match is_omitted(kind, &value) {
                    true => into.remove(kind.json),
                    false => into.insert(kind.json.to_owned(), value),
                };
                Ok(())
            }
            (Shape::List, Item::Bool | Item::Int32 | Item::Int64, Field::Bytes(packed)) => {
                let mut reader = Reader::new(packed);
                while !reader.is_empty() {
                    let number = reader.varint().map_err(|what| malformed(what, message))?;
                    let value = self.item(message, kind.item, Field::Varint(number))?;
                    push(into, kind.json, value);
                }
                Ok(())
            }
            (Shape::List, item, field) => {
                let value = self.item(message, item, field)?;
                push(into, kind.json, value);
                Ok(())
            }
            (Shape::Map, item, Field::Bytes(entry)) => {
                let (key, value) = self.entry(message, item, entry)?;
                if let Value::Object(map) = into
                    .entry(kind.json)
                    .or_insert_with(|| Value::Object(Map::new()))
                {
                    map.insert(key, value);
                }
                Ok(())
            }
            (Shape::Map, ..) => Err(malformed("wrong wire type", message)),
        }
    }

    /// A message in a field: merged with what is there, or with the parent when it is inlined.
    fn nested(
        &mut self,
        id: MessageId,
        kind: &FieldType,
        bytes: &[u8],
        into: &mut Object,
    ) -> Result<(), DecodeError> {
        if kind.json.is_empty() {
            return self.message(id, bytes, into);
        }
        self.spend()?;
        let mut object = match into.remove(kind.json) {
            Some(Value::Object(object)) => object,
            Some(_) | None => Object::new(),
        };
        self.message(id, bytes, &mut object)?;
        if !(kind.presence == Presence::OmitZero && object.is_empty()) {
            into.insert(kind.json.to_owned(), Value::Object(object));
        }
        Ok(())
    }

    /// A map's entry: a message with a key and a value, either of which may be missing.
    fn entry(
        &mut self,
        message: &'static str,
        item: Item,
        entry: &[u8],
    ) -> Result<(String, Value), DecodeError> {
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader::new(entry);
        while let Some((number, field)) = reader.field().map_err(|what| malformed(what, message))? {
            match (number, field) {
                (1, Field::Bytes(bytes)) => key = text(bytes, message)?,
                (1, _) => return Err(malformed("wrong wire type", message)),
                (2, field) => value = Some(self.item(message, item, field)?),
                _ => {}
            }
        }
        match value {
            Some(value) => Ok((key, value)),
            None => Ok((key, self.zero(item)?)),
        }
    }

    fn item(
        &mut self,
        message: &'static str,
        item: Item,
        field: Field<'_>,
    ) -> Result<Value, DecodeError> {
        self.spend()?;
        Ok(match (item, field) {
            (Item::Bool, Field::Varint(value)) => Value::Bool(value != 0),
            (Item::Int32, Field::Varint(value)) => Value::from(int32(value)),
            (Item::Int64, Field::Varint(value)) => Value::from(value.cast_signed()),
            (Item::Double, Field::Fixed64(bits)) => double(f64::from_bits(bits))
                .ok_or_else(|| malformed("a number that JSON cannot hold", message))?,
            (Item::String, Field::Bytes(bytes)) => Value::String(text(bytes, message)?),
            (Item::Bytes, Field::Bytes(bytes)) => Value::String(STANDARD.encode(bytes)),
            (Item::Message(id), Field::Bytes(bytes)) => {
                let mut object = Object::new();
                self.message(id, bytes, &mut object)?;
                Value::Object(object)
            }
            (Item::Special(special), Field::Bytes(bytes)) => {
                self.special(message, special, bytes)?
            }
            (
                Item::Bool
                | Item::Int32
                | Item::Int64
                | Item::Double
                | Item::String
                | Item::Bytes
                | Item::Message(_)
                | Item::Special(_),
                _,
            ) => return Err(malformed("wrong wire type", message)),
        })
    }

    fn special(
        &mut self,
        message: &'static str,
        kind: Special,
        bytes: &[u8],
    ) -> Result<Value, DecodeError> {
        let value = match kind {
            Special::Time => special::time(bytes),
            Special::MicroTime => special::micro_time(bytes),
            Special::Quantity => special::quantity(bytes),
            Special::IntOrString => special::int_or_string(bytes),
            Special::Raw | Special::Json => special::raw(bytes),
            Special::Strings => {
                let strings = special::strings(bytes).map_err(|what| malformed(what, message))?;
                self.spend_many(strings.len())?;
                Ok(Value::Array(strings))
            }
            Special::SchemaOrArray | Special::SchemaOrBool | Special::SchemaOrStrings => {
                return self.schema_or(message, kind, bytes);
            }
        };
        value.map_err(|what| malformed(what, message))
    }

    /// `JSONSchemaPropsOr…`: a schema in one field, or something else in the other.
    fn schema_or(
        &mut self,
        message: &'static str,
        kind: Special,
        bytes: &[u8],
    ) -> Result<Value, DecodeError> {
        let id = self
            .tables
            .schema()
            .ok_or_else(|| malformed("a schema where there are none", message))?;
        let (mut schema, mut list, mut allows) = (None, Vec::new(), false);
        let mut reader = Reader::new(bytes);
        while let Some((number, field)) = reader.field().map_err(|what| malformed(what, message))? {
            match (kind, number, field) {
                (Special::SchemaOrBool, 1, Field::Varint(value)) => allows = value != 0,
                (Special::SchemaOrBool, 2, field) | (_, 1, field) => {
                    schema = Some(self.item(message, Item::Message(id), field)?);
                }
                (Special::SchemaOrArray, 2, field) => {
                    list.push(self.item(message, Item::Message(id), field)?)
                }
                (_, 2, field) => list.push(self.item(message, Item::String, field)?),
                _ => {}
            }
        }
        Ok(match (list.is_empty(), schema) {
            (false, _) => Value::Array(list),
            (true, Some(schema)) => schema,
            (true, None) if kind == Special::SchemaOrBool => Value::Bool(allows),
            (true, None) => Value::Null,
        })
    }

    fn spend(&mut self) -> Result<(), DecodeError> {
        self.spend_many(1)
    }

    fn spend_many(&mut self, count: usize) -> Result<(), DecodeError> {
        self.budget = self
            .budget
            .checked_sub(count)
            .ok_or(DecodeError::TooManyValues)?;
        Ok(())
    }
}

/// Does Go leave this value out of the JSON?
fn is_omitted(kind: &FieldType, value: &Value) -> bool {
    // The only null that Go keeps apart from an absent field is a schema's JSON.
    if value.is_null() {
        return kind.item != Item::Special(Special::Json);
    }
    match kind.presence {
        Presence::Pointer | Presence::Always => false,
        Presence::OmitEmpty | Presence::OmitZero => match kind.item {
            Item::Bool => value == &Value::Bool(false),
            Item::Int32 | Item::Int64 | Item::Double => value.as_f64() == Some(0.0),
            Item::String | Item::Bytes => value.as_str() == Some(""),
            Item::Special(Special::Strings) => value.as_array().is_some_and(Vec::is_empty),
            Item::Message(_) | Item::Special(_) => false,
        },
    }
}

fn push(into: &mut Object, name: &str, value: Value) {
    if let Some(Value::Array(list)) = into.get_mut(name) {
        list.push(value);
    } else {
        into.insert(name.to_owned(), Value::Array(vec![value]));
    }
}

pub(super) fn text(bytes: &[u8], message: &'static str) -> Result<String, DecodeError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(malformed("text that is not UTF-8", message)),
    }
}

/// The low half, as every reader takes it: negative numbers are sent with 64 bits.
pub(super) fn int32(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// Integral numbers are integers, as Go prints them.
fn double(value: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        return value.to_string().parse::<i64>().ok().map(Value::from);
    }
    Number::from_f64(value).map(Value::Number)
}
