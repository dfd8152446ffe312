//! Lists: consistent, in pages, filtered.

use std::sync::Arc;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use bytes::Bytes;
use deltaplane_store::{Key, ListQuery, Object, Page, ReadError, Revision};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::body::{Body, Pieces};
use crate::context::{Answer, Cx, json as answer};
use crate::costly;
use crate::error::Error;
use crate::filter::Filter;
use crate::kinds::Kind;
use crate::negotiate::{self, Encoding, Form};
use crate::options::{Freshness, ListOptions};
use crate::present;
use crate::protobuf;
use crate::protobuf::answers::ListParts;
use crate::table::{Extras, Include, Table};
use crate::verbs::part::Part;

/// Where a list goes on. Opaque to clients.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Continue {
    v: String,
    /// The revision of the first page; 0 once that is gone and the client goes on regardless.
    rv: u64,
    ns: String,
    name: String,
}

/// What every token says, of whatever kind.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    v: String,
}

/// Writes the objects of a list as they are stored where they can be, with commas between them.
struct ItemWriter {
    kind: Arc<Kind>,
    /// The type of items that do not repeat it; empty if they do.
    type_prefix: Vec<u8>,
    started: bool,
}

const TOKEN_VERSION: &str = "deltaplane.io/v1";

/// What follows the last item of a list.
const END: &[u8] = b"]}\n";

pub(crate) async fn list(cx: &Cx) -> Result<Answer, Error> {
    let (form, encoding) = negotiate::answer(&cx.headers, true)?;
    let options = ListOptions::parse(&cx.query)?;
    let freshness = options.list_freshness()?;
    let filter = Filter::new(&cx.kind, &options)?;
    let page = fetch(cx, &options, freshness, &filter).await?;
    let metadata = list_meta(&options, &filter, &page);
    if encoding == Encoding::Protobuf
        && let Some(body) = in_protobuf(&cx.kind, form, &page.items, &metadata)
    {
        let mut answer = answer(StatusCode::OK, body);
        let kind = HeaderValue::from_static(protobuf::MEDIA_TYPE);
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        return Ok(answer);
    }
    let body = match form {
        Form::Object => objects(&cx.kind, page.items, &metadata),
        Form::Metadata { version } => partials(&cx.kind, page.items, metadata, version),
        Form::Table { version } => table(cx, page.items, metadata, version)?,
    };
    Ok(answer(StatusCode::OK, body))
}

/// What matches, at the revision that the client may have.
async fn fetch(
    cx: &Cx,
    options: &ListOptions,
    freshness: Freshness,
    filter: &Filter,
) -> Result<Page, Error> {
    let current = cx.server.store.revision().get();
    let mut at = match freshness {
        Freshness::Latest => None,
        Freshness::NotOlderThan(wanted) | Freshness::Exactly(wanted) if wanted > current => {
            return Err(Error::future_revision(wanted, current));
        }
        Freshness::NotOlderThan(_) => None,
        Freshness::Exactly(wanted) => Some(wanted),
    };
    let part = Part::of(cx, filter)?;
    let mut query = query(cx, filter)?;
    if options.limit > 0 {
        query = query.limit(usize::try_from(options.limit).unwrap_or(usize::MAX));
    }
    if !options.continue_token.is_empty() {
        let token = decode(&options.continue_token)?;
        query = query.after(cx.server.key(&cx.kind, &token.ns, &token.name)?);
        at = Some(token.rv).filter(|revision| *revision > 0);
    }
    if let Some(revision) = at {
        query = query.at(Revision::new(revision));
    }
    let page = match part {
        Part::Object(key) if query.after.is_none() => look_up(cx, &key, &query, filter).await,
        Part::Object(_) | Part::Namespace(_) | Part::All => search(cx, &query, filter).await,
    };
    page.map_err(|error| read_error(error, &options.continue_token))
}

