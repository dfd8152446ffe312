//! An object that loses the label by which a policy with approvals selects it.

use deltaplane_propagation::stages::ContentId;
use deltaplane_store::Txn;
use serde_json::{Value, json};

use crate::governing::{KINDS, POLICIES, RELEASES, at, check, config, governed, policy, release};
use crate::world::{World, key, object, synced};

/// As the hub has it after somebody took the label away.
fn without_label(value: &str, by: &str) -> Value {
    let mut object = config(value);
    object["metadata"]["labels"] = json!({"team": "other"});
    object["metadata"]["annotations"] = json!({"deltaplane.io/author": by});
    object
}

/// Says where zones are, and which release the stages have completed.
async fn decide(world: &World, zones: Value, completed: [u64; 2]) {
    let object = decided(zones, completed);
    world.put(POLICIES, &object).await;
}

fn decided(zones: Value, completed: [u64; 2]) -> Value {
    let stage = |name: &str| json!({"name": name, "approval": "RequiredByOther"});
    let spec = json!({"stages": [stage("first"), stage("rest")]});
    let mut object = policy(&spec, &zones);
    let done = |(name, release): (&str, u64)| {
        let mark = json!({"release": release, "at": "2026-03-01T12:00:00Z"});
        json!({"name": name, "taken": mark, "completed": mark})
    };
    let stages = ["first", "rest"].into_iter().zip(completed).map(done);
    object["status"]["decisions"]["stages"] = stages.collect();
    object
}

/// Release 1 is in both zones, and ann takes the label away.
async fn departing() -> World {
    let world = governed().await;
    decide(&world, json!([]), [0, 0]).await;
    release(&world, 1, None).await;
    decide(&world, json!([at("1", "x y")]), [1, 1]).await;
    world.put("configmaps", &without_label("2", "ann")).await;
    world
}

async fn draft(world: &World) -> Value {
    world.fleet.draft("web", None).await.expect("a draft")
}

fn is_released(world: &World) -> bool {
    world.fleet.look("web").expect("known").is_released()
}

#[tokio::test]
async fn an_object_leaves_when_every_stage_completed_its_departure() {
    let world = departing().await;
    check(&world, "1", "1");
    let world = world.restart().await;
    check(&world, "1", "1");
    let next = draft(&world).await;
    assert_eq!(next["authors"], json!(["ann"]));
    assert_eq!(next["changes"]["departing"], 1);
    assert_eq!(next["changes"]["removed"], 0);
    release(&world, 2, None).await;
    decide(&world, json!([at("2", "x"), at("1", "y")]), [2, 1]).await;
    check(&world, "2", "1");
    let world = world.restart().await;
    check(&world, "2", "1");
    decide(&world, json!([at("2", "x y")]), [2, 2]).await;
    check(&world, "2", "2");
    // What left is free, also for a process that begins anew.
    world.put("configmaps", &without_label("3", "eve")).await;
    check(&world, "3", "3");
    let world = world.restart().await;
    check(&world, "3", "3");
    world.put("configmaps", &without_label("4", "eve")).await;
    check(&world, "4", "4");
    world.delete("configmaps", &without_label("4", "eve")).await;
    check(&world, "gone", "gone");
    let world = world.restart().await;
    check(&world, "gone", "gone");
}

/// Otherwise somebody would be asked twice for one departure.
#[tokio::test]
async fn the_release_after_a_departure_changes_nothing_in_zones() {
    fn content(world: &World, number: u64) -> Option<ContentId> {
        let facts = world.fleet.look("web").expect("known");
        let mut releases = facts.releases.into_iter();
        let release = releases.find(|one| one.number == number);
        release.map(|one| one.content)
    }
    let world = departing().await;
    release(&world, 2, None).await;
    assert_ne!(content(&world, 1), content(&world, 2));
    decide(&world, json!([at("2", "x y")]), [2, 2]).await;
    assert_eq!(draft(&world).await["changes"]["removed"], 0);
    release(&world, 3, None).await;
    let world = world.restart().await;
    assert_eq!(content(&world, 2), content(&world, 3));
    check(&world, "2", "2");
}

