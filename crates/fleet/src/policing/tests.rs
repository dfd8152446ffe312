//! What may be written at a hub that knows some policies.

mod rights;

use deltaplane_api::identity::Identity;
use deltaplane_runtime::{Clock, Tasks};
use deltaplane_store::{Collection, Draft, Embedded, Options, Txn};
use deltaplane_sync::ObjectName;
use futures::FutureExt;
use tempfile::TempDir;

use super::*;
use crate::FleetConfig;
use crate::governing::AUTHOR;
use crate::kinds::TENANT;

/// A hub, as far as writes are judged by what it knows.
struct Hub {
    policing: Policing,
    _tasks: Tasks,
    _directory: TempDir,
}

/// A write, and what became of it.
struct Written {
    object: Value,
    warnings: Vec<String>,
    refusal: Option<String>,
}

const CONFIG_MAPS: Resource<'static> = Resource {
    group: "",
    version: "v1",
    kind: "ConfigMap",
    plural: "configmaps",
    subresource: "",
    namespace: "shop",
    name: "a",
};

fn of_fleet<'a>(kind: &'a str, plural: &'a str, name: &'a str) -> Resource<'a> {
    Resource {
        group: GROUP,
        version: "v1alpha1",
        kind,
        plural,
        subresource: "",
        namespace: "",
        name,
    }
}

fn config(team: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "shop", "labels": {"team": team}},
        "data": {"key": value},
    })
}

/// A policy for the ConfigMaps of a team, which is as old as its name says.
fn policy(name: &str, created: &str, team: &str) -> Value {
    json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1,
            "creationTimestamp": created},
        "spec": {
            "targets": [{"kind": "ConfigMap", "selector": {"matchLabels": {"team": team}}}],
            "stages": [{"name": "canary"}],
        },
    })
}

