//! Which objects a list or watch wants.
//!
//! Invariant: however many watches select by fields of a body, the body of an event is parsed once for
//! each version of its kind. What is kept of it are digests, since selectors only ask for equality.

use deltaplane_api::selector::{FieldSelector, LabelSelector};
use deltaplane_store::{Event, Object};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::kinds::Kind;
use crate::options::ListOptions;
use crate::{costly, present, value};

/// A label and a field selector, checked against the kind.
pub(crate) struct Filter {
    labels: LabelSelector,
    fields: FieldSelector,
    /// The terms about fields that only the object's body can tell.
    body: Vec<BodyTerm>,
}

/// A term about one of the fields that a kind offers.
struct BodyTerm {
    /// Its place among them.
    place: usize,
    value: FieldDigest,
    is_equal: bool,
}

/// The first half of a SHA-256 sum.
type FieldDigest = [u8; 16];

/// The values of all fields that a kind offers, of one object.
struct BodyFields(Box<[FieldDigest]>);

/// The same of both objects of an event.
struct EventFields {
    object: BodyFields,
    previous: Option<BodyFields>,
}

/// Whether the object of an event was selected before, and is now.
pub(crate) struct EventMatch {
    pub(crate) before: bool,
    pub(crate) now: bool,
}

// === impl Filter ===

