//! The places of exchanges, shared among users so that a newcomer always finds one. Pure.
//!
//! A free place goes to whoever asks first. When none is free, the user with the most exchanges
//! gives up its oldest one to a user who has at least two fewer. So users who compete have equally
//! many, and a user who has none is refused only if every place is that of another user.
//!
//! An exchange that was given up keeps its place until the zone has ended it. Until then the one
//! that was admitted in its stead waits: never more wait than places become free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Places of one kind, and the exchanges that have them or wait for them.
#[derive(Debug)]
pub(super) struct ExchangePlaces {
    free: usize,
    /// The exchanges of each user, oldest first, without those that were given up.
    active: BTreeMap<Arc<str>, BTreeSet<u64>>,
    /// Given up, and not ended by the zone yet.
    ending: BTreeSet<u64>,
    /// Admitted, and without a place yet, oldest first.
    waiting: BTreeSet<u64>,
}

/// How an exchange was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// It has a place.
    Placed,
    /// It gets the next place of an exchange that is being ended.
    Waiting,
    /// It gets the place of this exchange, which is to be given up.
    InsteadOf(u64),
}

// === impl ExchangePlaces ===

impl ExchangePlaces {
    pub(super) fn new(total: usize) -> Self {
        Self {
            free: total,
            active: BTreeMap::new(),
            ending: BTreeSet::new(),
            waiting: BTreeSet::new(),
        }
    }

    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// How many exchanges were admitted and have no place yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Admits an exchange of a user; none if that is beyond the user's share.
    pub(super) fn admit(&mut self, user: &Arc<str>, number: u64) -> Option<Admitted> {
        let admitted = if self.free > 0 {
            Admitted::Placed
        } else if self.waiting.len() < self.ending.len() {
            Admitted::Waiting
        } else {
            Admitted::InsteadOf(self.surplus(user)?)
        };
        if admitted == Admitted::Placed {
            self.free -= 1;
        } else {
            self.waiting.insert(number);
        }
        let active = self.active.entry(Arc::clone(user)).or_default();
        active.insert(number);
        Some(admitted)
    }

    /// Gives up an exchange that the zone has yet to end.
    pub(super) fn give_up(&mut self, user: &str, number: u64) {
        self.deactivate(user, number);
        self.ending.insert(number);
    }

    /// Frees the place of an exchange that is over; returns the exchange that has it now.
    pub(super) fn release(&mut self, user: &str, number: u64) -> Option<u64> {
        self.deactivate(user, number);
        self.ending.remove(&number);
        if self.waiting.remove(&number) {
            return None;
        }
        let next = self.waiting.pop_first();
        if next.is_none() {
            self.free += 1;
        }
        next
    }

    /// The oldest exchange of the user with the most, if `user` has at least two fewer.
    fn surplus(&self, user: &str) -> Option<u64> {
        let own = self.active.get(user).map_or(0, BTreeSet::len);
        let most = self.active.values().max_by_key(|active| active.len())?;
        let oldest = most.first().copied();
        oldest.filter(|_| most.len() >= own + 2)
    }

    fn deactivate(&mut self, user: &str, number: u64) {
        if let Some(active) = self.active.get_mut(user) {
            active.remove(&number);
            if active.is_empty() {
                self.active.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbered {
        places: ExchangePlaces,
        owners: BTreeMap<u64, Arc<str>>,
        last: u64,
    }

    fn places(total: usize) -> Numbered {
        Numbered {
            places: ExchangePlaces::new(total),
            owners: BTreeMap::new(),
            last: 0,
        }
    }

    impl Numbered {
        /// Asks for an exchange; one that is given up for it is ended by the zone at once.
        fn open(&mut self, user: &str) -> Option<Admitted> {
            self.last += 1;
            let user: Arc<str> = user.into();
            let admitted = self.places.admit(&user, self.last)?;
            self.owners.insert(self.last, user);
            if let Admitted::InsteadOf(number) = admitted {
                let owner = self.owners.remove(&number).unwrap();
                self.places.give_up(&owner, number);
                assert_eq!(self.places.release(&owner, number), Some(self.last));
            }
            Some(admitted)
        }

        /// Opens as many as a user gets.
        fn fill(&mut self, user: &str) {
            while self.open(user).is_some() {}
        }

        fn held(&self, user: &str) -> usize {
            self.owners.values().filter(|one| &***one == user).count()
        }
    }

    #[test]
    fn users_who_compete_have_equally_many() {
        let mut places = places(12);
        for (user, expected) in [("a", [12, 0, 0]), ("b", [6, 6, 0]), ("c", [4, 4, 4])] {
            places.fill(user);
            assert_eq!(["a", "b", "c"].map(|user| places.held(user)), expected);
        }
        assert_eq!(places.open("a"), None, "nobody has two more");
    }

    #[test]
    fn a_newcomer_is_refused_only_if_every_place_is_another_users() {
        let mut places = places(20);
        for number in 0..20 {
            let user = format!("user-{number}");
            assert!(places.open(&user).is_some(), "{user}");
            places.fill(&user);
        }
        assert_eq!(places.open("one-too-many"), None);
    }

    #[test]
    fn the_oldest_exchange_of_the_user_with_the_most_is_given_up() {
        let mut places = places(4);
        places.open("b");
        places.fill("a");
        assert_eq!(places.open("c"), Some(Admitted::InsteadOf(2)));
        assert_eq!(places.open("c"), None, "a has one more than c");
        assert_eq!(places.open("b"), None);
    }

    #[test]
    fn never_more_wait_than_places_become_free() {
        let user: Arc<str> = "a".into();
        let mut places = ExchangePlaces::new(2);
        assert_eq!(places.admit(&user, 1), Some(Admitted::Placed));
        assert_eq!(places.admit(&user, 2), Some(Admitted::Placed));
        assert_eq!(places.admit(&user, 3), None);
        places.give_up("a", 1);
        assert_eq!(places.admit(&user, 3), Some(Admitted::Waiting));
        assert_eq!(places.admit(&user, 4), None);
        // One that waits has no place to pass on.
        assert_eq!(places.release("a", 3), None);
        assert_eq!(places.admit(&user, 5), Some(Admitted::Waiting));
        assert_eq!(places.release("a", 1), Some(5));
        assert_eq!(places.release("a", 2), None);
        assert_eq!((places.free(), places.waiting()), (1, 0));
    }
}
