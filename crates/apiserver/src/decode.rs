//! Bodies of requests: from JSON, YAML or protobuf to a value, within limits.

mod duplicates;

use bytes::Bytes;
use deltaplane_api::json::{self, Parsed};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::Error;
use crate::{protobuf, typepack, value};

/// What objects may be sent in.
const SUPPORTED: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Yaml,
    Protobuf,
}

/// Reads a whole body, up to `limit` bytes.
pub(crate) async fn read<B>(body: B, limit: usize) -> Result<Bytes, Error>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::too_large(limit)),
        Err(error) => Err(Error::bad_request(format!(
            "reading the body failed: {error}"
        ))),
    }
}

/// The form that a `Content-Type` names. Nothing said means JSON.
pub(crate) fn media(content_type: &str) -> Result<Media, Error> {
    match essence(content_type) {
        "" | "application/json" => Ok(Media::Json),
        "application/yaml" => Ok(Media::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Media::Protobuf),
        _ => Err(Error::unsupported_media_type(&SUPPORTED)),
    }
}

/// A media type without its parameters.
pub(crate) fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// The object in a body, of which nothing is known but that it should be of this kind.
pub(crate) fn object(content_type: &str, body: &[u8], kind: &str) -> Result<Parsed, Error> {
    let parsed = document(media(content_type)?, body).and_then(identified);
    parsed.map_err(|why| unrecognized(kind, body, &why))
}

/// The error about a body in which no object of this kind can be seen.
pub(crate) fn unrecognized(kind: &str, body: &[u8], why: &dyn std::fmt::Display) -> Error {
    let summary = summary(body);
    Error::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
    ))
}

/// The first bytes of a body: as they are if it looks like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let shown = &body[..body.len().min(SHOWN)];
    let more = if body.len() > SHOWN { " ..." } else { "" };
    match shown.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hexadecimal: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hexadecimal}{more}")
        }
    }
}

/// A body that cannot be read, and why.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub(crate) struct Unreadable(String);

/// The document in a body.
fn document(media: Media, body: &[u8]) -> Result<Parsed, Unreadable> {
    match media {
        Media::Json => json::parse(body).map_err(|error| parse_error(&json_fault(body, &error))),
        Media::Yaml => yaml(body),
        Media::Protobuf => protobuf::decode(typepack::load().tables(), body, None)
            .map(|decoded| Parsed {
                value: decoded.value,
                duplicates: Vec::new(),
            })
            .map_err(|error| Unreadable(error.to_string())),
    }
}

/// What is wrong with JSON that could not be read, in the words that clients know if there are
/// some: not for what only we refuse, such as documents that are too deep.
pub(crate) fn json_fault(body: &[u8], error: &serde_json::Error) -> String {
    json::fault(body).unwrap_or_else(|| error.to_string())
}

fn parse_error(fault: &str) -> Unreadable {
    Unreadable(format!(
        "couldn't get version/kind; json parse error: {fault}"
    ))
}

/// What is read first is what the object says that it is. Null is an empty object.
fn identified(mut parsed: Parsed) -> Result<Parsed, Unreadable> {
    if parsed.value.is_null() {
        parsed.value = Value::Object(serde_json::Map::new());
    }
    let Value::Object(object) = &parsed.value else {
        let found = value::type_name(&parsed.value);
        return Err(parse_error(&format!(
            "json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    };
    for field in ["apiVersion", "kind"] {
        let found = object.get(field).map_or("null", value::type_name);
        if !matches!(found, "string" | "null") {
            return Err(parse_error(&format!(
                "json: cannot unmarshal {found} into Go struct field .{field} of type string"
            )));
        }
    }
    let version = value::text(&parsed.value, "apiVersion");
    match version.matches('/').count() > 1 {
        true => Err(Unreadable(format!(
            "unexpected GroupVersion string: {version}"
        ))),
        false => Ok(parsed),
    }
}

/// YAML as kubectl reads it; JSON is YAML too.
pub(crate) fn yaml(body: &[u8]) -> Result<Parsed, Unreadable> {
    // Most of it is JSON, which is read faster as such. What looks like JSON and is none, for a
    // trailing comma, may still be YAML.
    if body.first() == Some(&b'{')
        && let Ok(parsed) = json::parse(body)
    {
        return Ok(parsed);
    }
    serde_saphyr::from_slice_with_options::<Document>(body, yaml_options())
        .map(|document| document.0)
        .map_err(|error| {
            // Behind the first line it shows the place in the text.
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Unreadable(format!("yaml: {}", first.trim_start_matches("error: ")))
        })
}

fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
    }
}

/// The keys that occur twice in a YAML (or JSON) document: `line 9: key "foo" already set in map`.
pub(crate) fn duplicate_lines(body: &[u8]) -> Vec<String> {
    serde_saphyr::from_slice_with_options::<duplicates::Found>(body, yaml_options())
        .map(|found| found.0)
        .unwrap_or_default()
}

struct Document(Parsed);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        json::parse_from(deserializer).map(Self)
    }
}