impl Hub {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Embedded::open(directory.path(), Options::default()).expect("opened");
        let tasks = Tasks::new();
        let config = FleetConfig {
            store,
            clock: Clock::system(),
            product: "0".to_owned(),
        };
        let fleet = Fleet::open(config, &tasks).await.expect("opened");
        Self {
            policing: Policing(fleet),
            _tasks: tasks,
            _directory: directory,
        }
    }

    /// What the projector does when a policy was written.
    fn knows(&self, policy: Value) {
        let mut governing = self.policing.0.inner().governing.lock();
        let _ = governing.policy(policy, true);
    }

    /// Stores an object without a namespace.
    async fn stores(&self, collection: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let collection = Collection::new(TENANT, collection).expect("legal");
        let key = collection.key("", name).expect("legal");
        let txn = Txn::put(key, Draft::opaque(object.to_string()));
        let store = &self.policing.0.inner().store;
        store.commit(txn).await.expect("stored");
    }

    /// What the projector does when a SyncedKind for ConfigMaps was written.
    fn crosses(&self) {
        let mut governing = self.policing.0.inner().governing.lock();
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        governing.crossing.insert(kind);
    }

    /// What the projector does when an object was written.
    fn has(&self, object: &Value) {
        let mut governing = self.policing.0.inner().governing.lock();
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        let name: ObjectName = "shop/a".parse().expect("legal");
        let id = (kind, name);
        let governor = governing.governor_of(&id, object);
        let governor = governor.map(|one| one.id.as_str().to_owned());
        let head = HeadObject::of(object).expect("nothing is smuggled");
        if let Some(governor) = governor {
            governing.govern(&governor, &id, head, 7);
        }
    }

    fn write(
        &self,
        by: &str,
        (operation, resource): (Operation, Resource<'_>),
        written: (Option<&Value>, Value),
    ) -> Written {
        self.write_with(by, (operation, resource), written, &|_| true)
    }

    /// A write by somebody with these rights.
    fn write_with(
        &self,
        by: &str,
        (operation, resource): (Operation, Resource<'_>),
        (old, object): (Option<&Value>, Value),
        may: &UserRights<'_>,
    ) -> Written {
        let (mut object, mut warnings) = (object, Vec::new());
        let user = Identity::authenticated(by, &[]);
        let admitted = self.policing.admit(Review {
            user: &user,
            operation,
            resource,
            object: &mut object,
            old,
            dry_run: false,
            warnings: &mut warnings,
            may,
        });
        let admitted = admitted.now_or_never().expect("nobody waits");
        Written {
            refusal: admitted.err().map(|error| error.to_string()),
            object,
            warnings,
        }
    }
}

impl Written {
    fn author(&self) -> Option<&str> {
        self.object["metadata"]["annotations"][AUTHOR].as_str()
    }

    #[track_caller]
    fn is_refused(&self, why: &str) {
        let refusal = self.refusal.as_deref().unwrap_or("nothing is wrong");
        assert!(refusal.contains(why), "{refusal}");
    }

    #[track_caller]
    fn is_taken(&self) {
        assert_eq!(self.refusal, None);
    }
}

#[tokio::test]
async fn who_changes_what_is_governed_is_written_down() {
    let hub = Hub::new().await;
    hub.knows(policy("web", "2026-01-01T00:00:00Z", "web"));
    let write = |by: &str, old: Option<&Value>, object: Value| {
        let operation = match old {
            Some(_) => Operation::Update,
            None => Operation::Create,
        };
        hub.write(by, (operation, CONFIG_MAPS), (old, object))
    };
    let first = write("ann", None, config("web", "1"));
    assert_eq!(first.author(), Some("ann"));
    // Nobody signs for somebody else, nor by writing the same again.
    let mut same = first.object.clone();
    same["metadata"]["annotations"][AUTHOR] = "eve".into();
    let again = write("bob", Some(&first.object), same);
    assert_eq!(again.author(), Some("ann"));
    let second = write("bob", Some(&first.object), config("web", "2"));
    assert_eq!(second.author(), Some("bob"));
    // The hub's own writes are nobody's.
    let by_hub = write(CONTROLLERS, Some(&first.object), config("web", "3"));
    assert_eq!(by_hub.author(), None);
}

/// Otherwise who scales something is not its author, and may approve it.
#[tokio::test]
async fn who_changes_what_is_governed_through_a_part_of_it_is_written_down() {
    let hub = Hub::new().await;
    hub.knows(policy("web", "2026-01-01T00:00:00Z", "web"));
    let write = |part: &'static str, old: &Value, object: Value| {
        let resource = Resource {
            subresource: part,
            ..CONFIG_MAPS
        };
        hub.write("bob", (Operation::Update, resource), (Some(old), object))
    };
    let mut there = config("web", "1");
    there["metadata"]["annotations"][AUTHOR] = "ann".into();
    let scaled = write("scale", &there, config("web", "2"));
    assert_eq!(scaled.author(), Some("bob"));
    let mut said = there.clone();
    said["status"] = json!({"ready": true});
    said["metadata"]["annotations"][AUTHOR] = "eve".into();
    assert_eq!(write("status", &there, said.clone()).author(), Some("ann"));
    // Nor is anybody named where nobody signed.
    assert_eq!(write("status", &config("web", "1"), said).author(), None);
}

/// Otherwise whoever takes a label away in the middle of a rollout learns it from the zones.
#[tokio::test]
async fn who_takes_an_object_out_of_a_policy_is_warned() {
    let hub = Hub::new().await;
    hub.knows(policy("web", "2026-01-01T00:00:00Z", "web"));
    let update = |old: &str, new: &str| {
        let old = config(old, "1");
        let update = (Operation::Update, CONFIG_MAPS);
        hub.write("ann", update, (Some(&old), config(new, "1")))
            .warnings
    };
    assert_eq!(
        update("web", "mobile"),
        ["policy web no longer governs this object: all zones get its current version at once"]
    );
    assert_eq!(update("web", "web"), [""; 0]);
    assert_eq!(update("mobile", "other"), [""; 0]);
}

/// Not even by whoever took the rules out of their definition.
#[tokio::test]
async fn approvals_are_never_changed() {
    let hub = Hub::new().await;
    let approvals = Resource {
        group: GROUP,
        version: "v1alpha1",
        kind: "Approval",
        plural: "approvals",
        subresource: "",
        namespace: "",
        name: "one",
    };
    let approval = |by: &str| json!({"metadata": {"name": "one"}, "spec": {"approvedBy": by}});
    let update = (Operation::Update, approvals);
    let old = approval("ann");
    hub.write("ann", update, (Some(&old), approval("bob")))
        .is_refused("an approval is never changed");
    hub.write("ann", update, (Some(&old), approval("ann")))
        .is_taken();
}

