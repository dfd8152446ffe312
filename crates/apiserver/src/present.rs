//! Stored objects as answers: the object itself, rows for people, or metadata alone.

use std::sync::Arc;

use bytes::Bytes;
use deltaplane_store::Object;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::body::Pieces;
use crate::context::Cx;
use crate::encode;
use crate::error::Error;
use crate::kinds::Kind;
use crate::negotiate::{self, Form};
use crate::table::{Extras, Include, Table};

/// A stored object as `kind` serves it: its own bytes where they fit as they are.
pub(crate) fn pieces(kind: &Kind, object: &Arc<Object>) -> Pieces {
    if object.tag() == kind.tag {
        Pieces::shared(object.body())
    } else {
        Pieces::from(rendered(kind, object))
    }
}

/// The bytes of a stored object that `kind` serves in another form than it is stored in.
pub(crate) fn rendered(kind: &Kind, object: &Object) -> Bytes {
    encode::bytes(&value(kind, object))
}

/// The value of a stored object as `kind` serves it.
pub(crate) fn value(kind: &Kind, object: &Object) -> Value {
    let stored = serde_json::from_slice(object.bytes()).unwrap_or_else(|error| {
        // The store checks what it reads, so this is a bug of ours; the object shows as broken
        // and affects nobody else.
        tracing::error!(key = %object.key(), %error, "a stored object is not JSON");
        json!({"metadata": {"name": object.key().name(), "namespace": object.key().namespace()}})
    });
    match object.tag() == kind.tag {
        true => stored,
        false => kind.serve_stored(stored),
    }
}

/// One object in the form that the client asked for.
pub(crate) fn one(cx: &Cx, object: Presented<'_>) -> Result<Pieces, Error> {
    let kind = &cx.kind;
    let bytes = match negotiate::form(&cx.headers, false)? {
        Form::Object => return Ok(object.pieces(kind)),
        Form::Metadata { version } => match object {
            Presented::Stored(stored) => partial_bytes(kind, stored, version),
            Presented::Value(value) => encode::bytes(&partial(value, version)),
        },
        Form::Table { version } => {
            let table = Table {
                kind,
                extras: &Extras::of(&cx.server, kind),
                version,
                include: Include::parse(&cx.query)?,
                now: cx.now,
            };
            encode::bytes(&table.of_one(&object.value(kind), &object.revision()))
        }
    };
    Ok(bytes.into())
}

/// An object on its way out: stored, or a value that was never stored (a dry run).
pub(crate) enum Presented<'a> {
    Stored(&'a Arc<Object>),
    Value(&'a Value),
}

// === impl Presented ===

impl Presented<'_> {
    fn pieces(&self, kind: &Kind) -> Pieces {
        match self {
            Self::Stored(object) => pieces(kind, object),
            Self::Value(value) => encode::bytes(value).into(),
        }
    }

    fn value(&self, kind: &Kind) -> Value {
        match self {
            Self::Stored(object) => value(kind, object),
            Self::Value(value) => (*value).clone(),
        }
    }

    fn revision(&self) -> String {
        match self {
            Self::Stored(object) => object.revision().get().to_string(),
            Self::Value(value) => crate::value::text(value, "metadata.resourceVersion").to_owned(),
        }
    }
}

/// A stored object's metadata as an object of its own; the rest is not parsed if it need not be.
pub(crate) fn partial_bytes(kind: &Kind, object: &Arc<Object>, version: &str) -> Bytes {
    match raw_metadata(kind, object) {
        Some(metadata) => format!(
            "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/{version}\",\"metadata\":{metadata}}}"
        )
        .into(),
        None => encode::bytes(&partial(&value(kind, object), version)),
    }
}

/// The text of `metadata`, if the object is served as it is stored.
pub(crate) fn raw_metadata<'a>(kind: &Kind, object: &'a Object) -> Option<&'a str> {
    #[derive(Deserialize)]
    struct Parts<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let parts: Parts<'a> = match object.tag() == kind.tag {
        true => serde_json::from_slice(object.bytes()).ok()?,
        false => return None,
    };
    Some(parts.metadata.get())
}

/// An object's metadata as an object of its own.
pub(crate) fn partial(object: &Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": object["metadata"],
    })
}
