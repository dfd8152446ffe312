//! What is found in a body.

use super::*;

/// The uid, the labels as `key=value`, and whether it is being deleted.
fn check(json: &str, expected: &str) {
    assert_eq!(shown(&Header::parse(json.as_bytes())), expected, "{json}");
}

fn shown(header: &Header) -> String {
    let mut parts = Vec::new();
    parts.extend(header.uid().map(|uid| uid.to_string()));
    parts.extend(header.labels().iter().map(|(k, v)| format!("{k}={v}")));
    parts.extend(header.deleting().then(|| "deleting".to_owned()));
    parts.join(" ")
}

#[test]
fn the_fields_of_metadata_are_found() {
    check(
        r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"metadata":"{\"uid\":\"no\"}"},
            "metadata":{"name":"a","uid":"0e1b2c3d-4e5f-4061-8283-a4b5c6d7e8f9",
            "labels":{"b":"2","a":"1"},"annotations":{"uid":"no"},
            "finalizers":["x"],"deletionTimestamp":"2026-01-01T00:00:00Z",
            "ownerReferences":[{"uid":"0e1b2c3d-4e5f-4061-8283-a4b5c6d7e8f0","name":"o"},{"uid":"odd"}]},
            "spec":{"template":{"metadata":{"uid":"no","labels":{"no":"no"}}}}}"#,
        "0e1b2c3d-4e5f-4061-8283-a4b5c6d7e8f9 a=1 b=2 deleting",
    );
}

#[test]
fn absent_null_and_empty_fields_are_absent() {
    check("{}", "");
    check(r#"{"metadata":null}"#, "");
    check(
        r#"{"metadata":{"uid":null,"labels":null,"finalizers":null,"deletionTimestamp":null}}"#,
        "",
    );
    check(
        r#"{"metadata":{"uid":"","labels":{},"finalizers":[],"ownerReferences":[]}}"#,
        "",
    );
    check(r#"{"metadata":[],"x":1}"#, "");
    let empty = Header::parse(br#"{"metadata":{"uid":"0e1b2c3d-4e5f-4061-8283-a4b5c6d7e8f9"}}"#);
    assert_eq!(empty.labels.0.len(), 0);
    assert!(matches!(empty.uid, Some(Uid(UidKind::Canonical(_)))));
}

#[test]
fn escapes_are_resolved_and_odd_labels_left_out() {
    check(
        r#"{"metadata":{"labels":{"a\u002fb":"\ud83d\ude00\n"}}}"#,
        "a/b=\u{1f600}\n",
    );
    check(
        r#"{"metadata":{"labels":{"a":"\ud83d","b":"\u0000","c":3,"d":"4"}}}"#,
        "d=4",
    );
    check(
        r#"{"metadata":{"labels":{"a":"1","a":"2","b":"3"}}}"#,
        "a=2 b=3",
    );
    check(r#"{"metadata":{"labels":{"":"","b":""}}}"#, "= b=");
}

#[test]
fn text_that_is_not_json_gives_what_was_found() {
    check("", "");
    check("[1,2]", "");
    check("not json", "");
    check(r#"{"metadata":{"labels":{"a":"1","#, "a=1");
    check(r#"{"metadata":{"uid":"u"}"#, "u");
    check(r#"{"metadata":{"uid":"u"#, "");
    check(r#"{"metadata"}"#, "");
    check(r#"{"a":}}"#, "");
    check(&"[".repeat(1 << 20), "");
    check(&format!("{{\"a\":{}", "{\"a\":".repeat(1 << 18)), "");
}

#[test]
fn labels_are_looked_up_by_key() {
    let header = Header::parse(br#"{"metadata":{"labels":{"b":"2","a":"1","d":""}}}"#);
    let found = ["a", "b", "c", "d", "e"].map(|key| header.labels().get(key));
    assert_eq!(found, [Some("1"), Some("2"), None, Some(""), None]);
}

#[test]
fn only_canonical_uuids_are_packed() {
    for text in [
        "0e1b2c3d-4e5f-4061-8283-a4b5c6d7e8f9",
        "0E1B2C3D-4e5f-4061-8283-a4b5c6d7e8f9",
        "0e1b2c3d-4e5f-4061-8283-a4b5c6d7e8f",
        "0e1b2c3d+4e5f-4061-8283-a4b5c6d7e8f9",
        "gggggggg-4e5f-4061-8283-a4b5c6d7e8f9",
        "",
    ] {
        assert_eq!(Uid::new(text).to_string(), text);
    }
    let packed = Uid::new("0e1b2c3d-4e5f-4061-8283-a4b5c6d7e8f9");
    assert!(matches!(packed.0, UidKind::Canonical(_)));
    let other = Uid::new("0E1B2C3D-4e5f-4061-8283-a4b5c6d7e8f9");
    assert!(matches!(other.0, UidKind::Text(_)));
}