/// Who deletes a namespace is the deleter of what goes with it.
#[tokio::test]
async fn who_deletes_a_namespace_is_written_down() {
    let hub = Hub::new().await;
    let namespaces = Resource {
        group: "",
        version: "v1",
        kind: "Namespace",
        plural: "namespaces",
        subresource: "",
        namespace: "",
        name: "shop",
    };
    let delete = (Operation::Delete, namespaces);
    let there = json!({"metadata": {"name": "shop"}});
    let deleted = hub.write("ann", delete, (Some(&there), there.clone()));
    assert_eq!(deleted.author(), Some("ann"));
    let mut going = deleted.object;
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let again = hub.write("eve", delete, (Some(&going), going.clone()));
    assert_eq!(again.author(), Some("ann"));
    let mut forged = going.clone();
    forged["metadata"]["annotations"][AUTHOR] = "bob".into();
    let update = (Operation::Update, namespaces);
    let forged = hub.write("ann", update, (Some(&going), forged));
    assert_eq!(forged.author(), Some("ann"));
    let mut before = there.clone();
    before["metadata"]["annotations"] = json!({AUTHOR: "bob"});
    let before = hub.write("ann", update, (Some(&there), before));
    assert_eq!(before.author(), None);
    hub.stores("namespaces", &going).await;
    hub.knows(policy("web", "2026-01-01T00:00:00Z", "web"));
    let map = config("web", "1");
    let collected = (Operation::Delete, CONFIG_MAPS);
    let collected = hub.write(CONTROLLERS, collected, (Some(&map), map.clone()));
    assert_eq!(collected.author(), Some("ann"));
}

#[tokio::test]
async fn who_deletes_what_is_governed_is_written_down_once() {
    let hub = Hub::new().await;
    hub.knows(policy("web", "2026-01-01T00:00:00Z", "web"));
    let delete = (Operation::Delete, CONFIG_MAPS);
    let mut there = config("web", "1");
    there["metadata"]["annotations"][AUTHOR] = "ann".into();
    let deleted = hub.write("bob", delete, (Some(&there), there.clone()));
    assert_eq!(deleted.author(), Some("bob"));
    let mut going = deleted.object;
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let again = hub.write("eve", delete, (Some(&going), going.clone()));
    assert_eq!(again.author(), Some("bob"));
    let by_hub = hub.write(CONTROLLERS, delete, (Some(&there), there.clone()));
    assert_eq!(by_hub.author(), Some(CONTROLLERS));
}

/// Otherwise one could name somebody else before the object is governed.
#[tokio::test]
async fn what_nobody_governs_has_no_author() {
    let hub = Hub::new().await;
    let mut object = config("web", "1");
    object["metadata"]["annotations"][AUTHOR] = "eve".into();
    let create = (Operation::Create, CONFIG_MAPS);
    assert_eq!(hub.write("ann", create, (None, object)).author(), None);
}

#[tokio::test]
async fn a_second_policy_for_an_object_is_refused_and_names_the_first() {
    let hub = Hub::new().await;
    hub.knows(policy("first", "2026-01-01T00:00:00Z", "web"));
    hub.has(&config("web", "1"));
    let create = |name: &str, policy: Value| {
        let resource = of_fleet("PropagationPolicy", "propagationpolicies", name);
        hub.write("ann", (Operation::Create, resource), (None, policy))
    };
    let second = create("second", policy("second", "2026-02-01T00:00:00Z", "web"));
    second.is_refused("ConfigMap shop/a is governed by policy first already");
    let other = create("other", policy("other", "2026-02-01T00:00:00Z", "mobile"));
    other.is_taken();
    assert!(
        other.warnings[0].contains("selects no zone"),
        "{:?}",
        other.warnings
    );
    // The first may be written again.
    create("first", policy("first", "2026-01-01T00:00:00Z", "web")).is_taken();
}

