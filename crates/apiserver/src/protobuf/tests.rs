use proptest::prelude::*;
use serde_json::json;

use super::wire::Writer;
use super::*;
use crate::typepack;

const SCHEMA: &str = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// A body around a message.
fn body(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(2, message);
    let mark = out.mark();
    out.bytes(2, kind.as_bytes());
    out.bytes(1, api_version.as_bytes());
    out.close(1, mark);
    out.raw(MAGIC);
    out.finish()
}

/// A message from its fields, in the order in which they are given.
fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = Writer::default();
    for (number, bytes) in fields.iter().rev() {
        out.bytes(*number, bytes);
    }
    out.finish()
}

fn check(api_version: &str, kind: &str, bytes: &[u8], expected: Result<Value, DecodeError>) {
    let decoded = decode(
        typepack::load().tables(),
        &body(api_version, kind, bytes),
        None,
    );
    assert_eq!(decoded.map(|decoded| decoded.value), expected);
}

fn decode_body(body: &[u8]) -> Result<Decoded, DecodeError> {
    decode(typepack::load().tables(), body, None)
}

#[test]
fn an_envelope_must_be_one() {
    let cases: [(&[u8], DecodeError); 6] = [
        (b"", DecodeError::NotProtobuf),
        (b"{}", DecodeError::NotProtobuf),
        (b"k8s\0", DecodeError::MissingKind),
        (b"k8s\0\xff", malformed("an unterminated number", UNKNOWN)),
        (b"k8s\0\x0a\x7f", malformed("an unexpected end", UNKNOWN)),
        (b"k8s\0\x08\x01", malformed("wrong wire type", UNKNOWN)),
    ];
    for (bytes, error) in cases {
        assert_eq!(decode_body(bytes), Err(error), "{bytes:?}");
    }
    assert_eq!(
        decode_body(&body("", "Pod", b"")),
        Err(DecodeError::MissingVersion)
    );
    let unknown = |api_version: &str, kind: &str| {
        Err(DecodeError::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
    };
    assert_eq!(
        decode_body(&body("example.com/v1", "Thing", b"")),
        unknown("example.com/v1", "Thing")
    );
    assert_eq!(
        decode_body(&body("a/b/c", "Pod", b"")),
        unknown("a/b/c", "Pod")
    );
}

#[test]
fn an_envelope_with_other_content_is_refused() {
    let mut out = Writer::default();
    out.bytes(4, b"application/json");
    out.raw(MAGIC);
    let content = "application/json".to_owned();
    assert_eq!(
        decode_body(&out.finish()),
        Err(DecodeError::UnsupportedContent(content))
    );
}

#[test]
fn what_the_envelope_leaves_open_is_expected() {
    let expected = TypeMeta {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
    };
    let decoded = decode(
        typepack::load().tables(),
        &body("", "", b""),
        Some(&expected),
    )
    .unwrap();
    assert_eq!(
        decoded.value,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})
    );
}

#[test]
fn fields_become_what_go_prints() {
    let metadata = message(&[(1, b"web"), (3, b""), (999, b"skipped")]);
    let data = message(&[(1, b"k"), (2, b"v")]);
    let binary = message(&[(1, b"b"), (2, b"\xff\0")]);
    check(
        "v1",
        "ConfigMap",
        &message(&[(1, &metadata), (2, &data), (3, &binary)]),
        Ok(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "web"}, "data": {"k": "v"}, "binaryData": {"b": "/wA="}})),
    );
}

#[test]
fn zero_structs_and_required_zeroes_are_printed_but_nulls_are_not() {
    let spec = message(&[(2, b"")]);
    check(
        "v1",
        "Pod",
        &message(&[(2, &spec)]),
        Ok(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "status": {},
            "spec": {"containers": [{"name": "", "resources": {}}]}}),
        ),
    );
    check(
        "rbac.authorization.k8s.io/v1",
        "Role",
        b"",
        Ok(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {}})),
    );
}

#[test]
fn what_occurs_twice_is_merged_and_the_last_scalar_wins() {
    let (first, second) = (message(&[(1, b"a"), (4, b"u")]), message(&[(1, b"b")]));
    check(
        "v1",
        "ConfigMap",
        &message(&[(1, &first), (1, &second)]),
        Ok(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "selfLink": "u"}}),
        ),
    );
}

#[test]
fn options_belong_to_every_group() {
    for api_version in ["v1", "policy/v1", "stable.example.com/v1"] {
        check(
            api_version,
            "DeleteOptions",
            &message(&[(4, b"Foreground")]),
            Ok(
                json!({"apiVersion": api_version, "kind": "DeleteOptions", "propagationPolicy": "Foreground"}),
            ),
        );
    }
}

