//! What can be said of a stream: how much was wanted, sent, acknowledged, rejected, held back.

use std::collections::BTreeMap;
use std::time::Duration;

use deltaplane_sync::{
    Action, Counts, Declined, DeletionBudget, Known, Ledger, ObjectName, Reasons, Receiver,
    Rejection, Request, Response, Sender, SenderRole, Stake, Verdict, Version,
};

use crate::world::{Entry, Hub, kind, name};

const BUDGET: DeletionBudget = DeletionBudget { max: 2, percent: 5 };
const BOUNDLESS: DeletionBudget = DeletionBudget {
    max: u64::MAX,
    percent: 100,
};
const START: Duration = Duration::ZERO;

fn subscribe(hub: &Hub, budget: DeletionBudget, held: BTreeMap<ObjectName, Version>) -> Sender {
    let mut sender = Sender::new(budget, Ledger::default());
    let request = Request::Subscribe {
        kind: kind("Widget"),
        known: Known::Versions {
            held,
            sources: vec![hub.position()],
        },
    };
    sender.request(request, hub, START).expect("the first");
    sender
}

fn write(hub: &mut Hub, sender: &mut Sender, text: &str, entry: Option<Entry>) {
    let change = hub.write(&kind("Widget"), &name(text), entry);
    sender.changed(&kind("Widget"), vec![change], hub);
}

fn next(sender: &mut Sender, hub: &Hub) -> Response {
    let mut responses = sender.poll(hub, START);
    responses.pop().expect("something is to be sent")
}

fn answer(sender: &mut Sender, hub: &Hub, response: &Response, rejected: Vec<Rejection>) {
    let answer = Request::Ack {
        kind: response.kind.clone(),
        nonce: response.nonce,
        rejected,
    };
    sender.request(answer, hub, START).expect("asked");
}

fn rejection(text: &str, verdict: Verdict) -> Rejection {
    Rejection {
        name: name(text),
        reason: "no".to_owned(),
        verdict,
    }
}

fn reasons(names: &[&str]) -> Reasons {
    let listed = names.iter().map(|text| (name(text), "no".to_owned()));
    Reasons {
        listed: listed.collect(),
        more: 0,
    }
}

/// A hub with so many objects.
fn hub(objects: u32) -> Hub {
    let mut hub = Hub::new("hub-1");
    for number in 0..objects {
        let entry = Some(Entry::Wanted(1));
        hub.write(&kind("Widget"), &name(&number.to_string()), entry);
    }
    hub
}

#[test]
fn an_object_is_counted_once_wherever_it_is() {
    let mut hub = hub(3);
    let mut sender = subscribe(&hub, BUDGET, BTreeMap::new());
    let mut expected = Counts {
        wanted: 3,
        open: 3,
        ..Counts::default()
    };
    let counts = |sender: &Sender, hub: &Hub| sender.counts(&kind("Widget"), hub);
    assert_eq!(counts(&sender, &hub), expected);
    let response = next(&mut sender, &hub);
    expected.sent = 3;
    assert_eq!(counts(&sender, &hub), expected, "on their way");
    write(&mut hub, &mut sender, "0", Some(Entry::Wanted(2)));
    write(&mut hub, &mut sender, "1", None);
    expected = Counts {
        wanted: 2,
        sent: 1,
        open: 3,
        surplus: 1,
        ..Counts::default()
    };
    let why = "one changed since it was sent, and one is not wanted any more";
    assert_eq!(counts(&sender, &hub), expected, "{why}");
    let failed = rejection("2", Verdict::Failed);
    answer(&mut sender, &hub, &response, vec![failed]);
    expected.sent = 0;
    expected.rejected = reasons(&["2"]);
    assert_eq!(counts(&sender, &hub), expected);
    let response = next(&mut sender, &hub);
    answer(&mut sender, &hub, &response, Vec::new());
    expected = Counts {
        wanted: 2,
        sent: 1,
        acknowledged: 1,
        open: 1,
        rejected: reasons(&["2"]),
        ..Counts::default()
    };
    assert_eq!(counts(&sender, &hub), expected);
}

