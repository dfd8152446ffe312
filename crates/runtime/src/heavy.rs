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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::heavy;

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

    #[tokio::test]
    async fn a_single_thread_does_it_itself() {
        assert_eq!(heavy(|| 7), 7);
    }
}
