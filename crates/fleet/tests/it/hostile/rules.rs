//! What the rules of crossing say, told by who really authored an object.

use deltaplane_sync::{Origin, SyncKind, ZoneName};
use serde_json::{Value, json};

use super::{AUTHOR, CROSSES, Dice};
use crate::world::synced;

/// What a SyncedKind says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    direction: &'static str,
    across: bool,
    authored_in_zones: bool,
    pub(super) deletes: bool,
    selects: bool,
}

/// What is said of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Said {
    /// Nothing, since the process began.
    Nothing,
    Crosses(Rule),
    /// It crossed.
    Withdrawn(Rule),
}

/// Who authored an object, as it says in a part that sync does not write.
pub(super) fn author(object: &Value) -> Origin {
    match object["metadata"]["annotations"][AUTHOR].as_str() {
        // The hub makes namespaces for what comes.
        None | Some("hub") => Origin::Hub,
        Some(name) => Origin::Zone(name.parse().expect("a zone")),
    }
}

// === impl Rule ===

impl Rule {
    pub(super) fn random(dice: &mut Dice) -> Self {
        Self {
            direction: dice.pick(&["HubToZone", "ZoneToHub", "Both"]),
            across: dice.roll(2) == 0,
            authored_in_zones: dice.roll(4) > 0,
            deletes: dice.roll(2) == 0,
            selects: dice.roll(3) == 0,
        }
    }

    /// The SyncedKind that says so.
    pub(super) fn object(self, kind: &SyncKind, plural: &str) -> Value {
        let mut spec = json!({
            "direction": self.direction, "acrossZones": self.across,
            "zoneAuthored": self.authored_in_zones,
            "onWithdraw": if self.deletes { "Delete" } else { "Orphan" },
        });
        if self.selects {
            spec["selector"] = json!({"matchLabels": {CROSSES: "yes"}});
        }
        if kind.group().is_empty() {
            return synced(plural, kind.kind(), &spec);
        }
        spec["group"] = kind.group().into();
        synced(&format!("{plural}.{}", kind.group()), kind.kind(), &spec)
    }

    fn is_selected(self, object: &Value) -> bool {
        !self.selects || object["metadata"]["labels"][CROSSES] == "yes"
    }

    /// Returns true if zones may send an object.
    pub(super) fn takes(self, object: &Value) -> bool {
        self.goes_up() && self.is_selected(object)
    }

    /// Returns true if kinds like this are taken from zones.
    pub(super) fn goes_up(self) -> bool {
        self.direction != "HubToZone" && self.authored_in_zones
    }

    fn sends(self, object: &Value, reader: &ZoneName) -> bool {
        match author(object) {
            Origin::Hub => self.direction != "ZoneToHub" && self.is_selected(object),
            Origin::Zone(author) => self.across && author != *reader,
        }
    }
}

// === impl Said ===

impl Said {
    pub(super) fn rule(&self) -> Option<Rule> {
        match self {
            Self::Crosses(rule) => Some(*rule),
            Self::Nothing | Self::Withdrawn(_) => None,
        }
    }

    /// Returns true if a zone is sent an object.
    pub(super) fn sends(&self, object: &Value, reader: &ZoneName) -> bool {
        self.rule().is_some_and(|rule| rule.sends(object, reader))
    }

    /// Returns true if zones delete what they are not sent any more, and is there.
    pub(super) fn deletes(&self) -> bool {
        match self {
            Self::Crosses(rule) | Self::Withdrawn(rule) => rule.deletes,
            Self::Nothing => false,
        }
    }
}
