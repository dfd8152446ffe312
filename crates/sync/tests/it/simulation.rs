//! Thousands of schedules, each reproducible by its seed: `SEED=17 cargo test -p deltaplane-sync
//! simulation`.

use std::time::Duration;

use deltaplane_sync::{DeletionBudget, ObjectName, SyncKind, Withdrawal};

use crate::world::{Entry, Hub, KINDS, WINDOW, World, Zone, item, kind, name};

const SCHEDULES: u64 = 2_000;
const STEPS: usize = 250;
const NAMES: [&str; 6] = ["n1/a", "n1/b", "n2/a", "c", "d", "e"];
const NAMESPACES: [&str; 2] = ["n1", "n2"];
pub(crate) const BUDGET: DeletionBudget = DeletionBudget { max: 2, percent: 0 };

/// Numbers that look random and come again (xorshift).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    pub(crate) fn epoch(&mut self) -> String {
        self.roll(1 << 40).to_string()
    }

    pub(crate) fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.roll(of.len() as u64)).expect("few")]
    }
}

/// What was saved of a store.
#[derive(Default)]
struct Backups {
    hub: Option<Hub>,
    zone: Option<Zone>,
}

#[test]
fn whatever_goes_wrong_they_agree_in_the_end() {
    schedules(SCHEDULES, schedule);
}

/// Runs the schedules with the first so many seeds, or the one that was asked for.
#[expect(
    clippy::disallowed_methods,
    reason = "which schedule is repeated is for the developer to say"
)]
pub(crate) fn schedules(count: u64, schedule: fn(u64)) {
    let only = std::env::var("SEED")
        .ok()
        .map(|seed| seed.parse().expect("a number"));
    let seeds = only.map_or(1..count + 1, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let run = std::panic::catch_unwind(|| schedule(seed));
        assert!(run.is_ok(), "the schedule with SEED={seed} failed");
    }
}

fn schedule(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut world = World::new(BUDGET);
    let mut backups = Backups::default();
    world.resumes = dice.roll(2) == 0;
    // Restored stores are another matter in every fourth.
    let restores = dice.roll(4) == 0;
    for _ in 0..STEPS {
        step(&mut world, &mut dice, &mut backups, restores);
        world.check_claims();
    }
    within_budget(&world);
    world.refuses.clear();
    // What is not decided stays as it is, and nobody waits for it: but what is in a namespace that
    // may not be there.
    thaw(&mut world, &mut dice, "Namespace");
    world.settle();
    agree(&world);
    thaw(&mut world, &mut dice, "Widget");
    world.settle();
    agree(&world);
}

fn step(world: &mut World, dice: &mut Dice, backups: &mut Backups, restores: bool) {
    match dice.roll(100) {
        0..25 => world.hub_step(),
        25..57 => world.zone_step(),
        57..60 => world.notice(),
        60..69 => write(world, dice),
        69..72 => meddle(world, dice),
        72..80 => world.connect(),
        80..83 => world.disconnect(),
        83..85 => world.crash_zone(),
        // The hub's process ends: its sessions do, and its store does not.
        85 => world.crash_hub(&dice.epoch()),
        86 => world.hub.compact(),
        87 => world.approve(),
        88..90 => world.wait(Duration::from_secs(dice.roll(400))),
        90..92 => {
            world.refuses.insert(name(dice.pick(&NAMES)));
        }
        92..94 => {
            world.refuses.pop_first();
        }
        94 => repeat(world, dice),
        95 => status(world, dice),
        96 => {
            backups.hub = Some(world.hub.clone());
            backups.zone = Some(world.zone.clone());
        }
        97 if restores => restore_zone(world, dice, backups),
        98 if restores => restore_hub(world, dice, backups),
        _ => world.wait(Duration::from_secs(1)),
    }
}

fn write(world: &mut World, dice: &mut Dice) {
    let namespace = dice.roll(5) == 0;
    let (kind, text) = match namespace {
        true => ("Namespace", dice.pick(&NAMESPACES)),
        false => ("Widget", dice.pick(&NAMES)),
    };
    let entry = match dice.roll(5) {
        0 => Some(Entry::Frozen),
        _ => decision(dice),
    };
    if is_legal(world, text, entry.as_ref(), namespace) {
        world.write(kind, text, entry);
    }
}

/// What the zone should have of an object.
fn decision(dice: &mut Dice) -> Option<Entry> {
    let content = u32::try_from(dice.roll(5)).expect("small");
    match dice.roll(10) {
        0..6 => Some(Entry::Wanted(content)),
        6 => Some(Entry::Withdrawn(content, Withdrawal::Orphan)),
        7 => Some(Entry::Withdrawn(content, Withdrawal::Delete)),
        _ => None,
    }
}

