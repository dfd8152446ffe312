//! Watches beyond the ring, and compaction under them.

use std::time::Duration;

use deltaplane_store::{
    Collection, Draft, Key, ListQuery, Retention, RetentionPolicy, Revision, Scope, Store, Txn,
    WatchError,
    testing::{disk::MemoryDisk, model::draft},
};
use proptest::{collection::vec, prelude::*};

use crate::support::{block_on, open, ring};

fn maps() -> Collection {
    Collection::new("t", "maps").unwrap()
}

fn key(number: u64) -> Key {
    maps().key("", &number.to_string()).unwrap()
}

async fn put(store: &Store, number: u64) -> Revision {
    let done = store.commit(Txn::put(key(number), draft(1))).await;
    done.unwrap().revision
}

#[test]
fn a_watch_that_fell_behind_reads_the_log_and_then_starts_over() {
    block_on(async {
        let store = open(&MemoryDisk::new(), ring(10));
        let mut slow = store
            .watch(Scope::collection(&maps()), Revision::ZERO)
            .unwrap();
        let mut slower = store
            .watch(Scope::collection(&maps()), Revision::ZERO)
            .unwrap();
        for number in 0..100 {
            put(&store, number % 7).await;
        }
        let mut seen = 0;
        while seen < 100 {
            let batch = slow.next_batch(13).await.unwrap();
            for event in batch.events {
                seen += 1;
                assert_eq!(event.revision(), Revision::new(seen));
            }
        }
        assert_eq!(slow.progress(), Revision::new(100));
        store.compact(Revision::new(50)).await.unwrap();
        let told = slower.next_batch(1).await.unwrap_err();
        let (after, oldest) = (Revision::ZERO, Revision::new(50));
        assert_eq!(told, WatchError::Resync { after, oldest });
        put(&store, 1).await;
        assert_eq!(
            slow.next_batch(1).await.unwrap().revision,
            Revision::new(101)
        );
    });
}

#[test]
fn a_compaction_in_many_steps_leaves_what_is_current() {
    block_on(async {
        let disk = MemoryDisk::new();
        let store = open(&disk, ring(10));
        let mut last = Revision::ZERO;
        for number in 0..5000 {
            last = put(&store, number % 10).await;
        }
        let before = store.list(&ListQuery::all(maps())).await.unwrap();
        assert_eq!(store.held().superseded, 4990);
        // Writes go on between the steps.
        let (compacted, written) = tokio::join!(store.compact(last), put(&store, 42));
        assert_eq!((compacted, written), (Ok(last), last.next()));
        assert_eq!(store.held().superseded, 0);
        let after = store.list(&ListQuery::all(maps()).at(last)).await.unwrap();
        assert_eq!(after.items, before.items);
        store.close().await.unwrap();
        let store = open(&disk, ring(10));
        let reopened = store.list(&ListQuery::all(maps()).at(last)).await.unwrap();
        assert_eq!(reopened.items, before.items);
        assert_eq!((store.oldest(), store.revision()), (last, last.next()));
        assert_eq!(store.held().superseded, 0);
    });
}

#[test]
fn a_watch_resumes_across_a_restart() {
    block_on(async {
        let disk = MemoryDisk::new();
        for events in [0, 5, 1000] {
            let store = open(&disk, ring(events));
            let from = store.revision();
            for number in 0..20 {
                put(&store, number).await;
            }
            store.close().await.unwrap();
            let store = open(&disk, ring(events));
            let mut watch = store.watch(Scope::everything(), from).unwrap();
            let mut expected = from;
            while expected < store.revision() {
                for event in watch.next_batch(7).await.unwrap().events {
                    expected = expected.next();
                    assert_eq!(event.revision(), expected);
                }
            }
            store.close().await.unwrap();
        }
    });
}

/// A dropped future loses nothing.
#[test]
fn waiting_for_events_can_be_cancelled() {
    block_on(async {
        for events in [0, 1000] {
            let store = open(&MemoryDisk::new(), ring(events));
            let mut watch = store.watch(Scope::everything(), Revision::ZERO).unwrap();
            let mut seen = Vec::new();
            for number in 0..50 {
                let put = put(&store, number);
                tokio::pin!(put);
                let mut written = false;
                // The watch is dropped in the middle when the write is done.
                while !written || seen.len() <= number as usize {
                    tokio::select! {
                        biased;
                        batch = watch.next_batch(1) => seen.extend(batch.unwrap().events),
                        _ = &mut put, if !written => written = true,
                    }
                }
            }
            let seen: Vec<_> = seen.iter().map(|event| event.revision().get()).collect();
            assert_eq!(seen, Vec::from_iter(1..=50));
        }
    });
}

/// Puts or deletes objects of a size, and drops history whenever there is too much.
async fn stay_within(max_bytes: u64, writes: &[(u64, Option<usize>)]) {
    let policy = RetentionPolicy {
        max_bytes,
        ..RetentionPolicy::default()
    };
    let disk = MemoryDisk::new();
    let store = open(&disk, ring(2));
    let mut retention = Retention::new(policy);
    for &(number, len) in writes {
        let there = store.get(&key(number)).map(|object| object.revision());
        let txn = match (len, there) {
            (Some(len), _) => Txn::put(key(number), Draft::opaque(vec![b'x'; len])),
            (None, Some(at)) => Txn::delete(key(number), at, None),
            (None, None) => continue,
        };
        store.commit(txn).await.unwrap();
        let history = store.history(&policy);
        match retention.tick(Duration::ZERO, history) {
            None => assert!(store.held().superseded_bytes <= max_bytes),
            Some(to) => {
                store.outgrown(&policy).await;
                store.compact(to).await.unwrap();
                assert!(store.held().superseded_bytes <= max_bytes - max_bytes / 8);
                // Not more than had to go.
                assert!(store.oldest() > history.oldest);
            }
        }
    }
    let (held, oldest) = (store.held(), store.oldest());
    store.close().await.unwrap();
    let store = open(&disk, ring(2));
    assert_eq!((store.held(), store.oldest()), (held, oldest));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn history_is_bounded_in_bytes(
        max_bytes in 0..20_000_u64,
        writes in vec((0..4_u64, prop_oneof![1 => Just(None), 5 => (0..3000_usize).prop_map(Some)]), 1..80),
    ) {
        block_on(stay_within(max_bytes, &writes));
    }
}

#[test]
fn too_much_history_is_an_event() {
    block_on(async {
        let store = open(&MemoryDisk::new(), ring(2));
        let policy = RetentionPolicy {
            max_bytes: 20,
            ..RetentionPolicy::default()
        };
        let outgrown = store.outgrown(&policy);
        tokio::pin!(outgrown);
        // Nothing is superseded by the first.
        tokio::select! {
            biased;
            () = &mut outgrown => panic!("there is no history"),
            _ = put(&store, 1) => {}
        }
        while store.held().superseded_bytes <= policy.max_bytes {
            put(&store, 1).await;
        }
        outgrown.await;
    });
}
