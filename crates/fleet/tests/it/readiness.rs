//! Which zones are asked how things fare, and what is heard of whom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_fleet::Session;
use deltaplane_fleet::readiness::{Verdict, Voice};
use deltaplane_sync::{
    Asked, AskedPolicy, AskedSelector, AskedTarget, Epoch, FareState, Fared, FaredPart, Fares,
    Hello, KindFared, PROTOCOLS, READINESS, Version,
};
use futures::{FutureExt, StreamExt};

use crate::status;
use crate::world::{World, kind, name, zone};

async fn world() -> World {
    let world = World::new().await;
    let (client, _patches) = status::api(0, Vec::new());
    world.attach(client);
    let zones = "fleet.deltaplane.io/zones";
    world.put(zones, &status::zone("a", "1")).await;
    world
}

fn connect(world: &World, features: &[&str]) -> Arc<Session> {
    let hello = Hello {
        zone: zone("a"),
        product: "0".to_owned(),
        protocols: PROTOCOLS,
        features: features.iter().map(|one| (*one).to_owned()).collect(),
        epoch: Epoch("e".into()),
        followed: None,
        mirrored_kinds: BTreeSet::new(),
    };
    let opened = world.fleet.handshake((&zone("a"), "1"), &hello);
    opened.expect("there is such a zone").0
}

fn ask(world: &World) -> Arc<Asked> {
    let target = AskedTarget {
        kind: kind("ConfigMap"),
        names: BTreeSet::new(),
        selector: AskedSelector::everything(),
        ready_when: Vec::new(),
    };
    let policy = AskedPolicy {
        name: "web".to_owned(),
        targets: vec![target],
    };
    let asked = Arc::new(Asked {
        policies: vec![policy],
    });
    let all = BTreeMap::from([(zone("a"), asked.clone())]);
    world.fleet.ask(&all);
    asked
}

fn version() -> Version {
    "ab".repeat(32).parse().expect("legal")
}

fn ready() -> Fared {
    let fares = Fares {
        version: Some(version()),
        state: FareState::Ready,
        since: 0,
        reason: String::new(),
    };
    let said = KindFared {
        trouble: None,
        objects: BTreeMap::from([(name("team/a"), Some(fares))]),
    };
    Fared {
        at: 0,
        part: FaredPart::Last,
        kinds: BTreeMap::from([(kind("ConfigMap"), said)]),
    }
}

fn verdict(world: &World) -> Verdict {
    world.fleet.readiness().with(&zone("a"), |zone| {
        zone.verdict(&kind("ConfigMap"), &name("team/a"), version())
    })
}

/// An older zone is not asked, and nobody waits for what it cannot say.
#[tokio::test]
async fn an_older_zone_is_not_asked_and_gives_no_evidence() {
    let world = world().await;
    ask(&world);
    let session = connect(&world, &["query", "later"]);
    let asked: Vec<Arc<Asked>> = world.fleet.asked(&session).collect().await;
    assert!(asked.is_empty());
    assert!(matches!(verdict(&world), Verdict::NoEvidence(_)));
    // One that was upgraded is.
    let session = connect(&world, &[READINESS]);
    let asked = world.fleet.asked(&session).boxed().next().await;
    assert!(asked.is_some_and(|asked| asked.kinds().len() == 1));
    assert!(matches!(verdict(&world), Verdict::Waiting(_)));
    world.fleet.fared(&session, ready());
    assert!(matches!(verdict(&world), Verdict::Ready { .. }));
}

#[tokio::test]
async fn what_an_older_connection_says_is_not_heard() {
    let world = world().await;
    let first = connect(&world, &[READINESS]);
    let mut asked = world.fleet.asked(&first).boxed();
    // Nobody said yet what to ask.
    assert!(asked.next().now_or_never().is_none());
    let expected = ask(&world);
    assert_eq!(asked.next().await, Some(expected));
    let second = connect(&world, &[READINESS]);
    world.fleet.fared(&first, ready());
    assert!(matches!(verdict(&world), Verdict::Waiting(_)));
    world.fleet.fared(&second, ready());
    assert!(matches!(verdict(&world), Verdict::Ready { .. }));
    assert_eq!(world.fleet.readiness().take_dirty().len(), 1);
    // Of a zone that is gone nothing is kept.
    let zones = "fleet.deltaplane.io/zones";
    let mut changes = world.fleet.readiness().changes();
    world.delete(zones, &status::zone("a", "1")).await;
    let voice = |world: &World| {
        let readiness = world.fleet.readiness();
        readiness.with(&zone("a"), |zone| zone.voice)
    };
    while voice(&world) != Voice::Silent {
        changes.changed().await.expect("the fleet goes on");
    }
}
