//! Fairness: everyone gets a turn, and nobody's flood starves others.
//!
//! A bounded number of requests is carried out at once. When all places are taken, requests wait
//! in a queue per user, and the next place goes to the users in turn. A user whose queue is full
//! is told to come back later.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::error::Error;

/// The places, and who waits for one.
pub(crate) struct Flow {
    state: Arc<Mutex<State>>,
    queued_per_user: usize,
}

/// The right to be carried out; dropping it makes place for the next.
pub(crate) struct Turn {
    /// None for those who need not queue.
    state: Option<Arc<Mutex<State>>>,
}

#[derive(Default)]
struct State {
    free: usize,
    waiting: BTreeMap<String, VecDeque<oneshot::Sender<Turn>>>,
    /// Users with waiting requests, in the order of their turns.
    order: VecDeque<String>,
    watches: BTreeMap<String, usize>,
}

// === impl Flow ===

impl Flow {
    pub(crate) fn new(in_flight: usize, queued_per_user: usize) -> Self {
        let state = State {
            free: in_flight.max(1),
            ..State::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            queued_per_user,
        }
    }

    /// A turn for those who go ahead of all queues: our own controllers and administrators.
    pub(crate) fn exempt() -> Turn {
        Turn { state: None }
    }

    /// Waits for a turn, or is refused because too many of this user's requests wait already.
    pub(crate) async fn turn(&self, user: &str) -> Result<Turn, Error> {
        let waiting = {
            let mut state = self.state.lock();
            if state.free > 0 {
                state.free -= 1;
                return Ok(self.granted());
            }
            state.enqueue(user, self.queued_per_user)?
        };
        // Every queued sender is either used or dropped with the server.
        waiting
            .await
            .map_err(|_| Error::unavailable("the server is shutting down"))
    }

    fn granted(&self) -> Turn {
        Turn {
            state: Some(Arc::clone(&self.state)),
        }
    }

    /// Counts a watch of this user; gives how many it has now.
    pub(crate) fn watch_begins(&self, user: &str) -> usize {
        let mut state = self.state.lock();
        let count = state.watches.entry(user.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub(crate) fn watch_ends(&self, user: &str) {
        let mut state = self.state.lock();
        if let Some(count) = state.watches.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                state.watches.remove(user);
            }
        }
    }
}

// === impl State ===

impl State {
    fn enqueue(&mut self, user: &str, limit: usize) -> Result<oneshot::Receiver<Turn>, Error> {
        let queue = self.waiting.entry(user.to_owned()).or_default();
        // Those who gave up waiting do not count.
        queue.retain(|waiter| !waiter.is_closed());
        if queue.len() >= limit {
            let message = "too many requests, please try again later";
            return Err(Error::too_many_requests(message));
        }
        if queue.is_empty() && !self.order.iter().any(|one| one == user) {
            self.order.push_back(user.to_owned());
        }
        let (sender, receiver) = oneshot::channel();
        queue.push_back(sender);
        Ok(receiver)
    }

    /// The next to be served: one request of the user whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        while let Some(user) = self.order.pop_front() {
            let Some(queue) = self.waiting.get_mut(&user) else {
                continue;
            };
            let waiter = queue.pop_front();
            match queue.is_empty() {
                true => {
                    self.waiting.remove(&user);
                }
                false => self.order.push_back(user),
            }
            if let Some(waiter) = waiter.filter(|waiter| !waiter.is_closed()) {
                return Some(waiter);
            }
        }
        None
    }
}

// === impl Turn ===

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else {
            return;
        };
        loop {
            let waiter = {
                let mut locked = state.lock();
                let Some(waiter) = locked.next() else {
                    locked.free += 1;
                    return;
                };
                waiter
            };
            // Sent outside the lock: a waiter that just gave up drops the turn right here.
            match waiter.send(Self {
                state: Some(Arc::clone(&state)),
            }) {
                Ok(()) => return,
                Err(mut unused) => unused.state = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn users_take_turns_whatever_the_length_of_their_queues() {
        let flow = Flow::new(1, 10);
        let running = flow.turn("busy").await.unwrap();
        let mut busy: Vec<_> = (0..3).map(|_| Box::pin(flow.turn("busy"))).collect();
        for waiting in &mut busy {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        let mut quiet = Box::pin(flow.turn("quiet"));
        assert!(quiet.as_mut().now_or_never().is_none());
        drop(running);
        let first = busy[0]
            .as_mut()
            .now_or_never()
            .expect("it is busy's turn")
            .unwrap();
        drop(first);
        let second = quiet
            .as_mut()
            .now_or_never()
            .expect("then quiet's, before busy's second");
        assert!(busy[1].as_mut().now_or_never().is_none());
        drop(second);
        assert!(busy[1].as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_full_queue_is_refused_and_those_who_left_do_not_count() {
        let flow = Flow::new(1, 1);
        let _running = flow.turn("a").await.unwrap();
        let mut waiting = Box::pin(flow.turn("a"));
        assert!(waiting.as_mut().now_or_never().is_none());
        let refused = flow
            .turn("a")
            .now_or_never()
            .expect("it is refused at once");
        assert_eq!(refused.err().unwrap().code.as_u16(), 429);
        drop(waiting);
        assert!(
            flow.turn("a").now_or_never().is_none(),
            "there is place in the queue again"
        );
    }

    #[tokio::test]
    async fn a_turn_given_to_someone_who_left_is_not_lost() {
        let flow = Flow::new(1, 10);
        let running = flow.turn("a").await.unwrap();
        let mut gone = Box::pin(flow.turn("a"));
        assert!(gone.as_mut().now_or_never().is_none());
        drop(gone);
        drop(running);
        assert!(
            flow.turn("b")
                .now_or_never()
                .expect("the place is free")
                .is_ok()
        );
    }
}
