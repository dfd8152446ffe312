//! What policies decide about.

use super::*;

fn policy() -> PolicyId {
    PolicyId::new("web")
}

fn slot(release: u64) -> Slot {
    Slot { release, class: 0 }
}

/// An object with these contents, by release, which none of the others has.
fn governed(contents: &[(u64, u8)]) -> Option<Entry> {
    let gone = (1..=3).map(|at| (slot(at), None));
    let contents = contents.iter();
    let contents = contents.map(|(at, is)| (slot(*at), Some(item(*is))));
    Some(Entry::Governed(Arc::new(Governed {
        policy: policy(),
        slots: gone.chain(contents).collect(),
        agreed: BTreeSet::new(),
        withdrawal: Withdrawal::Delete,
    })))
}

/// Zones at releases, or frozen where the release is 0.
fn placement(places: &[(&str, u64)]) -> Option<Placement> {
    let places = places.iter().map(|(text, release)| {
        let place = match release {
            0 => Place::Frozen,
            release => Place::At(slot(*release)),
        };
        (zone(text), place)
    });
    Some(places.collect())
}

fn placed(revision: Revision, placement: Option<Placement>) -> Edit {
    Edit::Placed {
        policy: policy(),
        revision,
        placement,
    }
}

fn zones(names: &[&str]) -> Concerned {
    Concerned::Zones(names.iter().map(|name| zone(name)).collect())
}

fn reader<'a>(catalog: &'a Catalog, zone: &'a ZoneName) -> Reader<'a> {
    Reader {
        catalog,
        zone: Some(zone),
    }
}

fn presence(catalog: &Catalog, of: &str, text: &str) -> Presence {
    reader(catalog, &zone(of)).presence(&kind(), &name(text))
}

/// What a zone is told of what changed after `cursor`.
fn told(catalog: &Catalog, cursor: u64, of: &str) -> Vec<(String, Before)> {
    let mut changes = catalog.after(cursor, Some(&zone(of)));
    let changes = changes.remove(&kind()).unwrap_or_default().into_iter();
    changes
        .map(|change| (change.name.to_string(), change.before))
        .collect()
}

fn version(content: u8) -> Before {
    Before::Version(item(content).version)
}

/// `a` differs from release to release, `b` does not, `c` is new in the second, `d` gone.
fn releases() -> Catalog {
    let mut catalog = catalog(1);
    catalog.declare(kind(), None);
    let edits = vec![
        edit("a", 2, governed(&[(1, 1), (2, 2)])),
        edit("b", 2, governed(&[(1, 1), (2, 1)])),
        edit("c", 2, governed(&[(2, 1)])),
        edit("d", 2, governed(&[(1, 1)])),
        placed(2, placement(&[("x", 1), ("y", 2), ("z", 0)])),
    ];
    catalog.apply(edits, 2);
    catalog
}

#[test]
fn a_zone_should_have_what_was_released_to_it() {
    let catalog = releases();
    let has = |of, text| presence(&catalog, of, text);
    let out = Presence::Withdrawn(Withdrawal::Delete);
    for (text, x, y) in [
        ("a", Presence::Wanted(item(1)), Presence::Wanted(item(2))),
        ("b", Presence::Wanted(item(1)), Presence::Wanted(item(1))),
        ("c", Presence::Gone, Presence::Wanted(item(1))),
        ("d", Presence::Wanted(item(1)), Presence::Gone),
    ] {
        assert_eq!((has("x", text), has("y", text)), (x, y), "{text}");
        assert_eq!(has("z", text), Presence::Frozen);
        assert_eq!(has("other", text), out);
    }
    let wanted = |of: &str| {
        let of = zone(of);
        let reader = reader(&catalog, &of);
        let wanted: Vec<String> = reader
            .wanted(&kind())
            .map(|(name, _)| name.to_string())
            .collect();
        assert_eq!(reader.count(&kind()), wanted.len() as u64);
        assert_eq!(reader.kinds().is_empty(), wanted.is_empty());
        wanted.concat()
    };
    assert_eq!(["x", "y", "z", "other"].map(wanted), ["abd", "abc", "", ""]);
}

#[test]
fn without_a_decision_everything_is_frozen() {
    let mut catalog = catalog(1);
    catalog.apply(vec![edit("a", 2, governed(&[(1, 1)]))], 2);
    assert_eq!(presence(&catalog, "x", "a"), Presence::Frozen);
    let cursor = catalog.end();
    let first = placed(3, placement(&[("x", 1), ("z", 0)]));
    assert_eq!(catalog.apply(vec![first], 3), Concerned::Everyone);
    let unknown = vec![("a".to_owned(), Before::Unknown)];
    assert_eq!(told(&catalog, cursor, "x"), unknown);
    assert_eq!(told(&catalog, cursor, "other"), unknown);
    assert_eq!(told(&catalog, cursor, "z"), []);
    // And again when there is none any more.
    let cursor = catalog.end();
    assert_eq!(catalog.apply(vec![placed(4, None)], 4), Concerned::Everyone);
    assert_eq!(presence(&catalog, "x", "a"), Presence::Frozen);
    assert_eq!(told(&catalog, cursor, "x"), [("a".to_owned(), version(1))]);
    assert_eq!(told(&catalog, cursor, "z"), []);
    let nothing = ("a".to_owned(), Before::Nothing);
    assert_eq!(told(&catalog, cursor, "other"), [nothing]);
}

