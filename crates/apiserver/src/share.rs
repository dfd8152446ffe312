//! A bounded resource, shared among users so that a newcomer always finds some of it. Pure.
//!
//! A user may hold as much as nobody holds. So one user has at most a half, two that compete have
//! a third each, and `n` of them leave an `n + 1`th to everybody else. A fixed share per user
//! would not do: with halves, two users hold everything.

use std::collections::BTreeMap;
use std::sync::Arc;

/// How much of a resource is free, and how much of it each user holds.
#[derive(Debug)]
pub struct FairShare {
    free: usize,
    held: BTreeMap<Arc<str>, usize>,
}

// === impl FairShare ===

impl FairShare {
    /// So much of the resource, all of it free.
    pub fn new(total: usize) -> Self {
        Self {
            free: total,
            held: BTreeMap::new(),
        }
    }

    /// Takes `amount` for a user; returns false, and takes nothing, if that is beyond its share.
    pub fn take(&mut self, user: &Arc<str>, amount: usize) -> bool {
        let held = self.held.get(user).copied().unwrap_or(0);
        let Some(left) = self.free.checked_sub(amount) else {
            return false;
        };
        let fits = held + amount <= left;
        if fits {
            self.free = left;
            *self.held.entry(Arc::clone(user)).or_default() += amount;
        }
        fits
    }

    /// Frees `amount` of what a user holds.
    pub fn give_back(&mut self, user: &str, amount: usize) {
        let Some(held) = self.held.get_mut(user) else {
            return;
        };
        let amount = amount.min(*held);
        *held -= amount;
        if *held == 0 {
            self.held.remove(user);
        }
        self.free += amount;
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
    fn something_is_left_however_many_users_take_all_they_can() {
        let cases: [(&[&str], &[usize]); 3] = [
            (&["a"], &[120]),
            (&["a", "b"], &[80, 80]),
            (&["a", "b", "c"], &[60, 60, 60]),
        ];
        for (users, expected) in cases {
            let mut share = FairShare::new(240);
            assert_eq!(fill(&mut share, users), expected);
            assert!(share.take(&Arc::from("newcomer"), 20), "{users:?}");
        }
        // One after the other, each takes half of what is left.
        let mut share = FairShare::new(240);
        let taken: Vec<usize> = ["a", "b", "c"]
            .iter()
            .flat_map(|user| fill(&mut share, &[user]))
            .collect();
        assert_eq!(taken, [120, 60, 30]);
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let mut share = FairShare::new(10);
        let user: Arc<str> = Arc::from("a");
        assert!(share.take(&user, 5));
        assert!(!share.take(&user, 1));
        assert!(!share.take(&Arc::from("b"), usize::MAX));
        share.give_back("a", 3);
        share.give_back("b", 3);
        assert!(share.take(&user, 3));
        share.give_back("a", 100);
        assert!(share.take(&Arc::from("b"), 5));
        assert!(!share.take(&Arc::from("b"), 1));
    }
}
