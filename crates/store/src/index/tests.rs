//! The tree against a `BTreeMap`, and what the index keeps of history.

use std::ops::Bound;

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{header::Header, object::Identity};

fn collection() -> Collection {
    Collection::new("t", "c").unwrap()
}

fn object(name: &str, revision: u64) -> Arc<Object> {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let identity = Identity {
        key: collection().key(namespace, name).unwrap(),
        row: Row::new(Revision::new(revision), 0),
        created: Revision::new(1),
        tag: 0,
    };
    Arc::new(Object::new(identity, Header::default(), (*b"body").into()))
}

fn key(name: &str) -> Key {
    object(name, 1).key().clone()
}

fn names<'a>(objects: impl Iterator<Item = &'a Arc<Object>>) -> Vec<String> {
    objects
        .map(|object| object.key().name().to_owned())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Mostly insertions into one or removals from one place, so that chunks
    /// fill, split, empty and merge.
    #[test]
    fn a_tree_is_a_sorted_map(
        runs in vec((any::<bool>(), 0..3000_u32, 1..700_u32, 1..4_u32), 1..12),
        after in 0..3000_u32,
        snapshot_after in 0..12_usize,
    ) {
        let mut tree = Tree::default();
        let mut map = BTreeMap::new();
        let mut snapshot = None;
        for (turn, (insert, start, len, step)) in runs.into_iter().enumerate() {
            for number in (start..start + len).step_by(step as usize) {
                let name = format!("{number:05}");
                if insert {
                    let object = object(&name, 1);
                    prop_assert_eq!(tree.insert(Arc::clone(&object)), map.insert(name, object));
                } else {
                    prop_assert_eq!(tree.remove(key(&name).as_str()), map.remove(&name));
                }
            }
            if turn == snapshot_after {
                snapshot = Some((tree.clone(), map.clone()));
            }
        }
        for (tree, map) in snapshot.into_iter().chain([(tree, map)]) {
            prop_assert_eq!(tree.len(), map.len());
            let all = Range::new(&collection(), None, None).unwrap();
            prop_assert_eq!(names(tree.range(&all)), Vec::from_iter(map.keys().cloned()));
            let after = format!("{after:05}");
            let range = Range::new(&collection(), Some(""), Some(&key(&after))).unwrap();
            let rest = map.range::<String, _>((Bound::Excluded(&after), Bound::Unbounded));
            let rest: Vec<_> = rest.map(|(name, _)| name.clone()).collect();
            prop_assert_eq!(tree.range(&range).len(), rest.len());
            prop_assert_eq!(names(tree.range(&range)), rest);
            prop_assert_eq!(tree.get(key(&after).as_str()), map.get(&after));
        }
    }
}

#[test]
fn keys_in_order_fill_chunks() {
    let mut tree = Tree::default();
    for number in 0..10_000 {
        tree.insert(object(&format!("{number:05}"), 1));
    }
    assert_eq!(tree.chunks(), 10_000_usize.div_ceil(256));
}

#[test]
fn ranges_are_namespaces() {
    let mut tree = Tree::default();
    for name in ["a", "n/a", "n/b", "n-1/a", "o/a"] {
        tree.insert(object(name, 1));
    }
    let check = |namespace: Option<&str>, after: Option<&str>, expected: &[&str]| {
        let after = after.map(key);
        let range = Range::new(&collection(), namespace, after.as_ref()).unwrap();
        assert_eq!(
            names(tree.range(&range)),
            expected,
            "{namespace:?} {after:?}"
        );
    };
    check(None, None, &["a", "a", "b", "a", "a"]);
    check(Some(""), None, &["a"]);
    check(Some("n"), None, &["a", "b"]);
    check(Some("n"), Some("n/a"), &["b"]);
    check(Some("n"), Some("n/b"), &[]);
    check(Some("n"), Some("a"), &["a", "b"]);
    check(Some("n"), Some("o/a"), &[]);
    check(Some("none"), None, &[]);
}

/// What is visible at each revision from the compacted one on.
fn visible(index: &Index, name: &str) -> Vec<Option<u64>> {
    let from = index.compacted().get();
    let at = |at: u64| index.get_at(&key(name), Revision::new(at)).unwrap();
    let revision = |slot: Slot| match slot {
        Slot::Here(object) => object.revision().get(),
        Slot::Stored(version) => version.row.revision().get(),
    };
    (from..=index.revision().get())
        .map(|number| at(number).map(revision))
        .collect()
}

#[test]
fn sweeping_forgets_what_no_revision_shows() {
    let row = |revision: u64| Row::new(Revision::new(revision), 0);
    let mut index = Index::default();
    index.put(object("a", 1));
    index.put(object("a", 2));
    index.delete(&key("a"), row(3), Some(6));
    index.put(object("a", 4));
    index.put(object("b", 5));
    assert_eq!(
        visible(&index, "a"),
        [None, Some(1), Some(2), None, Some(4), Some(4)]
    );
    assert_eq!(
        index.held(),
        Held {
            objects: 2,
            bytes: 8,
            superseded: 2,
            superseded_bytes: 4 + (4 + 6),
        }
    );
    let fitting = [14, 13, 10, 9, 0].map(|bytes| index.fitting(bytes).get());
    assert_eq!(fitting, [0, 2, 2, 3, 3]);
    index.set_compacted(Revision::new(2));
    assert_eq!(index.sweep(10), [row(1)]);
    assert_eq!(index.held().superseded_bytes, 10);
    assert_eq!(visible(&index, "a"), [Some(2), None, Some(4), Some(4)]);
    index.set_compacted(Revision::new(3));
    assert_eq!(index.sweep(10), [row(2), row(3)]);
    assert_eq!(visible(&index, "a"), [None, Some(4), Some(4)]);
    assert_eq!(
        (index.held().superseded, index.held().superseded_bytes),
        (0, 0)
    );
    index.delete(&key("a"), row(6), None);
    index.delete(&key("b"), row(7), None);
    index.set_compacted(Revision::new(7));
    assert_eq!(index.sweep(1), [row(4), row(6)]);
    assert_eq!(index.sweep(1), [row(5), row(7)]);
    assert_eq!(index.sweep(1), []);
    assert!(
        index.collections.is_empty(),
        "an empty collection is forgotten"
    );
}
