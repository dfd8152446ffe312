//! Decodes messages within bounds of memory.
//!
//! An empty element of a repeated field takes two bytes in a message and a hundred in memory, and a
//! compressed message is a thousandth of what it becomes. So the elements of a message are counted
//! before it is decoded, and a message that would take much more memory than bytes is refused.
//!
//! Invariant: no peer makes this side decode a message whose elements take more memory than twice
//! [`WireMessage::MAX_BYTES`].

use std::marker::PhantomData;

use bytes::Buf;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use crate::proto::deltaplane::sync::v1::{
    Answer, Certificate, CertificateRequest, Hello, Question, Rejected, ReportSeen, Welcome,
    ZoneReport,
};
use crate::proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use crate::{MAX_MESSAGE, MAX_PART};

/// A message that peers send each other, and the most bytes that it has.
pub trait WireMessage: Message + Default + Shaped + 'static {
    const MAX_BYTES: usize;
}

/// A message whose elements can be counted. Generated for all messages in `proto/`.
pub trait Shaped {
    const SHAPE: &'static Shape;
}

/// The fields of a message.
pub struct Shape(&'static [Field]);

struct Field {
    number: u32,
    /// The memory of an element, if the field is repeated.
    size: usize,
    nested: Option<&'static Shape>,
}

/// Encodes as prost does, and decodes messages that are within their bounds.
#[derive(Clone, Debug)]
pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

#[derive(Debug)]
pub struct BoundedDecoder<U>(ProstDecoder<U>);

/// Says why a message is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BoundError {
    #[error("a message of {len} bytes is too long; the limit is {max} bytes")]
    Length { len: usize, max: usize },
    #[error("a message of {len} bytes has elements that take more than {max} bytes of memory")]
    Elements { len: usize, max: usize },
    #[error("a message is nested too deeply")]
    Depth,
}

/// The memory that elements may take for each byte of their message. The shortest that peers send
/// are names of objects: four bytes and more, for a text in a vector that may have twice the room
/// that it needs (48 bytes). Entries of maps have names and versions, and take less.
const MEMORY_PER_BYTE: usize = 8;
/// The memory that elements may take for each byte of the longest message of its kind: that is a
/// subscription, of which an entry takes about 100 bytes, and up to 112 in memory.
const MEMORY_OF_LONGEST: usize = 2;
/// The memory that the elements of any message may take: parts of what is sent have up to a thousand
/// elements, of which some are smaller than names (a forgotten object: 7 bytes, and 176 in memory).
const FREE_MEMORY: usize = 1 << 20;
/// A vector that grows has up to twice the room that it needs.
const GROWTH: usize = 2;
/// As deep as prost decodes.
const MAX_DEPTH: usize = 100;

include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

// --- bounds

impl WireMessage for DeltaDiscoveryRequest {
    /// A subscription names all that the receiver holds, and does not go in parts.
    const MAX_BYTES: usize = MAX_MESSAGE;
}

/// Messages of which there are as many as needed.
macro_rules! parts {
    ($($message:ty),*) => {
        $(impl WireMessage for $message { const MAX_BYTES: usize = MAX_PART; })*
    };
}

parts!(
    Answer,
    Certificate,
    CertificateRequest,
    DeltaDiscoveryResponse,
    Hello,
    Question,
    Rejected,
    ReportSeen,
    Welcome,
    ZoneReport
);

/// Returns an error if a message is too long, or would take too much memory when decoded.
pub(crate) fn check_bounds<T: WireMessage>(bytes: &[u8]) -> Result<(), BoundError> {
    let len = bytes.len();
    if len > T::MAX_BYTES {
        let max = T::MAX_BYTES;
        return Err(BoundError::Length { len, max });
    }
    let max = (FREE_MEMORY + MEMORY_PER_BYTE * len).min(MEMORY_OF_LONGEST * T::MAX_BYTES);
    let mut room = max;
    count(bytes, T::SHAPE, &mut room, MAX_DEPTH).map_err(|excess| match excess {
        Excess::Elements => BoundError::Elements { len, max },
        Excess::Depth => BoundError::Depth,
    })
}

enum Excess {
    Elements,
    Depth,
}

