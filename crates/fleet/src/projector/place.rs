//! Who should have an object: pure.

use deltaplane_border::Audience;
use deltaplane_store::Key;
use deltaplane_sync::{ObjectName, Origin};
use serde_json::Value;

use crate::kinds::SyncedKind;

/// Who should have an object of a synced kind.
pub(crate) fn audience(synced: &SyncedKind, object: &Value) -> Audience {
    match Origin::of(object) {
        Some(Origin::Zone(zone)) if synced.spec.across_zones => Audience::EveryoneBut(zone),
        Some(Origin::Zone(_) | Origin::Hub) => Audience::Nobody(synced.withdrawal()),
        None if synced.goes_down() && synced.selects(object) => Audience::Everyone,
        None => Audience::Nobody(synced.withdrawal()),
    }
}

pub(super) fn everyone(_: &Value) -> Audience {
    Audience::Everyone
}

/// What an object is called on the wire, if it can be.
pub(super) fn name(key: &Key) -> Option<ObjectName> {
    ObjectName::new(key.namespace(), key.name()).ok()
}
