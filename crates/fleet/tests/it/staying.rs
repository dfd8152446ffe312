//! What policies let go, or never had, stays in zones.

use serde_json::{Value, json};

use crate::governing::{
    KINDS, POLICIES, RELEASES, ZONES, at, at_phase, check, config, governed, place, policy, release,
};
use crate::world::{World, object, synced};

#[tokio::test]
async fn what_left_a_policy_is_not_brought_back_by_what_it_released() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x,y")])).await;
    let mut free = config("2");
    free["metadata"]["labels"] = json!({});
    world.put("configmaps", &free).await;
    check(&world, "2", "2");
    // It goes with nobody's release, and nothing is taken away by one.
    release(&world, 2, None).await;
    let draft = world.fleet.draft("web", None).await.expect("a draft");
    assert_eq!(draft["removes"][0]["objects"], 0);
    world.delete("configmaps", &free).await;
    check(&world, "gone", "gone");
    let world = world.restart().await;
    check(&world, "gone", "gone");
}

#[tokio::test]
async fn a_policy_for_no_zone_takes_nothing_away() {
    let none = json!({"zones": {"matchLabels": {"region": "none"}}});
    let world = governed().await;
    world.put(POLICIES, &policy(&none, &json!([]))).await;
    check(&world, "withdrawn", "withdrawn");
    // Nor when it was for some, and they are not recorded any more.
    let world = governed().await;
    release(&world, 1, None).await;
    let placed = json!([at("1", "x,y")]);
    place(&world, placed.clone()).await;
    check(&world, "1", "1");
    world.put(POLICIES, &policy(&none, &placed)).await;
    check(&world, "withdrawn", "withdrawn");
    let left = json!([at_phase("1", "x,y", "Deferred")]);
    world.put(POLICIES, &policy(&none, &left)).await;
    check(&world, "withdrawn", "withdrawn");
    let world = world.restart().await;
    check(&world, "withdrawn", "withdrawn");
}

#[tokio::test]
async fn who_left_while_it_was_away_keeps_what_others_lose() {
    let world = governed().await;
    release(&world, 1, None).await;
    let eu = json!({"zones": {"matchLabels": {"region": "eu"}}});
    world
        .put(POLICIES, &policy(&eu, &json!([at("1", "x")])))
        .await;
    check(&world, "1", "withdrawn");
    world.delete("configmaps", &config("1")).await;
    release(&world, 2, None).await;
    world
        .put(POLICIES, &policy(&eu, &json!([at("2", "x")])))
        .await;
    check(&world, "gone", "withdrawn");
    // Until nobody can go back to what had it.
    world
        .delete(RELEASES, &object("Release", "", "web-1"))
        .await;
    check(&world, "gone", "gone");
}

/// Another object of the policy, so that there is something to release.
async fn put_another(world: &World) {
    let mut another = config("1");
    another["metadata"]["name"] = "another".into();
    world.put("configmaps", &another).await;
}

#[tokio::test]
async fn what_was_governed_for_a_moment_stays() {
    for placed in ["x,y", "x"] {
        let world = governed().await;
        world.delete("configmaps", &config("1")).await;
        put_another(&world).await;
        release(&world, 1, None).await;
        place(&world, json!([at("1", placed)])).await;
        world.put("configmaps", &free("1")).await;
        check(&world, "1", "1");
        world.put("configmaps", &config("2")).await;
        check(&world, "frozen", "frozen");
        world.put("configmaps", &free("3")).await;
        check(&world, "3", "3");
        // Whatever makes all be looked at again.
        release(&world, 2, None).await;
        check(&world, "3", "3");
        world.put(ZONES, &object("Zone", "", "z")).await;
        check(&world, "3", "3");
    }
}

