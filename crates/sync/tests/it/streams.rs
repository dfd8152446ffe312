//! Single steps of a stream.

use std::collections::BTreeMap;
use std::time::Duration;

use deltaplane_sync::{
    Action, Before, Change, DeletionBudget, Difference, Epoch, Held, Known, Ledger, ObjectName,
    Position, ProtocolError, Receiver, Rejection, Request, Response, Sender, SenderRole, Stake,
    Verdict, Version, Withdrawal,
};

use crate::world::{Entry, Hub, World, item, kind, name};

const BUDGET: DeletionBudget = DeletionBudget {
    max: 10,
    percent: 5,
};
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A hub with objects `0`, `1`, …
pub(crate) fn hub(objects: u32) -> Hub {
    let mut hub = Hub::new("hub-1");
    for number in 0..objects {
        let entry = Some(Entry::Wanted(number));
        hub.write(&kind("Widget"), &name(&number.to_string()), entry);
    }
    hub
}

pub(crate) fn subscribe(hub: &Hub, held: BTreeMap<ObjectName, Version>) -> Sender {
    let mut sender = Sender::new(BUDGET, Ledger::default());
    let sources = vec![hub.position()];
    let known = Known::Versions { held, sources };
    let kind = kind("Widget");
    let request = Request::Subscribe { kind, known };
    sender
        .request(request, hub, Duration::ZERO)
        .expect("it is the first");
    sender
}

/// What a receiver has that has all of it.
pub(crate) fn all(hub: &Hub) -> BTreeMap<ObjectName, Version> {
    use deltaplane_sync::View as _;
    hub.wanted(&kind("Widget")).collect()
}

pub(crate) fn ack(response: &Response, rejected: &[&str]) -> Request {
    let rejection = |text: &&str| Rejection {
        name: name(text),
        reason: "no".to_owned(),
        verdict: Verdict::Failed,
    };
    Request::Ack {
        kind: response.kind.clone(),
        nonce: response.nonce,
        rejected: rejected.iter().map(rejection).collect(),
    }
}

/// The hub writes and the sender is told.
pub(crate) fn write(hub: &mut Hub, sender: &mut Sender, text: &str, entry: Option<Entry>) {
    let change = hub.write(&kind("Widget"), &name(text), entry);
    sender.changed(&kind("Widget"), vec![change], hub);
}

#[test]
fn state_of_any_size_goes_in_parts() {
    let hub = hub(3500);
    let mut sender = subscribe(&hub, BTreeMap::new());
    let mut sizes = Vec::new();
    while let [response] = &sender.poll(&hub, Duration::ZERO)[..] {
        assert!(
            sender.poll(&hub, Duration::ZERO).is_empty(),
            "one at a time"
        );
        assert!(response.removed.is_empty() && response.orphaned.is_empty());
        sizes.push((response.items.len(), response.complete));
        let answer = ack(response, &[]);
        sender.request(answer, &hub, Duration::ZERO).expect("asked");
    }
    assert_eq!(
        sizes,
        [(1000, false), (1000, false), (1000, false), (500, true)]
    );
}

#[test]
fn what_is_there_is_not_sent_and_a_change_costs_itself() {
    let mut hub = hub(2000);
    let mut sender = subscribe(&hub, all(&hub));
    assert!(sender.poll(&hub, Duration::ZERO).is_empty());
    assert_eq!(sender.open(&kind("Widget")), 0);
    write(&mut hub, &mut sender, "7", Some(Entry::Wanted(1)));
    let [response] = &sender.poll(&hub, Duration::ZERO)[..] else {
        panic!("one kind changed");
    };
    let version = item(&name("7"), 1).version;
    let sent: Vec<_> = response
        .items
        .iter()
        .map(|(name, item)| (name.to_string(), item.version))
        .collect();
    assert_eq!(sent, [("7".to_owned(), version)]);
    let held = |sender: &Sender| sender.acknowledged(&kind("Widget"), &name("7"), &hub);
    assert_eq!(
        held(&sender),
        Some(item(&name("7"), 7).version),
        "until it is answered"
    );
    assert!(sender.through(&hub) < hub.revision);
    sender
        .request(ack(response, &[]), &hub, Duration::ZERO)
        .expect("asked");
    assert_eq!(held(&sender), Some(version));
    assert_eq!(sender.through(&hub), hub.revision);
}

