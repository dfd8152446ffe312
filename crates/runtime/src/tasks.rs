//! Tasks with a name, an owner and an exit policy; the only place that spawns.
//!
//! Two policies. A **service** ([`Tasks::spawn`]) runs until it is told to stop: ending before
//! that, or panicking, is a failure of the whole process, which then stops naming the task.
//! A **short-lived** task ([`TaskGroup::spawn`]) may end whenever it likes: a connection. Its panic
//! is logged and affects itself only.
//!
//! Invariants: a task that was spawned is either running or accounted for; after
//! [`Tasks::shutdown`] none is running.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tracing::Instrument;

use crate::stop::{Stop, Trigger};

/// A task's name, for people.
pub type Name = Cow<'static, str>;

/// Owns tasks: starts them, notices when one dies, ends them all. Cheap to clone.
#[derive(Clone)]
pub struct Tasks {
    shared: Arc<Shared>,
}

/// Owns short-lived tasks of one sort. They count as their [`Tasks`]' own.
#[derive(Clone)]
pub struct TaskGroup {
    name: Name,
    shared: Arc<Shared>,
    running: Arc<AtomicUsize>,
}

/// A service that ended when it should have run on.
#[derive(Debug, thiserror::Error)]
#[error("task {task:?} {how}")]
pub struct TaskFailure {
    /// The task's name.
    pub task: String,
    how: Early,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// Why a shutdown was not a clean one.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// A service died, which is why the rest was stopped.
    #[error(transparent)]
    Failed(#[from] TaskFailure),
    /// These did not end in time and were aborted.
    #[error("tasks did not end in time: {}", .0.join(", "))]
    Stuck(Vec<String>),
}

/// What a service may end with.
pub trait Outcome {
    /// As a result, whatever it was.
    fn into_result(self) -> Result<(), Box<dyn Error + Send + Sync>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Early {
    Ended,
    Failed,
    Panicked,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Service,
    ShortLived,
}

struct Shared {
    trigger: Trigger,
    state: Mutex<State>,
    /// Counts changes of `state` that somebody may wait for: the first failure, the last exit.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Without a handle as long as it is being started.
    running: BTreeMap<u64, (Name, Option<AbortHandle>)>,
    /// Whoever is started from now on is aborted.
    aborted: bool,
    failure: Option<TaskFailure>,
    failed: bool,
}

/// Lives as long as its task, and reports how that ended.
struct Running {
    id: u64,
    name: Name,
    policy: Policy,
    shared: Arc<Shared>,
    group: Option<Arc<AtomicUsize>>,
    result: Option<Result<(), Box<dyn Error + Send + Sync>>>,
}

// === impl Tasks ===

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tasks").field(&self.running()).finish()
    }
}

impl Tasks {
    /// An owner without tasks.
    pub fn new() -> Self {
        let (trigger, _) = Trigger::new();
        Self {
            shared: Arc::new(Shared {
                trigger,
                state: Mutex::default(),
                changed: watch::Sender::new(()),
            }),
        }
    }

    /// Starts a service: it must run until its `stop` is requested, and end soon after.
    pub fn spawn<F, Fut>(&self, name: impl Into<Name>, task: F)
    where
        F: FnOnce(Stop) -> Fut,
        Fut: Future<Output: Outcome> + Send + 'static,
    {
        let name = name.into();
        let span = tracing::info_span!(parent: None, "task", name = %name);
        let future = task(self.stop()).instrument(span);
        self.shared
            .start(name, Policy::Service, None, move |running| async move {
                running.ended(future.await.into_result());
            });
    }

    /// An owner of short-lived tasks.
    pub fn group(&self, name: impl Into<Name>) -> TaskGroup {
        TaskGroup {
            name: name.into(),
            shared: self.shared.clone(),
            running: Arc::default(),
        }
    }

    /// What the tasks are told to stop by.
    pub fn stop(&self) -> Stop {
        self.shared.trigger.subscribe()
    }

    /// Requests the stop, without waiting for it.
    pub fn request_stop(&self) {
        self.shared.trigger.stop();
    }

    /// The names of the tasks that are running now, in the order of their start.
    pub fn running(&self) -> Vec<String> {
        let state = self.shared.lock();
        state
            .running
            .values()
            .map(|(name, _)| name.to_string())
            .collect()
    }