#[test]
fn a_move_tells_the_moved_what_differs() {
    let mut catalog = releases();
    let cursor = catalog.end();
    let both = placed(3, placement(&[("x", 2), ("y", 2), ("z", 0)]));
    assert_eq!(catalog.apply(vec![both], 3), zones(&["x"]));
    let changes = |text: &str, before| (text.to_owned(), before);
    let expected = [
        changes("a", version(1)),
        changes("c", Before::Nothing),
        changes("d", version(1)),
    ];
    assert_eq!(told(&catalog, cursor, "x"), expected);
    assert_eq!(catalog.end() - cursor, 3);
    for other in ["y", "z", "other"] {
        assert_eq!(told(&catalog, cursor, other), []);
        let of = zone(other);
        let since = reader(&catalog, &of).since(&kind(), 2);
        assert_eq!(since, Some(Vec::new()));
    }
    // Frozen: then decided as it was, or otherwise.
    let cursor = catalog.end();
    let frozen = placed(4, placement(&[("x", 0), ("y", 2), ("z", 1)]));
    assert_eq!(catalog.apply(vec![frozen], 4), zones(&["x", "z"]));
    let had: Vec<Before> = told(&catalog, cursor, "x")
        .into_iter()
        .map(|(_, before)| before)
        .collect();
    assert_eq!(had, [version(2), version(1), version(1), Before::Nothing]);
    let of_z = told(&catalog, cursor, "z");
    assert!(of_z.iter().all(|(_, before)| *before == Before::Unknown));
    assert_eq!(of_z.len(), 4);
    // A zone that leaves, and one that joins.
    let cursor = catalog.end();
    let others = placed(5, placement(&[("x", 0), ("z", 1), ("w", 1)]));
    assert_eq!(catalog.apply(vec![others], 5), zones(&["w", "y"]));
    let expected = ["a", "b", "c", "d"].map(|text| match text {
        "a" => changes("a", version(2)),
        "d" => changes("d", Before::Nothing),
        other => changes(other, version(1)),
    });
    assert_eq!(told(&catalog, cursor, "y"), expected);
    assert_eq!(told(&catalog, cursor, "w").len(), 4);
    assert_eq!(told(&catalog, cursor, "x"), []);
}

#[test]
fn a_move_between_releases_that_are_alike_is_no_change() {
    let mut catalog = catalog(1);
    let edits = vec![
        edit("a", 2, governed(&[(1, 1), (2, 1)])),
        placed(2, placement(&[("x", 1)])),
    ];
    catalog.apply(edits, 2);
    let cursor = catalog.end();
    let moved = vec![placed(3, placement(&[("x", 2)]))];
    assert!(catalog.apply(moved, 3).is_nobody());
    assert_eq!(catalog.end(), cursor);
    let again = vec![placed(4, placement(&[("x", 2)]))];
    assert!(catalog.apply(again, 4).is_nobody());
}

#[test]
fn a_new_release_concerns_nobody_until_somebody_is_moved_to_it() {
    let mut catalog = releases();
    let cursor = catalog.end();
    let added = vec![edit("a", 3, governed(&[(1, 1), (2, 2), (3, 3)]))];
    assert!(catalog.apply(added, 3).is_nobody());
    assert_eq!(catalog.end(), cursor);
    // Nobody is told of what nobody uses any more, either.
    let dropped = vec![edit("a", 4, governed(&[(1, 1), (2, 2)]))];
    assert!(catalog.apply(dropped, 4).is_nobody());
    assert_eq!(catalog.end(), cursor);
    // Another content in a slot concerns who is there.
    let changed = vec![edit("a", 5, governed(&[(1, 1), (2, 9)]))];
    assert_eq!(catalog.apply(changed, 5), zones(&["y"]));
    assert_eq!(told(&catalog, cursor, "y"), [("a".to_owned(), version(2))]);
    assert_eq!(told(&catalog, cursor, "x"), []);
    // So does an object that comes or goes as a whole.
    let cursor = catalog.end();
    let new = vec![edit("e", 6, governed(&[(2, 1)]))];
    assert_eq!(catalog.apply(new, 6), zones(&["y", "z"]));
    assert_eq!(told(&catalog, cursor, "x"), []);
    let gone = vec![edit("e", 7, None)];
    assert_eq!(catalog.apply(gone, 7), zones(&["y", "z"]));
    let expected = [Before::Nothing, version(1)].map(|before| ("e".to_owned(), before));
    assert_eq!(told(&catalog, cursor, "y"), expected);
}

