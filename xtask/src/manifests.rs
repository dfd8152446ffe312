//! Manifests as kubectl reads them.

use anyhow::{Context, Result};
use serde_json::Value;

/// The documents of a text.
pub(crate) fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.starts_with("---") {
            documents.push(String::new());
            continue;
        }
        if let Some(last) = documents.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    documents
}

/// What a document says. Of two keys the last counts.
pub(crate) fn parse(document: &str) -> Result<Value> {
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
    };
    serde_saphyr::from_str_with_options(document, options).context("reading YAML")
}
