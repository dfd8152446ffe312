use std::time::SystemTime;

use deltaplane_runtime::Trigger;
use deltaplane_store::testing::disk::MemoryDisk;
use deltaplane_store::{Collection, CommitError, Draft, Embedded, Options, Revision, Txn};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, future).await;
    done.expect("in time")
}

async fn until(mut condition: impl FnMut() -> bool) {
    in_time(async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn put(store: &Store, len: usize) -> Result<Revision, CommitError> {
    let maps = Collection::new("t", "maps").expect("legal");
    let key = maps.key("", "a").expect("legal");
    let draft = Draft::opaque(vec![b'x'; len]);
    Ok(store.commit(Txn::put(key, draft)).await?.revision)
}

fn store(disk: &MemoryDisk) -> Store {
    Embedded::open_on(Box::new(disk.clone()), Options::default()).expect("made")
}

#[tokio::test]
async fn history_is_dropped_by_age_and_by_size() {
    let store = store(&MemoryDisk::new());
    let (clock, hand) = Clock::manual(SystemTime::UNIX_EPOCH);
    let policy = RetentionPolicy {
        min_age: Duration::from_secs(60),
        max_revisions: 1000,
        max_bytes: 2500,
    };
    let tasks = Tasks::new();
    spawn_retention(&tasks, store.clone(), policy, clock);
    for _ in 0..3 {
        put(&store, 1000).await.expect("stored");
    }
    assert_eq!(store.oldest(), Revision::ZERO);
    // Too much, at once and without the clock.
    put(&store, 1000).await.expect("stored");
    // It cannot be read any more before it takes no room any more.
    until(|| store.oldest() > Revision::ZERO).await;
    until(|| store.held().superseded_bytes <= policy.max_bytes).await;
    let newest = store.revision();
    until(|| {
        hand.advance(RETENTION_TICK);
        store.oldest() == newest
    })
    .await;
    in_time(tasks.shutdown(PATIENCE)).await.expect("clean");
}

#[tokio::test]
async fn history_that_could_not_be_dropped_is_dropped_later() {
    let disk = MemoryDisk::new();
    let store = store(&disk);
    // More than is dropped in one step.
    let puts = (0..3000).map(|_| put(&store, 10));
    for written in futures::future::join_all(puts).await {
        written.expect("stored");
    }
    let (clock, hand) = Clock::manual(SystemTime::UNIX_EPOCH);
    let policy = RetentionPolicy {
        min_age: Duration::MAX,
        max_bytes: 1000,
        ..RetentionPolicy::default()
    };
    let tasks = Tasks::new();
    disk.fail_writes_after(Some(0));
    spawn_retention(&tasks, store.clone(), policy, clock);
    let mut health = store.health();
    in_time(health.changed()).await;
    assert!(store.held().superseded_bytes > policy.max_bytes);
    disk.fail_writes_after(None);
    until(|| {
        hand.advance(RETENTION_TICK);
        store.held().superseded_bytes <= policy.max_bytes
    })
    .await;
    in_time(tasks.shutdown(PATIENCE)).await.expect("clean");
}

#[tokio::test]
async fn readiness_follows_the_store() {
    let disk = MemoryDisk::new();
    let store = store(&disk);
    let (clock, hand) = Clock::manual(SystemTime::UNIX_EPOCH);
    let readiness = Readiness::new();
    let tasks = Tasks::new();
    spawn_health(&tasks, &store, readiness.indicator("store"), clock);
    put(&store, 10).await.expect("stored");
    assert!(readiness.is_ready());
    disk.fail_writes_after(Some(0));
    put(&store, 10).await.expect_err("the disk fails");
    until(|| !readiness.is_ready()).await;
    disk.fail_writes_after(None);
    // Nobody writes.
    until(|| {
        hand.advance(HEAL_TICK);
        readiness.is_ready()
    })
    .await;
    in_time(tasks.shutdown(PATIENCE)).await.expect("clean");
}

#[tokio::test]
async fn a_store_that_ends_by_itself_is_a_failure() {
    let store = store(&MemoryDisk::new());
    let (_trigger, stop) = Trigger::new();
    let readiness = Readiness::new();
    store.close().await.expect("open until now");
    let shown = show_health(
        store.health(),
        store,
        readiness.indicator("store"),
        Clock::system(),
        stop,
    );
    in_time(shown).await.expect_err("nobody asked it to end");
}
