//! A disk that is full, fails and loses power.
//!
//! What must hold, whatever happens: what was acknowledged is there; what was
//! refused is not; what anybody saw stays; reads go on; and writes go on when
//! the disk does.

use std::sync::Arc;

use deltaplane_store::{
    Collection, CommitError, Draft, Embedded, Event, Health, Key, ListQuery, Options, Revision,
    Scope, Store, Txn, Watch, WatchError,
    testing::disk::{MemoryDisk, SyncFault},
};
use proptest::{collection::vec, prelude::*};

use crate::support::{block_on, open, options, ring};

fn maps() -> Collection {
    Collection::new("t", "maps").unwrap()
}

fn key(number: u64) -> Key {
    maps().key("", &number.to_string()).unwrap()
}

/// Puts content of a size under one of a few keys. The tag tells it apart.
async fn put(store: &Store, tag: u64, len: usize) -> Result<Revision, CommitError> {
    let draft = Draft::opaque(vec![b'x'; len]).tagged(tag);
    let done = store.commit(Txn::put(key(tag % 5), draft)).await?;
    Ok(done.revision)
}

/// The tags and revisions of all changes, from the log and the ring.
async fn log(store: &Store) -> Vec<(u64, u64)> {
    let mut watch = store.watch(Scope::everything(), Revision::ZERO).unwrap();
    let mut log = Vec::new();
    while watch.progress() < store.revision() {
        let batch = watch.next_batch(100).await.unwrap();
        log.extend(batch.events.iter().map(seen));
    }
    log
}

fn seen(event: &Arc<Event>) -> (u64, u64) {
    (event.revision().get(), event.object().tag())
}

fn refused(result: &Result<Revision, CommitError>) -> bool {
    matches!(result, Err(CommitError::Storage { .. }))
}

fn unknown(result: &Result<Revision, CommitError>) -> bool {
    matches!(result, Err(CommitError::Unknown { .. }))
}

#[test]
fn acknowledged_writes_survive_power_loss() {
    let check = |survives: fn(usize) -> bool| {
        let disk = MemoryDisk::new();
        let mut expected = Vec::new();
        for round in 0..10 {
            let store = open(&disk, ring(10));
            block_on(async {
                assert_eq!(log(&store).await, expected);
                for tag in round * 10..round * 10 + 7 {
                    let revision = put(&store, tag, 1000).await.unwrap();
                    expected.push((revision.get(), tag));
                }
                if round % 3 == 2 {
                    store.compact(store.oldest()).await.unwrap();
                }
                disk.lose_power(survives);
            });
        }
    };
    check(|_| false);
    check(|_| true);
    check(|sector| sector % 3 == 1);
}

#[test]
fn a_full_disk_fails_writes_keeps_reads_and_recovers() {
    block_on(async {
        let disk = MemoryDisk::new();
        let store = open(&disk, ring(2));
        for tag in 0..20 {
            put(&store, tag, 1000).await.unwrap();
        }
        let mut behind = store.watch(Scope::everything(), Revision::new(3)).unwrap();
        disk.fill_up_to(0);
        // Free pages are used first.
        let mut tag = 20;
        while put(&store, tag, 100_000).await.is_ok() {
            tag += 1;
        }
        let newest = store.revision();
        for tag in 1000..1005 {
            let result = put(&store, tag, 100_000).await;
            assert!(refused(&result), "{result:?}");
        }
        assert_eq!(store.revision(), newest);
        assert_eq!(store.get(&key(0)).map(|object| object.tag() % 5), Some(0));
        // From the log, since the ring is small.
        let old = store
            .list(&ListQuery::all(maps()).at(Revision::new(7)))
            .await
            .unwrap();
        let tags: Vec<_> = old.items.iter().map(|object| object.tag()).collect();
        assert_eq!(tags, [5, 6, 2, 3, 4]);
        assert_eq!(behind.next_batch(1).await.unwrap().events.len(), 1);
        disk.make_room();
        let revision = put(&store, tag, 100_000).await.unwrap();
        assert!(revision > newest);
        let tags: Vec<_> = log(&store).await.into_iter().map(|(_, tag)| tag).collect();
        assert_eq!(tags, Vec::from_iter(0..=tag));
    });
}

