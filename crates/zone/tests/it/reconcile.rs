//! What a hub says of zones that followed more of it than it knows, and what it refuses: the zone is
//! played, so that it can say anything.

mod remade;

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_border::{definitions, namespaces};
use deltaplane_client::request::{self, Patch};
use deltaplane_fleet::{Fleet, synced_kinds};
use deltaplane_runtime::{Tasks, Trigger};
use deltaplane_sync::{
    Crossing, Epoch, FollowedPosition, Hello, Known, ObjectName, PROTOCOLS, Position,
    ProtocolError, Request, Response, SyncKind, Version, ZoneName,
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::world::{PATIENCE, World, get, until};

const FLEET: &str = "/apis/fleet.deltaplane.io/v1alpha1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// No process runs for it.
const PLAYED: &str = "never-there";
/// The identity of its store.
const STORE: &str = "z";
/// So far the zone followed a future of the hub's store that was lost.
const LOST: u64 = 5_000;

/// A zone that says what it is told to say.
struct PlayedZone {
    tasks: Tasks,
    ended: Trigger,
    responses: mpsc::Receiver<Response>,
}

/// What the zone says that it holds.
type HeldObjects = BTreeMap<SyncKind, BTreeMap<ObjectName, Version>>;

fn maps() -> SyncKind {
    SyncKind::new("", "ConfigMap").expect("legal")
}

fn map(name: &str, content: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"content": content},
    })
}

fn graphs() -> SyncKind {
    SyncKind::new("kro.run", "ResourceGraphDefinition").expect("legal")
}

/// A definition of a graph, which does not compile.
fn graph(says: &str) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Shop", "spec": {"name": "string"}},
            "resources": [{
                "id": "config",
                "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.spec.nothing}"}, "data": {"says": says},
                },
            }],
        },
    })
}

fn version(object: &Value) -> Version {
    Crossing::of(object).expect("an object").version()
}

/// Of config maps, by their names and contents.
fn held(objects: &[(&str, &str)]) -> HeldObjects {
    let held = objects.iter().map(|(name, content)| {
        let id = ObjectName::new("default", name).expect("legal");
        (id, version(&map(name, content)))
    });
    [(maps(), held.collect())].into()
}

/// A position of the hub's store, in an opening that the hub lost.
fn lost(fleet: &Fleet, revision: u64) -> Position {
    let epoch = fleet.catalog().read().epoch().0.to_string();
    let (store, _) = epoch.split_once('.').expect("a store and an opening");
    Position {
        epoch: Epoch(format!("{store}.lost").into()),
        revision,
    }
}

fn followed(position: Position, releases: &[(&str, u64)]) -> FollowedPosition {
    let releases = releases.iter();
    FollowedPosition {
        position,
        releases: releases
            .map(|(policy, release)| ((*policy).to_owned(), *release))
            .collect(),
    }
}

fn reconcile_path() -> String {
    format!("{FLEET}/zones/{PLAYED}/_reconcile")
}

/// The differences that the hub lists, by the names of objects.
fn listed(said: &Value) -> BTreeMap<String, String> {
    let kinds = said["kinds"].as_array().into_iter().flatten();
    let objects = kinds.flat_map(|kind| kind["objects"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    objects
        .map(|object| (text(&object["name"]), text(&object["difference"])))
        .collect()
}

async fn step(world: &World, step: &str) -> Result<Value, String> {
    let posted = request::create(&world.here, &reconcile_path(), &json!({"step": step})).await;
    posted.map_err(|error| error.to_string())
}

async fn create(world: &World, path: &str, object: &Value) {
    let made = request::create::<Value>(&world.here, path, object).await;
    made.expect("made");
}

/// These config maps are governed by the policy `web`, and released to all zones.
async fn govern(world: &World, objects: &[&str], overrides: Value) {
    sync_maps(world, objects).await;
    make_policy(world, objects, overrides).await;
    let policy = format!("{FLEET}/propagationpolicies/web");
    until(&world.here, &policy, |policy| {
        let conditions = policy["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let propagated = |one: &Value| one["type"] == "Propagated" && one["status"] == "True";
        policy["status"]["release"] == 1 && conditions.any(propagated)
    })
    .await;
}

async fn sync_maps(world: &World, objects: &[&str]) {
    let kind = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "configmaps"},
        "spec": {"kind": "ConfigMap", "direction": "HubToZone"},
    });
    create(world, &format!("{FLEET}/syncedkinds"), &kind).await;
    for name in objects {
        create(world, MAPS, &map(name, "1")).await;
    }
}

