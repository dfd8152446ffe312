//! A process that begins anew knows what promises depend on.

use serde_json::{Value, json};

use crate::governing::{KINDS, POLICIES, at, check, config, governed, place, policy, release};
use crate::world::{World, synced};

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
