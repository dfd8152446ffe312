//! A process that begins anew knows what promises depend on.

use deltaplane_store::{Draft, Health, Txn};
use serde_json::{Value, json};

use crate::governing::{
    KINDS, POLICIES, RELEASES, at, check, config, governed, place, policy, release,
};
use crate::world::{World, key, object, synced};

fn signed(mut object: Value, by: &str) -> Value {
    object["metadata"]["annotations"] = json!({"deltaplane.io/author": by});
    object
}

async fn authors(world: &World) -> Value {
    let draft = world.fleet.draft("web", None).await.expect("a draft");
    draft["authors"].clone()
}

#[tokio::test]
async fn authors_and_deleters_are_known_after_a_restart() {
    let world = governed().await;
    release(&world, 1, None).await;
    world.put("configmaps", &signed(config("2"), "ann")).await;
    world.put("configmaps", &signed(config("3"), "bob")).await;
    let world = world.restart().await;
    assert_eq!(authors(&world).await, json!(["ann", "bob"]));
    release(&world, 2, None).await;
    let world = world.restart().await;
    let last = signed(config("3"), "eve");
    world.delete_as("configmaps", &last).await;
    assert_eq!(authors(&world).await, json!(["eve"]));
    let world = world.restart().await;
    assert_eq!(authors(&world).await, json!(["eve"]));
    // What was released is nobody's any more.
    release(&world, 3, None).await;
    world.put("configmaps", &signed(config("4"), "cid")).await;
    let world = world.restart().await;
    assert_eq!(authors(&world).await, json!(["cid"]));
}

/// A process ended right after the writes, before it wrote its journal.
#[tokio::test]
async fn the_log_says_who_wrote_and_deleted_what_the_journal_does_not_say() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x y")])).await;
    let eve = world.deletion("configmaps", &signed(config("1"), "eve"));
    let world = world.restart_after_all(vec![eve]).await;
    assert_eq!(authors(&world).await, json!(["eve"]));
    release(&world, 2, None).await;
    let writes = ["ann", "bob"].map(|by| {
        let written = signed(config(by), by);
        Txn::put(
            key("configmaps", &written),
            Draft::opaque(written.to_string()),
        )
    });
    let world = world.restart_after_all(writes.into()).await;
    assert_eq!(authors(&world).await, json!(["ann", "bob"]));
    // What was released is nobody's any more, also if the journal does not say so yet.
    release(&world, 3, None).await;
    let world = world.restart().await;
    world.put("configmaps", &signed(config("4"), "cid")).await;
    assert_eq!(authors(&world).await, json!(["cid"]));
}

/// The releases of a deleted policy were collected before the journal had what zones keep.
#[tokio::test]
async fn zones_keep_what_a_policy_had_that_ended_with_its_releases() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x y")])).await;
    world.delete("configmaps", &config("1")).await;
    check(&world, "1", "1");
    let release = key(RELEASES, &object("Release", "", "web-1"));
    let release = world.store.get(&release).expect("it is there");
    let release = serde_json::from_slice(release.bytes()).expect("JSON");
    let txns = [
        world.deletion(POLICIES, &policy(&json!({}), &json!([]))),
        world.deletion(RELEASES, &release),
    ];
    let world = world.restart_after_all(txns.into()).await;
    check(&world, "withdrawn", "withdrawn");
}

/// The garbage collector deletes on behalf of somebody whom it does not know.
#[tokio::test]
async fn nobody_is_the_author_of_what_the_hub_collected() {
    let world = governed().await;
    release(&world, 1, None).await;
    let last = signed(config("1"), "system:deltaplane:controllers");
    world.delete_as("configmaps", &last).await;
    assert_eq!(authors(&world).await, json!([]));
}

/// It left the policy and came back, so that zones have something newer than was released.
#[tokio::test]
async fn what_came_back_is_not_set_back_by_a_restart() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x y")])).await;
    check(&world, "1", "1");
    let mut out = config("2");
    out["metadata"]["labels"] = json!({});
    world.put("configmaps", &out).await;
    check(&world, "2", "2");
    world.put("configmaps", &config("3")).await;
    check(&world, "frozen", "frozen");
    let world = world.restart().await;
    check(&world, "frozen", "frozen");
}

#[tokio::test]
async fn what_zones_keep_after_a_policy_was_deleted_they_keep_after_a_restart() {
    for (says, becomes) in [("Orphan", "withdrawn"), ("Delete", "to be deleted")] {
        let world = governed().await;
        let kind = json!({"direction": "HubToZone", "onWithdraw": says});
        world
            .put(KINDS, &synced("configmaps", "ConfigMap", &kind))
            .await;
        release(&world, 1, None).await;
        place(&world, json!([at("1", "x y")])).await;
        world.delete("configmaps", &config("1")).await;
        check(&world, "1", "1");
        world
            .delete(POLICIES, &policy(&json!({}), &json!([])))
            .await;
        check(&world, becomes, becomes);
        world
            .delete(
                crate::governing::RELEASES,
                &crate::world::object("Release", "", "web-1"),
            )
            .await;
        let world = world.restart().await;
        check(&world, becomes, becomes);
        // Nobody has said yet that it did.
        world.fleet.sweep().await.expect("swept");
        let world = world.restart().await;
        check(&world, becomes, becomes);
        // What is made again is there, and nothing is withdrawn of it.
        world.put("configmaps", &config("2")).await;
        check(&world, "2", "2");
        let world = world.restart().await;
        check(&world, "2", "2");
    }
}

/// The disk is full right after somebody deleted the policy.
#[tokio::test]
async fn nothing_is_withdrawn_before_the_journal_says_so() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x y")])).await;
    world.delete("configmaps", &config("1")).await;
    let policy = key(POLICIES, &policy(&json!({}), &json!([])));
    let stored = world.store.get(&policy).expect("it is there");
    world.commit_alone(Txn::delete(policy, stored.revision(), None));
    world.disk.fail_writes_after(Some(0));
    let mut health = world.store.health();
    while health.now() == Health::Well {
        health.changed().await;
    }
    // The answer to this write comes after that to the projector's.
    let draft = Draft::opaque("{}");
    let other = key("configmaps", &object("ConfigMap", "team", "other"));
    let refused = world.store.commit(Txn::put(other, draft)).await;
    assert!(refused.is_err(), "the disk is full");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    check(&world, "1", "1");
    world.disk.fail_writes_after(None);
    world.store.heal();
    world.fleet.caught_up().await;
    check(&world, "withdrawn", "withdrawn");
    let world = world.restart().await;
    check(&world, "withdrawn", "withdrawn");
}
