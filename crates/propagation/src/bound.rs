//! Who is in flight, followed from what happens and not from how items stand: what decides is
//! checked against it.

use std::collections::BTreeSet;

/// Those that were admitted and have not been ready since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight(BTreeSet<String>);

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
    /// nothing.
    pub fn admit(&mut self, key: &str, bound: usize) -> Result<(), Exceeded> {
        if self.0.insert(key.to_owned()) && self.0.len() > bound {
            return Err(Exceeded {
                in_flight: self.0.iter().cloned().collect(),
                bound,
            });
        }
        Ok(())
    }

    /// Someone is ready at what it was admitted to, or is no more.
    pub fn land(&mut self, key: &str) {
        self.0.remove(key);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
}
