//! What was rolled back stays so until somebody changes it at the hub.

use deltaplane_api::identity::Identity;
use deltaplane_apiserver::seams::{Resource, SubresourceRequest, VirtualSubresource};
use deltaplane_fleet::ObjectZones;
use deltaplane_propagation::stages::{PolicyFacts, rolled_back};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::facts::{connect, connect_after, followed, lost_position, served, subscribe};
use crate::governing::{RELEASES, at, config, governed, place};
use crate::world::{World, object};

fn other(value: &str) -> Value {
    let mut other = config(value);
    other["metadata"]["name"] = "b".into();
    other
}

/// Makes a release as the hub does, with why it takes another one back.
async fn release(world: &World, number: u64, restores: Option<u64>) {
    let mut spec = world.fleet.draft("web", restores).await.expect("a draft");
    spec["number"] = number.into();
    if restores.is_some() {
        spec["rolledBack"] = json!({"release": number - 1, "zone": "x", "reason": "it broke"});
    }
    let mut release = object("Release", "", &format!("web-{number}"));
    release["spec"] = spec;
    world.put(RELEASES, &release).await;
}

fn facts(world: &World) -> PolicyFacts {
    world.fleet.look("web").expect("it is known")
}

/// What a zone should have of both ConfigMaps.
fn has(world: &World, zone: &str) -> Vec<String> {
    let kind = crate::world::kind("ConfigMap");
    let wanted = world.wanted(&kind, &crate::world::zone(zone)).into_iter();
    wanted
        .map(|(name, body)| {
            format!(
                "{name}={}",
                body["data"]["value"].as_str().unwrap_or_default()
            )
        })
        .collect()
}

/// Both at 1, and then release 2 with another `a`, which was rolled back by release 3.
pub(crate) async fn rolled_back_world() -> World {
    let world = governed().await;
    world.put("configmaps", &other("1")).await;
    release(&world, 1, None).await;
    world.put("configmaps", &config("bad")).await;
    release(&world, 2, None).await;
    release(&world, 3, Some(1)).await;
    place(&world, json!([at("3", "x y")])).await;
    assert_eq!(has(&world, "x"), ["team/a=1", "team/b=1"]);
    world
}

#[track_caller]
fn is_rolled_back(world: &World, expected: bool) {
    let said = rolled_back(&facts(world));
    assert_eq!(said.holds, expected, "{said:?}");
    if expected {
        let why = "release 2 failed in zone x and was rolled back: it broke; not released as at the hub: ConfigMap team/a";
        assert_eq!(said.message, why);
    }
}

#[tokio::test]
async fn a_later_release_of_other_objects_keeps_what_was_rolled_back() {
    let world = rolled_back_world().await;
    assert!(facts(&world).is_released(), "nothing is left to release");
    is_rolled_back(&world, true);
    world.put("configmaps", &other("2")).await;
    assert!(!facts(&world).is_released());
    release(&world, 4, None).await;
    place(&world, json!([at("4", "x y")])).await;
    assert_eq!(has(&world, "x"), ["team/a=1", "team/b=2"]);
    is_rolled_back(&world, true);
    assert!(facts(&world).is_released());
    // A process that begins anew knows it, too.
    let world = world.restart().await;
    assert_eq!(has(&world, "x"), ["team/a=1", "team/b=2"]);
    is_rolled_back(&world, true);
    // Whoever changes it has it released.
    world.put("configmaps", &config("3")).await;
    release(&world, 5, None).await;
    place(&world, json!([at("5", "x y")])).await;
    assert_eq!(has(&world, "x"), ["team/a=3", "team/b=2"]);
    is_rolled_back(&world, false);
}

/// What `_zones` says of a ConfigMap in zone x: its phase, and why.
async fn in_zone(world: &World, config_map: &str) -> (Value, Value) {
    let request = SubresourceRequest {
        may: &|_| true,
        user: &Identity::default(),
        resource: Resource {
            group: "",
            version: "v1",
            kind: "ConfigMap",
            plural: "configmaps",
            subresource: "_zones",
            namespace: "team",
            name: config_map,
        },
        object: &Value::Null,
        method: &http::Method::GET,
        headers: &http::HeaderMap::new(),
        query: "",
        body: &bytes::Bytes::new(),
    };
    let answer = ObjectZones(world.fleet.clone()).handle(request).await;
    let answer = answer.expect("an answer").into_body();
    let body = answer.collect().await.expect("a body").to_bytes();
    let said: Value = serde_json::from_slice(&body).expect("JSON");
    let zones = said["zones"].as_array().expect("zones");
    let x = zones.iter().find(|one| one["zone"] == "x");
    let x = x.expect("it is a zone");
    (x["phase"].clone(), x["reason"].clone())
}