async fn make_policy(world: &World, objects: &[&str], overrides: Value) {
    let policy = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web"},
        "spec": {
            "targets": [{"kind": "ConfigMap", "names": objects}],
            "stages": [{"name": "all"}], "overrides": overrides,
        },
    });
    create(world, &format!("{FLEET}/propagationpolicies"), &policy).await;
}

// === impl PlayedZone ===

impl PlayedZone {
    async fn connect(world: &World, followed: Option<FollowedPosition>, held: HeldObjects) -> Self {
        Self::connect_from(STORE, world, followed, held).await
    }

    /// Connects with a store of this identity.
    async fn connect_from(
        store: &str,
        world: &World,
        followed: Option<FollowedPosition>,
        held: HeldObjects,
    ) -> Self {
        let path = format!("{FLEET}/zones/{PLAYED}");
        let uid = get(&world.here, &path).await.1["metadata"]["uid"].clone();
        let zone: ZoneName = PLAYED.parse().expect("legal");
        // Its objects are of the lost future, whatever it says of itself.
        let sources = followed.iter().map(|_| lost(&world.fleet, LOST));
        let sources: Vec<Position> = sources.collect();
        let hello = Hello {
            zone: zone.clone(),
            product: "0".to_owned(),
            protocols: PROTOCOLS,
            features: Default::default(),
            epoch: Epoch::opening(store, "o"),
            followed,
            mirrored_kinds: [maps()].into(),
        };
        let fleet = world.fleet.clone();
        let uid = uid.as_str().expect("a uid").to_owned();
        let (session, _) = fleet.handshake((&zone, &uid), &hello).expect("welcome");
        let kinds = [
            synced_kinds(),
            definitions(),
            namespaces(),
            maps(),
            graphs(),
        ];
        let requests = kinds.map(|kind| {
            let held = held.get(&kind).cloned().unwrap_or_default();
            let sources = if held.is_empty() {
                Vec::new()
            } else {
                sources.clone()
            };
            let known = Known::Versions { held, sources };
            Ok::<_, ProtocolError>(Request::Subscribe { kind, known })
        });
        let (out, responses) = mpsc::channel(100);
        let (ended, stop) = Trigger::new();
        let tasks = Tasks::new();
        tasks.group("zone").spawn(async move {
            let requests = stream::iter(requests).chain(stream::pending());
            let requests = requests.take_until(async move { stop.wait().await });
            let session: Arc<_> = session;
            let _ = fleet.hub_to_zone(&session, requests, out).await;
        });
        Self {
            tasks,
            ended,
            responses,
        }
    }

    /// Waits until the hub sends an object.
    async fn receive(&mut self, name: &str) {
        let name = ObjectName::new("default", name).expect("legal");
        let received = async {
            while let Some(response) = self.responses.recv().await {
                if response.items.iter().any(|(one, _)| *one == name) {
                    return;
                }
            }
            panic!("the stream ended");
        };
        let received = tokio::time::timeout(PATIENCE, received).await;
        received.expect("received in time");
    }

    async fn disconnect(self) {
        self.ended.stop();
        self.tasks.shutdown(PATIENCE).await.expect("ended");
    }
}

/// The zone is admitted to the first release, and then turns out to have followed another future.
async fn diverge(world: &World, objects: &[&str], has: HeldObjects) -> PlayedZone {
    let mut zone = PlayedZone::connect(world, None, HeldObjects::new()).await;
    zone.receive(objects[0]).await;
    zone.disconnect().await;
    let followed = followed(lost(&world.fleet, LOST), &[("web", 2)]);
    PlayedZone::connect(world, Some(followed), has).await
}

