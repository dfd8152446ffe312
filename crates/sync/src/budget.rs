//! How much may be deleted before somebody is asked.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::names::SyncKind;

/// As many objects of a kind may be deleted in a zone within ten minutes: `max`, or `percent` of
/// what is there, whichever is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionBudget {
    pub max: u64,
    pub percent: u8,
}

/// A bulk deletion arrives as many single ones: those that are not older count together.
pub(crate) const WINDOW: Duration = Duration::from_secs(600);

/// More than may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// What would be deleted, with what goes with it.
    pub wanted: u64,
    /// What was deleted lately.
    pub spent: u64,
    pub allowed: u64,
}

/// What was deleted lately, by kind. It is kept from one stream to the next: who reconnects may not
/// delete as much again.
#[derive(Clone, Debug, Default)]
pub struct Ledger(BTreeMap<SyncKind, Spending>);

#[derive(Clone, Debug, Default)]
struct Spending {
    recent: VecDeque<(Duration, u64)>,
}

// === impl DeletionBudget ===

impl Default for DeletionBudget {
    fn default() -> Self {
        Self {
            max: 20,
            percent: 5,
        }
    }
}

impl DeletionBudget {
    /// How many of so many may go.
    pub fn allowed(self, held: u64) -> u64 {
        let share = held.saturating_mul(u64::from(self.percent)) / 100;
        self.max.max(share)
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} would be deleted ({} lately), and {} may be without approval",
            objects(self.wanted),
            self.spent,
            self.allowed
        )
    }
}

fn objects(count: u64) -> String {
    match count {
        1 => "1 object".to_owned(),
        _ => format!("{count} objects"),
    }
}

// === impl Ledger ===

impl Ledger {
    /// Whether `wanted` more of a kind may go now, of `held` that are there.
    pub(crate) fn check(
        &self,
        kind: &SyncKind,
        budget: DeletionBudget,
        (wanted, held): (u64, u64),
        now: Duration,
    ) -> Result<(), Excess> {
        let spending = self.0.get(kind);
        let spent = spending.map_or(0, |spending| spending.since(now));
        let allowed = budget.allowed(held + spent);
        if wanted + spent > allowed {
            return Err(Excess {
                wanted,
                spent,
                allowed,
            });
        }
        Ok(())
    }

    pub(crate) fn spend(&mut self, kind: &SyncKind, count: u64, now: Duration) {
        if count == 0 {
            return;
        }
        let recent = &mut self.0.entry(kind.clone()).or_default().recent;
        while recent.front().is_some_and(|(at, _)| *at + WINDOW <= now) {
            recent.pop_front();
        }
        recent.push_back((now, count));
    }

    /// Of what was spent last, so much was not deleted after all.
    pub(crate) fn refund(&mut self, kind: &SyncKind, mut count: u64) {
        let spending = self.0.get_mut(kind).into_iter();
        for (_, spent) in spending.flat_map(|spending| spending.recent.iter_mut().rev()) {
            let back = count.min(*spent);
            *spent -= back;
            count -= back;
        }
    }

    /// When something of a kind is forgotten next.
    pub(crate) fn eases_at(&self, kind: &SyncKind, now: Duration) -> Option<Duration> {
        let recent = self.0.get(kind)?.recent.iter();
        recent.map(|(at, _)| *at + WINDOW).find(|at| *at > now)
    }
}

// === impl Spending ===

impl Spending {
    fn since(&self, now: Duration) -> u64 {
        let recent = self.recent.iter().filter(|(at, _)| *at + WINDOW > now);
        recent.map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_deletions_count_together() {
        let budget = DeletionBudget { max: 3, percent: 5 };
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        let mut ledger = Ledger::default();
        let second = Duration::from_secs(1);
        for at in 0..3 {
            assert_eq!(ledger.check(&kind, budget, (1, 10), second * at), Ok(()));
            ledger.spend(&kind, 1, second * at);
        }
        let excess = ledger.check(&kind, budget, (1, 10), second * 3);
        let expected = Excess {
            wanted: 1,
            spent: 3,
            allowed: 3,
        };
        assert_eq!(excess, Err(expected));
        assert_eq!(ledger.eases_at(&kind, second), Some(WINDOW));
        assert_eq!(ledger.check(&kind, budget, (1, 10), WINDOW), Ok(()));
        let two = ledger.check(&kind, budget, (2, 10), WINDOW);
        assert_eq!(two.map_err(|excess| excess.spent), Err(2));
        let other = SyncKind::new("", "Secret").expect("legal");
        assert_eq!(ledger.check(&other, budget, (3, 10), second * 3), Ok(()));
    }

    #[test]
    fn what_stayed_does_not_count() {
        let budget = DeletionBudget { max: 3, percent: 0 };
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        let mut ledger = Ledger::default();
        ledger.spend(&kind, 2, Duration::ZERO);
        ledger.spend(&kind, 1, Duration::ZERO);
        ledger.refund(&kind, 2);
        let spent = |ledger: &Ledger| {
            let excess = ledger.check(&kind, budget, (9, 10), Duration::ZERO);
            excess.map_err(|excess| excess.spent)
        };
        assert_eq!(spent(&ledger), Err(1));
        ledger.refund(&kind, 9);
        assert_eq!(spent(&ledger), Err(0));
    }

    #[test]
    fn a_share_of_many_is_more_than_a_few() {
        let budget = DeletionBudget::default();
        assert_eq!(budget.allowed(10), 20);
        assert_eq!(budget.allowed(10_000), 500);
    }
}
