//! What a namespace says about its end. Pure; types, reasons and messages are Kubernetes' own,
//! since people and tools look for them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use deltaplane_api::finalizers;
use deltaplane_api::time::Time;
use deltaplane_client::Resource;
use deltaplane_client::header::{Header, null_as_default};

use crate::condition::{self, Condition, Wanted};
use crate::content::Left;

/// A namespace, as far as it matters.
#[derive(Debug, Deserialize)]
pub(super) struct Namespace {
    metadata: Header,
    #[serde(default, deserialize_with = "null_as_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "null_as_default")]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
struct Spec {
    #[serde(default, deserialize_with = "null_as_default")]
    finalizers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    phase: String,
    #[serde(default, deserialize_with = "null_as_default")]
    conditions: Vec<Condition>,
}

/// How far the content is deleted.
#[derive(Debug, Default)]
pub(super) struct Emptied {
    /// Groups that could not be asked for their kinds, and why.
    pub(super) undiscovered: BTreeMap<String, String>,
    /// What could not be deleted, and why.
    pub(super) failures: Vec<String>,
    /// What is still there.
    pub(super) left: Vec<(Resource, Left)>,
}

const TERMINATING: &str = "Terminating";

/// The status that the outcome leads to, if it is another than the present one.
pub(super) fn status(namespace: &Namespace, outcome: &Emptied, now: Time) -> Option<Value> {
    let mut conditions = namespace.status.conditions.clone();
    for wanted in outcome.conditions() {
        condition::set(&mut conditions, wanted, now);
    }
    let same = conditions == namespace.status.conditions && namespace.status.phase == TERMINATING;
    (!same).then(|| json!({"phase": TERMINATING, "conditions": conditions}))
}

// === impl Namespace ===

impl Namespace {
    pub(super) fn is_to_be_emptied(&self) -> bool {
        let held = self
            .spec
            .finalizers
            .iter()
            .any(|finalizer| finalizer == finalizers::KUBERNETES);
        self.metadata.is_deleting() && held
    }

    /// For writes that must not meet another state than this.
    pub(super) fn precondition(&self) -> Value {
        json!({"uid": self.metadata.uid, "resourceVersion": self.metadata.resource_version})
    }

    /// What lets it go, as far as we are concerned.
    pub(super) fn finalized(&self) -> Value {
        let others = self
            .spec
            .finalizers
            .iter()
            .filter(|finalizer| *finalizer != finalizers::KUBERNETES);
        let others: Vec<_> = others.collect();
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": self.metadata.name,
                "uid": self.metadata.uid,
                "resourceVersion": self.metadata.resource_version,
            },
            "spec": {"finalizers": others},
        })
    }
}

// === impl Emptied ===

impl Emptied {
    pub(super) fn is_empty(&self) -> bool {
        self.undiscovered.is_empty() && self.failures.is_empty() && self.left.is_empty()
    }

    /// Why it must be tried again, other than that something is left.
    pub(super) fn failure(&self) -> Option<String> {
        let undiscovered = (!self.undiscovered.is_empty()).then(|| self.discovery_message());
        undiscovered.or_else(|| (!self.failures.is_empty()).then(|| self.content_message()))
    }

    fn conditions(&self) -> [Wanted; 5] {
        let or = |bad: bool, bad_reason, ok_reason| match bad {
            true => bad_reason,
            false => ok_reason,
        };
        let undiscovered = !self.undiscovered.is_empty();
        let failed = !self.failures.is_empty();
        let remaining = !self.left.is_empty();
        let finalizers = self.finalizers();
        let finalizing = !finalizers.is_empty();
        [
            Wanted {
                r#type: "NamespaceDeletionDiscoveryFailure",
                holds: undiscovered,
                reason: or(undiscovered, "DiscoveryFailed", "ResourcesDiscovered"),
                message: match undiscovered {
                    true => self.discovery_message(),
                    false => "All resources successfully discovered".to_owned(),
                },
            },
            Wanted {
                r#type: "NamespaceDeletionGroupVersionParsingFailure",
                holds: false,
                reason: "ParsedGroupVersions",
                message: "All legacy kube types successfully parsed".to_owned(),
            },
            Wanted {
                r#type: "NamespaceDeletionContentFailure",
                holds: failed,
                reason: or(failed, "ContentDeletionFailed", "ContentDeleted"),
                message: match failed {
                    true => self.content_message(),
                    false => "All content successfully deleted, may be waiting on finalization"
                        .to_owned(),
                },
            },
            Wanted {
                r#type: "NamespaceContentRemaining",
                holds: remaining,
                reason: or(remaining, "SomeResourcesRemain", "ContentRemoved"),
                message: match remaining {
                    true => self.remaining_message(),
                    false => "All content successfully removed".to_owned(),
                },
            },
            Wanted {
                r#type: "NamespaceFinalizersRemaining",
                holds: finalizing,
                reason: or(finalizing, "SomeFinalizersRemain", "ContentHasNoFinalizers"),
                message: match finalizing {
                    true => finalizers_message(&finalizers),
                    false => "All content-preserving finalizers finished".to_owned(),
                },
            },
        ]
    }

    fn discovery_message(&self) -> String {
        let each = self
            .undiscovered
            .iter()
            .map(|(group, why)| format!("{group}: {why}"));
        let each: Vec<_> = each.collect();
        let count = each.len();
        let all = each.join(", ");
        format!(
            "Discovery failed for some groups, {count} failing: unable to retrieve the complete \
             list of server APIs: {all}"
        )
    }

    fn content_message(&self) -> String {
        let (count, all) = (self.failures.len(), self.failures.join(", "));
        format!("Failed to delete all resource types, {count} remaining: {all}")
    }

    fn remaining_message(&self) -> String {
        let each = |(kind, left): &(Resource, Left)| {
            let (plural, group, count) = (&kind.plural, &kind.group, left.objects.len());
            format!("{plural}.{group} has {count} resource instances")
        };
        let mut each: Vec<_> = self.left.iter().map(each).collect();
        each.sort();
        format!("Some resources are remaining: {}", each.join(", "))
    }

    fn finalizers(&self) -> BTreeMap<&str, usize> {
        let mut all = BTreeMap::new();
        for (finalizer, count) in self.left.iter().flat_map(|(_, left)| &left.finalizers) {
            *all.entry(finalizer.as_str()).or_default() += count;
        }
        all
    }
}

fn finalizers_message(finalizers: &BTreeMap<&str, usize>) -> String {
    let each = finalizers
        .iter()
        .map(|(name, count)| format!("{name} in {count} resource instances"));
    let each: Vec<_> = each.collect();
    let all = each.join(", ");
    format!("Some content in the namespace has finalizers remaining: {all}")
}

#[cfg(test)]
mod tests;
