//! Zones are told to let go of what a deleted policy had until every zone has acknowledged it.

use deltaplane_fleet::ZoneSync;
use deltaplane_store::{Health, Txn};
use deltaplane_sync::{Request, Response};
use futures::FutureExt;
use serde_json::json;
use tokio::sync::mpsc;

use crate::facts::{connect, exchanged, subscribe};
use crate::governing::{
    POLICIES, RELEASES, ZONES, at, check, config, governed, place, policy, release,
};
use crate::propagated::answered;
use crate::world::{World, key, object};

/// A hub whose only zone, x, has a ConfigMap that was deleted at the hub and not released as such.
async fn deleted_at_the_hub() -> World {
    let world = governed().await;
    release(&world, 1, None).await;
    world.delete(ZONES, &object("Zone", "", "y")).await;
    place(&world, json!([at("1", "x")])).await;
    world.delete("configmaps", &config("1")).await;
    world
}

/// Deletes the release, of which a process that starts would learn what zones may still have.
async fn forget_the_release(world: &World) {
    let release = object("Release", "", "web-1");
    world.delete(RELEASES, &release).await;
}

/// Ends the process after the projector has written its journal for the last time.
async fn restart(world: World) -> World {
    world
        .put("configmaps", &object("ConfigMap", "team", "other"))
        .await;
    world.restart().await
}

/// Takes what the hub sends until it tells the zone to let something go.
async fn told_to_go(sent: &mut mpsc::Receiver<Response>) -> Response {
    loop {
        let response = sent.recv().await.expect("the stream goes on");
        if !response.orphaned.is_empty() {
            return response;
        }
    }
}

/// Ends when the hub knows that zone x has all that it should have of ConfigMaps.
async fn nothing_is_open(world: &World) {
    let sync = ZoneSync(world.fleet.clone());
    let mut stirred = world.fleet.stirred();
    loop {
        stirred.borrow_and_update();
        let said = answered(&sync, "_sync", "").await.expect("an answer");
        let kinds = said["kinds"].as_array().expect("kinds");
        let of_kind = kinds.iter().find(|one| one["kind"] == "ConfigMap");
        if of_kind.is_some_and(|one| one["open"] == 0) {
            return;
        }
        stirred.changed().await.expect("the fleet goes on");
    }
}

#[tokio::test]
async fn a_withdrawal_is_forgotten_when_every_zone_has_acknowledged_it() {
    let world = deleted_at_the_hub().await;
    let web = policy(&json!({}), &json!([]));
    world.delete(POLICIES, &web).await;
    forget_the_release(&world).await;
    let held = config("1");
    let session = connect(&world);
    exchanged(&world, &session, async |asks, mut sent| {
        asks.send(subscribe(&world, &[&held])).await.expect("asked");
        told_to_go(&mut sent).await;
        // It may be under way for long.
        world.fleet.sweep().await.expect("swept");
    })
    .await;
    let world = restart(world).await;
    check(&world, "withdrawn", "withdrawn");
    let session = connect(&world);
    exchanged(&world, &session, async |asks, mut sent| {
        asks.send(subscribe(&world, &[&held])).await.expect("asked");
        let Response { kind, nonce, .. } = told_to_go(&mut sent).await;
        let rejected = Vec::new();
        let ack = Request::Ack {
            kind,
            nonce,
            rejected,
        };
        asks.send(ack).await.expect("asked");
        nothing_is_open(&world).await;
        world.fleet.sweep().await.expect("swept");
    })
    .await;
    let world = restart(world).await;
    check(&world, "gone", "gone");
}

/// A zone that has all that it should have says nothing of what it was not told yet.
#[tokio::test]
async fn a_withdrawal_that_no_zone_was_told_of_is_not_forgotten() {
    let world = deleted_at_the_hub().await;
    let held = config("1");
    let session = connect(&world);
    exchanged(&world, &session, async |asks, _sent| {
        asks.send(subscribe(&world, &[&held])).await.expect("asked");
        nothing_is_open(&world).await;
        let policy = key(POLICIES, &policy(&json!({}), &json!([])));
        let stored = world.store.get(&policy).expect("it is there");
        world.commit_alone(Txn::delete(policy, stored.revision(), None));
        // The projector does not publish what it could not write down.
        world.disk.fail_writes_after(Some(0));
        let mut health = world.store.health();
        while health.now() == Health::Well {
            health.changed().await;
        }
        check(&world, "1", "withdrawn");
        // What else there is to sweep waits for the disk.
        drop(world.fleet.sweep().now_or_never());
    })
    .await;
    world.disk.fail_writes_after(None);
    world.store.heal();
    world.fleet.caught_up().await;
    forget_the_release(&world).await;
    let world = restart(world).await;
    check(&world, "withdrawn", "withdrawn");
}