/// Labels change after both were written: the older keeps the object, and the other says so.
#[tokio::test]
async fn policies_that_come_to_overlap_say_so() {
    let hub = Hub::new().await;
    hub.crosses();
    hub.knows(policy("first", "2026-01-01T00:00:00Z", "web"));
    hub.knows(policy("second", "2026-02-01T00:00:00Z", "mobile"));
    let fleet = &hub.policing.0;
    let mut both = config("web", "1");
    hub.has(&both);
    assert!(fleet.troubles("second").is_empty());
    let mut wide = policy("second", "2026-02-01T00:00:00Z", "mobile");
    wide["spec"]["targets"][0]["selector"] = json!({"matchLabels": {"shared": "yes"}});
    wide["metadata"]["generation"] = 2.into();
    hub.knows(wide);
    assert!(fleet.troubles("second").is_empty());
    both["metadata"]["labels"]["shared"] = "yes".into();
    {
        // As at a later revision.
        let mut governing = fleet.inner().governing.lock();
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        let name: ObjectName = "shop/a".parse().expect("legal");
        let id = (kind, name);
        let governor = governing.governor_of(&id, &both);
        assert_eq!(governor.map(|one| one.id.as_str()), Some("first"));
        let head = HeadObject::of(&both).expect("nothing is smuggled");
        governing.govern("first", &id, head, 8);
    }
    assert_eq!(
        fleet.troubles("second"),
        [
            "spec.targets: ConfigMap shop/a is governed by policy first, which has it because it is older: select less, or change that one"
        ]
    );
    assert!(fleet.troubles("first").is_empty());
}

#[tokio::test]
async fn a_policy_for_a_kind_that_does_not_cross_says_so() {
    let hub = Hub::new().await;
    hub.knows(policy("web", "2026-01-01T00:00:00Z", "web"));
    let troubles = || hub.policing.0.troubles("web");
    assert_eq!(
        troubles(),
        ["spec.targets: ConfigMap does not cross the border: make a SyncedKind for it"]
    );
    hub.crosses();
    assert_eq!(troubles(), [""; 0]);
}

/// Otherwise all zones would lose it at once, whatever its gates say.
#[tokio::test]
async fn a_kind_that_is_governed_goes_on_to_cross() {
    let hub = Hub::new().await;
    hub.knows(policy("web", "2026-01-01T00:00:00Z", "web"));
    let withdraw = |by: &str, kind: &str| {
        let synced = json!({"spec": {"kind": kind}});
        let resource = of_fleet("SyncedKind", "syncedkinds", "configmaps");
        let delete = (Operation::Delete, resource);
        hub.write(by, delete, (Some(&synced), synced.clone()))
    };
    withdraw("ann", "ConfigMap").is_taken();
    hub.has(&config("web", "1"));
    withdraw("ann", "ConfigMap").is_refused("policy web governs 1 objects of this kind");
    withdraw("ann", "Secret").is_taken();
    // What goes with something else that the hub deletes.
    withdraw(CONTROLLERS, "ConfigMap").is_taken();
}

#[tokio::test]
async fn releases_can_be_called_after_a_policy() {
    let hub = Hub::new().await;
    let create = |length: usize| {
        let name = "x".repeat(length);
        let resource = of_fleet("PropagationPolicy", "propagationpolicies", &name);
        let policy = policy(&name, "2026-01-01T00:00:00Z", "web");
        hub.write("ann", (Operation::Create, resource), (None, policy))
    };
    create(232).is_taken();
    create(233).is_refused("metadata.name: Forbidden: it has 233 characters (hint: its releases");
}

/// Who asks for an older release and then whether all has propagated is not told of what was
/// before.
#[tokio::test]
async fn what_was_asked_for_has_not_propagated() {
    let hub = Hub::new().await;
    let mut there = policy("web", "2026-01-01T00:00:00Z", "web");
    there["status"]["conditions"] = json!([
        {"type": "Valid", "status": "True"},
        {"type": "Propagated", "status": "True", "reason": "Propagated"},
    ]);
    let write = |annotation: &str| {
        let mut object = there.clone();
        object["metadata"]["annotations"][annotation] = "1 instead of 2".into();
        let resource = of_fleet("PropagationPolicy", "propagationpolicies", "web");
        let update = (Operation::Update, resource);
        let written = hub.write("ann", update, (Some(&there), object));
        written.is_taken();
        written.object["status"]["conditions"].clone()
    };
    assert_eq!(write("note"), there["status"]["conditions"]);
    let asked = write(ROLLBACK);
    assert_eq!(asked[0], there["status"]["conditions"][0]);
    assert_eq!(asked[1]["status"], "False");
    assert_eq!(asked[1]["reason"], "NotReleased");
}

