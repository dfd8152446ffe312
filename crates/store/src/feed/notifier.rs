//! Wakes the watchers of crowded topics, on a thread of its own.
//!
//! Waking a task is cheap, but what it wakes competes with the waker for the
//! processor. A few are woken in place, which is the fastest for them; many
//! are left to this thread, so that the committer can go on.
//!
//! A topic waits here at most once, so that the backlog is bounded by the
//! number of topics.

use std::{
    io,
    sync::{Arc, OnceLock, atomic::Ordering},
    thread,
};

use parking_lot::{Condvar, Mutex};

use super::Topic;

/// A topic with more watchers than this is left to the thread.
const CROWD: usize = 8;

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
        loop {
            let topics = {
                let mut backlog = self.backlog.lock();
                while backlog.topics.is_empty() && !backlog.closed {
                    self.wake.wait(&mut backlog);
                }
                if backlog.topics.is_empty() {
                    return;
                }
                std::mem::take(&mut backlog.topics)
            };
            for topic in topics {
                // First, so that what is published from now on queues it again.
                topic.queued.store(false, Ordering::Release);
                topic.announce();
            }
        }
    }
}
