//! Events in the form that a client asked for.
//!
//! Invariant: an object that is served as it is stored is not copied for a client, since a client
//! may be slow to read it and there may be many.

use std::sync::Arc;

use bytes::Bytes;
use deltaplane_api::time::Time;
use deltaplane_runtime::Clock;
use deltaplane_store::{Event, Object, Revision};
use serde_json::{Value, json};

use crate::body::Pieces;
use crate::encode;
use crate::error::Error;
use crate::filter::{EventMatch, Filter};
use crate::kinds::Kind;
use crate::negotiate::Form;
use crate::present;
use crate::table::{Extras, Include, Table};
use crate::value;

/// Turns events into the client's form.
pub(super) struct Encoder {
    pub(super) kind: Arc<Kind>,
    pub(super) extras: Extras,
    pub(super) form: Form,
    pub(super) include: Include,
    pub(super) columns_sent: bool,
    /// For ages, which are those of the moment an event is sent.
    pub(super) clock: Clock,
}

/// What an event says of its object.
#[derive(Clone, Copy)]
pub(super) enum Sort {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// What follows an event's object.
const END: &[u8] = b"}\n";

// === impl Encoder ===

impl Encoder {
    fn now(&self) -> Time {
        Time::from_system(self.clock.now())
    }

    /// Adds the event as this client sees it; nothing if it does not concern the client.
    pub(super) fn event(&mut self, filter: &Filter, event: &Arc<Event>, out: &mut Pieces) {
        let (object, previous) = (event.object(), event.previous());
        if filter.is_empty() {
            let sort = match (event.is_delete(), previous) {
                (true, _) => Sort::Deleted,
                (false, None) => Sort::Added,
                (false, Some(_)) => Sort::Modified,
            };
            return self.shared(sort, event, out);
        }
        let EventMatch { before, now } = filter.matches_event(&self.kind, event);
        match (before, now) {
            (false, false) => {}
            (false, true) => self.plain(Sort::Added, object, out),
            (true, true) => self.shared(Sort::Modified, event, out),
            (true, false) if event.is_delete() => self.shared(Sort::Deleted, event, out),
            (true, false) => self.left(event, out),
        }
    }

    /// Encoded once for all clients that want it in the common form.
    fn shared(&mut self, sort: Sort, event: &Arc<Event>, out: &mut Pieces) {
        let object = event.object();
        match self.form {
            Form::Object if object.tag() == self.kind.tag => {
                out.push_shared(event.encoded(|event| frame(sort, event.object().bytes())));
            }
            Form::Object | Form::Table { .. } | Form::Metadata { .. } => {
                self.plain(sort, object, out);
            }
        }
    }

    /// Adds the object as it is stored, if that is what the client wants, or encoded for it alone.
    pub(super) fn plain(&mut self, sort: Sort, object: &Arc<Object>, out: &mut Pieces) {
        match self.form {
            Form::Object if object.tag() == self.kind.tag => {
                out.push_static(sort.head());
                out.push_object(object, 0);
                out.push_static(END);
            }
            Form::Object => out.push(frame(sort, &present::rendered(&self.kind, object))),
            Form::Metadata { version } => {
                let partial = present::partial_bytes(&self.kind, object, version);
                out.push(frame(sort, &partial));
            }
            Form::Table { .. } => {
                let value = present::value(&self.kind, object);
                out.push(self.formed(sort, value));
            }
        }
    }

    /// An object that changed so that it no longer matches is deleted to this client: shown as
    /// it was, at the revision of the change.
    fn left(&mut self, event: &Arc<Event>, out: &mut Pieces) {
        let Some(previous) = event.previous() else {
            return;
        };
        let mut value = present::value(&self.kind, previous);
        value["metadata"]["resourceVersion"] = json!(event.revision().get().to_string());
        out.push(self.formed(Sort::Deleted, value));
    }

    fn formed(&mut self, sort: Sort, value: Value) -> Bytes {
        let object = match self.form {
            Form::Object => value,
            Form::Metadata { version } => present::partial(&value, version),
            Form::Table { version } => {
                let table = self.table(&value, version, self.include);
                self.columns_sent = true;
                table
            }
        };
        frame(sort, &encode::bytes(&object))
    }

    /// An object as a Table, with columns if none were sent before.
    fn table(&self, object: &Value, version: &'static str, include: Include) -> Value {
        let table = Table {
            kind: &self.kind,
            extras: &self.extras,
            version,
            include,
            now: self.now(),
        };
        let mut table = table.of_one(object, value::text(object, "metadata.resourceVersion"));
        if self.columns_sent {
            table["columnDefinitions"] = Value::Null;
        }
        table
    }

    pub(super) fn bookmark(&mut self, revision: Revision, end_of_initial: bool) -> Bytes {
        let mut metadata = json!({
            "resourceVersion": revision.get().to_string(),
            "creationTimestamp": null,
        });
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = match self.form {
            Form::Object | Form::Table { .. } => {
                (self.kind.kind.as_str(), self.kind.api_version.clone())
            }
            Form::Metadata { version } => {
                ("PartialObjectMetadata", format!("meta.k8s.io/{version}"))
            }
        };
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        match self.form {
            Form::Table { .. } => self.bookmark_row(&object),
            Form::Object | Form::Metadata { .. } => frame(Sort::Bookmark, &encode::bytes(&object)),
        }
    }

    /// A Table's bookmark carries the object in a row without cells' content.
    fn bookmark_row(&mut self, object: &Value) -> Bytes {
        let Form::Table { version } = self.form else {
            return Bytes::new();
        };
        let table = self.table(object, version, Include::Object);
        frame(Sort::Bookmark, &encode::bytes(&table))
    }
}

// === impl Sort ===

impl Sort {
    /// What precedes an event's object.
    fn head(self) -> &'static [u8] {
        match self {
            Self::Added => b"{\"type\":\"ADDED\",\"object\":",
            Self::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
            Self::Deleted => b"{\"type\":\"DELETED\",\"object\":",
            Self::Bookmark => b"{\"type\":\"BOOKMARK\",\"object\":",
            Self::Error => b"{\"type\":\"ERROR\",\"object\":",
        }
    }
}

/// One event on the wire, in one piece.
fn frame(sort: Sort, object: &[u8]) -> Bytes {
    [sort.head(), object, END].concat().into()
}

pub(super) fn error_frame(error: &Error) -> Bytes {
    frame(Sort::Error, &encode::bytes(&error.to_status()))
}
