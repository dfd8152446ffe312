use deltaplane_sync::{Arrival, Position};
use serde_json::json;

use super::*;

fn zone(name: &str) -> ZoneName {
    name.parse().expect("legal")
}

fn id(name: &str) -> ObjectId {
    ObjectId {
        kind: SyncKind::new("", "ConfigMap").expect("legal"),
        namespace: "team".to_owned(),
        name: name.to_owned(),
    }
}

/// As the hub would send it.
fn object(name: &str, content: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"content": content},
        "metadata": {"name": name, "namespace": "team"},
    })
}

/// The same as it is in a zone.
fn mirrored(name: &str, content: &str) -> Value {
    let source: Position = "s.o@7".parse().expect("legal");
    let crossing = Crossing::of(&object(name, content)).expect("an object");
    let mut mirrored = crossing.arriving(Arrival {
        name,
        origin: &Origin::Hub,
        authored_as: name,
        source: &source,
    });
    mirrored["metadata"]["managedFields"] = json!([{
        "manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:data": {"f:content": {}}},
    }]);
    mirrored
}

fn divergence(name: &str, budget: u64, objects: &[(&str, &str)]) -> Divergence {
    let objects = objects.iter().map(|(name, difference)| {
        json!({"namespace": "team", "name": name, "difference": difference, "policy": null, "overridden": *name == "patched", "doubtfulAbsence": *name == "doubtful", "createdSince": *name == "since"})
    });
    let answer = json!({
        "diverged": true, "followed": 60, "revision": 43,
        "deletionBudget": {"max": budget, "percent": 0},
        "kinds": [{
            "group": "", "kind": "ConfigMap", "plural": "configmaps", "more": 0, "wanted": 10,
            "objects": objects.collect::<Vec<_>>(),
        }],
    });
    Divergence::read(&zone(name), &answer).expect("diverged")
}

fn keep_zone(divergences: &[Divergence], contents: Vec<ZoneContents>) -> Plan {
    let zones = divergences.iter().cloned().zip(contents);
    let zones: Vec<ReadZone> = zones
        .map(|(divergence, contents)| ReadZone {
            divergence,
            contents,
        })
        .collect();
    super::keep_zone(&zones)
}

fn contents(objects: &[(&str, Option<&Value>)]) -> ZoneContents {
    let mut contents = ZoneContents::default();
    for (name, found) in objects {
        contents.insert(id(name), *found);
    }
    contents
}

#[test]
fn the_hub_takes_over_what_zones_agree_on() {
    let changed = mirrored("changed", "2");
    let other = mirrored("changed", "3");
    let new = mirrored("new", "1");
    let differing = [
        ("changed", "Changed"),
        ("gone", "OnlyAtHub"),
        ("new", "OnlyInZone"),
    ];
    let (one, two) = (
        divergence("a", 9, &differing),
        divergence("b", 9, &differing),
    );
    let of = |changed: &Value| {
        contents(&[
            ("changed", Some(changed)),
            ("gone", None),
            ("new", Some(&new)),
        ])
    };
    let plan = keep_zone(
        &[one.clone(), two.clone()],
        vec![of(&changed), of(&changed)],
    );
    let writes: Vec<(String, &HubWrite)> = plan
        .writes()
        .map(|(id, write)| (id.name.clone(), write))
        .collect();
    let put = |name: &str, content: &str| HubWrite::Put(object(name, content));
    assert_eq!(
        writes,
        [
            ("changed".to_owned(), &put("changed", "2")),
            ("new".to_owned(), &put("new", "1")),
            ("gone".to_owned(), &HubWrite::Delete),
        ]
    );
    assert!(plan.is_whole() && plan.settles(&zone("a")));
    // Where they disagree nobody is settled.
    let plan = keep_zone(&[one.clone(), two], vec![of(&changed), of(&other)]);
    assert_eq!(plan.writes().count(), 2);
    assert!(!plan.settles(&zone("a")) && !plan.settles(&zone("b")));
    assert_eq!(
        plan.problems(),
        "ConfigMap team/changed is left as it is: zones disagree about it: a and b differ from the hub in different ways; reconcile them one by one\nnot settled: a, b\n"
    );
    // So it is where one has what the hub has.
    let same = divergence("b", 9, &[]);
    let plan = keep_zone(&[one, same], vec![of(&changed), contents(&[])]);
    assert_eq!(plan.writes().count(), 0);
    assert!(!plan.settles(&zone("a")) && plan.settles(&zone("b")));
    let left = plan.problems();
    assert!(
        left.contains("team/changed is left as it is: zones disagree about it: b has it as the hub does, and a does not; reconcile them one by one\n"),
        "{left}"
    );
}