#[test]
fn what_is_rejected_delays_itself_only() {
    let mut hub = hub(3);
    let mut sender = subscribe(&hub, BTreeMap::new());
    let [response] = &sender.poll(&hub, Duration::ZERO)[..] else {
        panic!("there is something");
    };
    sender
        .request(ack(response, &["1"]), &hub, Duration::ZERO)
        .expect("asked");
    let rejected: Vec<_> = sender
        .rejected(&kind("Widget"))
        .map(|(name, why)| format!("{name}: {why}"))
        .collect();
    assert_eq!(rejected, ["1: no"]);
    // Others go on, and it is tried again by and by.
    write(&mut hub, &mut sender, "2", Some(Entry::Wanted(9)));
    let mut tries = Vec::new();
    let mut now = Duration::ZERO;
    for _ in 0..6 {
        for response in sender.poll(&hub, now) {
            let names: Vec<String> = response.names().map(ToString::to_string).collect();
            tries.push((now.as_secs(), names.join(" ")));
            let rejected: &[&str] = if names.iter().any(|name| name == "1") {
                &["1"]
            } else {
                &[]
            };
            sender
                .request(ack(&response, rejected), &hub, now)
                .expect("asked");
        }
        now = sender.wake_at(now).expect("it waits");
    }
    let tries: Vec<_> = tries
        .iter()
        .map(|(at, names)| (*at, names.as_str()))
        .collect();
    assert_eq!(
        tries,
        [(0, "2"), (1, "1"), (3, "1"), (7, "1"), (15, "1"), (31, "1")]
    );
    // What is changed is tried at once.
    write(&mut hub, &mut sender, "1", Some(Entry::Wanted(5)));
    let [response] = &sender.poll(&hub, now - SECOND)[..] else {
        panic!("it changed");
    };
    assert_eq!(response.items.len(), 1);
}

#[test]
fn many_deletions_wait_for_approval() {
    let mut hub = hub(30);
    let mut sender = subscribe(&hub, all(&hub));
    for number in 0..11 {
        write(&mut hub, &mut sender, &number.to_string(), None);
    }
    assert!(sender.poll(&hub, Duration::ZERO).is_empty());
    let held = sender.held(&kind("Widget")).map(ToString::to_string);
    let expected = "11 objects would be deleted (0 lately), and 10 may be without approval";
    assert_eq!(held.as_deref(), Some(expected));
    // The rest of the kind goes on.
    write(&mut hub, &mut sender, "20", Some(Entry::Wanted(1)));
    let [response] = &sender.poll(&hub, Duration::ZERO)[..] else {
        panic!("it changed");
    };
    assert_eq!((response.items.len(), response.removed.len()), (1, 0));
    sender
        .request(ack(response, &[]), &hub, Duration::ZERO)
        .expect("asked");
    let approved_at = hub.revision;
    write(&mut hub, &mut sender, "21", None);
    sender.approve(approved_at);
    let [response] = &sender.poll(&hub, Duration::ZERO)[..] else {
        panic!("it is approved");
    };
    assert_eq!(
        (response.removed.len(), response.approved),
        (11, true),
        "what came later was not"
    );
    sender
        .request(ack(response, &[]), &hub, Duration::ZERO)
        .expect("asked");
    assert!(
        sender.poll(&hub, Duration::ZERO).is_empty(),
        "the budget is spent"
    );
    let later = sender.wake_at(Duration::ZERO).expect("it eases");
    assert_eq!(sender.poll(&hub, later).len(), 1);
}

