//! The contract that every driver keeps, as scenarios.
//!
//! Run [`check`] with a [`Harness`] for the driver; the random part is
//! [`super::model`].

use std::sync::Arc;

use bytes::Bytes;

use super::model::{Harness, PATIENCE, Seen, draft};
use crate::{
    driver::CompactError,
    event::Event,
    key::{Collection, Key, Scope},
    list::{ListQuery, ReadError},
    object::{Draft, Object},
    revision::Revision,
    store::Store,
    txn::{CommitError, Expect, InvalidTxn, Op, Txn},
    watch::{Watch, WatchError},
};

/// Runs all scenarios, each on a store of its own.
///
/// # Panics
///
/// Where the driver breaks the contract.
pub async fn check(harness: &mut dyn Harness) {
    revisions_start_at_one(harness.open()).await;
    guards_are_checked_and_answered(harness.open()).await;
    a_transaction_is_one_revision(harness.open()).await;
    deletions_show_an_end(harness.open()).await;
    invalid_transactions_change_nothing(harness.open()).await;
    pages_are_of_one_revision(harness.open()).await;
    history_can_be_read_until_compacted(harness.open()).await;
    watches_resume_anywhere(harness.open()).await;
    watches_keep_to_their_scope(harness.open()).await;
    progress_follows_other_collections(harness.open()).await;
    an_event_is_encoded_once(harness.open()).await;
    a_snapshot_does_not_change(harness.open()).await;
    a_closed_store_says_so(harness.open()).await;
    everything_survives_reopening(harness).await;
    revisions_can_be_raised(harness).await;
    revisions_survive_compacted_deletions(harness).await;
}

fn maps() -> Collection {
    Collection::new("t", "maps").expect("a legal name")
}

fn key(name: &str) -> Key {
    maps().key("ns", name).expect("a legal name")
}

fn rev(number: u64) -> Revision {
    Revision::new(number)
}

async fn put(store: &Store, name: &str, label: u8) -> Arc<Object> {
    let done = store.commit(Txn::put(key(name), draft(label))).await;
    Arc::clone(&done.expect("a put without a guard succeeds").objects[0])
}

async fn delete(store: &Store, name: &str) {
    let at = store.get(&key(name)).expect("it exists").revision();
    let done = store.commit(Txn::delete(key(name), at, None)).await;
    done.expect("a delete of what is there succeeds");
}

/// What a watch has now, as `+name`, `-name` and revision.
fn shown(events: &[Arc<Event>]) -> Vec<String> {
    let sign = |event: &Event| if event.is_delete() { '-' } else { '+' };
    let show =
        |event: &Arc<Event>| format!("{}{}@{}", sign(event), event.key().name(), event.revision());
    events.iter().map(show).collect()
}

/// Waits for at least `count` events.
async fn take(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    while events.len() < count {
        let batch = tokio::time::timeout(PATIENCE, watch.next_batch(100)).await;
        let batch = batch.expect("the watch hangs").expect("the watch goes on");
        events.extend(shown(&batch.events));
    }
    events
}

async fn revisions_start_at_one(store: Store) {
    assert_eq!(
        (store.revision(), store.oldest()),
        (Revision::ZERO, Revision::ZERO)
    );
    let object = put(&store, "a", 1).await;
    assert_eq!((object.revision(), object.created()), (rev(1), rev(1)));
    let body = r#"{"metadata":{"labels":{"n":"1"},"resourceVersion":"1"}}"#;
    assert_eq!(object.bytes(), body.as_bytes());
    assert_eq!(object.body(), body.as_bytes());
    assert_eq!(
        (object.tag(), object.header().labels().get("n")),
        (101, Some("1"))
    );
    let again = put(&store, "a", 2).await;
    assert_eq!((again.revision(), again.created()), (rev(2), rev(1)));
    assert_eq!(store.get(&key("a")), Some(again));
    assert_eq!(
        (store.snapshot(&maps()).len(), store.collections()),
        (1, vec![maps()])
    );
    assert_eq!(store.barrier().await, Ok(rev(2)));
}

