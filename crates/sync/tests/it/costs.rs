//! What waits costs nothing until what it waits for happens.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deltaplane_sync::{
    Change, DeletionBudget, Known, Ledger, Lineage, MOST_FURTHER_OBJECTS, MOST_KINDS, Need,
    ObjectName, Position, Presence, ProtocolError, Request, Response, Revision, Sender, SyncKind,
    Version, View,
};

use crate::streams::{SECOND, ack};
use crate::world::{Entry, Hub, kind, name};

const MANY: usize = 1_000;
const FEW: usize = 10;

/// A view that counts how often it is asked about an object.
struct Counting<'a> {
    hub: &'a Hub,
    asked: Cell<usize>,
}

impl Counting<'_> {
    fn ask(&self) -> &Hub {
        self.asked.set(self.asked.get() + 1);
        self.hub
    }
}

impl View for Counting<'_> {
    fn at(&self) -> Position {
        self.ask().at()
    }

    fn lineage(&self, followed: &Position) -> Lineage {
        self.hub.lineage(followed)
    }

    fn presence(&self, kind: &SyncKind, name: &ObjectName) -> Presence {
        self.ask().presence(kind, name)
    }

    fn wanted(&self, kind: &SyncKind) -> Box<dyn Iterator<Item = (ObjectName, Version)> + '_> {
        self.hub.wanted(kind)
    }

    fn kinds(&self) -> Vec<SyncKind> {
        self.hub.kinds()
    }

    fn count(&self, kind: &SyncKind) -> u64 {
        self.hub.count(kind)
    }

    fn since(&self, kind: &SyncKind, revision: Revision) -> Option<Vec<Change>> {
        self.hub.since(kind, revision)
    }

    fn remembers(&self, kind: &SyncKind) -> BTreeSet<ObjectName> {
        self.hub.remembers(kind)
    }

    fn needs(&self, kind: &SyncKind, name: &ObjectName) -> Vec<Need> {
        self.ask().needs(kind, name)
    }

    fn cascade(&self, kind: &SyncKind, name: &ObjectName) -> u64 {
        self.ask().cascade(kind, name)
    }
}

/// A sender to a zone that has what the hub has, with what it costs.
struct Costs {
    hub: Hub,
    sender: Sender,
}

impl Costs {
    fn new(hub: Hub) -> Self {
        let budget = DeletionBudget { max: 1, percent: 0 };
        let mut sender = Sender::new(budget, Ledger::default());
        for kind in ["Namespace", "Widget"].map(kind) {
            let held: BTreeMap<ObjectName, Version> = hub.wanted(&kind).collect();
            let sources = vec![hub.position()];
            let known = Known::Versions { held, sources };
            let request = Request::Subscribe { kind, known };
            let subscribed = sender.request(request, &hub, Duration::ZERO);
            subscribed.expect("the first");
        }
        Self { hub, sender }
    }

    /// The hub writes. How often the view is asked until it is sent.
    fn write(&mut self, of: &str, text: &str, entry: Option<Entry>) -> (usize, Vec<Response>) {
        let change = self.hub.write(&kind(of), &name(text), entry);
        let view = Counting {
            hub: &self.hub,
            asked: Cell::new(0),
        };
        self.sender.changed(&kind(of), vec![change], &view);
        let responses = self.sender.poll(&view, SECOND);
        (view.asked.get(), responses)
    }

    fn acknowledge(&mut self, responses: &[Response], rejected: &[&str]) {
        for response in responses {
            let said = self
                .sender
                .request(ack(response, rejected), &self.hub, SECOND);
            said.expect("asked");
        }
    }
}

#[test]
fn what_is_held_is_not_looked_at_for_every_change() {
    let mut hub = Hub::new("hub-1");
    for number in 0..MANY {
        let name = name(&number.to_string());
        hub.write(&kind("Widget"), &name, Some(Entry::Wanted(1)));
    }
    let mut costs = Costs::new(hub);
    for number in 0..MANY {
        let (asked, responses) = costs.write("Widget", &number.to_string(), None);
        assert!(asked < FEW, "{asked} for removal {number}");
        // The first may go.
        assert_eq!(responses.len(), usize::from(number == 0));
        costs.acknowledge(&responses, &[]);
    }
    let (asked, responses) = costs.write("Widget", "other", Some(Entry::Wanted(1)));
    assert!(asked < FEW, "{asked} for a change of something else");
    costs.acknowledge(&responses, &[]);
    // An approval lets all of them go.
    costs.sender.approve(costs.hub.revision);
    let mut removed = 0;
    loop {
        let responses = costs.sender.poll(&costs.hub, SECOND);
        if responses.is_empty() {
            break;
        }
        removed += responses.iter().map(|one| one.removed.len()).sum::<usize>();
        costs.acknowledge(&responses, &[]);
    }
    assert_eq!(removed, MANY - 1);
}

