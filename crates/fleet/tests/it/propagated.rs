//! `_propagated`: whether a zone has what one revision wrote.

use deltaplane_api::identity::Identity;
use deltaplane_apiserver::seams::{Resource, SubresourceRequest, VirtualSubresource};
use deltaplane_fleet::{ZonePropagated, ZoneSync};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::facts::{connect, connect_after, followed, lost_position, served, subscribe};
use crate::governing::{POLICIES, ZONES, at, config, governed, place, policy, release};
use crate::rollbacks::rolled_back_world;
use crate::world::{World, object, synced};

/// Asks whether zone x has a revision, without waiting.
async fn ask(world: &World, revision: u64, goal: &str) -> Result<Value, String> {
    asked(
        world,
        &format!("revision={revision}&for={goal}&timeoutSeconds=0"),
    )
    .await
}

async fn asked(world: &World, query: &str) -> Result<Value, String> {
    let propagated = ZonePropagated(world.fleet.clone());
    answered(&propagated, "_propagated", query).await
}

pub(crate) async fn answered(
    subresource: &dyn VirtualSubresource,
    name: &str,
    query: &str,
) -> Result<Value, String> {
    let request = SubresourceRequest {
        may: &|_| true,
        user: &Identity::default(),
        resource: Resource {
            group: "fleet.deltaplane.io",
            version: "v1alpha1",
            kind: "Zone",
            plural: "zones",
            subresource: name,
            namespace: "",
            name: "x",
        },
        object: &Value::Null,
        method: &http::Method::GET,
        headers: &http::HeaderMap::new(),
        query,
        body: &bytes::Bytes::new(),
    };
    let answer = subresource.handle(request).await;
    let answer = answer.map_err(|error| error.to_status()["message"].to_string())?;
    let body = answer.into_body().collect().await.expect("a body");
    Ok(serde_json::from_slice(&body.to_bytes()).expect("JSON"))
}

#[track_caller]
fn check(answer: &Value, propagated: bool, reason: &str) {
    let told = answer["reason"].as_str().unwrap_or_default();
    assert_eq!((&answer["propagated"], told), (&json!(propagated), reason));
}

/// Stores a ConfigMap and returns its revision.
async fn write(world: &World, object: &Value) -> u64 {
    world.put("configmaps", object).await;
    world.store.revision().get()
}

fn free(value: &str) -> Value {
    let mut free = config(value);
    free["metadata"]["name"] = "b".into();
    free["metadata"]["labels"] = json!({});
    free
}

#[tokio::test]
async fn an_object_that_a_policy_holds_does_not_hold_others() {
    let world = governed().await;
    let written = write(&world, &free("1")).await;
    let session = connect(&world);
    served(&world, &session, async |asks| {
        let held = [&free("1")];
        asks.send(subscribe(&world, &held)).await.expect("asked");
        let mut stirred = world.fleet.stirred();
        loop {
            stirred.borrow_and_update();
            let answer = ask(&world, written, "applied").await.expect("an answer");
            if answer["propagated"] == true {
                break;
            }
            stirred.changed().await.expect("the fleet goes on");
        }
        // The governed one, which the policy did not release, was written before it.
        let answer = ask(&world, written - 1, "applied").await;
        let answer = answer.expect("an answer");
        assert_eq!(answer["propagated"], false, "{answer}");
    })
    .await;
}

