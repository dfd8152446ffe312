//! Fairness: everyone gets a turn, and nobody's flood starves others.
//!
//! A bounded number of requests is carried out at once, and one user has at most half of the
//! places, so that slow requests of one leave places to all others. Requests without a place wait
//! in a queue per user, and the next place goes to the users in turn. A user whose queue is full
//! is told to come back later.
//!
//! Memory is shared out likewise: large bodies count against a budget of bytes, of which one user
//! has at most half, from when they come until their requests are answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::server::Limits;

/// The places, and who waits for one.
pub(crate) struct Flow {
    state: Arc<Mutex<State>>,
    queued_per_user: usize,
}

/// The right to be carried out; dropping it makes place for the next.
pub(crate) struct Turn(Option<Held>);

/// A place that a user has. None for those who need not queue.
struct Held {
    state: Arc<Mutex<State>>,
    user: Arc<str>,
    bytes: usize,
}

struct State {
    /// What nobody has.
    free: Share,
    /// What one user may have.
    share: Share,
    /// What each user has.
    held: BTreeMap<Arc<str>, Share>,
    waiting: BTreeMap<Arc<str>, VecDeque<oneshot::Sender<Turn>>>,
    /// Users with waiting requests, in the order of their turns.
    order: VecDeque<Arc<str>>,
    watches: BTreeMap<String, usize>,
}

#[derive(Clone, Copy, Default)]
struct Share {
    places: usize,
    bytes: usize,
}

// === impl Flow ===

impl Flow {
    pub(crate) fn new(limits: &Limits) -> Self {
        let free = Share {
            places: limits.in_flight.max(1),
            bytes: limits.bodies,
        };
        let state = State {
            free,
            share: Share {
                places: free.places.div_ceil(2),
                bytes: free.bytes.div_ceil(2),
            },
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            watches: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            queued_per_user: limits.queued_per_user,
        }
    }

    /// A turn for those who go ahead of all queues: our own controllers and administrators.
    pub(crate) fn exempt() -> Turn {
        Turn(None)
    }

    /// Waits for a turn, or is refused because too many of this user's requests wait already.
    pub(crate) async fn turn(&self, user: &str) -> Result<Turn, Error> {
        let waiting = {
            let mut state = self.state.lock();
            let user: Arc<str> = user.into();
            if state.free.places > 0 && state.may_hold(&user) {
                state.take(&user);
                return Ok(Turn::of(&self.state, user));
            }
            state.enqueue(user, self.queued_per_user)?
        };
        // Every queued sender is either used or dropped with the server.
        waiting
            .await
            .map_err(|_| Error::unavailable("the server is shutting down"))
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
    fn may_hold(&self, user: &str) -> bool {
        let held = self.held.get(user);
        held.is_none_or(|held| held.places < self.share.places)
    }

    fn take(&mut self, user: &Arc<str>) {
        self.free.places -= 1;
        self.held.entry(Arc::clone(user)).or_default().places += 1;
    }

    /// Bytes for someone who has a place; whether there are so many.
    fn take_bytes(&mut self, user: &str, bytes: usize) -> bool {
        let Some(held) = self.held.get_mut(user) else {
            return false;
        };
        let fits = bytes <= self.free.bytes && held.bytes + bytes <= self.share.bytes;
        if fits {
            self.free.bytes -= bytes;
            held.bytes += bytes;
        }
        fits
    }

    fn give_back(&mut self, held: &Held) {
        self.free.places += 1;
        self.free.bytes += held.bytes;
        if let Some(all) = self.held.get_mut(&held.user) {
            all.places -= 1;
            all.bytes -= held.bytes;
            if all.places == 0 {
                self.held.remove(&held.user);
            }
        }
    }

    fn enqueue(&mut self, user: Arc<str>, limit: usize) -> Result<oneshot::Receiver<Turn>, Error> {
        let queue = self.waiting.entry(Arc::clone(&user)).or_default();
        // Those who gave up waiting do not count.
        queue.retain(|waiter| !waiter.is_closed());
        if queue.len() >= limit {
            let message = "too many requests, please try again later";
            return Err(Error::too_many_requests(message));
        }
        let (sender, receiver) = oneshot::channel();
        queue.push_back(sender);
        if !self.order.contains(&user) {
            self.order.push_back(user);
        }
        Ok(receiver)
    }

    /// The next to be served, who has the place from now on: one request of the first user in
    /// turn who has not all of its share.
    fn next(&mut self) -> Option<(Arc<str>, oneshot::Sender<Turn>)> {
        let mut passed_over = Vec::new();
        let mut found = None;
        while self.free.places > 0
            && found.is_none()
            && let Some(user) = self.order.pop_front()
        {
            if !self.may_hold(&user) {
                passed_over.push(user);
                continue;
            }
            let Some(queue) = self.waiting.get_mut(&user) else {
                continue;
            };
            let waiter = queue.pop_front().filter(|waiter| !waiter.is_closed());
            match queue.is_empty() {
                true => {
                    self.waiting.remove(&user);
                }
                false => self.order.push_back(Arc::clone(&user)),
            }
            if let Some(waiter) = waiter {
                self.take(&user);
                found = Some((user, waiter));
            }
        }
        // They keep their places in the order.
        for user in passed_over.into_iter().rev() {
            self.order.push_front(user);
        }
        found
    }
}

// === impl Turn ===

impl Turn {
    fn of(state: &Arc<Mutex<State>>, user: Arc<str>) -> Self {
        Self(Some(Held {
            state: Arc::clone(state),
            user,
            bytes: 0,
        }))
    }

