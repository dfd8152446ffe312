use std::time::Duration;

use deltaplane_sync::{
    AskedPolicy, AskedSelector, AskedTarget, FareState, Fares, KindFared, ObjectName, Sessions,
    Version,
};

use super::*;

struct World {
    readiness: Readiness,
    sessions: Sessions,
    now: SystemTime,
    zone: ZoneName,
    kind: SyncKind,
}

fn asked(kind: &SyncKind) -> Arc<Asked> {
    let target = AskedTarget {
        kind: kind.clone(),
        names: BTreeSet::new(),
        selector: AskedSelector::everything(),
        ready_when: Vec::new(),
    };
    Arc::new(Asked {
        policies: vec![AskedPolicy {
            name: "web".to_owned(),
            targets: vec![target],
        }],
    })
}

fn version(digit: &str) -> Version {
    digit.repeat(64).parse().expect("legal")
}

fn ready(digit: &str, since: u64) -> Option<Fares> {
    Some(Fares {
        version: Some(version(digit)),
        state: FareState::Ready,
        since,
        reason: String::new(),
    })
}

impl World {
    fn new() -> Self {
        let kind = SyncKind::new("apps", "Deployment").expect("legal");
        let world = Self {
            readiness: Readiness::default(),
            sessions: Sessions::default(),
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(1000),
            zone: "eu-1".parse().expect("legal"),
            kind,
        };
        world.ask(&[asked(&world.kind)]);
        world
    }

    fn ask(&self, all: &[Arc<Asked>]) {
        let all = all.iter().map(|asked| (self.zone.clone(), asked.clone()));
        self.readiness.ask(&all.collect());
    }

    fn connect(&mut self) -> SessionId {
        self.readiness.connected(&self.zone, true);
        self.sessions.open(&self.zone).0
    }

    fn say(
        &self,
        session: SessionId,
        (part, at): (FaredPart, u64),
        objects: &[(&str, Option<Fares>)],
    ) -> bool {
        self.readiness.take_dirty();
        let objects = objects.iter().map(|(name, fares)| {
            let name: ObjectName = name.parse().expect("legal");
            (name, fares.clone())
        });
        let said = KindFared {
            trouble: None,
            objects: objects.collect(),
        };
        let fared = Fared {
            at,
            part,
            kinds: BTreeMap::from([(self.kind.clone(), said)]),
        };
        let saying = Saying {
            zone: &self.zone,
            session,
            now: self.now,
        };
        self.readiness.fared(saying, fared, |_| 3);
        !self.readiness.take_dirty().is_empty()
    }

    /// Since how many seconds it is ready at a version, or why it is not.
    fn verdict(&self, name: &str, digit: &str) -> Result<u64, String> {
        let name = name.parse().expect("legal");
        let verdict = self.readiness.with(&self.zone, |zone| {
            zone.verdict(&self.kind, &name, version(digit))
        });
        match verdict {
            Verdict::Ready { since } => Ok(self.now.duration_since(since).expect("past").as_secs()),
            Verdict::Waiting(why) | Verdict::NoEvidence(why) => Err(why),
            Verdict::Failed { reason, .. } => Err(reason),
        }
    }
}

const NOT_SAID: &str = "the zone has not said how it fares yet";

#[test]
fn what_is_said_counts_for_its_version_alone() {
    let mut world = World::new();
    let session = world.connect();
    assert_eq!(world.verdict("a", "1"), Err(NOT_SAID.to_owned()));
    assert!(world.say(
        session,
        (FaredPart::Last, 50_000),
        &[("a", ready("1", 20_000))]
    ));
    // The zone's clock is another: it is so for thirty seconds.
    assert_eq!(world.verdict("a", "1"), Ok(30));
    let other = "the zone speaks of version 1111111111".to_owned();
    assert_eq!(world.verdict("a", "2"), Err(other));
    assert_eq!(world.verdict("b", "1"), Err(NOT_SAID.to_owned()));
    // A clock that was set back makes it no older than now.
    assert!(world.say(
        session,
        (FaredPart::Changes, 10),
        &[("a", ready("2", 99_999))]
    ));
    assert_eq!(world.verdict("a", "2"), Ok(0));
    assert!(world.say(session, (FaredPart::Changes, 10), &[("a", None)]));
    assert_eq!(world.verdict("a", "2"), Err(NOT_SAID.to_owned()));
}

