//! How it stands with the instances of a graph, told in the status of its definition.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use serde_json::Value;

use super::super::definition;
use super::super::guard::Guard;
use super::super::instance::Definition;
use crate::Context;

/// Tells the definition's status how it stands with its instances: one write at a time, the newest,
/// and again until it was written.
pub(super) struct Telling {
    last: Last,
    running: Option<BoxFuture<'static, Option<Told>>>,
    failures: u32,
    /// Whether there is something to tell.
    tells: Arc<AtomicBool>,
    guard: Guard,
}

/// What is there of what was told.
#[derive(Clone, PartialEq)]
enum Last {
    /// Nothing, or what was told before this began.
    Nothing,
    /// A write failed, or its answer was lost: something may be there.
    Unknown,
    Told(Told),
}

/// What was told to whom.
#[derive(Clone, PartialEq)]
struct Told {
    uid: String,
    value: Option<Value>,
}

// === impl Telling ===

impl Telling {
    /// Whether it has something to tell is said here, for others who see to the definition.
    pub(super) fn new(tells: Arc<AtomicBool>, guard: Guard) -> Self {
        Self {
            last: Last::Nothing,
            running: None,
            failures: 0,
            tells,
            guard,
        }
    }

    pub(super) fn tell(&mut self, context: &Context, definition: &Definition, value: Value) {
        self.tells.store(true, Ordering::Release);
        self.start(context, definition, Some(value));
    }

    /// There is nothing to tell any more. What was told before this began is taken back where the
    /// definition is seen to.
    pub(super) fn retract(&mut self, context: &Context, definition: &Definition) {
        self.tells.store(false, Ordering::Release);
        if self.may_be_told() {
            self.start(context, definition, None);
        }
    }

    /// Whether something may be there that was told.
    fn may_be_told(&self) -> bool {
        self.last != Last::Nothing
    }

    fn start(&mut self, context: &Context, definition: &Definition, value: Option<Value>) {
        let told = Told {
            uid: definition.uid.clone(),
            value,
        };
        // What is newer is told when this is over.
        if self.running.is_some() || self.last == Last::Told(told.clone()) {
            return;
        }
        let (context, name) = (context.clone(), definition.name.clone());
        let (failures, guard) = (self.failures + 1, self.guard.clone());
        self.running = Some(Box::pin(async move {
            guard.ours().await;
            let Told { uid, value } = &told;
            let written = definition::tell_propagation(&context, &name, uid, value.as_ref()).await;
            match written {
                Ok(()) => Some(told),
                Err(error) => {
                    let retry_after = error.retry_after();
                    {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(
                            definition = name,
                            error,
                            "cannot say how it stands with instances"
                        );
                    }
                    context.pace.rest(failures, retry_after).await;
                    None
                }
            }
        }));
    }

    /// Runs what is told, for ever.
    pub(super) async fn next(&mut self) {
        let told = match &mut self.running {
            Some(running) => running.await,
            None => std::future::pending().await,
        };
        self.running = None;
        self.failures = match &told {
            Some(_) => 0,
            None => self.failures + 1,
        };
        self.last = told.map_or(Last::Unknown, Last::Told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What may have been written is taken back, and what never was is not.
    #[tokio::test]
    async fn a_write_that_failed_may_have_left_something() {
        let mut telling = Telling::new(Arc::default(), Guard::new());
        assert!(!telling.may_be_told());
        telling.running = Some(Box::pin(async { None }));
        telling.next().await;
        assert!(telling.may_be_told());
    }
}