#[test]
fn what_waits_for_another_is_not_looked_at_until_that_is_there() {
    let mut costs = Costs::new(Hub::new("hub-1"));
    let (_, responses) = costs.write("Namespace", "n1", Some(Entry::Wanted(1)));
    costs.acknowledge(&responses, &["n1"]);
    for number in 0..MANY {
        let name = format!("n1/{number}");
        let (asked, responses) = costs.write("Widget", &name, Some(Entry::Wanted(1)));
        assert!(asked < FEW, "{asked} for {name}");
        assert!(responses.is_empty(), "its namespace was rejected");
    }
    let (_, responses) = costs.write("Namespace", "n1", Some(Entry::Wanted(2)));
    costs.acknowledge(&responses, &[]);
    let responses = costs.sender.poll(&costs.hub, SECOND);
    assert_eq!(responses.len(), 1, "they wait no longer");
}

#[test]
fn kinds_of_which_nothing_is_open_are_not_looked_at() {
    let mut costs = Costs::new(Hub::new("hub-1"));
    for number in 0..MANY {
        let known = Known::Versions {
            held: BTreeMap::new(),
            sources: Vec::new(),
        };
        let kind = kind(&format!("Kind{number}"));
        let request = Request::Subscribe { kind, known };
        let subscribed = costs.sender.request(request, &costs.hub, SECOND);
        subscribed.expect("each once");
    }
    let (asked, responses) = costs.write("Widget", "a", Some(Entry::Wanted(1)));
    assert_eq!(responses.len(), 1);
    assert!(
        asked < FEW,
        "{asked} for one change beside {MANY} idle kinds"
    );
}

/// Only an approval settles what is in doubt, so that looking at it again is no work to do.
#[test]
fn kinds_of_which_everything_is_in_doubt_are_not_looked_at() {
    let mut costs = Costs::new(Hub::new("hub-1"));
    for number in 0..MANY {
        let known = Known::Versions {
            held: BTreeMap::from([(name("claimed"), Version::altered())]),
            sources: Vec::new(),
        };
        let kind = kind(&format!("Kind{number}"));
        let request = Request::Subscribe { kind, known };
        let subscribed = costs.sender.request(request, &costs.hub, SECOND);
        subscribed.expect("each once");
        assert!(costs.sender.poll(&costs.hub, SECOND).is_empty());
    }
    let (asked, responses) = costs.write("Widget", "a", Some(Entry::Wanted(1)));
    assert_eq!(responses.len(), 1);
    assert!(
        asked < FEW,
        "{asked} for one change beside {MANY} kinds in doubt"
    );
}

#[test]
fn a_receiver_makes_a_bounded_number_of_claims() {
    let hub = Hub::new("hub-1");
    let subscribe = |sender: &mut Sender, of: &str, names: u64| {
        let names = 0..names;
        let held = names.map(|number| (name(&number.to_string()), Version::altered()));
        let known = Known::Versions {
            held: held.collect(),
            sources: vec![hub.position()],
        };
        let kind = kind(of);
        sender.request(Request::Subscribe { kind, known }, &hub, SECOND)
    };
    let budget = DeletionBudget { max: 1, percent: 0 };
    let mut sender = Sender::new(budget, Ledger::default());
    for number in 0..MOST_KINDS {
        subscribe(&mut sender, &format!("Kind{number}"), 0).expect("so many are fine");
    }
    let most = MOST_KINDS;
    let refused = subscribe(&mut sender, "Other", 0);
    assert_eq!(refused, Err(ProtocolError::TooManyKinds { most }));

    let mut sender = Sender::new(budget, Ledger::default());
    let half = MOST_FURTHER_OBJECTS / 2;
    for of in ["Widget", "Gadget"] {
        subscribe(&mut sender, of, half).expect("so many are fine");
    }
    let most = MOST_FURTHER_OBJECTS;
    let refused = subscribe(&mut sender, "Other", 1);
    assert_eq!(refused, Err(ProtocolError::TooManyObjects { most }));
}
