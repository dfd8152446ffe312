//! Which positions are those of a store.

use deltaplane_sync::{Epoch, Lineage, Position, Revision};

/// When a store was opened, under which epoch, and at which revision: oldest first, the current
/// one last. Invariant: there is one, and revisions do not fall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Openings {
    earlier: Vec<(Epoch, Revision)>,
    current: Epoch,
}

// === impl Openings ===

impl Openings {
    /// A store that has one epoch for its life.
    pub fn only(current: Epoch) -> Self {
        Self::new(Vec::new(), current)
    }

    /// `earlier` holds the revisions at which each ended, oldest first.
    pub fn new(earlier: Vec<(Epoch, Revision)>, current: Epoch) -> Self {
        Self { earlier, current }
    }

    pub fn current(&self) -> &Epoch {
        &self.current
    }

    /// What the store, which is at `at`, knows of a position.
    pub fn lineage(&self, followed: &Position, at: Revision) -> Lineage {
        // It may be any position, those of a lost future included.
        if followed.epoch.is_unproven() {
            return Lineage::Forked;
        }
        let earlier = self.earlier.iter();
        let ended = earlier
            .filter(|(epoch, _)| *epoch == followed.epoch)
            .map(|(_, end)| *end);
        let current = (followed.epoch == self.current).then_some(at);
        match ended.chain(current).max() {
            Some(end) if followed.revision <= end => Lineage::Known,
            Some(_) => Lineage::Forked,
            // The opening is lost: the store was restored to a state of before it.
            None if followed.epoch.store() == self.current.store() => Lineage::Forked,
            None => Lineage::Foreign,
        }
    }

    /// The newest revision that the store, which is at `at`, can have in common with a future of it
    /// that was lost: nobody who followed that future was sent what the store made later.
    pub fn common_with(&self, lost: &Position, at: Revision) -> Revision {
        let earlier = self.earlier.iter();
        let ended = earlier
            .filter(|(epoch, _)| *epoch == lost.epoch)
            .map(|(_, end)| *end);
        let current = (lost.epoch == self.current).then_some(at);
        if let Some(end) = ended.chain(current).max() {
            return end;
        }
        let last = self.earlier.last().map_or(0, |(_, end)| *end);
        if lost.epoch.is_unproven() {
            return last;
        }
        // That the lost opening began was a write of it.
        last.min(lost.revision.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_knows_what_it_was() {
        let epoch = |name: &str| Epoch::opening("store", name);
        let openings = Openings::new(vec![(epoch("a"), 10), (epoch("b"), 20)], epoch("c"));
        for (followed, lineage) in [
            ("store.a@10", Lineage::Known),
            ("store.a@11", Lineage::Forked),
            ("store.b@20", Lineage::Known),
            ("store.c@25", Lineage::Known),
            ("store.c@26", Lineage::Forked),
            // Opened after the backup that the store was restored from.
            ("store.d@1", Lineage::Forked),
            ("other.a@1", Lineage::Foreign),
            ("d@1", Lineage::Foreign),
            ("unproven.a@0", Lineage::Forked),
        ] {
            let position = followed.parse().expect("legal");
            assert_eq!(openings.lineage(&position, 25), lineage, "{followed}");
        }
    }

    #[test]
    fn a_store_knows_what_it_has_in_common_with_a_lost_future() {
        let epoch = |name: &str| Epoch::opening("store", name);
        let openings = Openings::new(vec![(epoch("a"), 10), (epoch("b"), 20)], epoch("c"));
        let unproven = Position {
            epoch: Epoch::unproven("1"),
            revision: 12,
        };
        let positions = [
            // The copy was made in the middle of the opening.
            ("store.a@15", 10),
            ("store.b@25", 20),
            // The opening began after the copy was made, and that is no later than it ended.
            ("store.d@30", 20),
            ("store.d@15", 14),
        ];
        let positions = positions.map(|(lost, common)| (lost.parse().expect("legal"), common));
        for (lost, common) in positions.into_iter().chain([(unproven, 20)]) {
            assert_eq!(openings.common_with(&lost, 40), common, "{lost}");
        }
        let first = Openings::only(epoch("a"));
        let lost = "store.d@30".parse().expect("legal");
        assert_eq!(first.common_with(&lost, 40), 0);
    }
}