#[test]
fn a_release_and_who_is_moved_to_it_are_seen_together() {
    for placed_first in [false, true] {
        let mut catalog = releases();
        let cursor = catalog.end();
        let mut edits = vec![
            edit("a", 3, governed(&[(1, 1), (2, 2), (3, 3)])),
            placed(3, placement(&[("x", 3), ("y", 2), ("z", 0)])),
        ];
        if placed_first {
            edits.reverse();
        }
        catalog.apply(edits, 3);
        assert_eq!(presence(&catalog, "x", "a"), Presence::Wanted(item(3)));
        let first = told(&catalog, cursor, "x").into_iter().next();
        assert_eq!(first, Some(("a".to_owned(), version(1))));
        assert_eq!(told(&catalog, cursor, "y"), []);
    }
}

#[test]
fn who_was_to_lose_an_object_hears_that_somebody_agreed() {
    let gone = |agreed: &[u64]| {
        Some(Entry::Governed(Arc::new(Governed {
            policy: policy(),
            slots: [(slot(1), Some(item(1))), (slot(2), None)].into(),
            agreed: agreed.iter().copied().map(slot).collect(),
            withdrawal: Withdrawal::Orphan,
        })))
    };
    let mut catalog = catalog(1);
    let first = vec![
        edit("a", 2, gone(&[])),
        placed(2, placement(&[("x", 1), ("y", 2), ("z", 0)])),
    ];
    catalog.apply(first, 2);
    let cursor = catalog.end();
    let agreed = vec![edit("a", 3, gone(&[2]))];
    assert_eq!(catalog.apply(agreed, 3), zones(&["y"]));
    let nothing = ("a".to_owned(), Before::Nothing);
    assert_eq!(told(&catalog, cursor, "y"), [nothing]);
    assert_eq!(told(&catalog, cursor, "x"), []);
}

#[test]
fn a_policy_takes_over_what_all_had_and_gives_it_back() {
    let mut catalog = catalog(1);
    catalog.apply(vec![edit("a", 2, entry(1, Audience::Everyone))], 2);
    let cursor = catalog.end();
    let takes = vec![
        placed(3, placement(&[("x", 1), ("y", 2), ("z", 0)])),
        edit("a", 3, governed(&[(1, 1), (2, 2)])),
    ];
    assert_eq!(catalog.apply(takes, 3), Concerned::Everyone);
    // It is as it was for one.
    assert_eq!(told(&catalog, cursor, "x"), []);
    for other in ["y", "z", "other"] {
        let expected = [("a".to_owned(), version(1))];
        assert_eq!(told(&catalog, cursor, other), expected, "{other}");
    }
    let cursor = catalog.end();
    let gives = vec![edit("a", 4, entry(2, Audience::Everyone)), placed(4, None)];
    assert_eq!(catalog.apply(gives, 4), Concerned::Everyone);
    assert_eq!(told(&catalog, cursor, "x"), [("a".to_owned(), version(1))]);
    assert_eq!(told(&catalog, cursor, "y"), []);
    let unknown = ("a".to_owned(), Before::Unknown);
    assert_eq!(told(&catalog, cursor, "z"), [unknown]);
    assert!(catalog.policies.is_empty(), "not remembered");
}

#[test]
fn what_goes_along_is_what_a_zone_may_have() {
    let mut catalog = catalog(1);
    let definition = name("configmaps");
    catalog.declare(kind(), Some(definition.clone()));
    let edits = vec![
        edit("ns/a", 2, governed(&[(1, 1), (2, 2)])),
        edit("ns/b", 2, governed(&[(2, 1)])),
        edit("ns/c", 2, entry(1, Audience::Everyone)),
        placed(2, placement(&[("x", 1), ("y", 2), ("z", 0)])),
    ];
    catalog.apply(edits, 2);
    for (of, along) in [("x", 2), ("y", 3), ("z", 3), ("other", 3)] {
        let of = zone(of);
        let reader = reader(&catalog, &of);
        assert_eq!(reader.cascade(&namespaces(), &name("ns")), along);
        assert_eq!(reader.cascade(&definitions(), &definition), along);
    }
}

#[test]
fn what_a_zone_should_have_had_is_remembered_for_it_alone() {
    let mut catalog = releases();
    catalog.apply(vec![edit("d", 3, None), edit("c", 3, None)], 3);
    let remembers = |of: &str| {
        let of = zone(of);
        let names = reader(&catalog, &of).remembers(&kind());
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        names.concat()
    };
    assert_eq!(["x", "y", "z"].map(remembers), ["abcd", "abcd", "cd"]);
}

#[test]
fn who_may_or_may_not_have_seen_a_change_may_have_anything() {
    let mut catalog = catalog(1);
    catalog.apply(vec![edit("a", 5, entry(1, Audience::Everyone))], 5);
    catalog.apply(vec![edit("a", 4, entry(2, Audience::Everyone))], 4);
    let of = zone("x");
    let since = |revision| {
        let changes = reader(&catalog, &of).since(&kind(), revision);
        let changes = changes.into_iter().flatten();
        changes.map(|change| change.before).collect::<Vec<_>>()
    };
    assert_eq!(since(5), [Before::Unknown]);
    assert_eq!(since(4), [Before::Nothing, version(1)]);
}