#[tokio::test]
async fn an_approval_says_whose_it_is_and_is_about_something() {
    let hub = Hub::new().await;
    hub.knows(policy("web", "2026-01-01T00:00:00Z", "web"));
    hub.policing.0.inner().governing.lock().release(
        &json!({"metadata": {"uid": "uid-3"}, "spec": {
            "policy": "web", "policyUID": "uid-web", "number": 3, "digest": "d", "revision": 1,
            "overrides": [], "removes": [], "objects": [],
        }}),
        true,
    );
    let approve = |spec: Value| {
        let resource = of_fleet("Approval", "approvals", "yes");
        let object = json!({"metadata": {"name": "yes"}, "spec": spec});
        hub.write("bob", (Operation::Create, resource), (None, object))
    };
    // Nobody agrees in somebody else's name.
    let good = approve(json!({
        "policy": "web", "stage": "canary", "release": 3,
        "approvedBy": "ann", "policyUID": "another",
    }));
    good.is_taken();
    assert_eq!(good.object["spec"]["approvedBy"], "bob");
    assert_eq!(good.object["spec"]["policyUID"], "uid-web");
    // It goes with the release.
    let owner = &good.object["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["name"], &owner["uid"]),
        (&json!("web-3"), &json!("uid-3"))
    );
    approve(json!({"policy": "wep", "stage": "canary", "release": 3}))
        .is_refused("there is no policy \"wep\" (hint: there are: web)");
    let mut bare = policy("bare", "2026-01-02T00:00:00Z", "db");
    bare["spec"]["stages"] = Value::Null;
    hub.knows(bare);
    approve(json!({"policy": "bare", "stage": "rest", "release": 1})).is_refused(
        "the policy has no stage \"rest\" (hint: it has no stages; leave spec.stage out)",
    );
    let resource = of_fleet("Approval", "approvals", "yes");
    let object = json!({"metadata": {"name": "yes"}, "spec": {"policy": "web", "release": 1}});
    let empty = Hub::new().await;
    let refused = empty.write("bob", (Operation::Create, resource), (None, object));
    refused.is_refused("(hint: there are none yet; create a PropagationPolicy first)");
    approve(json!({"policy": "web", "stage": "canary", "release": 4}))
        .is_refused("the policy has no such release (hint: the newest is 3)");
    approve(json!({"policy": "web", "stage": "rest", "release": 3}))
        .is_refused("the policy has no stage \"rest\" (hint: there are: canary)");
}

#[tokio::test]
async fn only_the_hub_decides() {
    let hub = Hub::new().await;
    hub.knows(policy("web", "2026-01-01T00:00:00Z", "web"));
    let mut status = of_fleet("PropagationPolicy", "propagationpolicies", "web");
    status.subresource = "status";
    let object = policy("web", "2026-01-01T00:00:00Z", "web");
    let write = |by: &str| {
        let write = (Operation::Update, status);
        hub.write(by, write, (Some(&object), object.clone()))
    };
    write("ann").is_refused("what was decided is written by the hub");
    write(CONTROLLERS).is_taken();
    let release = |uid: &str| {
        let release = json!({"spec": {"policyUID": uid}});
        let resource = of_fleet("Release", "releases", "web-1");
        let write = (Operation::Delete, resource);
        hub.write("ann", write, (Some(&release), release.clone()))
    };
    release("uid-web").is_refused("releases are written by the hub");
    // What was left behind by a policy may be cleaned up.
    release("uid-gone").is_taken();
}

/// What takes long is measured by `cargo xtask bench rollout`; that it ends is shown here.
#[tokio::test]
async fn a_policy_for_ten_thousand_zones_is_checked() {
    let hub = Hub::new().await;
    for number in 0..10_000 {
        let name: ZoneName = format!("zone-{number}").parse().expect("legal");
        let labels = json!({"tier": format!("t{}", number % 8)});
        let zone = json!({"metadata": {"name": name.as_str(), "labels": labels}});
        let mut governing = hub.policing.0.inner().governing.lock();
        governing.zone(&name, zone.as_object().cloned());
    }
    let mut many = policy("many", "2026-01-01T00:00:00Z", "web");
    let stages = (0..64).map(|number| {
        let zones = json!({"matchLabels": {"tier": format!("t{number}")}});
        let gates = ["linearlyReady(zone, zones, 1)"];
        json!({"name": format!("s{number}"), "zones": zones, "propagateWhen": gates})
    });
    many["spec"]["stages"] = stages.collect();
    let resource = of_fleet("PropagationPolicy", "propagationpolicies", "many");
    let written = hub.write("ann", (Operation::Create, resource), (None, many));
    written.is_taken();
}

