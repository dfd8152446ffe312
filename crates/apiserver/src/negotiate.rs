//! Which form of an answer the client accepts. Pure.

use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use crate::error::Error;
use crate::options::Query;
use crate::protobuf::MEDIA_TYPE;

/// The form of an object in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The object itself.
    Object,
    /// Rows for people.
    Table { version: &'static str },
    /// Metadata alone.
    Metadata { version: &'static str },
}

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Objects are kept as JSON, so a client that takes both gets that.
    Json,
    Protobuf,
}

/// The media types of answers about custom resources.
pub(crate) const JSON_ALONE: [&str; 1] = ["application/json"];
/// The media types of all other answers.
const SUPPORTED: [&str; 2] = ["application/json", MEDIA_TYPE];

/// The form for an object (`list` false) or a list of them, and its encoding. 406 if there is none.
pub(crate) fn answer(headers: &HeaderMap, list: bool) -> Result<(Form, Encoding), Error> {
    if ranges(headers).next().is_none() {
        return Ok((Form::Object, Encoding::Json));
    }
    let first = |encoding: Encoding| {
        let form = ranges(headers).find_map(|range| of_range(range, list, encoding));
        form.map(|form| (form, encoding))
    };
    first(Encoding::Json)
        .or_else(|| first(Encoding::Protobuf))
        .ok_or_else(|| Error::not_acceptable(&SUPPORTED))
}

/// The form alone.
pub(crate) fn form(headers: &HeaderMap, list: bool) -> Result<Form, Error> {
    answer(headers, list).map(|(form, _)| form)
}

/// Returns true if the client takes protobuf and no JSON, whatever the form.
pub(crate) fn wants_protobuf(headers: &HeaderMap) -> bool {
    [false, true].into_iter().any(|list| {
        let answer = answer(headers, list);
        answer.is_ok_and(|(_, encoding)| encoding == Encoding::Protobuf)
    })
}

/// For answers that are plain objects only: discovery, reviews, scales.
pub(crate) fn plain(headers: &HeaderMap) -> Result<(), Error> {
    let plain = |range: &str| {
        let encodings = [Encoding::Json, Encoding::Protobuf];
        encodings
            .into_iter()
            .any(|encoding| of_range(range, false, encoding) == Some(Form::Object))
    };
    if ranges(headers).next().is_none() || ranges(headers).any(plain) {
        Ok(())
    } else {
        Err(Error::not_acceptable(&SUPPORTED))
    }
}

/// Whether the client takes gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| {
        let mut parts = one.trim().split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
    })
}

/// Whether the answer is for a person to read: the query says so, or the client is one that people
/// read with.
pub(crate) fn wants_indentation(headers: &HeaderMap, query: &Query) -> bool {
    const FOR_PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];
    match query.get("pretty") {
        "" => {}
        said => return matches!(said, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
    let client = headers
        .get(USER_AGENT)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let for_people = |one: &&str| client.starts_with(one.as_bytes());
    FOR_PEOPLE.iter().any(for_people)
}

/// What the client accepts, in its order.
pub(crate) fn ranges(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|range| !range.is_empty())
}

fn of_range(range: &str, list: bool, encoding: Encoding) -> Option<Form> {
    let mut parts = range.split(';').map(str::trim);
    let media_type = parts.next()?;
    let fits = match encoding {
        Encoding::Json => matches!(media_type, "application/json" | "application/*" | "*/*"),
        Encoding::Protobuf => media_type == MEDIA_TYPE,
    };
    if !fits {
        return None;
    }
    let (mut kind, mut group, mut version) = ("", "", "");
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key {
            "as" => kind = value,
            "g" => group = value,
            "v" => version = value,
            // `q`, `charset`, `stream`, `pretty`, `profile`: nothing that we would do otherwise.
            _ => {}
        }
    }
    let version = match version {
        "v1" => "v1",
        "v1beta1" => "v1beta1",
        _ if kind.is_empty() => "",
        _ => return None,
    };
    match (kind, group) {
        ("", _) => Some(Form::Object),
        // Tables have no protobuf encoding.
        ("Table", "meta.k8s.io") if encoding == Encoding::Json => Some(Form::Table { version }),
        ("PartialObjectMetadata", "meta.k8s.io") if !list => Some(Form::Metadata { version }),
        ("PartialObjectMetadataList", "meta.k8s.io") if list => Some(Form::Metadata { version }),
        // Watches ask for the single form too.
        ("PartialObjectMetadata", "meta.k8s.io") => Some(Form::Metadata { version }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, list: bool) -> Option<Form> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        form(&headers, list).ok()
    }

    #[test]
    fn the_first_form_that_we_have_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let cases = [
            (kubectl, true, Some(Form::Table { version: "v1" })),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                false,
                Some(Form::Object),
            ),
            (
                "application/vnd.kubernetes.protobuf",
                false,
                Some(Form::Object),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
                true,
                None,
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                true,
                Some(Form::Metadata { version: "v1" }),
            ),
            ("*/*", false, Some(Form::Object)),
            ("application/cbor", false, None),
            ("text/plain", false, None),
            (
                "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
                false,
                None,
            ),
            ("application/json;q=0.9", false, Some(Form::Object)),
        ];
        for (accept, list, expected) in cases {
            assert_eq!(check(accept, list), expected, "{accept}");
        }
    }

    #[test]
    fn protobuf_is_for_clients_that_take_no_json() {
        let check = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            wants_protobuf(&headers)
        };
        assert!(check(MEDIA_TYPE));
        assert!(check("application/vnd.kubernetes.protobuf;stream=watch"));
        assert!(check(
            "application/vnd.kubernetes.protobuf, application/cbor"
        ));
        assert!(!check(
            "application/vnd.kubernetes.protobuf, application/json"
        ));
        assert!(!check("application/vnd.kubernetes.protobuf, */*"));
        assert!(!check("application/json"));
        assert!(!wants_protobuf(&HeaderMap::new()));
    }

    #[test]
    fn gzip_is_used_when_asked_for() {
        let check = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            accepts_gzip(&headers)
        };
        assert!(check("gzip"));
        assert!(check("deflate, gzip;q=0.5"));
        assert!(!check("gzip;q=0"));
        assert!(!check("br"));
    }

    #[test]
    fn people_get_indented_answers() {
        let check = |client: &str, query: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, client.parse().unwrap());
            wants_indentation(&headers, &Query::parse(query))
        };
        assert!(check("curl/8.5", ""));
        assert!(check("Mozilla/5.0 (X11)", "limit=1"));
        assert!(!check("curl/8.5", "pretty=false"));
        assert!(!check("kubectl/v1.36.3", ""));
        assert!(!check("kubectl/v1.36.3", "pretty=yes"));
        assert!(check("kubectl/v1.36.3", "pretty=true"));
    }
}
