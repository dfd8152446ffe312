//! The request to stop, as a value that can be cloned, asked and waited for.

use std::future::Future;

use tokio::sync::watch;

/// Told once that it is time to end. Cheap to clone; never un-told.
#[derive(Clone, Debug)]
pub struct Stop {
    requested: watch::Receiver<bool>,
}

/// The other end: whoever holds it may request the stop.
///
/// Dropping the last one requests it too, since nobody could do it any more.
#[derive(Clone, Debug)]
pub struct Trigger {
    requested: watch::Sender<bool>,
}

// === impl Trigger ===

impl Trigger {
    /// A trigger and what it triggers.
    pub fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(false);
        let stop = Stop {
            requested: receiver,
        };
        (Self { requested: sender }, stop)
    }

    /// Requests the stop. Repeating it changes nothing.
    pub fn stop(&self) {
        self.requested
            .send_if_modified(|requested| !std::mem::replace(requested, true));
    }

    /// One more that is told.
    pub fn subscribe(&self) -> Stop {
        Stop {
            requested: self.requested.subscribe(),
        }
    }
}

// === impl Stop ===

impl Stop {
    /// Whether the stop has been requested.
    pub fn is_requested(&self) -> bool {
        *self.requested.borrow() || self.requested.has_changed().is_err()
    }

    /// Ends when the stop is requested, at once if it already is. Cancel safe.
    pub async fn wait(&self) {
        // An error means that every trigger is gone, which counts as a request.
        let _ = self
            .requested
            .clone()
            .wait_for(|requested| *requested)
            .await;
    }

    /// Runs `future` until it ends or the stop is requested, whichever is first.
    pub async fn unless<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.wait() => None,
            value = future => Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stop_is_seen_by_every_clone() {
        let (trigger, stop) = Trigger::new();
        let other = stop.clone();
        assert!(!stop.is_requested());
        assert_eq!(stop.unless(async { 7 }).await, Some(7));
        trigger.stop();
        trigger.stop();
        other.wait().await;
        assert!(stop.is_requested());
        assert!(trigger.subscribe().is_requested());
        assert_eq!(other.unless(std::future::pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn losing_the_trigger_is_a_stop() {
        let (trigger, stop) = Trigger::new();
        drop(trigger);
        stop.wait().await;
        assert!(stop.is_requested());
    }
}