#[tokio::test]
async fn another_change_of_what_departs_is_approved_anew() {
    let world = departing().await;
    release(&world, 2, None).await;
    world.put("configmaps", &without_label("3", "bob")).await;
    decide(&world, json!([at("2", "x y")]), [2, 2]).await;
    check(&world, "2", "2");
    assert_eq!(draft(&world).await["authors"], json!(["bob"]));
    release(&world, 3, None).await;
    decide(&world, json!([at("3", "x"), at("2", "y")]), [3, 2]).await;
    check(&world, "3", "2");
    decide(&world, json!([at("3", "x y")]), [3, 3]).await;
    world.put("configmaps", &without_label("4", "bob")).await;
    check(&world, "4", "4");
}

#[tokio::test]
async fn an_object_that_gets_its_label_back_stays() {
    let world = departing().await;
    world.put("configmaps", &config("3")).await;
    check(&world, "1", "1");
    let next = draft(&world).await;
    assert_eq!(next["changes"]["departing"], 0);
    release(&world, 2, None).await;
    decide(&world, json!([at("2", "x y")]), [2, 2]).await;
    world.put("configmaps", &config("4")).await;
    check(&world, "3", "3");
}

#[tokio::test]
async fn a_departing_object_that_is_deleted_is_removed_by_a_release() {
    let world = departing().await;
    release(&world, 2, None).await;
    decide(&world, json!([at("2", "x y")]), [2, 1]).await;
    let last = without_label("2", "bob");
    world.delete_as("configmaps", &last).await;
    check(&world, "2", "2");
    let world = world.restart().await;
    check(&world, "2", "2");
    let next = draft(&world).await;
    assert_eq!(next["authors"], json!(["bob"]));
    assert_eq!(next["removes"][1]["objects"], 1);
    release(&world, 3, None).await;
    decide(&world, json!([at("3", "x"), at("2", "y")]), [3, 2]).await;
    check(&world, "gone", "2");
}

/// It was deleted, nobody approved that yet, and it comes back without the label.
#[tokio::test]
async fn an_object_that_is_made_again_without_the_label_departs() {
    let world = departing().await;
    world.put("configmaps", &config("1")).await;
    world.delete("configmaps", &config("1")).await;
    world.put("configmaps", &without_label("9", "ann")).await;
    check(&world, "1", "1");
    let world = world.restart().await;
    check(&world, "1", "1");
    assert_eq!(draft(&world).await["authors"], json!(["ann"]));
}

#[tokio::test]
async fn a_rollback_takes_a_departing_object_back() {
    let world = departing().await;
    release(&world, 2, None).await;
    decide(&world, json!([at("2", "x"), at("1", "y")]), [1, 1]).await;
    release(&world, 3, Some(1)).await;
    decide(&world, json!([at("3", "x y")]), [3, 3]).await;
    check(&world, "1", "1");
    assert!(is_released(&world), "it is withheld until it changes");
    let world = world.restart().await;
    check(&world, "1", "1");
    world.put("configmaps", &without_label("4", "ann")).await;
    assert!(!is_released(&world));
    assert_eq!(draft(&world).await["changes"]["departing"], 1);
}

#[tokio::test]
async fn a_rollback_to_a_departure_takes_nothing_away() {
    let world = departing().await;
    release(&world, 2, None).await;
    world.put("configmaps", &without_label("3", "ann")).await;
    release(&world, 3, None).await;
    release(&world, 4, Some(2)).await;
    decide(&world, json!([at("4", "x"), at("3", "y")]), [3, 1]).await;
    check(&world, "2", "3");
    let world = world.restart().await;
    check(&world, "2", "3");
}

/// An object that left is not the policy's to bring back.
#[tokio::test]
async fn a_rollback_does_not_touch_what_departed() {
    let world = departing().await;
    release(&world, 2, None).await;
    decide(&world, json!([at("2", "x y")]), [2, 2]).await;
    world.put("configmaps", &without_label("9", "eve")).await;
    release(&world, 3, Some(1)).await;
    decide(&world, json!([at("3", "x y")]), [3, 3]).await;
    check(&world, "9", "9");
    let world = world.restart().await;
    check(&world, "9", "9");
}