#[tokio::test]
async fn a_governed_object_is_released_before_it_is_applied() {
    let world = governed().await;
    let first = world.store.revision().get();
    let held = "policy web has not released it to the zone";
    let answer = ask(&world, first, "released").await.expect("an answer");
    assert_eq!(answer["propagated"], false);
    let told = answer["reason"].as_str().expect("a reason");
    assert!(told.starts_with(held), "{told}");
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x,y")])).await;
    check(
        &ask(&world, first, "released").await.expect("an answer"),
        true,
        "",
    );
    let away = "the zone has not connected since the hub started";
    check(
        &ask(&world, first, "applied").await.expect("an answer"),
        false,
        away,
    );
    // Nobody has the next version, and the first is still released.
    let second = write(&world, &config("2")).await;
    check(
        &ask(&world, first, "released").await.expect("an answer"),
        true,
        "",
    );
    let answer = ask(&world, second, "released").await.expect("an answer");
    assert_eq!(answer["propagated"], false);
    // A newer version counts for the first.
    release(&world, 2, None).await;
    place(&world, json!([at("2", "x,y")])).await;
    for revision in [first, second] {
        check(
            &ask(&world, revision, "released").await.expect("an answer"),
            true,
            "",
        );
    }
    // A release with the old content does not have the second.
    release(&world, 3, Some(1)).await;
    place(&world, json!([at("3", "x,y")])).await;
    let world = world.restart().await;
    check(
        &ask(&world, first, "released").await.expect("an answer"),
        true,
        "",
    );
    let answer = ask(&world, second, "released").await.expect("an answer");
    assert_eq!(answer["propagated"], false);
}

#[tokio::test]
async fn the_answer_names_the_gate_that_holds_a_governed_object() {
    let world = governed().await;
    let spec = json!({"stages": [{"name": "all", "approval": "Required"}]});
    world.put(POLICIES, &policy(&spec, &json!([]))).await;
    let written = write(&world, &config("2")).await;
    release(&world, 1, None).await;
    let answer = ask(&world, written, "applied").await.expect("an answer");
    let told = answer["reason"].as_str().expect("a reason");
    assert!(told.contains("approv"), "{told}");
}

#[tokio::test]
async fn the_answer_names_the_rollback_that_keeps_an_object_back() {
    let world = rolled_back_world().await;
    let written = write(&world, &config("bad")).await;
    for goal in ["released", "applied"] {
        check(
            &ask(&world, written, goal).await.expect("an answer"),
            false,
            "policy web rolled back release 2, which had it and failed in zone x; change the object, or see: deltaplane rollout why policy/web",
        );
    }
}

/// A release of other objects shows a later revision, and not what was rolled back.
#[tokio::test]
async fn a_release_of_other_objects_has_nothing_of_what_was_rolled_back() {
    let world = governed().await;
    let first = world.store.revision().get();
    let mut other = config("1");
    other["metadata"]["name"] = "b".into();
    world.put("configmaps", &other).await;
    release(&world, 1, None).await;
    let written = write(&world, &config("bad")).await;
    release(&world, 2, None).await;
    release(&world, 3, Some(1)).await;
    other["data"]["value"] = "2".into();
    let second = write(&world, &other).await;
    release(&world, 4, None).await;
    place(&world, json!([at("4", "x y")])).await;
    let is_released = async |world: &World, revision| {
        let answer = ask(world, revision, "released").await.expect("an answer");
        answer["propagated"] == true
    };
    assert!(is_released(&world, second).await);
    assert!(!is_released(&world, written).await);
    assert!(is_released(&world, first).await);
    // Another version that is rolled back is not the first, either.
    let worse = write(&world, &config("worse")).await;
    release(&world, 5, None).await;
    release(&world, 6, Some(4)).await;
    place(&world, json!([at("6", "x y")])).await;
    let world = world.restart().await;
    for (revision, expected) in [
        (first, true),
        (written, false),
        (second, true),
        (worse, false),
    ] {
        assert_eq!(is_released(&world, revision).await, expected, "{revision}");
    }
    // The releases before may be dropped.
    for number in [1, 2, 3, 4, 5] {
        let dropped = object("Release", "", &format!("web-{number}"));
        world.delete(crate::governing::RELEASES, &dropped).await;
    }
    assert!(!is_released(&world, worse).await);
}

/// The zone does not matter then, nor what it rejected or has not asked for.
#[tokio::test]
async fn nothing_is_waited_for_that_zones_are_not_sent() {
    let world = governed().await;
    world.put("services", &object("Service", "team", "a")).await;
    let service = world.store.revision().get();
    let kind = synced("services", "Service", &json!({"direction": "Both"}));
    let session = connect(&world);
    served(&world, &session, async |_| {
        let answer = ask(&world, service, "applied").await.expect("an answer");
        check(&answer, true, "");
        assert_eq!(answer["crosses"], false);
        // A SyncedKind brings other objects with it.
        world.put("fleet.deltaplane.io/syncedkinds", &kind).await;
        let written = world.store.revision().get();
        let answer = ask(&world, written, "applied").await.expect("an answer");
        assert_eq!(answer["propagated"], false, "{answer}");
        assert_eq!(answer["crosses"], true, "{answer}");
    })
    .await;
}

