//! A zone that says anything to a real hub: its projector, catalog and readers, its end of the zone's
//! stream, and its admission control. Whatever the zone says, no zone is sent what the origin of an
//! object and its kind do not send there, no object gets another origin, nothing of others changes,
//! and nobody is told to delete what nobody deleted.
//! `SEED=17 cargo test -p deltaplane-fleet hostile`.
//!
//! `sync/tests/it/hostile.rs` has the same of the protocol alone, with a catalog of its own.

mod api;
mod checks;
mod rules;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use deltaplane_api::identity::Identity;
use deltaplane_border::Reader;
use deltaplane_store::Collection;
use deltaplane_sync::{
    Crossing, DISPLAY_NAME, DeletionBudget, Item, Known, Ledger, MADE_FOR, ORIGIN, ObjectName,
    Position, Rejection, Relayed, Request, Response, Sender, SyncKind, Verdict, Version, View,
    ZONE, ZoneName, is_named_by_labels, mirrored_name,
};
use serde_json::{Value, json};

use crate::governing::{KINDS, ZONES};
use crate::world::{World, object, zone};
use api::{Api, Change};
use rules::{Rule, Said};
use stream::{Fate, Stream};

const SCHEDULES: u64 = 2_000;
const STEPS: usize = 12;
/// So many schedules are played at one hub, each with zones, kinds and namespaces of its own.
const OF_ONE_HUB: usize = 50;
const THREADS: usize = 4;
/// The plurals of kinds. `Ghost` never crosses.
const PLURALS: [(&str, &str); 5] = [
    ("Widget", "widgets"),
    ("Gear", "gears"),
    ("Service", "services"),
    ("Namespace", "namespaces"),
    ("Ghost", "ghosts"),
];
/// The annotation of an object with who really authored it.
const AUTHOR: &str = "example.com/author";
/// The label by which some kinds select.
const CROSSES: &str = "example.com/crosses";

/// Numbers that look random and come again (xorshift).
struct Dice(u64);

/// A hub, and the way by which its users and its sync write.
struct Hub {
    world: World,
    api: Arc<Api>,
}

/// Objects by kind and name.
type Objects = BTreeMap<(SyncKind, ObjectName), Value>;

/// What a zone has, and the versions of it.
type Holdings = BTreeMap<(SyncKind, ObjectName), (Version, Value)>;

/// One schedule.
struct Play {
    hub: Hub,
    seed: u64,
    dice: Dice,
    said: BTreeMap<SyncKind, Said>,
    streams: BTreeMap<ZoneName, Stream>,
    /// Of zones that keep to the rules.
    holdings: BTreeMap<ZoneName, Holdings>,
    nonce: u64,
    /// What is at the hub.
    stored: Objects,
}

#[test]
fn whatever_a_zone_says_a_real_hub_sends_what_origin_and_kind_send() {
    let seeds: Vec<u64> = match seed() {
        Some(seed) => vec![seed],
        None => (1..=SCHEDULES).collect(),
    };
    // Side by side: each of them waits for its store most of the time.
    std::thread::scope(|scope| {
        for part in seeds.chunks(seeds.len().div_ceil(THREADS)) {
            scope.spawn(|| part.chunks(OF_ONE_HUB).for_each(play_all));
        }
    });
}

fn seed() -> Option<u64> {
    let seed = std::env::var("SEED").ok()?;
    Some(seed.parse().expect("a number"))
}

fn play_all(seeds: &[u64]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut hub = Hub::of(World::new().await);
        for seed in seeds {
            let _told = Told(*seed);
            let mut play = Play::begin(hub, *seed).await;
            for _ in 0..STEPS {
                play.step().await;
            }
            hub = play.end().await;
        }
    });
}

/// Says which schedule failed.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the schedule with SEED={} failed", self.0);
        }
    }
}

// === impl Dice ===

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.roll(of.len() as u64)).expect("few")].clone()
    }
}

// === impl Hub ===

impl Hub {
    fn of(world: World) -> Self {
        let api = Api::attach(&world);
        Self { world, api }
    }

    async fn restart(self) -> Self {
        Self::of(self.world.restart().await)
    }