/// A write that would not hold anyway is told why, on a disk that takes none.
#[test]
fn a_full_disk_does_not_hide_conflicts() {
    let disk = MemoryDisk::new();
    let store = open(&disk, ring(100));
    block_on(async {
        put(&store, 1, 10).await.unwrap();
        disk.fail_writes_after(Some(0));
        let create = |number: u64| Txn::create(key(number), Draft::opaque(vec![b'y'; 10]));
        // The second one is refused before it is tried.
        for _ in 0..2 {
            let absent = store.commit(create(2)).await;
            assert!(
                matches!(absent, Err(CommitError::Storage { .. })),
                "{absent:?}"
            );
            let taken = store.commit(create(1)).await;
            assert!(
                matches!(taken, Err(CommitError::Conflict { .. })),
                "{taken:?}"
            );
            let missing = store
                .commit(Txn::delete(key(3), Revision::new(1), None))
                .await;
            assert!(
                matches!(missing, Err(CommitError::Conflict { .. })),
                "{missing:?}"
            );
        }
        // Of two at once, neither sees what the other would have done.
        let (first, second) = tokio::join!(store.commit(create(2)), store.commit(create(2)));
        for refused in [first, second] {
            assert!(
                matches!(refused, Err(CommitError::Storage { .. })),
                "{refused:?}"
            );
        }
        disk.fail_writes_after(None);
        store.commit(create(2)).await.unwrap();
    });
}

#[test]
fn health_is_told_when_it_changes() {
    block_on(async {
        let disk = MemoryDisk::new();
        let store = open(&disk, ring(2));
        let mut health = store.health();
        put(&store, 0, 1000).await.unwrap();
        assert_eq!(health.now(), Health::Well);
        for write in [true, false] {
            disk.fill_up_to(0);
            while put(&store, 2, 100_000).await.is_ok() {}
            health.changed().await;
            let Health::Failing { reason } = health.now() else {
                panic!("it fails");
            };
            assert!(reason.contains("no storage space"), "{reason}");
            assert!(refused(&put(&store, 3, 100_000).await));
            store.heal();
            assert!(refused(&put(&store, 3, 100_000).await));
            disk.make_room();
            match write {
                true => drop(put(&store, 1, 1000).await.unwrap()),
                // Nobody writes, but it is tried.
                false => store.heal(),
            }
            health.changed().await;
            assert_eq!(health.now(), Health::Well);
        }
        store.close().await.unwrap();
        health.changed().await;
        assert_eq!(health.now(), Health::Closed);
    });
}

#[test]
fn a_store_opens_on_a_full_disk() {
    block_on(async {
        let disk = MemoryDisk::new();
        let store = open(&disk, ring(2));
        put(&store, 0, 1000).await.unwrap();
        disk.lose_power(|_| true);
        disk.fail_writes_after(Some(0));
        let store = open(&disk, ring(2));
        assert_eq!(log(&store).await, [(1, 0)]);
        assert!(refused(&put(&store, 1, 1000).await));
        assert!(matches!(store.health().now(), Health::Failing { .. }));
        disk.fail_writes_after(None);
        put(&store, 2, 1000).await.unwrap();
        let tags: Vec<_> = log(&store).await.into_iter().map(|(_, tag)| tag).collect();
        assert_eq!(tags, [0, 2]);
    });
}

/// After one failed sync the store finds out what became of the write; either
/// way it survives if and only if it was acknowledged.
#[test]
fn a_failed_sync_is_settled() {
    for fault in [SyncFault::Keeps, SyncFault::Forgets, SyncFault::Lies] {
        for more in [0, 1] {
            block_on(async {
                let disk = MemoryDisk::new();
                let store = open(&disk, ring(2));
                put(&store, 0, 1000).await.unwrap();
                disk.fail_syncs(&[fault]);
                let result = put(&store, 1, 1000).await;
                assert!(!unknown(&result), "{fault:?}: {result:?}");
                for tag in 2..2 + more {
                    put(&store, tag, 1000).await.unwrap();
                }
                let expected = log(&store).await;
                assert_eq!(expected.contains(&(2, 1)), result.is_ok());
                disk.lose_power(|_| false);
                assert_eq!(log(&open(&disk, ring(2))).await, expected, "{fault:?}");
            });
        }
    }
}

/// While syncs go on failing nobody can know; when they work again, the write
/// is shown if it is there, before anything that comes after it.
#[test]
fn a_write_of_unknown_outcome_appears_or_does_not() {
    for fault in [SyncFault::Keeps, SyncFault::Forgets, SyncFault::Lies] {
        block_on(async {
            let disk = MemoryDisk::new();
            let store = open(&disk, ring(2));
            put(&store, 0, 1000).await.unwrap();
            let mut watch = store.watch(Scope::everything(), Revision::new(1)).unwrap();
            disk.fail_syncs(&[fault; 4]);
            let result = put(&store, 1, 1000).await;
            assert!(unknown(&result), "{fault:?}: {result:?}");
            assert_eq!(
                (store.revision(), store.get(&key(1))),
                (Revision::new(1), None)
            );
            while refused(&put(&store, 2, 1000).await) {}
            let mut events = Vec::new();
            while watch.progress() < store.revision() {
                events.extend(watch.next_batch(1).await.unwrap().events);
            }
            let found: Vec<_> = events.iter().map(seen).collect();
            assert_eq!(found.first(), Some(&(2, 1)), "{fault:?}");
            assert_eq!(found.last().map(|(_, tag)| *tag), Some(2), "{fault:?}");
            disk.lose_power(|_| false);
            assert_eq!(log(&open(&disk, ring(2))).await[1..], found, "{fault:?}");
        });
    }
}

