//! A data directory that is moved or deleted while its store is open.
//!
//! What must hold: nothing is acknowledged that a restart would not find, reads go on, and writes
//! go on when the directory is back.

use std::{fs, path::Path, time::Duration};

use deltaplane_store::{
    Collection, CommitError, Draft, Embedded, Health, Key, OpenError, Options, Revision, Store, Txn,
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
        // The first one finds out.
        assert_eq!(sort(&put(&store, "b").await), "unknown");
        assert_eq!(sort(&put(&store, "c").await), "refused");
        health.changed().await;
        assert!(matches!(health.now(), Health::Failing { .. }));
        assert!(store.get(&key("a")).is_some());
        assert!(store.get(&key("b")).is_none(), "shown and not durable");
        assert!(store.get(&key("c")).is_none());
        store.get_at(&key("a"), Revision::new(1)).await.unwrap();
        regain(&here, &there);
        assert_eq!(sort(&put(&store, "d").await), "stored");
        assert_eq!(health.now(), Health::Well);
        assert!(store.get(&key("b")).is_some(), "it was in the file");
        store.close().await.unwrap();
    });
    let store = open(&here);
    let found = ["a", "b", "c", "d"].map(|name| store.get(&key(name)).is_some());
    assert_eq!(found, [true, true, false, true]);
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
        assert_eq!(sort(&put(&store, "b").await), "unknown");
        store.heal();
        assert_eq!(sort(&put(&store, "c").await), "refused");
        assert!(store.get(&key("a")).is_some());
        store.close().await.unwrap();
    });
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
