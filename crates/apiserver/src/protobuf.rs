//! Kubernetes' protobuf encoding of its own kinds, to and from JSON, by tables.
//!
//! A body is four bytes of magic, then a `runtime.Unknown` envelope that names the kind and holds
//! the message. What the messages look like is data ([`Tables`], from the type pack): field
//! numbers and kinds, and the JSON names and omission rules of the Go types, because what clients
//! send must become the very JSON that Go would print.
//!
//! Not here: kinds of custom resources, which have no protobuf encoding, and choosing an encoding
//! for an answer (`negotiate`).
//!
//! Invariants:
//! - No input panics. Nesting is bounded ([`MAX_DEPTH`]), and so is what a body may grow to:
//!   values are counted against a budget that is proportional to its length.
//! - Unknown field numbers are skipped, as every protobuf reader must.
//! - The JSON is that of Go's encoder after decoding, but for `null`: Go prints one for a nil list,
//!   map or pointer without `omitempty` and for a zero time; here the field is left out.

pub(crate) mod answers;
mod decode;
mod encode;
mod special;
pub(crate) mod tables;
pub(crate) mod wire;

use deltaplane_api::kind::ApiVersion;
use serde_json::{Map, Value};

pub use tables::{InvalidTables, Tables};
pub(crate) use tables::{RawField, RawTables};

use decode::Decoder;
use wire::{Field, Reader};

/// How deep messages may be nested; schemas in CRDs are the only deep ones.
pub const MAX_DEPTH: usize = 100;

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// The media type of this encoding.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Which kind a body is, when it does not say so itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// Such as `apps/v1`.
    pub api_version: String,
    /// Such as `Deployment`.
    pub kind: String,
}

/// A decoded body.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// Such as `apps/v1`.
    pub api_version: String,
    /// Such as `Deployment`.
    pub kind: String,
    /// The object, with `apiVersion` and `kind`.
    pub value: Value,
}

/// Why a body could not be decoded. All of them are the client's fault.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    /// The magic is missing.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NotProtobuf,
    /// The envelope names no kind, and none was expected.
    #[error("Object 'Kind' is missing")]
    MissingKind,
    /// The envelope names no version, and none was expected.
    #[error("Object 'apiVersion' is missing")]
    MissingVersion,
    /// There is no message for this kind.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// As in the envelope.
        api_version: String,
        /// As in the envelope.
        kind: String,
    },
    /// The envelope holds something other than a plain protobuf message.
    #[error("protobuf envelope with content {0:?} is not supported")]
    UnsupportedContent(String),
    /// Not a protobuf message of this kind.
    #[error("malformed protobuf: {what} in {message}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// In which message.
        message: &'static str,
    },
    /// Deeper than [`MAX_DEPTH`].
    #[error("protobuf messages are nested too deeply")]
    TooDeep,
    /// More values than a body of this size can honestly hold.
    #[error("protobuf message holds too many values for its size")]
    TooManyValues,
}

/// Why an object could not be encoded.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EncodeError {
    /// There is no message for this kind.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// As in the object.
        api_version: String,
        /// As in the object.
        kind: String,
    },
    /// A field does not have the type of its message.
    #[error("{message}.{field} does not have its declared type")]
    WrongType {
        /// In which message.
        message: &'static str,
        /// Which field.
        field: &'static str,
    },
    /// Deeper than [`MAX_DEPTH`].
    #[error("the object is nested too deeply")]
    TooDeep,
}

