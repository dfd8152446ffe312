//! Work whose cost grows with what a client sent or what is stored. Other tasks go on meanwhile, on
//! other threads.
//!
//! Invariant: so many costly requests are carried out at once that memory and cores bear it, and no
//! user has more than half of the places.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};

use deltaplane_runtime::heavy;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Work on fewer bytes takes about as little time as handing over a worker.
pub(crate) const LARGE: usize = 16 << 10;
/// Costly requests that are carried out at once. One may take about a hundred times the memory of
/// its object (3 MiB at most) while it is decoded.
const PLACES: usize = 8;
/// Those of one user.
const PLACES_OF_USER: usize = PLACES / 2;

/// Places for costly requests, for all users but administrators.
pub(crate) struct CostlyPlaces {
    all: Arc<Semaphore>,
    /// For as long as somebody has or waits for one.
    users: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// A place, until it is dropped.
pub(crate) struct CostlyPlace {
    _of_all: OwnedSemaphorePermit,
    _of_user: OwnedSemaphorePermit,
}

// === impl CostlyPlaces ===

impl CostlyPlaces {
    pub(crate) fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(PLACES)),
            users: Mutex::default(),
        }
    }

    /// Waits for a place; users wait for their own first, so that others find one.
    pub(crate) async fn take(&self, user: &str) -> Option<CostlyPlace> {
        let of_user = self.of_user(user).acquire_owned().await.ok()?;
        let of_all = self.all.clone().acquire_owned().await.ok()?;
        Some(CostlyPlace {
            _of_all: of_all,
            _of_user: of_user,
        })
    }

    fn of_user(&self, user: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock();
        if let Some(known) = users.get(user).and_then(Weak::upgrade) {
            return known;
        }
        users.retain(|_, known| known.strong_count() > 0);
        let places = Arc::new(Semaphore::new(PLACES_OF_USER));
        users.insert(user.to_owned(), Arc::downgrade(&places));
        places
    }
}

/// Does work on so many bytes.
pub(crate) fn work_on<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes < LARGE { work() } else { heavy(work) }
}

/// Runs a future each step of which may take long.
pub(crate) async fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| heavy(|| future.as_mut().poll(cx))).await
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn one_user_leaves_places_to_others() {
        let places = CostlyPlaces::new();
        let take = |user: &str| places.take(user).now_or_never().flatten();
        let greedy: Vec<CostlyPlace> = (0..20).map_while(|_| take("greedy")).collect();
        assert_eq!(greedy.len(), PLACES_OF_USER);
        let other = take("other");
        assert!(other.is_some());
        drop(greedy);
        assert!(take("greedy").is_some());
        drop(other);
        assert_eq!(places.all.available_permits(), PLACES);
    }
}
