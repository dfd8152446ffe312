//! Who wrote a governed object last, kept on it for those who must not approve it.

use deltaplane_apiserver::seams::{Operation, Review};
use deltaplane_store::Collection;
use deltaplane_sync::Crossing;
use serde_json::{Map, Value};

use super::Policing;
use crate::governing::AUTHOR;
use crate::kinds::{CONTROLLERS, TENANT};

// === impl Policing ===

impl Policing {
    /// Says on a governed object who changed it last, for those who must not approve it.
    pub(super) fn sign(&self, review: &mut Review<'_>) {
        let departing = self.departing_from(review.resource, review.object);
        let is_governed = self.governed_by(review.resource, review.object).is_some();
        if departing.is_some() || !is_governed {
            self.warn_of_leaving(review, departing.as_deref());
        }
        if departing.is_none() && !is_governed {
            // Whoever governs it later believes what is written there.
            forget_author(review.object);
            return;
        }
        let version = |object: &Value| Crossing::of(object).ok().map(|one| one.version());
        let same = review.old.is_some_and(|old| match review.operation {
            // Who deletes what is going already takes nothing away.
            Operation::Delete => is_going(old),
            Operation::Create | Operation::Update => version(old) == version(review.object),
        });
        // A label that does not cross is no part of the version.
        let old = review.old.filter(|_| review.operation != Operation::Delete);
        let stayed = |old| self.departing_from(review.resource, old).is_none();
        let leaves = departing.is_some() && old.is_some_and(stayed);
        let writer = self.writer(review);
        sign(review, &writer, same && !leaves);
    }

    /// Who writes: of what the hub deletes with a namespace, whoever deleted the namespace.
    fn writer(&self, review: &Review<'_>) -> String {
        let namespace = review.resource.namespace;
        let by_hub = review.user.name == CONTROLLERS;
        let deleter = || {
            let namespaces = Collection::new(TENANT, "namespaces").ok()?;
            let stored = self
                .0
                .inner()
                .store
                .get(&namespaces.key("", namespace).ok()?)?;
            let namespace: Value = serde_json::from_slice(stored.bytes()).ok()?;
            let by = namespace["metadata"]["annotations"][AUTHOR].as_str();
            by.filter(|_| is_going(&namespace)).map(str::to_owned)
        };
        let deleter = (by_hub && !namespace.is_empty()).then(deleter).flatten();
        deleter.unwrap_or_else(|| review.user.name.clone())
    }

    /// Says on a namespace that goes who deleted it, and lets nobody name another: the hub deletes
    /// what is in it on their behalf.
    pub(super) fn sign_namespace(&self, review: &mut Review<'_>) {
        let is_going = review.old.is_some_and(is_going);
        if review.operation != Operation::Delete && !is_going {
            return self.sign(review);
        }
        let writer = review.user.name.clone();
        sign(review, &writer, is_going);
    }
}

/// Returns true if an object is being deleted.
fn is_going(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Writes down who writes, unless it is the same as before: then nobody takes a name away.
pub(super) fn sign(review: &mut Review<'_>, writer: &str, same: bool) {
    let before = review.old;
    let before = before.and_then(|old| old["metadata"]["annotations"][AUTHOR].as_str());
    let author = match same {
        true => before.map(str::to_owned),
        false => Some(writer.to_owned()),
    };
    if author.is_none() {
        // Whatever somebody wrote there, nobody signed it.
        forget_author(review.object);
        return;
    }
    let Some(metadata) = review.object["metadata"].as_object_mut() else {
        return;
    };
    let annotations = metadata
        .entry("annotations")
        .or_insert_with(|| Value::Object(Map::new()));
    if let (Some(annotations), Some(author)) = (annotations.as_object_mut(), author) {
        annotations.insert(AUTHOR.to_owned(), author.into());
    }
}

/// Takes away who is said to have written an object.
fn forget_author(object: &mut Value) {
    let annotations = object["metadata"].get_mut("annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove(AUTHOR);
    }
}
