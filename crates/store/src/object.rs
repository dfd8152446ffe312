//! One version of one object, as readers get it, and the draft that becomes one.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::{
    header::Header,
    key::Key,
    revision::{Revision, Row},
};

/// One version of one object. Immutable and shared.
///
/// The body is one exact allocation, because a store holds a hundred thousand
/// of these.
#[derive(PartialEq, Eq)]
pub struct Object {
    key: Key,
    bytes: Box<[u8]>,
    row: Row,
    created: Revision,
    tag: u64,
    header: Header,
}

/// The content of a write, before the store has given it a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The content, normally the JSON of a Kubernetes object.
    pub bytes: Bytes,
    /// Where in `bytes` the store inserts the decimal revision, so that an
    /// object can carry its own `metadata.resourceVersion`. The header is
    /// parsed before the insertion and must not depend on it.
    pub revision_at: Option<u32>,
    /// A number of the caller's, kept beside the content.
    pub tag: u64,
}

/// Keeps an object alive while its bytes are on their way to a socket.
struct Body(Arc<Object>);

/// What a driver knows about a version besides its content.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The object's key.
    pub key: Key,
    /// Where the version is in the log.
    pub row: Row,
    /// The revision at which the object was created.
    pub created: Revision,
    /// The caller's number.
    pub tag: u64,
}

// === impl Object ===

impl Object {
    /// Puts a version together; `bytes` are the content with the revision in it.
    #[must_use]
    pub fn new(identity: Identity, header: Header, bytes: Box<[u8]>) -> Self {
        let Identity {
            key,
            row,
            created,
            tag,
        } = identity;
        Self {
            key,
            bytes,
            row,
            created,
            tag,
            header,
        }
    }

    /// The object's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The revision that made this version. In a deletion's final object, the
    /// revision of the deletion.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.row.revision()
    }

    /// The revision at which the object was created.
    #[must_use]
    pub fn created(&self) -> Revision {
        self.created
    }

    /// The number that the writer kept beside the content.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// The parsed part of the content.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The content, with the revision in it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The content as shared bytes, without a copy.
    #[must_use]
    pub fn body(self: &Arc<Self>) -> Bytes {
        Bytes::from_owner(Body(Arc::clone(self)))
    }

    /// Where this version is in the log.
    #[must_use]
    pub fn row(&self) -> Row {
        self.row
    }

    /// This version as the final one of a deletion that brought no content of
    /// its own.
    #[must_use]
    pub fn deleted_at(&self, row: Row) -> Self {
        Self {
            key: self.key.clone(),
            bytes: self.bytes.clone(),
            row,
            created: self.created,
            tag: self.tag,
            header: self.header.clone(),
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("key", &self.key)
            .field("revision", &self.revision().get())
            .field("created", &self.created.get())
            .field("tag", &self.tag)
            .field("bytes", &String::from_utf8_lossy(&self.bytes))
            .finish_non_exhaustive()
    }
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

// === impl Draft ===

impl Draft {
    /// Content in which the store inserts nothing.
    pub fn opaque(bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            revision_at: None,
            tag: 0,
        }
    }

    /// Content in which the store inserts the revision at `revision_at`.
    pub fn stamped(bytes: impl Into<Bytes>, revision_at: u32) -> Self {
        Self {
            bytes: bytes.into(),
            revision_at: Some(revision_at),
            tag: 0,
        }
    }

    /// The same draft with another tag.
    #[must_use]
    pub fn tagged(self, tag: u64) -> Self {
        Self { tag, ..self }
    }

    /// The content of this draft at `revision`, in one exact allocation.
    #[must_use]
    pub fn stamp(&self, revision: Revision) -> Box<[u8]> {
        let Some(at) = self.revision_at else {
            return self.bytes.as_ref().into();
        };
        // Transactions with a position past the end are refused before.
        let (before, after) = self.bytes.split_at((at as usize).min(self.bytes.len()));
        let mut digits = [0; 20];
        let digits = decimal(revision.get(), &mut digits);
        let mut stamped = Vec::with_capacity(self.bytes.len() + digits.len());
        stamped.extend_from_slice(before);
        stamped.extend_from_slice(digits);
        stamped.extend_from_slice(after);
        stamped.into_boxed_slice()
    }
}

fn decimal(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut start = buffer.len();
    loop {
        start -= 1;
        buffer[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[start..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_inserted_where_the_draft_says() {
        let check = |draft: Draft, revision: u64, expected: &str| {
            let stamped = draft.stamp(Revision::new(revision));
            assert_eq!(String::from_utf8_lossy(&stamped), expected);
        };
        check(Draft::stamped(r#"{"rv":""}"#, 7), 105, r#"{"rv":"105"}"#);
        check(Draft::stamped("", 0), 0, "0");
        check(
            Draft::stamped("ab", 2),
            Revision::MAX.get(),
            "ab72057594037927935",
        );
        check(Draft::stamped("ab", 9), 1, "ab1");
        check(Draft::opaque("ab"), 9, "ab");
    }
}
