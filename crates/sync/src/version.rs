//! What content is called: the hash of all of it.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The SHA-256 of an object's canonical JSON: sorted keys, no blanks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version([u8; 32]);

/// As many digits are shown to people.
const SHORT: usize = 10;

// === impl Version ===

impl Version {
    pub(crate) fn of(canonical: &[u8]) -> Self {
        Self(Sha256::digest(canonical).into())
    }

    /// What is said of content that somebody changed behind sync. No object has this version,
    /// because none is empty: so it is never taken for one that was sent.
    pub fn altered() -> Self {
        Self::of(&[])
    }

    /// The first digits, for people.
    pub fn short(self) -> String {
        let mut text = hex(&self.0);
        text.truncate(SHORT);
        text
    }
}

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 2 * bytes.len() {
            return Err(());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let digit = |c: u8| match c {
                b'0'..=b'9' => Ok(c - b'0'),
                b'a'..=b'f' => Ok(c - b'a' + 10),
                _ => Err(()),
            };
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}
