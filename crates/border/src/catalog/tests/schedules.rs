//! Policies that move zones at random, and zones that come and go: each sees what concerns it, and
//! has in the end what it should.

use std::time::Duration;

use deltaplane_sync::{
    Action, DeletionBudget, Known, Ledger, Outcome, Position, Receiver, Request, Response, Sender,
    SenderRole, Stake,
};

use super::*;

const SCHEDULES: u64 = 150;
const STEPS: usize = 150;
const OBJECTS: [&str; 5] = ["a", "b", "c", "d", "e"];
const ZONES: [&str; 4] = ["w", "x", "y", "z"];
const POLICIES: [&str; 2] = ["p", "q"];
const BUDGET: DeletionBudget = DeletionBudget {
    max: 1000,
    percent: 100,
};

/// Numbers that look random and come again (xorshift).
struct Dice(u64);

/// A catalog with all who read it.
struct World {
    dice: Dice,
    catalog: Catalog,
    at: Revision,
    now: Duration,
    zones: BTreeMap<ZoneName, Far>,
}

/// A zone, and the hub's end of its connection.
#[derive(Default)]
struct Far {
    has: BTreeMap<ObjectName, Version>,
    link: Option<Link>,
    /// From where it can go on, and of which objects it may have more.
    whole: Option<(Position, BTreeSet<ObjectName>)>,
}

