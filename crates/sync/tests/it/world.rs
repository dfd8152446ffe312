//! A hub, a zone and what is between them, in memory. Stores are durable; the two ends of the
//! stream and all messages under way are lost when a process ends or the connection breaks.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use deltaplane_sync::{
    Action, Before, Change, Crossing, DeletionBudget, Difference, Epoch, Item, Known, Ledger,
    Lineage, Need, ObjectName, Outcome, Position, Presence, ProtocolError, Receiver, Request,
    Response, Sender, SenderRole, Stake, SyncKind, Version, View, Withdrawal,
};
use serde_json::json;

/// What the hub has under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Wanted(u32),
    /// There, and not for the zone.
    Withdrawn(u32, Withdrawal),
    /// There, and not decided.
    Frozen,
}

/// The hub's store, and its log.
#[derive(Clone, Debug)]
pub(crate) struct Hub {
    pub(crate) epoch: Epoch,
    /// The epochs before, and how far each went.
    past: Vec<(Epoch, u64)>,
    /// Lost positions up to here were settled, as a record of the store says.
    pub(crate) settled: u64,
    pub(crate) revision: u64,
    pub(crate) objects: BTreeMap<(SyncKind, ObjectName), Entry>,
    /// What was there before each change.
    log: Vec<(u64, SyncKind, ObjectName, Option<Entry>)>,
    /// Changes up to here are forgotten.
    pub(crate) compacted: u64,
}

/// What the zone has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zone {
    pub(crate) objects: BTreeMap<(SyncKind, ObjectName), Copy>,
}

/// A copy of a hub's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) version: Version,
    /// Where the hub's store was.
    source: Position,
    /// Written in the zone, and nobody else's.
    pub(crate) status: u32,
    /// Whether it is still the hub's.
    pub(crate) mirrored: bool,
}

/// What the zone's process knows of what it has. Lost with it, and looked up when it connects.
#[derive(Clone, Debug, Default)]
struct Agent {
    held: BTreeMap<(SyncKind, ObjectName), Version>,
    /// What it found changed or gone, and not yet brought back.
    lost: BTreeSet<(SyncKind, ObjectName)>,
    /// What somebody did behind its back, and it was not told yet.
    unseen: VecDeque<(SyncKind, ObjectName)>,
}

pub(crate) fn kind(name: &str) -> SyncKind {
    SyncKind::new("example.com", name).expect("legal")
}

pub(crate) fn name(text: &str) -> ObjectName {
    text.parse().expect("legal")
}

/// What is sent of an object with this content. Hashing is slow, and the same come again.
pub(crate) fn item(name: &ObjectName, content: u32) -> Item {
    thread_local! {
        static MADE: RefCell<BTreeMap<(ObjectName, u32), Item>> = const { RefCell::new(BTreeMap::new()) };
    }
    let key = (name.clone(), content);
    MADE.with_borrow_mut(|made| {
        made.entry(key)
            .or_insert_with(|| make(name, content))
            .clone()
    })
}

fn make(name: &ObjectName, content: u32) -> Item {
    let metadata = json!({"name": name.name(), "namespace": name.namespace()});
    let object = json!({"apiVersion": "v1", "kind": "A", "metadata": metadata, "data": content});
    let crossing = Crossing::of(&object).expect("an object");
    let body = serde_json::to_vec(crossing.object()).expect("JSON");
    Item {
        version: crossing.version(),
        body: body.into(),
        relayed: None,
    }
}

// === impl Hub ===

impl Hub {
    pub(crate) fn new(epoch: &str) -> Self {
        Self {
            epoch: Epoch(epoch.into()),
            past: Vec::new(),
            settled: 0,
            revision: 1,
            objects: BTreeMap::new(),
            log: Vec::new(),
            compacted: 0,
        }
    }

    /// Writes; what is to be told.
    pub(crate) fn write(
        &mut self,
        kind: &SyncKind,
        name: &ObjectName,
        entry: Option<Entry>,
    ) -> Change {
        self.revision += 1;
        let key = (kind.clone(), name.clone());
        let before = match entry {
            Some(entry) => self.objects.insert(key, entry),
            None => self.objects.remove(&key),
        };
        let change = Change {
            name: name.clone(),
            before: self::before(name, before.as_ref()),
            revision: self.revision,
        };
        self.log
            .push((self.revision, kind.clone(), name.clone(), before));
        change
    }

