//! Wakes the watchers of crowded topics, on a thread of its own, no faster than they can be
//! served well.
//!
//! Waking a task is cheap, but what it wakes competes with the waker for the
//! processor. A few are woken in place, which is the fastest for them; many
//! are left to this thread, so that the committer can go on.
//!
//! Most of the cost of an event is that of a write to each watcher's connection, and one write
//! can carry many events. So a crowd that has just been woken is left alone for a while, longer
//! the larger it is; what changes meanwhile reaches it together. The first change after a
//! pause is announced at once.
//!
//! A topic waits here at most once, so that the backlog is bounded by the
//! number of topics.

use std::{
    io,
    sync::{Arc, OnceLock, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::Topic;

/// A topic with more watchers than this is left to the thread.
const CROWD: usize = 8;
/// A few times what it takes to serve one watcher, so that no burst of changes can make a crowd
/// take all processors.
const PER_WATCHER: Duration = Duration::from_micros(150);
/// No crowd is left alone for longer.
const LONGEST_REST: Duration = Duration::from_millis(75);

#[derive(Default)]
pub(super) struct Notifier {
    shared: Arc<Shared>,
    /// Started when the first crowded topic is published; an error means that
    /// there is no thread, and everybody is woken in place.
    thread: OnceLock<io::Result<thread::JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    backlog: Mutex<Backlog>,
    wake: Condvar,
}

#[derive(Default)]
struct Backlog {
    topics: Vec<Arc<Topic>>,
    closed: bool,
}

/// What is to be done about a backlog at some time.
#[derive(Default)]
struct Plan {
    /// Those to be woken now.
    due: Vec<Arc<Topic>>,
    /// When the next one is due.
    next: Option<Instant>,
}

impl Notifier {
    /// Tells the watchers of topics that there is something new.
    pub(super) fn notify<'a>(&self, topics: impl Iterator<Item = &'a Arc<Topic>>) {
        let mut crowded = Vec::new();
        for topic in topics {
            if topic.signal.receiver_count() <= CROWD || !self.has_thread() {
                topic.announce();
            } else if !topic.queued.swap(true, Ordering::AcqRel) {
                crowded.push(Arc::clone(topic));
            }
        }
        if !crowded.is_empty() {
            self.shared.backlog.lock().topics.append(&mut crowded);
            self.shared.wake.notify_one();
        }
    }

    fn has_thread(&self) -> bool {
        let started = self.thread.get_or_init(|| {
            let shared = Arc::clone(&self.shared);
            thread::Builder::new()
                .name("store-notifier".to_owned())
                .spawn(move || shared.run())
        });
        started.is_ok()
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.shared.backlog.lock().closed = true;
        self.shared.wake.notify_one();
        if let Some(Ok(thread)) = self.thread.take() {
            // It ends at once, and cannot panic on anything of ours.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        while let Some(topics) = self.next_due() {
            for topic in topics {
                // First, so that what is published from now on queues it again.
                topic.queued.store(false, Ordering::Release);
                topic.announce();
                *topic.rest_until.lock() =
                    Some(Instant::now() + rest(topic.signal.receiver_count()));
            }
        }
    }

    /// Waits for topics whose rest is over; none at the end.
    fn next_due(&self) -> Option<Vec<Arc<Topic>>> {
        let mut backlog = self.backlog.lock();
        loop {
            let plan = backlog.plan(Instant::now());
            match plan.next {
                _ if !plan.due.is_empty() => return Some(plan.due),
                _ if backlog.closed => return None,
                Some(next) => {
                    self.wake.wait_until(&mut backlog, next);
                }
                None => self.wake.wait(&mut backlog),
            }
        }
    }
}

impl Backlog {
    /// Takes out what is due; at the end nobody rests.
    fn plan(&mut self, now: Instant) -> Plan {
        let mut plan = Plan::default();
        for topic in std::mem::take(&mut self.topics) {
            let until = topic
                .rest_until
                .lock()
                .filter(|until| *until > now && !self.closed);
            match until {
                None => plan.due.push(topic),
                Some(until) => {
                    plan.next = Some(plan.next.map_or(until, |next| next.min(until)));
                    self.topics.push(topic);
                }
            }
        }
        plan
    }
}

/// How long a crowd is left alone after it was woken.
fn rest(watchers: usize) -> Duration {
    let watchers = u32::try_from(watchers).unwrap_or(u32::MAX);
    PER_WATCHER.saturating_mul(watchers).min(LONGEST_REST)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::{Scope, revision::Revision};

    fn topic(rest_until: Option<Instant>) -> Arc<Topic> {
        let topic = Topic::new(Scope::everything(), VecDeque::new(), Revision::new(0));
        *topic.rest_until.lock() = rest_until;
        Arc::new(topic)
    }

    #[test]
    fn a_crowd_that_rests_waits_for_its_time_and_is_not_lost() {
        let now = Instant::now();
        let (soon, later) = (
            now + Duration::from_millis(1),
            now + Duration::from_millis(5),
        );
        let mut backlog = Backlog {
            topics: vec![
                topic(None),
                topic(Some(later)),
                topic(Some(soon)),
                topic(Some(now)),
            ],
            closed: false,
        };
        let mut check = |at, due, next, left| {
            let plan = backlog.plan(at);
            let seen = (plan.due.len(), plan.next, backlog.topics.len());
            assert_eq!(seen, (due, next, left));
        };
        check(now, 2, Some(soon), 2);
        check(soon, 1, Some(later), 1);
        check(soon, 0, Some(later), 1);
        check(later, 1, None, 0);
    }

    #[test]
    fn at_the_end_nobody_waits() {
        let now = Instant::now();
        let mut backlog = Backlog {
            topics: vec![topic(Some(now + LONGEST_REST))],
            closed: true,
        };
        assert_eq!(backlog.plan(now).due.len(), 1);
    }

    #[test]
    fn rest_grows_with_the_crowd_within_a_bound() {
        assert_eq!(rest(100), Duration::from_millis(15));
        assert_eq!(rest(usize::MAX), LONGEST_REST);
    }
}
