//! What is known of how zones fare: what they said on the connection that they have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_border::Reader;
use deltaplane_fleet::Session;
use deltaplane_propagation::stages;
use deltaplane_sync::{
    Asked, AskedPolicy, AskedSelector, AskedTarget, Crossing, Epoch, FareState, Fared, FaredPart,
    Fares, FollowedPosition, Hello, KindFared, Known, PROTOCOLS, READINESS, Request, Response,
    View,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::governing::{POLICIES, ZONES, at_phase, config, governed, policy, release};
use crate::world::{World, kind, name, object, zone};

/// What the hub thinks of zone x.
fn report(world: &World) -> Option<stages::Fared> {
    let facts = world.fleet.look("web").expect("it is known");
    let x = facts.zones.into_iter().find(|one| one.name == "x");
    Some(x.expect("it is selected").report?.state)
}

fn is_ready(world: &World) -> bool {
    matches!(report(world), Some(stages::Fared::Ready { .. }))
}

fn ask(world: &World) {
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
    let policies = vec![policy];
    let asked = Arc::new(Asked { policies });
    world.fleet.ask(&BTreeMap::from([(zone("x"), asked)]));
}

pub(crate) fn connect(world: &World) -> Arc<Session> {
    connect_after(world, None)
}

/// Zone x connects, and says that it followed this hub so far.
pub(crate) fn connect_after(world: &World, followed: Option<FollowedPosition>) -> Arc<Session> {
    let hello = Hello {
        zone: zone("x"),
        product: "0".to_owned(),
        protocols: PROTOCOLS,
        features: BTreeSet::from([READINESS.to_owned()]),
        epoch: Epoch("e".into()),
        followed,
        mirrored_kinds: BTreeSet::new(),
    };
    let opened = world.fleet.handshake((&zone("x"), "u"), &hello);
    opened.expect("there is such a zone").0
}

/// A position of the hub's store, in an opening that the hub does not know.
pub(crate) fn lost_position(world: &World) -> String {
    let epoch = world.fleet.catalog().read().epoch().0.to_string();
    let (store, _) = epoch.split_once('.').expect("a store and an opening");
    format!("{store}.lost@900")
}

pub(crate) fn followed(position: &str) -> FollowedPosition {
    FollowedPosition {
        position: position.parse().expect("legal"),
        releases: BTreeMap::new(),
    }
}

/// Zone x says that it has these ConfigMaps, and asks for what it lacks of them.
pub(crate) fn subscribe(world: &World, held: &[&Value]) -> Request {
    let held = held.iter().map(|object| {
        let crossing = Crossing::of(object).expect("an object");
        (crossing.name().clone(), crossing.version())
    });
    let catalog = world.fleet.catalog().read();
    let reader = Reader {
        catalog: &catalog,
        zone: None,
    };
    let known = Known::Versions {
        held: held.collect(),
        sources: vec![reader.at()],
    };
    let kind = kind("ConfigMap");
    Request::Subscribe { kind, known }
}

/// Zone x says all that there is to say: that these are ready.
fn ready(objects: &[&Value]) -> Fared {
    let objects = objects.iter().map(|object| {
        let crossing = Crossing::of(object).expect("an object");
        let fares = Fares {
            version: Some(crossing.version()),
            state: FareState::Ready,
            since: 0,
            reason: String::new(),
        };
        (crossing.name().clone(), Some(fares))
    });
    let said = KindFared {
        trouble: None,
        objects: objects.collect(),
    };
    Fared {
        at: 0,
        part: FaredPart::Last,
        kinds: BTreeMap::from([(kind("ConfigMap"), said)]),
    }
}

/// Serves a connection of zone x for as long as `during` takes, which is given a way to ask.
pub(crate) async fn served(
    world: &World,
    session: &Session,
    during: impl AsyncFnOnce(mpsc::Sender<Request>),
) {
    exchanged(world, session, async |asks, _sent| during(asks).await).await;
}

/// The same, with what the hub sends.
pub(crate) async fn exchanged(
    world: &World,
    session: &Session,
    during: impl AsyncFnOnce(mpsc::Sender<Request>, mpsc::Receiver<Response>),
) {
    let (asks, asked) = mpsc::channel(10);
    let (out, sent) = mpsc::channel(10);
    let requests = futures::stream::unfold(asked, |mut asked| async {
        let request = asked.recv().await?;
        Some((Ok(request), asked))
    });
    tokio::select! {
        biased;
        ended = world.fleet.hub_to_zone(session, requests, out) => panic!("it ended: {ended:?}"),
        () = during(asks, sent) => {}
    }
}

/// Ends when the hub heard what zone x has.
async fn heard(world: &World) {
    let mut stirred = world.fleet.stirred();
    while world.fleet.spread(&kind("ConfigMap"), &name("team/a")).0 != 1 {
        stirred.changed().await.expect("the fleet goes on");
    }
}

/// A hub where zone x has arrived at the first release.
async fn arrived() -> World {
    let world = governed().await;
    release(&world, 1, None).await;
    let placed = json!([at_phase("1", "x", "Arrived")]);
    world.put(POLICIES, &policy(&json!({}), &placed)).await;
    ask(&world);
    world
}

#[tokio::test]
async fn what_was_said_on_another_connection_counts_for_nothing() {
    let world = arrived().await;
    let has = config("1");
    let first = connect(&world);
    served(&world, &first, async |asks| {
        // Who has said nothing yet has not lost anything.
        assert_eq!(report(&world), None);
        asks.send(subscribe(&world, &[&has])).await.expect("asked");
        heard(&world).await;
        assert_eq!(report(&world), None);
        world.fleet.fared(&first, ready(&[&has]));
        assert!(is_ready(&world));
    })
    .await;
    let second = connect(&world);
    served(&world, &second, async |asks| {
        assert_eq!(report(&world), None);
        asks.send(subscribe(&world, &[&has])).await.expect("asked");
        heard(&world).await;
        // It may have failed since it was ready.
        assert_eq!(report(&world), None);
        world.fleet.fared(&second, ready(&[&has]));
        assert!(is_ready(&world));
    })
    .await;
}

#[tokio::test]
async fn nobody_is_ready_at_having_nothing_who_did_not_say_what_it_has() {
    let world = arrived().await;
    world.delete("configmaps", &config("1")).await;
    release(&world, 2, None).await;
    let placed = json!([at_phase("2", "x", "Admitted")]);
    world.put(POLICIES, &policy(&json!({}), &placed)).await;
    let session = connect(&world);
    served(&world, &session, async |asks| {
        world.fleet.fared(&session, ready(&[]));
        assert_eq!(report(&world), None);
        asks.send(subscribe(&world, &[])).await.expect("asked");
        let mut stirred = world.fleet.stirred();
        while !is_ready(&world) {
            stirred.changed().await.expect("the fleet goes on");
        }
    })
    .await;
}

#[tokio::test]
async fn the_stamp_of_a_policy_changes_with_what_is_known_of_it() {
    let world = arrived().await;
    let stamp = || world.fleet.stamp("web").expect("it is known");
    let mut before = stamp();
    let mut is_other = |expected: bool| {
        let now = stamp();
        assert_eq!(std::mem::replace(&mut before, now) != now, expected);
    };
    is_other(false);
    // What is no business of it.
    let mut free = config("1");
    free["metadata"]["name"] = "b".into();
    free["metadata"]["labels"] = json!({});
    world.put("configmaps", &free).await;
    is_other(false);
    world.put("configmaps", &config("2")).await;
    is_other(true);
    release(&world, 2, None).await;
    is_other(true);
    let mut approval = object("Approval", "", "web-2");
    approval["spec"] = json!({"policyUID": "policy", "release": 2, "stage": "all"});
    world.put("fleet.deltaplane.io/approvals", &approval).await;
    is_other(true);
    let session = connect(&world);
    is_other(true);
    served(&world, &session, async |_| {
        is_other(true);
        world.fleet.fared(&session, ready(&[&config("1")]));
        is_other(true);
        is_other(false);
    })
    .await;
}

/// Zone x with a status.
fn zone_with(status: Value) -> Value {
    let mut zone = object("Zone", "", "x");
    zone["status"] = status;
    zone
}

#[tokio::test]
async fn a_zone_that_is_ahead_counts_as_diverged_while_it_is_away() {
    let diverged = |world: &World| world.fleet.look("web").expect("it is known").diverged;
    let world = arrived().await;
    assert_eq!(diverged(&world), <[&str; 0]>::default());
    let session = connect_after(&world, Some(followed(&lost_position(&world))));
    served(&world, &session, async |_| {
        assert_eq!(diverged(&world), ["x"]);
    })
    .await;
    // Its connection is lost.
    assert_eq!(diverged(&world), ["x"]);
    // The process ends that knew of the connection.
    let condition = json!([{"type": "Diverged", "status": "True"}]);
    let away = json!({"connection": "Disconnected", "conditions": condition});
    world.put(ZONES, &zone_with(away.clone())).await;
    let world = world.restart().await;
    assert_eq!(diverged(&world), ["x"]);
    // It comes back and knows nothing that is unknown here.
    let session = connect(&world);
    served(&world, &session, async |_| {
        assert_eq!(diverged(&world), <[&str; 0]>::default());
    })
    .await;
}

#[tokio::test]
async fn a_zone_that_was_settled_counts_as_diverged_no_more() {
    let world = arrived().await;
    for (position, settled) in [
        (lost_position(&world), json!({"revision": 900})),
        (
            "unproven.record@0".to_owned(),
            json!({"revision": 901, "record": "unproven.record"}),
        ),
    ] {
        let session = connect_after(&world, Some(followed(&position)));
        let diverged = || world.fleet.look("web").expect("it is known").diverged;
        assert_eq!(diverged(), ["x"]);
        drop(session);
        let status = json!({"connection": "Connected", "reconciled": settled});
        world.put(ZONES, &zone_with(status)).await;
        assert_eq!(diverged(), <[&str; 0]>::default());
    }
}

/// Zones may have the objects of a policy before it is made.
#[tokio::test]
async fn a_zone_that_has_the_content_of_a_release_is_known_to_hold_it() {
    let world = governed().await;
    release(&world, 1, None).await;
    let stages = json!({"stages": [{"name": "all", "approval": "Required"}]});
    world.put(POLICIES, &policy(&stages, &json!([]))).await;
    for (has, expected) in [("1", Some(1)), ("0", None)] {
        let session = connect(&world);
        served(&world, &session, async |asks| {
            let holds = || world.fleet.look("web").expect("known").zones[0].holds;
            assert_eq!(holds(), None);
            let before = world.fleet.stamp("web");
            let held = config(has);
            asks.send(subscribe(&world, &[&held])).await.expect("asked");
            let mut stirred = world.fleet.stirred();
            while world.fleet.stamp("web") == before {
                stirred.changed().await.expect("the fleet goes on");
            }
            assert_eq!(holds(), expected, "{has}");
        })
        .await;
    }
}

/// Whoever was let in, or was there once, is waited for; a zone that somebody only made is not.
#[tokio::test]
async fn a_zone_that_never_joined_is_told_from_one_that_was_lost() {
    let world = governed().await;
    release(&world, 1, None).await;
    let link = || {
        let facts = world.fleet.look("web").expect("it is known");
        let x = facts.zones.into_iter().find(|one| one.name == "x");
        x.expect("it is selected").link
    };
    assert_eq!(link(), stages::Link::Never);
    let placed = json!([at_phase("1", "x", "Arrived")]);
    world.put(POLICIES, &policy(&json!({}), &placed)).await;
    assert!(matches!(link(), stages::Link::Lost { .. }), "{:?}", link());
    world.put(POLICIES, &policy(&json!({}), &json!([]))).await;
    assert_eq!(link(), stages::Link::Never);
    let mut zone = object("Zone", "", "x");
    zone["status"] = json!({"connection": "Connected", "since": "2026-03-01T12:00:00Z"});
    world.put(ZONES, &zone).await;
    assert!(matches!(link(), stages::Link::Lost { .. }), "{:?}", link());
}