/// The objects of a part of the collection that match.
pub(super) async fn search(cx: &Cx, query: &ListQuery, filter: &Filter) -> Result<Page, ReadError> {
    let (store, kind) = (&cx.server.store, &cx.kind);
    let wanted = |object: &Object| filter.matches(kind, object);
    match filter.is_empty() {
        true => store.list(query).await,
        false => store.list_where(query, &wanted).await,
    }
}

/// The one object that can match, if it does.
pub(super) async fn look_up(
    cx: &Cx,
    key: &Key,
    query: &ListQuery,
    filter: &Filter,
) -> Result<Page, ReadError> {
    let store = &cx.server.store;
    let (found, revision) = match query.at {
        Some(at) => (store.get_at(key, at).await?, at),
        None => {
            let snapshot = store.snapshot(&query.collection);
            (snapshot.get(key).cloned(), snapshot.revision())
        }
    };
    let found = found.filter(|object| filter.matches(&cx.kind, object));
    Ok(Page {
        items: found.into_iter().collect(),
        revision,
        more: false,
        remaining: None,
    })
}

/// The part of the collection that can match.
pub(crate) fn query(cx: &Cx, filter: &Filter) -> Result<ListQuery, Error> {
    let query = ListQuery::all(cx.server.collection(&cx.kind)?);
    Ok(match Part::of(cx, filter)?.namespace() {
        Some(namespace) => query.in_namespace(namespace),
        None => query,
    })
}

/// What a client is told when history does not reach.
fn read_error(error: ReadError, token: &str) -> Error {
    match error {
        ReadError::Compacted { requested, oldest } if token.is_empty() => Error::expired(format!(
            "The resourceVersion for the provided list is too old: {} ({})",
            requested.get(),
            oldest.get()
        )),
        ReadError::Compacted { .. } => {
            let fresh = decode(token)
                .map(|token| encode(&Continue { rv: 0, ..token }))
                .ok();
            let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
            Error {
                continue_token: fresh,
                ..Error::expired(message)
            }
        }
        ReadError::Future { requested, newest } => {
            Error::future_revision(requested.get(), newest.get())
        }
        ReadError::ForeignKey { .. } => {
            Error::bad_request("invalid continue token: continue key is not valid")
        }
        ReadError::Storage { .. } | ReadError::Closed => Error::unavailable(error.to_string()),
    }
}

fn decode(token: &str) -> Result<Continue, Error> {
    let invalid = |why: String| {
        Error::bad_request(format!(
            "invalid continue token: continue key is not valid: {why}"
        ))
    };
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => token.len(),
        };
        invalid(format!("illegal base64 data at input byte {at}"))
    })?;
    if let Some(fault) = deltaplane_api::json::fault(&bytes) {
        return Err(invalid(fault));
    }
    let version: Version = serde_json::from_slice(&bytes).unwrap_or_default();
    if version.v != TOKEN_VERSION {
        let version = version.v;
        return Err(invalid(format!(
            "server does not recognize this encoded version {version}"
        )));
    }
    serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))
}

fn encode(token: &Continue) -> String {
    let text = serde_json::to_vec(token).expect("a struct of texts and numbers is always written");
    URL_SAFE_NO_PAD.encode(text)
}

fn list_meta(options: &ListOptions, filter: &Filter, page: &Page) -> Map<String, Value> {
    let mut metadata = Map::new();
    let revision = page.revision.get();
    metadata.insert("resourceVersion".to_owned(), json!(revision.to_string()));
    let last = page.items.last().filter(|_| page.more && options.limit > 0);
    if let Some(last) = last {
        let token = Continue {
            v: TOKEN_VERSION.to_owned(),
            rv: revision,
            ns: last.key().namespace().to_owned(),
            name: last.key().name().to_owned(),
        };
        metadata.insert("continue".to_owned(), json!(encode(&token)));
        if let Some(remaining) = page.remaining.filter(|_| filter.is_empty()) {
            metadata.insert("remainingItemCount".to_owned(), json!(remaining));
        }
    }
    metadata
}