    /// Writes as somebody at the hub, who may be refused.
    async fn write(&self, (kind, name): &(SyncKind, ObjectName), change: Change) -> bool {
        let group = match kind.group() {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/v1"),
        };
        let namespace = match name.namespace() {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        let path = format!("{group}{namespace}/{}/{}", plural(kind), name.name());
        let ann = Identity::authenticated("ann", &[]);
        let written = self.api.write(&ann, &path, change).await;
        self.world.fleet.caught_up().await;
        written.is_ok()
    }
}

fn plural(kind: &SyncKind) -> &'static str {
    let known = PLURALS.iter().find(|(of, _)| *of == kind.kind());
    known.expect("a kind of ours").1
}

/// Where objects of a kind are in the store.
fn collection(kind: &SyncKind) -> String {
    match kind.group() {
        "" => plural(kind).to_owned(),
        group => format!("{group}/{}", plural(kind)),
    }
}

// === impl Play ===

impl Play {
    async fn begin(hub: Hub, seed: u64) -> Self {
        let mut play = Self {
            hub,
            seed,
            dice: Dice::new(seed),
            said: BTreeMap::new(),
            streams: BTreeMap::new(),
            holdings: BTreeMap::new(),
            nonce: 0,
            stored: Objects::new(),
        };
        let zones = play.zones().map(|zone| {
            let mut zone = object("Zone", "", zone.as_str());
            zone["metadata"]["uid"] = format!("u-{seed}").into();
            zone
        });
        let zones = zones.iter().map(|zone| play.hub.world.put(ZONES, zone));
        futures::future::join_all(zones).await;
        let kinds = play.kinds();
        play.said = kinds
            .iter()
            .map(|kind| (kind.clone(), Said::Nothing))
            .collect();
        play.author_namespace().await;
        for kind in kinds {
            // What a Service was before is another schedule's.
            if kind.kind() == "Service" || play.dice.roll(3) > 0 {
                play.say(&kind).await;
            }
        }
        play.stored = play.read_stored();
        play
    }

    /// The zones: the first one says anything, and the others keep to the rules.
    fn zones(&self) -> [ZoneName; 3] {
        let seed = self.seed;
        [
            format!("evil-{seed}"),
            format!("good-{seed}"),
            format!("evil-{seed}-too"),
        ]
        .map(|name| zone(&name))
    }

    fn evil(&self) -> ZoneName {
        zone(&format!("evil-{}", self.seed))
    }

    fn honest(&self) -> [ZoneName; 2] {
        let [_, good, too] = self.zones();
        [good, too]
    }

    /// The kinds of which something is said now and then, and one of which nothing ever is.
    fn kinds(&self) -> Vec<SyncKind> {
        let own = format!("s{}.example.com", self.seed);
        let kinds = PLURALS.map(|(kind, _)| match kind {
            "Service" | "Namespace" => SyncKind::new("", kind),
            kind => SyncKind::new(&own, kind),
        });
        kinds.into_iter().map(|kind| kind.expect("legal")).collect()
    }

    fn namespace(&self) -> String {
        format!("n{}", self.seed)
    }

    /// Names that objects of anybody may have.
    fn names(&self) -> Vec<String> {
        let (seed, evil) = (self.seed, self.evil());
        let mirrored = mirrored_name(&evil, "x", true);
        let given = [
            format!("good-{seed}.x"),
            format!("{evil}.x"),
            "too-x".to_owned(),
            mirrored,
        ];
        let plain = ["x", "y"].map(str::to_owned);
        plain.into_iter().chain(given).collect()
    }

    /// An object of a kind, somewhere.
    fn id(&mut self, kind: &SyncKind) -> (SyncKind, ObjectName) {
        let name = self.dice.pick(&self.names());
        // Such a name has no dots.
        let name = if is_named_by_labels(kind) {
            name.replace('.', "-")
        } else {
            name
        };
        let namespaces = [self.namespace(), mirrored_name(&self.evil(), "x", true)];
        let namespace = match kind.kind() {
            "Namespace" => String::new(),
            _ => self.dice.pick(&namespaces),
        };
        let name = ObjectName::new(&namespace, &name).expect("legal");
        (kind.clone(), name)
    }

    /// An object that says who really authored it.
    fn object(&mut self, (kind, name): &(SyncKind, ObjectName), author: &str) -> Value {
        let version = match kind.group() {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        };
        let mut object = json!({
            "apiVersion": version, "kind": kind.kind(),
            "metadata": {"name": name.name(), "annotations": {AUTHOR: author}},
            "spec": {"content": self.dice.roll(4)},
        });
        if !name.namespace().is_empty() {
            object["metadata"]["namespace"] = name.namespace().into();
        }
        if self.dice.roll(2) == 0 {
            object["metadata"]["labels"] = json!({CROSSES: "yes"});
        }
        object
    }

