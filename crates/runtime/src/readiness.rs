//! What must still happen before the process is ready, by name.
//!
//! Whoever prepares something takes a [`Guard`] before it starts, and ends it with
//! [`Guard::ready`]. A guard that is dropped otherwise keeps its check failing: a preparation that
//! broke off never looks like one that succeeded. Once the process drains it is not ready again.
//!
//! What may fail and recover while the process runs has an [`Indicator`].

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// The checks of one process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    checks: Arc<watch::Sender<Checks>>,
}

/// Keeps its check from passing. See [`Readiness::guard`].
#[derive(Debug)]
#[must_use = "the check passes only by `Guard::ready`"]
pub struct Guard {
    name: String,
    checks: Arc<watch::Sender<Checks>>,
}

/// A check that passes until it is told otherwise. See [`Readiness::indicator`].
#[derive(Debug)]
pub struct Indicator {
    name: String,
    checks: Arc<watch::Sender<Checks>>,
}

/// One line of `/readyz?verbose`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is checked.
    pub name: String,
    /// Whether it passes.
    pub state: State,
}

/// Whether a check passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It passes.
    Ready,
    /// Still being prepared.
    Pending,
    /// Its preparation broke off.
    Abandoned,
    /// It does not work at present, for this reason, which anybody may read.
    Failing(Arc<str>),
    /// The process is ending.
    Draining,
}

#[derive(Debug, Default)]
struct Checks {
    by_name: BTreeMap<String, State>,
    draining: bool,
}

/// The check that fails once the process drains; as Kubernetes names it.
const SHUTDOWN: &str = "shutdown";

// === impl Readiness ===

impl Readiness {
    /// No checks, hence ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check, which passes when the guard is told so.
    pub fn guard(&self, name: impl Into<String>) -> Guard {
        let name = name.into();
        let pending = |checks: &mut Checks| checks.set(&name, State::Pending);
        self.checks.send_modify(pending);
        Guard {
            name,
            checks: self.checks.clone(),
        }
    }

    /// Adds a check that passes until it is told otherwise.
    pub fn indicator(&self, name: impl Into<String>) -> Indicator {
        let indicator = Indicator {
            name: name.into(),
            checks: self.checks.clone(),
        };
        indicator.ready();
        indicator
    }

    /// From now on, and for ever, not ready.
    pub fn drain(&self) {
        self.checks.send_modify(|checks| checks.draining = true);
    }

    /// Whether every check passes.
    pub fn is_ready(&self) -> bool {
        self.checks.borrow().pass()
    }

    /// Ends when every check passes.
    pub async fn wait(&self) {
        // `self` holds a sender, so the channel cannot close meanwhile.
        let _ = self.checks.subscribe().wait_for(Checks::pass).await;
    }

    /// All checks, in the order of their names.
    pub fn snapshot(&self) -> Vec<Check> {
        let checks = self.checks.borrow();
        let line = |(name, state): (&String, &State)| Check {
            name: name.clone(),
            state: state.clone(),
        };
        let shutdown = Check {
            name: SHUTDOWN.to_owned(),
            state: match checks.draining {
                true => State::Draining,
                false => State::Ready,
            },
        };
        checks.by_name.iter().map(line).chain([shutdown]).collect()
    }
}

// === impl Checks ===

impl Checks {
    fn set(&mut self, name: &str, state: State) {
        self.by_name.insert(name.to_owned(), state);
    }

    fn pass(&self) -> bool {
        !self.draining && self.by_name.values().all(|state| *state == State::Ready)
    }
}

// === impl Guard ===

impl Guard {
    /// The check passes from now on.
    pub fn ready(self) {
        let ready = |checks: &mut Checks| checks.set(&self.name, State::Ready);
        self.checks.send_modify(ready);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.checks
            .send_if_modified(|checks| match checks.by_name.get_mut(&self.name) {
                Some(state @ State::Pending) => {
                    *state = State::Abandoned;
                    true
                }
                Some(State::Ready | State::Abandoned | State::Failing(_) | State::Draining)
                | None => false,
            });
    }
}

// === impl Indicator ===

impl Indicator {
    /// The check passes.
    pub fn ready(&self) {
        self.set(State::Ready);
    }

    /// The check fails, for this reason.
    pub fn failing(&self, reason: impl Into<Arc<str>>) {
        self.set(State::Failing(reason.into()));
    }

    fn set(&self, state: State) {
        self.checks
            .send_modify(|checks| checks.set(&self.name, state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(readiness: &Readiness) -> Vec<(String, State)> {
        let line = |check: Check| (check.name, check.state);
        readiness.snapshot().into_iter().map(line).collect()
    }

    fn lines(expected: &[(&str, State)]) -> Vec<(String, State)> {
        expected
            .iter()
            .map(|(name, state)| ((*name).to_owned(), state.clone()))
            .collect()
    }

    #[tokio::test]
    async fn ready_when_the_last_guard_says_so() {
        let readiness = Readiness::new();
        let store = readiness.guard("store");
        let listener = readiness.guard("listener");
        store.ready();
        assert!(!readiness.is_ready());
        let (pending, ready) = (State::Pending, State::Ready);
        assert_eq!(
            states(&readiness),
            lines(&[
                ("listener", pending),
                ("store", ready.clone()),
                ("shutdown", ready)
            ])
        );
        let waiting = readiness.clone();
        let (waited, ()) = tokio::join!(
            async move {
                waiting.wait().await;
                waiting.is_ready()
            },
            async move { listener.ready() }
        );
        assert!(waited);
    }

    #[test]
    fn a_dropped_guard_is_not_ready() {
        let readiness = Readiness::new();
        drop(readiness.guard("store"));
        assert_eq!(
            states(&readiness),
            lines(&[("store", State::Abandoned), ("shutdown", State::Ready)])
        );
        assert!(!readiness.is_ready());
        readiness.guard("store").ready();
        assert!(readiness.is_ready());
    }

    #[test]
    fn an_indicator_fails_and_recovers() {
        let readiness = Readiness::new();
        let store = readiness.indicator("store");
        assert!(readiness.is_ready());
        store.failing("the disk is full");
        assert_eq!(
            states(&readiness),
            lines(&[
                ("store", State::Failing("the disk is full".into())),
                ("shutdown", State::Ready)
            ])
        );
        assert!(!readiness.is_ready());
        store.ready();
        assert!(readiness.is_ready());
    }

    #[test]
    fn draining_is_for_ever() {
        let readiness = Readiness::new();
        readiness.drain();
        readiness.guard("store").ready();
        assert_eq!(
            states(&readiness),
            lines(&[("store", State::Ready), ("shutdown", State::Draining)])
        );
        assert!(!readiness.is_ready());
    }
}