/// Decodes a body. `expected` fills in what the envelope leaves open.
///
/// # Errors
///
/// When the body is not protobuf, is malformed, or is of a kind that is not in the tables.
pub fn decode(
    tables: &Tables,
    body: &[u8],
    expected: Option<&TypeMeta>,
) -> Result<Decoded, DecodeError> {
    let envelope = Envelope::parse(body)?;
    let meta = envelope.type_meta(expected)?;
    let unknown_kind = || DecodeError::UnknownKind {
        api_version: meta.api_version.clone(),
        kind: meta.kind.clone(),
    };
    let version: ApiVersion = meta.api_version.parse().map_err(|_| unknown_kind())?;
    let message = tables.find(&version, &meta.kind).ok_or_else(unknown_kind)?;
    let mut object = Map::new();
    Decoder::new(tables, envelope.raw.len()).message(message, envelope.raw, &mut object)?;
    object.insert(
        "apiVersion".to_owned(),
        Value::String(meta.api_version.clone()),
    );
    object.insert("kind".to_owned(), Value::String(meta.kind.clone()));
    Ok(Decoded {
        api_version: meta.api_version,
        kind: meta.kind,
        value: Value::Object(object),
    })
}

/// Encodes an object by its `apiVersion` and `kind`, as gogo's generated code would.
///
/// # Errors
///
/// When the object's kind is not in the tables or a field has another type than its kind says.
pub fn encode(tables: &Tables, object: &Value) -> Result<Vec<u8>, EncodeError> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let version = api_version.parse::<ApiVersion>().ok();
    let message = version.and_then(|version| tables.find(&version, kind));
    let message = message.ok_or_else(|| EncodeError::UnknownKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    })?;
    encode::envelope(tables, message, object, api_version, kind)
}

/// `runtime.Unknown`.
#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a [u8],
    kind: &'a [u8],
    raw: &'a [u8],
    content_encoding: &'a [u8],
    content_type: &'a [u8],
}

// === impl Envelope ===

impl<'a> Envelope<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body.strip_prefix(MAGIC).ok_or(DecodeError::NotProtobuf)?);
        let mut envelope = Self::default();
        while let Some(field) = reader.field().map_err(|what| malformed(what, UNKNOWN))? {
            match field {
                (1, Field::Bytes(meta)) => envelope.parse_type(meta)?,
                (2, Field::Bytes(raw)) => envelope.raw = raw,
                (3, Field::Bytes(encoding)) => envelope.content_encoding = encoding,
                (4, Field::Bytes(content)) => envelope.content_type = content,
                (1..=4, _) => return Err(malformed("wrong wire type", UNKNOWN)),
                _ => {}
            }
        }
        for content in [envelope.content_encoding, envelope.content_type] {
            if !content.is_empty() && content != MEDIA_TYPE.as_bytes() {
                let content = String::from_utf8_lossy(content).into_owned();
                return Err(DecodeError::UnsupportedContent(content));
            }
        }
        Ok(envelope)
    }

    fn parse_type(&mut self, meta: &'a [u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(meta);
        while let Some(field) = reader.field().map_err(|what| malformed(what, UNKNOWN))? {
            match field {
                (1, Field::Bytes(version)) => self.api_version = version,
                (2, Field::Bytes(kind)) => self.kind = kind,
                (1 | 2, _) => return Err(malformed("wrong wire type", UNKNOWN)),
                _ => {}
            }
        }
        Ok(())
    }

    /// The kind that the body says, or else the expected one.
    fn type_meta(&self, expected: Option<&TypeMeta>) -> Result<TypeMeta, DecodeError> {
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| malformed("text that is not UTF-8", UNKNOWN))?;
            Ok::<_, DecodeError>(text.to_owned())
        };
        let mut meta = TypeMeta {
            api_version: text(self.api_version)?,
            kind: text(self.kind)?,
        };
        if let Some(expected) = expected {
            if meta.api_version.is_empty() {
                meta.api_version.clone_from(&expected.api_version);
            }
            if meta.kind.is_empty() {
                meta.kind.clone_from(&expected.kind);
            }
        }
        match (meta.kind.is_empty(), meta.api_version.is_empty()) {
            (true, _) => Err(DecodeError::MissingKind),
            (false, true) => Err(DecodeError::MissingVersion),
            (false, false) => Ok(meta),
        }
    }
}

const UNKNOWN: &str = "k8s.io.apimachinery.pkg.runtime.Unknown";

fn malformed(what: &'static str, message: &'static str) -> DecodeError {
    DecodeError::Malformed { what, message }
}

#[cfg(test)]
mod tests;