    /// All objects at the hub.
    fn read_stored(&self) -> Objects {
        let mut all = Objects::new();
        for kind in self.kinds() {
            let collection = Collection::new("default", &collection(&kind)).expect("legal");
            let snapshot = self.hub.world.store.snapshot(&collection);
            for stored in snapshot.range(None, None).into_iter().flatten() {
                let key = stored.key();
                let name = ObjectName::new(key.namespace(), key.name()).expect("legal");
                let object = serde_json::from_slice(stored.bytes()).expect("JSON");
                all.insert((kind.clone(), name), object);
            }
        }
        all
    }

    async fn step(&mut self) {
        let by_evil = match self.dice.roll(12) {
            0..2 => self.author_at_hub().await,
            2 => self.upload().await,
            3 => {
                let kind = self.dice.pick(&self.kinds());
                self.say(&kind).await;
                false
            }
            4..9 => self.lie_as_sender().await,
            9 => self.lie_as_receiver(),
            _ => self.send_down(),
        };
        self.hub.world.fleet.caught_up().await;
        self.check(by_evil);
    }

    /// Somebody says something else of a kind.
    async fn say(&mut self, kind: &SyncKind) {
        if kind.kind() == "Ghost" {
            return;
        }
        let before = self.said[kind];
        let rule = Rule::random(&mut self.dice);
        let object = rule.object(kind, plural(kind));
        let said = match before {
            Said::Crosses(was) if self.dice.roll(3) == 0 => {
                self.hub.world.delete(KINDS, &object).await;
                Said::Withdrawn(was)
            }
            Said::Crosses(_) | Said::Withdrawn(_) | Said::Nothing => {
                self.hub.world.put(KINDS, &object).await;
                Said::Crosses(rule)
            }
        };
        self.said.insert(kind.clone(), said);
    }

    async fn author_namespace(&mut self) {
        let id = (
            SyncKind::new("", "Namespace").expect("legal"),
            ObjectName::new("", &self.namespace()).expect("legal"),
        );
        let namespace = self.object(&id, "hub");
        assert!(self.hub.write(&id, Change::Apply(namespace)).await);
    }