/// A policy is for one of them only.
#[test]
fn a_zone_that_is_not_to_have_an_object_has_no_say_in_it() {
    let changed = mirrored("changed", "2");
    let new = mirrored("new", "1");
    let differing = [
        ("changed", "Changed"),
        ("gone", "OnlyAtHub"),
        ("new", "OnlyInZone"),
    ];
    let one = divergence("a", 9, &differing);
    let has = contents(&[
        ("changed", Some(&changed)),
        ("gone", None),
        ("new", Some(&new)),
    ]);
    let nothing = contents(&[("changed", None), ("gone", None), ("new", None)]);
    let plan = keep_zone(&[one, divergence("b", 9, &[])], vec![has, nothing]);
    let writes: Vec<&str> = plan.writes().map(|(id, _)| id.name.as_str()).collect();
    assert_eq!(writes, ["changed", "gone"]);
    // Nobody knows whether it was deleted in the other one, or was never meant for it.
    assert_eq!(
        plan.problems(),
        "ConfigMap team/new is left as it is: of the zones that are reconciled only a has it, and the hub does not know whether b lost it or was never to have it; to keep it: deltaplane zones reconcile a --keep zone, to delete it: deltaplane zones reconcile a --keep hub\nnot settled: a\n"
    );
}

/// The object was sent at revision 7 of the lost future.
#[test]
fn a_zone_that_had_not_followed_so_far_has_no_say_in_an_object() {
    let new = mirrored("new", "1");
    let has = || contents(&[("new", Some(&new))]);
    let lacks = || contents(&[("new", None)]);
    let one = divergence("a", 9, &[("new", "OnlyInZone")]);
    let mut behind = divergence("b", 9, &[]);
    behind.followed = 6;
    let plan = keep_zone(&[one.clone(), behind.clone()], vec![has(), lacks()]);
    assert_eq!(plan.writes().count(), 1, "{}", plan.problems());
    assert!(plan.settles(&zone("a")) && plan.settles(&zone("b")));
    // Nobody knows how far a zone followed that lost its record.
    behind.record_lost = true;
    let plan = keep_zone(&[one.clone(), behind.clone()], vec![has(), lacks()]);
    assert_eq!(plan.writes().count(), 0);
    behind.record_lost = false;
    behind.followed = 7;
    let plan = keep_zone(&[one, behind], vec![has(), lacks()]);
    assert_eq!(plan.writes().count(), 0);
    assert!(!plan.settles(&zone("a")) && plan.settles(&zone("b")));
}

#[test]
fn deletions_at_the_hub_keep_to_the_budget() {
    let differing = [("x", "OnlyAtHub"), ("y", "OnlyAtHub")];
    let absent = || contents(&[("x", None), ("y", None)]);
    let plan = keep_zone(&[divergence("a", 2, &differing)], vec![absent()]);
    assert!(!plan.exceeds_budget());
    let plan = keep_zone(&[divergence("a", 1, &differing)], vec![absent()]);
    assert!(plan.exceeds_budget() && !plan.is_whole());
    assert_eq!(
        plan.problems(),
        "2 ConfigMap objects would be deleted at the hub, and the deletion budget of zone a allows 1\nhint: delete them at the hub first, or raise spec.deletionBudget of the zone\n"
    );
}