/// Old releases are dropped while nobody approves.
#[tokio::test]
async fn a_departing_object_stays_when_older_releases_are_dropped() {
    let world = departing().await;
    release(&world, 2, None).await;
    decide(&world, json!([at("2", "x y")]), [2, 1]).await;
    world
        .delete(RELEASES, &object("Release", "", "web-1"))
        .await;
    let world = world.restart().await;
    check(&world, "2", "2");
    world.put("configmaps", &without_label("3", "ann")).await;
    check(&world, "2", "2");
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
    let world = world.restart().await;
    check(&world, "2", "2");
}

/// It is not withdrawn past the approvals, either; the label is no part of its version.
#[tokio::test]
async fn a_secret_that_does_not_cross_any_more_leaves_likewise() {
    let world = governed().await;
    let spec = json!({"direction": "HubToZone", "onWithdraw": "Delete",
        "selector": {"matchLabels": {"deltaplane.io/crosses": "yes"}}});
    let crossing = |value: &str| {
        let mut object = config(value);
        object["metadata"]["labels"]["deltaplane.io/crosses"] = "yes".into();
        object
    };
    world.put("configmaps", &crossing("1")).await;
    let kind = synced("configmaps", "ConfigMap", &spec);
    world.put(KINDS, &kind).await;
    decide(&world, json!([]), [0, 0]).await;
    release(&world, 1, None).await;
    decide(&world, json!([at("1", "x y")]), [1, 1]).await;
    let mut written = config("1");
    written["metadata"]["annotations"] = json!({"deltaplane.io/author": "ann"});
    world.put("configmaps", &written).await;
    check(&world, "1", "1");
    assert_eq!(draft(&world).await["authors"], json!(["ann"]));
    release(&world, 2, None).await;
    decide(&world, json!([at("2", "x y")]), [2, 1]).await;
    check(&world, "1", "1");
    decide(&world, json!([at("2", "x y")]), [2, 2]).await;
    check(&world, "to be deleted", "to be deleted");
}

/// The object moves from one policy to another.
#[tokio::test]
async fn another_policy_gets_an_object_when_it_has_left_the_first() {
    let world = departing().await;
    let mut other = policy(
        &json!({"targets": [{"kind": "ConfigMap", "selector": {"matchLabels": {"team": "other"}}}]}),
        &json!([]),
    );
    other["metadata"]["name"] = "other".into();
    other["metadata"]["uid"] = "other".into();
    world.put(POLICIES, &other).await;
    check(&world, "1", "1");
    release(&world, 2, None).await;
    decide(&world, json!([at("2", "x y")]), [2, 2]).await;
    // What zones have stays until the other policy has decided.
    check(&world, "frozen", "frozen");
}

/// A process that ends right after the write of the label keeps the object in its policy.
#[tokio::test]
async fn a_departure_is_known_after_a_restart_at_any_time() {
    let world = governed().await;
    decide(&world, json!([]), [0, 0]).await;
    release(&world, 1, None).await;
    decide(&world, json!([at("1", "x y")]), [1, 1]).await;
    let written = without_label("2", "ann");
    let draft = deltaplane_store::Draft::opaque(written.to_string());
    world.commit_alone(Txn::put(key("configmaps", &written), draft));
    // The process ends before its projector has seen the write.
    let world = world.restart().await;
    check(&world, "1", "1");
}

