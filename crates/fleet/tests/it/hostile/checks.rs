//! What must be true whatever a zone says.

use deltaplane_border::Reader;
use deltaplane_sync::{Item, ObjectName, Origin, Presence, SyncKind, View, Withdrawal, ZoneName};
use serde_json::Value;

use super::Play;
use super::rules::author;

// === impl Play ===

impl Play {
    /// An object that is sent is there, as it is at the hub, for whom it is, and from whom it is.
    pub(super) fn check_sent(
        &self,
        zone: &ZoneName,
        (kind, name): (&SyncKind, &ObjectName),
        item: &Item,
    ) {
        let object: Value = serde_json::from_slice(&item.body).expect("JSON");
        let there = self.stored.get(&(kind.clone(), name.clone()));
        let there = there.unwrap_or_else(|| panic!("{zone} is sent {kind} {name}: it is gone"));
        assert_eq!(object["spec"], there["spec"], "{kind} {name}");
        let may_hold = self.may_hold(kind, there, zone);
        assert!(may_hold, "{zone} is sent {kind} {name}: {there}");
        let relayed = item.relayed.as_ref().map(|relayed| &relayed.zone);
        match author(there) {
            Origin::Hub => assert_eq!(relayed, None, "{kind} {name}"),
            Origin::Zone(author) => assert_eq!(relayed, Some(&author), "{kind} {name}"),
        }
    }

    /// The rule: origin and kind send it there; but for namespaces of the hub that something needs.
    pub(super) fn may_hold(&self, kind: &SyncKind, object: &Value, zone: &ZoneName) -> bool {
        let is_needed = || {
            let name = object["metadata"]["name"].as_str();
            let mut namespaces = self.stored.keys().map(|(_, name)| name.namespace());
            namespaces.any(|namespace| Some(namespace) == name)
        };
        let is_namespace = kind.kind() == "Namespace" && author(object) == Origin::Hub;
        self.said[kind].sends(object, zone) || (is_namespace && is_needed())
    }

    /// The rule: it was deleted at the hub while its kind crosses, or its kind says so.
    pub(super) fn may_delete(&self, id: &(SyncKind, ObjectName)) -> bool {
        let said = &self.said[&id.0];
        let was_deleted = !self.stored.contains_key(id) && said.rule().is_some();
        was_deleted || said.deletes()
    }

    /// Compares all with what was there before, and with the rules.
    pub(super) fn check(&mut self, by_evil: bool) {
        let stored = self.read_stored();
        let before = std::mem::replace(&mut self.stored, stored);
        let evil = Origin::Zone(self.evil());
        for (id, object) in &self.stored {
            let says = Origin::of(object).unwrap_or(Origin::Hub);
            assert_eq!(says, author(object), "{id:?} has another origin: {object}");
            let was = before.get(id);
            let changed = was != Some(object);
            if let Some(was) = was {
                assert_eq!(author(was), author(object), "{id:?} is another's");
            }
            if by_evil && changed && author(object) == evil {
                let rule = self.said[&id.0].rule();
                let takes = rule.is_some_and(|rule| rule.takes(object));
                assert!(takes, "{id:?} is not taken from zones: {object}");
            }
        }
        for (id, object) in before
            .iter()
            .filter(|(_, one)| by_evil && author(one) != evil)
        {
            assert_eq!(self.stored.get(id), Some(object), "{id:?} changed");
        }
        self.check_presences();
    }

    /// What each zone should have of all that there may be.
    fn check_presences(&self) {
        let catalog = self.hub.world.fleet.catalog().read();
        for zone in &self.zones() {
            let reader = Reader {
                catalog: &catalog,
                zone: Some(zone),
            };
            let nowhere = self.kinds().into_iter().map(|kind| {
                let namespace = match kind.kind() {
                    "Namespace" => String::new(),
                    _ => self.namespace(),
                };
                (kind, ObjectName::new(&namespace, "nowhere").expect("legal"))
            });
            for (kind, name) in self.stored.keys().cloned().chain(nowhere) {
                let id = (kind.clone(), name.clone());
                match reader.presence(&kind, &name) {
                    Presence::Wanted(item) => {
                        self.check_sent(zone, (&kind, &name), &item);
                    }
                    Presence::Withdrawn(Withdrawal::Orphan) => {}
                    Presence::Withdrawn(Withdrawal::Delete) => {
                        assert!(self.said[&kind].deletes(), "{zone} deletes {id:?}");
                    }
                    Presence::Gone => {
                        assert!(self.may_delete(&id), "{zone} deletes {id:?}");
                    }
                    Presence::Frozen => panic!("{zone} waits for {id:?}"),
                }
            }
        }
    }
}
