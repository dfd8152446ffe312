//! A bounded resource, shared among users so that a newcomer always finds some of it. Pure.
//!
//! A user may hold as much as is left beside a reserve. So one user has at most a half, two that
//! compete have a third each, and `n` of them leave an `n + 1`th to everybody else; but of users who
//! come one after the other each takes half of what is left, and a dozen leave nothing. Therefore
//! an eighth of the resource is a reserve: a user who has no more than an entry (a place, a small
//! body) after it may take from the reserve, too.
//!
//! So whatever is held beyond entries is never more than seven eighths, and a user without an
//! entry finds one unless as many users as the reserve has entries hold something.

use std::collections::BTreeMap;
use std::sync::Arc;

/// How much of a resource is used, and how much of it each user holds.
#[derive(Debug)]
pub(crate) struct FairShare {
    total: usize,
    used: usize,
    held: BTreeMap<Arc<str>, usize>,
    /// So much is left to users who have no more than an entry.
    reserve: usize,
    /// The smallest useful part of the resource.
    entry: usize,
}

/// The part of a resource that is a reserve.
const RESERVED: usize = 8;

// === impl FairShare ===

impl FairShare {
    /// So much of the resource, all of it free.
    pub(crate) fn new(total: usize, entry: usize) -> Self {
        Self {
            total,
            used: 0,
            held: BTreeMap::new(),
            reserve: total / RESERVED,
            entry,
        }
    }

    /// Takes `amount` for a user; returns false, and takes nothing, if that is beyond its share.
    pub(crate) fn take(&mut self, user: &Arc<str>, amount: usize) -> bool {
        let Some(left) = self.free().checked_sub(amount) else {
            return false;
        };
        let held = self.held(user) + amount;
        let fits = held <= self.entry || held <= left.saturating_sub(self.reserve);
        if fits {
            self.charge(user, amount);
        }
        fits
    }

    /// Takes `amount` for a user, even if that is beyond its share or all that there is: the user
    /// can take no more until it has given back.
    pub(crate) fn charge(&mut self, user: &Arc<str>, amount: usize) {
        self.used += amount;
        *self.held.entry(Arc::clone(user)).or_default() += amount;
    }

    pub(crate) fn free(&self) -> usize {
        self.total.saturating_sub(self.used)
    }

    /// How much a user holds.
    pub(crate) fn held(&self, user: &str) -> usize {
        self.held.get(user).copied().unwrap_or(0)
    }

    /// Frees `amount` of what a user holds.
    pub(crate) fn give_back(&mut self, user: &str, amount: usize) {
        let Some(held) = self.held.get_mut(user) else {
            return;
        };
        let amount = amount.min(*held);
        *held -= amount;
        if *held == 0 {
            self.held.remove(user);
        }
        self.used -= amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets users take one by one, in turn, until nobody can take any more.
    fn fill(share: &mut FairShare, users: &[&str]) -> Vec<usize> {
        let users: Vec<Arc<str>> = users.iter().map(|user| Arc::from(*user)).collect();
        let mut taken = vec![0; users.len()];
        loop {
            let before = taken.clone();
            for (user, count) in users.iter().zip(&mut taken) {
                *count += usize::from(share.take(user, 1));
            }
            if taken == before {
                return taken;
            }
        }
    }

    #[test]
    fn users_who_compete_have_equally_much() {
        let cases: [(&[&str], &[usize]); 3] = [
            (&["a"], &[84]),
            (&["a", "b"], &[56, 56]),
            (&["a", "b", "c"], &[42, 42, 42]),
        ];
        for (users, expected) in cases {
            let mut share = FairShare::new(192, 1);
            assert_eq!(fill(&mut share, users), expected);
            assert!(share.take(&Arc::from("newcomer"), 20), "{users:?}");
        }
        // One after the other, each takes half of what is left.
        let mut share = FairShare::new(192, 1);
        let taken: Vec<usize> = ["a", "b", "c"]
            .iter()
            .flat_map(|user| fill(&mut share, &[user]))
            .collect();
        assert_eq!(taken, [84, 42, 21]);
    }

    /// With halves alone nine users took everything.
    #[test]
    fn users_find_an_entry_however_many_took_all_they_can_before() {
        for entry in [1, 10] {
            let mut share = FairShare::new(240, entry);
            for number in 0..240 / RESERVED / entry {
                let user = format!("user-{number}");
                let taken = fill(&mut share, &[&user]);
                assert!(taken[0] >= entry, "{user} has {taken:?}");
            }
        }
    }

    #[test]
    fn charges_beyond_the_share_are_given_back_before_more_is_taken() {
        let mut share = FairShare::new(8, 1);
        let user: Arc<str> = Arc::from("a");
        share.charge(&user, 20);
        assert_eq!((share.free(), share.held("a")), (0, 20));
        assert!(!share.take(&Arc::from("b"), 1));
        share.give_back("a", 13);
        assert!(!share.take(&user, 1), "it has all but the reserve");
        assert!(share.take(&Arc::from("b"), 1));
        share.give_back("a", 7);
        assert_eq!(share.free(), 7);
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let mut share = FairShare::new(7, 0);
        let user: Arc<str> = Arc::from("a");
        assert!(share.take(&user, 3));
        assert!(!share.take(&user, 1));
        assert!(!share.take(&Arc::from("b"), usize::MAX));
        share.give_back("a", 2);
        share.give_back("b", 3);
        assert_eq!((share.held("a"), share.held("b")), (1, 0));
        assert!(share.take(&user, 2));
        share.give_back("a", 100);
        assert!(share.take(&Arc::from("b"), 3));
        assert!(!share.take(&Arc::from("b"), 1));
    }
}