    /// It is opened again.
    pub(crate) fn reopen(&mut self, epoch: &str) {
        self.past.push((self.epoch.clone(), self.revision));
        self.epoch = Epoch::opening(self.epoch.store(), epoch);
    }

    /// Forgets old changes.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
        self.log.clear();
    }

    pub(crate) fn position(&self) -> Position {
        Position {
            epoch: self.epoch.clone(),
            revision: self.revision,
        }
    }
}

fn wanted(name: &ObjectName, entry: Option<&Entry>) -> Option<Version> {
    match entry {
        Some(Entry::Wanted(content)) => Some(item(name, *content).version),
        Some(Entry::Withdrawn(..) | Entry::Frozen) | None => None,
    }
}

fn before(name: &ObjectName, entry: Option<&Entry>) -> Before {
    match entry {
        Some(Entry::Frozen) => Before::Unknown,
        Some(Entry::Wanted(_) | Entry::Withdrawn(..)) | None => wanted(name, entry).into(),
    }
}

impl View for Hub {
    fn at(&self) -> Position {
        self.position()
    }

    fn lineage(&self, followed: &Position) -> Lineage {
        let now = (self.epoch.clone(), self.revision);
        let mut all = self.past.iter().chain([&now]);
        match all.find(|(epoch, _)| *epoch == followed.epoch) {
            Some((_, until)) if followed.revision <= *until => Lineage::Known,
            Some(_) => Lineage::Forked,
            None if followed.epoch.store() == self.epoch.store() => Lineage::Forked,
            None => Lineage::Foreign,
        }
    }

    fn presence(&self, kind: &SyncKind, name: &ObjectName) -> Presence {
        match self.objects.get(&(kind.clone(), name.clone())) {
            Some(Entry::Wanted(content)) => Presence::Wanted(item(name, *content)),
            Some(Entry::Withdrawn(_, how)) => Presence::Withdrawn(*how),
            Some(Entry::Frozen) => Presence::Frozen,
            None => Presence::Gone,
        }
    }

    fn wanted(&self, kind: &SyncKind) -> Box<dyn Iterator<Item = (ObjectName, Version)> + '_> {
        let kind = kind.clone();
        Box::new(self.objects.iter().filter_map(move |((of, name), entry)| {
            let version = wanted(name, Some(entry))?;
            (*of == kind).then(|| (name.clone(), version))
        }))
    }

    fn kinds(&self) -> Vec<SyncKind> {
        let kinds = KINDS.map(kind).into_iter();
        kinds.filter(|kind| self.count(kind) > 0).collect()
    }

    fn count(&self, kind: &SyncKind) -> u64 {
        self.wanted(kind).count() as u64
    }

    fn since(&self, kind: &SyncKind, revision: u64) -> Option<Vec<Change>> {
        let changes = self
            .log
            .iter()
            .filter(|(at, of, ..)| *at > revision && of == kind);
        let change = |(at, _, name, before): &(u64, SyncKind, ObjectName, Option<Entry>)| Change {
            name: name.clone(),
            before: self::before(name, before.as_ref()),
            revision: *at,
        };
        (revision >= self.compacted).then(|| changes.map(change).collect())
    }

    fn remembers(&self, kind: &SyncKind) -> BTreeSet<ObjectName> {
        let changes = self.since(kind, self.compacted).into_iter().flatten();
        let had = changes.filter(|change| change.before != Before::Nothing);
        had.map(|change| change.name).collect()
    }

    fn needs(&self, of: &SyncKind, name: &ObjectName) -> Vec<Need> {
        // Objects in a namespace need it.
        let kind = kind("Namespace");
        let namespace = name.namespace();
        if namespace.is_empty() || *of == kind {
            return Vec::new();
        }
        let name = self::name(namespace);
        vec![Need {
            kind,
            name,
            required: false,
        }]
    }

    fn cascade(&self, _: &SyncKind, _: &ObjectName) -> u64 {
        0
    }
}

