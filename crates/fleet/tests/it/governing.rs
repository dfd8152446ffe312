//! What zones should have of what a policy governs: what its releases say, once its status says it
//! of them, and nothing else.

use deltaplane_api::identity::Identity;
use deltaplane_apiserver::seams::{Admission, Operation, Resource, Review};
use deltaplane_border::Reader;
use deltaplane_fleet::Policing;
use deltaplane_sync::{Presence, View, Withdrawal};
use serde_json::{Value, json};

use crate::world::{World, kind, name, object, synced, zone};

pub(crate) const POLICIES: &str = "fleet.deltaplane.io/propagationpolicies";
pub(crate) const RELEASES: &str = "fleet.deltaplane.io/releases";
const APPROVALS: &str = "fleet.deltaplane.io/approvals";
pub(crate) const ZONES: &str = "fleet.deltaplane.io/zones";
pub(crate) const KINDS: &str = "fleet.deltaplane.io/syncedkinds";

pub(crate) fn config(value: &str) -> Value {
    let mut config = object("ConfigMap", "team", "a");
    config["metadata"]["labels"] = json!({"team": "web"});
    config["data"] = json!({"value": value});
    config
}

pub(crate) fn policy(spec: &Value, zones: &Value) -> Value {
    let mut policy = object("PropagationPolicy", "", "web");
    policy["metadata"]["uid"] = "policy".into();
    policy["spec"] = json!({
        "targets": [{"kind": "ConfigMap", "selector": {"matchLabels": {"team": "web"}}}],
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        policy["spec"][key] = value.clone();
    }
    policy["status"] = json!({"decisions": {"zones": zones, "stages": [], "evidence": []}});
    policy
}

pub(crate) fn at(release: &str, zones: &str) -> Value {
    at_phase(release, zones, "Admitted")
}

pub(crate) fn at_phase(release: &str, zones: &str, phase: &str) -> Value {
    json!({"release": release, "phase": phase, "at": "2026-03-01T12:00:00Z", "zones": zones})
}

/// A hub with zones x (in Europe) and y, and a ConfigMap that a policy governs.
pub(crate) async fn governed() -> World {
    let world = World::new().await;
    for (name, region) in [("x", "eu"), ("y", "us")] {
        let mut zone = object("Zone", "", name);
        zone["metadata"]["labels"] = json!({"region": region});
        world.put(ZONES, &zone).await;
    }
    let spec = json!({"direction": "HubToZone"});
    world
        .put(KINDS, &synced("configmaps", "ConfigMap", &spec))
        .await;
    place(&world, json!([])).await;
    world.put("configmaps", &config("1")).await;
    world
}

/// Makes a release of what is there.
pub(crate) async fn release(world: &World, number: u64, restores: Option<u64>) {
    let mut spec = world.fleet.draft("web", restores).await.expect("a draft");
    spec["number"] = number.into();
    let mut release = object("Release", "", &format!("web-{number}"));
    release["spec"] = spec;
    world.put(RELEASES, &release).await;
}

/// Says where zones are.
pub(crate) async fn place(world: &World, zones: Value) {
    world.put(POLICIES, &policy(&json!({}), &zones)).await;
}

/// What a zone should have of the ConfigMap: its value, or how it stands.
fn sees(world: &World, of: &str) -> String {
    let catalog = world.fleet.catalog().read();
    let of = zone(of);
    let reader = Reader {
        catalog: &catalog,
        zone: Some(&of),
    };
    match reader.presence(&kind("ConfigMap"), &name("team/a")) {
        Presence::Wanted(item) => {
            let body: Value = serde_json::from_slice(&item.body).expect("JSON");
            body["data"]["value"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        }
        Presence::Withdrawn(Withdrawal::Orphan) => "withdrawn".to_owned(),
        Presence::Withdrawn(Withdrawal::Delete) => "to be deleted".to_owned(),
        Presence::Gone => "gone".to_owned(),
        Presence::Frozen => "frozen".to_owned(),
    }
}

#[track_caller]
pub(crate) fn check(world: &World, x: &str, y: &str) {
    assert_eq!(
        (sees(world, "x").as_str(), sees(world, "y").as_str()),
        (x, y)
    );
}

#[tokio::test]
async fn each_zone_gets_what_was_released_to_it_and_no_more() {
    let world = governed().await;
    check(&world, "frozen", "frozen");
    release(&world, 1, None).await;
    check(&world, "frozen", "frozen");
    place(&world, json!([at("1", "x")])).await;
    check(&world, "1", "frozen");
    world.put("configmaps", &config("2")).await;
    check(&world, "1", "frozen");
    release(&world, 2, None).await;
    place(&world, json!([at("1", "y"), at("2", "x")])).await;
    check(&world, "2", "1");
    // What was released before is kept, whatever is there now.
    world.put("configmaps", &config("3")).await;
    let world = world.restart().await;
    check(&world, "2", "1");
}

#[tokio::test]
async fn a_release_can_bring_back_what_an_older_one_had() {
    let world = governed().await;
    release(&world, 1, None).await;
    world.put("configmaps", &config("2")).await;
    release(&world, 2, None).await;
    release(&world, 3, Some(1)).await;
    place(&world, json!([at("3", "x"), at("2", "y")])).await;
    check(&world, "1", "2");
}

#[tokio::test]
async fn what_was_deleted_goes_with_the_release_that_does_not_have_it() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x,y")])).await;
    world.delete("configmaps", &config("1")).await;
    check(&world, "1", "1");
    release(&world, 2, None).await;
    place(&world, json!([at("2", "x"), at("1", "y")])).await;
    check(&world, "gone", "1");
    let world = world.restart().await;
    check(&world, "gone", "1");
}

#[tokio::test]
async fn a_deletion_waits_for_the_gate_of_each_zone() {
    // Nobody is placed, and zones have it from before the policy.
    let world = governed().await;
    world.delete("configmaps", &config("1")).await;
    check(&world, "frozen", "frozen");
    let world = governed().await;
    release(&world, 1, None).await;
    world.delete("configmaps", &config("1")).await;
    check(&world, "frozen", "frozen");
    release(&world, 2, None).await;
    // One is placed, and the other may have it for as long as its gate is closed.
    place(&world, json!([at("2", "x")])).await;
    check(&world, "gone", "frozen");
    let world = world.restart().await;
    check(&world, "gone", "frozen");
    // So may one that lost its place.
    let deferred = json!([at("2", "x"), at_phase("1", "y", "Deferred")]);
    world.put(POLICIES, &policy(&json!({}), &deferred)).await;
    check(&world, "gone", "frozen");
    place(&world, json!([at("2", "x,y")])).await;
    check(&world, "gone", "gone");
}

#[tokio::test]
async fn going_back_takes_away_what_was_added() {
    let world = governed().await;
    let mut other = config("1");
    other["metadata"]["name"] = "b".into();
    world.delete("configmaps", &config("1")).await;
    world.put("configmaps", &other).await;
    release(&world, 1, None).await;
    world.put("configmaps", &config("1")).await;
    release(&world, 2, None).await;
    release(&world, 3, Some(1)).await;
    // Who has not got it yet has what it had.
    place(&world, json!([at("1", "x"), at("2", "y")])).await;
    check(&world, "frozen", "1");
    place(&world, json!([at("1", "x"), at("3", "y")])).await;
    check(&world, "frozen", "gone");
}

fn signed(mut object: Value, by: &str) -> Value {
    object["metadata"]["annotations"]["deltaplane.io/author"] = by.into();
    object
}

async fn authors(world: &World, restores: Option<u64>) -> Value {
    let draft = world.fleet.draft("web", restores).await.expect("a draft");
    draft["authors"].clone()
}

#[tokio::test]
async fn every_release_says_whose_doing_it_is() {
    let world = governed().await;
    // What was there before anybody signed is for whoever wrote the policy.
    let policy_by = |spec: Value, by: &str| signed(policy(&spec, &json!([])), by);
    world.put(POLICIES, &policy_by(json!({}), "eve")).await;
    assert_eq!(authors(&world, None).await, json!(["eve"]));
    release(&world, 1, None).await;
    world.put("configmaps", &signed(config("2"), "ann")).await;
    assert_eq!(authors(&world, None).await, json!(["ann"]));
    release(&world, 2, None).await;
    let patch = json!([{"op": "replace", "path": "/data/value", "value": "eu"}]);
    let patched = json!({"overrides": [{"patch": patch}]});
    world.put(POLICIES, &policy_by(patched, "kim")).await;
    assert_eq!(authors(&world, None).await, json!(["kim"]));
    world.put(POLICIES, &policy_by(json!({}), "eve")).await;
    let last = signed(config("2"), "bob");
    world.delete_as("configmaps", &last).await;
    assert_eq!(authors(&world, None).await, json!(["bob"]));
    // Going back is for who asked, or for the hub.
    let hub = json!(["system:deltaplane:controllers"]);
    assert_eq!(authors(&world, Some(1)).await, hub);
    let mut asked = policy_by(json!({}), "kim");
    asked["metadata"]["annotations"]["fleet.deltaplane.io/rollback"] = "1 instead of 2".into();
    world.put(POLICIES, &asked).await;
    assert_eq!(authors(&world, Some(1)).await, json!(["kim"]));
    // Who deleted it is known to whoever comes after this process, too.
    let world = world.restart().await;
    assert_eq!(authors(&world, None).await, json!(["bob"]));
}

#[tokio::test]
async fn what_a_release_takes_away_is_counted_from_each_that_zones_may_have() {
    let world = governed().await;
    release(&world, 1, None).await;
    world.delete("configmaps", &config("1")).await;
    release(&world, 2, None).await;
    let mut other = config("1");
    other["metadata"]["name"] = "b".into();
    world.put("configmaps", &other).await;
    let draft = world.fleet.draft("web", None).await.expect("a draft");
    let removes = json!([
        {"since": 1, "objects": 1, "of": 1},
        {"since": 2, "objects": 0, "of": 0},
    ]);
    assert_eq!(draft["removes"], removes);
    // What is there again is not taken away.
    world.put("configmaps", &config("1")).await;
    let draft = world.fleet.draft("web", None).await.expect("a draft");
    assert_eq!(draft["removes"][0]["objects"], 0);
}

#[tokio::test]
async fn what_becomes_governed_stays_in_zones_until_it_is_released() {
    let world = governed().await;
    world.delete("configmaps", &config("1")).await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x,y")])).await;
    let mut free = config("1");
    free["metadata"]["labels"] = json!({});
    world.put("configmaps", &free).await;
    check(&world, "1", "1");
    // A release without it does not mean that it was deleted.
    world.put("configmaps", &config("2")).await;
    check(&world, "frozen", "frozen");
    release(&world, 2, None).await;
    place(&world, json!([at("2", "x"), at("1", "y")])).await;
    check(&world, "2", "frozen");
}

#[tokio::test]
async fn what_is_not_governed_any_more_goes_everywhere() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x")])).await;
    world.put("configmaps", &config("2")).await;
    check(&world, "1", "frozen");
    let web = policy(&json!({}), &json!([at("1", "x")]));
    world.delete(POLICIES, &web).await;
    check(&world, "2", "2");
}