struct Link {
    sender: Sender,
    receiver: Receiver,
    cursor: u64,
    /// Whether the hub has reason to look after it.
    woken: bool,
    down: Vec<Response>,
}

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.roll(of.len() as u64)).expect("few")]
    }

    fn content(&mut self) -> Item {
        item(u8::try_from(self.roll(3)).expect("small"))
    }

    fn slot(&mut self) -> Slot {
        Slot {
            release: self.roll(3),
            class: 0,
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut catalog = catalog(1);
        catalog.declare(kind(), None);
        Self {
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            catalog,
            at: 1,
            now: Duration::ZERO,
            zones: ZONES
                .iter()
                .map(|text| (zone(text), Far::default()))
                .collect(),
        }
    }

    fn object(&mut self) -> Edit {
        let dice = &mut self.dice;
        let text = dice.pick(&OBJECTS);
        let becomes = match dice.roll(6) {
            0 => None,
            1 => Some(Entry::Shared {
                item: dice.content(),
                audience: Audience::Everyone,
            }),
            _ => Some(Entry::Governed(Arc::new(Governed {
                policy: PolicyId::new(dice.pick(&POLICIES)),
                slots: (0..dice.roll(4))
                    .map(|_| {
                        let content = dice.content();
                        (dice.slot(), (dice.roll(3) > 0).then_some(content))
                    })
                    .collect(),
                agreed: BTreeSet::new(),
                withdrawal: match dice.roll(2) {
                    0 => Withdrawal::Delete,
                    _ => Withdrawal::Orphan,
                },
            }))),
        };
        edit(text, self.at, becomes)
    }

    fn placed(&mut self) -> Edit {
        let dice = &mut self.dice;
        let policy = PolicyId::new(dice.pick(&POLICIES));
        let known = self.catalog.policies.get(&policy);
        let before = known.and_then(|policy| policy.placement.as_deref());
        let mut places: BTreeMap<ZoneName, Place> = before
            .into_iter()
            .flat_map(Placement::iter)
            .map(|(zone, place)| (zone.clone(), place))
            .collect();
        for _ in 0..=dice.roll(2) {
            let zone = zone(dice.pick(&ZONES));
            match dice.roll(4) {
                0 => places.remove(&zone),
                1 => places.insert(zone, Place::Frozen),
                _ => places.insert(zone, Place::At(dice.slot())),
            };
        }
        let gone = dice.roll(12) == 0;
        Edit::Placed {
            policy,
            revision: self.at,
            placement: (!gone).then(|| places.into_iter().collect()),
        }
    }

    /// Applies a few edits, and checks what each zone is told of it.
    fn apply(&mut self, edits: Vec<Edit>) {
        let alone = edits.len() == 1;
        let (cursor, before) = (self.catalog.end(), self.presences());
        let concerned = self.catalog.apply(edits, self.at);
        let after = self.presences();
        for (key, was) in before {
            let (of, name) = &key;
            let mut changes = self.catalog.after(cursor, Some(of));
            let changes = changes.remove(&kind()).unwrap_or_default();
            let told = changes.iter().find(|change| change.name == *name);
            let is = &after[&key];
            assert!(was == *is || told.is_some(), "{of}: {name} was not told");
            assert!(!alone || was != *is || told.is_none(), "{of}: {name}");
            if let Some(change) = told {
                assert_eq!(change.before, had(&was), "{of}: {name}");
            }
            let nothing = had(&was) == Before::Nothing && had(is) == Before::Nothing;
            let woken = match &concerned {
                Concerned::Everyone => true,
                Concerned::Zones(zones) => zones.contains(of),
            };
            assert!(was == *is || nothing || woken, "{of}: {name} wakes nobody");
        }
        for (zone, far) in &mut self.zones {
            let woken = match &concerned {
                Concerned::Everyone => true,
                Concerned::Zones(zones) => zones.contains(zone),
            };
            far.link.iter_mut().for_each(|link| link.woken |= woken);
        }
    }

    /// What each zone should have of each object.
    fn presences(&self) -> BTreeMap<(ZoneName, ObjectName), Presence> {
        let mut all = BTreeMap::new();
        for of in ZONES.map(zone) {
            let reader = reader(&self.catalog, &of);
            let wanted: Vec<_> = reader.wanted(&kind()).collect();
            assert_eq!(reader.count(&kind()), wanted.len() as u64);
            for name in OBJECTS.map(name) {
                let presence = reader.presence(&kind(), &name);
                let listed = wanted.iter().find(|(other, _)| *other == name);
                let listed = listed.map(|(_, version)| *version);
                assert_eq!(
                    had(&presence) == Before::from(listed),
                    presence != Presence::Frozen
                );
                all.insert((of.clone(), name), presence);
            }
        }
        all
    }

    fn step(&mut self) {
        self.at += self.dice.roll(2);
        match self.dice.roll(12) {
            0..2 => {
                let edit = self.object();
                self.apply(vec![edit]);
            }
            2..4 => {
                let edit = self.placed();
                self.apply(vec![edit]);
            }
            4 => {
                let mut edits = vec![self.object(), self.placed(), self.object()];
                if self.dice.roll(2) == 0 {
                    edits.reverse();
                }
                self.apply(edits);
            }
            5 => self.now += Duration::from_secs(self.dice.roll(10)),
            6 => {
                let far = self.zones.get_mut(&zone(self.dice.pick(&ZONES)));
                let far = far.expect("one of them");
                far.disconnect();
                if self.dice.roll(3) == 0 {
                    far.whole = None;
                }
                // Wiped.
                if self.dice.roll(6) == 0 {
                    (far.whole, far.has) = (None, BTreeMap::new());
                }
            }
            _ => {
                let zone = zone(self.dice.pick(&ZONES));
                let refuses = self.dice.roll(4) == 0;
                self.serve(&zone, refuses);
            }
        }
    }

    /// The hub looks after a zone if it has reason to, and the zone does what it is told.
    fn serve(&mut self, zone: &ZoneName, refuses: bool) {
        let Self {
            catalog,
            now,
            dice,
            zones,
            ..
        } = self;
        let far = zones.get_mut(zone).expect("one of them");
        let view = reader(catalog, zone);
        far.connect(&view);
        let link = far.link.as_mut().expect("connected");
        let due = link.sender.wake_at(*now).is_some_and(|at| at <= *now);
        if link.woken || due {
            link.woken = false;
            for (kind, changes) in catalog.after(link.cursor, Some(zone)) {
                link.sender.changed(&kind, changes, &view);
            }
            link.cursor = catalog.end();
            let responses = link.sender.poll(&view, *now);
            responses.iter().for_each(|one| is_decided(one, &view));
            link.down.extend(responses);
        }
        // The answer may be long in coming, and the catalog go on.
        if dice.roll(2) == 0 {
            far.take(&view, refuses, *now);
        }
    }

    /// Lets all be decided, and everything go its way.
    fn settle(&mut self) {
        for policy in POLICIES {
            let places = ZONES.map(|text| (zone(text), Place::At(self.dice.slot())));
            let placed = Edit::Placed {
                policy: PolicyId::new(policy),
                revision: self.at,
                placement: Some(places.into_iter().collect()),
            };
            self.apply(vec![placed]);
        }
        while !self.zones.values().all(|far| far.is_quiet(self.now)) {
            self.now += Duration::from_secs(10);
            for zone in ZONES.map(zone) {
                self.serve(&zone, false);
            }
        }
        for (of, far) in &self.zones {
            let view = reader(&self.catalog, of);
            let wanted: BTreeMap<_, _> = view.wanted(&kind()).collect();
            let mut has = far.has.clone();
            // What is not decided stays as it is, whatever that is.
            has.retain(|name, _| view.presence(&kind(), name) != Presence::Frozen);
            assert_eq!(has, wanted, "{of}");
        }
    }
}