#[tokio::test(flavor = "multi_thread")]
async fn governed_differences_stay_listed_until_the_zone_is_settled() {
    let world = World::start().await;
    let objects = ["deleted", "front", "same"];
    govern(&world, &objects, json!([])).await;
    let has = held(&[("front", "2"), ("new", "1"), ("same", "1")]);
    let zone = diverge(&world, &objects, has).await;
    let expected = [
        ("deleted", "OnlyAtHub"),
        ("front", "Changed"),
        ("new", "OnlyInZone"),
    ];
    let expected: BTreeMap<String, String> = expected
        .map(|(name, how)| (name.to_owned(), how.to_owned()))
        .into();
    until(&world.here, &reconcile_path(), |said| {
        said["diverged"] == true && listed(said) == expected
    })
    .await;
    // The deletion budget is a share of what the zone should have.
    let wanted = |said: &Value| said["kinds"][0]["wanted"].clone();
    let said = get(&world.here, &reconcile_path()).await.1;
    assert_eq!(wanted(&said), 3, "{said:#}");
    // From now on the release that the zone was admitted to says nothing of what it should have.
    step(&world, "Raise").await.expect("raised");
    let said = get(&world.here, &reconcile_path()).await.1;
    assert_eq!(listed(&said), expected, "{said:#}");
    assert_eq!(wanted(&said), 3, "{said:#}");
    let counts = json!({"changed": 1, "onlyAtHub": 1, "onlyInZone": 1});
    assert_eq!(said["counts"], counts);
    // The hub takes over a part of it; the rest is still to be settled.
    let front = format!("{MAPS}/front");
    let (_, mut object) = get(&world.here, &front).await;
    object["data"]["content"] = "2".into();
    let written = request::replace::<Value>(&world.here, &front, &object).await;
    written.expect("written");
    until(&world.here, &reconcile_path(), |said| {
        let left: Vec<String> = listed(said).into_keys().collect();
        left == ["deleted", "new"]
    })
    .await;
    zone.disconnect().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_the_hub_does_not_accept_is_compared_with_what_the_zone_has() {
    let world = World::start().await;
    let path = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";
    create(&world, path, &graph("hub")).await;
    let stored = get(&world.here, &format!("{path}/shop")).await.1;
    let followed = followed(lost(&world.fleet, LOST), &[]);
    for (held, difference) in [
        (version(&stored), None),
        (version(&graph("zone")), Some("Changed")),
    ] {
        let name: ObjectName = "shop".parse().expect("legal");
        let held = HeldObjects::from([(graphs(), [(name, held)].into())]);
        let zone = PlayedZone::connect(&world, Some(followed.clone()), held).await;
        until(&world.here, &reconcile_path(), |said| {
            let told = said["diverged"] == true && said["untold"] == json!([]);
            told && listed(said).get("shop").map(String::as_str) == difference
        })
        .await;
        zone.disconnect().await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_objects_that_an_override_may_change_count_as_overridden() {
    let world = World::start().await;
    let objects = ["front", "plain"];
    let overrides = json!([{
        "zones": {}, "targets": [{"kind": "ConfigMap", "names": ["front"]}],
        "patch": [{"op": "add", "path": "/data/region", "value": "eu"}],
    }]);
    govern(&world, &objects, overrides).await;
    let zone = diverge(&world, &objects, held(&[("front", "2"), ("plain", "2")])).await;
    until(&world.here, &reconcile_path(), |said| {
        said["diverged"] == true && listed(said).len() == 2
    })
    .await;
    let expected = [("front", true), ("plain", false)];
    let expected: BTreeMap<&str, bool> = expected.into();
    // The zone has it with overrides, whether release numbers were raised meanwhile or not.
    for _ in 0..2 {
        let said = get(&world.here, &reconcile_path()).await.1;
        let objects = said["kinds"][0]["objects"].as_array().expect("a list");
        let overridden = objects.iter().map(|object| {
            let name = object["name"].as_str().expect("a name");
            (name, object["overridden"] == true)
        });
        assert_eq!(overridden.collect::<BTreeMap<_, _>>(), expected, "{said:#}");
        step(&world, "Raise").await.expect("raised");
    }
    zone.disconnect().await;
    world.stop().await;
}

/// A zone that is taken over, or whose record is of something else, must not use up numbers.
#[tokio::test(flavor = "multi_thread")]
async fn claims_that_are_too_far_ahead_are_refused_and_shown() {
    let world = World::start().await;
    let objects = ["front"];
    govern(&world, &objects, json!([])).await;
    let claim =
        |revision: u64, release: u64| followed(lost(&world.fleet, revision), &[("web", release)]);
    let before = get(&world.here, &format!("{MAPS}/front")).await.1;
    for (claimed, reason) in [
        (
            claim(3_000_000_000, 2),
            Some("says that it followed revision 3000000000"),
        ),
        (
            claim(LOST, 20_000),
            Some("says that it followed release 20000 of policy web"),
        ),
        // A policy that the hub does not have would count on from there when it is made.
        (
            followed(
                lost(&world.fleet, LOST),
                &[("web", 2), ("future", i64::MAX as u64)],
            ),
            Some("of policy future"),
        ),
        (claim(LOST, 2), None),
        // The releases of another hub are no claim.
        (
            followed("other.o@5".parse().expect("legal"), &[("web", 20_000)]),
            None,
        ),
    ] {
        let zone = PlayedZone::connect(&world, Some(claimed), held(&[("front", "2")])).await;
        let said = until(&world.here, &reconcile_path(), |said| {
            said["diverged"] == true && said["untold"] == json!([])
        })
        .await;
        let shown = said["refused"].as_str();
        match reason {
            Some(reason) => {
                assert!(
                    shown.is_some_and(|shown| shown.contains(reason)),
                    "{said:#}"
                );
                for step in ["Raise", "Settle"] {
                    let refused = self::step(&world, step).await.expect_err("refused");
                    assert!(refused.contains(reason), "{refused}");
                }
                let policy = format!("{FLEET}/propagationpolicies/web");
                let policy = get(&world.here, &policy).await.1;
                assert_eq!(policy["status"].get("releaseFloor"), None, "{policy:#}");
                assert_eq!(said["revision"].as_u64().map(|at| at < LOST), Some(true));
            }
            None => {
                assert_eq!(shown, None);
                step(&world, "Raise").await.expect("raised");
            }
        }
        zone.disconnect().await;
    }
    let after = get(&world.here, &format!("{MAPS}/front")).await.1;
    assert_eq!(after, before);
    world.stop().await;
}

/// The hub was restored to a state of before the policy, which is made again.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_made_again_counts_on_from_what_zones_followed() {
    let world = World::start().await;
    let followed = followed(lost(&world.fleet, LOST), &[("web", 5)]);
    let zone = PlayedZone::connect(&world, Some(followed), HeldObjects::new()).await;
    until(&world.here, &reconcile_path(), |said| {
        said["diverged"] == true && said["untold"] == json!([])
    })
    .await;
    step(&world, "Settle").await.expect("settled");
    sync_maps(&world, &["front"]).await;
    make_policy(&world, &["front"], json!([])).await;
    let policy = format!("{FLEET}/propagationpolicies/web");
    until(&world.here, &policy, |policy| {
        policy["status"]["release"] == 6
    })
    .await;
    // Also if it is deleted once more.
    let gone = request::delete(&world.here, &policy, &json!({})).await;
    gone.expect("deleted");
    until(&world.here, &policy, |policy| policy["code"] == 404).await;
    make_policy(&world, &["front"], json!([])).await;
    until(&world.here, &policy, |policy| {
        policy["status"]["release"] == 6
    })
    .await;
    zone.disconnect().await;
    world.stop().await;
}

/// The release has what the hub had before: zones had something else.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_says_which_divergence_it_settles() {
    let world = World::start().await;
    let objects = ["front", "same"];
    govern(&world, &objects, json!([])).await;
    let has = held(&[("front", "2"), ("same", "1")]);
    let zone = diverge(&world, &objects, has).await;
    until(&world.here, &reconcile_path(), |said| {
        said["diverged"] == true && listed(said).len() == 1
    })
    .await;
    step(&world, "Settle").await.expect("settled");
    let rollout = format!("{FLEET}/propagationpolicies/web/_rollout");
    let said = until(&world.here, &rollout, |said| said["release"] == 3).await;
    let releases = said["releases"].as_array().expect("a list");
    let settles: Vec<&Value> = releases.iter().map(|one| &one["settles"]).collect();
    let expected = json!({"zones": [{"zone": PLAYED, "objects": 1}]});
    assert_eq!(settles, [&Value::Null, &expected], "{said:#}");
    zone.disconnect().await;
    world.stop().await;
}

/// Two people settle a zone at once, and mean the opposite.
#[tokio::test(flavor = "multi_thread")]
async fn one_reconciliation_of_a_zone_is_under_way_at_a_time() {
    let world = World::start().await;
    let followed = followed(lost(&world.fleet, LOST), &[]);
    let zone = PlayedZone::connect(&world, Some(followed), HeldObjects::new()).await;
    until(&world.here, &reconcile_path(), |said| {
        said["diverged"] == true && said["untold"] == json!([])
    })
    .await;
    let step = async |step: &str, attempt: &str| {
        let posted = json!({"step": step, "attempt": attempt});
        let posted = request::create::<Value>(&world.here, &reconcile_path(), &posted).await;
        posted.map(drop).map_err(|error| error.to_string())
    };
    step("Raise", "first").await.expect("raised");
    step("Raise", "first").await.expect("it may be repeated");
    for other in ["Raise", "Settle", "End"] {
        let refused = step(other, "second").await.expect_err("under way");
        assert!(refused.contains("is being reconciled by"), "{refused}");
    }
    // A person whose first attempt was killed goes on in its place.
    let refused = step("Raise", "second").await.expect_err("under way");
    assert!(
        refused.contains("which is you") && refused.contains("--take-over"),
        "{refused}"
    );
    let taken = json!({"step": "Raise", "attempt": "second", "takeOver": true});
    let taken = request::create::<Value>(&world.here, &reconcile_path(), &taken).await;
    taken.expect("taken over");
    step("Settle", "first")
        .await
        .expect_err("it was taken over");
    step("End", "second").await.expect("ended");
    step("Raise", "first").await.expect("raised");
    // What the first leaves to a person can be settled by another.
    step("End", "first").await.expect("ended");
    step("Raise", "third").await.expect("raised");
    step("End", "third").await.expect("ended");
    step("Settle", "first").await.expect("settled");
    let refused = step("Settle", "second").await.expect_err("settled");
    assert!(
        refused.contains("zone never-there was settled by"),
        "{refused}"
    );
    zone.disconnect().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_only_the_zone_has_are_deleted_and_namespaces_are_left_to_it() {
    let world = World::start().await;
    sync_maps(&world, &["same"]).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}});
    let mut has = held(&[("new", "1"), ("same", "1")]);
    let later = ObjectName::new("", "later").expect("legal");
    has.insert(namespaces(), [(later, version(&namespace))].into());
    let followed = followed(lost(&world.fleet, LOST), &[]);
    let zone = PlayedZone::connect(&world, Some(followed), has).await;
    let expected = [("later", "Orphan"), ("new", "Delete")];
    let expected = expected.map(|(name, leaves)| (name.to_owned(), leaves.to_owned()));
    until(&world.here, &reconcile_path(), |said| {
        let kinds = said["kinds"].as_array().into_iter().flatten();
        let objects = kinds.flat_map(|kind| kind["objects"].as_array().into_iter().flatten());
        let objects = objects.filter(|one| one["difference"] == "OnlyInZone");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let leaves: BTreeMap<String, String> = objects
            .map(|one| (text(&one["name"]), text(&one["leaves"])))
            .collect();
        leaves == BTreeMap::from(expected.clone())
    })
    .await;
    zone.disconnect().await;
    world.stop().await;
}

