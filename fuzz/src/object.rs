//! Schemas and the objects that they are for.
//!
//! The input is a schema, a zero byte, an object, a zero byte, and a patch of it.
#![no_main]

use deltaplane_api::{field, json};
use deltaplane_schema::{crd, strategic};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(3, |byte| *byte == 0);
    let mut part = || -> Value {
        let text = parts.next().unwrap_or_default();
        json::parse(text)
            .map(|parsed| parsed.value)
            .unwrap_or_default()
    };
    let (raw, mut object, patch) = (part(), part(), part());
    let Ok(schema) = crd::compile(&raw, &field::Path::root(), crd::Options::default()) else {
        return;
    };
    let before = object.clone();
    schema.prune(&mut object);
    schema.validate(&object, Some(&before));
    let _ = strategic::apply(&schema, &object, &patch);
});