impl Far {
    fn connect(&mut self, view: &Reader<'_>) {
        if self.link.is_some() {
            return;
        }
        let mut receiver = Receiver::new(SenderRole::Hub, BUDGET, Ledger::default());
        let mut sender = Sender::new(BUDGET, Ledger::default());
        let now = Duration::ZERO;
        let by_versions = Known::Versions {
            held: self.has.clone(),
            sources: vec![view.at()],
        };
        let by_position = self.whole.take().map(|(position, beyond)| {
            let beyond = beyond.into_iter();
            let has = |name: ObjectName| (name.clone(), self.has.get(&name).copied());
            Known::Position {
                position,
                beyond: beyond.map(has).collect(),
            }
        });
        let known = by_position.unwrap_or(by_versions);
        let request = receiver.subscribe(kind(), known);
        sender.request(request, view, now).expect("it is known");
        self.link = Some(Link {
            sender,
            receiver,
            cursor: view.catalog.end(),
            woken: true,
            down: Vec::new(),
        });
    }

    /// Whether nothing is under way, and nobody has reason to look.
    fn is_quiet(&self, now: Duration) -> bool {
        let quiet = |link: &Link| {
            let wake = link.sender.wake_at(now);
            !link.woken && link.down.is_empty() && wake.is_none()
        };
        self.link.as_ref().is_some_and(quiet)
    }

    fn disconnect(&mut self) {
        if let Some(link) = self.link.take() {
            let position = link.receiver.position(&kind());
            self.whole = position.map(|(whole, beyond)| (whole.clone(), beyond.clone()));
        }
    }

    /// Does all that came, or refuses it, and says so.
    fn take(&mut self, view: &Reader<'_>, refuses: bool, now: Duration) {
        let Some(link) = &mut self.link else {
            return;
        };
        for response in std::mem::take(&mut link.down) {
            let stake = Stake::of(self.has.len() as u64);
            let actions = link.receiver.response(response, &stake, now);
            for action in actions.expect("as it should be") {
                let (name, version) = match action {
                    Action::Apply { name, item, .. } => (name, Some(item.version)),
                    Action::Orphan { name, .. } | Action::Delete { name, .. } => (name, None),
                    Action::Send(request) => {
                        link.answer(request, view, now);
                        continue;
                    }
                };
                let outcome: Outcome = match (refuses, version) {
                    (true, _) => Err("no".to_owned().into()),
                    (false, Some(version)) => {
                        self.has.insert(name.clone(), version);
                        Ok(())
                    }
                    (false, None) => {
                        self.has.remove(&name);
                        Ok(())
                    }
                };
                if let Some(request) = link.receiver.done(&kind(), &name, outcome) {
                    link.answer(request, view, now);
                }
            }
        }
    }
}

impl Link {
    fn answer(&mut self, request: Request, view: &Reader<'_>, now: Duration) {
        // Whoever looks after it knows of all changes first.
        for (kind, changes) in view.catalog.after(self.cursor, view.zone) {
            self.sender.changed(&kind, changes, view);
        }
        self.cursor = view.catalog.end();
        self.sender.request(request, view, now).expect("as asked");
        self.woken = true;
    }
}

fn had(presence: &Presence) -> Before {
    match presence {
        Presence::Wanted(item) => Before::Version(item.version),
        Presence::Withdrawn(_) | Presence::Gone => Before::Nothing,
        Presence::Frozen => Before::Unknown,
    }
}

/// What is sent is what the zone should have at that moment, and what goes it should not.
fn is_decided(response: &Response, view: &Reader<'_>) {
    for (name, item) in &response.items {
        let presence = view.presence(&kind(), name);
        assert_eq!(presence, Presence::Wanted(item.clone()), "{name}");
    }
    for name in response.removed.iter().chain(&response.orphaned) {
        let presence = view.presence(&kind(), name);
        assert_eq!(had(&presence), Before::Nothing, "{name}");
    }
}

fn reader<'a>(catalog: &'a Catalog, zone: &'a ZoneName) -> Reader<'a> {
    Reader {
        catalog,
        zone: Some(zone),
    }
}

#[test]
fn whoever_is_moved_has_in_the_end_what_was_released_to_it() {
    for seed in 1..=SCHEDULES {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.settle();
        });
        assert!(run.is_ok(), "the schedule with seed {seed} failed");
    }
}
