//! Messages on the wire.

mod bounds;
mod codec;