#[tokio::test]
async fn the_answer_says_that_a_zone_has_diverged() {
    let world = governed().await;
    let written = write(&world, &free("1")).await;
    let reason = "the zone followed a later state than the hub has, and is sent nothing until somebody settles it: deltaplane zones reconcile x --keep hub|zone";
    let session = connect_after(&world, Some(followed(&lost_position(&world))));
    served(&world, &session, async |asks| {
        asks.send(subscribe(&world, &[])).await.expect("asked");
        // Both the one that is on its way and the one that a policy has not released.
        for revision in [written, written - 1] {
            let answer = ask(&world, revision, "applied").await.expect("an answer");
            check(&answer, false, reason);
        }
    })
    .await;
    let answer = ask(&world, written, "applied").await.expect("an answer");
    check(&answer, false, reason);
}

#[tokio::test]
async fn a_compacted_revision_is_an_error_unless_somebody_waits_for_it_already() {
    let world = governed().await;
    let known = world.store.revision().get();
    let forgotten = known - 1;
    ask(&world, known, "applied").await.expect("an answer");
    let newest = write(&world, &free("1")).await;
    world
        .store
        .compact(world.store.revision())
        .await
        .expect("compacted");
    ask(&world, known, "applied").await.expect("an answer");
    let refused = ask(&world, forgotten, "applied")
        .await
        .expect_err("refused");
    assert!(refused.contains("has been compacted"), "{refused}");
    let refused = ask(&world, newest + 1, "applied")
        .await
        .expect_err("refused");
    assert!(refused.contains("does not exist yet"), "{refused}");
    let refused = asked(&world, "revision=1&for=ever")
        .await
        .expect_err("refused");
    assert!(refused.contains("released or applied"), "{refused}");
}

/// `_sync` counts what the API lists, beside what of it goes to the zone.
#[tokio::test]
async fn what_the_hub_lists_is_counted_with_what_stays() {
    let world = governed().await;
    write(&world, &free("1")).await;
    let own = object("ConfigMap", "team", "kube-root-ca.crt");
    write(&world, &own).await;
    let session = connect(&world);
    served(&world, &session, async |asks| {
        let held = subscribe(&world, &[&free("1")]);
        asks.send(held).await.expect("asked");
        let sync = ZoneSync(world.fleet.clone());
        let mut stirred = world.fleet.stirred();
        loop {
            stirred.borrow_and_update();
            let said = answered(&sync, "_sync", "").await.expect("an answer");
            let kinds = said["kinds"].as_array().expect("kinds");
            let of_kind = kinds.iter().find(|one| one["kind"] == "ConfigMap");
            let of_kind = of_kind.expect("it crosses");
            // Three are there; the policy holds one, and every control plane has one of its own.
            if of_kind["acknowledged"] == 1 {
                assert_eq!(
                    (&of_kind["atHub"], &of_kind["wanted"]),
                    (&json!(3), &json!(1))
                );
                break;
            }
            stirred.changed().await.expect("the fleet goes on");
        }
    })
    .await;
}

/// After a restart of the hub, a zone that was connected is still written down as such.
#[tokio::test]
async fn a_zone_is_away_since_it_was_lost_and_not_since_it_connected() {
    let world = World::new().await;
    let sync = ZoneSync(world.fleet.clone());
    let away_since = async |connection: &str| {
        let mut zone = object("Zone", "", "x");
        zone["status"] = json!({"connection": connection, "since": "2026-11-18T02:30:53Z"});
        world.put(ZONES, &zone).await;
        let said = answered(&sync, "_sync", "").await.expect("an answer");
        said["awaySince"].clone()
    };
    assert_eq!(away_since("Connected").await, Value::Null);
    assert_eq!(away_since("Disconnected").await, "2026-11-18T02:30:53Z");
}