/// What is sent is what the zone should have at that moment, and does not have; what is taken away
/// it should not have. So nothing is of what is not decided.
fn is_decided(response: &Response, hub: &Hub, known: &BTreeSet<(SyncKind, ObjectName, Version)>) {
    let Response { kind, .. } = response;
    for (name, item) in &response.items {
        let presence = hub.presence(kind, name);
        assert_eq!(presence, Presence::Wanted(item.clone()), "{name}");
        let key = (kind.clone(), name.clone(), item.version);
        assert!(!known.contains(&key), "{name}: it was there");
    }
    for name in &response.removed {
        let presence = hub.presence(kind, name);
        let goes = [Presence::Gone, Presence::Withdrawn(Withdrawal::Delete)];
        assert!(goes.contains(&presence), "{name}: {presence:?}");
    }
    let orphaned = Presence::Withdrawn(Withdrawal::Orphan);
    for name in &response.orphaned {
        assert_eq!(hub.presence(kind, name), orphaned, "{name}");
    }
}

/// All of it, with what happened so far.
pub(crate) struct World {
    pub(crate) hub: Hub,
    pub(crate) zone: Zone,
    pub(crate) now: Duration,
    pub(crate) budget: DeletionBudget,
    /// The control plane that "hub" stands for.
    pub(crate) sender: SenderRole,
    pub(crate) link: Option<Link>,
    /// Names of which the zone takes nothing.
    pub(crate) refuses: BTreeSet<ObjectName>,
    /// Versions that the hub ever had for the zone.
    pub(crate) released: BTreeSet<(ObjectName, Version)>,
    /// Versions that the zone ever applied.
    pub(crate) applied: BTreeSet<(ObjectName, Version)>,
    /// Names that the hub ever deleted, or asked to delete.
    pub(crate) deleted: BTreeSet<ObjectName>,
    /// When the zone deleted what without approval.
    pub(crate) deletions: Vec<(Duration, SyncKind)>,
    /// Objects that crossed, messages, and streams that ended for a reason.
    pub(crate) sent: usize,
    pub(crate) ended: Vec<ProtocolError>,
    /// Whether positions are resumed from, where they are known.
    pub(crate) resumes: bool,
    positions: BTreeMap<SyncKind, (Position, BTreeSet<ObjectName>)>,
    /// The newest position that the zone followed, which is durable.
    pub(crate) followed: Option<Position>,
    /// What each side deleted lately; lost with its process.
    hub_ledger: Ledger,
    zone_ledger: Ledger,
    /// When a process ended last.
    crashed: (Option<Duration>, Option<Duration>),
    agent: Option<Agent>,
    /// Up to where somebody said that all may go. Forgotten with the hub's process.
    approved: u64,
    /// Namespaces that somebody in the zone deleted, or of which it was not decided whether they
    /// are there when something was sent that is in them, which cannot be taken until they are.
    vanished: BTreeSet<ObjectName>,
}

/// A connection, with what is under way on it.
pub(crate) struct Link {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) down: VecDeque<Response>,
    pub(crate) up: VecDeque<Request>,
    /// What the zone is about to do.
    work: VecDeque<Work>,
}

/// Something to do, with where the hub's store was, and whether a person approved it.
struct Work {
    action: Action,
    at: Position,
    approved: bool,
}

pub(crate) const KINDS: [&str; 2] = ["Namespace", "Widget"];
pub(crate) const WINDOW: Duration = Duration::from_secs(600);

// === impl World ===

impl World {
    pub(crate) fn new(budget: DeletionBudget) -> Self {
        Self {
            hub: Hub::new("hub-1"),
            zone: Zone::default(),
            now: Duration::ZERO,
            budget,
            sender: SenderRole::Hub,
            link: None,
            refuses: BTreeSet::new(),
            released: BTreeSet::new(),
            applied: BTreeSet::new(),
            deleted: BTreeSet::new(),
            deletions: Vec::new(),
            sent: 0,
            ended: Vec::new(),
            resumes: true,
            positions: BTreeMap::new(),
            followed: None,
            hub_ledger: Ledger::default(),
            zone_ledger: Ledger::default(),
            crashed: (None, None),
            agent: None,
            approved: 0,
            vanished: BTreeSet::new(),
        }
    }