#[tokio::test]
async fn zones_that_a_policy_does_not_select_keep_what_they_have_as_their_own() {
    let world = governed().await;
    let spec = json!({"zones": {"matchLabels": {"region": "eu"}}});
    release(&world, 1, None).await;
    world
        .put(POLICIES, &policy(&spec, &json!([at("1", "x,y")])))
        .await;
    check(&world, "1", "withdrawn");
}

#[tokio::test]
async fn overrides_are_part_of_the_release_that_has_them() {
    let world = governed().await;
    let patch = json!([{"op": "replace", "path": "/data/value", "value": "eu"}]);
    let overrides = json!([{"zones": {"matchLabels": {"region": "eu"}}, "patch": patch}]);
    let spec = json!({"overrides": overrides});
    world.put(POLICIES, &policy(&spec, &json!([]))).await;
    release(&world, 1, None).await;
    let placed = json!([at("1+0", "x"), at("1", "y")]);
    world.put(POLICIES, &policy(&spec, &placed)).await;
    check(&world, "eu", "1");
    // The policy says otherwise by now, and the release does not.
    world.put(POLICIES, &policy(&json!({}), &placed)).await;
    check(&world, "eu", "1");
}

#[tokio::test]
async fn nobody_moves_by_what_cannot_be_read() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x")])).await;
    check(&world, "1", "frozen");
    let nonsense = policy(&json!({}), &json!([{"release": "one", "zones": "x"}]));
    world.put(POLICIES, &nonsense).await;
    check(&world, "1", "frozen");
    // Nor does anybody decide anew, as if nothing had been decided.
    let problem = |world: &World| {
        let facts = world.fleet.look("web").expect("it is known");
        facts
            .policy()
            .expect_err("it cannot be decided by")
            .remove(0)
    };
    assert_eq!(problem(&world).path, "status.decisions");
    let world = world.restart().await;
    check(&world, "frozen", "frozen");
    assert_eq!(problem(&world).path, "status.decisions");
    // A release that is not there says nothing.
    place(&world, json!([at("7", "x"), at("1", "y")])).await;
    check(&world, "frozen", "1");
}