/// An optional document, such as the options of a delete.
pub(crate) fn optional(content_type: &str, body: &[u8]) -> Result<Option<Value>, Error> {
    if body.is_empty() {
        return Ok(None);
    }
    let parsed = document(media(content_type)?, body).and_then(identified);
    let parsed = parsed.map_err(|why| Error::bad_request(why.to_string()))?;
    Ok(Some(parsed.value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_means_what_it_means_to_kubectl() {
        let text = b"mode: 0644\non: yes\nlist: [1_000, 1.0]\nkey: a\nkey: b\n";
        let parsed = yaml(text).unwrap();
        assert_eq!(
            parsed.value,
            json!({"mode": 420, "on": true, "list": [1000, 1], "key": "b"}),
        );
    }

    #[test]
    fn duplicate_keys_are_found_by_line() {
        let text = b"a: 1\nspec:\n  foo: 1\n  list:\n  - {x: 1}\n  foo: 2\na: 2\n";
        assert_eq!(
            duplicate_lines(text),
            [
                "line 6: key \"foo\" already set in map",
                "line 7: key \"a\" already set in map"
            ]
        );
        assert!(duplicate_lines(b"a: 1\nb: 2\n").is_empty());
        assert_eq!(
            yaml(b"{\"a\": [1, 2,],}").unwrap().value,
            json!({"a": [1, 2]})
        );
    }

    #[test]
    fn unreadable_bodies_are_bad_requests() {
        let bomb = format!(
            "a: &a [x]\n{}",
            (0..40)
                .map(|i| format!("b{i}: [*a,*a]\n"))
                .collect::<String>()
        );
        assert!(yaml(bomb.as_bytes()).is_ok());
        for (media, body) in [
            (Media::Json, &b"{"[..]),
            (Media::Yaml, b"a: [\n"),
            (Media::Yaml, b"\xff\xfe"),
            (Media::Protobuf, b"nope"),
            (Media::Protobuf, b"k8s\0\xff\xff\xff"),
        ] {
            assert!(document(media, body).is_err(), "{media:?} {body:?}");
        }
        assert_eq!(
            super::media("application/cbor").unwrap_err().code.as_u16(),
            415
        );
    }

    #[test]
    fn faults_are_told_as_kubernetes_tells_them() {
        let check = |content_type: &str, body: &str, expected: &str| {
            let error = object(content_type, body.as_bytes(), "ConfigMap").unwrap_err();
            let expected = format!(
                "the object provided is unrecognized (must be of type ConfigMap): {expected}"
            );
            assert_eq!(
                (error.code.as_u16(), error.message),
                (400, expected),
                "{body}"
            );
        };
        let json = |body: &str, why: &str, summary: &str| {
            let expected =
                format!("couldn't get version/kind; json parse error: {why} ({summary})");
            check("application/json", body, &expected);
        };
        json("", "unexpected end of JSON input", "<empty>");
        json(
            "this is not json",
            "invalid character 'h' in literal true (expecting 'r')",
            "74686973206973206e6f74206a736f6e",
        );
        json("{\"a\"", "unexpected end of JSON input", "{\"a\"");
        let long = format!("{{{}", " ".repeat(50));
        let summary = format!("{{{} ...", " ".repeat(29));
        json(&long, "unexpected end of JSON input", &summary);
        json(
            "[]",
            "json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
            "5b5d",
        );
        json(
            "{\"kind\":1}",
            "json: cannot unmarshal number into Go struct field .kind of type string",
            "{\"kind\":1}",
        );
        check(
            "application/json",
            "{\"apiVersion\":\"a/b/c\"}",
            "unexpected GroupVersion string: a/b/c ({\"apiVersion\":\"a/b/c\"})",
        );
        check(
            "application/vnd.kubernetes.protobuf",
            "nope",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (6e6f7065)",
        );
        assert_eq!(object("", b"null", "ConfigMap").unwrap().value, json!({}));
    }
}
