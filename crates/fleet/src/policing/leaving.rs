//! Objects that leave a policy by what they are written with.

use deltaplane_apiserver::seams::{Operation, Resource, Review};
use deltaplane_sync::{ObjectName, SyncKind};
use serde_json::Value;

use super::Policing;

// === impl Policing ===

impl Policing {
    /// Returns the policy that keeps an object, as it would be written, until its departure is
    /// approved.
    pub(super) fn departing_from(&self, resource: Resource<'_>, object: &Value) -> Option<String> {
        let kind = SyncKind::new(resource.group, resource.kind).ok()?;
        let name = ObjectName::new(resource.namespace, resource.name).ok()?;
        let governing = self.0.inner().governing.lock();
        let governor = governing.departing_from(&(kind, name), object.as_object()?)?;
        Some(governor.id.as_str().to_owned())
    }

    /// Warns that an object leaves its policy, and when zones get it.
    pub(super) fn warn_of_leaving(&self, review: &mut Review<'_>, departing: Option<&str>) {
        if review.operation == Operation::Delete {
            return;
        }
        if let Some(policy) = departing {
            review.warnings.push(format!(
                "policy {policy} does not select the object any more; zones keep what they have until a release without it is approved and completed in all stages, and then all zones get it: deltaplane rollout status policy/{policy}"
            ));
            return;
        }
        let old = review.old.filter(|_| review.operation == Operation::Update);
        if let Some(policy) = old.and_then(|old| self.governed_by(review.resource, old)) {
            review.warnings.push(format!(
                "policy {policy} does not govern it any more: all zones get what it says at once"
            ));
        }
    }
}