    /// The hub writes.
    pub(crate) fn write(&mut self, kind: &str, text: &str, entry: Option<Entry>) {
        let (kind, name) = (self::kind(kind), name(text));
        match &entry {
            Some(Entry::Wanted(content)) => {
                let version = item(&name, *content).version;
                self.released.insert((name.clone(), version));
            }
            Some(Entry::Withdrawn(_, Withdrawal::Orphan) | Entry::Frozen) => {}
            Some(Entry::Withdrawn(_, Withdrawal::Delete)) | None => {
                self.deleted.insert(name.clone());
            }
        }
        let change = self.hub.write(&kind, &name, entry);
        if let Some(link) = &mut self.link {
            link.sender.changed(&kind, vec![change], &self.hub);
        }
    }

    /// The zone connects, if it is not, and says what it has.
    pub(crate) fn connect(&mut self) {
        if self.link.is_some() {
            return;
        }
        self.look();
        let mut receiver = Receiver::new(self.sender, self.budget, self.zone_ledger.clone());
        let mut up = VecDeque::new();
        for kind in KINDS.map(kind) {
            let position = self.positions.get(&kind).filter(|_| self.resumes);
            let known = match position {
                Some((position, beyond)) => Known::Position {
                    position: position.clone(),
                    beyond: beyond
                        .iter()
                        .chain(self.lost(&kind))
                        .map(|name| (name.clone(), self.version(&kind, name)))
                        .collect(),
                },
                None => Known::Versions {
                    held: self.versions(&kind),
                    sources: self.sources(&kind),
                },
            };
            up.push_back(receiver.subscribe(kind, known));
        }
        let mut sender = Sender::new(self.budget, self.hub_ledger.clone());
        sender.approve(self.approved);
        sender.settle(self.hub.settled);
        if let Some(followed) = &self.followed {
            sender.follow(followed, &self.hub);
        }
        self.link = Some(Link {
            sender,
            receiver,
            down: VecDeque::new(),
            up,
            work: VecDeque::new(),
        });
    }

    /// A process that has just begun looks what is there.
    fn look(&mut self) {
        let copies = self.zone.objects.iter();
        let mirrored = copies.filter(|(_, copy)| copy.mirrored);
        let held = mirrored.map(|(key, copy)| (key.clone(), copy.version));
        self.agent.get_or_insert_with(|| Agent {
            held: held.collect(),
            ..Agent::default()
        });
    }

    /// What the zone's process takes for there.
    fn version(&self, kind: &SyncKind, name: &ObjectName) -> Option<Version> {
        let agent = self.agent.as_ref()?;
        agent.held.get(&(kind.clone(), name.clone())).copied()
    }

    fn versions(&self, kind: &SyncKind) -> BTreeMap<ObjectName, Version> {
        let held = self.agent.iter().flat_map(|agent| &agent.held);
        held.filter(|((of, _), _)| of == kind)
            .map(|((_, name), version)| (name.clone(), *version))
            .collect()
    }

    /// The stores that what is there is from, and how far each was seen.
    fn sources(&self, kind: &SyncKind) -> Vec<Position> {
        let copies = self.zone.objects.iter();
        let copies = copies.filter(|((of, _), copy)| of == kind && copy.mirrored);
        let mut furthest: BTreeMap<Epoch, u64> = BTreeMap::new();
        for (_, copy) in copies {
            let revision = furthest.entry(copy.source.epoch.clone()).or_default();
            *revision = copy.source.revision.max(*revision);
        }
        let furthest = furthest.into_iter();
        furthest
            .map(|(epoch, revision)| Position { epoch, revision })
            .collect()
    }

    fn lost(&self, kind: &SyncKind) -> impl Iterator<Item = &ObjectName> {
        let lost = self.agent.iter().flat_map(|agent| &agent.lost);
        lost.filter(move |(of, _)| of == kind).map(|(_, name)| name)
    }

    /// Somebody in the zone deletes an object that came from the hub, with all that is in it, or
    /// writes over it.
    pub(crate) fn meddle(&mut self, chosen: usize, deletes: bool) {
        let mirrored = self.zone.objects.iter().filter(|(_, copy)| copy.mirrored);
        let Some((of, name)) = mirrored.map(|(key, _)| key.clone()).nth(chosen) else {
            return;
        };
        let inside = |key: &(SyncKind, ObjectName)| {
            of == kind("Namespace") && key.1.namespace() == name.name()
        };
        let touched = self.zone.objects.keys();
        let touched = touched.filter(|key| **key == (of.clone(), name.clone()) || inside(key));
        let touched: Vec<_> = touched.cloned().collect();
        for key in touched {
            match deletes {
                true => drop(self.zone.objects.remove(&key)),
                false if key.1 == name => {
                    let copy = self.zone.objects.get_mut(&key).expect("it is there");
                    copy.version = Version::altered();
                }
                false => continue,
            }
            self.agent.iter_mut().for_each(|agent| {
                agent.unseen.push_back(key.clone());
            });
        }
        if deletes && of == kind("Namespace") {
            self.vanished.insert(name);
        }
    }