/// All of a kind that was not decided is.
fn thaw(world: &mut World, dice: &mut Dice, of: &str) {
    let objects = world.hub.objects.iter();
    let frozen = objects.filter(|((kind, _), entry)| **entry == Entry::Frozen && kind.kind() == of);
    let frozen: Vec<_> = frozen.map(|((_, name), _)| name.to_string()).collect();
    for text in frozen {
        let namespace = of == "Namespace";
        let otherwise = namespace.then_some(Entry::Wanted(0));
        let entry = decision(dice);
        let entry = match is_legal(world, &text, entry.as_ref(), namespace) {
            true => entry,
            false => otherwise,
        };
        world.write(of, &text, entry);
    }
}

/// Objects are in namespaces that are there.
fn is_legal(world: &World, text: &str, entry: Option<&Entry>, namespace: bool) -> bool {
    let is_wanted = |entry: Option<&Entry>| matches!(entry, Some(Entry::Wanted(_)));
    let may_be = |entry: Option<&Entry>| matches!(entry, Some(Entry::Wanted(_) | Entry::Frozen));
    let of = |of: &str, text: &str| world.hub.objects.get(&(kind(of), name(text)));
    match (namespace, text.split_once('/')) {
        (true, _) => {
            let inside = NAMES
                .iter()
                .filter(|one| one.split_once('/').is_some_and(|(of, _)| of == text));
            may_be(entry) || !inside.into_iter().any(|one| is_wanted(of("Widget", one)))
        }
        (false, Some((namespace, _))) => !is_wanted(entry) || may_be(of("Namespace", namespace)),
        (false, None) => true,
    }
}

/// A frame comes twice, or late.
fn repeat(world: &mut World, dice: &mut Dice) {
    let Some(link) = &mut world.link else {
        return;
    };
    if let Some(response) = link.down.front().cloned() {
        match dice.roll(2) {
            0 => link.down.push_front(response),
            _ => link.down.push_back(response),
        }
    }
}

/// Somebody in the zone changes or deletes what is not theirs, and it is noticed sooner or later.
fn meddle(world: &mut World, dice: &mut Dice) {
    let chosen = usize::try_from(dice.roll(6)).expect("small");
    world.meddle(chosen, dice.roll(2) == 0);
    for _ in 0..dice.roll(3) {
        world.notice();
    }
}

/// The zone writes a status.
fn status(world: &mut World, dice: &mut Dice) {
    if let Some(copy) = world.zone.objects.values_mut().next() {
        copy.status = u32::try_from(dice.roll(100)).expect("small");
    }
}

fn restore_zone(world: &mut World, dice: &mut Dice, backups: &Backups) {
    world.crash_zone();
    world.zone = match (dice.roll(2), &backups.zone) {
        (0, Some(zone)) => zone.clone(),
        _ => Zone::default(),
    };
}

/// Another store, or an older state of this one.
fn restore_hub(world: &mut World, dice: &mut Dice, backups: &Backups) {
    world.crash_hub(&dice.epoch());
    world.hub = match (dice.roll(2), &backups.hub) {
        (0, Some(hub)) => hub.clone(),
        _ => Hub::new(&dice.epoch()),
    };
    world.hub.reopen(&dice.epoch());
}

/// No more was deleted at any time than the budget allows.
pub(crate) fn within_budget(world: &World) {
    for (at, kind) in &world.deletions {
        let window = world
            .deletions
            .iter()
            .filter(|(other, of)| of == kind && *other <= *at && *other + WINDOW > *at);
        let count = window.count() as u64;
        assert!(count <= BUDGET.max, "{count} deletions of {kind}");
    }
}

/// The zone has what it should; what is not decided does not matter.
fn agree(world: &World) {
    let frozen = |kind: &SyncKind, name: &ObjectName| {
        let entry = world.hub.objects.get(&(kind.clone(), name.clone()));
        entry == Some(&Entry::Frozen)
    };
    for kind in KINDS.map(kind) {
        let wanted: Vec<_> = world
            .hub
            .objects
            .iter()
            .filter(|((of, _), _)| *of == kind)
            .filter_map(|((_, name), entry)| match entry {
                Entry::Wanted(content) => Some((name.clone(), item(name, *content).version)),
                Entry::Withdrawn(..) | Entry::Frozen => None,
            })
            .collect();
        let mirrored: Vec<_> = world
            .zone
            .objects
            .iter()
            .filter(|((of, name), copy)| *of == kind && copy.mirrored && !frozen(of, name))
            .map(|((_, name), copy)| (name.clone(), copy.version))
            .collect();
        assert_eq!(mirrored, wanted, "{kind}");
    }
}