#[test]
fn an_approval_counts_for_what_was_to_go_when_it_was_given() {
    let mut hub = hub(30);
    let known = Known::Versions {
        held: all(&hub),
        sources: vec![hub.position()],
    };
    for number in 0..11 {
        let mut nobody = subscribe(&hub, all(&hub));
        write(&mut hub, &mut nobody, &number.to_string(), None);
    }
    // Another stream finds by versions what is to go.
    let mut sender = Sender::new(BUDGET, Ledger::default());
    sender.approve(hub.revision);
    let request = Request::Subscribe {
        kind: kind("Widget"),
        known,
    };
    sender
        .request(request, &hub, Duration::ZERO)
        .expect("subscribed");
    assert!(sender.poll(&hub, Duration::ZERO).is_empty(), "it is held");
    sender.approve(hub.revision);
    let [response] = &sender.poll(&hub, Duration::ZERO)[..] else {
        panic!("it is approved");
    };
    assert_eq!((response.removed.len(), response.approved), (11, true));
}

#[test]
fn what_waits_goes_on_when_what_it_needs_turns_out_to_be_there() {
    let (namespace, before) = (kind("Namespace"), kind("Apple"));
    let mut hub = Hub::new("hub-1");
    hub.write(&namespace, &name("n1"), Some(Entry::Wanted(1)));
    let mut sender = Sender::new(BUDGET, Ledger::default());
    for (kind, held) in [
        (
            &namespace,
            BTreeMap::from([(name("n1"), item(&name("n1"), 1).version)]),
        ),
        (&before, BTreeMap::new()),
    ] {
        let known = Known::Versions {
            held,
            sources: vec![hub.position()],
        };
        let kind = kind.clone();
        sender
            .request(Request::Subscribe { kind, known }, &hub, Duration::ZERO)
            .expect("subscribed");
    }
    let change = hub.write(&namespace, &name("n1"), Some(Entry::Wanted(2)));
    sender.changed(&namespace, vec![change], &hub);
    let sent = sender.poll(&hub, Duration::ZERO);
    // It goes back while it is under way, and another waits for it.
    let change = hub.write(&namespace, &name("n1"), Some(Entry::Wanted(1)));
    sender.changed(&namespace, vec![change], &hub);
    let change = hub.write(&before, &name("n1/a"), Some(Entry::Wanted(1)));
    sender.changed(&before, vec![change], &hub);
    assert!(sender.poll(&hub, Duration::ZERO).is_empty());
    sender
        .request(ack(&sent[0], &["n1"]), &hub, Duration::ZERO)
        .expect("it was sent");
    let [response] = &sender.poll(&hub, Duration::ZERO)[..] else {
        panic!("nothing else will wake it");
    };
    assert_eq!(response.items[0].0, name("n1/a"));
}

#[test]
fn what_the_receiver_has_of_its_own_is_not_taken_away() {
    for verdict in [Verdict::Own, Verdict::Foreign] {
        stays(verdict);
    }
}

fn stays(verdict: Verdict) {
    let mut hub = hub(1);
    let mut sender = subscribe(&hub, BTreeMap::new());
    let sent = sender.poll(&hub, Duration::ZERO);
    write(&mut hub, &mut sender, "0", None);
    let own = Request::Ack {
        kind: kind("Widget"),
        nonce: sent[0].nonce,
        rejected: vec![Rejection {
            name: name("0"),
            reason: "its own".to_owned(),
            verdict,
        }],
    };
    sender
        .request(own, &hub, Duration::ZERO)
        .expect("it was sent");
    assert!(sender.poll(&hub, Duration::ZERO).is_empty());
    assert_eq!(sender.counts(&kind("Widget"), &hub).surplus, 0);
}

#[test]
fn single_deletions_count_together_from_stream_to_stream() {
    let mut hub = hub(30);
    let mut ledger = Ledger::default();
    let mut gone = 0;
    for number in 0..15 {
        let mut sender = Sender::new(BUDGET, ledger);
        let known = Known::Versions {
            held: all(&hub),
            sources: vec![hub.position()],
        };
        let request = Request::Subscribe {
            kind: kind("Widget"),
            known,
        };
        sender
            .request(request, &hub, Duration::ZERO)
            .expect("the first");
        write(&mut hub, &mut sender, &number.to_string(), None);
        gone += sender.poll(&hub, Duration::ZERO).len();
        ledger = sender.ledger().clone();
    }
    assert_eq!(gone, 10);
}

