//! A zone that says anything to the hub, as a sender and as a receiver: whatever it says, no other
//! zone holds what it may not have, no object gets another origin, nothing of others is deleted, and
//! no more of its own than its budget allows.
//! `SEED=17 cargo test -p deltaplane-sync hostile`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deltaplane_sync::{
    Action, Arrival, Change, Crossing, DISPLAY_NAME, Direction, Epoch, Item, Known, Ledger,
    Lineage, Need, ORIGIN, ObjectName, Origin, Part, Position, Presence, Receiver, Rejection,
    Relayed, Request, Response, Revision, Sender, SenderRole, Stake, StatusWriters, SyncKind,
    Synced, Verdict, Version, View, Withdrawal, Write, Writer, ZONE, ZoneName, judge,
    mirrored_name,
};
use serde_json::{Value, json};

use crate::simulation::{BUDGET, Dice, schedules};
use crate::world::{WINDOW, kind, name};

const SCHEDULES: u64 = 2_000;
const STEPS: usize = 100;
const EVIL: &str = "evil";
const ZONES: [&str; 3] = ["evil", "good", "evil-too"];
const NAMES: [&str; 5] = ["x", "y", "good.x", "evil.x", "too-x"];
/// Sent to zones; sent by zones to the hub; and from there to other zones.
const KINDS: [&str; 3] = ["Policy", "Widget", "Service"];

/// The hub's store: objects as the API keeps them.
#[derive(Default)]
struct Hub {
    revision: Revision,
    objects: BTreeMap<(SyncKind, ObjectName), Stored>,
}

/// An object as the API keeps it, and as it is sent on.
struct Stored {
    object: Value,
    origin: Origin,
    item: Item,
}

/// The hub as one zone sees it.
struct ZoneView<'a> {
    hub: &'a Hub,
    zone: ZoneName,
}

/// The hub's ends of a zone's streams.
struct Session {
    zone: ZoneName,
    sender: Sender,
    receiver: Receiver,
}

/// The objects that a zone has, with their versions and authors.
type Holdings = BTreeMap<(SyncKind, ObjectName), (Version, Origin)>;

struct World {
    hub: Hub,
    sessions: BTreeMap<ZoneName, Session>,
    /// The objects in zones that keep to the rules.
    zones: BTreeMap<ZoneName, Holdings>,
    /// The deletions that the zone brought about.
    deletions: Vec<(Duration, SyncKind)>,
    now: Duration,
    nonce: u64,
}

#[test]
fn whatever_a_zone_says_others_get_what_origin_and_kind_send_them() {
    schedules(SCHEDULES, schedule);
}

fn schedule(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut world = World {
        hub: Hub::default(),
        sessions: BTreeMap::new(),
        zones: BTreeMap::new(),
        deletions: Vec::new(),
        now: Duration::ZERO,
        nonce: 0,
    };
    for zone in ZONES {
        world.connect(zone);
    }
    for _ in 0..STEPS {
        let before = world.hub.origins();
        match dice.roll(10) {
            0 => world.author_at_hub(&mut dice),
            1 => world.upload(&mut dice),
            2..6 => world.lie_as_sender(&mut dice),
            6 => world.lie_as_receiver(&mut dice),
            _ => world.send_down(),
        }
        world.now += Duration::from_secs(dice.roll(60));
        for (id, origin) in world.hub.origins() {
            let was = before.get(&id).unwrap_or(&origin);
            assert_eq!(*was, origin, "{id:?} got another origin");
            assert_eq!(author(&world.hub.objects[&id].object), origin, "{id:?}");
        }
        for (id, origin) in before {
            let is_there = world.hub.objects.contains_key(&id);
            assert!(
                is_there || origin == Origin::Zone(zone(EVIL)),
                "{id:?} is lost"
            );
        }
        world.check_holdings();
    }
    world.check_budget();
}

/// The kind whose names are labels: what comes from zones is named otherwise there.
fn is_named_by_labels(kind: &SyncKind) -> bool {
    kind.kind() == "Service"
}

/// The name that an object of a zone has at the hub.
fn local_name(from: &ZoneName, kind: &SyncKind, name: &ObjectName) -> String {
    mirrored_name(from, name.name(), is_named_by_labels(kind))
}

fn zone(text: &str) -> ZoneName {
    text.parse().expect("legal")
}

/// An object that says in its content who really authored it.
fn object(kind: &SyncKind, name: &ObjectName, author: &str, content: u64) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": kind.kind(),
        "metadata": {"name": name.name()},
        "spec": {"author": author, "content": content},
    })
}

fn author(object: &Value) -> Origin {
    match object["spec"]["author"].as_str().expect("an author") {
        "hub" => Origin::Hub,
        name => Origin::Zone(zone(name)),
    }
}

