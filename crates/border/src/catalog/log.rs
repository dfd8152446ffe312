//! What changed, and for whom.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_sync::{
    Before, Change, ObjectName, Revision, SyncKind, Version, Withdrawal, ZoneName,
};

use super::Audience;
use super::governed::{Moves, Outline, Placement, Spot};

/// Whom changes concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concerned {
    Zones(BTreeSet<ZoneName>),
    Everyone,
}

/// A change of an object.
#[derive(Debug)]
pub(super) struct Logged {
    /// How far the catalog was when it showed the change.
    pub(super) stamp: Revision,
    /// Whether the catalog was that far before already: watches of several kinds have no common
    /// order. Whoever was there may or may not have seen it.
    pub(super) late: bool,
    pub(super) kind: SyncKind,
    pub(super) name: ObjectName,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Edited {
        before: Was,
        after: Was,
    },
    /// It stayed, and its policy moved zones.
    Moved {
        object: Arc<Outline>,
        moves: Arc<Moves>,
    },
}

/// An object at some time: as much as says what anybody should have had of it.
#[derive(Debug)]
pub(super) enum Was {
    /// Withdrawn, or deleted.
    Absent(Option<Withdrawal>),
    Shared(Version, Audience),
    Governed {
        object: Arc<Outline>,
        placement: Option<Arc<Placement>>,
    },
}

/// What a reader should do about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Should {
    Have(Version),
    /// It is not meant for the reader.
    Leave(Withdrawal),
    /// It was deleted; perhaps somebody agreed to that, so that no budget keeps it any more.
    Remove {
        agreed: bool,
    },
    /// It is not decided.
    Wait,
}

// === impl Concerned ===

impl Concerned {
    pub(super) fn nobody() -> Self {
        Self::Zones(BTreeSet::new())
    }

    pub fn is_nobody(&self) -> bool {
        *self == Self::nobody()
    }

    #[must_use]
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Zones(mut zones), Self::Zones(others)) => {
                zones.extend(others);
                Self::Zones(zones)
            }
            (Self::Everyone, _) | (_, Self::Everyone) => Self::Everyone,
        }
    }
}

// === impl Logged ===

impl Logged {
    /// What it means to a reader, if anything.
    pub(super) fn change(&self, zone: Option<&ZoneName>) -> Option<Change> {
        let (before, after) = match &self.what {
            What::Edited { before, after } => (before.should(zone), after.should(zone)),
            What::Moved { object, moves } => {
                let moved = moves.of(zone);
                (object.should(moved.from), object.should(moved.to))
            }
        };
        (before != after).then(|| Change {
            name: self.name.clone(),
            before: before.into(),
            revision: self.stamp,
        })
    }

    /// What it means to a reader who was at a revision, if anything.
    pub(super) fn change_since(
        &self,
        revision: Revision,
        zone: Option<&ZoneName>,
    ) -> Option<Change> {
        let change = self.change(zone)?;
        match self.stamp > revision {
            true => Some(change),
            // Perhaps the reader has what was before, and perhaps what came after.
            false => self.late.then_some(Change {
                before: Before::Unknown,
                ..change
            }),
        }
    }
}

// === impl Was ===

impl Was {
    fn should(&self, zone: Option<&ZoneName>) -> Should {
        match self {
            Self::Absent(None) => Should::Remove { agreed: false },
            Self::Absent(Some(withdrawal)) => Should::Leave(*withdrawal),
            Self::Shared(version, audience) if audience.includes(zone) => Should::Have(*version),
            Self::Shared(_, audience) => audience.withdrawal().map_or(Should::Wait, Should::Leave),
            Self::Governed { object, placement } => {
                object.should(Spot::of(placement.as_deref(), zone))
            }
        }
    }

    /// Who has something to do when it becomes like this: whoever else looks finds nothing to do.
    /// Nothing when nobody need ever know.
    pub(super) fn concerns(&self, after: &Self) -> Option<Concerned> {
        match (self, after) {
            (
                Self::Governed { object, placement },
                Self::Governed {
                    object: becomes,
                    placement: now,
                },
            ) if is_same(placement.as_ref(), now.as_ref()) => {
                // Without a placement it is frozen, and was.
                let placement = placement.as_ref()?;
                let changes = |spot| object.should(spot) != becomes.should(spot);
                let zones = placement.standing(changes);
                match changes(Spot::Out) {
                    true => Some(Concerned::Everyone),
                    false => (!zones.is_empty()).then_some(Concerned::Zones(zones)),
                }
            }
            (
                Self::Absent(None),
                Self::Governed {
                    object,
                    placement: Some(placement),
                },
            )
            | (
                Self::Governed {
                    object,
                    placement: Some(placement),
                },
                Self::Absent(None),
            ) => {
                let absent = Should::Remove { agreed: false };
                let changes = |spot| object.should(spot) != absent;
                Some(Concerned::Zones(placement.standing(changes)))
            }
            (Self::Absent(_) | Self::Shared(..) | Self::Governed { .. }, _) => {
                Some(Concerned::Everyone)
            }
        }
    }
}

fn is_same(one: Option<&Arc<Placement>>, other: Option<&Arc<Placement>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

// === impl Should ===

impl From<Should> for Before {
    fn from(should: Should) -> Self {
        match should {
            Should::Have(version) => Self::Version(version),
            Should::Leave(_) | Should::Remove { .. } => Self::Nothing,
            Should::Wait => Self::Unknown,
        }
    }
}
