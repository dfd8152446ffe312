//! Work by key: each key at most once at a time, never lost, failures less and less often.
//!
//! [`Book`] decides, and is pure; [`Work`] waits and runs. A controller's loop takes a key when it
//! is due, plans from what it has observed, and hands back the act as a future; `Work` runs it
//! beside others, in the controller's own task.
//!
//! Invariants: a key that is added while it is being worked on is worked on again afterwards; a
//! key is never worked on twice at a time; a key without work is forgotten.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use deltaplane_client::{Pace, RequestError};

/// How a key goes on after it was worked on; of several, the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Next {
    /// Not before something changes.
    Rest,
    /// A little later, since it was overtaken by another write: the feed may have told of that
    /// already, and then nothing would change.
    Later,
    /// At once.
    Again,
}

/// What an act led to.
pub(crate) enum Outcome {
    /// It is done.
    Next(Next),
    /// It goes on at once when this is over. Waiting takes nobody's place, however many wait.
    Wait(BoxFuture<'static, ()>),
}

/// Why work on a key failed; it is tried again later.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub(crate) struct Failure {
    doing: &'static str,
    /// How long the server wants not to be asked, if it said so.
    retry_after: Option<Duration>,
    #[source]
    source: Box<dyn Error + Send + Sync>,
}

/// Which keys are due, and when.
#[derive(Debug)]
pub(crate) struct Book<K> {
    ready: VecDeque<K>,
    timers: BTreeSet<(SystemTime, K)>,
    keys: BTreeMap<K, Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    state: State,
    timer: Option<SystemTime>,
    failures: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Ready,
    Running,
    /// Running, and added meanwhile.
    Outdated,
}

/// Runs the work that is due.
pub(crate) struct Work<K> {
    book: Book<K>,
    running: FuturesUnordered<BoxFuture<'static, (K, Result<Outcome, Failure>)>>,
    /// Keys that are worked on, and wait.
    waiting: FuturesUnordered<BoxFuture<'static, K>>,
    at_once: usize,
    pace: Pace,
}

// === impl Outcome ===

impl From<Next> for Outcome {
    fn from(next: Next) -> Self {
        Self::Next(next)
    }
}

// === impl Failure ===

impl Failure {
    /// What the API said, if it said no.
    pub(crate) fn refusal(&self) -> Option<&RequestError> {
        let error = self.source.downcast_ref::<RequestError>();
        error.filter(|error| error.refusal().is_some())
    }

    /// Why, if that does not pass by itself: the API said no to what was asked, or it was not even
    /// asked.
    pub(crate) fn lasting(&self) -> Option<String> {
        let asked = self.source.downcast_ref::<RequestError>();
        let lasts = |error: &RequestError| {
            matches!(error.code(), Some(400..=499)) && !matches!(error.code(), Some(409 | 429))
        };
        asked.is_none_or(lasts).then(|| self.source.to_string())
    }

    /// For `map_err`: says what was being done.
    pub(crate) fn to<E>(doing: &'static str) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        move |source| {
            let source = source.into();
            let refused = source.downcast_ref::<RequestError>();
            Self {
                doing,
                retry_after: refused.and_then(RequestError::retry_after),
                source,
            }
        }
    }
}

/// How a key goes on after a write that was made for a state which may be over: if it exists
/// already or was changed, that is looked at again; if it is gone, nothing is left to do.
pub(crate) fn settled<T>(
    written: Result<T, RequestError>,
    doing: &'static str,
) -> Result<Next, Failure> {
    match written {
        Ok(_) => Ok(Next::Rest),
        Err(error) if error.is_conflict() => Ok(Next::Later),
        Err(error) if error.is_not_found() => Ok(Next::Rest),
        Err(error) => Err(Failure::to(doing)(error)),
    }
}

// === impl Book ===

