//! What policies decide: which zone should have which content of the objects that they govern.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use deltaplane_sync::{Item, ObjectName, SyncKind, Version, Withdrawal, ZoneName};

use super::log::Should;

/// Which policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId(Arc<str>);

/// One content of all that a policy governs: a release, as those zones should have it to which the
/// same overrides apply. What the numbers mean is the policy's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    pub release: u64,
    pub class: u32,
}

/// An object of which a policy decides who should have it, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Governed {
    pub policy: PolicyId,
    /// Its contents; nothing where it was taken away. In a slot that is not among them it is not
    /// decided: what zones have of it stays.
    pub slots: BTreeMap<Slot, Option<Item>>,
    /// Where it was taken away and somebody agreed to that: budgets of zones do not hold it there.
    pub agreed: BTreeSet<Slot>,
    /// What zones should do with it that the policy is not for.
    pub withdrawal: Withdrawal,
}

/// Where a zone stands with a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    At(Slot),
    /// It is not decided yet: what the zone has stays as it is.
    Frozen,
}

/// Where all zones stand that a policy is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    zones: BTreeMap<ZoneName, Place>,
    /// Where any of them is.
    spots: BTreeSet<Spot>,
}

/// What is known of a policy.
#[derive(Debug, Default)]
pub(super) struct Policy {
    /// Nothing when it has not decided yet: then everything of it is frozen, everywhere.
    pub(super) placement: Option<Arc<Placement>>,
    /// All that it governs.
    pub(super) objects: BTreeMap<(SyncKind, ObjectName), Arc<Outline>>,
}

/// A governed object without its content, which nobody needs to know what changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outline {
    slots: BTreeMap<Slot, Option<Version>>,
    agreed: BTreeSet<Slot>,
    withdrawal: Withdrawal,
}

/// Where any zone stands with a policy, whether it is for it or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spot {
    At(Slot),
    Frozen,
    Out,
}

/// How a policy moved zones.
#[derive(Debug)]
pub(super) struct Moves {
    zones: BTreeMap<ZoneName, Move>,
    /// All other zones.
    others: Move,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Move {
    pub(super) from: Spot,
    pub(super) to: Spot,
}

/// How many objects of a kind a policy governs, and how many are there or gone in each slot.
#[derive(Debug, Default)]
pub(super) struct Tally {
    all: u64,
    slots: BTreeMap<Slot, Share>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    wanted: u64,
    gone: u64,
}

// === impl PolicyId ===

impl PolicyId {
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Placement ===

impl Placement {
    /// Where a zone stands; nothing when the policy is not for it.
    pub fn get(&self, zone: &ZoneName) -> Option<Place> {
        self.zones.get(zone).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ZoneName, Place)> {
        self.zones.iter().map(|(zone, place)| (zone, *place))
    }

    /// The zones that stand where it is asked for.
    pub(super) fn standing(&self, there: impl Fn(Spot) -> bool) -> BTreeSet<ZoneName> {
        let spots: BTreeSet<Spot> = self
            .spots
            .iter()
            .copied()
            .filter(|one| there(*one))
            .collect();
        if spots.is_empty() {
            return BTreeSet::new();
        }
        let zones = self.zones.iter();
        let zones = zones.filter(|(_, place)| spots.contains(&Spot::from(**place)));
        zones.map(|(zone, _)| zone.clone()).collect()
    }
}

impl FromIterator<(ZoneName, Place)> for Placement {
    fn from_iter<T: IntoIterator<Item = (ZoneName, Place)>>(zones: T) -> Self {
        let zones: BTreeMap<ZoneName, Place> = zones.into_iter().collect();
        let spots = zones.values().map(|place| Spot::from(*place)).collect();
        Self { zones, spots }
    }
}

// === impl Policy ===

impl Policy {
    pub(super) fn spot(&self, zone: Option<&ZoneName>) -> Spot {
        Spot::of(self.placement.as_deref(), zone)
    }
}

// === impl Spot ===

impl Spot {
    /// Where a zone stands. What was not decided is frozen.
    pub(super) fn of(placement: Option<&Placement>, zone: Option<&ZoneName>) -> Self {
        let Some(placement) = placement else {
            return Self::Frozen;
        };
        let place = zone.and_then(|zone| placement.get(zone));
        place.map_or(Self::Out, Self::from)
    }
}

impl From<Place> for Spot {
    fn from(place: Place) -> Self {
        match place {
            Place::At(slot) => Self::At(slot),
            Place::Frozen => Self::Frozen,
        }
    }
}

// === impl Outline ===

impl Outline {
    pub(super) fn of(governed: &Governed) -> Self {
        let slots = governed.slots.iter();
        Self {
            slots: slots
                .map(|(slot, item)| (*slot, item.as_ref().map(|item| item.version)))
                .collect(),
            agreed: governed.agreed.clone(),
            withdrawal: governed.withdrawal,
        }
    }

