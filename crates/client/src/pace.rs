//! How fast failing things are tried again.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use deltaplane_runtime::Clock;

/// A delay that doubles with each failure, up to a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// After many.
    pub longest: Duration,
}

/// When to try again: the clock, the delays, and chance, so that many do not come back at once.
#[derive(Clone)]
pub struct Pace {
    /// What is waited on.
    pub clock: Clock,
    /// How long.
    pub backoff: Backoff,
    /// A number from 0 up to, not including, 1; another one each time.
    pub chance: Arc<dyn Fn() -> f64 + Send + Sync>,
}

// === impl Backoff ===

impl Backoff {
    /// The delay after so many failures, the first being 1. `chance` from 0 to 1 takes away up to
    /// half of it.
    pub fn delay(&self, failures: u32, chance: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let full = self.first.saturating_mul(1 << doublings).min(self.longest);
        full.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0)
    }
}

// === impl Pace ===

impl Pace {
    /// By the machine's clock, with chance from the operating system.
    pub fn system() -> Self {
        Self {
            clock: Clock::system(),
            backoff: Backoff {
                first: Duration::from_millis(50),
                longest: Duration::from_secs(30),
            },
            chance: Arc::new(chance),
        }
    }

    /// The delay after so many failures.
    pub fn delay(&self, failures: u32) -> Duration {
        self.backoff.delay(failures, (self.chance)())
    }

    /// Waits as long as that.
    pub async fn rest(&self, failures: u32) {
        self.clock.sleep(self.delay(failures)).await;
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            clock,
            backoff,
            chance: _,
        } = self;
        f.debug_struct("Pace")
            .field("clock", clock)
            .field("backoff", backoff)
            .finish_non_exhaustive()
    }
}

/// Good enough to spread clients, not for secrets: each `RandomState` hashes differently.
fn chance() -> f64 {
    let bits = RandomState::new().hash_one(0_u8) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact in a double")]
    let numerator = bits as f64;
    numerator / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_bound() {
        let backoff = Backoff {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(1),
        };
        let check = |failures, chance, expected| {
            assert_eq!(
                backoff.delay(failures, chance),
                Duration::from_millis(expected)
            );
        };
        check(0, 0.0, 100);
        check(1, 0.0, 100);
        check(2, 0.0, 200);
        check(4, 0.0, 800);
        check(5, 0.0, 1000);
        check(u32::MAX, 0.0, 1000);
        check(2, 0.5, 150);
        check(2, 1.0, 100);
        check(2, -7.0, 200);
    }

    #[test]
    fn chance_is_a_fraction_and_varies() {
        let values: Vec<f64> = (0..16).map(|_| chance()).collect();
        assert!(values.iter().all(|value| (0.0..1.0).contains(value)));
        assert!(values.iter().any(|value| *value != values[0]));
    }
}
