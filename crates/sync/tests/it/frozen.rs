//! Objects of which it is not decided what the receiver should have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deltaplane_sync::{
    DeletionBudget, Exception, Known, Ledger, ObjectName, Position, Request, Response, Sender,
    Undelivered, Verdict, Version, View, Withdrawal,
};

use crate::streams::{SECOND, ack, all, hub, subscribe, write};
use crate::world::{Entry, Hub, item, kind, name};

const LONG: Duration = Duration::from_secs(1000);

/// What a decision may be, and what it does to a receiver that has the first content of an object,
/// another one, none, or perhaps anything.
const DECISIONS: [(Option<Entry>, [&str; 4]); 4] = [
    (Some(Entry::Wanted(0)), ["", "sent", "sent", "sent"]),
    (None, ["removed", "removed", "", "removed"]),
    (
        Some(Entry::Withdrawn(0, Withdrawal::Delete)),
        ["removed", "removed", "", "removed"],
    ),
    (
        Some(Entry::Withdrawn(0, Withdrawal::Orphan)),
        ["orphaned", "orphaned", "", "orphaned"],
    ),
];

fn version(content: u32) -> Version {
    item(&name("0"), content).version
}

fn freeze(hub: &mut Hub, sender: &mut Sender) {
    write(hub, sender, "0", Some(Entry::Frozen));
}

fn held(sender: &Sender, hub: &Hub) -> Option<Version> {
    sender.acknowledged(&kind("Widget"), &name("0"), hub)
}

fn answer(sender: &mut Sender, hub: &Hub, request: Request) {
    sender.request(request, hub, SECOND).expect("asked");
}

/// The one response that is to be sent.
fn next(sender: &mut Sender, hub: &Hub, now: Duration) -> Response {
    let mut responses = sender.poll(hub, now);
    assert_eq!(responses.len(), 1, "{responses:?}");
    responses.remove(0)
}

/// What is done about the object `0`.
fn done(sender: &mut Sender, hub: &Hub, now: Duration) -> String {
    let responses = sender.poll(hub, now);
    let is = |other: &ObjectName| *other == name("0");
    let done = responses.iter().flat_map(|response| {
        let sent = response.items.iter().filter(|(other, _)| is(other));
        let removed = response.removed.iter().filter(|other| is(other));
        let orphaned = response.orphaned.iter().filter(|other| is(other));
        let sent = sent.map(|_| "sent");
        sent.chain(removed.map(|_| "removed"))
            .chain(orphaned.map(|_| "orphaned"))
    });
    done.collect()
}

/// Nothing is to be done about it, and nothing waits for it.
fn rests(sender: &mut Sender, hub: &Hub) {
    assert_eq!(done(sender, hub, LONG), "");
    assert_eq!(sender.through(hub), hub.revision);
    assert_eq!(sender.open(&kind("Widget")), 0);
    assert_eq!(sender.wake_at(LONG), None);
    assert_eq!(sender.exceptions(&kind("Widget")).count(), 0);
    let counts = sender.counts(&kind("Widget"), hub);
    assert_eq!((counts.open, counts.surplus), (0, 0));
    assert_eq!(counts.wanted, hub.count(&kind("Widget")));
    assert_eq!(counts.acknowledged, counts.wanted);
}

/// Every decision does what is right for what the receiver has: `case` of [`DECISIONS`].
fn decides(case: usize, frozen: impl Fn() -> (Hub, Sender)) {
    for (entry, does) in DECISIONS {
        let (mut hub, mut sender) = frozen();
        rests(&mut sender, &hub);
        write(&mut hub, &mut sender, "0", entry.clone());
        let what = format!("{entry:?} after {case}");
        assert_eq!(done(&mut sender, &hub, LONG), does[case], "{what}");
    }
}