#[tokio::test]
async fn a_kind_does_not_become_what_lets_governed_objects_go() {
    let hub = Hub::new().await;
    hub.knows(policy("web", "2026-03-01T00:00:00Z", "web"));
    hub.has(&config("web", "1"));
    let kind = |spec: Value| {
        json!({
            "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
            "metadata": {"name": "configmaps"}, "spec": spec,
        })
    };
    let old = kind(json!({"kind": "ConfigMap", "direction": "HubToZone"}));
    let resource = of_fleet("SyncedKind", "syncedkinds", "configmaps");
    let refusal = |spec: Value| {
        let becomes = (Some(&old), kind(spec));
        hub.write("ann", (Operation::Update, resource), becomes)
            .refusal
    };
    let same = json!({"kind": "ConfigMap", "direction": "Both", "onWithdraw": "Delete"});
    assert_eq!(refusal(same), None);
    let selecting = |team: &str| {
        json!({"kind": "ConfigMap", "direction": "HubToZone",
            "selector": {"matchLabels": {"team": team}}})
    };
    assert_eq!(refusal(selecting("web")), None);
    let letting_go = [
        selecting("db"),
        json!({"kind": "ConfigMap", "direction": "ZoneToHub"}),
    ];
    let unreadable = json!({"kind": "ConfigMap", "direction": "Sideways"});
    let why = refusal(unreadable).expect("it is refused");
    assert!(why.contains("cannot be used"), "{why}");
    let without = json!({"kind": "ConfigMap"});
    let why = refusal(without).expect("it is refused");
    assert!(why.contains("missing field `direction`"), "{why}");
    for spec in letting_go {
        let refusal = refusal(spec).expect("it is refused");
        assert!(
            refusal.contains("policy web governs 1 objects"),
            "{refusal}"
        );
        assert!(refusal.contains("kubectl edit propagationpolicy web"));
    }
}

#[tokio::test]
async fn objects_that_do_not_come_from_zones_do_not_go_across() {
    let hub = Hub::new().await;
    let resource = of_fleet("SyncedKind", "syncedkinds", "configmaps");
    let kind = |mut spec: Value| {
        spec["kind"] = "ConfigMap".into();
        json!({"metadata": {"name": "configmaps"}, "spec": spec})
    };
    let warns = |old: Option<&Value>, new: Value| {
        let operation = old.map_or(Operation::Create, |_| Operation::Update);
        let written = hub.write("ann", (operation, resource), (old, new));
        written.is_taken();
        let warnings = written.warnings.iter();
        let mut warnings = warnings.map(|one| one.starts_with("spec.acrossZones has no effect"));
        warnings.next().is_some_and(|is_expected| is_expected)
    };
    let down = kind(json!({"direction": "HubToZone", "acrossZones": true}));
    let both = kind(json!({"direction": "Both", "acrossZones": true}));
    let unsent = kind(json!({"direction": "Both", "acrossZones": true, "zoneAuthored": false}));
    assert!(warns(None, down.clone()));
    assert!(warns(None, unsent));
    assert!(!warns(None, both.clone()));
    assert!(warns(Some(&both), down.clone()));
    // One that is stored can be written again.
    assert!(!warns(Some(&down), down.clone()));
    assert!(!warns(None, kind(json!({"direction": "HubToZone"}))));
}

#[tokio::test]
async fn what_overlaps_is_found_without_reading_objects() {
    let hub = Hub::new().await;
    hub.knows(policy("old", "2026-03-01T00:00:00Z", "web"));
    hub.has(&config("web", "1"));
    {
        let mut governing = hub.policing.0.inner().governing.lock();
        let heads = governing.policies.values_mut();
        for head in heads.flat_map(|governor| governor.head.values_mut()) {
            head.body = Vec::new().into();
        }
    }
    hub.knows(policy("new", "2026-03-02T00:00:00Z", "web"));
    hub.crosses();
    let troubles = hub.policing.0.troubles("new");
    assert!(troubles[0].contains("ConfigMap shop/a is governed by policy old"));
}

