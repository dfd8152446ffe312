//! Who is in flight, followed from what happens and not from how items stand: what decides is
//! checked against it.

use std::collections::BTreeSet;

/// Those that were admitted and have not been ready since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    all: BTreeSet<String>,
    /// Those of them that were admitted to the target as it is now.
    at_target: BTreeSet<String>,
}

/// More are in flight than may be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} are in flight ({}) where {bound} may be", in_flight.len(), in_flight.join(", "))]
pub struct Exceeded {
    pub in_flight: Vec<String>,
    pub bound: usize,
}

// === impl InFlight ===

impl InFlight {
    /// Someone is admitted where so many may be in flight. Whoever is in flight already adds
    /// nothing to those that are; but no more than these may be at one target.
    pub fn admit(&mut self, key: &str, bound: usize) -> Result<(), Exceeded> {
        let comes = self.all.insert(key.to_owned());
        let moves = self.at_target.insert(key.to_owned());
        let exceeding = [(comes, &self.all), (moves, &self.at_target)];
        let exceeding = exceeding
            .into_iter()
            .find(|(more, which)| *more && which.len() > bound);
        match exceeding {
            Some((_, which)) => Err(Exceeded {
                in_flight: which.iter().cloned().collect(),
                bound,
            }),
            None => Ok(()),
        }
    }

    /// The target is another from now on: nobody is at it.
    pub fn retarget(&mut self) {
        self.at_target.clear();
    }

    /// Someone is ready at what it was admitted to, or is no more.
    pub fn land(&mut self, key: &str) {
        self.all.remove(key);
        self.at_target.remove(key);
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_is_found() {
        let mut flight = InFlight::default();
        flight.admit("a", 1).unwrap();
        flight.admit("a", 1).unwrap();
        let exceeded = flight.clone().admit("b", 1).unwrap_err();
        assert_eq!(
            exceeded.to_string(),
            "2 are in flight (a, b) where 1 may be"
        );
        flight.land("a");
        flight.admit("b", 1).unwrap();
        assert_eq!(flight.len(), 1);
    }

    #[test]
    fn one_too_many_at_a_new_target_is_found() {
        let mut flight = InFlight::default();
        flight.admit("a", 2).unwrap();
        flight.admit("b", 2).unwrap();
        flight.retarget();
        flight.admit("a", 1).unwrap();
        let exceeded = flight.admit("b", 1).unwrap_err();
        assert_eq!(
            exceeded.to_string(),
            "2 are in flight (a, b) where 1 may be"
        );
        assert_eq!(flight.len(), 2);
    }
}
