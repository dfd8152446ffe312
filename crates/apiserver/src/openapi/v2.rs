//! OpenAPI v2, as little of it as clients need.
//!
//! What there is to say is said in v3. Clients that fall back to v2 for what v3 does not say (such
//! as kubectl for kinds that cannot be patched) need a document that they can read: one that
//! describes nothing makes them leave checking to the server.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::json;

use crate::encode;
use crate::error::Error;
use crate::negotiate;
use crate::protobuf::wire::Writer;

/// The form of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Protobuf,
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// What it was called before, and what kubectl still asks for.
const PROTOBUF_DEPRECATED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

const TITLE: &str = "Deltaplane";

/// The document, and its media type, in the form that the client likes best.
pub(crate) fn document(headers: &HeaderMap, release: &str) -> Result<(Bytes, &'static str), Error> {
    match form(headers).ok_or_else(|| Error::not_acceptable(&[JSON, PROTOBUF]))? {
        Form::Json => Ok((json(release), JSON)),
        Form::Protobuf => Ok((protobuf(release), PROTOBUF)),
    }
}

fn form(headers: &HeaderMap) -> Option<Form> {
    let mut ranges = negotiate::ranges(headers).peekable();
    if ranges.peek().is_none() {
        return Some(Form::Json);
    }
    ranges.find_map(|range| match crate::decode::essence(range) {
        JSON | "application/*" | "*/*" => Some(Form::Json),
        PROTOBUF | PROTOBUF_DEPRECATED => Some(Form::Protobuf),
        _ => None,
    })
}

fn json(release: &str) -> Bytes {
    encode::bytes(&json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": format!("v{release}")},
        "paths": {},
        "definitions": {},
    }))
}

/// The same as a `Document` of gnostic's `openapi.v2`.
fn protobuf(release: &str) -> Bytes {
    let mut writer = Writer::default();
    // From the end to the beginning: definitions, paths, info, swagger.
    writer.bytes(9, b"");
    writer.bytes(8, b"");
    let info = writer.mark();
    writer.bytes(2, format!("v{release}").as_bytes());
    writer.bytes(1, TITLE.as_bytes());
    writer.close(2, info);
    writer.bytes(1, b"2.0");
    writer.finish().into()
}

#[cfg(test)]
mod tests {
    use http::header::ACCEPT;

    use super::*;

    #[test]
    fn clients_get_what_they_ask_for() {
        let check = |accept: &str, expected: Option<Form>| {
            let mut headers = HeaderMap::new();
            if !accept.is_empty() {
                headers.insert(ACCEPT, accept.parse().unwrap());
            }
            assert_eq!(form(&headers), expected, "{accept}");
        };
        check("", Some(Form::Json));
        check("*/*", Some(Form::Json));
        check("application/json;q=0.5", Some(Form::Json));
        check(PROTOBUF, Some(Form::Protobuf));
        check(
            &format!("{PROTOBUF_DEPRECATED},application/json"),
            Some(Form::Protobuf),
        );
        check("text/html", None);
    }

    #[test]
    fn the_document_is_the_same_in_both_forms() {
        // Swagger, info with title and version, no paths, no definitions.
        let expected = b"\x0a\x032.0\x12\x15\x0a\x0aDeltaplane\x12\x07v1.36.3\x42\x00\x4a\x00";
        assert_eq!(protobuf("1.36.3"), &expected[..]);
        let value: serde_json::Value = serde_json::from_slice(&json("1.36.3")).unwrap();
        assert_eq!(
            value,
            json!({"swagger": "2.0", "info": {"title": "Deltaplane", "version": "v1.36.3"},
                "paths": {}, "definitions": {}})
        );
    }
}