#[tokio::test]
async fn what_was_deleted_before_it_was_released_and_comes_for_all_stays() {
    let world = governed().await;
    put_another(&world).await;
    let mut hidden = policy(&json!({}), &json!([]));
    hidden["spec"]["zones"] = json!({"matchLabels": {"region": "eu"}});
    world.put(POLICIES, &hidden).await;
    world.delete("configmaps", &config("1")).await;
    world.put("configmaps", &free("2")).await;
    check(&world, "2", "2");
    release(&world, 1, None).await;
    check(&world, "2", "2");
}

#[tokio::test]
async fn a_kind_that_does_not_cross_is_not_governed_after_a_restart() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x,y")])).await;
    world.delete("configmaps", &config("1")).await;
    release(&world, 2, None).await;
    world
        .delete(KINDS, &object("SyncedKind", "", "configmaps"))
        .await;
    check(&world, "withdrawn", "withdrawn");
    let world = world.restart().await;
    check(&world, "withdrawn", "withdrawn");
    place(&world, json!([at("2", "x,y")])).await;
    check(&world, "withdrawn", "withdrawn");
}

#[tokio::test]
async fn what_waits_to_be_deleted_is_withdrawn_as_its_kind_says_now() {
    let world = governed().await;
    release(&world, 1, None).await;
    let eu = json!({"zones": {"matchLabels": {"region": "eu"}}});
    let placed = json!([at("1", "x")]);
    world.put(POLICIES, &policy(&eu, &placed)).await;
    world.delete("configmaps", &config("1")).await;
    check(&world, "1", "withdrawn");
    let delete = json!({"direction": "HubToZone", "onWithdraw": "Delete"});
    world
        .put(KINDS, &synced("configmaps", "ConfigMap", &delete))
        .await;
    check(&world, "1", "to be deleted");
}

#[tokio::test]
async fn a_policy_of_a_newer_version_frees_nothing() {
    let world = governed().await;
    release(&world, 1, None).await;
    let newer = json!({"onFailure": "DoWhatIsBest"});
    let placed = json!([at("1", "x")]);
    world.put(POLICIES, &policy(&newer, &placed)).await;
    world.put("configmaps", &config("2")).await;
    check(&world, "1", "frozen");
    let world = world.restart().await;
    check(&world, "1", "frozen");
}

#[tokio::test]
async fn who_lost_its_place_keeps_what_it_has() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(
        &world,
        json!([at_phase("1", "x", "Deferred"), at("1", "y")]),
    )
    .await;
    check(&world, "frozen", "1");
}

/// The ConfigMap without the label by which the policy has it.
fn free(value: &str) -> Value {
    let mut free = config(value);
    free["metadata"]["labels"] = json!({});
    free
}

#[tokio::test]
async fn what_left_and_comes_back_is_neither_deleted_nor_set_back() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x,y")])).await;
    world.put("configmaps", &free("2")).await;
    check(&world, "2", "2");
    release(&world, 2, None).await;
    place(&world, json!([at("2", "x"), at("1", "y")])).await;
    check(&world, "2", "2");
    // Neither the release without it nor the one of before says what they should have.
    world.put("configmaps", &config("3")).await;
    check(&world, "frozen", "frozen");
    let world = world.restart().await;
    check(&world, "frozen", "frozen");
    release(&world, 3, None).await;
    place(&world, json!([at("3", "x"), at("1", "y")])).await;
    check(&world, "3", "frozen");
    // What says so may go before what it is about, if later ones say it, too.
    world.put("configmaps", &config("4")).await;
    release(&world, 4, None).await;
    for gone in ["web-2", "web-3"] {
        world.delete(RELEASES, &object("Release", "", gone)).await;
    }
    place(&world, json!([at("4", "x"), at("1", "y")])).await;
    let world = world.restart().await;
    check(&world, "4", "frozen");
}