fn by_position(hub: &Hub, at: Position, beyond: &[(&str, Option<Version>)]) -> Sender {
    let beyond = beyond.iter().map(|(text, held)| (name(text), *held));
    let known = Known::Position {
        position: at,
        beyond: beyond.collect(),
    };
    let kind = kind("Widget");
    let budget = DeletionBudget {
        max: 10,
        percent: 5,
    };
    let mut sender = Sender::new(budget, Ledger::default());
    answer(&mut sender, hub, Request::Subscribe { kind, known });
    sender
}

#[test]
fn what_a_receiver_has_of_it_stays_and_is_remembered() {
    for (case, content) in [(0, Some(0)), (1, Some(7)), (2, None)] {
        for foreign in [false, true] {
            decides(case, || {
                let mut hub = hub(2);
                hub.write(&kind("Widget"), &name("0"), Some(Entry::Frozen));
                let mut has = all(&hub);
                has.extend(content.map(|content| (name("0"), version(content))));
                let sender = match foreign {
                    false => subscribe(&hub, has),
                    true => from_elsewhere(&hub, has),
                };
                assert_eq!(held(&sender, &hub), content.map(version));
                (hub, sender)
            });
        }
    }
}

/// A receiver that followed another store.
fn from_elsewhere(hub: &Hub, held: BTreeMap<ObjectName, Version>) -> Sender {
    let sources = vec![Hub::new("another").position()];
    let mut sender = Sender::new(DeletionBudget::default(), Ledger::default());
    let kind = kind("Widget");
    let known = Known::Versions { held, sources };
    answer(&mut sender, hub, Request::Subscribe { kind, known });
    sender
}

#[test]
fn who_resumes_has_of_it_what_it_had_before() {
    // It was frozen while the receiver was away.
    decides(0, || {
        let mut hub = hub(2);
        let at = hub.position();
        hub.write(&kind("Widget"), &name("0"), Some(Entry::Frozen));
        let sender = by_position(&hub, at, &[]);
        assert_eq!(held(&sender, &hub), Some(version(0)));
        (hub, sender)
    });
    // It was made, and never sent.
    decides(2, || {
        let mut hub = Hub::new("hub-1");
        let at = hub.position();
        hub.write(&kind("Widget"), &name("0"), Some(Entry::Wanted(0)));
        hub.write(&kind("Widget"), &name("0"), Some(Entry::Frozen));
        let sender = by_position(&hub, at, &[]);
        (hub, sender)
    });
    // The receiver says itself what it has.
    for (case, content) in [(0, Some(0)), (1, Some(7)), (2, None)] {
        decides(case, || {
            let mut hub = hub(2);
            hub.write(&kind("Widget"), &name("0"), Some(Entry::Frozen));
            let at = hub.position();
            let sender = by_position(&hub, at, &[("0", content.map(version))]);
            assert_eq!(held(&sender, &hub), content.map(version));
            (hub, sender)
        });
    }
}

#[test]
fn who_resumes_from_when_it_was_frozen_may_have_anything() {
    decides(3, || {
        let mut hub = hub(2);
        hub.write(&kind("Widget"), &name("0"), Some(Entry::Frozen));
        let sender = by_position(&hub, hub.position(), &[]);
        assert_eq!(held(&sender, &hub), None);
        (hub, sender)
    });
    // It was decided meanwhile, and is frozen again.
    decides(3, || {
        let mut hub = hub(2);
        hub.write(&kind("Widget"), &name("0"), Some(Entry::Frozen));
        let at = hub.position();
        hub.write(&kind("Widget"), &name("0"), Some(Entry::Wanted(0)));
        hub.write(&kind("Widget"), &name("0"), Some(Entry::Frozen));
        let sender = by_position(&hub, at, &[]);
        assert_eq!(held(&sender, &hub), None);
        (hub, sender)
    });
}

#[test]
fn what_was_to_be_sent_is_not_while_it_is_frozen() {
    decides(1, || {
        let mut hub = hub(2);
        let mut has = all(&hub);
        has.insert(name("0"), version(7));
        let mut sender = subscribe(&hub, has);
        freeze(&mut hub, &mut sender);
        assert_eq!(held(&sender, &hub), Some(version(7)));
        (hub, sender)
    });
}

