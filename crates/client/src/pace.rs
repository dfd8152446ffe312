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

/// A server that asks for more is asked sooner: it must not be able to end a feed by a wrong number.
const MOST_ASKED: Duration = Duration::from_secs(300);

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

    /// The delay after so many failures; not less than the server asked for with the last of them,
    /// if it did.
    pub fn delay(&self, failures: u32, asked: Option<Duration>) -> Duration {
        let asked = asked.unwrap_or_default().min(MOST_ASKED);
        self.backoff.delay(failures, (self.chance)()).max(asked)
    }

    /// Waits as long as that.
    pub async fn rest(&self, failures: u32, asked: Option<Duration>) {
        self.clock.sleep(self.delay(failures, asked)).await;
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
    fn what_the_server_asks_for_is_the_least() {
        let pace = Pace {
            backoff: Backoff {
                first: Duration::from_secs(1),
                longest: Duration::from_secs(30),
            },
            chance: Arc::new(|| 0.0),
            ..Pace::system()
        };
        let check = |failures, asked: Option<u64>, expected| {
            let asked = asked.map(Duration::from_secs);
            let expected = Duration::from_secs(expected);
            assert_eq!(pace.delay(failures, asked), expected);
        };
        check(1, None, 1);
        check(1, Some(0), 1);
        check(1, Some(7), 7);
        check(4, Some(7), 8);
        check(1, Some(u64::MAX), 300);
    }

    #[test]
    fn chance_is_a_fraction_and_varies() {
        let values: Vec<f64> = (0..16).map(|_| chance()).collect();
        assert!(values.iter().all(|value| (0.0..1.0).contains(value)));
        assert!(values.iter().any(|value| *value != values[0]));
    }
}
