use super::*;
use crate::torture::history::Colour;
use crate::torture::history::notation::version;

const KEY: Key = Key {
    namespace: 1,
    name: 2,
};
const UID: &str = "00000000-0000-0000-0000-000000000001";

/// What a server would make of a request.
fn stored(id: u32, call: Call, revision: &str) -> Value {
    let mut object: Value = serde_json::from_slice(&request(OpId(id), KEY, call)).unwrap();
    object["metadata"]["resourceVersion"] = json!(revision);
    object["metadata"]["uid"] = json!(UID);
    object
}

#[test]
fn an_object_comes_back_as_it_was_written() {
    for call in [
        Call::Create,
        Call::Replace { at: None },
        Call::Replace {
            at: Some(Revision(4)),
        },
    ] {
        let object = stored(7, call, "12");
        let read = read_object(object.to_string().as_bytes()).unwrap();
        assert_eq!(read, (KEY, version("12:7")));
    }
}

#[test]
fn a_patch_changes_what_wrote_last() {
    let mut object = stored(16, Call::Create, "12");
    let patch: Value = serde_json::from_slice(&request(OpId(9), KEY, Call::Patch)).unwrap();
    object["metadata"]["labels"] = patch["metadata"]["labels"].clone();
    for (field, value) in patch["data"].as_object().unwrap() {
        object["data"][field] = value.clone();
    }
    let read = read_object(object.to_string().as_bytes()).unwrap();
    assert_eq!(read, (KEY, version("12:16+9")));
}

#[test]
fn a_torn_object_is_not_accepted() {
    for path in ["/data/padding", "/metadata/labels/colour", "/data/last"] {
        let mut object = stored(7, Call::Create, "12");
        *object.pointer_mut(path).unwrap() = json!("8");
        let error = read_object(object.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "reading torture-1/map-2", "{path}");
    }
}

#[test]
fn events_are_read() {
    let ours = stored(7, Call::Create, "12");
    let foreign = json!({"metadata": {"name": "kube-root-ca.crt", "namespace": "torture-1", "resourceVersion": "3"}});
    let bookmark =
        json!({"metadata": {"resourceVersion": "9", "annotations": {INITIAL_END: "true"}}});
    let status = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    let change = Change {
        kind: Kind::Deleted,
        key: KEY,
        version: version("12:7"),
    };
    for (kind, object, frame) in [
        ("DELETED", ours, Frame::Change(change)),
        ("ADDED", foreign, Frame::Foreign(Revision(3))),
        (
            "BOOKMARK",
            bookmark,
            Frame::Bookmark {
                revision: Revision(9),
                initial_end: true,
            },
        ),
        (
            "ERROR",
            status,
            Frame::Error(Status {
                code: 410,
                reason: "Expired".to_owned(),
                message: "too old".to_owned(),
            }),
        ),
    ] {
        let line = json!({"type": kind, "object": object}).to_string();
        assert_eq!(read_frame(line.as_bytes()).unwrap(), frame);
    }
}

#[test]
fn scopes_are_paths_with_selectors() {
    let wanted = Scope {
        namespace: Some(2),
        name: Some(1),
        colour: Some(Colour::Red),
    };
    assert_eq!(
        scope(wanted),
        "/api/v1/namespaces/torture-2/configmaps?fieldSelector=metadata.name%3Dmap-1&labelSelector=colour%3Dred&"
    );
    assert_eq!(scope(Scope::default()), "/api/v1/configmaps?");
}