#[tokio::test]
async fn zones_of_an_object_say_that_a_zone_has_diverged() {
    let world = governed().await;
    let mut other = config("2");
    other["metadata"]["labels"] = json!({});
    world.put("configmaps", &other).await;
    let session = connect_after(&world, Some(followed(&lost_position(&world))));
    served(&world, &session, async |asks| {
        let asked = subscribe(&world, &[&config("1")]);
        asks.send(asked).await.expect("asked");
        let mut stirred = world.fleet.stirred();
        while in_zone(&world, "a").await.0 != "Diverged" {
            stirred.changed().await.expect("the fleet goes on");
        }
        let (_, reason) = in_zone(&world, "a").await;
        let reason = reason.as_str().expect("a reason");
        assert!(
            reason.contains("deltaplane zones reconcile x --keep hub|zone"),
            "{reason}"
        );
    })
    .await;
}

#[tokio::test]
async fn zones_of_an_object_say_that_its_version_was_rolled_back() {
    let world = rolled_back_world().await;
    let session = connect(&world);
    let held = [config("1"), other("1")];
    served(&world, &session, async |asks| {
        let held: Vec<&Value> = held.iter().collect();
        asks.send(subscribe(&world, &held)).await.expect("asked");
        let mut stirred = world.fleet.stirred();
        while in_zone(&world, "b").await.0 != "Current" {
            stirred.changed().await.expect("the fleet goes on");
        }
        let (phase, reason) = in_zone(&world, "a").await;
        assert_eq!(phase, "RolledBack");
        assert_eq!(
            reason,
            "the hub's current version was rolled back by policy web, and the zone is at release 3: release 2 failed in zone x and was rolled back: it broke; not released as at the hub: ConfigMap team/a; deltaplane rollout why policy/web says more"
        );
        assert_eq!(in_zone(&world, "b").await.1, Value::Null);
    })
    .await;
}

#[tokio::test]
async fn nothing_is_rolled_back_once_the_hub_matches() {
    let world = rolled_back_world().await;
    world.put("configmaps", &config("1")).await;
    is_rolled_back(&world, false);
    assert!(facts(&world).is_released());
    // It was only withheld as it was then.
    world.put("configmaps", &config("bad")).await;
    is_rolled_back(&world, true);
    // To release it again is to go back to it.
    release(&world, 4, Some(2)).await;
    is_rolled_back(&world, false);
    assert!(facts(&world).is_released());
}

#[tokio::test]
async fn what_was_deleted_or_added_is_rolled_back_too() {
    let world = governed().await;
    release(&world, 1, None).await;
    world.delete("configmaps", &config("1")).await;
    world.put("configmaps", &other("1")).await;
    release(&world, 2, None).await;
    release(&world, 3, Some(1)).await;
    place(&world, json!([at("3", "x y")])).await;
    assert_eq!(has(&world, "x"), ["team/a=1"]);
    let said = rolled_back(&facts(&world)).message;
    assert!(
        said.ends_with("ConfigMap team/a, ConfigMap team/b"),
        "{said}"
    );
    let mut third = config("1");
    third["metadata"]["name"] = "c".into();
    world.put("configmaps", &third).await;
    release(&world, 4, None).await;
    place(&world, json!([at("4", "x y")])).await;
    assert_eq!(has(&world, "x"), ["team/a=1", "team/c=1"]);
}

#[tokio::test]
async fn authors_of_what_was_rolled_back_are_none_of_a_later_release() {
    let signed = |mut object: Value, by: &str| {
        object["metadata"]["annotations"] = json!({"deltaplane.io/author": by});
        object
    };
    let world = governed().await;
    world.put("configmaps", &other("1")).await;
    release(&world, 1, None).await;
    world.put("configmaps", &signed(config("bad"), "eve")).await;
    release(&world, 2, None).await;
    release(&world, 3, Some(1)).await;
    world.put("configmaps", &signed(other("2"), "ann")).await;
    let draft = world.fleet.draft("web", None).await.expect("a draft");
    assert_eq!(draft["authors"], json!(["ann"]));
    assert_eq!(draft["writers"], json!(["ann"]));
}

/// What nobody signed is for whoever wrote the policy to answer for, who did not write it.
#[tokio::test]
async fn writers_are_those_who_wrote() {
    let world = governed().await;
    let mut policy = crate::governing::policy(&json!({}), &json!([]));
    policy["metadata"]["annotations"] = json!({"deltaplane.io/author": "ann"});
    world.put(crate::governing::POLICIES, &policy).await;
    let draft = world.fleet.draft("web", None).await.expect("a draft");
    assert_eq!(draft["authors"], json!(["ann"]));
    assert_eq!(draft["writers"], json!([]));
}

/// Releases of a version that did not write down what a rollback withholds.
#[tokio::test]
async fn an_upgrade_releases_nothing_that_was_rolled_back() {
    let world = rolled_back_world().await;
    let mut spec = world.fleet.draft("web", Some(1)).await.expect("a draft");
    spec["number"] = 3.into();
    let fields = spec.as_object_mut().expect("an object");
    fields.retain(|field, _| !["withheld", "rolledBack"].contains(&field.as_str()));
    let mut old = object("Release", "", "web-3");
    old["spec"] = spec;
    world.put(RELEASES, &old).await;
    assert!(facts(&world).is_released());
    let said = rolled_back(&facts(&world)).message;
    assert!(said.starts_with("release 2 was rolled back"), "{said}");
}
