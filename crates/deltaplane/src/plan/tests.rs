//! Plans as data.

use std::collections::BTreeMap;

use deltaplane_api::identity::{Identity, MASTERS};
use deltaplane_client::feed::{Event, Feed, Query};
use deltaplane_client::{Pace, Resource, request};
use deltaplane_hub::{Hub, HubConfig};
use deltaplane_plane::PlaneConfig;
use deltaplane_runtime::Trigger;
use futures::StreamExt;
use kube::Client;
use serde_json::{Value, json};

use super::change::{self, Changed};
use super::fleet::Fleet;
use super::{plan, shown};

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