#[test]
fn what_was_to_go_stays_while_it_is_frozen() {
    decides(0, || {
        let mut hub = hub(2);
        let mut sender = subscribe(&hub, all(&hub));
        write(&mut hub, &mut sender, "0", None);
        freeze(&mut hub, &mut sender);
        (hub, sender)
    });
}

#[test]
fn what_was_rejected_is_not_tried_again_while_it_is_frozen() {
    // Something may be left of it.
    decides(3, || {
        let mut hub = hub(2);
        let mut sender = subscribe(&hub, BTreeMap::new());
        let response = next(&mut sender, &hub, SECOND);
        answer(&mut sender, &hub, ack(&response, &["0"]));
        freeze(&mut hub, &mut sender);
        (hub, sender)
    });
}

#[test]
fn what_is_under_way_when_it_is_frozen_is_there_once_it_is_acknowledged() {
    // It is taken.
    decides(0, || {
        let mut hub = hub(2);
        let mut sender = subscribe(&hub, BTreeMap::new());
        let response = next(&mut sender, &hub, SECOND);
        freeze(&mut hub, &mut sender);
        assert_eq!(held(&sender, &hub), None);
        let counts = sender.counts(&kind("Widget"), &hub);
        assert_eq!((counts.wanted, counts.acknowledged, counts.open), (1, 0, 1));
        answer(&mut sender, &hub, ack(&response, &[]));
        assert_eq!(held(&sender, &hub), Some(version(0)));
        (hub, sender)
    });
    // It is taken away.
    decides(2, || {
        let mut hub = hub(2);
        let mut sender = subscribe(&hub, all(&hub));
        write(&mut hub, &mut sender, "0", None);
        let response = next(&mut sender, &hub, SECOND);
        freeze(&mut hub, &mut sender);
        assert_eq!(held(&sender, &hub), Some(version(0)));
        answer(&mut sender, &hub, ack(&response, &[]));
        assert_eq!(held(&sender, &hub), None);
        (hub, sender)
    });
    // It is rejected, and something may be left of it.
    decides(3, || {
        let mut hub = hub(2);
        let mut sender = subscribe(&hub, BTreeMap::new());
        let response = next(&mut sender, &hub, SECOND);
        freeze(&mut hub, &mut sender);
        answer(&mut sender, &hub, ack(&response, &["0"]));
        (hub, sender)
    });
}

#[test]
fn a_decision_counts_while_it_is_still_under_way() {
    let mut hub = hub(1);
    let mut sender = subscribe(&hub, BTreeMap::new());
    let response = next(&mut sender, &hub, SECOND);
    freeze(&mut hub, &mut sender);
    // As it was sent: nothing more is to be done.
    write(&mut hub, &mut sender, "0", Some(Entry::Wanted(0)));
    answer(&mut sender, &hub, ack(&response, &[]));
    rests(&mut sender, &hub);
    // Another one.
    write(&mut hub, &mut sender, "0", Some(Entry::Wanted(1)));
    let response = next(&mut sender, &hub, SECOND);
    freeze(&mut hub, &mut sender);
    write(&mut hub, &mut sender, "0", None);
    answer(&mut sender, &hub, ack(&response, &[]));
    assert_eq!(done(&mut sender, &hub, SECOND), "removed");
}

#[test]
fn what_somebody_alters_meanwhile_is_sent_once_it_is_decided() {
    let repair = || Request::Repair {
        kind: kind("Widget"),
        names: BTreeSet::from([name("0")]),
    };
    for remembered in [true, false] {
        decides(3, || {
            let mut hub = hub(2);
            let has = all(&hub);
            hub.write(&kind("Widget"), &name("0"), Some(Entry::Frozen));
            let mut sender = match remembered {
                true => subscribe(&hub, has),
                false => by_position(&hub, hub.position(), &[]),
            };
            answer(&mut sender, &hub, repair());
            assert_eq!(held(&sender, &hub), None);
            (hub, sender)
        });
    }
    // While it is under way.
    decides(3, || {
        let mut hub = hub(2);
        let has = BTreeMap::from([(name("0"), version(7))]);
        let mut sender = subscribe(&hub, has);
        let response = next(&mut sender, &hub, SECOND);
        freeze(&mut hub, &mut sender);
        assert_eq!(held(&sender, &hub), Some(version(7)));
        answer(&mut sender, &hub, repair());
        assert_eq!(held(&sender, &hub), None);
        answer(&mut sender, &hub, ack(&response, &[]));
        (hub, sender)
    });
}

