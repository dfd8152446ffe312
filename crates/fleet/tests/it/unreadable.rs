//! What cannot be read changes nothing: not what zones should have, nor that the hub serves.

use deltaplane_border::{Reader, definitions};
use deltaplane_fleet::synced_kinds;
use deltaplane_store::Txn;
use deltaplane_sync::{Presence, SyncKind, View, Withdrawal};
use serde_json::{Value, json};

use crate::governing::{POLICIES, at, check, config, governed, place, policy, release};
use crate::world::{World, kind, name, object, put, synced, zone};

const KINDS: &str = "fleet.deltaplane.io/syncedkinds";

/// ConfigMaps go to zones, which delete what is withdrawn.
fn readable() -> Value {
    let spec = json!({"direction": "HubToZone", "onWithdraw": "Delete"});
    synced("configmaps", "ConfigMap", &spec)
}

/// A selector that the schema lets pass, and nobody can read.
fn unreadable() -> Value {
    let mut object = readable();
    object["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
    object
}

fn presence(world: &World, of: &str) -> Presence {
    presence_of(world, &kind("ConfigMap"), of)
}

fn presence_of(world: &World, kind: &SyncKind, of: &str) -> Presence {
    let catalog = world.fleet.catalog().read();
    let zone = zone("x");
    let reader = Reader {
        catalog: &catalog,
        zone: Some(&zone),
    };
    reader.presence(kind, &name(of))
}

#[tokio::test]
async fn a_synced_kind_that_cannot_be_read_takes_nothing_away() {
    let world = World::new().await;
    world
        .put("namespaces", &object("Namespace", "", "team"))
        .await;
    world.put(KINDS, &readable()).await;
    let map = object("ConfigMap", "team", "a");
    world.put("configmaps", &map).await;
    world.put(KINDS, &unreadable()).await;
    assert_eq!(world.names(&kind("ConfigMap"), "x"), ["team/a"]);
    // What is written later goes on as before.
    world
        .put("configmaps", &object("ConfigMap", "team", "b"))
        .await;
    assert_eq!(world.names(&kind("ConfigMap"), "x"), ["team/a", "team/b"]);
    // A process that never read it decides nothing, also about what its objects need.
    let world = world.restart().await;
    for name in ["team/a", "team/b", "team/c"] {
        assert_eq!(presence(&world, name), Presence::Frozen, "{name}");
    }
    for (kind, name) in [
        (kind("Namespace"), "team"),
        (synced_kinds(), "configmaps"),
        (definitions(), "widgets.example.com"),
    ] {
        let presence = presence_of(&world, &kind, name);
        assert_eq!(presence, Presence::Frozen, "{kind} {name}");
    }
    world.put(KINDS, &readable()).await;
    assert_eq!(world.names(&kind("ConfigMap"), "x"), ["team/a", "team/b"]);
    assert_eq!(presence(&world, "team/c"), Presence::Gone);
    // One that is deleted counts as such.
    world.put(KINDS, &unreadable()).await;
    world.delete(KINDS, &unreadable()).await;
    let withdrawn = Presence::Withdrawn(Withdrawal::Delete);
    assert_eq!(presence(&world, "team/a"), withdrawn);
}

/// A release without the objects of an unreadable kind would delete them in all zones.
#[tokio::test]
async fn a_policy_releases_nothing_while_the_synced_kind_of_its_targets_cannot_be_read() {
    let world = governed().await;
    let mut other = config("1");
    other["metadata"]["name"] = "other".into();
    other["metadata"]["labels"] = json!({});
    world.put("configmaps", &other).await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x y")])).await;
    // A newer version wrote it while this one was not running.
    let world = world.restart_after(KINDS, &unreadable()).await;
    check(&world, "1", "1");
    assert_eq!(presence(&world, "team/other"), Presence::Frozen);
    let facts = world.fleet.look("web").expect("known");
    let problems = facts.policy().expect_err("nothing is decided");
    assert_eq!(
        problems[0].to_string(),
        "spec.targets: the hub does not know whether all targets cross: SyncedKind configmaps \
         cannot be read (correct or delete it: kubectl get syncedkinds configmaps -o yaml; \
         nothing moves until then)"
    );
    let before = world.fleet.stamp("web");
    world.put(KINDS, &readable()).await;
    assert_ne!(world.fleet.stamp("web"), before);
    let facts = world.fleet.look("web").expect("known");
    assert!(facts.policy().is_ok() && facts.is_released());
    check(&world, "1", "1");
    assert_eq!(
        world.names(&kind("ConfigMap"), "x"),
        ["team/a", "team/other"]
    );
}

#[tokio::test]
async fn a_zone_that_cannot_be_read_stays_a_zone() {
    let world = World::new().await;
    let zones = "fleet.deltaplane.io/zones";
    let mut object = object("Zone", "", "x");
    world.put(zones, &object).await;
    object["spec"] = json!({"deletionBudget": "of a newer version"});
    world.put(zones, &object).await;
    assert!(world.fleet.is_zone(&zone("x")));
    assert_eq!(world.fleet.admit(&zone("x"), "u"), Ok(()));
    // A process that never could read it does not take it for deleted, nor lets it connect.
    let world = world.restart().await;
    assert!(world.fleet.is_zone(&zone("x")));
    let refused = world.fleet.admit(&zone("x"), "u").expect_err("refused");
    assert_eq!(
        refused.to_string(),
        "the spec of zone x cannot be read by this version of the hub; correct it with: kubectl edit zone x"
    );
    object["spec"] = json!({});
    world.put(zones, &object).await;
    assert_eq!(world.fleet.admit(&zone("x"), "u"), Ok(()));
}

/// As a newer version may write them.
fn unreadable_targets() -> Value {
    json!({"targets": [{"kind": "ConfigMap", "selector": "team is web"}]})
}

#[tokio::test]
async fn unreadable_targets_leave_the_earlier_ones_in_force() {
    let world = governed().await;
    release(&world, 1, None).await;
    let record = json!([at("1", "x y")]);
    place(&world, record.clone()).await;
    let spec = unreadable_targets();
    world.put(POLICIES, &policy(&spec, &record)).await;
    for value in ["2", "3"] {
        world.put("configmaps", &config(value)).await;
        check(&world, "1", "1");
    }
    let world = world.restart().await;
    check(&world, "1", "1");
    let mut other = config("1");
    other["metadata"]["name"] = "b".into();
    world.put("configmaps", &other).await;
    assert_eq!(world.names(&kind("ConfigMap"), "x"), ["team/a"]);
    // A selector that cannot be read does not select everything.
    let free = object("ConfigMap", "team", "free");
    world.put("configmaps", &free).await;
    assert_eq!(
        world.names(&kind("ConfigMap"), "x"),
        ["team/a", "team/free"]
    );
    place(&world, record).await;
    check(&world, "1", "1");
    let world = world.restart().await;
    check(&world, "1", "1");
}

#[tokio::test]
async fn a_policy_whose_targets_were_never_readable_governs_its_newest_release() {
    let world = governed().await;
    release(&world, 1, None).await;
    let record = json!([at("1", "x y")]);
    place(&world, record.clone()).await;
    // A newer version wrote it while this one was not running.
    let written = policy(&unreadable_targets(), &record);
    let world = world.restart_after(POLICIES, &written).await;
    check(&world, "1", "1");
    world.put("configmaps", &config("2")).await;
    check(&world, "1", "1");
    let world = world.restart().await;
    check(&world, "1", "1");
}

/// A newer version wrote unreadable targets while this one was not running.
#[tokio::test]
async fn a_restart_with_unreadable_targets_sends_nothing_ungoverned() {
    let written = |record: &Value| policy(&unreadable_targets(), record);
    // Nothing was released yet.
    let world = governed().await;
    check(&world, "frozen", "frozen");
    let world = world.restart_after(POLICIES, &written(&json!([]))).await;
    check(&world, "frozen", "frozen");

    // An object came after the newest release, and another one while nobody was running.
    let world = governed().await;
    release(&world, 1, None).await;
    let record = json!([at("1", "x y")]);
    place(&world, record.clone()).await;
    let named = |name: &str| {
        let mut other = config("1");
        other["metadata"]["name"] = name.into();
        other
    };
    world.put("configmaps", &named("later")).await;
    let txns = [
        put(POLICIES, &written(&record)),
        put("configmaps", &named("latest")),
    ];
    let world = world.restart_after_all(txns.into()).await;
    check(&world, "1", "1");
    assert_eq!(world.names(&kind("ConfigMap"), "x"), ["team/a"]);
}

/// The process ended before it had written down the targets that it could read.
#[tokio::test]
async fn the_log_says_the_targets_that_the_journal_does_not_say() {
    let world = governed().await;
    let wider = json!({"targets": [{"kind": "ConfigMap"}]});
    let mut other = config("1");
    other["metadata"]["labels"] = json!({});
    other["metadata"]["name"] = "other".into();
    let txns = [
        put(POLICIES, &policy(&wider, &json!([]))),
        put("configmaps", &other),
        put(POLICIES, &policy(&unreadable_targets(), &json!([]))),
    ];
    let world = world.restart_after_all(txns.into()).await;
    assert!(world.names(&kind("ConfigMap"), "x").is_empty());
}

/// The projector reads objects at the revision of an event, which may be dropped by then.
#[tokio::test]
async fn the_projector_reads_all_anew_when_history_was_dropped() {
    let world = World::new().await;
    world
        .put("namespaces", &object("Namespace", "", "team"))
        .await;
    world
        .put("configmaps", &object("ConfigMap", "team", "a"))
        .await;
    let later = object("ConfigMap", "team", "b");
    world.commit_and_compact(vec![put(KINDS, &readable()), put("configmaps", &later)]);
    world.fleet.caught_up().await;
    assert_eq!(world.names(&kind("ConfigMap"), "x"), ["team/a", "team/b"]);
    assert_eq!(world.names(&kind("Namespace"), "x"), ["team"]);
    // It goes on, and counts right what is in a namespace.
    for name in ["a", "b"] {
        world
            .delete("configmaps", &object("ConfigMap", "team", name))
            .await;
    }
    assert!(world.names(&kind("Namespace"), "x").is_empty());
}

/// Returns enough writes that the projector does not take them and those before at once.
fn many_writes() -> impl Iterator<Item = Txn> {
    let maps = (0..1100).map(|number| object("Secret", "team", &format!("s-{number}")));
    maps.map(|map| put("secrets", &map))
}

#[tokio::test]
async fn a_placement_that_was_not_published_is_found_when_all_is_read_anew() {
    let world = governed().await;
    world
        .put("namespaces", &object("Namespace", "", "team"))
        .await;
    release(&world, 1, None).await;
    check(&world, "frozen", "frozen");
    let placed = policy(&json!({}), &json!([at("1", "x y")]));
    // Its namespace is read as of a revision that is dropped.
    let mut elsewhere = config("1");
    elsewhere["metadata"]["namespace"] = "shop".into();
    let mut txns = vec![put(POLICIES, &placed), put("configmaps", &elsewhere)];
    txns.extend(many_writes());
    world.commit_and_compact(txns);
    world.fleet.caught_up().await;
    check(&world, "1", "1");
    assert_eq!(world.names(&kind("Namespace"), "x"), ["team"]);
}

#[tokio::test]
async fn a_deleter_is_known_when_all_is_read_anew() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x y")])).await;
    let mut last = config("1");
    last["metadata"]["annotations"] = json!({"deltaplane.io/author": "eve"});
    // Objects are listed as of the revision of a SyncedKind, which is dropped.
    let txns = [put(KINDS, &readable()), world.deletion("configmaps", &last)];
    world.commit_and_compact(txns.into());
    world.fleet.caught_up().await;
    let draft = world.fleet.draft("web", None).await.expect("a draft");
    assert_eq!(draft["authors"], json!(["eve"]));
}