#[tokio::test]
async fn content_that_nobody_holds_is_dropped() {
    let world = governed().await;
    release(&world, 1, None).await;
    world.put("configmaps", &config("2")).await;
    release(&world, 2, None).await;
    assert_eq!(world.fleet.sweep().await.expect("swept"), 0);
    world
        .delete(RELEASES, &object("Release", "", "web-1"))
        .await;
    assert_eq!(world.fleet.sweep().await.expect("swept"), 1);
    assert_eq!(world.fleet.sweep().await.expect("swept"), 0);
}

#[tokio::test]
async fn a_zone_that_is_made_again_was_let_in_nowhere() {
    let world = governed().await;
    release(&world, 1, None).await;
    let mut decided = policy(&json!({}), &json!([at_phase("1", "x y", "Arrived")]));
    let facts = world.fleet.look("web").expect("it is known");
    decided["status"]["decisions"]["zonesAsOf"] = facts.zones_as_of.into();
    world.put(POLICIES, &decided).await;
    check(&world, "1", "1");
    let mut again = object("Zone", "", "x");
    again["metadata"]["labels"] = json!({"region": "eu"});
    world.delete(ZONES, &again).await;
    again["metadata"]["uid"] = "another".into();
    world.put(ZONES, &again).await;
    check(&world, "frozen", "1");
    let recorded = |world: &World| {
        let facts = world.fleet.look("web").expect("it is known");
        facts.record.zones.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(recorded(&world), ["y"]);
    let world = world.restart().await;
    check(&world, "frozen", "1");
    assert_eq!(recorded(&world), ["y"]);
}

/// Another version may write releases that this one cannot read.
#[tokio::test]
async fn content_of_releases_that_cannot_be_read_is_kept() {
    let world = governed().await;
    release(&world, 1, None).await;
    world.put("configmaps", &config("2")).await;
    release(&world, 2, None).await;
    let mut newer = object("Release", "", "web-1");
    newer["spec"] = json!({"policyUID": "policy", "number": 1, "objects": "in another form"});
    world.put(RELEASES, &newer).await;
    assert_eq!(world.fleet.sweep().await.expect("swept"), 0);
    let world = world.restart().await;
    assert_eq!(world.fleet.sweep().await.expect("swept"), 0);
    world.delete(RELEASES, &newer).await;
    assert_eq!(world.fleet.sweep().await.expect("swept"), 1);
}

#[tokio::test]
async fn content_of_a_draft_that_was_not_written_is_dropped() {
    let world = governed().await;
    release(&world, 1, None).await;
    assert_eq!(world.fleet.sweep().await.expect("swept"), 0);
    world.put("configmaps", &config("2")).await;
    world.fleet.draft("web", None).await.expect("a draft");
    world.fleet.forsake("web");
    assert_eq!(world.fleet.sweep().await.expect("swept"), 1);
    // One that another one takes the place of is none any more, either.
    world.fleet.draft("web", None).await.expect("a draft");
    world.put("configmaps", &config("3")).await;
    release(&world, 2, None).await;
    world
        .delete(RELEASES, &object("Release", "", "web-1"))
        .await;
    assert_eq!(world.fleet.sweep().await.expect("swept"), 2);
}

/// What is said to whoever deletes an object.
async fn warned(world: &World, resource: Resource<'_>, old: &Value) -> Vec<String> {
    let (mut object, mut warnings) = (old.clone(), Vec::new());
    let review = Review {
        user: &Identity::authenticated("ann", &[]),
        operation: Operation::Delete,
        resource,
        object: &mut object,
        old: Some(old),
        dry_run: false,
        warnings: &mut warnings,
        may: &|_| true,
    };
    let policing = Policing(world.fleet.clone());
    policing.admit(review).await.expect("nothing against it");
    warnings
}

pub(crate) const WEB: Resource<'static> = Resource {
    group: "fleet.deltaplane.io",
    version: "v1alpha1",
    kind: "PropagationPolicy",
    plural: "propagationpolicies",
    subresource: "",
    namespace: "",
    name: "web",
};