/// Takes the memory of all elements from `room`. Ends where prost would: bytes behind something that
/// is not legal are not decoded.
fn count(mut bytes: &[u8], shape: &Shape, room: &mut usize, depth: usize) -> Result<(), Excess> {
    let depth = depth.checked_sub(1).ok_or(Excess::Depth)?;
    while bytes.has_remaining() {
        let Some((number, value)) = next_field(&mut bytes) else {
            return Ok(());
        };
        let field = shape.0.iter().find(|field| field.number == number);
        let (Some(field), Some(value)) = (field, value) else {
            continue;
        };
        let left = room.checked_sub(GROWTH * field.size);
        *room = left.ok_or(Excess::Elements)?;
        if let Some(nested) = field.nested {
            count(value, nested, room, depth)?;
        }
    }
    Ok(())
}

/// Reads a field: its number, and its bytes if it has some. None if it is not legal.
fn next_field<'a>(bytes: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    let (number, wire_type) = decode_key(bytes).ok()?;
    if wire_type != WireType::LengthDelimited {
        skip_field(wire_type, number, bytes, DecodeContext::default()).ok()?;
        return Some((number, None));
    }
    let len = usize::try_from(decode_varint(bytes).ok()?).ok()?;
    let (value, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some((number, Some(value)))
}

// === impl BoundedCodec ===

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + 'static,
    U: WireMessage,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstCodec::<T, U>::default().decoder())
    }
}

// === impl BoundedDecoder ===