#[test]
fn what_is_withdrawn_is_orphaned_unless_deletion_was_asked_for() {
    let mut hub = hub(3);
    let mut sender = subscribe(&hub, all(&hub));
    write(
        &mut hub,
        &mut sender,
        "0",
        Some(Entry::Withdrawn(0, Withdrawal::Orphan)),
    );
    write(
        &mut hub,
        &mut sender,
        "1",
        Some(Entry::Withdrawn(0, Withdrawal::Delete)),
    );
    write(
        &mut hub,
        &mut sender,
        "9",
        Some(Entry::Withdrawn(0, Withdrawal::Delete)),
    );
    let [response] = &sender.poll(&hub, Duration::ZERO)[..] else {
        panic!("it changed");
    };
    assert_eq!(response.orphaned, [name("0")]);
    assert_eq!(
        response.removed,
        [name("1")],
        "and not what never was there"
    );
}

#[test]
fn what_may_be_half_there_is_taken_away_with_the_rest() {
    let mut hub = hub(2);
    let mut sender = subscribe(&hub, BTreeMap::new());
    let [response] = &sender.poll(&hub, Duration::ZERO)[..] else {
        panic!("both are new");
    };
    sender
        .request(ack(response, &["0", "1"]), &hub, Duration::ZERO)
        .expect("it was sent");
    let left = Some(Entry::Withdrawn(0, Withdrawal::Orphan));
    write(&mut hub, &mut sender, "0", left);
    write(&mut hub, &mut sender, "1", None);
    let [response] = &sender.poll(&hub, Duration::ZERO)[..] else {
        panic!("both may be there in part");
    };
    assert_eq!(
        (&response.orphaned[..], &response.removed[..]),
        (&[name("0")][..], &[name("1")][..])
    );
}

#[test]
fn another_store_takes_nothing_away() {
    let old = hub(3);
    let mut new = Hub::new("hub-2");
    new.write(&kind("Widget"), &name("0"), Some(Entry::Wanted(8)));
    let mut sender = Sender::new(BUDGET, Ledger::default());
    let known = Known::Versions {
        held: all(&old),
        sources: vec![old.position()],
    };
    let request = Request::Subscribe {
        kind: kind("Widget"),
        known,
    };
    sender
        .request(request, &new, Duration::ZERO)
        .expect("the first");
    let [response] = &sender.poll(&new, Duration::ZERO)[..] else {
        panic!("one differs");
    };
    assert_eq!(
        (
            response.items.len(),
            response.removed.len(),
            response.complete
        ),
        (1, 0, false)
    );
    let held = sender.held(&kind("Widget")).map(ToString::to_string);
    let expected =
        "2 objects are unknown to the sender's store, which is not the one that they came from";
    assert_eq!(held.as_deref(), Some(expected));
    // What it sees to go itself is not in doubt.
    sender
        .request(ack(response, &[]), &new, Duration::ZERO)
        .expect("it was sent");
    let change = new.write(&kind("Widget"), &name("0"), None);
    sender.changed(&kind("Widget"), vec![change], &new);
    let [response] = &sender.poll(&new, Duration::ZERO)[..] else {
        panic!("it was deleted");
    };
    assert_eq!(response.removed, [name("0")]);
    let held = sender.held(&kind("Widget"));
    assert_eq!(held, Some(&Held::OtherStore { count: 2 }));
    // What should not have been there before is in doubt as it was.
    sender
        .request(ack(response, &[]), &new, Duration::ZERO)
        .expect("it was sent");
    let change = Change {
        name: name("1"),
        before: Before::Nothing,
        revision: new.revision,
    };
    sender.changed(&kind("Widget"), vec![change], &new);
    assert_eq!(sender.poll(&new, Duration::ZERO), []);
    let held = sender.held(&kind("Widget"));
    assert_eq!(held, Some(&Held::OtherStore { count: 2 }));
}

