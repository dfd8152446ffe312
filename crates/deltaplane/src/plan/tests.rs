//! Plans as data.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_api::identity::{Identity, MASTERS};
use deltaplane_client::discovery::Served;
use deltaplane_client::feed::{Event, Feed, Query};
use deltaplane_client::{Catalog, Pace, Resource, request};
use deltaplane_hub::{Hub, HubConfig};
use deltaplane_plane::PlaneConfig;
use deltaplane_runtime::Trigger;
use futures::StreamExt;
use kube::Client;
use serde_json::{Value, json};

use super::cascade::{self, CascadedObjects, MAX_CASCADED};
use super::change::{self, Changed, Deleted};
use super::fleet::{Fleet, PlannedDeletions};
use super::{plan, shown};
use crate::fake;

fn planned(deletions: Value) -> Value {
    let done = "2026-03-01T12:00:00Z";
    json!({"policies": [{"policy": "web", "release": 2, "done": done, "deletions": deletions}]})
}

#[track_caller]
fn says(planned: &Value, expected: &str) {
    let text = shown::text(planned);
    assert!(text.contains(expected), "{text}");
}

#[test]
fn what_goes_is_said_with_what_it_needs() {
    let few = json!({"removes": 1, "of": 5, "may": 20, "behind": 0, "needsApproval": false});
    says(
        &planned(few),
        "deletions: 1 of 5 objects go, and 20 may without approval\n",
    );
    let used = json!({"removes": 1, "of": 1, "may": 20, "behind": 3, "needsApproval": true});
    let used = planned(used);
    says(
        &used,
        "may without approval: needs approval of the deletions\n",
    );
    says(&used, "a graph goes that is in use: 3 instances stay");
}

#[test]
fn what_would_stop_is_not_good() {
    assert!(shown::is_good(&planned(json!({}))));
    for (field, value) in [
        ("stuck", json!({"stage": "canary", "why": "no evidence"})),
        ("problems", json!(["spec.overrides[0]: it cannot be read"])),
        ("hunks", json!([{"change": "Impossible"}])),
    ] {
        let mut bad = planned(json!({}));
        bad["policies"][0][field] = value;
        assert!(!shown::is_good(&bad), "{field}");
    }
}

#[test]
fn objects_that_are_not_named_are_counted() {
    let mut planned = planned(json!({}));
    assert!(!shown::text(&planned).contains("may not read"));
    planned["policies"][0]["hidden"] = 3.into();
    says(&planned, "and 3 objects that you may not read\n");
}

#[test]
fn what_is_not_foreseen_is_said_and_not_good() {
    let mut open = planned(json!({}));
    open["policies"][0]["done"] = Value::Null;
    assert!(!shown::is_good(&open));
    says(&open, "further is not foreseen\n");
    // Nothing is to be foreseen where nothing is released.
    open["policies"][0]["release"] = Value::Null;
    assert!(shown::is_good(&open));
}

#[test]
fn a_definition_that_stays_at_the_hub_is_not_good() {
    let warning = |message: &str, stays: bool| {
        json!({
            "group": "kro.run", "kind": "ResourceGraphDefinition", "namespace": "", "name": "shop",
            "message": message, "stays": stays,
        })
    };
    let planned =
        json!({"policies": [], "others": [], "warnings": [warning("it is in use", false)]});
    says(
        &planned,
        "warning: ResourceGraphDefinition.kro.run shop: it is in use\n",
    );
    assert!(shown::is_good(&planned));
    let planned = json!({"warnings": [warning("it does not compile", true)]});
    assert!(!shown::is_good(&planned));
}

#[test]
fn a_release_that_another_policy_moves_on_is_told() {
    let mut moved = planned(json!({}));
    moved["policies"][0]["released"] = true.into();
    says(&moved, "policy web would go on with release 2\n");
    let held = json!({"policies": [{"policy": "web", "problems": ["it does not compile"]}]});
    says(
        &held,
        "policy web would release nothing until its problems are solved\n",
    );
}

/// The policy `web` for ConfigMaps of these names.
fn policy(names: &[&str]) -> Value {
    json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web"},
        "spec": {"targets": [{"kind": "ConfigMap", "names": names}]},
    })
}

/// Of new ConfigMaps `site` and `extra`, those that no policy would govern if `web` became another.
fn ungoverned(live: &[&str], given: &[&str]) -> Vec<String> {
    let synced = json!({
        "metadata": {"name": "configmaps"},
        "spec": {"kind": "ConfigMap", "direction": "HubToZone"},
    });
    let fleet = Fleet::new(vec![policy(live)], &[synced], Vec::new());
    let changed = |live: Option<Value>, stored: Value| Changed {
        live,
        stored,
        note: None,
        warnings: Vec::new(),
    };
    let config = |name: &str| {
        let metadata = json!({"namespace": "default", "name": name});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    };
    let changes = [
        changed(Some(policy(live)), policy(given)),
        changed(None, config("site")),
        changed(None, config("extra")),
    ];
    let own = BTreeMap::from([("web", &changes[0])]);
    assert_eq!(fleet.concerned(&changes, &[], &own), ["web"]);
    let others = fleet.others(&changes, &[], &own);
    let names = others.iter().filter_map(|other| other["name"].as_str());
    names.map(str::to_owned).collect()
}