fn item(object: &Value, relayed: Option<Relayed>) -> Item {
    let crossing = Crossing::of(object).expect("an object");
    Item {
        version: crossing.version(),
        body: object.to_string().into_bytes().into(),
        relayed,
    }
}

/// The rule: the hub's objects go to all zones, those of zones to the others if their kind does.
fn is_for(kind: &SyncKind, origin: &Origin, reader: &ZoneName) -> bool {
    match origin {
        Origin::Hub => kind.kind() != "Service",
        Origin::Zone(author) => kind.kind() == "Service" && author != reader,
    }
}

// === impl Hub ===

impl Hub {
    fn origins(&self) -> BTreeMap<(SyncKind, ObjectName), Origin> {
        let objects = self.objects.iter();
        objects
            .map(|(id, stored)| (id.clone(), stored.origin.clone()))
            .collect()
    }

    /// Writes as sync does, if the API lets it.
    fn write(&mut self, kind: &SyncKind, local: &str, new: Option<Value>) -> Result<(), String> {
        let id = (kind.clone(), name(local));
        let old = self.objects.get(&id).map(|stored| &stored.object);
        let direction = Direction::Both;
        let status = StatusWriters::Zones;
        let judged = judge(&Write {
            place: &Origin::Hub,
            synced: Some(Synced { direction, status }),
            custom: true,
            computed: &[],
            writer: Writer::Sync,
            part: Part::Main,
            old,
            new: new.as_ref(),
            zones: &ZONES.map(zone),
        });
        judged.map_err(|refusal| refusal.to_string())?;
        self.revision += 1;
        match new.map(Stored::new) {
            Some(new) => self.objects.insert(id, new),
            None => self.objects.remove(&id),
        };
        Ok(())
    }

    /// Carries out what a zone's stream asks for, as the mirror does.
    fn act(&mut self, from: &ZoneName, action: &Action) -> Result<(), String> {
        match action {
            Action::Apply { kind, name, item } => {
                let object = serde_json::from_slice(&item.body).map_err(|error| error.to_string());
                let crossing = Crossing::received(object?, name, item.version);
                let crossing = crossing.map_err(|smuggled| smuggled.to_string())?;
                let local = local_name(from, kind, name);
                let origin = match &item.relayed {
                    Some(relayed) => Origin::Zone(relayed.zone.clone()),
                    None => Origin::Zone(from.clone()),
                };
                let source: Position = "e@1".parse().expect("legal");
                let arriving = crossing.arriving(Arrival {
                    name: &local,
                    origin: &origin,
                    authored_as: name.name(),
                    source: &source,
                });
                self.write(kind, &local, Some(arriving))
            }
            Action::Orphan { kind, name } => {
                let local = local_name(from, kind, name);
                let id = (kind.clone(), self::name(&local));
                let Some(stored) = self.objects.get(&id) else {
                    return Ok(());
                };
                let mut object = stored.object.clone();
                let metadata = &mut object["metadata"];
                for (part, key) in [
                    ("labels", ORIGIN),
                    ("labels", ZONE),
                    ("annotations", DISPLAY_NAME),
                ] {
                    let part = metadata[part].as_object_mut();
                    part.and_then(|part| part.remove(key));
                }
                self.write(kind, &local, Some(object))
            }
            Action::Delete { kind, name } => {
                let local = local_name(from, kind, name);
                let id = (kind.clone(), self::name(&local));
                match self.objects.contains_key(&id) {
                    true => self.write(kind, &local, None),
                    false => Ok(()),
                }
            }
            Action::Send(_) => Ok(()),
        }
    }
}

// === impl Stored ===

impl Stored {
    fn new(object: Value) -> Self {
        let origin = Origin::of(&object).unwrap_or(Origin::Hub);
        let relayed = match &origin {
            Origin::Zone(zone) => Some(Relayed {
                zone: zone.clone(),
                name: "x".into(),
            }),
            Origin::Hub => None,
        };
        let crossing = Crossing::of(&object).expect("an object");
        let item = item(&Value::Object(crossing.object().clone()), relayed);
        Self {
            object,
            origin,
            item,
        }
    }
}

// === impl ZoneView ===

impl ZoneView<'_> {
    fn item(&self, kind: &SyncKind, name: &ObjectName) -> Option<Item> {
        let stored = self.hub.objects.get(&(kind.clone(), name.clone()))?;
        is_for(kind, &stored.origin, &self.zone).then(|| stored.item.clone())
    }
}

