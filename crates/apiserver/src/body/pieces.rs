//! Bytes in pieces that nobody copies before they are encrypted: stored objects, shared
//! encodings, and the punctuation between them.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use deltaplane_runtime::transit::InTransit;
use deltaplane_store::Object;

use super::{BrokenOff, UNCOUNTED};
use crate::flow::{AnswerMemory, AnswerShare};

/// A sequence of pieces, read from the front.
#[derive(Default)]
pub struct Pieces {
    queue: VecDeque<Piece>,
    /// How much of the first piece has been read.
    read: usize,
    left: usize,
    /// The size of the pieces that were rendered for one client.
    rendered: usize,
    /// Counts their memory until they are dropped.
    memory: Option<AnswerMemory>,
    /// Set while they are on their way to the client.
    transit: Option<InTransit>,
}

/// Never empty within [`Pieces`]: an empty one would read as the end.
enum Piece {
    Static(&'static [u8]),
    /// Bytes that the server keeps anyway, or that others have too.
    Shared(Bytes),
    /// Bytes that were made for one client.
    Rendered(Bytes),
    /// A stored object's bytes from a place on. Holding the object costs no allocation, which
    /// shared bytes of it would.
    Object(Arc<Object>, usize),
}

// === impl Piece ===

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Static(bytes) => bytes,
            Self::Shared(bytes) | Self::Rendered(bytes) => bytes,
            Self::Object(object, from) => object.bytes().get(*from..).unwrap_or_default(),
        }
    }
}

// === impl Pieces ===

impl Pieces {
    /// None yet, and room for some.
    pub(crate) fn with_capacity(pieces: usize) -> Self {
        Self {
            queue: VecDeque::with_capacity(pieces),
            ..Self::default()
        }
    }

    /// Bytes that the server keeps anyway, or that others have too: they cost no memory.
    pub(crate) fn shared(bytes: Bytes) -> Self {
        let mut pieces = Self::with_capacity(1);
        pieces.push_shared(bytes);
        pieces
    }

    /// How many bytes were rendered for one client.
    pub(super) fn rendered_bytes(&self) -> usize {
        self.rendered
    }

    /// Counts the rendered bytes for their user until the pieces are dropped, unless they are
    /// counted or few.
    pub(super) fn count(&mut self, share: &AnswerShare) -> Result<(), BrokenOff> {
        if self.memory.is_none() && self.rendered >= UNCOUNTED {
            self.memory = Some(share.take(self.rendered).ok_or(BrokenOff)?);
        }
        Ok(())
    }

    /// Counts them by memory that was taken already.
    pub(super) fn count_with(&mut self, memory: AnswerMemory) {
        self.memory = Some(memory);
    }

    /// Says what the client takes of them from now on.
    pub fn follow(&mut self, transit: InTransit) {
        self.transit = Some(transit);
    }

    /// Adds what everybody has.
    pub(crate) fn push_static(&mut self, bytes: &'static [u8]) {
        self.push_piece(Piece::Static(bytes));
    }

    /// Adds bytes that were rendered for one client.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.rendered += bytes.len();
        self.push_piece(Piece::Rendered(bytes));
    }

    /// Adds bytes that the server keeps anyway, or that others have too.
    pub(crate) fn push_shared(&mut self, bytes: Bytes) {
        self.push_piece(Piece::Shared(bytes));
    }

    /// Adds a stored object's bytes, the first `from` left out.
    pub(crate) fn push_object(&mut self, object: &Arc<Object>, from: usize) {
        self.push_piece(Piece::Object(Arc::clone(object), from));
    }

    /// Adds all pieces of another sequence, none of which has been read.
    pub(super) fn append(&mut self, mut other: Self) {
        debug_assert_eq!(other.read, 0, "it is appended whole");
        self.left += other.left;
        self.rendered += other.rendered;
        self.queue.append(&mut other.queue);
    }

    fn push_piece(&mut self, piece: Piece) {
        let size = piece.bytes().len();
        if size > 0 {
            self.left += size;
            self.queue.push_back(piece);
        }
    }
}

/// Bytes that were rendered for one client.
impl From<Bytes> for Pieces {
    fn from(bytes: Bytes) -> Self {
        let mut pieces = Self::with_capacity(1);
        pieces.push(bytes);
        pieces
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        let first = self.queue.front();
        first.map_or(&[], |piece| &piece.bytes()[self.read..])
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut read = self.read;
        let mut filled = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.queue) {
            *slice = IoSlice::new(&piece.bytes()[std::mem::take(&mut read)..]);
            filled += 1;
        }
        filled
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.left, "nobody reads beyond the end");
        if let Some(transit) = &self.transit {
            transit.progress();
        }
        self.left -= count;
        self.read += count;
        while let Some(first) = self.queue.front().map(|piece| piece.bytes().len())
            && self.read >= first
        {
            self.read -= first;
            self.queue.pop_front();
        }
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        // Within one piece, bytes are shared, not copied: a client in this process reads so.
        if let Some(Piece::Shared(bytes) | Piece::Rendered(bytes)) = self.queue.front()
            && self.read + count <= bytes.len()
        {
            let bytes = bytes.slice(self.read..self.read + count);
            self.advance(count);
            return bytes;
        }
        let mut out = Vec::with_capacity(count);
        while out.len() < count {
            let chunk = self.chunk();
            let taken = chunk.len().min(count - out.len());
            out.extend_from_slice(&chunk[..taken]);
            self.advance(taken);
        }
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Pieces {
        let mut pieces = Pieces::with_capacity(3);
        pieces.push_static(b"ab");
        pieces.push(Bytes::from_static(b""));
        pieces.push(Bytes::from_static(b"cde"));
        pieces.push_static(b"f");
        pieces
    }

    /// What is left after `count` bytes, read in three ways.
    fn check(count: usize, expected: &str) {
        let mut copied = three();
        copied.copy_to_bytes(count);
        assert_eq!(copied.remaining(), expected.len());
        assert_eq!(copied.copy_to_bytes(expected.len()), expected);
        let mut advanced = three();
        advanced.advance(count);
        let mut slices = [IoSlice::new(&[]); 4];
        let filled = advanced.chunks_vectored(&mut slices);
        let seen: Vec<u8> = slices[..filled].iter().flat_map(|s| s.to_vec()).collect();
        assert_eq!(seen, expected.as_bytes());
        let mut chunks = Vec::new();
        while advanced.has_remaining() {
            chunks.extend_from_slice(advanced.chunk());
            advanced.advance(advanced.chunk().len());
        }
        assert_eq!(chunks, expected.as_bytes());
    }

    #[test]
    fn pieces_are_read_from_anywhere() {
        for count in 0..=6 {
            check(count, &"abcdef"[count..]);
        }
    }

    #[test]
    fn within_one_piece_nothing_is_copied() {
        let bytes = Bytes::from(vec![b'x'; 100]);
        let mut pieces = Pieces::from(bytes.clone());
        pieces.push_static(b"more");
        let half = pieces.copy_to_bytes(50);
        assert_eq!((half.as_ptr(), half.len()), (bytes.as_ptr(), 50));
        assert_eq!(pieces.copy_to_bytes(50).as_ptr(), bytes[50..].as_ptr());
    }
}