    /// The zone's process is told what somebody did, if it still is so, and tells the hub.
    pub(crate) fn notice(&mut self) {
        let Some(agent) = &mut self.agent else {
            return;
        };
        let Some(key) = agent.unseen.pop_front() else {
            return;
        };
        let there = self.zone.objects.get(&key).filter(|copy| copy.mirrored);
        let there = there.map(|copy| copy.version);
        if agent.held.get(&key) == there.as_ref() {
            return;
        }
        match there {
            Some(version) => agent.held.insert(key.clone(), version),
            None => agent.held.remove(&key),
        };
        agent.lost.insert(key.clone());
        let (kind, name) = key;
        if let Some(link) = &mut self.link {
            let request = link.receiver.repair(kind, BTreeSet::from([name]));
            link.up.extend(request);
        }
    }

    /// What the zone's process did itself.
    fn did(&mut self, kind: &SyncKind, name: &ObjectName, becomes: Option<Version>) {
        let key = (kind.clone(), name.clone());
        if let Some(agent) = &mut self.agent {
            agent.lost.remove(&key);
            match becomes {
                Some(version) => agent.held.insert(key, version),
                None => agent.held.remove(&key),
            };
        }
    }

    /// Time passes, unless something is under way: so it is deleted when it was sent.
    pub(crate) fn wait(&mut self, time: Duration) {
        let busy = |link: &Link| !link.down.is_empty() || !link.work.is_empty();
        if !self.link.as_ref().is_some_and(busy) {
            self.now += time;
        }
    }

    /// The connection breaks; both go on, and the zone remembers where it was.
    pub(crate) fn disconnect(&mut self) {
        let Some(link) = self.link.take() else {
            return;
        };
        for kind in KINDS.map(kind) {
            if let Some((position, beyond)) = link.receiver.position(&kind) {
                let position = (position.clone(), beyond.clone());
                self.positions.insert(kind, position);
            }
        }
        self.hub_ledger = link.sender.ledger().clone();
        self.zone_ledger = link.receiver.ledger().clone();
    }

    /// The zone's process ends: it knows what its store says.
    pub(crate) fn crash_zone(&mut self) {
        self.disconnect();
        self.positions.clear();
        self.zone_ledger = Ledger::default();
        self.agent = None;
        self.crashed.1 = Some(self.now);
        self.forget_deletions();
    }

    /// The hub's process ends, and its store is opened again.
    pub(crate) fn crash_hub(&mut self, epoch: &str) {
        self.disconnect();
        self.hub.reopen(epoch);
        self.hub_ledger = Ledger::default();
        self.approved = 0;
        self.crashed.0 = Some(self.now);
        self.forget_deletions();
    }

    /// When both ended at about the same time, nobody remembers what was deleted.
    fn forget_deletions(&mut self) {
        if let (Some(hub), Some(zone)) = self.crashed
            && hub.abs_diff(zone) < WINDOW
        {
            self.deletions.clear();
        }
    }

    fn ends(&mut self, why: ProtocolError) {
        self.disconnect();
        if matches!(why, ProtocolError::TooOld { .. }) {
            self.positions.clear();
        }
        self.ended.push(why);
    }

    /// The hub hears one message and says what there is to say.
    pub(crate) fn hub_step(&mut self) {
        let Some(link) = &mut self.link else {
            return;
        };
        if let Some(request) = link.up.pop_front()
            && let Err(why) = link.sender.request(request, &self.hub, self.now)
        {
            return self.ends(why);
        }
        let known = self.known();
        let Some(link) = &mut self.link else {
            return;
        };
        for response in link.sender.poll(&self.hub, self.now) {
            assert_eq!(link.sender.diverged(), None, "sent to a zone that is ahead");
            is_decided(&response, &self.hub, &known);
            let items = response.items.iter().map(|(name, _)| name);
            let inside = items.filter_map(|name| name.namespace().parse().ok());
            let frozen =
                |name: &ObjectName| self.hub.presence(&kind("Namespace"), name) == Presence::Frozen;
            self.vanished.extend(inside.filter(frozen));
            self.sent += response.items.len();
            link.down.push_back(response);
        }
    }

