//! The namespaces that sync made at the hub for objects of zones. Pure.
//!
//! Such a namespace stays when the object that needed it is refused or goes, so it counts against
//! the quota of its zone until somebody deletes it, or takes the label away.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_sync::{MADE_FOR, ZoneName};
use serde_json::Value;

/// Namespaces with the label [`MADE_FOR`], by zone. Invariant: both maps say the same.
#[derive(Debug, Default)]
pub(crate) struct MadeNamespaces {
    zones: BTreeMap<String, ZoneName>,
    namespaces: BTreeMap<ZoneName, BTreeSet<String>>,
}

// === impl MadeNamespaces ===

impl MadeNamespaces {
    /// Takes in a namespace as it is now; nothing if it is deleted.
    pub(crate) fn set(&mut self, name: &str, namespace: Option<&Value>) {
        let label = namespace.and_then(|one| one["metadata"]["labels"][MADE_FOR].as_str());
        let zone: Option<ZoneName> = label.and_then(|zone| zone.parse().ok());
        if self.zones.get(name) == zone.as_ref() {
            return;
        }
        if let Some(before) = self.zones.remove(name) {
            self.forget(name, &before);
        }
        if let Some(zone) = zone {
            let namespaces = self.namespaces.entry(zone.clone()).or_default();
            namespaces.insert(name.to_owned());
            self.zones.insert(name.to_owned(), zone);
        }
    }

    fn forget(&mut self, name: &str, zone: &ZoneName) {
        if let Some(namespaces) = self.namespaces.get_mut(zone) {
            namespaces.remove(name);
            if namespaces.is_empty() {
                self.namespaces.remove(zone);
            }
        }
    }

    /// Returns the namespaces that were made for a zone.
    pub(crate) fn of(&self, zone: &ZoneName) -> Option<&BTreeSet<String>> {
        self.namespaces.get(zone)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn namespaces_are_counted_while_they_have_the_label() {
        let zone = |name: &str| name.parse::<ZoneName>().expect("legal");
        let made_for = |zone: &str| json!({"metadata": {"labels": {MADE_FOR: zone}}});
        let mut made = MadeNamespaces::default();
        made.set("a", Some(&made_for("eu-1")));
        made.set("b", Some(&made_for("eu-1")));
        made.set("c", Some(&json!({"metadata": {}})));
        let namespaces = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(made.of(&zone("eu-1")), Some(&namespaces(&["a", "b"])));
        made.set("a", Some(&made_for("us-1")));
        made.set("b", None);
        assert_eq!(made.of(&zone("us-1")), Some(&namespaces(&["a"])));
        assert_eq!(made.of(&zone("eu-1")), None);
        made.set("a", Some(&json!({"metadata": {"labels": {}}})));
        assert!(made.namespaces.is_empty() && made.zones.is_empty());
    }
}
