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
    let fields = || object.as_object().into_iter().flatten();
    out.push(b'{');
    // The type comes first, so that lists can leave it out without reading the object.
    for (key, value) in fields().filter(|(key, _)| is_type(key)) {
        write_key(&mut out, key);
        write(&mut out, value);
    }
    for (key, value) in fields().filter(|(key, _)| !is_type(key)) {
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

fn is_type(field: &str) -> bool {
    matches!(field, "apiVersion" | "kind")
}

/// What stored objects of this type begin with.
pub(crate) fn type_prefix(api_version: &str, kind: &str) -> Vec<u8> {
    let mut out = vec![b'{'];
    write_key(&mut out, "apiVersion");
    write(&mut out, &api_version.into());
    write_key(&mut out, "kind");
    write(&mut out, &kind.into());
    out.push(b',');
    out
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
    fn the_type_comes_first() {
        let object = json!({"apiVersion": "v1", "data": {}, "kind": "ConfigMap", "metadata": {}});
        let draft = draft(&object, 0);
        assert!(draft.bytes.starts_with(&type_prefix("v1", "ConfigMap")));
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
