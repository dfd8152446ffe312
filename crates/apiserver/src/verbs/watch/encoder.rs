//! Events in the form that a client asked for.

use std::sync::Arc;

use bytes::Bytes;
use deltaplane_api::time::Time;
use deltaplane_runtime::Clock;
use deltaplane_store::{Event, Object, Revision};
use serde_json::{Value, json};

use crate::encode;
use crate::error::Error;
use crate::filter::Filter;
use crate::kinds::Kind;
use crate::negotiate::Form;
use crate::present;
use crate::table::{Include, Table};

/// Turns events into the client's form.
pub(super) struct Encoder {
    pub(super) kind: Arc<Kind>,
    pub(super) form: Form,
    pub(super) include: Include,
    pub(super) columns_sent: bool,
    /// For ages, which are those of the moment an event is sent.
    pub(super) clock: Clock,
}

// === impl Encoder ===

impl Encoder {
    fn now(&self) -> Time {
        Time::from_system(self.clock.now())
    }

    /// The event as this client sees it; nothing if it does not concern the client.
    pub(super) fn event(&mut self, filter: &Filter, event: &Arc<Event>) -> Bytes {
        let (object, previous) = (event.object(), event.previous());
        if filter.is_empty() {
            let kind = match (event.is_delete(), previous) {
                (true, _) => "DELETED",
                (false, None) => "ADDED",
                (false, Some(_)) => "MODIFIED",
            };
            return self.shared(kind, event);
        }
        let now = !event.is_delete() && filter.matches(&self.kind, object);
        let before = previous.is_some_and(|previous| filter.matches(&self.kind, previous));
        match (before, now) {
            (false, false) => Bytes::new(),
            (false, true) => self.plain("ADDED", object),
            (true, true) => self.shared("MODIFIED", event),
            (true, false) if event.is_delete() => self.shared("DELETED", event),
            (true, false) => self.left(event),
        }
    }

    /// Encoded once for all clients that want it in the common form.
    fn shared(&mut self, kind: &'static str, event: &Arc<Event>) -> Bytes {
        let object = event.object();
        match self.form {
            Form::Object if object.tag() == self.kind.tag => {
                event.encoded(|event| frame(kind, event.object().bytes()))
            }
            Form::Object | Form::Table { .. } | Form::Metadata { .. } => self.plain(kind, object),
        }
    }

    pub(super) fn plain(&mut self, kind: &'static str, object: &Arc<Object>) -> Bytes {
        match self.form {
            Form::Object => frame(kind, &present::bytes(&self.kind, object)),
            Form::Metadata { version } => {
                frame(kind, &present::partial_bytes(&self.kind, object, version))
            }
            Form::Table { .. } => {
                let value = present::value(&self.kind, object);
                self.formed(kind, value)
            }
        }
    }

    /// An object that changed so that it no longer matches is deleted to this client: shown as
    /// it was, at the revision of the change.
    fn left(&mut self, event: &Arc<Event>) -> Bytes {
        let Some(previous) = event.previous() else {
            return Bytes::new();
        };
        let mut value = present::value(&self.kind, previous);
        value["metadata"]["resourceVersion"] = json!(event.revision().get().to_string());
        self.formed("DELETED", value)
    }

    fn formed(&mut self, kind: &'static str, value: Value) -> Bytes {
        let object = match self.form {
            Form::Object => value,
            Form::Metadata { version } => present::partial(&value, version),
            Form::Table { version } => {
                let mut table = Table::new(&self.kind, version, self.include, self.now());
                table.push(&value);
                let revision = value["metadata"]["resourceVersion"].clone();
                let mut table = table.into_value(json!({ "resourceVersion": revision }));
                if std::mem::replace(&mut self.columns_sent, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
        };
        frame(kind, &encode::bytes(&object))
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
            Form::Object | Form::Metadata { .. } => frame("BOOKMARK", &encode::bytes(&object)),
        }
    }

    /// A Table's bookmark carries the object in a row without cells' content.
    fn bookmark_row(&mut self, object: &Value) -> Bytes {
        let Form::Table { version } = self.form else {
            return Bytes::new();
        };
        let mut table = Table::new(&self.kind, version, Include::Object, self.now());
        table.push(object);
        let revision = object["metadata"]["resourceVersion"].clone();
        let mut table = table.into_value(json!({ "resourceVersion": revision }));
        if self.columns_sent {
            table["columnDefinitions"] = Value::Null;
        }
        frame("BOOKMARK", &encode::bytes(&table))
    }
}

/// One event on the wire.
fn frame(kind: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 40);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    out.into()
}

pub(super) fn error_frame(error: &Error) -> Bytes {
    frame("ERROR", &encode::bytes(&error.to_status()))
}