#[test]
fn a_policy_that_changes_governs_what_it_says_then() {
    assert_eq!(ungoverned(&["site"], &["site"]), ["extra"]);
    assert!(ungoverned(&["site"], &["site", "extra"]).is_empty());
    assert_eq!(ungoverned(&["site", "extra"], &["site"]), ["extra"]);
}

fn metadata(kind: &str, name: &str, labels: Value) -> Value {
    let metadata = json!({"namespace": "shop", "name": name, "labels": labels, "uid": name});
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})
}

/// A namespace that would be deleted with objects of it.
fn deleted_namespace(objects: Vec<Value>) -> Deleted {
    Deleted {
        live: json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        cascade: Some(CascadedObjects {
            objects,
            has_more: false,
            unlisted: vec!["Secret".to_owned()],
        }),
        warnings: Vec::new(),
    }
}

#[test]
fn what_goes_with_a_namespace_is_counted() {
    let synced = json!({
        "metadata": {"name": "configmaps"},
        "spec": {"kind": "ConfigMap", "direction": "Both"},
    });
    let fleet = Fleet::new(vec![policy(&["site"])], &[synced], Vec::new());
    let origin = json!({"deltaplane.io/origin": "zone", "deltaplane.io/zone": "eu-1"});
    let deletions = [deleted_namespace(vec![
        metadata("ConfigMap", "site", json!({})),
        metadata("ConfigMap", "other", json!({})),
        metadata("ConfigMap", "eu-1.site", origin),
        metadata("Service", "web", json!({})),
    ])];
    let own = BTreeMap::new();
    assert_eq!(fleet.concerned(&[], &deletions, &own), ["web"]);
    let PlannedDeletions { objects, has_more } = fleet.deletions("web", &deletions);
    let names: Vec<&str> = objects
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!((names, has_more), (vec!["shop", "site"], false));
    let planned = json!({"others": fleet.others(&[], &deletions, &own)});
    let expected = "\
no policy governs:
- Namespace shop is removed: zones that have it keep it
    4 objects go with it; 2 of the hub's own cross to zones, 1 of them by policies
    1 of them is from a zone and comes back: the hub asks for what zones authored
    there may be more of kinds that could not be listed: Secret
";
    assert_eq!(shown::text(&planned), expected);
    let kind = "CustomResourceDefinition";
    let cascade = json!({"objects": 2, "crossing": 0, "governed": 0, "fromZones": 2});
    let other =
        json!({"change": "Removed", "kind": kind, "name": "shops.kro.run", "cascade": cascade});
    let text = shown::text(&json!({"others": [other]}));
    let expected = "\
    2 objects go with it; none of the hub's own crosses to zones
    2 of them are from zones and come back when the kind is served again: the hub asks for what zones authored
";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn more_objects_than_one_plan_takes_are_not_posted() {
    let synced = json!({
        "metadata": {"name": "configmaps"},
        "spec": {"kind": "ConfigMap", "direction": "Both"},
    });
    let fleet = Fleet::new(vec![policy(&["site"])], &[synced], Vec::new());
    let sites = |count| vec![metadata("ConfigMap", "site", json!({})); count];
    let all = [deleted_namespace(sites(MAX_CASCADED))];
    let PlannedDeletions { objects, has_more } = fleet.deletions("web", &all);
    assert_eq!((objects.len(), has_more), (MAX_CASCADED + 1, false));
    // Of two namespaces.
    let both = [
        deleted_namespace(sites(MAX_CASCADED)),
        deleted_namespace(sites(1)),
    ];
    let PlannedDeletions { objects, has_more } = fleet.deletions("web", &both);
    assert_eq!((objects.len(), has_more), (MAX_CASCADED + 2, true));
    let mut cut = deleted_namespace(sites(1));
    cut.cascade.as_mut().expect("it has one").has_more = true;
    let deletions = [cut];
    assert!(fleet.deletions("web", &deletions).has_more);
    let own = BTreeMap::new();
    let others = json!({"others": fleet.others(&[], &deletions, &own)});
    says(
        &others,
        "more than 1 objects go with it; of the first 1; 1 of the hub's own crosses",
    );
    let mut partial = planned(json!({}));
    partial["policies"][0]["partial"] = json!({"deletions": 2});
    says(
        &partial,
        "note: more than 2 of its objects may be deleted, and this plan is of 2\n",
    );
    assert!(!shown::is_good(&partial));
}

