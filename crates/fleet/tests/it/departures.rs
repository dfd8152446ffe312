//! An object that loses the label by which a policy with approvals selects it.

use serde_json::{Value, json};

use crate::governing::{KINDS, POLICIES, at, check, config, governed, policy, release};
use crate::world::{World, synced};

/// As the hub has it after ann took the label away.
fn without_label(value: &str) -> Value {
    let mut object = config(value);
    object["metadata"]["labels"] = json!({"team": "other"});
    object["metadata"]["annotations"] = json!({"deltaplane.io/author": "ann"});
    object
}

/// Says where zones are, and which release the stages have completed.
async fn decide(world: &World, zones: Value, completed: [u64; 2]) {
    let stage = |name: &str| json!({"name": name, "approval": "RequiredByOther"});
    let spec = json!({"stages": [stage("first"), stage("rest")]});
    let mut object = policy(&spec, &zones);
    let done = |(name, release): (&str, u64)| {
        let mark = json!({"release": release, "at": "2026-03-01T12:00:00Z"});
        json!({"name": name, "taken": mark, "completed": mark})
    };
    let stages = ["first", "rest"].into_iter().zip(completed).map(done);
    object["status"]["decisions"]["stages"] = stages.collect();
    world.put(POLICIES, &object).await;
}

/// Release 1 is in both zones, and ann takes the label away.
async fn departing() -> World {
    let world = governed().await;
    decide(&world, json!([]), [0, 0]).await;
    release(&world, 1, None).await;
    decide(&world, json!([at("1", "x y")]), [1, 1]).await;
    world.put("configmaps", &without_label("2")).await;
    world
}

async fn draft(world: &World) -> Value {
    world.fleet.draft("web", None).await.expect("a draft")
}

fn is_released(world: &World) -> bool {
    world.fleet.look("web").expect("known").is_released()
}

#[tokio::test]
async fn an_object_leaves_when_all_stages_completed_its_departure() {
    let world = departing().await;
    check(&world, "1", "1");
    let next = draft(&world).await;
    assert_eq!(next["authors"], json!(["ann"]));
    assert_eq!(next["changes"]["departing"], 1);
    assert_eq!(next["changes"]["removed"], 0);
    assert_eq!(next["removes"][0]["objects"], 0);
    assert!(!is_released(&world));
    release(&world, 2, None).await;
    assert!(is_released(&world));
    decide(&world, json!([at("2", "x"), at("1", "y")]), [2, 1]).await;
    check(&world, "frozen", "1");
    let world = world.restart().await;
    check(&world, "frozen", "1");
    decide(&world, json!([at("2", "x y")]), [2, 2]).await;
    check(&world, "2", "2");
    assert!(is_released(&world), "no other release is needed");
    // What left is free, also for a process that begins anew.
    let world = world.restart().await;
    check(&world, "2", "2");
    world.put("configmaps", &without_label("3")).await;
    check(&world, "3", "3");
    let world = world.restart().await;
    check(&world, "3", "3");
    world.delete("configmaps", &without_label("3")).await;
    check(&world, "gone", "gone");
    let world = world.restart().await;
    check(&world, "gone", "gone");
}

/// It is not withdrawn past the approvals, either.
#[tokio::test]
async fn an_object_that_does_not_cross_any_more_leaves_likewise() {
    let world = governed().await;
    let spec = json!({"direction": "HubToZone", "onWithdraw": "Delete",
        "selector": {"matchLabels": {"crosses": "yes"}}});
    let crossing = |value: &str| {
        let mut object = config(value);
        object["metadata"]["labels"]["crosses"] = "yes".into();
        object
    };
    world.put("configmaps", &crossing("1")).await;
    let kind = synced("configmaps", "ConfigMap", &spec);
    world.put(KINDS, &kind).await;
    decide(&world, json!([]), [0, 0]).await;
    release(&world, 1, None).await;
    decide(&world, json!([at("1", "x y")]), [1, 1]).await;
    world.put("configmaps", &config("2")).await;
    check(&world, "1", "1");
    release(&world, 2, None).await;
    decide(&world, json!([at("2", "x y")]), [2, 1]).await;
    check(&world, "frozen", "frozen");
    decide(&world, json!([at("2", "x y")]), [2, 2]).await;
    check(&world, "to be deleted", "to be deleted");
}

#[tokio::test]
async fn another_change_of_what_departs_is_approved_anew() {
    let world = departing().await;
    release(&world, 2, None).await;
    let mut later = without_label("3");
    later["metadata"]["annotations"]["deltaplane.io/author"] = "bob".into();
    world.put("configmaps", &later).await;
    decide(&world, json!([at("2", "x y")]), [2, 2]).await;
    check(&world, "frozen", "frozen");
    assert_eq!(draft(&world).await["authors"], json!(["bob"]));
    release(&world, 3, None).await;
    decide(&world, json!([at("3", "x y")]), [3, 2]).await;
    check(&world, "frozen", "frozen");
    decide(&world, json!([at("3", "x y")]), [3, 3]).await;
    check(&world, "3", "3");
}

#[tokio::test]
async fn an_object_that_gets_its_label_back_stays() {
    let world = departing().await;
    world.put("configmaps", &config("2")).await;
    check(&world, "1", "1");
    let next = draft(&world).await;
    assert_eq!(next["changes"]["departing"], 0);
    assert_eq!(next["changes"]["changed"], 1);
}

#[tokio::test]
async fn a_departing_object_that_is_deleted_is_removed_by_a_release() {
    let world = departing().await;
    release(&world, 2, None).await;
    world.delete_as("configmaps", &without_label("2")).await;
    decide(&world, json!([at("2", "x y")]), [2, 2]).await;
    check(&world, "frozen", "frozen");
    let next = draft(&world).await;
    assert_eq!(next["authors"], json!(["ann"]));
    release(&world, 3, None).await;
    decide(&world, json!([at("3", "x y")]), [3, 2]).await;
    check(&world, "gone", "gone");
}

#[tokio::test]
async fn a_rollback_brings_a_departing_object_back() {
    let world = departing().await;
    release(&world, 2, None).await;
    decide(&world, json!([at("2", "x"), at("1", "y")]), [1, 1]).await;
    release(&world, 3, Some(1)).await;
    decide(&world, json!([at("3", "x y")]), [3, 3]).await;
    check(&world, "1", "1");
    assert!(is_released(&world), "it is withheld until it changes");
    world.put("configmaps", &without_label("4")).await;
    assert!(!is_released(&world));
    assert_eq!(draft(&world).await["changes"]["departing"], 1);
}

#[tokio::test]
async fn other_targets_let_an_object_go_at_once() {
    let world = departing().await;
    let spec = json!({
        "targets": [{"kind": "ConfigMap", "selector": {"matchLabels": {"team": "none"}}}],
        "stages": [{"name": "rest", "approval": "Required"}],
    });
    let object = policy(&spec, &json!([at("1", "x y")]));
    world.put(POLICIES, &object).await;
    check(&world, "2", "2");
}