#[test]
fn a_new_connection_replaces_what_was_said_when_it_has_said_all() {
    let mut world = World::new();
    let first = world.connect();
    let both = [("a", ready("1", 0)), ("b", ready("1", 0))];
    world.say(first, (FaredPart::Last, 10_000), &both);
    let second = world.connect();
    world.now += Duration::from_secs(5);
    // What is not all yet changes nothing, and nothing is added to it by changes.
    assert!(!world.say(second, (FaredPart::More, 20_000), &[("b", ready("1", 0))]));
    assert!(!world.say(
        second,
        (FaredPart::Changes, 20_000),
        &[("c", ready("1", 0))]
    ));
    assert_eq!(world.verdict("a", "1"), Ok(15));
    assert!(world.say(second, (FaredPart::Last, 20_000), &[("d", ready("1", 0))]));
    assert_eq!(world.verdict("a", "1"), Err(NOT_SAID.to_owned()));
    // As long as it was known, whatever the way took.
    assert_eq!(world.verdict("b", "1"), Ok(15));
    assert_eq!(world.verdict("d", "1"), Ok(20));
    // The first says no more.
    assert!(!world.say(first, (FaredPart::Changes, 20_000), &[("b", None)]));
    // Nothing else is news on another connection, and only once.
    let third = world.connect();
    assert!(!world.readiness.is_heard(&world.zone, third));
    let same = [("b", ready("1", 0)), ("d", ready("1", 0))];
    assert!(world.say(third, (FaredPart::Last, 20_100), &same));
    assert!(world.readiness.is_heard(&world.zone, third));
    assert!(!world.say(third, (FaredPart::Last, 20_200), &same));
}

#[test]
fn nothing_is_kept_that_was_not_asked_for_nor_too_much() {
    let mut world = World::new();
    let session = world.connect();
    let many = ["a", "b", "c", "d", "e"].map(|name| (name, ready("1", 0)));
    world.say(session, (FaredPart::Last, 0), &many);
    let kept = |world: &World| {
        let count = |zone: &ZoneReadiness| {
            let objects = zone.kinds.values().map(|kind| kind.objects.len());
            objects.sum::<usize>()
        };
        world.readiness.with(&world.zone, count)
    };
    assert_eq!(kept(&world), 3);
    let elsewhere = SyncKind::new("", "ConfigMap").expect("legal");
    world.readiness.take_dirty();
    world.ask(&[asked(&elsewhere)]);
    assert_eq!(world.readiness.take_dirty().len(), 1);
    assert_eq!(kept(&world), 0);
    assert!(!world.say(session, (FaredPart::Changes, 0), &many));
    assert_eq!(kept(&world), 0);
    world.ask(&[]);
    world.readiness.retain(|_| false);
    assert!(world.readiness.zones.lock().zones.is_empty());
}

#[test]
fn an_older_zone_gives_no_evidence() {
    let mut world = World::new();
    let session = world.connect();
    world.say(session, (FaredPart::Last, 0), &[("a", ready("1", 0))]);
    world.readiness.connected(&world.zone, false);
    let name = "a".parse().expect("legal");
    let verdict = world.readiness.with(&world.zone, |zone| {
        zone.verdict(&world.kind, &name, version("1"))
    });
    assert!(matches!(verdict, Verdict::NoEvidence(_)), "{verdict:?}");
    world.readiness.connected(&world.zone, true);
    assert_eq!(world.verdict("a", "1"), Err(NOT_SAID.to_owned()));
}

#[test]
fn zones_are_asked_when_it_is_known_what_and_when_it_is_another() {
    let readiness = Readiness::default();
    let zone: ZoneName = "eu-1".parse().expect("legal");
    let kind = SyncKind::new("apps", "Deployment").expect("legal");
    let mut asking = readiness.asked(&zone);
    assert_eq!(*asking.borrow_and_update(), None);
    let all = || BTreeMap::from([(zone.clone(), asked(&kind))]);
    readiness.ask(&all());
    assert!(asking.has_changed().expect("open"));
    assert_eq!(*asking.borrow_and_update(), Some(asked(&kind)));
    readiness.ask(&all());
    assert!(!asking.has_changed().expect("open"));
    readiness.ask(&BTreeMap::new());
    assert_eq!(*asking.borrow_and_update(), Some(Arc::default()));
    // One that comes later is not asked anything, and knows it.
    let late = readiness.asked(&"eu-2".parse().expect("legal"));
    assert_eq!(*late.borrow(), Some(Arc::default()));
}

/// A zone of an older version may say more than it should.
#[test]
fn nothing_is_kept_of_what_secrets_hold() {
    let mut world = World::new();
    world.kind = SyncKind::new("", "Secret").expect("legal");
    world.ask(&[asked(&world.kind)]);
    let session = world.connect();
    for (part, state) in [
        (FaredPart::Last, FareState::Waiting),
        (FaredPart::Changes, FareState::Failed),
        (FaredPart::Changes, FareState::NoEvidence),
    ] {
        let fares = Fares {
            version: Some(version("1")),
            state,
            since: 10,
            reason: "waiting for object.metadata[\"hunter2\"]".to_owned(),
        };
        world.say(session, (part, 50), &[("a/b", Some(fares))]);
        let why = world.verdict("a/b", "1").expect_err("not ready");
        assert!(why.contains("Secret") && !why.contains("hunter2"), "{why}");
    }
}
