//! An instance as it is kept: text, which takes a fraction of what it takes when it is parsed.

use std::sync::{Arc, OnceLock};

use deltaplane_client::Item;
use serde_json::Value;

/// An instance, as its feed told it last.
#[derive(Clone)]
pub(super) struct KeptInstance {
    uid: Box<str>,
    /// Without who wrote what, which nobody asks.
    text: Box<[u8]>,
    /// What it says, once all instances are read again and again.
    parsed: OnceLock<Arc<Value>>,
}

// === impl KeptInstance ===

impl KeptInstance {
    pub(super) fn of(item: &Item) -> Option<Self> {
        let mut json: Value = item.parse().ok()?;
        json["metadata"].as_object_mut()?.remove("managedFields");
        Some(Self {
            uid: item.header.uid.as_str().into(),
            text: json.to_string().into_bytes().into(),
            parsed: OnceLock::new(),
        })
    }

    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    /// What it says, for a look at this one.
    pub(super) fn json(&self) -> Arc<Value> {
        let parsed = self.parsed.get().cloned();
        parsed.unwrap_or_else(|| Arc::new(self.parse()))
    }

    /// What it says, for those who look at all instances again and again: it is kept.
    pub(super) fn read(&self) -> &Arc<Value> {
        self.parsed.get_or_init(|| Arc::new(self.parse()))
    }

    fn parse(&self) -> Value {
        // It was written by this.
        serde_json::from_slice(&self.text).unwrap_or_default()
    }
}

impl PartialEq for KeptInstance {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