/// The list around its objects' own bytes; objects that are stored in another form than they are
/// served in are rendered as the client reads.
pub(super) fn objects(
    kind: &Arc<Kind>,
    items: Vec<Arc<Object>>,
    metadata: &Map<String, Value>,
) -> Body {
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
        json!(kind.list_kind),
        json!(kind.api_version),
        Value::Object(metadata.clone()),
    );
    let mut writer = ItemWriter::new(kind);
    if items.iter().any(|object| object.tag() != kind.tag) {
        let items = items.into_iter().map(move |object| {
            let mut pieces = Pieces::with_capacity(2);
            writer.push(&object, &mut pieces);
            pieces
        });
        return rendered(head, items);
    }
    let mut pieces = Pieces::with_capacity(items.len() * 2 + 2);
    pieces.push(head.into());
    for object in &items {
        writer.push(object, &mut pieces);
    }
    pieces.push_static(END);
    pieces.into()
}

fn partials(
    kind: &Arc<Kind>,
    items: Vec<Arc<Object>>,
    metadata: Map<String, Value>,
    version: &str,
) -> Body {
    let head = format!(
        "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/{version}\",\"metadata\":{},\"items\":[",
        Value::Object(metadata),
    );
    let kind = Arc::clone(kind);
    // Without their type: who asks for metadata asks for protobuf first, where items have none, and
    // compares them.
    let partial = move |object: Arc<Object>| match present::raw_metadata(&kind, &object) {
        Some(metadata) => format!("{{\"metadata\":{metadata}}}").into(),
        None => {
            crate::encode::bytes(&json!({ "metadata": present::value(&kind, &object)["metadata"] }))
        }
    };
    rendered(head, separated(items.into_iter().map(partial)))
}

/// The list in protobuf. None if that cannot be had; JSON can.
fn in_protobuf(
    kind: &Arc<Kind>,
    form: Form,
    items: &[Arc<Object>],
    metadata: &Map<String, Value>,
) -> Option<Body> {
    let (api_version, name, list_kind) = match form {
        Form::Object => (
            kind.api_version.clone(),
            kind.kind.as_str(),
            kind.list_kind.as_str(),
        ),
        Form::Metadata { version } => (
            format!("meta.k8s.io/{version}"),
            "PartialObjectMetadata",
            "PartialObjectMetadataList",
        ),
        Form::Table { .. } => return None,
    };
    let parts = ListParts {
        api_version,
        list_kind: list_kind.to_owned(),
        kind: name.to_owned(),
        metadata: Value::Object(metadata.clone()),
        items: items.to_vec(),
    };
    let kind = Arc::clone(kind);
    // Every item is measured before the first is sent.
    let bytes = items.iter().map(|item| item.body().len()).sum();
    let encoded = costly::work_on(bytes, || {
        parts.into_body(move |object| present::value(&kind, object))
    });
    encoded
        .inspect_err(|error| tracing::debug!(%error, "a list has no protobuf encoding"))
        .ok()
}

/// The list as rows for people.
fn table(
    cx: &Cx,
    items: Vec<Arc<Object>>,
    metadata: Map<String, Value>,
    version: &'static str,
) -> Result<Body, Error> {
    let (kind, extras) = (Arc::clone(&cx.kind), Extras::of(&cx.server, &cx.kind));
    let (include, now) = (Include::parse(&cx.query)?, cx.now);
    let head = Table {
        kind: &kind,
        extras: &extras,
        version,
        include,
        now,
    }
    .head(metadata);
    let row = move |object: Arc<Object>| {
        let table = Table {
            kind: &kind,
            extras: &extras,
            version,
            include,
            now,
        };
        crate::encode::bytes(&table.row(&present::value(&kind, &object)))
    };
    Ok(rendered(head, separated(items.into_iter().map(row))))
}