#[test]
fn another_store_knows_what_went_there_while_the_receiver_was_away() {
    let old = hub(3);
    let mut new = Hub::new("hub-2");
    new.write(&kind("Widget"), &name("0"), Some(Entry::Wanted(0)));
    new.write(&kind("Widget"), &name("0"), None);
    let mut sender = Sender::new(BUDGET, Ledger::default());
    let known = Known::Versions {
        held: all(&old),
        sources: vec![old.position()],
    };
    let request = Request::Subscribe {
        kind: kind("Widget"),
        known,
    };
    sender
        .request(request, &new, Duration::ZERO)
        .expect("the first");
    let [response] = &sender.poll(&new, Duration::ZERO)[..] else {
        panic!("one went");
    };
    assert_eq!(response.removed, [name("0")]);
    let held = sender.held(&kind("Widget"));
    assert_eq!(held, Some(&Held::OtherStore { count: 2 }));
}

#[test]
fn a_restored_store_asks_who_is_right() {
    let mut hub = hub(3);
    let backup = hub.clone();
    hub.write(&kind("Widget"), &name("3"), Some(Entry::Wanted(3)));
    let followed = hub.position();
    hub = backup;
    hub.reopen("hub-1b");
    for number in 4..6 {
        hub.write(
            &kind("Widget"),
            &name(&number.to_string()),
            Some(Entry::Wanted(3)),
        );
    }
    let mut sender = Sender::new(BUDGET, Ledger::default());
    let request = Request::Subscribe {
        kind: kind("Widget"),
        known: Known::Versions {
            held: BTreeMap::from([(name("3"), item(&name("3"), 3).version)]),
            sources: vec![followed.clone()],
        },
    };
    let taken = sender.request(request.clone(), &hub, Duration::ZERO);
    assert_eq!(taken, Ok(()));
    assert_eq!(sender.diverged(), Some(&followed));
    assert_eq!(sender.poll(&hub, Duration::ZERO), []);
    assert_eq!(sender.through(&hub), 0);
    let widget = kind("Widget");
    let differences = |sender: &Sender| -> Vec<(String, Difference)> {
        let all = sender.differences(&widget);
        all.map(|(name, how)| (name.to_string(), how)).collect()
    };
    let expected = [
        ("0", Difference::OnlySender),
        ("1", Difference::OnlySender),
        ("2", Difference::OnlySender),
        ("4", Difference::OnlySender),
        ("5", Difference::OnlySender),
        ("3", Difference::OnlyReceiver),
    ];
    let expected = expected.map(|(name, how)| (name.to_owned(), how));
    assert_eq!(differences(&sender), expected);
    // An approval of deletions is another matter.
    sender.approve(hub.revision);
    assert_eq!(sender.poll(&hub, Duration::ZERO), []);
    // Once a person settled it, the receiver follows.
    let mut sender = Sender::new(BUDGET, Ledger::default());
    sender.settle(followed.revision);
    sender
        .request(request, &hub, Duration::ZERO)
        .expect("it goes on");
    assert_eq!(sender.diverged(), None);
    let [response] = &sender.poll(&hub, Duration::ZERO)[..] else {
        panic!("there is something to send");
    };
    assert_eq!(response.items.len(), 5);
    assert_eq!(response.removed, [name("3")]);
}

/// Deletions leave no trace on objects: the zone itself remembers how far it followed.
#[test]
fn a_zone_that_says_how_far_it_followed_is_not_rewound() {
    let mut hub = hub(2);
    hub.reopen("opened-after-the-backup");
    let lost = hub.position();
    let mut restored = self::hub(2);
    restored.reopen("opened-again");
    let mut sender = Sender::new(BUDGET, Ledger::default());
    sender.follow(&lost, &restored);
    assert_eq!(sender.diverged(), Some(&lost));
    let request = Request::Subscribe {
        kind: kind("Widget"),
        known: Known::Versions {
            held: BTreeMap::new(),
            sources: Vec::new(),
        },
    };
    let taken = sender.request(request, &restored, Duration::ZERO);
    assert_eq!(taken, Ok(()));
    assert_eq!(sender.poll(&restored, Duration::ZERO), []);
    // It says what it holds of every object: a position says nothing of those that are not decided.
    let mut sender = Sender::new(BUDGET, Ledger::default());
    sender.follow(&lost, &restored);
    let request = Request::Subscribe {
        kind: kind("Widget"),
        known: Known::Position {
            position: restored.position(),
            beyond: BTreeMap::new(),
        },
    };
    let taken = sender.request(request, &restored, Duration::ZERO);
    let since = restored.position().revision;
    assert_eq!(taken, Err(ProtocolError::TooOld { since }));
    // One that follows another store is not ahead of this one.
    let mut sender = Sender::new(BUDGET, Ledger::default());
    sender.follow(&Hub::new("other").position(), &restored);
    assert_eq!(sender.diverged(), None);
}