impl View for ZoneView<'_> {
    fn at(&self) -> Position {
        Position {
            epoch: Epoch("hub".into()),
            revision: self.hub.revision,
        }
    }

    fn lineage(&self, followed: &Position) -> Lineage {
        match followed.epoch.0.as_ref() {
            "hub" if followed.revision <= self.hub.revision => Lineage::Known,
            "hub" => Lineage::Forked,
            _ => Lineage::Foreign,
        }
    }

    fn presence(&self, kind: &SyncKind, name: &ObjectName) -> Presence {
        match self.item(kind, name) {
            Some(item) => Presence::Wanted(item),
            None if self.hub.objects.contains_key(&(kind.clone(), name.clone())) => {
                Presence::Withdrawn(Withdrawal::Orphan)
            }
            None => Presence::Gone,
        }
    }

    fn wanted(&self, kind: &SyncKind) -> Box<dyn Iterator<Item = (ObjectName, Version)> + '_> {
        let kind = kind.clone();
        let of_kind = self.hub.objects.keys();
        Box::new(of_kind.filter_map(move |(of, name)| {
            let item = (*of == kind).then(|| self.item(of, name)).flatten()?;
            Some((name.clone(), item.version))
        }))
    }

    fn kinds(&self) -> Vec<SyncKind> {
        KINDS.map(kind).into()
    }

    fn count(&self, kind: &SyncKind) -> u64 {
        self.wanted(kind).count() as u64
    }

    fn since(&self, _: &SyncKind, revision: Revision) -> Option<Vec<Change>> {
        (revision == self.hub.revision).then(Vec::new)
    }

    fn remembers(&self, _: &SyncKind) -> BTreeSet<ObjectName> {
        BTreeSet::new()
    }

    fn needs(&self, _: &SyncKind, _: &ObjectName) -> Vec<Need> {
        Vec::new()
    }

    fn cascade(&self, _: &SyncKind, _: &ObjectName) -> u64 {
        0
    }
}

// === impl World ===

impl World {
    /// Opens both streams of a zone. The hub asks for the kinds that zones author, and remembers
    /// what the zone deleted.
    fn connect(&mut self, name: &str) {
        let zone = zone(name);
        let before = self.sessions.get(&zone);
        let ledger = before.map(|session| session.receiver.ledger().clone());
        let ledger = ledger.unwrap_or_default();
        let mut receiver = Receiver::new(SenderRole::Zone, BUDGET, ledger);
        for authored in ["Widget", "Service"].map(kind) {
            receiver.subscribe(authored, nothing());
        }
        let sender = Sender::new(BUDGET, Ledger::default());
        let session = Session {
            zone: zone.clone(),
            sender,
            receiver,
        };
        self.sessions.insert(zone.clone(), session);
        if name != EVIL {
            for kind in KINDS.map(kind) {
                let known = self.known(&zone, &kind);
                self.request(&zone, Request::Subscribe { kind, known });
            }
        }
    }

    /// What a zone says that it holds of a kind.
    fn known(&self, zone: &ZoneName, kind: &SyncKind) -> Known {
        let held = self.zones.get(zone).into_iter().flatten();
        let held = held.filter(|((of, _), _)| of == kind);
        Known::Versions {
            held: held
                .map(|((_, name), (version, _))| (name.clone(), *version))
                .collect(),
            sources: vec!["hub@0".parse().expect("legal")],
        }
    }

    /// No zone holds an object that its origin and kind do not send there.
    fn check_holdings(&self) {
        for (zone, objects) in &self.zones {
            for ((kind, name), (_, author)) in objects {
                assert!(
                    is_for(kind, author, zone),
                    "{zone} holds {name} of {author:?}"
                );
            }
        }
    }

    /// The hub deleted no more at any time than the budget allows.
    fn check_budget(&self) {
        for (at, kind) in &self.deletions {
            let window = self
                .deletions
                .iter()
                .filter(|(other, of)| of == kind && *other <= *at && *other + WINDOW > *at);
            let count = window.count() as u64;
            assert!(count <= BUDGET.max, "{count} deletions of {kind}");
        }
    }

    fn author_at_hub(&mut self, dice: &mut Dice) {
        let kind = kind(dice.pick(&["Policy", "Widget"]));
        let name = name(dice.pick(&["x", "y"]));
        self.hub.revision += 1;
        let object = object(&kind, &name, "hub", dice.roll(4));
        self.hub.objects.insert((kind, name), Stored::new(object));
    }

    /// A zone that keeps to the rules sends something of its own.
    fn upload(&mut self, dice: &mut Dice) {
        let from = zone(dice.pick(&["good", "evil-too"]));
        let kind = kind(dice.pick(&["Widget", "Service"]));
        let name = name(dice.pick(&NAMES));
        let object = object(&kind, &name, from.as_str(), dice.roll(4));
        let mut response = self.response(kind);
        response.items.push((name, item(&object, None)));
        self.receive(&from, response);
    }

