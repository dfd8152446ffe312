//! Objects as bytes: stored with a gap where the store writes the revision, and served as stored.

use bytes::Bytes;
use deltaplane_store::Draft;
use serde_json::{Map, Value};

/// The bytes of an object for the store, `metadata.resourceVersion` left for it to fill.
///
/// `object` must have a `metadata` object; what is under `metadata.resourceVersion` is ignored.
pub(crate) fn draft(object: &Value, tag: u64) -> Draft {
    let mut out = Vec::with_capacity(1024);
    let mut revision_at = None;
    out.push(b'{');
    for (key, value) in object.as_object().into_iter().flatten() {
        write_key(&mut out, key);
        match (key.as_str(), value) {
            ("metadata", Value::Object(metadata)) => {
                revision_at = Some(write_metadata(&mut out, metadata));
            }
            _ => write(&mut out, value),
        }
    }
    out.push(b'}');
    let revision_at = revision_at.and_then(|at| u32::try_from(at).ok());
    Draft {
        bytes: out.into(),
        revision_at,
        tag,
    }
}

/// Writes metadata with an empty `resourceVersion`; gives the place between its quotes.
fn write_metadata(out: &mut Vec<u8>, metadata: &Map<String, Value>) -> usize {
    let mut at = None;
    out.push(b'{');
    for (key, value) in metadata {
        if at.is_none() && key.as_str() >= "resourceVersion" {
            at = Some(write_gap(out));
        }
        if key != "resourceVersion" {
            write_key(out, key);
            write(out, value);
        }
    }
    let at = at.unwrap_or_else(|| write_gap(out));
    out.push(b'}');
    at
}

fn write_gap(out: &mut Vec<u8>) -> usize {
    write_key(out, "resourceVersion");
    out.extend_from_slice(b"\"\"");
    out.len() - 1
}

fn write_key(out: &mut Vec<u8>, key: &str) {
    if !matches!(out.last(), Some(b'{')) {
        out.push(b',');
    }
    serde_json::to_writer(&mut *out, key).expect("a string is always written to a Vec");
    out.push(b':');
}

fn write(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("a JSON value is always written to a Vec");
}

/// Any value as bytes.
pub(crate) fn bytes(value: &Value) -> Bytes {
    let mut out = Vec::with_capacity(1024);
    write(&mut out, value);
    out.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(object: Value) {
        let draft = draft(&object, 7);
        let at = draft.revision_at.expect("there is a gap") as usize;
        let mut text = draft.bytes.to_vec();
        text.splice(at..at, *b"42");
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = json!("42");
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), expected);
    }

    #[test]
    fn the_revision_goes_into_the_gap() {
        check(json!({"apiVersion": "v1", "metadata": {}}));
        check(json!({"metadata": {"name": "a", "uid": "u"}, "zeta": 1}));
        check(json!({"data": {}, "metadata": {"name": "a", "resourceVersion": "7", "uid": "u"}}));
        check(json!({"metadata": {"resourceVersion": "7"}}));
        check(json!({"metadata": {"uid": "\"quoted\""}}));
    }
}