impl<K: Ord + Clone> Book<K> {
    pub(crate) fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            keys: BTreeMap::new(),
        }
    }

    /// The key is due now.
    pub(crate) fn add(&mut self, key: K) {
        self.set_timer(&key, None);
        let entry = self.keys.entry(key.clone()).or_default();
        match entry.state {
            State::Idle => {
                entry.state = State::Ready;
                self.ready.push_back(key);
            }
            State::Running => entry.state = State::Outdated,
            State::Ready | State::Outdated => {}
        }
    }

    /// The key is due at this time, and no longer at another.
    pub(crate) fn add_at(&mut self, key: K, time: SystemTime) {
        self.set_timer(&key, Some(time));
    }

    /// The key is due at this time at the latest.
    pub(crate) fn add_by(&mut self, key: K, time: SystemTime) {
        let before = self.keys.get(&key).and_then(|entry| entry.timer);
        let sooner = before.map_or(time, |before| before.min(time));
        self.set_timer(&key, Some(sooner));
    }

    /// The key is not due, unless it is being worked on.
    pub(crate) fn cancel(&mut self, key: &K) {
        self.set_timer(key, None);
        let Some(entry) = self.keys.get_mut(key) else {
            return;
        };
        entry.failures = 0;
        match entry.state {
            State::Ready => {
                entry.state = State::Idle;
                self.ready.retain(|ready| ready != key);
            }
            State::Outdated => entry.state = State::Running,
            State::Idle | State::Running => {}
        }
        self.forget_if_idle(key);
    }

    /// A key to work on now.
    pub(crate) fn take(&mut self, now: SystemTime) -> Option<K> {
        while let Some((time, _)) = self.timers.first()
            && *time <= now
        {
            let (_, key) = self.timers.pop_first()?;
            if let Some(entry) = self.keys.get_mut(&key) {
                entry.timer = None;
            }
            self.add(key);
        }
        let key = self.ready.pop_front()?;
        self.keys.entry(key.clone()).or_default().state = State::Running;
        Some(key)
    }

    /// When the next key is due that is not due now.
    pub(crate) fn next_due(&self) -> Option<SystemTime> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// The key was worked on. Says how often it failed, in a row.
    pub(crate) fn finish(&mut self, key: K, succeeded: Option<Next>) -> u32 {
        let entry = self.keys.entry(key.clone()).or_default();
        let outdated = entry.state == State::Outdated;
        entry.state = State::Idle;
        entry.failures = match succeeded {
            Some(Next::Rest | Next::Again) => 0,
            Some(Next::Later) | None => entry.failures.saturating_add(1),
        };
        let failures = entry.failures;
        if outdated || succeeded == Some(Next::Again) {
            self.add(key);
        } else {
            self.forget_if_idle(&key);
        }
        failures
    }

    fn set_timer(&mut self, key: &K, time: Option<SystemTime>) {
        let before = match (self.keys.get_mut(key), time) {
            (None, None) => None,
            (None, Some(_)) => {
                let timer = time;
                self.keys.insert(
                    key.clone(),
                    Entry {
                        timer,
                        ..Entry::default()
                    },
                );
                None
            }
            (Some(entry), _) => std::mem::replace(&mut entry.timer, time),
        };
        if let Some(before) = before {
            self.timers.remove(&(before, key.clone()));
        }
        if let Some(time) = time {
            self.timers.insert((time, key.clone()));
        }
    }

    /// Keys that keep failing are remembered by their timer.
    fn forget_if_idle(&mut self, key: &K) {
        if let Some(entry) = self.keys.get(key)
            && entry.state == State::Idle
            && entry.timer.is_none()
            && entry.failures == 0
        {
            self.keys.remove(key);
        }
    }

    /// Whether it failed when it was last worked on, and waits to be tried again.
    fn is_failing(&self, key: &K) -> bool {
        self.keys.get(key).is_some_and(|entry| entry.failures > 0)
    }

    /// Whether it is worked on, or about to be.
    fn is_busy(&self, key: &K) -> bool {
        let entry = self.keys.get(key);
        entry.is_some_and(|entry| entry.state != State::Idle)
    }
}

// === impl Work ===

impl<K> Work<K>
where
    K: Ord + Clone + fmt::Debug + Send + 'static,
{
    /// Work on so many keys at once.
    pub(crate) fn new(at_once: usize, pace: Pace) -> Self {
        Self {
            book: Book::new(),
            running: FuturesUnordered::new(),
            waiting: FuturesUnordered::new(),
            at_once,
            pace,
        }
    }

    /// The key is due now.
    pub(crate) fn add(&mut self, key: K) {
        self.book.add(key);
    }

    /// The key is due at this time, and no longer at another.
    pub(crate) fn add_at(&mut self, key: K, time: SystemTime) {
        self.book.add_at(key, time);
    }

    /// The key is due at this time at the latest.
    pub(crate) fn add_by(&mut self, key: K, time: SystemTime) {
        self.book.add_by(key, time);
    }

    /// The key is not due any more.
    pub(crate) fn cancel(&mut self, key: &K) {
        self.book.cancel(key);
    }

    /// Whether the key failed, and is tried again in any case.
    pub(crate) fn is_failing(&self, key: &K) -> bool {
        self.book.is_failing(key)
    }

    /// The next key to work on; whoever gets it calls [`Work::start`] or [`Work::skip`] with it.
    /// Cancel safe; what is running only runs while this is awaited.
    pub(crate) async fn next(&mut self) -> K {
        loop {
            let free = self.running.len() < self.at_once;
            if free && let Some(key) = self.book.take(self.pace.clock.now()) {
                return key;
            }
            let due = self.book.next_due().filter(|_| free);
            let clock = self.pace.clock.clone();
            tokio::select! {
                Some((key, result)) = self.running.next(), if !self.running.is_empty() => {
                    self.ended(key, result);
                }
                Some(key) = self.waiting.next(), if !self.waiting.is_empty() => {
                    self.finish(key, Ok(Next::Again));
                }
                () = clock.sleep_until(due.unwrap_or(SystemTime::UNIX_EPOCH)), if due.is_some() => {}
                else => std::future::pending().await,
            }
        }
    }

    /// Runs the act that the key led to.
    pub(crate) fn start<O: Into<Outcome>>(
        &mut self,
        key: K,
        act: impl Future<Output = Result<O, Failure>> + Send + 'static,
    ) {
        self.running
            .push(Box::pin(async move { (key, act.await.map(O::into)) }));
    }

    /// The key led to nothing.
    pub(crate) fn skip(&mut self, key: K) {
        self.book.finish(key, Some(Next::Rest));
    }

    fn ended(&mut self, key: K, result: Result<Outcome, Failure>) {
        match result {
            Ok(Outcome::Next(next)) => self.finish(key, Ok(next)),
            Ok(Outcome::Wait(over)) => self.waiting.push(Box::pin(async move {
                over.await;
                key
            })),
            Err(failure) => self.finish(key, Err(failure)),
        }
    }

    fn finish(&mut self, key: K, result: Result<Next, Failure>) {
        let succeeded = match &result {
            Ok(next) => Some(*next),
            Err(failure) => {
                let error = failure as &dyn Error;
                tracing::warn!(?key, error, "failed; will try again");
                None
            }
        };
        let asked = result.err().and_then(|failure| failure.retry_after);
        let failures = self.book.finish(key.clone(), succeeded);
        if failures > 0 && !self.book.is_busy(&key) {
            let delay = self.pace.delay(failures, asked);
            self.book.add_by(key, self.pace.clock.now() + delay);
        }
    }
}

#[cfg(test)]
mod tests;
