//! Whether a client takes what it is sent.
//!
//! The body of an answer is not polled while its client does not read, so it cannot end itself. The
//! task that sends an answer therefore runs under [`TransitMonitor::guard`], which ends it when the
//! client has taken nothing for a while although something is in transit, or when somebody else
//! ends it. Ending the task frees all that was to be sent.
//!
//! A body waits with its next part, and with its end, until the part before is [`Taken`]: an answer
//! whose end was passed on has no task any more that could be ended.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

/// Follows what is in transit to one client: shared by the task that sends it, which is guarded,
/// and by the bodies that hand it out.
#[derive(Clone, Debug, Default)]
pub struct TransitMonitor(Arc<Shared>);

/// A part of an answer on its way to the client, until it is dropped.
#[derive(Debug)]
pub struct InTransit {
    monitor: TransitMonitor,
    _taken: oneshot::Sender<()>,
}

/// Ends when a part of an answer is in transit no more.
#[derive(Debug)]
pub struct Taken(oneshot::Receiver<()>);

/// The client did not take what it was sent, or the answer was ended for another reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer was ended: its client did not read it")]
pub struct Stalled;

#[derive(Debug, Default)]
struct Shared {
    parts: AtomicUsize,
    /// How often the client took something.
    taken: AtomicU64,
    is_ended: AtomicBool,
    /// Something is in transit, or it was ended.
    changed: Notify,
}

// === impl TransitMonitor ===

impl TransitMonitor {
    /// Follows one more part of the answer.
    pub fn hand_out(&self) -> (InTransit, Taken) {
        self.0.parts.fetch_add(1, Ordering::Relaxed);
        self.0.changed.notify_one();
        let (sender, receiver) = oneshot::channel();
        let part = InTransit {
            monitor: self.clone(),
            _taken: sender,
        };
        (part, Taken(receiver))
    }

    /// Ends the guarded task.
    pub fn end(&self) {
        self.0.is_ended.store(true, Ordering::Relaxed);
        self.0.changed.notify_one();
    }

    /// Runs the task that sends the answer. Drops it when its client has taken nothing for `limit`
    /// while something was in transit, within twice that time.
    pub async fn guard<F: Future>(&self, limit: Duration, task: F) -> Result<F::Output, Stalled> {
        let mut task = pin!(task);
        let mut stalled = pin!(self.stalled(limit));
        poll_fn(|cx| {
            if let Poll::Ready(output) = task.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            stalled.as_mut().poll(cx).map(|()| Err(Stalled))
        })
        .await
    }

    async fn stalled(&self, limit: Duration) {
        loop {
            let before = self.taken_before_waiting();
            tokio::select! {
                () = self.0.changed.notified() => {}
                () = tokio::time::sleep(limit), if before.is_some() => {
                    if before == self.taken_before_waiting() {
                        return;
                    }
                }
            }
            if self.0.is_ended.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// How often the client took something, if something waits for it.
    fn taken_before_waiting(&self) -> Option<u64> {
        let waits = self.0.parts.load(Ordering::Relaxed) > 0;
        waits.then(|| self.0.taken.load(Ordering::Relaxed))
    }
}

// === impl InTransit ===

impl InTransit {
    /// Says that the client took some of this part.
    pub fn progress(&self) {
        self.monitor.0.taken.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for InTransit {
    fn drop(&mut self) {
        self.progress();
        self.monitor.0.parts.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Taken ===

impl Future for Taken {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Nothing is ever sent: the part drops its sender.
        Pin::new(&mut self.0).poll(cx).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Never ends, and holds a part of an answer.
    async fn hold(part: InTransit) {
        std::future::pending::<()>().await;
        drop(part);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_whose_client_takes_nothing_is_ended_in_time() {
        let (monitor, began) = (TransitMonitor::default(), Instant::now());
        let task = hold(monitor.hand_out().0);
        assert_eq!(monitor.guard(LIMIT, task).await, Err(Stalled));
        assert_eq!(began.elapsed(), LIMIT);
        assert_eq!(monitor.taken_before_waiting(), None, "the part was dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_handed_out_later_counts_from_then() {
        let (monitor, began) = (TransitMonitor::default(), Instant::now());
        let task = async {
            tokio::time::sleep(3 * LIMIT).await;
            hold(monitor.hand_out().0).await;
        };
        assert_eq!(monitor.guard(LIMIT, task).await, Err(Stalled));
        assert_eq!(began.elapsed(), 4 * LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_something_goes_on() {
        let monitor = TransitMonitor::default();
        let task = async {
            let (part, taken) = monitor.hand_out();
            for _ in 0..10 {
                tokio::time::sleep(LIMIT / 2).await;
                part.progress();
            }
            drop(part);
            taken.await;
            // Nothing is in transit, so nothing is waited for.
            tokio::time::sleep(10 * LIMIT).await;
        };
        assert_eq!(monitor.guard(LIMIT, task).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_can_be_ended_at_once() {
        let (monitor, began) = (TransitMonitor::default(), Instant::now());
        let other = monitor.clone();
        let task = async {
            tokio::time::sleep(LIMIT).await;
            other.end();
            std::future::pending::<()>().await;
        };
        assert_eq!(monitor.guard(10 * LIMIT, task).await, Err(Stalled));
        assert_eq!(began.elapsed(), LIMIT);
    }
}