/// A store never goes on where acknowledged writes are missing.
#[test]
fn a_storage_that_went_back_in_time_is_not_written_to() {
    block_on(async {
        let other = MemoryDisk::new();
        put(&open(&other, ring(2)), 0, 1000).await.unwrap();
        let disk = MemoryDisk::new();
        let store = open(&disk, ring(2));
        put(&store, 0, 1000).await.unwrap();
        let old = disk.content();
        put(&store, 1, 1000).await.unwrap();
        for content in [old, other.content()] {
            disk.replace(content.clone());
            disk.fail_writes_after(Some(0));
            put(&store, 2, 1000).await.unwrap_err();
            disk.fail_writes_after(None);
            put(&store, 3, 1000).await.unwrap_err();
            assert!(disk.content() == content);
            assert_eq!(store.revision(), Revision::new(2));
            assert_eq!(store.get(&key(1)).map(|object| object.tag()), Some(1));
        }
    });
}

/// redb refuses everything after one failed read; the store does not.
#[test]
fn a_failed_read_is_not_the_end() {
    block_on(async {
        let disk = MemoryDisk::new();
        let uncached = Options {
            cache_bytes: 0,
            ..options(ring(0))
        };
        let store = Embedded::open_on(Box::new(disk.clone()), uncached).unwrap();
        for tag in 0..200 {
            put(&store, tag, 1000).await.unwrap();
        }
        disk.fail_reads(true);
        let mut watch = store.watch(Scope::everything(), Revision::ZERO).unwrap();
        let failed = async |watch: &mut Watch| {
            let error = watch.next_batch(1000).await.unwrap_err();
            assert!(matches!(error, WatchError::Storage { .. }), "{error}");
        };
        failed(&mut watch).await;
        assert_eq!(store.get(&key(4)).map(|object| object.tag()), Some(199));
        disk.fail_reads(false);
        // The engine recovers behind the reads, without a write.
        while watch.next_batch(1000).await.is_err() {
            tokio::task::yield_now().await;
        }
        disk.fail_reads(true);
        failed(&mut store.watch(Scope::everything(), Revision::ZERO).unwrap()).await;
        disk.fail_reads(false);
        put(&store, 200, 1000).await.unwrap();
        assert_eq!(log(&store).await.len(), 201);
    });
}