async fn guards_are_checked_and_answered(store: Store) {
    let there = put(&store, "there", 1).await;
    let going = r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","resourceVersion":""#;
    let at = u32::try_from(going.len()).expect("it is short");
    let going = Op::Put(key("going"), Draft::stamped(format!("{going}\"}}}}"), at));
    let going = Txn {
        guards: vec![],
        ops: vec![going],
        ..Txn::default()
    };
    let going = store.commit(going).await.expect("committed").objects;
    let current = |name: &str| match name {
        "there" => Some(Arc::clone(&there)),
        "going" => going.first().cloned(),
        _ => None,
    };
    let guard = |name: &str, expect: Expect| Txn {
        guards: vec![(key(name), expect)],
        ops: vec![Op::Put(key("target"), draft(2))],
        ..Txn::default()
    };
    for (name, expect) in [
        ("there", Expect::Absent),
        ("there", Expect::At(rev(7))),
        ("gone", Expect::Present),
        ("gone", Expect::At(rev(1))),
        ("gone", Expect::Alive),
        ("going", Expect::Alive),
    ] {
        let expected = CommitError::Conflict {
            key: key(name),
            expect,
            current: current(name),
        };
        assert_eq!(store.commit(guard(name, expect)).await, Err(expected));
    }
    assert_eq!(
        (store.revision(), store.get(&key("target"))),
        (rev(2), None)
    );
    for (name, expect) in [
        ("gone", Expect::Absent),
        ("there", Expect::Present),
        ("there", Expect::Alive),
        ("going", Expect::Present),
        ("there", Expect::At(rev(1))),
    ] {
        store
            .commit(guard(name, expect))
            .await
            .expect("the guard holds");
    }
    let missing = store.commit(Txn::delete(key("gone"), rev(1), None)).await;
    assert!(matches!(
        missing,
        Err(CommitError::Conflict { current: None, .. })
    ));
    let unguarded = Txn {
        guards: vec![],
        ops: vec![Op::Delete(key("gone"), None)],
        ..Txn::default()
    };
    let missing = CommitError::Missing { key: key("gone") };
    assert_eq!(store.commit(unguarded).await, Err(missing));
    assert_eq!(store.revision(), rev(7));
}

async fn a_transaction_is_one_revision(store: Store) {
    let collections = ["a", "b", "c"].map(|name| Collection::new("t", name).expect("legal"));
    let keys = collections.map(|collection| collection.key("", "x").expect("legal"));
    let mut watch = store
        .watch(Scope::everything(), rev(0))
        .expect("the start can be watched");
    let txn = Txn {
        guards: vec![],
        ops: keys
            .iter()
            .map(|key| Op::Put(key.clone(), draft(1)))
            .collect(),
        ..Txn::default()
    };
    let done = store.commit(txn).await.expect("it is valid");
    let revisions: Vec<_> = done
        .objects
        .iter()
        .map(|object| object.revision())
        .collect();
    assert_eq!((done.revision, revisions), (rev(1), vec![rev(1); 3]));
    let batch = watch.next_batch(1).await.expect("there is an event");
    let seen: Vec<_> = batch
        .events
        .iter()
        .map(|event| event.key().clone())
        .collect();
    assert_eq!((seen, batch.revision), (keys.to_vec(), rev(1)));
    let failing = Txn {
        guards: vec![],
        ops: vec![
            Op::Put(keys[0].clone(), draft(2)),
            Op::Delete(key("gone"), None),
        ],
        ..Txn::default()
    };
    store
        .commit(failing)
        .await
        .expect_err("one operation cannot be done");
    assert_eq!(
        store.get(&keys[0]).map(|object| object.revision()),
        Some(rev(1))
    );
}