#[tokio::test]
async fn what_only_waits_to_be_deleted_is_not_deleted_with_the_policy() {
    for (says, becomes) in [("Orphan", "withdrawn"), ("Delete", "to be deleted")] {
        let world = governed().await;
        let spec = json!({"direction": "HubToZone", "onWithdraw": says});
        let kind = synced("configmaps", "ConfigMap", &spec);
        world.put(KINDS, &kind).await;
        release(&world, 1, None).await;
        let web = policy(&json!({}), &json!([at("1", "x,y")]));
        world.put(POLICIES, &web).await;
        world.delete("configmaps", &config("1")).await;
        release(&world, 2, None).await;
        check(&world, "1", "1");
        let warnings = warned(&world, WEB, &web).await;
        let [warning] = warnings.as_slice() else {
            panic!("one warning: {warnings:?}");
        };
        assert!(warning.starts_with("1 objects were deleted here, and not yet in all zones"));
        world.delete(POLICIES, &web).await;
        check(&world, becomes, becomes);
        // Whoever was away is told, too, whatever is said of the kind meanwhile.
        world.put(KINDS, &kind).await;
        check(&world, becomes, becomes);
        // Who gave it away takes it back as anything.
        world.put("configmaps", &config("2")).await;
        check(&world, "2", "2");
        world.delete("configmaps", &config("2")).await;
        check(&world, "gone", "gone");
    }
}

