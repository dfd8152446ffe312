//! JSON that is text until an expression looks at it.

use std::sync::OnceLock;

use serde_json::Value as Json;

use crate::fault::{Fault, Reason};
use crate::meter::{BYTES_READ_PER_STEP, Meter};

/// JSON as bytes. It is parsed when it is first looked at, once for all expressions that do.
#[derive(Debug)]
pub struct LazyJson<'t> {
    bytes: &'t [u8],
    parsed: OnceLock<Result<Json, String>>,
}

impl<'t> LazyJson<'t> {
    pub fn new(bytes: &'t [u8]) -> Self {
        Self {
            bytes,
            parsed: OnceLock::new(),
        }
    }

    /// Whether it was looked at.
    pub fn is_parsed(&self) -> bool {
        self.parsed.get().is_some()
    }

    pub(crate) fn json(&self, meter: &mut Meter) -> Result<&Json, Box<Fault>> {
        if !self.is_parsed() {
            meter.step(self.bytes.len() as u64 / BYTES_READ_PER_STEP)?;
        }
        let parsed = self
            .parsed
            .get_or_init(|| serde_json::from_slice(self.bytes).map_err(|error| error.to_string()));
        match parsed {
            Ok(json) => Ok(json),
            Err(why) => Err(Fault::failed(Reason::BadData(format!(
                "invalid data, expected JSON: {why}"
            )))),
        }
    }
}