async fn deletions_show_an_end(store: Store) {
    let before = put(&store, "a", 1).await;
    put(&store, "b", 2).await;
    let mut watch = store
        .watch(Scope::collection(&maps()), rev(2))
        .expect("it can be watched");
    let end = Txn::delete(key("a"), rev(1), Some(draft(9)));
    let done = store.commit(end).await.expect("it is there");
    delete(&store, "b").await;
    let batch = watch.next_batch(1).await.expect("there is an event");
    let event = &batch.events[0];
    assert!(event.is_delete());
    assert_eq!(event.object(), &done.objects[0]);
    assert_eq!(event.previous(), Some(&before));
    let body = r#"{"metadata":{"labels":{"n":"9"},"resourceVersion":"3"}}"#;
    assert_eq!(event.object().bytes(), body.as_bytes());
    assert_eq!(
        (event.object().created(), event.object().revision()),
        (rev(1), rev(3))
    );
    let batch = watch.next_batch(1).await.expect("there is an event");
    let as_is = batch.events[0].object();
    let body = r#"{"metadata":{"labels":{"n":"2"},"resourceVersion":"2"}}"#;
    assert_eq!((as_is.bytes(), as_is.revision()), (body.as_bytes(), rev(4)));
    assert_eq!(
        (store.get(&key("a")), store.snapshot(&maps()).len()),
        (None, 0)
    );
    let anew = put(&store, "a", 3).await;
    assert_eq!((anew.created(), anew.revision()), (rev(5), rev(5)));
}

async fn invalid_transactions_change_nothing(store: Store) {
    let check = async |ops: Vec<Op>, expected: InvalidTxn| {
        let txn = Txn {
            guards: vec![],
            ops,
            ..Txn::default()
        };
        assert_eq!(store.commit(txn).await, Err(CommitError::Invalid(expected)));
    };
    check(vec![], InvalidTxn::Empty).await;
    let (first, second) = (key("a"), key("b"));
    let shared = vec![
        Op::Put(first.clone(), draft(1)),
        Op::Put(second.clone(), draft(1)),
    ];
    check(shared, InvalidTxn::SharedCollection { first, second }).await;
    let past_end = Op::Put(key("a"), Draft::stamped("x", 2));
    check(
        vec![past_end],
        InvalidTxn::RevisionPastEnd { key: key("a") },
    )
    .await;
    assert_eq!(
        (store.revision(), store.collections()),
        (Revision::ZERO, vec![])
    );
}

async fn pages_are_of_one_revision(store: Store) {
    for name in ["a", "b", "c", "d"] {
        put(&store, name, 1).await;
    }
    let query = ListQuery::all(maps()).in_namespace("ns").limit(2);
    let first = store.list(&query).await.expect("now can be read");
    assert_eq!(
        (first.more, first.remaining, first.revision),
        (true, Some(2), rev(4))
    );
    put(&store, "c", 2).await;
    delete(&store, "d").await;
    put(&store, "e", 1).await;
    let query = query.after(first.items[1].key().clone()).at(first.revision);
    let second = store.list(&query).await.expect("it is retained");
    let names: Vec<_> = second
        .items
        .iter()
        .map(|object| object.key().name())
        .collect();
    let revisions: Vec<_> = second
        .items
        .iter()
        .map(|object| object.revision())
        .collect();
    assert_eq!((names, revisions), (vec!["c", "d"], vec![rev(3), rev(4)]));
    assert_eq!((second.more, second.revision), (false, rev(4)));
    let other = Collection::new("t", "other")
        .expect("legal")
        .key("", "x")
        .expect("legal");
    let foreign = store
        .list(&ListQuery::all(maps()).after(other.clone()))
        .await;
    assert_eq!(foreign, Err(ReadError::ForeignKey { after: other }));
    let none = store
        .list(&ListQuery::all(maps()).limit(0))
        .await
        .expect("legal");
    assert_eq!(
        (none.items.len(), none.more, none.remaining),
        (0, true, Some(4))
    );
}