#[tokio::test]
async fn who_writes_waits_for_the_policies_of_that_kind_alone() {
    let hub = Hub::new().await;
    hub.knows(policy("web", "2026-03-01T00:00:00Z", "web"));
    let mut secrets = policy("secrets", "2026-03-01T00:00:00Z", "web");
    secrets["spec"]["targets"][0]["kind"] = "Secret".into();
    hub.knows(secrets);
    let fleet = &hub.policing.0;
    let is_said = |kind: &str| {
        let kind = SyncKind::new("", kind).expect("legal");
        fleet.said(&kind, 0).now_or_never().is_some()
    };
    assert!(is_said("Event") && !is_said("ConfigMap") && !is_said("Secret"));
    fleet.told("web", 1);
    assert!(is_said("ConfigMap") && !is_said("Secret"));
}

#[tokio::test]
async fn gates_and_orders_that_make_no_sense_are_told() {
    let hub = Hub::new().await;
    let create = |field: &str, value: Value| {
        let mut new = policy("web", "2026-01-01T00:00:00Z", "web");
        new["spec"]["stages"][0][field] = value;
        let resource = of_fleet("PropagationPolicy", "propagationpolicies", "web");
        hub.write("ann", (Operation::Create, resource), (None, new))
    };
    let closed = create("propagateWhen", json!(["false"]));
    closed.is_taken();
    let warnings = closed.warnings.join("\n");
    assert!(warnings.contains("false is never true"), "{warnings}");
    let unordered = create("orderBy", json!("zone.metadata.labels"));
    unordered.is_refused("spec.stages[0].orderBy: Forbidden: orderBy must be a number");
    create("orderBy", json!("zone.metadata.name")).is_taken();
}

#[tokio::test]
async fn malformed_selectors_are_refused_when_they_are_written() {
    let hub = Hub::new().await;
    let resource = of_fleet("PropagationPolicy", "propagationpolicies", "web");
    let malformed = policy("web", "2026-01-01T00:00:00Z", "no label value");
    let created = hub.write(
        "ann",
        (Operation::Create, resource),
        (None, malformed.clone()),
    );
    created.is_refused("spec.targets[0].selector.matchLabels: Invalid value: \"no label value\"");
    // One that was stored before can be changed otherwise.
    let mut paused = malformed.clone();
    paused["spec"]["paused"] = true.into();
    let update = (Operation::Update, resource);
    hub.write("ann", update, (Some(&malformed), paused))
        .is_taken();
    let resource = of_fleet("SyncedKind", "syncedkinds", "configmaps");
    let selector = json!({"matchExpressions": [{"key": "no key", "operator": "Exists"}]});
    let kind = json!({"metadata": {"name": "configmaps"}, "spec": {
        "kind": "ConfigMap", "direction": "HubToZone", "selector": selector}});
    let created = hub.write("ann", (Operation::Create, resource), (None, kind));
    created.is_refused("spec.selector.matchExpressions[0].key: Invalid value: \"no key\"");
}

#[test]
fn an_empty_stage_is_doubted_unless_it_lets_releases_pass() {
    let zone = json!({"metadata": {"name": "zone-a", "labels": {"tier": "rest"}}});
    let zone = zone.as_object().expect("an object").clone();
    let doubts = |evidence: &str| {
        let spec = json!({
            "targets": [{"kind": "ConfigMap"}],
            "stages": [
                {"name": "canary", "zones": {"matchLabels": {"tier": "canary"}},
                    "whenNoEvidence": evidence},
                {"name": "rest"},
            ],
        });
        let spec = serde_json::from_value(spec).expect("a policy");
        let policy = Policy::compile(&spec).expect("compiled");
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        super::doubts(&BTreeSet::from([kind]), &policy, &[("zone-a", &zone)])
    };
    assert_eq!(
        doubts("Hold"),
        ["no zone is in stage canary: nothing passes it"]
    );
    assert_eq!(doubts("Proceed"), [""; 0]);
}
