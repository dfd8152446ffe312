//! Fairness: everyone gets a turn, and nobody's flood starves others.
//!
//! A bounded number of requests is carried out at once, and users share the places (`share`): one
//! has less than half of them, and an eighth is left to users who have none. So with 256 places a
//! user who has none waits only if more than 32 others are being served, and then the next place
//! that becomes free is for one of those who have none. Requests without a place wait in a queue per
//! user, and places go to the users in turn. A user whose queue is full is told to come back later.
//!
//! Memory is shared out likewise: bodies count against a budget of bytes, from when they come until
//! their requests are answered. A request gets its place when its body has come: an unfinished
//! upload holds none. Answers that are rendered for one client, such as Tables, count likewise, frame
//! by frame, until the client has taken them. Watches and long polls, which hold no place once they
//! have begun, are shared out in the same way.

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
    answers: Arc<Mutex<FairShare>>,
    queued_per_user: usize,
    watches_per_user: usize,
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

/// A user's share of the memory for answers that were rendered and are not read yet.
#[derive(Clone)]
pub(crate) struct AnswerShare {
    answers: Arc<Mutex<FairShare>>,
    user: Arc<str>,
    /// The answer tells of a write that was carried out: it is counted, and never refused.
    is_owed: bool,
}

/// Some of that memory; dropping it frees it.
pub(crate) struct AnswerMemory {
    share: AnswerShare,
    bytes: usize,
}

struct CountedUpload {
    bodies: Arc<Mutex<FairShare>>,
    user: Arc<str>,
    bytes: usize,
}

struct State {
    places: FairShare,
    waiting: BTreeMap<Arc<str>, VecDeque<oneshot::Sender<Turn>>>,
    /// Users with waiting requests, in the order of their turns.
    order: VecDeque<Arc<str>>,
    watches: FairShare,
}

/// Bodies of one in so many bytes of the budget, 128 KiB by default, are small: a user can upload
/// one while others upload as much as they can.
const SMALL_BODIES: usize = 1024;
/// Answers of one in so many bytes of the budget, 128 KiB by default, are small: a user can have
/// one rendered while others do not read theirs. It is enough for any list of small objects.
const SMALL_ANSWERS: usize = 2048;
/// As many watches as most clients need.
const FEW_WATCHES: usize = 50;

// === impl Flow ===