#[test]
fn answers_must_be_to_what_was_sent() {
    let hub = hub(1);
    let mut sender = subscribe(&hub, BTreeMap::new());
    let known = || Known::Versions {
        held: BTreeMap::new(),
        sources: Vec::new(),
    };
    let responses = sender.poll(&hub, Duration::ZERO);
    let mut other = ack(&responses[0], &[]);
    if let Request::Ack { nonce, .. } = &mut other {
        *nonce += 1;
    }
    for (request, expected) in [
        (
            other,
            "an answer for deltaplane.io/example.com/Widget, of which nothing was sent",
        ),
        (
            Request::Subscribe {
                kind: kind("Widget"),
                known: known(),
            },
            "deltaplane.io/example.com/Widget is subscribed to already",
        ),
        (
            Request::Ack {
                kind: kind("Gadget"),
                nonce: 1,
                rejected: Vec::new(),
            },
            "an answer for deltaplane.io/example.com/Gadget, of which nothing was sent",
        ),
        (
            ack(&responses[0], &["nope"]),
            "nope was rejected, and not sent",
        ),
    ] {
        let said = sender.request(request, &hub, Duration::ZERO);
        assert_eq!(
            said.map_err(|why| why.to_string()),
            Err(expected.to_owned())
        );
    }
}

/// A receiver, and what it says to responses that are not as they should be.
#[test]
fn what_a_sender_may_not_say_ends_the_stream() {
    let at = |epoch: &str, revision: u64| Position {
        epoch: Epoch(epoch.into()),
        revision,
    };
    let response = |nonce: u64, at: Position| Response {
        releases: BTreeMap::new(),
        kind: kind("Widget"),
        nonce,
        at,
        complete: true,
        items: vec![(name("a"), item(&name("a"), 1))],
        orphaned: Vec::new(),
        removed: Vec::new(),
        approved: false,
    };
    let mut receiver = Receiver::new(SenderRole::Hub, BUDGET, Ledger::default());
    let known = Known::Versions {
        held: BTreeMap::new(),
        sources: vec![at("h", 5)],
    };
    receiver.subscribe(kind("Widget"), known);
    let mut said =
        |response: Response| match receiver.response(response, &Stake::of(1), Duration::ZERO) {
            Ok(actions) => format!("{} actions", actions.len()),
            Err(why) => why.to_string(),
        };
    let mut unknown = response(1, at("h", 6));
    unknown.kind = kind("Gadget");
    assert_eq!(
        said(unknown),
        "deltaplane.io/example.com/Gadget was not subscribed to"
    );
    assert_eq!(
        said(response(1, at("h", 4))),
        "the sender went back to an older revision"
    );
    let mut twice = response(1, at("h", 6));
    twice.removed.push(name("a"));
    assert_eq!(said(twice), "it names an object twice");
    assert_eq!(said(response(1, at("h", 6))), "1 actions");
    assert_eq!(said(response(1, at("h", 6))), "0 actions", "it came before");
    assert_eq!(
        said(response(2, at("h", 6))),
        "a response for deltaplane.io/example.com/Widget before the one before it was answered"
    );
    receiver
        .done(&kind("Widget"), &name("a"), Ok(()))
        .expect("all is done");
    let mut said = |response: Response| {
        receiver
            .response(response, &Stake::of(1), Duration::ZERO)
            .map_err(|why| why.to_string())
    };
    assert_eq!(
        said(response(3, at("other", 7))),
        Err("the sender's store became another one".to_owned())
    );
}