/// Items with commas between them.
fn separated(
    items: impl Iterator<Item = Bytes> + Send + 'static,
) -> impl Iterator<Item = Pieces> + Send + 'static {
    let mut started = false;
    items.map(move |item| {
        let mut pieces = Pieces::with_capacity(2);
        if std::mem::replace(&mut started, true) {
            pieces.push_static(b",");
        }
        pieces.push(item);
        pieces
    })
}

/// A list whose items are rendered as the client reads.
fn rendered(head: String, items: impl Iterator<Item = Pieces> + Send + 'static) -> Body {
    let head = std::iter::once(Pieces::from(Bytes::from(head)));
    let end = std::iter::once(Pieces::from(Bytes::from_static(END)));
    Body::rendered(head.chain(items).chain(end))
}

// === impl ItemWriter ===

impl ItemWriter {
    fn new(kind: &Arc<Kind>) -> Self {
        // Items of built-in kinds do not repeat the list's type, as with the real server: typed
        // clients compare them with objects that have none.
        let type_prefix = if kind.is_custom() {
            Vec::new()
        } else {
            crate::encode::type_prefix(&kind.api_version, &kind.kind)
        };
        Self {
            kind: Arc::clone(kind),
            type_prefix,
            started: false,
        }
    }

    fn push(&mut self, object: &Arc<Object>, out: &mut Pieces) {
        if object.tag() == self.kind.tag {
            let from = self.open(object.bytes(), out);
            out.push_object(object, from);
        } else {
            let bytes = present::rendered(&self.kind, object);
            let from = self.open(&bytes, out);
            out.push(bytes.slice(from..));
        }
    }

    /// Writes what precedes an item; gives the place in it from which it is to be written: behind
    /// its type and opening brace, if it does not repeat the type.
    fn open(&mut self, item: &[u8], out: &mut Pieces) -> usize {
        let is_first = !std::mem::replace(&mut self.started, true);
        let is_untyped = !self.type_prefix.is_empty() && item.starts_with(&self.type_prefix);
        out.push_static(match (is_first, is_untyped) {
            (true, true) => b"{",
            (true, false) => b"",
            (false, true) => b",{",
            (false, false) => b",",
        });
        if is_untyped {
            self.type_prefix.len()
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip_and_foreign_ones_are_refused() {
        let token = Continue {
            v: TOKEN_VERSION.to_owned(),
            rv: 7,
            ns: "a".to_owned(),
            name: "b".to_owned(),
        };
        assert_eq!(decode(&encode(&token)).unwrap(), token);
        let unknown = "server does not recognize this encoded version ";
        let cases = [
            ("", "unexpected end of JSON input"),
            ("a b", "illegal base64 data at input byte 1"),
            (
                "nonsense",
                "invalid character '\\u009e' looking for beginning of value",
            ),
            ("e30", unknown),
            ("bnVsbA", unknown),
            (
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
                "server does not recognize this encoded version meta.k8s.io/v1",
            ),
        ];
        for (text, why) in cases {
            let error = decode(text).unwrap_err();
            let expected = format!("invalid continue token: continue key is not valid: {why}");
            assert_eq!(
                (error.code.as_u16(), error.message),
                (400, expected),
                "{text}"
            );
        }
    }

    #[test]
    fn an_expired_token_comes_back_as_one_that_goes_on() {
        let token = Continue {
            v: TOKEN_VERSION.to_owned(),
            rv: 7,
            ns: String::new(),
            name: "b".to_owned(),
        };
        let compacted = ReadError::Compacted {
            requested: Revision::new(7),
            oldest: Revision::new(9),
        };
        let error = read_error(compacted, &encode(&token));
        assert_eq!((error.code.as_u16(), error.reason), (410, "Expired"));
        assert_eq!(decode(&error.continue_token.unwrap()).unwrap().rv, 0);
    }
}
