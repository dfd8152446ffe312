//! Who should have an object: pure.

use deltaplane_border::{Audience, namespaces};
use deltaplane_store::Key;
use deltaplane_sync::{MADE_FOR, ObjectName, Origin, Withdrawal};
use serde_json::Value;

use crate::kinds::SyncedKind;

/// Who should have an object of a synced kind.
pub(crate) fn audience(synced: &SyncedKind, object: &Value) -> Audience {
    // The hub made it because a zone's object needed it: a zone does not make namespaces of others.
    if synced.kind == namespaces() && object["metadata"]["labels"].get(MADE_FOR).is_some() {
        return Audience::Nobody(synced.withdrawal());
    }
    match Origin::of(object) {
        Some(Origin::Zone(zone)) if synced.spec.across_zones => Audience::EveryoneBut(zone),
        Some(Origin::Zone(_) | Origin::Hub) => Audience::Nobody(synced.withdrawal()),
        None if synced.goes_down() && synced.selects(object) => Audience::Everyone,
        None => Audience::Nobody(synced.withdrawal()),
    }
}

/// Who should have a namespace or definition that others need. One of a zone goes where its kind sends
/// it, and nowhere else: what needs it waits in zones that do not have it, and who has it keeps it.
pub(super) fn audience_of_needed(synced: Option<&SyncedKind>, object: &Value) -> Audience {
    if !matches!(Origin::of(object), Some(Origin::Zone(_))) {
        return Audience::Everyone;
    }
    match synced.map(|synced| audience(synced, object)) {
        Some(across @ Audience::EveryoneBut(_)) => across,
        _ => Audience::Nobody(Withdrawal::Orphan),
    }
}

pub(super) fn everyone(_: &Value) -> Audience {
    Audience::Everyone
}

/// What an object is called on the wire, if it can be.
pub(super) fn name(key: &Key) -> Option<ObjectName> {
    ObjectName::new(key.namespace(), key.name()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A zone that uploads into a namespace makes the hub create it, and nobody else.
    #[test]
    fn a_namespace_that_a_zone_needed_is_not_for_other_zones() {
        let synced = json!({
            "metadata": {"name": "namespaces"},
            "spec": {"kind": "Namespace", "direction": "HubToZone"},
        });
        let synced = SyncedKind::of(&synced).expect("well-formed");
        let namespace = |labels: Value| {
            let metadata = json!({"name": "team", "labels": labels});
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        };
        let audience = |labels: Value| audience(&synced, &namespace(labels));
        assert_eq!(audience(json!({})), Audience::Everyone);
        let nobody = Audience::Nobody(synced.withdrawal());
        assert_eq!(audience(json!({MADE_FOR: "eu-1"})), nobody);
    }

    /// Otherwise whoever may label an object would withdraw it.
    #[test]
    fn only_namespaces_are_made_for_zones() {
        let synced = json!({
            "metadata": {"name": "configmaps"},
            "spec": {"kind": "ConfigMap", "direction": "HubToZone"},
        });
        let synced = SyncedKind::of(&synced).expect("well-formed");
        let metadata = json!({"name": "a", "labels": {MADE_FOR: "eu-1"}});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        assert_eq!(audience(&synced, &map), Audience::Everyone);
    }
}