#[test]
fn malformed_messages_are_refused() {
    let object_meta = "k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let cases: [(Vec<u8>, &'static str, &'static str); 5] = [
        (
            message(&[(1, b"\x0a\x05a")]),
            "an unexpected end",
            object_meta,
        ),
        (message(&[(1, b"\x08\x01")]), "wrong wire type", object_meta),
        (
            message(&[(1, b"\x0a\x01\xff")]),
            "text that is not UTF-8",
            object_meta,
        ),
        (
            message(&[(1, b"\x0f")]),
            "an unknown wire type",
            object_meta,
        ),
        (
            message(&[(1, b"\x00\x00")]),
            "a field number out of range",
            object_meta,
        ),
    ];
    for (bytes, what, name) in cases {
        check("v1", "ConfigMap", &bytes, Err(malformed(what, name)));
    }
    // Owner references hold no quantity, but a quota does.
    let hard = message(&[(1, b"cpu"), (2, &message(&[(1, b"lots")]))]);
    let spec = message(&[(1, &hard)]);
    let error = malformed(
        "something that is not a quantity",
        "k8s.io.api.core.v1.ResourceQuotaSpec",
    );
    check("v1", "ResourceQuota", &message(&[(2, &spec)]), Err(error));
}

#[test]
fn deep_nesting_is_refused() {
    // `not` in a schema is field 31 of the schema itself.
    let not = schema_field("not");
    let mut schema = Vec::new();
    for _ in 0..1_000 {
        schema = message(&[(not, &schema)]);
    }
    let validation = message(&[(1, &schema)]);
    let version = message(&[(4, &validation)]);
    let spec = message(&[(7, &version)]);
    check(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &message(&[(2, &spec)]),
        Err(DecodeError::TooDeep),
    );
}

fn schema_field(name: &str) -> u32 {
    let tables = typepack::load().tables();
    let schema = tables.message(tables.schema().unwrap());
    assert_eq!(schema.name, SCHEMA);
    schema
        .fields
        .iter()
        .find(|field| field.json == name)
        .unwrap()
        .number
}

#[test]
fn a_small_body_cannot_become_a_large_object() {
    let containers = b"\x12\0".repeat(1_000_000);
    check(
        "v1",
        "Pod",
        &message(&[(2, &containers)]),
        Err(DecodeError::TooManyValues),
    );
}

#[test]
fn an_object_of_another_type_is_not_encoded() {
    let tables = typepack::load().tables();
    let cases = [
        (
            json!({}),
            EncodeError::UnknownKind {
                api_version: String::new(),
                kind: String::new(),
            },
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": ["a"]}),
            EncodeError::WrongType {
                message: "k8s.io.api.core.v1.ConfigMap",
                field: "data",
            },
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "not base64!"}}),
            EncodeError::WrongType {
                message: "k8s.io.api.core.v1.Secret",
                field: "data",
            },
        ),
    ];
    for (object, error) in cases {
        assert_eq!(encode(tables, &object), Err(error), "{object}");
    }
}

/// Kinds that together use every special type.
const KINDS: [(&str, &str); 9] = [
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "WatchEvent"),
    ("v1", "ResourceQuota"),
    ("apps/v1", "ControllerRevision"),
    ("coordination.k8s.io/v1", "Lease"),
    ("authentication.k8s.io/v1", "TokenReview"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

/// Bytes that are fields of small numbers, nested, more often than not.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..8),
        Just(b"10Gi".to_vec()),
        Just(b"{\"a\":1}".to_vec()),
        Just(Vec::new()),
    ];
    leaf.prop_recursive(8, 64, 6, |inner| {
        let field = (
            1_u32..12,
            prop_oneof![inner.prop_map(Ok), any::<u64>().prop_map(Err)],
        );
        prop::collection::vec(field, 0..6).prop_map(|fields| {
            let mut out = Writer::default();
            for (number, value) in fields {
                match value {
                    Ok(bytes) => out.bytes(number, &bytes),
                    Err(varint) => out.number(number, varint),
                }
            }
            out.finish()
        })
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = decode_body(&bytes);
        for (api_version, kind) in KINDS {
            let _ = decode_body(&body(api_version, kind, &bytes));
        }
    }

    #[test]
    fn what_decodes_survives_another_round_trip(bytes in messages(), kind in 0..KINDS.len()) {
        let (api_version, kind) = KINDS[kind];
        if let Ok(decoded) = decode_body(&body(api_version, kind, &bytes)) {
            let encoded = encode(typepack::load().tables(), &decoded.value).unwrap();
            prop_assert_eq!(decode_body(&encoded).unwrap(), decoded);
        }
    }
}