/// An older policy without approvals for what is labelled `lane: fast`, in Europe.
fn fast() -> Value {
    let spec = json!({
        "targets": [{"kind": "ConfigMap", "selector": {"matchLabels": {"lane": "fast"}}}],
        "zones": {"matchLabels": {"region": "eu"}},
    });
    let mut fast = policy(&spec, &json!([]));
    fast["metadata"]["name"] = "fast".into();
    fast["metadata"]["uid"] = "fast".into();
    fast["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    fast
}

/// What a younger policy with approvals, or without, decided of both zones.
fn younger(approval: &str, release: &str) -> Value {
    let mut web = decided(json!([at(release, "x y")]), [1, 1]);
    web["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z".into();
    for stage in web["spec"]["stages"].as_array_mut().expect("stages") {
        stage["approval"] = approval.into();
    }
    web
}

fn with_both_labels(value: &str) -> Value {
    let mut object = config(value);
    object["metadata"]["labels"] = json!({"team": "web", "lane": "fast"});
    object["metadata"]["annotations"] = json!({"deltaplane.io/author": "ann"});
    object
}

/// Zones have the ConfigMap from the younger of two policies.
async fn governed_by_the_younger(approval: &str) -> World {
    let world = governed().await;
    world.put(POLICIES, &younger(approval, "1")).await;
    release(&world, 1, None).await;
    world.put(POLICIES, &fast()).await;
    check(&world, "1", "1");
    world
}

fn troubles(world: &World, policy: &str) -> Vec<String> {
    world.fleet.troubles(policy)
}

/// The older policy would release the change without an approval, and take the object from the zones
/// that it is not for.
#[tokio::test]
async fn an_added_label_moves_no_object_past_approvals_to_an_older_policy() {
    let world = governed_by_the_younger("RequiredByOther").await;
    world.put("configmaps", &with_both_labels("2")).await;
    check(&world, "1", "1");
    assert_eq!(draft(&world).await["authors"], json!(["ann"]));
    let told = troubles(&world, "fast");
    assert_eq!(
        told,
        [
            "spec.targets: ConfigMap team/a is governed by policy web, which keeps it because zones \
          have it from there and its stages need approval: select less, or change that one"
        ]
    );
    assert!(troubles(&world, "web").is_empty());
    let world = world.restart().await;
    check(&world, "1", "1");
    assert_eq!(draft(&world).await["authors"], json!(["ann"]));
    // It is made again while the deletion of the one before waits for an approval.
    world.delete("configmaps", &with_both_labels("2")).await;
    world.put("configmaps", &with_both_labels("3")).await;
    check(&world, "1", "1");
    let world = world.restart().await;
    check(&world, "1", "1");
    release(&world, 2, None).await;
    world.put(POLICIES, &younger("RequiredByOther", "2")).await;
    check(&world, "3", "3");
}

/// The process ends before its projector has seen the write.
#[tokio::test]
async fn an_added_label_that_was_written_right_before_a_restart_moves_nothing() {
    let world = governed_by_the_younger("Required").await;
    let written = with_both_labels("2");
    let world = world.restart_after("configmaps", &written).await;
    check(&world, "1", "1");
    assert_eq!(draft(&world).await["authors"], json!(["ann"]));
}

/// Whoever may change the policy may take its approvals away, too.
#[tokio::test]
async fn without_approvals_the_older_policy_governs_what_both_select() {
    let world = governed_by_the_younger("Required").await;
    world.put("configmaps", &with_both_labels("2")).await;
    check(&world, "1", "1");
    world.put(POLICIES, &younger("None", "1")).await;
    check(&world, "frozen", "withdrawn");
    let world = world.restart().await;
    check(&world, "frozen", "withdrawn");
    // It has the object now, whatever the other one asks for later.
    let written = younger("Required", "1");
    let world = world.restart_after(POLICIES, &written).await;
    check(&world, "frozen", "withdrawn");
    world.put("configmaps", &with_both_labels("3")).await;
    check(&world, "frozen", "withdrawn");
}

/// Otherwise it would leave when the hub restarts.
#[tokio::test]
async fn an_object_leaves_at_once_when_no_stage_needs_approval_any_more() {
    let world = departing().await;
    check(&world, "1", "1");
    let mut object = decided(json!([at("1", "x y")]), [1, 1]);
    object["spec"]["stages"] = json!([{"name": "first"}, {"name": "rest"}]);
    world.put(POLICIES, &object).await;
    check(&world, "2", "2");
    let world = world.restart().await;
    check(&world, "2", "2");
}

/// An approval of the departure is what moves it.
#[tokio::test]
async fn an_object_moves_to_an_older_policy_when_it_has_left_the_younger() {
    let world = governed_by_the_younger("Required").await;
    world.put("configmaps", &with_both_labels("2")).await;
    let mut moves = with_both_labels("2");
    moves["metadata"]["labels"] = json!({"lane": "fast"});
    world.put("configmaps", &moves).await;
    check(&world, "1", "1");
    release(&world, 2, None).await;
    let mut web = younger("Required", "2");
    for stage in web["status"]["decisions"]["stages"]
        .as_array_mut()
        .expect("stages")
    {
        stage["completed"]["release"] = 2.into();
    }
    world.put(POLICIES, &web).await;
    check(&world, "frozen", "withdrawn");
    // It is the older policy's from now on.
    world.put("configmaps", &with_both_labels("3")).await;
    let world = world.restart().await;
    check(&world, "frozen", "withdrawn");
}
