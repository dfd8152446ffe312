use std::collections::{BTreeMap, BTreeSet};

use deltaplane_sync::{Crossing, Epoch, Known, Rejection, Withdrawal};
use serde_json::json;

use super::*;
use crate::catalog::{Edit, Entry, Governed, Place, Placement, PolicyId, Slot};
use crate::openings::Openings;

const ZONE: &str = "x";

fn zone() -> ZoneName {
    ZONE.parse().expect("legal")
}

fn kind(text: &str) -> SyncKind {
    SyncKind::new("", text).expect("legal")
}

fn name(text: &str) -> ObjectName {
    text.parse().expect("legal")
}

fn slot(release: u64) -> Slot {
    Slot { release, class: 0 }
}

fn item(text: &str, release: u64) -> Item {
    let object = json!({
        "apiVersion": "v1", "kind": "A", "metadata": {"name": text}, "data": release,
    });
    Item {
        version: Crossing::of(&object).expect("an object").version(),
        body: Vec::new().into(),
        relayed: None,
    }
}

/// An object that is another one in the second release.
fn object(of: &str, text: &str) -> Edit {
    let slots = [1, 2].map(|release| (slot(release), Some(item(text, release))));
    Edit::Object {
        kind: kind(of),
        name: name(text),
        revision: 1,
        becomes: Some(Entry::Governed(Arc::new(Governed {
            policy: PolicyId::new("p"),
            slots: slots.into_iter().collect(),
            agreed: BTreeSet::new(),
            withdrawal: Withdrawal::Orphan,
        }))),
    }
}

fn placed(place: Place) -> Vec<Edit> {
    vec![Edit::Placed {
        policy: PolicyId::new("p"),
        revision: 1,
        placement: Some([(zone(), place)].into_iter().collect()),
    }]
}

/// A zone that has the first release of all config maps, and did not ask for secrets.
fn sending(catalog: &Arc<Shared>, names: &[&str]) -> Sending {
    let start = (DeletionBudget::default(), Ledger::default());
    let sending = Sending::new(catalog.clone(), Some(zone()), start, Clock::system());
    let held = names.iter().map(|text| (name(text), item(text, 1).version));
    let known = Known::Versions {
        held: held.collect(),
        sources: vec![
            Reader {
                catalog: &catalog.read(),
                zone: None,
            }
            .at(),
        ],
    };
    let kind = kind("ConfigMap");
    let request = Request::Subscribe { kind, known };
    sending.request(request).expect("the first");
    sending
}

fn standing(sending: &Sending) -> Standing {
    let kinds = ["ConfigMap", "Secret"].map(kind).into();
    let standing = sending.standing(&kinds, |_, _| true);
    standing.expect("it is known")
}

#[test]
fn what_a_zone_lacks_of_a_release_is_said_until_it_has_it() {
    let openings = Openings::only(Epoch("e".into()));
    let catalog = Arc::new(Shared::new(Catalog::new(openings, 1)));
    let mut edits = vec![
        object("ConfigMap", "a"),
        object("ConfigMap", "b"),
        object("Secret", "s"),
    ];
    edits.extend(placed(Place::Frozen));
    catalog.apply(edits, 1);
    let sending = sending(&catalog, &["a", "b"]);
    // Nothing is lacking of what is not decided, and it is as it is.
    let frozen = Standing {
        at: 1,
        unsubscribed: vec![kind("Secret")],
        lacking: Vec::new(),
        count: 0,
        foreign: BTreeMap::new(),
    };
    assert_eq!(standing(&sending), frozen);
    let a = sending.object(&kind("ConfigMap"), &name("a"));
    let has = |release| Some(item("a", release).version);
    let state = |frozen, wanted| ObjectState {
        wanted,
        acknowledged: has(1),
        rejected: None,
        frozen,
    };
    assert_eq!(a, Some(state(true, None)));
    assert_eq!(sending.step().expect("served").0, []);
    // As it was: nothing is sent.
    catalog.apply(placed(Place::At(slot(1))), 2);
    assert_eq!(sending.step().expect("served").0, []);
    let current = standing(&sending);
    assert!(current.is_current());
    assert_eq!(
        (current.at, current.unsubscribed),
        (2, vec![kind("Secret")])
    );
    // The next release.
    catalog.apply(placed(Place::At(slot(2))), 3);
    assert_eq!(standing(&sending).count, 2);
    let a = sending.object(&kind("ConfigMap"), &name("a"));
    assert_eq!(a, Some(state(false, has(2))));
    let (sent, _) = sending.step().expect("served");
    let nonce = sent[0].nonce;
    let rejected = vec![Rejection {
        name: name("b"),
        reason: "no".to_owned(),
        verdict: Verdict::Failed,
    }];
    let kind = kind("ConfigMap");
    let ack = Request::Ack {
        kind: kind.clone(),
        nonce,
        rejected,
    };
    sending.request(ack).expect("asked");
    let lacking = Lacking {
        kind,
        name: name("b"),
        acknowledged: Some(item("b", 1).version),
        rejected: Some((Verdict::Failed, "no".to_owned())),
    };
    let standing = standing(&sending);
    assert_eq!((standing.lacking, standing.count), (vec![lacking], 1));
    let others = sending.standing(&BTreeSet::new(), |_, other| *other == name("a"));
    let others = others.expect("it is known");
    assert!(others.is_current() && others.unsubscribed.is_empty());
}