/// Whether a zone loses the ConfigMap because somebody agreed to that.
fn is_agreed(world: &World, of: &str) -> bool {
    let catalog = world.fleet.catalog().read();
    let of = zone(of);
    let reader = Reader {
        catalog: &catalog,
        zone: Some(&of),
    };
    reader.is_agreed(&kind("ConfigMap"), &name("team/a"))
}

#[tokio::test]
async fn who_agreed_to_what_a_release_takes_away_agreed_for_its_zones() {
    let world = governed().await;
    release(&world, 1, None).await;
    world.delete("configmaps", &config("1")).await;
    release(&world, 2, None).await;
    place(&world, json!([at("2", "x"), at("1", "y")])).await;
    assert!(!is_agreed(&world, "x"));
    let mut approval = object("Approval", "", "web-2");
    approval["spec"] = json!({
        "policy": "web", "policyUID": "policy", "release": 2, "deletions": true,
        "approvedBy": "ann",
    });
    world.put(APPROVALS, &approval).await;
    assert!(is_agreed(&world, "x") && !is_agreed(&world, "y"));
    // Who comes to a later one that does not have it, either, loses it by the same leave.
    let mut other = config("1");
    other["metadata"]["name"] = "b".into();
    world.put("configmaps", &other).await;
    release(&world, 3, None).await;
    let placed = json!([at("3", "x,y")]);
    place(&world, placed.clone()).await;
    let world = world.restart().await;
    check(&world, "gone", "gone");
    assert!(is_agreed(&world, "x") && is_agreed(&world, "y"));
    // What all have lost does not wait for anything.
    let warnings = warned(&world, WEB, &policy(&json!({}), &placed)).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[tokio::test]
async fn who_comes_after_somebody_takes_no_name_away() {
    let world = governed().await;
    release(&world, 1, None).await;
    world.put("configmaps", &signed(config("2"), "ann")).await;
    let mut labelled = signed(config("2"), "bot");
    labelled["metadata"]["labels"]["seen"] = "yes".into();
    world.put("configmaps", &labelled).await;
    assert_eq!(authors(&world, None).await, json!(["ann", "bot"]));
    release(&world, 2, None).await;
    let world = world.restart().await;
    world.put("configmaps", &signed(config("3"), "kim")).await;
    assert_eq!(authors(&world, None).await, json!(["kim"]));
    // The same with overrides, and with who changes something else of the policy.
    let patch = json!([{"op": "replace", "path": "/data/value", "value": "eu"}]);
    let mut spec = json!({"overrides": [{"patch": patch}]});
    let eve = signed(policy(&spec, &json!([])), "eve");
    world.put(POLICIES, &eve).await;
    spec["paused"] = true.into();
    let bob = signed(policy(&spec, &json!([])), "bob");
    world.put(POLICIES, &bob).await;
    assert_eq!(authors(&world, None).await, json!(["bob", "eve", "kim"]));
}

/// Who made each release, as decisions have it.
fn made_by(world: &World) -> Vec<(u64, Vec<String>)> {
    let facts = world.fleet.look("web").expect("it is known");
    let releases = facts.releases.into_iter();
    releases.map(|one| (one.number, one.authors)).collect()
}

#[tokio::test]
async fn who_made_a_release_that_is_gone_is_an_author_of_the_next() {
    let world = governed().await;
    let people = ["ann", "bob", "kim", "eve"];
    for (number, by) in (1..).zip(people) {
        let value = number.to_string();
        world.put("configmaps", &signed(config(&value), by)).await;
        release(&world, number, None).await;
    }
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let gone = |number: u64| object("Release", "", &format!("web-{number}"));
    world.delete(RELEASES, &gone(2)).await;
    let expected: Vec<(u64, Vec<String>)> = vec![
        (1, names(&["ann"])),
        (3, names(&["bob", "kim"])),
        (4, names(&["eve"])),
    ];
    assert_eq!(made_by(&world), expected);
    world.delete(RELEASES, &gone(3)).await;
    let world = world.restart().await;
    let expected: Vec<(u64, Vec<String>)> =
        vec![(1, names(&["ann"])), (4, names(&["bob", "eve", "kim"]))];
    assert_eq!(made_by(&world), expected);
    // What was gone before it was made is known of it, too.
    world.put("configmaps", &signed(config("5"), "joe")).await;
    release(&world, 5, None).await;
    world.delete(RELEASES, &gone(4)).await;
    let all = names(&["bob", "eve", "joe", "kim"]);
    assert_eq!(made_by(&world), [(1, names(&["ann"])), (5, all)]);
}

const GRAPH: Resource<'static> = Resource {
    group: "kro.run",
    version: "v1alpha1",
    kind: "ResourceGraphDefinition",
    plural: "resourcegraphdefinitions",
    subresource: "",
    namespace: "",
    name: "shop",
};

