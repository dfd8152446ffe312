//! A data directory that is moved or deleted while its store is open.
//!
//! What must hold: nothing is acknowledged that a restart would not find, reads go on, and writes
//! go on when the directory is back.

use std::{fs, path::Path, time::Duration};

use deltaplane_store::{
    Collection, CommitError, Draft, Embedded, Health, Key, OpenError, Options, Revision, Store,
    Txn, testing::disk::MemoryDisk,
};

use crate::support::block_on;

fn key(name: &str) -> Key {
    let maps = Collection::new("t", "maps").unwrap();
    maps.key("", name).unwrap()
}

/// A store that looks with every write.
fn open(dir: &Path) -> Store {
    let options = Options {
        look_every: Duration::ZERO,
        ..Options::default()
    };
    Embedded::open(dir, options).unwrap()
}

async fn put(store: &Store, name: &str) -> Result<Revision, CommitError> {
    let done = store.commit(Txn::put(key(name), Draft::opaque("x")));
    Ok(done.await?.revision)
}

fn sort(result: &Result<Revision, CommitError>) -> &'static str {
    match result {
        Ok(_) => "stored",
        Err(CommitError::Storage { reason }) if reason.contains("moved or deleted") => "refused",
        Err(CommitError::Unknown { reason }) if reason.contains("moved or deleted") => "unknown",
        Err(error) => panic!("{error}"),
    }
}

/// Takes the directory away with `lose`, and brings it back with `regain`.
fn check(lose: fn(&Path, &Path), regain: fn(&Path, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    let store = open(&here);
    block_on(async {
        let mut health = store.health();
        assert_eq!(sort(&put(&store, "a").await), "stored");
        lose(&here, &there);
        assert_eq!(health.now(), Health::Well);
        assert_eq!(sort(&put(&store, "b").await), "refused");
        assert_eq!(sort(&put(&store, "c").await), "refused");
        health.changed().await;
        assert!(matches!(health.now(), Health::Failing { .. }));
        assert!(store.get(&key("a")).is_some());
        assert!(store.get(&key("b")).is_none());
        assert!(store.get(&key("c")).is_none());
        store.get_at(&key("a"), Revision::new(1)).await.unwrap();
        regain(&here, &there);
        assert_eq!(sort(&put(&store, "d").await), "stored");
        assert_eq!(health.now(), Health::Well);
        assert!(store.get(&key("b")).is_none(), "refused and stored");
        store.close().await.unwrap();
    });
    let store = open(&here);
    let found = ["a", "b", "c", "d"].map(|name| store.get(&key(name)).is_some());
    assert_eq!(found, [true, false, false, true]);
}

#[test]
fn a_moved_directory_takes_no_writes_until_it_is_back() {
    let regain = |here: &Path, there: &Path| fs::rename(there, here).unwrap();
    check(|here, there| fs::rename(here, there).unwrap(), regain);
    // Another store has taken its place meanwhile.
    check(
        |here, there| {
            fs::rename(here, there).unwrap();
            drop(open(here));
        },
        |here, there| {
            fs::remove_dir_all(here).unwrap();
            fs::rename(there, here).unwrap();
        },
    );
}

#[test]
fn a_deleted_directory_takes_no_writes() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("here");
    let store = open(&here);
    block_on(async {
        put(&store, "a").await.unwrap();
        fs::remove_dir_all(&here).unwrap();
        assert_eq!(sort(&put(&store, "b").await), "refused");
        store.heal();
        assert_eq!(sort(&put(&store, "c").await), "refused");
        assert!(store.get(&key("a")).is_some());
        store.close().await.unwrap();
    });
}

/// The committer looked just before; the write is in the file that was moved.
#[test]
fn a_write_during_which_the_file_is_moved_has_an_unknown_outcome() {
    for fails in [false, true] {
        let disk = MemoryDisk::new();
        let options = Options {
            look_every: Duration::ZERO,
            ..Options::default()
        };
        let store = Embedded::open_on(Box::new(disk.clone()), options).unwrap();
        block_on(async {
            assert_eq!(sort(&put(&store, "a").await), "stored");
            disk.fail_writes_after(fails.then_some(0));
            disk.move_at_write();
            let result = put(&store, "b").await;
            assert!(
                matches!(result, Err(CommitError::Unknown { .. })),
                "{result:?}"
            );
            assert!(store.get(&key("b")).is_none(), "shown and not durable");
            assert_eq!(sort(&put(&store, "c").await), "refused");
            disk.fail_writes_after(None);
            disk.move_back();
            assert_eq!(sort(&put(&store, "d").await), "stored");
            let found = ["b", "c", "d"].map(|name| store.get(&key(name)).is_some());
            assert_eq!(found, [!fails, false, true]);
        });
    }
}

#[test]
fn a_moved_store_is_still_locked() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    let store = open(&here);
    fs::rename(&here, &there).unwrap();
    let second = Embedded::open(&there, Options::default());
    assert!(matches!(second, Err(OpenError::Locked { .. })));
    drop(store);
    open(&there);
}
