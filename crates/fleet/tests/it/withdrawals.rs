//! Zones are told to let go of what a deleted policy had until every zone has acknowledged it.

use deltaplane_fleet::ZoneSync;
use deltaplane_store::{Health, Txn};
use deltaplane_sync::{Presence, Request, Response};
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::facts::{connect, exchanged, subscribe};
use crate::governing::{
    KINDS, POLICIES, RELEASES, ZONES, at, check, config, governed, place, policy, release,
};
use crate::propagated::answered;
use crate::world::{World, key, object, put, synced};

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

/// The SyncedKind of ConfigMaps, which says what zones do with those that are withdrawn.
fn config_maps(on_withdraw: &str) -> Value {
    let spec = json!({"direction": "HubToZone", "onWithdraw": on_withdraw});
    synced("configmaps", "ConfigMap", &spec)
}

/// The same with a selector that nobody can read.
fn unreadable(on_withdraw: &str) -> Value {
    let mut kind = config_maps(on_withdraw);
    kind["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
    kind
}

async fn delete_policy(world: &World) {
    world
        .delete(POLICIES, &policy(&json!({}), &json!([])))
        .await;
}

/// A zone that was away meanwhile would delete what the others keep.
#[tokio::test]
async fn what_was_withdrawn_stays_withdrawn_when_its_kind_crosses_again() {
    for restarts in [false, true] {
        let world = deleted_at_the_hub().await;
        delete_policy(&world).await;
        check(&world, "withdrawn", "withdrawn");
        forget_the_release(&world).await;
        world.delete(KINDS, &config_maps("Orphan")).await;
        check(&world, "withdrawn", "withdrawn");
        let world = if restarts {
            restart(world).await
        } else {
            world
        };
        world.put(KINDS, &config_maps("Orphan")).await;
        check(&world, "withdrawn", "withdrawn");
        let world = restart(world).await;
        check(&world, "withdrawn", "withdrawn");
        // One that is made again is there.
        world.put("configmaps", &config("2")).await;
        check(&world, "2", "2");
    }
}

/// Nobody has let a release in that deletes it, and the policy has no business with it any more.
#[tokio::test]
async fn a_deletion_that_was_not_released_is_none_when_its_kind_crosses_again() {
    for restarts in [false, true] {
        let world = deleted_at_the_hub().await;
        world.delete(KINDS, &config_maps("Orphan")).await;
        check(&world, "withdrawn", "withdrawn");
        let world = if restarts {
            restart(world).await
        } else {
            world
        };
        world.put(KINDS, &config_maps("Orphan")).await;
        check(&world, "withdrawn", "withdrawn");
    }
    // The process ends before its projector has seen that the kind is gone.
    let world = deleted_at_the_hub().await;
    let deletion = world.deletion(KINDS, &config_maps("Orphan"));
    let world = world.restart_after_all(vec![deletion]).await;
    world.put(KINDS, &config_maps("Orphan")).await;
    check(&world, "withdrawn", "withdrawn");
}

/// Zones keep it, or delete it, as the SyncedKind says, and not because nothing is left of it.
#[tokio::test]
async fn what_was_withdrawn_waits_for_a_synced_kind_that_cannot_be_read() {
    for (says, becomes) in [("Orphan", "withdrawn"), ("Delete", "to be deleted")] {
        let world = deleted_at_the_hub().await;
        world.put(KINDS, &config_maps(says)).await;
        delete_policy(&world).await;
        check(&world, becomes, becomes);
        forget_the_release(&world).await;
        let world = restart(world).await;
        let world = world.restart_after(KINDS, &unreadable(says)).await;
        check(&world, "frozen", "frozen");
        world.put(KINDS, &config_maps(says)).await;
        check(&world, becomes, becomes);
    }
}

/// The process ended right after somebody had deleted the policy, and the next one cannot read the
/// SyncedKind.
#[tokio::test]
async fn what_a_deleted_policy_had_is_written_down_while_its_synced_kind_cannot_be_read() {
    for (says, becomes) in [("Orphan", "withdrawn"), ("Delete", "to be deleted")] {
        let world = deleted_at_the_hub().await;
        let txns = [
            world.deletion(POLICIES, &policy(&json!({}), &json!([]))),
            put(KINDS, &unreadable(says)),
        ];
        let world = world.restart_after_all(txns.into()).await;
        forget_the_release(&world).await;
        let world = restart(world).await;
        check(&world, "frozen", "frozen");
        world.put(KINDS, &config_maps(says)).await;
        check(&world, becomes, becomes);
        let world = restart(world).await;
        check(&world, becomes, becomes);
    }
}

/// Which of its objects are there is not known, either.
#[tokio::test]
async fn a_policy_that_is_deleted_while_its_synced_kind_cannot_be_read_moves_nothing() {
    for (says, becomes) in [("Orphan", "withdrawn"), ("Delete", "to be deleted")] {
        let world = governed().await;
        let mut other = config("1");
        other["metadata"]["name"] = "other".into();
        world.put("configmaps", &other).await;
        release(&world, 1, None).await;
        place(&world, json!([at("1", "x y")])).await;
        world.delete("configmaps", &config("1")).await;
        let world = world.restart_after(KINDS, &unreadable(says)).await;
        check(&world, "1", "1");
        delete_policy(&world).await;
        check(&world, "frozen", "frozen");
        assert_eq!(world.config_map("team/other", "x"), Presence::Frozen);
        forget_the_release(&world).await;
        world.put(KINDS, &config_maps(says)).await;
        check(&world, becomes, becomes);
        assert_eq!(
            world.names(&crate::world::kind("ConfigMap"), "x"),
            ["team/other"]
        );
    }
}