    /// Ends when a service fails, and says which. Only the first failure is told, once.
    pub async fn failed(&self) -> TaskFailure {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if let Some(failure) = self.shared.lock().failure.take() {
                return failure;
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Requests the stop and waits until every task has ended; aborts what is left after `grace`.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), TaskError> {
        self.request_stop();
        let outcome = match tokio::time::timeout(grace, self.idle()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(TaskError::Stuck(self.abort())),
        };
        self.idle().await;
        match self.shared.lock().failure.take() {
            Some(failure) => Err(failure.into()),
            None => outcome,
        }
    }

    /// Waits until the stop is requested or a service fails, then shuts down.
    pub async fn run(&self, grace: Duration) -> Result<(), TaskError> {
        let stop = self.stop();
        let failure = stop.unless(self.failed()).await;
        let ended = self.shutdown(grace).await;
        match failure {
            Some(failure) => Err(failure.into()),
            None => ended,
        }
    }

    async fn idle(&self) {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if self.shared.lock().running.is_empty() || changed.changed().await.is_err() {
                return;
            }
        }
    }

    fn abort(&self) -> Vec<String> {
        let running: Vec<(Name, Option<AbortHandle>)> = {
            let mut state = self.shared.lock();
            state.aborted = true;
            state.running.values().cloned().collect()
        };
        let abort = |(name, handle): (Name, Option<AbortHandle>)| {
            if let Some(handle) = handle {
                handle.abort();
            }
            name.to_string()
        };
        running.into_iter().map(abort).collect()
    }
}

// === impl TaskGroup ===

impl TaskGroup {
    /// Starts a task that may end at any time.
    ///
    /// It should end soon after the stop is requested, see [`TaskGroup::stop`].
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.running.fetch_add(1, Ordering::Relaxed);
        let group = Some(self.running.clone());
        self.shared.start(
            self.name.clone(),
            Policy::ShortLived,
            group,
            |running| async move {
                let _running = running;
                future.await;
            },
        );
    }

    /// What the tasks are told to stop by.
    pub fn stop(&self) -> Stop {
        self.shared.trigger.subscribe()
    }

    /// How many are running.
    pub fn len(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Whether none is running.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// === impl Shared ===

impl Shared {
    fn start<Fut>(
        self: &Arc<Self>,
        name: Name,
        policy: Policy,
        group: Option<Arc<AtomicUsize>>,
        task: impl FnOnce(Running) -> Fut,
    ) where
        Fut: Future<Output = ()> + Send + 'static,
    {
        // There first, so that even a task that ends at once finds its entry.
        let id = {
            let mut state = self.lock();
            let id = state.next;
            state.next += 1;
            state.running.insert(id, (name.clone(), None));
            id
        };
        let running = Running {
            id,
            name,
            policy,
            shared: self.clone(),
            group,
            result: None,
        };
        // Nothing is locked meanwhile: a runtime that ends drops the task at once.
        let handle = spawn(task(running));
        let mut state = self.lock();
        let aborted = state.aborted;
        match state.running.get_mut(&id) {
            Some(_) if aborted => {
                drop(state);
                handle.abort();
            }
            Some((_, kept)) => *kept = Some(handle),
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that could panic runs under the lock, and the state is valid at every point.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that spawns, so that every task is owned"
)]
fn spawn(future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    tokio::spawn(future).abort_handle()
}

// === impl Running ===

impl Running {
    fn ended(mut self, result: Result<(), Box<dyn Error + Send + Sync>>) {
        self.result = Some(result);
    }

    fn early(&mut self) -> Option<(Early, Option<Box<dyn Error + Send + Sync>>)> {
        if std::thread::panicking() {
            return Some((Early::Panicked, None));
        }
        let stopping = self.shared.trigger.subscribe().is_requested();
        match self.result.take() {
            Some(Err(error)) => Some((Early::Failed, Some(error))),
            Some(Ok(())) if !stopping => Some((Early::Ended, None)),
            // Ended as it should, or aborted by its owner.
            Some(Ok(())) | None => None,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let early = self.early();
        if let Some(group) = &self.group {
            group.fetch_sub(1, Ordering::Relaxed);
        }
        let mut failed = false;
        let mut state = self.shared.lock();
        state.running.remove(&self.id);
        if let Some((how, source)) = early {
            match self.policy {
                Policy::Service => {
                    failed = true;
                    if !std::mem::replace(&mut state.failed, true) {
                        state.failure = Some(TaskFailure {
                            task: self.name.to_string(),
                            how,
                            source,
                        });
                    }
                }
                Policy::ShortLived => {
                    tracing::error!(task = %self.name, %how, "short-lived task lost");
                }
            }
        }
        let idle = state.running.is_empty();
        drop(state);
        if failed || idle {
            self.shared.changed.send_replace(());
        }
    }
}

// === impl Early ===

impl fmt::Display for Early {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "ended although it was not told to stop",
            Self::Failed => "failed",
            Self::Panicked => "panicked",
        })
    }
}

// === impl Outcome ===

impl Outcome for () {
    fn into_result(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.map_err(Into::into)
    }
}

#[cfg(test)]
mod tests;
