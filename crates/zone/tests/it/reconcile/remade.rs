//! Zones whose objects are deleted and made again after a person settled them.

use deltaplane_client::request::{self, Patch};
use deltaplane_sync::{Epoch, FollowedPosition, Position};
use serde_json::{Value, json};

use super::{
    FLEET, LOST, PLAYED, PlayedZone, STORE, create, followed, held, lost, make_policy,
    reconcile_path, step, sync_maps,
};
use crate::world::{World, get, until};

async fn delete_zone(world: &World) {
    let path = format!("{FLEET}/zones/{PLAYED}");
    let gone = request::delete(&world.here, &path, &json!({})).await;
    gone.expect("deleted");
    until(&world.here, &path, |zone| zone["code"] == 404).await;
}

/// Deletes the Zone, and makes another of its name.
async fn make_again(world: &World) {
    let path = format!("{FLEET}/zones/{PLAYED}");
    let before = get(&world.here, &path).await.1["metadata"]["uid"].clone();
    delete_zone(world).await;
    let zone = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "Zone",
        "metadata": {"name": PLAYED},
    });
    create(world, &format!("{FLEET}/zones"), &zone).await;
    let made = get(&world.here, &path).await.1;
    assert_ne!(made["metadata"]["uid"], before);
    assert_eq!(made["status"].get("reconciled"), None, "{made:#}");
    world.fleet.caught_up().await;
}

/// Connects, and settles what the zone followed.
async fn settle(world: &World, followed: &FollowedPosition) {
    let has = held(&[("same", "1")]);
    let zone = PlayedZone::connect(world, Some(followed.clone()), has).await;
    until(&world.here, &reconcile_path(), |said| {
        said["diverged"] == true && said["untold"] == json!([])
    })
    .await;
    step(world, "Settle").await.expect("settled");
    zone.disconnect().await;
}

/// Connects from this store, and returns what the hub says of the divergence.
async fn said_of(world: &World, store: &str, followed: &FollowedPosition) -> Value {
    let has = held(&[("same", "1")]);
    let zone = PlayedZone::connect_from(store, world, Some(followed.clone()), has).await;
    let said = until(&world.here, &reconcile_path(), |said| {
        said["connected"] == true && said["diverged"] != Value::Null
    })
    .await;
    zone.disconnect().await;
    said
}

/// Its objects still say that they are of the lost future, and so does its record.
#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_is_made_again_is_not_asked_again() {
    let world = World::start().await;
    sync_maps(&world, &["same"]).await;
    let followed = followed(lost(&world.fleet, LOST), &[("web", 5)]);
    settle(&world, &followed).await;
    for _ in 0..2 {
        make_again(&world).await;
        let said = said_of(&world, STORE, &followed).await;
        assert_eq!(said["diverged"], false, "{said:#}");
        // The status of the new Zone says by whom.
        let path = format!("{FLEET}/zones/{PLAYED}");
        let zone = until(&world.here, &path, |zone| {
            zone["status"]["reconciled"]["by"].is_string()
        })
        .await;
        assert_eq!(zone["status"]["reconciled"]["revision"], LOST, "{zone:#}");
    }
    // Policies that are made count on from what was settled.
    make_policy(&world, &["same"], json!([])).await;
    let policy = format!("{FLEET}/propagationpolicies/web");
    until(&world.here, &policy, |policy| {
        policy["status"]["release"] == 6
    })
    .await;
    // Later positions were never settled.
    let further = super::followed(lost(&world.fleet, LOST + 10_000), &[]);
    let said = said_of(&world, STORE, &further).await;
    assert_eq!(said["diverged"], true, "{said:#}");
    world.stop().await;
}

/// The hub cannot write the status that would say so: whoever settled the zone was told that it is
/// not settled, and a Zone that is made again is not settled by that either.
#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_could_not_be_settled_is_asked_again_when_it_is_made_again() {
    let world = World::start().await;
    sync_maps(&world, &["same"]).await;
    let followed = followed(lost(&world.fleet, LOST), &[]);
    let has = held(&[("same", "1")]);
    let zone = PlayedZone::connect(&world, Some(followed.clone()), has).await;
    until(&world.here, &reconcile_path(), |said| {
        said["diverged"] == true && said["untold"] == json!([])
    })
    .await;
    let definition =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/zones.fleet.deltaplane.io";
    let required =
        "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/reconciled/required";
    let change = async |change: Value| {
        let changed = request::patch::<Value>(&world.here, definition, Patch::Json, &change).await;
        changed.expect("changed");
    };
    change(json!([{"op": "add", "path": required, "value": ["never"]}])).await;
    let refused = step(&world, "Settle")
        .await
        .expect_err("it cannot be written");
    assert!(
        refused.contains("failed to write what was settled"),
        "{refused}"
    );
    zone.disconnect().await;
    change(json!([{"op": "remove", "path": required}])).await;
    make_again(&world).await;
    let said = said_of(&world, STORE, &followed).await;
    assert_eq!(said["diverged"], true, "{said:#}");
    world.stop().await;
}

/// The policy is made while there is no Zone whose status says what was settled.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_made_while_a_settled_zone_is_away_counts_on() {
    let world = World::start().await;
    sync_maps(&world, &["same"]).await;
    let followed = followed(lost(&world.fleet, LOST), &[("web", 5)]);
    settle(&world, &followed).await;
    delete_zone(&world).await;
    make_policy(&world, &["same"], json!([])).await;
    let policy = format!("{FLEET}/propagationpolicies/web");
    let made = until(&world.here, &policy, |policy| {
        policy["status"]["release"].as_u64().is_some()
    })
    .await;
    assert_eq!(made["status"]["release"], 6, "{made:#}");
    world.stop().await;
}

/// A process that joins under the name of a settled zone brings other data.
#[tokio::test(flavor = "multi_thread")]
async fn another_store_under_the_name_of_a_settled_zone_is_not_settled() {
    let world = World::start().await;
    sync_maps(&world, &["same"]).await;
    let followed = followed(lost(&world.fleet, LOST), &[]);
    settle(&world, &followed).await;
    make_again(&world).await;
    let said = said_of(&world, "another", &followed).await;
    assert_eq!(said["diverged"], true, "{said:#}");
    let zone = get(&world.here, &format!("{FLEET}/zones/{PLAYED}")).await.1;
    assert_eq!(zone["status"].get("reconciled"), None, "{zone:#}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_record_stays_settled_when_the_zone_is_made_again() {
    let world = World::start().await;
    sync_maps(&world, &["same"]).await;
    let lost_record = |record: &str| {
        let epoch = Epoch::unproven(record);
        followed(Position { epoch, revision: 0 }, &[])
    };
    settle(&world, &lost_record("first")).await;
    make_again(&world).await;
    let said = said_of(&world, STORE, &lost_record("second")).await;
    assert_eq!(said["diverged"], true, "{said:#}");
    let said = said_of(&world, STORE, &lost_record("first")).await;
    assert_eq!(said["diverged"], false, "{said:#}");
    world.stop().await;
}
