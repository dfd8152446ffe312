//! Answers in protobuf: what is kept as JSON, for clients that take nothing else.
//!
//! Objects and statuses are converted whole, events of a watch one by one, and lists item by item as
//! the client reads: the length of a list comes before its items, so they are measured first.

use std::sync::Arc;

use bytes::Bytes;
use deltaplane_api::kind::ApiVersion;
use serde_json::{Value, json};

use super::wire::Writer;
use super::{EncodeError, MAGIC, encode, encode::message as encode_message};
use crate::body::{Body, Pieces};
use crate::error::Error;
use crate::typepack;

/// The media type of the events of a watch.
pub(crate) const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The end of an envelope, after the message: no content encoding, and no content type.
const ENVELOPE_END: &[u8] = &[0x1a, 0, 0x22, 0];

/// The items of a list, and how each is made.
pub(crate) struct ListParts<T> {
    /// The version and kind of the list.
    pub(crate) api_version: String,
    pub(crate) list_kind: String,
    /// The kind of its items.
    pub(crate) kind: String,
    pub(crate) metadata: Value,
    pub(crate) items: Vec<T>,
}

/// An object, or a `Status`, that was written as JSON. None if it has no encoding.
pub(crate) fn object(json: &[u8]) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_slice(json).ok()?;
    encode(typepack::load().tables(), &value).ok()
}

/// Events of a watch that were written as JSON, one to a line.
pub(crate) fn events(lines: &[u8]) -> Vec<u8> {
    let lines = lines.split(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.is_empty())
        .flat_map(event)
        .collect()
}

/// One event, with its length before it.
fn event(line: &[u8]) -> Vec<u8> {
    let event: Value = serde_json::from_slice(line).unwrap_or_default();
    let tables = typepack::load().tables();
    let (sort, object) = match encode(tables, &event["object"]) {
        Ok(object) => (event["type"].as_str().unwrap_or_default(), object),
        Err(error) => {
            let status = Error::internal(error).to_status();
            ("ERROR", encode(tables, &status).unwrap_or_default())
        }
    };
    let mut out = Writer::default();
    let mark = out.mark();
    out.bytes(1, &object);
    out.close(2, mark);
    out.bytes(1, sort.as_bytes());
    let message = out.finish();
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), message.as_slice()].concat()
}

impl<T: Send + Sync + 'static> ListParts<T> {
    /// The list, rendered as the client reads; `value` makes the JSON of an item.
    pub(crate) fn into_body(
        self,
        value: impl Fn(&T) -> Value + Send + 'static,
    ) -> Result<Body, EncodeError> {
        let version = self.api_version.as_str();
        let render = {
            let (version, kind) = (version.to_owned(), self.kind.clone());
            move |item: &T| message(&version, &kind, &value(item))
        };
        let head = message(
            version,
            &self.list_kind,
            &json!({"metadata": self.metadata}),
        )?;
        let mut length = head.len();
        for item in &self.items {
            let item = render(item)?.len();
            length += field_prefix(2, item).len() + item;
        }
        let head = [
            MAGIC,
            &type_meta(version, &self.list_kind),
            &field_prefix(2, length),
            &head,
        ];
        let head = std::iter::once(Pieces::from(Bytes::from(head.concat())));
        let items = Arc::new(self.items);
        let count = items.len();
        let items = (0..count).map(move |index| {
            // It could be rendered when it was measured, and has not changed since.
            let item = items.get(index).map(&render);
            let bytes = item.and_then(Result::ok).unwrap_or_default();
            let mut pieces = Pieces::from(Bytes::from(field_prefix(2, bytes.len())));
            pieces.push(bytes.into());
            pieces
        });
        let end = std::iter::once(Pieces::from(Bytes::from_static(ENVELOPE_END)));
        Ok(Body::rendered(head.chain(items).chain(end)))
    }
}

/// The message of an object, without an envelope.
fn message(api_version: &str, kind: &str, value: &Value) -> Result<Vec<u8>, EncodeError> {
    let tables = typepack::load().tables();
    let version = api_version.parse::<ApiVersion>().ok();
    let id = version.and_then(|version| tables.find(&version, kind));
    let id = id.ok_or_else(|| EncodeError::UnknownKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    })?;
    encode_message(tables, id, value)
}

/// The first field of an envelope.
fn type_meta(api_version: &str, kind: &str) -> Vec<u8> {
    let mut out = Writer::default();
    let mark = out.mark();
    out.bytes(2, kind.as_bytes());
    out.bytes(1, api_version.as_bytes());
    out.close(1, mark);
    out.finish()
}

/// What precedes a field of so many bytes.
fn field_prefix(number: u32, length: usize) -> Vec<u8> {
    let mut out = Writer::default();
    out.varint(u64::try_from(length).unwrap_or(u64::MAX));
    out.varint((u64::from(number) << 3) | 2);
    out.finish()
}
