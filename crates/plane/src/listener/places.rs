//! How many connections there may be: of all clients, and of one.
//!
//! Invariants: beyond the limit of all, nothing is accepted, so that what waits costs the kernel
//! and not us; beyond its own limit, a client is turned away, so that it cannot take the places of
//! others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Limits;

/// All places.
pub(super) struct Places {
    limits: Limits,
    free: Arc<Semaphore>,
    taken: Arc<Taken>,
}

/// A place that nobody has yet.
pub(super) struct Free {
    _permit: OwnedSemaphorePermit,
}

/// The place of one connection, given back when it is dropped.
pub(super) struct Place {
    origin: Origin,
    taken: Arc<Taken>,
    _free: Free,
}

/// Something that may happen often, and is told once.
#[derive(Default)]
pub(super) struct Episode {
    last: Option<Instant>,
}

#[derive(Default)]
struct Taken(Mutex<HashMap<Origin, usize>>);

/// Whom connections are counted for: an IPv4 address, or a network of IPv6, which one client has
/// as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Origin(IpAddr);

/// An episode is over when nothing happened for this long.
const QUIET: Duration = Duration::from_secs(60);

// === impl Places ===

impl Places {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            free: Arc::new(Semaphore::new(limits.connections)),
            taken: Arc::default(),
            limits,
        }
    }

    /// A place, if there is one.
    pub(super) fn try_free(&self) -> Option<Free> {
        let permit = self.free.clone().try_acquire_owned().ok();
        permit.map(|_permit| Free { _permit })
    }

    /// Waits for a place. Cancel safe.
    pub(super) async fn free(&self) -> Free {
        let permit = self.free.clone().acquire_owned().await;
        Free {
            _permit: permit.expect("the semaphore is never closed"),
        }
    }

    /// Gives a place to a client, unless it has enough already.
    pub(super) fn give(&self, free: Free, client: IpAddr) -> Option<Place> {
        let origin = Origin::of(client);
        let limit = self.limits.of_one(origin.0);
        let mut taken = self.taken.lock();
        let count = taken.entry(origin).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(Place {
            origin,
            taken: self.taken.clone(),
            _free: free,
        })
    }
}

// === impl Limits ===

impl Limits {
    /// How many connections one client may have. From this machine it is more, since proxies and
    /// test suites are many clients in one; a fifth stays for others, however few there are.
    fn of_one(&self, client: IpAddr) -> usize {
        let most = match client.is_loopback() {
            true => self
                .per_loopback
                .min(self.connections.saturating_mul(4) / 5),
            false => self.per_client.min(self.connections / 2),
        };
        most.max(1)
    }
}

// === impl Taken ===

impl Taken {
    fn lock(&self) -> MutexGuard<'_, HashMap<Origin, usize>> {
        // Nothing that could panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Some(count) = taken.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.origin);
            }
        }
    }
}

// === impl Origin ===

impl Origin {
    fn of(client: IpAddr) -> Self {
        Self(match client.to_canonical() {
            IpAddr::V6(ip) if !ip.is_loopback() => {
                let network = u128::from(ip) >> 64 << 64;
                Ipv6Addr::from(network).into()
            }
            ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
        })
    }
}

// === impl Episode ===

impl Episode {
    /// It happened; whether that is news.
    pub(super) fn happened(&mut self, now: Instant) -> bool {
        let last = self.last.replace(now);
        last.is_none_or(|last| now.duration_since(last) >= QUIET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(connections: usize, per_client: usize, per_loopback: usize) -> Limits {
        Limits {
            connections,
            per_client,
            per_loopback,
            ..Limits::default()
        }
    }

    /// Which of these clients get a place, while all who got one keep it.
    fn check(limits: Limits, clients: &[&str], expected: &[bool]) {
        let places = Places::new(limits);
        let mut kept = Vec::new();
        let mut given = Vec::new();
        for client in clients {
            let client = client.parse().expect("an address");
            let place = places.try_free().and_then(|free| places.give(free, client));
            given.push(place.is_some());
            kept.extend(place);
        }
        assert_eq!(given, expected, "{clients:?}");
        drop(kept);
        assert!(places.taken.lock().is_empty());
        assert_eq!(places.free.available_permits(), places.limits.connections);
    }

    #[test]
    fn one_client_cannot_take_the_places_of_others() {
        let (a, b) = ("10.0.0.1", "10.0.0.2");
        check(
            limits(8, 2, 8),
            &[a, a, a, b, a, b, b],
            &[true, true, false, true, false, true, false],
        );
        // However few there are in all, half are for others.
        check(
            limits(4, 100, 100),
            &[a, a, a, b],
            &[true, true, false, true],
        );
        check(limits(1, 1, 1), &[a, b], &[true, false]);
    }

    #[test]
    fn this_machine_may_have_more() {
        check(
            limits(6, 1, 4),
            &["127.0.0.1"; 5],
            &[true, true, true, true, false],
        );
        check(limits(9, 1, 2), &["::1"; 3], &[true, true, false]);
    }

    #[test]
    fn this_machine_may_not_have_all() {
        let (here, there) = ("127.0.0.1", "10.0.0.1");
        check(
            limits(5, 5, 100),
            &[here, here, here, here, here, there],
            &[true, true, true, true, false, true],
        );
        check(limits(1, 1, 1), &[here, here], &[true, false]);
    }

    #[test]
    fn a_network_is_one_client() {
        check(
            limits(8, 1, 1),
            &["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"],
            &[true, false, true],
        );
        check(
            limits(8, 1, 1),
            &["10.0.0.1", "::ffff:10.0.0.1"],
            &[true, false],
        );
    }

    #[test]
    fn episodes_are_told_once() {
        let start = Instant::now();
        let mut episode = Episode::default();
        let seconds = [0, 1, 59, 118, 178, 179];
        let told = seconds.map(|second| episode.happened(start + Duration::from_secs(second)));
        assert_eq!(told, [true, false, false, false, true, false]);
    }
}