    /// Counts so many more bytes of the request's body, if they are to be had.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        let Some(held) = &mut self.0 else {
            return Ok(());
        };
        match held.state.lock().take_bytes(&held.user, bytes) {
            true => {
                held.bytes += bytes;
                Ok(())
            }
            false => {
                let message = "too many large requests at once, please try again later";
                Err(Error::too_many_requests(message))
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(held) = self.0.take() else {
            return;
        };
        let state = &held.state;
        state.lock().give_back(&held);
        loop {
            let Some((user, waiter)) = state.lock().next() else {
                return;
            };
            // Sent outside the lock. A waiter that just gave up hands the turn back.
            match waiter.send(Self::of(state, user)) {
                Ok(()) => return,
                Err(mut unused) => {
                    if let Some(unused) = unused.0.take() {
                        state.lock().give_back(&unused);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn flow(in_flight: usize, queued_per_user: usize) -> Flow {
        Flow::new(&Limits {
            in_flight,
            queued_per_user,
            bodies: 100,
            ..Limits::default()
        })
    }

    #[tokio::test]
    async fn users_take_turns_whatever_the_length_of_their_queues() {
        let flow = flow(1, 10);
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
        let flow = flow(1, 1);
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
        let flow = flow(1, 10);
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

    #[tokio::test]
    async fn one_user_has_at_most_half_of_the_places() {
        let flow = flow(4, 10);
        let mut held = [flow.turn("slow").await, flow.turn("slow").await];
        let mut third = Box::pin(flow.turn("slow"));
        assert!(third.as_mut().now_or_never().is_none());
        let others = [flow.turn("a").await, flow.turn("b").await];
        assert!(others.iter().all(Result::is_ok));
        let mut waiting = Box::pin(flow.turn("a"));
        assert!(waiting.as_mut().now_or_never().is_none(), "all are taken");
        drop(others);
        // Slow is first in turn but has its share; a is served, and slow keeps its place.
        assert!(waiting.as_mut().now_or_never().is_some());
        assert!(third.as_mut().now_or_never().is_none());
        held[0] = Err(Error::unauthorized());
        assert!(third.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn bytes_are_shared_out_and_come_back() {
        let flow = flow(8, 0);
        let code = |held: Result<(), Error>| held.map_err(|error| error.code.as_u16());
        let mut first = flow.turn("a").await.unwrap();
        let mut second = flow.turn("a").await.unwrap();
        assert_eq!(code(first.hold(30)), Ok(()));
        assert_eq!(code(second.hold(20)), Ok(()));
        assert_eq!(code(second.hold(1)), Err(429), "a has its half");
        let mut other = flow.turn("b").await.unwrap();
        assert_eq!(code(other.hold(50)), Ok(()));
        let mut third = flow.turn("c").await.unwrap();
        assert_eq!(code(third.hold(1)), Err(429), "all are taken");
        assert_eq!(code(Flow::exempt().hold(1000)), Ok(()));
        drop(first);
        assert_eq!(code(third.hold(30)), Ok(()));
        assert_eq!(code(third.hold(1)), Err(429));
    }
}
