//! What one zone authors reaches another by way of the hub: two streams, one behind the other, and
//! everything going wrong on both. `SEED=17 cargo test -p deltaplane-sync relays`.

use std::collections::BTreeMap;
use std::time::Duration;

use deltaplane_sync::{ObjectName, SenderRole, Version, Withdrawal, mirrored_name};

use crate::simulation::{BUDGET, Dice, schedules, within_budget};
use crate::world::{Entry, Hub, World, Zone, item, kind, name};

const SCHEDULES: u64 = 300;
const STEPS: usize = 250;
const NAMES: [&str; 4] = ["c", "d", "e", "f"];
const CONTENTS: u32 = 5;

/// From the zone that authors to the hub, and from there to the other.
struct Chain {
    /// Its "hub" is the store of the zone that authors, its "zone" what the hub has of it.
    up: World,
    down: World,
    /// The hub's store is one: what came, and what goes on.
    backup: Option<(Zone, Hub)>,
}

#[test]
fn what_a_zone_authors_is_in_the_others_in_the_end() {
    schedules(SCHEDULES, schedule);
}

fn schedule(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut chain = Chain {
        up: World::new(BUDGET),
        down: World::new(BUDGET),
        backup: None,
    };
    chain.up.sender = SenderRole::Zone;
    chain.up.resumes = dice.roll(2) == 0;
    chain.down.resumes = dice.roll(2) == 0;
    let restores = dice.roll(4) == 0;
    for _ in 0..STEPS {
        chain.step(&mut dice, restores);
        chain.pass_on();
        chain.up.check_claims();
        chain.down.check_claims();
    }
    within_budget(&chain.up);
    within_budget(&chain.down);
    chain.up.settle();
    chain.pass_on();
    chain.down.settle();
    assert_eq!(chain.there(), chain.authored());
}

// === impl Chain ===

impl Chain {
    fn step(&mut self, dice: &mut Dice, restores: bool) {
        let of = match dice.roll(2) {
            0 => &mut self.up,
            _ => &mut self.down,
        };
        match dice.roll(100) {
            0..25 => of.hub_step(),
            25..57 => of.zone_step(),
            57..60 => self.down.notice(),
            60..72 => self.author(dice),
            72..82 => of.connect(),
            82..85 => of.disconnect(),
            85 => self.down.crash_zone(),
            86 => self.up.crash_hub(&dice.epoch()),
            87 => self.crash(dice),
            88 => of.hub.compact(),
            89 => of.approve(),
            90..93 => self.down.meddle(0, dice.roll(2) == 0),
            93..95 => of.wait(Duration::from_secs(dice.roll(400))),
            95 => self.backup = Some((self.up.zone.clone(), self.down.hub.clone())),
            96 if restores => self.restore(dice),
            _ => of.wait(Duration::from_secs(1)),
        }
    }

    fn author(&mut self, dice: &mut Dice) {
        let content = u32::try_from(dice.roll(u64::from(CONTENTS))).expect("small");
        let entry = match dice.roll(10) {
            0..7 => Some(Entry::Wanted(content)),
            7 => Some(Entry::Withdrawn(content, Withdrawal::Delete)),
            _ => None,
        };
        self.up.write("Widget", dice.pick(&NAMES), entry);
    }

    /// The hub's process ends, and with it what it knew of both.
    fn crash(&mut self, dice: &mut Dice) {
        self.up.crash_zone();
        self.down.crash_hub(&dice.epoch());
    }

    /// The hub has an older state of its store, or another store.
    fn restore(&mut self, dice: &mut Dice) {
        self.crash(dice);
        let (zone, hub) = match (dice.roll(2), self.backup.clone()) {
            (0, Some(backup)) => backup,
            _ => (Zone::default(), Hub::new(&dice.epoch())),
        };
        (self.up.zone, self.down.hub) = (zone, hub);
        self.down.hub.reopen(&dice.epoch());
    }

    /// What came to the hub goes on, under the name that it has there.
    fn pass_on(&mut self) {
        let widget = kind("Widget");
        let came = self.up.zone.objects.iter();
        let came = came.filter(|((of, _), copy)| *of == widget && copy.mirrored);
        let came: BTreeMap<ObjectName, u32> = came
            .map(|((_, name), copy)| (relayed(name), content(name, copy.version)))
            .collect();
        for text in NAMES {
            let name = relayed(&name(text));
            let entry = came.get(&name).map(|content| Entry::Wanted(*content));
            let before = self.down.hub.objects.get(&(widget.clone(), name.clone()));
            if before != entry.as_ref() {
                self.down.write("Widget", &name.to_string(), entry);
            }
        }
    }

    /// What should be in the other zone.
    fn authored(&self) -> BTreeMap<ObjectName, Version> {
        let objects = self.up.hub.objects.iter();
        let wanted = objects.filter_map(|((_, name), entry)| match entry {
            Entry::Wanted(content) => {
                let name = relayed(name);
                let version = item(&name, *content).version;
                Some((name, version))
            }
            Entry::Withdrawn(..) | Entry::Frozen => None,
        });
        wanted.collect()
    }

    fn there(&self) -> BTreeMap<ObjectName, Version> {
        let copies = self.down.zone.objects.iter();
        let mirrored = copies.filter(|(_, copy)| copy.mirrored);
        mirrored
            .map(|((_, name), copy)| (name.clone(), copy.version))
            .collect()
    }
}

fn relayed(of: &ObjectName) -> ObjectName {
    let zone = "eu-1".parse().expect("legal");
    name(&mirrored_name(&zone, of.name(), false))
}

fn content(name: &ObjectName, version: Version) -> u32 {
    let mut contents = 0..CONTENTS;
    let found = contents.find(|content| item(name, *content).version == version);
    found.expect("one that was written")
}
