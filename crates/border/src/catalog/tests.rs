use std::sync::LazyLock;

use deltaplane_sync::{Before, Presence, View};

use super::*;

fn kind() -> SyncKind {
    SyncKind::new("", "ConfigMap").expect("legal")
}

fn name(text: &str) -> ObjectName {
    text.parse().expect("legal")
}

fn zone(text: &str) -> ZoneName {
    text.parse().expect("legal")
}

fn entry(content: u8, audience: Audience) -> Option<Entry> {
    let item = item(content);
    Some(Entry::Shared { item, audience })
}

/// Hashing is slow, and the same come again.
fn item(content: u8) -> Item {
    static MADE: LazyLock<Vec<Item>> = LazyLock::new(|| (0..10).map(make).collect());
    MADE[usize::from(content)].clone()
}

fn make(content: u8) -> Item {
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": content,
    });
    let crossing = deltaplane_sync::Crossing::of(&object).expect("an object");
    Item {
        version: crossing.version(),
        body: Vec::new().into(),
        relayed: None,
    }
}

fn edit(text: &str, revision: Revision, becomes: Option<Entry>) -> Edit {
    Edit::Object {
        kind: kind(),
        name: name(text),
        revision,
        becomes,
    }
}

fn catalog(at: Revision) -> Catalog {
    Catalog::new(Openings::only(Epoch("e".into())), at)
}

#[test]
fn what_a_reader_should_have_follows_from_object_and_reader() {
    let mut catalog = catalog(1);
    catalog.declare(kind(), None);
    let edits = vec![
        edit("ns/a", 2, entry(1, Audience::Everyone)),
        edit("ns/b", 3, entry(1, Audience::EveryoneBut(zone("x")))),
        edit("ns/c", 4, entry(1, Audience::Nobody(Withdrawal::Delete))),
    ];
    assert_eq!(catalog.apply(edits, 5), Concerned::Everyone);
    let (x, y) = (zone("x"), zone("y"));
    let of = |zone| Reader {
        catalog: &catalog,
        zone: Some(zone),
    };
    let wanted = |zone| -> Vec<String> {
        let wanted = of(zone);
        let wanted = wanted.wanted(&kind());
        wanted.map(|(name, _)| name.to_string()).collect()
    };
    assert_eq!(wanted(&x), ["ns/a"]);
    assert_eq!(wanted(&y), ["ns/a", "ns/b"]);
    assert_eq!((of(&x).count(&kind()), of(&y).count(&kind())), (1, 2));
    let gone = |text| of(&y).presence(&kind(), &name(text));
    assert_eq!(gone("ns/c"), Presence::Withdrawn(Withdrawal::Delete));
    assert_eq!(gone("ns/d"), Presence::Gone);
    let unknown = SyncKind::new("", "Secret").expect("legal");
    let unknown = of(&y).presence(&unknown, &name("ns/a"));
    assert_eq!(unknown, Presence::Withdrawn(Withdrawal::Orphan));
    assert_eq!(of(&y).cascade(&namespaces(), &name("ns")), 3);
}

#[test]
fn the_log_tells_what_changed_and_nothing_twice() {
    let mut catalog = catalog(1);
    let same = entry(1, Audience::Everyone);
    assert_eq!(
        catalog.apply(vec![edit("a", 2, same.clone())], 2),
        Concerned::Everyone
    );
    assert!(
        catalog
            .apply(vec![edit("a", 3, same.clone())], 3)
            .is_nobody()
    );
    let changes = |catalog: &Catalog, revision| -> Option<Vec<(String, Revision)>> {
        let reader = Reader {
            catalog,
            zone: None,
        };
        let changes = reader.since(&kind(), revision)?.into_iter();
        Some(
            changes
                .map(|change| (change.name.to_string(), change.revision))
                .collect(),
        )
    };
    assert_eq!(changes(&catalog, 0), None);
    assert_eq!(changes(&catalog, 1), Some(vec![("a".to_owned(), 2)]));
    assert_eq!(changes(&catalog, 2), Some(vec![]));
    // A watch that lags behind tells something that others, who were at 3, have not seen.
    assert_eq!(
        catalog.apply(vec![edit("b", 2, same)], 2),
        Concerned::Everyone
    );
    assert_eq!(changes(&catalog, 3), Some(vec![("b".to_owned(), 3)]));
    assert_eq!(
        catalog.apply(vec![edit("b", 4, None)], 4),
        Concerned::Everyone
    );
    assert_eq!(changes(&catalog, 4), Some(vec![]));
}

#[test]
fn a_kind_that_is_not_sent_any_more_is_withdrawn_and_not_deleted() {
    let mut catalog = catalog(1);
    catalog.apply(vec![edit("a", 2, entry(1, Audience::Everyone))], 2);
    catalog.retire(&kind(), Withdrawal::Orphan);
    catalog.apply(vec![edit("a", 3, None)], 3);
    let reader = Reader {
        catalog: &catalog,
        zone: None,
    };
    let presence = reader.presence(&kind(), &name("a"));
    assert_eq!(presence, Presence::Withdrawn(Withdrawal::Orphan));
}

#[test]
fn instances_need_the_graph_that_is_there_and_accepted() {
    let mut catalog = catalog(1);
    let put = |catalog: &mut Catalog, graph: &str, becomes| {
        let edit = Edit::Object {
            kind: graphs(),
            name: name(graph),
            revision: 2,
            becomes,
        };
        catalog.apply(vec![edit], 2);
    };
    let needed = |catalog: &Catalog| {
        let reader = Reader {
            catalog,
            zone: None,
        };
        let needs = reader.needs(&kind(), &name("a")).into_iter();
        needs.map(|need| need.name.to_string()).collect::<Vec<_>>()
    };
    let pending = || Some((kind(), GraphClaim::Pending));
    catalog.set_graph(&name("b"), pending());
    assert_eq!(needed(&catalog), [""; 0], "it is not there");
    put(&mut catalog, "b", entry(1, Audience::Everyone));
    assert_eq!(needed(&catalog), ["b"]);
    // Whoever names the kind of another graph withholds none of its instances.
    catalog.set_graph(&name("b"), Some((kind(), GraphClaim::Accepted)));
    put(&mut catalog, "a", entry(1, Audience::Everyone));
    catalog.set_graph(&name("a"), pending());
    assert_eq!(needed(&catalog), ["b"]);
    // The graph of another kind is none of these.
    catalog.set_graph(&name("a"), Some((graphs(), GraphClaim::Accepted)));
    put(&mut catalog, "b", None);
    assert_eq!(needed(&catalog), [""; 0]);
}

#[test]
fn a_zone_withdraws_nothing_of_a_kind_that_its_catalog_does_not_know() {
    let catalog = catalog(1);
    let presence = |zone: Option<&ZoneName>| {
        let reader = Reader {
            catalog: &catalog,
            zone,
        };
        reader.presence(&kind(), &name("a"))
    };
    assert_eq!(presence(None), Presence::Frozen);
    // The hub knows all kinds that cross.
    let withdrawn = Presence::Withdrawn(Withdrawal::Orphan);
    assert_eq!(presence(Some(&zone("x"))), withdrawn);
}

mod governed;
mod schedules;