    async fn author_at_hub(&mut self) -> bool {
        let kind = self.dice.pick(&self.kinds());
        let id = self.id(&kind);
        let change = match self.dice.roll(4) {
            0 => Change::Delete,
            _ => Change::Apply(self.object(&id, "hub")),
        };
        // What belongs to zones is refused.
        self.hub.write(&id, change).await;
        false
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

    /// The stream of a zone, opened if it is not, or ended.
    async fn stream(&mut self, zone: &ZoneName) -> &mut Stream {
        let known = self.streams.get_mut(zone);
        if known.is_some_and(|stream| !stream.is_open()) {
            self.streams.remove(zone);
        }
        if !self.streams.contains_key(zone) {
            let said = self.said.iter();
            let upward = said.filter(|(_, said)| said.rule().is_some_and(Rule::goes_up));
            let upward = upward.map(|(kind, _)| kind.clone()).collect();
            let uid = format!("u-{}", self.seed);
            let stream = Stream::open(&self.hub, (zone, &uid), upward).await;
            self.streams.insert(zone.clone(), stream);
        }
        self.streams.get_mut(zone).expect("it is open")
    }

    async fn send(&mut self, from: &ZoneName, response: Response) -> Fate {
        let fate = self.stream(from).await.send(response).await;
        if matches!(fate, Fate::Ended) {
            self.streams.remove(from);
        }
        fate
    }

    /// A zone that keeps to the rules sends something of its own.
    async fn upload(&mut self) -> bool {
        let from = self.dice.pick(&self.honest());
        let subscribed = self.stream(&from).await.subscribed.clone();
        let kinds: Vec<SyncKind> = subscribed.into_iter().collect();
        if kinds.is_empty() {
            return false;
        }
        let kind = self.dice.pick(&kinds);
        let id = self.id(&kind);
        let object = self.object(&id, from.as_str());
        let mut response = self.response(kind);
        response.items.push((id.1, item(&object, None)));
        self.send(&from, response).await;
        false
    }

    /// The zone says anything of anything.
    async fn lie_as_sender(&mut self) -> bool {
        let evil = self.evil();
        let asked: Vec<SyncKind> = self
            .stream(&evil)
            .await
            .subscribed
            .iter()
            .cloned()
            .collect();
        let kind = match self.dice.roll(8) {
            0 => self.dice.pick(&self.kinds()),
            _ if asked.is_empty() => return true,
            _ => self.dice.pick(&asked),
        };
        let mut response = self.response(kind.clone());
        if self.dice.roll(8) == 0 {
            response.nonce = self.dice.roll(self.nonce + 2);
        }
        if self.dice.roll(8) == 0 {
            response.at.revision = self.dice.roll(3);
        }
        response.complete = self.dice.roll(2) == 0;
        response.approved = self.dice.roll(2) == 0;
        for _ in 0..self.dice.roll(4) {
            let (name, item) = self.lie(&kind);
            response.items.push((name, item));
        }
        if self.dice.roll(6) == 0 {
            response.orphaned.push(self.id(&kind).1);
        }
        if self.dice.roll(3) == 0 {
            response.removed.push(self.id(&kind).1);
        }
        let orphans = !response.orphaned.is_empty();
        let fate = self.send(&evil, response).await;
        let was_taken = matches!(fate, Fate::Answered);
        assert!(!(orphans && was_taken), "a zone orphans nothing: {fate:?}");
        true
    }

    /// An object of the zone that says to be anybody's.
    fn lie(&mut self, kind: &SyncKind) -> (ObjectName, Item) {
        let (evil, id) = (self.evil(), self.id(kind));
        let mut object = self.object(&id, evil.as_str());
        let zones = self.zones();
        let [anybody, owner] = [self.dice.pick(&zones), self.dice.pick(&zones)];
        let claims = match self.dice.roll(6) {
            0 => json!({"labels": {ORIGIN: "zone", ZONE: anybody.as_str()}}),
            1 => json!({"labels": {ORIGIN: "hub", ZONE: null}}),
            2 => json!({"labels": {MADE_FOR: anybody.as_str()}}),
            3 => json!({"annotations": {DISPLAY_NAME: "x", "deltaplane.io/version": "0"}}),
            _ => json!({}),
        };
        json_patch::merge(&mut object["metadata"], &claims);
        let relayed = (self.dice.roll(4) == 0).then(|| Relayed {
            zone: owner,
            name: "x".into(),
        });
        let mut item = item(&object, relayed);
        if self.dice.roll(3) > 0 {
            // As it may cross.
            let crossing = Crossing::of(&object).expect("an object");
            let body = serde_json::to_vec(crossing.object()).expect("JSON");
            item.body = body.into();
        }
        if self.dice.roll(16) == 0 {
            item.version = Version::altered();
        }
        (id.1, item)
    }

    /// The zone says that it has anything, and answers what nobody asked.
    fn lie_as_receiver(&mut self) -> bool {
        let evil = self.evil();
        let catalog = self.hub.world.fleet.catalog().clone();
        let catalog = catalog.read();
        let reader = Reader {
            catalog: &catalog,
            zone: Some(&evil),
        };
        let mut sender = Sender::new(UNBOUNDED, Ledger::default());
        for kind in self.kinds() {
            let names = (0..self.dice.roll(4)).map(|_| self.id(&kind).1);
            let names: BTreeSet<ObjectName> = names.collect();
            let position = match self.dice.roll(3) {
                0 => reader.at(),
                1 => Position {
                    revision: self.dice.roll(reader.at().revision + 2),
                    ..reader.at()
                },
                _ => "other@1".parse().expect("legal"),
            };
            let versions = || names.iter().map(|name| (name.clone(), Version::altered()));
            let request = match self.dice.roll(4) {
                0 => Request::Subscribe {
                    kind,
                    known: Known::Position {
                        position,
                        beyond: versions().map(|(name, one)| (name, Some(one))).collect(),
                    },
                },
                1 => Request::Ack {
                    kind,
                    nonce: self.dice.roll(9),
                    rejected: names.into_iter().map(rejection).collect(),
                },
                2 => Request::Repair { kind, names },
                _ => Request::Subscribe {
                    kind,
                    known: Known::Versions {
                        held: versions().collect(),
                        sources: vec![position],
                    },
                },
            };
            let _ = sender.request(request, &reader, Duration::ZERO);
        }
        for response in sender.poll(&reader, Duration::ZERO) {
            for (name, item) in &response.items {
                self.check_sent(&evil, (&response.kind, name), item);
            }
        }
        true
    }

    /// The hub sends honest zones all that there is to send.
    fn send_down(&mut self) -> bool {
        let catalog = self.hub.world.fleet.catalog().clone();
        let catalog = catalog.read();
        for zone in self.honest() {
            let reader = Reader {
                catalog: &catalog,
                zone: Some(&zone),
            };
            let mut held = self.holdings.remove(&zone).unwrap_or_default();
            let mut sender = Sender::new(UNBOUNDED, Ledger::default());
            for kind in self.kinds() {
                let of_kind = held.iter().filter(|((of, _), _)| *of == kind);
                let known = Known::Versions {
                    held: of_kind
                        .map(|((_, name), (version, _))| (name.clone(), *version))
                        .collect(),
                    sources: vec![reader.at()],
                };
                let request = Request::Subscribe { kind, known };
                let taken = sender.request(request, &reader, Duration::ZERO);
                taken.expect("it keeps to the protocol");
            }
            loop {
                let responses = sender.poll(&reader, Duration::ZERO);
                if responses.is_empty() {
                    break;
                }
                for response in responses {
                    self.take(&zone, &mut held, &response);
                    let ack = Request::Ack {
                        kind: response.kind,
                        nonce: response.nonce,
                        rejected: Vec::new(),
                    };
                    let taken = sender.request(ack, &reader, Duration::ZERO);
                    taken.expect("it keeps to the protocol");
                }
            }
            for ((kind, name), (_, object)) in &held {
                let may_hold = self.may_hold(kind, object, &zone);
                assert!(may_hold, "{zone} holds {kind} {name}: {object}");
            }
            self.holdings.insert(zone, held);
        }
        false
    }

    /// A zone does what the hub says.
    fn take(&self, zone: &ZoneName, held: &mut Holdings, response: &Response) {
        let kind = &response.kind;
        for (name, item) in &response.items {
            self.check_sent(zone, (kind, name), item);
            let object = serde_json::from_slice(&item.body).expect("JSON");
            held.insert((kind.clone(), name.clone()), (item.version, object));
        }
        for name in &response.orphaned {
            held.remove(&(kind.clone(), name.clone()));
        }
        for name in &response.removed {
            let id = (kind.clone(), name.clone());
            assert!(self.may_delete(&id), "{zone} deletes {kind} {name}");
            held.remove(&id);
        }
    }

    /// Ends all streams, and leaves the hub as it was.
    async fn end(mut self) -> Hub {
        for stream in std::mem::take(&mut self.streams).into_values() {
            stream.close().await;
        }
        self.hub.world.fleet.caught_up().await;
        self.check(true);
        if self.dice.roll(40) == 0 {
            self.hub = self.hub.restart().await;
            for said in self.said.values_mut() {
                if matches!(said, Said::Withdrawn(_)) {
                    *said = Said::Nothing;
                }
            }
            self.check(true);
        }
        self.send_down();
        let said = self.said.iter();
        let said = said.filter_map(|(kind, said)| {
            Some((KINDS.to_owned(), said.rule()?.object(kind, plural(kind))))
        });
        let stored = self.stored.keys().map(|(kind, name)| {
            let object = object(kind.kind(), name.namespace(), name.name());
            (collection(kind), object)
        });
        let zones = self.zones();
        let zones = zones.iter().map(|zone| {
            let object = object("Zone", "", zone.as_str());
            (ZONES.to_owned(), object)
        });
        let all: Vec<(String, Value)> = said.chain(stored).chain(zones).collect();
        let world = &self.hub.world;
        let deleted = all
            .iter()
            .map(|(collection, one)| world.delete(collection, one));
        futures::future::join_all(deleted).await;
        self.hub
    }
}

const UNBOUNDED: DeletionBudget = DeletionBudget {
    max: 1000,
    percent: 100,
};

fn item(object: &Value, relayed: Option<Relayed>) -> Item {
    let crossing = Crossing::of(object).expect("an object");
    Item {
        version: crossing.version(),
        body: object.to_string().into_bytes().into(),
        relayed,
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