async fn history_can_be_read_until_compacted(store: Store) {
    let first = put(&store, "a", 1).await;
    let second = put(&store, "a", 2).await;
    delete(&store, "a").await;
    put(&store, "b", 3).await;
    let at = async |at: u64| store.get_at(&key("a"), rev(at)).await;
    assert_eq!(at(0).await, Ok(None));
    assert_eq!(at(1).await, Ok(Some(first)));
    assert_eq!(at(2).await, Ok(Some(Arc::clone(&second))));
    assert_eq!((at(3).await, at(4).await), (Ok(None), Ok(None)));
    let (requested, newest) = (rev(5), rev(4));
    assert_eq!(at(5).await, Err(ReadError::Future { requested, newest }));
    let future = store.compact(rev(5)).await;
    assert_eq!(future, Err(CompactError::Future { requested, newest }));
    assert_eq!(store.compact(rev(2)).await, Ok(rev(2)));
    let (requested, oldest) = (rev(1), rev(2));
    assert_eq!(at(1).await, Err(ReadError::Compacted { requested, oldest }));
    assert_eq!((at(2).await, at(3).await), (Ok(Some(second)), Ok(None)));
    assert_eq!(store.compact(rev(1)).await, Ok(rev(2)));
    let early = store.watch(Scope::everything(), rev(1)).err();
    let after = rev(1);
    assert_eq!(early, Some(WatchError::Resync { after, oldest }));
    assert_eq!(store.compact(rev(4)).await, Ok(rev(4)));
    let kept = store
        .list(&ListQuery::all(maps()))
        .await
        .expect("now can be read");
    assert_eq!(kept.items.len(), 1);
}

async fn watches_resume_anywhere(store: Store) {
    put(&store, "a", 1).await;
    put(&store, "b", 1).await;
    delete(&store, "a").await;
    put(&store, "a", 2).await;
    let all = ["+a@1", "+b@2", "-a@3", "+a@4"];
    for from in 0..=4 {
        let from_rev = rev(from as u64);
        let watch = store.watch(Scope::collection(&maps()), from_rev);
        let mut watch = watch.expect("it is retained");
        assert_eq!(take(&mut watch, 4 - from).await, all[from..]);
        assert_eq!(watch.progress(), rev(4));
        assert!(watch.try_next_batch(10).is_none());
    }
    let future = store.watch(Scope::everything(), rev(5)).err();
    let (requested, newest) = (rev(5), rev(4));
    assert_eq!(future, Some(WatchError::Future { requested, newest }));
}

async fn watches_keep_to_their_scope(store: Store) {
    let others = [
        Key::new("t", "maps", "ns", "a-1"),
        Key::new("t", "maps", "ns-1", "a"),
        Key::new("t", "maps-1", "ns", "a"),
        Key::new("t-1", "maps", "ns", "a"),
    ];
    put(&store, "a", 1).await;
    for key in others {
        let txn = Txn::put(key.expect("a legal name"), draft(1));
        store.commit(txn).await.expect("a put succeeds");
    }
    let scopes = [
        Scope::object(&key("a")),
        Scope::namespace(&maps(), "ns").expect("legal"),
        Scope::collection(&maps()),
        Scope::tenant("t").expect("legal"),
        Scope::everything(),
    ];
    for (scope, count) in scopes.into_iter().zip(1..) {
        let mut watch = store.watch(scope, rev(0)).expect("the start is retained");
        assert_eq!(take(&mut watch, count).await.len(), count);
        assert_eq!(watch.progress(), rev(5));
    }
}

async fn progress_follows_other_collections(store: Store) {
    let mut watch = store
        .watch(Scope::collection(&maps()), rev(0))
        .expect("retained");
    assert_eq!(watch.progress(), rev(0));
    let other = Key::new("t", "other", "", "x").expect("legal");
    for _ in 0..3 {
        let txn = Txn::put(other.clone(), draft(1));
        store.commit(txn).await.expect("a put succeeds");
    }
    assert_eq!(watch.progress(), rev(3));
    put(&store, "a", 1).await;
    assert_eq!(watch.progress(), rev(0));
    let batch = watch.next_batch(10).await.expect("there is an event");
    assert_eq!(
        (shown(&batch.events), batch.revision),
        (vec!["+a@4".to_owned()], rev(4))
    );
}

async fn an_event_is_encoded_once(store: Store) {
    let mut watches = [(); 2].map(|()| store.watch(Scope::everything(), rev(0)).expect("retained"));
    put(&store, "a", 1).await;
    let mut encoded = Vec::new();
    for watch in &mut watches {
        let batch = watch.next_batch(1).await.expect("there is an event");
        let number = encoded.len();
        encoded.push(
            batch.events[0].encoded(|event| Bytes::from(format!("{number} {}", event.revision()))),
        );
    }
    assert_eq!(encoded, ["0 1", "0 1"]);
}