/// A hub with a policy for graphs, and a graph of shops that is released to zone x.
async fn with_graph() -> (World, Value) {
    let world = governed().await;
    let kinds = [
        ("resourcegraphdefinitions", "ResourceGraphDefinition"),
        ("shops", "Shop"),
    ];
    for (plural, kind) in kinds {
        let spec = json!({"group": "kro.run", "direction": "HubToZone"});
        world
            .put(KINDS, &synced(&format!("{plural}.kro.run"), kind, &spec))
            .await;
    }
    let targets = json!([{"group": "kro.run", "kind": "ResourceGraphDefinition"}]);
    let spec = json!({"targets": targets, "deletionBudget": {"max": 100}});
    world.put(POLICIES, &policy(&spec, &json!([]))).await;
    let mut graph = object("ResourceGraphDefinition", "", "shop");
    graph["apiVersion"] = "kro.run/v1alpha1".into();
    graph["spec"] = json!({"schema": {"kind": "Shop"}});
    graph["status"] = json!({"conditions": [{"type": "GraphAccepted", "status": "True"}]});
    world.put("kro.run/resourcegraphdefinitions", &graph).await;
    release(&world, 1, None).await;
    (world, graph)
}

#[tokio::test]
async fn a_graph_that_is_in_use_does_not_go_unasked() {
    let (world, graph) = with_graph().await;
    assert_eq!(warned(&world, GRAPH, &graph).await, [""; 0]);
    for name in ["a", "b"] {
        let mut shop = object("Shop", "team", name);
        shop["apiVersion"] = "kro.run/v1alpha1".into();
        world.put("kro.run/shops", &shop).await;
    }
    let warnings = warned(&world, GRAPH, &graph).await;
    let said = "the graph is in use: 2 instances of Shop stay with all that was made for them";
    assert!(warnings[0].starts_with(said), "{warnings:?}");
    let mut second = graph.clone();
    second["metadata"]["name"] = "second".into();
    second["status"] = json!({"conditions": [
        {"type": "GraphAccepted", "status": "True"}, {"type": "KindReady", "status": "Unknown"},
    ]});
    let resource = Resource {
        name: "second",
        ..GRAPH
    };
    let unsettled = warned(&world, resource, &second).await;
    assert_eq!(unsettled.len(), 1, "they may be its own");
    second["status"]["conditions"][1]["status"] = "False".into();
    let none = [""; 0];
    assert_eq!(
        warned(&world, resource, &second).await,
        none,
        "they are of the first"
    );
    // A definition that was in force once has instances, whatever became of it.
    second["status"]["lastIssuedRevision"] = 1.into();
    assert_eq!(warned(&world, resource, &second).await.len(), 1);
    world
        .delete("kro.run/resourcegraphdefinitions", &graph)
        .await;
    release(&world, 2, None).await;
    let facts = world.fleet.look("web").expect("it is known");
    let takes_away = |number: usize| facts.releases[number - 1].removes_since(1);
    // What cannot be counted is within no budget.
    assert_eq!(takes_away(2), None);
    assert_eq!(facts.contents[&2].removes, 1, "and people are told of it");
    let draft = world.fleet.draft("web", None).await.expect("a draft");
    let removes = json!({"since": 1, "objects": 1, "of": 1, "behind": 2});
    assert_eq!(draft["removes"][0], removes);
}

