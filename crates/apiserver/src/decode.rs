//! Bodies of requests: from JSON, YAML or protobuf to a value, within limits.

mod duplicates;

use bytes::Bytes;
use deltaplane_api::json::{self, Parsed};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::Error;
use crate::protobuf;
use crate::typepack;

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

/// The document in a body.
pub(crate) fn document(media: Media, body: &[u8]) -> Result<Parsed, Error> {
    match media {
        Media::Json => json::parse(body).map_err(|error| unreadable(&error)),
        Media::Yaml => yaml(body),
        Media::Protobuf => protobuf::decode(typepack::load().tables(), body, None)
            .map(|decoded| Parsed {
                value: decoded.value,
                duplicates: Vec::new(),
            })
            .map_err(|error| unreadable(&error)),
    }
}

/// YAML as kubectl reads it; JSON is YAML too.
pub(crate) fn yaml(body: &[u8]) -> Result<Parsed, Error> {
    // Most of it is JSON, which is read faster as such. What looks like JSON and is none, for a
    // trailing comma, may still be YAML.
    if body.first() == Some(&b'{')
        && let Ok(parsed) = json::parse(body)
    {
        return Ok(parsed);
    }
    serde_saphyr::from_slice_with_options::<Document>(body, yaml_options())
        .map(|document| document.0)
        .map_err(|error| Error::bad_request(format!("error decoding YAML: {error}")))
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

fn unreadable(error: &dyn std::fmt::Display) -> Error {
    Error::bad_request(format!(
        "couldn't get version/kind; json parse error: {error}"
    ))
}

/// An optional document, such as the options of a delete.
pub(crate) fn optional(content_type: &str, body: &[u8]) -> Result<Option<Value>, Error> {
    match body.is_empty() {
        true => Ok(None),
        false => document(media(content_type)?, body).map(|parsed| Some(parsed.value)),
    }
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
            let error = document(media, body).unwrap_err();
            assert_eq!(error.code.as_u16(), 400, "{error}");
        }
        assert_eq!(
            super::media("application/cbor").unwrap_err().code.as_u16(),
            415
        );
    }
}
