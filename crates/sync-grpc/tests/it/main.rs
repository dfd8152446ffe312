//! Messages on the wire.

mod codec;