#[tokio::test]
async fn what_a_release_has_that_comes_while_others_are_dropped_is_kept() {
    let world = governed().await;
    for number in 1..=8 {
        world
            .put("configmaps", &config(&format!("old {number}")))
            .await;
        release(&world, number, None).await;
    }
    for number in 1..=8 {
        let release = object("Release", "", &format!("web-{number}"));
        world.delete(RELEASES, &release).await;
    }
    world.put("configmaps", &config("new")).await;
    let mut spec = world.fleet.draft("web", None).await.expect("a draft");
    spec["number"] = 9.into();
    let fleet = world.fleet.clone();
    let mut sweep = Box::pin(fleet.sweep());
    assert!(futures::poll!(&mut sweep).is_pending(), "it takes a while");
    let mut release = object("Release", "", "web-9");
    release["spec"] = spec;
    world.put(RELEASES, &release).await;
    assert_eq!(sweep.await.expect("swept"), 8);
    // It is the only place that has it.
    world.put("configmaps", &config("newer")).await;
    place(&world, json!([at("9", "x,y")])).await;
    check(&world, "new", "new");
}

#[tokio::test]
async fn a_graph_whose_instances_are_gone_is_not_in_use() {
    let (world, graph) = with_graph().await;
    let targets = json!([
        {"group": "kro.run", "kind": "ResourceGraphDefinition"},
        {"group": "kro.run", "kind": "Shop"},
    ]);
    let spec = json!({"targets": targets});
    world.put(POLICIES, &policy(&spec, &json!([]))).await;
    let mut shop = object("Shop", "team", "a");
    shop["apiVersion"] = "kro.run/v1alpha1".into();
    world.put("kro.run/shops", &shop).await;
    release(&world, 2, None).await;
    assert_eq!(warned(&world, GRAPH, &graph).await.len(), 1);
    world.delete("kro.run/shops", &shop).await;
    release(&world, 3, None).await;
    let placed = json!([at("3", "x,y")]);
    world.put(POLICIES, &policy(&spec, &placed)).await;
    assert_eq!(warned(&world, GRAPH, &graph).await, [""; 0]);
}

#[tokio::test]
async fn what_could_not_be_dropped_is_dropped_later() {
    let world = governed().await;
    release(&world, 1, None).await;
    world.put("configmaps", &config("2")).await;
    release(&world, 2, None).await;
    world
        .delete(RELEASES, &object("Release", "", "web-1"))
        .await;
    world.store.close().await.expect("closed");
    for _ in 0..2 {
        assert!(world.fleet.sweep().await.is_err());
    }
}