#[tokio::test]
async fn what_is_in_a_namespace_and_of_a_kind_is_listed() {
    let list = |items: &[Value]| {
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
        (200, list)
    };
    let client = fake::api(move |what, _| match what {
        "GET /api/v1/namespaces/shop/configmaps" => list(&[
            metadata("", "site", json!({})),
            metadata("", "kube-root-ca.crt", json!({})),
        ]),
        "GET /api/v1/namespaces/shop/secrets" => fake::refusal(403),
        "GET /api/v1/namespaces/shop/pods" => fake::refusal(500),
        "GET /api/v1/namespaces/shop/services" => {
            let services: Vec<Value> = (0..MAX_CASCADED)
                .map(|number| metadata("", &format!("s{number}"), json!({})))
                .collect();
            list(&services)
        }
        "GET /apis/example.com/v1/widgets" => list(&[metadata("", "one", json!({}))]),
        other => panic!("nobody asks for {other}"),
    });
    let mut catalog = Catalog::default();
    for resource in [
        Resource::namespaced("", "v1", "configmaps", "ConfigMap"),
        Resource::namespaced("", "v1", "secrets", "Secret"),
        Resource::namespaced("", "v1", "pods", "Pod"),
        Resource::namespaced("", "v1", "services", "Service"),
        Resource::namespaced("", "v1", "events", "Event"),
        Resource::cluster("", "v1", "namespaces", "Namespace"),
        Resource::cluster("example.com", "v1", "widgets", "Widget"),
    ] {
        catalog.insert_served(Served {
            resource,
            verbs: BTreeSet::from(["list".to_owned()]),
            short_names: BTreeSet::new(),
        });
    }
    let found = async |version: &str, kind: &str, name: &str| {
        let live = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        let mut cascade = cascade::read(&client, &catalog, &live).await?;
        cascade.unlisted.sort();
        let objects = cascade.objects.len();
        let first = cascade.objects[0]["metadata"]["name"].clone();
        Some((first, objects, cascade.has_more, cascade.unlisted))
    };
    let unlisted = ["Pod", "Secret"].map(str::to_owned).to_vec();
    let expected = (json!("site"), MAX_CASCADED, true, unlisted);
    assert_eq!(found("v1", "Namespace", "shop").await, Some(expected));
    let kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let expected = (json!("one"), 1, false, Vec::new());
    assert_eq!(
        found(kind.0, kind.1, "widgets.example.com").await,
        Some(expected)
    );
    assert_eq!(found("v1", "ConfigMap", "site").await, None);
}

/// Ends when an object of a kind is as it should be.
async fn seen(client: &Client, resource: Resource, is: impl Fn(&Value) -> bool) {
    let feed = Feed::new(client.clone(), Query::all(resource), Pace::system());
    let mut events = std::pin::pin!(feed.events());
    loop {
        let event = events.next().await.expect("the feed goes on");
        if let Event::Applied(item) = event
            && item.parse().is_ok_and(|object| is(&object))
        {
            return;
        }
    }
}

/// Makes a graph at the hub, and an instance of it.
async fn make_shop(client: &Client) {
    const GRAPHS: &str = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";
    let template = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.name}"},
    });
    let graph = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {"kind": "Shop", "apiVersion": "v1", "spec": {"name": "string"}},
            "resources": [{"id": "one", "template": template}],
        },
    });
    let made = request::create::<Value>(client, GRAPHS, &graph).await;
    made.expect("made");
    let (group, version) = ("fleet.deltaplane.io", "v1alpha1");
    let kinds = Resource::cluster(group, version, "syncedkinds", "SyncedKind");
    seen(client, kinds, |kind| kind["spec"]["kind"] == "Shop").await;
    let shop = json!({
        "apiVersion": "kro.run/v1", "kind": "Shop",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {"name": "a"},
    });
    let path = "/apis/kro.run/v1/namespaces/default/shops";
    let made = request::create::<Value>(client, path, &shop).await;
    made.expect("made");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_of_a_deleted_graph_names_the_instances_that_stay() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let directory = tempfile::tempdir().expect("a directory");
    let config = PlaneConfig::new(directory.path().to_owned(), ([127, 0, 0, 1], 0).into());
    let hub = Hub::start(HubConfig::new(config)).await.expect("started");
    let client = hub.client(Identity::authenticated("ann", &[MASTERS]));
    let fleet = hub.fleet().clone();
    let (trigger, stop) = Trigger::new();
    let planned = async {
        make_shop(&client).await;
        fleet.caught_up().await;
        let words = ["resourcegraphdefinition/shop".to_owned()];
        let deletions = change::deletions(&client, &words, "default").await;
        let planned = plan(&client, &[], &deletions.expect("it is there")).await;
        let text = shown::text(&planned.expect("a plan"));
        let expected = "warning: ResourceGraphDefinition.kro.run shop: the graph is in use: 1 instances of Shop stay";
        assert!(text.contains(expected), "{text}");
        trigger.stop();
    };
    let (ended, ()) = tokio::join!(hub.run(stop), planned);
    ended.expect("a clean end");
}
