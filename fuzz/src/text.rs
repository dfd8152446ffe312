//! Everything small that is read from text: selectors, quantities, names, patterns, paths.
#![no_main]

use deltaplane_api::selector::{FieldSelector, LabelSelector};
use deltaplane_api::{json, names, quantity};
use deltaplane_schema::{compile_pattern, field_path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = json::parse(input);
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Ok(selector) = text.parse::<LabelSelector>() {
        selector.matches(|_| Some("a"));
    }
    if let Ok(selector) = text.parse::<FieldSelector>() {
        selector.matches(|_| "a");
    }
    if let Ok(canonical) = quantity::canonical(text) {
        let again = quantity::canonical(&canonical).expect("what is canonical can be read");
        assert_eq!(canonical, again);
    }
    names::qualified_name(text);
    names::dns_subdomain(text);
    let _ = field_path::steps(text);
    if let Ok(pattern) = compile_pattern(text, 256 << 10) {
        pattern.is_match(text);
    }
});
