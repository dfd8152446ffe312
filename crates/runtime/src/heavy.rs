//! Work that may take long, in the middle of a task.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work that may take milliseconds or more, while other threads go on with what waits for
/// this one. Where there are none, it is done like anything else.
pub fn heavy<T>(work: impl FnOnce() -> T) -> T {
    let threads = Handle::try_current().map(|handle| handle.runtime_flavor());
    match threads {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        Ok(_) | Err(_) => work(),
    }
}

/// Does work that may take seconds on a thread of its own, while this task goes on with what else it
/// has. Nothing if the runtime ends before.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(ended) => match ended.try_into_panic() {
            // It is this task's panic.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::{aside, heavy};

    /// Nobody waits so long for what works.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// One worker that is busy, and still what it should have run is run.
    #[test]
    fn others_go_on() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .expect("a runtime");
        let (done, other) = mpsc::channel();
        let handle = runtime.handle().clone();
        let busy = runtime.spawn(async move {
            let sent = handle.spawn(async move { done.send(()).expect("someone waits") });
            heavy(|| other.recv_timeout(PATIENCE)).expect("the other task ran");
            sent.await.expect("it ended");
        });
        runtime.block_on(busy).expect("it ended");
    }

    /// The task itself goes on, too.
    #[tokio::test]
    async fn a_task_goes_on_with_something_else() {
        let (done, other) = mpsc::channel();
        let waits = aside(move || other.recv_timeout(PATIENCE).is_ok());
        let does = async { done.send(()).expect("someone waits") };
        let (waited, ()) = tokio::join!(waits, does);
        assert_eq!(waited, Some(true));
    }

    #[tokio::test]
    async fn a_single_thread_does_it_itself() {
        assert_eq!(heavy(|| 7), 7);
    }
}