    /// What the hub knows that the zone has.
    fn known(&self) -> BTreeSet<(SyncKind, ObjectName, Version)> {
        let sender = self.link.iter().map(|link| &link.sender);
        let known = sender.flat_map(|sender| {
            let objects = self.hub.objects.keys();
            objects.filter_map(|(kind, name)| {
                let version = sender.acknowledged(kind, name, &self.hub)?;
                Some((kind.clone(), name.clone(), version))
            })
        });
        known.collect()
    }

    /// The zone hears one message, or does one thing.
    pub(crate) fn zone_step(&mut self) {
        let Some(link) = &mut self.link else {
            return;
        };
        if let Some(work) = link.work.pop_front() {
            return self.act(work);
        }
        let Some(response) = link.down.pop_front() else {
            return;
        };
        let (of, at, approved) = (
            response.kind.clone(),
            response.at.clone(),
            response.approved,
        );
        let mirrored = self.zone.objects.iter();
        let mirrored = mirrored.filter(|((kind, _), copy)| *kind == of && copy.mirrored);
        let held = mirrored.count() as u64;
        // The same person approves at both ends.
        let stake = Stake {
            approved,
            ..Stake::of(held)
        };
        match link.receiver.response(response, &stake, self.now) {
            // It came before, or late.
            Ok(actions) if actions.is_empty() => {}
            Ok(actions) => {
                let work = actions.into_iter().map(|action| Work {
                    action,
                    at: at.clone(),
                    approved,
                });
                link.work.extend(work);
                self.never_back(&of, &at);
                self.followed = Some(at);
            }
            Err(why) => self.ends(why),
        }
    }

    fn act(&mut self, work: Work) {
        let Work {
            action,
            at,
            approved,
        } = work;
        let (kind, name, outcome) = match action {
            Action::Send(request) => return self.answer(request),
            Action::Apply { kind, name, item } => {
                let outcome = self.apply(&kind, &name, (&item, at));
                (kind, name, outcome)
            }
            Action::Orphan { kind, name } => {
                if let Some(copy) = self.zone.objects.get_mut(&(kind.clone(), name.clone())) {
                    copy.mirrored = false;
                }
                self.did(&kind, &name, None);
                (kind, name, Ok(()))
            }
            Action::Delete { kind, name } => {
                let key = (kind.clone(), name.clone());
                // Somebody may have deleted it here, unnoticed, and with it where it came from.
                let there = self.zone.objects.contains_key(&key);
                assert!(
                    approved || !there || self.deleted.contains(&name),
                    "{name} was never deleted at the hub"
                );
                if self.zone.objects.remove(&key).is_some() && !approved {
                    self.deletions.push((self.now, kind.clone()));
                }
                self.did(&kind, &name, None);
                (kind, name, Ok(()))
            }
        };
        if let Some(link) = &mut self.link
            && let Some(request) = link.receiver.done(&kind, &name, outcome)
        {
            self.answer(request);
        }
    }

    fn apply(
        &mut self,
        kind: &SyncKind,
        name: &ObjectName,
        (item, source): (&Item, Position),
    ) -> Outcome {
        let object = serde_json::from_slice(&item.body).expect("JSON");
        Crossing::received(object, name, item.version).expect("nothing but what crosses");
        assert!(
            self.released.contains(&(name.clone(), item.version)),
            "{name} was never released like this"
        );
        if self.refuses.contains(name) {
            return Err("refused".to_owned().into());
        }
        if !name.namespace().is_empty() {
            let namespace = (self::kind("Namespace"), self::name(name.namespace()));
            let there = self.zone.objects.contains_key(&namespace);
            let wanted = matches!(self.hub.objects.get(&namespace), Some(Entry::Wanted(_)));
            if !there && self.vanished.contains(&namespace.1) {
                return Err("its namespace is not there".to_owned().into());
            }
            assert!(there || !wanted, "{name} came before its namespace");
        }
        self.applied.insert((name.clone(), item.version));
        let key = (kind.clone(), name.clone());
        let status = self.zone.objects.get(&key).map_or(0, |copy| copy.status);
        let copy = Copy {
            version: item.version,
            source,
            status,
            mirrored: true,
        };
        self.zone.objects.insert(key, copy);
        self.did(kind, name, Some(item.version));
        if *kind == self::kind("Namespace") {
            self.vanished.remove(name);
        }
        Ok(())
    }

