//! Storage that is not a sound store is refused, and left as it is.

use std::{fs, os::unix::fs::MetadataExt};

use deltaplane_store::{
    Collection, Embedded, ListQuery, OpenError, Options, Revision, Store, Txn,
    testing::{
        disk::MemoryDisk,
        model::{Seen, draft},
    },
};
use redb::{ReadableDatabase, TableDefinition};

use crate::support::{block_on, open, options, ring};

fn kind(error: &OpenError) -> &'static str {
    match error {
        OpenError::Locked { .. } => "locked",
        OpenError::Foreign { .. } => "foreign",
        OpenError::Newer { .. } => "newer",
        OpenError::Corrupt { .. } => "corrupt",
        OpenError::Io { .. } => "io",
    }
}

/// Opens a disk with this content, which must be refused and not change.
fn check_refused(content: &[u8], expected: &str) {
    let disk = MemoryDisk::with_content(content.to_vec());
    let error = Embedded::open_on(Box::new(disk.clone()), Options::default());
    let error = error.expect_err("it is refused");
    assert_eq!(kind(&error), expected, "{error}");
    assert!(disk.content() == content, "the disk was written to");
    assert_eq!(disk.writes(), 0);
}

fn maps() -> Collection {
    Collection::new("t", "maps").unwrap()
}

async fn fill(store: &Store) {
    for number in 0..60_u64 {
        let key = maps().key("", &(number % 40).to_string()).unwrap();
        store
            .commit(Txn::put(key, draft(number as u8)))
            .await
            .unwrap();
    }
}

async fn content(store: &Store) -> Vec<Seen> {
    let page = store.list(&ListQuery::all(maps())).await.unwrap();
    page.items.iter().map(|object| Seen::of(object)).collect()
}

/// A redb file that is not a store.
fn foreign_database(dir: &std::path::Path, closed: bool) -> Vec<u8> {
    const TABLE: TableDefinition<'static, &str, &str> = TableDefinition::new("theirs");
    let path = dir.join("theirs");
    let database = redb::Database::create(&path).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(TABLE).unwrap().insert("a", "b").unwrap();
    txn.commit().unwrap();
    if closed {
        drop(database);
        return fs::read(&path).unwrap();
    }
    fs::read(&path).unwrap()
}

#[test]
fn what_is_not_a_store_is_refused_and_not_written_to() {
    check_refused(b"#!/bin/sh\necho a script\n", "foreign");
    check_refused(b"redb", "foreign");
    check_refused(&[0; 8192], "foreign");
    check_refused(b"redb\x1a\x0a\xa9\x0d\x0a and then nothing", "corrupt");
    let dir = tempfile::tempdir().unwrap();
    check_refused(&foreign_database(dir.path(), true), "foreign");
    // Left by a crash: redb would repair it, which would be a write.
    let dir = tempfile::tempdir().unwrap();
    check_refused(&foreign_database(dir.path(), false), "foreign");
}

#[test]
fn a_newer_format_is_refused() {
    const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
    let dir = tempfile::tempdir().unwrap();
    drop(Embedded::open(dir.path(), Options::default()).unwrap());
    let path = dir.path().join("store.redb");
    let set = |name: &str, value: &[u8]| {
        let database = redb::Database::open(&path).unwrap();
        let txn = database.begin_write().unwrap();
        txn.open_table(META).unwrap().insert(name, value).unwrap();
        txn.commit().unwrap();
        drop(database);
        fs::read(&path).unwrap()
    };
    check_refused(&set("format", &2_u32.to_le_bytes()), "newer");
    check_refused(&set("format", &0_u32.to_le_bytes()), "corrupt");
    set("format", &1_u32.to_le_bytes());
    check_refused(&set("epoch", b"short"), "corrupt");
    check_refused(&set("magic", b"something else"), "foreign");
}

/// A damaged file is refused, or the damage is where nothing is kept.
#[test]
fn damage_is_noticed_or_harmless() {
    let disk = MemoryDisk::new();
    let store = open(&disk, ring(10));
    let expected = block_on(async {
        fill(&store).await;
        store.compact(Revision::new(30)).await.unwrap();
        let expected = content(&store).await;
        store.close().await.unwrap();
        expected
    });
    let sound = disk.content();
    let mut refused = 0;
    // A prime stride visits all offsets within a page over the pages.
    for at in (0..sound.len()).step_by(1997).chain(0..512) {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x10;
        let disk = MemoryDisk::with_content(damaged.clone());
        match Embedded::open_on(Box::new(disk.clone()), options(ring(10))) {
            Err(error) => {
                refused += 1;
                assert!(
                    disk.content() == damaged,
                    "byte {at}: written to after {error}"
                );
            }
            Ok(store) => block_on(async {
                let found = content(&store).await;
                assert!(found == expected, "byte {at}: silently lost or changed");
                assert_eq!(store.revision(), Revision::new(60), "byte {at}");
            }),
        }
    }
    assert!(refused > 10, "{refused} were refused");
    // Cut short.
    for len in [1, 511, 4096, sound.len() / 2] {
        let cut = Embedded::open_on(
            Box::new(MemoryDisk::with_content(sound[..len].to_vec())),
            Options::default(),
        );
        assert!(cut.is_err(), "length {len}");
    }
}

#[test]
fn a_store_on_disk_is_created_locked_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("a/b");
    let store = Embedded::open(&data, Options::default()).unwrap();
    assert_eq!(fs::metadata(&data).unwrap().mode() & 0o777, 0o700);
    let second = Embedded::open(&data, Options::default()).unwrap_err();
    let expected = format!("in use by process {}", std::process::id());
    assert_eq!(kind(&second), "locked");
    assert!(second.to_string().contains(&expected), "{second}");
    let expected = block_on(async {
        fill(&store).await;
        content(&store).await
    });
    drop(store);
    // What a process that was killed while it made a store leaves behind.
    fs::write(data.join("store.new"), "half a store").unwrap();
    let store = Embedded::open(&data, Options::default()).unwrap();
    block_on(async {
        assert_eq!(content(&store).await, expected);
        store.close().await.unwrap();
    });
    fs::write(data.join("store.redb"), "").unwrap();
    let empty = Embedded::open(&data, Options::default()).unwrap_err();
    assert_eq!(kind(&empty), "corrupt");
    assert_eq!(fs::read(data.join("store.redb")).unwrap(), b"");
}

#[test]
fn a_half_made_store_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("store.new"), "half a store").unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    block_on(async {
        fill(&store).await;
        store.close().await.unwrap();
    });
    let database = redb::Database::open(dir.path().join("store.redb")).unwrap();
    assert!(
        database
            .begin_read()
            .unwrap()
            .list_tables()
            .unwrap()
            .count()
            == 2
    );
    assert!(!dir.path().join("store.new").exists());
}
