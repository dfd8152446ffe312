//! Sync over gRPC: the messages of [`deltaplane_sync`] as Envoy's incremental discovery, and the
//! services that carry them. It decides nothing.
//!
//! Invariant: whatever bytes a peer sends come out as a message that is legal in itself, or as a
//! [`ProtocolError`].

mod bounded;
mod codec;
mod frames;
mod readiness;
mod report;

use deltaplane_sync::ProtocolError;
use futures::{Stream, stream};
use tokio::sync::mpsc;
use tonic::{Code, Status};

pub use bounded::{BoundedCodec, BoundedDecoder, Shape, Shaped, WireMessage};
pub use codec::{
    cut, decode_request, decode_response, encode_request, encode_response, size_of_subscription,
};
pub use frames::frame;
pub use readiness::{decode_asked, decode_fared, encode_asked, encode_fared};
pub use report::{decode_uploaded, encode_uploaded};

/// No message is larger. Only a subscription can be as large, which names all objects of a kind that
/// the receiver holds; a compressed one has no more than a part, so that nobody makes much of few bytes.
pub const MAX_MESSAGE: usize = 64 << 20;

/// No other message is larger: objects go in parts of a megabyte and one object, which has up to
/// three megabytes (`apiserver` refuses larger ones) and can be a few times as long where its
/// characters are escaped.
pub const MAX_PART: usize = 16 << 20;

/// The header with the number of a session.
pub const SESSION: &str = "deltaplane-session";

/// How a peer is told that it did not keep to the protocol, or has to resume by versions.
pub fn protocol_status(error: &ProtocolError) -> Status {
    let code = match error {
        ProtocolError::TooOld { .. } | ProtocolError::Behind => Code::OutOfRange,
        ProtocolError::UnexpectedAnswer { .. }
        | ProtocolError::NotSubscribed { .. }
        | ProtocolError::SubscribedTwice { .. }
        | ProtocolError::Unanswered { .. }
        | ProtocolError::OrphanedByZone { .. }
        | ProtocolError::TooManyChanges { .. }
        | ProtocolError::TooManyKinds { .. }
        | ProtocolError::TooManyObjects { .. }
        | ProtocolError::Malformed(_) => Code::InvalidArgument,
    };
    Status::new(code, error.to_string())
}

/// Whether a peer said that a stream can be resumed by versions only.
pub fn wants_versions(status: &Status) -> bool {
    status.code() == Code::OutOfRange
}

/// What is put into a channel, as the messages of a call.
pub fn receiving<T: Send + 'static>(
    receiver: mpsc::Receiver<T>,
) -> impl Stream<Item = T> + Send + 'static {
    stream::unfold(receiver, |mut receiver| async {
        let item = receiver.recv().await?;
        Some((item, receiver))
    })
}

/// The messages and services, as they are on the wire: a module for each package.
pub mod proto {
    #![expect(
        clippy::allow_attributes,
        clippy::too_many_lines,
        reason = "generated code is as its generator writes it"
    )]

    include!(concat!(env!("OUT_DIR"), "/proto.rs"));
}