impl Filter {
    /// Refuses fields that the kind does not offer.
    pub(crate) fn new(kind: &Kind, options: &ListOptions) -> Result<Self, Error> {
        let mut body = Vec::new();
        for term in &options.fields.terms {
            let place = kind.selectable.iter().position(|one| *one == term.field);
            match (term.field.as_str(), place) {
                ("metadata.name", _) => {}
                ("metadata.namespace", _) if kind.namespaced => {}
                (_, Some(place)) => body.push(BodyTerm {
                    place,
                    value: digest(&term.value),
                    is_equal: term.equal,
                }),
                (field, None) => return Err(unsupported(kind, field)),
            }
        }
        Ok(Self {
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            body,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The only name that can match, if there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    /// The only namespace that can match, if there is one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.fields.exact("metadata.namespace")
    }

    pub(crate) fn matches(&self, kind: &Kind, object: &Object) -> bool {
        self.matches_header(object)
            && (self.body.is_empty() || self.matches_body(&BodyFields::of(kind, object)))
    }

    /// Whether the object of an event matched before it, and matches after it.
    pub(crate) fn matches_event(&self, kind: &Kind, event: &Event) -> EventMatch {
        let is_there = |object: &Object| self.matches_header(object);
        let before = event.previous().is_some_and(|previous| is_there(previous));
        let now = !event.is_delete() && is_there(event.object());
        if self.body.is_empty() || !(before || now) {
            return EventMatch { before, now };
        }
        let fields = event.finding(kind.tag, |event| EventFields::of(kind, event));
        let previous = fields.previous.as_ref();
        EventMatch {
            before: before && previous.is_some_and(|fields| self.matches_body(fields)),
            now: now && self.matches_body(&fields.object),
        }
    }

    /// Whether all matches that can be told without the body.
    fn matches_header(&self, object: &Object) -> bool {
        let labels = object.header().labels();
        let mut terms = self.fields.terms.iter();
        self.labels.matches(|key| labels.get(key))
            && terms.all(|term| {
                let found = match term.field.as_str() {
                    "metadata.name" => object.key().name(),
                    "metadata.namespace" => object.key().namespace(),
                    _ => return true,
                };
                (found == term.value) == term.equal
            })
    }

    fn matches_body(&self, fields: &BodyFields) -> bool {
        let mut terms = self.body.iter();
        terms.all(|term| (fields.0[term.place] == term.value) == term.is_equal)
    }
}

// === impl BodyFields ===

impl BodyFields {
    fn of(kind: &Kind, object: &Object) -> Self {
        let read = || present::value(kind, object);
        let body = costly::work_on(object.bytes().len(), read);
        let fields = kind.selectable.iter();
        Self(
            fields
                .map(|field| digest(&body_field(&body, field)))
                .collect(),
        )
    }
}

// === impl EventFields ===

impl EventFields {
    fn of(kind: &Kind, event: &Event) -> Self {
        let previous = event.previous();
        Self {
            object: BodyFields::of(kind, event.object()),
            previous: previous.map(|previous| BodyFields::of(kind, previous)),
        }
    }
}

fn digest(text: &str) -> FieldDigest {
    let mut first = FieldDigest::default();
    first.copy_from_slice(&Sha256::digest(text)[..16]);
    first
}

/// The words depend on whether the kind has fields of its own to select by.
fn unsupported(kind: &Kind, field: &str) -> Error {
    Error::bad_request(match kind.selectable.is_empty() {
        true => format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ),
        false => format!("field label not supported: {field}"),
    })
}

/// A field's value as selectors compare it.
fn body_field(body: &Value, field: &str) -> String {
    let found = match field {
        "name" => value::at(body, "metadata.name"),
        "source" if value::text(body, "source.component").is_empty() => {
            value::at(body, "reportingComponent")
        }
        "source" => value::at(body, "source.component"),
        field => value::at(body, field),
    };
    match found.as_str() {
        Some(text) => text.to_owned(),
        None if found.is_null() => default_of(field).to_owned(),
        None => found.to_string(),
    }
}

/// Numbers and flags of built-in kinds have a value when they are absent.
fn default_of(field: &str) -> &'static str {
    match field {
        "status.replicas" | "status.successful" => "0",
        "spec.unschedulable" | "spec.hostNetwork" => "false",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deltaplane_store::{Change, Collection, Header, Identity, Revision, Row};
    use serde_json::json;

    use super::*;
    use crate::kinds::registry::Registry;
    use crate::options::Query;

    fn pod(revision: u64, node: &str) -> Arc<Object> {
        let pods = Collection::new("default", "pods").expect("legal");
        let revision = Revision::new(revision);
        let identity = Identity {
            key: pods.key("shop", "web").expect("legal"),
            row: Row::new(revision, 0),
            created: revision,
            tag: 0,
        };
        let body = json!({"metadata": {"name": "web"}, "spec": {"nodeName": node}});
        let bytes = body.to_string().into_bytes().into_boxed_slice();
        Arc::new(Object::new(identity, Header::default(), bytes))
    }

    fn selects(kind: &Kind, selector: &str, event: &Event) -> (bool, bool) {
        let query = Query::parse(&format!("fieldSelector={selector}"));
        let options = ListOptions::parse(&query).expect("legal options");
        let filter = Filter::new(kind, &options).expect("the fields are offered");
        let EventMatch { before, now } = filter.matches_event(kind, event);
        (before, now)
    }

    #[test]
    fn watches_by_fields_share_what_an_event_says_of_them() {
        let registry = Registry::built_in();
        let kind = registry.get("", "v1", "pods").expect("it is served");
        let event = Event::new(Change::Put {
            object: pod(2, "b"),
            previous: Some(pod(1, "a")),
        });
        // What needs no body reads none.
        assert_eq!(
            selects(kind, "metadata.name%3Ddb,spec.nodeName%3Da", &event),
            (false, false)
        );
        assert_eq!(selects(kind, "metadata.name%3Dweb", &event), (true, true));
        assert_eq!(selects(kind, "spec.nodeName%3Da", &event), (true, false));
        // From now on nobody reads it again.
        let read_again = |_: &Event| -> EventFields { panic!("the body is read again") };
        let fields = event.finding(kind.tag, read_again);
        assert_eq!(fields.object.0.len(), kind.selectable.len());
        assert_eq!(selects(kind, "spec.nodeName%3Db", &event), (false, true));
        assert_eq!(selects(kind, "spec.nodeName!%3Da", &event), (false, true));
        assert_eq!(
            selects(kind, "status.phase!%3DRunning", &event),
            (true, true)
        );
    }
}