#[test]
fn nothing_is_lacking_of_before_it_was_decided() {
    let mut hub = hub(2);
    let mut sender = subscribe(&hub, all(&hub));
    write(&mut hub, &mut sender, "0", Some(Entry::Wanted(5)));
    assert_eq!(sender.through(&hub), hub.revision - 1);
    freeze(&mut hub, &mut sender);
    assert_eq!(sender.through(&hub), hub.revision);
    write(&mut hub, &mut sender, "0", Some(Entry::Wanted(6)));
    assert_eq!(sender.through(&hub), hub.revision - 1);
}

#[test]
fn nothing_waits_for_what_is_frozen() {
    let mut hub = Hub::new("hub-1");
    let (namespaces, widgets) = (kind("Namespace"), kind("Widget"));
    hub.write(&namespaces, &name("n"), Some(Entry::Wanted(0)));
    hub.write(&widgets, &name("n/a"), Some(Entry::Wanted(0)));
    let mut sender = subscribe(&hub, BTreeMap::new());
    let known = Known::Versions {
        held: BTreeMap::new(),
        sources: Vec::new(),
    };
    let kind = namespaces.clone();
    answer(&mut sender, &hub, Request::Subscribe { kind, known });
    let response = next(&mut sender, &hub, SECOND);
    assert_eq!(response.kind, namespaces);
    answer(&mut sender, &hub, ack(&response, &["n"]));
    assert!(sender.poll(&hub, SECOND).is_empty(), "it is needed");
    let change = hub.write(&namespaces, &name("n"), Some(Entry::Frozen));
    sender.changed(&namespaces, vec![change], &hub);
    let response = next(&mut sender, &hub, SECOND);
    assert_eq!(response.kind, widgets);
    answer(&mut sender, &hub, ack(&response, &[]));
    assert_eq!(sender.through(&hub), hub.revision);
}

#[test]
fn what_is_not_delivered_is_listed_each_once() {
    let mut hub = hub(6);
    let mut has = all(&hub);
    has.remove(&name("0"));
    has.remove(&name("1"));
    let mut sender = subscribe(&hub, has);
    let response = next(&mut sender, &hub, SECOND);
    answer(&mut sender, &hub, ack(&response, &["0"]));
    write(&mut hub, &mut sender, "2", Some(Entry::Wanted(9)));
    write(&mut hub, &mut sender, "3", Some(Entry::Wanted(9)));
    next(&mut sender, &hub, SECOND);
    // One changes again, one is new, one is to go, one is frozen.
    write(&mut hub, &mut sender, "3", Some(Entry::Wanted(8)));
    write(&mut hub, &mut sender, "6", Some(Entry::Wanted(8)));
    write(&mut hub, &mut sender, "4", None);
    write(&mut hub, &mut sender, "5", Some(Entry::Frozen));
    let rejected = Undelivered::Rejected {
        verdict: Verdict::Failed,
        reason: "no",
    };
    let is = |text: &str, content: Option<u32>, state| {
        let held = content.map(|content| item(&name(text), content).version);
        (name(text), Exception { held, state })
    };
    let widgets = kind("Widget");
    let listed = sender.exceptions(&widgets);
    let mut listed: Vec<_> = listed.map(|(name, is)| (name.clone(), is)).collect();
    listed.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        is("0", None, rejected),
        is("2", Some(2), Undelivered::UnderWay),
        is("3", Some(3), Undelivered::Queued),
        is("4", Some(4), Undelivered::Surplus),
        is("6", None, Undelivered::Queued),
    ];
    assert_eq!(listed, expected);
}
