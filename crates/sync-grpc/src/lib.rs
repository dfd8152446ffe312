//! Sync over gRPC: the messages of [`deltaplane_sync`] as Envoy's incremental discovery, and the
//! services that carry them. It decides nothing.
//!
//! Invariant: whatever bytes a peer sends come out as a message that is legal in itself, or as a
//! [`ProtocolError`](deltaplane_sync::ProtocolError).

mod codec;

pub use codec::{decode_request, decode_response, encode_request, encode_response};

/// The messages and services, as they are on the wire: a module for each package.
pub mod proto {
    #![expect(
        clippy::all,
        clippy::pedantic,
        reason = "generated code is as its generator writes it"
    )]

    include!(concat!(env!("OUT_DIR"), "/proto.rs"));
}
