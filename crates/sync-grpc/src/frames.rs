//! Messages as gRPC puts them on a stream: a flag, a length, and the message.
//!
//! For streams that live long. What makes frames of messages otherwise, in tonic, keeps buffers as
//! large as the largest message for as long as the stream lives.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use tonic::Status;

use crate::MAX_PART;
use crate::proto::envoy::service::discovery::v3::DeltaDiscoveryResponse;

/// A flag and a length.
const HEADER: usize = 5;
/// What is smaller is not compressed: setting that up takes longer than to send it.
const WORTH_COMPRESSING: usize = 4 << 10;

/// A response as a frame, compressed if the receiver takes that and it is worth it.
pub fn frame(response: &DeltaDiscoveryResponse, compress: bool) -> Result<Bytes, Status> {
    let failed = |error: io::Error| Status::internal(error.to_string());
    let length = response.encoded_len();
    if length > MAX_PART {
        return Err(too_long(length));
    }
    let compress = compress && length >= WORTH_COMPRESSING;
    let mut framed = match compress {
        true => vec![0; HEADER],
        false => {
            let mut framed = Vec::with_capacity(HEADER + length);
            framed.resize(HEADER, 0);
            framed
        }
    };
    if compress {
        let mut encoder = GzEncoder::new(framed, Compression::fast());
        encoder
            .write_all(&response.encode_to_vec())
            .map_err(failed)?;
        framed = encoder.finish().map_err(failed)?;
    } else {
        // A vector grows as it must: this cannot fail.
        response.encode_raw(&mut framed);
    }
    let length = framed.len() - HEADER;
    let length = u32::try_from(length).map_err(|_| too_long(length))?;
    framed[0] = u8::from(compress);
    framed[1..HEADER].copy_from_slice(&length.to_be_bytes());
    Ok(framed.into())
}

fn too_long(length: usize) -> Status {
    Status::out_of_range(format!(
        "a message of {length} bytes is too long; the limit is {MAX_PART} bytes"
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    /// What a receiver reads, and whether it was compressed.
    fn read(frame: &[u8]) -> (bool, DeltaDiscoveryResponse) {
        let (header, body) = frame.split_at(HEADER);
        let length = u32::from_be_bytes(header[1..].try_into().expect("four bytes"));
        assert_eq!(length as usize, body.len());
        let compressed = header[0] == 1;
        let mut plain = Vec::new();
        match compressed {
            true => GzDecoder::new(body).read_to_end(&mut plain).expect("gzip"),
            false => plain.write(body).expect("written"),
        };
        let message = DeltaDiscoveryResponse::decode(plain.as_slice()).expect("a message");
        (compressed, message)
    }

    #[test]
    fn what_is_large_is_compressed_for_who_takes_it() {
        let check = |size: usize, takes: bool, expected: bool| {
            let response = DeltaDiscoveryResponse {
                nonce: "n".repeat(size),
                ..DeltaDiscoveryResponse::default()
            };
            let frame = frame(&response, takes).expect("framed");
            assert_eq!(read(&frame), (expected, response));
        };
        check(0, true, false);
        check(100, true, false);
        check(100_000, true, true);
        check(100_000, false, false);
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let response = DeltaDiscoveryResponse {
            nonce: "n".repeat(MAX_PART),
            ..DeltaDiscoveryResponse::default()
        };
        // The limit is for what the receiver makes of it.
        for compress in [false, true] {
            let refused = frame(&response, compress).expect_err("too long");
            assert_eq!(refused.code(), tonic::Code::OutOfRange);
        }
    }
}