    /// The zone says anything of anything.
    fn lie_as_sender(&mut self, dice: &mut Dice) {
        let kind = kind(dice.pick(&KINDS));
        let mut response = self.response(kind.clone());
        if dice.roll(6) == 0 {
            response.nonce = dice.roll(self.nonce + 2);
        }
        response.at.revision = dice.roll(3);
        response.complete = dice.roll(2) == 0;
        response.approved = dice.roll(2) == 0;
        for _ in 0..dice.roll(3) {
            let name = name(dice.pick(&NAMES));
            let mut object = object(&kind, &name, EVIL, dice.roll(4));
            if dice.roll(4) == 0 {
                object["metadata"]["labels"] = json!({ORIGIN: "zone", ZONE: "good"});
            }
            let relayed = (dice.roll(3) == 0).then(|| Relayed {
                zone: zone(dice.pick(&ZONES)),
                name: dice.pick(&NAMES).into(),
            });
            response.items.push((name, item(&object, relayed)));
        }
        if dice.roll(3) == 0 {
            response.orphaned.push(name(dice.pick(&NAMES)));
        }
        if dice.roll(3) == 0 {
            response.removed.push(name(dice.pick(&NAMES)));
        }
        self.receive(&zone(EVIL), response);
    }

    fn response(&mut self, kind: SyncKind) -> Response {
        self.nonce += 1;
        Response {
            kind,
            nonce: self.nonce,
            at: "e@1".parse().expect("legal"),
            complete: false,
            items: Vec::new(),
            orphaned: Vec::new(),
            removed: Vec::new(),
            approved: false,
            releases: BTreeMap::new(),
        }
    }

    /// The hub takes what a zone sends. A stream that ends begins again.
    fn receive(&mut self, from: &ZoneName, response: Response) {
        let session = self.sessions.get_mut(from).expect("connected");
        let taken = session.receiver.response(response, &Stake::of(9), self.now);
        let Ok(actions) = taken else {
            return self.connect(from.as_str());
        };
        for action in actions {
            if let Action::Delete { kind, .. } = &action {
                self.deletions.push((self.now, kind.clone()));
            }
            let outcome = self.hub.act(from, &action).map_err(Into::into);
            if let Action::Apply { kind, name, .. }
            | Action::Orphan { kind, name }
            | Action::Delete { kind, name } = &action
            {
                session.receiver.done(kind, name, outcome);
            }
        }
    }

    /// The zone says that it has anything, and answers what nobody asked.
    fn lie_as_receiver(&mut self, dice: &mut Dice) {
        let kind = kind(dice.pick(&KINDS));
        let names = (0..dice.roll(4)).map(|_| name(dice.pick(&NAMES)));
        let names: BTreeSet<ObjectName> = names.collect();
        let position = Position {
            epoch: Epoch(dice.pick(&["hub", "other"]).into()),
            revision: dice.roll(self.hub.revision + 2),
        };
        let versions = || names.iter().map(|name| (name.clone(), Version::altered()));
        let request = match dice.roll(4) {
            0 => Request::Subscribe {
                kind,
                known: Known::Versions {
                    held: versions().collect(),
                    sources: vec![position],
                },
            },
            1 => Request::Subscribe {
                kind,
                known: Known::Position {
                    position,
                    beyond: versions().map(|(name, one)| (name, Some(one))).collect(),
                },
            },
            2 => Request::Repair { kind, names },
            _ => Request::Ack {
                kind,
                nonce: dice.roll(9),
                rejected: names.into_iter().map(rejection).collect(),
            },
        };
        self.request(&zone(EVIL), request);
    }

    fn request(&mut self, of: &ZoneName, request: Request) {
        let view = ZoneView {
            hub: &self.hub,
            zone: of.clone(),
        };
        let session = self.sessions.get_mut(of).expect("connected");
        if session.sender.request(request, &view, self.now).is_err() {
            self.connect(of.as_str());
        }
    }

    /// The hub sends all that there is to send. Zones subscribe anew, so that all is compared.
    fn send_down(&mut self) {
        for name in ["good", "evil-too"] {
            self.connect(name);
        }
        for session in self.sessions.values_mut() {
            let view = ZoneView {
                hub: &self.hub,
                zone: session.zone.clone(),
            };
            let holds = self.zones.entry(session.zone.clone()).or_default();
            for response in session.sender.poll(&view, self.now) {
                let id = |name: &ObjectName| (response.kind.clone(), name.clone());
                for (name, item) in &response.items {
                    let object: Value = serde_json::from_slice(&item.body).expect("JSON");
                    holds.insert(id(name), (item.version, author(&object)));
                }
                for name in response.orphaned.iter().chain(&response.removed) {
                    holds.remove(&id(name));
                }
            }
        }
    }
}

/// What a receiver without objects says.
fn nothing() -> Known {
    Known::Versions {
        held: BTreeMap::new(),
        sources: Vec::new(),
    }
}

fn rejection(name: ObjectName) -> Rejection {
    let (reason, verdict) = ("no".to_owned(), Verdict::Foreign);
    Rejection {
        name,
        reason,
        verdict,
    }
}
