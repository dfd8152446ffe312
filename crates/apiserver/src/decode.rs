//! Bodies of requests: from JSON, YAML or protobuf to a value, within limits. Reading the bytes is
//! not done here (`upload`).

mod duplicates;

use deltaplane_api::json::{self, Parsed};
use deltaplane_schema::{MAX_DEPTH, TooDeep};
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

/// The parser's own limits are many times those of an object that could be stored.
const TOO_MUCH_YAML: &str = "the document has more values or aliases than can be read";

/// The parser takes up to 20 kB of stack for each level in a debug build, of 2 MB.
const MAX_YAML_DEPTH: usize = 64;

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Yaml,
    Protobuf,
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
    match nests_too_deep(body, error) {
        true => TooDeep.to_string(),
        false => json::fault(body).unwrap_or_else(|| error.to_string()),
    }
}

/// Whether the document is too deep as far as it was read. The parser does not say that it gave up
/// for this reason, other than in words.
fn nests_too_deep(body: &[u8], error: &serde_json::Error) -> bool {
    let lines = body.split_inclusive(|byte| *byte == b'\n');
    let before = lines.take(error.line().saturating_sub(1));
    let read = before.map(<[u8]>::len).sum::<usize>() + error.column();
    json::levels(&body[..read.min(body.len())]) > MAX_DEPTH
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
    if body.first() == Some(&b'{') {
        match json::parse(body) {
            Ok(parsed) => return Ok(parsed),
            Err(error) if nests_too_deep(body, &error) => {
                return Err(Unreadable(format!("yaml: {TooDeep}")));
            }
            Err(_) => {}
        }
    }
    serde_saphyr::from_slice_with_options::<Document>(body, yaml_options())
        .map(|document| document.0)
        .map_err(|error| Unreadable(format!("yaml: {}", yaml_fault(&error))))
}

/// What is wrong with YAML that could not be read.
fn yaml_fault(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as Fault;
    use serde_saphyr::budget::BudgetBreach;
    let mut fault = error.without_snippet();
    while let Fault::AliasError { error, .. } = fault {
        fault = error;
    }
    if let Fault::Budget { breach, .. } = fault {
        return match matches!(breach, BudgetBreach::Depth { .. }) {
            true => format!(
                "the document is nested deeper than {MAX_YAML_DEPTH} levels, which only JSON may be"
            ),
            false => TOO_MUCH_YAML.to_owned(),
        };
    }
    if matches!(
        fault,
        Fault::AliasReplayLimitExceeded { .. }
            | Fault::AliasExpansionLimitExceeded { .. }
            | Fault::AliasReplayStackDepthExceeded { .. }
    ) {
        return TOO_MUCH_YAML.to_owned();
    }
    // Behind the first line it shows the place in the text.
    let text = fault.to_string();
    let first = text.lines().next().unwrap_or_default();
    first.trim_start_matches("error: ").to_owned()
}

fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_YAML_DEPTH },
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
    fn what_grows_without_bound_is_refused_in_plain_words() {
        // Each line doubles the one before: 2^30 values at the end.
        let doubling: String = (1..=30)
            .map(|i| format!("a{i}: &a{i} [*a{}, *a{}]\n", i - 1, i - 1))
            .collect();
        let bomb = format!("a0: &a0 [x]\n{doubling}");
        let shared = "a: &a [x]\n".to_owned() + &"b: [*a, *a]\n".repeat(40);
        assert!(yaml(shared.as_bytes()).is_ok());
        let many = "- a\n".repeat(300_000);
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let block: String = (0..200).map(|i| " ".repeat(i) + "a:\n").collect();
        let too_deep = "the document is nested deeper than 64 levels, which only JSON may be";
        for (text, why) in [
            (bomb, TOO_MUCH_YAML),
            (many, TOO_MUCH_YAML),
            (deep(200), too_deep),
            (block, too_deep),
        ] {
            let error = yaml(text.as_bytes()).unwrap_err();
            assert_eq!(error.0, format!("yaml: {why}"));
        }
        let error = document(Media::Json, deep(200).as_bytes()).unwrap_err();
        let words = "couldn't get version/kind; json parse error: the object is nested deeper than 120 levels";
        assert_eq!(error.0, words);
        assert_eq!(
            yaml(b"a: [\n").unwrap_err().0.lines().count(),
            1,
            "no excerpts"
        );
    }

    #[test]
    fn depth_is_the_fault_if_it_came_first() {
        let fault = |text: String| {
            let error = json::parse(text.as_bytes()).expect_err("not JSON");
            json_fault(text.as_bytes(), &error)
        };
        let (deep, deepest) = ("[".repeat(200), "[\n".repeat(MAX_DEPTH + 1));
        let too_deep = TooDeep.to_string();
        for text in [
            deep.clone(),
            "[\n".repeat(200),
            format!("{{\"a\":\n1,\n\"b\": {deep}"),
            // Whatever it is that the parser minds there.
            format!("{deepest}nope"),
        ] {
            assert_eq!(fault(text.clone()), too_deep, "{text}");
        }
        for text in [
            format!("[nope, {deep}"),
            format!("[\n\"{deep}\",\nnope]"),
            "[".repeat(MAX_DEPTH) + "nope",
        ] {
            let words = "invalid character 'o' in literal null (expecting 'u')";
            assert_eq!(fault(text.clone()), words, "{text}");
        }
    }

    #[test]
    fn the_deepest_yaml_needs_less_stack_than_there_is() {
        let deep = "[".repeat(MAX_YAML_DEPTH) + &"]".repeat(MAX_YAML_DEPTH);
        let block: String = (0..MAX_YAML_DEPTH - 1)
            .map(|i| " ".repeat(i) + "a:\n")
            .collect();
        for text in [deep, block] {
            // A worker has 2 MB.
            let thread = std::thread::Builder::new().stack_size(3 << 19);
            let read = thread.spawn(move || {
                duplicate_lines(text.as_bytes());
                yaml(text.as_bytes()).is_ok()
            });
            assert!(read.unwrap().join().unwrap());
        }
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