/// The zone cannot have deleted what it was never sent.
#[tokio::test(flavor = "multi_thread")]
async fn objects_that_the_hub_created_after_the_lost_future_began_are_marked() {
    let world = World::start().await;
    sync_maps(&world, &["before"]).await;
    let before = get(&world.here, &format!("{MAPS}/before")).await.1;
    let revision = before["metadata"]["resourceVersion"].as_str();
    let revision: u64 = revision.and_then(|text| text.parse().ok()).expect("one");
    let opening = world.fleet.catalog().read().epoch().clone();
    // As an earlier process of the hub wrote it down, when the zone connected first.
    let fork = json!({"opening": &*opening.0, "revision": revision});
    let path = format!("{FLEET}/zones/{PLAYED}");
    let status = json!({"status": {"fork": fork}});
    let status_path = format!("{path}/status");
    let noted = request::patch::<Value>(&world.here, &status_path, Patch::Merge, &status).await;
    noted.expect("noted");
    create(&world, MAPS, &map("since", "1")).await;
    let lost = Position {
        epoch: opening,
        revision: LOST,
    };
    let followed = followed(lost, &[]);
    let zone = PlayedZone::connect(&world, Some(followed), HeldObjects::new()).await;
    let said = until(&world.here, &reconcile_path(), |said| {
        let listed = listed(said);
        ["before", "since"]
            .iter()
            .all(|name| listed.get(*name).is_some_and(|how| how == "OnlyAtHub"))
    })
    .await;
    let kinds = said["kinds"].as_array().expect("a list");
    let kind = kinds.iter().find(|kind| kind["kind"] == "ConfigMap");
    let objects = kind
        .and_then(|kind| kind["objects"].as_array())
        .expect("a list");
    for object in objects {
        let name = object["name"].as_str().expect("a name");
        let stored = get(&world.here, &format!("{MAPS}/{name}")).await.1;
        let metadata = &stored["metadata"];
        let at_hub =
            json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
        assert_eq!(object["atHub"], at_hub, "{object}");
        assert_eq!(object["createdSince"], name == "since", "{object}");
    }
    // The hub goes by the first word about that future.
    until(&world.here, &path, |zone| {
        let conditions = zone["status"]["conditions"].as_array();
        conditions.is_some() && zone["status"]["fork"] == fork
    })
    .await;
    zone.disconnect().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_has_diverged_and_is_away_does_not_pass_for_settled() {
    let world = World::start().await;
    let said = get(&world.here, &reconcile_path()).await.1;
    // The hub was perhaps restored since the zone was connected last.
    assert_eq!(
        (&said["connected"], &said["diverged"]),
        (&json!(false), &Value::Null)
    );
    let followed = followed(lost(&world.fleet, LOST), &[]);
    let zone = PlayedZone::connect(&world, Some(followed), HeldObjects::new()).await;
    until(&world.here, &reconcile_path(), |said| {
        said["diverged"] == true && said["untold"] == json!([])
    })
    .await;
    zone.disconnect().await;
    let said = until(&world.here, &reconcile_path(), |said| {
        said["connected"] == false
    })
    .await;
    assert_eq!(said["diverged"], true, "{said:#}");
    assert_eq!(said["reason"], "HubRestored", "{said:#}");
    assert_eq!(said["kinds"], Value::Null, "{said:#}");
    let sync = get(&world.here, &format!("{FLEET}/zones/{PLAYED}/_sync"))
        .await
        .1;
    assert_eq!(
        (&sync["connected"], &sync["diverged"]),
        (&json!(false), &json!(true))
    );
    let refused = step(&world, "Settle").await.expect_err("it is away");
    assert!(refused.contains("is not connected"), "{refused}");
    world.stop().await;
}
