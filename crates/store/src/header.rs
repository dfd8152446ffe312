//! The small part of an object that the store keeps parsed, so that selectors
//! and preconditions need not parse bodies.
//!
//! [`Header::parse`] reads it from the JSON of a Kubernetes object in one pass
//! without building a tree. It never fails: what is no such object has an
//! empty header. Validation is the API server's; this only has to find the
//! same values that a full parser would find in valid JSON.
//!
//! Invariant: an object without labels and with a canonical UUID costs no
//! allocation here.

mod scan;

use std::fmt;

/// What the store knows of an object's content.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Header {
    labels: Labels,
    uid: Option<Uid>,
    deleting: bool,
}

/// Parses a body into a header; the store is given one when it is opened.
pub type HeaderFn = fn(&[u8]) -> Header;

/// The labels of an object, sorted by key.
///
/// One string for all, each key and value ended by NUL. Labels whose key or
/// value contains NUL are left out: they are illegal in Kubernetes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels(Box<str>);

/// A unique id: 16 bytes when it is a canonical UUID, text otherwise.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(UidKind);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum UidKind {
    Canonical([u8; 16]),
    Text(Box<str>),
}

// === impl Header ===

impl Header {
    /// Reads the header from the JSON of a Kubernetes object.
    #[must_use]
    pub fn parse(json: &[u8]) -> Self {
        scan::header(json)
    }

    /// A header with nothing in it, for stores of other content.
    #[must_use]
    pub fn none(_: &[u8]) -> Self {
        Self::default()
    }

    /// `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> Option<Uid> {
        self.uid.clone()
    }

    /// `metadata.labels`.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Whether `metadata.deletionTimestamp` is set.
    #[must_use]
    pub fn deleting(&self) -> bool {
        self.deleting
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header")
            .field("uid", &self.uid())
            .field("labels", &self.labels)
            .field("deleting", &self.deleting)
            .finish()
    }
}

// === impl Labels ===

impl Labels {
    fn from_pairs(mut pairs: Vec<(String, String)>) -> Self {
        pairs.retain(|(key, value)| !key.contains('\0') && !value.contains('\0'));
        // Of a repeated key the last one counts, as for every JSON parser that
        // keeps one.
        pairs.reverse();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, kept| later.0 == kept.0);
        let len = pairs.iter().map(|(k, v)| k.len() + v.len() + 2).sum();
        let mut text = String::with_capacity(len);
        for (key, value) in &pairs {
            for part in [key, value] {
                text.push_str(part);
                text.push('\0');
            }
        }
        Self(text.into_boxed_str())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter()
            .take_while(|(found, _)| *found <= key)
            .find_map(|(found, value)| (found == key).then_some(value))
    }

    /// All labels, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.0.split_terminator('\0');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

// === impl Uid ===

impl Uid {
    /// Any text is a uid; a canonical UUID is kept as its 16 bytes.
    #[must_use]
    pub fn new(text: &str) -> Self {
        match uuid_bytes(text.as_bytes()) {
            Some(bytes) => Self(UidKind::Canonical(bytes)),
            None => Self(UidKind::Text(text.into())),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match &self.0 {
            UidKind::Text(text) => return f.write_str(text),
            UidKind::Canonical(bytes) => bytes,
        };
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The bytes of a UUID in its canonical, lower-case form.
fn uuid_bytes(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 || [8, 13, 18, 23].iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = text.iter().enumerate();
    for byte in &mut bytes {
        let mut next = || digits.find(|(at, _)| !matches!(at, 8 | 13 | 18 | 23));
        let (high, low) = (hex(*next()?.1)?, hex(*next()?.1)?);
        *byte = (high << 4) | low;
    }
    Some(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        0..=b'/' | b':'..=b'`' | b'g'..=255 => None,
    }
}

#[cfg(test)]
mod tests;
