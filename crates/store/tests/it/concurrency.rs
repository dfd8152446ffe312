//! Many writers, readers and watchers at once, on real threads.

use std::{collections::HashMap, sync::Arc, time::Duration};

use deltaplane_store::{
    CommitError, Draft, Event, Expect, Key, ListQuery, Op, Revision, Row, Scope, Store, Txn, Watch,
    testing::{disk::MemoryDisk, model::Name},
};
use tokio::task::JoinSet;

use crate::support::{open, ring};

const WRITERS: u64 = 8;
const WRITES: u64 = 150;
const PATIENCE: Duration = Duration::from_secs(20);
/// The keys of the universe.
const KEYS: u64 = 48;
/// Marks the last write of a key.
const END: u64 = u64::MAX;

fn name(number: u64) -> Name {
    Name {
        collection: (number % 4) as u8,
        namespace: (number / 4 % 3) as u8,
        name: (number / 12 % 4) as u8,
    }
}

/// A scope that contains the key of the same number.
fn scope(number: u64, kind: u64) -> Scope {
    let key = name(number).key();
    match kind % 5 {
        0 => Scope::everything(),
        1 => Scope::tenant(key.tenant()).unwrap(),
        2 => Scope::collection(&key.collection()),
        3 => Scope::namespace(&key.collection(), key.namespace()).unwrap(),
        _ => Scope::object(&key),
    }
}

/// What matters about an event, to compare sequences of them.
fn identity(event: &Arc<Event>) -> (Row, Key, u64, bool) {
    let object = event.object();
    (
        object.row(),
        object.key().clone(),
        object.tag(),
        event.is_delete(),
    )
}

fn txn(current: Option<Revision>, number: u64, turn: u64, tag: u64) -> Txn {
    let (key, other) = (name(number).key(), name(number + 1).key());
    let draft = Draft::opaque("content").tagged(tag);
    let mut ops = vec![match current {
        Some(_) if turn % 5 == 4 => Op::Delete(key.clone(), Some(draft)),
        Some(_) | None => Op::Put(key.clone(), draft),
    }];
    if turn.is_multiple_of(3) {
        ops.push(Op::Put(other, Draft::opaque("other").tagged(tag)));
    }
    let expect = current.map_or(Expect::Absent, Expect::At);
    Txn {
        guards: vec![(key, expect)],
        ops,
        ..Txn::default()
    }
}

