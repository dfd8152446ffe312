//! Objects that would leave a policy by what they are written with.

use deltaplane_apiserver::Error;
use deltaplane_apiserver::seams::{Operation, Review};
use deltaplane_propagation::stages::Object;
use deltaplane_sync::{ObjectName, SyncKind};

use super::Policing;

// === impl Policing ===

impl Policing {
    /// What zones have by a policy that needs approval does not leave it by what it is written with:
    /// otherwise it would go to all zones at once, and nobody would be asked.
    pub(super) fn refuse_leaving(&self, review: &Review<'_>) -> Result<(), Error> {
        let resource = review.resource;
        let kind = SyncKind::new(resource.group, resource.kind);
        let name = ObjectName::new(resource.namespace, resource.name);
        let (Ok(kind), Ok(name), Some(object)) = (kind, name, review.object.as_object()) else {
            return Ok(());
        };
        if review.operation == Operation::Delete {
            return Ok(());
        }
        let about = Object {
            group: kind.group(),
            kind: kind.kind(),
            namespace: name.namespace(),
            name: name.name(),
            object,
        };
        let id = (kind.clone(), name.clone());
        let governing = self.0.inner().governing.lock();
        let mut policies = governing.policies.iter();
        let left = policies.find(|(_, governor)| {
            governor.needs_approval() && governor.keeps(&id) && !governor.includes(&about)
        });
        let Some((policy, _)) = left else {
            return Ok(());
        };
        let why = format!(
            "zones have it by policy {policy}, whose stages need approval, and it would leave the policy without any; keep the labels that spec.targets of the policy selects by, delete it and have that approved, or change spec.targets: kubectl edit propagationpolicy {policy}"
        );
        Err(Error::forbidden(super::about(resource), &why))
    }

    /// Says that what leaves a policy goes everywhere.
    pub(super) fn warn_of_leaving(&self, review: &mut Review<'_>) {
        let old = review.old.filter(|_| review.operation == Operation::Update);
        if let Some(policy) = old.and_then(|old| self.governed_by(review.resource, old)) {
            review.warnings.push(format!(
                "policy {policy} does not govern it any more: all zones get what it says at once"
            ));
        }
    }
}