    /// The zone never follows an older revision than it did.
    fn never_back(&self, kind: &SyncKind, at: &Position) {
        let before = self.sources(kind);
        for before in before.iter().filter(|before| before.epoch == at.epoch) {
            assert!(before.revision <= at.revision, "the zone went back");
        }
    }

    fn answer(&mut self, request: Request) {
        if let Some(link) = &mut self.link {
            link.up.push_back(request);
        }
    }

    /// What the hub says that the zone acknowledged, it has applied; and has, when nothing is under
    /// way that says otherwise.
    pub(crate) fn check_claims(&self) {
        let Some(link) = &self.link else {
            return;
        };
        let objects = self.hub.objects.keys();
        for (kind, name) in objects {
            let claimed = link.sender.acknowledged(kind, name, &self.hub);
            if let Some(version) = claimed {
                assert!(
                    self.applied.contains(&(name.clone(), version)),
                    "{name}: acknowledged and never applied"
                );
                let there = self.zone.objects.get(&(kind.clone(), name.clone()));
                let has = there.is_some_and(|copy| copy.version == version);
                assert!(has || !self.is_quiet(), "{name}: acknowledged and lost");
            }
        }
    }

    /// Lets everything go its way, without faults, until nothing happens any more. Somebody
    /// answers what is asked: the hub is right, and what is held may go.
    pub(crate) fn settle(&mut self) {
        for _ in 0..20_000 {
            self.connect();
            self.notice();
            self.hub_step();
            self.zone_step();
            // Whoever settles it has seen all that differs.
            if self.is_diverged() && self.link.as_ref().is_some_and(|link| link.up.is_empty()) {
                self.reconcile();
            }
            if self.is_quiet() && !self.decide() {
                return;
            }
        }
        panic!("it does not settle: {:?}", self.ended.last());
    }

    pub(crate) fn is_diverged(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.sender.diverged().is_some())
    }

    /// A person settles that the hub is right: the store goes on above all that the zone followed.
    pub(crate) fn reconcile(&mut self) {
        let Some(link) = &self.link else {
            return;
        };
        let Some(lost) = link.sender.diverged().map(|lost| lost.revision) else {
            return;
        };
        for kind in KINDS.map(kind) {
            let differences = link.sender.differences(&kind);
            let surplus = differences.filter(|(_, how)| *how == Difference::OnlyReceiver);
            self.deleted.extend(surplus.map(|(name, _)| name.clone()));
        }
        self.hub.settled = self.hub.settled.max(lost);
        self.hub.revision = self.hub.revision.max(lost) + 1;
        self.disconnect();
    }

    fn is_quiet(&self) -> bool {
        let quiet =
            |link: &Link| link.up.is_empty() && link.down.is_empty() && link.work.is_empty();
        let seen = |agent: &Agent| agent.unseen.is_empty();
        self.link.as_ref().is_some_and(quiet) && self.agent.as_ref().is_none_or(seen)
    }

    /// Does what only time or a person can do. Whether there was anything.
    fn decide(&mut self) -> bool {
        let Some(link) = &mut self.link else {
            return true;
        };
        let kinds = KINDS.map(kind);
        let held: Vec<&SyncKind> = kinds
            .iter()
            .filter(|kind| link.sender.held(kind).is_some())
            .collect();
        let (is_held, wake) = (!held.is_empty(), link.sender.wake_at(self.now));
        match is_held {
            true => self.approve(),
            false => self.now = self.now.max(wake.unwrap_or_default()),
        }
        is_held || wake.is_some()
    }

    /// Somebody says that all may go that is to go now.
    pub(crate) fn approve(&mut self) {
        self.approved = self.hub.revision;
        if let Some(link) = &mut self.link {
            link.sender.approve(self.approved);
        }
    }
}