impl<U: WireMessage> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // The buffer of a message is one piece.
        check_bounds::<U>(buffer.chunk())
            .map_err(|error| Status::resource_exhausted(error.to_string()))?;
        self.0.decode(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use deltaplane_sync::{Known, ObjectName, Position, SyncKind, Version};

    use super::*;
    use crate::proto::deltaplane::sync::v1 as wire;
    use crate::{encode_request, size_of_subscription};

    fn check<T: WireMessage>(message: &T) -> Result<(), BoundError> {
        check_bounds::<T>(&message.encode_to_vec())
    }

    fn is_refused<T: WireMessage>(message: &T) -> bool {
        matches!(check(message), Err(BoundError::Elements { .. }))
    }

    const MANY: usize = 1_000_000;

    /// Every repeated field of every message, also where it is nested.
    #[test]
    fn messages_of_empty_elements_are_refused() {
        let texts = || vec![String::new(); MANY];
        let resource = |aliases| wire_resource(aliases);
        assert!(is_refused(&DeltaDiscoveryRequest {
            resource_names_subscribe: texts(),
            ..DeltaDiscoveryRequest::default()
        }));
        assert!(is_refused(&DeltaDiscoveryRequest {
            error_detail: Some(crate::proto::google::rpc::Status {
                details: vec![prost_types::Any::default(); MANY],
                ..crate::proto::google::rpc::Status::default()
            }),
            ..DeltaDiscoveryRequest::default()
        }));
        assert!(is_refused(&DeltaDiscoveryResponse {
            removed_resources: texts(),
            ..DeltaDiscoveryResponse::default()
        }));
        assert!(is_refused(&DeltaDiscoveryResponse {
            resources: vec![resource(Vec::new()); MANY],
            ..DeltaDiscoveryResponse::default()
        }));
        assert!(is_refused(&DeltaDiscoveryResponse {
            resources: vec![resource(texts())],
            ..DeltaDiscoveryResponse::default()
        }));
        assert!(is_refused(&ZoneReport {
            fared: Some(wire::Fared {
                kinds: vec![wire::KindFared::default(); MANY],
                ..wire::Fared::default()
            }),
            ..ZoneReport::default()
        }));
        assert!(is_refused(&ZoneReport {
            uploaded: Some(wire::Uploaded {
                kinds: vec![wire::UploadedKind::default(); MANY],
                ..wire::Uploaded::default()
            }),
            ..ZoneReport::default()
        }));
        let targets = vec![wire::asked::Target::default(); MANY];
        let policy = wire::asked::Policy {
            targets,
            ..wire::asked::Policy::default()
        };
        assert!(is_refused(&ReportSeen {
            asked: Some(wire::Asked {
                policies: vec![policy],
            }),
            ..ReportSeen::default()
        }));
        assert!(is_refused(&Question {
            part: Some(wire::question::Part::Head(wire::question::Head {
                groups: texts(),
                ..wire::question::Head::default()
            })),
            ..Question::default()
        }));
        assert!(is_refused(&Answer {
            part: Some(wire::answer::Part::Head(wire::answer::Head {
                warnings: texts(),
                ..wire::answer::Head::default()
            })),
            ..Answer::default()
        }));
        assert!(is_refused(&Rejected {
            rejections: vec![wire::Rejection::default(); MANY],
        }));
        assert!(is_refused(&Hello {
            features: texts(),
            ..Hello::default()
        }));
    }

    fn wire_resource(
        aliases: Vec<String>,
    ) -> crate::proto::envoy::service::discovery::v3::Resource {
        crate::proto::envoy::service::discovery::v3::Resource {
            aliases,
            ..Default::default()
        }
    }

    /// An element behind a part that prost skips counts like any other.
    #[test]
    fn unknown_fields_hide_no_elements() {
        // Unknown fields: a varint, a fixed number, a text and a group.
        let unknown = [
            &[0xc0, 0x3e, 1][..],
            &[0xc1, 0x3e, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0xc2, 0x3e, 1, 0],
            &[0xc3, 0x3e, 0xc4, 0x3e],
        ];
        let empty = DeltaDiscoveryResponse {
            removed_resources: vec![String::new(); MANY],
            ..DeltaDiscoveryResponse::default()
        };
        let mut bytes = unknown.concat();
        bytes.extend(empty.encode_to_vec());
        assert!(DeltaDiscoveryResponse::decode(&*bytes).is_ok());
        let checked = check_bounds::<DeltaDiscoveryResponse>(&bytes);
        assert!(matches!(checked, Err(BoundError::Elements { .. })));
    }

    #[test]
    fn long_and_deep_messages_are_refused() {
        let long = Answer {
            part: Some(wire::answer::Part::Body(vec![0; MAX_PART].into())),
            ..Answer::default()
        };
        assert!(matches!(check(&long), Err(BoundError::Length { .. })));
        let mut value = prost_types::Value::default();
        for _ in 0..MAX_DEPTH {
            let values = vec![value];
            let list = prost_types::ListValue { values };
            value = prost_types::Value {
                kind: Some(prost_types::value::Kind::ListValue(list)),
            };
        }
        let metadata = prost_types::Struct {
            fields: [("sources".to_owned(), value)].into(),
        };
        let deep = DeltaDiscoveryRequest {
            node: Some(crate::proto::envoy::service::discovery::v3::Node {
                metadata: Some(metadata),
                ..Default::default()
            }),
            ..DeltaDiscoveryRequest::default()
        };
        assert_eq!(check(&deep), Err(BoundError::Depth));
    }

    /// The longest subscriptions that a zone sends, by versions and by position: a tenth of them, so
    /// that it does not take long.
    #[test]
    fn the_longest_subscriptions_are_taken() {
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        let position: Position = "store.opening@7".parse().expect("legal");
        let version: Version = "ab".repeat(32).parse().expect("legal");
        let name = |number: u32| -> ObjectName { format!("{number:x}").parse().expect("legal") };
        let names = || (500_000..564_000).map(name);
        let held = names().map(|name| (name, version));
        let beyond = names().map(|name| (name, Some(version)));
        let by_versions = Known::Versions {
            held: held.collect(),
            sources: vec![position.clone()],
        };
        let by_position = Known::Position {
            position,
            beyond: beyond.collect::<BTreeMap<_, _>>(),
        };
        for known in [by_versions, by_position] {
            let fitting = MAX_MESSAGE / size_of_subscription(&known);
            let kind = kind.clone();
            let request = encode_request(&deltaplane_sync::Request::Subscribe { kind, known });
            let bytes = request.encode_to_vec();
            assert_eq!(check(&request), Ok(()));
            let mut room = usize::MAX;
            let counted = count(&bytes, DeltaDiscoveryRequest::SHAPE, &mut room, MAX_DEPTH);
            assert!(counted.is_ok());
            let memory = usize::MAX - room;
            assert!(memory > bytes.len() / 2, "something was counted");
            assert!(memory * (fitting + 1) < MEMORY_OF_LONGEST * MAX_MESSAGE);
        }
    }
}