#[test]
fn a_receiver_keeps_the_budget_itself() {
    let mut receiver = Receiver::new(SenderRole::Hub, BUDGET, Ledger::default());
    let known = Known::Versions {
        held: BTreeMap::new(),
        sources: Vec::new(),
    };
    receiver.subscribe(kind("Widget"), known);
    let response = |nonce: u64, approved: bool| Response {
        releases: BTreeMap::new(),
        kind: kind("Widget"),
        nonce,
        at: hub(1).position(),
        complete: true,
        items: vec![(name("a"), item(&name("a"), 1))],
        orphaned: Vec::new(),
        removed: (0..11).map(|number| name(&number.to_string())).collect(),
        approved,
    };
    let actions = receiver
        .response(response(1, false), &Stake::of(30), SECOND)
        .expect("legal");
    assert!(
        matches!(&actions[..], [Action::Apply { .. }]),
        "{actions:?}"
    );
    let Some(Request::Ack { rejected, .. }) = receiver.done(&kind("Widget"), &name("a"), Ok(()))
    else {
        panic!("all is done");
    };
    assert_eq!(rejected.len(), 11);
    let actions = receiver
        .response(response(2, true), &Stake::of(30), SECOND)
        .expect("legal");
    assert_eq!(actions.len(), 12);
}

#[test]
fn a_receiver_counts_what_goes_along() {
    let stakes = |along| Stake {
        held: 30,
        along,
        approved: false,
    };
    let check = |along: Result<u64, String>, approved: bool, expected: &str| {
        let mut receiver = Receiver::new(SenderRole::Hub, BUDGET, Ledger::default());
        let known = Known::Versions {
            held: BTreeMap::new(),
            sources: Vec::new(),
        };
        receiver.subscribe(kind("Namespace"), known);
        let response = Response {
            releases: BTreeMap::new(),
            kind: kind("Namespace"),
            nonce: 1,
            at: hub(1).position(),
            complete: true,
            items: Vec::new(),
            orphaned: Vec::new(),
            removed: vec![name("n1")],
            approved,
        };
        let actions = receiver.response(response, &stakes(along), SECOND);
        let said = match &actions.expect("legal")[..] {
            [Action::Delete { .. }] => "deleted".to_owned(),
            [Action::Send(Request::Ack { rejected, .. })] => rejected[0].reason.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(said, expected);
    };
    check(Ok(9), false, "deleted");
    let many = "11 objects would be deleted (0 lately), and 10 may be without approval";
    check(Ok(10), false, many);
    check(Ok(10), true, "deleted");
    check(Err("who knows".to_owned()), false, "who knows");
    check(Err("who knows".to_owned()), true, "deleted");
}

#[test]
fn what_others_need_goes_first() {
    let mut world = World::new(BUDGET);
    world.write("Namespace", "n1", Some(Entry::Wanted(1)));
    world.write("Widget", "n1/a", Some(Entry::Wanted(1)));
    world.write("Widget", "c", Some(Entry::Wanted(1)));
    world.refuses.insert(name("n1"));
    world.connect();
    for _ in 0..20 {
        world.hub_step();
        world.zone_step();
    }
    let here: Vec<String> = world
        .zone
        .objects
        .keys()
        .map(|(_, name)| name.to_string())
        .collect();
    assert_eq!(
        here,
        ["c"],
        "one waits for its namespace, which was rejected"
    );
    world.refuses.clear();
    world.settle();
    assert_eq!(world.zone.objects.len(), 3);
}

/// More wait than go into a response: those behind them wait as well.
#[test]
fn however_many_wait_none_goes_before_what_it_needs() {
    let mut world = World::new(BUDGET);
    world.write("Namespace", "n1", Some(Entry::Wanted(1)));
    for number in 0..1_500 {
        world.write("Widget", &format!("n1/a{number}"), Some(Entry::Wanted(1)));
    }
    world.refuses.insert(name("n1"));
    world.connect();
    for _ in 0..20 {
        world.hub_step();
        world.zone_step();
    }
    assert!(world.zone.objects.is_empty());
}