#[test]
fn what_others_go_with_is_named_and_not_deleted_at_the_hub() {
    let kinds = [
        ("", "Namespace", "namespaces", "team"),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            "widgets.example.com",
        ),
        ("", "PersistentVolume", "persistentvolumes", "disk"),
    ];
    let kinds = kinds.map(|(group, kind, plural, name)| {
        json!({
            "group": group, "kind": kind, "plural": plural, "more": 0, "wanted": 10,
            "objects": [{"namespace": "", "name": name, "difference": "OnlyAtHub"}],
        })
    });
    let answer = json!({
        "diverged": true, "followed": 60, "revision": 43, "kinds": kinds,
        "deletionBudget": {"max": 100, "percent": 100},
    });
    let divergence = Divergence::read(&zone("a"), &answer).expect("diverged");
    let mut absent = ZoneContents::default();
    for id in divergence.objects.keys() {
        absent.insert(id.clone(), None);
    }
    let plan = keep_zone(&[divergence], vec![absent]);
    let writes: Vec<String> = plan.writes().map(|(id, _)| id.to_string()).collect();
    assert_eq!(writes, ["PersistentVolume disk"]);
    assert!(!plan.settles(&zone("a")));
    assert_eq!(
        plan.problems(),
        "Namespace team is left as it is: deleting it at the hub would delete all objects in it, also those that are not synced; if that is meant, delete it with kubectl, and reconcile again
CustomResourceDefinition widgets.example.com is left as it is: deleting it at the hub would delete all objects of its kind, also those that are not synced; if that is meant, delete it with kubectl, and reconcile again
not settled: a
"
    );
}

#[test]
fn an_object_that_the_zone_may_never_have_had_is_not_deleted_at_the_hub() {
    let differing = [("doubtful", "OnlyAtHub"), ("gone", "OnlyAtHub")];
    let absent = contents(&[("doubtful", None), ("gone", None)]);
    let plan = keep_zone(&[divergence("a", 9, &differing)], vec![absent]);
    let deleted: Vec<&str> = plan.writes().map(|(id, _)| id.name.as_str()).collect();
    assert_eq!(deleted, ["gone"]);
    assert!(!plan.settles(&zone("a")));
    assert_eq!(
        plan.problems(),
        "ConfigMap team/doubtful is left as it is: the zone lacks it, and the hub does not know whether it ever had it; delete it at the hub, or settle the zone with --keep hub\nnot settled: a\n"
    );
}

#[test]
fn an_object_that_the_zone_was_never_sent_stays_at_the_hub() {
    let differing = [("gone", "OnlyAtHub"), ("since", "OnlyAtHub")];
    let zones = ["a", "b"].map(|name| divergence(name, 9, &differing));
    let absent = || contents(&[("gone", None), ("since", None)]);
    let check = |zones: &[Divergence], contents: Vec<ZoneContents>| {
        let plan = keep_zone(zones, contents);
        let deleted: Vec<&str> = plan.writes().map(|(id, _)| id.name.as_str()).collect();
        assert_eq!(deleted, ["gone"]);
        assert_eq!(
            plan.says(&id("since")),
            "the hub's in the zone: created there since"
        );
        assert!(plan.is_whole(), "{}", plan.problems());
    };
    check(&zones, vec![absent(), absent()]);
    // Nor is it deleted because of a zone that the hub knows less of.
    let mut unsure = zones.clone();
    let object = unsure[1].objects.get_mut(&id("since"));
    object.expect("listed").created_since = false;
    check(&unsure, vec![absent(), absent()]);
    let mut unserved = absent();
    unserved.insert_unserved(id("since"));
    check(&zones, vec![absent(), unserved]);
}

/// Objects that other zones have are written at the hub, and stages let them into this zone later.
#[test]
fn a_zone_loses_nothing_by_what_it_was_not_sent() {
    let differing = [
        ("changed", "Changed"),
        ("doubtful", "OnlyAtHub"),
        ("gone", "OnlyAtHub"),
        ("new", "OnlyInZone"),
        ("since", "OnlyAtHub"),
    ];
    let written: BTreeSet<ObjectId> = differing.iter().map(|(name, _)| id(name)).collect();
    let lost = divergence("a", 9, &differing).lost_by_following(&written);
    let expected = ["changed", "gone", "new"].map(id);
    assert_eq!(lost, BTreeSet::from(expected));
}