/// A disk that was still failing when the engine tried to recover must not leave reads broken
/// until somebody writes.
#[test]
fn reads_recover_after_a_recovery_that_failed() {
    block_on(async {
        let disk = MemoryDisk::new();
        let uncached = Options {
            cache_bytes: 0,
            ..options(ring(0))
        };
        let store = Embedded::open_on(Box::new(disk.clone()), uncached).unwrap();
        put(&store, 0, 1000).await.unwrap();
        disk.fail_reads(true);
        let mut watch = store.watch(Scope::everything(), Revision::ZERO).unwrap();
        watch.next_batch(1000).await.unwrap_err();
        // Answered after the attempt to recover.
        put(&store, 1, 1000).await.unwrap_err();
        disk.fail_reads(false);
        while watch.next_batch(1000).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_compaction_that_fails_is_finished_later() {
    block_on(async {
        let disk = MemoryDisk::new();
        let store = open(&disk, ring(2));
        for tag in 0..50 {
            put(&store, tag, 100).await.unwrap();
        }
        disk.fail_writes_after(Some(0));
        store.compact(Revision::new(40)).await.unwrap_err();
        assert_eq!(store.oldest(), Revision::new(40));
        disk.fail_writes_after(None);
        store.compact(Revision::new(40)).await.unwrap();
        disk.lose_power(|_| false);
        let store = open(&disk, ring(2));
        assert_eq!(
            (store.oldest(), store.revision()),
            (Revision::new(40), Revision::new(50))
        );
        assert_eq!(store.held().superseded, 10);
    });
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    Put(usize),
    Compact,
    Full(usize),
    FailWrites(u64),
    FailSyncs(Vec<SyncFault>),
    FailReads,
    AllIsWell,
    LosePower(u64),
}

/// What happened to a store, as its users know it.
#[derive(Default)]
struct Witness {
    acknowledged: Vec<(u64, u64)>,
    refused: Vec<u64>,
    /// What somebody saw, which must stay.
    seen: Vec<(u64, u64)>,
    compacted: u64,
}

impl Witness {
    /// Checks a log that begins after the compacted revision.
    fn check(&self, log: &[(u64, u64)]) {
        assert!(log.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "{log:?}");
        for lost in self.acknowledged.iter().chain(&self.seen) {
            let compacted = lost.0 <= self.compacted;
            assert!(compacted || log.contains(lost), "{lost:?} is lost: {log:?}");
        }
        let undead = log.iter().find(|(_, tag)| self.refused.contains(tag));
        assert_eq!(undead, None, "a refused write appeared");
    }
}

async fn happen(disk: &MemoryDisk, store: &Store, witness: &mut Witness, tag: u64, len: usize) {
    match put(store, tag, len).await {
        Ok(revision) => {
            let object = store
                .get(&key(tag % 5))
                .expect("acknowledged and not visible");
            assert_eq!((object.revision(), object.tag()), (revision, tag));
            witness.acknowledged.push((revision.get(), tag));
        }
        Err(CommitError::Storage { .. }) => witness.refused.push(tag),
        Err(CommitError::Unknown { .. }) => {}
        Err(error) => panic!("{error}, after {} writes", disk.writes()),
    }
}

async fn rest(store: &Store, from: u64) -> Option<Vec<(u64, u64)>> {
    let mut watch = store.watch(Scope::everything(), Revision::new(from)).ok()?;
    let mut log = Vec::new();
    while watch.progress() < store.revision() {
        log.extend(watch.next_batch(3).await.ok()?.events.iter().map(seen));
    }
    Some(log)
}

async fn live_through(happenings: &[Happening]) {
    let disk = MemoryDisk::new();
    let mut store = open(&disk, ring(3));
    let mut witness = Witness::default();
    for (tag, happening) in (0..).zip(happenings) {
        match happening {
            Happening::Put(len) => happen(&disk, &store, &mut witness, tag, *len).await,
            Happening::Compact => {
                let to = Revision::new(store.revision().get().saturating_sub(4));
                // Whether it succeeds or not, what is before may be gone.
                let _ = store.compact(to).await;
                witness.compacted = witness.compacted.max(to.get());
            }
            Happening::Full(bytes) => disk.fill_up_to(*bytes),
            Happening::FailWrites(count) => disk.fail_writes_after(Some(*count)),
            Happening::FailSyncs(faults) => disk.fail_syncs(faults),
            Happening::FailReads => disk.fail_reads(true),
            Happening::AllIsWell => well(&disk),
            Happening::LosePower(seed) => {
                disk.lose_power(|sector| (sector as u64).wrapping_mul(2 * seed + 1) >> 3 & 1 == 1);
                drop(store);
                store = open(&disk, ring(3));
            }
        }
        // While the disk fails, the log may be unreadable; memory never is.
        let known = store.oldest().get().max(witness.compacted);
        if let Some(log) = rest(&store, known).await {
            witness.check(&log);
            witness.seen.extend(log);
        }
    }
    well(&disk);
    happen(&disk, &store, &mut witness, happenings.len() as u64, 10).await;
    assert!(
        witness
            .acknowledged
            .last()
            .is_some_and(|last| last.1 == happenings.len() as u64)
    );
    disk.lose_power(|_| false);
    drop(store);
    let store = open(&disk, ring(3));
    let known = store.oldest().get();
    let log = rest(&store, known).await.expect("a sound disk can be read");
    witness.compacted = witness.compacted.max(known);
    witness.check(&log);
}

fn well(disk: &MemoryDisk) {
    disk.make_room();
    disk.fail_writes_after(None);
    disk.fail_syncs(&[]);
    disk.fail_reads(false);
}

fn happening() -> impl Strategy<Value = Happening> {
    let fault = prop_oneof![
        Just(SyncFault::Keeps),
        Just(SyncFault::Forgets),
        Just(SyncFault::Lies),
    ];
    prop_oneof![
        12 => prop_oneof![Just(10_usize), Just(3000), Just(50_000)].prop_map(Happening::Put),
        1 => Just(Happening::Compact),
        1 => (0..20_000_usize).prop_map(Happening::Full),
        1 => (0..12_u64).prop_map(Happening::FailWrites),
        2 => vec(fault, 1..6).prop_map(Happening::FailSyncs),
        1 => Just(Happening::FailReads),
        3 => Just(Happening::AllIsWell),
        2 => any::<u32>().prop_map(|seed| Happening::LosePower(u64::from(seed))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_disk_does_the_promise_holds(happenings in vec(happening(), 1..40)) {
        block_on(live_through(&happenings));
    }
}
