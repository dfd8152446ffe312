use tokio::sync::oneshot;

use super::*;

const GRACE: Duration = Duration::from_secs(5);

/// Runs tasks until one of them or the test requests the end, and shows how it went.
async fn check(start: impl FnOnce(&Tasks), expected: Result<(), &str>) {
    let tasks = Tasks::new();
    start(&tasks);
    let outcome = tasks.run(GRACE).await.map_err(|error| {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        text
    });
    assert_eq!(outcome, expected.map_err(str::to_owned));
    assert_eq!(tasks.running(), Vec::<String>::new());
}

#[tokio::test]
async fn a_requested_stop_is_clean() {
    check(
        |tasks| {
            tasks.spawn("lease", |stop| async move { stop.wait().await });
            let all = tasks.clone();
            tasks.spawn("quitter", |stop| async move {
                all.request_stop();
                stop.wait().await;
                Ok::<(), TaskFailure>(())
            });
        },
        Ok(()),
    )
    .await;
}

#[tokio::test]
async fn an_early_end_stops_the_rest_and_names_the_task() {
    check(
        |tasks| {
            tasks.spawn("listener", |stop| async move { stop.wait().await });
            tasks.spawn("lease", |_| async {});
        },
        Err("task \"lease\" ended although it was not told to stop"),
    )
    .await;
}

#[tokio::test]
async fn an_error_is_the_source() {
    check(
        |tasks| tasks.spawn("lease", |_| async { Err("no quorum") }),
        Err("task \"lease\" failed: no quorum"),
    )
    .await;
}

#[tokio::test]
async fn a_panic_stops_the_rest_and_names_the_task() {
    check(
        |tasks| {
            tasks.spawn("lease", |stop| async move {
                assert!(stop.is_requested(), "as the test wants it");
            });
        },
        Err("task \"lease\" panicked"),
    )
    .await;
}

#[tokio::test]
async fn a_short_lived_task_affects_itself_only() {
    check(
        |tasks| {
            let group = tasks.group("connection");
            let all = tasks.clone();
            tasks.spawn("test", |stop| async move {
                let (sender, receiver) = oneshot::channel();
                group.spawn(async move { sender.send(7).expect("the test waits for it") });
                assert_eq!(receiver.await, Ok(7));
                let (sender, receiver) = oneshot::channel::<()>();
                group.spawn(async move {
                    let _sender = sender;
                    panic!("as the test wants it");
                });
                receiver.await.expect_err("it panicked");
                all.request_stop();
                stop.wait().await;
            });
        },
        Ok(()),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_aborted_and_named() {
    check(
        |tasks| {
            tasks.spawn("stubborn", |_| std::future::pending::<()>());
            tasks.group("connection").spawn(std::future::pending());
            tasks.request_stop();
        },
        Err("tasks did not end in time: stubborn, connection"),
    )
    .await;
}

/// Starts a task when it goes.
struct Last(TaskGroup);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.spawn(std::future::pending());
    }
}

#[test]
fn what_is_started_while_all_ends_is_gone_at_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let tasks = Tasks::new();
    let last = Last(tasks.group("connection"));
    let spawning = async {
        tasks.group("connection").spawn(async move {
            let _last = last;
            std::future::pending().await
        });
        tokio::task::yield_now().await;
    };
    runtime.block_on(spawning);
    assert_eq!(tasks.running(), ["connection"]);
    drop(runtime);
    assert!(tasks.running().is_empty());
}

#[tokio::test]
async fn what_is_started_after_the_end_is_aborted() {
    let tasks = Tasks::new();
    let last = Last(tasks.group("last"));
    tasks.group("connection").spawn(async move {
        let _last = last;
        std::future::pending().await
    });
    let ended = tasks.shutdown(Duration::ZERO).await;
    assert!(matches!(ended, Err(TaskError::Stuck(names)) if names == ["connection"]));
    assert!(tasks.running().is_empty());
}
