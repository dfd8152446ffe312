//! Digests of JSON.

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

/// Feeds JSON so that different values are different bytes. Values of expressions are nested no
/// deeper than the language allows.
pub(crate) fn feed(hasher: &mut Sha256, value: &Json) {
    match value {
        Json::Null => hasher.update([2]),
        Json::Bool(value) => hasher.update([3, u8::from(*value)]),
        Json::Number(number) => {
            hasher.update([4]);
            sized(hasher, number.to_string().as_bytes());
        }
        Json::String(text) => {
            hasher.update([5]);
            sized(hasher, text.as_bytes());
        }
        Json::Array(items) => {
            hasher.update([6]);
            hasher.update(items.len().to_le_bytes());
            items.iter().for_each(|item| feed(hasher, item));
        }
        Json::Object(map) => {
            hasher.update([7]);
            hasher.update(map.len().to_le_bytes());
            // In the order of the keys, whatever order the map is kept in.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in entries {
                sized(hasher, key.as_bytes());
                feed(hasher, value);
            }
        }
    }
}

/// Bytes as people read them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(half)]));
        }
    }
    text
}

pub(crate) fn sized(hasher: &mut Sha256, bytes: &[u8]) {
    hasher.update(bytes.len().to_le_bytes());
    hasher.update(bytes);
}