/// Writes to changing keys, each with a compare-and-swap.
async fn write(store: Store, writer: u64) -> Vec<Revision> {
    let mut revisions = Vec::new();
    for turn in 0..WRITES {
        let number = writer * 7 + turn * 13;
        loop {
            let current = store
                .get(&name(number).key())
                .map(|object| object.revision());
            match store
                .commit(txn(current, number, turn, writer << 32 | turn))
                .await
            {
                Ok(done) => {
                    assert!(
                        store.revision() >= done.revision,
                        "acknowledged and not visible"
                    );
                    revisions.push(done.revision);
                    break;
                }
                Err(CommitError::Conflict { current: found, .. }) => {
                    let found = found.map(|object| object.revision());
                    assert_ne!(found, current, "a conflict with what was expected");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    revisions
}

/// Follows a scope until the last write of a key.
async fn follow(mut watch: Watch, store: Store, end: Key) -> Vec<Arc<Event>> {
    let mut events: Vec<Arc<Event>> = Vec::new();
    let mut progress = Revision::ZERO;
    loop {
        let next = watch.next_batch(1 + events.len() % 17);
        let batch = tokio::time::timeout(PATIENCE, next)
            .await
            .expect("the watch hangs")
            .unwrap();
        assert!(batch.revision >= progress && batch.revision <= store.revision());
        progress = batch.revision;
        // Whoever saw an event does not read an older state.
        for event in &batch.events {
            let found = store.get(event.key());
            let older = found.is_some_and(|object| object.row() < event.object().row());
            assert!(!older || event.is_delete());
        }
        let ended = |event: &Arc<Event>| event.key() == &end && event.object().tag() == END;
        let last = batch.events.iter().any(ended);
        events.extend(batch.events);
        if last {
            return events;
        }
    }
}

/// Reads pages, and checks that each is of one revision.
async fn read(store: Store) {
    for turn in 0..200 {
        let query = ListQuery::all(name(turn).collection()).limit(2);
        let first = store.list(&query).await.unwrap();
        assert!(
            first
                .items
                .iter()
                .all(|object| object.revision() <= first.revision)
        );
        let again = store.list(&query.at(first.revision)).await.unwrap();
        assert_eq!(first.items, again.items);
        tokio::task::yield_now().await;
    }
}

/// Every change follows the one before it of the same object.
fn assert_chained(log: &[Arc<Event>]) {
    let mut last = HashMap::new();
    for event in log {
        let previous = event.previous().map(|previous| previous.row());
        let row = (!event.is_delete()).then(|| event.object().row());
        let expected = last.insert(event.key().clone(), row).flatten();
        assert_eq!(previous, expected, "{event:?}");
    }
}

async fn check(ring_events: usize) {
    let store = open(&MemoryDisk::new(), ring(ring_events));
    let mut followers = JoinSet::new();
    for number in 0..KEYS {
        let watch = store
            .watch(scope(number, number / 4), Revision::ZERO)
            .unwrap();
        let followed = follow(watch, store.clone(), name(number).key());
        followers.spawn(async move { (number, followed.await) });
    }
    let readers = JoinSet::from_iter([read(store.clone())]);
    let writers: JoinSet<_> = (0..WRITERS)
        .map(|writer| write(store.clone(), writer))
        .collect();
    let mut acknowledged = writers.join_all().await.concat();
    readers.join_all().await;
    for number in 0..KEYS {
        let put = Txn::put(name(number).key(), Draft::opaque("").tagged(END));
        acknowledged.push(store.commit(put).await.unwrap().revision);
    }

    let watch = store.watch(Scope::everything(), Revision::ZERO).unwrap();
    let all = follow(watch, store.clone(), name(KEYS - 1).key()).await;
    let rows: Vec<Row> = all.iter().map(|event| event.object().row()).collect();
    assert!(
        rows.is_sorted_by(|a, b| a < b),
        "events out of order or twice"
    );
    let mut logged: Vec<Revision> = rows.iter().map(|row| row.revision()).collect();
    logged.dedup();
    acknowledged.sort_unstable();
    assert_eq!(
        logged, acknowledged,
        "each acknowledged write is one revision of the log"
    );

    assert_chained(&all);

    for (number, followed) in followers.join_all().await {
        let scope = scope(number, number / 4);
        let seen: Vec<_> = followed.iter().map(identity).collect();
        let inside = all.iter().filter(|event| scope.contains(event.key()));
        // A watch of everything ends before the last writes of other keys.
        let expected: Vec<_> = inside.map(identity).take(seen.len()).collect();
        let differs = seen
            .iter()
            .zip(&expected)
            .find(|(seen, expected)| seen != expected);
        assert_eq!(differs, None, "{scope:?}");
        assert_eq!(seen.len(), expected.len(), "{scope:?}");
    }
    store.close().await.unwrap();
}

fn on_threads(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build();
    runtime.unwrap().block_on(test);
}

/// Adds one to a counter, as often as it takes.
async fn count(store: Store, key: Key) {
    for _ in 0..WRITES {
        loop {
            let current = store.get(&key);
            let (expect, value) = match &current {
                None => (Expect::Absent, 0),
                Some(object) => (Expect::At(object.revision()), object.tag()),
            };
            let txn = Txn {
                guards: vec![(key.clone(), expect)],
                ops: vec![Op::Put(key.clone(), Draft::opaque("").tagged(value + 1))],
                ..Txn::default()
            };
            match store.commit(txn).await {
                Ok(_) => break,
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn no_update_is_lost() {
    on_threads(async {
        let store = open(&MemoryDisk::new(), ring(10));
        let key = name(0).key();
        let counters: JoinSet<_> = (0..WRITERS)
            .map(|_| count(store.clone(), key.clone()))
            .collect();
        counters.join_all().await;
        let counted = store.get(&key).map(|object| object.tag());
        assert_eq!(counted, Some(WRITERS * WRITES));
    });
}

#[test]
fn watches_are_ordered_gapless_and_unique() {
    on_threads(check(100_000));
}

#[test]
fn watches_that_fall_behind_are_too() {
    on_threads(check(16));
}

/// A watch that begins reads the index; it must not do so twice with a writer waiting between.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watches_begin_while_others_write() {
    let store = open(&MemoryDisk::new(), ring(64));
    let mut tasks = JoinSet::new();
    for writer in 0..2 {
        let store = store.clone();
        tasks.spawn(async move {
            write(store, writer).await;
        });
    }
    for watcher in 0..4 {
        let store = store.clone();
        tasks.spawn(async move {
            for turn in 0..3_000 {
                let key = Key::new("t", "c", "n", &format!("{watcher}-{turn}")).unwrap();
                store.watch(Scope::object(&key), store.revision()).unwrap();
                tokio::task::yield_now().await;
            }
        });
    }
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(PATIENCE, all)
        .await
        .expect("the store stands still");
}
