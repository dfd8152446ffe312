use std::collections::{BTreeMap, BTreeSet};

use deltaplane_sync::{Crossing, Epoch, Known, Rejection, Withdrawal};
use serde_json::json;

use super::*;
use crate::catalog::{Edit, Entry, Governed, Place, PolicyId, Slot};
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
