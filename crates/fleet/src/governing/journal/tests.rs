use deltaplane_store::testing::disk::MemoryDisk;
use deltaplane_store::{Embedded, Options};
use deltaplane_sync::{ObjectName, SyncKind};

use super::*;
use crate::governing::Contents;

const LARGEST: usize = 4096;

fn open(disk: &MemoryDisk) -> Store {
    Embedded::open_on(Box::new(disk.clone()), Options::default()).expect("opened")
}

fn id(number: usize) -> Id {
    let kind = SyncKind::new("", "ConfigMap").expect("legal");
    (
        kind,
        ObjectName::new("team", &format!("config-{number}")).expect("legal"),
    )
}

/// A hub at which objects with these numbers were withdrawn, and the first one to be deleted.
fn withdrawn(store: &Store, numbers: impl IntoIterator<Item = usize>) -> Governing {
    let mut governing = Governing::new(Contents::new(store.clone()));
    for number in numbers {
        let withdrawal = match number {
            0 => Withdrawal::Delete,
            _ => Withdrawal::Orphan,
        };
        governing.withdraw(&id(number), Some(withdrawal));
    }
    governing
}

fn entries(governing: &mut Governing) -> JournalEntries {
    governing.journal_changed = true;
    governing.journal_within(LARGEST).expect("it changed")
}

/// What a process that begins finds in the store.
fn recalled(store: &Store) -> (Governing, Journal) {
    let mut governing = Governing::new(Contents::new(store.clone()));
    let mut journal = Journal::new(store.clone());
    journal.recall(&mut governing);
    (governing, journal)
}

/// The names and lengths of all entries but the position.
fn stored(store: &Store) -> BTreeMap<String, usize> {
    let collection = Collection::new(TENANT, JOURNAL).expect("legal");
    let snapshot = store.snapshot(&collection);
    let all = snapshot.range(None, None).into_iter().flatten();
    let all = all.map(|one| (one.key().name().to_owned(), one.bytes().len()));
    all.filter(|(name, _)| name != POSITION).collect()
}

#[tokio::test]
async fn large_entries_are_read_as_they_were_written() {
    let store = open(&MemoryDisk::new());
    let mut journal = Journal::new(store.clone());
    for count in [1000, 20, 3000, 0] {
        let mut governing = withdrawn(&store, 0..count);
        let wanted = entries(&mut governing);
        journal
            .write(&wanted, count as u64 + 1)
            .await
            .expect("written");
        let lengths = stored(&store);
        assert!(
            lengths.values().all(|length| *length <= LARGEST),
            "{lengths:?}"
        );
        assert_eq!(lengths.len() > 1, count > 20, "{lengths:?}");
        let (again, journal) = recalled(&store);
        assert_eq!(again.withdrawn, governing.withdrawn);
        assert_eq!(journal.position(), Some(count as u64 + 1));
    }
}

/// What a policy remembers of many objects.
#[tokio::test]
async fn the_memory_of_a_large_policy_is_read_as_it_was_written() {
    let store = open(&MemoryDisk::new());
    let policy = || {
        let mut governing = Governing::new(Contents::new(store.clone()));
        let targets = json!([{"kind": "ConfigMap"}]);
        let written = json!({
            "metadata": {"name": "web", "uid": "uid-web"}, "spec": {"targets": targets},
        });
        let _ = governing.policy(written, true);
        governing
    };
    let mut governing = policy();
    let governor = governing.policies.get_mut("web").expect("it is there");
    for number in 0..500 {
        governor.elsewhere.insert(id(number));
        governor.returned.insert(id(number + 500), number as u64);
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("config-{number}"), "namespace": "team"},
        });
        object["metadata"]["annotations"][crate::governing::AUTHOR] = "ann".into();
        let head = HeadObject::of(&object).expect("nothing is smuggled");
        governor.unreleased.changed(&id(number), &head, None);
    }
    let memory = governor.memory();
    let wanted = entries(&mut governing);
    Journal::new(store.clone())
        .write(&wanted, 7)
        .await
        .expect("written");
    assert!(stored(&store).len() > 1);
    let mut again = policy();
    Journal::new(store.clone()).recall(&mut again);
    assert_eq!(again.policies["web"].memory(), memory);
}

/// Whichever write is the last one, what was written down before and is to be written down now is
/// there, also if there are more parts by now.
#[tokio::test]
async fn nothing_is_lost_when_a_process_ends_between_parts() {
    for (before, now) in [(0..100, 50..400), (50..150, 0..148)] {
        for last in (0..60).step_by(2) {
            let disk = MemoryDisk::new();
            let store = open(&disk);
            let mut journal = Journal::new(store.clone());
            let first = entries(&mut withdrawn(&store, before.clone()));
            journal.write(&first, 1).await.expect("written");
            let mut second = withdrawn(&store, now.clone());
            disk.fail_writes_after(Some(last));
            let written = journal.write(&entries(&mut second), 2).await;
            let (again, journal) = recalled(&store);
            let mut stays = before.clone().filter(|number| now.contains(number));
            let known = |number| again.withdrawn.contains_key(&id(number));
            assert!(stays.all(known), "{before:?} {now:?} {last}");
            match written {
                Ok(()) => assert_eq!(again.withdrawn, second.withdrawn),
                Err(_) => assert_eq!(journal.position(), Some(1), "{last}"),
            }
            disk.fail_writes_after(None);
        }
    }
}

/// A process that begins would take the journal for complete, and replay nothing.
#[tokio::test]
async fn the_position_waits_for_an_entry_that_the_store_does_not_take() {
    let store = open(&MemoryDisk::new());
    let mut journal = Journal::new(store.clone());
    let wanted = |entry: Value| JournalEntries {
        by_name: BTreeMap::from([
            ("huge".to_owned(), entry),
            ("other".to_owned(), json!({"departed": []})),
        ]),
        has_policies: true,
    };
    journal.write(&wanted(json!({})), 1).await.expect("written");
    let huge = json!({"authors": "a".repeat(17 << 20)});
    for at in [2, 3] {
        journal
            .write(&wanted(huge.clone()), at)
            .await
            .expect("goes on");
        assert_eq!(recalled(&store).1.position(), Some(1));
    }
    assert!(stored(&store).contains_key("other"));
    journal.write(&wanted(json!({})), 4).await.expect("written");
    assert_eq!(recalled(&store).1.position(), Some(4));
}

#[test]
fn a_part_says_which_entry_it_is_of() {
    for (part, entry) in [
        ("withdrawn", "withdrawn"),
        ("withdrawn.4.3", "withdrawn"),
        ("0d3c.a.4", "0d3c.a.4"),
        ("uid.web.16.0", "uid.web"),
        (".4.", ".4."),
    ] {
        assert_eq!(parts::entry_of(part), entry);
    }
}