    /// What a zone should have that stands there.
    pub(super) fn should(&self, spot: Spot) -> Should {
        match spot {
            Spot::At(slot) => match self.slots.get(&slot) {
                Some(Some(version)) => Should::Have(*version),
                Some(None) => Should::Remove {
                    agreed: self.agreed.contains(&slot),
                },
                None => Should::Wait,
            },
            Spot::Frozen => Should::Wait,
            Spot::Out => Should::Leave(self.withdrawal),
        }
    }
}

// === impl Moves ===

impl Moves {
    pub(super) fn between(before: Option<&Placement>, after: Option<&Placement>) -> Self {
        let to = |zone: Option<&ZoneName>| Move {
            from: Spot::of(before, zone),
            to: Spot::of(after, zone),
        };
        let others = to(None);
        let known = before.into_iter().chain(after);
        let known = known.flat_map(|placement| placement.zones.keys());
        let moved = known.map(|zone| (zone, to(Some(zone))));
        // Those that stay are named only where all others do not.
        let moved = moved.filter(|(_, one)| one.is_real() || others.is_real());
        let zones = moved.map(|(zone, one)| (zone.clone(), one)).collect();
        Self { zones, others }
    }

    pub(super) fn of(&self, zone: Option<&ZoneName>) -> Move {
        let named = zone.and_then(|zone| self.zones.get(zone));
        named.copied().unwrap_or(self.others)
    }

    /// Each way that any zone was moved, once.
    pub(super) fn ways(&self) -> BTreeSet<Move> {
        let all = self.zones.values().chain([&self.others]);
        all.filter(|one| one.is_real()).copied().collect()
    }

    /// Only the zones that were moved in one of these ways; nothing when that may be any.
    pub(super) fn zones(&self, ways: &BTreeSet<Move>) -> Option<BTreeSet<ZoneName>> {
        let moved = self.zones.iter().filter(|(_, one)| ways.contains(one));
        let moved = moved.map(|(zone, _)| zone.clone());
        (!ways.contains(&self.others)).then(|| moved.collect())
    }
}

// === impl Move ===

impl Move {
    fn is_real(&self) -> bool {
        self.from != self.to
    }

    /// Whether it changes what a zone should have of an object.
    pub(super) fn changes(&self, object: &Outline) -> bool {
        object.should(self.from) != object.should(self.to)
    }
}

// === impl Tally ===

impl Tally {
    pub(super) fn add(&mut self, governed: &Governed) {
        self.all += 1;
        for (slot, item) in &governed.slots {
            *self.slots.entry(*slot).or_default().of(item) += 1;
        }
    }

    pub(super) fn remove(&mut self, governed: &Governed) {
        self.all = self.all.saturating_sub(1);
        for (slot, item) in &governed.slots {
            let count = self.slots.entry(*slot).or_default().of(item);
            *count = count.saturating_sub(1);
        }
        self.slots.retain(|_, share| *share != Share::default());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all == 0
    }

    /// How many a zone should have that stands there.
    pub(super) fn wanted(&self, spot: Spot) -> u64 {
        self.share(spot).wanted
    }

    /// How many are deleted for a zone that stands there.
    pub(super) fn gone(&self, spot: Spot) -> u64 {
        self.share(spot).gone
    }

    fn share(&self, spot: Spot) -> Share {
        match spot {
            Spot::At(slot) => self.slots.get(&slot).copied().unwrap_or_default(),
            Spot::Frozen | Spot::Out => Share::default(),
        }
    }
}

// === impl Share ===

impl Share {
    /// Where an object is counted.
    fn of(&mut self, item: &Option<Item>) -> &mut u64 {
        match item {
            Some(_) => &mut self.wanted,
            None => &mut self.gone,
        }
    }
}
