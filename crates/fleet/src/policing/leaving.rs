//! Objects that leave a policy by what they are written with.

use deltaplane_apiserver::seams::{Operation, Resource, Review};
use deltaplane_border::Audience;
use deltaplane_sync::{ObjectName, SyncKind};
use serde_json::Value;

use super::Policing;
use crate::projector::place::audience;

// === impl Policing ===

impl Policing {
    /// Returns the policy that keeps an object, as it would be written, until its departure is
    /// approved.
    pub(super) fn departing_from(&self, resource: Resource<'_>, object: &Value) -> Option<String> {
        let kind = SyncKind::new(resource.group, resource.kind).ok()?;
        let name = ObjectName::new(resource.namespace, resource.name).ok()?;
        let known = self.0.inner().known.borrow().clone();
        let synced = known.synced(resource.group, resource.plural);
        let crosses = synced.is_none_or(|synced| audience(synced, object) == Audience::Everyone);
        let crossing = object.as_object().filter(|_| crosses);
        let governing = self.0.inner().governing.lock();
        let governor = governing.departing_from(&(kind, name), crossing)?;
        Some(governor.id.as_str().to_owned())
    }

    /// Warns that an object leaves its policy, and when zones get it.
    pub(super) fn warn_of_leaving(&self, review: &mut Review<'_>, departing: Option<&str>) {
        if review.operation == Operation::Delete {
            return;
        }
        if let Some(policy) = departing {
            review.warnings.push(format!(
                "the object leaves policy {policy} when every stage has completed a release of it as it is now, which needs approval like any change: deltaplane rollout status policy/{policy}"
            ));
            return;
        }
        let old = review.old.filter(|_| review.operation == Operation::Update);
        if let Some(policy) = old.and_then(|old| self.governed_by(review.resource, old)) {
            review.warnings.push(format!(
                "policy {policy} no longer governs this object: all zones get its current version at once"
            ));
        }
    }
}
