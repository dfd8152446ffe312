//! Objects that a receiver does not have as it should, those apart that nothing can be done about
//! before something else happens: they are not looked at again until then, however many they are.

use std::collections::BTreeMap;

use super::Held;
use crate::names::ObjectName;
use crate::version::Version;
use crate::wire::Revision;

/// An object that the receiver does not have as it should.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// What it acknowledged.
    pub(super) held: Option<Version>,
    /// The first change that it does not have.
    pub(super) since: Revision,
    /// Since when it is to be removed, if it is.
    pub(super) asked: Revision,
    /// How often it was rejected.
    pub(super) attempts: u32,
    /// Whether the receiver keeps one of its own in its place: then nothing waits for it.
    pub(super) own: bool,
    /// It is to be removed because the store knows nothing of it, which is another one than the
    /// receiver followed: nobody may have deleted it.
    pub(super) doubted: bool,
}

/// Invariant: an object is in one of both, `weight` is that of those that are parked, and
/// `weightless` how many of them have none.
#[derive(Debug, Default)]
pub(super) struct Queue {
    fresh: BTreeMap<ObjectName, Open>,
    parked: BTreeMap<ObjectName, Parked>,
    weight: u64,
    weightless: usize,
}

/// An object that waits.
#[derive(Debug)]
struct Parked {
    open: Open,
    /// How much of the budget it takes, as it was when it was looked at.
    weight: u64,
}

// === impl Queue ===

impl Queue {
    /// It is looked at next.
    pub(super) fn insert(&mut self, name: ObjectName, open: Open) {
        self.remove(&name);
        self.fresh.insert(name, open);
    }

    pub(super) fn remove(&mut self, name: &ObjectName) -> Option<Open> {
        match self.parked.remove(name) {
            Some(parked) => {
                self.weight -= parked.weight;
                self.weightless -= usize::from(parked.weight == 0);
                Some(parked.open)
            }
            None => self.fresh.remove(name),
        }
    }

    /// It was looked at, and has to wait.
    pub(super) fn park(&mut self, name: ObjectName, weight: u64) {
        if let Some(open) = self.remove(&name) {
            self.parked.insert(name, Parked { open, weight });
            self.weight += weight;
            self.weightless += usize::from(weight == 0);
        }
    }

    /// What it waited for may have happened.
    pub(super) fn wake(&mut self, name: &ObjectName) {
        if let Some(open) = self.remove(name) {
            self.fresh.insert(name.clone(), open);
        }
    }

    pub(super) fn wake_all(&mut self) {
        let parked = std::mem::take(&mut self.parked).into_iter();
        self.fresh
            .extend(parked.map(|(name, parked)| (name, parked.open)));
        (self.weight, self.weightless) = (0, 0);
    }

    /// Those that are to be looked at.
    pub(super) fn fresh(&self) -> impl Iterator<Item = (&ObjectName, &Open)> {
        self.fresh.iter()
    }

    /// How many wait.
    pub(super) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// How many wait that take nothing of the budget.
    pub(super) fn weightless(&self) -> usize {
        self.weightless
    }

    /// Returns why those are held that take nothing of the budget: they are in doubt.
    pub(super) fn doubts(&self) -> Option<Held> {
        let count = self.weightless;
        (count > 0).then_some(Held::OtherStore { count })
    }

    /// How much of the budget those take that wait.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) fn get(&self, name: &ObjectName) -> Option<&Open> {
        let parked = || self.parked.get(name).map(|parked| &parked.open);
        self.fresh.get(name).or_else(parked)
    }

    pub(super) fn get_mut(&mut self, name: &ObjectName) -> Option<&mut Open> {
        let parked = self.parked.get_mut(name).map(|parked| &mut parked.open);
        parked.or_else(|| self.fresh.get_mut(name))
    }

    pub(super) fn contains(&self, name: &ObjectName) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectName, &Open)> {
        let parked = self.parked.iter();
        let parked = parked.map(|(name, parked)| (name, &parked.open));
        self.fresh.iter().chain(parked)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Open> {
        let parked = self.parked.values().map(|parked| &parked.open);
        self.fresh.values().chain(parked)
    }

    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.parked.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// === impl Open ===

impl Open {
    pub(super) fn new(held: Option<Version>, since: Revision) -> Self {
        Self {
            held,
            since,
            asked: since,
            attempts: 0,
            own: false,
            doubted: false,
        }
    }

    /// What the receiver has is not known any more. Something may be left of it, which has to go
    /// when the object does; and what it had been told long before is not there either.
    pub(super) fn lose(&mut self) {
        self.held = Some(Version::altered());
        self.since = 0;
        self.own = false;
    }

    /// It is decided again what the receiver should have, since this revision. Of before it lacks
    /// nothing.
    pub(super) fn thawed(self, since: Revision) -> Self {
        Self {
            own: self.own,
            doubted: self.doubted,
            ..Self::new(self.held, since)
        }
    }

    pub(super) fn asked(self, asked: Revision) -> Self {
        Self { asked, ..self }
    }
}