#[tokio::test]
async fn what_leaves_and_comes_back_between_two_releases_is_not_set_back() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x,y")])).await;
    world.put("configmaps", &free("2")).await;
    world.put("configmaps", &config("3")).await;
    check(&world, "frozen", "frozen");
    release(&world, 2, None).await;
    let world = world.restart().await;
    check(&world, "frozen", "frozen");
    // It goes with the release that does not have it.
    world.delete("configmaps", &config("3")).await;
    release(&world, 3, None).await;
    place(&world, json!([at("3", "x"), at("1", "y")])).await;
    check(&world, "gone", "frozen");
}

#[tokio::test]
async fn what_comes_back_as_it_was_released_is_what_zones_should_have() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x,y")])).await;
    world.put("configmaps", &free("1")).await;
    // Nothing is to be released.
    world.put("configmaps", &config("1")).await;
    check(&world, "1", "1");
}

#[tokio::test]
async fn what_was_deleted_and_came_for_all_zones_stays_when_it_is_governed_again() {
    let world = governed().await;
    release(&world, 1, None).await;
    world.delete("configmaps", &config("1")).await;
    release(&world, 2, None).await;
    place(&world, json!([at("2", "x"), at("1", "y")])).await;
    check(&world, "gone", "1");
    world.put("configmaps", &free("2")).await;
    check(&world, "2", "2");
    world.put("configmaps", &config("3")).await;
    check(&world, "frozen", "frozen");
}

#[tokio::test]
async fn who_leaves_a_paused_policy_keeps_what_it_has_until_it_goes_on() {
    let world = governed().await;
    release(&world, 1, None).await;
    let placed = json!([at("1", "x,y")]);
    place(&world, placed.clone()).await;
    let spec = |paused: bool| json!({"paused": paused, "zones": {"matchLabels": {"region": "eu"}}});
    world.put(POLICIES, &policy(&spec(true), &placed)).await;
    check(&world, "1", "frozen");
    let world = world.restart().await;
    check(&world, "1", "frozen");
    // What was decided of it may be forgotten meanwhile.
    let others = json!([at("1", "x")]);
    world.put(POLICIES, &policy(&spec(true), &others)).await;
    check(&world, "1", "frozen");
    world.put(POLICIES, &policy(&spec(false), &others)).await;
    check(&world, "1", "withdrawn");
}

#[tokio::test]
async fn going_back_takes_nothing_away_that_zones_had_before_it_joined() {
    let world = governed().await;
    world.delete("configmaps", &config("1")).await;
    put_another(&world).await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x,y")])).await;
    world.put("configmaps", &free("1")).await;
    check(&world, "1", "1");
    world.put("configmaps", &config("2")).await;
    release(&world, 2, None).await;
    place(&world, json!([at("2", "x"), at("1", "y")])).await;
    check(&world, "2", "frozen");
    let draft = world.fleet.draft("web", Some(1)).await.expect("a draft");
    let changes =
        json!({"added": 0, "changed": 0, "removed": 0, "departing": 0, "overrides": false});
    assert_eq!(draft["changes"], changes);
    assert_eq!(draft["removes"][1]["objects"], 0);
    release(&world, 3, Some(1)).await;
    place(&world, json!([at("3", "x,y")])).await;
    check(&world, "frozen", "frozen");
    let world = world.restart().await;
    check(&world, "frozen", "frozen");
    // What somebody deletes goes.
    world.delete("configmaps", &config("2")).await;
    release(&world, 4, None).await;
    place(&world, json!([at("4", "x,y")])).await;
    check(&world, "gone", "gone");
}

/// What a policy added is its own to take away.
#[tokio::test]
async fn going_back_takes_away_what_came_with_the_policy() {
    let world = governed().await;
    world.delete("configmaps", &config("1")).await;
    put_another(&world).await;
    release(&world, 1, None).await;
    world.put("configmaps", &config("2")).await;
    release(&world, 2, None).await;
    release(&world, 3, Some(1)).await;
    place(&world, json!([at("3", "x,y")])).await;
    check(&world, "gone", "gone");
}
