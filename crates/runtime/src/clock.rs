//! The time, as something that is passed in.
//!
//! Deciding code takes `now` as an argument; a loop that must wait takes a [`Clock`].

use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

/// The longest single sleep of the system clock. Timers do not count the time that a machine is
/// suspended, nor follow a clock that is set; after this long they look again.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// Where the time comes from. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock(Source);

/// Moves the time of the clock that it came with.
#[derive(Clone, Debug)]
pub struct Hand {
    now: watch::Sender<Reading>,
}

/// What a manual clock shows.
#[derive(Clone, Copy, Debug)]
struct Reading {
    wall: SystemTime,
    /// Since the clock was made; never goes back.
    elapsed: Duration,
}

#[derive(Clone, Debug)]
enum Source {
    System { since: Instant },
    Manual { now: watch::Receiver<Reading> },
}

// === impl Clock ===

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Source::System {
            since: Instant::now(),
        })
    }

    /// A clock for tests: it stands at `now` until its hand is moved.
    pub fn manual(now: SystemTime) -> (Self, Hand) {
        let (sender, receiver) = watch::channel(Reading {
            wall: now,
            elapsed: Duration::ZERO,
        });
        let source = Source::Manual { now: receiver };
        (Self(source), Hand { now: sender })
    }

    /// The time.
    pub fn now(&self) -> SystemTime {
        match &self.0 {
            Source::System { .. } => SystemTime::now(),
            Source::Manual { now } => now.borrow().wall,
        }
    }

    /// How long ago this clock, or the one that it is a clone of, was made. Never goes back, even
    /// if the machine's time is set.
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Source::System { since } => since.elapsed(),
            Source::Manual { now } => now.borrow().elapsed,
        }
    }

    /// Ends at `deadline`, or at once if that has passed. Cancel safe.
    pub async fn sleep_until(&self, deadline: SystemTime) {
        match &self.0 {
            Source::System { .. } => {
                while let Ok(left) = deadline.duration_since(SystemTime::now())
                    && !left.is_zero()
                {
                    tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
                }
            }
            Source::Manual { now } => reach(now, |now| now.wall >= deadline).await,
        }
    }

    /// Ends after `duration`. Cancel safe.
    pub async fn sleep(&self, duration: Duration) {
        match &self.0 {
            Source::System { .. } => tokio::time::sleep(duration).await,
            Source::Manual { now } => match self.elapsed().checked_add(duration) {
                Some(deadline) => reach(now, |now| now.elapsed >= deadline).await,
                None => std::future::pending().await,
            },
        }
    }
}

/// Ends when a manual clock shows this. Without a hand the time never comes.
async fn reach(now: &watch::Receiver<Reading>, is_reached: impl Fn(&Reading) -> bool) {
    if now.clone().wait_for(is_reached).await.is_err() {
        std::future::pending::<()>().await;
    }
}

// === impl Hand ===

impl Hand {
    /// Moves the time forward.
    pub fn advance(&self, duration: Duration) {
        self.now.send_modify(|now| {
            now.wall += duration;
            now.elapsed += duration;
        });
    }

    /// Sets the time back, as an administrator may: what has elapsed stays.
    pub fn put_back(&self, duration: Duration) {
        self.now.send_modify(|now| now.wall -= duration);
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[tokio::test]
    async fn a_manual_clock_stands_until_it_is_moved() {
        let (clock, hand) = Clock::manual(UNIX_EPOCH);
        let second = Duration::from_secs(1);
        clock.sleep_until(UNIX_EPOCH).await;
        let woken = tokio::join!(
            async {
                clock.sleep(2 * second).await;
                clock.now()
            },
            async {
                hand.advance(second);
                tokio::task::yield_now().await;
                hand.advance(second);
            }
        );
        assert_eq!(woken.0, UNIX_EPOCH + 2 * second);
        assert_eq!(clock.elapsed(), 2 * second);
    }

    #[tokio::test(start_paused = true)]
    async fn the_system_clock_wakes() {
        let clock = Clock::system();
        clock.sleep_until(UNIX_EPOCH).await;
        clock.sleep(Duration::from_secs(100_000)).await;
        assert!(clock.now() > UNIX_EPOCH);
    }
}