#[test]
fn what_a_zone_keeps_of_its_own_is_set_apart_from_what_it_lacks() {
    let openings = Openings::only(Epoch("e".into()));
    let catalog = Arc::new(Shared::new(Catalog::new(openings, 1)));
    let objects = ["a", "b"].map(|text| object("ConfigMap", text));
    let objects = objects.into_iter().chain(placed(Place::At(slot(1))));
    catalog.apply(objects.collect(), 1);
    let sending = sending(&catalog, &["a"]);
    let (sent, _) = sending.step().expect("served");
    let kind = kind("ConfigMap");
    let ack = Request::Ack {
        kind: kind.clone(),
        nonce: sent[0].nonce,
        rejected: vec![Rejection {
            name: name("b"),
            reason: "mine".to_owned(),
            verdict: Verdict::Foreign,
        }],
    };
    sending.request(ack).expect("asked");
    let standing = standing(&sending);
    assert!(!standing.is_current());
    let foreign = BTreeMap::from([((kind, name("b")), "mine".to_owned())]);
    assert_eq!((standing.count, standing.foreign), (0, foreign));
}

#[test]
fn of_many_that_lack_a_few_are_listed() {
    let openings = Openings::only(Epoch("e".into()));
    let catalog = Arc::new(Shared::new(Catalog::new(openings, 1)));
    let names: BTreeSet<String> = (0..30).map(|number| number.to_string()).collect();
    let objects = names.iter().map(|text| object("ConfigMap", text));
    catalog.apply(objects.chain(placed(Place::At(slot(1)))).collect(), 1);
    let sending = sending(&catalog, &[]);
    let first = standing(&sending);
    assert_eq!((first.lacking.len(), first.count), (LISTED, 30));
    // What was refused is among them, however many come before it.
    let (sent, _) = sending.step().expect("served");
    let (held, refused): (Vec<&String>, Vec<&String>) = names.iter().partition(|one| *one != "9");
    let rejection = |text: &String, verdict| Rejection {
        name: name(text),
        reason: "no".to_owned(),
        verdict,
    };
    let held = held.into_iter().map(|one| rejection(one, Verdict::Held));
    let refused = refused
        .into_iter()
        .map(|one| rejection(one, Verdict::Failed));
    let ack = Request::Ack {
        kind: kind("ConfigMap"),
        nonce: sent[0].nonce,
        rejected: held.chain(refused).collect(),
    };
    sending.request(ack).expect("asked");
    let standing = standing(&sending);
    assert_eq!((standing.lacking.len(), standing.count), (LISTED, 30));
    let mut listed = standing.lacking.iter();
    assert!(listed.any(|one| one.name == name("9")));
}

/// Thirty objects that the second release takes away, and where somebody agreed to that.
fn taken_away(agreed: &[u64], revision: u64) -> Vec<Edit> {
    let names = (0..30).map(|number: u32| number.to_string());
    let edits = names.map(|text| Edit::Object {
        kind: kind("ConfigMap"),
        name: name(&text),
        revision,
        becomes: Some(Entry::Governed(Arc::new(Governed {
            policy: PolicyId::new("p"),
            slots: BTreeMap::from([(slot(1), Some(item(&text, 1))), (slot(2), None)]),
            agreed: agreed.iter().copied().map(slot).collect(),
            withdrawal: Withdrawal::Orphan,
        }))),
    });
    edits.collect()
}

/// A zone that has all of them, and comes to the second release.
fn losing(agreed: &[u64]) -> (Arc<Shared>, Sending) {
    let openings = Openings::only(Epoch("e".into()));
    let catalog = Arc::new(Shared::new(Catalog::new(openings, 1)));
    let mut edits = taken_away(agreed, 1);
    edits.extend(placed(Place::At(slot(1))));
    catalog.apply(edits, 1);
    let names: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sending = sending(&catalog, &names);
    catalog.apply(placed(Place::At(slot(2))), 2);
    (catalog, sending)
}

/// How many objects it is told to delete now, and whether its own budget is not to be asked.
fn told_to_delete(sending: &Sending) -> Vec<(usize, bool)> {
    let (sent, _) = sending.step().expect("served");
    let sent = sent.iter();
    sent.map(|one| (one.removed.len(), one.approved)).collect()
}

#[test]
fn what_somebody_agreed_to_lose_is_not_held_by_the_budget_of_a_zone() {
    let gone = |agreed: &[u64]| told_to_delete(&losing(agreed).1);
    assert_eq!(gone(&[]), []);
    assert_eq!(gone(&[1]), []);
    assert_eq!(gone(&[2]), [(30, true)]);
}