/// The label does not cross: where the object is says that it had it.
#[test]
fn a_secret_is_written_with_the_label_that_lets_it_cross() {
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret", "data": {"key": "c2VjcmV0"},
        "metadata": {
            "name": "tls", "namespace": "team",
            "labels": {"app": "web", "deltaplane.io/sync": "true"},
            "annotations": {"deltaplane.io/salt": "random"},
        },
    });
    let source: Position = "s.o@7".parse().expect("legal");
    let crossing = Crossing::of(&secret).expect("an object");
    let mirrored = crossing.arriving(Arrival {
        name: "tls",
        origin: &Origin::Hub,
        authored_as: "tls",
        source: &source,
    });
    let plan = keep_zone(
        &[divergence("a", 9, &[("tls", "OnlyInZone")])],
        vec![contents(&[("tls", Some(&mirrored))])],
    );
    let write = plan.writes().next().map(|(_, write)| write);
    assert_eq!(write, Some(&HubWrite::Put(secret.clone())));
    // So it is if the hub has it, and keeps it from zones.
    let content = secret.clone();
    for kept in [Value::Null, json!({"deltaplane.io/sync": "false"})] {
        secret["metadata"]["labels"] = kept;
        let written = replaced(&secret, &content);
        assert_eq!(written, content);
    }
}

#[test]
fn only_what_the_hub_sent_is_taken_over() {
    // A label that somebody in the zone added is not the hub's.
    let mut labelled = mirrored("labelled", "1");
    labelled["metadata"]["labels"]["local"] = "yes".into();
    let mut edited = mirrored("edited", "1");
    edited["data"]["content"] = "local".into();
    let mut own = object("own", "1");
    own["metadata"]["uid"] = "u".into();
    let patched = mirrored("patched", "1");
    let names = ["edited", "labelled", "own", "patched", "unserved"];
    let differing = names.map(|name| (name, "Changed"));
    let found = [&edited, &labelled, &own, &patched].map(Some);
    let found: Vec<_> = names.into_iter().zip(found).collect();
    let mut contents = contents(&found);
    contents.insert_unserved(id("unserved"));
    let plan = keep_zone(&[divergence("a", 9, &differing)], vec![contents]);
    let says = names.map(|name| plan.says(&id(name)));
    assert_eq!(
        says,
        [
            "left as it is",
            "the zone's at the hub",
            "left as it is",
            "left as it is",
            "left as it is"
        ]
    );
    let labelled = plan.writes.get(&id("labelled"));
    assert_eq!(labelled, Some(&HubWrite::Put(object("labelled", "1"))));
}

#[test]
fn what_is_the_hubs_own_stays() {
    let hub = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"content": "1", "more": "x"},
        "metadata": {
            "name": "a", "namespace": "team", "uid": "u", "resourceVersion": "9", "finalizers": ["x/y"],
            "labels": {"old": "1", "deltaplane.io/sync": "true"}, "managedFields": [{}],
        },
        "status": {"seen": true},
    });
    let mut content = object("a", "2");
    content["metadata"]["labels"] = json!({"new": "1"});
    let expected = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"content": "2"},
        "metadata": {
            "name": "a", "namespace": "team", "uid": "u", "resourceVersion": "9", "finalizers": ["x/y"],
            "labels": {"new": "1", "deltaplane.io/sync": "true"}, "annotations": {},
        },
        "status": {"seen": true},
    });
    assert_eq!(replaced(&hub, &content), expected);
}

/// The hub made the namespace because the zone uploaded something into it.
#[test]
fn a_namespace_of_the_zones_own_does_not_keep_it_from_being_settled() {
    let answer = json!({
        "diverged": true, "followed": 60, "revision": 43,
        "deletionBudget": {"max": 1, "percent": 0},
        "kinds": [{
            "group": "", "kind": "Namespace", "plural": "namespaces", "more": 0, "wanted": 10,
            "objects": [{"namespace": "", "name": "own", "difference": "OnlyAtHub"}],
        }],
    });
    let divergence = Divergence::read(&zone("a"), &answer).expect("diverged");
    let mut contents = ZoneContents::default();
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own"}});
    for id in divergence.objects.keys() {
        contents.insert(id.clone(), Some(&own));
    }
    let plan = keep_zone(&[divergence], vec![contents]);
    assert_eq!(plan.writes().count(), 0);
    assert!(plan.settles(&zone("a")));
}