#[test]
fn many_that_fail_are_a_few_and_a_number() {
    let hub = hub(100);
    let mut sender = subscribe(&hub, BUDGET, BTreeMap::new());
    let response = next(&mut sender, &hub);
    let all = response.names().map(|name| Rejection {
        name: name.clone(),
        reason: "no".to_owned(),
        verdict: Verdict::Failed,
    });
    let all: Vec<Rejection> = all.collect();
    answer(&mut sender, &hub, &response, all);
    let Reasons { listed, more } = sender.counts(&kind("Widget"), &hub).rejected;
    assert_eq!((listed.len(), more), (20, 80));
}

#[test]
fn what_the_receiver_holds_back_is_tried_again_when_it_is_approved() {
    use deltaplane_sync::View as _;
    let mut hub = hub(3);
    let held = hub.wanted(&kind("Widget")).collect();
    let mut sender = subscribe(&hub, BOUNDLESS, held);
    for text in ["0", "1", "2"] {
        write(&mut hub, &mut sender, text, None);
    }
    let response = next(&mut sender, &hub);
    let held = ["0", "1", "2"].map(|text| rejection(text, Verdict::Held));
    answer(&mut sender, &hub, &response, held.into());
    let expected = Counts {
        open: 3,
        surplus: 3,
        held: Some("no".to_owned()),
        ..Counts::default()
    };
    assert_eq!(sender.counts(&kind("Widget"), &hub), expected);
    assert!(sender.poll(&hub, START).is_empty(), "not at once");
    sender.approve(hub.revision);
    assert_eq!(next(&mut sender, &hub).removed.len(), 3);
}

/// A receiver that keeps its own `0`, and resumes from where it was.
#[test]
fn what_the_receiver_has_of_its_own_is_no_lag_and_is_said_again() {
    let mut hub = hub(2);
    let mut sender = subscribe(&hub, BUDGET, BTreeMap::new());
    let mut receiver = Receiver::new(SenderRole::Hub, BUDGET, Ledger::default());
    let known = Known::Versions {
        held: BTreeMap::new(),
        sources: Vec::new(),
    };
    receiver.subscribe(kind("Widget"), known);
    let response = next(&mut sender, &hub);
    take(&mut sender, &mut receiver, &hub, response);
    let expected = Counts {
        wanted: 2,
        sent: 1,
        acknowledged: 1,
        own: reasons(&["0"]),
        ..Counts::default()
    };
    assert_eq!(sender.counts(&kind("Widget"), &hub), expected);
    assert_eq!(sender.through(&hub), hub.revision, "it lacks nothing");
    assert_eq!(
        sender.acknowledged(&kind("Widget"), &name("0"), &hub),
        None,
        "it has another one"
    );
    write(&mut hub, &mut sender, "1", Some(Entry::Wanted(2)));
    let response = next(&mut sender, &hub);
    assert!(response.complete);
    take(&mut sender, &mut receiver, &hub, response);
    let (position, beyond) = receiver.position(&kind("Widget")).expect("it was whole");
    assert_eq!((position.revision, beyond.len()), (hub.revision, 1));
    let mut again = Sender::new(BUDGET, Ledger::default());
    let known = Known::Position {
        position: position.clone(),
        beyond: beyond.iter().map(|name| (name.clone(), None)).collect(),
    };
    let kind = kind("Widget");
    let request = Request::Subscribe { kind, known };
    again.request(request, &hub, START).expect("the first");
    let response = next(&mut again, &hub);
    let names: Vec<&ObjectName> = response.names().collect();
    assert_eq!(names, [&name("0")]);
}

/// Does what a response says, but for what the receiver has of its own.
fn take(sender: &mut Sender, receiver: &mut Receiver, hub: &Hub, response: Response) {
    let actions = receiver
        .response(response, &Stake::of(2), START)
        .expect("legal");
    for action in actions {
        let Action::Apply { kind, name: of, .. } = action else {
            panic!("nothing is taken away");
        };
        let outcome = match of == name("0") {
            true => Err(Declined::own("no")),
            false => Ok(()),
        };
        if let Some(request) = receiver.done(&kind, &of, outcome) {
            sender.request(request, hub, START).expect("asked");
        }
    }
}