#[test]
fn what_is_held_already_goes_when_somebody_agrees() {
    let (catalog, sending) = losing(&[]);
    assert_eq!(told_to_delete(&sending), []);
    catalog.apply(taken_away(&[1], 3), 3);
    assert_eq!(told_to_delete(&sending), []);
    catalog.apply(taken_away(&[2], 4), 4);
    assert_eq!(told_to_delete(&sending), [(30, true)]);
}

/// Nobody could read which kinds cross when the zone connected, and an object was deleted meanwhile.
#[test]
fn deletions_are_sent_when_it_is_known_again_which_kinds_cross() {
    let openings = Openings::only(Epoch("e".into()));
    let catalog = Arc::new(Shared::new(Catalog::new(openings, 1)));
    catalog.change(Vec::new(), 1, |catalog| catalog.leave_undecided(true));
    let sending = sending(&catalog, &["a", "b"]);
    let mut changes = catalog.changes(Some(&zone()));
    assert_eq!(sending.step().expect("served").0, []);
    // Still another synced kind cannot be read: this one can.
    let there = Edit::Object {
        kind: kind("ConfigMap"),
        name: name("a"),
        revision: 2,
        becomes: Some(Entry::Shared {
            item: item("a", 1),
            audience: crate::catalog::Audience::Everyone,
        }),
    };
    changes.borrow_and_update();
    catalog.change(vec![there], 2, |catalog| {
        catalog.declare(kind("ConfigMap"), None);
    });
    assert!(changes.has_changed().expect("open"));
    let responses = sending.step().expect("served").0;
    let removed: Vec<&ObjectName> = responses.iter().flat_map(|one| &one.removed).collect();
    assert_eq!(removed, [&name("b")]);
    assert!(responses.iter().all(|one| one.items.is_empty()));
}

#[test]
fn a_kind_that_does_not_cross_any_more_is_withdrawn_when_that_is_known() {
    let openings = Openings::only(Epoch("e".into()));
    let catalog = Arc::new(Shared::new(Catalog::new(openings, 1)));
    catalog.change(Vec::new(), 1, |catalog| catalog.leave_undecided(true));
    let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sending = sending(&catalog, &names);
    let mut changes = catalog.changes(Some(&zone()));
    changes.borrow_and_update();
    assert_eq!(sending.step().expect("served").0, []);
    // Somebody deleted the synced kind that could not be read.
    catalog.change(Vec::new(), 2, |catalog| catalog.leave_undecided(false));
    assert!(changes.has_changed().expect("open"));
    let responses = sending.step().expect("served").0;
    let orphaned = responses
        .iter()
        .map(|one| one.orphaned.len())
        .sum::<usize>();
    assert_eq!(orphaned, 100);
    assert!(responses.iter().all(|one| one.removed.is_empty()));
}

#[test]
fn deletions_that_were_not_decided_about_stay_within_the_budget() {
    let openings = Openings::only(Epoch("e".into()));
    let catalog = Arc::new(Shared::new(Catalog::new(openings, 1)));
    catalog.change(Vec::new(), 1, |catalog| catalog.leave_undecided(true));
    let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sending = sending(&catalog, &names);
    assert_eq!(sending.step().expect("served").0, []);
    catalog.change(Vec::new(), 2, |catalog| {
        catalog.declare(kind("ConfigMap"), None);
        catalog.leave_undecided(false);
    });
    assert_eq!(sending.step().expect("served").0, []);
    let counts = sending.counts(&kind("ConfigMap")).expect("known");
    assert_eq!(counts.surplus, 100);
    assert!(counts.held.is_some_and(|why| why.contains("100")));
    sending.approve(2);
    let responses = sending.step().expect("served").0;
    assert_eq!(
        responses.iter().map(|one| one.removed.len()).sum::<usize>(),
        100
    );
}

/// The policy lets go of a zone in the moment in which the zone is deleted.
#[tokio::test]
async fn nothing_is_withdrawn_from_a_receiver_that_is_not_admitted() {
    for is_admitted in [true, false] {
        let openings = Openings::only(Epoch("e".into()));
        let catalog = Arc::new(Shared::new(Catalog::new(openings, 1)));
        let mut edits = vec![object("ConfigMap", "a")];
        edits.extend(placed(Place::At(slot(1))));
        catalog.apply(edits, 1);
        let sending = sending(&catalog, &["a"]);
        assert_eq!(sending.step().expect("served").0, []);
        let nobody = Edit::Placed {
            policy: PolicyId::new("p"),
            revision: 2,
            placement: Some(Placement::default()),
        };
        catalog.apply(vec![nobody], 2);
        let (out, mut sent) = mpsc::channel(8);
        let (_trigger, stop) = deltaplane_runtime::Trigger::new();
        let requests = futures::stream::pending();
        let run = sending.run(requests, out, &stop, || is_admitted);
        let first = tokio::select! {
            ended = run => ended.map(|()| None),
            first = sent.recv() => Ok(first),
        };
        let first = first.expect("no error");
        assert_eq!(first.is_some(), is_admitted, "{first:?}");
    }
}
