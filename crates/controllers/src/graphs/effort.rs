//! Work that takes microseconds for most graphs, and long for some.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use deltaplane_runtime::{Clock, heavy};

/// Whether some work takes long. Once it did, others go on while it is done again. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Effort(Arc<AtomicBool>);

/// What takes longer keeps others waiting.
const LONG: Duration = Duration::from_millis(5);

// === impl Effort ===

impl Effort {
    /// Does it. Also when it should be done again at the earliest: what takes long has a rest that is
    /// as long, so that it never takes more than half of the time.
    pub(super) fn make<T>(
        &self,
        clock: &Clock,
        work: impl FnOnce() -> T,
    ) -> (T, Option<SystemTime>) {
        let begun = clock.now();
        let done = match self.0.load(Ordering::Relaxed) {
            true => heavy(work),
            false => work(),
        };
        let now = clock.now();
        let took = now.duration_since(begun).unwrap_or_default();
        if took <= LONG {
            return (done, None);
        }
        self.0.store(true, Ordering::Relaxed);
        (done, Some(now + took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_once_is_taken_for_slow_and_rests() {
        let (clock, hand) = Clock::manual(SystemTime::UNIX_EPOCH);
        let effort = Effort::default();
        let slow = || effort.0.load(Ordering::Relaxed);
        assert_eq!(effort.make(&clock, || 7), (7, None));
        assert!(!slow());
        let ((), rest) = effort.make(&clock, || hand.advance(LONG * 2));
        assert_eq!(rest, Some(SystemTime::UNIX_EPOCH + LONG * 4));
        assert!(slow());
        // It goes on at once after what took no time.
        assert_eq!(effort.make(&clock, || 7), (7, None));
        assert!(slow());
    }
}