impl Flow {
    pub(crate) fn new(limits: &Limits) -> Self {
        let state = State {
            places: FairShare::new(limits.in_flight.max(1), 1),
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            watches: FairShare::new(limits.watches, FEW_WATCHES),
        };
        let small_body = limits.bodies / SMALL_BODIES;
        let small_answer = limits.answers / SMALL_ANSWERS;
        Self {
            state: Arc::new(Mutex::new(state)),
            bodies: Arc::new(Mutex::new(FairShare::new(limits.bodies, small_body))),
            answers: Arc::new(Mutex::new(FairShare::new(limits.answers, small_answer))),
            queued_per_user: limits.queued_per_user,
            watches_per_user: limits.watches_per_user,
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

    /// Counts the answers to this user.
    pub(crate) fn answers(&self, user: &str) -> AnswerShare {
        AnswerShare {
            answers: Arc::clone(&self.answers),
            user: user.into(),
            is_owed: false,
        }
    }

    /// Waits for a turn, or is refused because too many of this user's requests wait already.
    pub(crate) async fn turn(&self, user: &str) -> Result<Turn, Error> {
        let waiting = {
            let mut state = self.state.lock();
            let user: Arc<str> = user.into();
            if state.places.take(&user, 1) {
                return Ok(Turn::of(&self.state, user));
            }
            state.enqueue(user, self.queued_per_user)?
        };
        // Every queued sender is either used or dropped with the server.
        waiting
            .await
            .map_err(|_| Error::unavailable("the server is shutting down"))
    }

    /// Counts a watch of this user; returns false, and counts nothing, if it has its share.
    pub(crate) fn watch_begins(&self, user: &Arc<str>) -> bool {
        let mut state = self.state.lock();
        state.watches.held(user) < self.watches_per_user && state.watches.take(user, 1)
    }

    pub(crate) fn watch_ends(&self, user: &str) {
        self.state.lock().watches.give_back(user, 1);
    }
}

// === impl State ===

impl State {
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
        let mut index = 0;
        while self.places.free() > 0
            && let Some(user) = self.order.get(index).map(Arc::clone)
        {
            if !self.has_waiting(&user) {
                self.order.remove(index);
            } else if self.places.take(&user, 1) {
                self.order.remove(index);
                let waiter = self.waiting.get_mut(&user)?.pop_front()?;
                if self.has_waiting(&user) {
                    self.order.push_back(Arc::clone(&user));
                }
                return Some((user, waiter));
            } else {
                // It keeps its place in the order.
                index += 1;
            }
        }
        None
    }

    /// Returns true if a request of this user waits; forgets those that gave up before it.
    fn has_waiting(&mut self, user: &Arc<str>) -> bool {
        let Some(queue) = self.waiting.get_mut(user) else {
            return false;
        };
        while queue.pop_front_if(|waiter| waiter.is_closed()).is_some() {}
        let waits = !queue.is_empty();
        if !waits {
            self.waiting.remove(user);
        }
        waits
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
        let give_back = |held: &Held| held.state.lock().places.give_back(&held.user, 1);
        give_back(&held);
        // A place that goes to another user may leave room for one more of the last one.
        loop {
            let Some((user, waiter)) = held.state.lock().next() else {
                return;
            };
            // Sent outside the lock. A waiter that just gave up hands the turn back.
            let sent = waiter.send(Self::of(&held.state, user));
            if let Err(mut unused) = sent
                && let Some(unused) = unused.0.take()
            {
                give_back(&unused);
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

// === impl AnswerShare ===

impl AnswerShare {
    /// The same share for the answer to a write that was carried out, which can neither be refused
    /// nor broken off any more.
    #[must_use]
    pub(crate) fn owed(&self) -> Self {
        Self {
            is_owed: true,
            ..self.clone()
        }
    }

    /// Memory for so many bytes, if the user's share has it or the answer is owed.
    pub(crate) fn take(&self, bytes: usize) -> Option<AnswerMemory> {
        let mut answers = self.answers.lock();
        if self.is_owed {
            answers.charge(&self.user, bytes);
        } else if !answers.take(&self.user, bytes) {
            return None;
        }
        drop(answers);
        Some(self.memory(bytes))
    }

    fn memory(&self, bytes: usize) -> AnswerMemory {
        AnswerMemory {
            share: self.clone(),
            bytes,
        }
    }
}

impl Drop for AnswerMemory {
    fn drop(&mut self) {
        let AnswerShare { answers, user, .. } = &self.share;
        answers.lock().give_back(user, self.bytes);
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
            bodies: 114,
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

    /// Takes as many places as a user gets at once.
    fn fill(flow: &Flow, user: &str) -> Vec<Turn> {
        let turns = std::iter::from_fn(|| flow.turn(user).now_or_never());
        turns.map(Result::unwrap).collect()
    }

    /// With at most half of the places for each, two users with slow requests had all.
    #[tokio::test]
    async fn users_with_slow_requests_leave_places_to_others() {
        let flow = flow(256, 10);
        let mut slow = Vec::new();
        for number in 0..32 {
            let turns = fill(&flow, &format!("slow-{number}"));
            assert!(!turns.is_empty(), "slow-{number}");
            slow.push(turns);
        }
        assert_eq!((slow[0].len(), slow[1].len()), (112, 56));
        assert!(flow.turn("bystander").now_or_never().is_some());
    }

    #[tokio::test]
    async fn the_next_place_is_for_a_user_who_has_none() {
        let flow = flow(4, 10);
        let _slow = [fill(&flow, "a"), fill(&flow, "b")];
        let last = flow.turn("c").await;
        let mut more = ["a", "b"].map(|user| Box::pin(flow.turn(user)));
        for waiting in &mut more {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        let mut newcomer = Box::pin(flow.turn("newcomer"));
        assert!(newcomer.as_mut().now_or_never().is_none());
        drop(last);
        for waiting in &mut more {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        assert!(newcomer.as_mut().now_or_never().is_some());
    }

    /// A place of one user that goes to another may leave room for one more of the first.
    #[tokio::test]
    async fn no_place_stays_free_that_somebody_waits_for() {
        let flow = flow(7, 10);
        let mut held = Vec::new();
        for user in ["a", "b", "a", "b"] {
            held.push(flow.turn(user).await);
        }
        let mut more = ["b", "a"].map(|user| Box::pin(flow.turn(user)));
        for waiting in &mut more {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        held.remove(0).unwrap();
        let served = more.map(|mut waiting| waiting.as_mut().now_or_never());
        assert!(served.iter().all(Option::is_some));
    }

    #[test]
    fn watches_of_some_users_leave_some_to_others() {
        let flow = Flow::new(&Limits {
            watches: 800,
            watches_per_user: 200,
            ..Limits::default()
        });
        let begin = |user: &str| flow.watch_begins(&Arc::from(user));
        let fill = |user: &str| {
            std::iter::repeat_with(|| begin(user))
                .take_while(|begun| *begun)
                .count()
        };
        let taken = ["a", "b", "c", "d", "e", "f"].map(fill);
        assert_eq!(taken, [200, 200, 150, 75, 50, 50]);
        assert!(begin("bystander"));
        flow.watch_ends("a");
        assert!(!begin("a"), "a has more than others");
    }

    #[test]
    fn unread_answers_of_one_user_leave_memory_to_others() {
        let flow = Flow::new(&Limits {
            answers: 512 << 20,
            ..Limits::default()
        });
        let share = flow.answers("a");
        let mut unread: Vec<_> = std::iter::from_fn(|| share.take(1 << 20)).collect();
        assert_eq!(unread.len(), 224, "half of all but the reserve");
        assert!(flow.answers("b").take(100 << 20).is_some());
        unread.pop();
        assert!(share.take(1 << 20).is_some(), "what was read is free");
    }

    /// With entries of 4 MiB the reserve had eight of them, and seventeen users took them all.
    #[test]
    fn unread_answers_of_many_users_leave_lists_to_others() {
        let flow = Flow::new(&Limits::default());
        let mut unread = Vec::new();
        for number in 0..200 {
            let share = flow.answers(&format!("user-{number}"));
            let list = || share.take(crate::body::RENDERED_AHEAD);
            unread.push(std::iter::from_fn(list).collect::<Vec<_>>());
            assert!(!unread[number].is_empty(), "user-{number} has no list");
        }
        let bystander = flow.answers("bystander");
        let lists = [(); 2].map(|()| bystander.take(crate::body::RENDERED_AHEAD));
        assert!(lists.iter().all(Option::is_some));
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