async fn a_snapshot_does_not_change(store: Store) {
    let before = put(&store, "a", 1).await;
    let snapshot = store.snapshot(&maps());
    put(&store, "a", 2).await;
    put(&store, "b", 2).await;
    let objects: Vec<_> = snapshot
        .range(None, None)
        .expect("legal")
        .cloned()
        .collect();
    assert_eq!(
        (objects, snapshot.revision(), snapshot.len()),
        (vec![before], rev(1), 1)
    );
    assert_eq!(
        (snapshot.is_empty(), store.snapshot(&maps()).len()),
        (false, 2)
    );
}

async fn a_closed_store_says_so(store: Store) {
    let mut watch = store.watch(Scope::everything(), rev(0)).expect("retained");
    let object = put(&store, "a", 1).await;
    assert_eq!(take(&mut watch, 1).await, ["+a@1"]);
    store.close().await.expect("it was open");
    assert_eq!(watch.next_batch(1).await.err(), Some(WatchError::Closed));
    let refused = store.commit(Txn::put(key("b"), draft(1))).await;
    assert_eq!(refused, Err(CommitError::Closed));
    assert_eq!(store.compact(rev(1)).await, Err(CompactError::Closed));
    assert!(store.close().await.is_err());
    assert_eq!(store.get(&key("a")), Some(object));
}

async fn everything_survives_reopening(harness: &mut dyn Harness) {
    let store = harness.open();
    put(&store, "a", 1).await;
    put(&store, "a", 2).await;
    put(&store, "b", 3).await;
    delete(&store, "b").await;
    let epoch = store.epoch();
    let before = store.get(&key("a")).map(|object| Seen::of(&object));
    let store = harness.reopen(store).await;
    assert_eq!((store.epoch(), store.revision()), (epoch, rev(4)));
    assert_eq!(store.get(&key("a")).map(|object| Seen::of(&object)), before);
    let old = store
        .get_at(&key("a"), rev(1))
        .await
        .expect("it is retained");
    assert_eq!(old.map(|object| object.tag()), Some(101));
    let mut watch = store
        .watch(Scope::everything(), rev(1))
        .expect("it is retained");
    assert_eq!(take(&mut watch, 3).await, ["+a@2", "+b@3", "-b@4"]);
    assert_ne!(harness.open().epoch(), epoch);
}

async fn revisions_can_be_raised(harness: &mut dyn Harness) {
    let store = harness.open();
    put(&store, "a", 1).await;
    let raise = |to: u64| Txn::put(key("b"), draft(1)).not_below(rev(to));
    let raised = store.commit(raise(1_000)).await.expect("committed");
    assert_eq!(raised.revision, rev(1_000));
    // Nothing is lowered.
    let raised = store.commit(raise(7)).await.expect("committed");
    assert_eq!(raised.revision, rev(1_001));
    let store = harness.reopen(store).await;
    assert_eq!(store.revision(), rev(1_001));
    assert_eq!(put(&store, "a", 2).await.revision(), rev(1_002));
    let mut watch = store
        .watch(Scope::everything(), rev(1))
        .expect("it is retained");
    let seen = take(&mut watch, 3).await;
    assert_eq!(seen, ["+b@1000", "+b@1001", "+a@1002"]);
}

async fn revisions_survive_compacted_deletions(harness: &mut dyn Harness) {
    let store = harness.open();
    put(&store, "a", 1).await;
    put(&store, "b", 1).await;
    delete(&store, "b").await;
    delete(&store, "a").await;
    store.compact(rev(4)).await.expect("it exists");
    let store = harness.reopen(store).await;
    assert_eq!((store.revision(), store.oldest()), (rev(4), rev(4)));
    assert_eq!(store.held().superseded, 0);
    assert_eq!(put(&store, "a", 1).await.revision(), rev(5));
    let mut watch = store
        .watch(Scope::everything(), rev(4))
        .expect("it is retained");
    assert_eq!(take(&mut watch, 1).await, ["+a@5"]);
}
