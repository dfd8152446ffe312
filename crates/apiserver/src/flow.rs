//! Fairness: everyone gets a turn, and nobody's flood starves others.
//!
//! A bounded number of requests is carried out at once, and one user has at most half of the
//! places, so that slow requests of one leave places to all others. Requests without a place wait
//! in a queue per user, and the next place goes to the users in turn. A user whose queue is full
//! is told to come back later.
//!
//! Memory is shared out likewise: bodies count against a budget of bytes, from when they come until
//! their requests are answered, of which a user has a share that always leaves some to others
//! (`share`). A request gets its place when its body has come: an unfinished upload holds none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::server::Limits;
use crate::share::FairShare;

/// The places, and who waits for one.
pub(crate) struct Flow {
    state: Arc<Mutex<State>>,
    bodies: Arc<Mutex<FairShare>>,
    queued_per_user: usize,
}

/// The right to be carried out; dropping it makes place for the next.
pub(crate) struct Turn(Option<Held>);

/// A place that a user has. None for those who need not queue.
struct Held {
    state: Arc<Mutex<State>>,
    user: Arc<str>,
}

/// The bytes of one request's body; dropping it frees them. Nothing is counted for those who are
/// exempt.
pub(crate) struct Upload(Option<CountedUpload>);

struct CountedUpload {
    bodies: Arc<Mutex<FairShare>>,
    user: Arc<str>,
    bytes: usize,
}

struct State {
    /// How many places nobody has.
    free: usize,
    /// How many places one user may have.
    share: usize,
    /// How many places each user has.
    held: BTreeMap<Arc<str>, usize>,
    waiting: BTreeMap<Arc<str>, VecDeque<oneshot::Sender<Turn>>>,
    /// Users with waiting requests, in the order of their turns.
    order: VecDeque<Arc<str>>,
    watches: BTreeMap<String, usize>,
}

// === impl Flow ===

impl Flow {
    pub(crate) fn new(limits: &Limits) -> Self {
        let free = limits.in_flight.max(1);
        let state = State {
            free,
            share: free.div_ceil(2),
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            watches: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            bodies: Arc::new(Mutex::new(FairShare::new(limits.bodies))),
            queued_per_user: limits.queued_per_user,
        }
    }

    /// A turn for those who go ahead of all queues: our own controllers and administrators.
    pub(crate) fn exempt() -> Turn {
        Turn(None)
    }

    /// Begins to count the body of a request of this user.
    pub(crate) fn upload(&self, user: &str) -> Upload {
        Upload(Some(CountedUpload {
            bodies: Arc::clone(&self.bodies),
            user: user.into(),
            bytes: 0,
        }))
    }

    /// Waits for a turn, or is refused because too many of this user's requests wait already.
    pub(crate) async fn turn(&self, user: &str) -> Result<Turn, Error> {
        let waiting = {
            let mut state = self.state.lock();
            let user: Arc<str> = user.into();
            if state.free > 0 && state.may_hold(&user) {
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
        held.is_none_or(|held| *held < self.share)
    }

    fn take(&mut self, user: &Arc<str>) {
        self.free -= 1;
        *self.held.entry(Arc::clone(user)).or_default() += 1;
    }

    fn give_back(&mut self, held: &Held) {
        self.free += 1;
        if let Some(places) = self.held.get_mut(&held.user) {
            *places -= 1;
            if *places == 0 {
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
        while self.free > 0
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
        }))
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

// === impl Upload ===

impl Upload {
    /// An upload that is not counted, of our own controllers and administrators.
    pub(crate) fn exempt() -> Self {
        Self(None)
    }

    /// Counts so many more bytes of the request's body, if they are to be had.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        let Some(counted) = &mut self.0 else {
            return Ok(());
        };
        if !counted.bodies.lock().take(&counted.user, bytes) {
            let message = "too many large requests at once, please try again later";
            return Err(Error::too_many_requests(message));
        }
        counted.bytes += bytes;
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(counted) = self.0.take() {
            let mut bodies = counted.bodies.lock();
            bodies.give_back(&counted.user, counted.bytes);
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

    #[test]
    fn bytes_are_shared_out_and_come_back() {
        let flow = flow(8, 0);
        let code = |held: Result<(), Error>| held.map_err(|error| error.code.as_u16());
        let mut first = flow.upload("a");
        let mut second = flow.upload("a");
        assert_eq!(code(first.hold(30)), Ok(()));
        assert_eq!(code(second.hold(20)), Ok(()));
        assert_eq!(code(second.hold(1)), Err(429), "a has its half");
        let mut other = flow.upload("b");
        assert_eq!(code(other.hold(25)), Ok(()));
        assert_eq!(code(other.hold(1)), Err(429), "b has half of the rest");
        let mut third = flow.upload("c");
        assert_eq!(code(third.hold(12)), Ok(()), "something is left for c");
        assert_eq!(code(third.hold(1)), Err(429));
        assert_eq!(code(Upload::exempt().hold(1000)), Ok(()));
        drop(first);
        assert_eq!(code(third.hold(15)), Ok(()));
    }
}
