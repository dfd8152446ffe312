//! JSON to messages, byte for byte as gogo's generated code writes them.
//!
//! Fields go by number, values that are not pointers are written even when they are zero, and maps
//! are sorted by key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::tables::{FieldType, Item, MessageId, Presence, Shape, Special, Tables};
use super::wire::Writer;
use super::{EncodeError, MAGIC, MAX_DEPTH, special};

type Object = Map<String, Value>;

struct Encoder<'t> {
    tables: &'t Tables,
    depth: usize,
    out: Writer,
}

/// The whole body: magic, envelope, message.
pub(super) fn envelope(
    tables: &Tables,
    message: MessageId,
    object: &Value,
    api_version: &str,
    kind: &str,
) -> Result<Vec<u8>, EncodeError> {
    let empty = Object::new();
    let mut encoder = Encoder {
        tables,
        depth: 0,
        out: Writer::default(),
    };
    encoder.out.bytes(4, b"");
    encoder.out.bytes(3, b"");
    let mark = encoder.out.mark();
    encoder.message(message, object.as_object().unwrap_or(&empty))?;
    encoder.out.close(2, mark);
    let mark = encoder.out.mark();
    encoder.out.bytes(2, kind.as_bytes());
    encoder.out.bytes(1, api_version.as_bytes());
    encoder.out.close(1, mark);
    encoder.out.raw(MAGIC);
    Ok(encoder.out.finish())
}

/// A message alone.
pub(super) fn message(
    tables: &Tables,
    message: MessageId,
    object: &Value,
) -> Result<Vec<u8>, EncodeError> {
    let empty = Object::new();
    let mut encoder = Encoder {
        tables,
        depth: 0,
        out: Writer::default(),
    };
    encoder.message(message, object.as_object().unwrap_or(&empty))?;
    Ok(encoder.out.finish())
}

// === impl Encoder ===

impl Encoder<'_> {
    fn message(&mut self, id: MessageId, object: &Object) -> Result<(), EncodeError> {
        if self.depth == MAX_DEPTH {
            return Err(EncodeError::TooDeep);
        }
        self.depth += 1;
        let message = self.tables.message(id);
        for field in message.fields.iter().rev() {
            let written = match (field.item, field.json) {
                (Item::Message(inner), "") => {
                    let mark = self.out.mark();
                    self.message(inner, object)?;
                    self.out.close(field.number, mark);
                    true
                }
                (_, name) => {
                    self.field(field, object.get(name).filter(|value| !value.is_null()))?
                }
            };
            if !written {
                return Err(EncodeError::WrongType {
                    message: message.name,
                    field: field.json,
                });
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Writes one field; `false` when its value does not have its type.
    fn field(&mut self, field: &FieldType, value: Option<&Value>) -> Result<bool, EncodeError> {
        match (field.shape, value) {
            (Shape::One, Some(value)) => self.item(field.number, field.item, value),
            (Shape::One, None) if field.presence == Presence::Pointer => Ok(true),
            (Shape::One, None) => self.absent(field),
            (Shape::List | Shape::Map, None) => Ok(true),
            (Shape::List, Some(Value::Array(list))) => {
                for value in list.iter().rev() {
                    if !self.item(field.number, field.item, value)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Shape::Map, Some(Value::Object(map))) => {
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort_unstable();
                for key in keys.into_iter().rev() {
                    let mark = self.out.mark();
                    if !self.item(2, field.item, &map[key])? {
                        return Ok(false);
                    }
                    self.out.bytes(1, key.as_bytes());
                    self.out.close(field.number, mark);
                }
                Ok(true)
            }
            (Shape::List | Shape::Map, Some(_)) => Ok(false),
        }
    }

    /// A value that is not in the JSON but that Go has, and therefore writes.
    fn absent(&mut self, field: &FieldType) -> Result<bool, EncodeError> {
        let number = field.number;
        match field.item {
            Item::Bool | Item::Int32 | Item::Int64 => self.out.number(number, 0),
            Item::Double => self.out.double(number, 0.0),
            Item::String => self.out.bytes(number, b""),
            // A nil slice is not written, an empty one would be; JSON cannot tell them apart.
            Item::Bytes | Item::Special(Special::Strings) => {}
            Item::Message(id) => {
                let mark = self.out.mark();
                self.message(id, &Object::new())?;
                self.out.close(number, mark);
            }
            Item::Special(kind) => {
                let mark = self.out.mark();
                special::write(kind, &special::zero(kind), &mut self.out);
                self.out.close(number, mark);
            }
        }
        Ok(true)
    }

    fn item(&mut self, number: u32, item: Item, value: &Value) -> Result<bool, EncodeError> {
        match (item, value) {
            (Item::Bool, Value::Bool(value)) => self.out.number(number, u64::from(*value)),
            (Item::Int32 | Item::Int64, Value::Number(value)) => match value.as_i64() {
                Some(value) => self.out.number(number, value.cast_unsigned()),
                None => return Ok(false),
            },
            (Item::Double, Value::Number(value)) => match value.as_f64() {
                Some(value) => self.out.double(number, value),
                None => return Ok(false),
            },
            (Item::String, Value::String(text)) => self.out.bytes(number, text.as_bytes()),
            (Item::Bytes, Value::String(text)) => match STANDARD.decode(text) {
                Ok(bytes) => self.out.bytes(number, &bytes),
                Err(_) => return Ok(false),
            },
            (Item::Bytes, Value::Null) => self.out.bytes(number, b""),
            (Item::Message(id), Value::Object(object)) => {
                let mark = self.out.mark();
                self.message(id, object)?;
                self.out.close(number, mark);
            }
            (Item::Special(kind), value) => {
                let mark = self.out.mark();
                if !self.special(kind, value)? {
                    return Ok(false);
                }
                self.out.close(number, mark);
            }
            (
                Item::Bool
                | Item::Int32
                | Item::Int64
                | Item::Double
                | Item::String
                | Item::Bytes
                | Item::Message(_),
                _,
            ) => return Ok(false),
        }
        Ok(true)
    }

    fn special(&mut self, kind: Special, value: &Value) -> Result<bool, EncodeError> {
        match (kind, value, self.tables.schema()) {
            (Special::SchemaOrArray | Special::SchemaOrStrings, Value::Object(_), Some(id)) => {
                self.item(1, Item::Message(id), value)
            }
            (Special::SchemaOrArray, Value::Array(list), Some(id)) => {
                self.each(Item::Message(id), list)
            }
            (Special::SchemaOrStrings, Value::Array(list), _) => self.each(Item::String, list),
            (Special::SchemaOrBool, Value::Object(_), Some(id)) => {
                // Go's decoder marks a schema as allowing.
                let written = self.item(2, Item::Message(id), value)?;
                self.out.number(1, 1);
                Ok(written)
            }
            (Special::SchemaOrBool, Value::Bool(allows), _) => {
                self.out.number(1, u64::from(*allows));
                Ok(true)
            }
            (kind, value, _) => Ok(special::write(kind, value, &mut self.out)),
        }
    }

    fn each(&mut self, item: Item, list: &[Value]) -> Result<bool, EncodeError> {
        for value in list.iter().rev() {
            if !self.item(2, item, value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
